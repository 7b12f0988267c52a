//! A move at a step, device by device: the elements that a device needs, from those who send them.
//!
//! ```text
//!  source r/x, c/y on x = 2, y = 2         a device that needs rows [0,2), all columns
//!    dim r   x=0 [0,2)  x=1 [2,4)            shares with x=0
//!    dim c   y=0 [0,3)  y=1 [3,5)            shares with y=0 and y=1
//!                                          fetches from (0,0) and (0,1): all combinations
//! ```

use super::{Fetch, Parts};
use crate::id::Id;
use crate::instr::TensorType;
use crate::layout::{DimCuts, Factor, IndexSet, Layout, Overlap, overlap};
use crate::mesh::{AxisId, Coords, DeviceId};

/// A move from one layout to another at a step. What does not depend on who receives is worked out once.
pub struct Exchange<'a> {
    source: &'a TensorType,
    target: &'a TensorType,
    steps: &'a [u64],
    sizes: Vec<u64>,
    dims: Vec<SourceDim>,
    parts: Parts,
    /// The axes along which parts are combined at once.
    reduced: Vec<AxisId>,
    /// How many parts of the elements came in earlier steps, at least: where devices are at different steps,
    /// one part comes a step.
    earlier: u64,
}

/// All different pieces of one dim of the source.
struct SourceDim {
    /// The axes that decide the piece.
    axes: Vec<AxisId>,
    /// The pieces, each with its coordinates along those axes.
    pieces: Vec<(Coords, IndexSet)>,
}

/// A source piece of one dim, by its coordinates, and the runs that the target's piece shares with it.
type Sharing<'a> = (&'a Coords, Vec<Overlap>);

