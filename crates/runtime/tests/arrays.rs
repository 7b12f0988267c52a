//! Arrays: made whole, from pieces, by runs; read whole and by piece; resharded. On small meshes, all
//! pairs of layouts.

use shardweave_compiler::diagnostic::Code;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::{IndexSet, Layout};
use shardweave_compiler::mesh::{DeviceId, Mesh};
use shardweave_compiler::transfer::Traffic;
use shardweave_runtime::array::{Array, ArrayError, ArrayType};
use shardweave_runtime::execute::RunError;
use shardweave_runtime::tensor::{ArraySource, ReadError, Tensor};
use std::sync::{Arc, Mutex};

fn mesh(text: &str) -> Arc<Mesh> {
    Arc::new(text.parse().expect(text))
}

fn layout(text: &str, mesh: &Arc<Mesh>) -> Layout {
    Layout::parse(text, &["s", "d"], mesh).unwrap_or_else(|found| panic!("{text}: {found}"))
}

/// `0, 1, 2, ...` as whole numbers.
fn counting(shape: &[u64]) -> Tensor {
    let elements: Vec<i32> = (0..shape.iter().product::<u64>() as i32).collect();
    Tensor::from_elements(shape, &elements)
}

/// The piece of [2, 14] that holds these columns.
fn columns(from: i32, to: i32) -> Tensor {
    let rows = (0..2).flat_map(|row| (from..to).map(move |column| 14 * row + column));
    Tensor::from_elements(&[2, (to - from) as u64], &rows.collect::<Vec<_>>())
}

fn device(number: u32) -> DeviceId {
    number.into()
}

const LAYOUTS: [&str; 12] = [
    "replicated",
    "s/dp",
    "s/tp, d/dp",
    "s/dp/tp",
    "s/tp/dp",
    "d/tp(1, 0, 4)",
    "s/local(2)/tp",
    "d/stream(2), s/tp",
    "partial(tp)",
    "s/tp, partial(dp, max)",
    "d/dp, partial(tp, prod)",
    "partial(tp, min), partial(dp)",
];

#[test]
fn every_layout_holds_the_whole_and_goes_to_every_other() {
    let grid = mesh("mesh grid { dp = 2, tp = 3 }");
    let late = mesh("mesh late { x = 4 } devices [7, 2, 0, 5]");
    let whole = counting(&[4, 5]);
    let mut layouts: Vec<Layout> = LAYOUTS.iter().map(|text| layout(text, &grid)).collect();
    layouts.extend(["s/x", "d/x", "replicated", "partial(x)"].map(|text| layout(text, &late)));
    for from in &layouts {
        let array = Array::place(&whole, &["s", "d"], from.clone()).unwrap();
        assert_eq!(array.to_tensor().bytes(), whole.bytes(), "{array:?}");
        assert!(array.devices().eq(from.mesh().sorted_devices()));
        for to in &layouts {
            let moved = array.reshard(to).unwrap();
            assert_eq!(moved.array.ty().layout(), to);
            assert_eq!(moved.array.to_tensor().bytes(), whole.bytes(), "{array:?} to {:?}", moved.array);
            let placed = Array::place(&whole, &["s", "d"], to.clone()).unwrap();
            if to.partial().is_empty() {
                for device in to.mesh().devices() {
                    let [a, b] = [&moved.array, &placed].map(|array| array.piece(device).unwrap());
                    assert_eq!((a.shape(), a.bytes()), (b.shape(), b.bytes()));
                }
            }
        }
    }
}

#[test]
fn what_a_reshard_moves_is_what_explain_says() {
    let line = mesh("mesh line { tp = 4 }");
    let array = Array::place(&counting(&[8, 6]), &["s", "d"], layout("s/tp", &line)).unwrap();
    let moved = array.reshard(&layout("d/tp", &line)).unwrap();
    let [all_to_all] = &moved.collectives[..] else { panic!("one move, not {:?}", moved.collectives) };
    let held = |text| shardweave_compiler::instr::TensorType {
        dims: array.ty().dims().to_vec(),
        dtype: DType::I32,
        layout: layout(text, &line),
    };
    let expected = Traffic::of(&held("s/tp"), &held("d/tp"));
    assert_eq!(all_to_all.kind.name(), "all_to_all");
    assert_eq!(all_to_all.bytes_total, expected.bytes_total);
    assert_eq!(all_to_all.bytes_per_device, expected.bytes_per_device);
    // The same map in other words moves nothing, and shares the pieces.
    let same = array.reshard(&layout("s/tp(2, 2, 2, 2)", &line)).unwrap();
    assert!(same.collectives.is_empty());
    assert!(std::ptr::eq(same.array.piece(device(2)).unwrap(), array.piece(device(2)).unwrap()));
}

