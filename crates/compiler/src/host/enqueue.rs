//! The order in which a program is enqueued: its loops, turn by turn.
//!
//! A loop of several stages is a pipeline: in each turn every stage is enqueued, each for an earlier step
//! than the stage before it. So the work of several steps is under way at once, and a stream that has
//! nothing to wait for runs ahead by as many steps as there are stages between.
//!
//! ```text
//!   turn       0        1        2        3        4
//!   stage 0    step 0   step 1   step 2
//!   stage 1             step 0   step 1   step 2
//!   stage 2                      step 0   step 1   step 2
//! ```
//!
//! This order is the meaning of a program: the verifier proves it, executors follow it.

use super::{Action, EventId, HostInstr, HostLoop, StreamId, at_step};
use crate::dtype::Combine;
use crate::id::Id;
use crate::instr::{Compute, MOST_STAGES, Move, Path};
use crate::layout::{Layout, Peer, StepId};
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

/// Loops of at most so many steps, those of the loops around them included, are walked step by step also
/// where [`Walk::Ends`] would do.
const MOST_SINGLE_STEPS: u64 = 16;

/// How loops are walked; pipelines step by step in any case.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Walk {
    /// Step by step.
    Every,
    /// The first two and the last two steps of a long loop by themselves, those between at once.
    ///
    /// All steps have the same text; they differ in the blocks that
    /// [`Factor::Step`](crate::layout::Factor::Step) picks, and the blocks of two steps of one counter are
    /// the same set (nothing follows the counter) or disjoint. So whatever can go wrong between two steps,
    /// or at the start or the end of a loop, goes wrong between the first two or the last two.
    ///
    /// ```text
    ///   i0 < 1000      0   1   2..998   998   999
    /// ```
    Ends,
}

/// One time that an action is enqueued.
pub struct Enqueued<'p, 'w> {
    /// Which action, counted in the order of the text.
    pub place: usize,
    /// On which stream.
    pub stream: StreamId,
    /// What to do.
    pub action: &'p Action,
    /// At which steps.
    pub at: &'w At,
}

/// Where in its loops something is enqueued.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct At {
    /// By step id; `0..1` for those that do not run.
    ranges: Vec<Range<u64>>,
    /// The first step of each range.
    starts: Vec<u64>,
    /// The ids of those that run, outermost first.
    running: Vec<StepId>,
    /// The step of the innermost loop.
    turn: Option<Turn>,
    /// In a pipeline, by step id, the step before this one.
    before: Option<Vec<u64>>,
}

/// A step of one run of a loop.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Turn {
    /// Which run of which loop: counted in the order in which loops are entered.
    pub run: u64,
    /// The step, counted over all counters of the loop, the last one fastest.
    pub step: u64,
}

impl At {
    /// Outside of all loops.
    pub fn outside() -> At {
        At::default()
    }

    /// In a pipeline with these counters, at a step that is counted over all of them.
    pub fn in_pipeline(counters: &[(StepId, u64)], step: u64) -> At {
        let mut at = At::outside();
        counters.iter().for_each(|(id, _)| at.enter(*id));
        if let Some(before) = step.checked_sub(1) {
            at_step(counters, before).for_each(|(id, step)| at.set(id, step..step + 1));
            at.before = Some(at.starts.clone());
        }
        at_step(counters, step).for_each(|(id, step)| at.set(id, step..step + 1));
        at.turn = Some(Turn { run: 0, step });
        at
    }

    /// By step id the steps that are walked at once: one, but for [`Walk::Ends`].
    pub fn ranges(&self) -> &[Range<u64>] {
        &self.ranges
    }

    /// By step id the running step; 0 for those that do not run.
    pub fn steps(&self) -> &[u64] {
        &self.starts
    }

    /// The running step of each counter, outermost first.
    pub fn outermost_first(&self) -> Box<[u64]> {
        self.running.iter().map(|id| self.starts[id.index()]).collect()
    }

