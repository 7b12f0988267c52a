//! What stays between runs: constants in place, outputs that become inputs; and what failures leave.

use shardweave_compiler::compile::{CompileOptions, compile};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::file::{WeaveFile, parse_file};
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::program::Sizes;
use shardweave_runtime::array::Array;
use shardweave_runtime::execute::{Backend, How, InputError, NotReady, RunError, WrongInput};
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, ReadError, Tensor};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

fn file(text: &str) -> WeaveFile {
    let (file, found) = parse_file(text, &[]);
    assert!(found.is_empty(), "{found}");
    file
}

fn session(file: &WeaveFile, options: SessionOptions) -> Session {
    Session::new(file.programs()[0].clone(), Some(file.placements()[0].clone()), options)
}

fn backends() -> [SessionOptions; 2] {
    [Backend::Threads, Backend::Lockstep]
        .map(|backend| SessionOptions { backend, ..SessionOptions::default() })
}

/// An array that counts how often a piece of it is read.
struct Counted {
    tensor: Tensor,
    reads: AtomicUsize,
}

impl Counted {
    fn new(tensor: Tensor) -> Arc<Counted> {
        Arc::new(Counted { tensor, reads: AtomicUsize::new(0) })
    }

    fn reads(&self) -> usize {
        self.reads.load(Ordering::Relaxed)
    }
}

impl ArraySource for Counted {
    fn dtype(&self) -> DType {
        self.tensor.dtype()
    }
    fn shape(&self) -> &[u64] {
        self.tensor.shape()
    }
    fn describe(&self) -> String {
        "a counted array".into()
    }
    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.tensor.read(piece, out)
    }
}

/// Rows of a table by ids, times a weight.
const LOOKED_UP: &str = "
mesh line { tp = 2 }
program p {
  input ids: i64[s]
  input table: f32[v, e]
  input w: f32[h, e]
  x = embedding(ids, table)
  y = linear(x, w)
  output y
}
placement q for p on line {
  w: h/tp
  y: h/tp
}";

const E: usize = 3;

fn table() -> Tensor {
    Tensor::from_elements(&[4, E as u64], &(0..12).map(|i| i as f32).collect::<Vec<_>>())
}

fn weight(scale: f32) -> Tensor {
    Tensor::from_elements(&[5, E as u64], &(0..15).map(|i| i as f32 * scale).collect::<Vec<_>>())
}

fn looked_up(ids: &[i64], scale: f32) -> Vec<f32> {
    let of =
        |id: i64, h: usize| (0..E).map(|e| (id as usize * E + e) as f32 * (h * E + e) as f32 * scale).sum();
    ids.iter().flat_map(|&id| (0..5).map(move |h| of(id, h))).collect()
}

fn ids(ids: &[i64]) -> Inputs {
    Inputs::new().with("ids", Tensor::from_elements(&[ids.len() as u64], ids))
}

#[test]
fn constants_are_read_once_whatever_comes_and_fails() {
    let file = file(LOOKED_UP);
    for options in backends() {
        let mut session = session(&file, options);
        let (table, weight) = (Counted::new(table()), Counted::new(weight(1.0)));
        let mut constants = Inputs::new();
        constants.insert("table", table.clone());
        constants.insert("w", weight.clone());
        session.bind_constants(&constants).unwrap();
        let right = |session: &mut Session, given: &[i64]| {
            let outputs = session.run(&ids(given)).unwrap();
            assert_eq!(outputs.get("y").unwrap().elements::<f32>(), looked_up(given, 1.0));
            assert_eq!((table.reads(), weight.reads()), (2, 2), "each device reads its piece once");
        };
        right(&mut session, &[0, 3]);
        right(&mut session, &[2, 1]);
        // Other sizes: smaller ones, much larger ones that need another arena, and the first again.
        right(&mut session, &[1]);
        let many: Vec<i64> = (0..5000).map(|i| i % 4).collect();
        right(&mut session, &many);
        right(&mut session, &[3, 0]);
        // A run that fails does not touch them.
        let error = session.run(&ids(&[0, 4])).unwrap_err();
        assert!(
            matches!(&error, RunError::Device(failure) if matches!(failure.how, How::Kernel(_))),
            "{error}"
        );
        assert!(matches!(session.outputs(), Err(RunError::NotReady(NotReady::Outputs))));
        right(&mut session, &[1, 2]);
    }
}

