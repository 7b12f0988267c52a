//! One thread a lane; the caller plays the first. The threads live as long as the session and are
//! parked between runs.
//!
//! Waiting costs a core nothing for long: a lane that has to wait looks a few times while there is a
//! core for every thread, and sleeps at once if there are more threads than cores, for then the one it
//! waits for may need its core.

mod crew;
mod progress;

pub(crate) use crew::{Crew, Round};
pub(crate) use progress::{Met, Progress, Tick};

use crate::execute::{How, Job, Outcome, Rendezvous, RunError, Walk, deadlock, first_failure};
use crate::instantiate::{LaneId, TurnId};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::sync::{Arc, Mutex, PoisonError};

/// How often a waiting lane looks before it sleeps, if there are cores enough: some tens of
/// microseconds, as long as a sleeping thread takes to wake.
const SPINS: u32 = 2_000;

/// Plays the lanes of programs with threads.
pub(crate) struct Threads {
    crew: Crew,
    cores: usize,
    /// The progress of each lane, kept from run to run.
    progress: Arc<[Progress]>,
}

/// How lanes meet: by their progress, looking `spins` times before they sleep.
struct Board {
    progress: Arc<[Progress]>,
    spins: u32,
}

impl Rendezvous for Board {
    fn publish(&self, lane: LaneId, tick: Tick) {
        self.progress[lane.index()].publish(tick);
    }

    fn meet(&self, lane: LaneId, tick: Tick) -> Met {
        self.progress[lane.index()].wait(tick, self.spins)
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
        Threads { crew: Crew::new(), cores, progress: Arc::new([]) }
    }

    /// Calls `round` once for each of `ranks`, each in its own thread.
    pub fn each(&mut self, ranks: usize, round: Round) -> Result<(), RunError> {
        let spins = self.spins(ranks);
        self.crew.each(ranks, spins, round)
    }

    /// Runs all lanes to their ends.
    pub fn execute(&mut self, job: &Arc<Job>) -> Result<(), RunError> {
        let lanes = job.tasks.lanes.len();
        if self.progress.len() != lanes {
            self.progress = (0..lanes).map(|_| Progress::new()).collect();
        }
        // Nobody waits between runs.
        self.progress.iter().for_each(Progress::reset);
        let board = Board { progress: self.progress.clone(), spins: self.spins(lanes) };
        let ends: Arc<Mutex<Ends>> = Arc::default();
        let round = {
            let (job, ends) = (job.clone(), ends.clone());
            move |rank: usize| play(&job, LaneId::new(rank), &board, &ends)
        };
        self.each(lanes, Arc::new(round))?;
        let ends = std::mem::take(&mut *ends.lock().unwrap_or_else(PoisonError::into_inner));
        if let Some(failure) = first_failure(job, ends.failed) {
            return Err(RunError::Device(failure));
        }
        if ends.stopped.is_empty() { Ok(()) } else { Err(deadlock(job, &ends.stopped)) }
    }

    fn spins(&self, threads: usize) -> u32 {
        if threads <= self.cores { SPINS } else { 0 }
    }
}

/// One lane, to its end.
fn play(job: &Job, lane: LaneId, board: &Board, ends: &Mutex<Ends>) {
    let _stop = StopAtEnd(&board.progress[lane.index()]);
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
