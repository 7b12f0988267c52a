//! The iteration space of one operation: all its dims, and which of them each operand and the result
//! have.
//!
//! ```text
//! y = linear(x, w, b)     x[s, k], w[n, k], b[n] -> y[s, n]
//!
//!   dims      s kept   k combined(sum)   n kept
//!   operands  x: s k   w: n k   b: n              result  s n
//!
//! y = rearrange(x, "s (n h) -> n s h")     x[s, e] -> y[n, s, h]
//!
//!   dims      s n h, all kept
//!   operands  x: s (n h)                          result  n s h
//!
//! y = slice(x, d -> t, 1, 4)     x[d, e] -> y[t, e]
//!
//!   dims      d@0 kept   e kept   t window of d@0 from 1
//!   operands  x: d@0 e                            result  t e
//! ```
//!
//! Lowering chooses one layout of the space; what each operand must look like and what the result
//! looks like are its projections. A combined dim that is cut makes the result partial. A whole dim
//! may not be cut, but one of which parts can be summarised may (see [`Summary`](super::Summary)).

use super::{Group, Op, Pattern, Window, atom_sizes, number_dim, part_dim};
use crate::dtype::Combine;
use crate::id::{Table, id};

id! {
    /// A dim of an iteration space.
    SpaceId "k"
}

/// What an operation does with a dim of its space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DimUse {
    /// Every index is worked on alone; the result has the dim.
    Kept,
    /// The indices are combined; the result does not have the dim.
    Combined(Combine),
    /// The operation needs all indices at once.
    Whole,
    /// The dim is a part of another one.
    Window(Window),
    /// As whole, but a summary of each part of the dim says enough of the others: where the dim is cut,
    /// the operation is lowered to a summary and a finish.
    Summarised,
    /// Each device combines the indices that it holds; the result has a dim that counts the devices.
    InParts,
    /// Counts the parts of a dim that is worked on in parts. A layout of the space does not cut it: a
    /// device has the index of its own part.
    PartsOf(SpaceId),
}

/// A dim of an iteration space.
#[derive(Clone, PartialEq, Debug)]
pub struct SpaceDim {
    /// Its name in the program or the pattern.
    pub name: String,
    /// Its size.
    pub size: u64,
    /// What the operation does with it.
    pub usage: DimUse,
}

impl SpaceDim {
    /// The dim as the program calls it: a dim of one operand alone has that operand's name for it.
    pub fn program_name(&self) -> &str {
        self.name.split('@').next().unwrap_or_default()
    }
}

/// An iteration space. Each dim of an operand or result is made of the listed space dims, outermost
/// first: one for an ordinary dim, several for a merged one, none for a dim of size 1 that has no
/// counterpart.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Space {
    /// The dims.
    pub dims: Table<SpaceId, SpaceDim>,
    /// For each operand (numbers too: they have no dims) its dims.
    pub operands: Vec<Vec<Vec<SpaceId>>>,
    /// The result's dims.
    pub result: Vec<Vec<SpaceId>>,
}

impl Space {
    /// The number of points.
    pub fn points(&self) -> u128 {
        self.dims.values().map(|d| u128::from(d.size)).product()
    }

    /// The dim of that name.
    pub fn dim(&self, name: &str) -> Option<SpaceId> {
        self.dims.iter().find(|(_, d)| d.name == name).map(|(id, _)| id)
    }

    fn named(&mut self, name: &str, size: u64, usage: DimUse) -> SpaceId {
        match self.dim(name) {
            Some(id) => id,
            None => self.dims.push(SpaceDim { name: name.into(), size, usage }),
        }
    }
}

/// The iteration space of an operation on operands with these dims and sizes (a number has none).
pub fn space(op: &Op, operands: &[Vec<(String, u64)>], result: &[(String, u64)]) -> Space {
    match op {
        Op::Einsum(pattern) => einsum_space(pattern, operands, result),
        Op::Rearrange { pattern, sizes } => rearrange_space(pattern, sizes, &operands[0], result),
        op => named_space(op, operands, result),
    }
}

