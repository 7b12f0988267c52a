//! The files of `tests/forms`, each a correct program.
#![allow(dead_code)] // each test uses a part

use shardweave_compiler::host::{Fault, HostProgram, parse_host};
use shardweave_compiler::local::{LocalProgram, parse_local};
use std::path::{Path, PathBuf};

pub fn read(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

pub fn files(extension: &str) -> Vec<String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms");
    let entries = std::fs::read_dir(folder).expect("the folder of forms is there");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut names: Vec<PathBuf> = paths.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    names.sort();
    assert!(!names.is_empty(), "no file ends in .{extension}");
    names.iter().map(|p| p.file_name().expect("a file has a name").to_string_lossy().into_owned()).collect()
}

pub fn local_of(text: &str) -> LocalProgram {
    parse_local(text).unwrap_or_else(|mistakes| panic!("{mistakes}\nin\n{text}"))
}

pub fn host_of(text: &str) -> HostProgram {
    parse_host(text).unwrap_or_else(|mistakes| panic!("{mistakes}\nin\n{text}"))
}

/// Without comments and empty lines.
pub fn plain(text: &str) -> String {
    let lines = text.lines().filter(|line| !line.trim_start().starts_with('#') && !line.trim().is_empty());
    lines.map(|line| format!("{line}\n")).collect()
}

/// Applies an edit that must change the text.
pub fn edited(text: &str, from: &str, to: &str) -> String {
    assert!(text.contains(from), "nothing to edit: {from}");
    text.replacen(from, to, 1)
}

/// A mutation: the file, what is edited and into what, and a part of the reason of the refusal.
pub type Mutation = (&'static str, &'static str, &'static str, &'static str);

/// Each mutation of a form must be refused, for the reason that it says.
pub fn assert_refused(extension: &str, mutations: &[Mutation], verify: impl Fn(&str) -> Option<Fault>) {
    let mut wrong = Vec::new();
    for (file, from, to, reason) in mutations {
        let text = edited(&read(&format!("{file}.{extension}")), from, to);
        let told = verify(&text).map(|fault| fault.to_string());
        if !told.as_ref().is_some_and(|told| told.contains(reason)) {
            wrong.push(format!("{file} with `{from}` as `{to}`:\n  told     {told:?}\n  expected {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
