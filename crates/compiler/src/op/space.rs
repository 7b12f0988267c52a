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
//! ```
//!
//! Lowering chooses one layout of the space; what each operand must look like and what the result
//! looks like are its projections. A combined dim that is cut makes the result partial. A whole dim
//! may not be cut.

use super::pattern::Group;
use super::{Op, Pattern};
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
        Op::Einsum(pattern) => einsum_space(pattern, operands),
        Op::Rearrange { pattern, sizes } => rearrange_space(pattern, sizes, &operands[0], result),
        op => named_space(op, operands, result),
    }
}

/// Dims with the same name are the same dim, but for the dims that the operation looks up, cuts or
/// joins: those are dims of their operand alone, spelled `name@operand`.
fn named_space(op: &Op, operands: &[Vec<(String, u64)>], result: &[(String, u64)]) -> Space {
    let mut space = Space::default();
    let in_result = |name: &str| result.iter().any(|(n, _)| n == name);
    for (index, operand) in operands.iter().enumerate() {
        let dims = operand.iter().enumerate().map(|(position, (name, size))| {
            let own = match op {
                Op::Slice { dim, .. } | Op::Pad { dim, .. } => dim == name,
                Op::Concat { to } => to == name || !in_result(name),
                Op::Embedding => index == 1 && position == 0,
                _ => false,
            };
            let name = match op {
                Op::Rename(pairs) => pairs.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to),
                _ => name,
            };
            let usage = match op {
                Op::Embedding if own => DimUse::Combined(Combine::Sum),
                _ if own => DimUse::Whole,
                Op::ArgMax(d) | Op::Softmax(d) | Op::LogSoftmax(d) if d == name => DimUse::Whole,
                Op::LayerNorm { dim, .. } | Op::RmsNorm { dim, .. } if dim == name => DimUse::Whole,
                Op::Reduce(reduce, _) if !in_result(name) => DimUse::Combined(reduce.combine()),
                _ if in_result(name) => DimUse::Kept,
                _ => DimUse::Combined(Combine::Sum),
            };
            let own_name = own.then(|| format!("{name}@{index}"));
            vec![space.named(own_name.as_ref().unwrap_or(name), *size, usage)]
        });
        let dims = dims.collect();
        space.operands.push(dims);
    }
    for (name, size) in result {
        let usage = match op {
            Op::Slice { to, .. } | Op::Pad { to, .. } | Op::Concat { to } if to == name => DimUse::Whole,
            _ => DimUse::Kept,
        };
        let id = space.named(name, *size, usage);
        space.result.push(vec![id]);
    }
    space
}

/// The pattern names the operands' dims by position.
fn einsum_space(pattern: &Pattern, operands: &[Vec<(String, u64)>]) -> Space {
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
    space.result =
        pattern.result.iter().map(|group| group.parts().iter().filter_map(|name| space.dim(name)).collect()).collect();
    space
}

/// The atoms of the pattern are the space; one atom of each group may take the size that is left.
fn rearrange_space(
    pattern: &Pattern,
    given: &[(String, u64)],
    operand: &[(String, u64)],
    result: &[(String, u64)],
) -> Space {
    let mut known: Vec<(String, u64)> = given.to_vec();
    for (group, (_, size)) in pattern.result.iter().zip(result) {
        if let Group::Name(name) = group {
            known.push((name.clone(), *size));
        }
    }
    let size_of = |known: &[(String, u64)], name: &str| known.iter().find(|(n, _)| n == name).map(|(_, s)| *s);
    // A merged dim of either side fixes the one atom of it whose size nothing else says.
    let sides = [(&pattern.operands[0], operand), (&pattern.result, result)];
    for _ in 0..2 {
        for (groups, dims) in sides {
            for (group, (_, size)) in groups.iter().zip(dims) {
                let unknown: Vec<&String> =
                    group.parts().iter().filter(|name| size_of(&known, name).is_none()).collect();
                if let [name] = unknown[..] {
                    let others: u64 = group.parts().iter().filter_map(|n| size_of(&known, n)).product();
                    known.push((name.clone(), size.checked_div(others).unwrap_or(0)));
                }
            }
        }
    }
    let mut space = Space::default();
    let operand_dims = pattern.operands[0].iter().map(|group| {
        let atoms = group.parts().iter();
        atoms.map(|name| space.named(name, size_of(&known, name).unwrap_or(0), DimUse::Kept)).collect()
    });
    let operand_dims = operand_dims.collect();
    space.operands.push(operand_dims);
    space.result =
        pattern.result.iter().map(|group| group.parts().iter().filter_map(|name| space.dim(name)).collect()).collect();
    space
}
