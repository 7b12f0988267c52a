//! Steps that overlap, with delays of every stream of every device, others in each run: nothing that one
//! stream still reads may be written by another, however late either is, so no bit may differ from the
//! program whose steps run one after the other.
//!
//! Every way of overlap, where operands are gathered, where results are reduced, and where both sides of a
//! chain of two products are one pipeline; on two, three and four devices.

use shardweave_compiler::file::parse_file;
use shardweave_compiler::host::StreamId;
use shardweave_compiler::id::Table;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::placement::Overlap;
use shardweave_runtime::execute::{Doing, InstrId, Link, Probe, Record, Streams};
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use shardweave_testkit::fuzz::Random;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How often each way runs, each time with other inputs and other delays.
const RUNS: usize = 200;

/// The sizes of all dims: pieces of every number of devices are even, so that every way can be walked.
const SIZES: [(&str, u64); 4] = [("m", 24), ("k", 12), ("h", 12), ("e", 8)];

/// A program of whole numbers, placed so that it runs in steps.
struct Pipeline {
    /// The inputs with their dims, and the operations.
    inputs: &'static [(&'static str, [&'static str; 2])],
    operations: &'static str,
    output: &'static str,
    /// The entries of the placement; `STEPS` and `WAY` stand for what differs.
    layouts: &'static str,
}

const GATHERED: Pipeline = Pipeline {
    inputs: &[("x", ["m", "k"]), ("w", ["h", "k"])],
    operations: "y = linear(x, w)",
    output: "y",
    layouts: "x: m/tp\nw: h/tp\ny: m/stream(STEPS), h/tp via WAY",
};

const REDUCED: Pipeline = Pipeline {
    inputs: &[("x", ["m", "k"]), ("w", ["h", "k"])],
    operations: "y = linear(x, w)",
    output: "y",
    layouts: "x: k/tp\nw: k/tp\ny: m/stream(STEPS)/tp via WAY",
};

const CHAINED: Pipeline = Pipeline {
    inputs: &[("x", ["m", "k"]), ("w0", ["h", "k"]), ("w1", ["e", "h"])],
    operations: "y0 = linear(x, w0)\ny1 = relu(y0)\ny = linear(y1, w1)",
    output: "y",
    layouts: "x: m/tp\nw0: h/tp\ny0: m/stream(STEPS), h/tp via WAY\nw1: h/tp\ny: m/tp via WAY",
};

impl Pipeline {
    fn session(&self, devices: usize, way: Overlap, options: SessionOptions) -> Session {
        let inputs =
            self.inputs.iter().map(|(name, [row, column])| format!("input {name}: f32[{row}, {column}]\n"));
        let text = format!(
            "mesh line {{ tp = {devices} }}\nprogram p {{\n{}{}\noutput {}\n}}\nplacement q for p on line {{\n{}\n}}\n",
            inputs.collect::<String>(),
            self.operations,
            self.output,
            self.layouts.replace("STEPS", &devices.to_string()).replace("WAY", way.name())
        );
        let (file, found) = parse_file(&text, &[]);
        assert!(found.is_empty(), "{found}\n{text}");
        Session::new(file.programs()[0].clone(), Some(file.placements()[0].clone()), options)
    }

    /// Small whole numbers: their sums are exact in `f32`.
    fn inputs(&self, random: &mut Random) -> Inputs {
        let size = |dim: &str| SIZES.iter().find(|(name, _)| *name == dim).expect("a dim with a size").1;
        let mut inputs = Inputs::new();
        for (name, dims) in self.inputs {
            let shape = dims.map(size);
            let count = shape.iter().product::<u64>();
            let elements: Vec<f32> = (0..count).map(|_| random.below(19) as f32 - 9.0).collect();
            inputs = inputs.with(*name, Tensor::from_elements(&shape, &elements));
        }
        inputs
    }

    fn run(&self, session: &mut Session, inputs: &Inputs, told: &str) -> Vec<u8> {
        let outputs = session.run(inputs).unwrap_or_else(|error| panic!("{told}: {error}"));
        outputs.get(self.output).expect("it is an output").bytes().to_vec()
    }

    /// All ways on so many devices, each so often.
    fn holds(&self, devices: usize, link: Option<Link>) {
        let random = &mut Random::new(devices as u64);
        let plain = SessionOptions { streams: Some(Streams::Merged), ..SessionOptions::default() };
        let apart = SessionOptions { streams: Some(Streams::Apart), link, ..SessionOptions::default() };
        let mut unpipelined = self.session(devices, Overlap::None, plain);
        for way in Overlap::ALL.into_iter().filter(|way| *way != Overlap::None) {
            let recorded = SessionOptions { record: Record::Bytes, ..apart.clone() };
            let mut watched = self.session(devices, way, recorded);
            self.run(&mut watched, &self.inputs(random), way.name());
            let plan = watched.plan().expect("it was compiled");
            let ways: Vec<Overlap> = plan.report.collectives.iter().map(|one| one.overlap).collect();
            assert!(ways.contains(&way), "{} on {devices} runs as {ways:?}", way.name());
            let streams = watched.recording().instrs.values().map(|instr| instr.stream).collect();
            let late = Arc::new(Late { state: Mutex::new((Random::new(7), BTreeMap::new())), streams });
            let mut session =
                self.session(devices, way, SessionOptions { probe: Some(late.clone()), ..apart.clone() });
            for n in 0..RUNS {
                let inputs = self.inputs(random);
                late.change();
                let told = format!("{} on {devices} devices, run {n}", way.name());
                let expected = self.run(&mut unpipelined, &inputs, "none");
                assert!(self.run(&mut session, &inputs, &told) == expected, "{told}: other bits");
            }
        }
    }
}

/// The most that a stream of a device is late, in microseconds.
type Delays = BTreeMap<(DeviceId, StreamId), usize>;

/// Delays, other ones for each stream of each device and in each run.
struct Late {
    state: Mutex<(Random, Delays)>,
    /// Of each instruction.
    streams: Table<InstrId, StreamId>,
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
            let most =
                most.entry((device, self.streams[instr])).or_insert_with(|| [0, 0, 20, 250][random.below(4)]);
            if *most > 0 && random.below(4) == 0 { random.below(*most + 1) as u64 } else { 0 }
        };
        if delay > 0 {
            std::thread::sleep(Duration::from_micros(delay));
        }
        Ok(())
    }
}

#[test]
fn ch1_no_delay_changes_a_bit_where_operands_are_gathered() {
    [2, 3, 4].into_iter().for_each(|devices| GATHERED.holds(devices, None));
}

#[test]
fn ch1_no_delay_changes_a_bit_where_results_are_reduced() {
    [2, 3, 4].into_iter().for_each(|devices| REDUCED.holds(devices, None));
}

#[test]
fn ch1_no_delay_changes_a_bit_in_a_chain() {
    [2, 3, 4].into_iter().for_each(|devices| CHAINED.holds(devices, None));
}

/// Where a link is played, streams that move run far ahead of those that compute.
#[test]
fn ch1_no_delay_changes_a_bit_over_a_link() {
    let link = Link { latency_us: 30.0, bytes_per_us: 50.0 };
    [GATHERED, CHAINED].into_iter().for_each(|pipeline| pipeline.holds(3, Some(link)));
}
