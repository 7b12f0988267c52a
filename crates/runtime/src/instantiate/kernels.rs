//! A computation as a task of one device: what it holds of the space, and where its pieces lie.

use super::InstantiateError;
use super::buffers::{Buffers, Held, check_steps};
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
use std::sync::Arc;

/// The device's part of a computation; none if the device is not in its mesh.
pub(super) fn kernel(
    compute: &Arc<Compute<BufferId>>,
    buffers: &Buffers<'_>,
    device: DeviceId,
    at: &At,
) -> Result<Option<Kernel>, InstantiateError> {
    check_steps(&compute.over, at)?;
    if compute.over.ndim() != compute.space.dims.len()
        || compute.space.operands.len() != compute.operands.len()
    {
        return Err(InstantiateError::Broken("the space does not describe the operation".into()));
    }
    let Some(held) = compute.space.piece_at_step(&compute.over, device, at.steps()) else {
        return Ok(None);
    };
    let piece = |buffer: BufferId, dims: &[Vec<SpaceId>]| -> Result<Piece, InstantiateError> {
        let found = buffers.held(buffer, device, at)?;
        let found = found.ok_or_else(|| {
            InstantiateError::Broken(format!("{device} computes with {buffer} but holds nothing of it"))
        })?;
        check_extents(buffer, &found, dims, &held)?;
        Ok(found.piece)
    };
    let result = piece(compute.result, &compute.space.result)?;
    let mut operands = Vec::new();
    for (arg, dims) in compute.operands.iter().zip(&compute.space.operands) {
        operands.push(match arg {
            Arg::Number(number) => Operand::Number(*number, number_type(compute, buffers)?),
            Arg::Value(buffer) => {
                let operand = piece(*buffer, dims)?;
                if share_bytes(&operand.region, &result.region) {
                    return Err(InstantiateError::Broken(format!("{buffer} shares bytes with the result")));
                }
                Operand::Piece(operand)
            }
        });
    }
    Ok(Some(Kernel {
        compute: compute.clone(),
        onto: at.goes_on(compute),
        pieces: Pieces::new(&compute.space, held),
        operands: operands.into(),
        result,
        packed: None,
    }))
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
