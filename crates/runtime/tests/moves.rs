//! Every kind of move, on every backend: an array goes in by one layout, moves to another, and comes
//! out whole. It must be the same array, and the bytes that went must be those of the plan.

mod hand;

use hand::{BACKENDS, Hand, counting, mesh, options, session, ty};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::Action;
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::{Kind, TensorType};
use shardweave_compiler::layout::StepId;
use shardweave_compiler::mesh::Mesh;
use shardweave_compiler::transfer::{Traffic, reduced_axes};
use shardweave_runtime::session::Inputs;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Moves a counting array from one layout to the other on both backends; says which kind of move it is.
fn check(source: &TensorType, target: &TensorType) -> Kind {
    let mut hand = Hand::new();
    let x = hand.input("x", source.clone());
    let y = hand.output("y", target.clone());
    hand.push(hand.moved(x, y));
    let host = hand.finish();
    let array = counting(source.dtype, &source.sizes());
    let inputs = Inputs::new().with("x", array.clone());
    let traffic = Traffic::of(source, target);
    for backend in BACKENDS {
        let told = format!("{backend:?} {} {source:?} -> {target:?}", traffic.kind.name());
        let mut session = session(&host, options(backend));
        let outputs = session.run(&inputs).unwrap_or_else(|error| panic!("{told}: {error}"));
        assert_eq!(outputs.get("y").expect("an output").bytes(), array.bytes(), "{told}");
        let record = &session.recording().moves[0];
        assert_eq!(record.total(), traffic.bytes_total, "bytes of all, {told}");
        assert_eq!(record.most(), traffic.bytes_per_device, "bytes of one device, {told}");
    }
    traffic.kind
}

/// Whether a move would combine in two ways at once; the planner makes two moves of it.
fn combines_in_two_ways(source: &TensorType, target: &TensorType) -> bool {
    let reduced = reduced_axes(&source.layout, &target.layout);
    reduced.iter().any(|p| p.combine != reduced[0].combine)
}

/// All pairs of layouts of an array of these sizes on the home mesh and others.
fn check_all(
    sizes: &[(&str, u64)],
    layouts: &[&str],
    home: &Arc<Mesh>,
    meshes: &[Arc<Mesh>],
) -> BTreeSet<Kind> {
    let types: Vec<TensorType> =
        layouts.iter().map(|text| ty(DType::I32, sizes, text, home, meshes)).collect();
    let mut kinds = BTreeSet::new();
    for source in &types {
        for target in types.iter().filter(|target| !combines_in_two_ways(source, target)) {
            kinds.insert(check(source, target));
        }
    }
    kinds
}

