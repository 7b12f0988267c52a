//! From where to where in the text each buffer is alive.
//!
//! What lives in a pipeline on the stream that computes alone lives as the text says, for that stream runs
//! what is enqueued on it in order. What another stream touches, or has a slot for several steps, may be
//! alive at any time while the pipeline runs:
//!
//! ```text
//!   b3, of two slots   ├─── alloc ──── free ──────────────────┤   the whole pipeline
//!   b4, of one stream              alloc ──── free
//! ```

use super::pipeline::COMPUTE;
use crate::host::{Action, BufferId, HostInstr, HostProgram};
use crate::id::Table;
use std::ops::Range;

/// From its allocation to its end, counted in actions of the text. A free is no part of the life that it
/// ends.
pub(super) type Life = Range<usize>;

/// The lives of all buffers. Those without an allocation live from the start, those without a free to
/// the end.
pub(super) fn lives(program: &HostProgram) -> Table<BufferId, Life> {
    let whole = 0..usize::MAX;
    let mut lives: Table<BufferId, Life> = program.buffers.keys().map(|_| whole.clone()).collect();
    block(program, &program.body, 0, &mut lives);
    lives
}

/// A block that starts at an action of the text.
fn block(program: &HostProgram, body: &[HostInstr], mut at: usize, lives: &mut Table<BufferId, Life>) {
    for instr in body {
        let end = at + instr.action_count();
        match instr {
            HostInstr::On(_, Action::Alloc(id)) => lives[*id].start = at,
            HostInstr::On(_, Action::Free(id)) => lives[*id].end = at,
            HostInstr::On(..) => {}
            HostInstr::Loop(steps) => {
                let mut place = at;
                for body in &steps.stages {
                    block(program, body, place, lives);
                    place += body.iter().map(HostInstr::action_count).sum::<usize>();
                }
                if steps.is_pipeline() {
                    for id in shared(program, steps.stages.iter().flatten()) {
                        lives[id] = at..end - 1;
                    }
                }
            }
        }
        at = end;
    }
}

/// The buffers of a pipeline that do not live as the text says.
fn shared<'a>(
    program: &HostProgram,
    actions: impl Iterator<Item = &'a HostInstr> + Clone,
) -> impl Iterator<Item = BufferId> {
    let bound = |instr: &HostInstr| match instr {
        HostInstr::On(stream, action) => Some((*stream, action.bounds()?)),
        HostInstr::Loop(_) => None,
    };
    let several = |&(stream, id): &(_, BufferId)| stream != COMPUTE || program.buffers[id].slots > 1;
    let found: Vec<BufferId> = actions.filter_map(bound).filter(several).map(|(_, id)| id).collect();
    found.into_iter()
}
