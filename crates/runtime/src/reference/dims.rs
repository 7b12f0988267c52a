//! Operations on dims: reductions, lanes, views.

use super::array::{Array, Numbers, positions};
use super::contract::{rows, sum};
use super::elements::{maximum, minimum};
use shardweave_compiler::op::{Group, Pattern, Reduce};
use std::collections::BTreeMap;

type Dims = [(String, usize)];

/// `sum`, `mean`, `max`, `min` over the dims that the result does not have.
pub(super) fn reduce(reduce: Reduce, x: &Array, result: &Dims) -> Array {
    let kept = |name: &str| result.iter().any(|(n, _)| n == name);
    let gone: Vec<_> = x.dims.iter().filter(|(name, _)| !kept(name)).cloned().collect();
    let count: usize = gone.iter().map(|(_, size)| size).product();
    if reduce == Reduce::Sum {
        return sum(x, kept).spread(result);
    }
    let ordered = x.spread(&[result, &gone].concat());
    let numbers = match &ordered.numbers {
        Numbers::Floats(all) => Numbers::Floats(rows(all, count, result, |row| match reduce {
            Reduce::Max => row.iter().copied().fold(f64::NEG_INFINITY, maximum),
            Reduce::Min => row.iter().copied().fold(f64::INFINITY, minimum),
            _ => row.iter().sum::<f64>() / count as f64,
        })),
        Numbers::Integers(all) => Numbers::Integers(rows(all, count, result, |row| {
            let extreme = if reduce == Reduce::Max { row.iter().max() } else { row.iter().min() };
            *extreme.expect("a maximum of no integers is an error when sizes are bound")
        })),
    };
    Array { dims: result.to_vec(), numbers }
}

/// `argmax(x, d)`.
pub(super) fn argmax(dim: &str, x: &Array, result: &Dims) -> Array {
    let count = x.size(dim);
    let ordered = x.spread(&[result, &[(dim.to_string(), count)]].concat());
    let numbers = match &ordered.numbers {
        Numbers::Floats(all) => rows(all, count, result, |row| {
            let largest = row.iter().copied().fold(f64::NEG_INFINITY, maximum);
            row.iter().position(|x| *x == largest || (largest.is_nan() && x.is_nan()))
        }),
        Numbers::Integers(all) => {
            rows(all, count, result, |row| row.iter().position(|x| Some(x) == row.iter().max()))
        }
    };
    let index = |found: Option<usize>| found.expect("an argmax of nothing is an error when sizes are bound");
    let indices = numbers.into_iter().map(|found| index(found) as i64).collect();
    Array { dims: result.to_vec(), numbers: Numbers::Integers(indices) }
}

/// Works on all elements along a dim at once; the result has the same dims, in its own order.
pub(super) fn lanes(dim: &str, x: &Array, result: &Dims, work: impl Fn(&[f64]) -> Vec<f64>) -> Array {
    let mut dims: Vec<_> = result.iter().filter(|(name, _)| name != dim).cloned().collect();
    let count = x.size(dim);
    dims.push((dim.to_string(), count));
    let ordered = x.spread(&dims);
    let all = rows(ordered.floats(), count, &dims[..dims.len() - 1], work).concat();
    Array { dims, numbers: Numbers::Floats(all) }.spread(result)
}

/// `softmax` of one lane.
pub(super) fn softmax(lane: &[f64]) -> Vec<f64> {
    let largest = lane.iter().copied().fold(f64::NEG_INFINITY, maximum);
    let powers: Vec<f64> = lane.iter().map(|x| (x - largest).exp()).collect();
    let total: f64 = powers.iter().sum();
    powers.iter().map(|p| p / total).collect()
}

/// `log_softmax` of one lane.
pub(super) fn log_softmax(lane: &[f64]) -> Vec<f64> {
    let largest = lane.iter().copied().fold(f64::NEG_INFINITY, maximum);
    let total: f64 = lane.iter().map(|x| (x - largest).exp()).sum();
    lane.iter().map(|x| x - largest - total.ln()).collect()
}

/// `layer_norm` of one lane, without scale and offset.
pub(super) fn layer_norm(lane: &[f64], eps: f64) -> Vec<f64> {
    let count = lane.len() as f64;
    let mean = lane.iter().sum::<f64>() / count;
    let variance = lane.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    lane.iter().map(|x| (x - mean) / (variance + eps).sqrt()).collect()
}

/// `rms_norm` of one lane, without scale.
pub(super) fn rms_norm(lane: &[f64], eps: f64) -> Vec<f64> {
    let mean = lane.iter().map(|x| x * x).sum::<f64>() / lane.len() as f64;
    lane.iter().map(|x| x / (mean + eps).sqrt()).collect()
}

/// `slice`: element `i` along `to` is element `start + i` along `dim`.
pub(super) fn slice(x: &Array, dim: &str, to: &str, start: usize, result: &Dims) -> Array {
    let from = |name: &str| if name == to { x.step(dim) } else { x.step(name) };
    let steps: Vec<usize> = result.iter().map(|(name, _)| from(name)).collect();
    let numbers = x.pick(positions(result, &steps, start * x.step(dim)));
    Array { dims: result.to_vec(), numbers }
}

