//! Devices that are late, fail or panic: nothing hangs, the error names the first failure, all backends
//! tell the same, and the next run works.

mod hand;

use hand::{BACKENDS, Hand, counting, mesh, options, session, ty, verified, wait};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{Action, HostProgram};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::Arg::{self, Value};
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::op::{Map, Op};
use shardweave_runtime::execute::{
    Backend, Doing, How, InputError, InstrId, NotReady, Probe, RunError, Streams, WrongInput,
};
use shardweave_runtime::kernels::KernelError;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::{ReadError, Tensor};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// Everything that can hang: gather, product with a partial result, all_reduce, reduce_scatter, loops,
/// a second stream, an embedding.
fn everything(devices: u64) -> HostProgram {
    let home = mesh("line", &[("tp", devices)], None);
    let all = |text: &str, dims: &[(&str, u64)]| ty(DType::F32, dims, text, &home, &[]);
    let (se, he, sh) = ([("s", 6), ("e", 5)], [("h", 7), ("e", 5)], [("s", 6), ("h", 7)]);
    let mut hand = Hand::new();
    let x = hand.input("x", all("s/tp", &se));
    let w = hand.input("w", all("e/tp", &he));
    let ids = hand.input("ids", ty(DType::I64, &[("s", 6)], "replicated", &home, &[]));
    let whole = hand.temporary("x", all("replicated", &se));
    hand.push(hand.moved(x, whole));
    let cut = hand.temporary("x", all("e/tp", &se));
    hand.push(hand.moved(whole, cut));
    let part = hand.temporary("y", all("partial(tp)", &sh));
    hand.push(hand.computed(Op::Linear, &[Value(cut), Value(w)], part, "e/tp", &home));
    let sum = hand.temporary("y", all("replicated", &sh));
    let scattered = hand.temporary("z", all("s/tp", &sh));
    hand.event(0, 0, Action::Record);
    hand.event(1, 0, wait);
    let reduce = hand.moved(part, sum);
    hand.push_on(1, reduce);
    let scatter = hand.moved(part, scattered);
    hand.push_on(1, scatter);
    hand.event(1, 1, Action::Record);
    hand.event(0, 1, wait);
    let block = hand.inner("block", all("s/step(3, i0)", &sh));
    let looked = hand.output("rows", all("replicated", &sh));
    let (gather, fill) = (hand.moved(scattered, block), hand.moved(block, looked));
    hand.repeat(0, 3, vec![Action::Alloc(block), gather, fill, Action::Free(block)]);
    let rows = hand.output("found", ty(DType::F32, &[("s", 6), ("h", 7)], "replicated", &home, &[]));
    // The table is the sum, by its rows.
    let table = hand.temporary("table", ty(DType::F32, &[("v", 6), ("h", 7)], "replicated", &home, &[]));
    let renamed = Op::Rename(vec![("s".into(), "v".into())]);
    hand.push(hand.computed(renamed, &[Value(sum)], table, "replicated", &home));
    hand.push(hand.computed(Op::Embedding, &[Value(ids), Value(table)], rows, "replicated", &home));
    hand.finish()
}

fn inputs(ids: &[i64]) -> Inputs {
    Inputs::new()
        .with("x", counting(DType::F32, &[6, 5]))
        .with("w", counting(DType::F32, &[7, 5]))
        .with("ids", Tensor::from_elements(&[6], ids))
}

const IDS: [i64; 6] = [5, 0, 3, 3, 1, 2];

/// `x w^T` of the counting arrays, and its rows `IDS`.
fn expected() -> (Vec<f32>, Vec<f32>) {
    let y = |i: usize, j: usize| (0..5).map(|c| ((i * 5 + c) * (j * 5 + c)) as f32).sum::<f32>();
    let rows: Vec<f32> = (0..42).map(|at| y(at / 7, at % 7)).collect();
    let found = IDS.iter().flat_map(|&id| rows[id as usize * 7..][..7].to_vec()).collect();
    (rows, found)
}

fn assert_right(session: &mut Session, told: &str) {
    let outputs = session.run(&inputs(&IDS)).unwrap_or_else(|error| panic!("{told}: {error}"));
    let (rows, found) = expected();
    assert_eq!(outputs.get("rows").unwrap().elements::<f32>(), rows, "{told}");
    assert_eq!(outputs.get("found").unwrap().elements::<f32>(), found, "{told}");
}

/// Every backend with every arrangement of streams.
fn arrangements() -> impl Iterator<Item = (Backend, Streams)> {
    BACKENDS.into_iter().flat_map(|backend| [(backend, Streams::Merged), (backend, Streams::Apart)])
}

/// What to do at which device and part of an instruction.
struct At {
    device: DeviceId,
    instr: InstrId,
    doing: Doing,
    how: How,
}

