//! Kernels: one operation on one device's pieces.
//!
//! A piece is a dense row-major array. Its dims are made of the dims of the operation's iteration
//! space ([`Space`]), and their extents are what the device holds of those dims:
//!
//! ```text
//! y = linear(x, w)    space  s k n   sizes 8 384 1536    held s 0..4, k all, n 768..1536
//!
//!   x[s, k]  a piece of 4 x 384      w[n, k]  a piece of 768 x 384     y[s, n]  a piece of 4 x 768
//! ```
//!
//! So a kernel never sees a mesh or a layout. What it sees of the whole array is the space's sizes
//! (`mean` divides by them) and which indices are held (`embedding` looks rows up in them).
//!
//! Numbers: `bf16` and `f16` are read into `f32`, computed there and rounded once when stored; a piece
//! of a half operation may also be stored as `f32` (partial values are). Integers wrap.

mod along_dim;
mod arithmetic;
mod cast;
mod combine;
mod contract;
mod copy;
mod elementwise;
mod exponential;
mod finish;
mod float;
mod lines;
mod lookup;
mod product;
mod reduce;
mod scratch;
mod summary;
mod tile;
mod vectors;
mod walk;
mod wide;

pub use combine::{combine, combine_two, fill_identity};
pub use scratch::Scratch;
pub use walk::Pieces;

use product::packed::Form;
use shardweave_compiler::dtype::{Combine, DType, Number};
use shardweave_compiler::op::{Op, Space};
use std::fmt;
use walk::Frame;

/// What an operation reads.
#[derive(Clone, Copy, Debug)]
pub enum Input<'a> {
    /// A piece, row-major, aligned for its elements.
    Piece {
        /// The elements.
        bytes: &'a [u8],
        /// How they are stored.
        dtype: DType,
    },
    /// A number, which takes the given type first.
    Number(Number, DType),
}

impl Input<'_> {
    /// How the elements are stored.
    pub fn dtype(&self) -> DType {
        match self {
            Input::Piece { dtype, .. } | Input::Number(_, dtype) => *dtype,
        }
    }
}

/// Where an operation writes: a piece, row-major, aligned for its elements. Every element is written.
#[derive(Debug)]
pub struct Output<'a> {
    /// The elements.
    pub bytes: &'a mut [u8],
    /// How they are stored.
    pub dtype: DType,
}

