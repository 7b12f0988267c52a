//! Measuring this machine: what a device computes and how fast two devices exchange, with all devices at
//! work.
//!
//! ```text
//!  products   each device   y = x w^T, nothing moves             flops of one device / the slowest one's time
//!  messages   0 ─▶ 1 ─▶ 2 ─▶ 0, then 0 ◀─ 1 ◀─ 2 ◀─ 0, and so on: one element       time of one such move
//!  copies     the same with many bytes                                        bytes of one device / that time
//! ```
//! Every device sends its piece to the next one and takes back the piece that came from it: in each move each sends to
//! one and takes from one.
//! Programs as any other do it, with recorded times: what is measured is what a run would see. Every number is
//! taken several times.

use shardweave_compiler::dtype::DType;
use shardweave_compiler::file::parse_file;
use shardweave_runtime::execute::{Doing, InstrId, Record, Recording, RunError};
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use std::fmt::Write;
use std::time::Duration;

/// Moves of one element that are timed as one after another: a clock is too coarse for a single one.
const MESSAGES: usize = 64;

/// Moves of many bytes that are timed so.
const COPIES: usize = 8;

/// How many bytes a device sends in each: more than caches near a core hold.
pub const COPY_BYTES: u64 = 16 << 20;

/// Runs before any is timed.
const WARM_UP: usize = 2;

/// What to measure.
#[derive(Clone, Copy, Debug)]
pub struct Wanted {
    /// How many devices, all at work.
    pub devices: u64,
    /// Rows, columns and summed elements of each device's product.
    pub product: [u64; 3],
    /// How often each number is taken.
    pub times: u32,
}

/// What was measured.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// GFLOP/s of one device.
    pub gigaflops: Spread,
    /// Microseconds of a message.
    pub latency_us: Spread,
    /// GB/s from one device to another.
    pub gigabytes_per_second: Spread,
}

/// A number that was taken several times.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Spread {
    pub median: f64,
    pub lowest: f64,
    pub highest: f64,
}

impl Spread {
    /// Of at least one number.
    fn of(mut numbers: Vec<f64>) -> Spread {
        numbers.sort_by(f64::total_cmp);
        let (last, middle) = (numbers.len() - 1, numbers.len() / 2);
        let median = (numbers[middle] + numbers[last - middle]) / 2.0;
        Spread { median, lowest: numbers[0], highest: numbers[last] }
    }
}

/// Measures one thing after another.
pub fn measure(wanted: &Wanted) -> Result<Measured, RunError> {
    let Wanted { devices, product: [m, n, k], times } = *wanted;
    let flops = 2.0 * m as f64 * n as f64 * k as f64;
    let products = products(devices);
    let inputs = [("x", vec![devices * m, k]), ("w", vec![n, k])];
    let gigaflops = take(&products, &inputs, times, |recording| flops / nanoseconds(slowest(recording)))?;
    let message = |recording: &Recording| nanoseconds(a_move(recording)) / 1e3;
    let latency_us = take(&chain(devices, MESSAGES), &[("x", vec![devices, 1])], times, message)?;
    let elements = COPY_BYTES / DType::F32.size();
    let speed = |recording: &Recording| COPY_BYTES as f64 / nanoseconds(a_move(recording));
    let gigabytes_per_second =
        take(&chain(devices, COPIES), &[("x", vec![devices, elements])], times, speed)?;
    Ok(Measured { gigaflops, latency_us, gigabytes_per_second })
}

/// Runs a program often and takes a number of each run.
fn take(
    text: &str,
    inputs: &[(&str, Vec<u64>)],
    times: u32,
    number: impl Fn(&Recording) -> f64,
) -> Result<Spread, RunError> {
    let (file, found) = parse_file(text, &[]);
    let ([program], [placement]) = (file.programs(), file.placements()) else {
        return Err(RunError::Broken(format!("what is measured is no program: {found}")));
    };
    let options = SessionOptions { record: Record::Times, ..SessionOptions::default() };
    let mut session = Session::new(program.clone(), Some(placement.clone()), options);
    let mut constants = Inputs::new();
    for (name, shape) in inputs {
        constants = constants.with(*name, RandomArray::new(0, name, DType::F32, shape));
    }
    session.bind_constants(&constants)?;
    let mut numbers = Vec::new();
    for run in 0..WARM_UP + times as usize {
        session.bind(&Inputs::new())?;
        session.execute()?;
        if run >= WARM_UP {
            numbers.push(number(session.recording()));
        }
    }
    Ok(Spread::of(numbers))
}

