//! Every form prints and parses back to the same thing; programs and placements can be built again.

use shardweave_compiler::compile::Plan;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::file::{WeaveFile, parse_file};
use shardweave_compiler::host::parse_host;
use shardweave_compiler::local::parse_local;
use shardweave_compiler::placement::{Communication, Placement};
use shardweave_compiler::program::{Def, DimId, DimText, Operand, Program, Term, Value};

/// Checks program and placement (as a file, and built), the local and the host program of a plan.
pub fn check(program: &Program, placement: Option<&Placement>, plan: &Plan) -> Result<(), String> {
    check_file(program, placement)?;
    check_built(program, placement)?;
    let text = plan.local.to_string();
    match parse_local(&text) {
        Ok(read) if read == plan.local => same_text("the local program", &text, &read.to_string())?,
        Ok(read) => return Err(format!("the local program reads back as another:\n{text}\n{read}")),
        Err(mistakes) => return Err(format!("the local program does not read back: {mistakes}\n{text}")),
    }
    let text = plan.host.to_string();
    match parse_host(&text) {
        Ok(read) if read == *plan.host => same_text("the host program", &text, &read.to_string()),
        Ok(read) => Err(format!("the host program reads back as another:\n{text}\n{read}")),
        Err(mistakes) => Err(format!("the host program does not read back: {mistakes}\n{text}")),
    }
}

fn check_file(program: &Program, placement: Option<&Placement>) -> Result<(), String> {
    let file = WeaveFile::of(program.clone(), placement.cloned());
    let file = file.ok_or("a placement is of another program, or two of its meshes have one name")?;
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

/// Says program and placement again with the builders.
fn check_built(program: &Program, placement: Option<&Placement>) -> Result<(), String> {
    let built = rebuilt(program).map_err(|mistakes| format!("building {program} again: {mistakes}"))?;
    if built != *program {
        return Err(format!("a program is built as another:\n{program}\n{built}"));
    }
    same_text("the built program", &program.to_string(), &built.to_string())?;
    let Some(placement) = placement else { return Ok(()) };
    let built = placed_again(program, placement);
    let built = built.map_err(|mistakes| format!("building {} again: {mistakes}", placement.name()))?;
    if built != *placement {
        return Err(format!("the placement {} is built as another", placement.name()));
    }
    same_text("the built placement", &placement.text(program).to_string(), &built.text(program).to_string())
}

fn rebuilt(program: &Program) -> Result<Program, Diagnostics> {
    let mut builder = Program::builder(program.name());
    let dims = |ids: &[DimId]| {
        let dim = |&id: &DimId| match (&program.dims()[id].name, program.dims()[id].fixed) {
            (name, Some(size)) => DimText::from((name.as_str(), size)),
            (name, None) => DimText::from(name.as_str()),
        };
        ids.iter().map(dim).collect::<Vec<_>>()
    };
    for Value { name, dims: of_value, dtype, def, .. } in program.values().values() {
        match def {
            Def::Input { from: None } => builder.input(name, *dtype, dims(of_value)),
            Def::Input { from: Some(from) } => builder.weight(name, *dtype, dims(of_value), from),
            Def::Result(apply) => {
                let operands = apply.operands.iter().map(|operand| match operand {
                    Operand::Value(value) => Term::Value(program.values()[*value].name.clone()),
                    Operand::Number(number) => Term::Number(*number),
                });
                match &apply.asked {
                    Some(asked) => builder.op_as(name, apply.op.clone(), operands, dims(asked)),
                    None => builder.op(name, apply.op.clone(), operands),
                }
            }
        };
    }
    for &output in program.outputs() {
        builder.output(&program.values()[output].name);
    }
    builder.finish()
}

fn placed_again(program: &Program, placement: &Placement) -> Result<Placement, Diagnostics> {
    let mut builder = Placement::builder(placement.name(), program, placement.mesh());
    if placement.communication() == Communication::AtReshards {
        builder.strict();
    }
    for entry in placement.entries() {
        let value = &program.values()[entry.value].name;
        match entry.via {
            Some(via) => builder.place_via(value, &entry.layout, via),
            None => builder.place_at(value, &entry.layout),
        };
    }
    builder.finish()
}

fn same_text(what: &str, first: &str, second: &str) -> Result<(), String> {
    if first == second { Ok(()) } else { Err(format!("{what} prints differently:\n{first}\n{second}")) }
}
