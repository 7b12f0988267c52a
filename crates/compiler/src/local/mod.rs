//! One device's view: operations on pieces, with the moves between them. One text for all devices.
//!
//! Values are defined once, by an instruction or by a loop, and never change after it; a loop's
//! results are filled inside it, step by step, by moves into them and by sums over the steps.
//!
//! ```text
//! local mlp {
//!   mesh line { tp = 4 }
//!   %0 x: f32[s=8, e=4] at s/tp on line = input
//!   %1 w: f32[h=16, e=4] at h/tp on line = input
//!   loop i0 < 2 via ring {
//!     result %2 y0: f32[s=8, h=16] at s/stream(2), h/tp on line
//!     %3 x: f32[s=8, e=4] at s/step(2, i0) on line = all_gather %0 over tp group 4 because "y0 needs it"
//!     %4 y0: f32[s=8, h=16] at s/step(2, i0), h/tp on line = linear(%3, %1) over s/step(2, i0), h/tp on line
//!     %2 <- copy %4
//!   }
//!   output y0 = %2
//! }
//! ```
//!
//! Where the steps cut what an operation combines, each gives a part of every element, which is combined with
//! what the steps before gave: `%2 <- linear(%3, %1) over k/step(4, i0) on line`.
//!
//! A layout behind `over` is spelled with the dims of the operation's space. `#` starts a comment.
//!
//! Where steps take the pieces of an axis one by one, layouts have `s/owner(tp, i0)` or `s/ahead(tp, i0)`
//! ([`Peer`](crate::layout::Peer)), a move that takes from the neighbour ends in `passed on`, and a loop of
//! more turns than the stream has steps says so: `loop i0 < 2, i1 < 4 via ring in 2 steps {`.

mod parse;
mod print;
mod verify;

pub use crate::instr::Fault;
pub use parse::parse_local;
pub use verify::verify;

use crate::id::{Table, id};
use crate::instr::{Compute, Move, TensorType};
use crate::layout::StepId;
use crate::placement::Overlap;
use std::collections::BTreeSet;

id! {
    /// A value of a local program.
    LocalId "%"
}

/// A value on a device.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalValue {
    /// The name of the program's value it belongs to.
    pub name: String,
    /// Dims, stored type and layout.
    pub ty: TensorType,
}

/// One thing to do.
#[derive(Clone, PartialEq, Debug)]
pub enum LocalInstr {
    /// An input of the program arrives in its layout.
    Input(LocalId),
    /// An operation on pieces.
    Compute(Compute<LocalId>),
    /// A value goes to another layout. The target is new, or a result of a loop around it.
    Move(Move<LocalId>),
    /// A stream loop.
    Loop(LocalLoop),
}

impl LocalInstr {
    /// Whether devices exchange anything in it.
    pub fn communicates(&self) -> bool {
        matches!(self, LocalInstr::Move(moved) if moved.kind.communicates())
    }

    /// The values that it reads; of a loop, those of outside it.
    pub fn reads(&self) -> Vec<LocalId> {
        match self {
            LocalInstr::Input(_) => Vec::new(),
            LocalInstr::Compute(compute) => compute.reads().collect(),
            LocalInstr::Move(moved) => vec![moved.reads()],
            LocalInstr::Loop(steps) => {
                let own: BTreeSet<LocalId> = steps.body.iter().flat_map(LocalInstr::writes).collect();
                let read = steps.body.iter().flat_map(LocalInstr::reads);
                read.filter(|id| !own.contains(id)).collect()
            }
        }
    }

    /// The values that it gives, or fills a part of; of a loop, its results.
    pub fn writes(&self) -> Vec<LocalId> {
        match self {
            LocalInstr::Input(id) => vec![*id],
            LocalInstr::Compute(compute) => vec![compute.writes()],
            LocalInstr::Move(moved) => vec![moved.writes()],
            LocalInstr::Loop(steps) => steps.results.clone(),
        }
    }
}

/// Steps one after another; every counter runs, the last one fastest.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalLoop {
    /// The step counters with their number of steps that do anything.
    pub counters: Vec<(StepId, u64)>,
    /// How many steps the streams of the placement make, each of which may be several turns of the counters.
    pub steps: u64,
    /// The values that the steps fill.
    pub results: Vec<LocalId>,
    /// What each step does.
    pub body: Vec<LocalInstr>,
    /// How communication is to run beside computation.
    pub overlap: Overlap,
}

/// A program that every device runs.
#[derive(Clone, PartialEq, Debug)]
pub struct LocalProgram {
    /// The program's name.
    pub name: String,
    /// All values.
    pub values: Table<LocalId, LocalValue>,
    /// What to do, in order.
    pub body: Vec<LocalInstr>,
    /// The program's outputs, by name.
    pub outputs: Vec<(String, LocalId)>,
}
