//! Times of layers, collectives, products by shape, and small runs, followed over time by criterion.
//!
//! ```text
//!  cargo bench -p shardweave-runtime --bench speed               all
//!  cargo bench -p shardweave-runtime --bench speed -- product    what has this in its name
//! ```
//!
//! What is compared with something else is in the benchmark `ratios`: there both run turn by turn.

mod subjects;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use shardweave_runtime::session::Session;
use std::hint::black_box;
use std::time::Duration;
use subjects::{COLLECTIVES, HALF_COLUMNS, LAYERS};

/// Products `x w^T` whose columns two devices share, by the rows of `x`.
const ROWS: [u64; 7] = [1, 4, 8, 16, 64, 512, 2048];

fn execute(session: &mut Session) {
    black_box(session.execute()).unwrap_or_else(|error| panic!("{error}"));
}

fn layers(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("layer");
    for m in [512, 2048] {
        for layer in &LAYERS {
            let mut session = layer.sharded.ready(&[("m", m), ("k", 1024), ("n", 4096)]);
            group.throughput(Throughput::Elements(2 * m * 1024 * 4096 * layer.products));
            group.bench_function(format!("{}, m = {m}", layer.sharded.name), |bencher| {
                bencher.iter(|| execute(&mut session));
            });
        }
    }
}

fn products(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("product");
    for m in ROWS {
        let mut session = HALF_COLUMNS.ready(&[("m", m), ("k", 1024), ("n", 4096)]);
        group.throughput(Throughput::Elements(2 * m * 1024 * 4096));
        group.bench_function(format!("m = {m}"), |bencher| bencher.iter(|| execute(&mut session)));
    }
}

fn collectives(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("collective");
    for collective in &COLLECTIVES {
        let mut session = collective.moved.ready(&[("m", 2048), ("n", 2048)]);
        group.bench_function(collective.moved.name, |bencher| bencher.iter(|| execute(&mut session)));
    }
}

fn small(criterion: &mut Criterion) {
    let mut session = LAYERS[0].sharded.ready(&[("m", 64), ("k", 64), ("n", 64)]);
    criterion.bench_function("gather + linear, 64", |bencher| bencher.iter(|| execute(&mut session)));
}

criterion_group! {
    name = speed;
    config = Criterion::default().sample_size(20).measurement_time(Duration::from_secs(2));
    targets = layers, products, collectives, small
}
criterion_main!(speed);
