//! What goes wrong on one rank is heard by all, and their sessions go on: sources that cannot be read, probes that
//! refuse and panic at every part of a run, engines that refuse; and an engine whose ranks are late ends all.

use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::file::parse_file;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::{IndexSet, Layout};
use shardweave_compiler::mesh::{DeviceId, Mesh};
use shardweave_compiler::program::SizeBinder;
use shardweave_runtime::array::Array;
use shardweave_runtime::engine::{Engine, EngineError, Exchange, Late, Place, SharedBytes};
use shardweave_runtime::execute::{Doing, How, InstrId, NotReady, Probe, Record, RunError, Streams};
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, ReadError, Tensor};
use shardweave_testkit::ranks::{Rank, on_ranks};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// All on one host, each on its own, and two of three together.
const HOSTS: [[u32; 3]; 3] = [[0, 0, 0], [0, 1, 2], [0, 1, 0]];

/// Gathers, sums that are scattered, and a loop whose steps overlap.
const MLP: &str = "input x: f32[b=2, s=12, e=24]\ninput w0: f32[h=30, e]\ninput w1: f32[e, h]\n\
                   y0 = linear(x, w0)\ny1 = gelu(y0)\ny2 = linear(y1, w1)\noutput y2";
const PLACED: &str = "x: s/tp\nw0: h/tp\ny0: h/tp, s/stream(3)\nw1: h/tp\ny2: s/stream(3)/tp";

/// A program of three devices, and what it gives for its inputs.
struct Case {
    plan: Plan,
    inputs: Inputs,
    expected: Vec<(String, Tensor)>,
}

impl Case {
    fn new(statements: &str, placed: &str) -> Case {
        let text = format!(
            "mesh line {{ tp = 3 }}\nprogram p {{\n{statements}\n}}\nplacement q for p on line {{\n{placed}\n}}\n"
        );
        let (file, found) = parse_file(&text, &[]);
        assert!(found.is_empty(), "{found}");
        let (program, placement) = (&file.programs()[0], file.placements().first());
        let sizes = SizeBinder::new(program).finish().expect("all sizes are in the text");
        let plan =
            compile(program, placement, &sizes, &CompileOptions::default()).expect("it can be planned");
        let inputs = program.values().keys().filter(|&id| program.is_input(id));
        let inputs = inputs.fold(Inputs::new(), |inputs, id| {
            inputs.with(program.values()[id].name.clone(), RandomArray::for_input(1, program, &sizes, id))
        });
        let session = Session::from_plan(plan.clone(), SessionOptions::default());
        let expected =
            session.and_then(|mut session| session.run(&inputs)).expect("threads run it").into_vec();
        Case { plan, inputs, expected }
    }

    fn mlp() -> Case {
        Case::new(MLP, PLACED)
    }

    fn session(&self, engine: Arc<dyn Engine>, options: SessionOptions) -> Session {
        let options = SessionOptions { engine: Some(engine), ..options };
        Session::from_plan(self.plan.clone(), options).expect("it can be loaded")
    }

    /// A run that goes well, on all ranks.
    fn assert_runs(&self, session: &mut Session, rank: usize) {
        let outputs = session.run(&self.inputs).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
        let expected = if rank == 0 { &self.expected[..] } else { &[] };
        assert_eq!(outputs.iter().count(), expected.len());
        for (name, tensor) in expected {
            assert_eq!(outputs.get(name).expect("an output").bytes(), tensor.bytes(), "{name}");
        }
    }
}

/// An array whose elements cannot be read.
struct Unreadable(Arc<dyn ArraySource>);

impl ArraySource for Unreadable {
    fn dtype(&self) -> DType {
        self.0.dtype()
    }

    fn shape(&self) -> &[u64] {
        self.0.shape()
    }

    fn describe(&self) -> String {
        "a torn tape".into()
    }

    fn read(&self, _: &[IndexSet], _: &mut [u8]) -> Result<(), ReadError> {
        Err(ReadError::Failed("the tape is torn".into()))
    }
}

