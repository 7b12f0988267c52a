//! The reference: a program on one device, as plainly as it can be said.
//!
//! Every value is computed from its definition in `f64` (integers in `i64`), with dims found by name,
//! and rounded once to its type. There is no layout, no iteration space and no kernel here: what
//! other executors give is compared with this, so it shares as little as possible with them.

mod array;
mod contract;
mod dims;
mod elements;
mod round;
mod values;

use crate::tensor::Tensor;
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::program::{Def, Program, Sizes, ValueId};
use std::collections::BTreeMap;
use std::fmt;

/// Why a program did not run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReferenceError {
    /// An input that some output needs was not given.
    MissingInput {
        /// The input's name.
        input: String,
    },
    /// An input has another type or shape than the program says.
    WrongInput {
        /// The input's name.
        input: String,
        /// The type and sizes that the program says.
        expected: String,
        /// The type and sizes that were given.
        given: String,
    },
    /// An `embedding` was asked for a row that its table does not have.
    IdOutOfRange {
        /// The value that was being computed.
        value: String,
        /// The row asked for.
        id: i64,
        /// How many rows there are.
        rows: u64,
    },
}

impl fmt::Display for ReferenceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReferenceError::MissingInput { input } => {
                write!(f, "the input `{input}` is needed and was not given")
            }
            ReferenceError::WrongInput { input, expected, given } => {
                write!(f, "the input `{input}` is {expected}, but {given} was given")
            }
            ReferenceError::IdOutOfRange { value, id, rows } => {
                write!(f, "`{value}`: the id {id} is outside 0..{rows}, the rows of the table")
            }
        }
    }
}

impl std::error::Error for ReferenceError {}

/// All values that the outputs need.
pub struct Values {
    values: Table<ValueId, Option<Tensor>>,
}

impl Values {
    /// A value; `None` if no output needs it.
    pub fn get(&self, value: ValueId) -> Option<&Tensor> {
        self.values.get(value)?.as_ref()
    }
}

/// The outputs of a program, in its order, by name.
///
/// # Errors
/// See [`evaluate`].
pub fn run(
    program: &Program,
    sizes: &Sizes,
    inputs: &BTreeMap<ValueId, Tensor>,
) -> Result<Vec<(String, Tensor)>, ReferenceError> {
    let mut values = evaluate(program, sizes, inputs)?;
    let output = |&value: &ValueId| {
        let tensor = values.values[value].take().expect("outputs are needed, and each is named once");
        (program.values()[value].name.clone(), tensor)
    };
    Ok(program.outputs().iter().map(output).collect())
}

/// All values that the outputs need, from the inputs among them.
///
/// # Errors
/// If an input is missing or does not fit, or an id is outside its table.
pub fn evaluate(
    program: &Program,
    sizes: &Sizes,
    inputs: &BTreeMap<ValueId, Tensor>,
) -> Result<Values, ReferenceError> {
    let needed = program.needed();
    let mut values: Table<ValueId, Option<Tensor>> = Table::new();
    for (id, value) in program.values().iter() {
        let computed = match &value.def {
            _ if !needed[id] => None,
            Def::Input { .. } => Some(checked_input(program, sizes, id, inputs.get(&id))?),
            Def::Result(apply) => Some(values::compute(program, sizes, id, apply, &values)?),
        };
        let at = values.push(computed);
        debug_assert_eq!(at.index(), id.index());
    }
    Ok(Values { values })
}

fn checked_input(
    program: &Program,
    sizes: &Sizes,
    id: ValueId,
    given: Option<&Tensor>,
) -> Result<Tensor, ReferenceError> {
    let value = &program.values()[id];
    let tensor = given.ok_or_else(|| ReferenceError::MissingInput { input: value.name.clone() })?;
    let shape: Vec<u64> = value.dims.iter().map(|&dim| sizes[dim]).collect();
    if tensor.dtype() == value.dtype && tensor.shape() == shape {
        return Ok(tensor.clone());
    }
    Err(ReferenceError::WrongInput {
        input: value.name.clone(),
        expected: format!("{}{shape:?}", value.dtype),
        given: format!("{}{:?}", tensor.dtype(), tensor.shape()),
    })
}
