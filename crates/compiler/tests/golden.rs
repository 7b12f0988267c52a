//! Forms against the files of `tests/golden`. `BLESS=1 cargo test` writes them anew; the diff is
//! reviewed.

use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::host::parse_host;
use shardweave_compiler::local::parse_local;
use shardweave_compiler::program::Sizes;
use shardweave_compiler::schedule;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests").join(name)
}

/// Collects the files that are not as expected, so that all are told.
#[derive(Default)]
struct Golden {
    different: Vec<String>,
}

impl Golden {
    fn check(&mut self, name: &str, text: &str) {
        let path = folder("golden").join(name);
        if std::env::var_os("BLESS").is_some() {
            let folder = path.parent().expect("a golden file is in a folder");
            std::fs::create_dir_all(folder).expect("the folder of golden files can be made");
            std::fs::write(&path, text).expect("a golden file can be written");
            return;
        }
        let expected = std::fs::read_to_string(&path).unwrap_or_default();
        if let Some((line, (old, new))) = first_difference(&expected, text) {
            self.different.push(format!("{name}:{line}\n  - {old}\n  + {new}"));
        }
    }

    fn finish(self) {
        let told = self.different.join("\n");
        assert!(self.different.is_empty(), "{told}\nwrite the files anew with BLESS=1, and review the diff");
    }
}

fn first_difference<'a>(old: &'a str, new: &'a str) -> Option<(usize, (&'a str, &'a str))> {
    let (mut olds, mut news) = (old.lines(), new.lines());
    for line in 1.. {
        match (olds.next(), news.next()) {
            (None, None) => return None,
            (a, b) if a == b => {}
            (a, b) => return Some((line, (a.unwrap_or("(the end)"), b.unwrap_or("(the end)")))),
        }
    }
    None
}

#[test]
fn local_programs_are_scheduled_as_before() {
    let mut golden = Golden::default();
    for name in ["mlp", "pipelined", "kinds", "parts"] {
        let text = std::fs::read_to_string(folder("forms").join(format!("{name}.local"))).expect("a form");
        let local = parse_local(&text).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        let host = schedule::run(&local, &BTreeSet::new()).expect("the program is small");
        golden.check(&format!("schedule/{name}.host"), &host.to_string());
    }
    golden.finish();
}

/// Small sizes for the dims of the examples, none of them a multiple of every mesh.
const SIZES: [(&str, u64); 13] = [
    ("b", 2),
    ("d", 2),
    ("e", 24),
    ("g", 2),
    ("h", 50),
    ("k", 16),
    ("m", 13),
    ("n", 17),
    ("o", 8),
    ("r", 4),
    ("s", 30),
    ("t", 16),
    ("v", 11),
];

/// The plans of a file: every program alone, and with each of its placements.
fn plans(path: &Path) -> Vec<(String, Plan)> {
    let text = std::fs::read_to_string(path).expect("an example is readable");
    let (file, mistakes) = parse_file(&text, &[]);
    assert!(mistakes.is_empty(), "{}: {mistakes}", path.display());
    let mut plans = Vec::new();
    for program in file.programs() {
        let own: Vec<(&str, u64)> = SIZES
            .into_iter()
            .filter(|(name, _)| program.dim(name).is_some_and(|dim| program.dims()[dim].fixed.is_none()))
            .collect();
        let sizes =
            Sizes::bind(program, own).unwrap_or_else(|mistakes| panic!("{}: {mistakes}", program.name()));
        let placements = file.placements().iter().filter(|placement| placement.program() == program.name());
        for placement in std::iter::once(None).chain(placements.map(Some)) {
            let plan = compile(program, placement, &sizes, &CompileOptions::default());
            let name = placement.map_or("none", |placement| placement.name());
            let plan = plan.unwrap_or_else(|mistakes| panic!("{}, {name}: {mistakes}", program.name()));
            plans.push((format!("{}.{name}", program.name()), plan));
        }
    }
    plans
}

#[test]
fn examples_are_planned_as_before() {
    let examples = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    let mut golden = Golden::default();
    let entries = std::fs::read_dir(examples).expect("the examples are there");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("a readable entry").path()).collect();
    files.sort();
    for file in files {
        for (name, plan) in plans(&file) {
            let (local, host) = (plan.local.to_string(), plan.host.to_string());
            assert_eq!(parse_local(&local).as_ref(), Ok(&plan.local), "{name}");
            assert_eq!(parse_host(&host).as_ref(), Ok(&*plan.host), "{name}");
            golden.check(&format!("examples/{name}.local"), &local);
            golden.check(&format!("examples/{name}.host"), &host);
        }
    }
    golden.finish();
}