#[test]
fn a_constant_can_be_replaced_and_only_that_is_read() {
    let file = file(LOOKED_UP);
    let mut session = session(&file, SessionOptions::default());
    let table = Counted::new(table());
    let mut constants = Inputs::new().with("w", weight(1.0));
    constants.insert("table", table.clone());
    session.bind_constants(&constants).unwrap();
    session.run(&ids(&[0])).unwrap();
    session.bind_constants(&Inputs::new().with("w", weight(2.0))).unwrap();
    let outputs = session.run(&ids(&[3, 1])).unwrap();
    assert_eq!(outputs.get("y").unwrap().elements::<f32>(), looked_up(&[3, 1], 2.0));
    assert_eq!(table.reads(), 2);
    // One of another size is bound to a plan of its own.
    let smaller = Tensor::zeros(DType::F32, &[2, E as u64]);
    session.bind_constants(&Inputs::new().with("w", smaller)).unwrap();
    assert_eq!(session.run(&ids(&[3])).unwrap().get("y").unwrap().shape(), [1, 2]);
}

/// A plan may say that an input stays, or not: what a session is told to keep, it keeps.
#[test]
fn a_session_for_a_plan_keeps_constants_too() {
    let file = file(LOOKED_UP);
    let (program, placement) = (&file.programs()[0], &file.placements()[0]);
    let sizes = Sizes::bind(program, [("s", 2), ("v", 4), ("e", E as u64), ("h", 5)]).unwrap();
    for names in [&["w", "table"][..], &["w"], &[]] {
        let constants = names.iter().map(ToString::to_string).collect();
        let options = CompileOptions { constants, ..CompileOptions::default() };
        let plan = compile(program, Some(placement), &sizes, &options).unwrap();
        let mut session = Session::from_plan(plan, SessionOptions::default()).unwrap();
        let weight = Counted::new(weight(1.0));
        let mut constants = Inputs::new().with("table", table());
        constants.insert("w", weight.clone());
        session.bind_constants(&constants).unwrap();
        for given in [[0, 1], [3, 2]] {
            let outputs = session.run(&ids(&given)).unwrap();
            assert_eq!(outputs.get("y").unwrap().elements::<f32>(), looked_up(&given, 1.0));
        }
        assert_eq!(weight.reads(), 2);
        let other = session.run(&ids(&[1])).unwrap_err();
        let RunError::Inputs(wrong) = &other else { panic!("{other}") };
        assert!(matches!(&wrong[..], [WrongInput { reason: InputError::Sizes { .. }, .. }]), "{other}");
    }
}

/// The error of one wrong input.
fn wrong(name: &str, reason: InputError) -> RunError {
    RunError::Inputs(vec![WrongInput { name: name.into(), reason }])
}

#[test]
fn all_that_is_wrong_with_inputs_is_told_at_once() {
    let (file, tall) = (file(LOOKED_UP), || Tensor::from_elements(&[1, 2], &[1.0_f64, 2.0]));
    let mut fresh = session(&file, SessionOptions::default());
    let mut used = session(&file, SessionOptions::default());
    used.run(&ids(&[0]).with("table", table()).with("w", weight(1.0))).unwrap();
    for session in [&mut fresh, &mut used] {
        let told = session.run(&Inputs::new().with("v", table()).with("u", table())).unwrap_err().to_string();
        assert_eq!(
            told,
            "input `ids` is not given\ninput `table` is not given\ninput `w` is not given\n\
             the program has no input `u`\nthe program has no input `v`"
        );
        let told = session.run(&ids(&[0]).with("table", table()).with("w", tall()).with("v", table()));
        let told = told.unwrap_err().to_string();
        assert!(told.starts_with("input `w`: an array in memory"), "{told}");
        assert!(told.ends_with("\nthe program has no input `v`"), "{told}");
    }
    let unknown = fresh.bind_constants(&Inputs::new().with("v", table()).with("u", table())).unwrap_err();
    assert_eq!(unknown.to_string(), "the program has no input `u`\nthe program has no input `v`");
}

#[test]
fn constants_that_do_not_fit_are_errors() {
    let file = file(LOOKED_UP);
    let mut session = session(&file, SessionOptions::default());
    let unknown = session.bind_constants(&Inputs::new().with("v", table())).unwrap_err();
    assert_eq!(unknown, wrong("v", InputError::Unknown));
    let computed = session.bind_constants(&Inputs::new().with("y", table())).unwrap_err();
    assert_eq!(computed, wrong("y", InputError::Unknown));
    session.bind_constants(&Inputs::new().with("table", table())).unwrap();
    let both = ids(&[0]).with("table", table()).with("w", weight(1.0));
    assert_eq!(session.run(&both).unwrap_err(), wrong("table", InputError::BoundAsConstant));
    let missing = session.run(&ids(&[0])).unwrap_err();
    assert_eq!(missing, wrong("w", InputError::Missing));
    let outputs = session.run(&ids(&[2]).with("w", weight(1.0))).unwrap();
    assert_eq!(outputs.get("y").unwrap().elements::<f32>(), looked_up(&[2], 1.0));
}

