//! Operands in the order of the result, tile by tile.
//!
//! An elementwise kernel walks over its result from start to end in tiles that stay in the first cache.
//! A [`Feed`] gives the elements of one operand that belong to each tile: a slice of the operand itself
//! where it lies in the same order and type, else gathered, widened or repeated into a small buffer.

use super::Input;
use super::scratch::Buffer;
use super::walk::{Dense, Few, Frame, Nest};
use super::wide::{Source, Wide};
use smallvec::SmallVec;
use std::ops::Range;

/// Elements of one tile.
pub(super) const TILE: usize = 1024;

/// The tiles of a result of `len` elements.
pub(super) fn tiles(len: usize) -> impl Iterator<Item = Range<usize>> {
    (0..len).step_by(TILE).map(move |start| start..len.min(start + TILE))
}

/// One operand in the order of the result. Tiles are asked for in order, each once.
pub(super) struct Feed<'a, T: bytemuck::Pod> {
    way: Way<'a, T>,
    buffer: Buffer<'a, T>,
}

enum Way<'a, T> {
    /// In the order of the result.
    Straight(Source<'a, T>),
    /// The same element everywhere; it is in the buffer.
    Splat,
    /// In another order, or repeated.
    Strided(Source<'a, T>, Cursor),
}

impl<'a, T: Wide> Feed<'a, T> {
    /// Operand `index` of an operation, in the order of its result.
    pub fn new(frame: &Frame<'a>, index: usize, input: &Input<'a>) -> Feed<'a, T> {
        match *input {
            Input::Number(number, dtype) => Feed::splat(frame, T::from_number(number, dtype)),
            Input::Piece { bytes, dtype } => {
                Feed::ordered(frame, &frame.operands[index], &frame.result, Source::new(bytes, dtype))
            }
        }
    }

    /// A piece in the order of another piece.
    pub fn ordered(frame: &Frame<'a>, piece: &Dense, order: &Dense, source: Source<'a, T>) -> Feed<'a, T> {
        if order.len() == 0 {
            return Feed { way: Way::Straight(source), buffer: frame.buffer(0) };
        }
        let nest = frame.nest(order.ids(), [piece]);
        match nest.loops() {
            [] => Feed::splat(frame, source.at(0)),
            [one] if one.strides == [0] => Feed::splat(frame, source.at(0)),
            [one] if one.strides == [1] => Feed { way: Way::Straight(source), buffer: frame.buffer(TILE) },
            _ => Feed { way: Way::Strided(source, Cursor::new(nest)), buffer: frame.buffer(TILE) },
        }
    }

    fn splat(frame: &Frame<'a>, value: T) -> Feed<'a, T> {
        let mut buffer = frame.buffer(TILE);
        buffer.fill(value);
        Feed { way: Way::Splat, buffer }
    }

    /// The elements of a tile.
    pub fn tile(&mut self, tile: &Range<usize>) -> &[T] {
        match &mut self.way {
            Way::Straight(source) => source.run(tile.start, tile.len(), &mut self.buffer),
            Way::Splat => &self.buffer[..tile.len()],
            Way::Strided(source, cursor) => {
                let out = &mut self.buffer[..tile.len()];
                cursor.gather(source, out);
                out
            }
        }
    }
}

/// Where a strided walk stands.
struct Cursor {
    nest: Nest<1>,
    turn: Few<usize>,
    /// The offset of the innermost loop's first turn.
    base: usize,
}

impl Cursor {
    fn new(nest: Nest<1>) -> Cursor {
        Cursor { turn: SmallVec::from_elem(0, nest.loops().len()), nest, base: 0 }
    }

    /// The next `out.len()` elements of the walk.
    fn gather<T: Wide>(&mut self, source: &Source<'_, T>, out: &mut [T]) {
        let last = self.turn.len() - 1;
        let inner = self.nest.loops()[last];
        let mut done = 0;
        while done < out.len() {
            let turn = self.turn[last];
            let len = (inner.extent - turn).min(out.len() - done);
            source.gather(self.base + turn * inner.strides[0], inner.strides[0], &mut out[done..done + len]);
            done += len;
            self.turn[last] += len;
            if self.turn[last] == inner.extent {
                self.turn[last] = 0;
                self.advance(last);
            }
        }
    }

    /// One turn of the loops outside of `inner`.
    fn advance(&mut self, inner: usize) {
        for (turn, l) in self.turn[..inner].iter_mut().zip(self.nest.loops()).rev() {
            *turn += 1;
            if *turn < l.extent {
                self.base += l.strides[0];
                return;
            }
            *turn = 0;
            self.base -= l.strides[0] * (l.extent - 1);
        }
    }
}
