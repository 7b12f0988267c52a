//! Windows: dims that are a part of another dim. What `slice` takes, where `pad` puts its operand, and
//! where `concat` puts each of its operands.
//!
//! A window has no cuts of its own: a device holds of it what it holds of the dim that it is a part of.
//!
//! ```text
//!   t = slice(d, 1, 8), d = 8, tp = 4
//!
//!   d/tp              0 1 | 2 3 | 4 5 | 6 7
//!   t/tp(1, 2, 2, 2)    0 | 1 2 | 3 4 | 5 6        on the devices where it was: nothing moves
//! ```
//!
//! As with merged dims, cuts are guessed by rules and then compared as sets of indices, so what is
//! returned is exact or nothing.

use super::{DimUse, Space, SpaceId};
use crate::layout::{CeilPieces, Cuts, DimCuts, Factor, IndexSet};
use crate::mesh::{AxisId, Mesh};
use std::ops::Range;
use std::sync::Arc;

/// Which part of another dim a dim is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Window {
    /// The dim that it is a part of, which is no window itself.
    pub of: SpaceId,
    /// Its first index.
    pub start: u64,
}

impl Space {
    /// The dim that a window is a part of, and which of its indices the window has.
    pub fn window(&self, dim: SpaceId) -> Option<(SpaceId, Range<u64>)> {
        match self.dims[dim].usage {
            DimUse::Window(Window { of, start }) => {
                Some((of, start..start.saturating_add(self.dims[dim].size)))
            }
            _ => None,
        }
    }

    /// The windows of a dim.
    fn windows_of(&self, dim: SpaceId) -> impl Iterator<Item = Range<u64>> + '_ {
        let windows = self.dims.keys().filter_map(|window| self.window(window));
        windows.filter(move |(of, _)| *of == dim).map(|(_, range)| range)
    }

    /// Whether some dim is a window of this one.
    pub fn has_windows(&self, dim: SpaceId) -> bool {
        self.windows_of(dim).next().is_some()
    }

    /// Cuts of a dim as far as every window of it can follow: what is cut finer is left out.
    pub(super) fn followed_by_windows(&self, dim: SpaceId, cuts: &Cuts, mesh: &Arc<Mesh>) -> Cuts {
        let size = self.dims[dim].size;
        let mut cuts: Cuts = cuts.iter().map(|factor| factor.stored(size)).collect();
        while !self.windows_of(dim).all(|range| window_cuts(&cuts, mesh, size, &range).is_some()) {
            let finest = cuts.iter().rposition(|factor| factor.axis().is_some());
            cuts.truncate(finest.unwrap_or(0));
        }
        cuts
    }
}

/// The cuts of the window `range` of a dim with these cuts; `None` if they cannot be written so.
pub(super) fn window_cuts(cuts: &[Factor], mesh: &Arc<Mesh>, size: u64, range: &Range<u64>) -> Option<Cuts> {
    if *range == (0..size) {
        return Some(cuts.to_vec());
    }
    // Blocks that nothing cuts are stored one after the other anyway.
    let finest = cuts.iter().rposition(|factor| factor.axis().is_some());
    let cuts = &cuts[..finest.map_or(0, |finest| finest + 1)];
    let guess = guess(cuts, mesh, size, range)?;
    // The guess has the same axes in the same order.
    let held = DimCuts::of(cuts, mesh, size, &[]);
    let guessed = DimCuts::of(&guess, mesh, range.end - range.start, &[]);
    let mut pieces = held.pieces().iter().zip(guessed.pieces());
    pieces.all(|(held, guessed)| held.within(range) == *guessed).then_some(guess)
}

