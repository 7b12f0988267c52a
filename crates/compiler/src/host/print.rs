//! The text of a host program.

use super::{Action, Buffer, HostInstr, HostLoop, HostProgram};
use crate::instr::print::{different_meshes, loop_line};
use crate::mesh::Mesh;
use std::fmt;
use std::sync::Arc;

impl HostProgram {
    /// The meshes of all buffers and computations, in the order first met.
    pub fn meshes(&self) -> Vec<&Arc<Mesh>> {
        let buffers = self.buffers.values().map(|buffer| buffer.ty.layout.mesh());
        let computes = self.actions().into_iter().filter_map(|(_, action)| match action {
            Action::Compute(compute) => Some(compute.over.mesh()),
            _ => None,
        });
        different_meshes(buffers.chain(computes))
    }
}

impl fmt::Display for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Alloc(id) => write!(f, "alloc {id}"),
            Action::Free(id) => write!(f, "free {id}"),
            Action::Compute(compute) => write!(f, "{} <- {compute}", compute.result),
            Action::Move(moved) => write!(f, "{} <- {moved}", moved.target),
            Action::Record(event) => write!(f, "record {event}"),
            Action::Wait { event, back: 0 } => write!(f, "wait {event}"),
            Action::Wait { event, back } => write!(f, "wait {event} back {back}"),
        }
    }
}

impl fmt::Display for Buffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Buffer { name, ty, role, offset, bytes, slots, view, lender } = self;
        if let Some(of) = view {
            return write!(f, "{name}: {ty}, view of {of}");
        }
        write!(f, "{name}: {ty}, {}, offset {offset}, bytes {bytes}", role.name())?;
        if *slots != 1 {
            write!(f, ", slots {slots}")?;
        }
        match lender {
            Some(lender) => write!(f, ", lent by {lender}"),
            None => Ok(()),
        }
    }
}

fn block(f: &mut fmt::Formatter<'_>, body: &[HostInstr], depth: usize) -> fmt::Result {
    let indent = "  ".repeat(depth);
    for instr in body {
        match instr {
            HostInstr::On(stream, action) => writeln!(f, "{indent}{stream}: {action}")?,
            HostInstr::Loop(HostLoop { counters, overlap, stages }) => {
                writeln!(f, "{indent}{} {{", loop_line(counters, *overlap))?;
                for (stage, body) in stages.iter().enumerate() {
                    if stage > 0 {
                        writeln!(f, "{indent}then")?;
                    }
                    block(f, body, depth + 1)?;
                }
                writeln!(f, "{indent}}}")?;
            }
        }
    }
    Ok(())
}

impl fmt::Display for HostProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let HostProgram { name, streams, events, arena, devices, .. } = self;
        writeln!(f, "host {name} {{")?;
        writeln!(f, "  devices {devices}, arena {arena}, streams {streams}, events {events}")?;
        for mesh in self.meshes() {
            writeln!(f, "  {mesh}")?;
        }
        for (id, buffer) in self.buffers.iter() {
            writeln!(f, "  {id} {buffer}")?;
        }
        for (name, id) in &self.inputs {
            writeln!(f, "  input {name} = {id}")?;
        }
        block(f, &self.body, 1)?;
        for (name, id) in &self.outputs {
            writeln!(f, "  output {name} = {id}")?;
        }
        writeln!(f, "}}")
    }
}