/// A product on each device.
fn products(devices: u64) -> String {
    format!(
        "mesh devices {{ d = {devices} }}\n\
         program products {{\ninput x: f32[m, k]\ninput w: f32[n, k]\ny = linear(x, w)\noutput y\n}}\n\
         placement each for products on devices {{\nx: m/d\nw: replicated\ny: m/d\n}}\n"
    )
}

/// Every device's piece goes to the next device and back, in so many moves and one more.
fn chain(devices: u64, moves: usize) -> String {
    let next: Vec<String> = (1..=devices).map(|device| (device % devices).to_string()).collect();
    let (mut body, mut places, mut before) = (String::new(), String::new(), "x".to_owned());
    for number in 0..=moves {
        let on = if number % 2 == 0 { " on next" } else { "" };
        // Writing to text does not fail.
        let _ = writeln!(body, "y{number} = reshard({before})");
        let _ = writeln!(places, "y{number}: r/d{on}");
        before = format!("y{number}");
    }
    format!(
        "mesh here {{ d = {devices} }}\nmesh next {{ d = {devices} }} devices [{}]\n\
         program chain {{\ninput x: f32[r, e]\n{body}output {before}\n}}\n\
         placement around for chain on here {{\nx: r/d\n{places}}}\n",
        next.join(", ")
    )
}

/// How long the slowest device computed.
fn slowest(recording: &Recording) -> Duration {
    let computed = recording.events.iter().filter(|event| event.doing == Doing::Compute);
    computed.map(|event| event.end - event.start).max().unwrap_or_default()
}

/// How long one of the moves took, on the mean: from the end of the first, so that nobody's start counts.
fn a_move(recording: &Recording) -> Duration {
    let end = |instr: InstrId| {
        let own = recording.events.iter().filter(|event| event.instr == instr);
        own.map(|event| event.end).max().unwrap_or_default()
    };
    match &recording.moves[..] {
        [first, .., last] => {
            let moves = recording.moves.len() as u32 - 1;
            end(last.instr).saturating_sub(end(first.instr)) / moves
        }
        _ => Duration::ZERO,
    }
}

/// At least one, so that a speed is a number.
fn nanoseconds(time: Duration) -> f64 {
    (time.as_nanos() as f64).max(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardweave_compiler::id::Id;
    use shardweave_compiler::mesh::DeviceId;

    #[test]
    fn a_spread_has_the_middle_and_both_ends() {
        let spread = |median, lowest, highest| Spread { median, lowest, highest };
        assert_eq!(Spread::of(vec![3.0]), spread(3.0, 3.0, 3.0));
        assert_eq!(Spread::of(vec![3.0, 1.0, 9.0]), spread(3.0, 1.0, 9.0));
        assert_eq!(Spread::of(vec![4.0, 1.0, 2.0, 9.0]), spread(3.0, 1.0, 9.0));
    }

    /// What is timed is what it is said to be: products that nothing moves for, and pieces that each go to
    /// the next device and back.
    #[test]
    fn products_do_not_move_and_chains_do_nothing_else() {
        for devices in [2, 3] {
            let bytes = |recording: &Recording| recording.moves.iter().map(|one| one.total() as f64).sum();
            let none = take(&products(devices), &[("x", vec![4 * devices, 3]), ("w", vec![5, 3])], 1, bytes);
            assert_eq!(none.unwrap().median, 0.0);
            let count = |recording: &Recording| {
                let all_permute = recording.moves.iter().all(|one| one.kind.name() == "permute");
                assert!(all_permute && recording.events.iter().all(|event| event.doing != Doing::Compute));
                for (number, one) in recording.moves.iter().enumerate() {
                    let of_it = recording.events.iter().filter(|event| event.instr == one.instr);
                    let taken: Vec<_> = of_it
                        .flat_map(|event| event.taken.iter().map(|taken| (event.device, taken.from)))
                        .collect();
                    let step = if number % 2 == 0 { devices - 1 } else { 1 };
                    let device = |at: u64| DeviceId::new((at % devices) as usize);
                    let expected = (0..devices).map(|at| (device(at), device(at + step)));
                    assert_eq!(
                        taken,
                        expected.collect::<Vec<_>>(),
                        "to the next device, then back: {number}"
                    );
                }
                recording.moves.len() as f64
            };
            let moves = take(&chain(devices, 5), &[("x", vec![devices, 7])], 1, count).unwrap();
            assert_eq!(moves.median, 6.0);
            let all = take(&chain(devices, 5), &[("x", vec![devices, 7])], 1, bytes).unwrap();
            assert_eq!(all.median, (6 * devices * 7 * 4) as f64);
        }
    }
}
