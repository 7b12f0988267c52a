//! Arrays in files: what other programs write is read, what we write others read, and no header makes
//! us panic, wait, or set memory aside.

use npyz::WriterBuilder;
use safetensors::tensor::{Dtype, TensorView};
use shardweave_compiler::diagnostic::Code;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use shardweave_runtime::files::{OutputFiles, TensorFile, Weights, open_npy};
use shardweave_runtime::tensor::{ArraySource, Tensor};
use std::path::PathBuf;
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir().expect("tests can write to the directory for temporary files")
}

fn put(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("tests can write");
    path
}

/// `[2, 3]` with element `10 i + j` at `(i, j)`, as another program would save it.
fn npy_by_npyz(descr: &str, order: npyz::Order) -> Vec<u8> {
    let stored: Vec<i64> = match order {
        npyz::Order::C => vec![0, 1, 2, 10, 11, 12],
        npyz::Order::Fortran => vec![0, 10, 1, 11, 2, 12],
    };
    let mut bytes = Vec::new();
    let dtype = npyz::DType::Plain(descr.parse().expect("a typestr"));
    macro_rules! write_as {
        ($rust:ty) => {{
            let options = npyz::WriteOptions::<$rust>::new().dtype(dtype).shape(&[2, 3]).order(order);
            let mut writer = options.writer(&mut bytes).begin_nd().expect("a header");
            writer.extend(stored.iter().map(|&n| num(n))).expect("the elements");
            writer.finish().expect("all elements");
        }};
    }
    trait Num {
        fn of(n: i64) -> Self;
    }
    macro_rules! nums { ($($t:ty: $f:expr),*) => {$(impl Num for $t { fn of(n: i64) -> $t { ($f)(n) } })*}; }
    nums!(f64: |n| n as f64, f32: |n| n as f32, half::f16: |n| half::f16::from_f32(n as f32),
          i64: |n| n, i32: |n| n as i32, bool: |n| n % 2 == 1);
    fn num<T: Num>(n: i64) -> T {
        T::of(n)
    }
    match &descr[1..] {
        "f8" => write_as!(f64),
        "f4" => write_as!(f32),
        "f2" => write_as!(half::f16),
        "i8" => write_as!(i64),
        "i4" => write_as!(i32),
        "b1" => write_as!(bool),
        other => panic!("no such case: {other}"),
    }
    bytes
}

fn as_f64(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F64 => tensor.elements::<f64>().to_vec(),
        DType::F32 => tensor.elements::<f32>().iter().map(|&x| x.into()).collect(),
        DType::F16 => tensor.elements::<half::f16>().iter().map(|&x| x.into()).collect(),
        DType::Bf16 => tensor.elements::<half::bf16>().iter().map(|&x| x.into()).collect(),
        DType::I64 => tensor.elements::<i64>().iter().map(|&x| x as f64).collect(),
        DType::I32 => tensor.elements::<i32>().iter().map(|&x| x.into()).collect(),
        DType::Bool => tensor.bytes().iter().map(|&x| x.into()).collect(),
    }
}

#[test]
fn npy_of_every_type_order_and_byte_order_is_read() {
    let dir = directory();
    for descr in ["<f8", "<f4", "<f2", "<i8", "<i4", "|b1", ">f8", ">f4", ">f2", ">i8", ">i4"] {
        for order in [npyz::Order::C, npyz::Order::Fortran] {
            let array = open_npy(&put(&dir, "x.npy", &npy_by_npyz(descr, order))).expect("a good file");
            assert_eq!(array.shape(), [2, 3]);
            let whole = as_f64(&array.load().expect("good bytes"));
            let expected =
                if descr == "|b1" { vec![0., 1., 0., 0., 1., 0.] } else { vec![0., 1., 2., 10., 11., 12.] };
            assert_eq!(whole, expected, "{descr} {order:?}");

            let piece = [IndexSet::range(0, 2), IndexSet::from_blocks([(0, 1), (2, 3)])];
            let mut part = Tensor::zeros(array.dtype(), &[2, 2]);
            array.read(&piece, part.bytes_mut()).expect("good bytes");
            let expected = [expected[0], expected[2], expected[3], expected[5]];
            assert_eq!(as_f64(&part), expected, "{descr} {order:?}");
        }
    }
}

