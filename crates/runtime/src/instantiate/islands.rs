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

/// Takes a phase apart: what devices take by reading each other's memory, and what this rank does in messages.
pub(super) fn apart(mut phase: Phase, place: &Place, stream: usize) -> (Phase, Option<Messages>) {
    let mut messages = None;
    for members in islands(&phase).into_iter().filter(|members| !is_on_one_host(members, place)) {
        if members.contains(&place.rank) {
            messages = Some(Island { phase: &phase, members: &members }.messages(place.rank, stream));
        }
        members.iter().for_each(|&device| phase[device] = None);
    }
    (phase, messages)
}

/// Whether all devices read from devices of their own hosts only.
pub(super) fn stays_on_hosts(phase: &Phase, place: &Place) -> bool {
    islands(phase).iter().all(|members| is_on_one_host(members, place))
}

fn is_on_one_host(members: &[usize], place: &Place) -> bool {
    members.iter().all(|&device| place.hosts[device] == place.hosts[members[0]])
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
