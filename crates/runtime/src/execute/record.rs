//! What a run did: bytes that went from device to device, and when what ran.

use crate::instantiate::{InstrId, Tasks};
use crate::meet::lock;
use shardweave_compiler::host::StreamId;
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::instr::Kind;
use shardweave_compiler::mesh::DeviceId;
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
    /// The instructions, as they stand in the host program; none if nothing was recorded.
    pub instrs: Table<InstrId, String>,
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
    /// What it did.
    pub doing: Doing,
    /// When it started, counted from the start of the run.
    pub start: Duration,
    /// When it ended.
    pub end: Duration,
}

/// What a device can be doing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Doing {
    /// Computing on its pieces.
    Compute,
    /// Taking elements from its own and other pieces.
    Copy,
    /// Waiting for another device or stream.
    Wait,
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
    taken: BTreeMap<(InstrId, DeviceId), u64>,
    events: Vec<Event>,
}

impl Recorder {
    /// The run starts now.
    pub fn new(record: Record) -> Recorder {
        Recorder { record, start: Instant::now(), logs: Mutex::new(Vec::new()) }
    }

    /// A log for one lane; none if nothing is recorded.
    pub fn log(&self) -> Option<Log> {
        let log =
            || Log { record: self.record, start: self.start, taken: BTreeMap::new(), events: Vec::new() };
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
        let logs = std::mem::take(&mut *lock(&self.logs));
        let mut sent: BTreeMap<InstrId, Vec<u64>> = BTreeMap::new();
        let mut events: Vec<Event> = Vec::new();
        for log in logs {
            for ((instr, from), bytes) in log.taken {
                sent.entry(instr).or_insert_with(|| vec![0; tasks.used.len()])[from.index()] += bytes;
            }
            events.extend(log.events);
        }
        events.sort_by_key(|event| (event.device, event.stream, event.start));
        let moves = tasks.instrs.iter().filter_map(|(instr, row)| {
            let sent = sent.remove(&instr).unwrap_or_else(|| vec![0; tasks.used.len()]);
            Some(MoveRecord { instr, text: row.text.clone(), kind: row.kind?, sent })
        });
        let instrs = tasks.instrs.values().map(|row| row.text.clone());
        Recording { moves: moves.collect(), events, instrs: instrs.collect() }
    }
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

    /// Something that started at `start` has ended.
    pub fn ended(
        &mut self,
        (device, stream): (DeviceId, Option<StreamId>),
        instr: InstrId,
        doing: Doing,
        start: Duration,
    ) {
        let end = self.start.elapsed();
        self.events.push(Event { device, stream, instr, doing, start, end });
    }
}