/// A source that remembers what was read of it.
struct Watched {
    tensor: Tensor,
    read: Mutex<Vec<Vec<IndexSet>>>,
}

impl ArraySource for Watched {
    fn dtype(&self) -> DType {
        self.tensor.dtype()
    }
    fn shape(&self) -> &[u64] {
        self.tensor.shape()
    }
    fn describe(&self) -> String {
        "a watched array".into()
    }
    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        self.read.lock().unwrap().push(piece.to_vec());
        self.tensor.read(piece, out)
    }
}

/// A file of many gigabytes is read piece by piece, and each piece once.
#[test]
fn of_a_source_only_the_pieces_are_read() {
    let grid = mesh("mesh grid { dp = 2, tp = 2 }");
    let rows = |from, to| vec![IndexSet::range(from, to), IndexSet::range(0, 3)];
    for (text, pieces) in [
        ("s/tp", vec![rows(0, 2), rows(2, 4)]),
        ("s/dp/tp", vec![rows(0, 1), rows(1, 2), rows(2, 3), rows(3, 4)]),
        ("s/tp(1, 3), partial(dp)", vec![rows(0, 1), rows(1, 4)]),
        ("replicated", vec![rows(0, 4)]),
    ] {
        let source = Watched { tensor: counting(&[4, 3]), read: Mutex::default() };
        Array::place(&source, &["s", "d"], layout(text, &grid)).unwrap();
        assert_eq!(source.read.into_inner().unwrap(), pieces, "{text}");
    }
}

#[test]
fn replicated_devices_share_one_piece() {
    let grid = mesh("mesh grid { dp = 2, tp = 2 }");
    let array = Array::place(&counting(&[4, 2]), &["s", "d"], layout("s/tp", &grid)).unwrap();
    let at = |number| array.piece(device(number)).unwrap();
    assert!(std::ptr::eq(at(0), at(2)) && std::ptr::eq(at(1), at(3)) && !std::ptr::eq(at(0), at(1)));
    assert_eq!(array.ty().indices(device(3)).unwrap()[0], IndexSet::range(2, 4));
    assert!(array.piece(device(4)).is_none());
}

#[test]
fn parts_of_half_types_are_held_wide_and_rounded_once() {
    let line = mesh("mesh line { tp = 2 }");
    let ty = ArrayType::new(DType::Bf16, &[("s", 1), ("d", 2)], layout("partial(tp)", &line)).unwrap();
    assert_eq!(ty.stored_dtype(), DType::F32);
    // Each part alone would be rounded to 1: only their sum is above 1.
    let part = Tensor::from_elements(&[1, 2], &[0.5_f32 + 1.0 / 512.0, 2.0]);
    let parts = [0, 1].map(|number| (device(number), part.clone()));
    let array = Array::from_pieces(ty, parts).unwrap();
    let expected: Vec<half::bf16> = [1.0 + 1.0 / 256.0, 4.0].map(half::bf16::from_f64).to_vec();
    assert_eq!(array.to_tensor().elements::<half::bf16>(), expected);
    let moved = array.reshard(&layout("replicated", &line)).unwrap().array;
    assert_eq!(moved.piece(device(1)).unwrap().elements::<half::bf16>(), expected);
}

