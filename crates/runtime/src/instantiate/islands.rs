//! Which devices move bytes by reading each other's memory, and which by messages.
//!
//! Devices that read from each other, directly or over others, make an *island*. An island within one host stays as
//! it is. The members of any other exchange messages, all of them, also those that share a host, so that they see one
//! form and can take part in one collective of the engine.

use super::messages::Island;
use super::moves::Phase;
use super::tasks::{Copy, Messages};
use crate::engine::Place;
use shardweave_compiler::id::Id;
use std::collections::BTreeMap;

/// The islands of a phase that span hosts, each with its members in ascending order; none if all devices read from
/// devices of their own hosts only.
pub(super) fn across_hosts(phase: &Phase, place: &Place) -> Vec<Vec<usize>> {
    let spans =
        |members: &Vec<usize>| members.iter().any(|&device| place.hosts[device] != place.hosts[members[0]]);
    islands(phase).into_iter().filter(spans).collect()
}

/// Takes a phase apart: what devices take by reading each other's memory, and what this rank does in messages, in these
/// islands.
pub(super) fn apart(
    mut phase: Phase,
    across: &[Vec<usize>],
    rank: usize,
    stream: usize,
) -> (Phase, Option<Messages>) {
    let own = across.iter().find(|members| members.contains(&rank));
    let messages = own.map(|members| Island { phase: &phase, members }.messages(rank, stream));
    across.iter().flatten().for_each(|&device| phase[device] = None);
    (phase, messages)
}

/// The members of each island, in ascending order.
fn islands(phase: &Phase) -> Vec<Vec<usize>> {
    // For each device another one of its island, or itself: then it speaks for the island.
    let mut toward: Vec<usize> = (0..phase.len()).collect();
    let speaker = |toward: &[usize], mut device: usize| {
        while toward[device] != device {
            device = toward[device];
        }
        device
    };
    for (reader, copy) in phase.iter().enumerate() {
        for (from, _) in copy.iter().flat_map(Copy::sources) {
            let (a, b) = (speaker(&toward, reader), speaker(&toward, from.index()));
            toward[a.max(b)] = a.min(b);
        }
    }
    let mut islands: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for device in 0..phase.len() {
        islands.entry(speaker(&toward, device)).or_default().push(device);
    }
    islands.into_values().collect()
}
