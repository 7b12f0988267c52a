//! Which action of a loop has which stream and which stage.
//!
//! State: for each action its stream and its stage. Invariant: of two actions of one step that must keep
//! their order, the later one is in a later stage, or in the same stage and on the same stream; so each
//! stream runs what is enqueued on it without ever waiting for something enqueued after it.
//!
//! **Slots.** A buffer has one for each stage from its first use to its last (to the stage after, where other
//! devices may still take what it passes on): with two, a step is fetched while the one before it is computed
//! with, and no further ahead. It has one more if these are more than one, devices go through each other's
//! pieces, and of as many steps that follow each other at least one is that of the own piece, which nobody
//! sends: with two stages, on two devices. So the communication does not stand still in that step, but fetches
//! the next one; and beside the own piece there are no more gathered ones than stages, mostly two. No buffer
//! has more slots than the loop has steps.
//!
//! All communication has one stream, so the members of every group meet in one order.

use super::{COMMUNICATION, COMPUTE};
use crate::host::{Action, Buffer, BufferId, HostInstr, HostLoop, StreamId};
use crate::id::Table;
use crate::instr::{MOST_PIPELINED, Path};
use crate::layout::{Factor, Layout};
use crate::placement::Overlap;
use std::collections::{BTreeMap, BTreeSet};

/// What becomes of a loop.
pub(super) struct Staged {
    pub pipeline: HostLoop,
    /// The slots of the buffers that live in it.
    pub slots: BTreeMap<BufferId, u64>,
}

/// An action that touches buffers, as it stands in the body.
struct Actor<'a> {
    action: &'a Action,
    stream: StreamId,
    stage: usize,
}

/// The loop in stages; `None` if nothing in it can overlap.
pub(super) fn in_stages(steps: &HostLoop, buffers: &Table<BufferId, Buffer>) -> Option<Staged> {
    if steps.overlap == Overlap::None || !(2..=MOST_PIPELINED).contains(&steps.step_count()) {
        return None;
    }
    let mut actors: Vec<Actor<'_>> = Vec::new();
    let mut own: BTreeSet<BufferId> = BTreeSet::new();
    for instr in steps.stages.iter().flatten() {
        match instr {
            HostInstr::Loop(_) => return None,
            HostInstr::On(_, Action::Alloc(id)) => {
                own.insert(*id);
            }
            HostInstr::On(_, Action::Free(_) | Action::Record(_) | Action::Wait { .. }) => {}
            HostInstr::On(stream, action) => actors.push(Actor { action, stream: *stream, stage: 0 }),
        }
    }
    assign_streams(&mut actors);
    assign_stages(&mut actors);
    let last = actors.iter().map(|actor| actor.stage).max()?;
    if last == 0 || carries(&actors, &own) {
        return None;
    }
    let lives = lives(&actors, &own, &|id| own_step_among(&buffers[id].ty.layout));
    let last = lives.values().map(|life| life.end.stage).max().unwrap_or(0).max(last);
    let slots = lives.iter().map(|(&id, life)| (id, life.slots.min(steps.step_count())));
    let pipeline = HostLoop { stages: staged(&actors, &lives, last), ..steps.clone() };
    Some(Staged { slots: slots.collect(), pipeline })
}

/// Of how many steps that follow each other one is that of a device's own piece, for which nothing is sent;
/// none if devices do not go through each other's pieces.
fn own_step_among(layout: &Layout) -> Option<u64> {
    let mut ahead = layout.cuts().iter().flatten().filter_map(Factor::ahead).peekable();
    ahead.peek()?;
    Some(ahead.map(|axis| layout.mesh().size(axis)).product())
}

