//! The compiler of Shardweave: from a program and a placement to one verified program that every
//! device runs.
//!
//! ```text
//!  Program ── propagate ──▶ Placed ── lower ──▶ LocalProgram ── schedule ──▶ HostProgram
//! ```
//!
//! It is pure: no input or output, no threads, no clock, no environment, no `unsafe`. The same input
//! gives the same output, byte for byte. The modules stand in reading order; each uses only those
//! above it.
#![forbid(unsafe_code)]

pub mod id;
pub mod dtype;
pub mod diagnostic;
pub mod text;
pub mod mesh;
pub mod layout;
pub mod op;
pub mod program;
pub mod placement;
pub mod file;
pub mod instr;
pub mod transfer;
pub mod cost;
pub mod reshard;
pub mod local;
pub mod host;
pub mod schedule;
pub mod report;
pub mod propagate;
pub mod lower;
pub mod estimate;
pub mod explain;
pub mod tune;
pub mod compile;
