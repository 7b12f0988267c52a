//! Arrays in files: `.npy`, `.safetensors`, and checkpoints that are split over several of them.
//!
//! ```text
//!            open                 read(piece)
//!  x.npy ──────────▶ FileArray ───────────────▶ the bytes of one device's piece
//!                      ▲  ▲
//!  m.safetensors ──▶ TensorFile           a file is mapped, not read: pages that
//!                         ▲               no piece needs are never loaded
//!  m.safetensors.index.json ──▶ Weights   (one name, whichever file it is in)
//!
//!  Tensor ──▶ OutputFiles ── commit ──▶ y.npy, out.safetensors    all of them, or none
//! ```
//!
//! A header is believed only as far as the file's own length bears it out: nothing is allocated by
//! what a header claims, and a file whose header does not account for every byte is refused when it is
//! opened, before anything runs.

mod array;
mod mapped;
mod npy;
mod output;
mod safetensors;
mod weights;

pub use array::{ByteOrder, DimOrder, FileArray};
pub use npy::open_npy;
pub use output::{FileFormat, Filling, OutputFiles, Reserved};
pub use safetensors::TensorFile;
pub use weights::Weights;

use shardweave_compiler::diagnostic::{Code, Diagnostic};
use std::path::Path;

/// A file that cannot be read, or is not what it claims to be.
fn unreadable(path: &Path, why: impl std::fmt::Display) -> Diagnostic {
    Diagnostic::general(Code::FileRead, format!("file `{}`: {why}", path.display()))
        .help("give a whole `.npy` or `.safetensors` file that can be read")
}

/// What an error of a reader says, cut short: it may repeat what stands in the file.
fn short(error: &impl std::fmt::Display) -> String {
    const MOST: usize = 300;
    let mut text = error.to_string();
    if let Some((end, _)) = text.char_indices().nth(MOST) {
        text.truncate(end);
        text.push_str("...");
    }
    text
}
