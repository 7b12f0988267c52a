//! Operations along a dim that is cut: what every device says of its part, and how the operation is
//! finished from what all of them said.
//!
//! ```text
//!   y = softmax(x, e)      x: s, e/tp
//!
//!   p = exponentials_of_part(x, e)        [e@part, e@number, s] at e@part/tp   largest element, sum of exponentials
//!   p gathered: of all parts              [e@part, e@number, s]
//!   y = softmax_from_parts(x, p, e)       [s, e] at e/tp
//! ```
//!
//! Only a few numbers of each part move. The parts are combined in the order of the mesh, on every device
//! the same, so all devices go on with the same numbers. An empty part says what changes nothing.

use super::Op;

/// What a device says of its part of a dim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Summary {
    /// The largest element, and the sum of the exponentials of the elements less the largest.
    Exponentials,
    /// The sum of the squares.
    Squares,
    /// How many elements, their mean (rounded), the sum of their distances from it, and that of the squares of
    /// the distances.
    Moments,
    /// The largest element as an integer in the order of the elements (NaN above all), and its index.
    Largest,
}

impl Summary {
    /// How many numbers it is.
    pub fn numbers(self) -> u64 {
        match self {
            Summary::Exponentials | Summary::Largest => 2,
            Summary::Squares => 1,
            Summary::Moments => 4,
        }
    }

    /// What is said, for explanations.
    pub fn says(self) -> &'static str {
        match self {
            Summary::Exponentials => "the largest element and the sum of the exponentials",
            Summary::Squares => "the sum of the squares",
            Summary::Moments => {
                "the count, the mean and the sums of the distances from it and of their squares"
            }
            Summary::Largest => "the largest element and its index",
        }
    }
}

/// An operation as it is finished from what all parts said.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)] // the variants of `Op` of these names, documented there
pub enum Finish {
    Softmax,
    LogSoftmax,
    LayerNorm { eps: f64 },
    RmsNorm { eps: f64 },
    ArgMax,
}

impl Finish {
    /// What it needs of each part.
    pub fn summary(self) -> Summary {
        match self {
            Finish::Softmax | Finish::LogSoftmax => Summary::Exponentials,
            Finish::LayerNorm { .. } => Summary::Moments,
            Finish::RmsNorm { .. } => Summary::Squares,
            Finish::ArgMax => Summary::Largest,
        }
    }

    /// Whether it goes back to the elements; else what the parts said is all it needs.
    pub fn reads_elements(self) -> bool {
        self != Finish::ArgMax
    }
}

impl Op {
    /// How the operation is finished if the dim it works along is cut, and that dim; none if it does not
    /// work along one dim, or cannot be told from parts of it.
    pub fn from_parts(&self) -> Option<(Finish, &str)> {
        match self {
            Op::Softmax(dim) => Some((Finish::Softmax, dim)),
            Op::LogSoftmax(dim) => Some((Finish::LogSoftmax, dim)),
            Op::LayerNorm { dim, eps } => Some((Finish::LayerNorm { eps: *eps }, dim)),
            Op::RmsNorm { dim, eps } => Some((Finish::RmsNorm { eps: *eps }, dim)),
            Op::ArgMax(dim) => Some((Finish::ArgMax, dim)),
            _ => None,
        }
    }

    /// The dim that counts the numbers of a summary, with how many there are; none if the operation
    /// neither makes nor takes one.
    pub fn summary_numbers(&self) -> Option<(String, u64)> {
        match self {
            Op::Summary(summary, dim) => Some((number_dim(dim), summary.numbers())),
            Op::Finish(finish, dim) => Some((number_dim(dim), finish.summary().numbers())),
            _ => None,
        }
    }
}

/// The dim of a summary that counts the parts of `dim`.
pub fn part_dim(dim: &str) -> String {
    format!("{dim}@part")
}

/// The dim of a summary that counts its numbers.
pub fn number_dim(dim: &str) -> String {
    format!("{dim}@number")
}

/// Whether a dim counts the parts of `dim`.
pub fn is_part_dim(name: &str, dim: &str) -> bool {
    name.strip_prefix(dim) == Some("@part")
}

/// Whether a dim counts the parts of any dim: what has it is a summary.
pub fn is_any_part_dim(name: &str) -> bool {
    name.ends_with("@part")
}

/// Whether a dim counts the numbers of a summary along `dim`.
pub fn is_number_dim(name: &str, dim: &str) -> bool {
    name.strip_prefix(dim) == Some("@number")
}
