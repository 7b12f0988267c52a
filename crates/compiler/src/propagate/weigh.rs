//! What one way to run an operation costs: moving its operands there, the work, moving its result.

use super::summarised::{OnPieces, summarised};
use super::typed;
use super::ways::{Question, Way};
use crate::cost::Cost;
use crate::dtype::Combine;
use crate::instr::TensorType;
use crate::layout::{Cuts, Layout};
use crate::op::{Later, Op, Space, completed_later, work};
use crate::program::{Operand, Program, Sizes, ValueId};
use crate::reshard::{Route, route};
use std::cmp::Ordering;

/// A way with what it needs and costs.
#[derive(Clone, Debug)]
pub(super) struct Weighed {
    pub way: Way,
    /// The layout in which the operation gives its result.
    pub natural: Layout,
    /// For each operand that has to move: which, and how.
    pub moves: Vec<(usize, Route)>,
    /// How summaries of the parts of a dim come to all who need them.
    pub summaries: Route,
    /// How the result goes where it is wanted.
    pub result: Route,
    pub time_us: f64,
    pub bytes_total: u64,
    /// The pieces of all operands and the result, before and after their moves.
    memory: u64,
    /// Whether each operand communicates, in the order of claims.
    moved: Vec<bool>,
}

impl Weighed {
    /// A way that only moves its one operand to the result.
    pub fn of_move(way: Way, natural: Layout, moved: Route) -> Weighed {
        let (bytes_total, moves) = (moved.bytes_total(), vec![(0, moved)]);
        let (summaries, result) = (Route::default(), Route::default());
        let (time_us, memory, moved) = (0.0, 0, Vec::new());
        Weighed { way, natural, moves, summaries, result, time_us, bytes_total, memory, moved }
    }

    /// The order in which ways are preferred. Times count in whole nanoseconds: what a few elements more
    /// or less take decides nothing.
    pub fn cheaper(&self, other: &Weighed) -> Ordering {
        let rounded = |weighed: &Weighed| (weighed.time_us * 1e3).round();
        rounded(self)
            .total_cmp(&rounded(other))
            .then(self.bytes_total.cmp(&other.bytes_total))
            .then(self.memory.cmp(&other.memory))
            .then(self.moved.cmp(&other.moved))
    }
}

