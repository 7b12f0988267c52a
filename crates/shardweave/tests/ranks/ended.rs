//! All ranks end with one status, and what is told is told once.

use crate::support::Bench;
use crate::support::examples::example;
use crate::{ended, exits, json, program, run, tells_once};
use shardweave_testkit::launch;
use std::path::Path;

/// Each device rounds its part of a sum to f32, which loses the ones of the input.
const ROUNDED: &str = "
mesh m { t = 2 }
program p {
  input x: f32[s]
  z = sum(x, s)
  output z
}
placement parts for p on m {
  x: s/t
  z: partial(t)
}
";

/// Runs on so many ranks, each of which must end with this status.
#[track_caller]
fn all_end(bench: &Bench, ranks: usize, words: &str, status: i32) -> launch::Ended {
    all_end_after(bench, ranks, "", words, status)
}

/// The same where the shell of each rank does something first; `$rank` is its number.
#[track_caller]
fn all_end_after(bench: &Bench, ranks: usize, first: &str, words: &str, status: i32) -> launch::Ended {
    // A launcher ends the others when one ends badly, so each shell hides how its rank ended.
    let script = format!(
        "rank=${{OMPI_COMM_WORLD_RANK:-$PMI_RANK}}\n{first}\n{} \"$@\"; echo $? > status.$rank",
        program().display()
    );
    let mut command = launch::command(Path::new("sh"), ranks);
    command.args(["-c", &script, "shardweave"]).args(words.split_whitespace());
    command.current_dir(bench.path(""));
    let told = ended(command);
    exits(&told, 0);
    for rank in 0..ranks {
        let file = bench.path(&format!("status.{rank}"));
        let found = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{error}: {told:#?}"));
        assert_eq!(found.trim(), status.to_string(), "rank {rank} of {ranks}: {words}: {told:#?}");
        std::fs::remove_file(&file).expect("it was there");
    }
    told
}

#[test]
fn all_ranks_end_with_one_status() {
    let bench = Bench::with(ROUNDED);
    bench.npy("x.npy", &[4], &[1.0, 2.0, 3.0, 4.0]);
    bench.npy("rounded.npy", &[4], &[1e8, 1.0, -1e8, 1.0]);
    for ranks in [2, 3] {
        let fine = all_end(&bench, ranks, "run p.weave --input x=x.npy --on mpi --check --json", 0);
        assert_eq!(json(&fine)["check"]["ok"], true);
        assert_eq!(fine.errors, "");
        let none = all_end(&bench, ranks, "run p.weave --input x=none.npy --on mpi", 1);
        tells_once(&none, "E0", &["none.npy"]);
        assert_eq!(none.output, "");
        let unparsed = all_end(&bench, ranks, "run p.weave --on mpi --wrong", 2);
        tells_once(&unparsed, "E0901", &["--wrong"]);
        let differs = all_end(&bench, ranks, "run p.weave --input x=rounded.npy --on mpi --check", 4);
        tells_once(&differs, "E0804", &["`z`"]);
        let differs = all_end(&bench, ranks, "run p.weave --input x=rounded.npy --on mpi --check --json", 4);
        assert_eq!(json(&differs)["check"]["ok"], false);
    }
    // The launcher ends as its ranks do.
    exits(&run(&bench, 2, "run p.weave --input x=rounded.npy --on mpi --check"), 4);
    exits(&run(&bench, 2, "run p.weave --input x=none.npy --on mpi"), 1);
}

#[test]
fn an_id_out_of_range_on_one_device_ends_all() {
    let bench = Bench::with(
        "mesh line { tp = 3 }
program p {
  input ids: i64[s]
  input table: f32[v=5, e=2]
  y = embedding(ids, table)
  output y
}
placement q for p on line {
  ids: s/tp
  y: s/tp
}
",
    );
    // The last device has the wrong one.
    bench.npy_of("ids.npy", &[6], &[0_i64, 1, 2, 3, 4, 7], npyz::Order::C);
    for transport in ["shared", "messages"] {
        let words = format!(
            "run p.weave --input ids=ids.npy --random 1 --on mpi --transport {transport} --output y=y.npy"
        );
        let told = all_end(&bench, 3, &words, 3);
        tells_once(&told, "E0801", &["7", "y = embedding"]);
        assert_eq!(bench.names(), ["ids.npy", "p.weave"], "nothing is written");
    }
}

#[test]
fn fewer_ranks_than_devices_are_told_with_both_numbers() {
    let bench = Bench::with(&example("mlp.weave"));
    for ranks in [1, 3] {
        let words = "run p.weave --placement overlapped --size b=2 s=12 e=6 h=10 --random 1 --on mpi";
        let told = all_end(&bench, ranks, words, 1);
        let one = if ranks == 1 { "1 rank" } else { "3 ranks" };
        tells_once(&told, "E0808", &["4 in all", one]);
    }
}

/// There is enough on the machine, so it is found out where ranks ask for it.
#[test]
fn memory_that_one_rank_cannot_have_is_told_by_it() {
    let bench = Bench::with(
        "mesh line { tp = 2 }
program p {
  input x: f32[s]
  y = square(x)
  output y
}
placement q for p on line {
  x: s/tp
  y: s/tp
}
",
    );
    // 800 MB for the pieces of x and y, and no more than that for the whole process, in KiB.
    let (words, limit) = ("run p.weave --size s=200000000 --random 1 --on mpi --transport messages", 780_000);
    let told = all_end_after(&bench, 2, &format!("[ $rank = 0 ] || ulimit -v {limit}"), words, 1);
    tells_once(
        &told,
        "E0703",
        &["on rank 1", "800000000 bytes each, which cannot be had", "take smaller sizes"],
    );
    // The limit alone lets it run.
    let words = words.replace("200000000", "2000");
    all_end_after(&bench, 2, &format!("ulimit -v {limit}"), &words, 0);
}
