//! Reading the parts of the text that local and host programs share.
//!
//! A form is written by a program or edited by an expert: reading stops at the first mistake, and every
//! mistake has the code [`Code::FormSyntax`].

use super::verify::MOST_COUNTER_IDS;
use super::{Arg, Compute, Kind as MoveKind, Move, Path, TensorType};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote};
use crate::dtype::DType;
use crate::id::{Id, Table};
use crate::layout::{Layout, LayoutScope, Lookup, StepId, Writer, compilers_dim, parse_layout};
use crate::mesh::Mesh;
use crate::op::{OperandText, Scope, parse_call, space};
use crate::placement::Overlap;
use crate::text::{Cursor, Kind, Reported};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Loops inside loops beyond this depth are not read.
pub(crate) const MOST_DEPTH: usize = 16;

/// Reads one form.
pub(crate) struct FormReader<'a> {
    pub cursor: Cursor<'a>,
    meshes: BTreeMap<String, Arc<Mesh>>,
}

/// What a form names its values by.
pub(crate) trait FormValue: Id + std::fmt::Display {
    /// The value that an operand names; `None` if it is no name of a value.
    fn from_operand(operand: OperandText<'_>) -> Option<Self>;
}

/// Reads a whole text with `read`; every mistake gets the code of the forms.
pub(crate) fn read_form<'a, T>(
    text: &'a str,
    read: impl FnOnce(&mut FormReader<'a>) -> Result<T, Reported>,
) -> Result<T, Diagnostics> {
    let mut reader = FormReader { cursor: Cursor::new(text), meshes: BTreeMap::new() };
    reader.cursor.skip_newlines();
    let form = read(&mut reader).and_then(|form| reader.cursor.expect_end().map(|()| form));
    let mut found = Diagnostics::new();
    for mistake in reader.cursor.finish().errors() {
        found.push(Diagnostic { code: Code::FormSyntax, ..mistake.clone() });
    }
    match form {
        Ok(form) => found.finish(form),
        Err(Reported) => Err(found),
    }
}

impl<'a> FormReader<'a> {
    /// Reports a mistake at a place.
    pub fn mistake(&mut self, place: Span, message: impl Into<String>) -> Reported {
        self.cursor.report(Diagnostic::at(Code::FormSyntax, place, message))
    }

