//! `shardweave check`: all that does not depend on sizes. By the time this runs, it has been found good.

use crate::args::{CheckArgs, Format};
use crate::render::result;
use serde_json::json;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::file::WeaveFile;

/// Tells what the file has.
pub fn run(args: &CheckArgs, file: &WeaveFile) -> Result<(), Diagnostics> {
    let told = match args.format() {
        Format::Text => {
            let counts = [
                count(file.meshes().len(), "mesh", "meshes"),
                count(file.programs().len(), "program", "programs"),
                count(file.placements().len(), "placement", "placements"),
            ];
            format!("{}: {}", args.file.display(), counts.join(", "))
        }
        Format::Json => {
            let meshes: Vec<&str> = file.meshes().iter().map(|mesh| mesh.name()).collect();
            let programs: Vec<&str> = file.programs().iter().map(|program| program.name()).collect();
            let placements: Vec<&str> = file.placements().iter().map(|placement| placement.name()).collect();
            json!({ "meshes": meshes, "programs": programs, "placements": placements }).to_string()
        }
    };
    Ok(result(&told)?)
}

fn count(count: usize, one: &str, several: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { several })
}
