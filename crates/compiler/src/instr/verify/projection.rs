//! Whether a tensor's pieces are what a layout of the iteration space says of it.
//!
//! A dim made of several space dims holds the product of their index sets:
//!
//! ```text
//!   e = (n h), h = 4      n holds [1,3), h holds [0,2)      e holds [4,6) [8,10)
//! ```

use super::{Counters, sampled_steps};
use crate::id::Id;
use crate::instr::TensorType;
use crate::layout::{Cuts, DimCuts, Factor, IndexSet, Layout};
use crate::mesh::{AxisId, Coords, DeviceId};
use crate::op::{DimUse, Space, SpaceId};

/// A layout of an iteration space inside loops.
pub(super) struct Over<'a> {
    pub space: &'a Space,
    pub layout: &'a Layout,
    pub counters: &'a Counters,
}

impl Over<'_> {
    /// The first dim of a tensor, made of the given space dims, whose pieces are not what the layout
    /// of the space says, with a device where they are not. Both layouts are on the same devices.
    pub fn differs(&self, ty: &TensorType, groups: &[Vec<SpaceId>]) -> Option<(usize, DeviceId)> {
        let one_grid = ty.layout.mesh().same_grid(self.layout.mesh());
        groups.iter().enumerate().find_map(|(dim, group)| {
            let device =
                if one_grid { self.dim_differs(ty, dim, group) } else { self.differs_on(ty, dim, group) };
            Some((dim, device?))
        })
    }

    /// What cuts a dim of the space. A window is cut by the factors of the dim that it is a part of. What
    /// counts the parts of another dim is cut by the axes that cut that one, in the order of the mesh; as it
    /// is as long as there are parts, into single indices.
    fn cuts(&self, id: SpaceId) -> Cuts {
        match self.space.dims[id].usage {
            DimUse::Window(window) => self.layout.cuts()[window.of.index()].clone(),
            DimUse::PartsOf(of) => {
                let parted = &self.layout.cuts()[of.index()];
                let cuts_it = |axis: &AxisId| parted.iter().any(|factor| factor.axis() == Some(*axis));
                self.layout.mesh().axes().keys().filter(cuts_it).map(Factor::Axis).collect()
            }
            _ => self.layout.cuts()[id.index()].clone(),
        }
    }

    /// On two grids: device by device.
    fn differs_on(&self, ty: &TensorType, dim: usize, group: &[SpaceId]) -> Option<DeviceId> {
        let (own, runs) = (ty.layout.mesh(), self.layout.mesh());
        let cuts: Vec<Cuts> = group.iter().map(|&id| self.cuts(id)).collect();
        let factors = cuts.iter().flatten().chain(&ty.layout.cuts()[dim]);
        sampled_steps(factors, self.counters).iter().find_map(|steps| {
            let held = DimCuts::new(&ty.layout, dim, ty.dims[dim].1, steps);
            let parts: Vec<Part> = group.iter().map(|&id| Part::new(self, id, steps)).collect();
            own.devices().zip(0..).find_map(|(device, place)| {
                let expected = product(&parts, &runs.coords(runs.place_of(device)?));
                (*held.at(&own.coords(place)) != expected).then_some(device)
            })
        })
    }

    /// On one grid: along the axes that matter.
    fn dim_differs(&self, ty: &TensorType, dim: usize, group: &[SpaceId]) -> Option<DeviceId> {
        let size = ty.dims[dim].1;
        if let [id] = group
            && !matches!(self.space.dims[*id].usage, DimUse::Window(_) | DimUse::PartsOf(_))
            && ty.layout.plain_cuts(dim, size) == self.layout.plain_cuts(id.index(), size)
        {
            return None;
        }
        let cuts: Vec<Cuts> = group.iter().map(|&id| self.cuts(id)).collect();
        let factors = || cuts.iter().flatten().chain(&ty.layout.cuts()[dim]);
        let mut axes: Vec<AxisId> = factors().filter_map(Factor::decided_by).collect();
        axes.sort_unstable();
        axes.dedup();
        sampled_steps(factors(), self.counters).iter().find_map(|steps| {
            let held = DimCuts::new(&ty.layout, dim, size, steps);
            let parts: Vec<Part> = group.iter().map(|&id| Part::new(self, id, steps)).collect();
            let mesh = self.layout.mesh();
            let mut all = mesh.coords_over(&axes);
            let coords = all.find(|coords| *held.at(coords) != product(&parts, coords))?;
            Some(mesh.device_at(mesh.place(&coords)))
        })
    }
}

/// The pieces of one space dim.
struct Part {
    size: u64,
    cuts: DimCuts,
}

impl Part {
    fn new(over: &Over<'_>, id: SpaceId, steps: &[u64]) -> Part {
        let size = |id: SpaceId| over.space.dims[id].size;
        let cuts = |of: SpaceId| DimCuts::of(&over.cuts(id), over.layout.mesh(), size(of), steps);
        let cuts = match over.space.window(id) {
            Some((of, range)) => cuts(of).within(&range),
            None => cuts(id),
        };
        Part { size: size(id), cuts }
    }
}

/// The indices of a merged dim whose parts are held at given coordinates.
fn product(parts: &[Part], coords: &Coords) -> IndexSet {
    let mut product = IndexSet::range(0, 1);
    for part in parts {
        let held = part.cuts.at(coords);
        product = if held.count() == part.size {
            let runs = product.intervals().iter();
            IndexSet::from_blocks(runs.map(|(start, end)| (start * part.size, end * part.size)))
        } else {
            let inner = |outer: u64| {
                held.intervals()
                    .iter()
                    .map(move |(start, end)| (outer * part.size + start, outer * part.size + end))
            };
            IndexSet::from_blocks(product.iter().flat_map(inner))
        };
    }
    product
}
