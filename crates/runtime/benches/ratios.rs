//! Ratios that hold on any machine: what is compared runs turn by turn in one process.
//!
//! ```text
//!  cargo bench -p shardweave-runtime --bench ratios              all tables
//!  cargo bench -p shardweave-runtime --bench ratios -- layers    some of: products layers steps loans blas collectives small
//! ```
//!
//! Every line is the median of pairs: one run of the one, one run of the other, and their ratio.

mod openblas;
mod products;
mod subjects;

use products::{By, Half, Halves, Lying};
use shardweave_runtime::execute::Loans;
use shardweave_runtime::session::{Session, SessionOptions};
use std::hint::black_box;
use std::sync::Barrier;
use std::time::{Duration, Instant};
use subjects::{Bytes, COLLECTIVES, Collective, LAYERS, Layer, STEPS, Steps};

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).filter(|arg| !arg.starts_with('-')).collect();
    let asked = |name: &str| wanted.is_empty() || wanted.iter().any(|w| w == name);
    if asked("products") {
        products();
        packed();
    }
    if asked("layers") {
        layers();
    }
    if asked("steps") {
        steps();
    }
    if asked("loans") {
        loans();
    }
    if asked("blas") {
        blas();
    }
    if asked("collectives") {
        collectives();
    }
    if asked("small") {
        small();
    }
}

/// Seconds that something takes.
fn seconds(mut run: impl FnMut()) -> f64 {
    let start = Instant::now();
    run();
    start.elapsed().as_secs_f64()
}

fn median(mut all: Vec<f64>) -> f64 {
    all.sort_by(f64::total_cmp);
    all[all.len() / 2]
}

/// Medians of the seconds of each, taken turn by turn; after one turn that does not count.
fn turns<const N: usize>(mut runs: [&mut dyn FnMut() -> f64; N]) -> Vec<[f64; N]> {
    (0..=subjects::turns()).map(|_| runs.each_mut().map(|run| run())).skip(1).collect()
}

/// The median of what is made of each turn.
fn median_of<const N: usize>(turns: &[[f64; N]], f: impl Fn(&[f64; N]) -> f64) -> f64 {
    median(turns.iter().map(f).collect())
}

/// Seconds of one run.
fn execute(session: &mut Session) -> f64 {
    seconds(|| session.execute().unwrap_or_else(|error| panic!("{error}")))
}

/// Halves of products on two threads, by who could do them: what `engine.rs` and `few.rs` choose by.
fn products() {
    let library = openblas::Library::load();
    let kernels = library.as_ref().map_or("none found".into(), openblas::Library::kernels);
    println!("\nproducts, f32, 2 threads with a half each, GFLOP/s of both; OpenBLAS: {kernels}");
    println!(
        "{:26} {:>8} {:>8} {:>8} {:>8} {:>8}",
        "a half: m, n, k", "chosen", "gemmkit", "matrixm.", "OpenBLAS", "as one"
    );
    for (lying, n, k) in
        [(Lying::AlongK, 2048, 1024), (Lying::AlongK, 1024, 2048), (Lying::AlongN, 2048, 1024)]
    {
        for m in [1, 2, 4, 8, 16, 32, 64, 512, 2048] {
            let flops = (4 * m * n * k) as f64;
            let times = (40_000_000_000 / (4 * m * n * k) / 100).clamp(1, 2 * subjects::turns() - 1);
            let mut halves = Halves::new(Half { size: [m, k, n], lying });
            let mut one = library.as_ref().map(|library| library.product(m, 2 * n, k));
            let turns: Vec<[f64; 5]> = (0..=subjects::turns())
                .map(|_| {
                    let mut by = |by| halves.run(by, times);
                    let crates = [By::Chosen, By::Gemmkit, By::Matrixmultiply].map(&mut by);
                    let blas = library.as_ref().map_or(f64::NAN, |library| by(By::OpenBlas(library)));
                    let as_one = one.as_mut().map_or(f64::NAN, |one| {
                        one.run();
                        let all = seconds(|| (0..times).for_each(|_| one.run()));
                        std::thread::sleep(OPENBLAS_LOOKS);
                        all
                    });
                    [crates[0], crates[1], crates[2], blas, as_one]
                })
                .skip(1)
                .collect();
            let lies = if lying == Lying::AlongK { "x w^T" } else { "x w" };
            print!("{:26}", format!("{lies:5} {m}, {n}, {k}"));
            for who in 0..5 {
                print!(" {:8.0}", times as f64 * flops / median_of(&turns, |turn| turn[who]) / 1e9);
            }
            println!();
        }
    }
}