#[test]
fn each_rank_brings_the_piece_of_its_device() {
    let case = Case::mlp();
    for hosts in HOSTS {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let mut session = case.session(engine, SessionOptions::default());
            let line: Arc<Mesh> = Arc::new("mesh line { tp = 3 }".parse().expect("a mesh"));
            let mut local = Inputs::new();
            for (name, dims, cut) in [
                ("x", &["b", "s", "e"][..], "s/tp"),
                ("w0", &["h", "e"], "h/tp"),
                ("w1", &["e", "h"], "h/tp"),
            ] {
                let layout = Layout::parse(cut, dims, &line).expect("a layout");
                let source = case.inputs.get(name).expect("an input");
                let whole = Array::place(&**source, dims, layout).expect("it can be placed");
                let own = whole.piece(DeviceId::new(rank)).expect("all devices have a piece").clone();
                let array = Array::from_local(whole.ty().clone(), [(DeviceId::new(rank), own)]);
                local.insert(name, Arc::new(array.expect("the piece fits")));
            }
            let outputs = session.run(&local).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            for (name, tensor) in case.expected.iter().filter(|_| rank == 0) {
                assert_eq!(outputs.get(name).expect("an output").bytes(), tensor.bytes(), "{name}");
            }
        });
    }
}

#[test]
fn inputs_that_one_rank_cannot_read_are_bound_on_none() {
    let case = Case::mlp();
    for hosts in HOSTS {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let mut session = case.session(engine, SessionOptions::default());
            case.assert_runs(&mut session, rank);
            let torn = Arc::new(Unreadable(case.inputs.get("w1").expect("an input").clone()));
            let mut unreadable = case.inputs.clone();
            unreadable.insert("w1", torn);
            let lacking = case.inputs.iter().filter(|(name, _)| *name != "x");
            let lacking = lacking.fold(Inputs::new(), |mut some, (name, array)| {
                some.insert(name, array.clone());
                some
            });
            for (wrong, text) in [(&unreadable, "the tape is torn"), (&lacking, "`x`")] {
                let failed = session.bind(if rank == 1 { wrong } else { &case.inputs });
                match failed {
                    Err(RunError::Elsewhere { rank: 1, message }) if rank != 1 => {
                        assert!(message.contains(text), "{message}");
                    }
                    Err(error @ RunError::Inputs(_)) if rank == 1 => {
                        assert!(error.to_string().contains(text), "{error}");
                    }
                    other => panic!("rank {rank}: {other:?}"),
                }
                // If some ranks ran, they would wait for the others without end.
                assert_eq!(session.execute(), Err(RunError::NotReady(NotReady::Inputs)), "rank {rank}");
                assert_eq!(
                    session.outputs().err(),
                    Some(RunError::NotReady(NotReady::Outputs)),
                    "rank {rank}"
                );
                case.assert_runs(&mut session, rank);
            }
        });
    }
}

/// Fails at one of the things that a device does, all lanes counted on.
struct FailsAt {
    device: DeviceId,
    left: AtomicUsize,
    how: How,
}

impl Probe for FailsAt {
    fn before(&self, device: DeviceId, _: InstrId, _: Doing) -> Result<(), String> {
        if device != self.device || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Ok(());
        }
        match &self.how {
            // A panic that prints nothing.
            How::Panic(reason) => std::panic::resume_unwind(Box::new(reason.clone())),
            how => Err(format!("{how:?}")),
        }
    }
}

/// The probe of a rank, which can be told where to fail.
#[derive(Default)]
struct Probes(std::sync::Mutex<Option<FailsAt>>);

impl Probe for Probes {
    fn before(&self, device: DeviceId, instr: InstrId, doing: Doing) -> Result<(), String> {
        let probe = self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        probe.as_ref().map_or(Ok(()), |probe| probe.before(device, instr, doing))
    }
}

