//! Hostile input: whatever the bytes, an answer in a second, in little memory, without a panic.
//!
//! ```text
//!  seeds (cases, examples, forms, files) ──▶ corpus ──▶ edits ──▶ a target's check ──▶ what it did
//!                                              ▲                                          │
//!                                              └────────── kept, if it did something new ─┘
//! ```
//!
//! A [`Target`] takes any bytes and checks all that must be true of them. A [`Hunt`] feeds it with edits
//! of a corpus, the same for the same seed, for a time or a number of inputs. What fails is shrunk; once
//! the fault is mended the input is kept in `corpus/TARGET/`, which a test runs.
//!
//! `cargo xtask fuzz TARGET --seconds 60 --seed 1` hunts.

mod behaviour;
mod files;
mod hunt;
mod mutate;
mod parse;
mod plan;
mod random;
mod watch;

pub use behaviour::Behaviour;
pub use hunt::{Found, Hunt};
pub use mutate::mutated;
pub use random::Random;
pub use watch::{Slack, examine};

use crate::sources;
use std::path::PathBuf;

/// Something that is fed with any bytes.
pub struct Target {
    /// What it is called.
    pub name: &'static str,
    /// Inputs to start from, in an order that is always the same.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// An input that is not an edit of another one, where a target can make such.
    pub fresh: Option<fn(&mut Random) -> Vec<u8>>,
    /// What an input did; an `Err` says what must not be.
    pub check: fn(&[u8]) -> Result<Behaviour, String>,
    /// Seconds of processor time that an input may take, optimized.
    pub seconds: u32,
    /// Bytes that may be allocated at a time, whatever the input.
    pub heap: usize,
    /// And so many more for each byte of the input.
    pub heap_per_byte: usize,
}

/// All targets.
pub const TARGETS: &[Target] = &[
    Target {
        name: "parse",
        seeds: parse::seeds,
        fresh: None,
        check: parse::check,
        seconds: 1,
        heap: 64 << 20,
        heap_per_byte: 1 << 10,
    },
    Target {
        name: "files",
        seeds: files::seeds,
        fresh: None,
        check: files::check,
        seconds: 1,
        heap: 1 << 20,
        heap_per_byte: 64,
    },
    Target {
        name: "plan",
        seeds: plan::seeds,
        fresh: Some(plan::fresh),
        check: plan::check,
        seconds: 10,
        heap: 256 << 20,
        heap_per_byte: 1 << 12,
    },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// The folder of inputs of a target that once failed.
pub fn corpus(target: &Target) -> PathBuf {
    sources::root().join("corpus").join(target.name)
}

/// The content of all files of a folder that end so.
fn contents(folder: &str, ends: &[&str]) -> Vec<Vec<u8>> {
    sources::contents(folder, ends).into_iter().map(|(_, content)| content).collect()
}
