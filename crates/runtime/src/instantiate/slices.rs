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
//! bits. Sent: (g - 1) x slice by each member, twice.

use super::moves::{MovePieces, Phase};
use super::runs::Runs;
use super::tasks::{Copy, Part, Transfer};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::ops::Range;

/// The two phases of an all_reduce. A device whose group is not one (its members do not all take the
/// whole pieces of the same members) stays with what it takes directly.
pub(super) fn by_slices(direct: Phase, pieces: &MovePieces) -> Vec<Phase> {
    let groups: Vec<Option<Vec<DeviceId>>> = direct.iter().map(|copy| members(copy.as_ref()?)).collect();
    let of_group = |device: usize| {
        let group = groups[device].as_ref()?;
        let agrees = |member: &DeviceId| groups[member.index()].as_ref() == Some(group);
        let place = group.iter().position(|member| member.index() == device)?;
        group.iter().all(agrees).then_some((group, place))
    };
    let mut gather: Phase = direct.iter().map(|_| None).collect();
    let mut reduce: Phase = Vec::new();
    for (device, copy) in direct.into_iter().enumerate() {
        let (Some((group, place)), Some(copy)) = (of_group(device), &copy) else {
            reduce.push(copy);
            continue;
        };
        let target =
            pieces.targets[device].as_ref().expect("a device that takes something has a target piece");
        let slices = slices(target.piece.region.len(), pieces.dtype.size() as usize, group.len());
        reduce.push(reduce_slice(copy, &slices[place]));
        gather[device] = gather_slices(copy, group, place, &slices);
    }
    vec![reduce, gather]
}

/// The members of the group that a device reduces over, if it takes the whole piece of each.
fn members(copy: &Copy) -> Option<Vec<DeviceId>> {
    let bytes = copy.transfers.first()?.runs.bytes();
    let in_order = copy.transfers.iter().enumerate().all(|(index, transfer)| {
        transfer.runs.is_whole(bytes) && (transfer.part == Part::First) == (index == 0)
    });
    let members: Vec<DeviceId> = copy.transfers.iter().map(|transfer| transfer.from).collect();
    (in_order && copy.fill.is_none() && members.len() > 1).then_some(members)
}

/// Ceil slices of a piece, in bytes.
fn slices(bytes: usize, element: usize, members: usize) -> Vec<Range<usize>> {
    let slice = (bytes / element).div_ceil(members) * element;
    (0..members).map(|n| (n * slice).min(bytes)..((n + 1) * slice).min(bytes)).collect()
}

/// The device's own slice from every member.
fn reduce_slice(copy: &Copy, slice: &Range<usize>) -> Option<Copy> {
    let transfers = copy.transfers.iter().map(|t| Transfer { runs: stretch(slice), ..*t });
    with_transfers(copy, slice, transfers.collect())
}

/// The others' slices from where they made them.
fn gather_slices(copy: &Copy, group: &[DeviceId], place: usize, slices: &[Range<usize>]) -> Option<Copy> {
    // Buffers lie at the same place on every device.
    let target = copy.transfers[0].target;
    let others = group.iter().zip(slices).enumerate();
    let others = others.filter(|&(member, (_, slice))| member != place && !slice.is_empty());
    let transfers: Vec<Transfer> = others
        .map(|(_, (&from, slice))| Transfer {
            from,
            part: Part::First,
            source: target,
            target,
            runs: stretch(slice),
        })
        .collect();
    let all = slices.first()?.start..slices.last()?.end;
    with_transfers(copy, &all, transfers)
}

fn with_transfers(copy: &Copy, bytes: &Range<usize>, transfers: Vec<Transfer>) -> Option<Copy> {
    let nothing = bytes.is_empty() || transfers.is_empty();
    (!nothing).then(|| Copy {
        dtype: copy.dtype,
        fill: None,
        combine: copy.combine,
        transfers: transfers.into(),
    })
}

fn stretch(slice: &Range<usize>) -> Runs {
    Runs::stretch(slice.start, slice.len())
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
