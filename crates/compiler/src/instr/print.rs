//! The parts of the text of local and host programs that both forms share.
//!
//! ```text
//!  type      f32[b=1, s=8, e=4] at s/tp on line
//!  compute   linear(%3, %1) over s/step(2, i0), h/tp on line
//!  move      all_gather %0 over tp group 4 because "linear needs x whole"
//!  copy      copy %4
//! ```
//!
//! A computation's layout is spelled with the names of the dims of its iteration space.

use super::{Arg, Compute, Move, Path, TensorType};
use crate::layout::StepId;
use crate::mesh::Mesh;
use crate::op::print_call;
use crate::placement::Overlap;
use crate::text::quoted_text;
use std::fmt;
use std::sync::Arc;

impl fmt::Display for TensorType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims.iter().map(|(name, size)| format!("{name}={size}")).collect();
        write!(f, "{}[{}] at {}", self.dtype, dims.join(", "), self.layout.text(&self.names(), None))
    }
}

impl<V: fmt::Display> fmt::Display for Arg<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Value(value) => value.fmt(f),
            Arg::Number(number) => number.fmt(f),
        }
    }
}

impl<V: fmt::Display> fmt::Display for Compute<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let operands: Vec<String> = self.operands.iter().map(Arg::to_string).collect();
        let dims: Vec<&str> = self.space.dims.values().map(|dim| dim.name.as_str()).collect();
        write!(f, "{} over {}", print_call(&self.op, &operands), self.over.text(&dims, None))
    }
}

impl<V: fmt::Display> fmt::Display for Move<V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.kind.name(), self.source)?;
        if !self.axes.is_empty() {
            write!(f, " over {}", self.axes.join(", "))?;
        }
        if self.group != 1 {
            write!(f, " group {}", self.group)?;
        }
        if self.path == Path::PassedOn {
            write!(f, " passed on")?;
        }
        if let Some(because) = &self.because {
            write!(f, " because {}", quoted_text(because))?;
        }
        Ok(())
    }
}

/// The first line of a loop: `loop i0 < 2, i1 < 3 via ring`.
pub(crate) fn loop_line(counters: &[(StepId, u64)], overlap: Overlap) -> String {
    let counters: Vec<String> = counters.iter().map(|(id, steps)| format!("{id} < {steps}")).collect();
    let via = match overlap {
        Overlap::None => String::new(),
        way => format!(" via {}", way.name()),
    };
    format!("loop {}{via}", counters.join(", "))
}

/// The different meshes of a form, in the order first met.
pub(crate) fn different_meshes<'a>(meshes: impl IntoIterator<Item = &'a Arc<Mesh>>) -> Vec<&'a Arc<Mesh>> {
    let mut different: Vec<&Arc<Mesh>> = Vec::new();
    for mesh in meshes {
        if !different.contains(&mesh) {
            different.push(mesh);
        }
    }
    different
}
