//! Layouts of one step of values that are whole outside the loop.

use crate::instr::{Kind, TensorType};
use crate::layout::{Cuts, Factor, Layout};

/// The layouts between `source` and the running step of its target, where a leg of that kind leads there:
/// what is combined is first cut on its own devices, so that a step combines its own part alone. `None`
/// if it cannot be cut there: such a leg is done at once, before the loop.
pub(super) fn stops_in_step(source: &TensorType, kind: Kind, step: &Layout) -> Option<Vec<Layout>> {
    if kind.reduces() {
        Some(vec![in_step(&source.layout, step, &source.sizes())?])
    } else {
        Some(Vec::new())
    }
}

/// The part of a layout that belongs to the running step of `step`, on the same devices: what can be
/// cut off without communication. `None` if the step's cuts do not fall on the layout's own.
///
/// ```text
///   source s/stream(4)/tp, step s/step(4, i0)    -> s/step(4, i0)/tp
///   source not cut,        step s/step(4, i0)    -> s/step(4, i0)
///   source s/tp,           step s/step(4, i0)    -> none: each device has rows of some steps only
/// ```
pub(super) fn in_step(source: &Layout, step: &Layout, sizes: &[u64]) -> Option<Layout> {
    if !source.mesh().same_grid(step.mesh()) {
        return None;
    }
    let dims = source.cuts().iter().zip(step.cuts()).zip(sizes);
    let cuts: Option<Vec<Cuts>> = dims.map(|((own, step), &size)| dim_in_step(own, step, size)).collect();
    Layout::new(source.mesh().clone(), cuts?, source.partial().to_vec())
}

fn dim_in_step(own: &Cuts, step: &Cuts, size: u64) -> Option<Cuts> {
    let Some(last) = step.iter().rposition(|factor| matches!(factor, Factor::Step(..))) else {
        return Some(own.clone());
    };
    let mut cuts = Cuts::new();
    let mut rest = own.iter();
    for factor in &step[..=last] {
        match (factor, rest.clone().next()) {
            (Factor::Step(..), None) => cuts.push(factor.clone()),
            (Factor::Step(blocks, _), Some(own)) if own.stored(size) == Factor::Local(*blocks) => {
                cuts.push(factor.clone());
                rest.next();
            }
            (factor, Some(own)) if factor.stored(size) == own.stored(size) => {
                cuts.push(factor.clone());
                rest.next();
            }
            _ => return None,
        }
    }
    cuts.extend(rest.cloned());
    Some(cuts)
}
