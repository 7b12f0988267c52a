//! For one dim, which pieces of the source meet which pieces of the target, and in how many elements.
//!
//! Every index is in one piece of each side, so the pieces are walked along the dim, and only those that
//! meet are visited:
//!
//! ```text
//!   source    0 0 0 1 1 1 2 2 2         0 meets 0 in 2, 1 in 1
//!   target    0 0 1 1 2 2 3 3 4         1 meets 1 in 1, 2 in 2
//! ```

use super::joined::Joined;
use crate::layout::{DimCuts, IndexSet, Layout};
use crate::mesh::{AxisId, Coords};
use std::collections::BTreeMap;

/// A piece of the other side, by its place among the pieces.
#[derive(Clone, Copy)]
pub(super) struct Meeting {
    /// Which piece.
    pub piece: usize,
    /// How many elements both have.
    pub elements: u64,
}

/// For each piece of one side those of the other that it meets, in their order.
pub(super) fn meetings(side: &DimCuts, other: &DimCuts) -> Vec<Vec<Meeting>> {
    let mut intervals: Vec<(u64, u64, usize)> = Vec::new();
    for (piece, set) in other.pieces().iter().enumerate() {
        intervals.extend(set.intervals().iter().map(|&(start, end)| (start, end, piece)));
    }
    intervals.sort_unstable();
    let met = side.pieces().iter().map(|set| {
        let mut shared: BTreeMap<usize, u64> = BTreeMap::new();
        for &(start, end) in set.intervals() {
            let first = intervals.partition_point(|&(_, before, _)| before <= start);
            for &(from, to, piece) in intervals[first..].iter().take_while(|(from, ..)| *from < end) {
                *shared.entry(piece).or_default() += to.min(end) - from.max(start);
            }
        }
        shared.into_iter().map(|(piece, elements)| Meeting { piece, elements }).collect()
    });
    met.collect()
}

/// A piece of one dim of the source that a piece of the target meets, or the product of several.
#[derive(Clone, Copy)]
pub(super) struct Found {
    /// What the piece's coordinates add to the place of its device.
    pub place: u64,
    /// How many elements both have.
    pub elements: u64,
    /// How many the source's piece has.
    pub held: u64,
}

/// Calls `found` with every product of one piece of each dim.
pub(super) fn for_each_found(dims: &[&[Found]], so_far: Found, found: &mut impl FnMut(Found)) {
    let Some((first, rest)) = dims.split_first() else { return found(so_far) };
    for piece in *first {
        let next = Found {
            place: so_far.place + piece.place,
            elements: so_far.elements.saturating_mul(piece.elements),
            held: so_far.held.saturating_mul(piece.held),
        };
        for_each_found(rest, next, found);
    }
}

/// One dim of both layouts.
pub(super) struct DimMeetings {
    pub source: DimCuts,
    pub target: DimCuts,
    /// By the pieces of the target: the pieces of the source that each meets.
    pub met: Vec<Vec<Found>>,
    /// By the pieces of the source: the elements that the target's different pieces want of it, and how
    /// many of them want any.
    pub sent: Vec<(u64, u64)>,
    /// How many sets of pieces of both sides are joined, directly or through others, and in which of them
    /// each piece is.
    pub components: u64,
    pub source_components: Vec<u64>,
    pub target_components: Vec<u64>,
}

impl DimMeetings {
    pub fn new(source: &Layout, target: &Layout, dim: usize, size: u64) -> DimMeetings {
        let mesh = source.mesh();
        let source = DimCuts::new(source, dim, size, &[]);
        let target = DimCuts::new(target, dim, size, &[]);
        let axes: Vec<AxisId> = source.axes().collect();
        let places: Vec<u64> = mesh.coords_over(&axes).map(|coords| mesh.place(&coords)).collect();
        let held: Vec<u64> = source.pieces().iter().map(IndexSet::count).collect();
        let all = meetings(&target, &source);
        let mut sent = vec![(0, 0); source.pieces().len()];
        let mut joined = Joined::new(source.pieces().len() + target.pieces().len());
        for (to, met) in all.iter().enumerate() {
            for from in met {
                sent[from.piece].0 += from.elements;
                sent[from.piece].1 += 1;
                joined.join(from.piece, source.pieces().len() + to);
            }
        }
        let met = all.iter().map(|met| {
            let found = met.iter().map(|from| Found {
                place: places[from.piece],
                elements: from.elements,
                held: held[from.piece],
            });
            found.collect()
        });
        let met = met.collect();
        let (components, of_piece) = joined.numbered();
        let (source_components, target_components) = of_piece.split_at(source.pieces().len());
        let (source_components, target_components) = (source_components.to_vec(), target_components.to_vec());
        DimMeetings { source, target, met, sent, components, source_components, target_components }
    }

    pub fn of(&self, coords: &Coords) -> &[Found] {
        &self.met[self.target.index_at(coords)]
    }
}
