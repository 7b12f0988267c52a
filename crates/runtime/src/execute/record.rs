//! What a run did: bytes that went from device to device, and when what ran.

use super::link::Delivery;
use crate::instantiate::{Instr, InstrId, Kernel, LaneId, Tasks, Work};
use crate::meet::{Tick, lock};
use shardweave_compiler::host::StreamId;
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::instr::Kind;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::op::product_flops;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How much a session records of each run.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Record {
    /// Nothing.
    #[default]
    Nothing,
    /// Bytes that devices took from other devices.
    Bytes,
    /// Bytes, and when each device did what.
    Times,
}

/// What the last run did.
#[derive(Clone, Debug, Default)]
pub struct Recording {
    /// The moves of the program, in the order of its text.
    pub moves: Vec<MoveRecord>,
    /// What each device did when, device by device, each in its own order.
    pub events: Vec<Event>,
    /// The instructions, in the order of the host program; none if nothing was recorded.
    pub instrs: Table<InstrId, Instr>,
    /// How long the run took.
    pub time: Duration,
}

/// The bytes of one move instruction, all its steps together.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct MoveRecord {
    /// Which instruction.
    pub instr: InstrId,
    /// As it stands in the host program.
    pub text: String,
    /// Its pattern.
    pub kind: Kind,
    /// Bytes sent, by device number: what others took from the device.
    pub sent: Vec<u64>,
}

/// Something that a device did.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Event {
    /// Which device.
    pub device: DeviceId,
    /// On which stream; none where a device's streams are merged.
    pub stream: Option<StreamId>,
    /// A part of which instruction.
    pub instr: InstrId,
    /// The running step of each loop around the instruction, outermost first.
    pub steps: Box<[u64]>,
    /// What it did.
    pub doing: Doing,
    /// Operations of the matrix products that it computed.
    pub flops: u128,
    /// What it copied from other devices, one entry for each.
    pub taken: Vec<Taken>,
    /// When it started, counted from the start of the run.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// What a device took from another one at a time.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Taken {
    /// Whose it was.
    pub from: DeviceId,
    /// How many bytes.
    pub bytes: u64,
    /// When the other device gave it away: told that it could be taken.
    pub given: Duration,
}

/// What a device can be doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Computing on its pieces.
    Compute,
    /// Taking elements from its own and other pieces, or nothing where they are lent: then it computes with them where
    /// they lie.
    Copy,
    /// Nothing: the bytes of a copy are under way over the link that is played, while its stream may be at
    /// what comes after the copy.
    Link,
    /// Telling other devices or streams how far it has come.
    Tell,
    /// Waiting for another device or stream, or until what it computes with has come over the link that is
    /// played.
    Wait,
}

impl Doing {
    /// What a device does that comes to a task.
    pub(crate) fn of(work: &Work) -> Doing {
        match work {
            Work::Kernel(_) => Doing::Compute,
            Work::Copy(_) | Work::Borrow(_) | Work::Exchange(_) => Doing::Copy,
            Work::Publish(_) => Doing::Tell,
            Work::Wait(..) => Doing::Wait,
        }
    }
}

impl MoveRecord {
    /// Bytes sent by all devices.
    pub fn total(&self) -> u64 {
        self.sent.iter().sum()
    }

    /// Bytes sent, the most of one device.
    pub fn most(&self) -> u64 {
        self.sent.iter().copied().max().unwrap_or(0)
    }
}

/// Collects what the lanes of one run did.
pub(crate) struct Recorder {
    record: Record,
    start: Instant,
    logs: Mutex<Vec<Log>>,
}

/// What one lane did.
pub(crate) struct Log {
    record: Record,
    start: Instant,
    lane: LaneId,
    taken: BTreeMap<(InstrId, DeviceId), u64>,
    done: Vec<Done>,
}

/// A task that a lane has done. What it was is looked up when the run is over.
struct Done {
    /// Its place among the tasks of the lane.
    task: usize,
    start: Duration,
    played: Played,
    end: Duration,
}

/// What a link that is played has to do with a task.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Played {
    Nothing,
    /// The bytes of a copy were under way.
    UnderWay(Delivery),
    /// A kernel had to wait for what it reads.
    HeldUntil(Duration),
}

impl Recorder {
    /// Of a run that starts at `start`.
    pub fn new(record: Record, start: Instant) -> Recorder {
        Recorder { record, start, logs: Mutex::new(Vec::new()) }
    }

    /// A log for one lane; none if nothing is recorded.
    pub fn log(&self, lane: LaneId) -> Option<Log> {
        let (record, start) = (self.record, self.start);
        let log = || Log { record, start, lane, taken: BTreeMap::new(), done: Vec::new() };
        (self.record != Record::Nothing).then(log)
    }

    /// A lane is done with its log.
    pub fn add(&self, log: Log) {
        lock(&self.logs).push(log);
    }

