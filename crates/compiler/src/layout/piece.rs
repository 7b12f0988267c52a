//! Which indices a device holds: the one map that everything else is derived from.

use super::{CeilPieces, Factor, IndexSet, Layout, Peer};
use crate::id::Id;
use crate::mesh::{AxisId, Coords, DeviceId, Mesh};
use std::ops::Range;

/// A device of a mesh at a step of the loops around it: where a layout is evaluated.
#[derive(Clone, Copy, Debug)]
pub struct Place<'a> {
    /// The device's coordinates in the layout's mesh.
    pub coords: &'a Coords,
    /// The running step of each stream, by step id; those that are missing stand at 0.
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
            Cut::Ceil(seat, _) | Cut::Sizes(seat, _) => cut.of(&blocks, seat.at(place.coords, place.steps)),
            Cut::Blocks(_) => cut.of(&blocks, 0),
        };
    }
    IndexSet::from_blocks(blocks)
}

/// A factor ready to be evaluated at many coordinates or steps.
enum Cut {
    /// One of so many ceil pieces.
    Ceil(Seat, u64),
    /// One of the given pieces; where each starts, and the end of the last.
    Sizes(Seat, Vec<u64>),
    /// All of so many ceil pieces.
    Blocks(u64),
}

/// What picks a piece.
#[derive(Clone, Copy)]
enum Seat {
    /// The device's coordinate along an axis.
    Coordinate(AxisId),
    /// The running step of a counter.
    Step(usize),
    /// The coordinate that lies a lead and the running step of a counter ahead, around an axis of this length.
    Ahead { axis: AxisId, lead: u64, step: usize, length: u64 },
}

impl Seat {
    /// The number of the piece.
    fn at(self, coords: &Coords, steps: &[u64]) -> u64 {
        match self {
            Seat::Coordinate(axis) => coords.along(axis),
            Seat::Step(step) => running(steps, step),
            Seat::Ahead { axis, lead, step, length } => {
                (coords.along(axis) + lead + running(steps, step)) % length
            }
        }
    }
}

impl Cut {
    /// The factors, but for those after the last that picks: blocks that nothing cuts any more join again,
    /// so they need not be made.
    fn all(factors: &[Factor], mesh: &Mesh, size: u64) -> Vec<Cut> {
        let stays = |factor: &Factor| matches!(factor, Factor::Local(_) | Factor::Stream(_));
        let last = factors.iter().rposition(|factor| !stays(factor));
        let cut = |factor: &Factor| match factor {
            Factor::Axis(axis) => Cut::Ceil(Seat::Coordinate(*axis), mesh.size(*axis)),
            Factor::Sizes(axis, sizes) => Cut::Sizes(Seat::Coordinate(*axis), starts(sizes)),
            Factor::Step(count, step) => Cut::Ceil(Seat::Step(step.index()), *count),
            Factor::Peer(Peer { axis, sizes, whose, step }) => {
                let (step, length) = (step.index(), mesh.size(*axis));
                let ahead = |lead| Seat::Ahead { axis: *axis, lead, step, length };
                let seat = whose.lead().map_or(Seat::Step(step), ahead);
                match sizes {
                    Some(sizes) => Cut::Sizes(seat, starts(sizes)),
                    None => Cut::Ceil(seat, mesh.size(*axis)),
                }
            }
            Factor::Local(count) => Cut::Blocks(*count),
            Factor::Stream(steps) => Cut::Blocks(steps.count(size)),
        };
        factors[..last.map_or(0, |last| last + 1)].iter().map(cut).collect()
    }

    /// What is held of blocks by the piece of a number.
    fn of(&self, blocks: &[(u64, u64)], at: u64) -> Vec<(u64, u64)> {
        match self {
            Cut::Ceil(_, count) => pick(blocks, *count, at),
            Cut::Sizes(_, starts) => {
                let clip = |block: &(u64, u64), n: u64| block.0.saturating_add(n).min(block.1);
                // Nothing is given to whoever comes after the last.
                let end_at = |n: usize| starts.get(n).or(starts.last()).copied().unwrap_or(0);
                let (start, end) = (end_at(at as usize), end_at(at as usize + 1));
                blocks.iter().map(|block| (clip(block, start), clip(block, end))).collect()
            }
            Cut::Blocks(count) => split(blocks, *count),
        }
    }
}

fn running(steps: &[u64], step: usize) -> u64 {
    steps.get(step).copied().unwrap_or(0)
}

/// Where each of the given pieces starts, and the end of the last.
fn starts(sizes: &[u64]) -> Vec<u64> {
    let ends = sizes.iter().scan(0, |end: &mut u64, &size| {
        *end = end.saturating_add(size);
        Some(*end)
    });
    std::iter::once(0).chain(ends).collect()
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
        let deciding = factors.iter().filter_map(Factor::decided_by);
        let axes = deciding.map(|axis| (axis, mesh.size(axis))).collect();
        // Factor by factor, the pieces of each coordinate side by side: what comes before is cut once.
        let mut pieces = vec![vec![(0, size)]];
        for cut in &Cut::all(factors, mesh, size) {
            let picked: Vec<u64> = match cut {
                Cut::Ceil(seat, _) | Cut::Sizes(seat, _) => match *seat {
                    Seat::Coordinate(axis) => (0..mesh.size(axis)).collect(),
                    Seat::Step(step) => vec![running(steps, step)],
                    Seat::Ahead { lead, step, length, .. } => {
                        (0..length).map(|at| (at + lead + running(steps, step)) % length).collect()
                    }
                },
                Cut::Blocks(_) => vec![0],
            };
            let cuts =
                |blocks: &Vec<(u64, u64)>| picked.iter().map(|&at| cut.of(blocks, at)).collect::<Vec<_>>();
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
