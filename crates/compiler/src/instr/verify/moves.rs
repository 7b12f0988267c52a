//! What must hold of a move.

use super::{Counters, sampled_steps};
use crate::instr::{Fault, Kind, Move, TensorType};
use crate::layout::{DimCuts, IndexSet, Layout};
use crate::mesh::{AxisId, DeviceId};
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
        false => partial_only_in(&source.layout, &target.layout),
    };
    check_reduction(moved, &source.layout, &reduced)?;
    check_group(moved, &source.layout, &target.layout)?;
    match moved.kind {
        Kind::Local => check_copy(source, target, counters),
        kind => check_pieces(kind, source, target),
    }
}

/// The axes (longer than 1) that are partial in the target and not in the source.
pub(crate) fn added_axes(source: &Layout, target: &Layout) -> Vec<AxisId> {
    partial_only_in(target, source)
}

/// The axes (longer than 1) that are partial in one layout and not in the other.
fn partial_only_in(layout: &Layout, other: &Layout) -> Vec<AxisId> {
    let one_grid = layout.mesh().same_grid(other.mesh());
    let stays = |p| one_grid && other.partial().contains(p);
    let partial = layout.partial().iter().filter(|p| layout.mesh().size(p.axis) > 1 && !stays(p));
    partial.map(|p| p.axis).collect()
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
    let factors = from.cuts().iter().chain(to.cuts()).flatten();
    for steps in sampled_steps(factors, counters) {
        let ranges: Vec<Range<u64>> = steps.iter().map(|&step| step..step + 1).collect();
        let covered = from.reach(&sizes, &ranges);
        if same_grid
            && (0..sizes.len()).all(|dim| dim_is_own(from, to, dim, sizes[dim], &steps, &covered[dim]))
        {
            continue;
        }
        // Some piece is foreign along one dim; it does not matter where another dim is empty.
        for device in to.mesh().devices() {
            let needed = to.piece_at_step(&sizes, device, &steps).unwrap_or_default();
            let needed: Vec<IndexSet> = needed.iter().zip(&covered).map(|(a, b)| a.intersect(b)).collect();
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

/// Whether along one dim every device holds what it needs of what any device holds.
fn dim_is_own(from: &Layout, to: &Layout, dim: usize, size: u64, steps: &[u64], covered: &IndexSet) -> bool {
    let held = DimCuts::new(from, dim, size, steps);
    let needed = DimCuts::new(to, dim, size, steps);
    let mut axes: Vec<AxisId> = held.axes().chain(needed.axes()).collect();
    axes.sort_unstable();
    axes.dedup();
    let mut all = from.mesh().coords_over(&axes);
    all.all(|at| needed.at(&at).intersect(covered).is_subset(held.at(&at)))
}

/// Whether a device's target is the identity of an operator: an axis is partial in the target only,
/// and the device is not at its coordinate 0.
fn is_filled(from: &Layout, to: &Layout, device: DeviceId) -> bool {
    let Some(place) = to.mesh().place_of(device) else { return false };
    let coords = to.mesh().coords(place);
    added_axes(from, to).into_iter().any(|axis| coords.along(axis) != 0)
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
