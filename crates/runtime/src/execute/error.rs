//! What can go wrong when a program runs.

use crate::array::ArrayError;
use crate::kernels::KernelError;
use crate::tensor::ReadError;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::mesh::DeviceId;
use std::fmt;

/// Why there are no outputs.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RunError {
    /// The program does not compile at the sizes of the inputs.
    Compile(Diagnostics),
    /// What is wrong with the inputs, all of it: first those of the program, in its order, then other names.
    Inputs(Vec<WrongInput>),
    /// An array cannot be placed so.
    Array(ArrayError),
    /// The devices together need more memory than there is.
    OutOfMemory {
        /// Bytes of one device.
        per_device: u64,
        /// How many devices need so much.
        devices: u64,
        /// How much there is; none if that is not known, or the system refuses what is there.
        available: Option<u64>,
    },
    /// The ranks of a host cannot share the memory that their devices need: why.
    NotShared(String),
    /// The plan is larger than anything can hold: what it is.
    TooLarge(String),
    /// A device found something wrong. The first one, in program order.
    Device(Failure),
    /// Nothing can go on: who waits for whom.
    Deadlock(Vec<Stuck>),
    /// The threads that play the devices could not be started.
    Threads(String),
    /// Outputs or a run were asked for before there were inputs or a run.
    NotReady(NotReady),
    /// There are fewer ranks than the program has devices.
    TooFewRanks {
        /// How many devices.
        devices: u64,
        /// How many ranks.
        ranks: usize,
    },
    /// Another rank failed.
    Elsewhere {
        /// Which.
        rank: usize,
        /// What it says.
        message: String,
    },
    /// A rank has another plan than most: another program, placement, size, option or version.
    RanksDiffer {
        /// Which.
        rank: usize,
        /// One of those that have what most have.
        than: usize,
    },
    /// What joins the ranks failed.
    Engine(String),
    /// The program is not one that may run: a fault of ours, with its reason.
    Broken(String),
}

/// An input that a run cannot take.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct WrongInput {
    /// The input's name.
    pub name: String,
    /// What is wrong with it.
    pub reason: InputError,
}

/// What is wrong with an input. `from` says where the elements come from.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputError {
    /// An output needs it, and it is not given.
    Missing,
    /// The program has no input of that name.
    Unknown,
    /// It has other sizes than the program asks for.
    Sizes {
        /// The array.
        from: String,
        /// Its sizes.
        given: Vec<u64>,
        /// The sizes asked for.
        expected: Vec<u64>,
    },
    /// It holds another element type.
    DType {
        /// The array.
        from: String,
        /// Its element type.
        given: DType,
        /// The element type asked for.
        expected: DType,
    },
    /// Its elements cannot be read.
    Unreadable(ReadError),
    /// The input is bound as a constant already.
    BoundAsConstant,
}

/// What a session was asked for too early, or cannot do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum NotReady {
    /// A run before all inputs are bound.
    Inputs,
    /// Outputs before a run that succeeds.
    Outputs,
    /// Other sizes of a session that was made from a plan.
    OtherSizes,
}

/// A device that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Which device.
    pub device: DeviceId,
    /// At which instruction, and at which step of its loops.
    pub instruction: String,
    /// The program's value that the instruction makes a part of, if it makes anything.
    pub value: Option<String>,
    /// In which way.
    pub how: How,
}

/// How a device fails.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum How {
    /// With an error: what only the data shows.
    Kernel(KernelError),
    /// A probe refused what it was about to do: why.
    Refused(String),
    /// With a panic: a fault of ours.
    Panic(String),
}

/// A device that waits for ever.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stuck {
    /// Which device.
    pub device: DeviceId,
    /// At which instruction.
    pub instruction: String,
    /// For whom.
    pub waits_for: Vec<DeviceId>,
}

impl fmt::Display for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RunError::Compile(diagnostics) => write!(f, "{diagnostics}"),
            RunError::Inputs(wrong) => {
                for (number, input) in wrong.iter().enumerate() {
                    write!(f, "{}{input}", if number == 0 { "" } else { "\n" })?;
                }
                Ok(())
            }
            RunError::Array(error) => write!(f, "{error}"),
            RunError::OutOfMemory { per_device, devices, available } => {
                write!(f, "{devices} devices need {per_device} bytes each")?;
                match available {
                    Some(bytes) => write!(f, ", but there are {bytes} bytes in all"),
                    None => f.write_str(", which cannot be had"),
                }
            }
            RunError::NotShared(why) => write!(f, "ranks cannot share the memory of their devices: {why}"),
            RunError::TooLarge(what) => write!(f, "{what} cannot be held in memory"),
            RunError::Device(failure) => write!(f, "{failure}"),
            RunError::Deadlock(stuck) => {
                f.write_str("nothing can go on")?;
                stuck.iter().try_for_each(|device| write!(f, "\n  {device}"))
            }
            RunError::Threads(reason) => write!(f, "the devices' threads do not start: {reason}"),
            RunError::NotReady(what) => write!(f, "{what}"),
            RunError::TooFewRanks { devices, ranks } => {
                let there = if *ranks == 1 { "is 1 rank" } else { &format!("are {ranks} ranks") };
                write!(
                    f,
                    "devices 0 to {} need a rank each, {devices} in all, but there {there}",
                    devices - 1
                )
            }
            RunError::Elsewhere { rank, message } => write!(f, "rank {rank}: {message}"),
            RunError::RanksDiffer { rank, than } => write!(
                f,
                "rank {rank} runs another plan than rank {than}: program, placement, sizes, options and version must be the \
                 same on all ranks"
            ),
            RunError::Engine(reason) => write!(f, "what joins the ranks failed: {reason}"),
            RunError::Broken(reason) => write!(f, "this is a fault of the compiler: {reason}"),
        }
    }
}

impl std::error::Error for RunError {}

impl std::error::Error for InputError {}

impl std::error::Error for WrongInput {}

impl fmt::Display for WrongInput {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WrongInput { name, reason } = self;
        match reason {
            InputError::Missing => write!(f, "input `{name}` is not given"),
            InputError::Unknown => write!(f, "the program has no input `{name}`"),
            reason => write!(f, "input `{name}`: {reason}"),
        }
    }
}

impl std::error::Error for Failure {}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            InputError::Sizes { from, given, expected } => {
                write!(f, "{from} has sizes {given:?}, the program asks for {expected:?}")
            }
            InputError::DType { from, given, expected } => {
                write!(f, "{from} holds {given}, the program asks for {expected}; `cast` it in the program")
            }
            InputError::Missing => f.write_str("it is not given"),
            InputError::Unknown => f.write_str("the program has no such input"),
            InputError::Unreadable(why) => write!(f, "{why}"),
            InputError::BoundAsConstant => {
                f.write_str("it is bound as a constant, so a run is not given it again")
            }
        }
    }
}

impl fmt::Display for NotReady {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            NotReady::Inputs => "a run needs its inputs bound first",
            NotReady::Outputs => "there are no outputs before a run that succeeds",
            NotReady::OtherSizes => "a session made from a plan runs no other sizes",
        })
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            How::Kernel(error) => write!(f, "{error} (found by {} at {})", self.device, self.instruction),
            How::Refused(reason) => write!(f, "{} failed at {}: {reason}", self.device, self.instruction),
            How::Panic(reason) => write!(f, "{} panicked at {}: {reason}", self.device, self.instruction),
        }
    }
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.waits_for.iter().map(DeviceId::to_string).collect();
        write!(f, "{} waits at {} for {}", self.device, self.instruction, names.join(", "))
    }
}
