//! Which indices a device holds: the one map that everything else is derived from.

use super::{CeilPieces, Factor, IndexSet, Layout};
use crate::id::Id;
use crate::mesh::{AxisId, Coords, DeviceId, Mesh};
use std::ops::Range;

/// A device of a mesh at a step of the loops around it: where a layout is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The device's coordinates in the layout's mesh.
    pub coords: &'a Coords,
    /// The running step of each stream, by step id.
    pub steps: &'a [u64],
}

impl Layout {
    /// The indices held at a place, one set per dim of the given sizes.
    pub fn piece(&self, sizes: &[u64], place: Place<'_>) -> Vec<IndexSet> {
        let dims = self.cuts.iter().zip(sizes);
        dims.map(|(factors, &size)| held(factors, &self.mesh, size, place)).collect()
    }

    /// The indices that a device holds outside any loop; `None` if it is not in the mesh.
    pub fn piece_of(&self, sizes: &[u64], device: DeviceId) -> Option<Vec<IndexSet>> {
        self.piece_at_step(sizes, device, &[])
    }

    /// The indices that a device holds at a step; `None` if it is not in the mesh.
    pub fn piece_at_step(&self, sizes: &[u64], device: DeviceId, steps: &[u64]) -> Option<Vec<IndexSet>> {
        let coords = self.mesh.coords(self.mesh.place_of(device)?);
        Some(self.piece(sizes, Place { coords: &coords, steps }))
    }
}

/// The indices of one dim that are held at a place.
fn held(factors: &[Factor], mesh: &Mesh, size: u64, place: Place<'_>) -> IndexSet {
    let mut blocks = vec![(0, size)];
    for cut in Cut::all(factors, mesh, size) {
        blocks = match &cut {
            Cut::Axis(axis, _) | Cut::Sizes(axis, _) => cut.of(&blocks, place.coords.along(*axis)),
            Cut::Step(_, step) => cut.of(&blocks, place.steps[*step]),
            Cut::Blocks(_) => cut.of(&blocks, 0),
        };
    }
    IndexSet::from_blocks(blocks)
}

/// A factor ready to be evaluated at many coordinates or steps.
enum Cut {
    /// The ceil piece of a coordinate of an axis of this length.
    Axis(AxisId, u64),
    /// The given piece of a coordinate; where each starts, and the end of the last.
    Sizes(AxisId, Vec<u64>),
    /// The ceil piece of the running step of a counter, of so many.
    Step(u64, usize),
    /// All of so many ceil pieces.
    Blocks(u64),
}

impl Cut {
    /// The factors, but for those after the last that picks: blocks that nothing cuts any more join again,
    /// so they need not be made.
    fn all(factors: &[Factor], mesh: &Mesh, size: u64) -> Vec<Cut> {
        let stays = |factor: &Factor| matches!(factor, Factor::Local(_) | Factor::Stream(_));
        let last = factors.iter().rposition(|factor| !stays(factor));
        let cut = |factor: &Factor| match factor {
            Factor::Axis(axis) => Cut::Axis(*axis, mesh.size(*axis)),
            Factor::Sizes(axis, sizes) => {
                let mut starts = vec![0];
                starts.extend(sizes.iter().scan(0, |end: &mut u64, &size| {
                    *end = end.saturating_add(size);
                    Some(*end)
                }));
                Cut::Sizes(*axis, starts)
            }
            Factor::Step(count, step) => Cut::Step(*count, step.index()),
            Factor::Local(count) => Cut::Blocks(*count),
            Factor::Stream(steps) => Cut::Blocks(steps.count(size)),
        };
        factors[..last.map_or(0, |last| last + 1)].iter().map(cut).collect()
    }

    /// What is held of blocks at a coordinate of the cut's axis, or a step of its counter.
    fn of(&self, blocks: &[(u64, u64)], at: u64) -> Vec<(u64, u64)> {
        match self {
            Cut::Axis(_, count) | Cut::Step(count, _) => pick(blocks, *count, at),
            Cut::Sizes(_, starts) => {
                let clip = |block: &(u64, u64), n: u64| block.0.saturating_add(n).min(block.1);
                let (start, end) = (starts[at as usize], starts[at as usize + 1]);
                blocks.iter().map(|block| (clip(block, start), clip(block, end))).collect()
            }
            Cut::Blocks(count) => split(blocks, *count),
        }
    }
}

