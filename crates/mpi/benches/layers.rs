//! Sharded layers on two ranks beside the same on two threads: `cargo bench -p shardweave-mpi --features engine --bench
//! layers`.
//!
//! Rank 0 plays both devices with threads while rank 1 sleeps; then both ranks play theirs, by shared memory and by
//! messages; turn by turn in one start of the ranks. Every line is the median of the turns' ratios, and what the slowest
//! rank took counts.

#[path = "../../runtime/benches/subjects/mod.rs"]
mod subjects;

use shardweave_mpi::{Mpi, Transport};
use shardweave_runtime::engine::Engine;
use shardweave_runtime::session::{Session, SessionOptions};
use shardweave_testkit::launch;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};
use subjects::{COLLECTIVES, LAYERS, Sizes, Subject};

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|arg| arg == "rank") {
        rank();
        return ExitCode::SUCCESS;
    }
    let own = std::env::current_exe().expect("this program has a path");
    let turns = if args.iter().any(|arg| arg == "--bench") { &["rank", "--bench"][..] } else { &["rank"] };
    let ended = launch::run(&own, 2, turns, Duration::from_secs(600));
    print!("{}", ended.output);
    eprint!("{}", ended.errors);
    if ended.status == Some(0) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What one rank does.
fn rank() {
    let shared = Arc::new(Mpi::init().expect("MPI begins"));
    let joined = Mpi::from_fortran(shared.to_fortran()).expect("the same ranks once more");
    let ranks = Ranks { messages: Arc::new(joined.with_transport(Transport::Messages)), shared };
    ranks.tell("layers, f32: m, k, n");
    for m in [512, 2048] {
        for layer in &LAYERS {
            ranks.line(&layer.sharded, &[("m", m), ("k", 1024), ("n", 4096)], 1);
        }
    }
    ranks.line(&LAYERS[0].sharded, &[("m", 64), ("k", 64), ("n", 64)], 100);
    ranks.tell("collectives of 16 MiB");
    for collective in &COLLECTIVES {
        ranks.line(&collective.moved, &[("m", 2048), ("n", 2048)], 1);
    }
}

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

    fn tell(&self, title: &str) {
        if self.is_first() {
            println!("\n{title}");
            println!("{:44} {:>10} {:>10} {:>10} {:>8} {:>8}", "", "threads", "shared", "messages", "", "");
        }
    }

    /// Microseconds of a run by threads, by ranks that share memory and by ranks that send messages, and threads'
    /// beside each of the others'.
    fn line(&self, subject: &Subject, sizes: &Sizes, runs: u32) {
        let options = || SessionOptions { cores: 2, ..SessionOptions::default() };
        let ranks = |mpi: &Arc<Mpi>| {
            subject.ready_on(2, sizes, SessionOptions { engine: Some(mpi.clone()), ..options() })
        };
        let mut threads = self.is_first().then(|| subject.ready_on(2, sizes, options()));
        let (mut shared, mut messages) = (ranks(&self.shared), ranks(&self.messages));
        let turns: Vec<[u64; 3]> = (0..=subjects::turns())
            .map(|_| {
                [threads.as_mut(), Some(&mut shared), Some(&mut messages)].map(|who| self.slowest(who, runs))
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

    /// Nanoseconds that one of several runs in a row takes on the slowest rank.
    fn slowest(&self, session: Option<&mut Session>, runs: u32) -> u64 {
        self.shared.least(0).expect("ranks come together");
        let start = Instant::now();
        if let Some(session) = session {
            (0..runs).for_each(|_| session.execute().unwrap_or_else(|error| panic!("{error}")));
        }
        let took = (start.elapsed() / runs).as_nanos() as u64;
        u64::MAX - self.shared.least(u64::MAX - took).expect("ranks come together")
    }
}