    /// All that was logged.
    pub fn finish(&self, tasks: &Tasks) -> Recording {
        if self.record == Record::Nothing {
            return Recording::default();
        }
        let time = self.start.elapsed();
        let logs = std::mem::take(&mut *lock(&self.logs));
        let mut sent: BTreeMap<InstrId, Vec<u64>> = BTreeMap::new();
        for ((instr, from), bytes) in logs.iter().flat_map(|log| &log.taken) {
            sent.entry(*instr).or_insert_with(|| vec![0; tasks.used.len()])[from.index()] += bytes;
        }
        let told = told(&logs, tasks);
        let mut events: Vec<Event> = logs.iter().flat_map(|log| log.events(tasks, &told)).collect();
        events.sort_by_key(|event| (event.device, event.stream, event.start));
        let moves = tasks.instrs.iter().filter_map(|(instr, row)| {
            let sent = sent.remove(&instr).unwrap_or_else(|| vec![0; tasks.used.len()]);
            Some(MoveRecord { instr, text: row.text.clone(), kind: row.kind?, sent })
        });
        let instrs = tasks.instrs.values().cloned();
        Recording { moves: moves.collect(), events, instrs: instrs.collect(), time }
    }
}

/// When each lane told that it had come to a tick.
fn told(logs: &[Log], tasks: &Tasks) -> BTreeMap<(LaneId, Tick), Duration> {
    let of = |log: &'_ Log, done: &Done| match tasks.lanes[log.lane].tasks[done.task].work {
        Work::Publish(tick) => Some(((log.lane, tick), done.start)),
        _ => None,
    };
    logs.iter().flat_map(|log| log.done.iter().filter_map(move |done| of(log, done))).collect()
}

impl Log {
    /// The device took so many bytes from another.
    pub fn take(&mut self, instr: InstrId, from: DeviceId, bytes: usize) {
        *self.taken.entry((instr, from)).or_default() += bytes as u64;
    }

    /// The time since the start of the run, if times are recorded.
    pub fn now(&self) -> Option<Duration> {
        (self.record == Record::Times).then(|| self.start.elapsed())
    }

    /// A task of the lane that started at `start` has ended.
    pub fn ended(&mut self, task: usize, start: Duration, played: Played) {
        let end = self.start.elapsed();
        self.done.push(Done { task, start, played, end });
    }

    /// What the device did in this lane.
    fn events(&self, tasks: &Tasks, told: &BTreeMap<(LaneId, Tick), Duration>) -> Vec<Event> {
        let lane = &tasks.lanes[self.lane];
        let mut events = Vec::new();
        // A lane has waited for all that it takes from right before it takes it.
        let mut waited: BTreeMap<DeviceId, Duration> = BTreeMap::new();
        for &Done { task, start, played, end } in &self.done {
            let task = &lane.tasks[task];
            let turn = &tasks.turns[task.turn];
            let event = |doing, start, end| Event {
                device: lane.device,
                stream: lane.stream,
                instr: turn.instr,
                steps: turn.steps.clone(),
                doing,
                flops: 0,
                taken: Vec::new(),
                start,
                end,
            };
            let begun = if let Played::HeldUntil(held) = played { held } else { start };
            if begun > start {
                events.push(event(Doing::Wait, start, begun));
            }
            let mut done = event(Doing::of(&task.work), begun, end);
            match &task.work {
                Work::Kernel(kernel) => done.flops = flops(kernel),
                Work::Wait(lanes, tick) => {
                    let told =
                        |&other: &LaneId| Some((tasks.lanes[other].device, *told.get(&(other, *tick))?));
                    waited = lanes.iter().filter_map(told).collect();
                }
                Work::Copy(copy) | Work::Borrow(copy) => {
                    done.taken = taken(lane.device, copy.sources(), &waited, start);
                }
                Work::Exchange(messages) => {
                    done.taken = taken(lane.device, messages.taken.iter().copied(), &waited, start);
                }
                Work::Publish(_) => {}
            }
            events.push(done);
            if let Played::UnderWay(Delivery { start, arrival }) = played {
                events.push(event(Doing::Link, start, arrival));
            }
        }
        events
    }
}

/// What a device took of others, one entry for each; where nobody told, from the `start` on.
fn taken(
    device: DeviceId,
    sources: impl Iterator<Item = (DeviceId, usize)>,
    told: &BTreeMap<DeviceId, Duration>,
    start: Duration,
) -> Vec<Taken> {
    let mut bytes: BTreeMap<DeviceId, u64> = BTreeMap::new();
    for (from, more) in sources.filter(|(from, _)| *from != device) {
        *bytes.entry(from).or_default() += more as u64;
    }
    let given = |from| told.get(&from).copied().unwrap_or(start);
    bytes.into_iter().map(|(from, bytes)| Taken { from, bytes, given: given(from) }).collect()
}

/// Operations of the products of a kernel.
fn flops(kernel: &Kernel) -> u128 {
    let extents: Vec<u64> = kernel.pieces.extents().collect();
    product_flops(&kernel.compute.op, &kernel.compute.space, &extents)
}