#[test]
fn a_failure_anywhere_on_a_rank_is_told_on_all_and_their_sessions_go_on() {
    let case = Case::mlp();
    for (hosts, streams) in
        HOSTS.into_iter().flat_map(|hosts| [(hosts, Streams::Merged), (hosts, Streams::Apart)])
    {
        let failures = on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let probes = Arc::new(Probes::default());
            let options = SessionOptions {
                streams: Some(streams),
                record: Record::Bytes,
                probe: Some(probes.clone()),
                ..SessionOptions::default()
            };
            let mut session = case.session(engine, options);
            let set = |probe| *probes.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = probe;
            let mut failures = 0;
            for device in 0..hosts.len() {
                // All ranks see how the run went, so all leave off at the same number.
                for (number, how) in
                    (1..).flat_map(|n| [(n, How::Refused("no".into())), (n, How::Panic("oh".into()))])
                {
                    let device = DeviceId::new(device);
                    set(Some(FailsAt { device, left: AtomicUsize::new(number), how: how.clone() }));
                    let ran = session.run(&case.inputs);
                    set(None);
                    match ran {
                        Ok(_) => break,
                        Err(RunError::Device(failure)) => {
                            assert_eq!(failure.device, device);
                            assert!(matches!(
                                (&failure.how, &how),
                                (How::Panic(_), How::Panic(_)) | (How::Refused(_), How::Refused(_))
                            ));
                        }
                        Err(error) => panic!("rank {rank}: {error}"),
                    }
                    assert_eq!(session.outputs().err(), Some(RunError::NotReady(NotReady::Outputs)));
                    case.assert_runs(&mut session, rank);
                    failures += 1;
                }
            }
            failures
        });
        assert!(failures[0] >= 60, "{hosts:?}: only {} failures", failures[0]);
        assert!(failures.iter().all(|count| *count == failures[0]));
    }
}

/// An engine one of whose calls fails, the same one on all ranks.
struct Faulty {
    engine: Arc<Rank>,
    /// Calls that are to be made still, up to the one that fails.
    left: AtomicUsize,
    error: EngineError,
    /// Whether only a `gather` counts.
    gathers: bool,
}

impl Faulty {
    fn call(&self, gathers: bool) -> Result<(), EngineError> {
        if self.gathers && !gathers || self.left.fetch_sub(1, Ordering::Relaxed) != 1 {
            return Ok(());
        }
        Err(self.error.clone())
    }
}

impl Engine for Faulty {
    fn place(&self) -> &Place {
        self.engine.place()
    }

    /// Who waits for the ticks of a rank that was ended is a thread, and does not end with it.
    fn timeout(&self) -> Option<Duration> {
        Some(Duration::from_millis(300))
    }

    fn share(&self, bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        self.call(false)?;
        self.engine.share(bytes)
    }

    fn give_back(&self) -> Result<(), EngineError> {
        self.call(false)?;
        self.engine.give_back()
    }

    fn exchange(&self, exchange: Exchange<'_, '_>) -> Result<(), EngineError> {
        self.engine.exchange(exchange)
    }

    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        self.call(false)?;
        self.engine.tell_all(own)
    }

    fn least(&self, own: u64) -> Result<u64, EngineError> {
        self.call(false)?;
        self.engine.least(own)
    }

    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        self.call(true)?;
        self.engine.gather(own)
    }

    fn abort(&self, reason: &str) -> ! {
        self.engine.abort(reason)
    }
}

/// Whatever call of the engine finds that others are late, all ranks are ended: no error comes out of a session.
#[test]
fn a_rank_that_is_late_ends_all_wherever_it_is_awaited() {
    let case = Case::mlp();
    let mut ended = 0;
    for number in 1.. {
        let ran = catch_unwind(AssertUnwindSafe(|| {
            on_ranks(&[0, 1, 0], |engine| {
                let (left, error) = (AtomicUsize::new(number), EngineError::Late(Late::of(vec![2])));
                let faulty = Arc::new(Faulty { engine, left, error, gathers: false });
                let failing = Arc::new(Probes::default());
                let options = SessionOptions {
                    engine: Some(faulty.clone()),
                    record: Record::Bytes,
                    probe: Some(failing.clone()),
                    ..SessionOptions::default()
                };
                let mut session = Session::from_plan(case.plan.clone(), options)?;
                session.run(&case.inputs)?;
                // What ranks tell each other after a failure counts as well.
                let (device, how) = (DeviceId::new(1), How::Refused("no".into()));
                *failing.0.lock().unwrap() = Some(FailsAt { device, left: AtomicUsize::new(1), how });
                assert!(matches!(session.run(&case.inputs), Err(RunError::Device(_))));
                let wrong = if engine_rank(&faulty) == 1 { Inputs::new() } else { case.inputs.clone() };
                assert!(session.bind(&wrong).is_err());
                Ok(faulty.left.load(Ordering::Relaxed) > 0)
            })
        }));
        match ran {
            Err(_) => ended += 1,
            Ok(ran) => {
                let ran: Result<Vec<bool>, RunError> = ran.into_iter().collect();
                assert_eq!(ran, Ok(vec![true; 3]), "call {number} failed, and no rank was ended");
                break;
            }
        }
    }
    assert!(ended >= 15, "only {ended} calls");
}

