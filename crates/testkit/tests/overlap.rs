//! Steps that overlap, while they run: one is fetched while another is computed. That no delay changes a
//! bit is tested in `delays.rs`.
//!
//! ```text
//!  communicates   step 0 | step 1 | step 2 | ...
//!  computes                step 0 . step 1 . ...      step 0 waits here until step 1 is being fetched
//! ```

use shardweave_compiler::file::parse_file;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_runtime::execute::{Doing, InstrId, Link, Probe, Record, Recording, Streams};
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use shardweave_testkit::fuzz::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// As many steps as devices.
const STEPS: usize = 4;

/// Rows, and the dims of the product.
const SIZES: [u64; 3] = [32, 12, 8];

/// What a device waits at most for another one, on a machine that does other things beside it.
const PATIENCE: Duration = Duration::from_secs(20);

/// All ways in which the steps of a product overlap.
const WAYS: [&str; 4] = ["collective", "broadcast", "direct", "ring"];

/// A product that gathers one operand in steps, on four devices, overlapping that way.
fn session(way: &str, options: SessionOptions) -> Session {
    let text = format!(
        "mesh line {{ tp = 4 }}\nprogram p {{\ninput x: f32[m, k]\ninput w: f32[n, k]\n\
         y = linear(x, w)\noutput y\n}}\nplacement q for p on line {{\n\
         x: m/tp\nw: n/tp\ny: m/stream(4), n/tp via {way}\n}}\n"
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{found}");
    let (program, placement) = (file.programs()[0].clone(), file.placements()[0].clone());
    Session::new(program, Some(placement), SessionOptions { streams: Some(Streams::Apart), ..options })
}

/// Small whole numbers.
fn inputs(random: &mut Random) -> Inputs {
    let [m, k, n] = SIZES;
    let mut tensor = |rows: u64| {
        let elements: Vec<f32> = (0..rows * k).map(|_| random.below(19) as f32 - 9.0).collect();
        Tensor::from_elements(&[rows, k], &elements)
    };
    Inputs::new().with("x", tensor(m)).with("w", tensor(n))
}

fn run(session: &mut Session, inputs: &Inputs, told: &str) -> Vec<u8> {
    let outputs = session.run(inputs).unwrap_or_else(|error| panic!("{told}: {error}"));
    outputs.get("y").expect("it is an output").bytes().to_vec()
}

/// The instruction that contains a text.
fn instr(recording: &Recording, text: &str) -> InstrId {
    let mut found = recording.instrs.iter().filter(|(_, instr)| instr.text.contains(text));
    found.next().unwrap_or_else(|| panic!("no instruction has {text}")).0
}

/// Keeps a step's product from being computed until the next step is being fetched.
struct Holds {
    product: InstrId,
    gather: InstrId,
    /// How many parts a device's fetching of one step has.
    parts: BTreeMap<DeviceId, usize>,
    /// For each device how many products and how many parts of fetching it came to.
    begun: Mutex<BTreeMap<(DeviceId, InstrId), usize>>,
    changed: Condvar,
}

impl Probe for Holds {
    fn before(&self, device: DeviceId, instr: InstrId, doing: Doing) -> Result<(), String> {
        let fetches = (instr, doing) == (self.gather, Doing::Copy);
        let computes = (instr, doing) == (self.product, Doing::Compute);
        if !fetches && !computes {
            return Ok(());
        }
        let mut begun = self.begun.lock().unwrap();
        *begun.entry((device, instr)).or_default() += 1;
        if fetches {
            self.changed.notify_all();
            return Ok(());
        }
        let step = begun[&(device, instr)];
        let wanted = if step < STEPS { step * self.parts[&device] + 1 } else { 0 };
        let fewer = |begun: &mut BTreeMap<(DeviceId, InstrId), usize>| {
            begun.get(&(device, self.gather)).copied().unwrap_or(0) < wanted
        };
        let waited = self.changed.wait_timeout_while(begun, PATIENCE, fewer).unwrap().1;
        match waited.timed_out() {
            true => Err(format!("step {step} is not fetched before step {} is computed", step - 1)),
            false => Ok(()),
        }
    }
}

/// The times at which a device did something for an instruction, in its order.
fn times(recording: &Recording, device: DeviceId, instr: InstrId, doing: Doing) -> Vec<(Duration, Duration)> {
    let events = recording.events.iter();
    let events = events.filter(|event| (event.device, event.instr, event.doing) == (device, instr, doing));
    events.map(|event| (event.start, event.end)).collect()
}

#[test]
fn sg28_sg15_each_step_is_fetched_before_the_one_before_it_is_computed() {
    let link = Link { latency_us: 300.0, bytes_per_us: 100.0 };
    let random = &mut Random::new(28);
    let devices = || (0..4).map(DeviceId::new);
    for way in WAYS {
        let inputs = inputs(random);
        let expected = run(&mut session("none", SessionOptions::default()), &inputs, "none");
        let options = SessionOptions { record: Record::Times, link: Some(link), ..SessionOptions::default() };
        let mut watched = session(way, options.clone());
        assert_eq!(run(&mut watched, &inputs, way), expected, "{way}");
        let recording = watched.recording();
        let (product, gather) = (instr(recording, "linear("), instr(recording, "all_gather"));
        let parts = devices().map(|device| {
            let copies = times(recording, device, gather, Doing::Copy).len();
            assert!(copies > 0 && copies.is_multiple_of(STEPS), "{way}: {copies} copies of {device}");
            (device, copies / STEPS)
        });
        let holds = Holds {
            product,
            gather,
            parts: parts.collect(),
            begun: Mutex::default(),
            changed: Condvar::new(),
        };
        let holds = Arc::new(holds);
        let mut held = session(way, SessionOptions { probe: Some(holds.clone()), ..options.clone() });
        assert_eq!(run(&mut held, &inputs, way), expected, "{way}, held");
        for device in devices() {
            let computed = times(held.recording(), device, product, Doing::Compute);
            let fetched = times(held.recording(), device, gather, Doing::Copy);
            assert_eq!(computed.len(), STEPS, "{way}: products of {device}");
            for (step, (_, end)) in computed[..STEPS - 1].iter().enumerate() {
                let (start, _) = fetched[(step + 1) * holds.parts[&device]];
                assert!(start < *end, "{way}: {device} fetches step {} after step {step}", step + 1);
            }
        }
    }
}
