//! Sharded layers on two ranks beside the same on two threads: `cargo bench -p shardweave-mpi --features engine --bench
//! layers`.
//!
//! Rank 0 plays both devices with threads while rank 1 sleeps; then both ranks play theirs, by shared memory and by
//! messages; turn by turn in one start of the ranks. Every line has the medians of the turns and of their ratios, and what
//! the slowest rank took counts. Collectives stand beside the MPI functions that a C program would call (`direct.c`).

#[path = "direct/mod.rs"]
mod functions;
#[path = "../../runtime/benches/subjects/mod.rs"]
mod subjects;

use functions::{Direct, start_ranks};
use shardweave_mpi::{Mpi, MpiOptions, Transport};
use shardweave_runtime::engine::Engine;
use shardweave_runtime::session::{Session, SessionOptions};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subjects::{COLLECTIVES, LAYERS, Sizes, Subject};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if let [word, library, ..] = &args[..]
        && word == "rank"
    {
        rank(library);
        return ExitCode::SUCCESS;
    }
    let library = Direct::compiled();
    let library = library.to_str().expect("a path of letters");
    let bench = args.iter().any(|arg| arg == "--bench").then_some("--bench");
    let words: Vec<&str> = ["rank", library].into_iter().chain(bench).collect();
    start_ranks(2, &words, Duration::from_secs(600))
}

/// What one rank does.
fn rank(library: &str) {
    let shared = Arc::new(Mpi::init().expect("MPI begins"));
    let messages = MpiOptions { transport: Transport::Messages, ..MpiOptions::default() };
    let messages = messages.from_fortran(shared.to_fortran()).expect("the same ranks once more");
    let direct = Direct::load(library, &shared);
    let ranks = Ranks { messages: Arc::new(messages), shared };
    ranks.tell("layers, f32: m, k, n", "threads");
    for m in [512, 2048] {
        for layer in &LAYERS {
            ranks.beside_threads(&layer.sharded, &[("m", m), ("k", 1024), ("n", 4096)], 1);
        }
    }
    ranks.beside_threads(&LAYERS[0].sharded, &[("m", 64), ("k", 64), ("n", 64)], 100);
    for (rows, runs) in [(2048, 1), (32, 20), (2, 200)] {
        ranks.tell(&format!("collectives of {rows} x 2048 f32"), "MPI in C");
        // The pieces that the last one gives are those of many rows.
        let count = if rows < 2048 { COLLECTIVES.len() - 1 } else { COLLECTIVES.len() };
        for (collective, (function, of_whole)) in COLLECTIVES.iter().zip(FUNCTIONS).take(count) {
            let whole = rows as usize * 2048 * 4;
            // Zeroes that nobody has written would all be read from one page.
            let (sent, mut got) = (vec![1; whole], vec![1; whole]);
            let mut call = || direct.call(function, &sent, &mut got, whole / of_whole);
            ranks.line(&collective.moved, &[("m", rows), ("n", 2048)], runs, Some(&mut call));
        }
    }
    direct.end();
}

/// For each of the collectives the function of `direct.c` for it, and which part of the whole array it is told: what two
/// ranks give each other are halves or quarters of it, or some sixteenths.
const FUNCTIONS: [(&str, usize); 6] = [
    ("direct_all_gather", 2),
    ("direct_reduce_scatter", 2),
    ("direct_all_reduce", 1),
    ("direct_all_to_all", 4),
    ("direct_messages", 2),
    ("direct_redistribute", 16),
];

/// The two ranks, joined in both ways.
struct Ranks {
    messages: Arc<Mpi>,
    /// The one that has begun MPI, and ends it: dropped last.
    shared: Arc<Mpi>,
}

impl Ranks {
    fn is_first(&self) -> bool {
        self.shared.place().rank == 0
    }

    fn tell(&self, title: &str, other: &str) {
        if self.is_first() {
            println!("\n{title}; microseconds, and {other} / ranks");
            println!(
                "{:44} {other:>10} {:>10} {:>10} {:>8} {:>8}",
                "", "shared", "messages", "shared", "messages"
            );
        }
    }

    /// Two ranks beside two threads of the first one.
    fn beside_threads(&self, subject: &Subject, sizes: &Sizes, runs: u32) {
        let options = SessionOptions { cores: 2, ..SessionOptions::default() };
        let mut threads = self.is_first().then(|| subject.ready_on(2, sizes, options));
        let mut execute = threads.as_mut().map(|session| || execute(session));
        self.line(subject, sizes, runs, execute.as_mut().map(|execute| execute as &mut dyn FnMut()));
    }

    /// What a run of something takes, by ranks that share memory and by ranks that send messages, and what something
    /// else takes beside each.
    fn line(&self, subject: &Subject, sizes: &Sizes, runs: u32, mut other: Option<&mut dyn FnMut()>) {
        let ranks = |mpi: &Arc<Mpi>| {
            let engine: Option<Arc<dyn Engine>> = Some(mpi.clone());
            subject.ready_on(2, sizes, SessionOptions { engine, cores: 2, ..SessionOptions::default() })
        };
        let (mut shared, mut messages) = (ranks(&self.shared), ranks(&self.messages));
        // While the first rank alone is at work, the other leaves it both cores: who waits for ranks looks now and then.
        let mut alone = Duration::ZERO;
        let turns: Vec<[u64; 3]> = (0..=subjects::turns())
            .map(|_| {
                let other = match &mut other {
                    Some(run) => self.slowest(runs, run),
                    None => self.slowest_of_others(alone),
                };
                alone = Duration::from_nanos(other) * runs * 9 / 10;
                let shared = self.slowest(runs, || execute(&mut shared));
                [other, shared, self.slowest(runs, || execute(&mut messages))]
            })
            .skip(1)
            .collect();
        let median = |of: &dyn Fn(&[u64; 3]) -> f64| {
            let mut all: Vec<f64> = turns.iter().map(of).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        if self.is_first() {
            let sizes: Vec<String> = sizes.iter().map(|(_, size)| size.to_string()).collect();
            print!("{:44}", format!("{}: {}", subject.name, sizes.join(", ")));
            for who in 0..3 {
                print!(" {:10.1}", median(&|turn| turn[who] as f64 / 1e3));
            }
            for who in 1..3 {
                print!(" {:8.3}", median(&|turn| turn[0] as f64 / turn[who] as f64));
            }
            println!();
        }
    }

    /// What the other rank takes, of which about so much is slept through.
    fn slowest_of_others(&self, sleep: Duration) -> u64 {
        self.shared.least(0).expect("ranks come together");
        std::thread::sleep(sleep);
        u64::MAX - self.shared.least(u64::MAX).expect("ranks come together")
    }

    /// Nanoseconds that one of several runs in a row takes on the slowest rank.
    fn slowest(&self, runs: u32, mut run: impl FnMut()) -> u64 {
        self.shared.least(0).expect("ranks come together");
        let start = Instant::now();
        (0..runs).for_each(|_| run());
        let took = (start.elapsed() / runs).as_nanos() as u64;
        u64::MAX - self.shared.least(u64::MAX - took).expect("ranks come together")
    }
}

fn execute(session: &mut Session) {
    session.execute().unwrap_or_else(|error| panic!("{error}"));
}