/// The ceil pieces of 14 over 4 are 4, 4, 4, 2: pieces of 2, 3, 4, 5 must not be taken for them.
#[test]
fn ca2_uneven_pieces_are_refused_or_kept_as_they_are() {
    let line = mesh("mesh line { tp = 4 }");
    let cuts = [(0, 2), (2, 5), (5, 9), (9, 14)];
    let pieces = || (0..).map(device).zip(cuts.map(|(from, to)| columns(from, to))).collect::<Vec<_>>();
    let ty = |text| ArrayType::new(DType::I32, &[("s", 2), ("d", 14)], layout(text, &line)).unwrap();
    let error = Array::from_pieces(ty("d/tp"), pieces()).unwrap_err();
    let told = "the piece of device0 has sizes [2, 2], but its layout asks for [2, 4]";
    assert_eq!(error.to_string(), told);
    let exact = Array::from_pieces(ty("d/tp(2, 3, 4, 5)"), pieces()).unwrap();
    assert_eq!(exact.to_tensor().bytes(), counting(&[2, 14]).bytes());
    let found = Array::from_pieces_along("d", "tp", &line, &["s", "d"], pieces()).unwrap();
    assert_eq!(found.to_tensor().bytes(), counting(&[2, 14]).bytes());
    assert_eq!(found.ty().layout(), exact.ty().layout());
}

/// Nobody says the global size: it is the sum, for everybody.
#[test]
fn ca3_the_global_size_of_pieces_is_their_sum() {
    let line = mesh("mesh line { tp = 4 }");
    let row = |rows: u64, first: i32| {
        Tensor::from_elements(&[rows, 2], &(2 * first..2 * (first + rows as i32)).collect::<Vec<i32>>())
    };
    let pieces =
        vec![(device(0), row(3, 0)), (device(1), row(3, 3)), (device(2), row(3, 6)), (device(3), row(1, 9))];
    let array = Array::from_pieces_along("s", "tp", &line, &["s", "d"], pieces).unwrap();
    assert_eq!(array.shape(), [10, 2]);
    assert_eq!(array.to_tensor().bytes(), counting(&[10, 2]).bytes());
}

#[test]
fn cf5_pieces_that_do_not_fit_are_errors_that_name_the_device() {
    let line = mesh("mesh line { tp = 2 }");
    let ty = |text| ArrayType::new(DType::I32, &[("s", 2), ("d", 4)], layout(text, &line)).unwrap();
    let one = |number, tensor: Tensor| (device(number), tensor);
    let fits = || Tensor::zeros(DType::I32, &[1, 4]);
    let refused = |text, pieces: Vec<_>| Array::from_pieces(ty(text), pieces).unwrap_err();
    assert_eq!(refused("s/tp", vec![one(0, fits())]), ArrayError::NoPiece(device(1)));
    let twice = vec![one(0, fits()), one(0, fits()), one(1, fits())];
    assert_eq!(refused("s/tp", twice), ArrayError::PieceTwice(device(0)));
    let outside = ArrayError::NotInMesh { device: device(2), mesh: "line".into() };
    assert_eq!(refused("s/tp", vec![one(2, fits())]), outside);
    let floats = vec![one(0, Tensor::zeros(DType::F32, &[1, 4])), one(1, fits())];
    let told = "the piece of device0 holds f32, but the array's pieces hold i32";
    assert_eq!(refused("s/tp", floats).to_string(), told);
    // A scalar where others give rows.
    let scalar = vec![one(0, fits()), one(1, Tensor::zeros(DType::I32, &[]))];
    let told = "the piece of device1 has sizes [], but its layout asks for [1, 4]";
    assert_eq!(refused("s/tp", scalar).to_string(), told);
    let replicas = vec![one(0, counting(&[2, 4])), one(1, Tensor::zeros(DType::I32, &[2, 4]))];
    let differ = ArrayError::Replicas { first: device(0), other: device(1) };
    assert_eq!(refused("replicated", replicas), differ);
}

