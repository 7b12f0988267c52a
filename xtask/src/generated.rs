//! A long run of generated programs: drawn from a seed, run on every backend, compared bit for bit.

use crate::{Failed, cargo, mpi, run};

/// Without a wish.
const PROGRAMS: u32 = 10_000;

/// The three kinds of programs that `crates/testkit/tests/generated.rs` draws.
const KINDS: u32 = 3;

/// Draws so many programs, a third of each kind, from a seed. What fails is printed as a case.
pub fn run_many(args: impl Iterator<Item = String>) -> Result<(), Failed> {
    let Wish { programs, seed, on } = read(args)?;
    if on == On::Mpi {
        return mpi::generated(programs, seed);
    }
    let mut tests = cargo(&["test", "--package", "shardweave-testkit", "--test", "generated"]);
    tests.args(["--", "--nocapture", "--test-threads=1"]);
    tests.env("SHARDWEAVE_CASES", programs.div_ceil(KINDS).to_string());
    tests.env("SHARDWEAVE_SEED", seed.to_string());
    run(tests)
}

struct Wish {
    programs: u32,
    seed: u64,
    on: On,
}

/// What plays the devices.
#[derive(Clone, Copy, PartialEq, Eq)]
enum On {
    /// All that one process has.
    Here,
    /// Ranks, with every MPI that is there.
    Mpi,
}

fn read(mut args: impl Iterator<Item = String>) -> Result<Wish, Failed> {
    let mut wish = Wish { programs: PROGRAMS, seed: 0, on: On::Here };
    while let Some(flag) = args.next() {
        let value = args.next().unwrap_or_default();
        let set = match flag.as_str() {
            "--programs" => value.parse().map(|number| wish.programs = number).is_ok(),
            "--seed" => value.parse().map(|number| wish.seed = number).is_ok(),
            "--on" if value == "mpi" => {
                wish.on = On::Mpi;
                true
            }
            _ => false,
        };
        if !set {
            eprintln!(
                "cargo xtask generated [--programs {PROGRAMS}] [--seed 0] [--on mpi], not `{flag} {value}`"
            );
            return Err(Failed);
        }
    }
    Ok(wish)
}
