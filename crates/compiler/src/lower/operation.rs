//! One operation: its operands moved, its pieces computed, its result moved and completed.

use super::steps::{in_step, stops_in_step};
use super::{KeptSummary, Lower};
use crate::dtype::Number;
use crate::instr::{Arg, Compute, Kind, Path, TensorType};
use crate::layout::{Layout, StepId};
use crate::local::{LocalId, LocalInstr, LocalLoop};
use crate::op::{Later, Op, Reduce, Space, Zip, completed_after_parts, completed_later, space};
use crate::placement::Overlap;
use crate::program::{Apply, Operand, ValueId};
use crate::propagate::{OnPieces, OpPlan, Summarised, bias_layout, completed_in, stored, summarised, typed};
use crate::reshard::{Leg, route};

/// An operation while it is lowered.
pub(super) struct Running<'a> {
    pub value: ValueId,
    apply: &'a Apply,
    pub plan: &'a OpPlan,
    /// What runs on pieces: the operation without what is done later, and its operands.
    pub op: Op,
    pub operands: &'a [Operand],
    pub space: Space,
    /// The layout of the space inside the loop; the plan's own where there is none.
    pub over: Layout,
    /// The counters of the loop, with their steps.
    pub counters: Vec<(StepId, u64)>,
    /// What is passed on from device to device in the loop.
    passing: Option<Passing>,
    /// Where the result is to be when it is completed.
    pub target: Layout,
    /// How the pieces give the result, all steps together.
    pub natural: Layout,
    /// What completes the result.
    later: Later<'a>,
}

impl Running<'_> {
    /// How many steps the streams make.
    pub fn steps(&self) -> u64 {
        let sizes: Vec<u64> = self.space.dims.values().map(|dim| dim.size).collect();
        self.plan.over.step_count(&sizes)
    }
}