#[test]
fn a_process_has_the_pieces_of_its_own_devices() {
    let grid = mesh("mesh grid { dp = 2, tp = 2 }");
    let ty = ArrayType::new(DType::I32, &[("s", 4), ("d", 2)], layout("s/tp", &grid)).unwrap();
    let whole = Array::place(&counting(&[4, 2]), &["s", "d"], layout("s/tp", &grid)).unwrap();
    let piece = |number| (device(number), whole.piece(device(number)).unwrap().clone());
    let local = Array::from_local(ty.clone(), [piece(1), piece(3)]).unwrap();
    assert!(!local.is_whole() && local.devices().eq([device(1), device(3)]));
    assert!(std::ptr::eq(local.piece(device(1)).unwrap(), local.piece(device(3)).unwrap()));
    // What is here can be read, what is not is told.
    let read = |from: u64| {
        let mut bytes = [0; 16];
        let region = [IndexSet::range(from, from + 2), IndexSet::range(0, 2)];
        local.read(&region, &mut bytes).map(|()| bytes.to_vec()).map_err(|error| error.to_string())
    };
    assert_eq!(read(2).unwrap(), piece(3).1.bytes());
    assert!(read(0).unwrap_err().contains("device0 lies in another process"), "{:?}", read(0));
    assert_eq!(
        Array::from_local(ty.clone(), [piece(1), piece(1)]).unwrap_err(),
        ArrayError::PieceTwice(device(1))
    );
    let differ = ArrayError::Replicas { first: device(1), other: device(3) };
    assert_eq!(
        Array::from_local(ty, [piece(1), (device(3), Tensor::zeros(DType::I32, &[2, 2]))]).unwrap_err(),
        differ
    );
}

#[test]
fn types_that_cannot_be_are_errors() {
    let line = mesh("mesh line { tp = 2 }");
    let made = |dims: &[(&str, u64)], text| ArrayType::new(DType::F32, dims, layout(text, &line));
    assert_eq!(made(&[("s", 2)], "s/tp").unwrap_err(), ArrayError::DimCount { named: 1, cut: 2 });
    let code = |result: Result<ArrayType, ArrayError>| match result {
        Err(ArrayError::Type(found)) => found.errors()[0].code,
        other => panic!("{other:?}"),
    };
    assert_eq!(code(made(&[("s", 9), ("d", 1)], "s/tp(5, 3)")), Code::PieceSizes);
    assert_eq!(code(made(&[("s", 2), ("s", 2)], "s/tp")), Code::RepeatedDim);
    assert_eq!(code(made(&[("s t", 2), ("d", 2)], "s/tp")), Code::Syntax);
    assert_eq!(code(made(&[("s", u64::MAX), ("d", 2)], "s/tp")), Code::TooLarge);
    let names = Array::place(&counting(&[2]), &["s", "d"], layout("s/tp", &line)).unwrap_err();
    assert_eq!(names, ArrayError::Names { named: 2, shape: vec![2] });
    let array = Array::place(&counting(&[2, 2]), &["s", "d"], layout("s/tp", &line)).unwrap();
    let one_dim = Layout::parse("s/tp", &["s"], &line).unwrap();
    let refused = array.reshard(&one_dim).err();
    assert_eq!(refused, Some(RunError::Array(ArrayError::DimCount { named: 2, cut: 1 })));
}

/// A size that a file claims, not one that there is memory for.
#[test]
fn what_there_is_no_memory_for_is_an_error() {
    struct Huge;
    impl ArraySource for Huge {
        fn dtype(&self) -> DType {
            DType::F32
        }
        fn shape(&self) -> &[u64] {
            &[1 << 40, 1 << 10]
        }
        fn describe(&self) -> String {
            "a huge array".into()
        }
        fn read(&self, _: &[IndexSet], _: &mut [u8]) -> Result<(), ReadError> {
            Err(ReadError::Failed("it is never read".into()))
        }
    }
    let line = mesh("mesh line { tp = 2 }");
    for text in ["s/tp", "replicated"] {
        let error = Array::place(&Huge, &["s", "d"], layout(text, &line)).unwrap_err();
        assert!(matches!(error, ArrayError::OutOfMemory { bytes, .. } if bytes == 1 << 52), "{error}");
    }
}

/// Only the pieces that overlap a region are read, and it may lie across them.
#[test]
fn a_region_is_read_across_pieces() {
    let line = mesh("mesh line { tp = 3 }");
    for text in ["s/tp", "d/local(2)/tp", "partial(tp)", "replicated"] {
        let array = Array::place(&counting(&[4, 6]), &["s", "d"], layout(text, &line)).unwrap();
        let region = [IndexSet::from_blocks([(0, 1), (2, 4)]), IndexSet::range(1, 4)];
        let mut out = [0; 9 * 4 + 1];
        array.read(&region, &mut out[1..]).unwrap();
        let expected: Vec<u8> =
            [1, 2, 3, 13, 14, 15, 19, 20, 21].into_iter().flat_map(i32::to_le_bytes).collect();
        assert_eq!(out[1..], expected[..], "{text}");
    }
}
