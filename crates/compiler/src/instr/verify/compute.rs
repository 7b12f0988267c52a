//! What must hold of a computation.

use super::projection::Over;
use super::{Counters, check_layout};
use crate::diagnostic::Span;
use crate::dtype::{DType, Number};
use crate::id::Id;
use crate::instr::{Arg, Compute, Fault, TensorType};
use crate::layout::{Factor, Layout, Partial};
use crate::mesh::AxisId;
use crate::op::{DimUse, SpaceId};
use crate::program::{CallType, OperandType, infer};

/// Checks a computation inside loops; `operands` are the types of what it works on (none for a
/// number), `result` is the type of what it gives.
pub(crate) fn check_compute<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    result: &TensorType,
    counters: &Counters,
) -> Result<(), Fault> {
    check_types(compute, operands, result)?;
    check_space(compute, operands, result)?;
    check_layout(&compute.over, compute.space.dims.len(), counters)?;
    check_uses(compute)?;
    let over = Over { space: &compute.space, layout: &compute.over, counters };
    for (at, operand) in operands.iter().enumerate() {
        if let Some(ty) = operand {
            let what = || format!("operand {}", at + 1);
            check_projection(&over, ty, &compute.space.operands[at], what)?;
        }
    }
    check_projection(&over, result, &compute.space.result, || "the result".into())?;
    check_partial(compute, operands, result)
}

/// Every dim of every tensor is made of dims of the space, and of their sizes.
fn check_space<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    result: &TensorType,
) -> Result<(), Fault> {
    let space = &compute.space;
    if space.operands.len() != operands.len() {
        return Err(Fault::new("the space does not have as many operands as the operation"));
    }
    let tensors = operands.iter().copied().zip(&space.operands).chain([(Some(result), &space.result)]);
    for (ty, groups) in tensors {
        let dims = ty.map_or(&[][..], |ty| &ty.dims);
        if dims.len() != groups.len() {
            return Err(Fault::new(format!("{} dims stand for {} of the space", dims.len(), groups.len())));
        }
        for ((name, size), group) in dims.iter().zip(groups) {
            let mut sizes = group.iter().map(|&id| space.dims.get(id).map(|dim| dim.size));
            if sizes.try_fold(1_u64, |product, size| product.checked_mul(size?)) != Some(*size) {
                return Err(Fault::new(format!("the size {size} of dim `{name}` is not that of the space")));
            }
        }
    }
    let dims = |ty: Option<&TensorType>| ty.map_or_else(Vec::new, |ty| ty.dims.clone());
    let expected: Vec<_> = operands.iter().map(|ty| dims(*ty)).collect();
    if *space != crate::op::space(&compute.op, &expected, &result.dims) {
        return Err(Fault::new("the space is not that of the operation on these dims"));
    }
    Ok(())
}

/// What an operation needs whole is not cut, and what it combines is not divided into steps.
fn check_uses<V>(compute: &Compute<V>) -> Result<(), Fault> {
    for (id, dim) in compute.space.dims.iter() {
        let cuts = compute.over.plain_cuts(id.index(), dim.size);
        match dim.usage {
            DimUse::Kept => {}
            DimUse::Combined(_) if cuts.iter().any(|f| f.step().is_some()) => {
                return Err(Fault::new(format!("the combined dim `{}` is divided into steps", dim.name)));
            }
            DimUse::Combined(_) => {}
            DimUse::Whole if cuts.iter().any(|f| f.step().is_some() || f.axis().is_some()) => {
                return Err(Fault::new(format!("dim `{}` is cut, but is needed whole", dim.name)));
            }
            DimUse::Whole => {}
        }
    }
    Ok(())
}

