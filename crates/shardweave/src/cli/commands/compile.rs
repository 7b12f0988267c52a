//! `shardweave compile`: any form that a program goes through, as text that can be read back.

use crate::args::{CompileArgs, Format};
use crate::bind::{Missing, bind};
use crate::choose::{Choice, choose};
use crate::render::result;
use crate::values::Form;
use serde_json::json;
use shardweave_compiler::compile::{Plan, compile};
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::file::WeaveFile;
use shardweave_compiler::placement::Placement;

/// Plans, and prints the form that is asked for.
pub fn run(args: &CompileArgs, file: &WeaveFile) -> Result<(), Diagnostics> {
    let choice = choose(file, &args.target)?;
    let bound = bind(choice.program, &args.target.size, &args.arrays, Missing::Unneeded)?;
    let plan = compile(choice.program, choice.placement, &bound.sizes, &args.target.options())?;
    let text = match args.emit {
        Form::Program => plan.program.to_string(),
        Form::Placement => placed(choice, &plan).to_string(),
        Form::Local => plan.local.to_string(),
        Form::Host => plan.host.to_string(),
    };
    let told = match args.target.format() {
        Format::Text => text,
        Format::Json => json!({ "form": args.emit.name(), "text": text }).to_string(),
    };
    Ok(result(&told)?)
}

/// A file in which every value is placed: the meshes, the program, and the placement with what was
/// worked out. It can be edited and run.
fn placed(choice: Choice<'_>, plan: &Plan) -> WeaveFile {
    let placement = choice.placement.map(|given| complete(given, plan)); // on one device there is nothing to place
    let file = WeaveFile::of(plan.program.clone(), placement);
    file.expect("a plan's meshes and its program are those of one file")
}

/// A placement with every value in it.
fn complete(given: &Placement, plan: &Plan) -> Placement {
    let layouts = plan.placed.values.iter();
    let layouts = layouts.filter_map(|(value, placed)| Some((value, placed.as_ref()?.layout.clone())));
    given.with_layouts(&plan.program, layouts).expect("a plan places each value once, with its dims")
}
