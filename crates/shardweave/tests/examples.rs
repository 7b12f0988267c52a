//! Every placement of every example runs on every backend and agrees with one device; and no file,
//! however broken, makes the command panic.

mod support;

use std::path::Path;
use support::Bench;
use support::examples::{EXAMPLES, example};

#[test]
fn every_placement_agrees_with_one_device() {
    for (file, program, placements, sizes) in EXAMPLES {
        let bench = Bench::with(&example(file));
        for placement in *placements {
            for on in ["threads", "lockstep", "reference"] {
                let words = format!(
                    "run p.weave --program {program} --placement {placement} --size {sizes} --random 1 --check --on {on} --json"
                );
                let json = bench.run(&words).exits(0).json();
                assert_eq!(json["check"]["ok"], true, "{words}: {}", json["check"]);
            }
        }
    }
}

#[test]
fn every_example_is_listed_here() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples");
    for entry in std::fs::read_dir(folder).expect("the examples") {
        let name = entry.expect("an entry").file_name().to_string_lossy().into_owned();
        if !name.ends_with(".weave") {
            continue;
        }
        let json = Bench::with(&example(&name)).run("check p.weave --json").exits(0).json();
        for placement in json["placements"].as_array().expect("a list") {
            let placement = placement.as_str().expect("a name");
            let listed = EXAMPLES
                .iter()
                .any(|(file, _, placements, _)| *file == name && placements.contains(&placement));
            assert!(listed, "{name}: {placement} is not tested");
        }
    }
}

#[test]
fn no_file_makes_the_command_panic() {
    let good = example("sharded_linear.weave").into_bytes();
    let bench = Bench::new();
    // A small generator of numbers, the same each time.
    let mut state: u64 = 1;
    let mut below = |n: usize| {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (state >> 33) as usize % n
    };
    const MARKS: &[u8] = b"{}[](),/:=#\"\n\t\0\xff09x-";
    for round in 0..150 {
        let mut bytes = good.clone();
        for _ in 0..1 + round % 4 {
            let at = below(bytes.len());
            match below(5) {
                0 => bytes[at] = MARKS[below(MARKS.len())],
                1 => drop(bytes.remove(at)),
                2 => bytes.truncate(at.max(1)),
                3 => bytes.insert(at, b"(/[,"[below(4)]),
                _ => {
                    let end = (at + below(40)).min(bytes.len());
                    let part = bytes[at..end].to_vec();
                    let to = below(bytes.len());
                    bytes.splice(to..to, part);
                }
            }
        }
        bench.put("p.weave", &bytes);
        for words in [
            "check p.weave",
            "run p.weave --placement ragged_rows --size t=16 k=3 n=5 --random 1 --check --on lockstep",
        ] {
            let ended = bench.run(words);
            assert!((0..=4).contains(&ended.status), "round {round}: {} {}", ended.status, ended.stderr);
            assert!(!ended.stderr.contains("panicked"), "round {round}: {}", ended.stderr);
        }
    }
}
