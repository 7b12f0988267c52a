//! Whether what a move gives can be read where it lies, on the devices that have it.
//!
//! ```text
//!   b0 x[s, k] at s/tp        b2 x[s, k] at replicated        b3 y[s, n] = linear(b2, b1)
//!   device 0: rows 0 to 3  ┬▶ a block                     ─▶  rows 0 to 3 of y
//!   device 1: rows 4 to 7  ┴▶ a block                     ─▶  rows 4 to 7
//! ```
//!
//! Pieces are row-major. So if source and target are cut differently along one dim only, and all dims around it have one
//! index, each device's piece of the target is made of *blocks*, each of which lies in one run in the piece of one device.
//! A computation that works on every index of that dim alone can then be done block by block.

use crate::instr::{Compute, Fault, Move, Path, TensorType};
use crate::layout::Factor;
use crate::op::{DimUse, SpaceId};

/// Checks a move whose target is lent by its source. Returns the dim along which a device's piece is made of blocks;
/// none if each is a whole piece of some device.
pub(crate) fn check_loan<V>(
    moved: &Move<V>,
    source: &TensorType,
    target: &TensorType,
) -> Result<Option<usize>, Fault> {
    let (from, to) = (&source.layout, &target.layout);
    if moved.path != Path::Direct || moved.kind.reduces() || from.is_partial() || to.is_partial() {
        return Err(Fault::new("parts are combined or passed on, so nothing can be lent"));
    }
    let factors = || from.cuts().iter().chain(to.cuts()).flatten();
    if factors().any(|factor| matches!(factor, Factor::Peer(_))) {
        return Err(Fault::new("devices are at different blocks in one step, so nothing can be lent"));
    }
    let sizes = target.sizes();
    let mut differ = (0..sizes.len()).filter(|&dim| !is_cut_alike(source, target, dim, sizes[dim]));
    let Some(dim) = differ.next() else { return Ok(None) };
    let around = &to.largest_piece(&sizes)[..dim];
    if differ.next().is_some() || around.iter().any(|&indices| indices > 1) {
        return Err(Fault::new("what a device gets does not lie in runs, so it cannot be lent"));
    }
    Ok(Some(dim))
}

/// Whether each piece that one layout makes of a dim is a piece that the other makes of it, of the same devices as far as
/// the other dims go.
fn is_cut_alike(source: &TensorType, target: &TensorType, dim: usize, size: u64) -> bool {
    let (from, to) = (&source.layout, &target.layout);
    let (first, second) = (from.plain_cuts(dim, size), to.plain_cuts(dim, size));
    if from.mesh().same_grid(to.mesh()) {
        return first == second;
    }
    let alike = |(a, b): (&Factor, &Factor)| match (a, b) {
        (Factor::Axis(a), Factor::Axis(b)) => from.mesh().size(*a) == to.mesh().size(*b),
        (Factor::Sizes(_, a), Factor::Sizes(_, b)) => a == b,
        (a, b) => a.axis().is_none() && a == b,
    };
    first.len() == second.len() && first.iter().zip(&second).all(alike)
}

/// Checks that a computation can be done block by block along a dim of one of its operands: it works on each index
/// alone, and blocks of that dim lie in one run in the result and in every other operand that has it.
pub(crate) fn check_by_blocks<'t, V: Copy + PartialEq>(
    compute: &Compute<V>,
    lent: V,
    dim: usize,
    ty: &dyn Fn(V) -> &'t TensorType,
) -> Result<(), Fault> {
    let Compute { space, operands, result, .. } = compute;
    let mut places = (0..operands.len()).filter(|&place| operands[place].value() == Some(lent));
    let (Some(place), None) = (places.next(), places.next()) else {
        return Err(Fault::new("what is lent in blocks is one operand of a computation"));
    };
    let &[split] = &space.operands[place][dim][..] else {
        return Err(Fault::new("what is lent in blocks lies along a merged dim"));
    };
    let follows = |usage: DimUse| match usage {
        DimUse::Window(window) => window.of == split,
        DimUse::PartsOf(of) => of == split,
        _ => false,
    };
    if space.dims[split].usage != DimUse::Kept || space.dims.values().any(|dim| follows(dim.usage)) {
        let name = &space.dims[split].name;
        return Err(Fault::new(format!("not every index of `{name}` is worked on alone")));
    }
    if !space.result.iter().any(|dim| dim[..] == [split]) {
        return Err(Fault::new("blocks of what is lent are no blocks of the result"));
    }
    let values = operands.iter().zip(&space.operands).filter_map(|(arg, dims)| Some((arg.value()?, dims)));
    for (value, dims) in values.chain([(*result, &space.result)]) {
        check_runs(ty(value), dims, split)?;
    }
    Ok(())
}

/// Checks that a block of a dim of the space is one run of every piece of a value.
fn check_runs(ty: &TensorType, dims: &[Vec<SpaceId>], split: SpaceId) -> Result<(), Fault> {
    let mut having = (0..dims.len()).filter(|&dim| dims[dim].contains(&split));
    let Some(dim) = having.next() else { return Ok(()) };
    let around = &ty.layout.largest_piece(&ty.sizes())[..dim];
    if having.next().is_some() || dims[dim].len() > 1 || around.iter().any(|&indices| indices > 1) {
        return Err(Fault::new(
            "blocks of what is lent do not lie in runs in all that a computation works on",
        ));
    }
    Ok(())
}
