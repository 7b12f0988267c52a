//! Programs as text.

use super::{Apply, Def, DimId, Operand, Program, Value};
use crate::dtype::DType;
use crate::op::{Op, print_call};
use crate::text::quoted_text;
use std::collections::BTreeSet;
use std::fmt;

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut printer = Printer { program: self, shown: BTreeSet::new() };
        writeln!(f, "program {} {{", self.name)?;
        for value in self.values.values() {
            writeln!(f, "  {}", printer.value(value))?;
        }
        for &output in &self.outputs {
            writeln!(f, "  output {}", self.values[output].name)?;
        }
        f.write_str("}")
    }
}

/// Prints values in order; a fixed size stands where its dim is first named.
struct Printer<'a> {
    program: &'a Program,
    shown: BTreeSet<DimId>,
}

impl Printer<'_> {
    fn value(&mut self, value: &Value) -> String {
        match &value.def {
            Def::Input { from } => {
                input_text(&value.name, value.dtype, &self.dims(&value.dims), from.as_deref())
            }
            Def::Result(apply) => self.apply(&value.name, apply),
        }
    }

    fn apply(&mut self, name: &str, apply: &Apply) -> String {
        let operands: Vec<String> = apply
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Value(value) => self.program.values[*value].name.clone(),
                Operand::Number(number) => number.to_string(),
            })
            .collect();
        let asked = apply.asked.as_ref().map(|dims| self.dims(dims));
        result_text(name, &apply.op, &operands, asked.as_deref())
    }

    fn dims(&mut self, dims: &[DimId]) -> String {
        let text = |&id: &DimId| {
            let dim = &self.program.dims[id];
            match dim.fixed {
                Some(size) if self.shown.insert(id) => format!("{}={size}", dim.name),
                _ => dim.name.clone(),
            }
        };
        dims_text(dims.iter().map(text))
    }
}

/// `input x: f32[b, s] from "name"`; the dims come with their brackets.
pub(super) fn input_text(name: &str, dtype: DType, dims: &str, from: Option<&str>) -> String {
    let from = from.map(|name| format!(" from {}", quoted_text(name))).unwrap_or_default();
    format!("input {name}: {dtype}{dims}{from}")
}

/// `y = linear(x, w) -> [b, h]`; the dims come with their brackets.
pub(super) fn result_text(name: &str, op: &Op, operands: &[String], asked: Option<&str>) -> String {
    let asked = asked.map(|dims| format!(" -> {dims}")).unwrap_or_default();
    format!("{name} = {}{asked}", print_call(op, operands))
}

/// `[b, s=4]`
pub(super) fn dims_text(dims: impl Iterator<Item = String>) -> String {
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}
