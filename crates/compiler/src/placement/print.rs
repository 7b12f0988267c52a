//! Placements as text.

use super::{Entry, Placement};
use crate::program::Program;
use std::fmt;

/// A placement with its program, which knows the names.
pub struct PlacementText<'a> {
    placement: &'a Placement,
    program: &'a Program,
}

impl Placement {
    /// The text of the placement; `program` is the one that it is for.
    pub fn text<'a>(&'a self, program: &'a Program) -> PlacementText<'a> {
        PlacementText { placement: self, program }
    }
}

impl Entry {
    /// The layout with ` via ...`; ` on MESH` is left out on the mesh `home`.
    pub fn layout_text(&self, program: &Program, home: &str) -> String {
        let layout = self.layout.text(&program.dim_names(self.value), Some(home)).to_string();
        match self.via {
            Some(via) => format!("{layout} via {}", via.name()),
            None => layout,
        }
    }
}

impl fmt::Display for PlacementText<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Placement { name, program, mesh, communication, entries, .. } = self.placement;
        let strict = communication.prefix();
        writeln!(f, "placement {strict}{name} for {program} on {} {{", mesh.name())?;
        for entry in entries {
            let value = &self.program.values[entry.value].name;
            writeln!(f, "  {value}: {}", entry.layout_text(self.program, mesh.name()))?;
        }
        f.write_str("}")
    }
}
