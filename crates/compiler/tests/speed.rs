//! Planning stays fast: bounds that hold with little optimization on a busy machine, far above what
//! `cargo bench -p shardweave-compiler` measures. What grows with the square of its input breaks them.

#[path = "../benches/subjects.rs"]
#[allow(dead_code)] // the benchmarks have more subjects
mod subjects;

use shardweave_compiler::compile::{CompileOptions, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::Sizes;
use std::time::{Duration, Instant};

/// How long it takes to plan a file, verify the plan and print it.
fn planned(text: &str) -> Duration {
    let (file, mistakes) = parse_file(text, &[]);
    assert!(mistakes.is_empty(), "{mistakes}");
    let sizes = Sizes::bind(&file.programs()[0], []).expect("all sizes are written");
    let start = Instant::now();
    let plan = compile(&file.programs()[0], file.placements().first(), &sizes, &CompileOptions::default());
    let plan = plan.unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(!plan.host.to_string().is_empty());
    start.elapsed()
}

/// A busy machine may take longer twice.
fn within(limit: Duration, what: &str, text: &str) {
    let mut took = Vec::new();
    while took.len() < 3 && took.last().is_none_or(|last| *last > limit) {
        took.push(planned(text));
    }
    assert!(took.last().is_some_and(|last| *last <= limit), "{what} took {took:?}, more than {limit:?}");
}

#[test]
fn layers_and_long_chains() {
    within(Duration::from_secs(30), "48 layers", &subjects::layers(48));
    within(Duration::from_secs(30), "3000 additions", &subjects::additions(3000));
    within(Duration::from_secs(30), "500 products in steps", &subjects::streams(500));
}

#[test]
fn reshards_on_1024_devices() {
    for from in subjects::LAYOUTS {
        for to in subjects::LAYOUTS {
            within(Duration::from_secs(10), &format!("{from} -> {to}"), &subjects::reshard(from, to));
        }
    }
}

#[test]
fn moves_from_1024_devices_to_1024_others() {
    for text in subjects::between_meshes() {
        within(Duration::from_secs(10), &text[text.len().saturating_sub(60)..], &text);
    }
}

#[test]
fn placements_on_65_536_devices() {
    for text in subjects::on_many_devices() {
        within(Duration::from_secs(60), &text[text.len().saturating_sub(60)..], &text);
    }
}

/// What a statement of a long program costs does not grow with the program: eight times as many take about
/// eight times as long. If one pass looked at all statements for each, it would be about thirty times.
#[test]
fn long_programs_take_as_long_as_they_are() {
    const MOST: f64 = 16.0;
    let subjects = [
        ("additions", [3000, 24_000].map(subjects::additions)),
        ("inputs", [3000, 24_000].map(subjects::inputs)),
        ("layouts that follow each other", [3000, 24_000].map(subjects::followers)),
    ];
    for (what, [short, long]) in subjects {
        // A busy machine disturbs one or the other twice.
        let mut ratios: Vec<f64> = Vec::new();
        while ratios.len() < 3 && ratios.last().is_none_or(|last| *last > MOST) {
            let short = planned(&short).min(planned(&short));
            ratios.push(planned(&long).as_secs_f64() / short.as_secs_f64());
        }
        assert!(ratios.last().is_some_and(|last| *last <= MOST), "{what}: {ratios:?} times as long");
    }
}
