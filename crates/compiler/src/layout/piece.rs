//! Which indices a device holds: the one map that everything else is derived from.

use super::{Factor, IndexSet, Layout};
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
    // Blocks that nothing cuts any more join again: they need not be made.
    let stays = |factor: &Factor| matches!(factor, Factor::Local(_) | Factor::Stream(_));
    let last = factors.iter().rposition(|factor| !stays(factor));
    for factor in &factors[..last.map_or(0, |last| last + 1)] {
        blocks = match factor {
            Factor::Axis(axis) => pick(&blocks, mesh.size(*axis), place.coords.along(*axis)),
            Factor::Step(count, step) => pick(&blocks, *count, place.steps[step.index()]),
            Factor::Sizes(axis, sizes) => {
                let coord = place.coords.along(*axis) as usize;
                let before = sizes[..coord].iter().copied().fold(0, u64::saturating_add);
                let clip = |block: (u64, u64), n: u64| block.0.saturating_add(n).min(block.1);
                blocks
                    .iter()
                    .map(|&b| (clip(b, before), clip(b, before.saturating_add(sizes[coord]))))
                    .collect()
            }
            Factor::Local(count) => split(&blocks, *count),
            Factor::Stream(steps) => split(&blocks, steps.count(size)),
        };
    }
    IndexSet::from_blocks(blocks)
}

/// The `index`th of `count` ceil pieces of every block.
fn pick(blocks: &[(u64, u64)], count: u64, index: u64) -> Vec<(u64, u64)> {
    blocks.iter().map(|&block| ceil_piece(block, count, index)).filter(|b| b.0 < b.1).collect()
}

/// All `count` ceil pieces of every block.
fn split(blocks: &[(u64, u64)], count: u64) -> Vec<(u64, u64)> {
    let pieces = |&block: &(u64, u64)| {
        (0..count).map(move |index| ceil_piece(block, count, index)).take_while(|piece| piece.0 < piece.1)
    };
    blocks.iter().flat_map(pieces).collect()
}

/// The `index`th of `count` pieces of `ceil(len / count)`; the last ones are smaller or empty.
fn ceil_piece(block: (u64, u64), count: u64, index: u64) -> (u64, u64) {
    let piece = (block.1 - block.0).div_ceil(count);
    let at = |n: u64| block.0.saturating_add(n.saturating_mul(piece)).min(block.1);
    (at(index), at(index + 1))
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
        let axes: Vec<AxisId> = factors.iter().filter_map(Factor::axis).collect();
        let pieces =
            mesh.coords_over(&axes).map(|coords| held(factors, mesh, size, Place { coords: &coords, steps }));
        let pieces = pieces.collect();
        DimCuts { axes: axes.iter().map(|&axis| (axis, mesh.size(axis))).collect(), pieces }
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
