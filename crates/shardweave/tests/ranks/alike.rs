//! Every placement of the examples gives the bytes that threads give, with whole files of outputs compared.

use crate::support::Bench;
use crate::support::examples::{EXAMPLES, example};
use crate::{exits, json, run};

/// Runs on threads, and on ranks with both transports.
#[track_caller]
fn gives_the_same(bench: &Bench, words: &str, ranks: usize) {
    bench.run(&format!("{words} --on threads --outputs threads.safetensors")).exits(0);
    let threads = std::fs::read(bench.path("threads.safetensors")).expect("it was written");
    for transport in ["shared", "messages"] {
        let file = format!("{transport}.safetensors");
        let told = run(
            bench,
            ranks,
            &format!("{words} --on mpi --transport {transport} --check --json --outputs {file}"),
        );
        exits(&told, 0);
        assert_eq!(json(&told)["check"]["ok"], true, "{told:#?}");
        let written = std::fs::read(bench.path(&file)).expect("it was written");
        assert!(written == threads, "{words} on {ranks} ranks by {transport}: other bytes than threads give");
    }
    let names = ["messages.safetensors", "p.weave", "shared.safetensors", "threads.safetensors"];
    assert_eq!(bench.names(), names, "nothing else is left behind");
}

#[test]
fn every_placement_gives_the_bytes_of_threads() {
    for (file, program, placements, sizes) in EXAMPLES {
        let bench = Bench::with(&example(file));
        for placement in *placements {
            let words =
                format!("run p.weave --program {program} --placement {placement} --size {sizes} --random 1");
            let devices = bench.run(&format!("{words} --json --plan")).exits(0).json()["devices"].as_u64();
            let devices = devices.expect("the number of devices is told") as usize;
            gives_the_same(&bench, &words, devices);
        }
    }
}

#[test]
fn every_number_of_ranks_gives_the_bytes_of_threads() {
    let bench = Bench::with(&example("mlp.weave"));
    for ranks in [1, 2, 3, 8] {
        for placement in ["sequence_parallel", "overlapped"] {
            let words = format!(
                "run p.weave --placement {placement} --mesh line.tp={ranks} --size b=2 s=29 e=6 h=21 --random 1"
            );
            gives_the_same(&bench, &words, ranks);
        }
    }
}

#[test]
fn ranks_without_a_device_wait_for_the_others() {
    let bench = Bench::with(&example("mlp.weave"));
    let words = "run p.weave --placement overlapped --mesh line.tp=2 --size b=2 s=12 e=6 h=10 --random 1";
    gives_the_same(&bench, words, 4);
    gives_the_same(&bench, "run p.weave --placement none --size b=2 s=12 e=6 h=10 --random 1", 3);
}
