//! Programs written in Rust.
//!
//! ```
//! use shardweave_compiler::dtype::DType;
//! use shardweave_compiler::op::{Map, Op};
//! use shardweave_compiler::program::Program;
//!
//! let layer = Program::builder("layer")
//!     .input("x", DType::F32, ["s", "e"])
//!     .input("w", DType::F32, ["h", "e"])
//!     .op("y", Op::Linear, ["x", "w"])
//!     .op("z", Op::Map(Map::Gelu), ["y"])
//!     .output("z")
//!     .finish()?;
//! assert_eq!(layer, layer.to_string().parse()?);
//! # Ok::<(), shardweave_compiler::diagnostic::Diagnostics>(())
//! ```
//!
//! A builder says what the text says, statement by statement, and its statements are read by the one reader
//! of programs: so there is one set of rules, and a mistake has its place in [`ProgramBuilder::text`]. What
//! is added here is only that every part is one that the text can say.
//!
//! Considered and left: handles for values instead of names. Every value needs a name anyway, for
//! placements and explanations; handles would add a second way to refer to it, and of one builder could be
//! used in another.

use super::print::{dims_text, input_text, result_text};
use super::{DimText, Program, parse_program};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, quote};
use crate::dtype::{DType, Number};
use crate::op::{Op, OperandText, Scope, parse_call, print_call};
use crate::text::{Cursor, Reported, check_built, quoted_text};

/// A program in the making: see [`Program::builder`].
#[derive(Clone, Debug)]
pub struct ProgramBuilder {
    text: String,
    /// Parts that the text cannot say.
    found: Diagnostics,
}

/// What an operation works on: the name of a value, or a number.
#[derive(Clone, PartialEq, Debug)]
pub enum Term {
    /// A value defined before.
    Value(String),
    /// A number; it takes the element type of the other operand.
    Number(Number),
}

impl Program {
    /// A program in the making.
    pub fn builder(name: &str) -> ProgramBuilder {
        let mut builder = ProgramBuilder { text: format!("program {name} {{\n"), found: Diagnostics::new() };
        check_built(name, &mut builder.found);
        builder
    }
}

impl ProgramBuilder {
    /// `input x: f32[b, s=4]`: dims are names, or names with sizes.
    pub fn input<D: Into<DimText>>(
        &mut self,
        name: &str,
        dtype: DType,
        dims: impl IntoIterator<Item = D>,
    ) -> &mut ProgramBuilder {
        self.input_from(name, dtype, dims, None)
    }

    /// `input w: f32[h, e] from "layer.weight"`: an input that a tensor of the weight files is for.
    pub fn weight<D: Into<DimText>>(
        &mut self,
        name: &str,
        dtype: DType,
        dims: impl IntoIterator<Item = D>,
        from: &str,
    ) -> &mut ProgramBuilder {
        self.input_from(name, dtype, dims, Some(from))
    }

    fn input_from<D: Into<DimText>>(
        &mut self,
        name: &str,
        dtype: DType,
        dims: impl IntoIterator<Item = D>,
        from: Option<&str>,
    ) -> &mut ProgramBuilder {
        check_built(name, &mut self.found);
        let dims = self.dims(dims);
        if let Some(from) = from.filter(|from| !can_be_quoted(from)) {
            let message = format!("the name {} of a tensor has a line break", quote(from));
            self.found.push(Diagnostic::general(Code::Syntax, message));
        }
        self.statement(&input_text(name, dtype, &dims, from))
    }

    /// `y = linear(x, w)`: any operation, with its attributes, on values and numbers.
    pub fn op<T: Into<Term>>(
        &mut self,
        name: &str,
        op: Op,
        operands: impl IntoIterator<Item = T>,
    ) -> &mut ProgramBuilder {
        let operands = self.operands(&op, operands);
        check_built(name, &mut self.found);
        self.statement(&result_text(name, &op, &operands, None))
    }

    /// `y = linear(x, w) -> [b, h]`: the same with the dims asked for.
    pub fn op_as<T: Into<Term>, D: Into<DimText>>(
        &mut self,
        name: &str,
        op: Op,
        operands: impl IntoIterator<Item = T>,
        dims: impl IntoIterator<Item = D>,
    ) -> &mut ProgramBuilder {
        let operands = self.operands(&op, operands);
        check_built(name, &mut self.found);
        let dims = self.dims(dims);
        self.statement(&result_text(name, &op, &operands, Some(&dims)))
    }

    /// `output y`
    pub fn output(&mut self, name: &str) -> &mut ProgramBuilder {
        check_built(name, &mut self.found);
        self.statement(&format!("output {name}"))
    }

    /// The statements so far, as text: what the places of mistakes are in.
    pub fn text(&self) -> String {
        format!("{}}}\n", self.text)
    }

    /// The program; all mistakes if there are any. The builder can go on from here.
    pub fn finish(&self) -> Result<Program, Diagnostics> {
        self.found.clone().finish(())?;
        parse_program(&self.text())
    }

    fn statement(&mut self, statement: &str) -> &mut ProgramBuilder {
        self.text.push_str("  ");
        self.text.push_str(statement);
        self.text.push('\n');
        self
    }

