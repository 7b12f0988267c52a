//! Programs, meshes and placements drawn at random, as case files.
//!
//! ```text
//!  proptest ──▶ Seeds, lists of bytes ──▶ program ──▶ meshes ──▶ placements ──▶ text of a case
//!     ▲              a byte chooses among        (what does not read or type is left out)      │
//!     └───────────────────────── smaller lists, smaller bytes, if it fails ◀──────────────────┘
//! ```
//!
//! All choices are made by bytes, the first choice being the simplest one, so that what proptest shrinks
//! is what a reader wants small: fewer operations, fewer entries, plainer operations and layouts.
//! What comes out is a case: it prints, and can be put into `cases/` as it is.

mod dice;
mod layout;
mod mesh;
mod operation;
mod program;

use crate::case::fill::Fill;
use mesh::MeshDraft;
use program::Draft;
use proptest::collection::vec;
use proptest::prelude::{Strategy, any};
use std::fmt::Write;

/// The bytes that decide everything.
#[derive(Clone, Debug)]
pub struct Seeds {
    /// The sizes of the first dims.
    pub sizes: [u8; 6],
    /// One list for each input.
    pub inputs: Vec<[u8; 6]>,
    /// One list for each operation.
    pub operations: Vec<[u8; 10]>,
    /// Which values are outputs, beside the last one.
    pub outputs: Vec<u8>,
    /// One list for each mesh.
    pub meshes: Vec<[u8; 4]>,
    /// For each placement one list for each entry.
    pub placements: Vec<Vec<[u8; 16]>>,
}

/// How much is drawn.
#[derive(Clone, Copy, Debug)]
pub struct Extent {
    /// The most inputs; operations may ask for more.
    pub inputs: usize,
    /// The most operations.
    pub operations: usize,
    /// The most meshes.
    pub meshes: usize,
    /// The most placements.
    pub placements: usize,
    /// The most entries of a placement.
    pub entries: usize,
}

impl Default for Extent {
    fn default() -> Extent {
        Extent { inputs: 3, operations: 7, meshes: 2, placements: 2, entries: 8 }
    }
}

/// Draws seeds.
pub fn seeds(extent: Extent) -> impl Strategy<Value = Seeds> {
    let placement = vec(any::<[u8; 16]>(), 1..=extent.entries);
    (
        any::<[u8; 6]>(),
        vec(any::<[u8; 6]>(), 1..=extent.inputs),
        vec(any::<[u8; 10]>(), 1..=extent.operations),
        vec(any::<u8>(), 0..3),
        vec(any::<[u8; 4]>(), 1..=extent.meshes),
        vec(placement, 1..=extent.placements),
    )
        .prop_map(|(sizes, inputs, operations, outputs, meshes, placements)| Seeds {
            sizes,
            inputs,
            operations,
            outputs,
            meshes,
            placements,
        })
}

/// The case that seeds stand for.
pub fn case_text(seeds: &Seeds) -> String {
    let draft = Draft::new(seeds);
    let meshes: Vec<MeshDraft> =
        seeds.meshes.iter().enumerate().map(|(n, bytes)| MeshDraft::new(n, bytes)).collect();
    let mut text = String::from("#! case generated\n");
    let sizes: Vec<String> = draft.sizes().map(|(name, size)| format!("{name}={size}")).collect();
    if !sizes.is_empty() {
        let _ = writeln!(text, "#! size {}", sizes.join(" "));
    }
    for (name, fill) in draft.fills() {
        if let Fill::Mod(n) = fill {
            let _ = writeln!(text, "#! input {name}: mod {n}");
        }
    }
    let meshes_text: String = meshes.iter().map(|mesh| format!("{}\n", mesh.text())).collect();
    let program = draft.text(&seeds.outputs);
    text.push_str(&meshes_text);
    text.push_str(&program);
    for (n, entries) in seeds.placements.iter().enumerate() {
        let before = format!("{meshes_text}{program}");
        text.push_str(&layout::placement(&format!("q{n}"), &draft, &meshes, entries, &before));
    }
    text
}
