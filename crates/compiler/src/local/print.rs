//! The text of a local program.

use super::{LocalId, LocalInstr, LocalLoop, LocalProgram};
use crate::instr::print::{different_meshes, loop_line};
use crate::mesh::Mesh;
use std::fmt;
use std::sync::Arc;

impl LocalProgram {
    /// The meshes of all values and computations, in the order first met.
    pub fn meshes(&self) -> Vec<&Arc<Mesh>> {
        let mut meshes: Vec<&Arc<Mesh>> = self.values.values().map(|value| value.ty.layout.mesh()).collect();
        collect_meshes(&self.body, &mut meshes);
        different_meshes(meshes)
    }

    /// An instruction on one line; of a loop its first line.
    pub fn line(&self, instr: &LocalInstr) -> String {
        match instr {
            LocalInstr::Input(id) => format!("{} = input", self.defined(*id)),
            LocalInstr::Compute(compute) => format!("{} = {compute}", self.defined(compute.result)),
            LocalInstr::Move(moved) => format!("{} = {moved}", self.defined(moved.target)),
            LocalInstr::Loop(steps) => first_line(steps),
        }
    }

    /// `%0 x: f32[s=8] at s/tp on line`
    fn defined(&self, id: LocalId) -> String {
        match self.values.get(id) {
            Some(value) => format!("{id} {}: {}", value.name, value.ty),
            None => id.to_string(),
        }
    }

    /// A block of instructions; moves into `filled`, the results of the loops around it, define nothing.
    fn block(
        &self,
        f: &mut fmt::Formatter<'_>,
        body: &[LocalInstr],
        filled: &mut Vec<LocalId>,
        depth: usize,
    ) -> fmt::Result {
        let indent = "  ".repeat(depth);
        for instr in body {
            match instr {
                LocalInstr::Move(moved) if filled.contains(&moved.target) => {
                    writeln!(f, "{indent}{} <- {moved}", moved.target)?;
                }
                LocalInstr::Compute(compute) if filled.contains(&compute.result) => {
                    writeln!(f, "{indent}{} <- {compute}", compute.result)?;
                }
                LocalInstr::Loop(steps) => {
                    writeln!(f, "{indent}{}", first_line(steps))?;
                    let outside = filled.len();
                    for &id in &steps.results {
                        writeln!(f, "{indent}  result {}", self.defined(id))?;
                        filled.push(id);
                    }
                    self.block(f, &steps.body, filled, depth + 1)?;
                    filled.truncate(outside);
                    writeln!(f, "{indent}}}")?;
                }
                other => writeln!(f, "{indent}{}", self.line(other))?,
            }
        }
        Ok(())
    }
}

/// `loop i0 < 2, i1 < 4 via ring in 2 steps {`
fn first_line(steps: &LocalLoop) -> String {
    let line = loop_line(&steps.counters, steps.overlap);
    let turns = steps.counters.iter().fold(1, |turns: u64, (_, count)| turns.saturating_mul(*count));
    if turns == steps.steps { format!("{line} {{") } else { format!("{line} in {} steps {{", steps.steps) }
}

fn collect_meshes<'a>(body: &'a [LocalInstr], meshes: &mut Vec<&'a Arc<Mesh>>) {
    for instr in body {
        match instr {
            LocalInstr::Compute(compute) => meshes.push(compute.over.mesh()),
            LocalInstr::Loop(steps) => collect_meshes(&steps.body, meshes),
            LocalInstr::Input(_) | LocalInstr::Move(_) => {}
        }
    }
}

impl fmt::Display for LocalProgram {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "local {} {{", self.name)?;
        for mesh in self.meshes() {
            writeln!(f, "  {mesh}")?;
        }
        self.block(f, &self.body, &mut Vec::new(), 1)?;
        for (name, id) in &self.outputs {
            writeln!(f, "  output {name} = {id}")?;
        }
        writeln!(f, "}}")
    }
}