    fn dims<D: Into<DimText>>(&mut self, dims: impl IntoIterator<Item = D>) -> String {
        let dims: Vec<DimText> = dims.into_iter().map(Into::into).collect();
        dims.iter().for_each(|dim| check_built(&dim.name, &mut self.found));
        dims_text(dims.iter().map(ToString::to_string))
    }

    /// The operands as text. The call must read back as the operation that it is.
    fn operands<T: Into<Term>>(&mut self, op: &Op, operands: impl IntoIterator<Item = T>) -> Vec<String> {
        let mut texts = Vec::new();
        for operand in operands {
            texts.push(match operand.into() {
                Term::Value(name) => {
                    check_built(&name, &mut self.found);
                    name
                }
                Term::Number(number) => number.to_string(),
            });
        }
        if let Err(mistakes) = can_be_said(op, &texts) {
            self.found.extend(mistakes);
        }
        texts
    }
}

/// Whether the call reads back as this operation. What else is wrong with it is told when it is read in
/// its place.
fn can_be_said(op: &Op, operands: &[String]) -> Result<(), Diagnostics> {
    let text = print_call(op, operands);
    let mut cursor = Cursor::new(&text);
    let read = parse_call(&mut cursor, Scope::Programs, &mut |_: OperandText<'_>, _| Ok(()));
    match read {
        Ok(call) if call.op == *op => Ok(()),
        Err(Reported) if cursor.mistakes() > 0 => Ok(()),
        _ => {
            let message = format!("{} does not say the operation that it was made from", quote(&text));
            Err(Diagnostic::general(Code::Syntax, message).help("name its dims as dims are named").into())
        }
    }
}

fn can_be_quoted(from: &str) -> bool {
    let quoted = quoted_text(from);
    let mut cursor = Cursor::new(&quoted);
    matches!(cursor.text("a text"), Ok((read, _)) if read == from)
}

impl From<&str> for Term {
    fn from(name: &str) -> Term {
        Term::Value(name.into())
    }
}

impl From<String> for Term {
    fn from(name: String) -> Term {
        Term::Value(name)
    }
}

impl From<f64> for Term {
    fn from(number: f64) -> Term {
        Term::Number(Number::Float(number))
    }
}

impl From<i64> for Term {
    fn from(number: i64) -> Term {
        Term::Number(Number::Int(number.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::op::{Reduce, Zip};

    fn told(builder: &ProgramBuilder) -> String {
        builder.finish().expect_err("a mistake").to_string()
    }

    #[test]
    fn a_built_program_is_what_its_text_says() {
        let mut builder = Program::builder("p");
        builder.input("x", DType::F32, [DimText::from("b"), ("s", 4).into()]);
        builder.weight("w", DType::F32, ["h", "s"], "a \"quoted\" weight");
        builder.op_as("y", Op::Linear, ["x", "w"], ["h", "b"]);
        builder.op("z", Op::Zip(Zip::Mul), [Term::from("y"), 0.5.into()]);
        builder.op("m", Op::Reduce(Reduce::Mean, vec!["b".into()]), ["z"]).output("m");
        let program = builder.finish().expect("a program");
        let text = "program p {
  input x: f32[b, s=4]
  input w: f32[h, s] from \"a \\\"quoted\\\" weight\"
  y = linear(x, w) -> [h, b]
  z = mul(y, 0.5)
  m = mean(z, b)
  output m
}";
        assert_eq!(program.to_string(), text);
        assert_eq!(builder.text(), format!("{text}\n"));
        // A mistake of a later stage has its place in the text.
        let place = program.values[program.value("y").expect("there")].span;
        assert_eq!(&text[place.start as usize..place.end as usize], "y");
        // The builder goes on.
        let more = builder.output("y").finish().expect("a program");
        assert_eq!(more.outputs.len(), 2);
    }

    #[test]
    fn all_mistakes_are_told() {
        let mut builder = Program::builder("p");
        builder.input("x", DType::F32, ["s"]).op("y", Op::Linear, ["x"]).op("z", Op::Reshard, ["v"]);
        let found = told(builder.output("q"));
        for expected in ["`linear` takes 2 or 3 operands", "no value `v`", "no value `q`"] {
            assert!(found.contains(expected), "{expected} is not in\n{found}");
        }
        assert!(told(&Program::builder("p")).contains("program `p` has no output"));
    }

    #[test]
    fn what_the_text_cannot_say_is_refused() {
        let with = |op: Op| {
            let mut builder = Program::builder("p");
            builder.input("x", DType::F32, ["s"]).op("y", op, ["x"]).output("y");
            told(&builder)
        };
        assert!(with(Op::Softmax("s) output x #".into())).contains("does not say"));
        assert!(with(Op::LayerNorm { dim: "s".into(), eps: -1.0 }).contains("cannot be `eps`"));
        assert!(with(Op::Rename(vec![("s".into(), "a b".into())])).contains("expected"));
        let mut builder = Program::builder("p q");
        builder.input("x y", DType::F32, ["s t"]).weight("w", DType::F32, ["s"], "a\nb").output("x y");
        let found = told(&builder);
        for expected in ["`p q` is not a name", "`x y` is not a name", "`s t` is not a name", "line break"] {
            assert!(found.contains(expected), "{expected} is not in\n{found}");
        }
    }
}
