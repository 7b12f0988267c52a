//! The type rules: what an operation gives, from what it works on.
//!
//! ```text
//!  op, operands (dims and types), -> [..]   ── infer ──▶   the result's dims and type, sizes the op fixes
//! ```
//!
//! Everything that does not depend on sizes is checked here; what does is checked when sizes are
//! bound ([`SizeBinder`](super::SizeBinder)). One mistake is told per operation: the first.

mod dtypes;
mod elementwise;
mod products;
mod summaries;
mod views;

use crate::diagnostic::{Code, Diagnostic, Span, quote, quote_all};
use crate::dtype::{DType, Number};
use crate::op::{Op, row_of};
use std::collections::BTreeSet;

/// A value has at most so many dims.
pub const MOST_DIMS: usize = 64;

/// What the rules see of an operand.
#[derive(Clone, PartialEq, Debug)]
pub enum OperandType<'a> {
    /// A value.
    Value {
        /// Its name, for messages.
        name: &'a str,
        /// Its dims, outermost first.
        dims: Vec<&'a str>,
        /// Its element type.
        dtype: DType,
    },
    /// A number.
    Number(Number),
}

/// An operation with all that its type depends on.
#[derive(Clone, Copy, Debug)]
pub struct CallType<'a> {
    /// The operation.
    pub op: &'a Op,
    /// The operands, each with its place.
    pub operands: &'a [(OperandType<'a>, Span)],
    /// The dims asked for with `-> [..]`, with their place.
    pub asked: Option<(&'a [&'a str], Span)>,
    /// The place of the call.
    pub span: Span,
}

/// What an operation gives.
#[derive(Clone, PartialEq, Debug)]
pub struct ResultType {
    /// The result's dims.
    pub dims: Vec<String>,
    /// The result's element type.
    pub dtype: DType,
    /// Sizes of its dims that the operation says.
    pub sizes: Vec<(String, u64)>,
}

/// The type of an operation's result, or what is wrong.
pub fn infer(call: CallType<'_>) -> Result<ResultType, Diagnostic> {
    let row = row_of(call.op);
    let numbers: Vec<bool> =
        call.operands.iter().map(|(operand, _)| matches!(operand, OperandType::Number(_))).collect();
    row.check_operands(&numbers)
        .map_err(|why| Diagnostic::at(Code::Operands, call.span, format!("`{}` {why}", row.name)))?;
    let dtype = dtypes::check(call)?;
    let given = given_dims(call)?;
    let dims = match call.asked {
        Some((asked, place)) => ordered(call, &given.dims, asked, place)?,
        None => given.dims,
    };
    distinct(&dims, call.span)?;
    Ok(ResultType { dims, dtype, sizes: given.sizes })
}

/// The dims that an operation gives, and the sizes it says.
struct Given {
    dims: Vec<String>,
    sizes: Vec<(String, u64)>,
}

impl From<Vec<&str>> for Given {
    fn from(dims: Vec<&str>) -> Given {
        Given { dims: dims.into_iter().map(String::from).collect(), sizes: Vec::new() }
    }
}

/// The dims in the operation's own order. Products and `concat` look at what was asked for, all
/// others leave its order to [`ordered`].
fn given_dims(call: CallType<'_>) -> Result<Given, Diagnostic> {
    match call.op {
        Op::Linear | Op::Matmul => products::product(call).map(Given::from),
        Op::Einsum(pattern) => products::einsum(call, pattern).map(Given::from),
        Op::Zip(_) | Op::Where => Ok(elementwise::union(call).into()),
        Op::Map(_) | Op::Cast(_) | Op::Reshard => Ok(call.value(0).dims.to_vec().into()),
        Op::Reduce(_, dims) => elementwise::reduced(call, dims).map(Given::from),
        Op::ArgMax(dim) => elementwise::reduced(call, std::slice::from_ref(dim)).map(Given::from),
        Op::Softmax(dim) | Op::LogSoftmax(dim) => {
            call.value(0).position(call, dim)?;
            Ok(call.value(0).dims.to_vec().into())
        }
        Op::LayerNorm { dim, .. } | Op::RmsNorm { dim, .. } => {
            elementwise::normalised(call, dim).map(Given::from)
        }
        Op::Summary(summary, dim) => summaries::summary(call, *summary, dim),
        Op::Finish(finish, dim) => summaries::finish(call, *finish, dim).map(Given::from),
        Op::Rearrange { pattern, sizes } => views::rearrange(call, pattern, sizes),
        Op::Rename(pairs) => views::rename(call, pairs).map(Given::from),
        Op::Slice { dim, to, start, end } => views::slice(call, dim, to, *start, *end),
        Op::Pad { dim, to, before, after } => views::pad(call, dim, to, *before, *after),
        Op::Concat { to } => views::concat(call, to).map(Given::from),
        Op::Broadcast { dim, size } => views::broadcast(call, dim, *size),
        Op::Iota(dim) => Ok(vec![dim.as_str()].into()),
        Op::Full(..) => Ok(Vec::new().into()),
        Op::Embedding => views::embedding(call).map(Given::from),
    }
}

