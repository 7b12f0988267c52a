//! Calls as text: `softmax(x, d)`. The only place where operations are read and printed; programs,
//! local and host programs differ in how an operand is spelled, which their resolver knows.

use super::arguments::{argument, misuse, no_infix, read_arguments};
use super::row::{Scope, row};
use super::table::{Attributes, Family, OpRow, Operands, TABLE};
use super::{Finish, Op};
use crate::diagnostic::{Code, Diagnostic, Span, quote};
use crate::dtype::Number;
use crate::text::{Cursor, Kind, Reported, closest, quoted_text};

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
    scope: Scope,
    resolve: &mut dyn FnMut(OperandText<'a>, Span) -> Result<V, Diagnostic>,
) -> Result<Call<V>, Reported> {
    let (name, name_span) = name_of_call(cursor)?;
    let row = row(name, scope);
    if !cursor.at("(") {
        return Err(no_call(cursor, name, name_span, row.is_some()));
    }
    let row = row.ok_or_else(|| cursor.report(unknown_operation(name, name_span)))?;
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

/// The name that a call starts with.
fn name_of_call<'a>(cursor: &mut Cursor<'a>) -> Result<(&'a str, Span), Reported> {
    if matches!(cursor.peek().kind, Kind::Name(_)) {
        return cursor.name("the name of an operation");
    }
    let mistake = cursor.surprise("the name of an operation");
    Err(cursor.report(mistake.help("every line is one call: `NAME = operation(operands)`")))
}

/// Reports a name without the `(` of a call: it may be an operation, or an operand.
fn no_call(cursor: &mut Cursor<'_>, name: &str, place: Span, is_operation: bool) -> Reported {
    let mistake = cursor.surprise(&format!("`(` after {}", quote(name)));
    if is_operation {
        return cursor.report(mistake.help("every line is one call: `NAME = operation(operands)`"));
    }
    if let Err(reported) = no_infix(cursor, place) {
        return reported;
    }
    match cursor.peek().kind {
        Kind::Newline | Kind::End | Kind::Mark("}") => {
            let call = quote(&format!("reshard({name})"));
            let help = format!("every line is one call; {call} gives the same values a name of their own");
            cursor.report(mistake.help(help))
        }
        _ => cursor.report(unknown_operation(name, place)),
    }
}

/// Prints a call; the operands are spelled by the caller.
pub fn print_call(op: &Op, operands: &[String]) -> String {
    let mut args: Vec<String> = operands.to_vec();
    match op {
        Op::Linear | Op::Matmul | Op::Map(_) | Op::Zip(_) | Op::Where | Op::Embedding | Op::Reshard => {}
        Op::Einsum(pattern) => args.insert(0, quoted_text(&pattern.to_string())),
        Op::Cast(dtype) => args.push(dtype.to_string()),
        Op::Reduce(_, dims) => args.extend(dims.iter().cloned()),
        Op::ArgMax(dim)
        | Op::Softmax(dim)
        | Op::LogSoftmax(dim)
        | Op::Iota(dim)
        | Op::Summary(_, dim)
        | Op::Finish(Finish::Softmax | Finish::LogSoftmax | Finish::ArgMax, dim) => args.push(dim.clone()),
        Op::LayerNorm { dim, eps }
        | Op::RmsNorm { dim, eps }
        | Op::Finish(Finish::LayerNorm { eps } | Finish::RmsNorm { eps }, dim) => {
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
        (Family::FinishArgMax, _) => "p",
        (Family::FinishSoftmax | Family::FinishLogSoftmax, _) => "x, p",
        (Family::FinishLayerNorm, _) => "x, g, b, p",
        (Family::FinishRmsNorm, _) => "x, g, p",
        (_, Operands { most: Some(1), .. }) => "x",
        (Family::Linear, _) => "x, w, b",
        (Family::LayerNorm, _) => "x, g, b",
        (Family::RmsNorm, _) => "x, g",
        (Family::Where, _) => "c, a, b",
        (Family::Embedding, _) => "ids, table",
        (_, Operands { most: Some(2), .. }) => "a, b",
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

/// What other libraries call operations, each list with the operation that does it here.
const ELSEWHERE: [(&str, &str); 12] = [
    ("transpose permute reshape view flatten squeeze unsqueeze swapaxes", "rearrange"),
    ("cat concatenate stack", "concat"),
    ("dot mm bmm", "matmul"),
    ("dense", "linear"),
    ("astype to", "cast"),
    ("subtract", "sub"),
    ("multiply", "mul"),
    ("divide", "div"),
    ("expand repeat tile", "broadcast"),
    ("take lookup gather", "embedding"),
    ("constant fill", "full"),
    ("arange range", "iota"),
];

fn unknown_operation(name: &str, place: Span) -> Diagnostic {
    let mistake =
        Diagnostic::at(Code::UnknownOperation, place, format!("there is no operation {}", quote(name)));
    let here = ELSEWHERE.iter().find(|(names, _)| names.split(' ').any(|other| other == name));
    if let Some(row) = here.and_then(|(_, here)| row(here, Scope::Programs)) {
        return mistake.help(format!("here it is `{}`", usage(row)));
    }
    let names = TABLE.iter().map(|row| row.name);
    mistake.help(match closest(name, names.clone()) {
        Some(near) => format!("did you mean `{near}`?"),
        None => format!("operations are {}", names.collect::<Vec<_>>().join(" ")),
    })
}

#[cfg(test)]
mod tests {
    use super::super::form_table::FORM_TABLE;
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
        match parse_call(&mut cursor, Scope::Forms, &mut resolve) {
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
            "moments_of_part(x, d)",
            "softmax_from_parts(x, p, d)",
            "layer_norm_from_parts(x, g, p, d, eps=0.001)",
        ] {
            let (op, operands) = read(text).unwrap_or_else(|why| panic!("{text}: {why}"));
            assert_eq!(print_call(&op, &operands), text);
        }
    }

    #[test]
    fn every_row_can_be_read_as_its_usage_says() {
        for row in TABLE.iter().chain(FORM_TABLE) {
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
    fn what_is_called_otherwise_elsewhere_is_an_operation_here() {
        for (names, here) in ELSEWHERE {
            assert!(row(here, Scope::Programs).is_some(), "{here}");
            assert!(names.split(' ').all(|name| row(name, Scope::Programs).is_none()), "{names}");
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
