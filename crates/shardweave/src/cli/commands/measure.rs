//! `shardweave measure`: what this machine does, in the form in which `--link` and `--flops` take it. Nothing
//! else measures: plans are the same on every machine unless these flags are given.

use crate::args::{Format, MeasureArgs};
use crate::measuring::{self, Measured, Spread, Wanted};
use crate::render::{Column, bytes, result, table};
use serde_json::{Value, json};
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_runtime::execute::RunError;

/// Measures and tells.
pub fn run(args: &MeasureArgs) -> Result<(), Diagnostics> {
    let wanted = args.wanted();
    let measured = measuring::measure(&wanted).map_err(fault)?;
    let told = match args.format() {
        Format::Text => text(&wanted, &measured),
        Format::Json => json(&wanted, &measured).to_string(),
    };
    Ok(result(&told)?)
}

fn fault(error: RunError) -> Diagnostic {
    let told = |code| Diagnostic::general(code, error.to_string());
    match error {
        RunError::OutOfMemory { .. } => {
            told(Code::OutOfMemory).help("ask for fewer devices, or a smaller product")
        }
        RunError::TooLarge(_) => told(Code::TooLarge).help("ask for fewer devices, or a smaller product"),
        RunError::Threads(_) => told(Code::Threads).help("ask for fewer devices"),
        _ => told(Code::Fault),
    }
}

/// As `explain` and `run` take them.
fn flags(measured: &Measured) -> String {
    let Measured { gigaflops, latency_us, gigabytes_per_second } = measured;
    let [latency, speed, flops] = [latency_us, gigabytes_per_second, gigaflops].map(|of| short(of.median));
    format!("--link {latency},{speed} --flops {flops}")
}

fn text(wanted: &Wanted, measured: &Measured) -> String {
    let Wanted { devices, product: [m, n, k], times } = wanted;
    let columns = [
        Column::Text("what"),
        Column::Number("median"),
        Column::Number("lowest"),
        Column::Number("highest"),
        Column::Text("of"),
        Column::Text("taken from"),
    ];
    let row = |what: &str, of: &Spread, unit: &str, how: String| {
        [what.to_owned(), short(of.median), short(of.lowest), short(of.highest), unit.to_owned(), how]
    };
    let copied = bytes(measuring::COPY_BYTES);
    let rows = [
        row(
            "products",
            &measured.gigaflops,
            "GFLOP/s",
            format!("{m} x {k} times {k} x {n} on each device, f32"),
        ),
        row("latency", &measured.latency_us, "us", "an element from each device to the next, or back".into()),
        row(
            "copies",
            &measured.gigabytes_per_second,
            "GB/s",
            format!("{copied} from each device to the next, or back"),
        ),
    ];
    format!(
        "{devices} devices, each a thread of this process, all at work; each number taken {times} times\n\n{}\n{}\n",
        table(columns, rows),
        flags(measured)
    )
}

fn json(wanted: &Wanted, measured: &Measured) -> Value {
    let Wanted { devices, product: [m, n, k], times } = wanted;
    let spread = |of: &Spread| json!({ "median": of.median, "lowest": of.lowest, "highest": of.highest });
    json!({
        "devices": devices,
        "times": times,
        "product": { "m": m, "n": n, "k": k },
        "gflops": spread(&measured.gigaflops),
        "latency_us": spread(&measured.latency_us),
        "gigabytes_per_second": spread(&measured.gigabytes_per_second),
        "flags": flags(measured),
    })
}

/// A number above 0 with three digits that say something.
fn short(number: f64) -> String {
    let before_point = number.log10().floor() as i32 + 1;
    let decimals = usize::try_from(3 - before_point).unwrap_or(0);
    format!("{number:.decimals$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::Link;

    #[test]
    fn numbers_have_three_digits() {
        let told = [0.000_123_4, 0.5, 9.5, 12.345, 4567.8].map(short);
        assert_eq!(told, ["0.000123", "0.500", "9.50", "12.3", "4568"]);
    }

    #[test]
    fn the_flags_are_of_the_form_that_is_read() {
        let spread = |median| Spread { median, lowest: 0.0, highest: 1e9 };
        for (flops, latency, speed) in [(212.44, 1.987, 9.7), (1e-5, 12_345.6, 1e-4), (1e7, 0.001, 5e5)] {
            let measured = Measured {
                gigaflops: spread(flops),
                latency_us: spread(latency),
                gigabytes_per_second: spread(speed),
            };
            let told = flags(&measured);
            let [_, link, _, given] = told.split(' ').collect::<Vec<_>>()[..] else { panic!("{told}") };
            let link: Link = link.parse().unwrap();
            assert!((link.latency_us / latency - 1.0).abs() < 0.006, "{told}");
            assert!((link.gigabytes_per_second / speed - 1.0).abs() < 0.006, "{told}");
            assert!((given.parse::<f64>().unwrap() / flops - 1.0).abs() < 0.006, "{told}");
        }
    }
}
