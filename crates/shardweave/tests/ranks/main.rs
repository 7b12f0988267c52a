//! `run --on mpi`, with the ranks that `mpirun` starts: the same bytes as threads give, one exit status, and an end of
//! all ranks whatever happens to one of them.

mod alike;
mod differing;
mod ended;
mod example;
mod killed;
#[path = "../support/mod.rs"]
mod support;

use serde_json::Value;
use shardweave_testkit::launch::{self, Ended, Running};
use std::path::Path;
use std::process::Command;
use std::time::Duration;
use support::Bench;

/// Far longer than any of these runs takes.
const LIMIT: Duration = Duration::from_secs(120);

fn program() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_shardweave"))
}

/// The command by which so many ranks run `shardweave` in a bench's folder.
fn command(bench: &Bench, ranks: usize, words: &str) -> Command {
    let mut command = launch::command(program(), ranks);
    command.args(words.split_whitespace()).current_dir(bench.path(""));
    command
}

/// Runs it to its end. Nobody is left.
#[track_caller]
fn run(bench: &Bench, ranks: usize, words: &str) -> Ended {
    ended(command(bench, ranks, words))
}

#[track_caller]
fn ended(command: Command) -> Ended {
    let ended = Running::start(command).end(LIMIT);
    assert_eq!((ended.status.is_some(), &ended.left[..]), (true, &[][..]), "{ended:#?}");
    ended
}

/// Checks the status of the launcher, which is that of its ranks.
#[track_caller]
fn exits(ended: &Ended, status: i32) {
    assert_eq!(ended.status, Some(status), "{ended:#?}");
}

/// Checks that one message has this code and all these words, and that there is no other message.
#[track_caller]
fn tells_once(ended: &Ended, code: &str, words: &[&str]) {
    let messages = ended.errors.matches("] error").count();
    assert_eq!(messages, 1, "one message is told: {ended:#?}");
    for word in [&[code], words].concat() {
        assert!(ended.errors.contains(word), "`{word}` is not told: {ended:#?}");
    }
}

/// What was printed is one JSON value.
#[track_caller]
fn json(ended: &Ended) -> Value {
    serde_json::from_str(&ended.output).unwrap_or_else(|error| panic!("{error}: {ended:#?}"))
}
