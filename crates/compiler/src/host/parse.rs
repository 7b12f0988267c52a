//! Reading a host program.

use super::{Action, Buffer, BufferId, EventId, HostInstr, HostLoop, HostProgram, Role, StreamId};
use crate::diagnostic::{Diagnostics, quote};
use crate::id::{Id, Table};
use crate::instr::parse::{FormReader, FormValue, MOST_DEPTH, read_form, read_id};
use crate::op::OperandText;
use crate::text::{Kind, Reported};
use std::str::FromStr;

impl FormValue for BufferId {
    fn from_operand(operand: OperandText<'_>) -> Option<BufferId> {
        match operand {
            OperandText::Name(name) => read_id(name.strip_prefix('b')?),
            OperandText::Local(_) | OperandText::Number(_) => None,
        }
    }
}

/// Reads a host program. It is not verified.
pub fn parse_host(text: &str) -> Result<HostProgram, Diagnostics> {
    read_form(text, |reader| {
        reader.cursor.expect_word("host")?;
        let (name, _) = reader.cursor.name("the name of a program")?;
        let mut host = HostReader {
            program: HostProgram {
                name: name.into(),
                buffers: Table::new(),
                streams: 1,
                events: 0,
                body: Vec::new(),
                inputs: Vec::new(),
                outputs: Vec::new(),
                arena: 0,
                devices: 1,
            },
        };
        let mut body = Vec::new();
        reader.lines(&mut |reader| host.line(reader, 0, &mut body))?;
        host.program.body = body;
        Ok(host.program)
    })
}

impl FromStr for HostProgram {
    type Err = Diagnostics;

    fn from_str(text: &str) -> Result<HostProgram, Diagnostics> {
        parse_host(text)
    }
}

/// The program as far as it was read.
struct HostReader {
    program: HostProgram,
}

impl HostReader {
    fn line(
        &mut self,
        reader: &mut FormReader<'_>,
        depth: usize,
        body: &mut Vec<HostInstr>,
    ) -> Result<(), Reported> {
        let (first, second) = (reader.cursor.peek().kind, reader.cursor.peek_second().kind);
        match (first, second) {
            (Kind::Name(name), Kind::Mark(":")) if name.starts_with('s') => {
                body.push(self.on_stream(reader)?)
            }
            (Kind::Name("loop"), _) => {
                body.push(HostInstr::Loop(self.steps(reader, depth + 1)?));
            }
            (Kind::Name("mesh"), _) if depth == 0 => reader.mesh()?,
            (Kind::Name("devices"), _) if depth == 0 => self.counts(reader)?,
            (Kind::Name("input"), _) if depth == 0 => {
                let input = Self::end(reader)?;
                self.program.inputs.push(input);
            }
            (Kind::Name("output"), _) if depth == 0 => {
                let output = Self::end(reader)?;
                self.program.outputs.push(output);
            }
            (Kind::Name(name), Kind::Name(_)) if depth == 0 && name.starts_with('b') => {
                self.buffer(reader)?
            }
            _ => {
                return Err(reader
                    .cursor
                    .unexpected("a mesh, a buffer, an action, a loop, an input or an output"));
            }
        }
        Ok(())
    }

    /// `loop i0 < 4 via direct { ... then ... }`
    fn steps(&mut self, reader: &mut FormReader<'_>, depth: usize) -> Result<HostLoop, Reported> {
        if depth > MOST_DEPTH {
            return Err(reader.cursor.unexpected("fewer loops inside loops"));
        }
        let (counters, overlap) = reader.loop_line()?;
        let mut stages = vec![Vec::new()];
        reader.lines(&mut |reader| match (reader.cursor.peek().kind, stages.last_mut()) {
            (Kind::Name("then"), _) => {
                reader.cursor.bump();
                stages.push(Vec::new());
                Ok(())
            }
            (_, Some(body)) => self.line(reader, depth, body),
            (_, None) => unreachable!("a loop has a first stage"),
        })?;
        Ok(HostLoop { counters, overlap, stages })
    }

    /// `devices 4, arena 384, streams 1, events 0`
    fn counts(&mut self, reader: &mut FormReader<'_>) -> Result<(), Reported> {
        let mut counts = [0; 4];
        for (at, word) in ["devices", "arena", "streams", "events"].into_iter().enumerate() {
            if at > 0 {
                reader.cursor.expect(",")?;
            }
            reader.cursor.expect_word(word)?;
            counts[at] = reader.cursor.count("a count")?.0;
        }
        let few = |n: u64| usize::try_from(n).unwrap_or(usize::MAX);
        self.program.devices = counts[0];
        self.program.arena = counts[1];
        self.program.streams = few(counts[2]);
        self.program.events = few(counts[3]);
        Ok(())
    }

