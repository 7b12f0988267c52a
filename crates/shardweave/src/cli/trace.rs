//! `--trace`: what ran when, for a viewer of Chrome traces (`chrome://tracing`, Perfetto).
//!
//! A process is a device, a thread is one of its streams; each part of an instruction is a bar with its
//! name and duration in microseconds.

use serde_json::{Value, json};
use shardweave_compiler::id::Id;
use shardweave_runtime::execute::{Doing, Event, Recording};
use std::collections::BTreeSet;

/// The trace as JSON.
pub fn chrome(recording: &Recording) -> String {
    let devices: BTreeSet<usize> = recording.events.iter().map(|event| event.device.index()).collect();
    let names = devices.into_iter().map(|device| {
        json!({ "name": "process_name", "ph": "M", "pid": device, "args": { "name": format!("device {device}") } })
    });
    let bars = recording.events.iter().map(|event| bar(recording, event));
    json!({ "traceEvents": names.chain(bars).collect::<Vec<Value>>(), "displayTimeUnit": "ms" }).to_string()
}

fn bar(recording: &Recording, event: &Event) -> Value {
    let microseconds = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let doing = match event.doing {
        Doing::Compute => "compute",
        Doing::Copy => "copy",
        Doing::Wait => "wait",
    };
    json!({
        "name": recording.instrs[event.instr],
        "cat": doing,
        "ph": "X",
        "ts": microseconds(event.start),
        "dur": microseconds(event.end.saturating_sub(event.start)),
        "pid": event.device.index(),
        "tid": event.stream.map_or(0, |stream| stream.index()),
        "args": { "doing": doing },
    })
}