#[test]
fn other_arrays_have_other_samples() {
    let dir = directory();
    let sample = |shape: &[u64], change: Option<usize>| {
        let mut elements = vec![0_i32; shape.iter().product::<u64>() as usize];
        change.into_iter().for_each(|at| elements[at] = -1);
        let mut files = OutputFiles::new();
        let path = dir.path().join("x.npy");
        files.write_npy(&path, &Tensor::from_elements(shape, &elements)).expect("written");
        files.commit().expect("renamed");
        open_npy(&path).expect("a good file").sample()
    };
    let small = [sample(&[6], None), sample(&[2, 3], None), sample(&[7], None), sample(&[6], Some(3))];
    assert_eq!(sample(&[6], None), small[0]);
    assert!((1..4).all(|other| small[other] != small[0]), "{small:?}");
    // Of a large one the first byte, the last one and some between count, but not each.
    let large = |change| sample(&[1 << 18], change);
    let (none, last) = (large(None), (1 << 18) - 1);
    assert!(large(Some(0)) != none && large(Some(last)) != none);
    assert_eq!(large(Some(1000)), none);
}

#[test]
fn npy_that_we_write_is_read_by_others() {
    let dir = directory();
    for shape in [vec![], vec![6], vec![2, 3], vec![3, 1, 2], vec![4, 0]] {
        let count = shape.iter().product::<u64>();
        let elements: Vec<f32> = (0..count).map(|n| n as f32 - 2.5).collect();
        let path = dir.path().join("y.npy");
        let mut files = OutputFiles::new();
        files.write_npy(&path, &Tensor::from_elements(&shape, &elements)).expect("written");
        files.commit().expect("renamed");
        let bytes = std::fs::read(&path).expect("there");
        let npy = npyz::NpyFile::new(bytes.as_slice()).expect("others read it");
        assert_eq!(npy.shape(), shape);
        assert_eq!(npy.into_vec::<f32>().expect("f32"), elements);
        assert_eq!((bytes.len() - elements.len() * 4) % 64, 0, "elements are aligned");
        assert_eq!(as_f64(&open_npy(&path).expect("we read it").load().expect("good")).len() as u64, count);
    }
}

fn npy_with_dict(dict: &str, elements: usize) -> Vec<u8> {
    let length = (dict.len() as u16).to_le_bytes();
    [b"\x93NUMPY\x01\x00", length.as_slice(), dict.as_bytes(), &vec![0; elements]].concat()
}

#[test]
fn hostile_npy_headers_are_errors_at_once() {
    let good = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }";
    let f4 = |shape: &str| format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}}}");
    let typed = |descr: &str| format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,)}}");
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "does not start as a `.npy` file does"),
        (b"\x93NUMP".to_vec(), "does not start"),
        (b"\x93NUMPY".to_vec(), "ends inside its header"),
        (b"\x93NUMPY\x01\x00\x05".to_vec(), "ends inside its header"),
        (b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}".to_vec(), "claims to be 4294967295 bytes long, but only 2"),
        (b"\x93NUMPY\x09\x00\x02\x00{}".to_vec(), "version 9"),
        (npy_with_dict(good, 23), "takes 24 bytes of elements, but 23 follow"),
        (npy_with_dict(good, 25), "takes 24 bytes of elements, but 25 follow"),
        (npy_with_dict("{}", 0), "no `descr`"),
        (npy_with_dict(&"(".repeat(60_000), 0), "`{` is missing"),
        (npy_with_dict(&f4(&"(".repeat(60_000)), 0), "a size in `shape`"),
        (npy_with_dict(&f4("(4294967296, 4294967296)"), 16), "more bytes than there can be"),
        (npy_with_dict(&f4("(9223372036854775807, 3)"), 16), "more bytes than there can be"),
        (npy_with_dict(&f4("(99999999999999999999,)"), 16), "not a number of 64 bits"),
        (npy_with_dict(&f4("(-1,)"), 16), "not a number of 64 bits"),
        (npy_with_dict(&f4(&format!("({})", "1,".repeat(65))), 4), "more than 64 dims"),
        (npy_with_dict(&f4("(2, 3)} or {}"), 24), "something follows"),
        (npy_with_dict("{'descr': '<f4', 'shape': (2,)}", 8), "no `fortran_order`"),
        (npy_with_dict("{'descr': '<f4', 'fortran_order': 1, 'shape': (2,)}", 8), "neither True nor False"),
        (npy_with_dict(&typed("[('a', '<f4')]"), 8), "records"),
        (npy_with_dict(&typed("'<u2'"), 4), "`<u2`"),
        (npy_with_dict(&typed("'|O'"), 4), "`|O`"),
        (npy_with_dict(&typed("'<V2'"), 4), "`<V2`"),
        (npy_with_dict("{'descr': '<f4", 8), "does not end"),
    ];
    let dir = directory();
    for (bytes, says) in cases {
        let told = open_npy(&put(&dir, "bad.npy", &bytes)).expect_err(says);
        assert!(told.message.contains(says), "{told}\ndoes not say: {says}");
        assert!(told.message.contains("bad.npy"), "{told}");
        assert!(matches!(told.code, Code::FileRead | Code::FormatDType), "{told}");
    }
}

