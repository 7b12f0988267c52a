//! What must hold of a move.

use super::{Counters, sampled_steps};
use crate::dtype::Combine;
use crate::instr::{Fault, Kind, Move, TensorType};
use crate::layout::{DimCuts, Factor, IndexSet, Layout, Partial};
use crate::mesh::{AxisId, Coords, DeviceId};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Checks a move inside loops between two types.
pub(crate) fn check_move<V>(
    moved: &Move<V>,
    source: &TensorType,
    target: &TensorType,
    counters: &Counters,
) -> Result<(), Fault> {
    if source.dims != target.dims {
        return Err(Fault::new("source and target do not have the same dims"));
    }
    if source.dtype != target.dtype {
        let (from, to) = (source.dtype, target.dtype);
        return Err(Fault::new(format!("{from} elements move to where {to} is stored")));
    }
    // Nothing is combined of nothing.
    let reduced = match source.is_empty() {
        true => Vec::new(),
        false => reduced_axes(&source.layout, &target.layout),
    };
    check_reduction(moved, &source.layout, &reduced)?;
    check_group(moved, &source.layout, &target.layout)?;
    match moved.kind {
        Kind::Local => check_copy(source, target, counters),
        kind => check_pieces(kind, source, target),
    }
}

/// The axes (longer than 1) that are partial in the target and whose parts the source does not have.
pub(crate) fn added_axes(source: &Layout, target: &Layout) -> Vec<AxisId> {
    let longer = target.partial().iter().filter(|p| target.mesh().size(p.axis) > 1);
    longer.filter(|p| !stays_partial(p, source, target)).map(|p| p.axis).collect()
}

/// The axes (longer than 1) whose parts are combined.
fn reduced_axes(source: &Layout, target: &Layout) -> Vec<AxisId> {
    let longer = source.partial().iter().filter(|p| source.mesh().size(p.axis) > 1);
    longer.filter(|p| !stays_partial(p, source, target)).map(|p| p.axis).collect()
}

/// Whether an axis has the same parts before and after: it is partial in both layouts, on one grid, and
/// no operator that comes after its own is applied in between.
fn stays_partial(part: &Partial, source: &Layout, target: &Layout) -> bool {
    let both = source.partial().contains(part) && target.partial().contains(part);
    let applied = |p: &Partial| source.mesh().size(p.axis) > 1 && !target.partial().contains(p);
    let later = source.partial().iter().any(|p| p.combine > part.combine && applied(p));
    both && !later && source.mesh().same_grid(target.mesh())
}

/// The axes along which every device keeps what it holds: they cut the source and become partial, all
/// parts of the target are combined alike, and nothing is filled step by step.
fn axes_in_place(source: &Layout, target: &Layout) -> Vec<AxisId> {
    let in_steps =
        |layout: &Layout| layout.has_stream() || layout.cuts().iter().flatten().any(|f| f.step().is_some());
    let operators: BTreeSet<Combine> = target.partial().iter().map(|p| p.combine).collect();
    if operators.len() != 1 || in_steps(source) || in_steps(target) || !source.mesh().same_grid(target.mesh())
    {
        return Vec::new();
    }
    let added = added_axes(source, target).into_iter();
    added.filter(|&axis| source.cuts_by(axis).is_some()).collect()
}

/// The axes along which every device puts what it holds into its own piece: it is ahead of the others in the
/// source, the target does not follow, and the axis has no parts to be combined.
pub(crate) fn axes_of_own_steps(source: &Layout, target: &Layout) -> Vec<AxisId> {
    let ahead = |layout: &Layout| -> Vec<AxisId> {
        let axis = |factor: &Factor| match factor {
            Factor::Peer(peer) => peer.whose.lead().map(|_| peer.axis),
            _ => None,
        };
        layout.cuts().iter().flatten().filter_map(axis).collect()
    };
    let followed = ahead(target);
    let partial = |axis: &AxisId| source.partial().iter().any(|p| p.axis == *axis);
    ahead(source).into_iter().filter(|axis| !followed.contains(axis) && !partial(axis)).collect()
}

