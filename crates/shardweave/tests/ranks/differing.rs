//! Ranks that were not started alike, or of which one cannot do what the others can, end together, with one message.

use crate::support::Bench;
use crate::support::examples::example;
use crate::{command, ended, exits, program, tells_once};
use shardweave_testkit::launch::{self, Ended};
use std::time::Duration;

const WORDS: &str = "run p.weave --placement overlapped --mesh line.tp=3 --size b=2 s=12 e=6 h=10 --random 1 --on mpi --output y2=y.npy";

fn bench() -> Bench {
    let bench = Bench::with(&example("mlp.weave"));
    bench.put("other.weave", example("mlp.weave").replace("gelu", "relu").as_bytes());
    bench
}

/// Three ranks, of which the last is started with other words.
fn with_another(bench: &Bench, last: &str) -> Ended {
    let mut command = command(bench, 2, WORDS);
    launch::and_ranks(&mut command, program(), 1);
    command.args(last.split_whitespace());
    ended(command)
}

#[test]
fn a_rank_with_something_else_is_named() {
    let bench = bench();
    assert_ne!(example("mlp.weave"), std::fs::read_to_string(bench.path("other.weave")).expect("there"));
    for (before, after, what) in [
        ("p.weave", "other.weave", "program"),
        ("s=12", "s=15", "set of sizes"),
        ("overlapped", "sequence_parallel", "placement"),
        ("--random 1", "--random 2", "command line than rank 0: `--random 2` instead of `--random 1`"),
    ] {
        let told = with_another(&bench, &WORDS.replace(before, after));
        exits(&told, 1);
        tells_once(&told, "E0807", &["rank 2", &format!("another {what}")]);
        assert!(told.took < Duration::from_secs(20), "{told:#?}");
        assert_eq!(bench.names(), ["other.weave", "p.weave"], "nothing is written");
    }
}

#[test]
fn a_rank_that_reads_other_data_is_named() {
    let bench = bench();
    for (seed, file) in [("1", "x.npy"), ("2", "other.npy")] {
        let words = WORDS.replace("--on mpi --output y2=y.npy", &format!("--output y2={file}"));
        bench.run(&words.replace("--random 1", &format!("--random {seed}"))).exits(0);
    }
    let words = |file: &str| WORDS.replace("--random 1", &format!("--random 1 --input x={file}"));
    let mut command = command(&bench, 2, &words("x.npy"));
    launch::and_ranks(&mut command, program(), 1);
    command.args(words("other.npy").split_whitespace());
    let told = ended(command);
    exits(&told, 1);
    tells_once(&told, "E0807", &["rank 2 has another content of its input files than rank 0"]);
}

#[test]
fn what_one_rank_cannot_do_is_told_by_it() {
    let bench = bench();
    for (before, after, status, said) in [
        ("p.weave", "none.weave", 1, "none.weave"),
        ("--random 1", "--random 1 --input x=none.npy", 1, "none.npy"),
        ("--output y2=y.npy", "--output y2=none/y.npy", 1, "none/y.npy"),
        ("--random 1", "--random x", 2, "--random"),
    ] {
        let told = with_another(&bench, &WORDS.replace(before, after));
        exits(&told, status);
        tells_once(&told, "E0", &["on rank 2: ", said]);
        assert!(!told.errors.contains("E0806"), "who only heard of it is silent: {told:#?}");
        assert!(told.took < Duration::from_secs(20), "{told:#?}");
        assert_eq!(bench.names(), ["other.weave", "p.weave"], "nothing is written");
    }
}