fn check_projection(
    over: &Over<'_>,
    ty: &TensorType,
    groups: &[Vec<SpaceId>],
    what: impl Fn() -> String,
) -> Result<(), Fault> {
    if !ty.layout.mesh().same_grid(over.layout.mesh()) {
        // On another grid a tensor may still hold the same indices on the same devices.
        let needed = over.space.project(over.layout, groups);
        let needed = needed.and_then(|cuts| Layout::new(over.layout.mesh().clone(), cuts, Vec::new()));
        if needed.is_some_and(|needed| ty.layout.same_as(&needed, &ty.sizes())) {
            return Ok(());
        }
        let (mesh, runs) = (ty.layout.mesh().name(), over.layout.mesh().name());
        return Err(Fault::new(format!("{} lives on `{mesh}`, but the operation runs on `{runs}`", what())));
    }
    match over.differs(ty, groups) {
        None => Ok(()),
        Some((dim, device)) => {
            let name = &ty.dims[dim].0;
            let reason = format!("{} does not hold what the operation works on along `{name}`", what());
            Err(Fault::new(reason).on(Some(device)))
        }
    }
}

/// The result is partial over the axes that cut a combined dim, and over those that the layout of the
/// space calls partial; operands may be partial over the latter only.
fn check_partial<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    result: &TensorType,
) -> Result<(), Fault> {
    let over = &compute.over;
    let longer = |axis: AxisId| over.mesh().size(axis) > 1;
    let given: Vec<Partial> = over.partial().iter().copied().filter(|p| longer(p.axis)).collect();
    let partial_of = |ty: &TensorType| -> Vec<Partial> {
        ty.layout.partial().iter().copied().filter(|p| longer(p.axis)).collect()
    };
    for (at, ty) in operands.iter().enumerate() {
        if let Some(stray) = ty.and_then(|ty| partial_of(ty).into_iter().find(|p| !given.contains(p))) {
            let axis = &over.mesh().axes()[stray.axis].name;
            return Err(Fault::new(format!("operand {} is still partial over `{axis}`", at + 1)));
        }
    }
    let carried = |p: &Partial| operands.iter().flatten().any(|ty| partial_of(ty).contains(p));
    if let Some(lost) = given.iter().find(|p| !carried(p)) {
        let axis = &over.mesh().axes()[lost.axis].name;
        return Err(Fault::new(format!("the operation is partial over `{axis}`, but no operand is")));
    }
    let mut expected = given;
    for (id, dim) in compute.space.dims.iter() {
        if let DimUse::Combined(combine) = dim.usage {
            let axes = over.cuts()[id.index()].iter().filter_map(Factor::axis).filter(|&axis| longer(axis));
            expected.extend(axes.map(|axis| Partial { axis, combine }));
        }
    }
    expected.sort_unstable();
    if partial_of(result) != expected {
        return Err(Fault::new("the result is not partial over just the axes that cut what is combined"));
    }
    Ok(())
}

/// The operation gives what the result is, by the type rules of programs. A partial value of a half
/// type is held as `f32`; where one takes part, types are compared by what they are computed in.
fn check_types<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    result: &TensorType,
) -> Result<(), Fault> {
    let tensors = || operands.iter().copied().flatten().chain([result]);
    let wide = tensors().any(|ty| !ty.layout.partial().is_empty());
    let stored = |dtype: DType| if wide { dtype.wide() } else { dtype };
    let place = Span::default();
    let typed: Vec<(OperandType<'_>, Span)> = operands
        .iter()
        .zip(&compute.operands)
        .enumerate()
        .map(|(at, (ty, arg))| {
            let operand = match (ty, arg) {
                (None, Arg::Number(number)) => OperandType::Number(*number),
                (None, Arg::Value(_)) => OperandType::Number(Number::Int(0)),
                (Some(ty), _) => {
                    let name = OPERAND_NAMES[at.min(OPERAND_NAMES.len() - 1)];
                    OperandType::Value { name, dims: ty.names(), dtype: stored(ty.dtype) }
                }
            };
            (operand, place)
        })
        .collect();
    let names = result.names();
    let call = CallType { op: &compute.op, operands: &typed, asked: Some((&names, place)), span: place };
    let given = infer(call).map_err(|mistake| Fault::new(mistake.message))?;
    if stored(given.dtype) != stored(result.dtype) {
        let (name, gives) = (compute.op.name(), given.dtype);
        return Err(Fault::new(format!("`{name}` gives {gives}, but its result is {}", result.dtype)));
    }
    Ok(())
}

/// How operands are called in messages.
const OPERAND_NAMES: [&str; 5] = ["operand 1", "operand 2", "operand 3", "operand 4", "a later operand"];
