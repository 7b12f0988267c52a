//! Walking over the lines of a piece.
//!
//! A *line* is the elements along one dim with all other indices fixed. Each line is read into a buffer
//! and worked on there; one whose elements lie apart is gathered on the way, together with those beside
//! it.

use super::scratch::Buffer;
use super::walk::{Dense, Frame};
use super::wide::{Sink, Source, Wide};
use super::{Input, Output};
use shardweave_compiler::op::{SpaceId, is_number_dim, is_part_dim};

/// The dim of that name.
pub(super) fn along(frame: &Frame<'_>, dim: &str) -> SpaceId {
    frame.space.dim(dim).expect("an operation's dim is in its space")
}

/// The dim of a summary that counts the parts of a dim.
pub(super) fn parts_of(frame: &Frame<'_>, dim: &str) -> SpaceId {
    frame.space.dims.iter().find(|(_, row)| is_part_dim(&row.name, dim)).expect("a summary counts parts").0
}

/// The dim of a summary that counts its numbers.
pub(super) fn numbers_of(frame: &Frame<'_>, dim: &str) -> SpaceId {
    frame.space.dims.iter().find(|(_, row)| is_number_dim(&row.name, dim)).expect("a summary has numbers").0
}

/// The elements of an operand.
pub(super) fn piece<'a, T: Wide>(x: &Input<'a>) -> Source<'a, T> {
    match *x {
        Input::Piece { bytes, dtype } => Source::new(bytes, dtype),
        Input::Number(..) => unreachable!("the compiler lets no number into an operation on lines"),
    }
}

/// A scale or an offset: its elements along the dim of the lines, the same for many lines.
pub(super) struct Beside<'a, T: Wide> {
    source: Source<'a, T>,
    step: usize,
    /// What was read last, and where it starts.
    line: Buffer<'a, T>,
    start: Option<usize>,
}

impl<'a, T: Wide> Beside<'a, T> {
    /// That of an operand, if there is one of that number.
    pub fn operand(
        frame: &Frame<'a>,
        dim: &str,
        operands: &[Input<'a>],
        index: usize,
    ) -> Option<Beside<'a, T>> {
        let (x, dim) = (operands.get(index)?, along(frame, dim));
        let line = frame.buffer(frame.extent(dim));
        Some(Beside { source: piece(x), step: frame.operands[index].stride(dim), line, start: None })
    }

    /// The elements beside a line that start at `start`.
    pub fn at(&mut self, start: usize) -> &[T] {
        if self.start != Some(start) {
            self.source.gather(start, self.step, &mut self.line);
            self.start = Some(start);
        }
        &self.line
    }
}

/// Works on every line of the first operand along `dim`; the result has the same dims. `work` also gets
/// where in each of some arrays `beside` that is which belongs to the line.
pub(super) fn map_lines<T: Wide>(
    frame: &Frame<'_>,
    dim: &str,
    x: &Input<'_>,
    beside: [&Dense; 3],
    out: Output<'_>,
    mut work: impl FnMut(&mut [T], [usize; 3]),
) {
    if frame.result.len() == 0 {
        return;
    }
    let (source, mut sink) = (piece::<T>(x), Sink::<T>::new(out.bytes, out.dtype));
    let [a, b, c] = beside;
    let arrays = [&frame.operands[0], &frame.result, a, b, c];
    for_each_block(frame, along(frame, dim), &source, arrays, frame.result.ids(), |lines, block| {
        for (n, line) in block.chunks_exact_mut(lines.extent).enumerate() {
            work(line, [2, 3, 4].map(|array| lines.start[array] + n * lines.apart[array]));
        }
        write_lines(&mut sink, lines.start[1], [lines.step[1], lines.apart[1]], block, lines.count);
    });
}

/// Looks at every line of the first operand along `dim`, an empty one too; `look` also gets where the line's
/// elements start in an array `beside` that does not have the dim.
pub(super) fn for_each_line<T: Wide>(
    frame: &Frame<'_>,
    dim: &str,
    x: &Input<'_>,
    beside: &Dense,
    mut look: impl FnMut(&[T], usize),
) {
    let source = piece::<T>(x);
    let x = &frame.operands[0];
    for_each_block(frame, along(frame, dim), &source, [x, beside], x.ids(), |lines, block| {
        for n in 0..lines.count {
            look(&block[n * lines.extent..][..lines.extent], lines.start[1] + n * lines.apart[1]);
        }
    });
}

/// So many lines that lie side by side are read and written together: a cache line of `f32`.
const BESIDE: usize = 16;

/// Some lines side by side, and where they are in several arrays.
struct Lines<const N: usize> {
    count: usize,
    /// The elements of a line.
    extent: usize,
    /// Where the first line starts.
    start: [usize; N],
    /// From one element of a line to the next.
    step: [usize; N],
    /// From one line to the next.
    apart: [usize; N],
}

/// Reads all lines of the first array, block by block, in the order of some dims.
fn for_each_block<T: Wide, const N: usize>(
    frame: &Frame<'_>,
    dim: SpaceId,
    source: &Source<'_, T>,
    arrays: [&Dense; N],
    order: impl Iterator<Item = SpaceId>,
    mut work: impl FnMut(Lines<N>, &mut [T]),
) {
    let extent = frame.extent(dim);
    let step = arrays.map(|array| array.stride(dim));
    let mut others = frame.nest(order.filter(|&id| id != dim), arrays);
    let beside = others.loops().iter().position(|l| l.strides[0] == 1);
    let beside = others.take(beside);
    let mut block = frame.buffer(extent * BESIDE.min(beside.extent));
    for at in others.offsets() {
        for first in (0..beside.extent).step_by(BESIDE) {
            let count = BESIDE.min(beside.extent - first);
            let mut start = at;
            for (start, stride) in start.iter_mut().zip(beside.strides) {
                *start += first * stride;
            }
            let block = &mut block[..extent * count];
            read_lines(source, start[0], step[0], block, count);
            work(Lines { count, extent, start, step, apart: beside.strides }, block);
        }
    }
}

/// Reads `count` lines, one after the other into `block`; their elements lie side by side.
fn read_lines<T: Wide>(source: &Source<'_, T>, start: usize, step: usize, block: &mut [T], count: usize) {
    if count == 1 {
        return source.gather(start, step, block);
    }
    let (extent, mut row) = (block.len() / count, [T::zeroed(); BESIDE]);
    for i in 0..extent {
        source.gather(start + i * step, 1, &mut row[..count]);
        for (line, x) in row[..count].iter().enumerate() {
            block[line * extent + i] = *x;
        }
    }
}

/// Writes `count` lines; `steps` go along a line and from line to line.
fn write_lines<T: Wide>(sink: &mut Sink<'_, T>, start: usize, steps: [usize; 2], block: &[T], count: usize) {
    if count == 1 {
        return sink.scatter(start, steps[0], block);
    }
    let (extent, mut row) = (block.len() / count, [T::zeroed(); BESIDE]);
    for i in 0..extent {
        for (line, x) in row[..count].iter_mut().enumerate() {
            *x = block[line * extent + i];
        }
        sink.scatter(start + i * steps[0], steps[1], &row[..count]);
    }
}
