//! Which program and which placement of a file are meant.
//!
//! ```text
//!  --placement P        that one, and its program
//!  --placement none     one device; the program is --program, or the only one
//!  --program Q          its only placement; one device if it has none
//!  neither              the only placement of the file; if there is none, the only program
//! ```
//! Where there are several and nothing says which, all are listed.

use crate::args::PlanArgs;
use shardweave_compiler::diagnostic::{Code, Diagnostic};
use shardweave_compiler::file::{AxisSize, WeaveFile};
use shardweave_compiler::mesh::Mesh;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::Program;
use shardweave_compiler::text::closest;

/// What is planned.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    pub program: &'a Program,
    /// None for one device.
    pub placement: Option<&'a Placement>,
}

impl Choice<'_> {
    /// The warning that another size of an axis changes nothing.
    pub fn unused_mesh(&self, axis: &AxisSize, mesh: &Mesh) -> Diagnostic {
        let what = match self.placement {
            Some(placement) => format!("placement `{}` does not use", placement.name()),
            None => "one device does not use".into(),
        };
        let message =
            format!("`--mesh {}={}` changes nothing: {what} mesh `{}`", axis.path, axis.size, mesh.name());
        Diagnostic::general(Code::UnusedMesh, message).help(match self.placement {
            Some(placement) => format!("its mesh is `{}`", placement.mesh().name()),
            None => "choose a placement with `--placement NAME`".into(),
        })
    }
}

/// Chooses by the flags and by what there is.
pub fn choose<'a>(file: &'a WeaveFile, args: &PlanArgs) -> Result<Choice<'a>, Diagnostic> {
    let wanted = args.program.as_deref().map(|name| program_named(file, name)).transpose()?;
    match args.placement.as_deref() {
        Some("none") => {
            let program = wanted.map_or_else(|| only_program(file), Ok)?;
            Ok(Choice { program, placement: None })
        }
        Some(name) => {
            let placement = placement_named(file, name)?;
            if let Some(program) = wanted.filter(|program| program.name() != placement.program()) {
                let message = format!(
                    "placement `{name}` is for program `{}`, not for `{}`",
                    placement.program(),
                    program.name()
                );
                return Err(
                    Diagnostic::general(Code::UnknownPlacement, message).help(placements_help(file, program))
                );
            }
            Ok(placed(file, placement))
        }
        None => {
            let fits =
                |placement: &&Placement| wanted.is_none_or(|program| program.name() == placement.program());
            let placements: Vec<&Placement> = file.placements().iter().filter(fits).collect();
            match (placements.as_slice(), wanted) {
                ([], Some(program)) => Ok(Choice { program, placement: None }),
                ([], None) => Ok(Choice { program: only_program(file)?, placement: None }),
                ([one], _) => Ok(placed(file, one)),
                (several, _) => Err(several_placements(several)),
            }
        }
    }
}

/// A placement and its program.
fn placed<'a>(file: &'a WeaveFile, placement: &'a Placement) -> Choice<'a> {
    let program = file.program(placement.program()).expect("the program of a placement is in its file");
    Choice { program, placement: Some(placement) }
}

fn program_named<'a>(file: &'a WeaveFile, name: &str) -> Result<&'a Program, Diagnostic> {
    let names = || file.programs().iter().map(|program| program.name());
    file.program(name).ok_or_else(|| unknown(Code::UnknownProgram, "program", name, names().collect()))
}

fn placement_named<'a>(file: &'a WeaveFile, name: &str) -> Result<&'a Placement, Diagnostic> {
    let names = || file.placements().iter().map(|placement| placement.name());
    file.placement(name).ok_or_else(|| unknown(Code::UnknownPlacement, "placement", name, names().collect()))
}

fn unknown(code: Code, kind: &str, name: &str, names: Vec<&str>) -> Diagnostic {
    let mistake = Diagnostic::general(code, format!("the file has no {kind} `{name}`"));
    match (closest(name, names.iter().copied()), names.as_slice()) {
        (Some(similar), _) => mistake.help(format!("there is a {kind} `{similar}`")),
        (None, []) => mistake.help(format!("it has no {kind} at all")),
        (None, names) => mistake.help(format!("there are `{}`", names.join("`, `"))),
    }
}

fn only_program(file: &WeaveFile) -> Result<&Program, Diagnostic> {
    match file.programs() {
        [one] => Ok(one),
        [] => Err(Diagnostic::general(Code::ChoiceNeeded, "the file has no program")
            .help("write one: `program NAME { ... }`")),
        several => {
            let names: Vec<&str> = several.iter().map(|program| program.name()).collect();
            let message = format!("the file has several programs: `{}`", names.join("`, `"));
            Err(Diagnostic::general(Code::ChoiceNeeded, message).help("choose one with `--program NAME`"))
        }
    }
}

fn several_placements(several: &[&Placement]) -> Diagnostic {
    let names: Vec<String> = several
        .iter()
        .map(|placement| format!("`{}` for `{}`", placement.name(), placement.program()))
        .collect();
    let message = format!("there are several placements: {}", names.join(", "));
    Diagnostic::general(Code::ChoiceNeeded, message)
        .help("choose one with `--placement NAME`, or `none` for one device")
}

fn placements_help(file: &WeaveFile, program: &Program) -> String {
    let own = file.placements().iter().filter(|placement| placement.program() == program.name());
    let names: Vec<&str> = own.map(|placement| placement.name()).collect();
    match names.as_slice() {
        [] => format!("`{}` has no placement; `--placement none` runs it on one device", program.name()),
        names => format!("those for `{}` are `{}`", program.name(), names.join("`, `")),
    }
}
