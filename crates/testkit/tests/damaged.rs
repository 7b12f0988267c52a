//! Damaged forms: whatever stands in the text, reading gives mistakes with the code of the forms, and
//! verifying gives a fault or a program that can be scheduled. Nothing panics.

use shardweave_compiler::diagnostic::{Code, Diagnostics};
use shardweave_compiler::host::{self, parse_host};
use shardweave_compiler::local::{self, parse_local};
use shardweave_compiler::schedule;
use shardweave_testkit::fuzz::{Random, mutated};
use shardweave_testkit::sources::forms;
use std::collections::BTreeSet;

/// Damages of each file of a form.
fn damaged(form: &str) -> Vec<String> {
    let texts: Vec<String> = forms(form).into_iter().map(|(_, text)| text).collect();
    let mut damaged = Vec::new();
    for (file, text) in texts.iter().enumerate() {
        let other = &texts[(file + 1) % texts.len()];
        for seed in 0..DAMAGES {
            let mut random = Random::new(seed * texts.len() as u64 + file as u64);
            let bytes = mutated(&mut random, text.as_bytes(), other.as_bytes());
            damaged.push(String::from_utf8_lossy(&bytes).into_owned());
        }
    }
    damaged
}

fn assert_form_mistakes(mistakes: &Diagnostics, text: &str) {
    assert!(!mistakes.is_empty(), "refused without a reason:\n{text}");
    for mistake in mistakes.errors() {
        assert_eq!(mistake.code, Code::FormSyntax, "{mistake}\n{text}");
    }
}

#[test]
fn damaged_local_programs_are_refused_or_can_be_scheduled() {
    let mut right = 0;
    for damaged in damaged("local") {
        match parse_local(&damaged) {
            Err(mistakes) => assert_form_mistakes(&mistakes, &damaged),
            Ok(program) => {
                assert_eq!(parse_local(&program.to_string()).as_ref(), Ok(&program), "{damaged}");
                if local::verify(&program).is_ok() {
                    right += 1;
                    // Schedules panics where a pass is wrong; too large is a mistake.
                    let _ = schedule::run(&program, &BTreeSet::new()).map(|host| schedule::peak_bytes(&host));
                }
            }
        }
    }
    assert!(right > 50, "only {right} are right");
}

#[test]
fn damaged_host_programs_are_refused_or_read_back() {
    let mut right = 0;
    for damaged in damaged("host") {
        match parse_host(&damaged) {
            Err(mistakes) => assert_form_mistakes(&mistakes, &damaged),
            Ok(program) => {
                assert_eq!(parse_host(&program.to_string()).as_ref(), Ok(&program), "{damaged}");
                right += usize::from(host::verify(&program).is_ok());
            }
        }
    }
    assert!(right > 50, "only {right} are right");
}

/// How many damages of each file are tried.
const DAMAGES: u64 = 300;
