//! What the host verifier accepts runs the same in every order, and what is broken on purpose is refused.
//!
//! The programs are the files of `tests/forms`, random edits of them, and every [mutation](mutations) of
//! them at every place.

mod mutations;
mod run;

use mutations::{MUTATIONS, Meaning};
use run::{Random, same_in_every_order};
use shardweave_compiler::host::{self, HostProgram, parse_host};
use shardweave_compiler::local::parse_local;
use shardweave_compiler::schedule;
use std::collections::BTreeSet;

fn forms(extension: &str) -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms");
    let entries = std::fs::read_dir(folder).expect("the folder of forms is there");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut files: Vec<_> = paths.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    let read = |path: &std::path::PathBuf| std::fs::read_to_string(path).expect("a form is readable");
    files.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

#[test]
fn the_order_of_verified_programs_does_not_matter() {
    for (file, text) in forms("host") {
        let program = parse_host(&text).unwrap_or_else(|mistakes| panic!("{file}: {mistakes}"));
        same_in_every_order(&program, 40).unwrap_or_else(|wrong| panic!("{file}: {wrong}"));
    }
    for (file, text) in forms("local") {
        let local = parse_local(&text).unwrap_or_else(|mistakes| panic!("{file}: {mistakes}"));
        let program = schedule::run(&local, &BTreeSet::new()).expect("the program is small");
        same_in_every_order(&program, 10).unwrap_or_else(|wrong| panic!("{file}: {wrong}\n{program}"));
    }
}

/// One random edit of the lines of the body: drop, repeat, move, or put on the other stream.
fn edited(lines: &[String], random: &mut Random) -> Vec<String> {
    let mut lines = lines.to_vec();
    let is_action =
        |line: &String| line.trim_start().starts_with("s0:") || line.trim_start().starts_with("s1:");
    let actions: Vec<usize> = (0..lines.len()).filter(|&at| is_action(&lines[at])).collect();
    let at = actions[random.below(actions.len())];
    match random.below(5) {
        0 => drop(lines.remove(at)),
        1 => {
            let other = actions[random.below(actions.len())];
            let line = lines[at].clone();
            lines.insert(other, line);
        }
        2 => {
            let other = actions[random.below(actions.len())];
            let line = lines.remove(at);
            lines.insert(other.min(lines.len() - 1), line);
        }
        3 => lines.swap(at, actions[random.below(actions.len())]),
        _ => {
            let (from, to) = if lines[at].contains("s0:") { ("s0:", "s1:") } else { ("s1:", "s0:") };
            lines[at] = lines[at].replacen(from, to, 1);
        }
    }
    lines
}

#[test]
fn edits_that_the_verifier_accepts_run_the_same_in_every_order() {
    let (mut accepted, mut refused, mut caught) = (0, 0, 0);
    for (file, text) in forms("host") {
        let lines: Vec<String> = text.lines().map(String::from).collect();
        for seed in 0..EDITS {
            let mut random = Random::new(seed + 100);
            let mut edit = lines.clone();
            for _ in 0..=random.below(3) {
                edit = edited(&edit, &mut random);
            }
            let Ok(program) = parse_host(&edit.join("\n")) else { continue };
            let same = same_in_every_order(&program, 10);
            match (host::verify(&program), same) {
                (Ok(()), Err(wrong)) => panic!("{file}, edit {seed}: {wrong}\n{program}"),
                (Ok(()), Ok(_)) => accepted += 1,
                (Err(_), same) => {
                    refused += 1;
                    caught += u32::from(same.is_err());
                }
            }
        }
    }
    // Most of what the verifier refuses does go wrong in some order: the runs would notice.
    let told = format!("{accepted} accepted, {refused} refused, of which {caught} went wrong");
    assert!(accepted > 20 && caught * 2 > refused, "{told}");
}

/// How many edits of each file are tried.
const EDITS: u64 = 150;

/// The texts of correct host programs: written, and scheduled from local programs.
fn host_programs() -> Vec<(String, String)> {
    let scheduled = forms("local").into_iter().map(|(file, text)| {
        let local = parse_local(&text).unwrap_or_else(|mistakes| panic!("{file}: {mistakes}"));
        let host = schedule::run(&local, &BTreeSet::new()).expect("the program is small");
        (file, host.to_string())
    });
    forms("host").into_iter().chain(scheduled).collect()
}

/// Whether a program is small enough to be run mark by mark in many orders.
fn is_small(program: &HostProgram) -> bool {
    program.arena.saturating_mul(program.devices) <= 1 << 14 && program.streams <= 4
}

#[test]
fn every_mutation_at_every_place_is_refused_or_harmless() {
    for mutation in MUTATIONS {
        let (mut accepted, mut refused) = (0, 0);
        for (file, text) in host_programs() {
            let right = parse_host(&text).unwrap_or_else(|mistakes| panic!("{file}: {mistakes}"));
            let marks = same_in_every_order(&right, 1).unwrap_or_else(|wrong| panic!("{file}: {wrong}"));
            for mutant in (mutation.mutants)(&text) {
                let program = match parse_host(&mutant) {
                    Ok(program) if program != right && host::verify(&program).is_ok() => program,
                    Ok(program) if program == right => continue,
                    _ => {
                        refused += 1;
                        continue;
                    }
                };
                accepted += 1;
                if is_small(&program) {
                    let what = || format!("{file}: {} is accepted, but wrong:\n{program}", mutation.name);
                    let ran = same_in_every_order(&program, ORDERS)
                        .unwrap_or_else(|wrong| panic!("{wrong}\n{}", what()));
                    assert!(mutation.meaning == Meaning::Other || ran == marks, "other outputs\n{}", what());
                }
            }
        }
        assert!(refused > accepted, "{}: {refused} are refused, {accepted} harmless", mutation.name);
    }
}

/// In how many orders a mutant runs.
const ORDERS: u64 = 6;
