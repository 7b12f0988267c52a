//! How each operation runs: the cheapest way, in program order.
//!
//! Layouts of values are all decided here. A value that was moved for one operation stays at hand for
//! those after it, so three operations that need the same gathered input gather it once.

use super::origin::{Origin, given_ancestors};
use super::reason::{alternative, conflict, over_text};
use super::ways::{Question, Way};
use super::weigh::Weighed;
use super::{OpPlan, Placed, PlacedValue, typed};
use crate::cost::Cost;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, quote};
use crate::id::Table;
use crate::instr::Kind;
use crate::instr::verify::MOST_COUNTERS;
use crate::layout::{Factor, Layout, Steps};
use crate::mesh::Mesh;
use crate::op::{Op, Space};
use crate::placement::{Communication, Entry, Overlap, Placement};
use crate::program::{Operand, Program, Sizes, ValueId};
use crate::report::{Alternative, Subject};
use crate::reshard::route;
use std::collections::BTreeMap;
use std::sync::Arc;

/// An operation runs in at most so many steps, all its streams together: every step is an entry of
/// every device's list of tasks.
const MOST_STEPS: u64 = 1 << 20;

/// Of the ways that were not taken, so many are told for each operation.
const ALTERNATIVES: usize = 3;

/// Chooses for every operation that an output needs.
pub(super) fn run(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    cost: &Cost,
    values: Table<ValueId, Option<PlacedValue>>,
) -> Result<Placed, Diagnostics> {
    let home = placement.map_or_else(Mesh::single, |placement| placement.mesh.clone());
    let mut choose = Choose {
        program,
        placement,
        entries: placement.map(Placement::by_value).unwrap_or_default(),
        sizes,
        cost,
        home: home.clone(),
        ancestors: given_ancestors(&values),
        at_hand: values.values().map(|v| v.iter().map(|v| v.layout.clone()).collect()).collect(),
        errors: Diagnostics::new(),
        alternatives: Vec::new(),
        notes: Vec::new(),
    };
    let mut ops = Table::new();
    for (value, placed) in values.iter() {
        let plan = placed.as_ref().and_then(|placed| {
            choose.note_steps(value, placed);
            choose.plan(value, placed, &values)
        });
        ops.push(plan);
    }
    let Choose { errors, alternatives, notes, .. } = choose;
    errors.finish(Placed { home, values, ops, alternatives, notes })
}

struct Choose<'a> {
    program: &'a Program,
    placement: Option<&'a Placement>,
    entries: BTreeMap<ValueId, &'a Entry>,
    sizes: &'a Sizes,
    cost: &'a Cost,
    home: Arc<Mesh>,
    ancestors: Table<ValueId, ValueId>,
    at_hand: Table<ValueId, Vec<Layout>>,
    errors: Diagnostics,
    alternatives: Vec<Alternative>,
    notes: Vec<String>,
}

