//! What all executors share: how a lane walks over its tasks, and how lanes meet.
//!
//! ```text
//!              Walk (one lane)             Rendezvous
//!  threads     runs through                publish: tell; meet: wait, parked if it takes long
//!  lockstep    as far as it can, in turn   publish: note; meet: look
//!  ranks       runs through                publish: tell in shared memory; meet: look, asleep if it takes long;
//!                                          exchange: messages between hosts
//! ```
//!
//! **The contract of every executor.** A lane does its tasks in order. It passes a wait when all the
//! named lanes have published the tick, whatever else happens. A lane that fails stops, and tells; one
//! that waits for a lane that has stopped stops too, for it cannot go on. Where lanes are in other processes, who
//! cannot be told in between, a lane that fails goes on with all that others wait for instead
//! (`AfterFailure::GoOn`), and only computes no more. So which lanes come how far
//! follows from the program alone, and every executor reports the same first failure: the earliest in
//! program order, of the lowest device. Everybody comes to an end: a lane finishes, fails, or stops.

mod compute;
mod error;
mod exchange;
mod link;
mod pace;
mod record;
mod spent;

pub use crate::instantiate::{Instr, InstrId, Loans, Streams};
pub(crate) use compute::PackedConstants;
pub use error::{Failure, How, InputError, NotReady, RunError, Stuck, WrongInput};
pub use link::Link;
pub(crate) use pace::Play;
pub(crate) use record::Recorder;
pub use record::{Doing, Event, MoveRecord, Record, Recording, Taken};
use record::{Log, Played};
pub use spent::Spent;

use crate::arena::Arenas;
use crate::engine::Exchange;
use crate::instantiate::{Copy, Lane, LaneId, Lies, Onto, Part, Run, Task, Tasks, TurnId, Work};
use crate::kernels::{self, Scratch};
use crate::meet::{Met, Tick};
use pace::Pace;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

/// Bytes that are reduced at a time: half of the nearest cache. A multiple of every element's size.
const REDUCE_BLOCK: usize = 16 << 10;

/// What runs a program's devices.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Backend {
    /// One thread a device.
    #[default]
    Threads,
    /// All devices in the calling thread, in a fixed order.
    Lockstep,
}

/// Is told of everything that a device is about to do, and may delay or refuse it. For tests of what
/// happens when devices are late or fail.
pub trait Probe: Send + Sync {
    /// A device comes to a part of an instruction: called once for each, however long it waits there. What
    /// is returned as an error fails the device.
    fn before(&self, device: DeviceId, instr: InstrId, doing: Doing) -> Result<(), String>;
}

/// One run: what to do, on which memory, and who watches.
pub(crate) struct Job {
    pub tasks: Arc<Tasks>,
    pub arenas: Arc<Arenas>,
    /// Which constants are there packed.
    pub packed: Arc<PackedConstants>,
    pub recorder: Recorder,
    pub probe: Option<Arc<dyn Probe>>,
    /// What devices take from others is there no sooner than over this link.
    pub play: Option<Play>,
    pub after_failure: AfterFailure,
}

/// What a lane does when one of its tasks has failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterFailure {
    /// It stops; whoever waits for it hears of it.
    Stop,
    /// It does all that others wait for, with bytes that are worth nothing, and tells at its end: others are in other
    /// processes, whose messages cannot be called back. What it can fail at is the start of a task (a probe), which is
    /// done all the same, and what works on bytes alone, which is left; a panic in between of what others wait for ends
    /// all ranks.
    GoOn,
}

/// How lanes meet.
pub(crate) trait Rendezvous {
    /// A lane has come to a tick.
    fn publish(&self, lane: LaneId, tick: Tick);

    /// Whether a lane has come to a tick; an executor that can wait never says [`Met::NotYet`].
    fn meet(&self, lane: LaneId, tick: Tick) -> Met;

