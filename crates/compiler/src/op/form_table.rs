//! The operations that only forms have: the two sides of an operation along a dim that is cut.

use super::Summary;
use super::table::{Attributes, Family, OpRow, Operands, ResultDType, floats, numbers, view, with};

const fn of_part(summary: Summary, name: &'static str, doc: &'static str) -> OpRow {
    OpRow {
        attributes: Attributes::Dim,
        ..view(Family::Summary(summary), name, "* d -> d@part d@number *", doc)
    }
}

const fn from_parts(family: Family, name: &'static str, operands: Operands) -> OpRow {
    let row =
        view(family, name, "* d, ..., d@part d@number * -> * d", "From what is said of all parts of a dim.");
    floats(with(Attributes::Dim, operands, row))
}

/// Every operation that only forms have: those along a dim that is cut, in two steps.
pub const FORM_TABLE: &[OpRow] = &[
    floats(of_part(
        Summary::Exponentials,
        "exponentials_of_part",
        "Of the part of a dim: the largest element, and the sum of the exponentials of all less the largest.",
    )),
    floats(of_part(Summary::Squares, "squares_of_part", "Of the part of a dim: the sum of the squares.")),
    floats(of_part(
        Summary::Moments,
        "moments_of_part",
        "Of the part of a dim: count, mean, and the sums of the distances from it and of their squares.",
    )),
    OpRow {
        result: ResultDType::I64,
        ..numbers(of_part(
            Summary::Largest,
            "largest_of_part",
            "Of the part of a dim: the largest element, in the order of integers, and its index.",
        ))
    },
    from_parts(Family::FinishSoftmax, "softmax_from_parts", Operands::exactly(2)),
    from_parts(Family::FinishLogSoftmax, "log_softmax_from_parts", Operands::exactly(2)),
    OpRow {
        attributes: Attributes::DimAndEps,
        ..from_parts(Family::FinishLayerNorm, "layer_norm_from_parts", Operands::between(2, 4))
    },
    OpRow {
        attributes: Attributes::DimAndEps,
        ..from_parts(Family::FinishRmsNorm, "rms_norm_from_parts", Operands::between(2, 3))
    },
    numbers(OpRow {
        signature: "d@part d@number * -> *",
        ..from_parts(Family::FinishArgMax, "argmax_from_parts", Operands::exactly(1))
    }),
];
