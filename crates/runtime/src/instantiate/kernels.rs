//! A computation as tasks of one device: what it holds of the space, and where its pieces lie. One kernel, but where an
//! operand is lent in several blocks: then one for each of them.

use super::InstantiateError;
use super::buffers::{Buffers, Held, check_steps};
use super::loans::{Block, Lent, Split};
use super::moves::share_bytes;
use super::tasks::{Kernel, Operand, Piece};
use crate::kernels::Pieces;
use crate::tensor::byte_count;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{At, BufferId};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::{Arg, Compute};
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::op::{Op, SpaceId};
use std::ops::Range;
use std::sync::Arc;

/// The device's part of a computation; nothing if the device is not in its mesh. `lent` are the blocks that the device
/// reads of a buffer, if it is lent.
pub(super) fn kernels<'l>(
    compute: &Arc<Compute<BufferId>>,
    buffers: &Buffers<'_>,
    device: DeviceId,
    at: &At,
    lent: &dyn Fn(BufferId) -> Option<&'l [Block]>,
) -> Result<Vec<Kernel>, InstantiateError> {
    check_steps(&compute.over, at)?;
    if compute.over.ndim() != compute.space.dims.len()
        || compute.space.operands.len() != compute.operands.len()
    {
        return Err(InstantiateError::Broken("the space does not describe the operation".into()));
    }
    let Some(held) = compute.space.piece_at_step(&compute.over, device, at.steps()) else {
        return Ok(Vec::new());
    };
    let piece = |buffer: BufferId, dims: &[Vec<SpaceId>]| -> Result<Piece, InstantiateError> {
        let found = buffers.held(buffer, device, at)?;
        let found = found.ok_or_else(|| {
            InstantiateError::Broken(format!("{device} computes with {buffer} but holds nothing of it"))
        })?;
        check_extents(buffer, &found, dims, &held)?;
        Ok(found.piece)
    };
    let mut whole = Parts { operands: Vec::new(), result: piece(compute.result, &compute.space.result)? };
    // The operand that is lent in blocks.
    let mut blocks: Option<(usize, &[Block])> = None;
    for (place, (arg, dims)) in compute.operands.iter().zip(&compute.space.operands).enumerate() {
        let buffer = match arg {
            Arg::Number(number) => {
                whole.operands.push(Operand::Number(*number, number_type(compute, buffers)?));
                continue;
            }
            Arg::Value(buffer) => *buffer,
        };
        let mut operand = piece(buffer, dims)?;
        if share_bytes(&operand.region, &whole.result.region) {
            return Err(InstantiateError::Broken(format!("{buffer} shares bytes with the result")));
        }
        let lent = match lent(buffer) {
            Some(blocks) => Lent::of(blocks, operand.region.len())?,
            None => None,
        };
        let from = match lent {
            None => device,
            Some(Lent::Whole(block)) => {
                operand.region = block.region.clone();
                block.from
            }
            Some(Lent::Blocks(all)) => {
                if blocks.replace((place, all)).is_some() {
                    return Err(InstantiateError::Broken("two operands are lent in blocks".into()));
                }
                device
            }
        };
        whole.operands.push(Operand::Piece(from, operand));
    }
    let kernel = |parts: Parts, held: Vec<IndexSet>| Kernel {
        compute: compute.clone(),
        onto: at.goes_on(compute),
        pieces: Pieces::new(&compute.space, held),
        operands: parts.operands.into(),
        result: parts.result,
        packed: None,
    };
    let Some((place, blocks)) = blocks else { return Ok(vec![kernel(whole, held)]) };
    let split = Split::of(&compute.space.operands[place], &held)?;
    let of_block = |block: &Block| {
        let (parts, rows) = whole.of_block(compute, &split, place, block)?;
        Ok(kernel(parts, split.held_of(&rows)))
    };
    blocks.iter().map(of_block).collect()
}

/// Where a kernel's operands and its result lie.
struct Parts {
    operands: Vec<Operand>,
    result: Piece,
}

impl Parts {
    /// What belongs to a block of an operand, with the indices that are cut out for it.
    fn of_block(
        &self,
        compute: &Compute<BufferId>,
        split: &Split<'_>,
        lent: usize,
        block: &Block,
    ) -> Result<(Parts, Range<u64>), InstantiateError> {
        let Compute { space, .. } = compute;
        let Operand::Piece(_, piece) = &self.operands[lent] else {
            return Err(InstantiateError::Broken("a number is lent".into()));
        };
        let rows = split.rows(block, piece)?;
        let mut operands = Vec::new();
        for (place, (operand, dims)) in self.operands.iter().zip(&space.operands).enumerate() {
            operands.push(match operand {
                Operand::Piece(_, piece) if place == lent => {
                    Operand::Piece(block.from, Piece { region: block.region.clone(), dtype: piece.dtype })
                }
                Operand::Piece(from, piece) => {
                    let part = split.part(piece, dims, &rows)?;
                    Operand::Piece(*from, part.unwrap_or_else(|| piece.clone()))
                }
                number @ Operand::Number(..) => number.clone(),
            });
        }
        let result = split.part(&self.result, &space.result, &rows)?;
        let result = result.ok_or_else(|| {
            InstantiateError::Broken("blocks of what is lent are no blocks of the result".into())
        })?;
        Ok((Parts { operands, result }, rows))
    }
}

/// The piece of a buffer must have the dims that the space says, each as long as what is held of it.
fn check_extents(
    buffer: BufferId,
    found: &Held,
    dims: &[Vec<SpaceId>],
    held: &[IndexSet],
) -> Result<(), InstantiateError> {
    let wanted = dims.iter().map(|dim| dim.iter().map(|id| held[id.index()].count()).product::<u64>());
    let wanted: Vec<u64> = wanted.collect();
    let fits =
        found.extents == wanted && byte_count(found.piece.dtype, &wanted) == Some(found.piece.region.len());
    if fits {
        return Ok(());
    }
    let message =
        format!("the piece of {buffer} is {:?}, but the computation takes {wanted:?}", found.extents);
    Err(InstantiateError::Broken(message))
}

/// The type that a number takes: that of the operand it meets.
fn number_type(compute: &Compute<BufferId>, buffers: &Buffers<'_>) -> Result<DType, InstantiateError> {
    // The first operand of `where` is the condition.
    let met = &compute.operands[usize::from(compute.op == Op::Where)..];
    let value = met.iter().find_map(Arg::value);
    Ok(buffers.ty(value.unwrap_or(compute.result))?.dtype)
}