/// The `index`th of `count` ceil pieces of every block.
fn pick(blocks: &[(u64, u64)], count: u64, index: u64) -> Vec<(u64, u64)> {
    // Most blocks are as long as the one before: what a length is cut into is worked out once.
    let mut pieces = CeilPieces::new(0, count);
    let of_block = |&(start, end): &(u64, u64)| {
        if pieces.whole() != end - start {
            pieces = CeilPieces::new(end - start, count);
        }
        let (from, to) = pieces.bounds(index);
        (from < to).then_some((start + from, start + to))
    };
    blocks.iter().filter_map(of_block).collect()
}

/// All `count` ceil pieces of every block.
fn split(blocks: &[(u64, u64)], count: u64) -> Vec<(u64, u64)> {
    let of_block = |&(start, end): &(u64, u64)| {
        let pieces = CeilPieces::new(end - start, count);
        let bounds = (0..pieces.filled()).map(move |index| pieces.bounds(index));
        bounds.map(move |(from, to)| (start + from, start + to))
    };
    blocks.iter().flat_map(of_block).collect()
}

/// One dim's factors on their mesh: all the different pieces it has, each by the coordinates that
/// decide it. The number of entries is the product of the axes used, not the number of devices.
pub struct DimCuts {
    axes: Vec<(AxisId, u64)>,
    pieces: Vec<IndexSet>,
}

impl DimCuts {
    /// All pieces of a dim of a layout at a step.
    pub fn new(layout: &Layout, dim: usize, size: u64, steps: &[u64]) -> DimCuts {
        DimCuts::of(&layout.cuts[dim], &layout.mesh, size, steps)
    }

    /// All pieces that factors on a mesh make of a dim.
    pub fn of(factors: &[Factor], mesh: &Mesh, size: u64, steps: &[u64]) -> DimCuts {
        let axes = factors.iter().filter_map(Factor::axis).map(|axis| (axis, mesh.size(axis))).collect();
        // Factor by factor, the pieces of each coordinate side by side: what comes before is cut once.
        let mut pieces = vec![vec![(0, size)]];
        for cut in &Cut::all(factors, mesh, size) {
            let coords = match cut {
                Cut::Axis(axis, _) | Cut::Sizes(axis, _) => 0..mesh.size(*axis),
                Cut::Step(_, step) => steps[*step]..steps[*step] + 1,
                Cut::Blocks(_) => 0..1,
            };
            let cuts =
                |blocks: &Vec<(u64, u64)>| coords.clone().map(|at| cut.of(blocks, at)).collect::<Vec<_>>();
            pieces = pieces.iter().flat_map(cuts).collect();
        }
        DimCuts { axes, pieces: pieces.into_iter().map(IndexSet::from_blocks).collect() }
    }

    /// The pieces of a window of the dim.
    pub fn within(&self, range: &Range<u64>) -> DimCuts {
        let pieces = self.pieces.iter().map(|piece| piece.within(range)).collect();
        DimCuts { axes: self.axes.clone(), pieces }
    }

    /// The axes that decide the piece, in the order of the factors.
    pub fn axes(&self) -> impl Iterator<Item = AxisId> + '_ {
        self.axes.iter().map(|&(axis, _)| axis)
    }

    /// All pieces, in the order of the factors' coordinates.
    pub fn pieces(&self) -> &[IndexSet] {
        &self.pieces
    }

    /// Which piece is held at given coordinates.
    pub fn index_at(&self, coords: &Coords) -> usize {
        self.axes.iter().fold(0, |index, &(axis, size)| index * size + coords.along(axis)) as usize
    }

    /// The piece held at given coordinates.
    pub fn at(&self, coords: &Coords) -> &IndexSet {
        &self.pieces[self.index_at(coords)]
    }
}
