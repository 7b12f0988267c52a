//! Steps over a slower link than memory, which `threads` plays: how much of it is hidden, and whether the
//! way that the compiler chooses is the best one.
//!
//! ```text
//!  cargo bench -p shardweave-runtime --bench ways              both tables
//!  cargo bench -p shardweave-runtime --bench ways -- hidden    one of: hidden choice
//! ```
//!
//! What is compared runs turn by turn in one process, and every number is a median of turns.

mod subjects;

use shardweave_compiler::compile::CompileOptions;
use shardweave_compiler::cost::Cost;
use shardweave_compiler::placement::Overlap;
use shardweave_runtime::execute::Link;
use shardweave_runtime::session::{Session, SessionOptions};
use std::time::Instant;
use subjects::Subject;

const LATENCY_US: f64 = 2.0;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if asked("hidden") {
        hidden();
    }
    if asked("choice") {
        choice();
    }
}

/// A program whose steps communicate; `WAY` stands for a `via`.
struct Steps {
    name: &'static str,
    program: &'static str,
    placement: &'static str,
    /// The same products in the same steps, with nothing to communicate.
    alone: &'static str,
    /// Bytes that two devices have for each other, of `m` rows of `k` and `n` numbers.
    bytes: fn(u64, u64, u64) -> u64,
}

const LINEAR: &str = "input x: f32[m, k]\ninput w: f32[n, k]\ny = linear(x, w)\noutput y";
const BACK: &str = "input h: f32[m, n]\ninput w: f32[k, n]\ny = linear(h, w)\noutput y";
const MLP: &str = "input x: f32[m, k]\ninput w: f32[n, k]\ninput v: f32[k, n]\n\
                   h = linear(x, w)\ng = gelu(h)\ny = linear(g, v)\noutput y";

const SUBJECTS: [Steps; 3] = [
    Steps {
        name: "gather + linear",
        program: LINEAR,
        placement: "x: m/stream(8)/tp\nw: n/tp\ny: m/stream(8), n/tp WAY",
        alone: "x: replicated\nw: n/tp\ny: m/stream(8), n/tp",
        bytes: |m, k, _| 4 * m * k / 2,
    },
    Steps {
        name: "linear + reduce-scatter",
        program: BACK,
        placement: "h: n/tp\nw: n/tp\ny: m/stream(8)/tp WAY",
        alone: "h: n/tp\nw: n/tp\ny: m/stream(8), partial(tp)",
        bytes: |m, k, _| 4 * m * k / 2,
    },
    Steps {
        name: "mlp, sequence parallel",
        program: MLP,
        placement: "x: m/stream(8)/tp\nw: n/tp\nh: m/stream(8), n/tp WAY\nv: n/tp\ny: m/stream(8)/tp WAY",
        alone: "x: replicated\nw: n/tp\nh: m/stream(8), n/tp\nv: n/tp\ny: m/stream(8), partial(tp)",
        bytes: |m, k, _| 4 * m * k,
    },
];

/// How a session plans and runs: on so many devices, for and over a link of so many bytes a microsecond.
#[derive(Clone, Copy)]
struct Setting {
    devices: u64,
    bytes_per_us: Option<f64>,
    flops_per_us: f64,
}

fn ready(program: &'static str, placement: &str, sizes: [(&'static str, u64); 3], at: Setting) -> Session {
    let link = at.bytes_per_us.map(|bytes_per_us| Link { latency_us: LATENCY_US, bytes_per_us });
    let cost = link.map(|link| Cost {
        flops_per_us: at.flops_per_us,
        latency_us: link.latency_us,
        bytes_per_us: link.bytes_per_us,
    });
    let options = SessionOptions {
        compile: CompileOptions { cost: cost.unwrap_or_default(), ..CompileOptions::default() },
        link,
        ..SessionOptions::default()
    };
    Subject { name: "", program, placement: placement.to_string().leak() }
        .ready_on(at.devices, &sizes, options)
}

fn via(placement: &str, way: Option<Overlap>) -> String {
    let way = way.map(|way| format!("via {}", way.name())).unwrap_or_default();
    placement.replace("WAY", &way)
}

fn execute(session: &mut Session) -> f64 {
    let start = Instant::now();
    session.execute().unwrap_or_else(|error| panic!("{error}"));
    start.elapsed().as_secs_f64()
}

/// The medians of each, turn by turn, and of each by the first of its turn. Every turn begins with another one.
fn medians(sessions: &mut [Session]) -> Vec<(f64, f64)> {
    let count = sessions.len();
    let mut turn = |first: usize| {
        let mut times = vec![0.0; count];
        (first..first + count).for_each(|n| times[n % count] = execute(&mut sessions[n % count]));
        times
    };
    let turns: Vec<Vec<f64>> = (0..=subjects::turns()).map(&mut turn).skip(1).collect();
    let median = |of: &dyn Fn(&Vec<f64>) -> f64| {
        let mut all: Vec<f64> = turns.iter().map(of).collect();
        all.sort_by(f64::total_cmp);
        all[all.len() / 2]
    };
    (0..count).map(|n| (median(&|turn| turn[n]), median(&|turn| turn[n] / turn[0]))).collect()
}

