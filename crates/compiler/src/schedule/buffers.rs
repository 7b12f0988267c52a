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

use super::gaps::{Moments, Taken, lowest_gap};
use super::lives::lives;
use crate::host::{BufferId, HostProgram, MeshId, MeshPairs, Role};
use crate::id::Table;

/// The program with a place of its own for every buffer: always right.
pub(super) fn apart(mut program: HostProgram) -> HostProgram {
    program.arena = 0;
    for id in with_bytes(&program) {
        program.buffers[id].offset = program.arena;
        program.arena = program.buffers[id].extent().end;
    }
    program
}

/// The buffers that are no views.
fn with_bytes(program: &HostProgram) -> Vec<BufferId> {
    program.buffers.iter().filter(|(_, buffer)| buffer.view.is_none()).map(|(id, _)| id).collect()
}

/// The program with every buffer in its place: first the constants, then the others above them.
pub(super) fn place(mut program: HostProgram) -> HostProgram {
    let lives = lives(&program);
    let moments = Moments::of(lives.values());
    let meshes = MeshPairs::new(&program.buffers);
    let mut order = with_bytes(&program);
    order.sort_by_key(|&id| (std::cmp::Reverse(program.buffers[id].all_bytes()), id));
    let is_constant = |id: &BufferId| program.buffers[*id].role == Role::Constant;
    let (constants, others): (Vec<BufferId>, Vec<BufferId>) = order.into_iter().partition(is_constant);
    program.arena = 0;
    for ids in [constants, others] {
        let floor = program.arena;
        let mut taken: Table<MeshId, Taken> =
            meshes.meshes().map(|_| Taken::nothing(moments.count())).collect();
        for id in ids {
            let life = moments.of_life(&lives[id]);
            let meeting = meshes.meeting(id).iter().map(|&mesh| &taken[mesh]);
            program.buffers[id].offset = lowest_gap(meeting, &life, floor, program.buffers[id].all_bytes());
            let extent = program.buffers[id].extent();
            program.arena = program.arena.max(extent.end);
            taken[meshes.mesh_of(id)].take(&life, extent);
        }
    }
    program
}
