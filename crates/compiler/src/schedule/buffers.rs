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

use crate::host::{Action, Buffer, BufferId, HostProgram, MeshPairs, Role};
use crate::id::Table;

/// The program with every buffer in its place: first the constants, then the others above them.
pub(super) fn place(mut program: HostProgram) -> HostProgram {
    let lives = lives(&program);
    let meshes = MeshPairs::new(&program.buffers);
    let mut order: Vec<BufferId> = program.buffers.keys().collect();
    order.sort_by_key(|&id| (std::cmp::Reverse(program.buffers[id].bytes), id));
    let is_constant = |id: &BufferId| program.buffers[*id].role == Role::Constant;
    let (constants, others): (Vec<BufferId>, Vec<BufferId>) = order.into_iter().partition(is_constant);
    program.arena = 0;
    for ids in [constants, others] {
        let floor = program.arena;
        // By offset, so that the gaps come from below.
        let mut placed: Vec<BufferId> = Vec::new();
        for id in ids {
            let in_the_way = |other: &BufferId| lives[id].overlaps(&lives[*other]) && meshes.meet(id, *other);
            let taken = placed.iter().copied().filter(in_the_way);
            let taken = taken.map(|other| extent(&program.buffers[other]));
            let bytes = program.buffers[id].bytes;
            let offset = lowest_gap(floor, taken, bytes);
            program.buffers[id].offset = offset;
            program.arena = program.arena.max(offset.saturating_add(bytes));
            let at = placed.partition_point(|&other| program.buffers[other].offset <= offset);
            placed.insert(at, id);
        }
    }
    program
}

/// From which action to which, counted in the text, a buffer is alive.
#[derive(Clone, Copy, Debug)]
struct Life {
    first: usize,
    last: usize,
}

impl Life {
    fn overlaps(&self, other: &Life) -> bool {
        self.first <= other.last && other.first <= self.last
    }
}

/// Buffers without an allocation live from the start, those without a free to the end.
fn lives(program: &HostProgram) -> Table<BufferId, Life> {
    let whole = Life { first: 0, last: usize::MAX };
    let mut lives: Table<BufferId, Life> = program.buffers.keys().map(|_| whole).collect();
    for (at, (_, action)) in program.actions().into_iter().enumerate() {
        match action {
            Action::Alloc(id) => lives[*id].first = at,
            Action::Free(id) => lives[*id].last = at,
            _ => {}
        }
    }
    lives
}

fn extent(buffer: &Buffer) -> (u64, u64) {
    (buffer.offset, buffer.offset.saturating_add(buffer.bytes))
}

/// The lowest place of so many bytes, from `floor` on, that meets none of those taken, which come by their
/// start.
fn lowest_gap(floor: u64, taken: impl Iterator<Item = (u64, u64)>, bytes: u64) -> u64 {
    let mut place = floor;
    for (start, end) in taken {
        if place.saturating_add(bytes) <= start {
            break;
        }
        place = place.max(end);
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_from_below() {
        let gap = |taken: &[(u64, u64)], bytes| lowest_gap(0, taken.iter().copied(), bytes);
        assert_eq!(gap(&[], 64), 0);
        assert_eq!(gap(&[(0, 64), (128, 192)], 64), 64);
        assert_eq!(gap(&[(0, 64), (128, 192)], 128), 192);
        assert_eq!(gap(&[(0, 256), (64, 128)], 64), 256);
        assert_eq!(gap(&[(64, 128)], 0), 0);
    }
}
