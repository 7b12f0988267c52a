//! How much work an operation is.

use super::{Op, Space, SpaceId};
use crate::id::Id;
use std::collections::BTreeSet;

/// Operations of an operation's matrix products: 2 m n k each, pairwise from left to right; 0 if it
/// multiplies nothing. `extents` are the sizes of the space's dims, or of a device's part of them.
pub fn product_flops(op: &Op, space: &Space, extents: &[u64]) -> u128 {
    let factors = match op {
        Op::Linear | Op::Matmul => &space.operands[..2],
        Op::Einsum(_) => &space.operands[..],
        _ => return 0,
    };
    let dims = |operand: &[Vec<SpaceId>]| operand.iter().flatten().copied().collect::<BTreeSet<_>>();
    let kept: BTreeSet<SpaceId> = space.result.iter().flatten().copied().collect();
    let mut at = dims(&factors[0]);
    let mut flops = 0u128;
    for (next, operand) in factors.iter().enumerate().skip(1) {
        at.extend(dims(operand));
        let points = at.iter().map(|&d| u128::from(extents[d.index()]));
        flops = flops.saturating_add(points.fold(2, u128::saturating_mul));
        let later: BTreeSet<SpaceId> = factors[next + 1..].iter().flat_map(|o| dims(o)).collect();
        at.retain(|d| kept.contains(d) || later.contains(d));
    }
    flops
}

/// What the cost model charges: the products' operations, or one for every element read or written.
pub fn work(op: &Op, space: &Space, extents: &[u64]) -> u128 {
    let flops = product_flops(op, space, extents);
    if flops > 0 {
        return flops;
    }
    let elements = |tensor: &Vec<Vec<SpaceId>>| {
        let extents = tensor.iter().flatten().map(|&dim| u128::from(extents[dim.index()]));
        extents.fold(1, u128::saturating_mul)
    };
    space.operands.iter().chain([&space.result]).map(elements).fold(0, u128::saturating_add)
}
