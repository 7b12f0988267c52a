//! The whole line on the examples: read, compile, run on every backend, compare with the reference.
//!
//! Data are small integers. Where a program only adds, multiplies and moves, results are the reference's
//! bit for bit; where it has other functions they are within its tolerance, and the same bits on every
//! backend.

use shardweave_compiler::file::{AxisSize, WeaveFile, parse_file};
use shardweave_compiler::op::Op;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, SizeBinder, SizeSource, Sizes};
use shardweave_runtime::compare::compare;
use shardweave_runtime::execute::{Backend, Record, Streams};
use shardweave_runtime::reference;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;
use std::sync::Arc;

const EXAMPLES: [&str; 4] = ["mlp", "sharded_linear", "double_sharding", "linear_multi_sharded"];

fn read(name: &str, axes: &[AxisSize]) -> WeaveFile {
    let path = format!("{}/../../examples/{name}.weave", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let (file, found) = parse_file(&text, axes);
    assert!(found.is_empty(), "{path}: {found}");
    file
}

/// Sizes one after another, most of which nothing divides.
fn sizes(program: &Program, given: &[u64]) -> Sizes {
    let mut binder = SizeBinder::new(program);
    for (dim, &size) in binder.missing().into_iter().zip(given.iter().cycle()) {
        // One placement gives the pieces of `t`: 5 + 3 + 4 + 4.
        let size = if program.dims()[dim].name == "t" { 16 } else { size };
        binder.bind(dim, size, SizeSource::Named);
    }
    binder.finish().unwrap_or_else(|error| panic!("{error}"))
}

/// Small integers, another sequence for each input.
fn inputs(program: &Program, sizes: &Sizes) -> BTreeMap<String, Tensor> {
    let needed = program.needed();
    let needed = program.values().iter().filter(|(id, _)| needed[*id] && program.is_input(*id));
    let array = |(seed, (_, value)): (usize, (_, &shardweave_compiler::program::Value))| {
        let shape: Vec<u64> = value.dims.iter().map(|&dim| sizes[dim]).collect();
        let count: u64 = shape.iter().product();
        let element = |i: u64| (i.wrapping_mul(7 + 2 * seed as u64) % 11) as f32 - 5.0;
        let elements: Vec<f32> = (0..count).map(element).collect();
        (value.name.clone(), Tensor::from_elements(&shape, &elements))
    };
    needed.enumerate().map(array).collect()
}

fn is_exact(program: &Program) -> bool {
    program
        .values()
        .keys()
        .all(|value| !program.apply(value).is_some_and(|apply| matches!(apply.op, Op::Map(_))))
}

/// Runs on every backend, which must have one plan, move the same bytes and give the same bits. Returns
/// the outputs.
fn run(
    program: &Program,
    placement: Option<&Placement>,
    inputs: &BTreeMap<String, Tensor>,
) -> Vec<(String, Tensor)> {
    let mut given = Inputs::new();
    for (name, array) in inputs {
        given.insert(name, Arc::new(array.clone()));
    }
    let mut found: Vec<Vec<(String, Tensor)>> = Vec::new();
    let mut did = Vec::new();
    for backend in [Backend::Threads, Backend::Lockstep] {
        for streams in [Streams::Merged, Streams::Apart] {
            let options = SessionOptions {
                backend,
                streams: Some(streams),
                record: Record::Bytes,
                ..SessionOptions::default()
            };
            let mut session = Session::new(program.clone(), placement.cloned(), options);
            found.push(session.run(&given).unwrap_or_else(|error| panic!("{error}")).into_vec());
            let report = &session.plan().expect("the session has compiled").report;
            let planned: u64 = report.collectives.iter().map(|row| row.bytes_total).sum();
            let moves = &session.recording().moves;
            let sent: u64 = moves.iter().map(|row| row.total()).sum();
            did.push((session.plan().map(|plan| plan.host.clone()), moves.clone()));
            assert_eq!(
                sent,
                planned,
                "bytes sent and bytes explained\n{:?}",
                session.plan().map(|p| &p.host)
            );
        }
    }
    assert!(did.iter().all(|other| *other == did[0]), "the same moves on all backends");
    for other in &found[1..] {
        for ((name, first), (_, other)) in found[0].iter().zip(other) {
            assert_eq!(first.bytes(), other.bytes(), "{name} is the same on all backends");
        }
    }
    found.swap_remove(0)
}

#[test]
fn sj5_examples_agree_with_the_reference_on_any_number_of_devices() {
    for example in EXAMPLES {
        let meshes: Vec<String> =
            read(example, &[]).meshes().iter().map(|mesh| mesh.name().to_string()).collect();
        for devices in [1, 2, 3, 4, 5] {
            let axes = meshes.iter().filter(|mesh| *mesh == "line");
            let axes: Vec<AxisSize> =
                axes.map(|mesh| AxisSize { path: format!("{mesh}.tp"), size: devices }).collect();
            let file = read(example, &axes);
            for given in [[5, 7, 6, 3], [2, 3, 4, 8], [1, 9, 2, 13]] {
                for placement in file.placements() {
                    let program = file.program(placement.program()).expect("the placement's program");
                    let sizes = sizes(program, &given);
                    let inputs = inputs(program, &sizes);
                    let by_value = inputs
                        .iter()
                        .map(|(name, array)| (program.value(name).expect("an input"), array.clone()));
                    let expected =
                        reference::run(program, &sizes, &by_value.collect()).expect("the reference runs");
                    let found = run(program, Some(placement), &inputs);
                    for ((name, found), (_, expected)) in found.iter().zip(&expected) {
                        let told =
                            format!("{example} {} {name}, {devices} devices, {given:?}", placement.name());
                        if is_exact(program) {
                            assert_eq!(found.bytes(), expected.bytes(), "{told}");
                        } else {
                            let comparison = compare(found, expected);
                            assert!(comparison.ok, "{told}: {comparison:?}");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn without_a_placement_it_runs_on_one_device() {
    for example in EXAMPLES {
        for program in read(example, &[]).programs() {
            let sizes = sizes(program, &[5, 7, 6, 3]);
            let inputs = inputs(program, &sizes);
            let by_value =
                inputs.iter().map(|(name, array)| (program.value(name).expect("an input"), array.clone()));
            let expected = reference::run(program, &sizes, &by_value.collect()).expect("the reference runs");
            for ((name, found), (_, expected)) in run(program, None, &inputs).iter().zip(&expected) {
                assert!(compare(found, expected).ok, "{example} {name}");
            }
        }
    }
}

/// One session, many lengths: compiled once for each, right every time.
#[test]
fn sa16_a_session_serves_new_sizes() {
    let file = read("mlp", &[]);
    let (program, placement) =
        (file.program("mlp").expect("mlp"), file.placement("sequence_parallel").expect("it"));
    for backend in [Backend::Threads, Backend::Lockstep] {
        let options = SessionOptions { backend, ..SessionOptions::default() };
        let mut session = Session::new(program.clone(), Some(placement.clone()), options);
        let mut plans = Vec::new();
        for length in [4, 8, 16, 4, 3, 16, 8, 4] {
            let named = [("b", 2), ("s", length), ("e", 6), ("h", 8)];
            let sizes = Sizes::bind(program, named).expect("sizes that fit");
            let arrays = inputs(program, &sizes);
            let mut given = Inputs::new();
            for (name, array) in &arrays {
                given.insert(name, Arc::new(array.clone()));
            }
            let outputs = session.run(&given).unwrap_or_else(|error| panic!("{error}"));
            let by_value =
                arrays.iter().map(|(name, array)| (program.value(name).expect("it"), array.clone()));
            let expected = reference::run(program, &sizes, &by_value.collect()).expect("the reference runs");
            for (name, expected) in &expected {
                assert!(compare(outputs.get(name).expect("an output"), expected).ok, "{name} at {length}");
            }
            plans.push(session.plan().expect("a plan").sizes.clone());
        }
        assert_eq!(plans[0], plans[3]);
        assert_ne!(plans[0], plans[1]);
    }
}

#[test]
fn missing_inputs_and_sizes_that_disagree_are_errors() {
    let file = read("mlp", &[]);
    let program = file.program("mlp").expect("mlp");
    let sizes = Sizes::bind(program, [("b", 2), ("s", 3), ("e", 6), ("h", 8)]).expect("sizes that fit");
    let mut given = Inputs::new();
    for (name, array) in inputs(program, &sizes) {
        given.insert(name, Arc::new(array));
    }
    let mut session = Session::new(program.clone(), None, SessionOptions::default());
    let error =
        session.run(&given.clone().with("b1", Tensor::from_elements(&[7], &[0.0f32; 7]))).unwrap_err();
    let text = error.to_string();
    assert!(text.contains("size 7") && text.contains("size 6"), "{text}");
    let named = SessionOptions { sizes: vec![("s".into(), 4)], ..SessionOptions::default() };
    let error = Session::new(program.clone(), None, named).run(&given).unwrap_err().to_string();
    assert!(error.contains("size 4") && error.contains("size 3"), "{error}");
    assert!(session.run(&Inputs::new()).is_err());
    assert!(session.run(&given).is_ok());
}
