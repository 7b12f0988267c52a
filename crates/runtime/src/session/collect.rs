//! Outputs are put together from the devices' pieces: each piece where its indices are, replicated ones
//! once, parts combined in order, and rounded to the output's type at the end.

use super::loaded::{Drain, Loaded};
use crate::arena::Arenas;
use crate::kernels;
use crate::tensor::Tensor;
use half::{bf16, f16};
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::id::Id;

/// All outputs as whole arrays, in the order of the program.
pub(crate) fn collect(loaded: &Loaded, arenas: &Arenas) -> Vec<(String, Tensor)> {
    loaded.outputs.iter().map(|drain| (drain.name.clone(), collect_one(drain, arenas))).collect()
}

fn collect_one(drain: &Drain, arenas: &Arenas) -> Tensor {
    let mut whole = Tensor::zeros(drain.stored, &drain.shape);
    combined(drain, arenas, &drain.combines, 0..drain.parts.len(), &mut whole);
    round(whole, drain.dtype)
}

/// Puts the parts of a range together: those of the last operator are each put together first.
fn combined(
    drain: &Drain,
    arenas: &Arenas,
    combines: &[(Combine, usize)],
    parts: std::ops::Range<usize>,
    whole: &mut Tensor,
) {
    let Some(((combine, count), inner)) = combines.split_last() else {
        return place(drain, arenas, parts.start, whole);
    };
    let step = parts.len() / count;
    let part = |n: usize| parts.start + n * step..parts.start + (n + 1) * step;
    combined(drain, arenas, inner, part(0), whole);
    for n in 1..*count {
        let mut next = Tensor::zeros(drain.stored, &drain.shape);
        combined(drain, arenas, inner, part(n), &mut next);
        kernels::combine(*combine, drain.stored, whole.bytes_mut(), next.bytes());
    }
}

/// Puts the pieces of one part in place.
fn place(drain: &Drain, arenas: &Arenas, part: usize, whole: &mut Tensor) {
    let out = whole.bytes_mut();
    for piece in &drain.parts[part] {
        let bytes = arenas.read(piece.device.index(), piece.region.clone());
        piece.runs.for_each(|run| {
            out[run.target..run.target + run.bytes]
                .copy_from_slice(&bytes[run.source..run.source + run.bytes]);
        });
    }
}

/// Rounds parts that were stored wide.
fn round(whole: Tensor, dtype: DType) -> Tensor {
    if whole.dtype() == dtype {
        return whole;
    }
    let wide: &[f32] = whole.elements();
    match dtype {
        DType::Bf16 => {
            let rounded: Vec<bf16> = wide.iter().map(|&x| bf16::from_f32(x)).collect();
            Tensor::from_elements(whole.shape(), &rounded)
        }
        DType::F16 => {
            let rounded: Vec<f16> = wide.iter().map(|&x| f16::from_f32(x)).collect();
            Tensor::from_elements(whole.shape(), &rounded)
        }
        other => unreachable!("only half types are stored wider than they are, not {other}"),
    }
}
