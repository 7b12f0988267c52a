//! A failure put into every part of every instruction of whole programs, on every device that runs it, as
//! an error and as a panic.
//!
//! ```text
//!  a run that is watched ──▶ all spots: device, instruction, the n-th part of it there
//!  for each spot:  fail ──▶ told within a second, by name     panic ──▶ the same     nothing ──▶ right bits
//!  drop the session ──▶ its threads and its memory are gone
//! ```
//!
//! Threads and memory are those of the whole process, so the file has one test.

use peak_alloc::PeakAlloc;
use shardweave_compiler::compile::Plan;
use shardweave_compiler::file::parse_file;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::program::{SizeBinder, ValueId};
use shardweave_runtime::execute::{
    Backend, Doing, Failure, How, InstrId, Loans, NotReady, Probe, Record, RunError, Streams,
};
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Outputs, Session, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, Tensor};
use shardweave_testkit::{Trial, agree, backends_agree};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// A run that fails is over by then, on a machine that does other things beside it.
const AT_ONCE: Duration = Duration::from_secs(1);

const MLP: &str = "input x: f32[b=2, s=12, e=24]\ninput w0: f32[h=32, e]\ninput b0: f32[h]\n\
                   input w1: f32[e, h]\ninput b1: f32[e]\n\
                   y0 = linear(x, w0, b0)\ny1 = gelu(y0)\ny2 = linear(y1, w1, b1)\noutput y2";

/// What it shows, the statements, the placement.
const PROGRAMS: [(&str, &str, &str); 7] = [
    (
        "a gather before and a reduce_scatter after",
        MLP,
        "on line {\nx: s/tp\nw0: h/tp\nb0: h/tp\ny0: h/tp\nw1: h/tp\ny2: s/tp\n}",
    ),
    (
        "rows that are lent, by what is overwritten afterwards",
        "input x: f32[s=10, e=6]\ninput w: f32[h=8, e]\ninput a: f32[q=64, r=8]\n\
         t = exp(x)\ny = linear(t, w)\nz = relu(x)\nbig = exp(a)\nd = sum(big, r)\noutput y\noutput z\noutput d",
        "on line {\nx: s/tp\nt: s/tp\nw: h/tp\ny: h/tp\nz: s/tp on back\na: replicated\n\
         big: replicated\nd: replicated\n}",
    ),
    (
        "streams: two lanes a device, events between them",
        MLP,
        "on line {\nx: s/tp\nw0: h/tp\nb0: h/tp\ny0: h/tp, s/stream(3)\nw1: h/tp\ny2: s/stream(3)/tp\n}",
    ),
    (
        "summaries of a cut dim",
        "input x: f32[s=6, e=10]\ny = softmax(x, e)\nz = argmax(y, e)\noutput y\noutput z",
        "on line {\nx: e/tp\ny: e/tp\n}",
    ),
    (
        "a table cut by its rows",
        "input ids: i64[s=9]\ninput table: f32[v=14, e=6]\ny = embedding(ids, table)\noutput y",
        "on line {\ntable: v/tp\ny: s/tp\n}",
    ),
    (
        "two meshes, one after the other",
        "input x: f32[s=8, e=6]\ninput w: f32[h=10, e]\ninput v: f32[e, h]\n\
         y = linear(x, w)\nz = relu(y)\nr = linear(z, v)\noutput r",
        "on early {\nx: s/t\ny: s/t\nz: s/stream(2), h/t on late\nr: s/t on late\n}",
    ),
    (
        "pieces of all sizes, none among them",
        "input x: f32[s=5, e=7]\na = reshard(x)\nb = square(a)\nc = reshard(b)\nd = sum(c, e)\noutput c\noutput d",
        "on line {\nx: s/tp\na: e/tp(0, 4, 0, 3)\nb: s/tp(5, 0, 0, 0)\nc: s/tp\nd: replicated\n}",
    ),
];

/// A program, ready to be run, and what it gives.
struct Case {
    name: &'static str,
    plan: Plan,
    inputs: Inputs,
    /// With what is lent read at once, and block by block, which can differ in the last bit.
    expected: [Vec<(String, Tensor)>; 2],
}

