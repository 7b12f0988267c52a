//! One process a device: this process plays the device of its rank, an engine joins it with the others.
//!
//! ```text
//!            this rank's lanes walk over their tasks, as those of threads do
//!  same host    read each other's memory, meet by ticks in it        board
//!  other hosts  exchange messages                                    engine
//! ```
//!
//! **What a failure does.** A lane that fails goes on with all that others wait for (its bytes are worth nothing, and
//! nobody will take them), so nobody hangs and nothing has to be called back; at the end all ranks agree which failure
//! was the first, and report the same one as every executor does. What cannot be ended so, an engine that fails, a
//! rank that does not come in time, or a fault of ours in the middle of what others wait for, ends all ranks.

mod agree;
mod board;
mod failures;
mod launched;
mod recorded;

use crate::engine::{Engine, EngineError, Exchange, Late, Waits, ranks_text};
use crate::execute::{Failure, How, Job, NotReady, Outcome, Rendezvous, RunError, Walk};
use crate::instantiate::{Lane, LaneId, TurnId, Work};
use crate::kernels::Scratch;
use crate::meet::{Cores, Met, Tick, lock};
use crate::threads::urgency::{self, Urgency};
use crate::threads::{Crew, Round};
pub use agree::{Agreed, Went, agree};
use board::{LaneOf, MOST_LANES, Ticks};
pub(crate) use failures::{all_have, all_well, or_end};
pub use launched::{LAUNCHED, launched};
pub(crate) use recorded::together;
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::mesh::DeviceId;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// Plays the lanes of one rank.
pub(crate) struct Ranks {
    crew: Crew,
    engine: Arc<dyn Engine>,
    /// None before the ranks have joined.
    players: Option<Arc<Players>>,
    /// The last tick of the runs before.
    ticks: Tick,
}

/// Those who play the lanes of this rank.
struct Players {
    engine: Arc<dyn Engine>,
    ticks: Ticks,
    /// One for each lane of this rank.
    scratch: Vec<Mutex<Scratch>>,
    /// The run at hand.
    run: Mutex<Option<Run>>,
    failed: Mutex<Vec<(TurnId, How)>>,
}

/// A run, as the lanes of this rank see it.
#[derive(Clone)]
struct Run {
    job: Arc<Job>,
    /// Who plays which lane.
    lanes: Arc<Table<LaneId, LaneOf>>,
    /// The last tick of the runs before.
    before: Tick,
    cores: Cores,
}

impl Ranks {
    /// A rank that has not joined the others yet.
    pub fn new(engine: Arc<dyn Engine>) -> Ranks {
        Ranks { crew: Crew::new(), engine, players: None, ticks: 0 }
    }

    /// Joins the other ranks, which do the same, if it has not.
    pub fn join(&mut self) -> Result<(), RunError> {
        if self.players.is_none() {
            self.players = Some(Arc::new(Players {
                engine: self.engine.clone(),
                ticks: all_have(&*self.engine, Ticks::new(&*self.engine), "where ranks join")?,
                scratch: (0..MOST_LANES).map(|_| Mutex::default()).collect(),
                run: Mutex::default(),
                failed: Mutex::default(),
            }));
        }
        Ok(())
    }

    /// What joins the ranks.
    pub fn engine(&self) -> &dyn Engine {
        &*self.engine
    }

    /// Runs the lanes of this rank to their ends; all ranks give the same result.
    pub fn execute(&mut self, job: &Arc<Job>) -> Result<(), RunError> {
        let players = self.players.as_ref().ok_or(RunError::NotReady(NotReady::Inputs))?.clone();
        let place = self.engine.place();
        let lanes = lanes(job);
        let own: Arc<[LaneId]> =
            lanes.iter().filter(|(_, of)| of.rank == place.rank).map(|(id, _)| id).collect();
        // Of all ranks' lanes, so that all say the same.
        let most = lanes.values().map(|of| of.lane + 1).max().unwrap_or(0);
        if most > MOST_LANES {
            return Err(RunError::Broken(format!(
                "a device has {most} lanes, at most {MOST_LANES} are played"
            )));
        }
        let here = |of: &&LaneOf| place.is_on_machine(of.rank);
        let cores = match lanes.values().filter(here).count() <= place.cores[place.rank] {
            true => Cores::Enough,
            false => Cores::TooFew,
        };
        let before = self.ticks;
        self.ticks += job.tasks.last_tick;
        *lock(&players.run) = Some(Run { job: job.clone(), lanes: Arc::new(lanes), before, cores });
        let round: Round = {
            let (players, own) = (players.clone(), own.clone());
            Arc::new(move |n| players.play(own[n]))
        };
        let played = self.crew.each(own.len(), cores, round);
        *lock(&players.run) = None;
        if let Err(error) = played {
            // Others wait for what this rank will never do.
            self.engine.abort(&error.to_string());
        }
        let failed = std::mem::take(&mut *lock(&players.failed));
        self.first_failure(job, failed)
    }

