//! Signs of zeros: kernels and reference agree on them.

use super::single;
use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::SizeBinder;
use shardweave_runtime::reference;
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

/// The bits of the output `y` by the kernels, and by the reference, where `a` is all -1 and `b` all 0.
fn bits(statement: &str) -> [Vec<u32>; 2] {
    let text =
        format!("program p {{\ninput a: f32[i=3, k=1]\ninput b: f32[j=2, k]\n{statement}\noutput y\n}}\n");
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{found}");
    let program = &file.programs()[0];
    let sizes = SizeBinder::new(program).finish().unwrap_or_else(|error| panic!("{error}"));
    let mut inputs = BTreeMap::new();
    for (id, value) in program.values().iter().filter(|(id, _)| program.is_input(*id)) {
        let shape: Vec<u64> = value.dims.iter().map(|&dim| sizes[dim]).collect();
        let element = if value.name == "a" { -1.0f32 } else { 0.0 };
        let elements = vec![element; shape.iter().product::<u64>() as usize];
        inputs.insert(id, Tensor::from_elements(&shape, &elements));
    }
    let y = program.value("y").expect("y is there");
    let kernels = single::evaluate(program, &sizes, &inputs).unwrap_or_else(|error| panic!("{error}"));
    let kernels = kernels[y].clone().expect("y is needed");
    let reference = reference::evaluate(program, &sizes, &inputs).unwrap_or_else(|error| panic!("{error}"));
    let reference = reference.get(y).cloned().expect("y is needed");
    [kernels, reference].map(|y| y.elements::<f32>().iter().map(|x| x.to_bits()).collect())
}

#[test]
fn a_sum_is_no_negative_zero_and_a_product_alone_may_be() {
    for statement in ["y = matmul(a, b)", "y = linear(a, b)", "y = einsum(\"i k, j k -> i j\", a, b)"] {
        assert_eq!(bits(statement), [vec![0; 6], vec![0; 6]], "{statement}");
    }
    let outer = "y = einsum(\"i k, j k -> i j k\", a, b)";
    let negative_zeros = vec![(-0.0f32).to_bits(); 6];
    assert_eq!(bits(outer), [negative_zeros.clone(), negative_zeros], "{outer}");
}
