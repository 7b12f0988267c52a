//! What all ranks recorded comes together on rank 0.

use super::or_end;
use crate::engine::Engine;
use crate::execute::{Doing, Event, Recording, RunError, Taken};
use serde::{Deserialize, Serialize};
use shardweave_compiler::host::StreamId;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::time::Duration;

/// What one rank recorded, as it goes to another.
#[derive(Serialize, Deserialize)]
struct Sent {
    /// Bytes sent by each device, for each move.
    moves: Vec<Vec<u64>>,
    events: Vec<SentEvent>,
    time: Duration,
}

#[derive(Serialize, Deserialize)]
struct SentEvent {
    device: usize,
    stream: Option<usize>,
    instr: usize,
    steps: Box<[u64]>,
    doing: u8,
    flops: u64,
    taken: Vec<(usize, u64, Duration)>,
    start: Duration,
    end: Duration,
}

const DOINGS: [Doing; 5] = [Doing::Compute, Doing::Copy, Doing::Link, Doing::Tell, Doing::Wait];

/// What all ranks recorded on rank 0, its own on the others. Times count from where each rank started.
pub(crate) fn together(engine: &dyn Engine, own: Recording) -> Result<Recording, RunError> {
    // What cannot be sent is missed on rank 0, after all have given theirs.
    let sent = serde_json::to_vec(&sent(&own)).unwrap_or_default();
    let gathered = or_end(engine, engine.gather(&sent), "where what was recorded comes together")?;
    let Some(all) = gathered else { return Ok(own) };
    let mut together = own;
    for bytes in all.iter().skip(1) {
        let other: Sent =
            serde_json::from_slice(bytes).map_err(|error| RunError::Engine(error.to_string()))?;
        for (sum, more) in together.moves.iter_mut().zip(other.moves) {
            sum.sent.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
        }
        together.time = together.time.max(other.time);
        together.events.extend(other.events.into_iter().map(received));
    }
    together.events.sort_by_key(|event| (event.device, event.stream, event.start));
    Ok(together)
}

fn sent(own: &Recording) -> Sent {
    let event = |event: &Event| SentEvent {
        device: event.device.index(),
        stream: event.stream.map(StreamId::index),
        instr: event.instr.index(),
        steps: event.steps.clone(),
        doing: DOINGS.iter().position(|&doing| doing == event.doing).expect("all are listed") as u8,
        flops: u64::try_from(event.flops).unwrap_or(u64::MAX),
        taken: event.taken.iter().map(|taken| (taken.from.index(), taken.bytes, taken.given)).collect(),
        start: event.start,
        end: event.end,
    };
    Sent {
        moves: own.moves.iter().map(|one| one.sent.clone()).collect(),
        events: own.events.iter().map(event).collect(),
        time: own.time,
    }
}

fn received(event: SentEvent) -> Event {
    let taken = |(from, bytes, given)| Taken { from: DeviceId::new(from), bytes, given };
    Event {
        device: DeviceId::new(event.device),
        stream: event.stream.map(StreamId::new),
        instr: Id::new(event.instr),
        steps: event.steps,
        doing: DOINGS.get(usize::from(event.doing)).copied().unwrap_or(Doing::Wait),
        flops: event.flops.into(),
        taken: event.taken.into_iter().map(taken).collect(),
        start: event.start,
        end: event.end,
    }
}
