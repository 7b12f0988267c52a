//! How devices spent a run: what of it they computed, communicated and waited.
//!
//! ```text
//!  compute         ├── linear ──┤           ├─ linear ─┤
//!  communication        ├─ all_gather ─┤
//!  hidden               ├───────┤
//!  waiting      ──┤                     ├───┤          ├──
//! ```
//! So computing + communicating - hidden + waiting is the run.

use super::{Doing, Event, Recording};
use shardweave_compiler::instr::Kind;
use shardweave_compiler::mesh::DeviceId;
use std::collections::BTreeMap;
use std::time::Duration;

/// How a device spent a run.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Spent {
    /// Which device.
    pub device: DeviceId,
    /// It computed, or copied what it held itself.
    pub computing: Duration,
    /// It took elements from others, also while the link that is played held it up.
    pub communicating: Duration,
    /// It communicated while it computed.
    pub hidden: Duration,
    /// It did neither.
    pub waiting: Duration,
}

impl Recording {
    /// How each device spent the run, devices in order. Only [`Record::Times`](super::Record::Times) can tell.
    pub fn spent(&self) -> Vec<Spent> {
        let mut busy: BTreeMap<DeviceId, Busy> = BTreeMap::new();
        for event in &self.events {
            let busy = busy.entry(event.device).or_default();
            match event.doing {
                Doing::Compute => busy.computing.push((event.start, event.end)),
                Doing::Copy | Doing::Link if self.communicates(event) => {
                    busy.communicating.push((event.start, event.end));
                }
                Doing::Copy | Doing::Link => busy.computing.push((event.start, event.end)),
                Doing::Tell | Doing::Wait => {}
            }
        }
        let spent = busy.into_iter().map(|(device, busy)| {
            let (computing, communicating) = (merged(busy.computing), merged(busy.communicating));
            let hidden = common(&computing, &communicating);
            let (computing, communicating) = (total(&computing), total(&communicating));
            let waiting = self.time.saturating_sub((computing + communicating).saturating_sub(hidden));
            Spent { device, computing, communicating, hidden, waiting }
        });
        spent.collect()
    }

    /// Whether an event is a part of a move between devices.
    pub fn communicates(&self, event: &Event) -> bool {
        self.instrs[event.instr].kind.is_some_and(Kind::communicates)
    }
}

/// From when to when.
type Span = (Duration, Duration);

/// When a device was busy, in any order.
#[derive(Default)]
struct Busy {
    computing: Vec<Span>,
    communicating: Vec<Span>,
}

/// The same times in order, none of which meets another.
fn merged(mut spans: Vec<Span>) -> Vec<Span> {
    spans.sort();
    let mut merged: Vec<Span> = Vec::new();
    for (start, end) in spans {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}

fn total(spans: &[Span]) -> Duration {
    spans.iter().map(|(start, end)| *end - *start).sum()
}

/// How long both are; each is merged.
fn common(mut some: &[Span], mut others: &[Span]) -> Duration {
    let mut time = Duration::ZERO;
    while let ([one, rest @ ..], [other, other_rest @ ..]) = (some, others) {
        time += one.1.min(other.1).saturating_sub(one.0.max(other.0));
        if one.1 <= other.1 { some = rest } else { others = other_rest }
    }
    time
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::execute::{Instr, InstrId};
    use shardweave_compiler::host::StreamId;
    use shardweave_compiler::id::Id;

    const LINEAR: usize = 0;
    const GATHER: usize = 1;
    const COPY: usize = 2;

    /// What devices did: which, on which stream, at which instruction, what, from when to when.
    fn recording(time: u64, did: &[(usize, usize, usize, Doing, u64, u64)]) -> Recording {
        let instr = |kind| Instr {
            text: String::new(),
            name: String::new(),
            stream: StreamId::new(0),
            value: None,
            kind,
        };
        let event =
            |&(device, stream, instr, doing, start, end): &(usize, usize, usize, Doing, u64, u64)| Event {
                device: DeviceId::new(device),
                stream: Some(StreamId::new(stream)),
                instr: InstrId::new(instr),
                steps: [].into(),
                doing,
                flops: 0,
                taken: Vec::new(),
                start: Duration::from_micros(start),
                end: Duration::from_micros(end),
            };
        Recording {
            moves: Vec::new(),
            events: did.iter().map(event).collect(),
            instrs: [None, Some(Kind::AllGather), Some(Kind::Local)].map(instr).into_iter().collect(),
            time: Duration::from_micros(time),
        }
    }

    fn microseconds(recording: &Recording) -> Vec<[u128; 4]> {
        let of = |spent: Spent| {
            [spent.computing, spent.communicating, spent.hidden, spent.waiting].map(|time| time.as_micros())
        };
        recording.spent().into_iter().map(of).collect()
    }

    #[test]
    fn what_is_hidden_is_what_runs_beside_a_computation() {
        let did = [
            (0, 0, LINEAR, Doing::Compute, 10, 40),
            (0, 0, LINEAR, Doing::Compute, 50, 60),
            (0, 1, GATHER, Doing::Tell, 0, 1),
            (0, 1, GATHER, Doing::Wait, 1, 30),
            // 10 beside the first, the link 10 beside the second and 25 beside nothing.
            (0, 1, GATHER, Doing::Copy, 30, 45),
            (0, 1, GATHER, Doing::Link, 45, 80),
        ];
        assert_eq!(microseconds(&recording(100, &did)), [[40, 50, 20, 30]]);
    }

    #[test]
    fn each_device_is_on_its_own_and_its_own_copies_are_no_communication() {
        let did = [
            (0, 0, LINEAR, Doing::Compute, 0, 50),
            (1, 1, GATHER, Doing::Copy, 0, 50),
            (1, 1, COPY, Doing::Copy, 50, 60),
            (2, 0, LINEAR, Doing::Wait, 0, 50),
        ];
        assert_eq!(microseconds(&recording(60, &did)), [[50, 0, 0, 10], [10, 50, 0, 0], [0, 0, 0, 60]]);
    }

    #[test]
    fn what_runs_on_two_streams_at_once_counts_once() {
        let did = [
            (0, 0, LINEAR, Doing::Compute, 0, 30),
            (0, 1, COPY, Doing::Copy, 20, 40),
            (0, 1, GATHER, Doing::Copy, 40, 50),
        ];
        assert_eq!(microseconds(&recording(50, &did)), [[40, 10, 0, 0]]);
        assert_eq!(microseconds(&recording(50, &[])), [[0; 4]; 0]);
    }
}
