//! A value in another layout, as a program asks for it; step by step if that has streams.

use super::Lower;
use super::steps::stops_in_step;
use crate::id::Id;
use crate::instr::{Path, TensorType};
use crate::layout::Layout;
use crate::local::{LocalId, LocalLoop};
use crate::placement::Overlap;
use crate::program::ValueId;
use crate::propagate::{OpPlan, typed};

impl Lower<'_> {
    /// The operand in the result's layout; step by step if that has streams. What is new has the
    /// result's name, so that its own moves are told under it.
    pub(super) fn reshard(
        &mut self,
        value: ValueId,
        operand: ValueId,
        target: &Layout,
        plan: &OpPlan,
    ) -> LocalId {
        let known = self.values.len();
        let id = self.resharded(value, operand, target, plan);
        if id.index() >= known {
            self.values[id].name.clone_from(&self.program.values[value].name);
        }
        id
    }

    fn resharded(&mut self, value: ValueId, operand: ValueId, target: &Layout, plan: &OpPlan) -> LocalId {
        let sizes = self.operand_sizes(operand);
        let streams = target.streams(&sizes);
        let (from, how) = self.cheapest(operand, target, target.step_count(&sizes));
        let because = &plan.because;
        let step = target.at_step(&sizes, self.next_counter);
        let stepped =
            how.legs.split_last().filter(|(last, _)| last.traffic.kind.communicates() && !streams.is_empty());
        let Some((last, others)) = stepped else {
            return self.have(operand, target, because);
        };
        let mut source = self.along(operand, from, others, because);
        let Some(stops) = stops_in_step(self.ty(source), last.traffic.kind, &step) else {
            return self.have(operand, target, because);
        };
        if !target.partial().is_empty() {
            source = self.stored_as(source, self.ty(source).dtype.wide());
        }
        let result = self.value(
            &self.program.values[value].name,
            TensorType { layout: target.clone(), ..self.ty(source).clone() },
        );
        let counters = self.count(&streams);
        let by =
            self.moved_by_peers((&self.ty(source).layout, self.ty(result)), (&step, &counters), plan.way());
        let (step, counters, path) = match by {
            Some(by) => (by.over, by.counters, by.path),
            None => (step, counters, Path::Direct),
        };
        self.next_counter = self.counter_after(counters.iter().map(|(id, _)| *id));
        self.bodies.push(Vec::new());
        let at = stops.iter().fold(source, |at, layout| self.moved(at, layout, because));
        let at = self.moved_along(path, at, &step, because);
        self.move_into(at, result, because);
        let body = self.bodies.pop().expect("the loop's body was pushed above");
        let steps = target.step_count(&sizes);
        let steps = LocalLoop { counters, steps, results: vec![result], body, overlap: Overlap::None };
        self.push_loop(value, steps, plan.way());
        self.stored_as(result, typed(self.program, self.sizes, value, target).dtype)
    }
}
