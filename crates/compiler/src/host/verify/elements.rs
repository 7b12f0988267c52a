//! Elements as a fault tells of them: which they are, and who has some of them.

use crate::instr::TensorType;
use crate::layout::{IndexSet, box_intersection, is_empty_box};
use crate::mesh::DeviceId;
use std::ops::Range;

/// A device that holds some of the elements.
pub(super) fn holder(ty: &TensorType, elements: &[IndexSet], steps: &[Range<u64>]) -> Option<DeviceId> {
    let steps: Vec<u64> = steps.iter().map(|range| range.start).collect();
    let sizes = ty.sizes();
    ty.layout.mesh().devices().find(|&device| {
        let held = ty.layout.piece_at_step(&sizes, device, &steps);
        held.is_some_and(|held| !is_empty_box(&box_intersection(&held, elements)))
    })
}

/// Elements as text: `x[0..2, 0..4]` without the name.
pub(super) fn name_box(ty: &TensorType, elements: &[IndexSet]) -> String {
    let dims = ty.dims.iter().zip(elements).map(|((name, _), set)| match set.intervals() {
        [(start, end)] => format!("{name} {start}..{end}"),
        [(start, end), .., (_, last)] => format!("{name} {start}..{end} to ..{last}"),
        [] => format!("no {name}"),
    });
    let dims: Vec<String> = dims.collect();
    if dims.is_empty() { "it".into() } else { format!("[{}]", dims.join(", ")) }
}
