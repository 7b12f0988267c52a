//! Programs as text.

use super::{Apply, Def, DimId, Operand, Program, Value};
use crate::op::print_call;
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
                let from =
                    from.as_ref().map(|name| format!(" from {}", quoted_text(name))).unwrap_or_default();
                format!("input {}: {}{}{from}", value.name, value.dtype, self.dims(&value.dims))
            }
            Def::Result(apply) => format!("{} = {}", value.name, self.apply(apply)),
        }
    }

    fn apply(&mut self, apply: &Apply) -> String {
        let operands: Vec<String> = apply
            .operands
            .iter()
            .map(|operand| match operand {
                Operand::Value(value) => self.program.values[*value].name.clone(),
                Operand::Number(number) => number.to_string(),
            })
            .collect();
        let asked = apply.asked.as_ref().map(|dims| format!(" -> {}", self.dims(dims))).unwrap_or_default();
        format!("{}{asked}", print_call(&apply.op, &operands))
    }

    fn dims(&mut self, dims: &[DimId]) -> String {
        let text = |&id: &DimId| {
            let dim = &self.program.dims[id];
            match dim.fixed {
                Some(size) if self.shown.insert(id) => format!("{}={size}", dim.name),
                _ => dim.name.clone(),
            }
        };
        format!("[{}]", dims.iter().map(text).collect::<Vec<_>>().join(", "))
    }
}
