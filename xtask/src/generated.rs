//! A long run of generated programs: drawn from a seed, run on every backend, compared bit for bit.

use crate::{Failed, cargo, run};

/// Without a wish.
const PROGRAMS: u32 = 10_000;

/// The three kinds of programs that `crates/testkit/tests/generated.rs` draws.
const KINDS: u32 = 3;

/// Draws so many programs, a third of each kind, from a seed. What fails is printed as a case.
pub fn run_many(args: impl Iterator<Item = String>) -> Result<(), Failed> {
    let (programs, seed) = read(args)?;
    let mut tests = cargo(&["test", "--package", "shardweave-testkit", "--test", "generated"]);
    tests.args(["--", "--nocapture", "--test-threads=1"]);
    tests.env("SHARDWEAVE_CASES", programs.div_ceil(KINDS).to_string());
    tests.env("SHARDWEAVE_SEED", seed.to_string());
    run(tests)
}

fn read(mut args: impl Iterator<Item = String>) -> Result<(u32, u64), Failed> {
    let (mut programs, mut seed) = (PROGRAMS, 0);
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_default();
        let set = match flag.as_str() {
            "--programs" => value.parse().map(|number| programs = number).is_ok(),
            "--seed" => value.parse().map(|number| seed = number).is_ok(),
            _ => false,
        };
        if !set {
            eprintln!("cargo xtask generated [--programs {PROGRAMS}] [--seed 0], not `{flag} {value}`");
            return Err(Failed);
        }
    }
    Ok((programs, seed))
}