const WAYS: [Overlap; 4] = [Overlap::Collective, Overlap::Direct, Overlap::Ring, Overlap::Broadcast];

/// Over a link on which communication takes as long as the step products.
fn hidden() {
    println!(
        "\n8 steps on 2 devices over a link on which communication takes as long as the products, f32, m 512,"
    );
    println!("k 1024, n 4096: times of the products of the steps, nothing waited for");
    println!(
        "{:26} {:>11} {:>10} {:>8} {:>10} {:>8} {:>8} {:>10} {:>8}",
        "steps", "products ms", "GB/s", "none", "collective", "direct", "ring", "broadcast", "chosen"
    );
    let sizes = [("m", 512), ("k", 1024), ("n", 4096)];
    for Steps { name, program, placement, alone, bytes } in &SUBJECTS {
        let quick = Setting { devices: 2, bytes_per_us: None, flops_per_us: 1.0 };
        let mut products = [ready(program, alone, sizes, quick)];
        let seconds = medians(&mut products)[0].0;
        let bytes_per_us = bytes(512, 1024, 4096) as f64 / (seconds * 1e6 - 8.0 * LATENCY_US);
        let products_of = if *name == MLP_NAME { 2.0 } else { 1.0 };
        let flops_per_us = products_of * 2.0 * 512.0 * 1024.0 * 2048.0 / (seconds * 1e6);
        let at = Setting { bytes_per_us: Some(bytes_per_us), flops_per_us, ..quick };
        let [first] = products;
        let mut sessions = vec![first];
        let ways = [Some(Overlap::None)].into_iter().chain(WAYS.map(Some)).chain([None]);
        sessions.extend(ways.map(|way| ready(program, &via(placement, way), sizes, at)));
        let medians = medians(&mut sessions);
        let [none, collective, direct, ring, broadcast, chosen] = [1, 2, 3, 4, 5, 6].map(|n| medians[n].1);
        println!(
            "{name:26} {:11.3} {:10.3} {none:8.3} {collective:10.3} {direct:8.3} {ring:8.3} {broadcast:10.3} {chosen:8.3}",
            1e3 * medians[0].0,
            bytes_per_us / 1e3
        );
    }
}

const MLP_NAME: &str = SUBJECTS[2].name;

/// The chosen way beside the best of all, over sizes, links and devices.
fn choice() {
    println!("\nthe way that is chosen beside the best of four, 8 steps, f32");
    println!(
        "{:26} {:>2} {:>5} {:>5} {:>8} {:>10} {:>8} {:>8} {:>10} {:>10} {:>7}",
        "steps", "on", "m", "k", "GB/s", "collective", "direct", "ring", "broadcast", "chosen", "of best"
    );
    let (mut settings, mut within) = (0, 0);
    for Steps { name, program, placement, bytes, .. } in &SUBJECTS[..2] {
        for devices in [2, 4] {
            for (m, k) in [(256, 512), (512, 1024)] {
                let sizes = [("m", m), ("k", k), ("n", 4 * k)];
                // Two devices have a core each; four share them.
                let flops_per_us = FLOPS_PER_US * 2.0 / devices as f64;
                let us = 2.0 * (m * k * 4 * k) as f64 / devices as f64 / flops_per_us;
                for part in [0.2, 0.5, 1.0, 2.0] {
                    let between = bytes(m, k, 4 * k) as f64 * 2.0 / devices as f64;
                    let at = Setting { devices, bytes_per_us: Some(between / (part * us)), flops_per_us };
                    let ways = [None].into_iter().chain(WAYS.map(Some));
                    let mut sessions: Vec<Session> =
                        ways.map(|way| ready(program, &via(placement, way), sizes, at)).collect();
                    let medians = medians(&mut sessions);
                    let best = medians[1..].iter().map(|(_, ratio)| *ratio).fold(1.0, f64::min);
                    let ms = |n: usize| 1e3 * medians[n].0;
                    println!(
                        "{name:26} {devices:2} {m:5} {k:5} {:8.3} {:10.3} {:8.3} {:8.3} {:10.3} {:10.3} {:7.3}",
                        between / (part * us) / 1e3,
                        ms(1),
                        ms(2),
                        ms(3),
                        ms(4),
                        ms(0),
                        1.0 / best
                    );
                    settings += 1;
                    within += usize::from(1.0 / best <= 1.1);
                }
            }
        }
    }
    println!("within 10% of the best in {within} of {settings}");
}

/// What a core of the machine does of such products, about.
const FLOPS_PER_US: f64 = 200_000.0;