    /// Exchanges bytes with other ranks.
    fn exchange(&self, _: Exchange<'_, '_>) {
        unreachable!("devices in one process share their memory");
    }

    /// Ends all ranks: what others wait for will never be done.
    fn end_all(&self, reason: &str) -> ! {
        unreachable!("a lane in one process stops: {reason}");
    }
}

/// How far a lane came.
pub(crate) enum Outcome {
    /// To its end.
    Finished,
    /// To a task that waits for these lanes.
    Waits(TurnId, Vec<LaneId>),
    /// To a task that waits for these lanes, which have stopped.
    Stopped(TurnId, Vec<LaneId>),
    /// To a task that failed.
    Failed(TurnId, How),
}

/// One lane on its way through a run.
pub(crate) struct Walk<'a> {
    job: &'a Job,
    lane: &'a Lane,
    id: LaneId,
    /// The next task.
    at: usize,
    /// How many tasks the probe was told of: one that had to wait is gone on with, not begun again.
    told: usize,
    /// The first task that failed, if the lane goes on after failures.
    failed: Option<(TurnId, How)>,
    log: Option<Log>,
    /// The times of its streams, where a link is played.
    pace: Option<Pace<'a>>,
    /// What kernels work in.
    scratch: &'a Scratch,
}

impl<'a> Walk<'a> {
    pub fn new(job: &'a Job, id: LaneId, scratch: &'a Scratch) -> Walk<'a> {
        let lane = &job.tasks.lanes[id];
        let pace = job.play.as_ref().map(|play| Pace::new(play, id, &job.tasks));
        Walk { job, lane, id, at: 0, told: 0, failed: None, log: job.recorder.log(id), pace, scratch }
    }

    /// How many tasks are done.
    pub fn position(&self) -> usize {
        self.at
    }

    /// Goes on as far as it can.
    pub fn advance(&mut self, rendezvous: &impl Rendezvous) -> Outcome {
        // What a task leaves half done when it panics is bytes of the arena, which nobody reads: the lane
        // stops, and the next run writes before it reads.
        let outcome = loop {
            let walked = catch_unwind(AssertUnwindSafe(|| self.tasks(rendezvous)));
            let outcome = walked.unwrap_or_else(|payload| self.failed(How::Panic(panic_text(&*payload))));
            match (outcome, self.job.after_failure) {
                (Outcome::Waits(turn, lanes), _) => return Outcome::Waits(turn, lanes), // to be continued
                (Outcome::Failed(turn, how), AfterFailure::GoOn) => {
                    if others_wait_for(&self.lane.tasks[self.at].work) {
                        let turn = self.job.tasks.turn_text(turn);
                        rendezvous.end_all(&format!("{} failed at {turn}: {how:?}", self.lane.device));
                    }
                    self.failed.get_or_insert((turn, how));
                    self.at += 1;
                }
                (outcome, _) => break outcome,
            }
        };
        if let Some(log) = self.log.take() {
            self.job.recorder.add(log);
        }
        self.failed.take().map_or(outcome, |(turn, how)| Outcome::Failed(turn, how))
    }

    fn tasks(&mut self, rendezvous: &impl Rendezvous) -> Outcome {
        while let Some(task) = self.lane.tasks.get(self.at) {
            let start = self.now();
            if let Err(how) = self.asked(task) {
                match self.job.after_failure {
                    AfterFailure::Stop => return self.failed(how),
                    AfterFailure::GoOn => {
                        self.failed.get_or_insert((task.turn, how));
                    }
                }
            }
            let stream = self.job.tasks.stream(task.turn);
            let mut played = Played::Nothing;
            match &task.work {
                // What it would compute with is worth nothing.
                Work::Kernel(_) if self.failed.is_some() => {}
                Work::Kernel(kernel) => {
                    if let Some(pace) = &self.pace {
                        pace.wait_for(stream);
                        played = self.now().map_or(Played::Nothing, Played::HeldUntil);
                    }
                    if let Err(error) = compute::run(self.job, self.lane.device, kernel, self.scratch) {
                        return self.failed(How::Kernel(error));
                    }
                    self.pace.iter_mut().for_each(|pace| pace.worked(stream));
                }
                Work::Copy(copy) => {
                    copy_pieces(&self.job.arenas, self.lane.device, copy, &[]);
                    let delivery = self.pace.as_mut().and_then(|pace| pace.took(stream, copy));
                    played = delivery.map_or(Played::Nothing, Played::UnderWay);
                    self.log_taken(task, copy.sources());
                }
                Work::Exchange(messages) => {
                    exchange::run(self.job, self.lane.device, messages, self.scratch, rendezvous);
                    self.log_taken(task, messages.taken.iter().copied());
                }
                Work::Borrow(copy) => self.log_taken(task, copy.sources()),
                Work::Publish(tick) => {
                    self.pace.iter().for_each(|pace| pace.tells(stream, *tick));
                    rendezvous.publish(self.id, *tick);
                }
                Work::Wait(lanes, tick) => match meet_all(rendezvous, lanes, *tick) {
                    Ok(()) => self.pace.iter_mut().for_each(|pace| pace.met(stream, lanes, *tick)),
                    Err(Missing::Stopped(lane)) => return Outcome::Stopped(task.turn, vec![lane]),
                    Err(Missing::Late(lanes)) => return Outcome::Waits(task.turn, lanes),
                },
            }
            if let (Some(start), Some(log)) = (start, &mut self.log) {
                log.ended(self.at, start, played);
            }
            self.at += 1;
        }
        // Outputs are taken when all lanes have ended.
        self.pace.iter().for_each(Pace::wait_for_all);
        Outcome::Finished
    }

    /// The time since the start of the run, if times are recorded.
    fn now(&self) -> Option<Duration> {
        self.log.as_ref().and_then(Log::now)
    }

    fn asked(&mut self, task: &Task) -> Result<(), How> {
        match &self.job.probe {
            Some(probe) if self.told == self.at => {
                self.told += 1;
                let instr = self.job.tasks.turns[task.turn].instr;
                // A probe is foreign code.
                let ask = || probe.before(self.lane.device, instr, Doing::of(&task.work));
                match catch_unwind(AssertUnwindSafe(ask)) {
                    Ok(asked) => asked.map_err(How::Refused),
                    Err(payload) => Err(How::Panic(panic_text(&*payload))),
                }
            }
            _ => Ok(()),
        }
    }

    fn log_taken(&mut self, task: &Task, taken: impl Iterator<Item = (DeviceId, usize)>) {
        if let Some(log) = &mut self.log {
            let instr = self.job.tasks.turns[task.turn].instr;
            for (from, bytes) in taken.filter(|(from, _)| *from != self.lane.device) {
                log.take(instr, from, bytes);
            }
        }
    }

    fn failed(&self, how: How) -> Outcome {
        Outcome::Failed(self.lane.tasks[self.at].turn, how)
    }
}

