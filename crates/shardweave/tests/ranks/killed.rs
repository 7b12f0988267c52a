//! A rank that is killed, at any moment, ends all ranks soon; one that hangs does so when the others have waited long
//! enough. Then the launcher's status says that it went wrong, nobody is left, and no file under the name of an output
//! is half written.

use crate::support::Bench;
use crate::support::examples::example;
use crate::{command, run};
use shardweave_testkit::fuzz::Random;
use shardweave_testkit::launch::{Ended, Running};
use std::thread::sleep;
use std::time::{Duration, Instant};

const RANKS: usize = 3;

/// So often a rank is killed, without a wish.
const KILLS: u64 = 25;

/// `SHARDWEAVE_KILLS` says how often, `SHARDWEAVE_SEED` begins other runs.
fn wish(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// After the kill all have ended.
const SOON: Duration = Duration::from_secs(10);

const WORDS: &str =
    "run p.weave --placement overlapped --mesh line.tp=3 --size b=2 s=96 e=32 h=96 --random 1 --on mpi";

fn bench() -> Bench {
    Bench::with(&example("mlp.weave"))
}

/// Waits until all ranks are there; `false` if they have ended before that was seen.
fn all_there(running: &mut Running) -> bool {
    while running.count() < RANKS {
        if !running.is_there() {
            return false;
        }
        sleep(Duration::from_millis(1));
    }
    true
}

#[test]
fn a_killed_rank_ends_all() {
    let kills = wish("SHARDWEAVE_KILLS").unwrap_or(KILLS);
    let seed = wish("SHARDWEAVE_SEED").unwrap_or(0);
    let random = &mut Random::new(seed);
    let bench = bench();
    let threads = WORDS.replace("--on mpi", "--on threads --output y2=y.npy");
    bench.run(&threads).exits(0);
    let whole = std::fs::read(bench.path("y.npy")).expect("it was written");
    let (mut killed, mut slowest, mut waiting, mut unnamed) = (0, Duration::ZERO, 0, 0);
    for round in 0..kills {
        let _ = std::fs::remove_file(bench.path("y.npy"));
        // Every other run goes on until the kill; the others may be about to write, or to end.
        let repeat = if round % 2 == 0 { "--repeat 100000000" } else { "--repeat 20" };
        let transport = ["shared", "messages"][random.below(2)];
        let words = format!("{WORDS} {repeat} --transport {transport} --output y2=y.npy");
        let mut running = Running::start(command(&bench, RANKS, &words));
        let rank = random.below(RANKS);
        let there = all_there(&mut running);
        sleep(Duration::from_millis(random.below(800) as u64));
        let hit = running.kill(rank);
        let kill = Instant::now();
        while running.is_there() && running.count() > 0 && kill.elapsed() < SOON {
            sleep(Duration::from_millis(1));
        }
        let took = kill.elapsed();
        let ended = running.end_within(SOON);
        let told = format!("round {round}, seed {seed}, rank {rank}, {words}: {ended:#?}");
        assert!(took < SOON, "it took {took:?}: {told}");
        assert_eq!(ended.left, [0; 0], "{told}");
        let written = std::fs::read(bench.path("y.npy")).ok();
        assert!(written.as_ref().is_none_or(|bytes| *bytes == whole), "half written: {told}");
        match ended.status {
            // It had done all that it had to do.
            Some(0) => assert!(written.is_some() && repeat == "--repeat 20", "{told}"),
            // All ranks have ended, and are told of, also where Open MPI's launcher does not end: 4.1 may wait for itself
            // when a rank dies while it joins, and says that it cannot reach it.
            ended_with => {
                assert!(there && hit, "{told}");
                let waits_for_itself = ended.errors.contains("PMIX ERROR: UNREACHABLE");
                assert!(ended_with.is_some() || waits_for_itself, "{told}");
                unnamed += usize::from(!names(&ended, rank, &told));
                killed += 1;
                slowest = slowest.max(took);
                waiting += usize::from(ended.status.is_none());
            }
        }
    }
    println!(
        "{killed} of {kills} were killed while they ran; the slowest end came after {slowest:?}; {unnamed} unnamed"
    );
    assert!(unnamed <= 1 + kills as usize / 50, "{unnamed} of {killed} are told of without their rank");
    assert!(waiting <= 1 + kills as usize / 10, "{waiting} launchers waited for themselves");
    assert!(killed >= kills / 2, "at least those that would run for ever are killed, not {killed}");
}

/// Whether what is told of a kill names the rank, as far as it can. Open MPI's launcher says which rank it was, but 4.1 now
/// and then ends after its first sentence, that one process returned a status. MPICH's ends all others at once, before one
/// of them could tell, and gives no more than the number of a process; of a rank that dies while it joins, only that
/// something is wrong.
#[track_caller]
fn names(ended: &Ended, rank: usize, told: &str) -> bool {
    let said = [&ended.output[..], &ended.errors].concat();
    let by_open_mpi = said.contains(&format!("process rank {rank} ")) && said.contains("signal 9 (Killed)");
    let by_mpich = said.contains("BAD TERMINATION") && said.contains("Killed (signal 9)")
        || said.contains("process manager error waiting for completion");
    let without_rank = said.contains("1 process returned\na non-zero exit code") && ended.status == Some(137);
    assert!(by_open_mpi || by_mpich || without_rank, "what happened is not told: {told}");
    by_open_mpi || by_mpich
}

#[test]
fn a_hung_rank_ends_all_when_the_time_is_over() {
    let bench = bench();
    // Until they have joined nobody counts time, so they are given several times what that takes.
    let joined = Duration::from_secs(1) + 3 * run(&bench, RANKS, WORDS).took;
    for transport in ["shared", "messages"] {
        for rank in 0..RANKS {
            let words =
                format!("{WORDS} --repeat 100000000 --transport {transport} --timeout 2 --output y2=y.npy");
            let mut running = Running::start(command(&bench, RANKS, &words));
            assert!(all_there(&mut running), "they do not end by themselves");
            sleep(joined);
            assert!(running.stop(rank), "it is there");
            let stop = Instant::now();
            let ended = running.end(Duration::from_secs(60));
            let took = stop.elapsed();
            let told = format!("rank {rank}, {words}, {took:?}: {ended:#?}");
            assert!(took < SOON, "{told}");
            assert_eq!((ended.status, &ended.left[..]), (Some(3), &[][..]), "{told}");
            // Between runs, when ranks agree, or while they run.
            let said = [format!("rank {rank} did not come in time"), format!("waited 2 s for rank {rank} ")];
            assert!(said.iter().any(|said| ended.errors.contains(said)), "{told}");
            assert_eq!(bench.names(), ["p.weave"], "{told}");
        }
    }
}
