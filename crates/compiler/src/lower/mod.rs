//! From a complete placement to one device's view: every move and every operation on pieces, in order.
//!
//! Each operation becomes
//!
//! ```text
//!   operands ── moved where the space's layout wants them ──▶ the operation on pieces
//!            ── the result moved where it is placed ──▶ completed (bias, mean) ──▶ rounded
//! ```
//!
//! and if its space has streams, all but the last two stand in a loop over the steps. A value that was
//! moved outside a loop is kept for whoever needs it in the same layout.
//!
//! Parts that are still to be combined are held wide; a bias is added and a mean divided after the
//! parts are combined, and only then the result is rounded to its type, once.

mod fuse;
mod operation;
mod overlap;
mod peers;
mod resharded;
mod steps;
mod summed;

pub use overlap::Apart;

use crate::cost::Cost;
use crate::dtype::DType;
use crate::id::{Id, Table};
use crate::instr::verify::{MOST_COUNTER_IDS, MOST_COUNTERS};
use crate::instr::{Arg, Compute, Move, Path, TensorType};
use crate::layout::{Layout, StepId, Stream};
use crate::local::{LocalId, LocalInstr, LocalProgram, LocalValue};
use crate::op::{Op, space};
use crate::placement::Overlap;
use crate::program::{Program, Sizes, ValueId};
use crate::propagate::{Placed, typed};
use crate::reshard::{Leg, Route, route};
use crate::transfer::Traffic;
use std::collections::BTreeMap;

/// What becomes of a program, and what was decided on the way.
#[derive(Clone, Debug)]
pub struct Lowered {
    /// One device's view.
    pub local: LocalProgram,
    /// For each value that a loop fills step by step, how the steps of that loop overlap, or why they do not.
    pub overlaps: BTreeMap<ValueId, Result<Overlap, Apart>>,
}

impl Lowered {
    /// How the steps of a value overlap; none if no loop fills it.
    pub fn overlap(&self, value: ValueId) -> Option<Result<Overlap, Apart>> {
        self.overlaps.get(&value).copied()
    }
}

/// Lowers a program with a complete placement.
pub fn run(program: &Program, sizes: &Sizes, placed: &Placed, cost: &Cost) -> Lowered {
    let mut lower = Lower {
        program,
        sizes,
        placed,
        cost,
        values: Table::new(),
        bodies: vec![Vec::new()],
        at_hand: program.values.keys().map(|_| Vec::new()).collect(),
        summaries: BTreeMap::new(),
        next_counter: StepId::new(0),
        loops: Vec::new(),
    };
    for (value, v) in program.values.iter() {
        let Some(of_value) = &placed.values[value] else { continue };
        match program.apply(value) {
            None => {
                let ty = typed(program, sizes, value, &of_value.layout);
                let id = lower.value(&v.name, ty);
                lower.push(LocalInstr::Input(id));
                lower.at_hand[value].push(id);
            }
            Some(apply) => {
                let id = lower.operation(value, apply);
                // The value in the layout it is placed in comes first, whatever was moved.
                lower.at_hand[value].insert(0, id);
            }
        }
    }
    let mut outputs: Vec<_> =
        program.outputs.iter().map(|&v| (program.values[v].name.clone(), lower.at_hand[v][0])).collect();
    let mut body = lower.bodies.pop().expect("the outermost body stays to the end");
    let values = fuse::prune(&mut body, lower.values, &mut outputs);
    let local = LocalProgram { name: program.name.clone(), values, body, outputs };
    let overlaps = lower.loops.iter().flat_map(|one| one.values.iter().map(|&value| (value, one.overlap)));
    Lowered { local, overlaps: overlaps.collect() }
}

/// How far a program was written, to go back to.
struct Mark {
    values: usize,
    instrs: usize,
    at_hand: Vec<usize>,
    next_counter: StepId,
}

/// A summary of the parts of a value, as it was gathered.
struct KeptSummary {
    /// What gives the summary of a part.
    op: Op,
    /// Where each part was summarised.
    own: Layout,
    gathered: LocalId,
}

/// A loop that was written.
struct Looped {
    /// Where in the body it stands.
    at: usize,
    /// The values that it fills.
    values: Vec<ValueId>,
    /// How the user wants its steps to overlap, and how they do.
    via: Option<Overlap>,
    overlap: Result<Overlap, Apart>,
}

struct Lower<'a> {
    program: &'a Program,
    sizes: &'a Sizes,
    placed: &'a Placed,
    cost: &'a Cost,
    values: Table<LocalId, LocalValue>,
    /// The bodies being written, outermost first.
    bodies: Vec<Vec<LocalInstr>>,
    /// For each program value the local values that hold it outside loops.
    at_hand: Table<ValueId, Vec<LocalId>>,
    /// The summaries of each local value that were gathered outside loops.
    summaries: BTreeMap<LocalId, Vec<KeptSummary>>,
    /// The step counter of the next stream.
    next_counter: StepId,
    /// The loops, as they follow each other.
    loops: Vec<Looped>,
}

