//! Programs from text.

use super::assemble::{Assembler, DimText, NewApply, output_twice};
use super::{Operand, Program};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote};
use crate::dtype::DType;
use crate::op::{OperandText, Scope, no_infix, parse_call, unknown_dtype};
use crate::text::{Cursor, Kind, Reported, closest, read_alone};
use std::collections::BTreeSet;
use std::str::FromStr;

/// A program as far as it could be read.
pub(crate) struct ReadProgram {
    /// The program; sound only if no mistake was found in it.
    pub program: Program,
    /// What it has beside that.
    pub unread: Unread,
}

/// What could not be read of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Unread {
    /// Nothing: no mistake was found.
    Nothing,
    /// The definitions of these values.
    Values(BTreeSet<String>),
    /// Statements that do not even say which value they define.
    Statements,
}

impl Unread {
    /// Whether a value that the program lacks may be one that could not be read.
    pub fn may_define(&self, value: &str) -> bool {
        match self {
            Unread::Nothing => false,
            Unread::Values(names) => names.contains(value),
            Unread::Statements => true,
        }
    }
}

/// Reads a program from `program` to its `}`. Mistakes are in the cursor's list; `Err` if the program
/// has no name or body.
pub(crate) fn read_program(cursor: &mut Cursor<'_>) -> Result<ReadProgram, Reported> {
    let before = cursor.mistakes();
    let start = cursor.expect_word("program")?;
    let (name, name_span) = cursor.name("the name of a program")?;
    let opened = cursor.expect("{")?;
    let mut reader = Reader {
        builder: Assembler::new(name, name_span),
        broken: BTreeSet::new(),
        nameless: 0,
        outputs: Vec::new(),
    };
    cursor.skip_newlines();
    while !cursor.at("}") {
        if cursor.peek().kind == Kind::End || cursor.at_definition() {
            let mistake =
                Diagnostic::at(Code::Syntax, opened, format!("program {} has no closing `}}`", quote(name)));
            cursor.report(mistake);
            break;
        }
        if reader.statement(cursor).and_then(|()| cursor.end_statement()).is_err() {
            cursor.skip_statement();
        }
        cursor.skip_newlines();
    }
    cursor.eat("}");
    reader.resolve_outputs(cursor);
    let span = cursor.span_from(start);
    if cursor.mistakes() == before
        && let Some(mistake) = reader.builder.no_output()
    {
        cursor.report(mistake);
    }
    let unread = match (cursor.mistakes() == before, reader.nameless) {
        (true, _) => Unread::Nothing,
        (false, 0) => Unread::Values(reader.broken),
        (false, _) => Unread::Statements,
    };
    let mut program = reader.builder.unfinished();
    program.span = span;
    Ok(ReadProgram { program, unread })
}

/// Reads a text that is one program.
pub fn parse_program(text: &str) -> Result<Program, Diagnostics> {
    read_alone(text, |cursor| read_program(cursor).map(|read| read.program))
}

impl FromStr for Program {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<Program, Diagnostics> {
        parse_program(text)
    }
}

/// How an input is written.
const AN_INPUT: &str = "it is written `input x: f32[b, s]`, a scalar `input x: f32[]`";

struct Reader<'a> {
    builder: Assembler,
    /// Values whose definition has a mistake: uses of them are not reported again.
    broken: BTreeSet<String>,
    /// How many statements do not say which value they define.
    nameless: usize,
    /// Outputs are looked up at the end: they may be named before they are defined.
    outputs: Vec<(&'a str, Span)>,
}

