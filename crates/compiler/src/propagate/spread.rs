//! Layouts for unlisted values: forward in program order, backward against it, until nothing changes.
//!
//! State: for each value its layout or nothing. Every turn decides at least one value or ends, and a
//! decided value is never changed, so there are at most as many turns as values. Forward goes first, so
//! that a result follows its operands; backward only fills what nothing forward decides. A value is asked
//! for again only when something else of an operation that it is part of was decided since.

use super::PlacedValue;
use super::origin::Origin;
use super::ways::Question;
use crate::cost::Cost;
use crate::id::Table;
use crate::layout::{Cuts, Factor, Layout};
use crate::mesh::Mesh;
use crate::op::{Later, Space, completed_later};
use crate::placement::Placement;
use crate::program::{Apply, Operand, Program, Sizes, ValueId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A layout for every value that an output needs.
pub(super) fn run(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    cost: &Cost,
) -> Table<ValueId, Option<PlacedValue>> {
    let home = placement.map_or_else(Mesh::single, |placement| placement.mesh.clone());
    let needed = program.needed();
    let spaces = program.values.keys().map(|v| needed[v].then(|| program.space(v, sizes)).flatten());
    let mut spread = Spread {
        program,
        sizes,
        cost,
        spaces: spaces.collect(),
        at_hand: program.values.keys().map(|_| Vec::new()).collect(),
        origins: program.values.keys().map(|_| Origin::Default).collect(),
        users: users(program, &needed),
        needed,
        outputs: program.outputs.iter().copied().collect(),
        home,
        ask_forward: BTreeSet::new(),
        ask_backward: BTreeSet::new(),
    };
    for entry in placement.iter().flat_map(|placement| &placement.entries) {
        if spread.needed[entry.value] {
            spread.decide(entry.value, entry.layout.clone(), Origin::Given);
        }
    }
    while spread.forward() || spread.backward() {}
    spread.finish()
}

fn users(program: &Program, needed: &Table<ValueId, bool>) -> Table<ValueId, Vec<ValueId>> {
    let mut users: Table<ValueId, Vec<ValueId>> = program.values.keys().map(|_| Vec::new()).collect();
    for user in program.values.keys().filter(|&user| needed[user]) {
        for value in program.apply(user).iter().flat_map(|apply| apply.values()) {
            if users[value].last() != Some(&user) {
                users[value].push(user);
            }
        }
    }
    users
}

struct Spread<'a> {
    program: &'a Program,
    sizes: &'a Sizes,
    cost: &'a Cost,
    needed: Table<ValueId, bool>,
    outputs: BTreeSet<ValueId>,
    /// The needed operations that use each value, in program order, by their results.
    users: Table<ValueId, Vec<ValueId>>,
    spaces: Table<ValueId, Option<Space>>,
    /// The layout of each decided value.
    at_hand: Table<ValueId, Vec<Layout>>,
    origins: Table<ValueId, Origin>,
    home: Arc<Mesh>,
    /// The results whose operands changed since forward last asked for them.
    ask_forward: BTreeSet<ValueId>,
    /// The operands of operations that changed since backward last asked for them.
    ask_backward: BTreeSet<ValueId>,
}