/// Halves of products whose right operand was packed before, as steps of a loop find it; with what packing takes, and
/// beside who packs in every product.
fn packed() {
    println!("\nproducts with a packed operand, f32, 2 threads with a half each, GFLOP/s of both");
    println!("{:26} {:>8} {:>8} {:>11}", "a half: m, n, k", "packed", "gemmkit", "packing, ms");
    let (n, k) = (2048, 1024);
    for m in [64, 512] {
        let mut halves = Halves::new(Half { size: [m, k, n], lying: Lying::AlongK });
        if !halves.can_pack() {
            println!("this machine packs no operands");
            return;
        }
        let flops = (4 * m * n * k) as f64;
        let times = (1024 / m).clamp(1, 2 * subjects::turns() - 1);
        let turns: Vec<[f64; 3]> = (0..=subjects::turns())
            .map(|_| [By::Packed, By::Gemmkit, By::Packing].map(|by| halves.run(by, times) / times as f64))
            .skip(1)
            .collect();
        let [packed, gemmkit] = [0, 1].map(|who| flops / median_of(&turns, |turn| turn[who]) / 1e9);
        let packing = 1e3 * median_of(&turns, |[packed, _, packing]| packing - packed);
        println!("{:26} {packed:8.0} {gemmkit:8.0} {packing:11.3}", format!("x w^T {m}, {n}, {k}"));
    }
}

/// Sharded layers beside the same halves of their products on the same devices. What a layer computes
/// besides products is timed in the same turn and taken away.
fn layers() {
    println!("\nlayers, f32, 2 devices: how much of the rate of its products alone a layer reaches");
    println!(
        "{:26} {:>5} {:>10} {:>10} {:>9} {:>7}",
        "layer", "m", "layer ms", "alone ms", "GFLOP/s", "ratio"
    );
    for m in [512, 2048] {
        let sizes = [("m", m), ("k", 1024), ("n", 4096)];
        for Layer { sharded, alone, besides, products } in &LAYERS {
            let (mut layer, mut halves) = (sharded.ready(&sizes), alone.ready(&sizes));
            let mut besides = besides.map(|subject| subject.ready(&sizes));
            let turns = turns([&mut || execute(&mut layer), &mut || execute(&mut halves), &mut || {
                besides.as_mut().map_or(0.0, execute)
            }]);
            let flops = (2 * m * 1024 * 4096 * products) as f64;
            let [layer, halves] = [0, 1].map(|n| median_of(&turns, |turn| turn[n]));
            let ratio = median_of(&turns, |[layer, halves, besides]| halves / (layer - besides));
            let rate = flops / layer / 1e9;
            println!(
                "{:26} {m:5} {:10.3} {:10.3} {rate:9.0} {ratio:7.3}",
                sharded.name,
                layer * 1e3,
                halves * 1e3
            );
        }
    }
}

/// Products that run in steps beside the same product at once, and beside as many products of a step.
fn steps() {
    println!(
        "\nproducts in 8 steps, f32, 2 devices, k 1024, n 4096: what they take of the product at once, and of as many"
    );
    println!("products of a step, each of which packs its weight");
    println!(
        "{:26} {:>5} {:>10} {:>10} {:>10} {:>8} {:>8}",
        "product", "m", "steps ms", "at once ms", "each ms", "of once", "of each"
    );
    for m in [512, 2048] {
        for Steps { stepped, whole, step, count } in &STEPS {
            let of = |rows| [("m", rows), ("k", 1024), ("n", 4096)];
            let (mut steps, mut whole) = (stepped.ready(&of(m)), whole.ready(&of(m)));
            let mut step = step.ready(&of(m / count));
            let turns = turns([&mut || execute(&mut steps), &mut || execute(&mut whole), &mut || {
                (0..*count).map(|_| execute(&mut step)).sum()
            }]);
            let [all, once, each] = [0, 1, 2].map(|n| 1e3 * median_of(&turns, |turn| turn[n]));
            let of_once = median_of(&turns, |[all, once, _]| all / once);
            let of_each = median_of(&turns, |[all, _, each]| all / each);
            println!(
                "{:26} {m:5} {all:10.3} {once:10.3} {each:10.3} {of_once:8.3} {of_each:8.3}",
                stepped.name
            );
        }
    }
}

/// A product, and something that is none, whose rows are gathered: read where they lie, beside the same with copies. Which
/// loans pay follows from it (`instantiate/loans.rs`).
fn loans() {
    println!(
        "\nrows that are gathered, f32, 2 devices, k 1024, n 4096: what they take in place of the same with copies"
    );
    println!("{:26} {:>5} {:>10} {:>10} {:>8}", "what reads them", "m", "lent ms", "copied ms", "of it");
    let linear = LAYERS[0].sharded;
    for (name, subject, constants) in [
        ("linear", linear, &[][..]),
        ("linear, constant weights", linear, &["w"]),
        ("gelu", subjects::GATHERED, &[]),
    ] {
        for m in [16, 32, 64, 128, 256, 512, 1024, 2048, 4096] {
            let sizes = [("m", m), ("k", 1024), ("n", 4096)];
            let mut sessions = [Loans::Always, Loans::Never].map(|loans| {
                let options = SessionOptions { cores: 2, loans, ..SessionOptions::default() };
                subject.ready_with(2, &sizes, options, constants)
            });
            let times = (4096 / m).min(2 * subjects::turns() as u64 - 1);
            let all =
                |session: &mut Session| (0..times).map(|_| execute(session)).sum::<f64>() / times as f64;
            let turn = |_| sessions.each_mut().map(all);
            let turns: Vec<[f64; 2]> = (0..=subjects::turns()).map(turn).skip(1).collect();
            let [lent, copied] = [0, 1].map(|n| 1e3 * median_of(&turns, |turn| turn[n]));
            let ratio = median_of(&turns, |[lent, copied]| lent / copied);
            println!("{name:26} {m:5} {lent:10.3} {copied:10.3} {ratio:8.3}");
        }
    }
}

