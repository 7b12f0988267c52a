//! Texts: weave files and the forms of compiled programs.
//!
//! What reads without a mistake prints, reads back as the same and prints the same again. What is read is
//! taken further: a file is given sizes, a form is verified, and what is right is scheduled.

use super::{Behaviour, contents};
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::file::{WeaveFile, parse_bytes, parse_file};
use shardweave_compiler::host::{self, parse_host};
use shardweave_compiler::local::{self, parse_local};
use shardweave_compiler::placement::verify_sizes;
use shardweave_compiler::program::Sizes;
use shardweave_compiler::schedule;
use std::collections::BTreeSet;

/// The longest message; what a user gave is cut short in it.
const LONGEST_MESSAGE: usize = 3000;

/// Sizes that a file's dims are bound to.
const SIZES: [u64; 4] = [4, 0, 13, u64::MAX];

/// Every text of the repository that one of the readers reads.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = contents("../../examples", &["weave"]);
    for folder in ["../compiler/tests/sound", "../compiler/tests/errors", "cases", "corpus/parse"] {
        seeds.extend(contents(folder, &["weave"]));
    }
    seeds.extend(contents("../compiler/tests/forms", &["local", "host"]));
    seeds
}

/// Reads the bytes in every way there is.
pub fn check(input: &[u8]) -> Result<Behaviour, String> {
    let mut behaviour = Behaviour::default();
    let (file, found) = parse_bytes(input, &[]);
    check_messages(&found, input)?;
    behaviour.told("file", &found);
    if found.is_empty() {
        check_file(&file, &mut behaviour)?;
    }
    if let Ok(text) = std::str::from_utf8(input) {
        check_local(text, &mut behaviour)?;
        check_host(text, &mut behaviour)?;
    }
    Ok(behaviour)
}

/// Messages are short, and point to a place in the text.
fn check_messages(found: &Diagnostics, input: &[u8]) -> Result<(), String> {
    let text = std::str::from_utf8(input).ok();
    for diagnostic in found.errors().iter().chain(found.warnings()) {
        let length = diagnostic.message.len() + diagnostic.help.as_ref().map_or(0, String::len);
        if length > LONGEST_MESSAGE {
            return Err(format!("a message of {length} bytes with code {}", diagnostic.code));
        }
        let places = diagnostic.place.iter().chain(diagnostic.related.iter().map(|(place, _)| place));
        for place in places {
            let range = place.start as usize..place.end as usize;
            let inside = range.start <= range.end && range.end <= input.len();
            if !inside || text.is_some_and(|text| text.get(range.clone()).is_none()) {
                return Err(format!("the place {range:?} of a message is not in the text: {diagnostic}"));
            }
        }
    }
    Ok(())
}

fn check_file(file: &WeaveFile, behaviour: &mut Behaviour) -> Result<(), String> {
    let text = file.to_string();
    let (again, found) = parse_file(&text, &[]);
    if !found.is_empty() {
        return Err(format!("a file does not read back: {found}"));
    }
    if again != *file || again.to_string() != text {
        return Err(format!("a file reads back as another:\n{text}\n{again}"));
    }
    for program in file.programs() {
        behaviour.counted("values", program.values().len());
        for size in SIZES {
            let dims = program.dims().values().filter(|dim| dim.fixed.is_none());
            match Sizes::bind(program, dims.map(|dim| (dim.name.as_str(), size))) {
                Err(found) => behaviour.told("sizes", &found),
                Ok(sizes) => {
                    for placement in file.placements().iter().filter(|one| one.program() == program.name()) {
                        behaviour.told("fit", &verify_sizes(program, placement, &sizes));
                    }
                }
            }
        }
    }
    Ok(())
}

fn check_local(text: &str, behaviour: &mut Behaviour) -> Result<(), String> {
    let program = match parse_local(text) {
        Err(found) => {
            behaviour.told("local", &found);
            return check_messages(&found, text.as_bytes());
        }
        Ok(program) => program,
    };
    let printed = program.to_string();
    if parse_local(&printed).map(|again| again.to_string()) != Ok(printed) {
        return Err(format!("a local program reads back as another:\n{program}"));
    }
    match local::verify(&program) {
        Err(fault) => behaviour.did(format!("local {}", super::behaviour::pattern(&fault.reason))),
        Ok(()) => match schedule::run(&program, &BTreeSet::new()) {
            Err(found) => behaviour.told("schedule", &found),
            Ok(host) => behaviour.counted("scheduled", host.buffers.len()),
        },
    }
    Ok(())
}

fn check_host(text: &str, behaviour: &mut Behaviour) -> Result<(), String> {
    let program = match parse_host(text) {
        Err(found) => {
            behaviour.told("host", &found);
            return check_messages(&found, text.as_bytes());
        }
        Ok(program) => program,
    };
    let printed = program.to_string();
    if parse_host(&printed).map(|again| again.to_string()) != Ok(printed) {
        return Err(format!("a host program reads back as another:\n{program}"));
    }
    match host::verify(&program) {
        Err(fault) => behaviour.did(format!("host {}", super::behaviour::pattern(&fault.reason))),
        Ok(()) => behaviour.did("host right"),
    }
    Ok(())
}