impl<'a> Reader<'a> {
    /// `input`, `output`, or `name = call`. A value may be called `input`: what follows decides.
    fn statement(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Reported> {
        let second_is_name = matches!(cursor.peek_second().kind, Kind::Name(_));
        match cursor.peek().kind {
            Kind::Name("input") if second_is_name => self.input(cursor),
            Kind::Name("output") if second_is_name => self.output(cursor),
            Kind::Name(_) => self.apply(cursor),
            _ => {
                self.nameless += 1;
                Err(cursor.unexpected("`input`, `output`, `name = operation(...)` or `}`"))
            }
        }
    }

    /// `input x: f32[b, s=4] from "name"`
    fn input(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Reported> {
        cursor.bump();
        let (name, span) = cursor.name("the name of an input")?;
        let read = self.input_type(cursor, name, span);
        self.note(name, read)
    }

    fn input_type(&mut self, cursor: &mut Cursor<'_>, name: &str, span: Span) -> Result<(), Reported> {
        cursor.expect(":")?;
        if !matches!(cursor.peek().kind, Kind::Name(_)) {
            let mistake = cursor.surprise("an element type");
            return Err(cursor.report(mistake.help(AN_INPUT)));
        }
        let (dtype_name, place) = cursor.name("an element type")?;
        let Some(dtype) = DType::from_name(dtype_name) else {
            return Err(cursor.report(unknown_dtype(dtype_name, place)));
        };
        if !cursor.at("[") {
            let mistake = cursor.surprise("`[` and the dims");
            return Err(cursor.report(mistake.help(AN_INPUT)));
        }
        let dims = cursor.list("[", "]", dim)?;
        let from = match cursor.eat_word("from") {
            Some(_) => Some(cursor.text("the name of a tensor in quotes")?.0),
            None => None,
        };
        let added = self.builder.input(name, span, dtype, &dims, from);
        added.map(drop).map_err(|mistake| cursor.report(mistake))
    }

    /// `output y`
    fn output(&mut self, cursor: &mut Cursor<'a>) -> Result<(), Reported> {
        cursor.bump();
        self.outputs.push(cursor.name("the name of a value")?);
        Ok(())
    }

    fn resolve_outputs(&mut self, cursor: &mut Cursor<'_>) {
        let mut broken = BTreeSet::new();
        for (name, span) in std::mem::take(&mut self.outputs) {
            let named = match self.builder.value(name) {
                Some(value) => self.builder.output(value, span),
                None if self.broken.contains(name) && broken.insert(name) => Ok(()),
                None if self.broken.contains(name) => Err(output_twice(name, span)),
                None => Err(self.unknown(name, span)),
            };
            if let Err(mistake) = named {
                cursor.report(mistake);
            }
        }
    }

    /// `y = operation(...) -> [dims]`
    fn apply(&mut self, cursor: &mut Cursor<'_>) -> Result<(), Reported> {
        let (name, span) = cursor.name("the name of a value")?;
        if cursor.expect("=").is_err() {
            self.nameless += 1;
            return Err(Reported);
        }
        let read = self.call(cursor, name, span);
        self.note(name, read)
    }

    fn call(&mut self, cursor: &mut Cursor<'_>, name: &str, span: Span) -> Result<(), Reported> {
        let mut uses_broken = false;
        let mut resolve = |text: OperandText<'_>, place: Span| match text {
            OperandText::Number(number) => Ok(Some(Operand::Number(number))),
            OperandText::Name(operand) => match self.builder.value(operand) {
                Some(value) => Ok(Some(Operand::Value(value))),
                None if self.broken.contains(operand) => {
                    uses_broken = true;
                    Ok(None)
                }
                None if operand == name => {
                    let message = format!("{} is used in its own definition", quote(name));
                    Err(Diagnostic::at(Code::UnknownValue, place, message)
                        .help("give the result a name of its own"))
                }
                None => Err(self.unknown(operand, place)),
            },
            OperandText::Local(_) => {
                Err(Diagnostic::at(Code::Syntax, place, "an operand in a program is a name or a number"))
            }
        };
        let call = parse_call(cursor, Scope::Programs, &mut resolve)?;
        no_infix(cursor, call.span)?;
        let asked = match cursor.eat("->") {
            Some(_) if !cursor.at("[") => {
                let mistake = cursor.surprise("`[` and the dims of the result");
                return Err(cursor.report(mistake.help("the dims asked for are written `-> [b, s]`")));
            }
            Some(_) => Some(cursor.list("[", "]", dim)?),
            None => None,
        };
        if uses_broken {
            // Nothing can be said about this value either, but for its name.
            self.broken.insert(name.to_string());
            return self.builder.check_name(name, span).map_err(|mistake| cursor.report(mistake));
        }
        let operands =
            call.operands.into_iter().filter_map(|(operand, place)| Some((operand?, place))).collect();
        let new = NewApply { op: call.op, operands, asked, span: call.span };
        let added = self.builder.apply(name, span, new);
        added.map(drop).map_err(|mistake| cursor.report(mistake))
    }

    /// Remembers that the definition of a value has a mistake.
    fn note(&mut self, name: &str, read: Result<(), Reported>) -> Result<(), Reported> {
        if read.is_err() && self.builder.value(name).is_none() {
            self.broken.insert(name.to_string());
        }
        read
    }

    fn unknown(&self, name: &str, span: Span) -> Diagnostic {
        let mistake =
            Diagnostic::at(Code::UnknownValue, span, format!("there is no value {} here", quote(name)));
        let known = self.builder.program().values.values().map(|value| value.name.as_str());
        mistake.help(match closest(name, known) {
            Some(near) => format!("did you mean `{near}`?"),
            None => "a value is defined on a line before the one that uses it".into(),
        })
    }
}

/// `b` or `b=2`
fn dim(cursor: &mut Cursor<'_>) -> Result<DimText, Reported> {
    if matches!(cursor.peek().kind, Kind::Number(_)) {
        let mistake = cursor.surprise("the name of a dim");
        return Err(cursor.report(mistake.help("every dim has a name; its size is fixed as in `s=4`")));
    }
    let (name, span) = cursor.name("the name of a dim")?;
    let size = match cursor.eat("=") {
        Some(_) => Some(cursor.count("the size of a dim")?.0),
        None => None,
    };
    Ok(DimText { name: name.to_string(), size, span: cursor.span_from(span) })
}
