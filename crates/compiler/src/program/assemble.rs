//! The one way to make a [`Program`]: value by value, each checked by [`infer`] when it is added.

use super::infer::{CallType, OperandType, distinct, infer};
use super::{Apply, Def, Dim, DimId, Operand, Program, Value, ValueId};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote};
use crate::dtype::DType;
use crate::id::Table;
use crate::op::Op;
use crate::text::{check_name, check_spelling};
use std::collections::BTreeMap;
use std::fmt;

/// A dim as it is named somewhere: `b`, `b=2`.
#[derive(Clone, PartialEq, Debug)]
pub struct DimText {
    /// The name.
    pub name: String,
    /// The size, if it is fixed there.
    pub size: Option<u64>,
    /// Where it stands.
    pub span: Span,
}

impl From<&str> for DimText {
    fn from(name: &str) -> DimText {
        DimText { name: name.into(), size: None, span: Span::default() }
    }
}

impl From<(&str, u64)> for DimText {
    fn from((name, size): (&str, u64)) -> DimText {
        DimText { name: name.into(), size: Some(size), span: Span::default() }
    }
}

impl fmt::Display for DimText {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.size {
            Some(size) => write!(f, "{}={size}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// An operation to be added.
#[derive(Clone, PartialEq, Debug)]
pub struct NewApply {
    /// The operation.
    pub op: Op,
    /// The operands, each with its place.
    pub operands: Vec<(Operand, Span)>,
    /// The dims asked for.
    pub asked: Option<Vec<DimText>>,
    /// The place of the call.
    pub span: Span,
}

/// A program that is being made.
pub struct Assembler {
    program: Program,
    values: BTreeMap<String, ValueId>,
    dims: BTreeMap<String, DimId>,
    fixed_at: Table<DimId, Span>,
    is_output: Table<ValueId, bool>,
}

impl Assembler {
    /// A program without values.
    pub fn new(name: impl Into<String>, span: Span) -> Assembler {
        let program = Program {
            name: name.into(),
            dims: Table::new(),
            values: Table::new(),
            outputs: Vec::new(),
            span,
        };
        Assembler {
            program,
            values: BTreeMap::new(),
            dims: BTreeMap::new(),
            fixed_at: Table::new(),
            is_output: Table::new(),
        }
    }

    /// The value of that name.
    pub fn value(&self, name: &str) -> Option<ValueId> {
        self.values.get(name).copied()
    }

    /// The program so far.
    pub fn program(&self) -> &Program {
        &self.program
    }

    /// Adds an input; `from` names a tensor of the weight files.
    pub fn input(
        &mut self,
        name: &str,
        span: Span,
        dtype: DType,
        dims: &[DimText],
        from: Option<String>,
    ) -> Result<ValueId, Diagnostic> {
        self.check_name(name, span)?;
        let names: Vec<&str> = dims.iter().map(|dim| dim.name.as_str()).collect();
        let place = dims.first().map_or(span, |dim| dim.span).to(dims.last().map_or(span, |dim| dim.span));
        distinct(&names, place)?;
        let mut ids = Vec::with_capacity(dims.len());
        for dim in dims {
            ids.push(self.dim(dim)?);
        }
        Ok(self.add(Value { name: name.into(), dims: ids, dtype, def: Def::Input { from }, span }))
    }

    /// Adds the result of an operation.
    pub fn apply(&mut self, name: &str, span: Span, new: NewApply) -> Result<ValueId, Diagnostic> {
        self.check_name(name, span)?;
        let program = &self.program;
        let operands: Vec<(OperandType<'_>, Span)> =
            new.operands.iter().map(|(operand, place)| (operand_type(program, *operand), *place)).collect();
        let asked: Option<Vec<&str>> =
            new.asked.as_ref().map(|dims| dims.iter().map(|dim| dim.name.as_str()).collect());
        let asked_at = new.asked.iter().flatten().map(|dim| dim.span).reduce(Span::to).unwrap_or(new.span);
        let given = infer(CallType {
            op: &new.op,
            operands: &operands,
            asked: asked.as_deref().map(|dims| (dims, asked_at)),
            span: new.span,
        })?;
        let mut ids = Vec::with_capacity(given.dims.len());
        for name in given.dims {
            let size = given.sizes.iter().find(|(dim, _)| *dim == name).map(|(_, size)| *size);
            ids.push(self.dim(&DimText { name, size, span: new.span })?);
        }
        for dim in new.asked.iter().flatten().filter(|dim| dim.size.is_some()) {
            self.dim(dim)?;
        }
        let apply = Apply {
            op: new.op,
            operands: new.operands.into_iter().map(|(operand, _)| operand).collect(),
            asked: new.asked.is_some().then(|| ids.clone()),
        };
        let def = Def::Result(apply);
        Ok(self.add(Value { name: name.into(), dims: ids, dtype: given.dtype, def, span }))
    }

    /// Names a value as an output.
    pub fn output(&mut self, value: ValueId, span: Span) -> Result<(), Diagnostic> {
        if std::mem::replace(&mut self.is_output[value], true) {
            return Err(output_twice(&self.program.values[value].name, span));
        }
        self.program.outputs.push(value);
        Ok(())
    }

    /// The program.
    pub fn finish(self) -> Result<Program, Diagnostics> {
        match self.no_output() {
            Some(mistake) => Err(mistake.into()),
            None => Ok(self.program),
        }
    }

    /// What is wrong with a program that has no output.
    pub(super) fn no_output(&self) -> Option<Diagnostic> {
        self.program.outputs.is_empty().then(|| {
            let message = format!("program {} has no output", quote(&self.program.name));
            Diagnostic::at(Code::NoOutput, self.program.span, message).help("name what it is for: `output y`")
        })
    }

    /// The values so far, whether they make a program or not.
    pub(super) fn unfinished(self) -> Program {
        self.program
    }

    fn add(&mut self, value: Value) -> ValueId {
        let name = value.name.clone();
        let id = self.program.values.push(value);
        self.is_output.push(false);
        self.values.insert(name, id);
        id
    }

    /// Whether a new value may have the name.
    pub(super) fn check_name(&self, name: &str, span: Span) -> Result<(), Diagnostic> {
        check_name("a value", name, span)?;
        match self.values.get(name) {
            None => Ok(()),
            Some(&first) => {
                let mistake =
                    Diagnostic::at(Code::DuplicateName, span, format!("{} is defined twice", quote(name)));
                let mistake = mistake.related(self.program.values[first].span, "it is first defined here");
                Err(mistake.help("give one of them another name"))
            }
        }
    }

    /// The dim of that name, new if it is not known; a size that it is given must be the one it has.
    fn dim(&mut self, text: &DimText) -> Result<DimId, Diagnostic> {
        let Some(&id) = self.dims.get(&text.name) else {
            check_spelling(&text.name, text.span)?;
            let dim = Dim { name: text.name.clone(), fixed: text.size, span: text.span };
            let id = self.program.dims.push(dim);
            self.dims.insert(text.name.clone(), id);
            self.fixed_at.push(text.span);
            return Ok(id);
        };
        match (self.program.dims[id].fixed, text.size) {
            (None, Some(_)) => {
                self.program.dims[id].fixed = text.size;
                self.fixed_at[id] = text.span;
            }
            (Some(known), Some(size)) if known != size => {
                let message =
                    format!("the dim {} gets size {size} here, but it has size {known}", quote(&text.name));
                return Err(Diagnostic::at(Code::SizeConflict, text.span, message)
                    .related(self.fixed_at[id], format!("size {known} is fixed here"))
                    .help("a name has one size in a program; where two sizes are meant, use two names"));
            }
            _ => {}
        }
        Ok(id)
    }
}

/// A value is named as output a second time.
pub(super) fn output_twice(name: &str, span: Span) -> Diagnostic {
    let message = format!("{} is named as output twice", quote(name));
    Diagnostic::at(Code::DuplicateOutput, span, message).help("name it once")
}

fn operand_type(program: &Program, operand: Operand) -> OperandType<'_> {
    match operand {
        Operand::Number(number) => OperandType::Number(number),
        Operand::Value(id) => {
            let value = &program.values[id];
            OperandType::Value { name: &value.name, dims: program.dim_names(id), dtype: value.dtype }
        }
    }
}
