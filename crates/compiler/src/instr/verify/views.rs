//! Whether what devices hold of one value is one run of what they hold of it in another layout, so that it can be
//! used where it lies.

use super::{Counters, sampled_steps};
use crate::instr::{Fault, TensorType};
use crate::layout::{DimCuts, Factor, IndexSet};
use crate::mesh::{AxisId, Coords};
use std::collections::BTreeMap;

/// What is done through a view.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Through {
    /// It is read: each device must hold what it reads.
    Reading,
    /// It is written: each device must write all that it holds of what anyone writes at that step, so that what is
    /// written anywhere is written everywhere it is held. (But along axes on which every device is at a block of its
    /// own: there the program is walked for single devices.)
    Writing,
}

/// Checks a view of a buffer inside loops.
///
/// A piece is row-major. So a part of it is one run if it differs in one dim only, is there without gaps, and
/// all dims around that one have one index:
///
/// ```text
///   y[s, h] at s/stream(4), h/tp     y[s, h] at s/step(4, i0), h/tp     b[2, s, h] at s/step(4, i0)
///   0 1 2 3 4 5 6 7  x  h            2 3  x  h     one run               2 3  x  h  and  2 3  x  h: two
/// ```
pub(crate) fn check_view(
    view: &TensorType,
    of: &TensorType,
    through: Through,
    counters: &Counters,
) -> Result<(), Fault> {
    if view.dims != of.dims || view.dtype != of.dtype {
        return Err(Fault::new("a view does not have the dims and elements of what it is a view of"));
    }
    let (part, whole) = (&view.layout, &of.layout);
    if !part.mesh().same_grid(whole.mesh()) || part.partial() != whole.partial() {
        return Err(Fault::new("a view on other devices, or of other parts, than what it is a view of"));
    }
    let sizes = of.sizes();
    let cut_otherwise = |&dim: &usize| part.plain_cuts(dim, sizes[dim]) != whole.plain_cuts(dim, sizes[dim]);
    let mut dims = (0..sizes.len()).filter(cut_otherwise);
    let Some(dim) = dims.next() else { return Ok(()) };
    let around = &whole.largest_piece(&sizes)[..dim];
    if dims.next().is_some() || around.iter().any(|&indices| indices > 1) {
        return Err(Fault::new("what a device holds of a view does not lie one after another"));
    }
    // Axes along which devices are at different blocks in one step. What they write there is looked at device by
    // device. All blocks are there at once at any step, so that any step shows whether they are runs of one piece.
    let ahead = |factor: &Factor| match factor {
        Factor::Peer(peer) => peer.whose.lead().map(|_| peer.axis),
        _ => None,
    };
    let own_steps: Vec<AxisId> = part.cuts()[dim].iter().filter_map(ahead).collect();
    if whole.cuts()[dim].iter().filter_map(Factor::decided_by).any(|axis| own_steps.contains(&axis)) {
        return Err(Fault::new("a view of other blocks in every step of pieces that differ themselves"));
    }
    let factors = || part.cuts()[dim].iter().chain(&whole.cuts()[dim]);
    let mut axes: Vec<AxisId> = factors().filter_map(Factor::decided_by).collect();
    axes.sort_unstable();
    axes.dedup();
    for steps in sampled_steps(factors(), counters) {
        let [part_held, whole_held] = [part, whole].map(|l| DimCuts::new(l, dim, sizes[dim], &steps));
        let place = |coords: &Coords| own_steps.iter().map(|&axis| coords.along(axis)).collect::<Vec<u64>>();
        let mut anyone: BTreeMap<Vec<u64>, IndexSet> = BTreeMap::new();
        for coords in part.mesh().coords_over(&axes) {
            let known = anyone.entry(place(&coords)).or_default();
            *known = known.union(part_held.at(&coords));
        }
        for coords in part.mesh().coords_over(&axes) {
            let (held, own) = (part_held.at(&coords), whole_held.at(&coords));
            let device = || Some(part.mesh().device_at(part.mesh().place(&coords)));
            if !held.is_subset(own) || held.run_of(own).is_none() {
                return Err(Fault::new("a device does not hold a view as one run of its piece").on(device()));
            }
            if through == Through::Writing && own.intersect(&anyone[&place(&coords)]) != *held {
                return Err(Fault::new("a device holds elements that only others write").on(device()));
            }
        }
    }
    Ok(())
}