#[test]
fn every_prefix_and_every_broken_byte_of_a_header_is_survived() {
    let dir = directory();
    let npy = npy_by_npyz("<f4", npyz::Order::Fortran);
    let safetensors = safetensors_file(&[("a", Dtype::F32, &[2, 3], 24), ("b", Dtype::BOOL, &[3], 3)]);
    for at in 0..npy.len().max(safetensors.len()) {
        for (name, good) in [("x.npy", &npy), ("x.safetensors", &safetensors)] {
            let mut variants = vec![good[..at.min(good.len())].to_vec()];
            for byte in [0_u8, b'9', b'(', b'"', 0x80, 0xff] {
                let mut broken = good.clone();
                if let Some(place) = broken.get_mut(at) {
                    *place = byte;
                }
                variants.push(broken);
            }
            for bytes in variants {
                let path = put(&dir, name, &bytes);
                if name == "x.npy" {
                    let _ = open_npy(&path).map(|array| array.load());
                } else if let Ok(file) = TensorFile::open(&path) {
                    for name in file.names() {
                        let _ = file.tensor(&name).map(|array| array.map(|array| array.load()));
                    }
                }
            }
        }
    }
}

#[test]
fn a_byte_that_is_no_bool_is_an_error_when_it_is_read() {
    let dir = directory();
    let mut bytes = npy_by_npyz("|b1", npyz::Order::C);
    *bytes.last_mut().expect("not empty") = 7;
    let array = open_npy(&put(&dir, "flags.npy", &bytes)).expect("a good header");
    let told = array.load().expect_err("7 is no bool");
    let told = told.to_string();
    assert!(told.contains("flags.npy") && told.contains('7'), "{told}");
    let first = [IndexSet::range(0, 1), IndexSet::range(0, 3)];
    array.read(&first, &mut [0; 3]).expect("a piece without that byte is good");
}

#[test]
fn what_is_no_file_is_an_error() {
    let dir = directory();
    for path in
        [dir.path().to_owned(), dir.path().join("none.npy"), PathBuf::from("/dev/zero"), PathBuf::new()]
    {
        assert_eq!(open_npy(&path).expect_err("no array").code, Code::FileRead);
        assert_eq!(TensorFile::open(&path).expect_err("no array").code, Code::FileRead);
    }
}

fn safetensors_file(tensors: &[(&str, Dtype, &[usize], usize)]) -> Vec<u8> {
    let data: Vec<u8> = (0..=1).cycle().take(1000).collect();
    let views = tensors.iter().map(|&(name, dtype, shape, bytes)| {
        (name, TensorView::new(dtype, shape.to_vec(), &data[..bytes]).expect("bytes fit the shape"))
    });
    safetensors::serialize(views, None).expect("good tensors")
}

fn safetensors_with_header(header: &str, data: usize) -> Vec<u8> {
    [&(header.len() as u64).to_le_bytes(), header.as_bytes(), &vec![0; data]].concat()
}