fn guess(cuts: &[Factor], mesh: &Arc<Mesh>, size: u64, range: &Range<u64>) -> Option<Cuts> {
    let Some((first, rest)) = cuts.split_first() else { return Some(Cuts::new()) };
    let clip = |(start, end): (u64, u64)| end.min(range.end).saturating_sub(start.max(range.start));
    match first {
        Factor::Axis(axis) | Factor::Sizes(axis, _) => {
            let mut start = 0;
            let clipped = piece_sizes(first, *axis, mesh, size).into_iter().map(|piece| {
                let bounds = (start, start + piece);
                start += piece;
                clip(bounds)
            });
            let clipped: Vec<u64> = clipped.collect();
            // Given pieces cut every block into the same sizes.
            let given = rest.iter().any(|factor| matches!(factor, Factor::Sizes(..)));
            if given && clipped.iter().any(|&n| n != clipped[0]) {
                return None;
            }
            Some(std::iter::once(Factor::pieces(*axis, clipped)).chain(rest.iter().cloned()).collect())
        }
        Factor::Local(_) | Factor::Stream(_) => {
            let Factor::Local(count) = first.stored(size) else { return None };
            let blocks = CeilPieces::new(size, count);
            let block = blocks.largest().max(1);
            let (start, end) = blocks.bounds(range.start / block);
            if range.end <= end {
                // One block, or a part of it.
                return window_cuts(rest, mesh, end - start, &(range.start - start..range.end - start));
            }
            let whole = range.start == start && (range.end.is_multiple_of(block) || range.end == size);
            let count = (range.end - range.start).div_ceil(block);
            whole.then(|| std::iter::once(Factor::Local(count)).chain(rest.iter().cloned()).collect())
        }
        Factor::Step(..) | Factor::Peer(_) => None,
    }
}

/// The pieces that the first factor of a dim makes.
fn piece_sizes(factor: &Factor, axis: AxisId, mesh: &Mesh, size: u64) -> Vec<u64> {
    match factor {
        Factor::Sizes(_, given) => given.to_vec(),
        _ => CeilPieces::new(size, mesh.size(axis)).sizes().collect(),
    }
}

/// A window's cuts are carried over to the dim around it if no piece gets larger than so many percent
/// of an even share: else one device would hold, and later work on, too much.
const LARGEST_PERCENT: u64 = 150;

/// A value of more blocks than this, on all devices together, is not put together of windows.
const MOST_WINDOW_BLOCKS: u64 = 1 << 16;

/// Cuts of a dim of that size around the window `range` that has these cuts, worth trying: those that
/// leave the window where it is, and even pieces over the same axes.
///
/// ```text
///   t/tp of 4 in d of 8, tp = 2
///
///   [0, 4)     d/local(2)/tp     0 1 | 2 3   and   4 5 | 6 7       all windows alike
///   [1, 5)     d/tp(3, 5)        the first and the last piece take what is outside
///   any        d/tp              even pieces
/// ```
pub(super) fn around_window(cuts: &Cuts, mesh: &Arc<Mesh>, size: u64, range: &Range<u64>) -> Vec<Cuts> {
    let len = range.end - range.start;
    if len == size || cuts.iter().all(|factor| factor.axis().is_none()) {
        return vec![cuts.clone()];
    }
    let mut found: Vec<Cuts> = Vec::new();
    let window = DimCuts::of(cuts, mesh, len, &[]);
    let devices = window.pieces().len() as u64;
    let alike = len > 0 && range.start.is_multiple_of(len) && size.is_multiple_of(len);
    // Fewer indices than devices cannot be dealt out evenly.
    if alike && len >= devices && (size / len).saturating_mul(devices) <= MOST_WINDOW_BLOCKS {
        found.push(std::iter::once(Factor::Local(size / len)).chain(cuts.iter().cloned()).collect());
    }
    let given = |factors: &[Factor]| factors.iter().any(|factor| matches!(factor, Factor::Sizes(..)));
    if let Some((first, rest)) = cuts.split_first()
        && let Some(axis) = first.axis()
        && !given(rest)
    {
        let mut sizes = piece_sizes(first, axis, mesh, len);
        let last = sizes.len() - 1;
        sizes[0] += range.start;
        sizes[last] += size - range.end;
        found.push(std::iter::once(Factor::pieces(axis, sizes)).chain(rest.iter().cloned()).collect());
    }
    found.retain(|around| {
        let same = window_cuts(around, mesh, size, range)
            .is_some_and(|cuts| DimCuts::of(&cuts, mesh, len, &[]).pieces() == window.pieces());
        same && is_even_enough(&DimCuts::of(around, mesh, size, &[]), size)
    });
    found.push(cuts.iter().map(|factor| factor.axis().map_or(factor.clone(), Factor::Axis)).collect());
    found
}