/// What communicates has a stream, what computes has one; a copy goes along with the communication that
/// it comes from or leads to.
fn assign_streams(actors: &mut [Actor<'_>]) {
    for actor in actors.iter_mut() {
        let communicates = matches!(actor.action, Action::Move(moved) if moved.kind.communicates());
        actor.stream = if communicates { COMMUNICATION } else { COMPUTE };
    }
    let is_copy = |actor: &Actor<'_>| matches!(actor.action, Action::Move(m) if !m.kind.communicates());
    for at in 0..actors.len() {
        let (before, after) = (&actors[..at], &actors[at + 1..]);
        let this = &actors[at];
        let comes_from =
            before.iter().rev().find(|other| this.action.reads().any(|id| other.action.writes() == Some(id)));
        let leads_to = |actor: &Actor<'_>| actor.action.reads().any(|id| this.action.writes() == Some(id));
        let mut leads = after.iter().filter(|actor| leads_to(actor)).peekable();
        let from_communication = comes_from.is_some_and(|other| other.stream == COMMUNICATION);
        let from_outside = comes_from.is_none();
        let leads_on = leads.peek().is_some();
        let to_communication = leads.all(|actor| actor.stream == COMMUNICATION);
        let along = (from_communication || from_outside && leads_on) && to_communication;
        if is_copy(this) && along {
            actors[at].stream = COMMUNICATION;
        }
    }
}

/// As early as the order of one step allows; another stream is another stage.
fn assign_stages(actors: &mut [Actor<'_>]) {
    for at in 0..actors.len() {
        let (before, rest) = actors.split_at_mut(at);
        let this = &mut rest[0];
        let after = before.iter().filter(|other| conflict(other.action, this.action));
        let stages = after.map(|other| other.stage + usize::from(other.stream != this.stream));
        this.stage = stages.max().unwrap_or(0);
    }
}

/// Whether a step may need what another one left in a buffer from outside: such steps follow each other.
fn carries(actors: &[Actor<'_>], own: &BTreeSet<BufferId>) -> bool {
    let written: BTreeSet<BufferId> = actors.iter().filter_map(|actor| actor.action.writes()).collect();
    written.difference(own).any(|&id| {
        let touching = actors.iter().filter(|actor| touches(actor.action, id));
        let places: BTreeSet<(usize, StreamId)> = touching.map(|actor| (actor.stage, actor.stream)).collect();
        places.len() > 1 && actors.iter().any(|actor| actor.action.reads().any(|read| read == id))
    })
}

/// From where to where a buffer of the loop lives.
struct Life {
    /// The first action that uses it, stage after stage.
    first: usize,
    end: End,
    /// How many steps have one at once.
    slots: u64,
}

/// Where a buffer is freed: after its last use, or, if other devices may still take from it what it passes
/// on, in the stage after, when they have.
struct End {
    /// After this action; none if at the end of the stage.
    after: Option<usize>,
    stage: usize,
    stream: StreamId,
}

fn by_stage(actors: &[Actor<'_>]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..actors.len()).collect();
    order.sort_by_key(|&at| actors[at].stage);
    order
}

/// `own_among` tells of how many steps one is that of the own piece, if devices go through each other's.
fn lives(
    actors: &[Actor<'_>],
    own: &BTreeSet<BufferId>,
    own_among: &dyn Fn(BufferId) -> Option<u64>,
) -> BTreeMap<BufferId, Life> {
    let order = by_stage(actors);
    let life = |id: BufferId| {
        let mut uses = order.iter().copied().filter(|&at| touches(actors[at].action, id));
        let first = uses.next()?;
        let last = uses.next_back().unwrap_or(first);
        let passes_on = |actor: &&Actor<'_>| match actor.action {
            Action::Move(moved) => moved.path == Path::PassedOn && moved.target == id,
            _ => false,
        };
        let mut end = match actors.iter().find(passes_on) {
            None => End { after: Some(last), stage: actors[last].stage, stream: actors[last].stream },
            Some(by) => {
                End { after: None, stage: actors[last].stage.max(by.stage + 1), stream: COMMUNICATION }
            }
        };
        let crossing = (end.stage - actors[first].stage) as u64 + 1;
        let beside_own = crossing > 1 && own_among(id).is_some_and(|steps| steps <= crossing);
        // The stream that communicates waits for the step that it frees: a later one, if there is one more.
        end.stage += usize::from(beside_own && end.after.is_none());
        Some((id, Life { first, end, slots: crossing + u64::from(beside_own) }))
    };
    own.iter().filter_map(|&id| life(id)).collect()
}

/// The actions stage after stage, each buffer allocated before its first use and freed after its last.
fn staged(actors: &[Actor<'_>], lives: &BTreeMap<BufferId, Life>, last: usize) -> Vec<Vec<HostInstr>> {
    let mut stages = vec![Vec::new(); last + 1];
    for at in by_stage(actors) {
        let Actor { action, stream, stage } = actors[at];
        let begins = lives.iter().filter(|(_, life)| life.first == at);
        stages[stage].extend(begins.map(|(&id, _)| HostInstr::On(stream, Action::Alloc(id))));
        stages[stage].push(HostInstr::On(stream, action.clone()));
        let ends = lives.iter().filter(|(_, life)| life.end.after == Some(at));
        stages[stage].extend(ends.map(|(&id, life)| HostInstr::On(life.end.stream, Action::Free(id))));
    }
    for (&id, life) in lives.iter().filter(|(_, life)| life.end.after.is_none()) {
        stages[life.end.stage].push(HostInstr::On(life.end.stream, Action::Free(id)));
    }
    stages
}

/// Whether two actions of one step must keep their order.
pub(super) fn conflict(a: &Action, b: &Action) -> bool {
    let changes = |a: &Action, b: &Action| a.writes().or(a.bounds()).is_some_and(|id| touches(b, id));
    changes(a, b) || changes(b, a)
}

fn touches(action: &Action, id: BufferId) -> bool {
    action.reads().chain(action.writes()).chain(action.bounds()).any(|own| own == id)
}
