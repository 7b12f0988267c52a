//! What must hold of a computation.

use super::projection::Over;
use super::{Counters, check_layout};
use crate::diagnostic::Span;
use crate::dtype::{DType, Number};
use crate::id::Id;
use crate::instr::{Arg, Compute, Fault, TensorType};
use crate::layout::{Cuts, Factor, IndexSet, Partial, Peer, StepId};
use crate::mesh::Mesh;
use crate::op::{DimUse, Later, Op, Passes, Space, SpaceDim, SpaceId, completed_after_parts, passes};
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
    check_steps(compute, result, counters)?;
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
    check_windows(&compute.op, space)
}

/// Windows lie inside their dim, are as long as the operation says, and those of `concat` fill it.
fn check_windows(op: &Op, space: &Space) -> Result<(), Fault> {
    let (mut of_dim, mut filled) = (0, 0_u64);
    for dim in space.dims.keys() {
        let Some((of, range)) = space.window(dim) else { continue };
        (of_dim, filled) = (space.dims[of].size, filled.saturating_add(space.dims[dim].size));
        if range.end > of_dim {
            let (window, dim) = (&space.dims[dim].name, &space.dims[of].name);
            return Err(Fault::new(format!("the window `{window}` ends behind the end of `{dim}`")));
        }
    }
    let expected = match op {
        Op::Slice { start, end, .. } => end.saturating_sub(*start),
        Op::Pad { before, after, .. } => of_dim.saturating_sub(before.saturating_add(*after)),
        Op::Concat { .. } => of_dim,
        _ => return Ok(()),
    };
    match filled == expected {
        true => Ok(()),
        false => Err(Fault::new(format!("the windows have {filled} indices, not {expected}"))),
    }
}

/// What each step gives can be combined with what the others give, and all of them give each index once.
fn check_steps<V>(compute: &Compute<V>, result: &TensorType, counters: &Counters) -> Result<(), Fault> {
    let combined = compute.space.dims.values().zip(compute.over.cuts());
    let mut in_steps = combined.filter(|(dim, cuts)| {
        matches!(dim.usage, DimUse::Combined(_)) && cuts.iter().any(|factor| factor.step().is_some())
    });
    let Some((dim, _)) = in_steps.next() else { return Ok(()) };
    let whole = completed_after_parts(&compute.op, compute.operands.len()) == Later::Nothing;
    if !whole || compute.combined_steps().is_none() {
        return Err(Fault::new(format!("the combined dim `{}` is divided into steps", dim.name)));
    }
    if result.dtype != result.dtype.wide() {
        return Err(Fault::new(format!("steps are combined in {}, which rounds every time", result.dtype)));
    }
    let followed = |id: StepId| compute.over.cuts().iter().flatten().any(|f| f.step() == Some(id));
    if let Some((id, _)) = counters.iter().find(|(id, _)| !followed(*id)) {
        return Err(Fault::new(format!("every step of {id} combines the same again")));
    }
    let sizes: Vec<u64> = compute.space.dims.values().map(|dim| dim.size).collect();
    let mut ranges = vec![0..1; counters.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0)];
    counters.iter().for_each(|&(id, steps)| ranges[id.index()] = 0..steps);
    let reached = compute.over.reach(&sizes, &ranges);
    // Who adds in an order of its own has a result of its own.
    let shared = |peer: &Peer| peer.whose.lead().is_some() && !result.layout.uses(peer.axis);
    let around = |peer: &Peer| counters.contains(&(peer.step, compute.over.mesh().size(peer.axis)));
    for ((dim, cuts), reached) in compute.space.dims.values().zip(compute.over.cuts()).zip(reached) {
        let combined = matches!(dim.usage, DimUse::Combined(_));
        let peers = cuts.iter().all(|factor| !matches!(factor, Factor::Peer(peer) if !around(peer)));
        if combined && cuts.iter().any(|factor| matches!(factor, Factor::Peer(peer) if shared(peer))) {
            return Err(Fault::new(format!(
                "devices combine steps of `{}` in orders of their own",
                dim.name
            )));
        }
        if combined && !(peers && reached == IndexSet::range(0, dim.size)) {
            return Err(Fault::new(format!("the steps do not combine all of dim `{}`", dim.name)));
        }
    }
    Ok(())
}

/// What an operation needs whole is not cut; what it takes a window of is not divided into steps.
fn check_uses<V>(compute: &Compute<V>) -> Result<(), Fault> {
    for (id, dim) in compute.space.dims.iter() {
        let cuts = compute.over.plain_cuts(id.index(), dim.size);
        match dim.usage {
            DimUse::Kept => {}
            DimUse::InParts if cuts.iter().any(|f| f.step().is_some()) => {
                return Err(Fault::new(format!("the combined dim `{}` is divided into steps", dim.name)));
            }
            DimUse::Combined(_) | DimUse::InParts => {}
            DimUse::Whole | DimUse::Summarised
                if cuts.iter().any(|f| f.step().is_some() || f.axis().is_some()) =>
            {
                return Err(Fault::new(format!("dim `{}` is cut, but is needed whole", dim.name)));
            }
            DimUse::Whole | DimUse::Summarised => {}
            DimUse::Window(_) if !cuts.is_empty() => {
                return Err(Fault::new(format!("dim `{}` is a window, but has cuts of its own", dim.name)));
            }
            DimUse::Window(_) => {}
            DimUse::PartsOf(of) => check_parts(compute, dim, &compute.over.cuts()[id.index()], of)?,
        }
        let in_steps = cuts.iter().any(|f| f.step().is_some());
        if in_steps && compute.space.has_windows(id) {
            return Err(Fault::new(format!("dim `{}` has windows and is divided into steps", dim.name)));
        }
    }
    if let Some((name, numbers)) = compute.op.summary_numbers()
        && compute.space.dim(&name).is_none_or(|dim| compute.space.dims[dim].size != numbers)
    {
        return Err(Fault::new(format!("the summary has {numbers} numbers, not as many as `{name}`")));
    }
    Ok(())
}

