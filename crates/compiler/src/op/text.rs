//! Calls as text: `softmax(x, d)`. The only place where operations are read and printed; programs,
//! local and host programs differ in how an operand is spelled, which their resolver knows.

use super::table::{Attributes, Family, OpRow, TABLE, row};
use super::{Op, Pattern};
use crate::diagnostic::{Code, Diagnostic, Span, quote};
use crate::dtype::{DType, Number};
use crate::text::{Cursor, Kind, Reported, closest, number, quoted_text};

/// The `eps` of a call that does not give one.
pub const DEFAULT_EPS: f64 = 1e-5;

/// An operand as written.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum OperandText<'a> {
    /// `x`, `b0`
    Name(&'a str),
    /// `%3`: the digits
    Local(&'a str),
    /// `1.5`
    Number(Number),
}

/// A call that was read. `V` is what the resolver made of an operand.
#[derive(Clone, PartialEq, Debug)]
pub struct Call<V> {
    /// The operation with its attributes.
    pub op: Op,
    /// The operands, each with its place.
    pub operands: Vec<(V, Span)>,
    /// The place of the operation's name.
    pub name: Span,
    /// The place of the whole call.
    pub span: Span,
}

/// Reads `name(arguments)`. The number of operands, and where numbers may stand, is checked; `resolve`
/// looks up each operand.
pub fn parse_call<'a, V>(
    cursor: &mut Cursor<'a>,
    resolve: &mut dyn FnMut(OperandText<'a>, Span) -> Result<V, Diagnostic>,
) -> Result<Call<V>, Reported> {
    let (name, name_span) = cursor.name("the name of an operation")?;
    let Some(row) = row(name) else {
        return Err(cursor.report(unknown_operation(name, name_span)));
    };
    if !cursor.at("(") {
        return Err(cursor.unexpected(&format!("`(` after {}", quote(name))));
    }
    let args = cursor.list("(", ")", argument)?;
    let span = cursor.span_from(name_span);
    let read = read_arguments(row, args, span).and_then(|(op, texts)| {
        let numbers: Vec<bool> =
            texts.iter().map(|(text, _)| matches!(text, OperandText::Number(_))).collect();
        row.check_operands(&numbers).map_err(|why| misuse(row, span, &why))?;
        Ok((op, texts))
    });
    let (op, texts) = read.map_err(|mistake| cursor.report(mistake))?;
    let mut operands = Vec::with_capacity(texts.len());
    let mut failed = None;
    for (text, place) in texts {
        match resolve(text, place) {
            Ok(operand) => operands.push((operand, place)),
            Err(mistake) => failed = Some(cursor.report(mistake)),
        }
    }
    failed.map_or(Ok(Call { op, operands, name: name_span, span }), Err)
}

/// Prints a call; the operands are spelled by the caller.
pub fn print_call(op: &Op, operands: &[String]) -> String {
    let mut args: Vec<String> = operands.to_vec();
    match op {
        Op::Linear | Op::Matmul | Op::Map(_) | Op::Zip(_) | Op::Where | Op::Embedding | Op::Reshard => {}
        Op::Einsum(pattern) => args.insert(0, quoted_text(&pattern.to_string())),
        Op::Cast(dtype) => args.push(dtype.to_string()),
        Op::Reduce(_, dims) => args.extend(dims.iter().cloned()),
        Op::ArgMax(dim) | Op::Softmax(dim) | Op::LogSoftmax(dim) | Op::Iota(dim) => args.push(dim.clone()),
        Op::LayerNorm { dim, eps } | Op::RmsNorm { dim, eps } => {
            args.push(dim.clone());
            if *eps != DEFAULT_EPS {
                args.push(format!("eps={eps:?}"));
            }
        }
        Op::Rearrange { pattern, sizes } => {
            args.push(quoted_text(&pattern.to_string()));
            args.extend(sizes.iter().map(|(name, size)| format!("{name}={size}")));
        }
        Op::Rename(pairs) => args.extend(pairs.iter().map(|(from, to)| format!("{from} -> {to}"))),
        Op::Slice { dim, to, start: first, end: second }
        | Op::Pad { dim, to, before: first, after: second } => {
            args.extend([format!("{dim} -> {to}"), first.to_string(), second.to_string()]);
        }
        Op::Concat { to } => args.insert(0, to.clone()),
        Op::Broadcast { dim, size: Some(size) } => args.push(format!("{dim}={size}")),
        Op::Broadcast { dim, size: None } => args.push(dim.clone()),
        Op::Full(number, dtype) => args.extend([number.to_string(), dtype.to_string()]),
    }
    format!("{}({})", op.name(), args.join(", "))
}

/// How a call of the row is written, for messages and the documentation.
pub fn usage(row: &OpRow) -> String {
    let operands = match (row.family, row.operands) {
        (_, (1, 1)) => "x",
        (Family::Linear, _) => "x, w, b",
        (Family::LayerNorm, _) => "x, g, b",
        (Family::RmsNorm, _) => "x, g",
        (Family::Where, _) => "c, a, b",
        (Family::Embedding, _) => "ids, table",
        (_, (2, 2)) => "a, b",
        _ => "a, b, ...",
    };
    let args = match row.attributes {
        Attributes::None => operands.into(),
        Attributes::Pattern => format!("\"n k, k m -> n m\", {operands}"),
        Attributes::PatternAndSizes => format!("{operands}, \"b (n h) -> b n h\", n=12"),
        Attributes::DType => format!("{operands}, bf16"),
        Attributes::Dim => format!("{operands}, d"),
        Attributes::Dims => format!("{operands}, d, ..."),
        Attributes::DimAndEps => format!("{operands}, d, eps=1e-5"),
        Attributes::Renames => format!("{operands}, s -> t"),
        Attributes::Extent if row.family == Family::Slice => format!("{operands}, d -> t, start, end"),
        Attributes::Extent => format!("{operands}, d -> t, before, after"),
        Attributes::NewName => format!("t, {operands}"),
        Attributes::NewDim => format!("{operands}, d=4"),
        Attributes::DimAlone => "d".into(),
        Attributes::NumberAndDType => "1.5, f32".into(),
    };
    format!("{}({args})", row.name)
}

/// The mistake of a call that is not written as its row says.
fn misuse(row: &OpRow, place: Span, why: &str) -> Diagnostic {
    let message = format!("`{}` {why}", row.name);
    Diagnostic::at(Code::Operands, place, message).help(format!("it is written `{}`", usage(row)))
}

fn unknown_operation(name: &str, place: Span) -> Diagnostic {
    let mistake =
        Diagnostic::at(Code::UnknownOperation, place, format!("there is no operation {}", quote(name)));
    let names = TABLE.iter().map(|row| row.name);
    mistake.help(match closest(name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("operations are {}", names.collect::<Vec<_>>().join(" ")),
    })
}

/// One argument as written.
enum Arg<'a> {
    Name(&'a str),
    Local(&'a str),
    Number(Number),
    Text(String),
    /// `n=12`
    Equal(&'a str, Number),
    /// `s -> t`
    Arrow(&'a str, &'a str),
}

fn argument<'a>(cursor: &mut Cursor<'a>) -> Result<(Arg<'a>, Span), Reported> {
    let token = cursor.peek();
    let start = token.span();
    let arg = match token.kind {
        Kind::Name(name) => {
            cursor.bump();
            if cursor.eat("=").is_some() {
                Arg::Equal(name, cursor.number("a number")?.0)
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
    Ok((arg, cursor.span_from(start)))
}

/// The arguments that are still to be read, in order.
struct Args<'a> {
    row: &'static OpRow,
    left: std::vec::IntoIter<(Arg<'a>, Span)>,
    call: Span,
}

type Operands<'a> = Vec<(OperandText<'a>, Span)>;

/// Tells attributes and operands apart, by where they stand.
fn read_arguments<'a>(
    row: &'static OpRow,
    args: Vec<(Arg<'a>, Span)>,
    call: Span,
) -> Result<(Op, Operands<'a>), Diagnostic> {
    let mut args = Args { row, left: args.into_iter(), call };
    let mut operands = Vec::new();
    let op = match row.attributes {
        Attributes::None => {
            operands = args.operands()?;
            args.plain_op()
        }
        Attributes::Pattern => {
            let (text, place) = args.text()?;
            let pattern = Pattern::einsum(&text).map_err(|why| pattern_mistake(row, place, &why))?;
            operands = args.operands()?;
            Op::Einsum(pattern)
        }
        Attributes::PatternAndSizes => {
            operands.push(args.operand()?);
            let (text, place) = args.text()?;
            let mut sizes = Vec::new();
            while args.more() {
                let (name, size, _) = args.equal()?;
                sizes.push((name.to_string(), size));
            }
            let pattern =
                Pattern::rearrange(&text, &sizes).map_err(|why| pattern_mistake(row, place, &why))?;
            Op::Rearrange { pattern, sizes }
        }
        Attributes::DType => {
            operands.push(args.operand()?);
            Op::Cast(args.dtype()?)
        }
        Attributes::Dim => {
            operands.push(args.operand()?);
            let dim = args.name("the name of a dim")?;
            match row.family {
                Family::ArgMax => Op::ArgMax(dim),
                Family::Softmax => Op::Softmax(dim),
                _ => Op::LogSoftmax(dim),
            }
        }
        Attributes::Dims => {
            operands.push(args.operand()?);
            let mut dims = vec![args.name("the name of a dim")?];
            while args.more() {
                dims.push(args.name("the name of a dim")?);
            }
            let Family::Reduce(reduce) = row.family else {
                unreachable!("only reductions take several dims")
            };
            Op::Reduce(reduce, dims)
        }
        Attributes::DimAndEps => {
            while args.left.len() > 1 && !matches!(args.left.as_slice()[1].0, Arg::Equal(..)) {
                operands.push(args.operand()?);
            }
            let dim = args.name("the name of a dim")?;
            let eps = args.eps()?;
            if row.family == Family::LayerNorm {
                Op::LayerNorm { dim, eps }
            } else {
                Op::RmsNorm { dim, eps }
            }
        }
        Attributes::Renames => {
            operands.push(args.operand()?);
            let mut pairs = vec![args.arrow()?];
            while args.more() {
                pairs.push(args.arrow()?);
            }
            Op::Rename(pairs)
        }
        Attributes::Extent => {
            operands.push(args.operand()?);
            let (dim, to) = args.arrow()?;
            let (first, second) = (args.count()?, args.count()?);
            match row.family {
                Family::Slice => Op::Slice { dim, to, start: first, end: second },
                _ => Op::Pad { dim, to, before: first, after: second },
            }
        }
        Attributes::NewName => {
            let to = args.name("the new name of the dim")?;
            operands = args.operands()?;
            Op::Concat { to }
        }
        Attributes::NewDim => {
            operands.push(args.operand()?);
            if let Some((Arg::Equal(..), _)) = args.left.as_slice().first() {
                let (dim, size, _) = args.equal()?;
                Op::Broadcast { dim: dim.to_string(), size: Some(size) }
            } else {
                Op::Broadcast { dim: args.name("the name of the new dim")?, size: None }
            }
        }
        Attributes::DimAlone => Op::Iota(args.name("the name of a dim")?),
        Attributes::NumberAndDType => {
            let number = args.number()?;
            Op::Full(number, args.dtype()?)
        }
    };
    args.nothing_left()?;
    Ok((op, operands))
}

fn pattern_mistake(row: &OpRow, place: Span, why: &str) -> Diagnostic {
    Diagnostic::at(Code::Pattern, place, why).help(format!("it is written `{}`", usage(row)))
}

impl<'a> Args<'a> {
    fn more(&self) -> bool {
        self.left.len() > 0
    }

    fn wrong(&self, place: Span, expected: &str) -> Diagnostic {
        misuse(self.row, place, &format!("needs {expected} here"))
    }

    fn next(&mut self, expected: &str) -> Result<(Arg<'a>, Span), Diagnostic> {
        self.left
            .next()
            .ok_or_else(|| misuse(self.row, self.call, &format!("needs {expected} after what is given")))
    }

    fn operand(&mut self) -> Result<(OperandText<'a>, Span), Diagnostic> {
        let (arg, place) = self.next("an operand")?;
        let text = match arg {
            Arg::Name(name @ ("inf" | "nan")) => OperandText::Number(number(name, place)?),
            Arg::Name(name) => OperandText::Name(name),
            Arg::Local(digits) => OperandText::Local(digits),
            Arg::Number(number) => OperandText::Number(number),
            Arg::Text(_) | Arg::Equal(..) | Arg::Arrow(..) => return Err(self.wrong(place, "an operand")),
        };
        Ok((text, place))
    }

    fn operands(&mut self) -> Result<Operands<'a>, Diagnostic> {
        let mut operands = Vec::new();
        while self.more() {
            operands.push(self.operand()?);
        }
        Ok(operands)
    }

    fn name(&mut self, what: &str) -> Result<String, Diagnostic> {
        match self.next(what)? {
            (Arg::Name(name), _) => Ok(name.to_string()),
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

    fn equal(&mut self) -> Result<(&'a str, u64, Span), Diagnostic> {
        match self.next("a size such as `n=12`")? {
            (Arg::Equal(name, number), place) => Ok((name, self.whole(number, place)?, place)),
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

    /// The operation of a row that has no attributes.
    fn plain_op(&self) -> Op {
        match self.row.family {
            Family::Linear => Op::Linear,
            Family::Matmul => Op::Matmul,
            Family::Map(map) => Op::Map(map),
            Family::Zip(zip) => Op::Zip(zip),
            Family::Where => Op::Where,
            Family::Embedding => Op::Embedding,
            Family::Reshard => Op::Reshard,
            family => unreachable!("{family:?} has attributes"),
        }
    }

    fn nothing_left(&mut self) -> Result<(), Diagnostic> {
        match self.left.next() {
            None => Ok(()),
            Some((_, place)) => Err(misuse(self.row, place, "takes nothing more here")),
        }
    }
}

/// The mistake of a name that stands where an element type is needed.
pub fn unknown_dtype(name: &str, place: Span) -> Diagnostic {
    let all: Vec<&str> = DType::ALL.into_iter().map(DType::name).collect();
    let message = format!("{} is no element type", quote(name));
    Diagnostic::at(Code::Syntax, place, message).help(format!("element types are {}", all.join(" ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(Op, Vec<String>), String> {
        let mut cursor = Cursor::new(text);
        let mut resolve = |operand: OperandText<'_>, _| {
            Ok(match operand {
                OperandText::Name(name) => name.to_string(),
                OperandText::Local(digits) => format!("%{digits}"),
                OperandText::Number(number) => number.to_string(),
            })
        };
        match parse_call(&mut cursor, &mut resolve) {
            Ok(call) => Ok((call.op, call.operands.into_iter().map(|(name, _)| name).collect())),
            Err(Reported) => Err(cursor.finish().to_string()),
        }
    }

    #[test]
    fn every_kind_of_call_prints_as_it_was_written() {
        for text in [
            "linear(x, w, b)",
            "matmul(%0, %1)",
            "einsum(\"b n s h, b n t h -> b n s t\", q, k)",
            "einsum(\", n ->\", q, k)",
            "gelu_tanh(x)",
            "cast(x, bf16)",
            "add(-inf, x)",
            "pow(x, 0.5)",
            "where(c, nan, b)",
            "sum(x, s, t)",
            "argmax(x, d)",
            "log_softmax(x, d)",
            "layer_norm(x, d)",
            "layer_norm(x, g, b, d, eps=0.001)",
            "rms_norm(x, g, d)",
            "rearrange(x, \"b 1 (n h) -> n one=1 e=(b h)\", n=12)",
            "rename(x, s -> t, t -> s)",
            "slice(x, d -> t, 1, 3)",
            "pad(x, d -> d2, 0, 3)",
            "concat(t, a, b, c)",
            "broadcast(x, d=4)",
            "broadcast(x, d)",
            "iota(d)",
            "full(1.5, f32)",
            "embedding(ids, table)",
            "reshard(x)",
        ] {
            let (op, operands) = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(print_call(&op, &operands), text);
        }
    }

    #[test]
    fn every_row_can_be_read_as_its_usage_says() {
        for row in TABLE {
            let text = usage(row)
                .replace(", ...", "")
                .replace("start, end", "1, 2")
                .replace("before, after", "1, 2");
            let (op, operands) = read(&text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(op.name(), row.name);
            assert_eq!(read(&print_call(&op, &operands)), Ok((op, operands)));
        }
    }

    #[test]
    fn misuse_is_explained() {
        for (text, expected) in [
            ("lineer(x, w)", "error[E0302]: there is no operation `lineer`\n  help: did you mean `linear`?"),
            ("linear(x)", "`linear` takes 2 or 3 operands, not 1"),
            ("add(1, 2)", "`add` takes at most one number"),
            ("gelu(1)", "`gelu` takes no number as an operand"),
            ("gelu(neg(x))", "calls do not nest"),
            ("sum(x)", "`sum` needs the name of a dim after what is given"),
            ("cast(x, int)", "`int` is no element type"),
            ("slice(x, d -> t, 1, 2.5)", "`slice` needs a whole number here"),
            ("layer_norm(x, d, eps=-1)", "-1 cannot be `eps`"),
            ("softmax(x, d, e)", "`softmax` takes nothing more here"),
        ] {
            let found = read(text).expect_err(text);
            assert!(found.contains(expected), "{text}: {found}");
        }
    }
}
