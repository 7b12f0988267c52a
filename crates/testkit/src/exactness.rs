//! Which values of a program must come out bit for bit, whatever the order of its sums.
//!
//! ```text
//!   Whole     whole numbers: sums and products of them are exact in any order (while they are small)
//!   Fraction  each element rounded once from whole numbers: the same everywhere, but not its sums
//!   Loose     the order of a sum, or a function that is not rounded correctly, shows in the last bits
//! ```

use shardweave_compiler::id::Table;
use shardweave_compiler::op::{Map, Op, Reduce, Zip};
use shardweave_compiler::program::{Program, ValueId};
use shardweave_compiler::propagate::Placed;
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

/// How far a value is determined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Exactness {
    /// Whole numbers.
    Whole,
    /// Numbers that were rounded once.
    Fraction,
    /// Equal up to the tolerance of the type.
    Loose,
}

/// How far each value is determined when the inputs are these and values are placed so. Parts of what is rounded once are
/// each rounded, so their sum is not.
pub fn exactness(
    program: &Program,
    inputs: &BTreeMap<ValueId, Tensor>,
    placed: &Placed,
) -> Table<ValueId, Exactness> {
    let is_in_parts = |id: ValueId| placed.values[id].as_ref().is_some_and(|value| value.layout.is_partial());
    let mut known: Table<ValueId, Exactness> = Table::new();
    for (id, _) in program.values().iter() {
        let of_value = match program.apply(id) {
            None => inputs.get(&id).map_or(Exactness::Whole, of_input),
            Some(apply) => {
                let operands = apply.values().map(|operand| known[operand]);
                match after(&apply.op, operands.max().unwrap_or(Exactness::Whole)) {
                    Exactness::Fraction if is_in_parts(id) => Exactness::Loose,
                    exactness => exactness,
                }
            }
        };
        known.push(of_value);
    }
    known
}

fn of_input(tensor: &Tensor) -> Exactness {
    let whole = crate::case::fill::numbers(tensor).iter().all(|x| x.fract() == 0.0 || !x.is_finite());
    if whole { Exactness::Whole } else { Exactness::Fraction }
}

/// What an operation makes of operands that are so far determined.
pub fn after(op: &Op, operands: Exactness) -> Exactness {
    let elementwise = |at_least: Exactness| operands.max(at_least);
    let sums = || if operands == Exactness::Whole { Exactness::Whole } else { Exactness::Loose };
    match op {
        Op::Linear | Op::Matmul | Op::Einsum(_) | Op::Reduce(Reduce::Sum, _) => sums(),
        Op::Reduce(Reduce::Mean, _) => sums().max(Exactness::Fraction),
        Op::Zip(Zip::Div) | Op::Map(Map::Sqrt) => elementwise(Exactness::Fraction),
        Op::Full(..) => Exactness::Fraction,
        Op::Zip(Zip::Pow)
        | Op::Map(
            Map::Exp
            | Map::Log
            | Map::Rsqrt
            | Map::Sin
            | Map::Cos
            | Map::Tanh
            | Map::Sigmoid
            | Map::Silu
            | Map::Gelu
            | Map::GeluTanh,
        )
        | Op::Softmax(_)
        | Op::LogSoftmax(_)
        | Op::LayerNorm { .. }
        | Op::RmsNorm { .. }
        | Op::Summary(..)
        | Op::Finish(..) => Exactness::Loose,
        // Elements are moved, compared, or rounded as they were.
        Op::Map(Map::Neg | Map::Abs | Map::Square | Map::Relu | Map::Not)
        | Op::Cast(_)
        | Op::Zip(
            Zip::Add
            | Zip::Sub
            | Zip::Mul
            | Zip::Maximum
            | Zip::Minimum
            | Zip::Less
            | Zip::LessEqual
            | Zip::Greater
            | Zip::GreaterEqual
            | Zip::Equal
            | Zip::NotEqual
            | Zip::And
            | Zip::Or,
        )
        | Op::Where
        | Op::Reduce(Reduce::Max | Reduce::Min, _)
        | Op::ArgMax(_)
        | Op::Rearrange { .. }
        | Op::Rename(_)
        | Op::Slice { .. }
        | Op::Pad { .. }
        | Op::Concat { .. }
        | Op::Broadcast { .. }
        | Op::Iota(_)
        | Op::Embedding
        | Op::Reshard => operands,
    }
}