/// Whether no piece is larger than [`LARGEST_PERCENT`] of an even share.
fn is_even_enough(cuts: &DimCuts, size: u64) -> bool {
    let share = CeilPieces::new(size, cuts.pieces().len() as u64).largest();
    let largest = cuts.pieces().iter().map(IndexSet::count).max().unwrap_or(0);
    u128::from(largest) * 100 <= u128::from(share) * u128::from(LARGEST_PERCENT)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Id;
    use crate::layout::Layout;

    fn mesh() -> Arc<Mesh> {
        Arc::new(Mesh::new("m", [("a".into(), 2), ("b".into(), 3)], None).expect("a small mesh"))
    }

    fn samples() -> Vec<Cuts> {
        let (a, b) = (Factor::Axis(AxisId::new(0)), Factor::Axis(AxisId::new(1)));
        let given = Factor::Sizes(AxisId::new(1), Arc::from([4, 0, 8]));
        vec![
            vec![],
            vec![a.clone()],
            vec![b.clone()],
            vec![given],
            vec![a.clone(), b.clone()],
            vec![Factor::Local(3), a.clone()],
            vec![Factor::Local(2), b.clone(), a.clone()],
            vec![b, Factor::Local(2), a],
        ]
    }

    #[test]
    fn cuts_of_a_window_hold_what_the_dim_holds_of_it() {
        let mut followed = 0;
        for cuts in samples() {
            for start in 0..=12_u64 {
                for end in start..=12 {
                    let Some(window) = window_cuts(&cuts, &mesh(), 12, &(start..end)) else { continue };
                    followed += 1;
                    let layout = |cuts: &Cuts| Layout::new(mesh(), vec![cuts.clone()], vec![]);
                    let (dim, window) = (layout(&cuts).expect("axes"), layout(&window).expect("axes"));
                    for device in mesh().devices() {
                        let held = |layout: &Layout, n| layout.piece_of(&[n], device).expect("in the mesh");
                        let expected = held(&dim, 12)[0].within(&(start..end));
                        assert_eq!(held(&window, end - start)[0], expected, "{cuts:?} [{start}, {end})");
                    }
                }
            }
        }
        // Of 91 windows all under no cut and under one axis; some of the others.
        assert!(followed > 4 * 91 + 100, "{followed}");
    }

    #[test]
    fn cuts_around_a_window_leave_it_where_it_is_but_for_the_even_ones() {
        for cuts in samples().into_iter().filter(|cuts| !cuts.is_empty()) {
            for (start, size) in [(0, 24), (12, 24), (1, 14), (0, 12), (3, 40)] {
                let range = start..start + 12;
                let around = around_window(&cuts, &mesh(), size, &range);
                let (even, exact) = around.split_last().expect("even pieces are always worth trying");
                assert!(even.iter().all(|factor| !matches!(factor, Factor::Sizes(..))) || size == 12);
                for around in exact {
                    let window = window_cuts(around, &mesh(), size, &range).expect("it was tried");
                    let pieces = |cuts: &Cuts| DimCuts::of(cuts, &mesh(), 12, &[]).pieces().to_vec();
                    assert_eq!(pieces(&window), pieces(&cuts), "{around:?} around {range:?} of {size}");
                }
            }
        }
    }
}