impl Choose<'_> {
    fn plan(
        &mut self,
        value: ValueId,
        placed: &PlacedValue,
        values: &Table<ValueId, Option<PlacedValue>>,
    ) -> Option<OpPlan> {
        let wanted = &placed.layout;
        let apply = self.program.apply(value)?;
        let space = self.program.space(value, self.sizes)?;
        let question = Question {
            program: self.program,
            value,
            apply,
            space: &space,
            at_hand: &self.at_hand,
            wanted: Some(wanted),
            home: &self.home,
            followers: &[],
        };
        let (best, others) = match self.program.moved_operand(value) {
            Some(operand) => (self.reshard(operand, wanted), Vec::new()),
            None => question.best(self.sizes, self.cost),
        };
        let streams = best.way.over.streams(&question.space_sizes());
        let steps = best.way.over.step_count(&question.space_sizes());
        let conflict = conflict(&question, &best.way.over, values, &self.ancestors);
        let told = self.told(&question, values, &best, &others);
        let because = self.because(value, &apply.op, &space, &best, conflict.as_deref());
        let allowed = self.placement.map_or(Communication::Anywhere, |placement| placement.communication);
        if allowed == Communication::AtReshards && !matches!(apply.op, Op::Reshard) {
            self.refuse_communication(value, &best, &because);
        }
        if steps > MOST_STEPS {
            self.refuse_streams(value, &format!("make {steps} steps together, more than {MOST_STEPS}"));
        } else if streams.len() > MOST_COUNTERS {
            let count = streams.len();
            self.refuse_streams(value, &format!("are {count} inside each other, more than {MOST_COUNTERS}"));
        }
        self.alternatives.extend(told);
        if let Some(conflict) = conflict {
            self.notes.push(format!("{}: {conflict}", self.program.values[value].name));
        }
        for (operand, moved) in &best.moves {
            let Operand::Value(operand) = apply.operands[*operand] else { continue };
            for leg in moved.legs.iter().filter(|leg| !leg.target.has_stream()) {
                self.at_hand[operand].push(leg.target.clone());
            }
        }
        let via = self.entries.get(&value).and_then(|entry| entry.via);
        Some(OpPlan { over: best.way.over, carriers: best.way.carriers, via, chosen: None, because })
    }

    /// The ways that were not taken, as far as they are worth telling. A layout that is derived follows the
    /// way that was taken, so each way is compared by what it costs with the result where it leaves it, and
    /// with the inputs that follow this operation where it needs them.
    fn told(
        &self,
        question: &Question<'_>,
        values: &Table<ValueId, Option<PlacedValue>>,
        best: &Weighed,
        others: &[Weighed],
    ) -> Vec<Alternative> {
        let origin = |value: ValueId| values[value].as_ref().map(|placed| &placed.origin);
        let follows = |input: &ValueId| {
            let follows = |origin| matches!(origin, &Origin::Backward { user, .. } if user == question.value);
            self.program.is_input(*input) && origin(*input).is_some_and(follows)
        };
        let followers: Vec<ValueId> = question.apply.values().filter(follows).collect();
        let wanted = question.wanted.filter(|_| origin(question.value) == Some(&Origin::Given));
        let free = Question { wanted, followers: &followers, ..*question };
        let own = |weighed: &Weighed| free.weigh(self.sizes, self.cost, weighed.way.clone());
        let Some(own_best) = own(best) else {
            return others
                .iter()
                .filter_map(|other| alternative(question, best, other))
                .take(ALTERNATIVES)
                .collect();
        };
        let mut own_others: Vec<Weighed> = others.iter().filter_map(own).collect();
        own_others.sort_by(Weighed::cheaper);
        let dearer = own_others.iter().filter(|other| other.cheaper(&own_best).is_ge());
        dearer.filter_map(|other| alternative(&free, &own_best, other)).take(ALTERNATIVES).collect()
    }

    /// A reshard is nothing but the move.
    fn reshard(&self, operand: ValueId, wanted: &Layout) -> Weighed {
        let source = &self.at_hand[operand][0];
        let moved = route(&typed(self.program, self.sizes, operand, source), wanted, self.cost);
        let over = wanted.combined();
        Weighed::of_move(Way { over, carriers: Vec::new() }, wanted.clone(), moved)
    }

    fn because(
        &self,
        value: ValueId,
        op: &Op,
        space: &Space,
        best: &Weighed,
        conflict: Option<&str>,
    ) -> String {
        let name = &self.program.values[value].name;
        let over = over_text(space, &best.way.over, self.home.name());
        match (op, conflict) {
            (Op::Reshard, _) => format!("{name} is resharded"),
            (op, None) => format!("{} of {name} runs over {over}", op.name()),
            (op, Some(conflict)) => format!("{} of {name} runs over {over} ({conflict})", op.name()),
        }
    }

    fn refuse_streams(&mut self, value: ValueId, why: &str) {
        let v = &self.program.values[value];
        let place = self.entries.get(&value).map(|entry| entry.span);
        let name = quote(&v.name);
        let message = format!("the streams of {name} {why}");
        self.errors.push(
            Diagnostic::at(Code::BadCut, place.unwrap_or(v.span), message)
                .help("stream fewer dims, or with smaller counts"),
        );
    }

    /// A strict placement lets nothing communicate but reshards.
    fn refuse_communication(&mut self, value: ValueId, best: &Weighed, because: &str) {
        let Some(apply) = self.program.apply(value) else { return };
        let operands = best.moves.iter().filter_map(|(k, moved)| match apply.operands[*k] {
            Operand::Value(operand) => Some((operand, Subject::Value, moved)),
            Operand::Number(_) => None,
        });
        let of_result = [(value, Subject::Summary, &best.summaries), (value, Subject::Value, &best.result)];
        let entry = self.entries.get(&value);
        let place = entry.map_or(self.program.values[value].span, |entry| entry.span);
        for (moved, subject, how) in operands.chain(of_result).filter(|(_, _, how)| how.communicates()) {
            let kinds = how.legs.iter().map(|leg| leg.traffic.kind).filter(|kind| kind.communicates());
            let kinds: Vec<&str> = kinds.map(Kind::name).collect();
            let name = &self.program.values[moved].name;
            let message = format!(
                "a strict placement would need {} of {}, {} bytes in all: {because}",
                kinds.join(" and "),
                match subject {
                    Subject::Value => format!("`{name}`"),
                    Subject::Summary => format!("the summary of `{name}`"),
                },
                how.bytes_total()
            );
            let help = match (subject, apply.op.from_parts(), apply.values().next()) {
                (Subject::Summary, Some((_, dim)), Some(operand)) => {
                    let operand = &self.program.values[operand].name;
                    format!(
                        "`{}` needs all of `{dim}` unless it may communicate: \
                         place `{operand}` with `{dim}` not cut, or give it `reshard({operand})` placed so",
                        apply.op.name()
                    )
                }
                _ => {
                    format!("place `{name}` where it is needed, or say where it moves with `reshard({name})`")
                }
            };
            self.errors.push(Diagnostic::at(Code::StrictPlacement, place, message).help(help));
        }
    }

    fn note_steps(&mut self, value: ValueId, placed: &PlacedValue) {
        let name = &self.program.values[value].name;
        let auto = |factor: &Factor| match factor {
            Factor::Stream(Steps::Auto(steps)) => Some(*steps),
            _ => None,
        };
        let chosen = placed.layout.cuts().iter().flatten().find_map(auto);
        self.notes.extend(chosen.filter(|_| !self.program.is_input(value)).map(|steps| match steps {
            1 => format!("{name}: stream(auto) runs in 1 step: more would not hide enough to pay"),
            steps => format!("{name}: stream(auto) runs in {steps} steps: more would not hide enough to pay"),
        }));
        let entry = self.entries.get(&value);
        let via = entry.and_then(|entry| entry.via).filter(|via| *via != Overlap::None);
        if let (Some(via), Origin::Given) = (via, &placed.origin) {
            // What becomes of it where there are steps, the plan says.
            if !placed.layout.has_stream() {
                self.notes.push(format!(
                    "{name}: via {} does nothing: it pins how steps overlap, and no dim of {name} has any \
                     (`s/stream(4)`)",
                    via.name()
                ));
            }
        }
    }
}
