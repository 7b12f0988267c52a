//! What all devices of a mesh hold together at a step.
//!
//! A mesh axis deals every block out to its coordinates and loses nothing, so what all devices hold
//! together depends on the [`Factor::Step`] and [`Factor::Peer`] factors alone:
//!
//! ```text
//!   s/tp/step(2, i0) on tp = 2, 8 indices     blocks of tp: [0,4) [4,8)
//!   i0 = 0   [0,2) [4,6)
//!   i0 = 1   [2,4) [6,8)
//! ```
//!
//! That is why questions about all devices (is everything written, do two accesses meet) need no walk
//! over them: an element is held by some device exactly if it is in the reach.

use super::{CeilPieces, Cuts, Factor, IndexSet, Layout, Peer, Whose};
use crate::id::Id;
use crate::mesh::Mesh;
use std::ops::Range;

impl Layout {
    /// The indices that some device holds at some of the given steps (a range for each counter, by
    /// step id; a counter without one counts as running through), one set a dim of the given sizes.
    pub fn reach(&self, sizes: &[u64], steps: &[Range<u64>]) -> Vec<IndexSet> {
        let dims = self.cuts.iter().zip(sizes);
        dims.map(|(factors, &size)| reach_of(factors, &self.mesh, size, steps)).collect()
    }
}

impl Layout {
    /// The first dim of which some index is held by no device at any step: its given pieces are too
    /// small.
    pub fn loses(&self, sizes: &[u64]) -> Option<usize> {
        (0..self.ndim().min(sizes.len())).find(|&dim| {
            let given = self.cuts[dim].iter().rposition(|f| matches!(f, Factor::Sizes(..)));
            given.is_some_and(|last| {
                let held = cut(&self.cuts[dim][..=last], &self.mesh, sizes[dim], &[]);
                held != IndexSet::range(0, sizes[dim])
            })
        })
    }
}

fn reach_of(factors: &Cuts, mesh: &Mesh, size: u64, steps: &[Range<u64>]) -> IndexSet {
    // What follows the last step factor only cuts finer.
    let last = factors.iter().rposition(|f| matches!(f, Factor::Step(..) | Factor::Peer(_)));
    cut(&factors[..last.map_or(0, |last| last + 1)], mesh, size, steps)
}

/// All pieces that factors make of a dim at some steps, together.
fn cut(factors: &[Factor], mesh: &Mesh, size: u64, steps: &[Range<u64>]) -> IndexSet {
    let mut blocks = vec![(0, size)];
    for factor in factors {
        blocks = match factor {
            Factor::Axis(axis) => cut_all(&blocks, |b| ceil_cuts(b, 0..mesh.size(*axis), mesh.size(*axis))),
            Factor::Sizes(_, sizes) => cut_all(&blocks, |b| given_cuts(b, sizes, 0..sizes.len() as u64)),
            Factor::Local(count) => cut_all(&blocks, |b| ceil_cuts(b, 0..*count, *count)),
            Factor::Stream(steps) => {
                cut_all(&blocks, |b| ceil_cuts(b, 0..steps.count(size), steps.count(size)))
            }
            Factor::Step(count, step) => {
                let range = steps.get(step.index()).cloned().unwrap_or(0..*count);
                cut_all(&blocks, |b| ceil_cuts(b, range.clone(), *count))
            }
            Factor::Peer(Peer { axis, sizes, whose, step }) => {
                let all = 0..mesh.size(*axis);
                // Some device is ahead of another by any number of places.
                let range = match whose {
                    Whose::Owner => steps.get(step.index()).cloned().unwrap_or(all),
                    Whose::Ahead | Whose::Next => all,
                };
                match sizes {
                    None => cut_all(&blocks, |b| ceil_cuts(b, range.clone(), mesh.size(*axis))),
                    Some(sizes) => cut_all(&blocks, |b| given_cuts(b, sizes, range.clone())),
                }
            }
        };
    }
    IndexSet::from_blocks(blocks)
}

fn cut_all(blocks: &[(u64, u64)], cut: impl Fn((u64, u64)) -> Vec<(u64, u64)>) -> Vec<(u64, u64)> {
    blocks.iter().flat_map(|&block| cut(block)).collect()
}

/// Those of the `count` ceil pieces of a block that are in a range and not empty.
fn ceil_cuts((start, end): (u64, u64), pieces: Range<u64>, count: u64) -> Vec<(u64, u64)> {
    let cut = CeilPieces::new(end - start, count);
    let bounds = pieces.map(|n| cut.bounds(n)).take_while(|(from, to)| from < to);
    bounds.map(|(from, to)| (start + from, start + to)).collect()
}

/// Those of the given pieces of a block that are in a range and not empty.
fn given_cuts((start, end): (u64, u64), sizes: &[u64], pieces: Range<u64>) -> Vec<(u64, u64)> {
    let mut at = start;
    let cut = |&size: &u64| {
        let from = at;
        at = at.saturating_add(size).min(end);
        (from, at)
    };
    let all = sizes.iter().map(cut).zip(0..);
    all.filter(|((from, to), n)| from < to && pieces.contains(n)).map(|(piece, _)| piece).collect()
}

#[cfg(test)]
mod tests {
    use super::super::{DimCuts, StepId, Steps};
    use super::*;
    use crate::mesh::{AxisId, Mesh};
    use std::sync::Arc;

    /// Lists of factors with steps before, between and after all others, on `a = 2, b = 3`.
    fn samples() -> Vec<Cuts> {
        let (a, b) = (AxisId::new(0), AxisId::new(1));
        let step = |count| Factor::Step(count, StepId::new(0));
        let peer = |axis, sizes, whose| Factor::Peer(Peer { axis, sizes, whose, step: StepId::new(0) });
        vec![
            vec![],
            vec![step(3)],
            vec![step(3), Factor::Axis(b)],
            vec![Factor::Axis(b), step(2)],
            vec![Factor::Axis(a), step(2), Factor::Axis(b)],
            vec![Factor::Local(2), step(4), Factor::Axis(a)],
            vec![Factor::Stream(Steps::Count(3)), Factor::Axis(a), step(2)],
            vec![Factor::Sizes(b, Arc::from([4, 0, 9])), step(2)],
            vec![Factor::Sizes(b, Arc::from([1, 5, 7])), Factor::Axis(a)],
            vec![peer(b, None, Whose::Owner)],
            vec![peer(b, None, Whose::Ahead), step(2)],
            vec![peer(b, None, Whose::Next), step(2)],
            vec![step(2), peer(b, Some(Arc::from([4, 0, 3])), Whose::Owner)],
            vec![Factor::Axis(a), peer(b, Some(Arc::from([4, 0, 3])), Whose::Ahead)],
        ]
    }

    fn mesh() -> Arc<Mesh> {
        Arc::new(Mesh::new("m", [("a".into(), 2), ("b".into(), 3)], None).expect("a small mesh"))
    }

    #[test]
    fn the_reach_is_the_union_of_all_pieces() {
        for cuts in samples() {
            let layout = Layout::new(mesh(), vec![cuts.clone()], vec![]).expect("each axis stands once");
            for step in 0..4 {
                let all = DimCuts::new(&layout, 0, 13, &[step]);
                let union = all.pieces().iter().fold(IndexSet::default(), |union, piece| union.union(piece));
                let now = step..step + 1;
                let reach = layout.reach(&[13], std::slice::from_ref(&now));
                assert_eq!(reach, [union], "{cuts:?} at {step}");
            }
            assert_eq!(layout.reach(&[13], &[]), [IndexSet::range(0, 13)], "{cuts:?} over all steps");
        }
    }
}
