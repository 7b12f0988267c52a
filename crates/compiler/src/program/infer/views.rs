//! Dims of operations that move elements: `rearrange`, `slice`, `concat`, `embedding` and the like.

use super::products::by_position;
use super::{CallType, Given, ValueType, listed};
use crate::diagnostic::{Code, Diagnostic, quote};
use crate::op::{Group, Pattern};

/// The pattern's right side. Sizes given beside the pattern are those of the result's dims of these
/// names.
pub(super) fn rearrange(
    call: CallType<'_>,
    pattern: &Pattern,
    sizes: &[(String, u64)],
) -> Result<Given, Diagnostic> {
    let [groups] = &pattern.operands[..] else {
        return Err(call.wrong(Code::Pattern, "a pattern of `rearrange` has one operand"));
    };
    by_position(groups, call.value(0))?;
    let mut given = Given { dims: Vec::new(), sizes: Vec::new() };
    for group in &pattern.result {
        let Some(dim) = group.dim() else {
            return Err(call.wrong(Code::Pattern, "every dim of the result needs a name"));
        };
        given.dims.push(dim.to_string());
        match group {
            Group::NewOne(_) => given.sizes.push((dim.to_string(), 1)),
            Group::Name(name) => given.sizes.extend(sizes.iter().find(|(n, _)| n == name).cloned()),
            Group::Merge { .. } | Group::One => {}
        }
    }
    Ok(given)
}

/// Every pair renames a dim of the operand; all at once, so names may be swapped.
pub(super) fn rename<'a>(
    call: CallType<'a>,
    pairs: &'a [(String, String)],
) -> Result<Vec<&'a str>, Diagnostic> {
    let value = call.value(0);
    for (i, (from, _)) in pairs.iter().enumerate() {
        value.position(call, from)?;
        if pairs[..i].iter().any(|(other, _)| other == from) {
            let message = format!("`rename` names the dim {} twice", quote(from));
            return Err(call.wrong(Code::RepeatedDim, message).help("rename each dim once"));
        }
    }
    let renamed =
        |dim: &&'a str| pairs.iter().find(|(from, _)| from == dim).map_or(*dim, |(_, to)| to.as_str());
    Ok(value.dims.iter().map(renamed).collect())
}

/// The operand's dims with `dim` replaced by `to`.
pub(super) fn replaced<'a>(call: CallType<'a>, dim: &str, to: &'a str) -> Result<Vec<&'a str>, Diagnostic> {
    let value = call.value(0);
    let position = value.position(call, dim)?;
    let mut dims = value.dims.to_vec();
    dims[position] = to;
    Ok(dims)
}

/// `slice` says the size of its new dim.
pub(super) fn slice(
    call: CallType<'_>,
    dim: &str,
    to: &str,
    start: u64,
    end: u64,
) -> Result<Given, Diagnostic> {
    let Some(size) = end.checked_sub(start) else {
        let message = format!("`slice` from {start} to {end}: the end is before the start");
        return Err(call
            .wrong(Code::SizeRange, message)
            .help("the end is not included and not before the start"));
    };
    if dim == to && start > 0 {
        return Err(keeps_name(call, dim, &format!("starts at {start}")));
    }
    let mut given = Given::from(replaced(call, dim, to)?);
    given.sizes.push((to.to_string(), size));
    Ok(given)
}

/// `pad` makes its new dim longer.
pub(super) fn pad(
    call: CallType<'_>,
    dim: &str,
    to: &str,
    before: u64,
    after: u64,
) -> Result<Given, Diagnostic> {
    if dim == to && (before > 0 || after > 0) {
        return Err(keeps_name(call, dim, &format!("adds {before} before and {after} after")));
    }
    replaced(call, dim, to).map(Given::from)
}

/// The mistake of a result that has another size under the same name, whatever that is.
fn keeps_name(call: CallType<'_>, dim: &str, why: &str) -> Diagnostic {
    let message = format!("`{}` {why}, so its result cannot have the size of {}", call.name(), quote(dim));
    call.wrong(Code::SizeConflict, message)
        .help(format!("give the new dim a name of its own: `{dim} -> {dim}2`"))
}

/// The new dim in front.
pub(super) fn broadcast(call: CallType<'_>, dim: &str, size: Option<u64>) -> Result<Given, Diagnostic> {
    let mut dims = vec![dim];
    dims.extend(call.value(0).dims);
    let mut given = Given::from(dims);
    given.sizes.extend(size.map(|size| (dim.to_string(), size)));
    Ok(given)
}

/// The dims of the ids, then the second dim of the table.
pub(super) fn embedding<'a>(call: CallType<'a>) -> Result<Vec<&'a str>, Diagnostic> {
    let (ids, table) = (call.value(0), call.value(1));
    let [_, features] = table.dims else {
        let message = format!(
            "the table of `embedding` has two dims, but {} has {}",
            table.described(),
            table.dims.len()
        );
        return Err(Diagnostic::at(Code::Operands, table.place, message)
            .help("it is written `embedding(ids, table)`"));
    };
    Ok(ids.dims.iter().copied().chain([*features]).collect())
}

/// The operands' dims with the one that differs replaced by `to`.
pub(super) fn concat<'a>(call: CallType<'a>, to: &'a str) -> Result<Vec<&'a str>, Diagnostic> {
    let place = joined(call, to)?;
    let mut dims = call.value(0).dims.to_vec();
    dims[place] = to;
    Ok(dims)
}

/// The place of the dim along which `concat` joins: the one where the operands' names differ. Where
/// all names agree it is the only dim there is, or the one that the dims asked for leave out.
fn joined(call: CallType<'_>, to: &str) -> Result<usize, Diagnostic> {
    let first = call.value(0);
    let mut differ: Option<(usize, ValueType<'_>)> = None;
    for other in call.values().skip(1) {
        if other.dims.len() != first.dims.len() {
            return Err(disagree(call, first, other, "have different numbers of dims"));
        }
        let places = (0..first.dims.len()).filter(|&i| first.dims[i] != other.dims[i]);
        for place in places {
            match differ {
                Some((known, _)) if known != place => {
                    return Err(disagree(call, first, other, "differ in more than one place"));
                }
                _ => differ = Some((place, other)),
            }
        }
    }
    if let Some((place, _)) = differ {
        return Ok(place);
    }
    let left_out = |place: &usize| match call.asked {
        Some((asked, _)) => !asked.contains(&first.dims[*place]) || first.dims[*place] == to,
        None => first.dims[*place] == to || first.dims.len() == 1,
    };
    let mut places = (0..first.dims.len()).filter(left_out);
    match (places.next(), places.next()) {
        (Some(place), None) => Ok(place),
        _ if first.dims.is_empty() => {
            let message = format!("`concat` joins along a dim, but {} has none", quote(first.name));
            Err(call.wrong(Code::Operands, message).help("give it a dim first: `broadcast(x, d=1)`"))
        }
        _ => {
            let message = format!(
                "all operands of `concat` have the dims {}, so it is not clear along which they are joined",
                listed(first.dims)
            );
            Err(call
                .wrong(Code::Operands, message)
                .help("say it with `-> [..]`, or rename that dim in one operand"))
        }
    }
}

fn disagree(call: CallType<'_>, first: ValueType<'_>, other: ValueType<'_>, how: &str) -> Diagnostic {
    let message = format!(
        "the operands of `{}` agree in all dims but one, in the same place; {} and {} {how}",
        call.name(),
        first.described(),
        other.described()
    );
    Diagnostic::at(Code::Operands, other.place, message)
        .related(first.place, "this is the first operand")
        .help("make the dims alike with `rename` and `rearrange`")
}
