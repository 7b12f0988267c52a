//! What a device holds of the dims of a space. Most dims are cut by the layout of the space; some follow
//! another dim:
//!
//! ```text
//!   d/tp               0 1 | 2 3 | 4 5 | 6 7
//!   a window of d        0 | 1 2 | 3 4 | 5 6      what is held of d
//!   the parts of d       0 |   1 |   2 |   3      which part of d is held
//! ```

use super::{DimUse, Space, SpaceId};
use crate::id::Id;
use crate::layout::{DimCuts, Factor, IndexSet, Layout, Place};
use crate::mesh::{AxisId, DeviceId};

impl Space {
    /// The indices that a device holds of every dim at a step, when the space is laid out as `over`;
    /// `None` if it is not in the mesh.
    pub fn piece_at_step(&self, over: &Layout, device: DeviceId, steps: &[u64]) -> Option<Vec<IndexSet>> {
        let coords = over.mesh().coords(over.mesh().place_of(device)?);
        let sizes: Vec<u64> = self.dims.values().map(|dim| dim.size).collect();
        let mut held = over.piece(&sizes, Place { coords: &coords, steps });
        for dim in self.dims.keys() {
            if let Some((of, range)) = self.window(dim) {
                held[dim.index()] = held[of.index()].within(&range);
            }
            if let DimUse::PartsOf(of) = self.dims[dim].usage {
                let axes = cutting_axes(over, of).into_iter();
                let part = axes.fold(0, |at, axis| at * over.mesh().size(axis) + coords.along(axis));
                held[dim.index()] = IndexSet::range(part, part + 1);
            }
        }
        Some(held)
    }

    /// How many indices of each dim a device holds at most, when the space is laid out as `over`.
    pub fn largest_piece(&self, over: &Layout) -> Vec<u64> {
        let sizes: Vec<u64> = self.dims.values().map(|dim| dim.size).collect();
        let mut largest = over.largest_piece(&sizes);
        for dim in self.dims.keys() {
            if let Some((of, range)) = self.window(dim) {
                let cuts = DimCuts::new(over, of.index(), sizes[of.index()], &[]);
                let counts = cuts.pieces().iter().map(|piece| piece.within(&range).count());
                largest[dim.index()] = counts.max().unwrap_or(0);
            }
            if let DimUse::PartsOf(_) = self.dims[dim].usage {
                largest[dim.index()] = 1;
            }
        }
        largest
    }
}

/// The axes longer than 1 that cut a dim of a space, in the order of the mesh: they count its parts.
pub fn cutting_axes(over: &Layout, dim: SpaceId) -> Vec<AxisId> {
    let axes = over.cuts()[dim.index()].iter().filter_map(Factor::axis);
    let mut axes: Vec<AxisId> = axes.filter(|&axis| over.mesh().size(axis) > 1).collect();
    axes.sort_unstable();
    axes
}
