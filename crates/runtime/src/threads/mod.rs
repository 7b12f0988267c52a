//! One thread a lane; the caller plays the first. The threads live as long as the session and are
//! parked between runs.
//!
//! Waiting costs a core nothing for long: a lane that has to wait looks a few times while there is a
//! core for every thread, and sleeps at once if there are more threads than cores, for then the one it
//! waits for may need its core.

mod crew;
#[cfg(test)]
mod rounds;
pub(crate) mod urgency;

pub(crate) use crew::{Crew, Round};

use crate::execute::{How, Job, Outcome, Rendezvous, RunError, Walk, deadlock, first_failure};
use crate::instantiate::{LaneId, TurnId};
use crate::kernels::Scratch;
use crate::meet::{Cores, Met, Patience, Progress, Tick, lock};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::sync::{Arc, Mutex};
use urgency::Urgency;

/// Plays the lanes of programs with threads.
pub(crate) struct Threads {
    crew: Crew,
    cores: usize,
    /// Kept from run to run, so that a run allocates nothing.
    players: Arc<Players>,
    /// All players play.
    round: Round,
}

/// Those who play the lanes of a run.
struct Players {
    lanes: Box<[Meeter]>,
    cores: Cores,
    /// The run at hand.
    job: Mutex<Option<Arc<Job>>>,
    ends: Mutex<Ends>,
}

/// One lane as it meets others. On cache lines of its own: others look at it all the time.
struct Meeter {
    progress: Progress,
    patience: Patience,
    /// The lane's own, while it runs.
    scratch: Mutex<Scratch>,
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
        let players = Arc::new(Players::new(0, Cores::Enough));
        Threads { crew: Crew::new(), cores, round: players.clone().round(), players }
    }

    /// Calls `round` once for each of `ranks`, each in its own thread.
    pub fn each(&mut self, ranks: usize, round: Round) -> Result<(), RunError> {
        let cores = self.cores_for(ranks);
        self.crew.each(ranks, cores, round)
    }

    /// Runs all lanes to their ends.
    pub fn execute(&mut self, job: &Arc<Job>) -> Result<(), RunError> {
        let count = job.tasks.lanes.len();
        if self.players.lanes.len() != count {
            self.players = Arc::new(Players::new(count, self.cores_for(count)));
            self.round = self.players.clone().round();
        }
        // Nobody waits between runs.
        self.players.lanes.iter().for_each(|lane| lane.progress.reset());
        *lock(&self.players.job) = Some(job.clone());
        let played = self.each(count, self.round.clone());
        *lock(&self.players.job) = None;
        let ends = std::mem::take(&mut *lock(&self.players.ends));
        played?;
        if let Some(failure) = first_failure(job, ends.failed) {
            return Err(RunError::Device(failure));
        }
        if ends.stopped.is_empty() { Ok(()) } else { Err(deadlock(job, &ends.stopped)) }
    }

    fn cores_for(&self, threads: usize) -> Cores {
        if threads <= self.cores { Cores::Enough } else { Cores::TooFew }
    }
}

impl Players {
    fn new(count: usize, cores: Cores) -> Players {
        let meeter = |_| Meeter {
            progress: Progress::new(),
            patience: Patience::new(),
            scratch: Mutex::new(Scratch::new()),
        };
        Players {
            lanes: (0..count).map(meeter).collect(),
            cores,
            job: Mutex::default(),
            ends: Mutex::default(),
        }
    }

    /// The lane of each rank plays the job at hand.
    fn round(self: Arc<Players>) -> Round {
        Arc::new(move |rank| {
            let job = lock(&self.job).clone();
            if let Some(job) = job {
                self.play(&job, LaneId::new(rank));
            }
        })
    }

    /// One lane, to its end.
    fn play(&self, job: &Job, lane: LaneId) {
        let own = &self.lanes[lane.index()];
        // The caller's thread is left as it is.
        if lane.index() > 0 {
            let first = job.tasks.first_of_device(lane).is_some();
            urgency::set(if first { Urgency::Usual } else { Urgency::Prompt });
        }
        let _stop = StopAtEnd(&own.progress);
        let board = Board { lanes: &self.lanes, own, cores: self.cores };
        let scratch = lock(&own.scratch);
        let outcome = Walk::new(job, lane, &scratch).advance(&board);
        let device = job.tasks.lanes[lane].device;
        let mut ends = lock(&self.ends);
        match outcome {
            Outcome::Finished => {}
            Outcome::Failed(turn, how) => ends.failed.push((turn, device, how)),
            Outcome::Stopped(turn, lanes) | Outcome::Waits(turn, lanes) => {
                ends.stopped.push((turn, device, lanes));
            }
        }
    }
}
