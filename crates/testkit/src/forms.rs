//! Every form prints and parses back to the same thing.

use shardweave_compiler::compile::Plan;
use shardweave_compiler::file::{WeaveFile, parse_file};
use shardweave_compiler::host::parse_host;
use shardweave_compiler::local::parse_local;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::Program;
use std::sync::Arc;

/// Checks program and placement (as a file), the local and the host program of a plan.
pub fn check(program: &Program, placement: Option<&Placement>, plan: &Plan) -> Result<(), String> {
    check_file(program, placement)?;
    let text = plan.local.to_string();
    match parse_local(&text) {
        Ok(read) if read == plan.local => same_text("the local program", &text, &read.to_string())?,
        Ok(read) => return Err(format!("the local program reads back as another:\n{text}\n{read}")),
        Err(mistakes) => return Err(format!("the local program does not read back: {mistakes}\n{text}")),
    }
    let text = plan.host.to_string();
    match parse_host(&text) {
        Ok(read) if read == plan.host => same_text("the host program", &text, &read.to_string()),
        Ok(read) => Err(format!("the host program reads back as another:\n{text}\n{read}")),
        Err(mistakes) => Err(format!("the host program does not read back: {mistakes}\n{text}")),
    }
}

fn check_file(program: &Program, placement: Option<&Placement>) -> Result<(), String> {
    let mut file = WeaveFile::default();
    file.programs.push(program.clone());
    if let Some(placement) = placement {
        file.placements.push(placement.clone());
        let meshes = placement.entries.iter().map(|entry| entry.layout.mesh());
        for mesh in std::iter::once(&placement.mesh).chain(meshes) {
            if file.mesh(mesh.name()).is_none() {
                file.meshes.push(Arc::clone(mesh));
            }
        }
    }
    let text = file.to_string();
    let (read, found) = parse_file(&text, &[]);
    if !found.is_empty() {
        return Err(format!("program and placement do not read back: {found}\n{text}"));
    }
    if read != file {
        return Err(format!("program and placement read back as others:\n{text}\n{read}"));
    }
    same_text("program and placement", &text, &read.to_string())
}

fn same_text(what: &str, first: &str, second: &str) -> Result<(), String> {
    if first == second { Ok(()) } else { Err(format!("{what} prints differently:\n{first}\n{second}")) }
}