/// Threads of OpenBLAS look for work for so long after a product, on the cores that others need.
const OPENBLAS_LOOKS: Duration = Duration::from_millis(60);

/// Sharded layers beside one product of OpenBLAS on both cores. Each runs once before it is timed: so both find
/// the cores awake and their memory where it was.
fn blas() {
    let Some(library) = openblas::Library::load() else {
        println!("\nblas: there is no libopenblas.so.0 to compare with");
        return;
    };
    println!("\nlayers, f32, 2 devices, beside one product of OpenBLAS ({}) on 2 threads", library.kernels());
    println!(
        "{:26} {:>5} {:>10} {:>10} {:>9} {:>7}",
        "layer", "m", "layer ms", "BLAS ms", "GFLOP/s", "ratio"
    );
    for m in [512, 2048] {
        let sizes = [("m", m), ("k", 1024), ("n", 4096)];
        for Layer { sharded, products, .. } in &LAYERS {
            let mut layer = sharded.ready(&sizes);
            let mut product = library.product(m as usize, 4096, 1024);
            let turns = turns([
                &mut || {
                    execute(&mut layer);
                    execute(&mut layer)
                },
                &mut || {
                    product.run();
                    let one = seconds(|| (0..*products).for_each(|_| product.run()));
                    std::thread::sleep(OPENBLAS_LOOKS);
                    one
                },
            ]);
            let flops = (2 * m * 1024 * 4096 * products) as f64;
            let [layer, one] = [0, 1].map(|n| median_of(&turns, |turn| turn[n]));
            let ratio = median_of(&turns, |[layer, one]| one / layer);
            let rate = flops / layer / 1e9;
            println!(
                "{:26} {m:5} {:10.3} {:10.3} {rate:9.0} {ratio:7.3}",
                sharded.name,
                layer * 1e3,
                one * 1e3
            );
        }
    }
}

/// Elements of the value that collectives move: 16 MiB.
const VALUE: usize = 2048 * 2048;

/// Collectives beside both threads doing with as many bytes what at least has to be done.
fn collectives() {
    println!("\ncollectives on 16 MiB, f32, 2 devices: times what both threads need for the bytes alone");
    const RUNS: usize = 8;
    let each = 1e3 / RUNS as f64;
    println!("{:26} {:>10} {:>10} {:>7}", "collective", "ms", "bytes ms", "times");
    let mut threads = BothThreads::new();
    for Collective { moved, bytes } in &COLLECTIVES {
        let mut session = moved.ready(&[("m", 2048), ("n", 2048)]);
        let turns = turns([&mut || (0..RUNS).map(|_| execute(&mut session)).sum(), &mut || {
            (0..RUNS).map(|_| threads.run(*bytes)).sum()
        }]);
        let [collective, bytes] = [0, 1].map(|n| median_of(&turns, |turn| turn[n]));
        let times = median_of(&turns, |[collective, bytes]| collective / bytes);
        println!("{:26} {:10.3} {:10.3} {times:7.2}", moved.name, collective * each, bytes * each);
    }
}

/// Memory of two threads: each reads what both have, and writes its own.
struct BothThreads {
    sources: [Vec<f32>; 2],
    targets: [Vec<f32>; 2],
}

impl BothThreads {
    fn new() -> BothThreads {
        let made = |_: usize| vec![1.0; VALUE];
        BothThreads { sources: [0, 1].map(made), targets: [0, 1].map(made) }
    }

    /// Both threads at once. Seconds of the one that takes longer; starting them does not count.
    fn run(&mut self, bytes: Bytes) -> f64 {
        let (sources, barrier) = (&self.sources, &Barrier::new(2));
        let work = move |rank: usize, target: &mut Vec<f32>| {
            barrier.wait();
            seconds(|| {
                bytes(rank, [&sources[rank], &sources[1 - rank]], target);
                black_box(&mut *target);
            })
        };
        let [first, second] = &mut self.targets;
        std::thread::scope(|scope| {
            let other = scope.spawn(move || work(1, second));
            let own = work(0, first);
            other.join().map_or(own, |other| own.max(other))
        })
    }
}

/// A layer that is over before a thread that sleeps is awake.
fn small() {
    println!("\nsmall runs: gather + linear, m = k = n = 64, f32, 2 devices, one after another");
    let mut session = LAYERS[0].sharded.ready(&[("m", 64), ("k", 64), ("n", 64)]);
    const RUNS: usize = 2000;
    let mut run = || (0..RUNS).map(|_| execute(&mut session)).sum::<f64>();
    let times: Vec<f64> = (0..subjects::turns()).map(|_| run() / RUNS as f64 * 1e6).collect();
    println!("{:.1} us a run", median(times));
}