    /// Reads `{`, lines, `}`; `line` reads one line without its end.
    pub fn lines(
        &mut self,
        line: &mut dyn FnMut(&mut FormReader<'a>) -> Result<(), Reported>,
    ) -> Result<(), Reported> {
        self.cursor.expect("{")?;
        self.cursor.skip_newlines();
        while self.cursor.eat("}").is_none() {
            line(self)?;
            self.cursor.end_statement()?;
            self.cursor.skip_newlines();
        }
        Ok(())
    }

    /// Reads `mesh line { tp = 4 }`.
    pub fn mesh(&mut self) -> Result<(), Reported> {
        let start = self.cursor.peek().span();
        let (mesh, _) = crate::mesh::read_mesh(&mut self.cursor)?;
        let name = mesh.name().to_string();
        if self.meshes.insert(name.clone(), Arc::new(mesh)).is_some() {
            return Err(self.mistake(start, format!("mesh {} stands twice", quote(&name))));
        }
        Ok(())
    }

    /// Reads `f32[b=1, s=8] at s/tp on line`.
    pub fn ty(&mut self) -> Result<TensorType, Reported> {
        let (name, place) = self.cursor.name("an element type")?;
        let Some(dtype) = DType::from_name(name) else {
            return Err(self.mistake(place, format!("{} is no element type", quote(name))));
        };
        let dims = self.cursor.list("[", "]", |cursor| {
            let (name, _) = cursor.name("the name of a dim")?;
            let name = compilers_dim(cursor, name)?;
            cursor.expect("=")?;
            let (size, _) = cursor.count("the size of a dim")?;
            Ok((name.into_owned(), size))
        })?;
        self.cursor.expect_word("at")?;
        let names: Vec<&str> = dims.iter().map(|(name, _)| name.as_str()).collect();
        let layout = self.layout("the value", &names)?;
        Ok(TensorType { dims, dtype, layout })
    }

    /// Reads `linear(%3, %1) over s/tp on line`, of which the result has a given type.
    pub fn compute<V: FormValue>(
        &mut self,
        result: V,
        ty: &TensorType,
        type_of: &dyn Fn(V) -> Option<TensorType>,
    ) -> Result<Compute<V>, Reported> {
        let mut dims = Vec::new();
        let call = parse_call(&mut self.cursor, Scope::Forms, &mut |text, place| {
            if let OperandText::Number(number) = text {
                dims.push(Vec::new());
                return Ok(Arg::Number(number));
            }
            let value = V::from_operand(text).and_then(|value| Some((value, type_of(value)?)));
            let Some((value, ty)) = value else {
                return Err(Diagnostic::at(
                    Code::FormSyntax,
                    place,
                    "no value of this name is defined above",
                ));
            };
            dims.push(ty.dims);
            Ok(Arg::Value(value))
        })?;
        let space = space(&call.op, &dims, &ty.dims);
        self.cursor.expect_word("over")?;
        let names: Vec<&str> = space.dims.values().map(|dim| dim.name.as_str()).collect();
        let over = self.layout(call.op.name(), &names)?;
        let operands = call.operands.into_iter().map(|(operand, _)| operand).collect();
        Ok(Compute { op: call.op, operands, result, space, over })
    }

    /// Reads `all_gather %0 over tp group 4 because "..."` to a given target.
    pub fn moved<V: FormValue>(&mut self, target: V) -> Result<Move<V>, Reported> {
        let (name, place) = self.cursor.name("the kind of a move")?;
        let Some(kind) = MoveKind::from_name(name) else {
            return Err(self.mistake(place, format!("{} is no kind of move", quote(name))));
        };
        let source = self.value()?;
        let (mut axes, mut group, mut path, mut because) = (Vec::new(), 1, Path::Direct, None);
        if self.cursor.eat_word("over").is_some() {
            axes.push(self.cursor.name("the name of an axis")?.0.to_string());
            while self.cursor.eat(",").is_some() {
                axes.push(self.cursor.name("the name of an axis")?.0.to_string());
            }
        }
        if self.cursor.eat_word("group").is_some() {
            group = self.cursor.count("the size of a group")?.0;
        }
        if self.cursor.eat_word("passed").is_some() {
            self.cursor.expect_word("on")?;
            path = Path::PassedOn;
        }
        if self.cursor.eat_word("because").is_some() {
            because = Some(self.cursor.text("the reason in quotes")?.0);
        }
        Ok(Move { kind, source, target, axes, group, path, because })
    }

    /// Whether a call comes next, and not a move.
    pub fn at_call(&self) -> bool {
        self.cursor.peek_second().kind == Kind::Mark("(")
    }

    /// Reads the name of a value.
    pub fn value<V: FormValue>(&mut self) -> Result<V, Reported> {
        let operand = match self.cursor.peek().kind {
            Kind::Name(name) => V::from_operand(OperandText::Name(name)),
            Kind::Local(digits) => V::from_operand(OperandText::Local(digits)),
            _ => None,
        };
        match operand {
            Some(value) => {
                self.cursor.bump();
                Ok(value)
            }
            None => Err(self.cursor.unexpected("the name of a value")),
        }
    }

    /// Reads the counters of a loop: `i0 < 2, i1 < 3`.
    fn counters(&mut self) -> Result<Vec<(StepId, u64)>, Reported> {
        let mut counters = Vec::new();
        loop {
            let place = self.cursor.peek().span();
            let Some(id) = self.id::<StepId>("i") else {
                return Err(self.cursor.unexpected("the counter of a loop"));
            };
            if id.index() >= MOST_COUNTER_IDS {
                return Err(self.mistake(place, format!("counters are i0 to i{}", MOST_COUNTER_IDS - 1)));
            }
            self.cursor.expect("<")?;
            counters.push((id, self.cursor.count("a number of steps")?.0));
            if self.cursor.eat(",").is_none() {
                return Ok(counters);
            }
        }
    }

    /// Reads `loop i0 < 2, i1 < 3 via ring`.
    pub fn loop_line(&mut self) -> Result<(Vec<(StepId, u64)>, Overlap), Reported> {
        self.cursor.expect_word("loop")?;
        let counters = self.counters()?;
        if self.cursor.eat_word("via").is_none() {
            return Ok((counters, Overlap::None));
        }
        let (name, place) = self.cursor.name("a way of overlap")?;
        let overlap = Overlap::from_name(name)
            .ok_or_else(|| self.mistake(place, format!("{} is no way of overlap", quote(name))))?;
        Ok((counters, overlap))
    }

    /// Takes an id that is spelled with a prefix, such as `s0`.
    pub fn id<I: Id>(&mut self, prefix: &str) -> Option<I> {
        let Kind::Name(name) = self.cursor.peek().kind else { return None };
        let id = read_id(name.strip_prefix(prefix)?)?;
        self.cursor.bump();
        Some(id)
    }

    /// Reads a layout of something with these dims; it names its mesh.
    fn layout(&mut self, value: &str, dims: &[&str]) -> Result<Layout, Reported> {
        let meshes = &self.meshes;
        let meshes =
            |name: &str| meshes.get(name).map_or(Lookup::Unknown, |mesh| Lookup::Found(mesh.clone()));
        let scope =
            LayoutScope { value, dims: Some(dims), home: None, meshes: &meshes, writer: Writer::Compiler };
        let before = self.cursor.mistakes();
        let layout = parse_layout(&mut self.cursor, &scope);
        if layout.is_err() && self.cursor.mistakes() == before {
            return Err(self.cursor.unexpected("`on` and the name of a mesh"));
        }
        layout
    }
}

/// The id with these digits, spelled without leading zeros.
pub(crate) fn read_id<I: Id>(digits: &str) -> Option<I> {
    let canonical = digits.bytes().all(|b| b.is_ascii_digit()) && (digits == "0" || !digits.starts_with('0'));
    let index: u32 = digits.parse().ok().filter(|_| canonical)?;
    Some(I::new(index as usize))
}

/// A table from its rows by id; the first id that is missing if there is a hole.
pub(crate) fn dense<I: Id, T>(rows: BTreeMap<I, T>) -> Result<Table<I, T>, I> {
    let hole = rows.keys().enumerate().find(|(at, id)| id.index() != *at).map(|(at, _)| I::new(at));
    match hole {
        Some(hole) => Err(hole),
        None => Ok(rows.into_values().collect()),
    }
}
