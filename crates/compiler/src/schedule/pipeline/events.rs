//! Events where a dependency crosses streams: in pipelines, and around them.
//!
//! ```text
//!  s0: record e0                      the pipeline begins after what is before it
//!  s1: wait e0
//!  loop i0 < 4 via collective {
//!    s1: wait e3 back 2               the slot's last user, two steps ago, is done with it
//!    s1: alloc b3
//!    s1: b3 <- all_gather b0
//!    s1: record e1                    the step's rows are there
//!  then
//!    s0: wait e1
//!    s0: b4 <- linear(b3, b1)
//!    s0: free b3
//!    s0: record e3
//!    ...
//!  }
//!  s1: record e5                      what follows begins after the pipeline
//!  s0: wait e5
//! ```
//!
//! Of several actions of one stream that another must wait for, the last one is waited for; nothing is
//! waited for twice.

use super::stages::conflict;
use super::{COMMUNICATION, COMPUTE};
use crate::host::{Action, BufferId, EventId, HostInstr, HostLoop, HostProgram, StreamId};
use crate::id::Id;
use std::collections::BTreeMap;

/// A pipeline with its events, and those around it.
pub(super) fn ordered(pipeline: HostLoop, program: &mut HostProgram) -> Vec<HostInstr> {
    let HostProgram { buffers, events, .. } = program;
    let mut next = || {
        *events += 1;
        EventId::new(*events - 1)
    };
    let (before, after) = (next(), next());
    let wait = |event: EventId| Action::Wait { event, back: 0 };
    let inside = inside(pipeline, &|id| buffers[id].slots, &mut next);
    vec![
        HostInstr::On(COMPUTE, Action::Record(before)),
        HostInstr::On(COMMUNICATION, wait(before)),
        HostInstr::Loop(inside),
        HostInstr::On(COMMUNICATION, Action::Record(after)),
        HostInstr::On(COMPUTE, wait(after)),
    ]
}

/// What must be done before an action: another one of the same step or of an earlier one.
#[derive(Clone, Copy)]
struct Need {
    /// By its place in the stages, one after another.
    action: usize,
    back: u64,
}

/// The events between the actions of a step, and between those of different steps.
fn inside(steps: HostLoop, slots: &dyn Fn(BufferId) -> u64, next: &mut dyn FnMut() -> EventId) -> HostLoop {
    let lengths: Vec<usize> = steps.stages.iter().map(Vec::len).collect();
    let actions: Vec<(StreamId, Action)> = steps
        .stages
        .into_iter()
        .flatten()
        .map(|instr| match instr {
            HostInstr::On(stream, action) => (stream, action),
            HostInstr::Loop(_) => unreachable!("a pipeline has no loop inside"),
        })
        .collect();
    let needs = needs(&actions, slots);
    let mut event_of: BTreeMap<usize, EventId> = BTreeMap::new();
    for need in needs.iter().flatten() {
        event_of.entry(need.action).or_insert_with(&mut *next);
    }
    let mut stages = Vec::new();
    let mut rest = actions.into_iter().zip(needs).enumerate();
    for length in lengths {
        let mut stage = Vec::new();
        for (at, ((stream, action), needs)) in rest.by_ref().take(length) {
            let waits =
                needs.iter().map(|need| Action::Wait { event: event_of[&need.action], back: need.back });
            stage.extend(waits.map(|wait| HostInstr::On(stream, wait)));
            stage.push(HostInstr::On(stream, action));
            let record = event_of.get(&at).map(|&event| Action::Record(event));
            stage.extend(record.map(|record| HostInstr::On(stream, record)));
        }
        stages.push(stage);
    }
    HostLoop { stages, ..steps }
}

/// For each action what it waits for on other streams.
fn needs(actions: &[(StreamId, Action)], slots: &dyn Fn(BufferId) -> u64) -> Vec<Vec<Need>> {
    // How far each stream knows the step to be done on each other.
    let mut known: BTreeMap<(StreamId, StreamId), usize> = BTreeMap::new();
    let mut needs = Vec::new();
    for (at, (stream, action)) in actions.iter().enumerate() {
        let mut own = Vec::new();
        for other in [COMPUTE, COMMUNICATION].into_iter().filter(|other| other != stream) {
            let elsewhere = |at: &usize| actions[*at].0 == other && conflict(&actions[*at].1, action);
            if let Some(last) = (0..at).rev().find(elsewhere) {
                let knows = known.entry((*stream, other)).or_insert(0);
                if *knows < last + 1 {
                    *knows = last + 1;
                    own.push(Need { action: last, back: 0 });
                }
            }
        }
        if let Action::Alloc(id) = action {
            let is_free = |(_, action): &(StreamId, Action)| *action == Action::Free(*id);
            let free = actions.iter().position(is_free).filter(|&free| actions[free].0 != *stream);
            own.extend(free.map(|action| Need { action, back: slots(*id) }));
        }
        needs.push(own);
    }
    needs
}
