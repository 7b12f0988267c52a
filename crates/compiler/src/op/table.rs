//! The table of operations: one row a name. Parsing, printing, type rules and the documentation read
//! it; to add an elementwise operation is to add its variant, its row and its kernel. Operations that only
//! forms have stand in `form_table`.

use super::{Map, Reduce, Summary, Zip};

/// An operation without its attributes: what a row is about.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)] // the variants of `Op`, each documented there
pub enum Family {
    Linear,
    Matmul,
    Einsum,
    Map(Map),
    Cast,
    Zip(Zip),
    Where,
    Reduce(Reduce),
    ArgMax,
    Softmax,
    LogSoftmax,
    LayerNorm,
    RmsNorm,
    Rearrange,
    Rename,
    Slice,
    Pad,
    Concat,
    Broadcast,
    Iota,
    Full,
    Embedding,
    Reshard,
    Summary(Summary),
    FinishSoftmax,
    FinishLogSoftmax,
    FinishLayerNorm,
    FinishRmsNorm,
    FinishArgMax,
}

/// How the attributes stand among the operands `x...` of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Attributes {
    /// `name(x...)`
    None,
    /// `name("pattern", x...)`
    Pattern,
    /// `name(x, "pattern", n=12, ...)`
    PatternAndSizes,
    /// `name(x, dtype)`
    DType,
    /// `name(x, d)`
    Dim,
    /// `name(x, d, ...)`
    Dims,
    /// `name(x..., d, eps=1e-5)`; without `eps` it is 1e-5.
    DimAndEps,
    /// `name(x, s -> t, ...)`
    Renames,
    /// `name(x, d -> t, first, second)`
    Extent,
    /// `name(t, x...)`
    NewName,
    /// `name(x, d=4)` or `name(x, d)`
    NewDim,
    /// `name(d)`
    DimAlone,
    /// `name(number, dtype)`
    NumberAndDType,
}

/// Which element types the operands may have. Where nothing else is said they have one type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DTypes {
    /// There is no operand.
    None,
    /// Any one type.
    Any,
    /// A float.
    Floats,
    /// A float or an integer.
    Numbers,
    /// `bool`.
    Bools,
    /// The first is `bool`, the others are of any one type.
    Condition,
    /// The first is an integer, the second of any type.
    Ids,
}

/// Which element type the result has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ResultDType {
    /// That of the last operand that is a value.
    Operands,
    /// `bool`.
    Bool,
    /// `i64`.
    I64,
    /// The one that is written in the call.
    Written,
}

/// Whether the result may be stored where an operand was, if both have the same pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Overwrite {
    /// Each element depends on the same element of each operand.
    Allowed,
    /// An element is read after others are written.
    Forbidden,
}

/// How many operands an operation has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Operands {
    /// The least number.
    pub least: usize,
    /// The greatest number; without one, as many as one likes.
    pub most: Option<usize>,
}

impl Operands {
    pub(super) const fn exactly(count: usize) -> Operands {
        Operands::between(count, count)
    }

    pub(super) const fn between(least: usize, most: usize) -> Operands {
        Operands { least, most: Some(most) }
    }

    pub(super) const fn at_least(least: usize) -> Operands {
        Operands { least, most: None }
    }
}

/// One row of the table.
#[derive(Clone, Copy, Debug)]
pub struct OpRow {
    /// The operation's name in every text form.
    pub name: &'static str,
    /// What the row is about.
    pub family: Family,
    /// The dims of the operands and the result: `*` are dims that all have in common or that pass
    /// through, `+` dims that the operands bring together.
    pub signature: &'static str,
    /// How many operands it has.
    pub operands: Operands,
    /// Which operands may be a number; at most one at a time is.
    pub number_at: &'static [usize],
    /// How the attributes are written.
    pub attributes: Attributes,
    /// Which element types are allowed.
    pub dtypes: DTypes,
    /// The result's element type.
    pub result: ResultDType,
    /// Whether the result may take an operand's place.
    pub overwrite: Overwrite,
    /// What it does, for the documentation.
    pub doc: &'static str,
}

impl OpRow {
    /// Whether a call may have these operands; `numbers` says for each whether it is a number. The
    /// reason why not goes on after the operation's name.
    pub fn check_operands(&self, numbers: &[bool]) -> Result<(), String> {
        let Operands { least, most } = self.operands;
        let given = numbers.len();
        if given < least || most.is_some_and(|most| given > most) {
            let takes = match most {
                None => format!("at least {least}"),
                Some(most) if least == most => format!("{least}"),
                Some(most) if least + 1 == most => format!("{least} or {most}"),
                Some(most) => format!("{least} to {most}"),
            };
            let noun = if takes == "1" || takes == "at least 1" { "operand" } else { "operands" };
            return Err(format!("takes {takes} {noun}, not {given}"));
        }
        let mut at = numbers.iter().enumerate().filter(|(_, is_number)| **is_number).map(|(i, _)| i);
        match (at.next(), at.next()) {
            (None, _) => Ok(()),
            (Some(_), _) if self.number_at.is_empty() => Err("takes no number as an operand".into()),
            (Some(_), Some(_)) => Err("takes at most one number".into()),
            (Some(i), None) if !self.number_at.contains(&i) => {
                Err(format!("takes no number as operand {}", i + 1))
            }
            _ => Ok(()),
        }
    }
}

