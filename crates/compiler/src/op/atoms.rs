//! Sizes in a `rearrange`: every name of its pattern is an atom; a dim is the product of its atoms.
//!
//! ```text
//!  "b s (n h) -> b n s h", n=12      e = 768 is known:   h = 768 / 12 = 64
//!                                    h = 64 is known:    e = 12 * 64 = 768
//! ```
//!
//! What is known is carried on, in both directions, until nothing new follows.

use super::{Group, Pattern};
use crate::diagnostic::quote;
use std::collections::BTreeMap;

/// Sizes as far as they follow.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AtomSizes {
    /// Of every name of the pattern.
    pub atoms: BTreeMap<String, Option<u64>>,
    /// Of the operand's dims.
    pub operand: Vec<Option<u64>>,
    /// Of the result's dims.
    pub result: Vec<Option<u64>>,
}

/// Carries sizes on: those given beside the pattern, those of the operand's dims, those of the result's
/// dims. The error is a sentence that says which sizes do not fit.
pub fn atom_sizes(
    pattern: &Pattern,
    given: &[(String, u64)],
    operand: &[Option<u64>],
    result: &[Option<u64>],
) -> Result<AtomSizes, String> {
    let sides = [pattern.operands.first().map_or(&[][..], Vec::as_slice), &pattern.result];
    let names = sides.into_iter().flatten().flat_map(Group::parts);
    let mut atoms: BTreeMap<String, Option<u64>> = names.map(|name| (name.clone(), None)).collect();
    for (name, size) in given {
        atoms.insert(name.clone(), Some(*size));
    }
    let mut sizes = AtomSizes { atoms, operand: operand.to_vec(), result: result.to_vec() };
    loop {
        let before = sizes.known();
        // Plain names first: then a merge that does not fit is told as such.
        let dims = |merged: bool, AtomSizes { atoms, operand, result }: &mut AtomSizes| {
            let groups = sides[0].iter().zip(operand).chain(sides[1].iter().zip(result));
            let mut chosen = groups.filter(|(group, _)| matches!(group, Group::Merge { .. }) == merged);
            chosen.try_for_each(|(group, size)| carry(group, size, atoms))
        };
        dims(false, &mut sizes)?;
        dims(true, &mut sizes)?;
        if sizes.known() == before {
            return Ok(sizes);
        }
    }
}

impl AtomSizes {
    /// How many sizes are known; it only grows, which ends the loop.
    fn known(&self) -> usize {
        self.atoms.values().chain(&self.operand).chain(&self.result).filter(|size| size.is_some()).count()
    }
}

/// One dim: from its atoms to its size, or from its size to the one atom that is not known.
fn carry(
    group: &Group,
    size: &mut Option<u64>,
    atoms: &mut BTreeMap<String, Option<u64>>,
) -> Result<(), String> {
    let shown = quote(&group.to_string());
    let parts = group.parts();
    let mut product: u64 = 1;
    let mut open = None;
    let mut open_count = 0;
    for name in parts {
        match atoms.get(name).copied().flatten() {
            Some(atom) => {
                product =
                    product.checked_mul(atom).ok_or_else(|| format!("the size of {shown} is beyond 2^64"))?;
            }
            None => {
                open = Some(name);
                open_count += 1;
            }
        }
    }
    match (open, *size) {
        (None, None) => *size = Some(product),
        (None, Some(size)) if size != product => {
            return Err(match group {
                Group::Merge { .. } => format!("{shown} has size {size}, but its parts make {product}"),
                Group::Name(_) => format!("{shown} has size {size}, but also {product}"),
                Group::One | Group::NewOne(_) => format!("{shown} is a dim of size 1, but has size {size}"),
            });
        }
        (Some(name), Some(size)) if open_count == 1 && (product != 0 || size != 0) => {
            if product == 0 || size % product != 0 {
                return Err(format!(
                    "{shown} has size {size}, which the known parts, {product}, do not divide"
                ));
            }
            atoms.insert(name.clone(), Some(size / product));
        }
        _ => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn solve(
        text: &str,
        given: &[(&str, u64)],
        operand: &[Option<u64>],
        result: &[Option<u64>],
    ) -> Result<AtomSizes, String> {
        let given: Vec<(String, u64)> = given.iter().map(|(name, size)| (name.to_string(), *size)).collect();
        let pattern = Pattern::rearrange(text, &given).expect(text);
        atom_sizes(&pattern, &given, operand, result)
    }

    #[test]
    fn sizes_follow_in_both_directions() {
        let split = "b (n h) -> b n h";
        let forward = solve(split, &[("n", 12)], &[Some(2), Some(768)], &[None; 3]).expect("divides");
        assert_eq!(forward.result, [Some(2), Some(12), Some(64)]);
        let backward =
            solve(split, &[("n", 12)], &[None; 2], &[Some(2), None, Some(64)]).expect("multiplies");
        assert_eq!(backward.operand, [Some(2), Some(768)]);
        let chain = solve(
            "(a b) (c d) (e f) -> x=(b c) y=(d e) f a",
            &[("a", 2)],
            &[Some(6), Some(20), Some(42)],
            &[Some(12), Some(35), None, None],
        )
        .expect("carries through");
        assert_eq!(chain.result, [Some(12), Some(35), Some(6), Some(2)]);
    }

    #[test]
    fn sizes_that_do_not_fit_are_told() {
        for (text, given, operand, result, expected) in [
            (
                "(n h) -> n h",
                [("n", 4)],
                10,
                [None, None],
                "`(n h)` has size 10, which the known parts, 4, do not divide",
            ),
            ("(n h) -> n h", [("n", 4)], 12, [None, Some(2)], "`(n h)` has size 12, but its parts make 8"),
            ("(n h) -> n h", [("n", 4)], 12, [Some(5), None], "`n` has size 5, but also 4"),
            (
                "(n h) -> n h",
                [("n", 0)],
                12,
                [None, None],
                "`(n h)` has size 12, which the known parts, 0, do not divide",
            ),
        ] {
            assert_eq!(solve(text, &given, &[Some(operand)], &result), Err(expected.into()));
        }
        assert_eq!(
            solve("1 a -> a", &[], &[Some(3), None], &[None]),
            Err("`1` is a dim of size 1, but has size 3".into())
        );
        let nothing =
            solve("(n h) -> n h", &[("n", 0)], &[Some(0)], &[None, None]).expect("0 = 0 * h for any h");
        assert_eq!(nothing.result, [Some(0), None]);
    }
}