#[test]
fn safetensors_of_every_type_are_read_at_any_alignment() {
    let dir = directory();
    let all = [
        ("b", Dtype::BOOL, DType::Bool),
        ("h", Dtype::F16, DType::F16),
        ("g", Dtype::BF16, DType::Bf16),
        ("f", Dtype::F32, DType::F32),
        ("i", Dtype::I32, DType::I32),
        ("d", Dtype::F64, DType::F64),
        ("l", Dtype::I64, DType::I64),
    ];
    // Sorted by size the other way round, an odd number of bools first, every later tensor is misaligned.
    let mut entries = Vec::new();
    let mut data: Vec<u8> = Vec::new();
    for (name, stored, dtype) in all {
        let start = data.len();
        data.extend((0..3).flat_map(|n| element_bytes(dtype, n)));
        let shape = "[3]";
        entries.push(format!(
            r#""{name}":{{"dtype":"{stored}","shape":{shape},"data_offsets":[{start},{}]}}"#,
            data.len()
        ));
    }
    let mut bytes = safetensors_with_header(&format!("{{{}}}", entries.join(",")), 0);
    bytes.extend(data);
    let file = TensorFile::open(&put(&dir, "m.safetensors", &bytes)).expect("a good file");
    assert_eq!(file.names(), all.map(|(name, ..)| name));
    for (name, _, dtype) in all {
        let array = file.tensor(name).expect("a type we have").expect("there");
        assert_eq!(array.dtype(), dtype);
        let values = as_f64(&array.load().expect("good bytes"));
        assert_eq!(values, if dtype == DType::Bool { [0., 1., 0.] } else { [0., 1., 2.] }, "{name}");
    }
    assert!(file.tensor("z").expect("no error").is_none());
}

fn element_bytes(dtype: DType, n: u8) -> Vec<u8> {
    match dtype {
        DType::F64 => f64::from(n).to_le_bytes().to_vec(),
        DType::F32 => f32::from(n).to_le_bytes().to_vec(),
        DType::F16 => half::f16::from(n).to_le_bytes().to_vec(),
        DType::Bf16 => half::bf16::from(n).to_le_bytes().to_vec(),
        DType::I64 => i64::from(n).to_le_bytes().to_vec(),
        DType::I32 => i32::from(n).to_le_bytes().to_vec(),
        DType::Bool => vec![n % 2],
    }
}