fn check_reduction<V>(moved: &Move<V>, source: &Layout, reduced: &[AxisId]) -> Result<(), Fault> {
    let name = moved.kind.name();
    match (moved.kind, reduced.first()) {
        (Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce, None) => {
            Err(Fault::new(format!("{name}, but no axis is partial in the source only")))
        }
        (Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce | Kind::Redistribute, _) | (_, None) => Ok(()),
        (_, Some(&axis)) => {
            let axis = &source.mesh().axes()[axis].name;
            Err(Fault::new(format!("{name} does not combine, but `{axis}` is partial in the source only")))
        }
    }
}

/// The named axes are axes of the meshes; on one grid they make the group.
fn check_group<V>(moved: &Move<V>, source: &Layout, target: &Layout) -> Result<(), Fault> {
    for axis in &moved.axes {
        if source.mesh().axis(axis).is_none() && target.mesh().axis(axis).is_none() {
            return Err(Fault::new(format!("neither mesh has an axis `{axis}`")));
        }
    }
    if moved.kind.communicates() && moved.group < 2 {
        return Err(Fault::new(format!("{} in a group of {}", moved.kind.name(), moved.group)));
    }
    if moved.kind.communicates() && source.mesh().same_grid(target.mesh()) {
        let axes = moved.axes.iter().filter_map(|axis| source.mesh().axis(axis));
        let group: u64 = axes.map(|axis| source.mesh().size(axis)).product();
        if group != moved.group {
            return Err(Fault::new(format!("the axes make groups of {group}, not of {}", moved.group)));
        }
    }
    Ok(())
}

/// On one grid: whether the pieces are what the kind says, as far as the two layouts alone say it.
fn check_pieces(kind: Kind, source: &TensorType, target: &TensorType) -> Result<(), Fault> {
    let (from, to) = (&source.layout, &target.layout);
    let same_set = from.mesh().same_devices(to.mesh());
    if kind == Kind::SendRecv && same_set {
        return Err(Fault::new("send_recv between the devices of one set"));
    }
    if kind == Kind::Permute && !same_set {
        return Err(Fault::new("permute between different sets of devices"));
    }
    let in_steps = from.cuts().iter().chain(to.cuts()).flatten().any(|f| f.step().is_some());
    if kind == Kind::AllReduce && !in_steps && from.mesh().same_grid(to.mesh()) {
        let other = (0..from.ndim()).find(|&dim| !from.same_dim(to, dim, source.dims[dim].1));
        if let Some(dim) = other {
            return Err(Fault::new(format!("all_reduce changes how dim `{}` is cut", source.dims[dim].0)));
        }
    }
    Ok(())
}

/// Every device holds all it needs itself, as far as any device holds it at that step.
fn check_copy(source: &TensorType, target: &TensorType, counters: &Counters) -> Result<(), Fault> {
    let sizes = source.sizes();
    let (from, to) = (&source.layout, &target.layout);
    let same_grid = from.mesh().same_grid(to.mesh());
    if same_grid && (0..sizes.len()).all(|dim| cuts_finer(from, to, dim, sizes[dim])) {
        return Ok(());
    }
    let mut in_place = axes_in_place(from, to);
    in_place.extend(axes_of_own_steps(from, to));
    let factors = from.cuts().iter().chain(to.cuts()).flatten();
    for steps in sampled_steps(factors, counters) {
        let ranges: Vec<Range<u64>> = steps.iter().map(|&step| step..step + 1).collect();
        let covered = from.reach(&sizes, &ranges);
        let dims: Vec<SourceDim> = (0..sizes.len())
            .map(|dim| SourceDim::new(from, dim, sizes[dim], &steps, &covered[dim], &in_place))
            .collect();
        if same_grid && (0..sizes.len()).all(|dim| dims[dim].is_own(to, dim, sizes[dim], &steps)) {
            continue;
        }
        // Some piece is foreign along one dim; it does not matter where another dim is empty.
        for device in to.mesh().devices() {
            let own = from.mesh().place_of(device).map(|place| from.mesh().coords(place));
            let needed = to.piece_at_step(&sizes, device, &steps).unwrap_or_default();
            let needed = needed.iter().zip(&dims).map(|(needed, dim)| dim.given_to(own.as_ref(), needed));
            let needed: Vec<IndexSet> = needed.collect();
            let identity = is_filled(from, to, device);
            if identity || needed.iter().any(IndexSet::is_empty) {
                continue;
            }
            let own = from.piece_at_step(&sizes, device, &steps);
            let has_all = own.is_some_and(|own| needed.iter().zip(&own).all(|(n, own)| n.is_subset(own)));
            if !has_all {
                return Err(Fault::new("a copy, but elements of other devices are needed").on(Some(device)));
            }
        }
    }
    Ok(())
}

