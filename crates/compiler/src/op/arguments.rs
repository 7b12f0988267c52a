//! The arguments of a call: which are operands, which are attributes, is said by the operation's row.

use super::table::{Attributes, Family, OpRow};
use super::text::{DEFAULT_EPS, OperandText, usage};
use super::{Finish, Op, Pattern, spaced};
use crate::diagnostic::{Code, Diagnostic, Span, quote};
use crate::dtype::{DType, Number};
use crate::text::{Cursor, Kind, Reported, number};

/// The operands of a call, each with its place.
pub(super) type Operands<'a> = Vec<(OperandText<'a>, Span)>;

/// One argument as written.
pub(super) enum Arg<'a> {
    Name(&'a str),
    Local(&'a str),
    Number(Number),
    Text(String),
    /// `n=12`
    Equal(&'a str, Number),
    /// `dim=h`, which no operation takes
    EqualName(&'a str),
    /// `s -> t`
    Arrow(&'a str, &'a str),
}

/// Reads one argument.
pub(super) fn argument<'a>(cursor: &mut Cursor<'a>) -> Result<(Arg<'a>, Span), Reported> {
    let token = cursor.peek();
    let start = token.span();
    let arg = match token.kind {
        Kind::Name(name) => {
            cursor.bump();
            if cursor.eat("=").is_some() {
                equal(cursor, name)?
            } else if cursor.eat("->").is_some() {
                Arg::Arrow(name, cursor.name("the new name of a dim")?.0)
            } else if cursor.at("(") {
                let message = "calls do not nest: an operand is a name or a number";
                let mistake = Diagnostic::at(Code::Syntax, start, message);
                return Err(cursor.report(mistake.help("give the inner call a name on a line of its own")));
            } else {
                Arg::Name(name)
            }
        }
        Kind::Local(digits) => {
            cursor.bump();
            Arg::Local(digits)
        }
        Kind::Number(_) => Arg::Number(cursor.number("a number")?.0),
        Kind::Text(_) => Arg::Text(cursor.text("a pattern")?.0),
        _ => return Err(cursor.unexpected("an operand")),
    };
    let span = cursor.span_from(start);
    no_infix(cursor, span)?;
    Ok((arg, span))
}

/// What follows `name=`.
fn equal<'a>(cursor: &mut Cursor<'a>, name: &'a str) -> Result<Arg<'a>, Reported> {
    match cursor.peek().kind {
        Kind::Name(word) if !matches!(word, "inf" | "nan") => {
            cursor.bump();
            Ok(Arg::EqualName(word))
        }
        _ => Ok(Arg::Equal(name, cursor.number("a number")?.0)),
    }
}

/// Reports `+` and the like behind what stands at `first`: there are only calls.
pub(crate) fn no_infix(cursor: &mut Cursor<'_>, first: Span) -> Result<(), Reported> {
    let (mark, call) = match cursor.peek().kind {
        Kind::Mark("+") => ("+", "add"),
        Kind::Mark("*") => ("*", "mul"),
        Kind::Mark("/") => ("/", "div"),
        Kind::Mark("<") => ("<", "less"),
        Kind::Mark(">") => (">", "greater"),
        Kind::Mark("-") => ("-", "sub"),
        Kind::Number(text) if text.starts_with('-') => ("-", "sub"),
        _ => return Ok(()),
    };
    let first = cursor.said(first);
    let message = format!("there is no `{mark}` between operands: every line is one call");
    let mistake = Diagnostic::at(Code::Syntax, cursor.peek().span(), message);
    Err(cursor.report(mistake.help(match first.contains('(') {
        true => format!("give {} a line and a name of its own, then `{call}(NAME, ...)`", quote(first)),
        false => format!("it is a call on a line of its own: `{call}({first}, ...)`"),
    })))
}

/// Tells attributes and operands apart, by where they stand.
pub(super) fn read_arguments<'a>(
    row: &'static OpRow,
    args: Vec<(Arg<'a>, Span)>,
    call: Span,
) -> Result<(Op, Operands<'a>), Diagnostic> {
    let mut args = Args { row, left: args.into_iter(), call, operands: Vec::new() };
    let op = match row.attributes {
        Attributes::None => args.plain_op()?,
        Attributes::Pattern => args.einsum()?,
        Attributes::DType => {
            args.operand()?;
            Op::Cast(args.dtype()?)
        }
        Attributes::Dim | Attributes::Dims | Attributes::DimAndEps => args.over_dims()?,
        Attributes::PatternAndSizes => args.rearrange()?,
        Attributes::Renames => {
            args.operand()?;
            Op::Rename(args.rest(Args::arrow)?)
        }
        Attributes::Extent => args.extent()?,
        Attributes::NewName => {
            let to = args.name("the new name of the dim")?;
            args.all_operands()?;
            Op::Concat { to }
        }
        Attributes::NewDim => args.broadcast()?,
        Attributes::DimAlone => Op::Iota(args.name("the name of a dim")?),
        Attributes::NumberAndDType => {
            let number = args.number()?;
            Op::Full(number, args.dtype()?)
        }
    };
    args.nothing_left()?;
    Ok((op, args.operands))
}

/// The arguments that are still to be read, in order, and the operands among those that were read.
struct Args<'a> {
    row: &'static OpRow,
    left: std::vec::IntoIter<(Arg<'a>, Span)>,
    call: Span,
    operands: Operands<'a>,
}

/// Whole operations.
impl Args<'_> {
    fn plain_op(&mut self) -> Result<Op, Diagnostic> {
        self.all_operands()?;
        Ok(match self.row.family {
            Family::Linear => Op::Linear,
            Family::Matmul => Op::Matmul,
            Family::Map(map) => Op::Map(map),
            Family::Zip(zip) => Op::Zip(zip),
            Family::Where => Op::Where,
            Family::Embedding => Op::Embedding,
            Family::Reshard => Op::Reshard,
            family => unreachable!("{family:?} has attributes"),
        })
    }

    fn einsum(&mut self) -> Result<Op, Diagnostic> {
        let (text, place) = self.text()?;
        let pattern = Pattern::einsum(&text).map_err(|why| match spaced(&text) {
            Some(spaced) => Diagnostic::at(Code::Pattern, place, why)
                .help(format!("names are divided by spaces: {}", quote(&spaced))),
            None => self.pattern_mistake(place, &why),
        })?;
        self.all_operands()?;
        Ok(Op::Einsum(pattern))
    }

    fn rearrange(&mut self) -> Result<Op, Diagnostic> {
        self.operand()?;
        let (text, place) = self.text()?;
        let mut sizes = Vec::new();
        while self.more() {
            sizes.push(self.equal()?);
        }
        let pattern = Pattern::rearrange(&text, &sizes).map_err(|why| self.pattern_mistake(place, &why))?;
        Ok(Op::Rearrange { pattern, sizes })
    }

    /// Reductions, and what works along one dim.
    fn over_dims(&mut self) -> Result<Op, Diagnostic> {
        let row = self.row;
        self.operand()?;
        let optional = row.attributes == Attributes::DimAndEps;
        while self.operands.len() < row.operands.least || optional && self.an_operand_is_left() {
            self.operand()?;
        }
        if let Family::Reduce(reduce) = row.family {
            return Ok(Op::Reduce(reduce, self.rest(|args| args.name("the name of a dim"))?));
        }
        let dim = self.name("the name of a dim")?;
        Ok(match row.family {
            Family::ArgMax => Op::ArgMax(dim),
            Family::Softmax => Op::Softmax(dim),
            Family::LogSoftmax => Op::LogSoftmax(dim),
            Family::LayerNorm => Op::LayerNorm { dim, eps: self.eps()? },
            Family::RmsNorm => Op::RmsNorm { dim, eps: self.eps()? },
            Family::Summary(summary) => Op::Summary(summary, dim),
            Family::FinishSoftmax => Op::Finish(Finish::Softmax, dim),
            Family::FinishLogSoftmax => Op::Finish(Finish::LogSoftmax, dim),
            Family::FinishLayerNorm => Op::Finish(Finish::LayerNorm { eps: self.eps()? }, dim),
            Family::FinishRmsNorm => Op::Finish(Finish::RmsNorm { eps: self.eps()? }, dim),
            Family::FinishArgMax => Op::Finish(Finish::ArgMax, dim),
            family => unreachable!("{family:?} is not over dims"),
        })
    }

    /// Of a norm, the last argument before `eps=` is the dim.
    fn an_operand_is_left(&self) -> bool {
        !matches!(self.left.as_slice(), [] | [_] | [_, (Arg::Equal(..), _), ..])
    }

    fn extent(&mut self) -> Result<Op, Diagnostic> {
        self.operand()?;
        let (dim, to) = self.arrow()?;
        let (first, second) = (self.count()?, self.count()?);
        Ok(match self.row.family {
            Family::Slice => Op::Slice { dim, to, start: first, end: second },
            _ => Op::Pad { dim, to, before: first, after: second },
        })
    }

    fn broadcast(&mut self) -> Result<Op, Diagnostic> {
        self.operand()?;
        if let Some((Arg::Equal(..), _)) = self.left.as_slice().first() {
            let (dim, size) = self.equal()?;
            return Ok(Op::Broadcast { dim, size: Some(size) });
        }
        Ok(Op::Broadcast { dim: self.name("the name of the new dim")?, size: None })
    }
}

/// Single arguments.
impl<'a> Args<'a> {
    fn more(&self) -> bool {
        self.left.len() > 0
    }

    fn pattern_mistake(&self, place: Span, why: &str) -> Diagnostic {
        Diagnostic::at(Code::Pattern, place, why).help(format!("it is written `{}`", usage(self.row)))
    }

    fn wrong(&self, place: Span, expected: &str) -> Diagnostic {
        misuse(self.row, place, &format!("needs {expected} here"))
    }

    fn next(&mut self, expected: &str) -> Result<(Arg<'a>, Span), Diagnostic> {
        self.left
            .next()
            .ok_or_else(|| misuse(self.row, self.call, &format!("needs {expected} after what is given")))
    }

    /// Every argument up to the end, at least one.
    fn rest<T>(
        &mut self,
        mut read: impl FnMut(&mut Self) -> Result<T, Diagnostic>,
    ) -> Result<Vec<T>, Diagnostic> {
        let mut all = vec![read(self)?];
        while self.more() {
            all.push(read(self)?);
        }
        Ok(all)
    }

    fn operand(&mut self) -> Result<(), Diagnostic> {
        let (arg, place) = self.next("an operand")?;
        let text = match arg {
            Arg::Name(name @ ("inf" | "nan")) => OperandText::Number(number(name, place)?),
            Arg::Name(name) => OperandText::Name(name),
            Arg::Local(digits) => OperandText::Local(digits),
            Arg::Number(number) => OperandText::Number(number),
            Arg::Text(_) | Arg::Equal(..) | Arg::EqualName(..) | Arg::Arrow(..) => {
                return Err(self.wrong(place, "an operand"));
            }
        };
        self.operands.push((text, place));
        Ok(())
    }

    fn all_operands(&mut self) -> Result<(), Diagnostic> {
        while self.more() {
            self.operand()?;
        }
        Ok(())
    }

    fn name(&mut self, what: &str) -> Result<String, Diagnostic> {
        match self.next(what)? {
            (Arg::Name(name), _) => Ok(name.to_string()),
            (Arg::EqualName(name), place) => {
                Err(self.wrong(place, &format!("{what} alone, {},", quote(name))))
            }
            (_, place) => Err(self.wrong(place, what)),
        }
    }

    fn text(&mut self) -> Result<(String, Span), Diagnostic> {
        match self.next("a pattern in quotes")? {
            (Arg::Text(text), place) => Ok((text, place)),
            (_, place) => Err(self.wrong(place, "a pattern in quotes")),
        }
    }

    fn number(&mut self) -> Result<Number, Diagnostic> {
        match self.next("a number")? {
            (Arg::Number(number), _) => Ok(number),
            (Arg::Name(name @ ("inf" | "nan")), place) => number(name, place),
            (_, place) => Err(self.wrong(place, "a number")),
        }
    }

    fn count(&mut self) -> Result<u64, Diagnostic> {
        match self.next("a whole number")? {
            (Arg::Number(number), place) => self.whole(number, place),
            (_, place) => Err(self.wrong(place, "a whole number")),
        }
    }

    fn whole(&self, number: Number, place: Span) -> Result<u64, Diagnostic> {
        match number {
            Number::Int(n) => u64::try_from(n).map_err(|_| {
                Diagnostic::at(Code::BadNumber, place, format!("{n} cannot be a size or an index"))
                    .help("it is a whole number from 0 to 2^64 - 1")
            }),
            Number::Float(_) => Err(self.wrong(place, "a whole number")),
        }
    }

    fn equal(&mut self) -> Result<(String, u64), Diagnostic> {
        match self.next("a size such as `n=12`")? {
            (Arg::Equal(name, number), place) => Ok((name.to_string(), self.whole(number, place)?)),
            (_, place) => Err(self.wrong(place, "a size such as `n=12`")),
        }
    }

    fn arrow(&mut self) -> Result<(String, String), Diagnostic> {
        match self.next("a dim and its new name such as `d -> t`")? {
            (Arg::Arrow(from, to), _) => Ok((from.to_string(), to.to_string())),
            (_, place) => Err(self.wrong(place, "a dim and its new name such as `d -> t`")),
        }
    }

    fn dtype(&mut self) -> Result<DType, Diagnostic> {
        match self.next("an element type")? {
            (Arg::Name(name), place) => DType::from_name(name).ok_or_else(|| unknown_dtype(name, place)),
            (_, place) => Err(self.wrong(place, "an element type")),
        }
    }

    fn eps(&mut self) -> Result<f64, Diagnostic> {
        match self.left.next() {
            None => Ok(DEFAULT_EPS),
            Some((Arg::Equal("eps", number), place)) => {
                let eps = number.as_f64();
                let fine = eps.is_finite() && eps >= 0.0;
                fine.then_some(eps).ok_or_else(|| {
                    Diagnostic::at(Code::BadNumber, place, format!("{number} cannot be `eps`"))
                        .help("it is a finite number from 0 up")
                })
            }
            Some((_, place)) => Err(self.wrong(place, "nothing more, or `eps=1e-5`,")),
        }
    }

    fn nothing_left(&mut self) -> Result<(), Diagnostic> {
        match self.left.next() {
            None => Ok(()),
            Some((_, place)) => Err(misuse(self.row, place, "takes nothing more here")),
        }
    }
}

/// The mistake of a call that is not written as its row says.
pub(super) fn misuse(row: &OpRow, place: Span, why: &str) -> Diagnostic {
    let message = format!("`{}` {why}", row.name);
    Diagnostic::at(Code::Operands, place, message).help(format!("it is written `{}`", usage(row)))
}

/// The mistake of a name that stands where an element type is needed.
pub fn unknown_dtype(name: &str, place: Span) -> Diagnostic {
    let all: Vec<&str> = DType::ALL.into_iter().map(DType::name).collect();
    let message = format!("{} is no element type", quote(name));
    Diagnostic::at(Code::Syntax, place, message).help(match DType::from_other_notation(name) {
        Some(dtype) => format!("here it is `{dtype}`"),
        None => format!("element types are {}", all.join(" ")),
    })
}
