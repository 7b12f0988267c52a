//! Which operations may work on parts that are still to be combined.
//!
//! With parts `a`, `b` of a sum: `f(a + b) = f(a) + f(b)` holds for a scale, a product with a value
//! that is whole, and everything that only moves elements; it does not hold for an added number or any
//! other function. Sums of parts are added part by part. Moving elements passes any operator.
//!
//! One thing is not kept: the sign of a zero. A part that holds nothing of a sum is -0, which changes nothing;
//! its negative is 0, which makes a sum of -0 a 0. No function of an element could do better, for a part
//! that is -0 because it holds nothing cannot be told from one that holds -0. Where signs of zeros matter,
//! pin the operand to be whole.

use super::{Map, Op, Reduce, Zip};
use crate::dtype::{Combine, Number};

/// Which operands must be partial in the same way for the result to be partial.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Passes {
    /// This one alone; no other operand may be partial.
    Alone,
    /// All operands that are values together.
    Together,
}

/// Whether parts combined by `combine` pass through the operation when operand `operand` has them.
pub fn passes(op: &Op, operand: usize, combine: Combine) -> Option<Passes> {
    let sums = combine == Combine::Sum;
    match op {
        Op::Rearrange { .. } | Op::Rename(_) | Op::Slice { .. } | Op::Broadcast { .. } | Op::Reshard => {
            Some(Passes::Alone)
        }
        Op::Concat { .. } => Some(Passes::Together),
        Op::Pad { .. } if sums => Some(Passes::Alone),
        Op::Map(Map::Neg) if sums => Some(Passes::Alone),
        Op::Zip(Zip::Mul) if sums => Some(Passes::Alone),
        Op::Zip(Zip::Div) if sums && operand == 0 => Some(Passes::Alone),
        Op::Zip(Zip::Add | Zip::Sub) if sums => Some(Passes::Together),
        Op::Zip(Zip::Maximum) if combine == Combine::Max => Some(Passes::Together),
        Op::Zip(Zip::Minimum) if combine == Combine::Min => Some(Passes::Together),
        Op::Reduce(Reduce::Sum | Reduce::Mean, _) if sums => Some(Passes::Alone),
        Op::Reduce(Reduce::Max, _) if combine == Combine::Max => Some(Passes::Alone),
        Op::Reduce(Reduce::Min, _) if combine == Combine::Min => Some(Passes::Alone),
        Op::Linear | Op::Matmul if sums && operand < 2 => Some(Passes::Alone),
        Op::Einsum(_) if sums => Some(Passes::Alone),
        _ => None,
    }
}

/// Whether parts may meet this number where [`passes`] lets them pass. Most devices may hold zero as
/// their part, and zero times infinity or divided by zero is not a number, though the sum is none of these.
pub fn number_passes(op: &Op, number: Number) -> bool {
    match op {
        Op::Zip(Zip::Mul) => number.as_f64().is_finite(),
        Op::Zip(Zip::Div) => number.as_f64() != 0.0,
        _ => true,
    }
}
