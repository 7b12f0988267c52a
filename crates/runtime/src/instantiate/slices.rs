//! An all_reduce by slices: every member reduces one slice of the piece, then all take the slices of
//! the others.
//!
//! ```text
//!  members  0      1      2          piece of 7 elements, slices of ceil(7/3) = 3, 3, 1
//!  before   aaaaaaa bbbbbbb ccccccc
//!  reduce   +++     ...+++  ......+  each its own slice, from all members, in their order
//!  gather   +++++++ +++++++ +++++++  each the other slices, from those who made them
//! ```
//!
//! Every member does the same work, and each element is added once, so that all members hold the same
//! bits. Sent: (g - 1) x slice by each member, twice. Inside a loop the slices are those of the elements
//! that the step brings.

use super::moves::Phase;
use super::runs::Runs;
use super::tasks::{Copy, Lies, Onto, Part, Transfer};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::ops::Range;

/// What a device of a group takes: the same of every member, where every member takes the same.
#[derive(PartialEq, Eq)]
struct Group {
    members: Vec<DeviceId>,
    target: usize,
    runs: Runs,
}

/// The two phases of an all_reduce. A device whose group is not one (its members do not all take the
/// same elements of the same members) stays with what it takes directly.
pub(super) fn by_slices(direct: Phase) -> Vec<Phase> {
    let groups: Vec<Option<Group>> = direct.iter().map(|copy| group(copy.as_ref()?)).collect();
    // The first member speaks for its group: what is equal to its list is equal to each other's.
    let agree =
        |group: &Group| group.members.iter().all(|member| groups[member.index()].as_ref() == Some(group));
    let first =
        |device: usize, group: &Group| group.members.first().is_some_and(|first| first.index() == device);
    let speaks: Vec<bool> = groups
        .iter()
        .enumerate()
        .map(|(device, group)| group.as_ref().is_some_and(|group| first(device, group) && agree(group)))
        .collect();
    let place_of = |device: usize| {
        let group = groups[device].as_ref()?;
        let place = group.members.iter().position(|member| member.index() == device)?;
        speaks[group.members[0].index()].then_some((group, place))
    };
    let mut gather: Phase = direct.iter().map(|_| None).collect();
    let mut reduce: Phase = Vec::new();
    for (device, copy) in direct.into_iter().enumerate() {
        let (Some((group, place)), Some(copy)) = (place_of(device), &copy) else {
            reduce.push(copy);
            continue;
        };
        let slices = slices(group.runs.bytes(), copy.dtype.size() as usize, group.members.len());
        reduce.push(reduce_slice(copy, &slices[place]));
        gather[device] = gather_slices(copy, group, place, &slices);
    }
    vec![reduce, gather]
}

/// The group that a device reduces over, if it takes one thing from several members.
fn group(copy: &Copy) -> Option<Group> {
    let [Transfer { parts, target, runs, onto: Onto::Nothing }] = &copy.transfers[..] else {
        return None;
    };
    let members: Vec<DeviceId> = parts.iter().map(|part| part.from).collect();
    let reduces = copy.fill.is_none() && members.len() > 1;
    reduces.then(|| Group { members, target: *target, runs: runs.clone() })
}

/// Ceil slices of so many bytes, of whole elements.
fn slices(bytes: usize, element: usize, members: usize) -> Vec<Range<usize>> {
    let slice = (bytes / element).div_ceil(members) * element;
    (0..members).map(|n| (n * slice).min(bytes)..((n + 1) * slice).min(bytes)).collect()
}

/// The device's own slice from every member.
fn reduce_slice(copy: &Copy, slice: &Range<usize>) -> Option<Copy> {
    let Transfer { parts, target, runs, onto } = &copy.transfers[0];
    let transfer = Transfer { parts: parts.clone(), onto: *onto, target: *target, runs: runs.slice(slice) };
    (!slice.is_empty()).then(|| Copy { transfers: [transfer].into(), fill: None, ..*copy })
}

/// The others' slices from where they made them: the targets of the members, which lie at the same
/// place on all of them.
fn gather_slices(copy: &Copy, group: &Group, place: usize, slices: &[Range<usize>]) -> Option<Copy> {
    let target = group.target;
    let others = group.members.iter().zip(slices).enumerate();
    let others = others.filter(|&(member, (_, slice))| member != place && !slice.is_empty());
    let transfers: Vec<Transfer> = others
        .map(|(_, (&from, slice))| Transfer {
            onto: Onto::Nothing,
            parts: [Part { from, source: target, lies: Lies::InArena }].into(),
            target,
            runs: group.runs.slice(slice).taken_from_target(),
        })
        .collect();
    (!transfers.is_empty()).then(|| Copy { transfers: transfers.into(), fill: None, ..*copy })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_are_ceil_pieces_of_whole_elements() {
        assert_eq!(slices(28, 4, 3), [0..12, 12..24, 24..28]);
        assert_eq!(slices(8, 4, 3), [0..4, 4..8, 8..8]);
        assert_eq!(slices(0, 4, 2), [0..0, 0..0]);
    }
}