impl Spread<'_> {
    fn decided(&self, value: ValueId) -> bool {
        !self.at_hand[value].is_empty()
    }

    fn decide(&mut self, value: ValueId, layout: Layout, origin: Origin) {
        self.at_hand[value] = vec![layout];
        self.origins[value] = origin;
        self.ask_forward.extend(self.users[value].iter().filter(|&&user| self.at_hand[user].is_empty()));
        let operations = self.users[value].iter().chain([&value]);
        let operands = operations.filter_map(|&result| self.program.apply(result)).flat_map(Apply::values);
        self.ask_backward.extend(operands.filter(|&operand| self.at_hand[operand].is_empty()));
    }

    fn question(&self, value: ValueId) -> Option<Question<'_>> {
        Some(Question {
            program: self.program,
            value,
            apply: self.program.apply(value)?,
            space: self.spaces[value].as_ref()?,
            at_hand: &self.at_hand,
            wanted: self.at_hand[value].first(),
            home: &self.home,
            followers: &[],
        })
    }

    /// Whether a layout says anything: a cut, a part, or another mesh.
    fn says_something(&self, layout: &Layout, sizes: &[u64]) -> bool {
        let nothing = Layout::replicated(self.home.clone(), layout.ndim());
        !layout.mesh().same_grid(&self.home) || layout.has_stream() || !layout.same_as(&nothing, sizes)
    }

    /// Results follow their operands. Whether any value was decided.
    fn forward(&mut self) -> bool {
        let mut changed = false;
        // Those who use a value come after it.
        while let Some(value) = self.ask_forward.pop_first() {
            if self.decided(value) {
                continue;
            }
            let Some(question) = self.question(value) else { continue };
            let from: Vec<ValueId> = question.apply.values().filter(|&v| self.decided(v)).collect();
            if from.is_empty() {
                continue;
            }
            let best = question.best(self.sizes, self.cost).0;
            let from = self.deciders(&question, &best.way.over, &from);
            let mut layout = best.natural;
            // A mean is divided once, after its sum is combined: parts would be rounded one by one.
            let later = completed_later(&question.apply.op, question.apply.operands.len(), &layout);
            if matches!(later, Later::Division { .. }) || self.outputs.contains(&value) {
                layout = layout.combined();
            }
            let sizes: Vec<u64> = self.program.sized_dims(value, self.sizes).iter().map(|d| d.1).collect();
            if self.says_something(&layout, &sizes) {
                self.decide(value, layout, Origin::Forward { from });
                changed = true;
            }
        }
        changed
    }

    /// Those whose layouts say something.
    fn who_says_something(&self, values: &[ValueId]) -> Vec<ValueId> {
        let says = |&&value: &&ValueId| {
            let sizes: Vec<u64> = self.program.sized_dims(value, self.sizes).iter().map(|d| d.1).collect();
            self.at_hand[value].first().is_some_and(|layout| self.says_something(layout, &sizes))
        };
        values.iter().filter(says).copied().collect()
    }

    /// Of those whose layouts say something, those whose wishes are met by how the operation runs; all of
    /// them where it runs as nobody asked for.
    fn deciders(&self, question: &Question<'_>, over: &Layout, among: &[ValueId]) -> Vec<ValueId> {
        let all = self.who_says_something(among);
        let met: Vec<ValueId> =
            all.iter().copied().filter(|&value| self.is_met(question, over, value)).collect();
        if met.is_empty() { all } else { met }
    }

    /// Whether an operation that runs so keeps a cut of a value that it uses or gives, its parts, or its
    /// mesh.
    fn is_met(&self, question: &Question<'_>, over: &Layout, value: ValueId) -> bool {
        let (space, layout) = (question.space, &self.at_hand[value][0]);
        let operands = question.apply.operands.iter().zip(&space.operands);
        let places = operands.filter(|(operand, _)| **operand == Operand::Value(value)).map(|(_, dims)| dims);
        let mut places = places.chain((value == question.value).then_some(&space.result));
        if !over.mesh().same_grid(layout.mesh()) {
            return false;
        }
        let axes = |cuts: &Cuts| cuts.iter().filter_map(Factor::axis).collect::<Vec<_>>();
        places.any(|dims| {
            let asked = space.project(over, dims).unwrap_or_default();
            let shares = |(a, b)| axes(a).iter().any(|axis| axes(b).contains(axis));
            layout.is_partial()
                || !layout.mesh().same_grid(&self.home)
                || (layout.has_stream() && over.has_stream())
                || asked.iter().zip(layout.cuts()).any(shares)
        })
    }

    /// Unlisted operands follow the operations that use them, the last values first; of several users
    /// the first in program order that asks for a cut. Whether any value was decided.
    fn backward(&mut self) -> bool {
        let mut changed = false;
        let mut asked_now = std::mem::take(&mut self.ask_backward);
        while let Some(value) = asked_now.pop_last() {
            if self.decided(value) {
                continue;
            }
            let asked = self.users[value].iter().find_map(|&user| self.asked_by(user, value));
            if let Some((layout, origin)) = asked {
                self.decide(value, layout, origin);
                changed = true;
                // What comes after this value waits for the next turn.
                let later = self.ask_backward.split_off(&value);
                asked_now.extend(std::mem::replace(&mut self.ask_backward, later));
            }
        }
        changed
    }

    /// The layout that an operation asks of an undecided operand.
    fn asked_by(&self, user: ValueId, value: ValueId) -> Option<(Layout, Origin)> {
        let question = self.question(user)?;
        let mut from: Vec<ValueId> = question.apply.values().filter(|&v| self.decided(v)).collect();
        if question.wanted.is_some() {
            from.insert(0, user);
        }
        if self.who_says_something(&from).is_empty() {
            return None;
        }
        let over = question.best(self.sizes, self.cost).0.way.over;
        let from = self.deciders(&question, &over, &from);
        let operand = question.apply.operands.iter().position(|o| *o == Operand::Value(value))?;
        let cuts = question.space.project(&over, &question.space.operands[operand])?;
        let cuts = cuts.into_iter().map(without_trailing_blocks).collect();
        let layout = Layout::new(over.mesh().clone(), cuts, Vec::new())?;
        let sizes: Vec<u64> = self.program.sized_dims(value, self.sizes).iter().map(|d| d.1).collect();
        self.says_something(&layout, &sizes).then_some((layout, Origin::Backward { user, from }))
    }

    /// What nothing decided is whole on every device of the placement's mesh.
    fn finish(self) -> Table<ValueId, Option<PlacedValue>> {
        let values = self.program.values.iter().map(|(value, v)| {
            let layout = self.at_hand[value].first().cloned();
            let layout = layout.unwrap_or_else(|| Layout::replicated(self.home.clone(), v.dims.len()));
            self.needed[value].then(|| PlacedValue { layout, origin: self.origins[value].clone() })
        });
        values.collect()
    }
}

/// Streams and blocks behind which no axis stands do not change where a value lives.
fn without_trailing_blocks(mut cuts: Cuts) -> Cuts {
    while cuts.last().is_some_and(|factor| matches!(factor, Factor::Local(_) | Factor::Stream(_))) {
        cuts.pop();
    }
    cuts
}