impl Case {
    /// What it gives is the reference's answer, in the bits that an undisturbed session has.
    fn new((name, statements, placement): (&'static str, &str, &str)) -> Case {
        let text = format!(
            "mesh line {{ tp = 4 }}\nmesh back {{ tp = 4 }} devices [3, 2, 1, 0]\nmesh early {{ t = 2 }}\nmesh late {{ t = 2 }} devices [3, 2]\n\
             program p {{\n{statements}\n}}\nplacement q for p {placement}\n"
        );
        let (file, found) = parse_file(&text, &[]);
        assert!(found.is_empty(), "{name}: {found}");
        let (program, placement) = (&file.programs()[0], file.placements().first());
        let sizes = SizeBinder::new(program).finish().unwrap_or_else(|error| panic!("{name}: {error}"));
        let inputs: BTreeMap<ValueId, Tensor> = program
            .values()
            .keys()
            .filter(|&id| program.is_input(id))
            .map(|id| (id, whole(&RandomArray::for_input(1, program, &sizes, id))))
            .collect();
        let trial = Trial { program, placement, sizes: &sizes, inputs: &inputs };
        agree(&trial).unwrap_or_else(|error| panic!("{name}: {error}"));
        let (plan, _) = backends_agree(&trial).unwrap_or_else(|error| panic!("{name}: {error}"));
        let named = inputs
            .into_iter()
            .fold(Inputs::new(), |named, (id, tensor)| named.with(program.values()[id].name.clone(), tensor));
        let lent = plan.host.buffers.values().any(|buffer| buffer.lender.is_some());
        assert!(lent || !name.contains("lent"), "{name}: {}", plan.host);
        let expected = [Loans::Never, Loans::Always].map(|loans| {
            let options = SessionOptions { backend: Backend::Lockstep, loans, ..SessionOptions::default() };
            let ran = Session::from_plan(plan.clone(), options).and_then(|mut session| session.run(&named));
            ran.unwrap_or_else(|error| panic!("{name}: {error}")).into_vec()
        });
        Case { name, plan, inputs: named, expected }
    }

    fn assert_right(&self, outputs: &Outputs, loans: Loans, told: &dyn Fn() -> String) {
        for (name, tensor) in &self.expected[usize::from(loans == Loans::Always)] {
            let found = outputs.get(name).unwrap_or_else(|| panic!("{}: no {name}", told()));
            assert_eq!(found.bytes(), tensor.bytes(), "{}: {name}", told());
        }
    }
}

fn whole(source: &RandomArray) -> Tensor {
    let mut tensor = Tensor::zeros(source.dtype(), source.shape());
    let all: Vec<_> = tensor.shape().iter().map(|&size| IndexSet::range(0, size)).collect();
    source.read(&all, tensor.bytes_mut()).expect("nothing of it can be missing");
    tensor
}

/// One thing that a device does in a run: the n-th part of an instruction, all steps counted on.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct Spot {
    instr: InstrId,
    device: DeviceId,
    part: usize,
}

/// Counts what every device does, and fails at spots.
#[derive(Default)]
struct Injector(Mutex<Injected>);

#[derive(Default)]
struct Injected {
    /// How many parts of each instruction each device came to.
    parts: BTreeMap<(InstrId, DeviceId), usize>,
    fails: Vec<(Spot, How)>,
}

impl Injector {
    /// The next run fails there.
    fn set(&self, fails: &[(Spot, How)]) {
        *self.0.lock().unwrap() = Injected { parts: BTreeMap::new(), fails: fails.to_vec() };
    }

    /// All spots of the run that was.
    fn spots(&self) -> Vec<Spot> {
        let parts = &self.0.lock().unwrap().parts;
        let of = |(&(instr, device), &count): (&(InstrId, DeviceId), &usize)| {
            (0..count).map(move |part| Spot { instr, device, part })
        };
        parts.iter().flat_map(of).collect()
    }
}

impl Probe for Injector {
    fn before(&self, device: DeviceId, instr: InstrId, _: Doing) -> Result<(), String> {
        let how = {
            let mut injected = self.0.lock().unwrap();
            // A device runs an instruction in one lane, so its parts come in one order.
            let count = injected.parts.entry((instr, device)).or_default();
            let spot = Spot { instr, device, part: *count };
            *count += 1;
            injected.fails.iter().find(|(at, _)| *at == spot).map(|(_, how)| how.clone())
        };
        match how {
            None => Ok(()),
            Some(How::Refused(reason)) => Err(reason),
            Some(How::Kernel(error)) => Err(error.to_string()),
            // A panic that prints nothing.
            Some(How::Panic(reason)) => std::panic::resume_unwind(Box::new(reason)),
        }
    }
}

/// A session of a case that can be made to fail.
struct Trials<'a> {
    case: &'a Case,
    session: Session,
    injector: Arc<Injector>,
    arrangement: Arrangement,
}

type Arrangement = (Backend, Streams, Loans);