/// Whether others cannot go on without it.
fn others_wait_for(work: &Work) -> bool {
    match work {
        Work::Kernel(_) | Work::Copy(_) | Work::Borrow(_) => false,
        Work::Exchange(_) | Work::Publish(_) | Work::Wait(..) => true,
    }
}

/// Who is missing at a meeting.
enum Missing {
    /// A lane that will never come.
    Stopped(LaneId),
    /// Lanes that have not come yet.
    Late(Vec<LaneId>),
}

/// Meets lane after lane.
fn meet_all(rendezvous: &impl Rendezvous, lanes: &[LaneId], tick: Tick) -> Result<(), Missing> {
    let mut late = Vec::new();
    for &lane in lanes {
        match rendezvous.meet(lane, tick) {
            Met::Reached => {}
            Met::Stopped => return Err(Missing::Stopped(lane)),
            Met::NotYet => late.push(lane),
        }
    }
    if late.is_empty() { Ok(()) } else { Err(Missing::Late(late)) }
}

/// Takes what a copy says; what was received lies in the mail.
fn copy_pieces(arenas: &Arenas, device: DeviceId, copy: &Copy, mail: &[u8]) {
    if let Some((combine, region)) = &copy.fill {
        kernels::fill_identity(*combine, copy.dtype, arenas.write(device.index(), region.clone()));
    }
    for transfer in &copy.transfers {
        // Where the run at hand starts in parts that were received.
        let mut received = 0;
        transfer.runs.for_each(|run| {
            // A part's bytes for a block of the run.
            let of = |part: &Part, at: Run| match part.lies {
                Lies::InArena => read_part(arenas, part, at),
                Lies::InMail => &mail[part.source + received + (at.source - run.source)..][..at.bytes],
            };
            match (copy.combine, transfer.onto, &transfer.parts[..]) {
                (Some(combine), Onto::Earlier, parts) => {
                    reduce_run(arenas, device, transfer.target, run, |at, whole| {
                        parts
                            .iter()
                            .for_each(|part| kernels::combine(combine, copy.dtype, whole, of(part, at)));
                    });
                }
                (Some(combine), Onto::Nothing, [first, second, later @ ..]) => {
                    reduce_run(arenas, device, transfer.target, run, |at, whole| {
                        kernels::combine_two(combine, copy.dtype, whole, of(first, at), of(second, at));
                        later
                            .iter()
                            .for_each(|part| kernels::combine(combine, copy.dtype, whole, of(part, at)));
                    });
                }
                (_, _, parts) => {
                    let target = transfer.target + run.target;
                    let part = of(&parts[0], run);
                    arenas.write(device.index(), target..target + run.bytes).copy_from_slice(part);
                }
            }
            received += run.bytes;
        });
    }
}