    /// Whether a counter is running.
    pub fn is_running(&self, step: StepId) -> bool {
        self.running.contains(&step)
    }

    /// The step of the innermost loop.
    pub fn turn(&self) -> Option<Turn> {
        self.turn
    }

    /// In which of so many slots a buffer is at this step.
    pub fn slot(&self, slots: u64) -> u64 {
        self.turn.map_or(0, |turn| turn.step % slots.max(1))
    }

    /// In a pipeline the step before this one, with its place among the slots; none at the first.
    pub fn before(&self) -> Option<At> {
        let starts = self.before.clone()?;
        let turn = self.turn.map(|turn| Turn { step: turn.step.saturating_sub(1), ..turn });
        let ranges = starts.iter().map(|&step| step..step + 1).collect();
        Some(At { ranges, starts, turn, before: None, running: self.running.clone() })
    }

    /// Where a move takes its elements from, one after another: which buffers, at which steps. What is passed
    /// on comes out of the target as the step before left it; with a sum, the device's own part of the source
    /// is then combined.
    pub fn sources_of<V: Copy>(&self, moved: &Move<V>, target: &Layout) -> Vec<(V, At)> {
        let later = |peer: &Peer| self.is_later(peer.step);
        let passes = moved.path == Path::PassedOn && target.peers().any(later);
        match self.before().filter(|_| passes) {
            Some(before) if moved.travels() => {
                vec![(moved.target, before), (moved.source, self.clone())]
            }
            Some(before) => vec![(moved.target, before)],
            None => vec![(moved.source, self.clone())],
        }
    }

    /// How what a computation gives is combined with what steps before this one gave; none if it begins.
    pub fn goes_on<V>(&self, compute: &Compute<V>) -> Option<Combine> {
        let (steps, combine) = compute.combined_steps()?;
        steps.into_iter().any(|step| self.is_later(step)).then_some(combine)
    }

    /// Whether a counter is past its first step.
    pub(super) fn is_later(&self, step: StepId) -> bool {
        self.starts.get(step.index()).is_some_and(|&step| step > 0)
    }

    fn enter(&mut self, step: StepId) {
        let length = self.ranges.len().max(step.index() + 1);
        self.ranges.resize(length, 0..1);
        self.starts.resize(length, 0);
        self.running.push(step);
    }

    fn set(&mut self, step: StepId, range: Range<u64>) {
        self.starts[step.index()] = range.start;
        self.ranges[step.index()] = range;
    }

    fn leave(&mut self) {
        if let Some(step) = self.running.pop() {
            self.set(step, 0..1);
        }
    }
}

/// Calls `visit` for every action in the order enqueued.
pub fn enqueue<'p, E>(
    body: &'p [HostInstr],
    walk: Walk,
    visit: &mut impl FnMut(&Enqueued<'p, '_>) -> Result<(), E>,
) -> Result<(), E> {
    Enqueue { walk, at: At::outside(), runs: 0, visit }.block(body, 0, 1)
}

struct Enqueue<'v, V> {
    walk: Walk,
    at: At,
    /// How many loops were entered.
    runs: u64,
    visit: &'v mut V,
}

