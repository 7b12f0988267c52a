//! The compiler on one page.

use crate::cost::Cost;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, quote};
use crate::host::Verified;
use crate::local::LocalProgram;
use crate::placement::{Placement, verify_sizes};
use crate::program::{Program, Sizes};
use crate::propagate::Placed;
use crate::report::Report;
use crate::tune::{self, Tuned};
use std::collections::BTreeSet;

/// What the user chooses besides program, placement and sizes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct CompileOptions {
    /// What the compiler takes computing and sending to cost.
    pub cost: Cost,
    /// Inputs that stay bound between runs. Their buffers come first in the arena, in places that follow
    /// from their own types alone: plans for other sizes of other dims find them where they are.
    pub constants: BTreeSet<String>,
}

/// Everything the compiler knows about one program on one mesh at given sizes.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The program.
    pub program: Program,
    /// The sizes of its dims.
    pub sizes: Sizes,
    /// Where every value lives, and how every operation runs.
    pub placed: Placed,
    /// One device's view.
    pub local: LocalProgram,
    /// The verified program that runs.
    pub host: Verified,
    /// The explanation.
    pub report: Report,
}

/// Plans a program. Without a placement it runs on one device.
pub fn compile(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    options: &CompileOptions,
) -> Result<Plan, Diagnostics> {
    known_constants(program, &options.constants).finish(())?;
    if let Some(placement) = placement {
        verify_sizes(program, placement, sizes).finish(())?;
    }
    // Propagates and lowers, and verifies what is lowered, as often as the placement leaves something open.
    let Tuned { placement, placed, lowered } = tune::run(program, placement, sizes, &options.cost)?;
    let host = crate::schedule::run(&lowered.local, &options.constants)?;
    let report =
        crate::explain::run(program, placement.as_ref(), sizes, &placed, &lowered, &host, &options.cost);
    let (program, sizes, local) = (program.clone(), sizes.clone(), lowered.local);
    Ok(Plan { program, sizes, placed, local, host, report })
}

/// A constant must be an input.
fn known_constants(program: &Program, constants: &BTreeSet<String>) -> Diagnostics {
    let mut found = Diagnostics::new();
    for name in constants {
        if !program.value(name).is_some_and(|value| program.is_input(value)) {
            let program = quote(&program.name);
            let message = format!("program {program} has no input {}, which is to stay bound", quote(name));
            found.push(Diagnostic::general(Code::InputUnknown, message));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::parse_file;
    use crate::host::Role;

    #[test]
    fn a_placement_that_does_not_fit_the_sizes_is_a_mistake_and_no_panic() {
        let text = "mesh line { tp = 2 }
program p {
input x: f32[s]
output x
}
placement q for p on line {
x: s/tp(5, 3)
}";
        let (file, found) = parse_file(text, &[]);
        assert!(found.is_empty(), "{found}");
        let (program, placement) = (&file.programs()[0], &file.placements()[0]);
        let compiled = |s: u64| {
            let sizes = Sizes::bind(program, [("s", s)]).expect("one size");
            compile(program, Some(placement), &sizes, &CompileOptions::default())
        };
        assert!(compiled(8).is_ok());
        let mistakes = compiled(9).expect_err("5 and 3 are not 9");
        assert_eq!(mistakes.errors()[0].code, Code::PieceSizes);
    }

    #[test]
    fn constants_lie_first_in_places_that_other_sizes_do_not_change() {
        let text = "mesh line { tp = 2 }
program p {
input x: f32[s, e]
input w: f32[h, e]
input b: f32[h]
y = linear(x, w, b)
z = gelu(y)
output z
}
placement q for p on line {
w: h/tp
}";
        let (file, found) = parse_file(text, &[]);
        assert!(found.is_empty(), "{found}");
        let (program, placement) = (&file.programs()[0], &file.placements()[0]);
        let host = |s: u64, constants: &[&str]| {
            let sizes = Sizes::bind(program, [("s", s), ("e", 8), ("h", 6)]).expect("sizes");
            let constants = constants.iter().map(ToString::to_string).collect();
            let options = CompileOptions { constants, ..CompileOptions::default() };
            compile(program, Some(placement), &sizes, &options).map(|plan| plan.host)
        };
        let constants = |s: u64| {
            let host = host(s, &["w", "b"]).expect("a plan");
            let buffers = host.buffers.values().filter(|buffer| buffer.bytes > 0);
            let (kept, others): (Vec<_>, Vec<_>) = buffers.partition(|b| b.role == Role::Constant);
            let end = kept.iter().map(|buffer| buffer.offset + buffer.bytes).max().expect("two constants");
            assert!(others.iter().all(|buffer| buffer.offset >= end));
            kept.iter().map(|buffer| (buffer.name.clone(), buffer.offset)).collect::<Vec<_>>()
        };
        assert_eq!(constants(4).len(), 2);
        assert_eq!(constants(4), constants(1000));
        let mistakes = host(4, &["y"]).expect_err("y is computed");
        assert_eq!(mistakes.errors()[0].code, Code::InputUnknown);
    }
}