#[test]
fn on_one_axis_of_any_length() {
    let layouts = ["replicated", "r/tp", "c/tp", "partial(tp)", "r/local(2)/tp", "r/local(3), c/tp"];
    let mut kinds = BTreeSet::new();
    for devices in [1, 2, 3, 4, 5, 8] {
        let home = mesh("line", &[("tp", devices)], None);
        // Even, uneven, and with empty pieces.
        for (rows, columns) in [(2 * devices, 4 * devices), (7, 5), (1, 3), (0, 4)] {
            kinds.extend(check_all(&[("r", rows), ("c", columns)], &layouts, &home, &[]));
        }
    }
    let expected = [
        Kind::Local,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllReduce,
        Kind::AllToAll,
        Kind::Redistribute,
    ];
    assert!(expected.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn on_a_grid_with_given_sizes_and_other_device_numbers() {
    let layouts = [
        "replicated",
        "r/a/b",
        "r/b/a",
        "r/a, c/b",
        "r/b, c/a",
        "r/a(3, 4)",
        "r/b(0, 5, 2), c/a",
        "r/a, partial(b)",
        "partial(a, b)",
        "c/b, partial(a)",
        "partial(a, min), partial(b)",
        "partial(b, max)",
    ];
    for devices in [None, Some([4, 1, 7, 0, 2, 5])] {
        let home = mesh("grid", &[("a", 2), ("b", 3)], devices.as_ref().map(|d| &d[..]));
        check_all(&[("r", 7), ("c", 4)], &layouts, &home, &[]);
    }
}

#[test]
fn between_meshes() {
    let early = mesh("early", &[("tp", 3)], Some(&[0, 1, 2]));
    let late = mesh("late", &[("tp", 3)], Some(&[5, 3, 4]));
    let swapped = mesh("swapped", &[("tp", 3)], Some(&[1, 0, 2]));
    let last = mesh("last", &[("one", 1)], Some(&[3]));
    let first = mesh("first", &[("one", 1)], Some(&[0]));
    let meshes = [early.clone(), late, swapped, last, first];
    let layouts = [
        "r/tp on early",
        "r/tp on late",
        "r/tp on swapped",
        "c/tp on late",
        "replicated on early",
        "replicated on late",
        "replicated on last",
        "replicated on first",
        "partial(tp) on early",
    ];
    let mut kinds = BTreeSet::new();
    for rows in [6, 4, 2] {
        kinds.extend(check_all(&[("r", rows), ("c", 3)], &layouts, &early, &meshes));
    }
    let expected = [
        Kind::Permute,
        Kind::Broadcast,
        Kind::Reduce,
        Kind::Gather,
        Kind::Scatter,
        Kind::SendRecv,
        Kind::Redistribute,
    ];
    assert!(expected.iter().all(|kind| kinds.contains(kind)), "{kinds:?}");
}

#[test]
fn of_every_type_and_of_scalars() {
    let home = mesh("line", &[("tp", 3)], None);
    for dtype in DType::ALL {
        for (source, target) in [("r/tp", "replicated"), ("r/tp", "c/tp"), ("replicated", "r/tp")] {
            let dims = [("r", 5), ("c", 4)];
            check(&ty(dtype, &dims, source, &home, &[]), &ty(dtype, &dims, target, &home, &[]));
        }
        check(&ty(dtype, &[], "replicated", &home, &[]), &ty(dtype, &[], "replicated", &home, &[]));
    }
    check(&ty(DType::F64, &[], "partial(tp)", &home, &[]), &ty(DType::F64, &[], "replicated", &home, &[]));
}

/// Where a device is not at coordinate 0 of two partial axes, the operator that is applied first decides
/// what it holds: the sum of two greatest integers would be less than all.
#[test]
fn into_two_operators_at_once() {
    let home = mesh("grid", &[("a", 2), ("b", 2)], None);
    let dims = [("n", 3)];
    for target in
        ["partial(a, min), partial(b)", "partial(a), partial(b, min)", "partial(a, prod), partial(b, max)"]
    {
        for dtype in [DType::I32, DType::I64, DType::F32] {
            let target = ty(dtype, &dims, target, &home, &[]);
            check(&ty(dtype, &dims, "replicated", &home, &[]), &target);
            check(&ty(dtype, &dims, "n/a", &home, &[]), &target);
        }
    }
}

/// In a loop: each step brings a block, which moves on into the whole. What is sent in all steps is what
/// the plan says of the move.
#[test]
fn step_by_step() {
    let ways = [
        ("s/stream(*), partial(tp)", "s/step(*, i0), partial(tp)", "replicated"),
        ("s/stream(*), partial(tp)", "s/step(*, i0), partial(tp)", "s/stream(*), e/tp"),
        ("s/stream(*), partial(tp)", "s/step(*, i0), partial(tp)", "s/stream(*)/tp"),
        ("e/stream(*), partial(tp)", "e/step(*, i0), partial(tp)", "replicated"),
        ("s/stream(*)/tp", "s/step(*, i0)/tp", "replicated"),
        ("s/tp", "s/tp/step(*, i0)", "replicated"),
        ("s/stream(*)/tp", "s/step(*, i0)/tp", "s/stream(*), e/tp"),
        ("replicated", "s/step(*, i0)", "e/tp"),
    ];
    for devices in [1, 2, 3, 4] {
        let home = mesh("line", &[("tp", devices)], None);
        for (steps, rows) in [(1, 4), (2, 8), (3, 7), (4, 6), (3, 2)] {
            for (from, block, to) in ways {
                let one = |text: &str| {
                    let text = text.replace('*', &steps.to_string());
                    ty(DType::I32, &[("s", rows), ("e", 5)], &text, &home, &[])
                };
                check_steps(steps, &one(from), &one(block), &one(to));
            }
        }
    }
}

fn check_steps(steps: u64, from: &TensorType, block: &TensorType, to: &TensorType) {
    let mut hand = Hand::new();
    let x = hand.input("x", from.clone());
    let piece = hand.inner("x", block.clone());
    let y = hand.output("y", to.clone());
    let (bring, moved) = (hand.moved(x, piece), hand.moved(piece, y));
    hand.repeat(0, steps, vec![Action::Alloc(piece), bring, moved, Action::Free(piece)]);
    let host = hand.finish();
    let array = counting(DType::I32, &from.sizes());
    for backend in BACKENDS {
        let told = format!("{backend:?}, {steps} steps, {block:?} -> {to:?}");
        let mut session = session(&host, options(backend));
        let outputs = session.run(&Inputs::new().with("x", array.clone())).unwrap();
        assert_eq!(outputs.get("y").expect("an output").bytes(), array.bytes(), "{told}");
        let counters = [(StepId::new(0), steps)];
        let planned = [Traffic::in_loop(from, block, &counters), Traffic::in_loop(block, to, &counters)];
        for (row, traffic) in session.recording().moves.iter().zip(planned) {
            assert_eq!(row.total(), traffic.bytes_total, "bytes of all, {told}");
            assert_eq!(row.most(), traffic.bytes_per_device, "bytes of one device, {told}");
        }
    }
}

/// Every device gives its piece to the next one; an odd ring cannot do it in pairs. 64 KiB a piece.
#[test]
fn cf6_rings_of_any_length_shift_by_one() {
    for devices in 1..=5 {
        let ring: Vec<u64> = (0..devices).collect();
        let shifted: Vec<u64> = ring.iter().map(|device| (device + 1) % devices).collect();
        let home = mesh("ring", &[("tp", devices)], Some(&ring));
        let next = mesh("next", &[("tp", devices)], Some(&shifted));
        let dims = [("r", devices), ("c", 1 << 14)];
        let source = ty(DType::F32, &dims, "r/tp", &home, &[]);
        let target = ty(DType::F32, &dims, "r/tp on next", &home, &[next]);
        let kind = check(&source, &target);
        assert_eq!(kind, if devices == 1 { Kind::Local } else { Kind::Permute });
        let traffic = Traffic::of(&source, &target);
        let each = if devices == 1 { 0 } else { 1 << 16 };
        assert_eq!((traffic.bytes_per_device, traffic.bytes_total), (each, devices * each));
    }
}

#[test]
fn cf10_pieces_of_16_mib_are_exchanged_both_ways() {
    let home = mesh("line", &[("tp", 2)], None);
    let crossed = mesh("crossed", &[("tp", 2)], Some(&[1, 0]));
    let dims = [("r", 2), ("c", 4 << 20)];
    let source = ty(DType::F32, &dims, "r/tp", &home, &[]);
    let target = ty(DType::F32, &dims, "r/tp on crossed", &home, &[crossed]);
    assert_eq!(check(&source, &target), Kind::Permute);
    assert_eq!(Traffic::of(&source, &target).bytes_per_device, 16 << 20);
}
