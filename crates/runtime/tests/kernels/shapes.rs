//! The kernels against the reference on random shapes with dims in any order.

use super::programs::program;
use super::single;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::Op;
use shardweave_compiler::program::{Program, Sizes, ValueId};
use shardweave_runtime::compare::compare;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::reference;
use shardweave_runtime::tensor::{ArraySource, Tensor};
use std::collections::BTreeMap;

/// Made-up inputs of a program.
pub fn made_up(program: &Program, sizes: &Sizes, seed: u64) -> BTreeMap<ValueId, Tensor> {
    let needed = program.needed();
    let inputs = program.values().keys().filter(|&id| program.is_input(id) && needed[id]);
    let make = |id| {
        let source = RandomArray::for_input(seed, program, sizes, id);
        let mut tensor = Tensor::zeros(source.dtype(), source.shape());
        let piece: Vec<IndexSet> = source.shape().iter().map(|&size| IndexSet::range(0, size)).collect();
        source.read(&piece, tensor.bytes_mut()).expect("numbers can always be made up");
        (id, tensor)
    };
    inputs.map(make).collect()
}

/// Reads program number `seed` and binds its sizes; `None` where these do not allow it (a maximum of no
/// integers).
pub fn sound(seed: u64) -> Option<(Program, Sizes, String)> {
    let text = program(seed);
    let program: Program = text.parse().unwrap_or_else(|why| panic!("program {seed}: {why}\n{text}"));
    let sizes = Sizes::bind(&program, []).ok()?;
    Some((program, sizes, text))
}

/// What one rounding of f32 makes of the largest sum of products, all with one sign: where a sum nearly
/// cancels, the tolerance would ask for more than its terms hold. 0 for what is no product.
fn rounding_of_sums(program: &Program, sizes: &Sizes, inputs: &BTreeMap<ValueId, Tensor>) -> f64 {
    let apply = program.outputs().first().and_then(|&output| program.apply(output));
    let sums = apply.is_some_and(|apply| matches!(apply.op, Op::Linear | Op::Matmul | Op::Einsum(_)));
    let all_f32 = inputs.values().all(|tensor| tensor.dtype() == DType::F32);
    if !sums || !all_f32 {
        return 0.0;
    }
    let positive = |tensor: &Tensor| {
        let elements: Vec<f32> = tensor.elements::<f32>().iter().map(|x| x.abs()).collect();
        Tensor::from_elements(tensor.shape(), &elements)
    };
    let inputs = inputs.iter().map(|(&id, tensor)| (id, positive(tensor))).collect();
    let sums = reference::run(program, sizes, &inputs).expect("made-up inputs fit");
    let largest = sums[0].1.elements::<f32>().iter().copied().fold(0.0, f32::max);
    f64::from(largest) * f64::from(f32::EPSILON)
}

#[test]
fn kernels_agree_with_the_reference() {
    let mut ran = 0;
    for seed in 0..6000 {
        let Some((program, sizes, text)) = sound(seed) else { continue };
        let inputs = made_up(&program, &sizes, seed);
        let expected = reference::run(&program, &sizes, &inputs).expect("made-up inputs fit");
        let results = single::evaluate(&program, &sizes, &inputs).expect("made-up ids exist");
        let result = results[program.outputs()[0]].as_ref().expect("it is an output");
        let found = compare(result, &expected[0].1);
        let right = found.ok || found.max_abs <= rounding_of_sums(&program, &sizes, &inputs);
        assert!(right, "program {seed}: {found:?}\n{text}");
        ran += 1;
    }
    assert!(ran > 5500, "only {ran} programs could run");
}