/// The bytes of a run in a source piece.
fn read_part<'a>(arenas: &'a Arenas, part: &Part, run: Run) -> &'a [u8] {
    let source = part.source + run.source;
    arenas.read(part.from.index(), source..source + run.bytes)
}

/// Makes a run of the target piece out of several parts, block by block: what a part adds to is still in
/// the nearest cache.
fn reduce_run(arenas: &Arenas, device: DeviceId, target: usize, run: Run, combine: impl Fn(Run, &mut [u8])) {
    for start in (0..run.bytes).step_by(REDUCE_BLOCK) {
        let bytes = REDUCE_BLOCK.min(run.bytes - start);
        let block = Run { source: run.source + start, target: run.target + start, bytes };
        let target = target + block.target;
        combine(block, arenas.write(device.index(), target..target + bytes));
    }
}

/// What a panic says.
pub fn panic_text(payload: &(dyn std::any::Any + Send)) -> String {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref::<&str>().copied())
        .unwrap_or("a panic without a message")
        .to_string()
}

/// The failure that all executors report: the earliest in program order, of the lowest device.
pub(crate) fn first_failure(job: &Job, mut failed: Vec<(TurnId, DeviceId, How)>) -> Option<Failure> {
    failed.sort_by_key(|(turn, device, _)| (*turn, *device));
    let (turn, device, how) = failed.into_iter().next()?;
    let value = job.tasks.instrs[job.tasks.turns[turn].instr].value.clone();
    Some(Failure { device, instruction: job.tasks.turn_text(turn), value, how })
}

/// Lanes that wait for ever, though none has failed.
pub(crate) fn deadlock(job: &Job, stuck: &[(TurnId, DeviceId, Vec<LaneId>)]) -> RunError {
    let one = |(turn, device, lanes): &(TurnId, DeviceId, Vec<LaneId>)| Stuck {
        device: *device,
        instruction: job.tasks.turn_text(*turn),
        waits_for: lanes.iter().map(|&lane| job.tasks.lanes[lane].device).collect(),
    };
    RunError::Deadlock(stuck.iter().map(one).collect())
}