/// Whether the target cuts the source's pieces further, or not at all.
fn cuts_finer(from: &Layout, to: &Layout, dim: usize, size: u64) -> bool {
    let (from, to) = (from.plain_cuts(dim, size), to.plain_cuts(dim, size));
    to.starts_with(&from)
}

/// One dim of a copy's source: what it has for whom.
struct SourceDim {
    held: DimCuts,
    /// What the source has at all.
    covered: IndexSet,
    /// Those axes of the dim along which every device takes what is at its own coordinate, and what the
    /// source has at each of their coordinates; empty if there is none.
    in_place: Vec<AxisId>,
    at_place: BTreeMap<Vec<u64>, IndexSet>,
}

impl SourceDim {
    fn new(
        from: &Layout,
        dim: usize,
        size: u64,
        steps: &[u64],
        covered: &IndexSet,
        in_place: &[AxisId],
    ) -> SourceDim {
        let held = DimCuts::new(from, dim, size, steps);
        let axes: Vec<AxisId> = held.axes().collect();
        let in_place: Vec<AxisId> = axes.iter().copied().filter(|axis| in_place.contains(axis)).collect();
        let mut at_place: BTreeMap<Vec<u64>, IndexSet> = BTreeMap::new();
        if !in_place.is_empty() {
            for (at, piece) in from.mesh().coords_over(&axes).zip(held.pieces()) {
                let place = in_place.iter().map(|&axis| at.along(axis)).collect();
                let known = at_place.entry(place).or_default();
                *known = known.union(piece);
            }
        }
        SourceDim { held, covered: covered.clone(), in_place, at_place }
    }

    /// Of what a device at these coordinates needs, that which the source gives it.
    fn given_to(&self, own: Option<&Coords>, needed: &IndexSet) -> IndexSet {
        let place = own.map(|own| self.in_place.iter().map(|&axis| own.along(axis)).collect::<Vec<u64>>());
        match place.and_then(|place| self.at_place.get(&place)) {
            Some(here) => needed.intersect(here),
            None => needed.intersect(&self.covered),
        }
    }

    /// Whether every device holds what it is given of this dim of the target.
    fn is_own(&self, to: &Layout, dim: usize, size: u64, steps: &[u64]) -> bool {
        let needed = DimCuts::new(to, dim, size, steps);
        let mut axes: Vec<AxisId> = self.held.axes().chain(needed.axes()).collect();
        axes.sort_unstable();
        axes.dedup();
        let mut all = to.mesh().coords_over(&axes);
        all.all(|at| self.given_to(Some(&at), needed.at(&at)).is_subset(self.held.at(&at)))
    }
}

/// Whether a device's target is the identity of an operator: an axis is partial in the target only,
/// and the device is not at its coordinate 0.
fn is_filled(from: &Layout, to: &Layout, device: DeviceId) -> bool {
    let Some(place) = to.mesh().place_of(device) else { return false };
    let coords = to.mesh().coords(place);
    let in_place = axes_in_place(from, to);
    added_axes(from, to).into_iter().any(|axis| !in_place.contains(&axis) && coords.along(axis) != 0)
}

/// Whether some two devices take part in one group of each of two moves.
pub(crate) fn groups_meet<V, W>(
    first: (&Move<V>, &TensorType, &TensorType),
    second: (&Move<W>, &TensorType, &TensorType),
) -> bool {
    let grid = first.1.layout.mesh();
    let others = [&first.2.layout, &second.1.layout, &second.2.layout];
    if others.iter().all(|layout| layout.mesh().same_grid(grid)) {
        // Members of a group agree along all axes that are not named.
        let shared = first.0.axes.iter().filter(|axis| second.0.axes.contains(axis));
        return shared.filter_map(|axis| grid.axis(axis)).any(|axis| grid.size(axis) > 1);
    }
    let devices = |source: &TensorType, target: &TensorType| {
        let both = source.layout.mesh().devices().chain(target.layout.mesh().devices());
        let mut devices: Vec<DeviceId> = both.collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    };
    let (first, second) = (devices(first.1, first.2), devices(second.1, second.2));
    first.iter().filter(|device| second.binary_search(device).is_ok()).count() > 1
}