#[test]
fn hostile_safetensors_headers_are_errors_at_once() {
    let tensor = |dtype: &str, shape: &str, start: &str, end: &str| {
        format!(r#"{{"a":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}}}"#)
    };
    let max = u64::MAX.to_string();
    let nearly = (u64::MAX - 3).to_string();
    let mut lying = safetensors_file(&[("a", Dtype::F32, &[2], 8)]);
    lying[..8].copy_from_slice(&(1_u64 << 62).to_le_bytes());
    let mut long = safetensors_file(&[("a", Dtype::F32, &[2], 8)]);
    long[..8].copy_from_slice(&200_u64.to_le_bytes());
    let cases: Vec<(Vec<u8>, &str)> = vec![
        (vec![], "ends inside its header"),
        (vec![0; 7], "ends inside its header"),
        (vec![0; 8], "bad header"),
        (lying, "claims to be 4611686018427387904 bytes long"),
        (long, "claims to be 200 bytes long"),
        (safetensors_with_header("{", 0), "bad header"),
        (safetensors_with_header("\u{1}\u{2}", 0), "bad header"),
        (safetensors_with_header(&"[".repeat(100_000), 0), "bad header"),
        (safetensors_with_header(&tensor("F32", "[2]", "0", "8"), 7), "describes 8 bytes of elements, but 7"),
        (safetensors_with_header(&tensor("F32", "[2]", "0", "8"), 9), "describes 8 bytes of elements, but 9"),
        (safetensors_with_header(&tensor("F32", "[3]", "0", "8"), 8), "shape"),
        (safetensors_with_header(&tensor("F32", "[2]", "8", "0"), 8), "offset"),
        (safetensors_with_header(&tensor("F32", "[2]", "4", "12"), 12), "offset"),
        (safetensors_with_header(&tensor("U8", &format!("[{max}]"), "0", &max), 8), "overflow"),
        (
            safetensors_with_header(&tensor("U8", "[2305843009213693951]", "0", "2305843009213693951"), 8),
            "describes",
        ),
        (safetensors_with_header(&tensor("F32", "[4294967296, 4294967296]", "0", "16"), 16), "overflow"),
        (safetensors_with_header(&tensor("F32", "[2]", &nearly, &max), 8), "offset"),
        (safetensors_with_header(&tensor("F32", "[-2]", "0", "8"), 8), "bad header"),
        (safetensors_with_header(&tensor("Q7", "[2]", "0", "8"), 8), "Q7"),
    ];
    let dir = directory();
    for (bytes, says) in cases {
        let told = TensorFile::open(&put(&dir, "bad.safetensors", &bytes)).expect_err(says);
        assert!(told.message.contains(says), "{told}\ndoes not say: {says}");
        assert!(told.message.contains("bad.safetensors"), "{told}");
    }
}

#[test]
fn a_type_that_no_value_has_is_named_and_stops_only_those_who_need_it() {
    let dir = directory();
    let bytes = safetensors_file(&[("q", Dtype::U8, &[4], 4), ("a", Dtype::F32, &[2], 8)]);
    let file = TensorFile::open(&put(&dir, "m.safetensors", &bytes)).expect("a good file");
    assert!(file.tensor("a").expect("f32").is_some());
    let told = file.tensor("q").expect_err("no u8");
    assert!(told.message.contains("U8") && told.message.contains('q'), "{told}");
    assert_eq!(told.code, Code::FormatDType);
}

#[test]
fn weights_are_found_over_several_files() {
    let dir = directory();
    let one = put(
        &dir,
        "one.safetensors",
        &safetensors_file(&[("a", Dtype::F32, &[2], 8), ("c", Dtype::F32, &[1], 4)]),
    );
    let two = put(
        &dir,
        "two.safetensors",
        &safetensors_file(&[("b", Dtype::F64, &[1], 8), ("c", Dtype::F32, &[1], 4)]),
    );
    let weights = Weights::open(&[&one, &two]).expect("good files");
    assert_eq!(weights.find("a").expect("one file").expect("there").dtype(), DType::F32);
    assert_eq!(weights.find("b").expect("one file").expect("there").dtype(), DType::F64);
    assert!(weights.find("d").expect("no file").is_none());
    let told = weights.find("c").expect_err("two files");
    assert_eq!(told.code, Code::InputTwice);
    assert!(told.message.contains("one.safetensors") && told.message.contains("two.safetensors"));
    assert_eq!(
        Weights::open(&[dir.path().join("x"), dir.path().join("y")]).expect_err("neither").errors().len(),
        2
    );
}

#[test]
fn a_split_checkpoint_names_its_files_relative_to_its_index() {
    let dir = directory();
    std::fs::create_dir(dir.path().join("model")).expect("tests can write");
    put(
        &dir,
        "model/1.safetensors",
        &safetensors_file(&[("a", Dtype::F32, &[2], 8), ("b", Dtype::F32, &[1], 4)]),
    );
    put(&dir, "model/2.safetensors", &safetensors_file(&[("b", Dtype::F64, &[1], 8)]));
    let index = |map: &str| {
        put(
            &dir,
            "model/model.safetensors.index.json",
            format!(r#"{{"metadata":{{"total_size":16}},{map}}}"#).as_bytes(),
        )
    };
    let good = index(r#""weight_map":{"a":"1.safetensors","b":"2.safetensors"}"#);
    let weights = Weights::open(&[&good]).expect("a good checkpoint");
    assert_eq!(weights.names(), ["a", "b"]);
    assert_eq!(weights.find("b").expect("one file").expect("there").dtype(), DType::F64);
    assert_eq!(weights.similar("model.b").as_deref(), Some("b"), "the same name under a prefix");
    assert_eq!(weights.similar("zz"), None);

    for (map, says) in [
        (r#""weight_map":{"c":"1.safetensors"}"#, "has tensor `c`, but it has not"),
        (r#""weight_map":{"c":"3.safetensors"}"#, "3.safetensors"),
        (r#""weight_map":{"c":"../1.safetensors"}"#, "not a file beside it"),
        (r#""weight_map":{"c":"/etc/passwd"}"#, "not a file beside it"),
        (r#""weight_map":{"c":""}"#, "not a file beside it"),
        (r#""weight_map":7"#, "not an index"),
        (r#""map":{}"#, "weight_map"),
    ] {
        let told = Weights::open(&[index(map)]).expect_err(says).to_string();
        assert!(told.contains(says), "{told}\ndoes not say: {says}");
    }
}
