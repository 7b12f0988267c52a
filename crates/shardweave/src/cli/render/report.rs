//! The explanation of a plan, for people.

use super::table::{Column, bold, bytes, dims, microseconds, table, wrapped};
use shardweave_compiler::report::Report;

/// Where values live, what moves and why, what else was possible, what it takes.
pub fn explanation(report: &Report) -> String {
    let mut text = format!("{}\n\n{}", title(report), values(report));
    if report.collectives.is_empty() {
        text.push_str("\nNothing moves between devices.\n");
    } else {
        text.push_str(&format!("\n{}", collectives(report)));
    }
    if !report.alternatives.is_empty() {
        text.push_str(&format!("\n{}", alternatives(report)));
    }
    text.push_str(&format!("\n{}", needs(report)));
    text + &notes(report)
}

/// What else is worth knowing.
pub fn notes(report: &Report) -> String {
    report.notes.iter().map(|note| wrapped("note: ", note)).collect()
}

/// `mlp, placement megatron, on 8 devices (dp = 2, tp = 4)`.
pub fn title(report: &Report) -> String {
    let Some(placement) = &report.placement else {
        return bold(&format!("{} on one device", report.program));
    };
    let axes: Vec<String> = report.mesh.iter().map(|(name, size)| format!("{name} = {size}")).collect();
    let devices = if report.devices == 1 { "1 device".into() } else { format!("{} devices", report.devices) };
    bold(&format!("{}, placement {placement}, on {devices} ({})", report.program, axes.join(", ")))
}

fn values(report: &Report) -> String {
    let columns = [
        Column::Text("value"),
        Column::Text("dims"),
        Column::Text("dtype"),
        Column::Text("placed"),
        Column::Number("per device"),
        Column::Text("why"),
    ];
    let rows = report.values.iter().map(|value| {
        [
            value.name.clone(),
            dims(&value.dims),
            value.dtype.to_owned(),
            value.placed.clone(),
            bytes(value.bytes_per_device),
            value.origin.clone(),
        ]
    });
    table(columns, rows)
}

fn collectives(report: &Report) -> String {
    let columns = [
        Column::Number("#"),
        Column::Text("collective"),
        Column::Text("value"),
        Column::Text("axes"),
        Column::Number("group"),
        Column::Number("steps"),
        Column::Text("overlap"),
        Column::Number("per device"),
        Column::Number("total"),
    ];
    let numbered = || (1..).zip(&report.collectives);
    let rows = numbered().map(|(number, collective): (u32, _)| {
        [
            number.to_string(),
            collective.kind.name().to_owned(),
            collective.subject.of(&collective.value),
            collective.axes.join(", "),
            collective.group.to_string(),
            collective.steps.to_string(),
            collective.overlap.name().to_owned(),
            bytes(collective.bytes_per_device),
            bytes(collective.bytes_total),
        ]
    });
    let reasons =
        numbered().map(|(number, collective)| wrapped(&format!("{number:>3} because "), &collective.because));
    format!("{}\n{}", table(columns, rows), reasons.collect::<String>())
}

fn alternatives(report: &Report) -> String {
    let columns = [
        Column::Text("for"),
        Column::Text("instead"),
        Column::Number("total"),
        Column::Number("time"),
        Column::Text("not chosen because"),
    ];
    let rows = report.alternatives.iter().map(|other| {
        [
            other.value.clone(),
            other.instead.clone(),
            bytes(other.bytes_total),
            microseconds(other.time_us),
            other.because.clone(),
        ]
    });
    table(columns, rows)
}

fn needs(report: &Report) -> String {
    let peak = bytes(report.peak_bytes_per_device);
    let sent: u128 = report.collectives.iter().map(|collective| u128::from(collective.bytes_total)).sum();
    let sent = bytes(u64::try_from(sent).unwrap_or(u64::MAX));
    format!(
        "{} per device in products, at most {peak} of memory per device, {sent} sent in all\n\
         about {} a run, as estimated\n",
        flops(report.flops_per_device),
        microseconds(report.time_us)
    )
}

/// `512 flop`, `1.5 Gflop`.
fn flops(count: u128) -> String {
    const UNITS: [&str; 6] = ["flop", "kflop", "Mflop", "Gflop", "Tflop", "Pflop"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 1000.0 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    if unit == 0 { format!("{count} flop") } else { format!("{value:.1} {}", UNITS[unit]) }
}
