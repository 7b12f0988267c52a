//! How kernels walk over pieces: strides of dense arrays, and loops over several arrays at once.
//!
//! ```text
//! result [b, n, s, h]   strides  n*s*h  s*h  h    1
//! operand [b, s, e]     e = n h: s*n*h  n*h  h    1
//!
//! Nest over b n s h:   loop b (strides n*s*h, s*n*h)   loop n (s*h, h)   loop s (h, n*h)   loop h (1, 1)
//! ```
//!
//! Neighbouring loops that are one loop in every array are folded into it, so most walks come down to
//! one or two loops.

use super::scratch::{Buffer, Scratch};
use super::{Input, Output};
use bytemuck::Pod;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::{Op, Space, SpaceId};
use smallvec::SmallVec;
use std::ops::Deref;

/// A list of dims or loops: in place, unless there are more than most programs have.
pub(super) type Few<T> = SmallVec<[T; 6]>;

/// What one device works on of an operation's iteration space, and how its pieces lie. Made once.
#[derive(Debug)]
pub struct Pieces {
    /// The indices held of each dim.
    held: Box<[IndexSet]>,
    /// How many those are.
    extents: Box<[usize]>,
    /// The operands' pieces.
    pub(super) operands: Box<[Dense]>,
    /// The result's piece.
    pub(super) result: Dense,
}

impl Pieces {
    /// The pieces of a device that holds these indices, one set for each dim of the space.
    ///
    /// # Panics
    /// If there are more or fewer sets than dims.
    pub fn new(space: &Space, held: impl Into<Box<[IndexSet]>>) -> Pieces {
        let held = held.into();
        assert_eq!(space.dims.len(), held.len(), "every dim of the space says what is held of it");
        let extents: Box<[usize]> = held.iter().map(|set| set.count() as usize).collect();
        let operands = space.operands.iter().map(|dims| Dense::of(dims, &extents)).collect();
        let result = Dense::of(&space.result, &extents);
        Pieces { held, extents, operands, result }
    }

    /// How many indices are held of each dim.
    pub fn extents(&self) -> impl Iterator<Item = u64> {
        self.extents.iter().map(|&extent| extent as u64)
    }
}

/// An operation at work: its space, the device's pieces of it, and memory to work in.
#[derive(Clone, Copy)]
pub(super) struct Frame<'a> {
    /// The space with the global sizes.
    pub space: &'a Space,
    /// The indices held of each dim.
    pub held: &'a [IndexSet],
    pieces: &'a Pieces,
    scratch: &'a Scratch,
}

impl Deref for Frame<'_> {
    type Target = Pieces;
    fn deref(&self) -> &Pieces {
        self.pieces
    }
}

impl<'a> Frame<'a> {
    pub fn new(space: &'a Space, pieces: &'a Pieces, scratch: &'a Scratch) -> Frame<'a> {
        Frame { space, held: &pieces.held, pieces, scratch }
    }

    /// Memory for so many elements; what they are is arbitrary.
    pub fn buffer<T: Pod>(&self, len: usize) -> Buffer<'a, T> {
        self.scratch.buffer(len)
    }

    /// The extent of a dim.
    pub fn extent(&self, dim: SpaceId) -> usize {
        self.extents[dim.index()]
    }

    /// A dense array of these dims, outermost first.
    pub fn dense(&self, dims: impl IntoIterator<Item = SpaceId>) -> Dense {
        Dense::new(dims.into_iter().map(|dim| (dim, self.extent(dim))).collect())
    }

    /// Loops over `dims` in several pieces at once.
    pub fn nest<const N: usize>(
        &self,
        dims: impl IntoIterator<Item = SpaceId>,
        pieces: [&Dense; N],
    ) -> Nest<N> {
        let one = |dim| Loop { extent: self.extent(dim), strides: pieces.map(|piece| piece.stride(dim)) };
        Nest::new(dims.into_iter().map(one))
    }

    /// # Panics
    /// If a piece is not as long as the space says.
    pub fn check_lengths(&self, op: &Op, operands: &[Input<'_>], out: &Output<'_>) {
        assert_eq!(operands.len(), self.operands.len(), "{op:?} has the operands its space describes");
        for (index, (operand, dense)) in operands.iter().zip(&self.operands).enumerate() {
            if let Input::Piece { bytes, dtype } = operand {
                let needed = dense.len() * dtype.size() as usize;
                assert_eq!(bytes.len(), needed, "operand {index} of {op:?} is as long as its piece");
            }
        }
        let needed = self.result.len() * out.dtype.size() as usize;
        assert_eq!(out.bytes.len(), needed, "the result of {op:?} is as long as its piece");
    }
}

/// One dim of a dense array.
#[derive(Clone, Copy, Debug)]
pub(super) struct DenseDim {
    /// Which dim.
    pub dim: SpaceId,
    /// How long.
    pub extent: usize,
    /// How many elements from one index to the next.
    pub stride: usize,
}

/// The dims of a dense row-major array, outermost first.
#[derive(Clone, Debug)]
pub(super) struct Dense {
    dims: Few<DenseDim>,
    len: usize,
}

impl Dense {
    fn of(dims: &[Vec<SpaceId>], extents: &[usize]) -> Dense {
        Dense::new(dims.iter().flatten().map(|&dim| (dim, extents[dim.index()])).collect())
    }

