//! Loops whose steps overlap become pipelines: communication goes to a stream of its own, and what
//! follows it or comes before it becomes another stage, so that one step's communication is under way
//! while another step is computed.
//!
//! ```text
//!  loop i0 < 4 via collective {            loop i0 < 4 via collective {
//!    s0: alloc b3                            s1: alloc b3               stage 0, one step ahead
//!    s0: b3 <- all_gather b0                 s1: b3 <- all_gather b0
//!    s0: alloc b4                          then
//!    s0: b4 <- linear(b3, b1)                s0: alloc b4               stage 1
//!    s0: free b3                             s0: b4 <- linear(b3, b1)
//!    s0: b2 <- reduce_scatter b4             s0: free b3
//!    s0: free b4                           then
//!  }                                         s1: b2 <- reduce_scatter b4    stage 2, one step behind
//!                                            s1: free b4
//!                                          }
//! ```
//!
//! [`stages`] says which action has which stream and stage, [`events`] what waits for what.

mod events;
mod stages;

use super::buffers;
use crate::host::{HostInstr, HostProgram, StreamId};
use crate::id::Id;

/// The stream that computes, and runs all that is outside of pipelines.
pub(super) const COMPUTE: StreamId = StreamId::of(0);

/// The stream that communicates inside pipelines.
const COMMUNICATION: StreamId = StreamId::of(1);

/// The program with its overlapping loops as pipelines.
pub(super) fn run(mut program: HostProgram) -> HostProgram {
    for instr in std::mem::take(&mut program.body) {
        match instr {
            HostInstr::Loop(steps) => match stages::in_stages(&steps, &program.buffers) {
                Some(staged) => {
                    for (id, slots) in staged.slots {
                        program.buffers[id].slots = slots;
                    }
                    program.streams = COMMUNICATION.index() + 1;
                    let pipeline = events::ordered(staged.pipeline, &mut program);
                    program.body.extend(pipeline);
                }
                None => program.body.push(HostInstr::Loop(steps)),
            },
            other => program.body.push(other),
        }
    }
    buffers::apart(program)
}
