//! Rules that depend on sizes: extents, reductions of nothing, and what is too large.

use super::sizes::SizeBinder;
use super::{Apply, DimId, Value};
use crate::diagnostic::{Code, Diagnostic, quote};
use crate::dtype::DType;
use crate::op::{Op, Reduce};

/// No value, nor all buffers of a device together, have more bytes than this, so that offsets, counts and
/// sums fit in signed 64-bit numbers.
pub const MOST_BYTES: u64 = i64::MAX as u64;

impl SizeBinder<'_> {
    /// Checks every value that an output needs.
    pub(super) fn check(&mut self) {
        let mut found = Vec::new();
        for (id, value) in self.program.values.iter().filter(|(id, _)| self.needed[*id]) {
            found.extend(self.too_large(value));
            if let Some(apply) = self.program.apply(id) {
                found.extend(self.extent(value, apply));
                found.extend(self.of_nothing(value, apply));
            }
        }
        found.into_iter().for_each(|mistake| self.found.push(mistake));
    }

    /// A dim of size 0 counts as 1: strides must fit as well.
    fn too_large(&self, value: &Value) -> Option<Diagnostic> {
        let sizes: Option<Vec<u64>> =
            value.dims.iter().map(|&dim| self.known[dim].as_ref().map(|(size, _)| *size)).collect();
        let sizes = sizes?;
        let element = value.dtype.wide().size();
        let bytes = sizes.iter().try_fold(element, |bytes, &size| bytes.checked_mul(size.max(1)));
        if bytes.is_some_and(|bytes| bytes <= MOST_BYTES) {
            return None;
        }
        let shown = quote(&value.name);
        let counted = if sizes.contains(&0) { ", a size of 0 counted as 1" } else { "" };
        let message =
            format!("{shown}, {} {sizes:?}, is too large: more than 2^63 bytes{counted}", value.dtype);
        Some(Diagnostic::at(Code::TooLarge, value.span, message).help("give its dims smaller sizes"))
    }

    /// A slice stays inside its dim.
    fn extent(&self, value: &Value, apply: &Apply) -> Option<Diagnostic> {
        let Op::Slice { dim, start, end, .. } = &apply.op else { return None };
        let (size, source) = self.known[self.program.dim(dim)?].as_ref()?;
        if end <= size {
            return None;
        }
        let message = format!(
            "the `slice` that gives {} takes {start}..{end} of {}, which has size {size} ({})",
            quote(&value.name),
            quote(dim),
            self.describe(source)
        );
        Some(
            Diagnostic::at(Code::SizeRange, value.span, message)
                .help("the end is at most the size of the dim"),
        )
    }

    /// The largest or smallest of no integers does not exist, nor does its index.
    fn of_nothing(&self, value: &Value, apply: &Apply) -> Option<Diagnostic> {
        let dims: Vec<&str> = match &apply.op {
            Op::ArgMax(dim) => vec![dim],
            Op::Reduce(Reduce::Max | Reduce::Min, dims) if DType::is_integer(value.dtype) => {
                dims.iter().map(String::as_str).collect()
            }
            _ => return None,
        };
        let empty = |name: &&str| self.program.dim(name).is_some_and(|dim: DimId| self.empty(dim));
        let dim = dims.into_iter().find(empty)?;
        let message = format!(
            "the `{}` that gives {} is over {}, which has size 0: there is no such element",
            apply.op.name(),
            quote(&value.name),
            quote(dim)
        );
        Some(Diagnostic::at(Code::SizeRange, value.span, message).help("give the dim a size of at least 1"))
    }

    fn empty(&self, dim: DimId) -> bool {
        matches!(&self.known[dim], Some((0, _)))
    }
}
