//! What `explain` tells: where every value lives and why, every collective with its cause and bytes,
//! what else was possible, and how much memory it takes. Data only; the command line prints it.

use crate::instr::Kind;
use crate::placement::Overlap;
use std::fmt;

/// The explanation of one plan. Fields are named as in the JSON of the language reference.
#[derive(Clone, PartialEq, Debug)]
pub struct Report {
    /// The program.
    pub program: String,
    /// The placement; none for one device.
    pub placement: Option<String>,
    /// The placement's mesh: axes and sizes, outermost first.
    pub mesh: Vec<(String, u64)>,
    /// How many devices the run has.
    pub devices: u64,
    /// Every value that an output needs, in program order.
    pub values: Vec<ValueReport>,
    /// Every collective, in the order they run.
    pub collectives: Vec<CollectiveReport>,
    /// Operations of matrix products (2mnk), the most of one device.
    pub flops_per_device: u128,
    /// Arguments, weights, results and temporaries that are alive at once, the most of one device.
    pub peak_bytes_per_device: u64,
    /// What a run is estimated to take, in microseconds: to compare placements by.
    pub time_us: f64,
    /// What was not chosen, with what it would cost.
    pub alternatives: Vec<Alternative>,
    /// Anything else worth knowing.
    pub notes: Vec<String>,
}

/// Where one value lives.
#[derive(Clone, PartialEq, Debug)]
pub struct ValueReport {
    /// The value's name.
    pub name: String,
    /// Names and global sizes.
    pub dims: Vec<(String, u64)>,
    /// The element type's name.
    pub dtype: &'static str,
    /// The layout as text.
    pub placed: String,
    /// `given`, or a sentence.
    pub origin: String,
    /// Bytes of the largest piece of a device.
    pub bytes_per_device: u64,
}

/// One collective of the plan, all its steps together.
#[derive(Clone, PartialEq, Debug)]
pub struct CollectiveReport {
    /// What moves.
    pub kind: Kind,
    /// The program's value that moves, or of which something moves.
    pub value: String,
    /// What of it.
    pub subject: Subject,
    /// The mesh axes along which it moves.
    pub axes: Vec<String>,
    /// How many devices take part in one group.
    pub group: u64,
    /// In how many steps it runs.
    pub steps: u64,
    /// How it runs beside computation.
    pub overlap: Overlap,
    /// Bytes sent, the most of one device over all steps.
    pub bytes_per_device: u64,
    /// Bytes sent by all devices over all steps.
    pub bytes_total: u64,
    /// Why it is needed.
    pub because: String,
}

/// What of a value moves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Subject {
    /// The value itself.
    Value,
    /// What devices say of their parts of a dim, before the value is there.
    Summary,
}

impl Subject {
    /// `y`, `summary of y`: what moves, where text speaks of it.
    pub fn of(self, value: &str) -> String {
        match self {
            Subject::Value => value.into(),
            Subject::Summary => format!("summary of {value}"),
        }
    }
}

impl fmt::Display for CollectiveReport {
    /// `all_gather of x over tp: 96 bytes, linear needs all of s`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectiveReport { kind, value, subject, axes, bytes_total, because, .. } = self;
        let (kind, subject) = (kind.name(), subject.of(value));
        write!(f, "{kind} of {subject} over {}: {bytes_total} bytes, {because}", axes.join(", "))
    }
}

/// A way that was not taken.
#[derive(Clone, PartialEq, Debug)]
pub struct Alternative {
    /// The value whose operation could have run otherwise; several, with commas, if they were tried together.
    pub value: String,
    /// What would be done instead.
    pub instead: String,
    /// The bytes that way would send, of all devices.
    pub bytes_total: u64,
    /// Of another layout of the operation what it would cost, of another way to overlap what the whole run is
    /// estimated to take, in microseconds.
    pub time_us: f64,
    /// Why it was not taken.
    pub because: String,
}

/// How much more time a way takes than the one that was taken.
pub(crate) fn takes_more(other: f64, best: f64) -> String {
    let more = other - best;
    match number(more).as_str() {
        "0.0" => format!("less than 0.1 us more ({} in all)", number(other)),
        more => format!("{more} us more ({} instead of {})", number(other), number(best)),
    }
}

/// A time in microseconds as text; beyond any use with an exponent.
fn number(time: f64) -> String {
    if time.abs() < 1e9 { format!("{time:.1}") } else { format!("{time:.1e}") }
}