impl Lower<'_> {
    fn value(&mut self, name: &str, ty: TensorType) -> LocalId {
        self.values.push(LocalValue { name: name.into(), ty })
    }

    fn push(&mut self, instr: LocalInstr) {
        self.bodies.last_mut().expect("a body is always being written").push(instr);
    }

    fn mark(&self) -> Mark {
        Mark {
            values: self.values.len(),
            instrs: self.bodies[0].len(),
            at_hand: self.at_hand.values().map(Vec::len).collect(),
            next_counter: self.next_counter,
        }
    }

    /// Forgets what was written outside loops since the mark.
    fn roll_back(&mut self, mark: Mark) {
        self.values.truncate(mark.values);
        self.bodies[0].truncate(mark.instrs);
        self.at_hand.values_mut().zip(mark.at_hand).for_each(|(at_hand, len)| at_hand.truncate(len));
        self.next_counter = mark.next_counter;
    }

    fn ty(&self, id: LocalId) -> &TensorType {
        &self.values[id].ty
    }

    /// Counters for the streams of a loop, each with its steps. Where there are many loops, later ones use
    /// the counters of earlier ones again.
    fn count(&mut self, streams: &[Stream]) -> Vec<(StepId, u64)> {
        let first = self.next_counter.index();
        let counters: Vec<(StepId, u64)> =
            (first..).map(StepId::new).zip(streams.iter().map(|stream| stream.steps)).collect();
        self.next_counter = self.counter_after(counters.iter().map(|(id, _)| *id));
        counters
    }

    /// The counter of the next loop, after one with these.
    fn counter_after(&self, counters: impl Iterator<Item = StepId>) -> StepId {
        let next = counters.map(|id| id.index() + 1).max().unwrap_or(self.next_counter.index());
        StepId::new(if next + MOST_COUNTERS > MOST_COUNTER_IDS { 0 } else { next })
    }

    /// Moves all or a step of `source` into `target`.
    fn move_into(&mut self, source: LocalId, target: LocalId, because: &str) {
        self.move_along(Path::Direct, source, target, because);
    }

    /// The same, taking the elements from where the path says.
    fn move_along(&mut self, path: Path, source: LocalId, target: LocalId, because: &str) {
        let traffic = match path {
            Path::Direct => Traffic::of(self.ty(source), self.ty(target)),
            Path::PassedOn => Traffic::passed_on(self.ty(source), self.ty(target)),
        };
        let communicates = traffic.kind.communicates();
        self.push(LocalInstr::Move(Move {
            kind: traffic.kind,
            source,
            target,
            axes: traffic.axes,
            group: traffic.group,
            path,
            because: communicates.then(|| because.into()),
        }));
    }

    /// A new value that holds `source` in another layout.
    fn moved(&mut self, source: LocalId, layout: &Layout, because: &str) -> LocalId {
        self.moved_along(Path::Direct, source, layout, because)
    }

    /// The same, taking the elements from where the path says.
    fn moved_along(&mut self, path: Path, source: LocalId, layout: &Layout, because: &str) -> LocalId {
        let LocalValue { name, ty } = self.values[source].clone();
        let target = self.value(&name, TensorType { layout: layout.clone(), ..ty });
        self.move_along(path, source, target, because);
        target
    }

    /// `source` stored as another type, rounded if it is narrower.
    fn stored_as(&mut self, source: LocalId, dtype: DType) -> LocalId {
        if self.ty(source).dtype == dtype {
            return source;
        }
        let LocalValue { name, ty } = self.values[source].clone();
        let ty = TensorType { dtype, ..ty };
        self.elementwise(Op::Cast(dtype), vec![Arg::Value(source)], &name, ty)
    }

    /// An operation element by element on values of one layout.
    fn elementwise(&mut self, op: Op, operands: Vec<Arg<LocalId>>, name: &str, ty: TensorType) -> LocalId {
        let dims: Vec<_> = operands
            .iter()
            .map(|operand| match operand {
                Arg::Value(id) => self.ty(*id).dims.clone(),
                Arg::Number(_) => Vec::new(),
            })
            .collect();
        let space = space(&op, &dims, &ty.dims);
        let mut cuts = vec![Vec::new(); space.dims.len()];
        for (group, of_dim) in space.result.iter().zip(ty.layout.cuts()) {
            for dim in group {
                cuts[dim.index()] = of_dim.clone();
            }
        }
        let over = Layout::new(ty.layout.mesh().clone(), cuts, ty.layout.partial().to_vec());
        let over = over.expect("the cuts of a layout's own dims are distinct");
        let result = self.value(name, ty);
        self.push(LocalInstr::Compute(Compute { op, operands, result, space, over }));
        result
    }

    /// A value in a layout outside loops, from wherever it is cheapest to have; kept for later.
    fn have(&mut self, value: ValueId, layout: &Layout, because: &str) -> LocalId {
        let (from, how) = self.cheapest(value, layout, 1);
        let at = self.along(value, from, &how.legs, because);
        let dtype = typed(self.program, self.sizes, value, layout).dtype;
        let stored = self.stored_as(at, dtype);
        if stored != at {
            self.at_hand[value].push(stored);
        }
        stored
    }

    /// Moves a value along legs outside loops; every stop is kept for later.
    fn along(&mut self, value: ValueId, from: LocalId, legs: &[Leg], because: &str) -> LocalId {
        let mut at = from;
        for leg in legs {
            // Parts are held wide.
            let dtype = typed(self.program, self.sizes, value, &leg.target).dtype;
            if dtype == dtype.wide() {
                at = self.stored_as(at, dtype);
            }
            at = self.moved(at, &leg.target, because);
            self.at_hand[value].push(at);
        }
        at
    }

    /// The holder of a value from which a layout is reached most cheaply, and the way.
    fn cheapest(&self, value: ValueId, layout: &Layout, steps: u64) -> (LocalId, Route) {
        let ways = self.at_hand[value].iter().map(|&id| (id, route(self.ty(id), layout, self.cost)));
        ways.min_by(|a, b| a.1.time_us(self.cost, steps).total_cmp(&b.1.time_us(self.cost, steps)))
            .expect("an operand is lowered before it is used")
    }
}
