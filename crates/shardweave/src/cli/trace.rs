//! `--trace`: what ran when, for a viewer of Chrome traces (`chrome://tracing`, Perfetto).
//!
//! ```text
//!  process  device 0
//!  track      compute          |linear y|        |linear y|
//!  track      communication    |tell|all_gather x|wait|
//!                                 \  arrow, from where a device gives to where another one takes
//!  process  device 1               \
//!  track      communication    |wait|all_gather x|
//! ```
//! Each part of an instruction is a bar with its start and duration in microseconds. What is under way over a
//! link that is played has a track of its own, for its stream goes on beside it.

use serde_json::{Map, Value, json};
use shardweave_compiler::host::StreamId;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_runtime::execute::{Doing, Event, Recording};
use std::collections::BTreeSet;
use std::time::Duration;

/// The trace as JSON.
pub fn chrome(recording: &Recording) -> String {
    let tracks: BTreeSet<(DeviceId, Track)> =
        recording.events.iter().map(|event| (event.device, Track::of(recording, event))).collect();
    let devices: BTreeSet<DeviceId> = tracks.iter().map(|(device, _)| *device).collect();
    let processes = devices.into_iter().map(|device| {
        let args = json!({ "name": format!("device {}", device.index()) });
        json!({ "name": "process_name", "ph": "M", "pid": device.index(), "args": args })
    });
    let threads = tracks.into_iter().map(|(device, track)| {
        let (tid, args) = (track.number(recording), json!({ "name": track.name(recording) }));
        json!({ "name": "thread_name", "ph": "M", "pid": device.index(), "tid": tid, "args": args })
    });
    let mut events: Vec<Value> = processes.chain(threads).collect();
    events.extend(recording.events.iter().map(|event| bar(recording, event)));
    let arrows =
        recording.events.iter().flat_map(|event| event.taken.iter().map(move |taken| (event, taken)));
    for (id, (event, taken)) in arrows.enumerate() {
        let instr = &recording.instrs[event.instr];
        let end = |phase: &str, device: DeviceId, time: Duration| {
            json!({
                "name": instr.name,
                "cat": "arrow",
                "ph": phase,
                "id": id,
                "ts": microseconds(time),
                "pid": device.index(),
                "tid": instr.stream.index(),
                "args": { "bytes": taken.bytes },
            })
        };
        let mut there = end("f", event.device, event.start);
        there["bp"] = "e".into(); // to the bar that is there, not to the next one
        events.extend([end("s", taken.from, taken.given), there]);
    }
    json!({ "traceEvents": events, "displayTimeUnit": "ms" }).to_string()
}

/// A row of bars of a device.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Track {
    /// What a stream does.
    Stream(StreamId),
    /// What a stream has under way over a link that is played.
    Link(StreamId),
}

impl Track {
    fn of(recording: &Recording, event: &Event) -> Track {
        let stream = recording.instrs[event.instr].stream;
        if event.doing == Doing::Link { Track::Link(stream) } else { Track::Stream(stream) }
    }

    /// Streams first.
    fn number(self, recording: &Recording) -> usize {
        let streams = || recording.instrs.values().map(|instr| instr.stream.index() + 1).max().unwrap_or(0);
        match self {
            Track::Stream(stream) => stream.index(),
            Track::Link(stream) => streams() + stream.index(),
        }
    }

    fn name(self, recording: &Recording) -> String {
        match self {
            Track::Stream(stream) => stream_name(recording, stream).to_owned(),
            Track::Link(stream) => format!("{}, simulated link", stream_name(recording, stream)),
        }
    }
}

/// What the instructions of a stream do.
fn stream_name(recording: &Recording, stream: StreamId) -> &'static str {
    let of_stream = |event: &&Event| recording.instrs[event.instr].stream == stream;
    let own = || recording.events.iter().filter(of_stream);
    let computes = own().any(|event| event.doing == Doing::Compute);
    match (computes, own().any(|event| recording.communicates(event))) {
        (true, true) => "compute and communication",
        (false, true) => "communication",
        (_, false) => "compute",
    }
}

fn bar(recording: &Recording, event: &Event) -> Value {
    let instr = &recording.instrs[event.instr];
    let (doing, name) = match event.doing {
        Doing::Compute => ("compute", instr.name.clone()),
        Doing::Copy => ("copy", instr.name.clone()),
        Doing::Link => ("link", format!("{}, simulated link", instr.name)),
        Doing::Tell => ("tell", format!("tell {}", instr.name)),
        Doing::Wait => ("wait", format!("wait {}", instr.name)),
    };
    let mut args = Map::new();
    args.insert("doing".into(), doing.into());
    args.insert("instruction".into(), instr.text.as_str().into());
    if !event.steps.is_empty() {
        let steps: Vec<String> = event.steps.iter().map(u64::to_string).collect();
        args.insert("step".into(), steps.join(", ").into());
    }
    if event.flops > 0 {
        args.insert("flops".into(), u64::try_from(event.flops).unwrap_or(u64::MAX).into());
    }
    if event.doing == Doing::Copy {
        let bytes: u64 = event.taken.iter().map(|taken| taken.bytes).sum();
        args.insert("bytes".into(), bytes.into());
    }
    json!({
        "name": name,
        "cat": doing,
        "ph": "X",
        "ts": microseconds(event.start),
        "dur": microseconds(event.end.saturating_sub(event.start)),
        "pid": event.device.index(),
        "tid": Track::of(recording, event).number(recording),
        "args": args,
    })
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
