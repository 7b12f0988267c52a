//! The kernels against the reference on random shapes with dims in any order.

use super::programs::program;
use super::single;
use shardweave_compiler::layout::IndexSet;
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
        assert!(found.ok, "program {seed}: {found:?}\n{text}");
        ran += 1;
    }
    assert!(ran > 5500, "only {ran} programs could run");
}
