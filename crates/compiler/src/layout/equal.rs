//! When two layouts are the same: when every device holds the same indices.

use super::{CeilPieces, DimCuts, Factor, Layout};
use crate::id::Id;

impl Layout {
    /// Whether both layouts put the same indices on the same devices, with the same parts still to
    /// be combined. `stream` counts as `local`; an axis of size 1 cuts nothing and is not partial.
    /// Both are of values of these sizes. Layouts with [`Factor::Step`] compare by their factors.
    pub fn same_as(&self, other: &Layout, sizes: &[u64]) -> bool {
        if self.mesh.same_grid(&other.mesh) {
            self.partial_axes() == other.partial_axes()
                && (0..self.ndim()).all(|dim| self.same_dim(other, dim, sizes[dim]))
        } else {
            !self.is_partial() && !other.is_partial() && self.same_on_devices(other, sizes)
        }
    }

    /// The partial axes longer than 1.
    fn partial_axes(&self) -> Vec<super::Partial> {
        self.partial.iter().copied().filter(|p| self.mesh.size(p.axis) > 1).collect()
    }

    /// Whether both layouts, on one grid, cut a dim of that size into the same pieces.
    pub fn same_dim(&self, other: &Layout, dim: usize, size: u64) -> bool {
        let (a, b) = (self.plain_cuts(dim, size), other.plain_cuts(dim, size));
        if a == b {
            return true;
        }
        let has_step = |cuts: &[Factor]| cuts.iter().any(|f| f.step().is_some());
        if has_step(&a) || has_step(&b) {
            return false;
        }
        // Pieces are decided by the axes of either list. An axis in one list only must not matter,
        // so compare over all coordinates of both.
        let (a, b) = (DimCuts::of(&a, &self.mesh, size, &[]), DimCuts::of(&b, &other.mesh, size, &[]));
        let mut axes: Vec<_> = a.axes().chain(b.axes()).collect();
        axes.sort_unstable();
        axes.dedup();
        self.mesh.coords_over(&axes).all(|coords| a.at(&coords) == b.at(&coords))
    }

    /// A dim's factors without those that cut nothing: what remains decides the piece.
    pub fn plain_cuts(&self, dim: usize, size: u64) -> Vec<Factor> {
        let mut plain: Vec<Factor> = Vec::new();
        for factor in &self.cuts[dim] {
            let factor = factor.stored(size);
            let cuts_nothing = match &factor {
                Factor::Axis(axis) => self.mesh.size(*axis) == 1,
                Factor::Sizes(_, sizes) => sizes.len() == 1,
                Factor::Peer(peer) => self.mesh.size(peer.axis) == 1,
                Factor::Local(count) | Factor::Step(count, _) => *count == 1,
                Factor::Stream(_) => unreachable!("streams became local above"),
            };
            if !cuts_nothing {
                plain.push(factor);
            }
        }
        while matches!(plain.last(), Some(Factor::Local(_))) {
            plain.pop();
        }
        if let Some(Factor::Sizes(axis, sizes)) = plain.first() {
            let even = CeilPieces::new(size, self.mesh.size(*axis));
            if even.sizes().eq(sizes.iter().copied()) {
                plain[0] = Factor::Axis(*axis);
            }
        }
        plain
    }

    fn same_on_devices(&self, other: &Layout, sizes: &[u64]) -> bool {
        let bound = self.mesh.device_bound().max(other.mesh.device_bound());
        (0..bound as usize)
            .map(Id::new)
            .all(|device| self.piece_of(sizes, device) == other.piece_of(sizes, device))
    }
}
