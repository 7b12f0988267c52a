//! The verifier of the local form.
//!
//! It walks the text once, in order, and keeps for each value what may be done with it:
//!
//! ```text
//!            instruction gives it            its loop ends
//!  Unknown ────────────────────▶ Defined ───────────────────▶ Ended
//!     │                             ▲
//!     │ a loop names it as result   │ the loop ends, and its steps have written all of it
//!     └─────────▶ Filled ───────────┘
//! ```
//!
//! Only a defined value is read; only a value that is being filled is written again, and only by moves.
//! Steps are not run one by one: what all steps of a loop write together is the reach of the move's
//! layouts over all of them (see [`Layout::reach`](crate::layout::Layout::reach)).

use super::{LocalId, LocalInstr, LocalLoop, LocalProgram, LocalValue};
use crate::id::{Id, Table};
use crate::instr::verify::{check_compute, check_meshes, check_move, check_type, enter_loop};
use crate::instr::{Arg, Compute, Fault, Move, TensorType};
use crate::layout::{IndexSet, Region, StepId, box_intersection};
use std::collections::BTreeSet;
use std::ops::Range;

/// Checks every invariant of a local program.
pub fn verify(program: &LocalProgram) -> Result<(), Fault> {
    check_meshes(program.meshes())?;
    let states = program.values.keys().map(|_| State::Unknown).collect();
    let mut checker = Checker { program, states, defined: Vec::new(), counters: Vec::new() };
    checker.block(&program.body)?;
    if let Some(id) = program.values.keys().find(|&id| checker.states[id] == State::Unknown) {
        return Err(Fault::new(format!("{id} is never defined")));
    }
    checker.outputs()
}

/// What may be done with a value.
#[derive(Clone, PartialEq, Debug)]
enum State {
    Unknown,
    Defined,
    /// Its loop is running; what its steps write, seen from the first and from the last steps of the
    /// loops around that loop.
    Filled {
        /// How many counters run around its loop.
        outside: usize,
        written: [Region; 2],
    },
    Ended,
}

struct Checker<'a> {
    program: &'a LocalProgram,
    states: Table<LocalId, State>,
    /// The values that instructions have given so far, in order.
    defined: Vec<LocalId>,
    counters: Vec<(StepId, u64)>,
}

impl<'a> Checker<'a> {
    fn block(&mut self, body: &[LocalInstr]) -> Result<(), Fault> {
        for instr in body {
            let checked = match instr {
                LocalInstr::Input(id) => self.input(*id),
                LocalInstr::Compute(compute) => self.compute(compute),
                LocalInstr::Move(moved) => self.moved(moved),
                LocalInstr::Loop(steps) => self.steps(steps),
            };
            checked.map_err(|fault| fault.at(self.program.line(instr)))?;
        }
        Ok(())
    }

    fn input(&mut self, id: LocalId) -> Result<(), Fault> {
        if !self.counters.is_empty() {
            return Err(Fault::new(format!("{id} is an input inside a loop")));
        }
        self.define(id)
    }

    fn compute(&mut self, compute: &Compute<LocalId>) -> Result<(), Fault> {
        let ty = |operand: &Arg<LocalId>| operand.value().map(|id| self.read(id)).transpose();
        let operands = compute.operands.iter().map(ty).collect::<Result<Vec<_>, Fault>>()?;
        let combined = compute.combined_steps().is_some();
        let result = &self.value(compute.result)?.ty;
        if !combined {
            self.define(compute.result)?;
        } else if !matches!(self.states[compute.result], State::Filled { .. }) {
            let id = compute.result;
            return Err(Fault::new(format!(
                "steps are combined in {id}, which is no result of a loop around"
            )));
        }
        check_compute(compute, &operands, result, &self.counters)?;
        if combined {
            self.fill(compute.result, |steps| result.layout.reach(&result.sizes(), steps));
        }
        Ok(())
    }

    /// A step writes these elements of a result of a loop around it.
    fn fill(&mut self, id: LocalId, elements: impl Fn(&[Range<u64>]) -> Vec<IndexSet>) {
        let counters = &self.counters;
        if let State::Filled { outside, written } = &mut self.states[id] {
            for (end, region) in [End::First, End::Last].into_iter().zip(written) {
                region.add(elements(&ranges(counters, *outside, end)));
            }
        }
    }

