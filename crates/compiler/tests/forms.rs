//! The text of the local and host forms, on the files of `tests/forms`: each is a correct program.

mod support;

use shardweave_compiler::host;
use shardweave_compiler::local;
use shardweave_compiler::schedule;
use std::collections::BTreeSet;
use std::path::Path;
use support::{edited, files, host_of, local_of, plain, read};

#[test]
fn sh10_local_programs_print_as_they_are_written() {
    for file in files("local") {
        let text = read(&file);
        let program = local_of(&text);
        assert_eq!(program.to_string(), plain(&text), "{file}");
        assert_eq!(local_of(&program.to_string()), program, "{file}");
        local::verify(&program).unwrap_or_else(|fault| panic!("{file}: {fault}"));
    }
}

#[test]
fn sh10_host_programs_print_as_they_are_written() {
    for file in files("host") {
        let text = read(&file);
        let program = host_of(&text);
        assert_eq!(program.to_string(), plain(&text), "{file}");
        assert_eq!(host_of(&program.to_string()), program, "{file}");
        host::verify(&program).unwrap_or_else(|fault| panic!("{file}: {fault}"));
    }
}

#[test]
fn scheduled_programs_are_right_after_every_pass_and_print() {
    for file in files("local") {
        let local = local_of(&read(&file));
        let mut passes = Vec::new();
        let host = schedule::run_watched(&local, &BTreeSet::new(), &mut |pass, program| {
            passes.push(pass);
            host::verify(program).unwrap_or_else(|fault| panic!("{file} after {pass}: {fault}"));
            assert_eq!(host_of(&program.to_string()), *program, "{file} after {pass}");
        })
        .expect("the program is small");
        assert_eq!(passes, ["translate", "pipeline", "views", "loans", "buffers"]);
        assert!(schedule::peak_bytes(&host) <= host.arena, "{file}");
    }
}

/// A long program has as many events as it has steps that wait for another stream.
#[test]
fn any_number_of_events_is_right() {
    let text = edited(&read("pipelined.host"), ", events 2", ", events 1000000");
    host::verify(&host_of(&text)).expect("more events than are recorded");
}

/// The text block of a module's documentation.
fn documented(module: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(module);
    let source = std::fs::read_to_string(path).expect("the module is there");
    let doc =
        source.lines().filter_map(|line| line.strip_prefix("//!")).skip_while(|line| *line != " ```text");
    let block = doc.skip(1).take_while(|line| *line != " ```");
    block.map(|line| format!("{}\n", line.strip_prefix(' ').unwrap_or(line))).collect()
}

#[test]
fn documented_forms_are_correct() {
    let (text, form) = (documented("local/mod.rs"), local_of(&documented("local/mod.rs")));
    assert_eq!(form.to_string(), text);
    local::verify(&form).unwrap_or_else(|fault| panic!("{fault}"));
    let (text, form) = (documented("host/mod.rs"), host_of(&documented("host/mod.rs")));
    assert_eq!(form.to_string(), text);
    host::verify(&form).unwrap_or_else(|fault| panic!("{fault}"));
}
