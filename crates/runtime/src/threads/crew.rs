//! Threads that do rounds of work together: each round is one function, called once in every thread.
//!
//! ```text
//!  caller                         worker of rank 1
//!                                 wait for round 1 to start, parked
//!  round 1 = f; start 1  ──────▶  f(1)
//!  f(0)
//!  wait for all ranks    ◀──────  finished 1
//!                                 wait for round 2 to start, parked
//! ```

use crate::execute::{RunError, panic_text};
use crate::meet::sync::{Mutex, thread};
use crate::meet::{Cores, Met, Patience, Progress, lock};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// What every thread does in a round, given its rank.
pub(crate) type Round = Arc<dyn Fn(usize) + Send + Sync>;

/// Threads kept for many rounds.
pub(crate) struct Crew {
    shared: Arc<Shared>,
    workers: Vec<Worker>,
    /// How many rounds were started.
    rounds: u64,
    /// Of the caller, who waits for all to finish.
    patience: Patience,
}

struct Worker {
    finished: Arc<Progress>,
    thread: Option<thread::JoinHandle<()>>,
}

struct Shared {
    /// Ticks are rounds; stopped when the crew is no longer needed.
    start: Progress,
    round: Mutex<Option<AtHand>>,
    /// What went wrong in a round, with the rank.
    panics: Mutex<Vec<(usize, String)>>,
}

/// The round at hand.
#[derive(Clone)]
struct AtHand {
    /// How many ranks take part.
    ranks: usize,
    cores: Cores,
    round: Round,
}

impl Crew {
    /// No workers yet.
    pub fn new() -> Crew {
        let shared =
            Shared { start: Progress::new(), round: Mutex::new(None), panics: Mutex::new(Vec::new()) };
        Crew { shared: Arc::new(shared), workers: Vec::new(), rounds: 0, patience: Patience::new() }
    }

    /// Calls `round` once for each of `ranks`, all at the same time, rank 0 in the calling thread, and
    /// returns when all are done.
    pub fn each(&mut self, ranks: usize, cores: Cores, round: Round) -> Result<(), RunError> {
        self.hire(ranks.saturating_sub(1))?;
        self.rounds += 1;
        *lock(&self.shared.round) = Some(AtHand { ranks, cores, round: round.clone() });
        self.shared.start.publish(self.rounds);
        if ranks > 0 {
            self.shared.call(&round, 0);
        }
        for worker in &self.workers {
            self.patience.wait(&worker.finished, self.rounds, cores);
        }
        *lock(&self.shared.round) = None;
        let mut panics = std::mem::take(&mut *lock(&self.shared.panics));
        panics.sort();
        match panics.into_iter().next() {
            Some((rank, text)) => Err(RunError::Broken(format!("thread {rank} panicked: {text}"))),
            None => Ok(()),
        }
    }

    /// More threads are refused: each needs several maps of memory, of which Linux gives a process 65530,
    /// and a thread that starts without them ends the process.
    const MOST_WORKERS: usize = 10_000;

    /// Starts threads until there are `count` workers.
    fn hire(&mut self, count: usize) -> Result<(), RunError> {
        if count > Self::MOST_WORKERS {
            let most = Self::MOST_WORKERS;
            return Err(RunError::Threads(format!("{} are needed, at most {most} are started", count + 1)));
        }
        while self.workers.len() < count {
            let rank = self.workers.len() + 1;
            let finished = Arc::new(Progress::new());
            let (shared, done, first) = (self.shared.clone(), finished.clone(), self.rounds + 1);
            let thread = thread::Builder::new()
                .name(format!("shardweave {rank}"))
                .spawn(move || shared.work(rank, &done, first))
                .map_err(|error| RunError::Threads(error.to_string()))?;
            self.workers.push(Worker { finished, thread: Some(thread) });
        }
        Ok(())
    }
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.shared.start.stop();
        for worker in &mut self.workers {
            if let Some(thread) = worker.thread.take() {
                // A worker catches every panic of a round, so there is nothing to hear of.
                let _ = thread.join();
            }
        }
    }
}

impl Shared {
    /// A worker's life: round after round, from the first after it was hired.
    fn work(&self, rank: usize, finished: &Progress, first: u64) {
        let (mut number, mut cores) = (first, Cores::TooFew);
        let patience = Patience::new();
        while patience.wait(&self.start, number, cores) == Met::Reached {
            let at_hand = lock(&self.round).clone();
            if let Some(AtHand { ranks, cores: now, round }) = at_hand {
                cores = now;
                if rank < ranks {
                    self.call(&round, rank);
                }
            }
            finished.publish(number);
            number += 1;
        }
    }

    fn call(&self, round: &Round, rank: usize) {
        if let Err(payload) = catch_unwind(AssertUnwindSafe(|| round(rank))) {
            lock(&self.panics).push((rank, panic_text(&*payload)));
        }
    }
}
