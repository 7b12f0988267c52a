//! Steps that overlap, while they run: one is fetched while another is computed, and no delay of any
//! device or stream changes a bit.
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

/// A placement whose product runs in steps, and all ways in which these overlap.
struct Pipeline {
    layouts: &'static str,
    ways: &'static [&'static str],
}

const GATHERED: Pipeline = Pipeline {
    layouts: "x: m/tp\nw: n/tp\ny: m/stream(4), n/tp",
    ways: &["collective", "broadcast", "direct", "ring"],
};

const SCATTERED: Pipeline =
    Pipeline { layouts: "x: k/tp\nw: k/tp\ny: m/stream(4)/tp", ways: &["collective", "broadcast", "direct"] };

impl Pipeline {
    /// On four devices, overlapping that way.
    fn session(&self, way: &str, options: SessionOptions) -> Session {
        let text = format!(
            "mesh line {{ tp = 4 }}\nprogram p {{\ninput x: f32[m, k]\ninput w: f32[n, k]\n\
             y = linear(x, w)\noutput y\n}}\nplacement q for p on line {{\n{} via {way}\n}}\n",
            self.layouts
        );
        let (file, found) = parse_file(&text, &[]);
        assert!(found.is_empty(), "{found}");
        let (program, placement) = (file.programs()[0].clone(), file.placements()[0].clone());
        Session::new(program, Some(placement), SessionOptions { streams: Some(Streams::Apart), ..options })
    }
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
    for way in GATHERED.ways {
        let inputs = inputs(random);
        let expected = run(&mut GATHERED.session("none", SessionOptions::default()), &inputs, "none");
        let options = SessionOptions { record: Record::Times, link: Some(link), ..SessionOptions::default() };
        let mut watched = GATHERED.session(way, options.clone());
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
        let mut session =
            GATHERED.session(way, SessionOptions { probe: Some(holds.clone()), ..options.clone() });
        assert_eq!(run(&mut session, &inputs, way), expected, "{way}, held");
        for device in devices() {
            let computed = times(session.recording(), device, product, Doing::Compute);
            let fetched = times(session.recording(), device, gather, Doing::Copy);
            assert_eq!(computed.len(), STEPS, "{way}: products of {device}");
            for (step, (_, end)) in computed[..STEPS - 1].iter().enumerate() {
                let (start, _) = fetched[(step + 1) * holds.parts[&device]];
                assert!(start < *end, "{way}: {device} fetches step {} after step {step}", step + 1);
            }
        }
    }
}

/// The most that a device is late, in microseconds, where it moves and where it does not.
type Delays = BTreeMap<(DeviceId, bool), usize>;

/// Delays, other ones for each stream of each device and in each run.
struct Late {
    state: Mutex<(Random, Delays)>,
    /// The moves, which run on a stream of their own.
    moves: Vec<InstrId>,
}

impl Late {
    /// In the next run other streams are late.
    fn change(&self) {
        self.state.lock().unwrap().1.clear();
    }
}

impl Probe for Late {
    fn before(&self, device: DeviceId, instr: InstrId, _: Doing) -> Result<(), String> {
        let delay = {
            let (random, most) = &mut *self.state.lock().unwrap();
            let of_stream = (device, self.moves.contains(&instr));
            let most = *most.entry(of_stream).or_insert_with(|| [0, 20, 100, 400][random.below(4)]);
            if random.below(3) == 0 { random.below(most + 1) as u64 } else { 0 }
        };
        if delay > 0 {
            std::thread::sleep(Duration::from_micros(delay));
        }
        Ok(())
    }
}

#[test]
fn ch1_two_hundred_runs_with_delays_of_every_stream() {
    for pipeline in [GATHERED, SCATTERED] {
        let random = &mut Random::new(1);
        let mut apart = pipeline.session("none", SessionOptions::default());
        for way in pipeline.ways {
            let recorded = SessionOptions { record: Record::Bytes, ..SessionOptions::default() };
            let mut watched = pipeline.session(way, recorded);
            run(&mut watched, &inputs(random), way);
            let moves = watched.recording().moves.iter().map(|one| one.instr).collect();
            let late = Arc::new(Late { state: Mutex::new((Random::new(7), BTreeMap::new())), moves });
            let options = SessionOptions { probe: Some(late.clone()), ..SessionOptions::default() };
            let mut session = pipeline.session(way, options);
            for n in 0..200 {
                let inputs = inputs(random);
                late.change();
                let told = format!("{way}, run {n}");
                assert_eq!(run(&mut session, &inputs, &told), run(&mut apart, &inputs, "none"), "{told}");
            }
        }
    }
}