/// `concat` along `to`: each operand has its own name for that dim, in the same place.
pub(super) fn concat(operands: &[Array], to: &str, result: &Dims) -> Array {
    // In every operand the joined dim stands where no other operand agrees or where `to` stands.
    let ordinary = |name: &str| name != to && result.iter().any(|(n, _)| n == name);
    let parts = operands.iter().map(|x| {
        let names = x.dims.iter().map(|(n, _)| if ordinary(n) { n.clone() } else { to.to_string() });
        x.clone().named(names.collect::<Vec<_>>())
    });
    let parts: Vec<Array> = parts.collect();
    // With the joined dim in front, arrays are joined by joining their elements.
    let rest: Vec<_> = result.iter().filter(|(name, _)| name != to).cloned().collect();
    let front = |size: usize| [&[(to.to_string(), size)], &rest[..]].concat();
    let total = front(parts.iter().map(|x| x.size(to)).sum());
    let ordered = parts.iter().map(|x| x.spread(&front(x.size(to))).numbers);
    let joined = ordered.reduce(|a, b| match (a, b) {
        (Numbers::Floats(a), Numbers::Floats(b)) => Numbers::Floats([a, b].concat()),
        (Numbers::Integers(a), Numbers::Integers(b)) => Numbers::Integers([a, b].concat()),
        _ => unreachable!("the operands of `concat` have one type"),
    });
    Array { dims: total, numbers: joined.expect("`concat` has an operand") }.spread(result)
}

/// `pad` is `concat` with zeros.
pub(super) fn pad(x: &Array, dim: &str, to: &str, [before, after]: [usize; 2], result: &Dims) -> Array {
    let zeros = |size: usize| {
        let dims = x.dims.iter().map(|(n, s)| (n.clone(), if n == dim { size } else { *s }));
        let dims: Vec<_> = dims.collect();
        let count = dims.iter().map(|(_, size)| size).product();
        let numbers = match x.numbers {
            Numbers::Floats(_) => Numbers::Floats(vec![0.0; count]),
            Numbers::Integers(_) => Numbers::Integers(vec![0; count]),
        };
        Array { dims, numbers }
    };
    let renamed = |a: Array| {
        let names = a.dims.iter().map(|(n, _)| if n == dim { to.to_string() } else { n.clone() });
        let names: Vec<_> = names.collect();
        a.named(names)
    };
    concat(&[renamed(zeros(before)), renamed(x.clone()), renamed(zeros(after))], to, result)
}

/// `rearrange`: the operand split into atoms, the atoms in the order of the result, merged.
pub(super) fn rearrange(x: &Array, pattern: &Pattern, given: &[(String, u64)], result: &Dims) -> Array {
    let left = &pattern.operands[0];
    let group_of = |name: &str| pattern.result.iter().find(|group| dim_name(group) == Some(name));
    let right: Vec<(&Group, usize)> = result
        .iter()
        .map(|(name, size)| (group_of(name).expect("the result is the pattern's"), *size))
        .collect();
    let mut sizes: BTreeMap<&str, usize> = given.iter().map(|(n, s)| (n.as_str(), *s as usize)).collect();
    let sides = left.iter().zip(x.dims.iter().map(|(_, size)| *size)).chain(right.iter().copied());
    let sides: Vec<(&Group, usize)> = sides.collect();
    // A size that is not given is what the others of its group leave over. A group of one name says
    // its size at once; each turn may find what the findings of the turn before decide.
    loop {
        let known = sizes.len();
        for (group, size) in &sides {
            let unknown: Vec<&String> =
                group.parts().iter().filter(|n| !sizes.contains_key(n.as_str())).collect();
            if let [name] = unknown[..] {
                let others: usize = group.parts().iter().filter_map(|n| sizes.get(n.as_str())).product();
                sizes.insert(name, size.checked_div(others).unwrap_or(0));
            }
        }
        if sizes.len() == known {
            break;
        }
    }
    let atoms = |groups: &mut dyn Iterator<Item = &Group>| -> Vec<(String, usize)> {
        let parts = groups.flat_map(|group| group.parts().iter());
        parts.map(|name| (name.clone(), sizes.get(name.as_str()).copied().unwrap_or(0))).collect()
    };
    let split = Array { dims: atoms(&mut left.iter()), numbers: x.numbers.clone() };
    let moved = split.spread(&atoms(&mut right.iter().map(|(group, _)| *group)));
    Array { dims: result.to_vec(), numbers: moved.numbers }
}

/// The name of the result's dim that a group on the right stands for.
fn dim_name(group: &Group) -> Option<&str> {
    match group {
        Group::Name(name) | Group::NewOne(name) | Group::Merge { name: Some(name), .. } => Some(name),
        Group::Merge { name: None, .. } | Group::One => None,
    }
}
