//! The flags and the JSON of the reference are those of the commands.

use std::collections::{BTreeMap, BTreeSet};
use std::process::{Command, Output};

fn shardweave(args: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_shardweave"));
    command.args(args).current_dir(crate::root()).output().expect("the binary is built")
}

fn reference() -> String {
    std::fs::read_to_string(crate::root().join("docs/language.md")).expect("the reference")
}

/// The cells of every table row whose first cell is code.
fn rows(text: &str) -> impl Iterator<Item = (&str, &str)> {
    text.lines().filter_map(|line| {
        let (first, others) = line.strip_prefix("| `")?.split_once("` | ")?;
        let second = others.split('|').next().unwrap_or("");
        Some((first, second.trim()))
    })
}

#[test]
fn every_flag_of_every_command_is_in_the_reference() {
    let mut built: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for command in ["check", "explain", "compile", "run", "measure"] {
        let help = String::from_utf8(shardweave(&[command, "--help"]).stdout).expect("text");
        let words = help.split(|c: char| !(c.is_ascii_lowercase() || c == '-'));
        for flag in words.filter(|word| word.starts_with("--") && word.len() > 2 && *word != "--help") {
            built.entry(flag.to_string()).or_default().insert(command.to_string());
        }
    }
    let text = reference();
    let mut told: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for (flag, commands) in rows(&text).filter(|(first, _)| first.starts_with("--")) {
        let name = flag.split(' ').next().unwrap_or(flag);
        told.insert(name.into(), commands.split(", ").map(String::from).collect());
    }
    assert_eq!(told, built);
}

/// The paths of all fields; names of values, dims and axes become `*`.
fn fields(json: &serde_json::Value, path: &str, found: &mut BTreeSet<String>) {
    use serde_json::Value;
    let named = ["mesh", "values", "outputs", "check.outputs", "values.*.dims", "outputs.*.dims"];
    match json {
        Value::Object(of) => {
            for (name, value) in of {
                let name = if named.contains(&path) { "*" } else { name };
                fields(value, &if path.is_empty() { name.into() } else { format!("{path}.{name}") }, found);
            }
        }
        Value::Array(entries) => entries.iter().for_each(|entry| fields(entry, &format!("{path}[]"), found)),
        _ => {
            found.insert(path.into());
        }
    }
}

#[test]
fn the_reference_names_the_fields_of_the_json() {
    let sizes = ["--size", "b=1", "s=8", "e=8", "h=8"];
    let run =
        ["run", "examples/mlp.weave", "--placement", "overlapped", "--random", "1", "--check", "--json"];
    let folder = tempfile::tempdir().expect("tests can write to the folder for temporary files");
    let trace = folder.path().join("trace.json");
    let traced = ["--repeat", "2", "--trace", trace.to_str().expect("a path in Unicode")];
    let output = shardweave(&[&run[..], &sizes, &traced].concat());
    let mut built = BTreeSet::new();
    fields(&serde_json::from_slice(&output.stdout).expect("JSON"), "", &mut built);
    let wrong = shardweave(&["explain", "examples/mlp.weave", "--placement", "overlapped", "--json"]);
    fields(&serde_json::from_slice(&wrong.stdout).expect("JSON"), "", &mut built);
    built.insert("notes[]".into()); // not every plan has one

    // Rows without a type are headings of those below; `check` is an object here.
    let text = reference();
    let told = rows(section(&text, "JSON")).filter(|(first, ty)| !ty.is_empty() && *first != "check");
    assert_eq!(told.map(|(first, _)| first.to_string()).collect::<BTreeSet<_>>(), built);
}

/// What stands under a heading.
fn section<'a>(text: &'a str, heading: &str) -> &'a str {
    let rest = text.split(&format!("\n### {heading}\n")).nth(1);
    rest.and_then(|rest| rest.split("\n### ").next()).expect("a section")
}

#[test]
fn the_reference_names_the_fields_of_what_is_measured() {
    let output = shardweave(&["measure", "--product", "8,8,8", "--repeat", "1", "--json"]);
    let mut built = BTreeSet::new();
    fields(&serde_json::from_slice(&output.stdout).expect("JSON"), "", &mut built);
    let text = reference();
    let told = rows(section(&text, "Measuring a machine")).map(|(first, _)| first.to_string());
    assert_eq!(told.collect::<BTreeSet<_>>(), built);
}
