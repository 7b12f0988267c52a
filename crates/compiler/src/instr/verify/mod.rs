//! What must hold of every type, computation and move by itself, in both forms that devices run.
//!
//! * [`check_type`]: the layout is one of the dims, holds every index, and steps only over counters of
//!   the loops around it.
//! * [`check_compute`]: operands and result are the projections of the layout of the space.
//! * [`check_move`]: both ends are the same value, and the kind says what happens.
//! * [`check_view`]: what devices hold of one is one run of what they hold of the other.
//! * [`check_loan`]: what devices get in a move are runs of what others hold, and [`check_by_blocks`]: a
//!   computation can be done run by run.
//!
//! The checks share no code with what makes the forms: pieces are compared as sets of indices.

mod compute;
mod loans;
mod moves;
mod projection;
mod views;

pub(crate) use compute::check_compute;
pub(crate) use loans::{check_by_blocks, check_loan};
pub(crate) use moves::{added_axes, axes_of_own_steps, check_move, groups_meet};
pub(crate) use views::{Through, check_view};

use super::{Fault, TensorType};
use crate::id::Id;
use crate::layout::{Cuts, Factor, Layout, Peer, StepId, Steps};
use crate::mesh::Mesh;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The counters of the loops around an instruction, each with its number of steps.
pub(crate) type Counters = [(StepId, u64)];

/// More counters than this around one instruction are refused: every combination of steps is looked at.
pub(crate) const MOST_COUNTERS: usize = 8;

/// Ids of counters are below this: steps are kept in a list by id.
pub(crate) const MOST_COUNTER_IDS: usize = 256;

/// Two meshes of one name are one mesh.
pub(crate) fn check_meshes<'a>(meshes: impl IntoIterator<Item = &'a Arc<Mesh>>) -> Result<(), Fault> {
    let mut by_name: BTreeMap<&str, &Arc<Mesh>> = BTreeMap::new();
    for mesh in meshes {
        if *by_name.entry(mesh.name()).or_insert(mesh) != mesh {
            return Err(Fault::new(format!("two meshes are called `{}`", mesh.name())));
        }
    }
    Ok(())
}

/// Enters a loop: its counters are new, and not too many.
pub(crate) fn enter_loop(counters: &mut Vec<(StepId, u64)>, own: &Counters) -> Result<(), Fault> {
    for &(counter, steps) in own {
        if counters.iter().any(|(id, _)| *id == counter) {
            return Err(Fault::new(format!("{counter} counts two loops at once")));
        }
        if counters.len() == MOST_COUNTERS || counter.index() >= MOST_COUNTER_IDS {
            return Err(Fault::new(format!("too many counters at {counter}")));
        }
        counters.push((counter, steps));
    }
    Ok(())
}

/// Checks the type of a value that is defined inside the given loops.
pub(crate) fn check_type(ty: &TensorType, counters: &Counters) -> Result<(), Fault> {
    for (at, (name, _)) in ty.dims.iter().enumerate() {
        if ty.dims[..at].iter().any(|(before, _)| before == name) {
            return Err(Fault::new(format!("dim `{name}` stands twice")));
        }
    }
    check_layout(&ty.layout, ty.dims.len(), counters)?;
    if let Some(dim) = ty.layout.loses(&ty.sizes()) {
        let name = &ty.dims[dim].0;
        return Err(Fault::new(format!("the given pieces of dim `{name}` do not hold all of it")));
    }
    Ok(())
}

/// Checks the factors of a layout of `ndim` dims.
pub(crate) fn check_layout(layout: &Layout, ndim: usize, counters: &Counters) -> Result<(), Fault> {
    if layout.ndim() != ndim {
        return Err(Fault::new(format!("a layout of {} dims stands at a value of {ndim}", layout.ndim())));
    }
    let mut followed: Vec<StepId> = layout.cuts().iter().flatten().filter_map(Factor::step).collect();
    followed.sort_unstable();
    if let Some(twice) = followed.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(Fault::new(format!("{} picks twice in one layout", twice[0])));
    }
    for factor in layout.cuts().iter().flatten() {
        match factor {
            Factor::Axis(_) => {}
            Factor::Sizes(axis, sizes) => {
                let (places, given) = (layout.mesh().size(*axis), sizes.len());
                if places != given as u64 {
                    return Err(Fault::new(format!("{given} given pieces for an axis of {places}")));
                }
            }
            Factor::Local(0) | Factor::Step(0, _) | Factor::Stream(Steps::Count(0)) => {
                return Err(Fault::new("a dim is cut into 0 blocks"));
            }
            Factor::Local(_) | Factor::Stream(_) => {}
            Factor::Peer(peer) => check_peer(layout, peer, counters)?,
            Factor::Step(count, step) => match counters.iter().find(|(id, _)| id == step) {
                None => return Err(Fault::new(format!("{step} is not the counter of a loop around it"))),
                Some((_, steps)) if steps > count => {
                    return Err(Fault::new(format!("{step} runs {steps} steps over {count} blocks")));
                }
                Some(_) => {}
            },
        }
    }
    Ok(())
}

/// A peer is picked by the counter of a loop around, from as many as the axis is long.
fn check_peer(layout: &Layout, peer: &Peer, counters: &Counters) -> Result<(), Fault> {
    let Peer { axis, sizes, step, whose } = peer;
    let places = layout.mesh().size(*axis);
    if let Some(sizes) = sizes {
        let last = |cuts: &Cuts| cuts.last() == Some(&Factor::Peer(peer.clone()));
        if places != sizes.len() as u64 {
            return Err(Fault::new(format!("{} given pieces for an axis of {places}", sizes.len())));
        }
        if !layout.cuts().iter().any(last) {
            return Err(Fault::new("a peer's given piece is cut further"));
        }
    }
    match counters.iter().find(|(id, _)| id == step) {
        None => Err(Fault::new(format!("{step} is not the counter of a loop around it"))),
        Some((_, steps)) if *steps > places => {
            Err(Fault::new(format!("{step} runs {steps} steps over an axis of {places}")))
        }
        // Each device begins elsewhere: only who goes all the way around has been everywhere.
        Some((_, steps)) if whose.lead().is_some() && *steps < places => {
            Err(Fault::new(format!("{step} runs {steps} steps, not all around an axis of {places}")))
        }
        Some(_) => Ok(()),
    }
}

/// Steps at which layouts are compared: for each counter that some factor uses the first two and the
/// last two, in all combinations; by step id.
///
/// Which block a step picks is an affine function of the step, but for the last block, which may be
/// smaller. So what holds at the first two steps and at the last two holds at all of them.
pub(crate) fn sampled_steps<'a>(
    factors: impl IntoIterator<Item = &'a Factor>,
    counters: &Counters,
) -> Vec<Vec<u64>> {
    let used: Vec<StepId> = factors.into_iter().filter_map(Factor::step).collect();
    let length = counters.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0);
    let mut samples = vec![vec![0; length]];
    for &(id, steps) in counters.iter().filter(|(id, _)| used.contains(id)) {
        let mut picked = vec![0, 1, steps.saturating_sub(2), steps.saturating_sub(1)];
        picked.retain(|&step| step < steps.max(1));
        picked.sort_unstable();
        picked.dedup();
        samples = samples
            .iter()
            .flat_map(|sample| {
                picked.iter().map(|&step| {
                    let mut sample = sample.clone();
                    sample[id.index()] = step;
                    sample
                })
            })
            .collect();
    }
    samples
}