/// Dims with the same name are the same dim, but for the dims that the operation looks up, cuts or
/// joins: those are dims of their operand alone, spelled `name@operand`. The smaller of two such dims
/// is a window of the larger.
fn named_space(op: &Op, operands: &[Vec<(String, u64)>], result: &[(String, u64)]) -> Space {
    let mut space = Space::default();
    // The dim that operands are put into, and where the next one starts.
    let mut joined = joined_dim(op, result)
        .map(|((to, size), start)| Window { of: space.named(to, *size, DimUse::Kept), start });
    for (index, operand) in operands.iter().enumerate() {
        let mut dims = Vec::new();
        for (position, (name, size)) in operand.iter().enumerate() {
            let own = match op {
                Op::Slice { dim, .. } | Op::Pad { dim, .. } => dim == name,
                Op::Concat { to } => to == name || !has_dim(result, name),
                Op::Embedding => index == 1 && position == 0,
                _ => false,
            };
            dims.push(vec![if own {
                let usage = match &mut joined {
                    Some(window) => {
                        let here = *window;
                        window.start = window.start.saturating_add(*size);
                        DimUse::Window(here)
                    }
                    None if matches!(op, Op::Embedding) => DimUse::Combined(Combine::Sum),
                    None => DimUse::Kept,
                };
                space.named(&format!("{name}@{index}"), *size, usage)
            } else {
                let name = match op {
                    Op::Rename(pairs) => {
                        pairs.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to)
                    }
                    _ => name,
                };
                space.named(name, *size, shared_usage(op, name, result))
            }]);
        }
        space.operands.push(dims);
    }
    for (name, size) in result {
        let usage = match op {
            Op::Slice { dim, to, start, .. } if to == name => space
                .dim(&format!("{dim}@0"))
                .map_or(DimUse::Kept, |of| DimUse::Window(Window { of, start: *start })),
            Op::Summary(_, dim) if number_dim(dim) == *name => DimUse::Whole,
            Op::Summary(_, dim) if part_dim(dim) == *name => {
                space.dim(dim).map_or(DimUse::Whole, DimUse::PartsOf)
            }
            _ => DimUse::Kept,
        };
        let id = space.named(name, *size, usage);
        space.result.push(vec![id]);
    }
    space
}

/// The dim of the result that operands are put into, and at which of its indices the first one starts.
fn joined_dim<'a>(op: &Op, result: &'a [(String, u64)]) -> Option<(&'a (String, u64), u64)> {
    let (to, start) = match op {
        Op::Pad { to, before, .. } => (to, *before),
        Op::Concat { to } => (to, 0),
        _ => return None,
    };
    Some((result.iter().find(|(name, _)| name == to)?, start))
}

fn has_dim(dims: &[(String, u64)], name: &str) -> bool {
    dims.iter().any(|(own, _)| own == name)
}

/// What an operation does with a dim that is the same in all its operands and the result.
fn shared_usage(op: &Op, name: &str, result: &[(String, u64)]) -> DimUse {
    let is_kept = has_dim(result, name);
    match op {
        op if op.from_parts().is_some_and(|(_, dim)| dim == name) => DimUse::Summarised,
        Op::Summary(_, dim) if dim == name => DimUse::InParts,
        Op::Finish(_, dim) if part_dim(dim) == name || number_dim(dim) == name => DimUse::Whole,
        Op::Reduce(reduce, _) if !is_kept => DimUse::Combined(reduce.combine()),
        _ if is_kept => DimUse::Kept,
        _ => DimUse::Combined(Combine::Sum),
    }
}

/// The pattern names the operands' dims by position, and the result's dims by name.
fn einsum_space(pattern: &Pattern, operands: &[Vec<(String, u64)>], result: &[(String, u64)]) -> Space {
    let mut space = Space::default();
    let kept = |name: &str| pattern.result.iter().flat_map(Group::parts).any(|n| n == name);
    for (groups, operand) in pattern.operands.iter().zip(operands) {
        let mut dims = Vec::new();
        for (group, (_, size)) in groups.iter().zip(operand) {
            let ids = group.parts().iter().map(|name| {
                let usage = if kept(name) { DimUse::Kept } else { DimUse::Combined(Combine::Sum) };
                space.named(name, *size, usage)
            });
            dims.push(ids.collect());
        }
        space.operands.push(dims);
    }
    space.result = result.iter().map(|(name, _)| space.dim(name).into_iter().collect()).collect();
    space
}

/// The atoms of the pattern are the space. The result's dims may stand in another order than the
/// pattern's, so they are found by name.
fn rearrange_space(
    pattern: &Pattern,
    given: &[(String, u64)],
    operand: &[(String, u64)],
    result: &[(String, u64)],
) -> Space {
    let group_of = |name: &str| pattern.result.iter().find(|group| group.dim() == Some(name));
    let in_pattern_order: Vec<Option<u64>> = pattern
        .result
        .iter()
        .map(|group| result.iter().find(|(name, _)| group.dim() == Some(name)).map(|(_, size)| *size))
        .collect();
    let operand_sizes: Vec<Option<u64>> = operand.iter().map(|(_, size)| Some(*size)).collect();
    // Sizes were checked when they were bound; those of a form that was edited by hand may not fit.
    let atoms = atom_sizes(pattern, given, &operand_sizes, &in_pattern_order);
    let size_of = |name: &String| atoms.as_ref().map_or(0, |sizes| sizes.atoms[name].unwrap_or(0));
    let mut space = Space::default();
    let operand_dims = pattern.operands[0].iter().map(|group| {
        let parts = group.parts().iter();
        parts.map(|name| space.named(name, size_of(name), DimUse::Kept)).collect()
    });
    let operand_dims = operand_dims.collect();
    space.operands.push(operand_dims);
    let parts = |name: &str| group_of(name).map_or(&[][..], Group::parts);
    space.result = result
        .iter()
        .map(|(name, _)| parts(name).iter().filter_map(|part| space.dim(part)).collect())
        .collect();
    space
}