impl Question<'_> {
    /// The cheapest of all ways, and the others from cheap to dear.
    pub fn best(&self, sizes: &Sizes, cost: &Cost) -> (Weighed, Vec<Weighed>) {
        let mut weighed: Vec<Weighed> =
            self.ways().into_iter().filter_map(|way| self.weigh(sizes, cost, way)).collect();
        weighed.sort_by(Weighed::cheaper);
        let mut weighed = weighed.into_iter();
        let first = weighed.next().expect("an operation can run with nothing cut");
        (first, weighed.collect())
    }

    /// The layout in which an operand must be.
    fn needed(&self, way: &Way, operand: usize) -> Option<Layout> {
        let partial = if way.carriers.contains(&operand) { way.over.partial() } else { &[] };
        self.space.operand_layout(&way.over, operand, partial)
    }

    /// The cost of one way; `None` if the operation cannot run so.
    pub fn weigh(&self, sizes: &Sizes, cost: &Cost, way: Way) -> Option<Weighed> {
        let natural = self.space.result_layout(&way.over)?;
        let steps = way.over.step_count(&self.space_sizes());
        let later = completed_later(&self.apply.op, self.apply.operands.len(), &natural);
        let wanted = self.wanted.unwrap_or(&natural);
        let (mut time_us, mut bytes_total, mut memory) = (0.0, 0u64, 0u64);
        let (mut moves, mut moved) = (Vec::new(), Vec::new());
        for k in self.claim_order() {
            let Operand::Value(operand) = self.apply.operands[k] else { continue };
            let need = match later {
                Later::Bias { operand: bias } if bias == k => {
                    bias_layout(self.program, self.value, operand, &completed_in(wanted))
                }
                _ => self.needed(&way, k)?,
            };
            memory = memory.saturating_add(typed(self.program, sizes, operand, &need).largest_piece_bytes());
            let own_steps = need.step_count(&typed(self.program, sizes, operand, &need).sizes());
            // What not all counters of a loop count is moved before it.
            let steps = if own_steps == steps { steps } else { 1 };
            let is_moved = !self.followers.contains(&operand);
            let routes = self.at_hand[operand].iter().filter(|_| is_moved).map(|from| {
                let source = typed(self.program, sizes, operand, from);
                let route = route(&source, &need, cost);
                (source, route)
            });
            let best = routes.min_by(|a, b| a.1.time_us(cost, steps).total_cmp(&b.1.time_us(cost, steps)));
            let Some((source, best)) = best else { continue };
            if !best.legs.is_empty() {
                memory = memory.saturating_add(source.largest_piece_bytes());
            }
            time_us += best.time_us(cost, steps);
            bytes_total = bytes_total.saturating_add(best.bytes_total());
            moved.push(best.communicates());
            if !best.legs.is_empty() {
                moves.push((k, best));
            }
        }
        let summaries = self.weigh_work(&way, cost, steps, &mut time_us, &mut memory);
        bytes_total = bytes_total.saturating_add(summaries.bytes_total());
        let result_type = typed(self.program, sizes, self.value, &natural);
        memory = memory.saturating_add(result_type.largest_piece_bytes());
        // A partial result that nobody has placed will have to be combined sooner or later.
        let target = self.wanted.cloned().unwrap_or_else(|| natural.combined());
        let result = route(&result_type, &target, cost);
        if !result.legs.is_empty() {
            memory =
                memory.saturating_add(typed(self.program, sizes, self.value, &target).largest_piece_bytes());
        }
        time_us += result.time_us(cost, steps);
        bytes_total = bytes_total.saturating_add(result.bytes_total());
        Some(Weighed { way, natural, moves, summaries, result, time_us, bytes_total, memory, moved })
    }

    /// What the work itself costs; along a dim that is cut with the exchange of summaries, which is
    /// returned.
    fn weigh_work(&self, way: &Way, cost: &Cost, steps: u64, time_us: &mut f64, memory: &mut u64) -> Route {
        let mut add = |op: &Op, space: &Space, over: &Layout| {
            *time_us += cost.time_us(work(op, space, &space.largest_piece(over)), 0, 0);
        };
        let dtype = self.apply.values().next().map(|value| self.program.values[value].dtype);
        let parts = dtype.and_then(|dtype| summarised(&self.apply.op, self.space, &way.over, dtype));
        let Some(parts) = parts else {
            add(&self.apply.op, self.space, &way.over);
            return Route::default();
        };
        for OnPieces { op, space, over } in [&parts.summary, &parts.finish] {
            add(op, space, over);
        }
        let all = TensorType { layout: parts.all.clone(), ..parts.own.clone() };
        *memory = memory.saturating_add(parts.own.largest_piece_bytes());
        *memory = memory.saturating_add(all.largest_piece_bytes());
        let gathered = parts.gathered(cost);
        *time_us += gathered.time_us(cost, steps);
        gathered
    }
}

/// The layout in which an operation is completed later, on the way to where its result is to be: a bias may
/// be added to parts of a sum and a sum divided in parts, but not parts of anything else.
pub(crate) fn completed_in(target: &Layout) -> Layout {
    let sums = target.partial().iter().all(|p| p.combine == Combine::Sum);
    if sums { target.clone() } else { target.combined() }
}

/// Where the bias of a linear must be when it is added to a result in this layout.
pub(crate) fn bias_layout(program: &Program, value: ValueId, bias: ValueId, result: &Layout) -> Layout {
    let dims = &program.values[value].dims;
    let cuts: Vec<Cuts> = program.values[bias]
        .dims
        .iter()
        .map(|dim| dims.iter().position(|d| d == dim).map(|at| result.cuts()[at].clone()).unwrap_or_default())
        .collect();
    Layout::new(result.mesh().clone(), cuts, result.partial().to_vec())
        .expect("the cuts of a layout's own dims are distinct")
}