/// A dim that counts the parts of another is as long as there are parts, and not cut itself.
fn check_parts<V>(compute: &Compute<V>, dim: &SpaceDim, cuts: &Cuts, of: SpaceId) -> Result<(), Fault> {
    let axes = compute.over.cuts()[of.index()].iter().filter_map(Factor::axis);
    let parts = axes.map(|axis| compute.over.mesh().size(axis)).fold(1, u64::saturating_mul);
    if dim.size != parts {
        return Err(Fault::new(format!("`{}` counts {parts} parts, but has size {}", dim.name, dim.size)));
    }
    if !cuts.is_empty() {
        return Err(Fault::new(format!("`{}` counts parts and is cut itself", dim.name)));
    }
    Ok(())
}

fn check_projection(
    over: &Over<'_>,
    ty: &TensorType,
    groups: &[Vec<SpaceId>],
    what: impl Fn() -> String,
) -> Result<(), Fault> {
    let (lives, runs) = (ty.layout.mesh(), over.layout.mesh());
    let elsewhere = !lives.same_devices(runs) || !partial_of(ty).is_empty();
    if !lives.same_grid(runs) && elsewhere {
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
/// space calls partial. Operands may be partial over the latter only, and only where the operation on
/// parts gives parts of its result.
fn check_partial<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    result: &TensorType,
) -> Result<(), Fault> {
    let over = &compute.over;
    let given = longer(over.mesh(), over.partial());
    for (at, ty) in operands.iter().enumerate() {
        if let Some(stray) = ty.and_then(|ty| partial_of(ty).into_iter().find(|p| !given.contains(p))) {
            let axis = &over.mesh().axes()[stray.axis].name;
            return Err(Fault::new(format!("operand {} is still partial over `{axis}`", at + 1)));
        }
    }
    let mut expected = given.clone();
    for (id, dim) in compute.space.dims.iter() {
        if let DimUse::Combined(combine) = dim.usage {
            let axes = over.cuts()[id.index()].iter().filter_map(Factor::axis);
            let parts: Vec<Partial> = axes.map(|axis| Partial { axis, combine }).collect();
            expected.extend(longer(over.mesh(), &parts));
        }
    }
    expected.sort_unstable();
    if partial_of(result) != expected {
        return Err(Fault::new("the result is not partial over just the axes that cut what is combined"));
    }
    if expected.windows(2).any(|pair| pair[0].combine != pair[1].combine) {
        return Err(Fault::new("the result is partial with two operators"));
    }
    if compute.op == Op::Linear && operands.len() == 3 && !expected.is_empty() {
        return Err(Fault::new("the bias is added to every part of the result"));
    }
    check_carriers(compute, operands, &given)
}

/// Those operands that are partial may be.
fn check_carriers<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    given: &[Partial],
) -> Result<(), Fault> {
    let Some(first) = given.first() else { return Ok(()) };
    let carries = |at: usize| operands[at].is_some_and(|ty| partial_of(ty) == given);
    let carriers: Vec<usize> = (0..operands.len()).filter(|&at| carries(at)).collect();
    let partial = operands.iter().flatten().filter(|ty| !partial_of(ty).is_empty()).count();
    let allowed = carriers.first().and_then(|&at| passes(&compute.op, at, first.combine));
    let holds = match allowed {
        None => false,
        Some(Passes::Alone) => carriers.len() == 1 && partial == 1,
        Some(Passes::Together) => carriers.len() == operands.len(),
    };
    let name = compute.op.name();
    holds
        .then_some(())
        .ok_or_else(|| Fault::new(format!("`{name}` of parts does not give parts of its result")))
}

/// Those that are partial over an axis longer than 1.
fn longer(mesh: &Mesh, partial: &[Partial]) -> Vec<Partial> {
    partial.iter().copied().filter(|p| mesh.size(p.axis) > 1).collect()
}

fn partial_of(ty: &TensorType) -> Vec<Partial> {
    longer(ty.layout.mesh(), ty.layout.partial())
}

/// The operation gives what the result is, by the type rules of programs. What is not rounded yet (parts
/// still to be combined, a sum whose bias is still to be added) is held wide, so types are compared by
/// what they are computed in; but two different half types never meet.
fn check_types<V>(
    compute: &Compute<V>,
    operands: &[Option<&TensorType>],
    result: &TensorType,
) -> Result<(), Fault> {
    let halves = operands.iter().flatten().map(|ty| ty.dtype).filter(|dtype| dtype.wide() != *dtype);
    let halves: Vec<DType> = halves.collect();
    if halves.windows(2).any(|pair| pair[0] != pair[1]) {
        return Err(Fault::new("operands of two half types"));
    }
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
                    OperandType::Value { name, dims: ty.names(), dtype: ty.dtype.wide() }
                }
            };
            (operand, place)
        })
        .collect();
    let names = result.names();
    let call = CallType { op: &compute.op, operands: &typed, asked: Some((&names, place)), span: place };
    let given = infer(call).map_err(|mistake| Fault::new(mistake.message))?;
    if given.dtype.wide() != result.dtype.wide() {
        let (name, gives) = (compute.op.name(), given.dtype);
        return Err(Fault::new(format!("`{name}` gives {gives}, but its result is {}", result.dtype)));
    }
    Ok(())
}

/// How operands are called in messages.
const OPERAND_NAMES: [&str; 5] = ["operand 1", "operand 2", "operand 3", "operand 4", "a later operand"];
