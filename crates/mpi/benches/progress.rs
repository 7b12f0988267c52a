//! How bytes go on beside a product, since MPI moves them only while it is called: `cargo bench -p shardweave-mpi
//! --features engine --bench progress`.
//!
//! Every rank sends to the next one while it computes a product in blocks of rows. Either a thread of its own waits for
//! the bytes, as the engine's streams do, or the thread that computes looks for them after each block, in plain MPI.
//! Printed are the medians of the turns, of the slowest rank each; turns alternate. On one host both are quick; what it
//! is for are hosts with a link between them, where `cargo xtask hosts` runs it: `progress rank LIBRARY TURNS`.

#[path = "direct/mod.rs"]
mod functions;
#[path = "../../runtime/benches/subjects/mod.rs"]
mod subjects;

use functions::{Direct, start_ranks};
use shardweave_mpi::Mpi;
use shardweave_runtime::engine::{Engine, Exchange, Form};
use shardweave_runtime::session::{Session, SessionOptions};
use std::process::ExitCode;
use std::time::{Duration, Instant};
use subjects::Subject;

/// How many blocks the product is cut into.
const BLOCKS: [u64; 5] = [1, 4, 16, 64, 256];

/// Rows of the product, which has 512 columns of 1024 terms.
const ROWS: u64 = 2048;

/// What every rank sends: 4 MiB, which a link of 1 Gbit/s takes about as long for as one core for the product.
const BYTES: usize = 4 << 20;

const PRODUCT: Subject = Subject {
    name: "product",
    program: "input x: f32[m, k]\n input w: f32[n, k]\n y = linear(x, w)\n output y",
    placement: "x: replicated",
};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, library, turns] = &args[..]
        && word == "rank"
    {
        rank(library, turns.parse().expect("a number of turns"));
        return ExitCode::SUCCESS;
    }
    let library = Direct::compiled();
    let library = library.to_str().expect("a path of letters");
    if args.first().is_some_and(|word| word == "compile") {
        println!("{library}");
        return ExitCode::SUCCESS;
    }
    // Run as a test it shows that it runs.
    let turns = if args.iter().any(|arg| arg == "--bench") { "15" } else { "1" };
    start_ranks(2, &["rank", library, turns], Duration::from_secs(300))
}

/// One rank's part.
fn rank(library: &str, turns: usize) {
    let mpi = Mpi::init().expect("MPI begins");
    let direct = Direct::load(library, &mpi);
    let (sent, mut got) = (vec![1; BYTES], vec![0; BYTES]);
    if mpi.place().rank == 0 {
        println!("{BYTES} bytes beside a product of {ROWS} rows; milliseconds, medians of {turns} turns");
        println!("{:>8}{:>10}{:>10}{:>10}{:>10}", "blocks", "bytes", "product", "thread", "polls");
    }
    for blocks in BLOCKS {
        let options = SessionOptions { cores: 1, ..SessionOptions::default() };
        let sizes = [("m", ROWS / blocks), ("k", 1024), ("n", 512)];
        let mut product = PRODUCT.ready_on(1, &sizes, options);
        // The first turn warms up.
        let all: Vec<[f64; 4]> = (0..=turns)
            .map(|_| {
                [
                    slowest(&mpi, || to_next(&mpi, &sent, &mut got)),
                    slowest(&mpi, || (0..blocks).for_each(|_| block(&mut product))),
                    slowest(&mpi, || {
                        std::thread::scope(|scope| {
                            scope.spawn(|| to_next(&mpi, &sent, &mut got));
                            (0..blocks).for_each(|_| block(&mut product));
                        });
                    }),
                    slowest(&mpi, || {
                        direct.call("direct_start", &sent, &mut got, BYTES);
                        for _ in 0..blocks {
                            block(&mut product);
                            direct.call("direct_look", &sent, &mut got, BYTES);
                        }
                        direct.call("direct_finish", &sent, &mut got, BYTES);
                    }),
                ]
            })
            .skip(1)
            .collect();
        if mpi.place().rank == 0 {
            let median = |of: usize| {
                let mut times: Vec<f64> = all.iter().map(|turn| turn[of]).collect();
                times.sort_by(f64::total_cmp);
                times[times.len() / 2]
            };
            let [bytes, product, thread, polls] = [0, 1, 2, 3].map(median);
            println!("{blocks:>8}{bytes:>10.2}{product:>10.2}{thread:>10.2}{polls:>10.2}");
        }
    }
    direct.end();
}

fn block(product: &mut Session) {
    product.execute().unwrap_or_else(|error| panic!("{error}"));
}

/// Sends to the next rank, receives from the one before.
fn to_next(mpi: &Mpi, sent: &[u8], got: &mut [u8]) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    let members: Vec<usize> = (0..ranks).collect();
    let exchange = Exchange {
        stream: 0,
        form: Form::Messages,
        members: &members,
        most: sent.len(),
        sends: &[((rank + 1) % ranks, sent)],
        receives: &mut [((rank + ranks - 1) % ranks, got)],
    };
    mpi.exchange(exchange).expect("the ranks exchange bytes");
}

/// Milliseconds of the slowest rank.
fn slowest(mpi: &Mpi, run: impl FnOnce()) -> f64 {
    mpi.least(0).expect("ranks come together");
    let start = Instant::now();
    run();
    let took = start.elapsed().as_nanos() as u64;
    (u64::MAX - mpi.least(u64::MAX - took).expect("all tell")) as f64 / 1e6
}