/// Fails at one place, if any.
struct Fails(Mutex<Option<At>>);

impl Probe for Fails {
    fn before(&self, device: DeviceId, instr: InstrId, doing: Doing) -> Result<(), String> {
        let hits = |at: &At| (at.device, at.instr, at.doing) == (device, instr, doing);
        let how = self.0.lock().unwrap().as_ref().filter(|at| hits(at)).map(|at| at.how.clone());
        match how {
            None => Ok(()),
            Some(How::Refused(reason)) => Err(reason),
            Some(How::Kernel(error)) => Err(error.to_string()),
            // A panic that prints nothing.
            Some(How::Panic(reason)) => std::panic::resume_unwind(Box::new(reason)),
        }
    }
}

#[test]
fn sj6_cf10_a_failure_at_any_instruction_of_any_device_stops_all_and_is_told_alike() {
    for devices in [1, 3, 4] {
        let host = everything(devices);
        let mut told: Vec<Vec<String>> = Vec::new();
        for (backend, streams) in arrangements() {
            let probe = Arc::new(Fails(Mutex::new(None)));
            let options =
                SessionOptions { probe: Some(probe.clone()), streams: Some(streams), ..options(backend) };
            let mut session = session(&host, options);
            let mut errors = Vec::new();
            for device in (0..devices as usize).map(DeviceId::new) {
                for instr in (0..40).map(InstrId::new) {
                    for doing in [Doing::Compute, Doing::Copy, Doing::Tell, Doing::Wait] {
                        for how in [How::Refused("enough".into()), How::Panic("too much".into())] {
                            *probe.0.lock().unwrap() = Some(At { device, instr, doing, how: how.clone() });
                            let start = Instant::now();
                            let ran = session.run(&inputs(&IDS));
                            assert!(start.elapsed() < Duration::from_secs(5), "it took too long to stop");
                            *probe.0.lock().unwrap() = None;
                            // Not every device does everything at every instruction.
                            let Err(error) = ran else { continue };
                            let RunError::Device(failure) = &error else { panic!("{error}") };
                            assert_eq!((failure.device, &failure.how), (device, &how));
                            // Streams beside each other meet more often: not all is comparable.
                            if matches!(doing, Doing::Compute | Doing::Copy) {
                                errors.push(error.to_string());
                            }
                        }
                    }
                }
            }
            assert!(errors.len() >= 16 * devices as usize, "only {} failures", errors.len());
            assert_right(&mut session, "after failures");
            told.push(errors);
        }
        assert!(told.iter().all(|errors| *errors == told[0]));
    }
}

#[test]
fn an_error_names_device_instruction_value_and_step() {
    let probe = Arc::new(Fails(Mutex::new(None)));
    let host = everything(3);
    let mut session =
        session(&host, SessionOptions { probe: Some(probe.clone()), ..options(Backend::Threads) });
    let doing = Doing::Copy;
    let in_loop = (0..40).map(InstrId::new).find_map(|instr| {
        *probe.0.lock().unwrap() =
            Some(At { device: DeviceId::new(1), instr, doing, how: How::Refused("no more".into()) });
        let text = session.run(&inputs(&IDS)).err()?.to_string();
        text.contains("in step 0").then_some(text)
    });
    let text = in_loop.expect("some copy is in the loop");
    assert!(text.starts_with("device1 failed at `s0: b"), "{text}");
    assert!(text.contains("for `block`, in step 0: no more"), "{text}");
}

#[test]
fn an_id_outside_the_table_is_the_same_error_everywhere() {
    for devices in [1, 2, 5] {
        for (backend, streams) in arrangements() {
            let host = everything(devices);
            let mut session = session(&host, SessionOptions { streams: Some(streams), ..options(backend) });
            for bad in [6, -1, i64::MAX, i64::MIN] {
                let error = session.run(&inputs(&[0, 1, bad, 3, 4, 5])).unwrap_err();
                let RunError::Device(failure) = &error else { panic!("{error}") };
                assert_eq!(failure.device, DeviceId::new(0), "the lowest of all that fail");
                assert_eq!(failure.how, How::Kernel(KernelError::IdOutOfRange { id: bad, rows: 6 }));
                assert_eq!(failure.value.as_deref(), Some("found"));
                let text = error.to_string();
                assert!(text.contains(&format!("the id {bad} is outside 0..6")), "{text}");
                assert!(text.contains("embedding") && text.contains("for `found`"), "{text}");
                assert_right(&mut session, "after a wrong id");
            }
        }
    }
}

/// Delays of 0 to 2 ms, or none, from a seed.
struct Late {
    state: AtomicU64,
    most_us: u64,
}