/// A value among the operands.
#[derive(Clone, Copy)]
struct ValueType<'a> {
    name: &'a str,
    dims: &'a [&'a str],
    dtype: DType,
    place: Span,
}

impl<'a> CallType<'a> {
    /// The operation's name.
    fn name(&self) -> &'static str {
        self.op.name()
    }

    /// The operands that are values.
    fn values(self) -> impl Iterator<Item = ValueType<'a>> {
        self.operands.iter().filter_map(|(operand, place)| match operand {
            OperandType::Value { name, dims, dtype } => {
                Some(ValueType { name, dims, dtype: *dtype, place: *place })
            }
            OperandType::Number(_) => None,
        })
    }

    /// The `index`th value; the row says that there are as many.
    fn value(self, index: usize) -> ValueType<'a> {
        self.values().nth(index).expect("the number of operands was checked")
    }

    /// A mistake at the call.
    fn wrong(&self, code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic::at(code, self.span, message)
    }
}

impl ValueType<'_> {
    /// The place of a dim that the operation needs.
    fn position(&self, call: CallType<'_>, dim: &str) -> Result<usize, Diagnostic> {
        self.dims.iter().position(|d| *d == dim).ok_or_else(|| {
            let message = format!(
                "`{}` needs the dim {}, which {} does not have",
                call.name(),
                quote(dim),
                self.described()
            );
            Diagnostic::at(Code::MissingDim, self.place, message).help("name a dim that it has")
        })
    }

    /// The value with its dims: `` `x` [`b`, `s`] ``.
    fn described(&self) -> String {
        format!("{} {}", quote(self.name), listed(self.dims))
    }
}

/// Dims as messages list them.
fn listed<S: AsRef<str>>(dims: &[S]) -> String {
    format!("[{}]", quote_all(dims.iter().map(AsRef::as_ref)))
}

/// The result's dims in the order asked for, which must be a permutation of them all.
fn ordered(
    call: CallType<'_>,
    given: &[String],
    asked: &[&str],
    place: Span,
) -> Result<Vec<String>, Diagnostic> {
    let has: BTreeSet<&str> = given.iter().map(String::as_str).collect();
    let wants: BTreeSet<&str> = asked.iter().copied().collect();
    if wants.len() < asked.len() {
        distinct(asked, place)?;
    }
    if has == wants {
        return Ok(asked.iter().map(|dim| dim.to_string()).collect());
    }
    let missing: Vec<&str> = has.difference(&wants).copied().collect();
    let extra: Vec<&str> = wants.difference(&has).copied().collect();
    let mut message =
        format!("`{}` gives {}, but {} is asked for", call.name(), listed(given), listed(asked));
    if !missing.is_empty() {
        message += &format!("; {} is left out", quote_all(missing));
    }
    if !extra.is_empty() {
        message += &format!("; {} is not a dim of the result", quote_all(extra));
    }
    Err(Diagnostic::at(Code::ResultDims, place, message)
        .help("`-> [..]` names all dims of the result, in any order"))
}

/// No dim stands twice in a value, and a value has not too many.
pub(super) fn distinct<S: AsRef<str>>(dims: &[S], place: Span) -> Result<(), Diagnostic> {
    if dims.len() > MOST_DIMS {
        let message = format!("a value of {} dims; it can have at most {MOST_DIMS}", dims.len());
        return Err(Diagnostic::at(Code::TooLarge, place, message).help("merge dims with `rearrange`"));
    }
    let mut seen = BTreeSet::new();
    match dims.iter().map(AsRef::as_ref).find(|dim| !seen.insert(*dim)) {
        None => Ok(()),
        Some(dim) => {
            let message = format!("the dim {} stands twice in one value, {}", quote(dim), listed(dims));
            Err(Diagnostic::at(Code::RepeatedDim, place, message)
                .help("give one of them another name, for example with `rename`"))
        }
    }
}
