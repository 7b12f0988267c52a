//! Plans of programs that are written in tests.

use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::SizeBinder;

/// The plan of statements in which all sizes stand, on a line of so many devices.
pub fn planned(devices: usize, statements: &str, placement: &str, constants: &[&str]) -> Plan {
    let text = format!(
        "mesh line {{ tp = {devices} }}\nprogram p {{\n{statements}\n}}\nplacement q for p on line {{\n{placement}\n}}\n"
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{found}");
    let (program, placement) = (&file.programs()[0], &file.placements()[0]);
    let sizes = SizeBinder::new(program).finish().expect("all sizes are in the text");
    let constants = constants.iter().map(ToString::to_string).collect();
    let options = CompileOptions { constants, ..CompileOptions::default() };
    compile(program, Some(placement), &sizes, &options).expect("it can be planned")
}