    fn new(dims: Few<(SpaceId, usize)>) -> Dense {
        let mut stride = 1;
        let mut rows: Few<DenseDim> = Few::new();
        for &(dim, extent) in dims.iter().rev() {
            rows.push(DenseDim { dim, extent, stride });
            stride *= extent;
        }
        rows.reverse();
        Dense { dims: rows, len: stride }
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// The dims, outermost first.
    pub fn dims(&self) -> &[DenseDim] {
        &self.dims
    }

    /// The names of the dims, outermost first.
    pub fn ids(&self) -> impl Iterator<Item = SpaceId> + '_ {
        self.dims.iter().map(|row| row.dim)
    }

    /// Whether the array has the dim.
    pub fn has(&self, dim: SpaceId) -> bool {
        self.dims.iter().any(|row| row.dim == dim)
    }

    /// The distance from one index of the dim to the next; 0 if the array does not have the dim.
    pub fn stride(&self, dim: SpaceId) -> usize {
        self.dims.iter().find(|row| row.dim == dim).map_or(0, |row| row.stride)
    }
}

/// One loop over `N` arrays.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Loop<const N: usize> {
    /// How many turns.
    pub extent: usize,
    /// How far each array moves in one turn.
    pub strides: [usize; N],
}

/// Loops inside each other, outermost first, folded: none of extent 1, no two that are one.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Nest<const N: usize> {
    loops: Few<Loop<N>>,
}

impl<const N: usize> Nest<N> {
    /// Folds loops, outermost first.
    pub fn new(loops: impl IntoIterator<Item = Loop<N>>) -> Nest<N> {
        let mut folded: Few<Loop<N>> = Few::new();
        for inner in loops {
            if inner.extent == 1 {
                continue;
            }
            match folded.last_mut() {
                Some(outer) if (0..N).all(|i| outer.strides[i] == inner.strides[i] * inner.extent) => {
                    *outer = Loop { extent: outer.extent * inner.extent, strides: inner.strides };
                }
                _ => folded.push(inner),
            }
        }
        Nest { loops: folded }
    }

    /// The loops, outermost first.
    pub fn loops(&self) -> &[Loop<N>] {
        &self.loops
    }

    /// Takes a loop out (one turn that moves nothing if there is none of that number).
    pub fn take(&mut self, index: Option<usize>) -> Loop<N> {
        match index {
            Some(index) => self.loops.remove(index),
            None => Loop { extent: 1, strides: [0; N] },
        }
    }

    /// Takes the innermost loop out.
    pub fn take_innermost(&mut self) -> Loop<N> {
        self.take(self.loops.len().checked_sub(1))
    }

    /// How many turns all loops have together.
    pub fn turns(&self) -> usize {
        self.loops.iter().map(|l| l.extent).product()
    }

    /// Where each array is, turn by turn.
    pub fn offsets(&self) -> Offsets<'_, N> {
        let turns_left = self.turns();
        Offsets { loops: &self.loops, turn: SmallVec::from_elem(0, self.loops.len()), at: [0; N], turns_left }
    }
}

/// Walks a [`Nest`] turn by turn.
pub(super) struct Offsets<'a, const N: usize> {
    loops: &'a [Loop<N>],
    turn: Few<usize>,
    at: [usize; N],
    turns_left: usize,
}

impl<const N: usize> Iterator for Offsets<'_, N> {
    type Item = [usize; N];

    fn next(&mut self) -> Option<[usize; N]> {
        self.turns_left = self.turns_left.checked_sub(1)?;
        let here = self.at;
        for (l, turn) in self.loops.iter().zip(&mut self.turn).rev() {
            *turn += 1;
            if *turn < l.extent {
                (0..N).for_each(|i| self.at[i] += l.strides[i]);
                break;
            }
            *turn = 0;
            (0..N).for_each(|i| self.at[i] -= l.strides[i] * (l.extent - 1));
        }
        Some(here)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn neighbours_fold_where_they_are_one_loop_in_every_array() {
        let nest = Nest::new([
            Loop { extent: 2, strides: [12, 12] },
            Loop { extent: 1, strides: [99, 7] },
            Loop { extent: 3, strides: [4, 4] },
            Loop { extent: 4, strides: [1, 0] },
        ]);
        assert_eq!(nest.loops(), [Loop { extent: 6, strides: [4, 4] }, Loop { extent: 4, strides: [1, 0] }]);
    }

    #[test]
    fn offsets_come_back_to_the_start_of_each_inner_loop() {
        let nest = Nest::new([Loop { extent: 2, strides: [1, 10] }, Loop { extent: 3, strides: [2, 0] }]);
        let offsets: Vec<_> = nest.offsets().collect();
        assert_eq!(offsets, [[0, 0], [2, 0], [4, 0], [1, 10], [3, 10], [5, 10]]);
    }

    #[test]
    fn no_loop_is_one_turn_and_an_empty_loop_is_none() {
        assert_eq!(Nest::<1>::new([]).offsets().count(), 1);
        let empty = Nest::new([Loop { extent: 3, strides: [1] }, Loop { extent: 0, strides: [1] }]);
        assert_eq!(empty.offsets().count(), 0);
    }
}
