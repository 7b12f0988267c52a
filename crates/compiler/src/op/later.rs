//! What of an operation is left until its parts are combined.
//!
//! ```text
//!   y = linear(x, w, b)   x: k/tp, w: k/tp      linear(x, w) on pieces ── combined over tp ──▶ add(_, b)
//!   m = mean(x, e)        x: e/tp               sum(x, e) on pieces ──── combined over tp ──▶ div(_, size of e)
//! ```
//!
//! A bias that every device added would count once for each part, and a mean that every device divided
//! would be rounded part by part.

use super::{Op, Reduce};
use crate::layout::Layout;

/// What completes an operation after its parts are combined.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Later<'a> {
    /// The operation runs as it is.
    Nothing,
    /// The operand at this position, the last, is added.
    Bias {
        /// Its position.
        operand: usize,
    },
    /// The sum is divided by the number of the elements.
    Division {
        /// The dims that are summed.
        dims: &'a [String],
    },
}

/// What is left of an operation on so many operands whose pieces give its result in the layout `natural`.
pub fn completed_later<'a>(op: &'a Op, operands: usize, natural: &Layout) -> Later<'a> {
    if natural.is_partial() { completed_after_parts(op, operands) } else { Later::Nothing }
}

/// What is left of an operation on so many operands until its parts are combined.
pub fn completed_after_parts(op: &Op, operands: usize) -> Later<'_> {
    match op {
        Op::Linear if operands == 3 => Later::Bias { operand: 2 },
        Op::Reduce(Reduce::Mean, dims) => Later::Division { dims },
        _ => Later::Nothing,
    }
}