fn engine_rank(engine: &Faulty) -> usize {
    engine.place().rank
}

/// All ranks have, or have not, the results of a run that went well, whatever becomes of what was recorded.
#[test]
fn results_are_there_also_where_what_was_recorded_is_lost() {
    let case = Case::new(
        "input x: f32[s=12, e=6]\na = reshard(x)\nb = square(a)\nc = reshard(b)\noutput c",
        "x: s/tp\na: e/tp\nb: e/tp\nc: s/tp",
    );
    let refused = EngineError::Refused("the wire is cut".into());
    on_ranks(&[0, 1, 0], |engine| {
        let rank = engine.place().rank;
        let faulty = Faulty { engine, left: AtomicUsize::new(1), error: refused.clone(), gathers: true };
        let options = SessionOptions { record: Record::Bytes, ..SessionOptions::default() };
        let mut session = case.session(Arc::new(faulty), options);
        session.bind(&case.inputs).expect("inputs can be read");
        assert_eq!(session.execute(), Err(RunError::Engine("the wire is cut".into())));
        let outputs = session.outputs().expect("the run itself went well");
        assert_eq!(outputs.iter().count(), usize::from(rank == 0));
        assert!(outputs.iter().all(|(_, tensor)| tensor.bytes() == case.expected[0].1.bytes()));
        case.assert_runs(&mut session, rank);
    });
}

/// An engine one of whose ranks asks for more memory than there is, at one of its calls of `share`.
struct Greedy {
    engine: Arc<Rank>,
    left: AtomicUsize,
}

impl Engine for Greedy {
    fn place(&self) -> &Place {
        self.engine.place()
    }

    fn share(&self, bytes: usize) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        let greedy = self.left.fetch_sub(1, Ordering::Relaxed) == 1 && self.place().rank == 1;
        self.engine.share(if greedy { isize::MAX as usize } else { bytes })
    }

    fn give_back(&self) -> Result<(), EngineError> {
        self.engine.give_back()
    }

    fn exchange(&self, exchange: Exchange<'_, '_>) -> Result<(), EngineError> {
        self.engine.exchange(exchange)
    }

    fn tell_all(&self, own: &[u8]) -> Result<Vec<Vec<u8>>, EngineError> {
        self.engine.tell_all(own)
    }

    fn least(&self, own: u64) -> Result<u64, EngineError> {
        self.engine.least(own)
    }

    fn gather(&self, own: &[u8]) -> Result<Option<Vec<Vec<u8>>>, EngineError> {
        self.engine.gather(own)
    }

    fn abort(&self, reason: &str) -> ! {
        self.engine.abort(reason)
    }
}

/// Who cannot have its memory says why, the others hear of it, and all can begin again: ticks, constants, the rest.
#[test]
fn memory_that_one_rank_cannot_have_is_told_by_that_rank() {
    let case = Case::mlp();
    for (hosts, call) in HOSTS.into_iter().flat_map(|hosts| (1..=3).map(move |call| (hosts, call))) {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let engine = Arc::new(Greedy { engine, left: AtomicUsize::new(call) });
            let options = SessionOptions { engine: Some(engine.clone()), ..SessionOptions::default() };
            match Session::from_plan(case.plan.clone(), options).err() {
                Some(RunError::NotShared(_)) if rank == 1 => {}
                Some(RunError::Elsewhere { rank: 1, message }) if rank != 1 => {
                    assert!(message.contains("cannot be had"), "{message}");
                }
                other => panic!("rank {rank}, call {call}: {other:?}"),
            }
            case.assert_runs(&mut case.session(engine, SessionOptions::default()), rank);
        });
    }
}

/// Ranks that differ in what they chose run nothing: the ticks of one would mean nothing to another.
#[test]
fn ranks_that_choose_other_streams_are_told_apart() {
    let case = Case::mlp();
    on_ranks(&[0, 0, 0], |engine| {
        let streams = if engine.place().rank == 2 { Streams::Apart } else { Streams::Merged };
        let options =
            SessionOptions { engine: Some(engine), streams: Some(streams), ..SessionOptions::default() };
        let session = Session::from_plan(case.plan.clone(), options);
        assert_eq!(session.err(), Some(RunError::RanksDiffer { rank: 2 }));
    });
}
