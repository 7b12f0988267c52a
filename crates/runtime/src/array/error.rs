//! Why there is no such array.

use crate::tensor::ReadError;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::mesh::DeviceId;
use std::fmt;

/// What does not fit when an [`Array`](super::Array) is made.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ArrayError {
    /// There are not as many names as the array has dims.
    Names {
        /// How many dims are named.
        named: usize,
        /// The sizes that the array has.
        shape: Vec<u64>,
    },
    /// The layout is of a value with another number of dims.
    DimCount {
        /// How many dims are named.
        named: usize,
        /// How many dims the layout cuts.
        cut: usize,
    },
    /// The layout names the running step of a loop: that is no place between runs.
    RunningStep,
    /// Dims that cannot be, or a layout that does not fit their sizes.
    Type(Diagnostics),
    /// More bytes than memory can hold.
    TooLarge,
    /// The pieces need more memory than there is.
    OutOfMemory {
        /// Bytes of all pieces.
        bytes: u64,
        /// How many there are.
        available: u64,
    },
    /// A device of the mesh is given no piece.
    NoPiece(DeviceId),
    /// A device is given two pieces.
    PieceTwice(DeviceId),
    /// A device is given a piece, but is not in the mesh.
    NotInMesh {
        /// The device.
        device: DeviceId,
        /// The mesh's name.
        mesh: String,
    },
    /// A piece has other sizes than the layout gives the device.
    PieceShape {
        /// The device.
        device: DeviceId,
        /// The sizes that were given.
        given: Vec<u64>,
        /// The sizes that the layout asks for.
        expected: Vec<u64>,
    },
    /// A piece has another element type.
    PieceDType {
        /// The device.
        device: DeviceId,
        /// The element type that was given.
        given: DType,
        /// The element type that the array's pieces have.
        expected: DType,
    },
    /// Two devices hold the same indices, but their pieces differ.
    Replicas {
        /// The first of them.
        first: DeviceId,
        /// The one whose piece differs.
        other: DeviceId,
    },
    /// The mesh has no axis of that name, or the dims not this one.
    Unknown {
        /// What there is none of: `axis`, `dim`.
        what: &'static str,
        /// The name.
        name: String,
    },
    /// The elements cannot be read.
    Read(ReadError),
}

impl fmt::Display for ArrayError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ArrayError::Names { named, shape } => {
                write!(f, "an array of sizes {shape:?} has {} dims, but {named} are named", shape.len())
            }
            ArrayError::DimCount { named, cut } => {
                write!(f, "the array has {named} dims, but the layout is of a value with {cut}")
            }
            ArrayError::RunningStep => f.write_str("the layout names the running step of a loop"),
            ArrayError::Type(found) => write!(f, "{found}"),
            ArrayError::TooLarge => f.write_str("the array has more bytes than memory can hold"),
            ArrayError::OutOfMemory { bytes, available } => {
                write!(f, "the pieces need {bytes} bytes, but there are {available} bytes in all")
            }
            ArrayError::NoPiece(device) => write!(f, "no piece is given for {device}"),
            ArrayError::PieceTwice(device) => write!(f, "two pieces are given for {device}"),
            ArrayError::NotInMesh { device, mesh } => {
                write!(f, "a piece is given for {device}, which is not in the mesh `{mesh}`")
            }
            ArrayError::PieceShape { device, given, expected } => {
                write!(f, "the piece of {device} has sizes {given:?}, but its layout asks for {expected:?}")
            }
            ArrayError::PieceDType { device, given, expected } => {
                write!(f, "the piece of {device} holds {given}, but the array's pieces hold {expected}")
            }
            ArrayError::Replicas { first, other } => {
                write!(f, "{first} and {other} hold the same indices, but their pieces differ")
            }
            ArrayError::Unknown { what, name } => write!(f, "there is no {what} `{name}`"),
            ArrayError::Read(why) => write!(f, "{why}"),
        }
    }
}

impl std::error::Error for ArrayError {}
