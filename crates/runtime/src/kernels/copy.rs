//! Operations that only move elements: views, `slice`, `pad`, `concat`. Bits are kept.

use super::tile::{Feed, tiles};
use super::walk::{Dense, Frame, Loop, Nest};
use super::wide::{Sink, with_wide};
use super::{Input, Output};
use shardweave_compiler::id::Id;
use shardweave_compiler::op::SpaceId;

/// `rearrange`, `rename`, `broadcast`, `reshard`: the operand in the order of the result.
pub(super) fn copy(frame: &Frame<'_>, x: &Input<'_>, out: Output<'_>) {
    match *x {
        Input::Piece { bytes, dtype } if dtype == out.dtype => {
            let nest = frame.nest(frame.result.ids(), [&frame.result, &frame.operands[0]]);
            copy_bytes(nest, [0, 0], out.bytes, bytes, dtype.size());
        }
        // Stored in another type, because one of the two is partial.
        _ => with_wide!(out.dtype, T => {
            let mut x = Feed::<T>::new(frame, 0, x);
            let mut sink = Sink::<T>::new(out.bytes, out.dtype);
            for tile in tiles(frame.result.len()) {
                sink.scatter(tile.start, 1, x.tile(&tile));
            }
        }),
    }
}

/// `slice(x, d -> t, start, end)`: what is held of the window, out of what is held of the dim.
pub(super) fn slice(frame: &Frame<'_>, start: u64, x: &Input<'_>, out: Output<'_>) {
    let along = Along::new(frame, 0);
    let before = frame.held[along.operand.index()].below(start) as usize;
    let start = before * frame.operands[0].stride(along.operand);
    along.copy(frame, 0, frame.extent(along.result), [0, start], x, out);
}

/// `pad(x, d -> t, before, after)`: fills 0. The operand is a window of the result.
pub(super) fn pad(frame: &Frame<'_>, before: u64, x: &Input<'_>, out: Output<'_>) {
    let along = Along::new(frame, 0);
    out.bytes.fill(0);
    let before = frame.held[along.result.index()].below(before) as usize;
    let start = before * frame.result.stride(along.result);
    along.copy(frame, 0, frame.extent(along.operand), [start, 0], x, out);
}

/// `concat(t, a, b, ...)`: the operands are windows of the result, one after the other, so their pieces
/// are too.
pub(super) fn concat(frame: &Frame<'_>, operands: &[Input<'_>], out: Output<'_>) {
    let mut before = 0;
    for (index, x) in operands.iter().enumerate() {
        let along = Along::new(frame, index);
        let start = before * frame.result.stride(along.result);
        let out = Output { bytes: &mut *out.bytes, dtype: out.dtype };
        along.copy(frame, index, frame.extent(along.operand), [start, 0], x, out);
        before += frame.extent(along.operand);
    }
}

/// The dim that an operation cuts or joins, as the operand and as the result have it.
struct Along {
    operand: SpaceId,
    result: SpaceId,
}

impl Along {
    fn new(frame: &Frame<'_>, operand: usize) -> Along {
        let [x, y] = [&frame.operands[operand], &frame.result];
        let only = |of: &Dense, not: &Dense| of.ids().find(|&dim| !not.has(dim));
        Along {
            operand: only(x, y).expect("the operand has a dim of its own"),
            result: only(y, x).expect("the result has a dim of its own"),
        }
    }

    /// Copies `extent` indices along the dim, starting at the given offsets of result and operand.
    fn copy(
        &self,
        frame: &Frame<'_>,
        operand: usize,
        extent: usize,
        start: [usize; 2],
        x: &Input<'_>,
        out: Output<'_>,
    ) {
        let piece = &frame.operands[operand];
        let nest = Nest::new(frame.result.dims().iter().map(|row| {
            let (extent, x_dim) =
                if row.dim == self.result { (extent, self.operand) } else { (row.extent, row.dim) };
            Loop { extent, strides: [row.stride, piece.stride(x_dim)] }
        }));
        let Input::Piece { bytes, dtype } = *x else {
            unreachable!("the compiler lets no number into a view");
        };
        if dtype == out.dtype {
            return copy_bytes(nest, start, out.bytes, bytes, dtype.size());
        }
        // Stored in another type, because one of the two is partial.
        with_wide!(dtype, T => {
            let mut sink = Sink::<T>::new(out.bytes, out.dtype);
            let source = super::wide::Source::<T>::new(bytes, dtype);
            for [to, from] in nest.offsets() {
                sink.scatter(start[0] + to, 1, &[source.at(start[1] + from)]);
            }
        });
    }
}

/// Copies elements of `size` bytes; the nest's arrays are target and source.
fn copy_bytes(nest: Nest<2>, start: [usize; 2], to: &mut [u8], from: &[u8], size: u64) {
    match size {
        1 => copy_elements::<u8>(nest, start, to, from),
        2 => copy_elements::<u16>(nest, start, bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from)),
        4 => copy_elements::<u32>(nest, start, bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from)),
        _ => copy_elements::<u64>(nest, start, bytemuck::cast_slice_mut(to), bytemuck::cast_slice(from)),
    }
}

/// Copies elements; the nest's arrays are target and source.
pub(super) fn copy_elements<T: Copy>(mut nest: Nest<2>, start: [usize; 2], to: &mut [T], from: &[T]) {
    if nest.turns() == 0 {
        return;
    }
    let inner = nest.take_innermost();
    // A transpose reads along one loop and writes along another: both in blocks, so that the lines of
    // either stay in the cache until they are used up.
    let reads_along = nest.loops().iter().position(|l| l.strides[1] == 1);
    let other = nest.take(reads_along.filter(|_| inner.strides[1] > 1));
    for [at, x] in nest.offsets() {
        copy_plane([other, inner], [start[0] + at, start[1] + x], to, from);
    }
}

/// The edge of a block of a transpose: 16 elements of up to 8 bytes are one or two cache lines.
const BLOCK: usize = 16;

/// Two loops, the second the target's innermost.
fn copy_plane<T: Copy>([outer, inner]: [Loop<2>; 2], start: [usize; 2], to: &mut [T], from: &[T]) {
    if outer.extent == 1 {
        return copy_line(inner, start, to, from);
    }
    for i in (0..inner.extent).step_by(BLOCK) {
        let inner_block = Loop { extent: BLOCK.min(inner.extent - i), ..inner };
        for j in (0..outer.extent).step_by(BLOCK) {
            for o in j..outer.extent.min(j + BLOCK) {
                let at = |n: usize| start[n] + i * inner.strides[n] + o * outer.strides[n];
                copy_line(inner_block, [at(0), at(1)], to, from);
            }
        }
    }
}

/// One loop.
fn copy_line<T: Copy>(l: Loop<2>, [at, x]: [usize; 2], to: &mut [T], from: &[T]) {
    match l.strides {
        [1, 1] => to[at..at + l.extent].copy_from_slice(&from[x..x + l.extent]),
        [1, 0] => to[at..at + l.extent].fill(from[x]),
        [1, stride] => {
            let source = from[x..].iter().step_by(stride);
            to[at..at + l.extent].iter_mut().zip(source).for_each(|(y, &x)| *y = x);
        }
        [to_stride, from_stride] => {
            for i in 0..l.extent {
                to[at + i * to_stride] = from[x + i * from_stride];
            }
        }
    }
}
