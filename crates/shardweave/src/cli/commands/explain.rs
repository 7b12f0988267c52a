//! `shardweave explain`: where every value lives, what moves and why.

use crate::args::{ExplainArgs, Format};
use crate::bind::{Missing, bind};
use crate::choose::choose;
use crate::render::{explanation_json, explanation_text, result};
use serde_json::Value;
use shardweave_compiler::compile::compile;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::file::WeaveFile;

/// Plans, and tells the plan. Only sizes are needed, no array.
pub fn run(args: &ExplainArgs, file: &WeaveFile) -> Result<(), Diagnostics> {
    let choice = choose(file, &args.target)?;
    let bound = bind(choice.program, &args.target.size, &args.arrays, Missing::Unneeded)?;
    let plan = compile(choice.program, choice.placement, &bound.sizes, &args.target.options())?;
    let told = match args.target.format() {
        Format::Text => explanation_text(&plan.report),
        Format::Json => Value::Object(explanation_json(&plan.report)).to_string(),
    };
    Ok(result(&told)?)
}
