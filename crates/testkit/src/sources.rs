//! The texts of the repository that tests start from, in an order that is always the same.

use crate::case::{CaseFile, concrete, planned};
use shardweave_compiler::host::{HostProgram, parse_host};
use shardweave_compiler::local::{LocalProgram, parse_local};
use shardweave_compiler::schedule;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

pub(crate) fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// The names and bytes of all files of a folder that end so; the folder is seen from that of this crate.
///
/// # Panics
/// If the folder cannot be read: the sources are a part of the repository.
pub fn contents(folder: &str, ends: &[&str]) -> Vec<(String, Vec<u8>)> {
    let folder = root().join(folder);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    paths.retain(|path| {
        path.extension().is_some_and(|extension| ends.iter().any(|end| extension.eq_ignore_ascii_case(end)))
    });
    paths.sort();
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    paths.iter().map(|path| (name(path), std::fs::read(path).expect("a source can be read"))).collect()
}

/// The same of texts.
///
/// # Panics
/// If one of them is not text.
pub fn texts(folder: &str, ends: &[&str]) -> Vec<(String, String)> {
    let text = |(name, bytes)| (name, String::from_utf8(bytes).expect("a source is text"));
    contents(folder, ends).into_iter().map(text).collect()
}

/// The weave files of the repository, sound ones and faulty ones, but for the cases.
pub fn weave_files() -> Vec<(String, Vec<u8>)> {
    let folders = ["../../examples", "../compiler/tests/sound", "../compiler/tests/errors"];
    folders.into_iter().flat_map(|folder| contents(folder, &["weave"])).collect()
}

/// The forms of compiled programs that are written by hand: `local` or `host`.
pub fn forms(form: &str) -> Vec<(String, String)> {
    texts("../compiler/tests/forms", &[form])
}

/// Host programs that are right, with their names: those of the forms, written or scheduled.
pub fn hosts_of_forms() -> Vec<(String, HostProgram)> {
    let read = |(name, text): (String, String)| {
        let program = parse_host(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        (name, program)
    };
    let schedule = |(name, text): (String, String)| {
        let local: LocalProgram = parse_local(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        let host = schedule::run(&local, &BTreeSet::new()).unwrap_or_else(|found| panic!("{name}: {found}"));
        (name, host.into_program())
    };
    let written = forms("host").into_iter().map(read);
    written.chain(forms("local").into_iter().map(schedule)).collect()
}

/// The plans of the examples, as the golden files keep them.
pub fn hosts_of_goldens() -> Vec<(String, HostProgram)> {
    let folders = ["../compiler/tests/golden/examples", "../compiler/tests/golden/schedule"];
    let files = folders.into_iter().flat_map(|folder| texts(folder, &["host"]));
    let read = |(name, text): (String, String)| {
        let program = parse_host(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        (name, program)
    };
    files.map(read).collect()
}

/// The plans of all cases.
pub fn hosts_of_cases() -> Vec<(String, HostProgram)> {
    let mut hosts = Vec::new();
    for (file, text) in texts("cases", &["weave"]) {
        let cases = CaseFile::parse(&text).unwrap_or_else(|mistake| panic!("{file}: {mistake}")).cases;
        for case in cases.iter().filter(|case| case.errors.is_empty()) {
            for text in concrete(case) {
                let name = |placement: &str| format!("{file}, {}, {placement}", case.ids);
                let plans = planned(&text).into_iter();
                hosts.extend(plans.map(|(placement, plan)| (name(&placement), plan.host.into_program())));
            }
        }
    }
    hosts
}
