//! Reading a local program.

use super::{LocalId, LocalInstr, LocalLoop, LocalProgram, LocalValue};
use crate::diagnostic::Diagnostics;
use crate::instr::TensorType;
use crate::instr::parse::{FormReader, FormValue, MOST_DEPTH, dense, read_form, read_id};
use crate::op::OperandText;
use crate::text::{Kind, Reported};
use std::collections::BTreeMap;
use std::str::FromStr;

impl FormValue for LocalId {
    fn from_operand(operand: OperandText<'_>) -> Option<LocalId> {
        match operand {
            OperandText::Local(digits) => read_id(digits),
            OperandText::Name(_) | OperandText::Number(_) => None,
        }
    }
}

/// Reads a local program. It is not verified.
pub fn parse_local(text: &str) -> Result<LocalProgram, Diagnostics> {
    read_form(text, |reader| {
        reader.cursor.expect_word("local")?;
        let (name, place) = reader.cursor.name("the name of a program")?;
        let mut local = LocalReader { values: BTreeMap::new(), filled: Vec::new(), outputs: Vec::new() };
        let body = local.block(reader, 0)?;
        let values = dense(local.values)
            .map_err(|hole| reader.mistake(place, format!("{hole} is not defined, but later ones are")))?;
        Ok(LocalProgram { name: name.into(), values, body, outputs: local.outputs })
    })
}

impl FromStr for LocalProgram {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<LocalProgram, Diagnostics> {
        parse_local(text)
    }
}

/// What was read so far.
struct LocalReader {
    values: BTreeMap<LocalId, LocalValue>,
    /// The results of the loops around the line.
    filled: Vec<LocalId>,
    outputs: Vec<(String, LocalId)>,
}

impl LocalReader {
    /// A `{`, lines, `}`.
    fn block(&mut self, reader: &mut FormReader<'_>, depth: usize) -> Result<Vec<LocalInstr>, Reported> {
        if depth > MOST_DEPTH {
            return Err(reader.cursor.unexpected("fewer loops inside loops"));
        }
        let mut body = Vec::new();
        reader.lines(&mut |reader| self.line(reader, depth, &mut body))?;
        Ok(body)
    }

    fn line(
        &mut self,
        reader: &mut FormReader<'_>,
        depth: usize,
        body: &mut Vec<LocalInstr>,
    ) -> Result<(), Reported> {
        match reader.cursor.peek().kind {
            Kind::Name("mesh") if depth == 0 => reader.mesh()?,
            Kind::Name("output") if depth == 0 => self.output(reader)?,
            Kind::Name("loop") => body.push(self.steps(reader, depth)?),
            Kind::Local(_) => body.push(self.instr(reader)?),
            _ => return Err(reader.cursor.unexpected("a mesh, a value, a loop or an output")),
        }
        Ok(())
    }

    /// `output y0 = %2`
    fn output(&mut self, reader: &mut FormReader<'_>) -> Result<(), Reported> {
        reader.cursor.expect_word("output")?;
        let (name, _) = reader.cursor.name("the name of an output")?;
        reader.cursor.expect("=")?;
        let id = reader.value()?;
        self.outputs.push((name.into(), id));
        Ok(())
    }

    /// `loop i0 < 2 via ring { result %2 ... }`
    fn steps(&mut self, reader: &mut FormReader<'_>, depth: usize) -> Result<LocalInstr, Reported> {
        let (counters, overlap) = reader.loop_line()?;
        let mut steps = None;
        if reader.cursor.eat_word("in").is_some() {
            steps = Some(reader.cursor.count("a number of steps")?.0);
            reader.cursor.expect_word("steps")?;
        }
        let mut results = Vec::new();
        let mut body = Vec::new();
        let outside = self.filled.len();
        if depth == MOST_DEPTH {
            return Err(reader.cursor.unexpected("fewer loops inside loops"));
        }
        reader.lines(&mut |reader| {
            if reader.cursor.eat_word("result").is_some() {
                let result = self.define(reader)?.0;
                results.push(result);
                self.filled.push(result);
                return Ok(());
            }
            self.line(reader, depth + 1, &mut body)
        })?;
        self.filled.truncate(outside);
        let turns = counters.iter().fold(1, |turns: u64, (_, count)| turns.saturating_mul(*count));
        let steps = steps.unwrap_or(turns);
        Ok(LocalInstr::Loop(LocalLoop { counters, steps, results, body, overlap }))
    }

    /// `%4 y0: f32[...] at ... = linear(%3, %1) over ...`, or `%2 <- copy %4`, or where steps are combined
    /// `%2 <- linear(%3, %1) over ...`.
    fn instr(&mut self, reader: &mut FormReader<'_>) -> Result<LocalInstr, Reported> {
        if reader.cursor.peek_second().kind == Kind::Mark("<-") {
            let place = reader.cursor.peek().span();
            let target = reader.value()?;
            if !self.filled.contains(&target) {
                return Err(
                    reader.mistake(place, format!("{target} is not a result of a loop around the line"))
                );
            }
            reader.cursor.expect("<-")?;
            if reader.at_call() {
                let ty = self.values[&target].ty.clone();
                return self.compute(reader, target, &ty);
            }
            return Ok(LocalInstr::Move(reader.moved(target)?));
        }
        let (id, ty) = self.define(reader)?;
        reader.cursor.expect("=")?;
        if reader.cursor.eat_word("input").is_some() {
            return Ok(LocalInstr::Input(id));
        }
        if reader.at_call() {
            return self.compute(reader, id, &ty);
        }
        Ok(LocalInstr::Move(reader.moved(id)?))
    }

    /// `linear(%3, %1) over ...`
    fn compute(
        &self,
        reader: &mut FormReader<'_>,
        result: LocalId,
        ty: &TensorType,
    ) -> Result<LocalInstr, Reported> {
        let type_of = |id: LocalId| self.values.get(&id).map(|value| value.ty.clone());
        Ok(LocalInstr::Compute(reader.compute(result, ty, &type_of)?))
    }

    /// `%4 y0: f32[...] at ...`
    fn define(&mut self, reader: &mut FormReader<'_>) -> Result<(LocalId, TensorType), Reported> {
        let place = reader.cursor.peek().span();
        let id: LocalId = reader.value()?;
        let (name, _) = reader.cursor.name("the name of the value")?;
        reader.cursor.expect(":")?;
        let ty = reader.ty()?;
        let value = LocalValue { name: name.into(), ty: ty.clone() };
        if self.values.insert(id, value).is_some() {
            return Err(reader.mistake(place, format!("{id} is defined twice")));
        }
        Ok((id, ty))
    }
}