impl Probe for Late {
    fn before(&self, _: DeviceId, _: InstrId, _: Doing) -> Result<(), String> {
        let mut x = self.state.fetch_add(0x9E37_79B9_7F4A_7C15, Ordering::Relaxed);
        x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        if x.is_multiple_of(4) {
            std::thread::sleep(Duration::from_micros((x >> 8) % (self.most_us + 1)));
        }
        Ok(())
    }
}

#[test]
fn cf8_a_thousand_all_reduces_with_random_delays() {
    let devices = 3;
    let home = mesh("line", &[("tp", devices)], None);
    for size in [1, 7, 1000, 100_000] {
        let mut hand = Hand::new();
        let one = hand.input("x", ty(DType::I32, &[("d", 3), ("n", size)], "d/tp", &home, &[]));
        let part = hand.temporary("part", ty(DType::I32, &[("n", size)], "partial(tp)", &home, &[]));
        let sum = Op::Reduce(shardweave_compiler::op::Reduce::Sum, vec!["d".into()]);
        hand.push(hand.computed(sum, &[Value(one)], part, "d/tp", &home));
        let y = hand.output("y", ty(DType::I32, &[("n", size)], "replicated", &home, &[]));
        hand.push(hand.moved(part, y));
        let host = hand.finish();
        let late = Late { state: AtomicU64::new(size), most_us: 2000 };
        let mut session =
            session(&host, SessionOptions { probe: Some(Arc::new(late)), ..options(Backend::Threads) });
        let x: Vec<i32> = (0..3 * size as i32).collect();
        session.bind(&Inputs::new().with("x", Tensor::from_elements(&[3, size], &x))).unwrap();
        let expected: Vec<i32> = (0..size as i32).map(|i| 3 * i + 3 * size as i32).collect();
        for _ in 0..250 {
            session.execute().unwrap();
            assert_eq!(session.outputs().unwrap().get("y").unwrap().elements::<i32>(), expected);
        }
    }
}

/// New inputs each run, late devices, more threads than cores.
#[test]
fn sh9_a_session_runs_a_hundred_times_with_new_inputs() {
    for devices in [1, 2, 3, 8] {
        let home = mesh("line", &[("tp", devices)], None);
        let mut hand = Hand::new();
        let x = hand.input("x", ty(DType::F32, &[("n", 37)], "n/tp", &home, &[]));
        let whole = hand.temporary("whole", ty(DType::F32, &[("n", 37)], "replicated", &home, &[]));
        hand.push(hand.moved(x, whole));
        let negative = hand.temporary("negative", ty(DType::F32, &[("n", 37)], "replicated", &home, &[]));
        hand.push(hand.computed(Op::Map(Map::Neg), &[Value(whole)], negative, "replicated", &home));
        let y = hand.output("y", ty(DType::F32, &[("n", 37)], "n/tp", &home, &[]));
        hand.push(hand.moved(negative, y));
        let host = hand.finish();
        for (backend, cores) in [(Backend::Threads, 64), (Backend::Threads, 1), (Backend::Lockstep, 1)] {
            let late = Late { state: AtomicU64::new(devices), most_us: 20 };
            let mut session =
                session(&host, SessionOptions { cores, probe: Some(Arc::new(late)), ..options(backend) });
            for round in 0..100 {
                let x: Vec<f32> = (0..37).map(|i| (i * round) as f32).collect();
                let outputs =
                    session.run(&Inputs::new().with("x", Tensor::from_elements(&[37], &x))).unwrap();
                let expected: Vec<f32> = x.iter().map(|x| -x).collect();
                assert_eq!(outputs.get("y").unwrap().elements::<f32>(), expected);
            }
        }
    }
}

/// The error of one wrong input.
fn wrong(name: &str, reason: InputError) -> RunError {
    RunError::Inputs(vec![WrongInput { name: name.into(), reason }])
}

#[test]
fn cf5_inputs_that_do_not_fit_are_errors() {
    let host = everything(2);
    for backend in BACKENDS {
        let mut session = session(&host, options(backend));
        let error = |session: &mut Session, inputs: &Inputs| session.run(inputs).unwrap_err();
        assert_eq!(session.execute(), Err(RunError::NotReady(NotReady::Inputs)));
        assert!(matches!(session.outputs(), Err(RunError::NotReady(NotReady::Outputs))));
        let missing =
            Inputs::new().with("x", counting(DType::F32, &[6, 5])).with("w", counting(DType::F32, &[7, 5]));
        assert_eq!(error(&mut session, &missing), wrong("ids", InputError::Missing));
        let unknown = inputs(&IDS).with("v", counting(DType::F32, &[1]));
        assert_eq!(error(&mut session, &unknown), wrong("v", InputError::Unknown));
        let shape = error(&mut session, &inputs(&IDS).with("x", counting(DType::F32, &[5, 6]))).to_string();
        assert_eq!(shape, "input `x`: an array in memory has sizes [5, 6], the program asks for [6, 5]");
        let dtype = error(&mut session, &inputs(&IDS).with("x", counting(DType::F64, &[6, 5]))).to_string();
        assert!(dtype.contains("holds f64, the program asks for f32; `cast` it"), "{dtype}");
        assert_right(&mut session, "after wrong inputs");
    }
}

