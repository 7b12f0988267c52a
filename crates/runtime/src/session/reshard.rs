//! An array goes to another layout: a program of one `reshard`, planned, proved and run like any other.
//! So what moves, and in which order parts are combined, is what `explain` says of it.

use super::{Inputs, Session, SessionOptions};
use crate::array::{Array, ArrayType};
use crate::execute::{Backend, RunError};
use shardweave_compiler::compile::compile;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::layout::Layout;
use shardweave_compiler::op::Op;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes};
use shardweave_compiler::report::CollectiveReport;

/// An array in its new layout, and what moved.
#[derive(Clone, Debug)]
pub struct Resharded {
    /// The array.
    pub array: Array,
    /// What devices sent to each other, in the order it ran: the numbers that `explain` gives.
    pub collectives: Vec<CollectiveReport>,
}

impl Array {
    /// The array in another layout, on the same or another mesh; any layout can be reached. Parts are
    /// combined where the layout does not keep them, and half types are then rounded once.
    ///
    /// Takes memory for the pieces of both layouts.
    ///
    /// # Errors
    /// [`RunError::Array`] if the layout does not fit the array, [`RunError::OutOfMemory`].
    pub fn reshard(&self, layout: &Layout) -> Result<Resharded, RunError> {
        let ty = self.ty().in_layout(layout.clone()).map_err(RunError::Array)?;
        if self.ty().is_held_as(ty.held()) {
            return Ok(Resharded { array: self.relabelled(ty), collectives: Vec::new() });
        }
        let program = one_reshard(self.ty()).map_err(RunError::Compile)?;
        let placement = between(&program, self.ty().layout(), layout);
        let sizes = Sizes::bind(&program, []).map_err(RunError::Compile)?;
        let options = SessionOptions { backend: Backend::Lockstep, ..SessionOptions::default() };
        let plan = compile(&program, Some(&placement), &sizes, &options.compile);
        let plan = plan.map_err(RunError::Compile)?;
        let collectives = plan.report.collectives.clone();
        let mut session = Session::from_plan(plan, options)?;
        let outputs = session.run_placed(&Inputs::new().with(SOURCE, self.clone()))?;
        let (_, array) = outputs.into_vec().pop().expect("the program has one output");
        Ok(Resharded { array: array.relabelled(ty), collectives })
    }
}

const SOURCE: &str = "array";
const TARGET: &str = "resharded";

/// `resharded = reshard(array)`
fn one_reshard(ty: &ArrayType) -> Result<Program, Diagnostics> {
    let dims = ty.dims().iter().map(|(name, size)| (name.as_str(), *size));
    let mut program = Program::builder("reshard");
    program.input(SOURCE, ty.dtype(), dims).op(TARGET, Op::Reshard, [SOURCE]).output(TARGET).finish()
}

/// The two layouts. (Not by text: their meshes may be different ones of one name.)
fn between(program: &Program, from: &Layout, to: &Layout) -> Placement {
    let layouts = program.values().keys().zip([from.clone(), to.clone()]);
    Placement::of_layouts(program, from.mesh(), layouts).expect("the two values have the array's dims")
}
