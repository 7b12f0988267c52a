//! Results for programs: the fields stand in the order of the language reference.

use serde_json::{Map, Value, json};
use shardweave_compiler::report::{Alternative, CollectiveReport, Report, ValueReport};

/// What `explain --json` prints.
pub fn explanation(report: &Report) -> Map<String, Value> {
    let values = report.values.iter().map(|v| (v.name.clone(), value(v)));
    let fields = json!({
        "program": report.program,
        "placement": report.placement,
        "mesh": sizes(&report.mesh),
        "devices": report.devices,
        "values": values.collect::<Map<_, _>>(),
        "collectives": report.collectives.iter().map(collective).collect::<Vec<_>>(),
        "flops_per_device": integer(report.flops_per_device),
        "peak_bytes_per_device": report.peak_bytes_per_device,
        "time_us": report.time_us,
        "alternatives": report.alternatives.iter().map(alternative).collect::<Vec<_>>(),
        "notes": report.notes,
    });
    match fields {
        Value::Object(fields) => fields,
        _ => unreachable!("written as an object above"),
    }
}

/// `{"b": 2, "s": 128}`.
pub fn sizes(sizes: &[(String, u64)]) -> Value {
    sizes.iter().map(|(name, size)| (name.clone(), json!(size))).collect::<Map<_, _>>().into()
}

fn value(value: &ValueReport) -> Value {
    json!({
        "dims": sizes(&value.dims),
        "dtype": value.dtype,
        "placed": value.placed,
        "origin": value.origin,
    })
}

fn collective(collective: &CollectiveReport) -> Value {
    json!({
        "kind": collective.kind.name(),
        "value": collective.value,
        "axes": collective.axes,
        "group": collective.group,
        "steps": collective.steps,
        "overlap": collective.overlap.name(),
        "bytes_per_device": collective.bytes_per_device,
        "bytes_total": collective.bytes_total,
        "because": collective.because,
    })
}

fn alternative(other: &Alternative) -> Value {
    json!({
        "value": other.value,
        "instead": other.instead,
        "bytes_total": other.bytes_total,
        "time_us": other.time_us,
        "because": other.because,
    })
}

/// JSON numbers here have 64 bits; what is larger is given as a float.
fn integer(count: u128) -> Value {
    match u64::try_from(count) {
        Ok(count) => json!(count),
        Err(_) => json!(count as f64),
    }
}
