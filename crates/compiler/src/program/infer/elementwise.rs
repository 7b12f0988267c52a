//! Dims of element-by-element operations, reductions and norms.

use super::{CallType, distinct};
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

/// A norm keeps the dims of its first operand; scale and offset have the normalised dim, and no dim
/// that the first does not have.
pub(super) fn normalised<'a>(call: CallType<'a>, dim: &str) -> Result<Vec<&'a str>, Diagnostic> {
    let value = call.value(0);
    value.position(call, dim)?;
    for other in call.values().skip(1) {
        other.position(call, dim)?;
        distinct(other.dims, other.place)?;
        if let Some(foreign) = other.dims.iter().find(|d| !value.dims.contains(d)) {
            let message = format!(
                "{} of `{}` has the dim {}, which {} does not have",
                quote(other.name),
                call.name(),
                quote(foreign),
                value.described()
            );
            return Err(Diagnostic::at(Code::MissingDim, other.place, message)
                .help("multiply or add it in an operation of its own"));
        }
    }
    Ok(value.dims.to_vec())
}
