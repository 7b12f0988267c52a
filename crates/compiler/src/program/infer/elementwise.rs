//! Dims of element-by-element operations, reductions and norms.

use super::{CallType, ValueType, distinct};
use crate::diagnostic::{Code, Diagnostic, quote};

/// The dims of all operands, in the order first seen.
pub(super) fn union(call: CallType<'_>) -> Vec<&str> {
    let mut dims: Vec<&str> = Vec::new();
    for value in call.values() {
        for dim in value.dims {
            if !dims.contains(dim) {
                dims.push(dim);
            }
        }
    }
    dims
}

/// The dims that stay when `gone` are reduced.
pub(super) fn reduced<'a>(call: CallType<'a>, gone: &[String]) -> Result<Vec<&'a str>, Diagnostic> {
    let value = call.value(0);
    for (i, dim) in gone.iter().enumerate() {
        value.position(call, dim)?;
        if gone[..i].contains(dim) {
            let message = format!("`{}` names the dim {} twice", call.name(), quote(dim));
            return Err(call.wrong(Code::RepeatedDim, message).help("name each dim once"));
        }
    }
    Ok(value.dims.iter().copied().filter(|dim| !gone.iter().any(|g| g == dim)).collect())
}

/// A norm keeps the dims of its first operand.
pub(super) fn normalised<'a>(call: CallType<'a>, dim: &str) -> Result<Vec<&'a str>, Diagnostic> {
    let value = call.value(0);
    value.position(call, dim)?;
    call.values().skip(1).try_for_each(|other| spreads_over(call, other, value, dim))?;
    Ok(value.dims.to_vec())
}

/// A scale or an offset has the dim that the operation works along, and no dim that the value does not have.
pub(super) fn spreads_over(
    call: CallType<'_>,
    other: ValueType<'_>,
    value: ValueType<'_>,
    dim: &str,
) -> Result<(), Diagnostic> {
    other.position(call, dim)?;
    distinct(other.dims, other.place)?;
    let Some(foreign) = other.dims.iter().find(|d| !value.dims.contains(d)) else { return Ok(()) };
    let message = format!(
        "{} of `{}` has the dim {}, which {} does not have",
        quote(other.name),
        call.name(),
        quote(foreign),
        value.described()
    );
    Err(Diagnostic::at(Code::MissingDim, other.place, message)
        .help("multiply or add it in an operation of its own"))
}
