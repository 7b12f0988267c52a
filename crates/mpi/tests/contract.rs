//! The contract of an engine, kept by MPI: each case is run by some ranks of the program `contract/rank.rs`, which
//! `mpirun` starts. See `launch.rs` of the testkit for which `mpirun`.

use shardweave_testkit::launch::{self, Ended};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};

const LIMIT: Duration = Duration::from_secs(120);

fn run(ranks: usize, args: &[&str]) -> Ended {
    let ended = launch::run(Path::new(env!("CARGO_BIN_EXE_shardweave-mpi-contract")), ranks, args, LIMIT);
    assert_nobody_is_left(&ended, ranks, args);
    ended
}

/// All ranks have told their number, and none of them is there any more.
fn assert_nobody_is_left(ended: &Ended, ranks: usize, args: &[&str]) {
    let pids: Vec<&str> = ended.output.lines().filter_map(|line| line.strip_prefix("pid ")).collect();
    assert_eq!(pids.len(), ranks, "{args:?} with {ranks} ranks: {ended:#?}");
    let start = Instant::now();
    for pid in pids {
        while Path::new("/proc").join(pid).exists() {
            assert!(start.elapsed() < Duration::from_secs(5), "{args:?}: a rank is left: {ended:#?}");
            sleep(Duration::from_millis(10));
        }
    }
}

/// A case that all numbers of ranks pass.
fn passes(numbers: &[usize], args: &[&str]) {
    for &ranks in numbers {
        let ended = run(ranks, args);
        assert_eq!(ended.status, Some(0), "{args:?} with {ranks} ranks: {ended:#?}");
    }
}

/// A case in which all ranks are ended, with this in what they say.
fn ends(ranks: usize, args: &[&str], said: &str) -> Ended {
    let ended = run(ranks, args);
    assert_eq!(ended.status, Some(3), "{args:?} with {ranks} ranks: {ended:#?}");
    assert!(ended.errors.contains(said), "{args:?} with {ranks} ranks, not `{said}`: {ended:#?}");
    assert!(ended.took < Duration::from_secs(20), "{args:?} with {ranks} ranks: {ended:#?}");
    ended
}

/// A case in which the last rank is late, and no other rank finds anything else.
fn names_the_last(ranks: usize, what: &str, options: &[&str]) {
    let args = [&["late", what, "--timeout"], options].concat();
    let ended = ends(ranks, &args, &format!("in {what}: rank {} did not come in time", ranks - 1));
    assert!(!ended.errors.contains("panicked"), "{args:?} with {ranks} ranks: {ended:#?}");
}

const SOME: &[usize] = &[1, 2, 3, 4, 8];

#[test]
fn ranks_know_where_they_stand() {
    passes(SOME, &["place"]);
    passes(&[3], &["place", "--messages"]);
    passes(&[3], &["place", "--joined"]);
}

#[test]
fn mpi_begins_once() {
    passes(&[1, 2], &["twice"]);
}

#[test]
fn every_form_moves_what_it_says() {
    passes(SOME, &["forms"]);
    passes(&[1, 3], &["forms", "--serialized"]);
    passes(&[4], &["forms", "--joined"]);
}

#[test]
fn more_than_one_message_can_hold_goes_in_several() {
    passes(&[2, 3], &["forms", "--limit=333"]);
}

#[test]
fn streams_of_two_threads_do_not_mix() {
    passes(SOME, &["streams"]);
    passes(&[4], &["streams", "--serialized"]);
}

#[test]
fn a_stream_keeps_its_order() {
    passes(&[2, 3, 8], &["order"]);
}

#[test]
fn shared_memory_is_seen_by_all_of_the_host() {
    passes(SOME, &["shared"]);
    passes(&[3], &["shared", "--messages"]);
    passes(&[3], &["shared", "--serialized"]);
    passes(&[3], &["shared", "--joined"]);
}

#[test]
fn shared_memory_is_dropped_in_any_order() {
    passes(SOME, &["dropped"]);
    passes(&[2], &["dropped", "--messages"]);
    passes(&[1, 3], &["outlives"]);
}

#[test]
fn shared_memory_that_nobody_holds_is_given_back_when_it_is_asked_for() {
    passes(SOME, &["given_back"]);
    passes(&[3], &["given_back", "--messages"]);
}

#[test]
fn memory_that_one_cannot_have_is_refused_to_all() {
    passes(SOME, &["refused"]);
    passes(&[3], &["refused", "--messages"]);
}

#[test]
fn all_are_told_what_each_says() {
    passes(SOME, &["told"]);
    passes(&[3], &["told", "--limit=5"]);
    passes(&[3], &["told", "--serialized"]);
}

#[test]
fn rank_0_gathers_what_all_give() {
    passes(SOME, &["gathered"]);
    passes(&[3], &["gathered", "--limit=5"]);
}

#[test]
fn who_does_not_come_is_named() {
    for form in ["messages", "broadcast", "all_gather", "all_to_all", "scatter", "scatter_to_busy"] {
        names_the_last(4, form, &["--met"]);
    }
    for form in ["gather_to_last", "gather_to_first"] {
        names_the_last(4, form, &["--met"]);
    }
    for what in ["all_gather", "tell_all", "least", "gather", "share"] {
        names_the_last(4, what, &[]);
    }
    names_the_last(2, "messages", &[]);
    names_the_last(2, "least", &[]);
    names_the_last(3, "all_gather", &["--serialized"]);
}

#[test]
fn who_does_not_begin_or_end_is_not_waited_for() {
    ends(2, &["absent", "--timeout"], "shardweave: rank 0: waited 10 s for all ranks to begin");
    ends(3, &["endless", "--timeout"], "rank 2 did not come in time");
}

#[test]
fn who_comes_in_time_is_waited_for() {
    passes(&[2, 3], &["slow", "--timeout"]);
}

#[test]
fn a_rank_that_aborts_ends_all_and_says_why() {
    for ranks in [1, 2, 4] {
        ends(ranks, &["abort"], &format!("shardweave: rank {}: the device is on fire", ranks - 1));
    }
    ends(3, &["abort", "--serialized"], "shardweave: rank 2: the device is on fire");
}

#[test]
fn a_rank_that_goes_its_own_way_is_found_out() {
    for (what, does) in [("ends", "has ended its part"), ("shares", "shares memory")] {
        let ended = run(3, &["astray", what]);
        assert_eq!(ended.status, Some(3), "{ended:#?}");
        let said =
            format!("rank 2 {does} while this rank tells all something: all ranks make the same calls");
        assert!(ended.errors.contains(&said), "{ended:#?}");
        assert!(ended.errors.contains("the reason of this rank"), "{ended:#?}");
        assert!(ended.took < Duration::from_secs(20), "{ended:#?}");
    }
}

#[test]
fn a_rank_that_panics_ends_all() {
    ends(2, &["panic"], "shardweave: rank 1: it panicked");
    ends(3, &["panic"], "this rank has a bug");
}

#[test]
fn a_rank_that_dies_ends_all() {
    let ended = run(3, &["dies"]);
    assert!(ended.status.is_some_and(|status| status != 0), "{ended:#?}");
    assert!(ended.took < Duration::from_secs(20), "{ended:#?}");
}

#[test]
fn a_message_that_is_too_short_is_told() {
    passes(&[2], &["short"]);
}