    /// `output y0 = b3`
    fn end(reader: &mut FormReader<'_>) -> Result<(String, BufferId), Reported> {
        reader.cursor.bump();
        let (name, _) = reader.cursor.name("the name of an input or output")?;
        reader.cursor.expect("=")?;
        Ok((name.into(), reader.value()?))
    }

    /// `b0 x: f32[s=8] at s/tp on line, argument, offset 0, bytes 64`, perhaps with `slots 2` or `lent by b1`; or
    /// `view of b1` instead of a role and a place.
    fn buffer(&mut self, reader: &mut FormReader<'_>) -> Result<(), Reported> {
        let next = BufferId::new(self.program.buffers.len());
        if reader.id::<BufferId>("b") != Some(next) {
            return Err(reader.cursor.unexpected(&format!("`{next}`")));
        }
        let (name, _) = reader.cursor.name("the name of the value")?;
        reader.cursor.expect(":")?;
        let ty = reader.ty()?;
        reader.cursor.expect(",")?;
        if reader.cursor.eat_word("view").is_some() {
            reader.cursor.expect_word("of")?;
            let (name, view) = (name.into(), Some(reader.value()?));
            let role = Role::Temporary;
            let buffer = Buffer { name, ty, role, offset: 0, bytes: 0, slots: 1, view, lender: None };
            self.program.buffers.push(buffer);
            return Ok(());
        }
        let (word, place) = reader.cursor.name("the role of the buffer")?;
        let role = Role::from_name(word)
            .ok_or_else(|| reader.mistake(place, format!("{} is no role of a buffer", quote(word))))?;
        reader.cursor.expect(",")?;
        reader.cursor.expect_word("offset")?;
        let (offset, _) = reader.cursor.count("an offset in bytes")?;
        reader.cursor.expect(",")?;
        reader.cursor.expect_word("bytes")?;
        let (bytes, _) = reader.cursor.count("a number of bytes")?;
        let (mut slots, mut lender) = (1, None);
        let mut more = reader.cursor.eat(",").is_some();
        if more && reader.cursor.eat_word("slots").is_some() {
            slots = reader.cursor.count("a number of slots")?.0;
            more = reader.cursor.eat(",").is_some();
        }
        if more {
            reader.cursor.expect_word("lent")?;
            reader.cursor.expect_word("by")?;
            lender = Some(reader.value()?);
        }
        let name = name.into();
        self.program.buffers.push(Buffer { name, ty, role, offset, bytes, slots, view: None, lender });
        Ok(())
    }

    /// `s0: alloc b2`
    fn on_stream(&mut self, reader: &mut FormReader<'_>) -> Result<HostInstr, Reported> {
        let Some(stream) = reader.id::<StreamId>("s") else {
            return Err(reader.cursor.unexpected("a stream"));
        };
        reader.cursor.expect(":")?;
        Ok(HostInstr::On(stream, self.action(reader)?))
    }

    fn action(&mut self, reader: &mut FormReader<'_>) -> Result<Action, Reported> {
        if reader.cursor.eat_word("alloc").is_some() {
            return Ok(Action::Alloc(reader.value()?));
        }
        if reader.cursor.eat_word("free").is_some() {
            return Ok(Action::Free(reader.value()?));
        }
        if reader.cursor.eat_word("record").is_some() {
            return Ok(Action::Record(Self::event(reader)?));
        }
        if reader.cursor.eat_word("wait").is_some() {
            let event = Self::event(reader)?;
            let back = match reader.cursor.eat_word("back") {
                Some(_) => reader.cursor.count("a number of steps")?.0,
                None => 0,
            };
            return Ok(Action::Wait { event, back });
        }
        let place = reader.cursor.peek().span();
        let target: BufferId = reader.value()?;
        reader.cursor.expect("<-")?;
        if !reader.at_call() {
            return Ok(Action::Move(reader.moved(target)?));
        }
        let Some(ty) = self.program.buffers.get(target).map(|buffer| buffer.ty.clone()) else {
            return Err(reader.mistake(place, format!("there is no buffer {target} above")));
        };
        let type_of = |id: BufferId| self.program.buffers.get(id).map(|buffer| buffer.ty.clone());
        Ok(Action::Compute(reader.compute(target, &ty, &type_of)?))
    }

    fn event(reader: &mut FormReader<'_>) -> Result<EventId, Reported> {
        reader.id("e").ok_or_else(|| reader.cursor.unexpected("an event"))
    }
}
