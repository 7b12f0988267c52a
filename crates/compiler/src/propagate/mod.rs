//! Where every value lives, and how every operation runs.
//!
//! Given layouts are fixed. Two passes decide the rest:
//!
//! 1. `spread` gives unlisted values a layout: cuts move through operations, forward from operands to
//!    results and backward from results to unlisted operands, until nothing changes.
//! 2. `choose` picks for each operation, in program order, the layout of its iteration space: the
//!    cheapest way from where its operands are to where its result is to be.
//!
//! Both ask the same question (`ways`): given what is known of operands and result, in which layouts
//! of the space could this operation run, and what would each cost (`weigh`)?
//!
//! The rules: a given layout is never changed; a cut that one side asks for and nothing opposes is
//! taken; where an axis is asked for on two dims, the cheapest way wins, by time, then bytes, then
//! memory, then weight before bias before input, then program order; an unlisted input takes what its
//! operation wants at no cost; an unlisted output is never partial.

mod choose;
mod origin;
mod reason;
mod spread;
mod summarised;
mod ways;
mod weigh;

pub use origin::Origin;
pub(crate) use summarised::{OnPieces, Summarised, summarised};
pub(crate) use weigh::{bias_layout, completed_in};

use crate::cost::Cost;
use crate::diagnostic::Diagnostics;
use crate::dtype::DType;
use crate::id::Table;
use crate::instr::TensorType;
use crate::layout::Layout;
use crate::mesh::Mesh;
use crate::placement::{Overlap, Placement};
use crate::program::{Program, Sizes, ValueId};
use crate::report::Alternative;
use std::sync::Arc;

/// Where one value lives and why.
#[derive(Clone, PartialEq, Debug)]
pub struct PlacedValue {
    /// The layout, as written where it is given.
    pub layout: Layout,
    /// Who asked for it.
    pub origin: Origin,
}

/// How one operation runs.
#[derive(Clone, PartialEq, Debug)]
pub struct OpPlan {
    /// The layout of its iteration space; partial axes are those that pass through it.
    pub over: Layout,
    /// The operands (by position) that stay partial.
    pub carriers: Vec<usize>,
    /// How its communication is to run beside its computation, if that is pinned.
    pub via: Option<Overlap>,
    /// The way that was chosen where nothing is pinned; none for one collective a step.
    pub chosen: Option<Overlap>,
    /// Why it runs this way, for the moves it needs.
    pub because: String,
}

impl OpPlan {
    /// The way in which steps are to overlap.
    pub fn way(&self) -> Option<Overlap> {
        self.via.or(self.chosen)
    }
}

/// A complete placement.
#[derive(Clone, PartialEq, Debug)]
pub struct Placed {
    /// The mesh of values that name no other.
    pub home: Arc<Mesh>,
    /// Every value that an output needs.
    pub values: Table<ValueId, Option<PlacedValue>>,
    /// How each of their operations runs; none for inputs.
    pub ops: Table<ValueId, Option<OpPlan>>,
    /// What was not chosen.
    pub alternatives: Vec<Alternative>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl Placed {
    /// The layout of a value that an output needs.
    ///
    /// # Panics
    /// If no output needs it: such values have no layout.
    pub fn layout(&self, value: ValueId) -> &Layout {
        &self.values[value].as_ref().expect("a needed value has a layout").layout
    }
}

/// Completes a placement. Without one, everything is on one device.
pub fn run(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    cost: &Cost,
) -> Result<Placed, Diagnostics> {
    let values = spread::run(program, placement, sizes, cost);
    choose::run(program, placement, sizes, cost, values)
}

/// How the elements of a value are stored in a layout: partial values of a half type are held wide.
pub fn stored(dtype: DType, layout: &Layout) -> DType {
    if layout.partial().is_empty() { dtype } else { dtype.wide() }
}

/// A value in a layout.
pub fn typed(program: &Program, sizes: &Sizes, value: ValueId, layout: &Layout) -> TensorType {
    TensorType {
        dims: program.sized_dims(value, sizes),
        dtype: stored(program.values[value].dtype, layout),
        layout: layout.clone(),
    }
}
