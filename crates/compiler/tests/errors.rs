//! Every message that the language gives, once. `tests/errors/NAME.weave` is a file with mistakes,
//! `NAME.txt` beside it what is told. To write the texts anew: `BLESS=1 cargo test --test errors`, then
//! look at the diff.
//!
//! Comments at the start of a file say what else is given: `# size: s=3`, `# mesh: line.tp=8`,
//! `# array: x from x.npy sizes 4 3`.

use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use shardweave_compiler::file::{AxisSize, WeaveFile, parse_bytes};
use shardweave_compiler::placement::verify_sizes;
use shardweave_compiler::program::SizeBinder;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// What the comments at the start of a file say.
#[derive(Default)]
struct Given {
    sizes: Vec<(String, u64)>,
    axes: Vec<AxisSize>,
    arrays: Vec<(String, String, Vec<u64>)>,
}

fn given(text: &str) -> Given {
    let mut given = Given::default();
    let assignments = |list: &str| -> Vec<(String, u64)> {
        let pairs = list.split_whitespace().map(|pair| pair.split_once('=').expect("name=size"));
        pairs.map(|(name, size)| (name.to_string(), size.parse().expect("a size"))).collect()
    };
    for line in text.lines().map_while(|line| line.strip_prefix("# ")) {
        if let Some(list) = line.strip_prefix("size:") {
            given.sizes = assignments(list);
        } else if let Some(list) = line.strip_prefix("mesh:") {
            given.axes = assignments(list).into_iter().map(|(path, size)| AxisSize { path, size }).collect();
        } else if let Some(rest) = line.strip_prefix("array: ") {
            let (input, rest) = rest.split_once(" from ").expect("array: x from FILE sizes ...");
            let (from, sizes) = rest.split_once(" sizes ").expect("array: x from FILE sizes ...");
            let sizes = sizes.split_whitespace().map(|size| size.parse().expect("a size")).collect();
            given.arrays.push((input.into(), from.into(), sizes));
        }
    }
    given
}

/// All mistakes of a file: of its text or, if that is sound and sizes are given, of its sizes.
fn found(bytes: &[u8]) -> Diagnostics {
    let text = String::from_utf8_lossy(bytes);
    let given = given(&text);
    let (file, mut found) = parse_bytes(bytes, &given.axes);
    if found.is_empty() && text.lines().next().is_some_and(|line| line.starts_with('#')) {
        found.extend(sizes(&file, &given));
    }
    found
}

fn sizes(file: &WeaveFile, given: &Given) -> Diagnostics {
    let mut found = Diagnostics::new();
    for program in file.programs() {
        let mut binder = SizeBinder::new(program);
        for (name, size) in &given.sizes {
            binder.bind_named(name, *size);
        }
        for (input, from, shape) in &given.arrays {
            binder.bind_array(program.value(input).expect("an input"), from, shape);
        }
        match binder.finish() {
            Err(mistakes) => found.extend(mistakes),
            Ok(sizes) => {
                for placement in file.placements() {
                    found.extend(verify_sizes(program, placement, &sizes));
                }
            }
        }
    }
    found
}

/// `line:column`, both from 1.
fn place(text: &str, span: Span) -> String {
    let before = text.get(..span.start as usize).unwrap_or_default();
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|&c| c != '\n').count() + 1;
    format!("{line}:{column}")
}

fn told(text: &str, kind: &str, diagnostic: &Diagnostic) -> String {
    let at = diagnostic.place.map_or("-".into(), |span| place(text, span));
    let mut told = format!("{at} {kind}[{}]: {}\n", diagnostic.code, diagnostic.message);
    for (span, says) in &diagnostic.related {
        told += &format!("    {}: {says}\n", place(text, *span));
    }
    if let Some(help) = &diagnostic.help {
        told += &format!("    help: {help}\n");
    }
    told
}

fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/errors");
    let entries = fs::read_dir(folder).expect("the folder of error files is there");
    let mut files: Vec<PathBuf> =
        entries.map(|entry| entry.expect("the folder can be read").path()).collect();
    files.retain(|path| path.extension().is_some_and(|extension| extension == "weave"));
    files.sort();
    files
}

#[test]
fn every_message_is_as_it_was_reviewed() {
    let bless = std::env::var_os("BLESS").is_some();
    let mut different = Vec::new();
    for path in files() {
        let bytes = fs::read(&path).expect("the file can be read");
        let found = found(&bytes);
        let text = String::from_utf8_lossy(&bytes);
        let errors = found.errors().iter().map(|diagnostic| told(&text, "error", diagnostic));
        let warnings = found.warnings().iter().map(|diagnostic| told(&text, "warning", diagnostic));
        let now: String = errors.chain(warnings).collect();
        let expected = path.with_extension("txt");
        if bless {
            fs::write(&expected, &now).expect("the text can be written");
        } else if fs::read_to_string(&expected).unwrap_or_default() != now {
            different.push(format!("{}:\n{now}", path.display()));
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}

/// A file is named by the code that it shows, and every code of the language is shown.
#[test]
fn every_code_is_shown() {
    let mut shown = BTreeSet::new();
    for path in files() {
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        let found = found(&fs::read(&path).expect("the file can be read"));
        let codes: BTreeSet<&str> =
            found.errors().iter().chain(found.warnings()).map(|diagnostic| diagnostic.code.name()).collect();
        assert!(codes.contains(&name[..5]), "{name} shows {codes:?}");
        for mistake in found.errors().iter().filter(|mistake| mistake.code != Code::Syntax) {
            assert!(mistake.help.is_some(), "{name}: there is no way out of {mistake}");
        }
        shown.insert(name[..5].to_string());
    }
    // Given by those who read arrays, plan or run, not by the language.
    let others = |name: &str| name >= "E0601" && !matches!(name, "E0604" | "E0702" | "W0301");
    let not_text = [Code::UnknownPlacement];
    for row in Code::TABLE {
        if !others(row.name) && !not_text.contains(&row.code) {
            assert!(shown.contains(row.name), "no file shows {}: {}", row.name, row.about);
        }
    }
}