/// After sizes that cannot be had, those before run again.
#[test]
fn a_session_survives_sizes_for_which_there_is_no_memory() {
    let file = file(LOOKED_UP);
    for backend in backends() {
        let mut session = session(&file, SessionOptions { memory: Some(10_000), ..backend });
        session.bind_constants(&Inputs::new().with("table", table()).with("w", weight(1.0))).unwrap();
        for _ in 0..2 {
            let outputs = session.run(&ids(&[1, 2])).unwrap();
            assert_eq!(outputs.get("y").unwrap().elements::<f32>(), looked_up(&[1, 2], 1.0));
            let error = session.run(&ids(&[0; 2000])).unwrap_err();
            assert!(matches!(error, RunError::OutOfMemory { .. }), "{error}");
            assert_eq!(session.execute(), Err(RunError::NotReady(NotReady::Inputs)));
        }
    }
}

/// A cache grows by one row a run and never leaves the devices: what a run gives goes into the next.
#[test]
fn what_a_run_gives_goes_into_the_next_without_a_whole_array() {
    let file = file(
        "
mesh line { tp = 3 }
program grow {
  input cache: f32[s, h]
  input row: f32[one=1, h]
  longer = concat(t, cache, row)
  output longer
}
placement q for grow on line {
  cache: h/tp
  row: h/tp
  longer: h/tp
}",
    );
    for options in backends() {
        let mut session = session(&file, options);
        let empty = Tensor::zeros(DType::F32, &[0, 7]);
        let row = |n: usize| Tensor::from_elements(&[1, 7], &[n as f32; 7]);
        let inputs = Inputs::new().with("cache", empty).with("row", row(0));
        let mut cache: Array = session.run_placed(&inputs).unwrap().get("longer").unwrap().clone();
        for n in 1..6 {
            assert_eq!(cache.piece(1.into()).unwrap().shape(), [n as u64, 3]);
            let inputs = Inputs::new().with("cache", cache).with("row", row(n));
            let outputs = session.run_placed(&inputs).unwrap();
            cache = outputs.get("longer").unwrap().clone();
            let moved: Vec<_> = session.plan().unwrap().report.collectives.iter().collect();
            assert!(moved.is_empty(), "{moved:?}");
        }
        let expected: Vec<f32> = (0..6).flat_map(|n| [n as f32; 7]).collect();
        assert_eq!(cache.to_tensor().elements::<f32>(), expected);
    }
}

/// An array is an input whatever its layout and mesh: parts stay parts in the same layout, else are read
/// combined.
#[test]
fn an_array_is_an_input_in_any_layout() {
    let parts = file(
        "
mesh line { tp = 2 }
program parts {
  input x: bf16[s, e]
  input w: bf16[h, e]
  y = linear(x, w)
  output y
}
placement q for parts on line {
  x: e/tp
  w: e/tp
  y: partial(tp)
}",
    );
    let use_in = |layout: &str| {
        file(&format!(
            "
mesh line {{ tp = 2 }}
mesh late {{ a = 3 }} devices [4, 0, 2]
program doubled {{
  input y: bf16[s, h]
  z = add(y, y)
  output z
}}
placement q for doubled on line {{
  y: {layout}
}}"
        ))
    };
    let half = |values: &[f32], shape: &[u64]| {
        let elements: Vec<half::bf16> = values.iter().map(|&x| half::bf16::from_f32(x)).collect();
        Tensor::from_elements(shape, &elements)
    };
    let x = half(&[1.0, 2.0, 3.0, 4.0], &[2, 2]);
    let w = half(&[1.0, 0.0, 0.0, 1.0, 1.0, 1.0], &[3, 2]);
    let expected = [1.0, 2.0, 3.0, 3.0, 4.0, 7.0].map(|y| 2.0 * y);
    for options in backends() {
        let mut first = session(&parts, options.clone());
        let outputs = first.run_placed(&Inputs::new().with("x", x.clone()).with("w", w.clone())).unwrap();
        let y = outputs.get("y").unwrap();
        assert_eq!(y.ty().stored_dtype(), DType::F32);
        for layout in ["partial(tp)", "s/tp", "h/tp(2, 1)", "replicated", "s/a on late", "partial(a) on late"]
        {
            let mut second = session(&use_in(layout), options.clone());
            let outputs = second.run(&Inputs::new().with("y", y.clone())).unwrap();
            let z: Vec<f32> =
                outputs.get("z").unwrap().elements::<half::bf16>().iter().map(|z| z.to_f32()).collect();
            assert_eq!(z, expected, "{layout}");
        }
        let told = session(&use_in("s/tp"), options)
            .run(&Inputs::new().with("y", y.to_tensor()).with("v", x.clone()));
        assert_eq!(told.unwrap_err(), wrong("v", InputError::Unknown));
    }
}
