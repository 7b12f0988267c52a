//! A program: what to compute, as if there were one device. No device is named.
//!
//! Values stand in program order and are defined before they are used; a value is an input or the
//! result of one operation. Dims have names, and a name has one size in a program.
//!
//! ```text
//! program mlp {                              Program
//!   input x: f32[b, s, e]                      Value, Def::Input
//!   input w: f32[h, e]  from "a.weight"        Value, Def::Input with a weight's name
//!   y = linear(x, w)                           Value, Def::Result of an Apply
//!   output y                                   outputs
//! }
//! ```

mod assemble;
mod build;
mod check;
mod derive;
mod infer;
mod parse;
mod print;
mod sizes;
#[cfg(test)]
mod tests;

pub use assemble::{Assembler, DimText, NewApply};
pub use build::{ProgramBuilder, Term};
pub use check::MOST_BYTES;
pub use infer::{CallType, MOST_DIMS, OperandType, ResultType, infer};
pub use parse::parse_program;
pub(crate) use parse::{ReadProgram, Unread, read_program};
pub use sizes::{SizeBinder, SizeSource, Sizes};

use crate::diagnostic::Span;
use crate::dtype::{DType, Number};
use crate::id::{Table, id};
use crate::op::{Op, Space};
use std::collections::BTreeSet;

id! {
    /// A dim of a program: a name with one size.
    DimId "d"
    /// A value of a program.
    ValueId "v"
}

/// A named direction of tensors.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Dim {
    /// Unique in the program.
    pub name: String,
    /// The size, where the program fixes it (`e=384`, or the size an operation gives).
    pub fixed: Option<u64>,
    /// Where it is first named.
    pub span: Span,
}

/// Something the program computes or is given.
#[derive(Clone, PartialEq, Debug)]
pub struct Value {
    /// Unique in the program.
    pub name: String,
    /// The dims, outermost first; no dim stands twice.
    pub dims: Vec<DimId>,
    /// The type of the elements.
    pub dtype: DType,
    /// Where it comes from.
    pub def: Def,
    /// Where it is defined.
    pub span: Span,
}

/// Where a value comes from.
#[derive(Clone, PartialEq, Debug)]
pub enum Def {
    /// Given from outside; `from` names a tensor of the weight files.
    Input {
        /// The tensor's name.
        from: Option<String>,
    },
    /// The result of an operation.
    Result(Apply),
}

/// An operation applied to operands.
#[derive(Clone, PartialEq, Debug)]
pub struct Apply {
    /// Which operation, with its attributes.
    pub op: Op,
    /// What it works on, in order.
    pub operands: Vec<Operand>,
    /// The order of dims asked for with `-> [..]`.
    pub asked: Option<Vec<DimId>>,
}

impl Apply {
    /// The values among the operands, in order.
    pub fn values(&self) -> impl Iterator<Item = ValueId> + '_ {
        self.operands.iter().filter_map(|operand| match operand {
            Operand::Value(value) => Some(*value),
            Operand::Number(_) => None,
        })
    }
}

/// What an operation works on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Operand {
    /// A value defined before.
    Value(ValueId),
    /// A number; it takes the element type of the other operand.
    Number(Number),
}

/// A checked program.
///
/// Invariants (kept by [`Assembler`], which [`parse_program`] uses too, through [`infer`]): every operand is
/// defined before its use; dims and types are those [`infer`] gives; there is at least one output,
/// none twice.
#[derive(Clone, PartialEq, Debug)]
pub struct Program {
    pub(crate) name: String,
    pub(crate) dims: Table<DimId, Dim>,
    pub(crate) values: Table<ValueId, Value>,
    pub(crate) outputs: Vec<ValueId>,
    pub(crate) span: Span,
}

impl Program {
    /// The program's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// All dims, in the order first named.
    pub fn dims(&self) -> &Table<DimId, Dim> {
        &self.dims
    }

    /// All values, in program order.
    pub fn values(&self) -> &Table<ValueId, Value> {
        &self.values
    }

    /// What the program is for, in the order named.
    pub fn outputs(&self) -> &[ValueId] {
        &self.outputs
    }

    /// The same program for other outputs; `None` if there is none, or one twice.
    pub fn with_outputs(&self, outputs: Vec<ValueId>) -> Option<Program> {
        let distinct: BTreeSet<ValueId> = outputs.iter().copied().collect();
        let known = distinct.iter().all(|&output| self.values.get(output).is_some());
        let fits = known && !outputs.is_empty() && distinct.len() == outputs.len();
        fits.then(|| Program { outputs, ..self.clone() })
    }

    /// Where the program stands.
    pub fn span(&self) -> Span {
        self.span
    }

    /// The value of that name.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.values.iter().find(|(_, v)| v.name == name).map(|(id, _)| id)
    }

    /// The dim of that name.
    pub fn dim(&self, name: &str) -> Option<DimId> {
        self.dims.iter().find(|(_, d)| d.name == name).map(|(id, _)| id)
    }

    /// The names of a value's dims.
    pub fn dim_names(&self, value: ValueId) -> Vec<&str> {
        self.values[value].dims.iter().map(|&d| self.dims[d].name.as_str()).collect()
    }

    /// The operation that gives a value; `None` for an input.
    pub fn apply(&self, value: ValueId) -> Option<&Apply> {
        match &self.values[value].def {
            Def::Result(apply) => Some(apply),
            Def::Input { .. } => None,
        }
    }

    /// Whether a value is an input.
    pub fn is_input(&self, value: ValueId) -> bool {
        self.apply(value).is_none()
    }

    /// The dims of a value with their sizes.
    pub fn sized_dims(&self, value: ValueId, sizes: &Sizes) -> Vec<(String, u64)> {
        self.values[value].dims.iter().map(|&d| (self.dims[d].name.clone(), sizes[d])).collect()
    }

    /// The iteration space of the operation that gives a value; `None` for an input.
    pub fn space(&self, value: ValueId, sizes: &Sizes) -> Option<Space> {
        let apply = self.apply(value)?;
        let operands: Vec<_> = apply
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Value(v) => self.sized_dims(*v, sizes),
                Operand::Number(_) => Vec::new(),
            })
            .collect();
        Some(crate::op::space(&apply.op, &operands, &self.sized_dims(value, sizes)))
    }

    /// The operand of a reshard that keeps the order of the dims: the value is that operand in another
    /// layout, and nothing is computed.
    pub fn moved_operand(&self, value: ValueId) -> Option<ValueId> {
        match self.apply(value)? {
            Apply { op: Op::Reshard, operands, .. } => match operands[..] {
                [Operand::Value(operand)] if self.values[operand].dims == self.values[value].dims => {
                    Some(operand)
                }
                _ => None,
            },
            _ => None,
        }
    }

    /// For each value, whether an output needs it.
    pub fn needed(&self) -> Table<ValueId, bool> {
        let mut needed: Table<ValueId, bool> = self.values.keys().map(|_| false).collect();
        for &output in &self.outputs {
            needed[output] = true;
        }
        for value in self.values.keys().rev() {
            if let (true, Some(apply)) = (needed[value], self.apply(value)) {
                for operand in apply.values() {
                    needed[operand] = true;
                }
            }
        }
        needed
    }
}
