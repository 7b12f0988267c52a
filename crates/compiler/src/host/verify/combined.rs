//! What is combined with what is there: something must be there.
//!
//! ```text
//!   step 0     b2 <- linear(b0, b1) over k/step(4, i0)           begins
//!   step 1     b2 <- linear(b0, b1) over k/step(4, i0)           goes on: b2 is read as well
//! ```
//!
//! It is there because steps before wrote it, or because the same move put it there, where the sum travels.

use super::elements::{holder, name_box};
use crate::host::{At, BufferId, HostProgram};
use crate::instr::Fault;
use crate::layout::{IndexSet, Layout, Region};

/// Refuses elements that are combined with what is not there. `there` is what was written; none if the buffer
/// is not alive, which its access is refused for.
pub(super) fn must_be_there(
    program: &HostProgram,
    id: BufferId,
    there: Option<&Region>,
    elements: &[IndexSet],
    at: &At,
) -> Result<(), Fault> {
    let Some(missing) = there.and_then(|there| there.missing(elements)) else { return Ok(()) };
    let ty = &program.buffers[id].ty;
    let reason = format!("a part is combined with {} of {id}, which is not written", name_box(ty, &missing));
    Err(Fault::new(reason).on(holder(ty, &missing, at.ranges())))
}

/// Whether a move brings one part of several at this step, and not the first: devices go through the parts of
/// an axis in orders of their own.
pub(super) fn is_later_part(source: &Layout, at: &At) -> bool {
    source.peers().any(|peer| {
        let partial = source.partial().iter().any(|partial| partial.axis == peer.axis);
        partial && peer.whose.lead().is_some() && at.is_later(peer.step)
    })
}
