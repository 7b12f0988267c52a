//! How large a piece can be.
//!
//! The first of several ceil pieces is the largest, but not what is cut out of it further on:
//!
//! ```text
//!   7 over 2 devices          4             3
//!   each in 3 local blocks    2 2           1 1 1
//!   each over 2 devices       1 1           1 1 1     the first of the second piece holds the most
//! ```
//!
//! So all lists of blocks that a device may hold are followed. Only sizes matter, and of the ceil pieces
//! of one block only the first, the last and an empty one differ: the lists stay few, however many
//! devices there are.

use super::{CeilPieces, Factor, Layout, Peer};
use crate::mesh::Mesh;
use std::collections::{BTreeMap, BTreeSet};

/// The blocks that a device holds: how many of each size. No size is 0.
type Blocks = BTreeMap<u64, u64>;

impl Layout {
    /// How many indices the largest piece has, over all devices and steps, for each dim of the given
    /// sizes.
    pub fn largest_piece(&self, sizes: &[u64]) -> Vec<u64> {
        let dims = self.cuts().iter().zip(sizes);
        dims.map(|(factors, &size)| largest_of(factors, self.mesh(), size)).collect()
    }
}

fn largest_of(factors: &[Factor], mesh: &Mesh, size: u64) -> u64 {
    let mut lists = BTreeSet::from([blocks([(size, 1)])]);
    for factor in factors {
        let next = |list: &Blocks| match factor {
            Factor::Axis(axis) => one_piece_each(list, mesh.size(*axis)),
            Factor::Step(count, _) => one_piece_each(list, *count),
            Factor::Peer(Peer { axis, sizes: None, .. }) => one_piece_each(list, mesh.size(*axis)),
            Factor::Sizes(_, given) | Factor::Peer(Peer { sizes: Some(given), .. }) => {
                given_pieces(list, given)
            }
            Factor::Local(count) => vec![all_pieces(list, *count)],
            Factor::Stream(steps) => vec![all_pieces(list, steps.count(size))],
        };
        lists = lists.iter().flat_map(next).collect();
    }
    let indices = |list: &Blocks| {
        list.iter().fold(0, |sum: u64, (size, n)| sum.saturating_add(size.saturating_mul(*n)))
    };
    lists.iter().map(indices).max().unwrap_or(0)
}

fn blocks(sizes: impl IntoIterator<Item = (u64, u64)>) -> Blocks {
    let mut list = Blocks::new();
    for (size, n) in sizes.into_iter().filter(|(size, n)| *size > 0 && *n > 0) {
        let known = list.entry(size).or_default();
        *known = known.saturating_add(n);
    }
    list
}

/// A device that takes one of `count` ceil pieces of every block: all different outcomes.
fn one_piece_each(list: &Blocks, count: u64) -> Vec<Blocks> {
    // A piece differs from the one before it where some block's pieces get smaller, or end.
    let turns = list.keys().flat_map(|&block| {
        let full = CeilPieces::new(block, count).full();
        [full, full.saturating_add(1)]
    });
    let indices: BTreeSet<u64> = turns.chain([0]).filter(|&index| index < count).collect();
    let at =
        |index: u64| blocks(list.iter().map(|(&block, &n)| (CeilPieces::new(block, count).size(index), n)));
    indices.into_iter().map(at).collect()
}

/// A device that keeps all `count` ceil pieces of every block.
fn all_pieces(list: &Blocks, count: u64) -> Blocks {
    blocks(list.iter().flat_map(|(&block, &n)| {
        let pieces = CeilPieces::new(block, count);
        [(pieces.largest(), n.saturating_mul(pieces.full())), (pieces.rest(), n)]
    }))
}

/// A device that takes one of the given pieces of every block.
fn given_pieces(list: &Blocks, given: &[u64]) -> Vec<Blocks> {
    let mut before: u64 = 0;
    let mut outcomes = Vec::new();
    for &piece in given {
        outcomes.push(blocks(list.iter().map(|(&block, &n)| (block.saturating_sub(before).min(piece), n))));
        before = before.saturating_add(piece);
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::super::{Cuts, DimCuts, IndexSet, StepId, Steps};
    use super::*;
    use crate::id::Id;
    use crate::mesh::AxisId;
    use std::sync::Arc;

    #[test]
    fn it_is_the_largest_of_all_pieces() {
        let (a, b) = (AxisId::new(0), AxisId::new(1));
        let step = |count| Factor::Step(count, StepId::new(0));
        let lists: Vec<Cuts> = vec![
            vec![],
            vec![step(3)],
            vec![step(3), Factor::Axis(b)],
            vec![Factor::Axis(b), step(2)],
            vec![Factor::Axis(a), step(2), Factor::Axis(b)],
            vec![Factor::Local(2), step(4), Factor::Axis(a)],
            vec![Factor::Stream(Steps::Count(3)), Factor::Axis(a), step(2)],
            vec![Factor::Sizes(b, Arc::from([4, 0, 9])), step(2)],
            vec![Factor::Sizes(b, Arc::from([1, 5, 7])), Factor::Axis(a)],
            vec![Factor::Axis(a), Factor::Local(3), Factor::Axis(b)],
            vec![Factor::Axis(b), Factor::Local(3), Factor::Axis(a), Factor::Local(2)],
            vec![Factor::Axis(a), step(3), Factor::Axis(b)],
        ];
        let mesh = Arc::new(Mesh::new("m", [("a".into(), 2), ("b".into(), 3)], None).expect("a small mesh"));
        for cuts in lists {
            let layout =
                Layout::new(mesh.clone(), vec![cuts.clone()], vec![]).expect("each axis stands once");
            for size in [13, 7, 0, 1, 5, 12] {
                let pieces = (0..4).flat_map(|step| {
                    let all = DimCuts::new(&layout, 0, size, &[step]);
                    all.pieces().iter().map(IndexSet::count).collect::<Vec<_>>()
                });
                assert_eq!(layout.largest_piece(&[size]), [pieces.max().unwrap_or(0)], "{cuts:?} of {size}");
            }
        }
    }
}