impl<V> Enqueue<'_, V> {
    /// A block that starts at a place of the text, inside loops of so many steps together.
    fn block<'p, E>(&mut self, body: &'p [HostInstr], mut place: usize, outer_steps: u64) -> Result<(), E>
    where
        V: FnMut(&Enqueued<'p, '_>) -> Result<(), E>,
    {
        for instr in body {
            match instr {
                HostInstr::On(stream, action) => {
                    (self.visit)(&Enqueued { place, stream: *stream, action, at: &self.at })?;
                }
                HostInstr::Loop(steps) => {
                    let outside = self.at.turn;
                    steps.counters.iter().for_each(|(id, _)| self.at.enter(*id));
                    self.runs += 1;
                    self.turns(steps, place, outer_steps.saturating_mul(steps.step_count()))?;
                    steps.counters.iter().for_each(|_| self.at.leave());
                    self.at.turn = outside;
                }
            }
            place += instr.action_count();
        }
        Ok(())
    }

    fn turns<'p, E>(&mut self, steps: &'p HostLoop, place: usize, total: u64) -> Result<(), E>
    where
        V: FnMut(&Enqueued<'p, '_>) -> Result<(), E>,
    {
        let run = self.runs;
        match &steps.stages[..] {
            [body] if self.walk == Walk::Ends && total > MOST_SINGLE_STEPS && !steps.is_pipeline() => {
                self.stretches(&steps.counters, body, place, total, Turn { run, step: 0 })
            }
            stages => {
                let count = steps.step_count();
                let turns = if count == 0 { 0 } else { count.saturating_add(stages.len() as u64 - 1) };
                for turn in 0..turns {
                    let mut place = place;
                    for (stage, body) in (0..).zip(stages) {
                        if let Some(step) = turn.checked_sub(stage).filter(|&step| step < count) {
                            self.at.turn = Some(Turn { run, step });
                            if let (true, Some(before)) = (steps.is_pipeline(), step.checked_sub(1)) {
                                steps.at_step(before).for_each(|(id, at)| self.at.set(id, at..at + 1));
                                self.at.before = Some(self.at.starts.clone());
                            }
                            steps.at_step(step).for_each(|(id, at)| self.at.set(id, at..at + 1));
                            self.block(body, place, total)?;
                            self.at.before = None;
                        }
                        place += body.iter().map(HostInstr::action_count).sum::<usize>();
                    }
                }
                Ok(())
            }
        }
    }

    /// Counter after counter; `turn` is that of the first step of those around.
    fn stretches<'p, E>(
        &mut self,
        counters: &[(StepId, u64)],
        body: &'p [HostInstr],
        place: usize,
        total: u64,
        turn: Turn,
    ) -> Result<(), E>
    where
        V: FnMut(&Enqueued<'p, '_>) -> Result<(), E>,
    {
        let Some((&(counter, count), inner)) = counters.split_first() else {
            self.at.turn = Some(turn);
            return self.block(body, place, total);
        };
        for range in stretches(count) {
            let step = turn.step.saturating_mul(count).saturating_add(range.start);
            self.at.set(counter, range);
            self.stretches(inner, body, place, total, Turn { step, ..turn })?;
        }
        Ok(())
    }
}

/// The ends of a counter step by step, what is between at once.
fn stretches(count: u64) -> Vec<Range<u64>> {
    match count {
        0..=5 => (0..count).map(|step| step..step + 1).collect(),
        _ => vec![0..1, 1..2, 2..count - 2, count - 2..count - 1, count - 1..count],
    }
}

/// The recordings of all events, with what the walk knows of each.
///
/// A wait inside a loop looks for what was recorded in the same run of the loop so many steps before its
/// own. There is nothing to wait for in the first steps, which come before any such recording. What was
/// recorded elsewhere counts as it was recorded last.
#[derive(Debug)]
pub struct Recordings<T> {
    events: BTreeMap<EventId, Recording<T>>,
}

#[derive(Debug)]
struct Recording<T> {
    /// The run of a loop in which it was recorded last; none outside of loops.
    run: Option<u64>,
    /// The steps of that run, the latest last.
    steps: VecDeque<(u64, T)>,
}

/// What a wait finds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Recorded<T> {
    /// This recording.
    There(T),
    /// Nothing yet, so there is nothing to wait for.
    NotYet,
    /// Nothing, though it waits for something.
    Never,
}

impl<T> Recordings<T> {
    /// No wait looks back further.
    pub const MOST_BACK: u64 = MOST_STAGES as u64;

    /// A stage waits for recordings of its own step, made by stages before it: so many turns ago at most.
    const MOST_KEPT: usize = 2 * Self::MOST_BACK as usize;

