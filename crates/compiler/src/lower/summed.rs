//! Operations that sum over what a loop makes step by step, and go along with it.
//!
//! ```text
//!   loop i0 < 4 via collective {
//!     result %5 y: f32[m=8, n=6] at n/tp on line
//!     %3 x: f32[m=8, k=16] at k/step(4, i0) on line = all_gather %0
//!     %4 w: f32[n=6, k=16] at n/tp, k/step(4, i0) on line = copy %1
//!     %5 y = linear(%3, %4) over n/tp, k/step(4, i0) on line        each step adds its part
//!   }
//! ```
//!
//! A stream of a dim that an operation combines does not go on in its result. But each step's part can be
//! combined as soon as the step is there, while the next one is on its way. It pays where the loop
//! communicates; elsewhere the operation runs once, on all of it.

use super::Lower;
use super::operation::Running;
use crate::id::Id;
use crate::instr::{Compute, TensorType};
use crate::layout::{Factor, Layout};
use crate::local::{LocalId, LocalInstr, LocalLoop};
use crate::op::{DimUse, Space};
use crate::placement::Overlap;
use crate::program::{Apply, Operand};
use crate::propagate::OpPlan;

impl Lower<'_> {
    /// The layout of an operation's space with the steps in which an operand is being made, if these cut what
    /// the operation combines; `None` if there are none, or it has steps of its own.
    pub(super) fn summed_in_steps(&self, apply: &Apply, plan: &OpPlan, space: &Space) -> Option<Layout> {
        if plan.over.has_stream() || plan.way() == Some(Overlap::None) {
            return None;
        }
        let made = self.communicating_results()?;
        let mut over = plan.over.cuts().to_vec();
        for (operand, groups) in apply.operands.iter().zip(&space.operands) {
            let Operand::Value(value) = operand else { continue };
            let Some(id) = self.at_hand[*value].iter().find(|id| made.contains(id)) else { continue };
            for (group, cuts) in groups.iter().zip(self.ty(*id).layout.cuts()) {
                let ([dim], [Factor::Stream(_)]) = (&group[..], &cuts[..]) else { continue };
                let combined = matches!(space.dims[*dim].usage, DimUse::Combined(_));
                if combined && over[dim.index()].is_empty() {
                    over[dim.index()].clone_from(cuts);
                }
            }
        }
        let over = Layout::new(plan.over.mesh().clone(), over, plan.over.partial().to_vec())?;
        over.has_stream().then_some(over)
    }

    /// The results of the last loop, if its steps communicate.
    fn communicating_results(&self) -> Option<&[LocalId]> {
        let last = self.loops.last()?;
        let LocalInstr::Loop(steps) = self.bodies.first()?.get(last.at)? else { return None };
        steps.body.iter().any(LocalInstr::communicates).then_some(&steps.results)
    }

    /// The operation in the steps of the loop before it; `None` if they do not line up.
    pub(super) fn summed(&mut self, running: &Running<'_>) -> Option<LocalId> {
        let name = &self.program.values[running.value].name;
        let ty = self.result_type(running, running.natural.clone());
        let wide = ty.dtype.wide();
        let result = self.value(name, TensorType { dtype: wide, ..ty });
        let before: Vec<_> = (0..running.operands.len()).map(|k| self.before_loop(running, k)).collect();
        self.bodies.push(Vec::new());
        let operands =
            before.into_iter().enumerate().map(|(k, before)| self.in_step_operand(running, k, before));
        let operands = operands.collect();
        let (op, space, over) = (running.op.clone(), running.space.clone(), running.over.clone());
        self.push(LocalInstr::Compute(Compute { op, operands, result, space, over }));
        let body = self.bodies.pop().expect("the loop's body was pushed above");
        let counters = running.counters.clone();
        let (steps, results) = (running.steps(), vec![result]);
        let steps = LocalLoop { counters, steps, results, body, overlap: Overlap::None };
        // The loop runs as its own value wants it to.
        self.join_loop(running.value, &steps, None).then_some(result)
    }
}
