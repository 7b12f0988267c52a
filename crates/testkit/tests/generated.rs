//! Programs drawn at random agree on every backend, send what the plan promises, and print and read back.
//!
//! `SHARDWEAVE_CASES` sets how many are drawn (without it few enough for every day), `SHARDWEAVE_SEED`
//! from which number; `cargo xtask generated --programs 10000 --seed 7` is a long run. A failure prints
//! the smallest case found, as it can stand in `cases/`.

use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestError, TestRng, TestRunner};
use shardweave_testkit::generate::{Extent, case_text, seeds};
use shardweave_testkit::{Meshes, run_cases};
use std::cell::Cell;

/// How many cases are drawn without a wish.
const CASES: u32 = 600;

fn number(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

fn draw(extent: Extent, stream: u8) {
    let cases = number("SHARDWEAVE_CASES").map_or(CASES, |cases| cases.min(u32::MAX.into()) as u32);
    let seed = number("SHARDWEAVE_SEED").unwrap_or(0);
    let mut bytes = [stream; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let config = Config { cases, failure_persistence: None, max_shrink_iters: 4000, ..Config::default() };
    let mut runner = TestRunner::new_with_rng(config, TestRng::from_seed(RngAlgorithm::ChaCha, &bytes));
    let runs = Cell::new(0);
    let result = runner.run(&seeds(extent), |seeds| {
        let outcome = run_cases("generated", &case_text(&seeds), Meshes::AsWritten);
        runs.set(runs.get() + outcome.runs);
        match outcome.failures.first() {
            None => Ok(()),
            Some(failure) => Err(TestCaseError::fail(failure.clone())),
        }
    });
    match result {
        Ok(()) => {
            assert!(runs.get() >= cases as usize, "{cases} programs ran on {} placements only", runs.get());
            // For who watches a long run; an ordinary one shows nothing.
            println!("{cases} programs on {} placements agree, seed {seed}", runs.get());
        }
        Err(TestError::Fail(reason, seeds)) => {
            panic!("{reason}\nof {cases} cases from SHARDWEAVE_SEED={seed}:\n\n{}", case_text(&seeds))
        }
        Err(TestError::Abort(reason)) => panic!("{reason}"),
    }
}

#[test]
fn small_programs() {
    draw(Extent { operations: 2, placements: 3, entries: 4, ..Extent::default() }, 1);
}

#[test]
fn programs() {
    draw(Extent::default(), 2);
}

#[test]
fn long_programs() {
    draw(Extent { operations: 14, meshes: 3, entries: 12, placements: 1, ..Extent::default() }, 3);
}
