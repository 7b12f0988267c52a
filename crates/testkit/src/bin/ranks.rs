//! One rank of many programs over MPI; `tests/mpi.rs` starts it.
//!
//! ```text
//! mpirun -n 4 shardweave-testkit-ranks cases 1-4 8               the cases, one of 8 plans of 1 to 4 devices
//! mpirun -n 4 shardweave-testkit-ranks generated 2-4 250 7       250 generated programs from seed 7, with late ranks
//! mpirun -n 4 shardweave-testkit-ranks hosts 0,0,0,3             whether the first three ranks share a host
//! ```
//!
//! What went wrong, rank 0 prints; all ranks end with the same status.
#![forbid(unsafe_code)]

use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use shardweave_mpi::{MpiOptions, Transport};
use shardweave_runtime::engine::Engine;
use shardweave_testkit::case::each_trial;
use shardweave_testkit::generate::{Extent, case_text, seeds};
use shardweave_testkit::played::{Late, Player};
use shardweave_testkit::sources::texts;
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How late a rank is at most, each time that it is.
const MOST_LATE: Duration = Duration::from_micros(300);

/// A rank that waits longer for another ends all.
const HANGS: Duration = Duration::from_secs(60);

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    let options = || MpiOptions { timeout: Some(HANGS), ..MpiOptions::default() };
    let shared = options().init().expect("MPI begins");
    let messages = MpiOptions { transport: Transport::Messages, ..options() };
    let messages = messages.from_fortran(shared.to_fortran()).expect("the ranks have a communicator");
    // Dropped in this order: MPI ends with the one that began it.
    let engines: Vec<(_, Arc<dyn Engine>)> =
        vec![("messages", Arc::new(messages)), ("shared memory", Arc::new(shared))];
    match args[..] {
        ["cases", range, one_of] => {
            let mut player = Player::new(engines, devices(range));
            player.one_of = number(one_of) as usize;
            cases(&mut player)
        }
        ["generated", range, programs, seed] => {
            generated(&mut Player::new(engines, devices(range)), number(programs), number(seed))
        }
        ["hosts", hosts] => {
            let hosts: Vec<u32> = hosts.split(',').map(|host| number(host) as u32).collect();
            assert_eq!(engines[1].1.place().hosts, hosts, "ranks share memory where they are on one host");
            ExitCode::SUCCESS
        }
        _ => {
            panic!(
                "`hosts HOST,HOST..`, `cases FROM-TO ONE_OF` or `generated FROM-TO PROGRAMS SEED`, not {args:?}"
            )
        }
    }
}

fn number(text: &str) -> u64 {
    text.parse().unwrap_or_else(|_| panic!("`{text}` is no number"))
}

fn devices(range: &str) -> RangeInclusive<u64> {
    let (from, to) = range.split_once('-').expect("FROM-TO");
    number(from)..=number(to)
}

fn cases(player: &mut Player) -> ExitCode {
    for (file, text) in texts("cases", &["weave"]) {
        let played = each_trial(&text, |name, trial| player.play(&format!("{file}, {name}"), trial));
        played.unwrap_or_else(|why| panic!("{file}: {why}"));
    }
    ended(player)
}

/// Draws programs until so many plans were played.
fn generated(player: &mut Player, programs: u64, seed: u64) -> ExitCode {
    let rank = player.engines[0].1.place().rank as u64;
    player.probe = Some(Arc::new(Late::new(seed.wrapping_mul(1000).wrapping_add(rank), MOST_LATE)));
    let mut bytes = [7; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let random = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let mut runner = TestRunner::new_with_rng(Config::default(), random);
    let drawn = seeds(Extent { operations: 3, placements: 1, entries: 4, ..Extent::default() });
    while (player.plans as u64) < programs && player.failures.is_empty() {
        let text = case_text(&drawn.new_tree(&mut runner).expect("every draw is a program").current());
        each_trial(&text, |_, trial| player.play(&text, trial)).unwrap_or_else(|why| panic!("{why}\n{text}"));
    }
    ended(player)
}

/// What all ranks end with: how it went on any of them.
fn ended(player: &Player) -> ExitCode {
    let engine = &player.engines[0].1;
    let told = engine.tell_all(player.failures.join("\n").as_bytes()).expect("all ranks are there");
    let failed = told.iter().any(|failures| !failures.is_empty());
    if engine.place().rank == 0 {
        for (rank, failures) in told.iter().enumerate().filter(|(_, failures)| !failures.is_empty()) {
            eprintln!("rank {rank}:\n{}", String::from_utf8_lossy(failures));
        }
        println!("{} plans", player.plans);
    }
    if failed { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}
