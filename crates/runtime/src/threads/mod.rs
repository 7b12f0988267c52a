//! One thread a lane; the caller plays the first. The threads live as long as the session and are
//! parked between runs.
//!
//! Waiting costs a core nothing for long: a lane that has to wait looks a few times while there is a
//! core for every thread, and sleeps at once if there are more threads than cores, for then the one it
//! waits for may need its core.

mod crew;
mod patience;
mod progress;

pub(crate) use crew::{Crew, Round};
use patience::{Cores, Patience};
pub(crate) use progress::{Met, Progress, Tick};

use crate::execute::{How, Job, Outcome, Rendezvous, RunError, Walk, deadlock, first_failure};
use crate::instantiate::{LaneId, TurnId};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::sync::{Arc, Mutex, PoisonError};

/// Plays the lanes of programs with threads.
pub(crate) struct Threads {
    crew: Crew,
    cores: usize,
    /// The lanes, kept from run to run.
    lanes: Arc<[Meeter]>,
}

/// One lane as it meets others. On cache lines of its own: others look at it all the time.
struct Meeter {
    progress: Progress,
    patience: Patience,
}

/// How one lane meets the others.
struct Board<'a> {
    lanes: &'a [Meeter],
    own: &'a Meeter,
    cores: Cores,
}

impl Rendezvous for Board<'_> {
    fn publish(&self, _: LaneId, tick: Tick) {
        self.own.progress.publish(tick);
    }

    fn meet(&self, lane: LaneId, tick: Tick) -> Met {
        self.own.patience.wait(&self.lanes[lane.index()].progress, tick, self.cores)
    }
}

/// What the lanes of a run that did not come to their ends leave behind.
#[derive(Default)]
struct Ends {
    failed: Vec<(TurnId, DeviceId, How)>,
    stopped: Vec<(TurnId, DeviceId, Vec<LaneId>)>,
}

/// Stops a lane when it ends, however it ends: nobody may wait for it for ever.
struct StopAtEnd<'a>(&'a Progress);

impl Drop for StopAtEnd<'_> {
    fn drop(&mut self) {
        self.0.stop();
    }
}

impl Threads {
    /// No threads yet; they are started when a program needs them.
    pub fn new(cores: usize) -> Threads {
        Threads { crew: Crew::new(), cores, lanes: Arc::new([]) }
    }

    /// Calls `round` once for each of `ranks`, each in its own thread.
    pub fn each(&mut self, ranks: usize, round: Round) -> Result<(), RunError> {
        let cores = self.cores_for(ranks);
        self.crew.each(ranks, cores, round)
    }

    /// Runs all lanes to their ends.
    pub fn execute(&mut self, job: &Arc<Job>) -> Result<(), RunError> {
        let count = job.tasks.lanes.len();
        if self.lanes.len() != count {
            let meeter = |_| Meeter { progress: Progress::new(), patience: Patience::new() };
            self.lanes = (0..count).map(meeter).collect();
        }
        // Nobody waits between runs.
        self.lanes.iter().for_each(|lane| lane.progress.reset());
        let cores = self.cores_for(count);
        let ends: Arc<Mutex<Ends>> = Arc::default();
        let round = {
            let (job, ends, lanes) = (job.clone(), ends.clone(), self.lanes.clone());
            move |rank: usize| {
                let board = Board { lanes: &lanes, own: &lanes[rank], cores };
                play(&job, LaneId::new(rank), &board, &ends);
            }
        };
        self.each(count, Arc::new(round))?;
        let ends = std::mem::take(&mut *ends.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(failure) = first_failure(job, ends.failed) {
            return Err(RunError::Device(failure));
        }
        if ends.stopped.is_empty() { Ok(()) } else { Err(deadlock(job, &ends.stopped)) }
    }

    fn cores_for(&self, threads: usize) -> Cores {
        if threads <= self.cores { Cores::Enough } else { Cores::TooFew }
    }
}

/// One lane, to its end.
fn play(job: &Job, lane: LaneId, board: &Board<'_>, ends: &Mutex<Ends>) {
    let _stop = StopAtEnd(&board.own.progress);
    let outcome = Walk::new(job, lane).advance(board);
    let device = job.tasks.lanes[lane].device;
    let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
    match outcome {
        Outcome::Finished => {}
        Outcome::Failed(turn, how) => ends.failed.push((turn, device, how)),
        Outcome::Stopped(turn, lanes) | Outcome::Waits(turn, lanes) => {
            ends.stopped.push((turn, device, lanes))
        }
    }
}
