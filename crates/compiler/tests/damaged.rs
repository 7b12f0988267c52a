//! Damaged forms: whatever stands in the text, reading gives mistakes with the code of the forms, and
//! verifying gives a fault or a program that can be scheduled. Nothing panics.

use shardweave_compiler::diagnostic::{Code, Diagnostics};
use shardweave_compiler::host::{self, parse_host};
use shardweave_compiler::local::{self, parse_local};
use shardweave_compiler::schedule;
use std::collections::BTreeSet;

/// xorshift64*: small, and the same on every machine.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }

    fn pick<'a, T: ?Sized>(&mut self, of: &[&'a T]) -> &'a T {
        of[self.below(of.len())]
    }
}

/// What stands in place of a word of the text.
const WORDS: [&str; 38] = [
    "0",
    "1",
    "2",
    "3",
    "7",
    "18446744073709551615",
    "4294967296",
    "-1",
    "0.5",
    "nan",
    "x",
    "s",
    "h",
    "e",
    "tp",
    "dp",
    "%0",
    "%3",
    "%99999999999",
    "b0",
    "b4",
    "b99",
    "s0",
    "s77",
    "e0",
    "i0",
    "i1",
    "i255",
    "i70000",
    "/",
    "(",
    ")",
    "[",
    "{",
    "}",
    "<-",
    "\u{e9}",
    "\"",
];

/// Pieces of text that are exchanged or put in: names, numbers and marks.
fn tokens(text: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '%');
        let len = match word(first) {
            true => rest.find(|c| !word(c)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        tokens.push(&rest[..len]);
        rest = &rest[len..];
    }
    tokens
}

fn damaged(text: &str, random: &mut Random) -> String {
    let mut tokens = tokens(text);
    for _ in 0..=random.below(3) {
        let at = random.below(tokens.len());
        match random.below(6) {
            0 => drop(tokens.remove(at)),
            1 => tokens.insert(at, random.pick(&WORDS)),
            2 => {
                let other = random.below(tokens.len());
                tokens.swap(at, other);
            }
            3 => tokens[at] = tokens[random.below(tokens.len())],
            _ => tokens[at] = random.pick(&WORDS),
        }
    }
    tokens.concat()
}

fn assert_form_mistakes(mistakes: &Diagnostics, text: &str) {
    assert!(!mistakes.is_empty(), "refused without a reason:\n{text}");
    for mistake in mistakes.errors() {
        assert_eq!(mistake.code, Code::FormSyntax, "{mistake}\n{text}");
    }
}

fn forms(extension: &str) -> Vec<String> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/forms");
    let entries = std::fs::read_dir(folder).expect("the folder of forms is there");
    let paths = entries.map(|entry| entry.expect("a readable entry").path());
    let mut files: Vec<_> = paths.filter(|p| p.extension().is_some_and(|e| e == extension)).collect();
    files.sort();
    files.iter().map(|path| std::fs::read_to_string(path).expect("a form is readable")).collect()
}

#[test]
fn damaged_local_programs_are_refused_or_can_be_scheduled() {
    let mut right = 0;
    for (file, text) in forms("local").iter().enumerate() {
        for seed in 0..DAMAGES {
            let damaged =
                damaged(text, &mut Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ file as u64));
            match parse_local(&damaged) {
                Err(mistakes) => assert_form_mistakes(&mistakes, &damaged),
                Ok(program) => {
                    assert_eq!(parse_local(&program.to_string()).as_ref(), Ok(&program), "{damaged}");
                    if local::verify(&program).is_ok() {
                        right += 1;
                        // Schedules panics where a pass is wrong; too large is a mistake.
                        let _ =
                            schedule::run(&program, &BTreeSet::new()).map(|host| schedule::peak_bytes(&host));
                    }
                }
            }
        }
    }
    assert!(right > 5, "only {right} are right");
}

#[test]
fn damaged_host_programs_are_refused_or_read_back() {
    for (file, text) in forms("host").iter().enumerate() {
        for seed in 0..DAMAGES {
            let damaged =
                damaged(text, &mut Random((seed + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ file as u64));
            match parse_host(&damaged) {
                Err(mistakes) => assert_form_mistakes(&mistakes, &damaged),
                Ok(program) => {
                    assert_eq!(parse_host(&program.to_string()).as_ref(), Ok(&program), "{damaged}");
                    let _ = host::verify(&program);
                }
            }
        }
    }
}

/// How many damages of each file are tried.
const DAMAGES: u64 = 300;
