//! Places for buffers: one arena for every device, as small as a greedy search makes it.
//!
//! Two buffers may share bytes if no device holds both at once: their lives do not overlap in the text,
//! or their meshes have no device in common. The text of a loop's body stands for all its steps: what
//! lives inside a step has ended before the next step begins.
//!
//! ```text
//!  bytes ▲  b0 argument ───────────────────────────
//!        │  b2 ──────┐  b4 ──────────────┐
//!        │  b3 ──────────────┐  b5 ──────────────── result
//!        └──────────────────────────────────▶ place in the text
//! ```
//!
//! The largest buffers are placed first, each at the lowest place where nothing is in its way; ties go
//! by id. This is the usual heuristic for the problem, which is hard; it is within a few percent of the
//! largest sum of live bytes on layered programs.
//!
//! Constants come first and share no bytes with anything else, so that their places follow from their own
//! types alone: they stay where they are when the next run has other sizes.
//!
//! On several streams the text is not the order in which things happen: a free must then be ordered
//! before the allocations that reuse its bytes, which the verifier checks.

use super::lives::{Life, lives};
use crate::host::{BufferId, HostProgram, MeshPairs, Role};
use std::ops::Range;

/// The program with a place of its own for every buffer: always right.
pub(super) fn apart(mut program: HostProgram) -> HostProgram {
    program.arena = 0;
    for id in program.buffers.keys() {
        program.buffers[id].offset = program.arena;
        program.arena = program.buffers[id].extent().end;
    }
    program
}

/// The program with every buffer in its place: first the constants, then the others above them.
pub(super) fn place(mut program: HostProgram) -> HostProgram {
    let lives = lives(&program);
    let meshes = MeshPairs::new(&program.buffers);
    let mut order: Vec<BufferId> = program.buffers.keys().collect();
    order.sort_by_key(|&id| (std::cmp::Reverse(program.buffers[id].all_bytes()), id));
    let is_constant = |id: &BufferId| program.buffers[*id].role == Role::Constant;
    let (constants, others): (Vec<BufferId>, Vec<BufferId>) = order.into_iter().partition(is_constant);
    program.arena = 0;
    for ids in [constants, others] {
        let floor = program.arena;
        // By offset, so that the gaps come from below.
        let mut placed: Vec<BufferId> = Vec::new();
        for id in ids {
            let in_the_way =
                |other: &BufferId| overlap(&lives[id], &lives[*other]) && meshes.meet(id, *other);
            let taken = placed.iter().copied().filter(in_the_way);
            let taken = taken.map(|other| program.buffers[other].extent());
            let bytes = program.buffers[id].all_bytes();
            let offset = lowest_gap(floor, taken, bytes);
            program.buffers[id].offset = offset;
            program.arena = program.arena.max(offset.saturating_add(bytes));
            let at = placed.partition_point(|&other| program.buffers[other].offset <= offset);
            placed.insert(at, id);
        }
    }
    program
}

/// Whether two buffers are alive at one place of the text. The action that ends one may not begin the
/// other.
fn overlap(a: &Life, b: &Life) -> bool {
    a.start <= b.end && b.start <= a.end
}

/// The lowest place of so many bytes, from `floor` on, that meets none of those taken, which come by their
/// start.
fn lowest_gap(floor: u64, taken: impl Iterator<Item = Range<u64>>, bytes: u64) -> u64 {
    let mut place = floor;
    for taken in taken {
        if place.saturating_add(bytes) <= taken.start {
            break;
        }
        place = place.max(taken.end);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_from_below() {
        let gap =
            |taken: &[(u64, u64)], bytes| lowest_gap(0, taken.iter().map(|&(start, end)| start..end), bytes);
        assert_eq!(gap(&[], 64), 0);
        assert_eq!(gap(&[(0, 64), (128, 192)], 64), 64);
        assert_eq!(gap(&[(0, 64), (128, 192)], 128), 192);
        assert_eq!(gap(&[(0, 256), (64, 128)], 64), 256);
        assert_eq!(gap(&[(64, 128)], 0), 0);
    }
}
