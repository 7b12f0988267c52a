//! From one program for all devices to what each of them does: loops unrolled, coordinates and steps
//! put in, bytes counted, partners named. Done once for a session; running walks over lists.
//!
//! ```text
//!  host program                              device 1
//!  b2 <- all_gather b0 over tp group 2       publish 1, wait for 0 at 1
//!                                            copy  own b0 [0,64) -> b2 [64,128)
//!                                                  0's b0 [0,64) -> b2 [0,64)
//!                                            publish 2, wait for 0 at 2
//!  b3 <- linear(b2, b1) over h/tp on line    linear, s = 0..8, e = 0..4, h = 8..16
//! ```

mod buffers;
mod islands;
mod kernels;
mod loans;
mod messages;
mod moves;
mod packing;
#[cfg(test)]
mod planned;
mod reached;
mod runs;
mod slices;
pub(crate) mod tasks;
mod unroll;

pub(crate) use buffers::{Buffers, Held};
pub(crate) use moves::share_bytes;
pub(crate) use runs::{Run, Runs};
#[cfg(test)]
pub(crate) use tasks::Transfer;
pub(crate) use tasks::{
    Copy, Kernel, Lane, LaneId, Lies, Made, Messages, Onto, Operand, PackedConstantId, Part, Spot, Task,
    Tasks, TurnId, Work,
};
pub use tasks::{Instr, InstrId};
pub(crate) use unroll::instantiate;

use std::fmt;

/// Which streams of a device run beside each other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Streams {
    /// None: a device runs all its streams in one lane, in program order.
    Merged,
    /// All: a device has a lane for each stream, and events order them.
    Apart,
}

/// What of that which is lent is read block by block. Whether it is then copied before, depends on who runs the
/// program; the blocks, and so the results, do not.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Loans {
    /// Nothing: everything is copied and read at once.
    Never,
    /// That where reading it in place spares more than blocks cost.
    #[default]
    WhereItPays,
    /// All of it.
    Always,
}

/// Where blocks are read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Reads {
    /// Where they lie, on the devices that have them, as far as these share memory.
    InPlace,
    /// In copies.
    FromCopies,
}

/// How what is lent is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Lending {
    pub loans: Loans,
    pub reads: Reads,
}

/// Why a program cannot be instantiated.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InstantiateError {
    /// More than memory can hold: what it is.
    TooLarge(String),
    /// The program is not one that the verifier lets through: a fault of ours, with its reason.
    Broken(String),
}

impl fmt::Display for InstantiateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InstantiateError::TooLarge(what) => write!(f, "{what} cannot be held in memory"),
            InstantiateError::Broken(reason) => write!(f, "instantiate: {reason}"),
        }
    }
}

impl std::error::Error for InstantiateError {}
