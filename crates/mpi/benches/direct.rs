//! What the engine adds to the MPI functions that it calls: `cargo bench -p shardweave-mpi --features engine`.
//!
//! The same ranks do the same through the engine and through the functions of `direct/direct.c`, which is compiled with
//! `mpicc -O2` and loaded, in turns that alternate. Printed are the medians of the turns and their ratio, and the ratio of the best turns, which
//! says more while others use the machine; the slowest rank of a turn counts. `RANKS` says how many ranks there are, 2 if it says nothing; more than there are cores say little.

#[path = "direct/mod.rs"]
mod functions;

use functions::{Direct, start_ranks};
use shardweave_mpi::Mpi;
use shardweave_runtime::engine::{Engine, Exchange, Form};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const SIZES: [usize; 7] = [4 << 10, 16 << 10, 64 << 10, 256 << 10, 1 << 20, 4 << 20, 16 << 20];

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, library, turns] = &args[..]
        && word == "rank"
    {
        rank(library, turns.parse().expect("a number of turns"));
        return ExitCode::SUCCESS;
    }
    let library = Direct::compiled();
    let ranks = std::env::var("RANKS").ok().map_or(2, |ranks| ranks.parse().expect("RANKS is a number"));
    // Run as a test it shows that it runs.
    let turns = if args.iter().any(|arg| arg == "--bench") { "15" } else { "1" };
    let library = library.to_str().expect("a path of letters");
    start_ranks(ranks, &["rank", library, turns], Duration::from_secs(300))
}

/// One rank's part.
fn rank(library: &str, turns: usize) {
    let mpi = Mpi::init().expect("MPI begins");
    let direct = Direct::load(library, &mpi);
    let ranks = mpi.place().ranks();
    if mpi.place().rank == 0 {
        println!("{ranks} ranks, medians of {turns} turns; microseconds for each");
        println!("{:<14}{:>10}{:>12}{:>12}{:>8}{:>8}", "form", "bytes", "direct", "engine", "ratio", "best");
    }
    for (form, name) in [
        (Form::Messages, "direct_messages"),
        (Form::AllGather, "direct_all_gather"),
        (Form::AllToAll, "direct_all_to_all"),
    ] {
        for bytes in SIZES {
            let (mut sent, mut got) = (vec![1u8; bytes * ranks], vec![0u8; bytes * ranks]);
            let times = ((32_usize << 20) / bytes).clamp(4, 500);
            let mut direct_took = Vec::new();
            let mut engine_took = Vec::new();
            // The first turn warms up.
            for turn in 0..=turns {
                mpi.least(0).expect("ranks come together");
                let start = Instant::now();
                (0..times).for_each(|_| direct.call(name, &sent, &mut got, bytes));
                let plain = start.elapsed();
                mpi.least(0).expect("ranks come together");
                let start = Instant::now();
                (0..times).for_each(|_| through_engine(&mpi, form, &sent, &mut got, bytes));
                let engine = start.elapsed();
                if turn > 0 {
                    direct_took.push(slowest(&mpi, plain) / times as f64);
                    engine_took.push(slowest(&mpi, engine) / times as f64);
                }
                sent[turn % bytes] = turn as u8;
            }
            if mpi.place().rank == 0 {
                let best = least(&engine_took) / least(&direct_took);
                let (direct, engine) = (median(direct_took), median(engine_took));
                let (form, ratio) = (format!("{form:?}"), engine / direct);
                println!("{form:<14}{bytes:>10}{direct:>12.1}{engine:>12.1}{ratio:>8.2}{best:>8.2}");
            }
        }
    }
    direct.end();
}

/// Microseconds of the rank that took longest.
fn slowest(mpi: &Mpi, took: Duration) -> f64 {
    let least = mpi.least(u64::MAX - took.as_nanos() as u64).expect("all tell");
    (u64::MAX - least) as f64 / 1000.0
}

fn least(numbers: &[f64]) -> f64 {
    numbers.iter().copied().fold(f64::INFINITY, f64::min)
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers[numbers.len() / 2]
}

type Sends<'a> = Vec<(usize, &'a [u8])>;
type Receives<'a> = Vec<(usize, &'a mut [u8])>;

/// What the functions of `direct.c` do.
fn through_engine(mpi: &Mpi, form: Form, sent: &[u8], got: &mut [u8], bytes: usize) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    let members: Vec<usize> = (0..ranks).collect();
    let (sends, mut receives): (Sends<'_>, Receives<'_>) = match form {
        Form::Messages => {
            let (to, from) = ((rank + 1) % ranks, (rank + ranks - 1) % ranks);
            (vec![(to, &sent[..bytes])], vec![(from, &mut got[..bytes])])
        }
        Form::AllGather => (
            (0..ranks).filter(|&to| to != rank).map(|to| (to, &sent[..bytes])).collect(),
            got.chunks_mut(bytes).enumerate().collect(),
        ),
        _ => (sent.chunks(bytes).enumerate().collect(), got.chunks_mut(bytes).enumerate().collect()),
    };
    let most = if form == Form::Messages { bytes } else { bytes * ranks };
    let exchange =
        Exchange { stream: 0, form, members: &members, most, sends: &sends, receives: &mut receives };
    mpi.exchange(exchange).expect("all take part");
}