impl Lower<'_> {
    /// Lowers the operation that gives `value`; returns what holds it.
    pub(super) fn operation(&mut self, value: ValueId, apply: &Apply) -> LocalId {
        let placed = self.placed;
        let plan = placed.ops[value].as_ref().expect("a needed operation has a plan");
        let target = placed.layout(value).clone();
        if let Some(operand) = self.program.moved_operand(value) {
            return self.reshard(value, operand, &target, plan);
        }
        let whole = self.program.space(value, self.sizes).expect("an operation has a space");
        let in_steps = self.summed_in_steps(apply, plan, &whole).map(|over| OpPlan { over, ..plan.clone() });
        let summed = in_steps.and_then(|plan| {
            let mark = self.mark();
            let running = self.running(value, apply, &plan, &whole, InParts::OfSteps);
            let summed = self.summed(&running);
            if summed.is_none() {
                self.roll_back(mark);
            }
            let because = self.result_reason(&running);
            summed.map(|id| self.follow(id, &running.target, &because))
        });
        let in_parts = if summed.is_some() { InParts::OfSteps } else { InParts::OfDevices };
        let mut running = self.running(value, apply, plan, &whole, in_parts);
        let combined = match summed {
            Some(id) => id,
            None if running.counters.is_empty() => self.straight(&running),
            None => {
                self.walk_peers(&mut running);
                self.in_loop(&running)
            }
        };
        let completed = self.completed(&running, combined);
        let because = self.result_reason(&running);
        self.follow(completed, &target, &because)
    }

    /// An operation as it begins: its own steps, no peers.
    fn running<'a>(
        &mut self,
        value: ValueId,
        apply: &'a Apply,
        plan: &'a OpPlan,
        whole: &Space,
        in_parts: InParts,
    ) -> Running<'a> {
        let target = self.placed.layout(value).clone();
        let natural = whole.result_layout(&plan.over).expect("a chosen way can be projected");
        let later = match in_parts {
            InParts::OfDevices => completed_later(&apply.op, apply.operands.len(), &natural),
            InParts::OfSteps => completed_after_parts(&apply.op, apply.operands.len()),
        };
        let all = &apply.operands[..];
        let (op, operands, goal) = match later {
            Later::Nothing => (apply.op.clone(), all, target.clone()),
            Later::Bias { operand } => (apply.op.clone(), &all[..operand], completed_in(&target)),
            Later::Division { dims } => (Op::Reduce(Reduce::Sum, dims.to_vec()), all, completed_in(&target)),
        };
        let dims = operands.iter().map(|operand| match operand {
            Operand::Value(v) => self.program.sized_dims(*v, self.sizes),
            Operand::Number(_) => Vec::new(),
        });
        let space = space(&op, &dims.collect::<Vec<_>>(), &self.program.sized_dims(value, self.sizes));
        let sizes: Vec<u64> = space.dims.values().map(|dim| dim.size).collect();
        let over = plan.over.at_step(&sizes, self.next_counter);
        let streams = plan.over.streams(&sizes);
        let counters = self.count(&streams);
        Running {
            value,
            apply,
            plan,
            op,
            operands,
            space,
            over,
            counters,
            passing: None,
            target: goal,
            natural,
            later,
        }
    }

    /// Goes through the pieces of peers one by one, if that is asked for and the steps line up with them.
    fn walk_peers(&mut self, running: &mut Running<'_>) {
        let Some(by) = self.by_peers(running) else { return };
        self.next_counter = self.counter_after(by.counters.iter().map(|(id, _)| *id));
        running.over = by.over;
        running.counters = by.counters;
        running.passing =
            (by.path == Path::PassedOn).then(|| by.operand.map_or(Passing::Sum, Passing::Operand));
    }

    /// Without streams: operands, pieces, result.
    fn straight(&mut self, running: &Running<'_>) -> LocalId {
        let operands: Vec<Arg<LocalId>> = (0..running.operands.len())
            .map(|k| match running.operands[k] {
                Operand::Number(number) => self.number(running, number),
                Operand::Value(operand) => {
                    let because = self.operand_reason(running, operand);
                    Arg::Value(self.have(operand, &self.needed(running, k, &running.plan.over), &because))
                }
            })
            .collect();
        let at = self.pieces(running, operands, running.natural.clone());
        let because = self.result_reason(running);
        self.follow(at, &running.target, &because)
    }

    /// A result on the way to a layout, outside loops. Parts are held wide.
    fn follow(&mut self, mut at: LocalId, target: &Layout, because: &str) -> LocalId {
        let how = route(self.ty(at), target, self.cost);
        for leg in &how.legs {
            if !leg.target.partial().is_empty() {
                at = self.stored_as(at, self.ty(at).dtype.wide());
            }
            at = self.moved(at, &leg.target, because);
        }
        at
    }

    /// A loop over the steps that fills the result.
    fn in_loop(&mut self, running: &Running<'_>) -> LocalId {
        let name = &self.program.values[running.value].name;
        let ty = self.result_type(running, running.target.clone());
        let result = self.value(name, ty);
        // What does not change from step to step is had before the loop.
        let before: Vec<Before> = (0..running.operands.len()).map(|k| self.before_loop(running, k)).collect();
        self.bodies.push(Vec::new());
        let operands =
            before.into_iter().enumerate().map(|(k, before)| self.in_step_operand(running, k, before));
        let operands = operands.collect();
        let natural = running.space.result_layout(&running.over).expect("a chosen way can be projected");
        let piece = self.pieces(running, operands, natural);
        self.step_result(running, piece, result);
        let body = self.bodies.pop().expect("the loop's body was pushed above");
        let counters = running.counters.clone();
        let steps = LocalLoop {
            counters,
            steps: running.steps(),
            results: vec![result],
            body,
            overlap: Overlap::None,
        };
        self.push_loop(running.value, steps, running.plan.way());
        result
    }

    /// The type of the result in a layout, inside the loop: wide where it is in parts at either end.
    pub(super) fn result_type(&self, running: &Running<'_>, layout: Layout) -> TensorType {
        let dtype = self.program.values[running.value].dtype;
        let wide = running.natural.is_partial() || !running.target.partial().is_empty();
        let dtype = if wide { dtype.wide() } else { dtype };
        TensorType { dtype, ..typed(self.program, self.sizes, running.value, &layout) }
    }

    /// The layout an operand needs when the operation runs over `over`.
    pub(super) fn needed(&self, running: &Running<'_>, k: usize, over: &Layout) -> Layout {
        let partial = if running.plan.carriers.contains(&k) { over.partial() } else { &[] };
        running.space.operand_layout(over, k, partial).expect("a chosen way can be projected")
    }

    /// A number takes the type of the operand beside it. Where that is in parts, which are held wide, it
    /// is rounded here: what runs sees the wide type alone.
    fn number(&self, running: &Running<'_>, number: Number) -> Arg<LocalId> {
        let in_parts = !running.plan.carriers.is_empty();
        let dtype = self.program.values[running.value].dtype;
        Arg::Number(if in_parts { number.rounded(dtype) } else { number })
    }

    pub(super) fn operand_sizes(&self, operand: ValueId) -> Vec<u64> {
        self.program.sized_dims(operand, self.sizes).into_iter().map(|(_, size)| size).collect()
    }

    /// What can be done for an operand before the loop.
    pub(super) fn before_loop(&mut self, running: &Running<'_>, k: usize) -> Before {
        let operand = match running.operands[k] {
            Operand::Number(number) => return Before::Ready(self.number(running, number)),
            Operand::Value(operand) => operand,
        };
        let need = self.needed(running, k, &running.plan.over);
        let step = self.needed(running, k, &running.over);
        let because = self.operand_reason(running, operand);
        let sizes = self.operand_sizes(operand);
        let steps = need.step_count(&sizes);
        if steps <= 1 {
            let whole = self.have(operand, &need, &because);
            // The pieces of peers may divide what no stream does.
            return match step.cuts().iter().flatten().any(|factor| factor.step().is_some()) {
                true => Before::Source { source: whole, stops: Vec::new(), step },
                false => Before::Ready(Arg::Value(whole)),
            };
        }
        let (from, how) = self.cheapest(operand, &need, steps);
        match how.legs.split_last() {
            None => Before::Source { source: from, stops: Vec::new(), step },
            // Some of the loop's counters do not count this operand: what it communicates in the loop, it
            // would communicate again and again.
            Some((last, _)) if last.traffic.kind.communicates() && steps < running.steps() => {
                let whole = self.along(operand, from, &how.legs, &because);
                Before::Source { source: whole, stops: Vec::new(), step }
            }
            Some((last, others)) => {
                let source = self.along(operand, from, others, &because);
                match stops_in_step(self.ty(source), last.traffic.kind, &step) {
                    Some(stops) => Before::Source { source, stops, step },
                    None => {
                        let whole = self.along(operand, source, std::slice::from_ref(last), &because);
                        Before::Source { source: whole, stops: Vec::new(), step }
                    }
                }
            }
        }
    }

    /// An operand's piece for the running step.
    pub(super) fn in_step_operand(
        &mut self,
        running: &Running<'_>,
        k: usize,
        before: Before,
    ) -> Arg<LocalId> {
        let (mut at, stops, step) = match before {
            Before::Ready(arg) => return arg,
            Before::Source { source, stops, step } => (source, stops, step),
        };
        let Operand::Value(operand) = running.operands[k] else {
            unreachable!("a number is ready before the loop")
        };
        let because = self.operand_reason(running, operand);
        let dtype = typed(self.program, self.sizes, operand, &step).dtype;
        // Parts are held wide.
        if dtype == dtype.wide() {
            at = self.stored_as(at, dtype);
        }
        for layout in &stops {
            at = self.moved(at, layout, &because);
        }
        let path = if running.passing == Some(Passing::Operand(k)) { Path::PassedOn } else { Path::Direct };
        at = self.moved_along(path, at, &step, &because);
        Arg::Value(self.stored_as(at, dtype))
    }

    /// Moves one step's result into the whole result.
    fn step_result(&mut self, running: &Running<'_>, piece: LocalId, result: LocalId) {
        let because = self.result_reason(running);
        let whole = TensorType { layout: running.natural.clone(), ..self.ty(piece).clone() };
        let how = route(&whole, &running.target, self.cost);
        let (steps, sizes) = (self.ty(piece).layout.clone(), self.ty(piece).sizes());
        let mut legs: Vec<Layout> = Vec::new();
        if let Some((last, others)) = how.legs.split_last() {
            let others: Option<Vec<Layout>> =
                others.iter().map(|leg: &Leg| in_step(&leg.target, &steps, &sizes)).collect();
            match others {
                Some(others) => {
                    legs.extend(others);
                    // An all-reduce needs a target as large as its source.
                    if last.traffic.kind == Kind::AllReduce {
                        let before = legs.last().unwrap_or(&steps);
                        legs.push(
                            before
                                .with_partial(last.target.partial().to_vec())
                                .unwrap_or_else(|| before.combined()),
                        );
                    }
                }
                None => legs.push(steps.combined()),
            }
        }
        let mut at = self.stored_as(piece, self.ty(result).dtype);
        if running.passing == Some(Passing::Sum) {
            let travelling = steps.with_partial(running.target.partial().to_vec());
            let travelling = travelling.expect("what is partial in the target is so in the natural layout");
            at = self.moved_along(Path::PassedOn, at, &travelling, &because);
        }
        for layout in &legs {
            at = self.moved(at, layout, &because);
        }
        self.move_into(at, result, &because);
    }

    /// The operation on pieces; along a dim that is cut, in parts.
    fn pieces(&mut self, running: &Running<'_>, operands: Vec<Arg<LocalId>>, natural: Layout) -> LocalId {
        let v = &self.program.values[running.value];
        let dims = self.program.sized_dims(running.value, self.sizes);
        let dtype = if running.natural.is_partial() { v.dtype.wide() } else { stored(v.dtype, &natural) };
        let result_type = TensorType { dims, dtype, layout: natural };
        let elements = operands.first().and_then(|operand| match operand {
            Arg::Value(id) => Some(self.ty(*id).dtype),
            Arg::Number(_) => None,
        });
        let parts = elements.and_then(|ty| summarised(&running.op, &running.space, &running.over, ty));
        if let Some(parts) = parts {
            return self.with_summaries(running, parts, operands, result_type);
        }
        let (op, space, over) = (running.op.clone(), running.space.clone(), running.over.clone());
        self.computed(OnPieces { op, space, over }, operands, &v.name, result_type)
    }

    /// Summaries of the parts, gathered, and the operation finished from them. Outside loops a summary is
    /// kept for other operations that need the same one.
    fn with_summaries(
        &mut self,
        running: &Running<'_>,
        parts: Summarised,
        mut operands: Vec<Arg<LocalId>>,
        result: TensorType,
    ) -> LocalId {
        let Summarised { summary, own, all, finish, says } = parts;
        let name = &self.program.values[running.value].name;
        let Some(&Arg::Value(elements)) = operands.first() else { unreachable!("a number has no parts") };
        let outside = self.bodies.len() == 1;
        let known = self.summaries.get(&elements).into_iter().flatten().filter(|_| outside);
        let mut known = known.filter(|known| {
            let ty = self.ty(known.gathered);
            known.op == summary.op && known.own == own.layout && ty.dims == own.dims && ty.layout == all
        });
        let gathered = match known.next() {
            Some(known) => known.gathered,
            None => {
                let (op, layout) = (summary.op.clone(), own.layout.clone());
                let own = self.computed(summary, vec![operands[0]], name, own);
                let because = format!("{}; devices exchange {says}", running.plan.because);
                let gathered = self.moved(own, &all, &because);
                if outside {
                    let kept = KeptSummary { op, own: layout, gathered };
                    self.summaries.entry(elements).or_default().push(kept);
                }
                gathered
            }
        };
        operands.truncate(finish.space.operands.len() - 1);
        operands.push(Arg::Value(gathered));
        self.computed(finish, operands, name, result)
    }

    /// The result of a computation.
    fn computed(&mut self, on: OnPieces, operands: Vec<Arg<LocalId>>, name: &str, ty: TensorType) -> LocalId {
        let result = self.value(name, ty);
        let OnPieces { op, space, over } = on;
        self.push(LocalInstr::Compute(Compute { op, operands, result, space, over }));
        result
    }

    /// A bias is added or a mean divided, and the result rounded.
    fn completed(&mut self, running: &Running<'_>, combined: LocalId) -> LocalId {
        let ty = typed(self.program, self.sizes, running.value, &running.target);
        let (zip, right) = match running.later {
            Later::Nothing => return self.stored_as(combined, ty.dtype),
            Later::Bias { operand } => (Zip::Add, self.bias(running, running.apply.operands[operand])),
            Later::Division { dims } => {
                let summed = running.space.dims.values().filter(|dim| dims.contains(&dim.name));
                let count: u64 = summed.map(|dim| dim.size).product();
                (Zip::Div, Arg::Number(Number::Int(i128::from(count))))
            }
        };
        let name = &self.program.values[running.value].name;
        self.elementwise(Op::Zip(zip), vec![Arg::Value(combined), right], name, ty)
    }

    /// A bias where it is added.
    fn bias(&mut self, running: &Running<'_>, bias: Operand) -> Arg<LocalId> {
        match bias {
            Operand::Number(number) => Arg::Number(number),
            Operand::Value(bias) => {
                let layout = bias_layout(self.program, running.value, bias, &running.target);
                let because = self.operand_reason(running, bias);
                Arg::Value(self.have(bias, &layout, &because))
            }
        }
    }

    fn operand_reason(&self, running: &Running<'_>, operand: ValueId) -> String {
        let name = &self.program.values[operand].name;
        format!("{}; {name} is placed {}", running.plan.because, self.placed_text(operand))
    }

    fn result_reason(&self, running: &Running<'_>) -> String {
        let name = &self.program.values[running.value].name;
        format!("{}; {name} is placed {}", running.plan.because, self.placed_text(running.value))
    }

    fn placed_text(&self, value: ValueId) -> String {
        let names = self.program.dim_names(value);
        self.placed.layout(value).text(&names, Some(self.placed.home.name())).to_string()
    }
}

/// Of what the result of an operation may be put together.
#[derive(Clone, Copy, PartialEq, Eq)]
enum InParts {
    /// Of those of devices, if axes cut what is combined.
    OfDevices,
    /// Of those of steps.
    OfSteps,
}

/// What devices pass on to each other, step by step.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Passing {
    /// The pieces of an operand.
    Operand(usize),
    /// The sum of the parts of the result.
    Sum,
}

/// An operand of a loop, as far as it is there before the loop.
pub(super) enum Before {
    /// The same at every step.
    Ready(Arg<LocalId>),
    /// Each step moves its piece from `source` over the stops to `step`.
    Source { source: LocalId, stops: Vec<Layout>, step: Layout },
}