/// An operand of a product that many products share, in the order in which it is multiplied with: the first lays
/// it out.
#[derive(Debug)]
pub enum Packed<'a> {
    /// It is laid out here, by this product.
    New(&'a mut [u8]),
    /// A product with the same operand laid it out before.
    There(&'a [u8]),
}

/// Whether this machine packs operands at all.
pub fn can_pack() -> bool {
    product::packed::len(16, 128).is_some()
}

/// Whether a product of many rows that packs an operand for itself alone is as fast as one that does not: OpenBLAS is
/// faster.
pub fn can_pack_anew() -> bool {
    can_pack() && !cfg!(feature = "blas")
}

/// How many bytes an operand takes that is packed; none if the operation does not gain by it.
pub fn packed_bytes(
    op: &Op,
    space: &Space,
    pieces: &Pieces,
    fixed: usize,
    stored: &[DType],
) -> Option<usize> {
    let operands = match op {
        Op::Linear => space.operands.len().min(2),
        Op::Matmul | Op::Einsum(_) => space.operands.len(),
        _ => 0,
    };
    if operands != 2 || fixed >= operands || stored.iter().any(|&dtype| dtype != DType::F32) {
        return None;
    }
    let scratch = Scratch::new();
    contract::packed_len(&Frame::new(space, pieces, &scratch), fixed)?.checked_mul(size_of::<f32>())
}

/// Runs a product one of whose operands is packed, in this product or before: of the same elements, for the same
/// operation on as many of the same indices.
///
/// # Panics
/// As [`compute`], and if there are not as many bytes as [`packed_bytes`] says.
pub fn compute_packed(
    (op, space, pieces): (&Op, &Space, &Pieces),
    operands: &[Input<'_>],
    (fixed, packed): (usize, Packed<'_>),
    out: Output<'_>,
    scratch: &Scratch,
) {
    let frame = Frame::new(space, pieces, scratch);
    frame.check_lengths(op, operands, &out);
    let form = match packed {
        Packed::New(bytes) => Form::New(bytemuck::cast_slice_mut(bytes)),
        Packed::There(bytes) => Form::There(bytemuck::cast_slice(bytes)),
    };
    contract::with_packed(&frame, operands, (fixed, form), out);
}

/// Runs one operation, and combines its result with what is there.
///
/// # Errors
/// As [`compute`].
///
/// # Panics
/// As [`compute`].
pub fn compute_onto(
    combine: Combine,
    (op, space, pieces): (&Op, &Space, &Pieces),
    operands: &[Input<'_>],
    out: Output<'_>,
    scratch: &Scratch,
) -> Result<(), KernelError> {
    let frame = Frame::new(space, pieces, scratch);
    frame.check_lengths(op, operands, &out);
    if let (Op::Linear | Op::Matmul | Op::Einsum(_), Combine::Sum) = (op, combine)
        && out.dtype == out.dtype.wide()
    {
        contract::add_product(&frame, operands, out);
        return Ok(());
    }
    let Output { bytes, dtype } = out;
    let mut part = scratch.buffer::<u8>(bytes.len());
    compute(op, space, pieces, operands, Output { bytes: &mut part, dtype }, scratch)?;
    self::combine(combine, dtype, bytes, &part);
    Ok(())
}

/// What goes wrong while computing: something that only the data shows.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KernelError {
    /// An `embedding` was asked for a row that its table does not have.
    IdOutOfRange {
        /// The row asked for.
        id: i64,
        /// How many rows the whole table has.
        rows: u64,
    },
}

impl fmt::Display for KernelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelError::IdOutOfRange { id, rows } = self;
        write!(f, "the id {id} is outside 0..{rows}, the rows of the table")
    }
}

impl std::error::Error for KernelError {}

/// Runs one operation on one device's pieces.
///
/// # Errors
/// What only the data shows: an id outside its table.
///
/// # Panics
/// If the pieces do not have the lengths, alignment or types that the space and the operation ask for:
/// the compiler's checks and the planner's verifier exclude that.
pub fn compute(
    op: &Op,
    space: &Space,
    pieces: &Pieces,
    operands: &[Input<'_>],
    out: Output<'_>,
    scratch: &Scratch,
) -> Result<(), KernelError> {
    let frame = Frame::new(space, pieces, scratch);
    frame.check_lengths(op, operands, &out);
    match op {
        Op::Linear => contract::linear(&frame, operands, out),
        Op::Matmul | Op::Einsum(_) => contract::product(&frame, operands, out),
        Op::Map(map) => elementwise::map(&frame, *map, &operands[0], out),
        Op::Zip(zip) => elementwise::zip(&frame, *zip, operands, out),
        Op::Where => elementwise::choose(&frame, operands, out),
        Op::Cast(_) => cast::cast(&frame, &operands[0], out),
        Op::Reduce(reduce, _) => reduce::reduce(&frame, *reduce, &operands[0], out),
        Op::ArgMax(dim) => along_dim::argmax(&frame, dim, &operands[0], out),
        Op::Softmax(dim) => along_dim::softmax(&frame, dim, &operands[0], out),
        Op::LogSoftmax(dim) => along_dim::log_softmax(&frame, dim, &operands[0], out),
        Op::LayerNorm { dim, eps } => along_dim::layer_norm(&frame, dim, *eps, operands, out),
        Op::RmsNorm { dim, eps } => along_dim::rms_norm(&frame, dim, *eps, operands, out),
        Op::Rearrange { .. } | Op::Rename(_) | Op::Broadcast { .. } | Op::Reshard => {
            copy::copy(&frame, &operands[0], out);
        }
        Op::Slice { start, .. } => copy::slice(&frame, *start, &operands[0], out),
        Op::Pad { before, .. } => copy::pad(&frame, *before, &operands[0], out),
        Op::Concat { .. } => copy::concat(&frame, operands, out),
        Op::Iota(_) => lookup::iota(&frame, out),
        Op::Full(number, dtype) => elementwise::full(*number, *dtype, out),
        Op::Summary(summary, dim) => summary::summary(&frame, *summary, dim, &operands[0], out),
        Op::Finish(finish, dim) => finish::finish(&frame, *finish, dim, operands, out),
        Op::Embedding => return lookup::embedding(&frame, operands, out),
    }
    Ok(())
}