const fn map(map: Map, name: &'static str, doc: &'static str) -> OpRow {
    OpRow {
        name,
        family: Family::Map(map),
        signature: "* -> *",
        operands: Operands::exactly(1),
        number_at: &[],
        attributes: Attributes::None,
        dtypes: DTypes::Floats,
        result: ResultDType::Operands,
        overwrite: Overwrite::Allowed,
        doc,
    }
}

const fn zip(zip: Zip, name: &'static str, dtypes: DTypes, doc: &'static str) -> OpRow {
    let result = if zip.is_comparison() { ResultDType::Bool } else { ResultDType::Operands };
    OpRow {
        family: Family::Zip(zip),
        signature: "+, + -> +",
        operands: Operands::exactly(2),
        number_at: &[0, 1],
        dtypes,
        result,
        ..map(Map::Neg, name, doc)
    }
}

pub(super) const fn view(
    family: Family,
    name: &'static str,
    signature: &'static str,
    doc: &'static str,
) -> OpRow {
    OpRow {
        family,
        signature,
        dtypes: DTypes::Any,
        overwrite: Overwrite::Forbidden,
        ..map(Map::Neg, name, doc)
    }
}

const fn reduce(reduce: Reduce, name: &'static str, dtypes: DTypes, doc: &'static str) -> OpRow {
    OpRow { attributes: Attributes::Dims, dtypes, ..view(Family::Reduce(reduce), name, "* d -> *", doc) }
}

pub(super) const fn numbers(row: OpRow) -> OpRow {
    OpRow { dtypes: DTypes::Numbers, ..row }
}

pub(super) const fn floats(row: OpRow) -> OpRow {
    OpRow { dtypes: DTypes::Floats, ..row }
}

pub(super) const fn with(attributes: Attributes, operands: Operands, row: OpRow) -> OpRow {
    OpRow { attributes, operands, ..row }
}

