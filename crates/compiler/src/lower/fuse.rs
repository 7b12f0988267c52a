//! Loops that follow each other step by step become one.
//!
//! ```text
//!  loop i0 < 4 {                        loop i0 < 4 {
//!    result %5 y0                         result %8 y1
//!    %6 = all_gather %0                   %6 = all_gather %0
//!    %7 = linear(%6, %1)                  %7 = linear(%6, %1)
//!    %5 <- copy %7                        %10 = gelu(%7)
//!  }                                      %8 <- copy %10
//!  loop i1 < 4 {                        }
//!    result %8 y1
//!    %9 = copy %5
//!    %10 = gelu(%9)
//!    %8 <- copy %10
//!  }
//! ```
//!
//! The second loop may join the first if each of its steps needs no more of the first one's results than
//! the same step gives, on the same devices; and if what stands between the loops does not need them
//! either, so that it can come first. A result that nobody reads any more is dropped at the end
//! ([`prune`]). A step's result that is communicated ends a chain: a pipeline fetches, computes and sends
//! away, and what needs what was sent begins the next one. A chain also ends before its pipeline would
//! have more than [`MOST_STAGES`].

use super::{Looped, Lower};
use crate::id::{Id, Table};
use crate::instr::{Compute, Kind, MOST_STAGES, Move};
use crate::layout::{Cuts, Factor, Layout, StepId};
use crate::local::{LocalId, LocalInstr, LocalLoop, LocalValue};
use crate::placement::Overlap;
use crate::program::ValueId;
use std::collections::{BTreeMap, BTreeSet};

impl Lower<'_> {
    /// Adds the loop that fills a value, to the one before it if their steps line up; `via` says how the user
    /// wants it to overlap.
    pub(super) fn push_loop(&mut self, value: ValueId, steps: LocalLoop, via: Option<Overlap>) {
        if !self.join_loop(value, &steps, via) {
            self.place_loop(vec![value], steps, via);
        }
    }

    /// Adds the loop that fills a value to the one before it, if their steps line up; else nothing changes.
    pub(super) fn join_loop(&mut self, value: ValueId, steps: &LocalLoop, via: Option<Overlap>) -> bool {
        let body = self.bodies.last_mut().expect("a body is always being written");
        let joined = self.loops.last().and_then(|last| {
            let LocalInstr::Loop(first) = &body[last.at] else { return None };
            let via = both(last.via, via)?;
            let between: BTreeSet<LocalId> = body[last.at + 1..].iter().flat_map(LocalInstr::reads).collect();
            let independent = first.results.iter().all(|id| !between.contains(id));
            Some((independent.then(|| join(first, steps, &mut self.values))??, via))
        });
        let Some((joined, via)) = joined else { return false };
        let first = self.loops.pop().expect("the loop that was joined");
        body.remove(first.at);
        let values = first.values.into_iter().chain([value]).collect();
        self.place_loop(values, joined, via);
        true
    }

    fn place_loop(&mut self, values: Vec<ValueId>, mut steps: LocalLoop, via: Option<Overlap>) {
        let at = self.bodies.last().expect("a body is always being written").len();
        let overlap = self.overlap(&steps.counters, &steps.body, via);
        steps.overlap = overlap.unwrap_or(Overlap::None);
        self.loops.push(Looped { at, values, via, overlap });
        self.push(LocalInstr::Loop(steps));
    }
}

/// How two loops overlap as one; `None` if they are not to.
fn both(first: Option<Overlap>, second: Option<Overlap>) -> Option<Option<Overlap>> {
    match (first, second) {
        (first, second) if first == second => Some(first),
        (Some(Overlap::None), _) | (_, Some(Overlap::None)) => None,
        (Some(way), None) | (None, Some(way)) => Some(Some(way)),
        (_, _) => None,
    }
}