    fn moved(&mut self, moved: &Move<LocalId>) -> Result<(), Fault> {
        let source = self.read(moved.source)?;
        let target = &self.value(moved.target)?.ty;
        if !matches!(self.states[moved.target], State::Filled { .. }) {
            self.define(moved.target)?;
            check_move(moved, source, target, &self.counters)?;
            return self.covers(source, target);
        }
        check_move(moved, source, target, &self.counters)?;
        let sizes = target.sizes();
        self.fill(moved.target, |steps| {
            box_intersection(&source.layout.reach(&sizes, steps), &target.layout.reach(&sizes, steps))
        });
        Ok(())
    }

    /// A value that a move defines gets all its elements from it.
    fn covers(&self, source: &TensorType, target: &TensorType) -> Result<(), Fault> {
        let sizes = target.sizes();
        for end in [End::First, End::Last] {
            let steps = ranges(&self.counters, self.counters.len(), end);
            let mut moved = Region::new();
            moved.add(source.layout.reach(&sizes, &steps));
            if moved.missing(&target.layout.reach(&sizes, &steps)).is_some() {
                return Err(Fault::new(
                    "the source does not have all elements of the value that the move defines",
                ));
            }
        }
        Ok(())
    }

    fn steps(&mut self, steps: &LocalLoop) -> Result<(), Fault> {
        let outside = self.counters.len();
        for &id in &steps.results {
            self.define(id)?;
            self.states[id] = State::Filled { outside, written: [Region::new(), Region::new()] };
        }
        enter_loop(&mut self.counters, &steps.counters)?;
        let before = self.defined.len();
        self.block(&steps.body)?;
        self.counters.truncate(outside);
        for &id in &self.defined[before..] {
            if self.states[id] == State::Defined {
                self.states[id] = State::Ended;
            }
        }
        steps.results.iter().try_for_each(|&id| self.filled(id))
    }

    /// The steps of a result's loop have written all of it.
    fn filled(&mut self, id: LocalId) -> Result<(), Fault> {
        let ty = &self.value(id)?.ty;
        let state = std::mem::replace(&mut self.states[id], State::Defined);
        if let State::Filled { outside, written } = state {
            for (end, region) in [End::First, End::Last].into_iter().zip(written) {
                let steps = ranges(&self.counters[..outside], outside, end);
                if region.missing(&ty.layout.reach(&ty.sizes(), &steps)).is_some() {
                    return Err(Fault::new(format!("the steps of the loop do not write all of {id}")));
                }
            }
        }
        Ok(())
    }

    fn outputs(&self) -> Result<(), Fault> {
        let mut names = BTreeSet::new();
        for (name, id) in &self.program.outputs {
            if !names.insert(name) {
                return Err(Fault::new(format!("output `{name}` stands twice")));
            }
            self.value(*id)?;
            if self.states[*id] != State::Defined {
                return Err(Fault::new(format!("output `{name}` is {id}, which is not defined at the end")));
            }
        }
        Ok(())
    }

    fn value(&self, id: LocalId) -> Result<&'a LocalValue, Fault> {
        self.program.values.get(id).ok_or_else(|| Fault::new(format!("there is no {id}")))
    }

    fn read(&self, id: LocalId) -> Result<&'a TensorType, Fault> {
        let value = self.value(id)?;
        match self.states[id] {
            State::Defined => Ok(&value.ty),
            State::Unknown => Err(Fault::new(format!("{id} is used before it is defined"))),
            State::Filled { .. } => Err(Fault::new(format!("{id} is used while its loop still fills it"))),
            State::Ended => Err(Fault::new(format!("{id} is used after the loop that it is defined in"))),
        }
    }

    fn define(&mut self, id: LocalId) -> Result<(), Fault> {
        let value = self.value(id)?;
        if self.states[id] != State::Unknown {
            return Err(Fault::new(format!("{id} is defined twice")));
        }
        self.states[id] = State::Defined;
        self.defined.push(id);
        check_type(&value.ty, &self.counters)
            .map_err(|fault| Fault { reason: format!("{id}: {}", fault.reason), ..fault })
    }
}

/// Which steps of the outer loops are looked at.
#[derive(Clone, Copy)]
enum End {
    First,
    Last,
}

/// For each counter, by step id: one end of those outside, all steps of the others.
fn ranges(counters: &[(StepId, u64)], outside: usize, end: End) -> Vec<Range<u64>> {
    let length = counters.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0);
    let mut ranges = vec![0..1; length];
    for (depth, &(id, count)) in counters.iter().enumerate() {
        let last = count.saturating_sub(1);
        ranges[id.index()] = match end {
            _ if depth >= outside => 0..count,
            End::First => 0..1,
            End::Last => last..last + 1,
        };
    }
    ranges
}
