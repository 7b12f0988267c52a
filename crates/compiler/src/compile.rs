//! The compiler on one page.

use crate::cost::Cost;
use crate::diagnostic::Diagnostics;
use crate::host::HostProgram;
use crate::local::LocalProgram;
use crate::placement::{Placement, verify_sizes};
use crate::program::{Program, Sizes};
use crate::propagate::Placed;
use crate::report::Report;

/// What the user chooses besides program, placement and sizes.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Options {
    /// What the compiler takes computing and sending to cost.
    pub cost: Cost,
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
    pub host: HostProgram,
    /// The explanation.
    pub report: Report,
}

/// Plans a program. Without a placement it runs on one device.
pub fn compile(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    options: &Options,
) -> Result<Plan, Diagnostics> {
    if let Some(placement) = placement {
        verify_sizes(program, placement, sizes).finish(())?;
    }
    let placed = crate::propagate::run(program, placement, sizes, &options.cost)?;
    let local = crate::lower::run(program, sizes, &placed, &options.cost);
    if let Err(fault) = crate::local::verify(&local) {
        panic!("lower: {fault}\n{local}");
    }
    let host = crate::schedule::run(&local)?;
    let report = crate::explain::run(program, placement, sizes, &placed, &local, &host);
    Ok(Plan { program: program.clone(), sizes: sizes.clone(), placed, local, host, report })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::diagnostic::Code;
    use crate::file::parse_file;

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
        let (program, placement) = (&file.programs[0], &file.placements[0]);
        let compiled = |s: u64| {
            let sizes = Sizes::bind(program, [("s", s)]).expect("one size");
            compile(program, Some(placement), &sizes, &Options::default())
        };
        assert!(compiled(8).is_ok());
        let mistakes = compiled(9).expect_err("5 and 3 are not 9");
        assert_eq!(mistakes.errors()[0].code, Code::PieceSizes);
    }
}