/// The second loop as a part of the first; `None` if their steps do not line up.
fn join(first: &LocalLoop, second: &LocalLoop, values: &mut Table<LocalId, LocalValue>) -> Option<LocalLoop> {
    // For each result of the first loop that the second reads, what a step gives.
    let given: BTreeMap<LocalId, LocalId> = first.body.iter().filter_map(filled_by).collect();
    let mut instead: BTreeMap<LocalId, LocalId> = BTreeMap::new();
    let mut steps: Option<BTreeMap<StepId, Cuts>> = None;
    for instr in &second.body {
        for id in instr.reads().into_iter().filter(|id| first.results.contains(id)) {
            let LocalInstr::Move(Move { kind: Kind::Local, target, .. }) = instr else { return None };
            let given = *given.get(&id)?;
            let [wanted, has] = [*target, given].map(|id| &values[id].ty);
            let steps = match &steps {
                Some(steps) => steps,
                None => steps.insert(stands_for(&wanted.layout, &has.layout, second)?),
            };
            if wanted.layout.with_steps(steps) != has.layout || wanted.dtype != has.dtype {
                return None;
            }
            instead.insert(*target, given);
        }
    }
    let steps = steps?;
    if steps.values().flatten().any(|factor| factor.ahead().is_some())
        && second.body.iter().any(LocalInstr::communicates)
    {
        // Devices are at different steps: they have nothing to send each other.
        return None;
    }
    if second.body.iter().any(|instr| adds_in_own_order(instr, &steps, values)) {
        return None;
    }
    let stays = |instr: &&LocalInstr| !instr.writes().iter().any(|id| instead.contains_key(id));
    let added = second.body.iter().filter(stays).map(|instr| renamed(instr, &instead, &steps));
    let body: Vec<LocalInstr> = first.body.iter().cloned().chain(added).collect();
    if 2 * rounds(&body) + 1 > MOST_STAGES {
        return None;
    }
    for id in body[first.body.len()..].iter().flat_map(LocalInstr::writes) {
        values[id].ty.layout = values[id].ty.layout.with_steps(&steps);
    }
    let results = first.results.iter().chain(&second.results).copied().collect();
    Some(LocalLoop { results, body, ..first.clone() })
}

/// Whether devices would add up the steps of a sum in orders of their own, though they all have the result.
fn adds_in_own_order(
    instr: &LocalInstr,
    steps: &BTreeMap<StepId, Cuts>,
    values: &Table<LocalId, LocalValue>,
) -> bool {
    let LocalInstr::Compute(compute) = instr else { return false };
    let Some((combined, _)) = compute.combined_steps() else { return false };
    let result = &values[compute.result].ty.layout;
    let factors = combined.iter().filter_map(|step| steps.get(step)).flatten();
    factors.filter_map(Factor::ahead).any(|axis| !result.uses(axis))
}

/// What stands in the first loop for each counter of the second, if each step of a layout of the second is
/// a step of one of the first: the same factors, or the pieces of peers for the steps of a stream.
fn stands_for(wanted: &Layout, has: &Layout, second: &LocalLoop) -> Option<BTreeMap<StepId, Cuts>> {
    let mut steps: BTreeMap<StepId, Cuts> = BTreeMap::new();
    for (wanted, has) in wanted.cuts().iter().zip(has.cuts()) {
        let counted: Vec<usize> = (0..wanted.len()).filter(|&at| wanted[at].step().is_some()).collect();
        if wanted.len() == has.len() {
            // Step by step.
            for at in counted {
                let (from, to) = (&wanted[at], &has[at]);
                let same = match (from, to) {
                    (Factor::Step(a, _), Factor::Step(b, _)) => a == b,
                    (Factor::Step(..), Factor::Peer(_)) => true,
                    _ => false,
                };
                steps.insert(from.step().filter(|_| same)?, vec![to.clone()]);
            }
        } else if let [at] = counted[..] {
            let after = wanted.len() - at - 1;
            let stand = has.get(at..has.len().checked_sub(after)?)?;
            // A device's own part of a step is not the step.
            if stand.is_empty() || stand.iter().any(|factor| factor.step().is_none()) {
                return None;
            }
            steps.insert(wanted[at].step()?, stand.to_vec());
        } else {
            return None;
        }
    }
    let all = second.counters.iter().all(|(id, _)| steps.contains_key(id));
    all.then_some(steps)
}

