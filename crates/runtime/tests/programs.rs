//! Small programs of computations and moves, against arithmetic written down here; loops, streams and
//! events; what is recorded.

mod hand;

use half::bf16;
use hand::{BACKENDS, Hand, Watched, counting, mesh, options, run, session, ty, wait};
use shardweave_compiler::dtype::{DType, Number};
use shardweave_compiler::host::{Action, HostProgram};
use shardweave_compiler::instr::Arg::{self, Value};
use shardweave_compiler::op::{Map, Op, Reduce, Zip};
use shardweave_runtime::execute::{Backend, Doing, Record, Streams};
use shardweave_runtime::session::{Inputs, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::sync::Arc;

/// `y = x w^T` with the contracted dim cut over `devices`: each has a part, then all reduce into
/// `target`.
fn row_parallel(dtype: DType, (m, k, n): (u64, u64, u64), devices: u64, target: &str) -> HostProgram {
    let home = mesh("line", &[("tp", devices)], None);
    let wide = dtype.wide();
    let mut hand = Hand::new();
    let x = hand.input("x", ty(dtype, &[("m", m), ("k", k)], "k/tp", &home, &[]));
    let w = hand.input("w", ty(dtype, &[("n", n), ("k", k)], "k/tp", &home, &[]));
    let part = hand.temporary("y", ty(wide, &[("m", m), ("n", n)], "partial(tp)", &home, &[]));
    hand.push(hand.computed(Op::Linear, &[Value(x), Value(w)], part, "k/tp", &home));
    let sum = ty(wide, &[("m", m), ("n", n)], target, &home, &[]);
    if wide == dtype {
        let y = hand.output("y", sum);
        hand.push(hand.moved(part, y));
        return hand.finish();
    }
    let whole = hand.temporary("y", sum);
    hand.push(hand.moved(part, whole));
    let y = hand.output("y", ty(dtype, &[("m", m), ("n", n)], target, &home, &[]));
    hand.push(hand.computed(Op::Cast(dtype), &[Value(whole)], y, target, &home));
    hand.finish()
}

#[test]
fn products_of_integers_are_exact_on_any_number_of_devices() {
    for devices in [1, 2, 3, 4, 5, 8] {
        for (m, k, n) in [(4, 16, 6), (7, 5, 3), (1, 3, 1), (3, 0, 2)] {
            let x: Vec<f32> = (0..m * k).map(|i| (i % 7) as f32 - 3.0).collect();
            let w: Vec<f32> = (0..n * k).map(|i| (i % 5) as f32 - 2.0).collect();
            let dot =
                |i: u64, j: u64| (0..k).map(|c| x[(i * k + c) as usize] * w[(j * k + c) as usize]).sum();
            let y: Vec<f32> = (0..m * n).map(|at| dot(at / n, at % n)).collect();
            let inputs = Inputs::new()
                .with("x", Tensor::from_elements(&[m, k], &x))
                .with("w", Tensor::from_elements(&[n, k], &w));
            for target in ["replicated", "m/tp", "n/tp", "partial(tp)"] {
                let host = row_parallel(DType::F32, (m, k, n), devices, target);
                for backend in BACKENDS {
                    let outputs = run(&host, backend, &inputs);
                    let found = outputs.get("y").unwrap();
                    assert_eq!(found.elements::<f32>(), y, "{devices} devices, [{m}, {k}, {n}] to {target}");
                }
            }
        }
    }
}

/// Sums of floats depend on their order; it is the same for every backend, run and device.
#[test]
fn cg5_sums_of_floats_have_one_order() {
    let (m, k, n) = (5, 40, 9);
    let float = |i: u64| ((i * 2_654_435_761 % 1_000_003) as f32 - 5e5) * 1e-3;
    let x: Vec<f32> = (0..m * k).map(float).collect();
    let w: Vec<f32> = (0..n * k).map(|i| float(i + 17)).collect();
    let inputs = Inputs::new()
        .with("x", Tensor::from_elements(&[m, k], &x))
        .with("w", Tensor::from_elements(&[n, k], &w));
    for devices in [2, 3, 5, 8] {
        let mut found: Vec<Vec<u8>> = Vec::new();
        for target in ["replicated", "m/tp", "n/tp", "partial(tp)"] {
            let host = row_parallel(DType::F32, (m, k, n), devices, target);
            for backend in BACKENDS {
                let mut session = session(&host, options(backend));
                for _ in 0..5 {
                    found.push(session.run(&inputs).unwrap().get("y").unwrap().bytes().to_vec());
                }
            }
        }
        assert!(found.iter().all(|bytes| *bytes == found[0]), "{devices} devices");
    }
}

/// Parts 256, 1, 1, 2: added in bf16 they would be 258.
#[test]
fn half_types_are_added_wide_and_rounded_once() {
    for (parts, sum) in
        [(vec![256.0, 1.0, 1.0, 2.0], 260.0), (vec![256.0, 1.0, 1.0, 1.0, 1.0, 1.0, 1.0], 262.0)]
    {
        let devices = parts.len() as u64;
        let x: Vec<bf16> = parts.iter().map(|&part| bf16::from_f32(part)).collect();
        let inputs = Inputs::new()
            .with("x", Tensor::from_elements(&[1, devices], &x))
            .with("w", Tensor::from_elements(&[1, devices], &vec![bf16::ONE; devices as usize]));
        for target in ["replicated", "m/tp"] {
            let host = row_parallel(DType::Bf16, (1, devices, 1), devices, target);
            for backend in BACKENDS {
                let outputs = run(&host, backend, &inputs);
                assert_eq!(outputs.get("y").unwrap().elements::<bf16>(), [bf16::from_f32(sum)]);
            }
        }
    }
}

#[test]
fn every_operator_combines_over_two_axes() {
    let home = mesh("grid", &[("a", 2), ("b", 3)], None);
    let x: Vec<i32> = (0..7 * 5).map(|i| (i * 37 + 11) % 23 - 9).collect();
    let inputs = Inputs::new().with("x", Tensor::from_elements(&[7, 5], &x));
    let column = |j: usize| x.iter().skip(j).step_by(5).copied();
    for (reduce, operator) in [(Reduce::Sum, ""), (Reduce::Max, ", max"), (Reduce::Min, ", min")] {
        let expected: Vec<i32> = (0..5)
            .map(|j| match reduce {
                Reduce::Max => column(j).max().unwrap(),
                Reduce::Min => column(j).min().unwrap(),
                _ => column(j).sum(),
            })
            .collect();
        for target in ["replicated", "c/b", "c/b/a", "c/a, partial(b*)", "partial(a, b*)"] {
            let mut hand = Hand::new();
            let x = hand.input("x", ty(DType::I32, &[("r", 7), ("c", 5)], "r/a/b", &home, &[]));
            let partial = format!("partial(a, b{operator})");
            let parts = hand.temporary("y", ty(DType::I32, &[("c", 5)], &partial, &home, &[]));
            hand.push(hand.computed(
                Op::Reduce(reduce, vec!["r".into()]),
                &[Value(x)],
                parts,
                "r/a/b",
                &home,
            ));
            let target = target.replace('*', operator);
            let y = hand.output("y", ty(DType::I32, &[("c", 5)], &target, &home, &[]));
            hand.push(hand.moved(parts, y));
            let host = hand.finish();
            for backend in BACKENDS {
                let outputs = run(&host, backend, &inputs);
                assert_eq!(outputs.get("y").unwrap().elements::<i32>(), expected, "{reduce:?} to {target}");
            }
        }
    }
}

/// Sums over one axis, the largest over the other: an array that is put into such a layout comes back.
#[test]
fn partial_over_two_axes_with_two_operators() {
    let home = mesh("grid", &[("a", 2), ("b", 3)], None);
    for layout in ["partial(a), partial(b, max)", "partial(b), partial(a, max)", "partial(a, min), r/b"] {
        for dtype in [DType::I64, DType::F32, DType::Bool] {
            let mut hand = Hand::new();
            let x = hand.input("x", ty(dtype, &[("r", 4)], layout, &home, &[]));
            hand.program_output("x", x);
            let host = hand.finish();
            let x = counting(dtype, &[4]);
            for backend in BACKENDS {
                let outputs = run(&host, backend, &Inputs::new().with("x", x.clone()));
                assert_eq!(outputs.get("x").unwrap().bytes(), x.bytes(), "{dtype} {layout}");
            }
        }
    }
}

/// A stream loop: each step gathers a block of rows and multiplies it.
fn streamed(steps: u64, rows: u64) -> HostProgram {
    let home = mesh("line", &[("tp", 2)], None);
    let step = format!("s/step({steps}, i0)");
    let mut hand = Hand::new();
    let x = hand
        .input("x", ty(DType::F32, &[("s", rows), ("e", 3)], &format!("s/stream({steps})/tp"), &home, &[]));
    let w = hand.input("w", ty(DType::F32, &[("h", 4), ("e", 3)], "h/tp", &home, &[]));
    let block = hand.inner("x", ty(DType::F32, &[("s", rows), ("e", 3)], &step, &home, &[]));
    let part =
        hand.inner("y", ty(DType::F32, &[("s", rows), ("h", 4)], &format!("{step}, h/tp"), &home, &[]));
    let y = hand.output(
        "y",
        ty(DType::F32, &[("s", rows), ("h", 4)], &format!("s/stream({steps}), h/tp"), &home, &[]),
    );
    let over = format!("{step}, h/tp");
    let body = vec![
        Action::Alloc(block),
        hand.moved(x, block),
        Action::Alloc(part),
        hand.computed(Op::Linear, &[Value(block), Value(w)], part, &over, &home),
        hand.moved(part, y),
        Action::Free(block),
        Action::Free(part),
    ];
    hand.repeat(0, steps, body);
    hand.finish()
}

#[test]
fn loops_do_one_block_a_step() {
    for (steps, rows) in [(1, 5), (2, 8), (3, 7), (4, 4), (4, 10)] {
        let x: Vec<f32> = (0..rows * 3).map(|i| i as f32).collect();
        let w: Vec<f32> = (0..4 * 3).map(|i| (i % 4) as f32 - 1.0).collect();
        let dot = |i: u64, j: u64| (0..3).map(|c| x[(i * 3 + c) as usize] * w[(j * 3 + c) as usize]).sum();
        let expected: Vec<f32> = (0..rows * 4).map(|at| dot(at / 4, at % 4)).collect();
        let inputs = Inputs::new()
            .with("x", Tensor::from_elements(&[rows, 3], &x))
            .with("w", Tensor::from_elements(&[4, 3], &w));
        for backend in BACKENDS {
            let outputs = run(&streamed(steps, rows), backend, &inputs);
            assert_eq!(outputs.get("y").unwrap().elements::<f32>(), expected, "{rows} rows in {steps} steps");
        }
    }
}

/// Two streams: one gathers, the other computes on what was gathered; events in both directions.
#[test]
fn streams_run_beside_each_other_and_meet_at_events() {
    let home = mesh("line", &[("tp", 3)], None);
    let dims = [("r", 6), ("c", 2)];
    let mut hand = Hand::new();
    let x = hand.input("x", ty(DType::I64, &dims, "r/tp", &home, &[]));
    let mut value = x;
    for turn in 0..4 {
        let whole = hand.temporary("whole", ty(DType::I64, &dims, "replicated", &home, &[]));
        hand.event(0, 2 * turn, Action::Record);
        hand.event(1, 2 * turn, wait);
        let gather = hand.moved(value, whole);
        hand.push_on(1, gather);
        hand.event(1, 2 * turn + 1, Action::Record);
        hand.event(0, 2 * turn + 1, wait);
        let more = hand.temporary("more", ty(DType::I64, &dims, "replicated", &home, &[]));
        let operands = [Value(whole), Arg::Number(Number::Int(3))];
        hand.push(hand.computed(Op::Zip(Zip::Mul), &operands, more, "replicated", &home));
        let next = hand.temporary("next", ty(DType::I64, &dims, "r/tp", &home, &[]));
        hand.push(hand.moved(more, next));
        value = next;
    }
    let y = hand.output("y", ty(DType::I64, &dims, "replicated", &home, &[]));
    hand.push(hand.moved(value, y));
    let host = hand.finish();
    let inputs = Inputs::new().with("x", counting(DType::I64, &[6, 2]));
    let expected: Vec<i64> = (0..12).map(|i| i * 81).collect();
    for backend in BACKENDS {
        for streams in [Streams::Merged, Streams::Apart] {
            let mut session = session(&host, SessionOptions { streams: Some(streams), ..options(backend) });
            for _ in 0..20 {
                let outputs = session.run(&inputs).unwrap();
                assert_eq!(outputs.get("y").unwrap().elements::<i64>(), expected, "{backend:?} {streams:?}");
            }
        }
    }
}

#[test]
fn times_of_all_devices_are_recorded_in_order() {
    let host = row_parallel(DType::F32, (8, 8, 8), 3, "replicated");
    let inputs =
        Inputs::new().with("x", counting(DType::F32, &[8, 8])).with("w", counting(DType::F32, &[8, 8]));
    for backend in BACKENDS {
        let mut session = session(&host, SessionOptions { record: Record::Times, ..options(backend) });
        session.run(&inputs).unwrap();
        let events = &session.recording().events;
        for device in 0..3 {
            let own: Vec<_> =
                events.iter().filter(|event| event.device.to_string() == format!("device{device}")).collect();
            assert!(own.iter().all(|event| event.start <= event.end));
            assert!(own.windows(2).all(|pair| pair[0].end <= pair[1].start), "one thing after another");
            assert_eq!(own.iter().filter(|event| event.doing == Doing::Compute).count(), 1);
            assert_eq!(
                own.iter().filter(|event| event.doing == Doing::Copy).count(),
                2,
                "reduce, then gather"
            );
        }
        assert!(session.recording().moves.iter().all(|row| row.text.contains("all_reduce")));
    }
}

#[test]
fn nothing_is_recorded_unless_asked_for() {
    let host = row_parallel(DType::F32, (8, 8, 8), 3, "replicated");
    let inputs =
        Inputs::new().with("x", counting(DType::F32, &[8, 8])).with("w", counting(DType::F32, &[8, 8]));
    let mut session = session(&host, SessionOptions { record: Record::Nothing, ..options(Backend::Threads) });
    session.run(&inputs).unwrap();
    assert!(session.recording().moves.is_empty() && session.recording().events.is_empty());
}

/// A device reads only its own piece of an input, and an input may be an output.
#[test]
fn inputs_are_read_piece_by_piece() {
    let home = mesh("line", &[("tp", 4)], None);
    let mut hand = Hand::new();
    let x = hand.input("x", ty(DType::F32, &[("r", 5)], "r/tp", &home, &[]));
    hand.program_output("x", x);
    let y = hand.output("y", ty(DType::F32, &[("r", 5)], "r/tp", &home, &[]));
    hand.push(hand.computed(Op::Map(Map::Neg), &[Value(x)], y, "r/tp", &home));
    let host = hand.finish();
    for backend in BACKENDS {
        let watched = Arc::new(Watched::new(counting(DType::F32, &[5])));
        let mut inputs = Inputs::new();
        inputs.insert("x", watched.clone());
        let outputs = run(&host, backend, &inputs);
        assert_eq!(watched.elements_read(), [0, 1, 2, 2]);
        assert_eq!(outputs.get("x").unwrap().elements::<f32>(), [0.0, 1.0, 2.0, 3.0, 4.0]);
        assert_eq!(outputs.get("y").unwrap().elements::<f32>(), [-0.0, -1.0, -2.0, -3.0, -4.0]);
    }
}