    /// Nothing recorded.
    pub fn new() -> Recordings<T> {
        Recordings { events: BTreeMap::new() }
    }

    /// An event is recorded.
    pub fn record(&mut self, event: EventId, at: &At, what: T) {
        let (run, step) = (at.turn.map(|turn| turn.run), at.turn.map_or(0, |turn| turn.step));
        let recording = self.events.entry(event).or_insert_with(|| Recording { run, steps: VecDeque::new() });
        if recording.run != run {
            *recording = Recording { run, steps: VecDeque::new() };
        }
        if recording.steps.len() == Self::MOST_KEPT {
            recording.steps.pop_front();
        }
        recording.steps.push_back((step, what));
    }

    /// What a wait for an event finds.
    pub fn wait(&self, event: EventId, back: u64, at: &At) -> Recorded<&T> {
        let recording = self.events.get(&event);
        match (at.turn, recording) {
            (Some(turn), Some(recording)) if recording.run == Some(turn.run) => {
                let Some(step) = turn.step.checked_sub(back) else { return Recorded::NotYet };
                let found = recording.steps.iter().rev().find(|(recorded, _)| *recorded == step);
                found.map_or(Recorded::Never, |(_, what)| Recorded::There(what))
            }
            (Some(turn), _) if turn.step < back => Recorded::NotYet,
            (_, recording) => {
                let last = recording.and_then(|recording| recording.steps.back());
                last.map_or(Recorded::Never, |(_, what)| Recorded::There(what))
            }
        }
    }
}

impl<T> Default for Recordings<T> {
    fn default() -> Self {
        Recordings::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{EventId, parse_host};

    #[test]
    fn every_step_is_in_one_stretch() {
        for count in [0, 1, 5, 6, 7, 17, 1000] {
            let steps: Vec<u64> = stretches(count).into_iter().flatten().collect();
            assert_eq!(steps, (0..count).collect::<Vec<_>>(), "{count}");
        }
    }

    /// What is enqueued, by event, with the step and the counters.
    fn walked(text: &str) -> Vec<(usize, u64, Vec<u64>)> {
        let program = parse_host(text).expect("the program can be read");
        let mut found = Vec::new();
        let walked: Result<(), ()> = enqueue(&program.body, Walk::Every, &mut |enqueued| {
            let Action::Record(event) = enqueued.action else { return Err(()) };
            assert_eq!(enqueued.place, event.index(), "events are numbered as they stand in the text");
            let step = enqueued.at.turn().map_or(0, |turn| turn.step);
            found.push((EventId::index(*event), step, enqueued.at.outermost_first().into()));
            Ok(())
        });
        walked.expect("events alone");
        found
    }

    #[test]
    fn stages_follow_each_other_one_turn_apart() {
        let text = "host p {
  devices 1, arena 0, streams 1, events 5
  s0: record e0
  loop i0 < 3 {
    s0: record e1
    s0: record e2
  then
    s0: record e3
  }
  s0: record e4
}";
        let turn = |event, step| (event, step, vec![step]);
        let between = [turn(1, 1), turn(2, 1), turn(3, 0), turn(1, 2), turn(2, 2), turn(3, 1), turn(3, 2)];
        let mut expected = vec![(0, 0, vec![]), turn(1, 0), turn(2, 0)];
        expected.extend(between);
        expected.push((4, 0, vec![]));
        assert_eq!(walked(text), expected);
    }

    #[test]
    fn the_last_counter_runs_fastest() {
        let text = "host p {
  devices 1, arena 0, streams 1, events 1
  loop i0 < 2, i1 < 3 {
    s0: record e0
  }
}";
        let steps: Vec<Vec<u64>> = walked(text).into_iter().map(|(_, _, steps)| steps).collect();
        assert_eq!(steps, [[0, 0], [0, 1], [0, 2], [1, 0], [1, 1], [1, 2]].map(Vec::from));
    }
}