/// How often a step communicates, one after another: before, between and after that it may compute.
fn rounds(body: &[LocalInstr]) -> usize {
    let mut rounds: BTreeMap<LocalId, usize> = BTreeMap::new();
    for instr in body {
        let before = instr.reads().iter().filter_map(|id| rounds.get(id)).max().copied().unwrap_or(0);
        let communicates = instr.communicates();
        rounds.extend(instr.writes().into_iter().map(|id| (id, before + usize::from(communicates))));
    }
    rounds.into_values().max().unwrap_or(0)
}

/// A result of a loop and the piece that a step puts into it, where nothing is sent.
fn filled_by(instr: &LocalInstr) -> Option<(LocalId, LocalId)> {
    match instr {
        LocalInstr::Move(Move { kind: Kind::Local, source, target, .. }) => Some((*target, *source)),
        _ => None,
    }
}

fn renamed(
    instr: &LocalInstr,
    instead: &BTreeMap<LocalId, LocalId>,
    steps: &BTreeMap<StepId, Cuts>,
) -> LocalInstr {
    let of = |id: LocalId| instead.get(&id).copied().unwrap_or(id);
    match instr {
        LocalInstr::Compute(compute) => {
            let over = compute.over.with_steps(steps);
            LocalInstr::Compute(Compute { over, ..compute.renamed(of) })
        }
        LocalInstr::Move(moved) => LocalInstr::Move(moved.renamed(of)),
        other => other.clone(),
    }
}

/// Drops the results of loops that nobody reads, and numbers the values anew.
pub(super) fn prune(
    body: &mut [LocalInstr],
    values: Table<LocalId, LocalValue>,
    outputs: &mut [(String, LocalId)],
) -> Table<LocalId, LocalValue> {
    let read: BTreeSet<LocalId> =
        body.iter().flat_map(LocalInstr::reads).chain(outputs.iter().map(|(_, id)| *id)).collect();
    for instr in body.iter_mut() {
        let LocalInstr::Loop(steps) = instr else { continue };
        let dropped: Vec<LocalId> = steps.results.iter().filter(|id| !read.contains(id)).copied().collect();
        steps.results.retain(|id| !dropped.contains(id));
        steps.body.retain(|instr| !instr.writes().iter().any(|id| dropped.contains(id)));
    }
    renumber(body, values, outputs)
}

/// The values that are still made, in the order in which they were numbered.
fn renumber(
    body: &mut [LocalInstr],
    values: Table<LocalId, LocalValue>,
    outputs: &mut [(String, LocalId)],
) -> Table<LocalId, LocalValue> {
    let mut made = BTreeSet::new();
    collect(body, &mut made);
    if made.len() == values.len() {
        return values;
    }
    let new: BTreeMap<LocalId, LocalId> = made.iter().copied().zip((0..).map(LocalId::new)).collect();
    rename_all(body, &new);
    outputs.iter_mut().for_each(|(_, id)| *id = new[id]);
    values.iter().filter(|(id, _)| made.contains(id)).map(|(_, value)| value.clone()).collect()
}

fn collect(body: &[LocalInstr], made: &mut BTreeSet<LocalId>) {
    for instr in body {
        made.extend(instr.writes());
        if let LocalInstr::Loop(steps) = instr {
            collect(&steps.body, made);
        }
    }
}

fn rename_all(body: &mut [LocalInstr], new: &BTreeMap<LocalId, LocalId>) {
    for instr in body {
        match instr {
            LocalInstr::Input(id) => *id = new[id],
            LocalInstr::Move(moved) => *moved = moved.renamed(|id| new[&id]),
            LocalInstr::Compute(compute) => *compute = compute.renamed(|id| new[&id]),
            LocalInstr::Loop(steps) => {
                steps.results.iter_mut().for_each(|id| *id = new[id]);
                rename_all(&mut steps.body, new);
            }
        }
    }
}