impl<'a> Exchange<'a> {
    /// The move at the running steps.
    pub fn new(source: &'a TensorType, target: &'a TensorType, steps: &'a [u64]) -> Exchange<'a> {
        Exchange::between((source, steps), (target, steps))
    }

    /// The move from what the source holds at some steps to what the target holds at others.
    pub fn between(
        (source, source_steps): (&'a TensorType, &[u64]),
        (target, steps): (&'a TensorType, &'a [u64]),
    ) -> Exchange<'a> {
        let sizes = source.sizes();
        let mesh = source.layout.mesh();
        let dims = (0..source.layout.ndim()).map(|dim| {
            let cuts = DimCuts::new(&source.layout, dim, sizes[dim], source_steps);
            let axes: Vec<AxisId> = cuts.axes().collect();
            let pieces = mesh.coords_over(&axes).zip(cuts.pieces().iter().cloned()).collect();
            SourceDim { axes, pieces }
        });
        let dims: Vec<SourceDim> = dims.collect();
        let mut parts = Parts::new(&source.layout, &target.layout);
        parts.in_place.extend(own_steps(&source.layout, &target.layout));
        let decided = |axis: &AxisId| dims.iter().any(|dim| dim.axes.contains(axis));
        let (by_step, reduced): (Vec<AxisId>, Vec<AxisId>) =
            parts.reduced.iter().map(|p| p.axis).partition(decided);
        let step_of = |factor: &Factor| match factor {
            Factor::Peer(peer) if by_step.contains(&peer.axis) => {
                source_steps.get(peer.step.index()).copied().unwrap_or(0)
            }
            _ => 0,
        };
        let earlier = source.layout.cuts().iter().flatten().map(step_of).sum();
        Exchange { source, target, steps, sizes, dims, parts, reduced, earlier }
    }

    /// What a device fetches; see [`fetches`](super::fetches).
    pub fn fetches(&self, device: DeviceId) -> Vec<Fetch> {
        let layout = &self.target.layout;
        let mut found = Vec::new();
        let Some(wanted) = layout.piece_at_step(&self.sizes, device, self.steps) else {
            return found;
        };
        let mesh = layout.mesh();
        let away = mesh.place_of(device).is_some_and(|place| self.parts.is_away(&mesh.coords(place)));
        if away || wanted.iter().any(IndexSet::is_empty) {
            return found;
        }
        let mut coords = counterpart(&self.source.layout, layout, device);
        let dims: Vec<Vec<Sharing<'_>>> = self
            .dims
            .iter()
            .zip(&wanted)
            .map(|(dim, wanted)| dim.sharing(wanted, &coords, &self.parts.in_place))
            .collect();
        if dims.iter().any(Vec::is_empty) {
            return found;
        }
        let mut choice = vec![0; dims.len()];
        loop {
            if self.stand_at(&dims, &choice, &mut coords) {
                let runs: Vec<Vec<Overlap>> =
                    dims.iter().zip(&choice).map(|(sharing, &chosen)| sharing[chosen].1.clone()).collect();
                self.parts(&mut coords, &runs, &mut found);
            }
            // The next combination, the last dim fastest.
            let Some(dim) = (0..dims.len()).rev().find(|&dim| choice[dim] + 1 < dims[dim].len()) else {
                return found;
            };
            choice[dim] += 1;
            choice[dim + 1..].fill(0);
        }
    }

    /// Goes to the coordinates that hold the chosen piece of every dim. One axis may decide pieces of two
    /// dims (a peer's and the device's own): nobody holds two that it decides differently.
    fn stand_at(&self, dims: &[Vec<Sharing<'_>>], choice: &[usize], coords: &mut Coords) -> bool {
        let mut decided: Vec<(AxisId, u64)> = Vec::new();
        for ((dim, sharing), &chosen) in self.dims.iter().zip(dims).zip(choice) {
            for &axis in &dim.axes {
                let at = sharing[chosen].0.along(axis);
                if decided.iter().any(|&(known, elsewhere)| known == axis && elsewhere != at) {
                    return false;
                }
                decided.push((axis, at));
                coords.set(axis, at);
            }
        }
        true
    }

    /// The same elements from every coordinate along the reduced axes.
    fn parts(&self, coords: &mut Coords, runs: &[Vec<Overlap>], found: &mut Vec<Fetch>) {
        let mesh = self.source.layout.mesh();
        for (part, at) in mesh.coords_over(&self.reduced).enumerate() {
            for &axis in &self.reduced {
                coords.set(axis, at.along(axis));
            }
            let from = mesh.device_at(mesh.place(coords));
            found.push(Fetch { from, part: self.earlier + part as u64, runs: runs.to_vec() });
        }
    }
}

impl SourceDim {
    /// The pieces that share something with a piece of the target; along the axes in place only those at
    /// the receiver's own coordinates.
    fn sharing(&self, wanted: &IndexSet, own: &Coords, in_place: &[AxisId]) -> Vec<Sharing<'_>> {
        let fixed: Vec<AxisId> = self.axes.iter().copied().filter(|axis| in_place.contains(axis)).collect();
        let here = |at: &Coords| fixed.iter().all(|&axis| at.along(axis) == own.along(axis));
        let pieces = self.pieces.iter().filter(|(at, _)| here(at));
        let pieces = pieces.map(|(at, piece)| (at, overlap(piece, wanted)));
        pieces.filter(|(_, runs)| !runs.is_empty()).collect()
    }
}

/// The axes along which a device is ahead in the source and not in the target: what a device made in its
/// own order of steps, it puts into its own piece. Not where parts are combined: they go to whose they are.
fn own_steps(source: &Layout, target: &Layout) -> Vec<AxisId> {
    let ahead = |layout: &Layout| -> Vec<AxisId> {
        layout.cuts().iter().flatten().filter_map(Factor::ahead).collect()
    };
    let followed = ahead(target);
    let stays = |axis: &AxisId| !followed.contains(axis) && source.partial().iter().all(|p| p.axis != *axis);
    ahead(source).into_iter().filter(stays).collect()
}

/// Where a receiver stands in the source's mesh: at its own place, or at one that stands for it.
fn counterpart(source: &Layout, target: &Layout, device: DeviceId) -> Coords {
    let mesh = source.mesh();
    let place = mesh.place_of(device).unwrap_or_else(|| {
        let own = target.mesh().place_of(device).unwrap_or(device.index() as u64);
        own % mesh.device_count()
    });
    mesh.coords(place)
}
