//! Dims of `linear`, `matmul` and `einsum`.
//!
//! ```text
//!  linear(x, w, b)   x[b, s, k]   w[n, k]   b[n]     k, the last dim of x, is contracted
//!                    └ stay ┘     └ stays            result [b, s, n] unless `-> [..]` orders it
//!
//!  a dim that both have besides k:  kept in the result: a batch dim;  left out by `-> [..]`: contracted too
//! ```

use super::{CallType, ValueType, listed, ordered};
use crate::diagnostic::{Code, Diagnostic, quote};
use crate::op::{Group, Pattern, spaced};

/// The result's dims of a product; those asked for if so.
pub(super) fn product(call: CallType<'_>) -> Result<Vec<&str>, Diagnostic> {
    let (x, w) = (call.value(0), call.value(1));
    let contracted = contracted(call, x, w)?;
    let mut given: Vec<&str> = x.dims.iter().copied().filter(|dim| *dim != contracted).collect();
    given.extend(w.dims.iter().copied().filter(|dim| !x.dims.contains(dim)));
    let dims = match call.asked {
        None => given,
        Some((asked, place)) => {
            if asked.contains(&contracted) {
                let message = format!(
                    "{} is contracted: it is the last dim of {} and a dim of {}, so the result cannot have it",
                    quote(contracted),
                    quote(x.name),
                    quote(w.name)
                );
                return Err(Diagnostic::at(Code::ResultDims, place, message)
                    .help("leave it out, or give it another name in one operand with `rename`"));
            }
            let shared = |dim: &str| x.dims.contains(&dim) && w.dims.contains(&dim);
            let kept: Vec<String> = given
                .iter()
                .filter(|dim| asked.contains(dim) || !shared(dim))
                .map(|dim| dim.to_string())
                .collect();
            ordered(call, &kept, asked, place)?;
            asked.to_vec()
        }
    };
    for bias in call.values().skip(2) {
        if let Some(dim) = bias.dims.iter().find(|dim| !dims.contains(dim)) {
            let message = format!(
                "the bias {} has the dim {}, which the result {} does not have",
                quote(bias.name),
                quote(dim),
                listed(&dims)
            );
            return Err(Diagnostic::at(Code::MissingDim, bias.place, message)
                .help("add it in an operation of its own: `add(y, b)`"));
        }
    }
    Ok(dims)
}

/// The dim that is contracted: the last of the first operand, which the second must have.
fn contracted<'a>(call: CallType<'_>, x: ValueType<'a>, w: ValueType<'a>) -> Result<&'a str, Diagnostic> {
    let Some(last) = x.dims.last() else {
        let message =
            format!("`{}` contracts the last dim of {}, which has no dims", call.name(), quote(x.name));
        return Err(Diagnostic::at(Code::MissingDim, x.place, message).help("multiply with `mul`"));
    };
    if w.dims.contains(last) {
        return Ok(last);
    }
    let message = format!(
        "`{}` contracts the last dim of {}, {}, which {} does not have",
        call.name(),
        x.described(),
        quote(last),
        w.described()
    );
    let shared = x.dims.iter().find(|dim| w.dims.contains(dim));
    let help = match shared {
        Some(dim) => format!(
            "to contract {}, put it last in {} (`rearrange`) or write an `einsum`",
            quote(dim),
            quote(x.name)
        ),
        None => "name the dim that both have alike in both; `rename` gives a dim another name".into(),
    };
    Err(Diagnostic::at(Code::MissingDim, w.place, message)
        .related(x.place, "contracted with this")
        .help(help))
}

/// The pattern's right side; its left side must fit the operands.
pub(super) fn einsum<'a>(call: CallType<'a>, pattern: &'a Pattern) -> Result<Vec<&'a str>, Diagnostic> {
    if pattern.operands.len() != call.operands.len() {
        let message = format!(
            "the pattern says the dims of {} operands, but the call has {}",
            pattern.operands.len(),
            call.operands.len()
        );
        return Err(call
            .wrong(Code::Pattern, message)
            .help("the pattern has the dims of each operand, divided by commas"));
    }
    for (groups, value) in pattern.operands.iter().zip(call.values()) {
        by_position(groups, value)?;
    }
    Ok(pattern.result.iter().filter_map(Group::dim).collect())
}

/// One side of a pattern names the dims of a value by position. A name that the value has at another
/// position is a mistake: it would mean something else than it says.
pub(super) fn by_position(groups: &[Group], value: ValueType<'_>) -> Result<(), Diagnostic> {
    let shown: Vec<String> = groups.iter().map(Group::to_string).collect();
    if groups.len() != value.dims.len() {
        let message = format!(
            "the pattern {} is of {} dims, but {} has {}",
            quote(&shown.join(" ")),
            groups.len(),
            value.described(),
            value.dims.len()
        );
        let help = match spaced(&shown.join(" ")) {
            Some(spaced) => format!("names are divided by spaces: {}", quote(&spaced)),
            None => "the pattern has a name, a group or `1` for each dim".into(),
        };
        return Err(Diagnostic::at(Code::Pattern, value.place, message).help(help));
    }
    for (position, group) in groups.iter().enumerate() {
        for name in group.parts() {
            let Some(other) = value.dims.iter().position(|dim| dim == name) else { continue };
            if other != position {
                let message = format!(
                    "the pattern {} says {} at place {}, but {} has that dim at place {}",
                    quote(&shown.join(" ")),
                    quote(name),
                    position + 1,
                    value.described(),
                    other + 1
                );
                return Err(Diagnostic::at(Code::Pattern, value.place, message)
                    .help("the pattern names dims by position; use the dim's place, or another name"));
            }
        }
    }
    Ok(())
}