/// Every operation of programs.
pub const TABLE: &[OpRow] = &[
    // products
    floats(with(
        Attributes::None,
        Operands::between(2, 3),
        view(
            Family::Linear,
            "linear",
            "* k, n k, n -> * n",
            "Contracts the last dim of the first operand with the same-named dim of the second; the third, a bias, is added once.",
        ),
    )),
    floats(with(
        Attributes::None,
        Operands::exactly(2),
        view(
            Family::Matmul,
            "matmul",
            "* k, k n -> * n",
            "Contracts the last dim of the first operand with the same-named dim of the second.",
        ),
    )),
    floats(with(
        Attributes::Pattern,
        Operands::at_least(1),
        view(
            Family::Einsum,
            "einsum",
            "pattern",
            "Multiplies all operands and sums over the dims that the pattern's right side leaves out.",
        ),
    )),
    // element by element on one operand
    numbers(map(Map::Neg, "neg", "The value with its sign changed.")),
    numbers(map(Map::Abs, "abs", "The value without its sign.")),
    map(Map::Exp, "exp", "e to the power of the value."),
    map(Map::Log, "log", "The natural logarithm."),
    map(Map::Sqrt, "sqrt", "The square root."),
    map(Map::Rsqrt, "rsqrt", "1 over the square root."),
    numbers(map(Map::Square, "square", "The value times itself.")),
    map(Map::Sin, "sin", "The sine."),
    map(Map::Cos, "cos", "The cosine."),
    map(Map::Tanh, "tanh", "The hyperbolic tangent."),
    map(Map::Sigmoid, "sigmoid", "1 / (1 + exp(-x))."),
    numbers(map(Map::Relu, "relu", "The value where it is positive, else 0.")),
    map(Map::Silu, "silu", "x times sigmoid(x)."),
    map(Map::Gelu, "gelu", "x times the normal distribution's share below x, by the error function."),
    map(Map::GeluTanh, "gelu_tanh", "`gelu` by its approximation with tanh."),
    OpRow { dtypes: DTypes::Bools, ..map(Map::Not, "not", "True where the operand is not.") },
    OpRow {
        attributes: Attributes::DType,
        dtypes: DTypes::Any,
        result: ResultDType::Written,
        family: Family::Cast,
        ..map(
            Map::Neg,
            "cast",
            "The same values in another element type, as Rust's `as`; to bool it is `!= 0`.",
        )
    },
    // element by element on several operands
    zip(Zip::Add, "add", DTypes::Numbers, "The sum; integers wrap."),
    zip(Zip::Sub, "sub", DTypes::Numbers, "The first less the second; integers wrap."),
    zip(Zip::Mul, "mul", DTypes::Numbers, "The product; integers wrap."),
    zip(Zip::Div, "div", DTypes::Floats, "The first over the second."),
    zip(Zip::Maximum, "maximum", DTypes::Numbers, "The larger; NaN wins."),
    zip(Zip::Minimum, "minimum", DTypes::Numbers, "The smaller; NaN wins."),
    zip(Zip::Pow, "pow", DTypes::Floats, "The first to the power of the second."),
    zip(Zip::Less, "less", DTypes::Any, "Whether the first is below the second."),
    zip(Zip::LessEqual, "less_equal", DTypes::Any, "Whether the first is at most the second."),
    zip(Zip::Greater, "greater", DTypes::Any, "Whether the first is above the second."),
    zip(Zip::GreaterEqual, "greater_equal", DTypes::Any, "Whether the first is at least the second."),
    zip(Zip::Equal, "equal", DTypes::Any, "Whether both are equal."),
    zip(Zip::NotEqual, "not_equal", DTypes::Any, "Whether the two differ."),
    zip(Zip::And, "and", DTypes::Bools, "Whether both are true."),
    zip(Zip::Or, "or", DTypes::Bools, "Whether one of both is true."),
    OpRow {
        family: Family::Where,
        signature: "+, +, + -> +",
        operands: Operands::exactly(3),
        number_at: &[1, 2],
        dtypes: DTypes::Condition,
        ..map(Map::Neg, "where", "The second where the first is true, else the third.")
    },
    // reductions
    reduce(Reduce::Sum, "sum", DTypes::Numbers, "The sum over the named dims; of nothing 0."),
    reduce(Reduce::Mean, "mean", DTypes::Floats, "The sum over the named dims divided by their size."),
    reduce(Reduce::Max, "max", DTypes::Numbers, "The largest over the named dims; NaN wins."),
    reduce(Reduce::Min, "min", DTypes::Numbers, "The smallest over the named dims; NaN wins."),
    OpRow {
        attributes: Attributes::Dim,
        dtypes: DTypes::Numbers,
        result: ResultDType::I64,
        ..view(
            Family::ArgMax,
            "argmax",
            "* d -> *",
            "The lowest index of the largest along a dim; the first NaN before all.",
        )
    },
    floats(with(
        Attributes::Dim,
        Operands::exactly(1),
        view(Family::Softmax, "softmax", "* d -> * d", "exp(x) over its sum along a dim."),
    )),
    floats(with(
        Attributes::Dim,
        Operands::exactly(1),
        view(Family::LogSoftmax, "log_softmax", "* d -> * d", "The logarithm of `softmax`."),
    )),
    floats(with(
        Attributes::DimAndEps,
        Operands::between(1, 3),
        view(
            Family::LayerNorm,
            "layer_norm",
            "* d, d, d -> * d",
            "Mean 0 and variance 1 along a dim, then times the second operand, plus the third.",
        ),
    )),
    floats(with(
        Attributes::DimAndEps,
        Operands::between(1, 2),
        view(
            Family::RmsNorm,
            "rms_norm",
            "* d, d -> * d",
            "Over the root of the mean square along a dim, then times the second operand.",
        ),
    )),
    // views
    with(
        Attributes::PatternAndSizes,
        Operands::exactly(1),
        view(Family::Rearrange, "rearrange", "pattern", "Splits, merges and permutes dims."),
    ),
    with(
        Attributes::Renames,
        Operands::exactly(1),
        view(Family::Rename, "rename", "* s -> * t", "The same values under other dim names."),
    ),
    with(
        Attributes::Extent,
        Operands::exactly(1),
        view(
            Family::Slice,
            "slice",
            "* d -> * t",
            "The indices from the first number up to, not including, the second.",
        ),
    ),
    with(
        Attributes::Extent,
        Operands::exactly(1),
        view(Family::Pad, "pad", "* d -> * t", "So many zeros before and after along a dim."),
    ),
    with(
        Attributes::NewName,
        Operands::at_least(1),
        view(Family::Concat, "concat", "* d, * e -> * t", "The operands one after the other along one dim."),
    ),
    with(
        Attributes::NewDim,
        Operands::exactly(1),
        view(
            Family::Broadcast,
            "broadcast",
            "* -> d *",
            "The same values for every index of a new first dim.",
        ),
    ),
    OpRow {
        dtypes: DTypes::None,
        result: ResultDType::I64,
        ..with(
            Attributes::DimAlone,
            Operands::exactly(0),
            view(Family::Iota, "iota", "-> d", "The index along the dim."),
        )
    },
    OpRow {
        dtypes: DTypes::None,
        result: ResultDType::Written,
        ..with(
            Attributes::NumberAndDType,
            Operands::exactly(0),
            view(Family::Full, "full", "->", "A number as a scalar."),
        )
    },
    OpRow {
        dtypes: DTypes::Ids,
        ..with(
            Attributes::None,
            Operands::exactly(2),
            view(
                Family::Embedding,
                "embedding",
                "*, v e -> * e",
                "The rows of the second operand that the first names.",
            ),
        )
    },
    with(
        Attributes::None,
        Operands::exactly(1),
        view(
            Family::Reshard,
            "reshard",
            "* -> *",
            "The same values; exists so that a placement can name it.",
        ),
    ),
];
