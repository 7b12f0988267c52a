//! A placement: where each value of a program lives, as far as the user says.
//!
//! What a user wrote for a value is never changed. Values that are not listed get their layout from
//! [`propagate`](crate::propagate).

mod build;
mod parse;
mod print;
mod verify;

pub use build::PlacementBuilder;
pub use parse::parse_placement;
pub(crate) use parse::{KnownProgram, PlacementHead, PlacementScope, read_head, read_placement};
pub use print::PlacementText;
pub use verify::{MOST_BLOCKS_OF_DIM, verify_layout, verify_sizes};

use crate::diagnostic::Span;
use crate::layout::{Factor, Layout, Steps};
use crate::mesh::Mesh;
use crate::program::{Program, ValueId};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// How the operation that produces a value runs its communication beside its computation.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Overlap {
    /// Pass on what arrived.
    Ring,
    /// Between owner and user.
    Direct,
    /// One owner sends to all; for results one device collects.
    Broadcast,
    /// One collective a step.
    Collective,
    /// One after the other.
    None,
}

impl Overlap {
    /// Every way.
    pub const ALL: [Overlap; 5] =
        [Overlap::Ring, Overlap::Direct, Overlap::Broadcast, Overlap::Collective, Overlap::None];

    /// The spelling after `via` and in JSON.
    pub fn name(self) -> &'static str {
        match self {
            Overlap::Ring => "ring",
            Overlap::Direct => "direct",
            Overlap::Broadcast => "broadcast",
            Overlap::Collective => "collective",
            Overlap::None => "none",
        }
    }

    /// The way of that name.
    pub fn from_name(name: &str) -> Option<Overlap> {
        Overlap::ALL.into_iter().find(|o| o.name() == name)
    }
}

/// Where devices may communicate.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Communication {
    /// Wherever an operation needs it.
    Anywhere,
    /// Only at a `reshard`: the placement is `strict`.
    AtReshards,
}

impl Communication {
    /// What stands before the placement's name.
    fn prefix(self) -> &'static str {
        match self {
            Communication::Anywhere => "",
            Communication::AtReshards => "strict ",
        }
    }
}

/// One line of a placement.
#[derive(Clone, PartialEq, Debug)]
pub struct Entry {
    /// The value.
    pub value: ValueId,
    /// Its layout as written.
    pub layout: Layout,
    /// `via ring`: how the operation that produces the value overlaps.
    pub via: Option<Overlap>,
    /// Where it stands.
    pub span: Span,
}

/// A placement of one program.
///
/// Invariants: at most one entry a value; each is of a value of the program, with as many dims as that has.
#[derive(Clone, PartialEq, Debug)]
pub struct Placement {
    pub(crate) name: String,
    pub(crate) program: String,
    pub(crate) mesh: Arc<Mesh>,
    pub(crate) communication: Communication,
    pub(crate) entries: Vec<Entry>,
    pub(crate) span: Span,
}

impl Placement {
    /// A placement with the name of its program, in which these values live so; `None` if a value is not of
    /// the program or listed twice, or a layout has another number of dims.
    pub fn of_layouts(
        program: &Program,
        mesh: &Arc<Mesh>,
        layouts: impl IntoIterator<Item = (ValueId, Layout)>,
    ) -> Option<Placement> {
        let nothing = Placement {
            name: program.name.clone(),
            program: program.name.clone(),
            mesh: mesh.clone(),
            communication: Communication::Anywhere,
            entries: Vec::new(),
            span: Span::default(),
        };
        nothing.with_layouts(program, layouts)
    }

    /// The same placement with these values living so and no others; what was pinned for them stays. `None`
    /// as for [`Placement::of_layouts`].
    pub fn with_layouts(
        &self,
        program: &Program,
        layouts: impl IntoIterator<Item = (ValueId, Layout)>,
    ) -> Option<Placement> {
        let written = self.by_value();
        let mut listed = BTreeSet::new();
        let mut entries = Vec::new();
        for (value, layout) in layouts {
            let fits = program.values.get(value).is_some_and(|v| v.dims.len() == layout.ndim());
            if !fits || !listed.insert(value) {
                return None;
            }
            let (via, span) = written.get(&value).map_or((None, self.span), |entry| (entry.via, entry.span));
            entries.push(Entry { value, layout, via, span });
        }
        Some(Placement { entries, ..self.clone() })
    }

    /// The placement's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The program's name.
    pub fn program(&self) -> &str {
        &self.program
    }

    /// The mesh of values that name no other.
    pub fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// Where devices may communicate.
    pub fn communication(&self) -> Communication {
        self.communication
    }

    /// The lines, in the order written.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Where the placement stands.
    pub fn span(&self) -> Span {
        self.span
    }

    /// What is written for each value.
    pub fn by_value(&self) -> BTreeMap<ValueId, &Entry> {
        self.entries.iter().map(|entry| (entry.value, entry)).collect()
    }

    /// Whether the compiler is to choose a number of steps.
    pub fn has_auto_steps(&self) -> bool {
        let factors = self.entries.iter().flat_map(|entry| entry.layout.cuts().iter().flatten());
        factors.into_iter().any(|factor| matches!(factor, Factor::Stream(Steps::Auto(_))))
    }

    /// The same with another number of steps for each `stream(auto)`.
    pub fn with_auto_steps(&self, steps: u64) -> Placement {
        let entries = self.entries.iter().map(|entry| {
            let layout = entry.layout.with_auto_steps(steps);
            Entry { layout, ..entry.clone() }
        });
        Placement { entries: entries.collect(), ..self.clone() }
    }

    /// The meshes on which values live: that of values that name no other, then that of each line.
    pub fn meshes(&self) -> impl Iterator<Item = &Arc<Mesh>> {
        std::iter::once(&self.mesh).chain(self.entries.iter().map(|entry| entry.layout.mesh()))
    }
}