    /// The failure that all ranks report: the earliest in program order, of the lowest device.
    fn first_failure(&self, job: &Job, failed: Vec<(TurnId, How)>) -> Result<(), RunError> {
        let engine = self.engine();
        let (rank, ranks) = (engine.place().rank, engine.place().ranks());
        let own = failed.into_iter().min_by_key(|(turn, _)| *turn);
        let number =
            own.as_ref().map_or(u64::MAX, |(turn, _)| turn.index() as u64 * ranks as u64 + rank as u64);
        let first = or_end(engine, engine.least(number), "at the end of a run")?;
        if first == u64::MAX {
            return Ok(());
        }
        let (turn, device) = (TurnId::new((first / ranks as u64) as usize), (first % ranks as u64) as usize);
        let word = own.map_or(Vec::new(), |(_, how)| failures::how_to_bytes(&how));
        let told = or_end(engine, engine.tell_all(&word), "at the end of a run that failed")?;
        let how = failures::how_from_bytes(&told[device]);
        let value = job.tasks.instrs[job.tasks.turns[turn].instr].value.clone();
        Err(RunError::Device(Failure {
            device: DeviceId::new(device),
            instruction: job.tasks.turn_text(turn),
            value,
            how,
        }))
    }
}

impl Players {
    /// One lane of this rank, to its end.
    fn play(&self, lane: LaneId) {
        let Some(run) = lock(&self.run).clone() else { return };
        // The caller's thread is left as it is.
        if run.lanes[lane].lane > 0 {
            urgency::set(Urgency::Prompt);
        }
        let board = Board { players: self, run: &run, lane };
        let scratch = lock(&self.scratch[run.lanes[lane].lane]);
        match Walk::new(&run.job, lane, &scratch).advance(&board) {
            Outcome::Finished => {}
            Outcome::Failed(turn, how) => lock(&self.failed).push((turn, how)),
            Outcome::Waits(turn, _) | Outcome::Stopped(turn, _) => {
                unreachable!("{} waits until it is over", run.job.tasks.turn_text(turn))
            }
        }
    }
}

/// Which rank plays each lane, and which of its lanes it is.
fn lanes(job: &Job) -> Table<LaneId, LaneOf> {
    let mut before: Option<LaneOf> = None;
    let of = |lane: &Lane| {
        let rank = lane.device.index();
        let lane = before.filter(|before| before.rank == rank).map_or(0, |before| before.lane + 1);
        before = Some(LaneOf { rank, lane });
        LaneOf { rank, lane }
    };
    job.tasks.lanes.values().map(of).collect()
}

/// How one lane of this rank meets the others.
struct Board<'a> {
    players: &'a Players,
    run: &'a Run,
    lane: LaneId,
}

impl Board<'_> {
    /// The instruction of this lane that waits for a tick.
    fn waits_at(&self, tick: Tick) -> String {
        let tasks = &self.run.job.tasks;
        let waits = tasks.lanes[self.lane]
            .tasks
            .iter()
            .find(|task| matches!(&task.work, Work::Wait(_, at) if *at == tick));
        waits.map_or_else(String::new, |task| tasks.turn_text(task.turn))
    }

    /// Ends all ranks: those named here did not come in time.
    fn late(&self, late: &Late, place: &str) -> ! {
        let timeout = self.players.engine.timeout().unwrap_or_default().as_secs_f64();
        let (ranks, others) = (ranks_text(&late.ranks), late.waiting_text());
        self.players.engine.abort(&format!("waited {timeout} s for {ranks} {place}{others}"))
    }

    /// Goes on waiting for a rank, for which this lane has waited so long; at the end of its time finds out who is late.
    fn waits(&self, rank: usize, tick: Tick, waited: Duration, asked: &mut u32) {
        let engine = &*self.players.engine;
        let Some(timeout) = engine.timeout() else { return };
        let place = || format!("at {}", self.waits_at(tick));
        let waits = || Waits { ranks: vec![rank], place: place() };
        if waited <= timeout.saturating_mul(*asked + 1) {
            return engine.answer(&waits).unwrap_or_else(|error| self.end_all(&error.to_string()));
        }
        *asked += 1;
        match engine.late(&waits).unwrap_or_else(|error| self.end_all(&error.to_string())) {
            // All wait for each other: what has just been told to one of them may bring them on.
            None if *asked == 1 => {}
            late => self.late(&late.unwrap_or_else(|| Late::of(vec![rank])), &place()),
        }
    }
}

impl Rendezvous for Board<'_> {
    fn publish(&self, lane: LaneId, tick: Tick) {
        self.players.ticks.publish(self.run.lanes[lane], self.run.before + tick);
    }

    fn meet(&self, lane: LaneId, tick: Tick) -> Met {
        let of = self.run.lanes[lane];
        // A lane of this rank computes, or waits for another rank itself, and then it is the one who knows for whom.
        let own = of.rank == self.players.engine.place().rank;
        let mut asked = 0;
        self.players.ticks.wait(of, self.run.before + tick, self.run.cores, |waited| {
            if !own {
                self.waits(of.rank, tick, waited, &mut asked);
            }
        });
        Met::Reached
    }

    fn end_all(&self, reason: &str) -> ! {
        self.players.engine.abort(reason)
    }

    fn exchange(&self, exchange: Exchange<'_, '_>) {
        match self.players.engine.exchange(exchange) {
            Ok(()) => {}
            Err(EngineError::Late(late)) => self.late(&late, "at an exchange of messages"),
            Err(error) => self.end_all(&error.to_string()),
        }
    }
}
