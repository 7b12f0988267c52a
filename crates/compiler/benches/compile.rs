//! How long planning takes: `cargo bench -p shardweave-compiler --bench compile`.

mod subjects;

use criterion::{Criterion, criterion_group, criterion_main};
use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::file::{WeaveFile, parse_file};
use shardweave_compiler::host;
use shardweave_compiler::program::Sizes;
use std::hint::black_box;

fn read(text: &str) -> (WeaveFile, Sizes) {
    let (file, mistakes) = parse_file(text, &[]);
    assert!(mistakes.is_empty(), "{mistakes}");
    let sizes = Sizes::bind(&file.programs()[0], []).expect("all sizes are written");
    (file, sizes)
}

fn plan(file: &WeaveFile, sizes: &Sizes) -> Plan {
    let placement = file.placements().first();
    compile(&file.programs()[0], placement, sizes, &CompileOptions::default()).expect("it can be planned")
}

/// Plans and prints one file after another.
fn planning(criterion: &mut Criterion, name: &str, texts: &[String]) {
    let files: Vec<(WeaveFile, Sizes)> = texts.iter().map(|text| read(text)).collect();
    criterion.bench_function(name, |bench| {
        bench.iter(|| {
            files.iter().map(|(file, sizes)| plan(file, sizes).host.to_string().len()).sum::<usize>()
        });
    });
}

fn programs(criterion: &mut Criterion) {
    planning(criterion, "mlp on 4 devices", &[subjects::mlp(4)]);
    planning(criterion, "48 layers on 8 x 8 devices", &[subjects::layers(48)]);
    planning(criterion, "3000 additions", &[subjects::additions(3000)]);
    planning(criterion, "3000 inputs", &[subjects::inputs(3000)]);
    planning(criterion, "3000 layouts that follow each other", &[subjects::followers(3000)]);
    planning(criterion, "500 products in steps", &[subjects::streams(500)]);
    planning(criterion, "five placements on 65,536 devices", &subjects::on_many_devices());
}

fn reshards(criterion: &mut Criterion) {
    let layouts = subjects::LAYOUTS;
    let pairs = layouts.iter().flat_map(|from| layouts.iter().map(move |to| subjects::reshard(from, to)));
    planning(criterion, "144 reshards on 1024 devices", &pairs.collect::<Vec<_>>());
    planning(criterion, "3 reshards from 1024 devices to 1024 others", &subjects::between_meshes());
}

fn verifying(criterion: &mut Criterion) {
    let (file, sizes) = read(&subjects::mlp(10_000));
    let program = plan(&file, &sizes).host;
    criterion.bench_function("verifying the mlp on 10,000 devices", |bench| {
        bench.iter(|| host::verify(black_box(&program)).expect("it is sound"));
    });
}

criterion_group! {
    name = benches;
    config = Criterion::default().sample_size(10);
    targets = programs, reshards, verifying
}
criterion_main!(benches);