/// A source that fails or panics when it is read.
enum Bad {
    Fails(&'static str),
    Panics(&'static str),
}

impl shardweave_runtime::tensor::ArraySource for Bad {
    fn dtype(&self) -> DType {
        DType::F32
    }
    fn shape(&self) -> &[u64] {
        &[6, 5]
    }
    fn describe(&self) -> String {
        "a bad array".into()
    }
    fn read(&self, _: &[shardweave_compiler::layout::IndexSet], _: &mut [u8]) -> Result<(), ReadError> {
        match self {
            Bad::Fails(reason) => Err(ReadError::Failed(reason.to_string())),
            Bad::Panics(reason) => std::panic::resume_unwind(Box::new(reason.to_string())),
        }
    }
}

#[test]
fn a_source_that_cannot_be_read_is_an_error() {
    for backend in BACKENDS {
        let mut session = session(&everything(3), options(backend));
        for (bad, reason) in [
            (Bad::Fails("the disk is gone"), ReadError::Failed("the disk is gone".into())),
            (Bad::Panics("index out of bounds"), ReadError::Panicked("index out of bounds".into())),
        ] {
            let mut inputs = inputs(&IDS);
            inputs.insert("x", Arc::new(bad));
            let error = session.run(&inputs).unwrap_err();
            assert_eq!(error, wrong("x", InputError::Unreadable(reason)));
            assert!(session.execute().is_err(), "nothing runs on half-read inputs");
            assert_right(&mut session, "after a bad source");
        }
    }
}

#[test]
fn what_cannot_fit_is_refused_before_anything_runs() {
    let host = everything(3);
    let error = Session::from_host(
        &verified(&host),
        SessionOptions { memory: Some(1000), ..SessionOptions::default() },
    )
    .err()
    .unwrap();
    let RunError::OutOfMemory { per_device, devices, available } = error else { panic!("{error}") };
    assert_eq!((per_device, devices, available), (host.arena, 3, Some(1000)));
    // More than any machine has.
    let home = mesh("line", &[("tp", 2)], None);
    for size in [1 << 45, 1 << 60] {
        let mut hand = Hand::new();
        let x = hand.input("x", ty(DType::F32, &[("n", size)], "n/tp", &home, &[]));
        hand.program_output("x", x);
        let error = Session::from_host(&verified(&hand.finish()), SessionOptions::default()).err().unwrap();
        assert!(matches!(error, RunError::OutOfMemory { .. } | RunError::TooLarge(_)), "{error}");
    }
}

#[test]
fn a_session_can_be_sent_to_another_thread_and_dropped_at_any_time() {
    let host = everything(4);
    let mut unused = session(&host, options(Backend::Threads));
    unused.bind(&inputs(&IDS)).unwrap();
    drop(unused);
    let mut session = session(&host, options(Backend::Threads));
    assert_right(&mut session, "here");
    std::thread::spawn(move || {
        let mut session = session;
        assert_right(&mut session, "there");
    })
    .join()
    .unwrap();
}

/// A number among the operands takes the type of the other operand.
#[test]
fn numbers_take_the_type_of_what_they_meet() {
    let home = mesh("line", &[("tp", 2)], None);
    let mut hand = Hand::new();
    let x = hand.input("x", ty(DType::I32, &[("n", 3)], "n/tp", &home, &[]));
    let less = hand.output("less", ty(DType::Bool, &[("n", 3)], "n/tp", &home, &[]));
    let two = Arg::Number(shardweave_compiler::dtype::Number::Int(2));
    let operands = [Value(x), two];
    hand.push(hand.computed(Op::Zip(shardweave_compiler::op::Zip::Less), &operands, less, "n/tp", &home));
    let chosen = hand.output("chosen", ty(DType::I32, &[("n", 3)], "n/tp", &home, &[]));
    hand.push(hand.computed(Op::Where, &[Value(less), two, Value(x)], chosen, "n/tp", &home));
    let host = hand.finish();
    for backend in BACKENDS {
        let inputs = Inputs::new().with("x", Tensor::from_elements(&[3], &[1, 2, 7]));
        let outputs = session(&host, options(backend)).run(&inputs).unwrap();
        assert_eq!(outputs.get("less").unwrap().bytes(), [1, 0, 0]);
        assert_eq!(outputs.get("chosen").unwrap().elements::<i32>(), [2, 2, 7]);
    }
}