impl<'a> Trials<'a> {
    fn new(case: &'a Case, arrangement: Arrangement) -> Trials<'a> {
        let injector = Arc::new(Injector::default());
        let (backend, streams, loans) = arrangement;
        let options = SessionOptions {
            backend,
            streams: Some(streams),
            loans,
            record: Record::Bytes,
            probe: Some(injector.clone()),
            ..SessionOptions::default()
        };
        let session = Session::from_plan(case.plan.clone(), options);
        let session = session.unwrap_or_else(|error| panic!("{}: {error}", case.name));
        Trials { case, session, injector, arrangement }
    }

    /// Runs with these failures, of which the first is told.
    fn fail(&mut self, fails: &[(Spot, How)]) -> Failure {
        let told = || format!("{} {:?}, failing at {fails:?}", self.case.name, self.arrangement);
        self.injector.set(fails);
        let start = Instant::now();
        let ran = self.session.run(&self.case.inputs);
        let took = start.elapsed();
        assert!(took < AT_ONCE, "{}: it took {took:?} to stop", told());
        let error = ran.err().unwrap_or_else(|| panic!("{}: it ran", told()));
        let RunError::Device(failure) = error else { panic!("{}: {error}", told()) };
        let (spot, _) = fails
            .iter()
            .find(|(spot, how)| (spot.device, how) == (failure.device, &failure.how))
            .unwrap_or_else(|| panic!("{}: nobody made it fail so: {failure}", told()));
        let text = &self.session.recording().instrs[spot.instr].text;
        assert!(failure.instruction.starts_with(&format!("`{text}`")), "{}: {failure}", told());
        let none = self.session.outputs().err();
        assert_eq!(none, Some(RunError::NotReady(NotReady::Outputs)), "{}", told());
        failure
    }

    /// Runs without failures.
    fn succeed(&mut self, before: &dyn Fn() -> String) {
        self.injector.set(&[]);
        let outputs = self.session.run(&self.case.inputs);
        let outputs = outputs.unwrap_or_else(|error| panic!("{}: {error}", before()));
        self.case.assert_right(&outputs, self.arrangement.2, before);
    }

    /// Fails at every spot in turn, and at two; all that was told, in an order that is the same for every
    /// backend.
    fn all(&mut self) -> Vec<String> {
        let (name, arrangement) = (self.case.name, self.arrangement);
        self.succeed(&|| format!("{name} {arrangement:?}, undisturbed"));
        let spots = self.injector.spots();
        let devices = spots.iter().map(|spot| spot.device).max().map_or(0, |last| last.index() + 1);
        assert_eq!(devices, 4, "{name}: every device has something to do");
        let (refused, panics) = (How::Refused("enough".into()), How::Panic("too much".into()));
        let mut told = Vec::new();
        for (at, &spot) in spots.iter().enumerate() {
            let alone = self.fail(&[(spot, refused.clone())]);
            let panicked = self.fail(&[(spot, panics.clone())]);
            assert_eq!(panicked, Failure { how: panics.clone(), ..alone.clone() }, "{name} at {spot:?}");
            // And another, anywhere: the earlier in program order is told. Two in one instruction may keep each
            // other from being reached; every backend then tells the same one.
            let other = spots[(at * 7 + spots.len() / 2) % spots.len()];
            let both = self.fail(&[(spot, refused.clone()), (other, panics.clone())]);
            let in_loop = |failure: &Failure| failure.instruction.contains(", in step ");
            if spot.instr != other.instr && !in_loop(&alone) && !in_loop(&both) {
                let how = if spot < other { &refused } else { &panics };
                assert_eq!(both.device, spot.min(other).device, "{name}: {spot:?} and {other:?}");
                assert_eq!(both.how, *how, "{name}: {spot:?} and {other:?}");
            }
            told.extend([alone.to_string(), both.to_string()]);
            self.succeed(&|| format!("{name} {arrangement:?}, after failures at {spot:?}"));
        }
        told
    }
}

/// How many threads the process has.
fn threads() -> usize {
    std::fs::read_dir("/proc/self/task").expect("Linux lists the threads of a process").count()
}

/// Whether there are so many threads, at the latest after a while: the system lists one that was joined for a
/// moment still.
fn threads_become(count: usize) -> bool {
    let start = Instant::now();
    while threads() != count {
        if start.elapsed() > AT_ONCE {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

#[test]
fn a_failure_anywhere_in_a_whole_program_is_told_at_once_and_leaves_nothing_behind() {
    for program in PROGRAMS {
        let case = Case::new(program);
        let is_lent = case.plan.host.buffers.values().any(|buffer| buffer.lender.is_some());
        let loans = if is_lent { &[Loans::Never, Loans::Always][..] } else { &[Loans::Never] };
        let streams = [Streams::Merged, Streams::Apart];
        for (streams, &loans) in
            streams.iter().flat_map(|&streams| loans.iter().map(move |loans| (streams, loans)))
        {
            let mut told: Vec<Vec<String>> = Vec::new();
            for backend in [Backend::Threads, Backend::Lockstep] {
                let arrangement = (backend, streams, loans);
                // What is set up once for the process stands before memory is counted.
                Trials::new(&case, arrangement).succeed(&|| format!("{} at first", case.name));
                told.push(Trials::new(&case, arrangement).all());
                let (threads_before, bytes_before) = (threads(), HEAP.current_usage());
                let again = Trials::new(&case, arrangement).all();
                let same = again == *told.last().expect("it was told just now");
                drop(again);
                assert!(same, "{} {arrangement:?}: the same failures are told alike", case.name);
                assert!(threads_become(threads_before), "{} {arrangement:?} leaves threads", case.name);
                assert_eq!(HEAP.current_usage(), bytes_before, "{} {arrangement:?} leaves memory", case.name);
            }
            assert!(told[0].len() >= 40, "{}: only {} failures", case.name, told[0].len());
            if loans == Loans::Always {
                continue; // in lockstep what is lent is copied: that has other parts
            }
            let differ = told[0].iter().zip(&told[1]).find(|(threads, lockstep)| threads != lockstep);
            assert_eq!(differ, None, "{} {streams:?}: threads and lockstep tell different things", case.name);
        }
    }
}
