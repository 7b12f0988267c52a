//! Programs over MPI give the bits that threads give, with shared memory and with messages. `src/bin/ranks.rs` is what
//! `mpirun` starts; see `launch.rs` for which `mpirun`.

use shardweave_testkit::launch;
use std::path::Path;
use std::time::Duration;

/// Plays so many plans on so many ranks; how many it were.
#[track_caller]
fn plays(ranks: usize, args: &[&str], limit: Duration) -> usize {
    let ended = launch::run(Path::new(env!("CARGO_BIN_EXE_shardweave-testkit-ranks")), ranks, args, limit);
    assert_eq!(ended.status, Some(0), "{args:?} on {ranks} ranks: {ended:#?}");
    let plans = ended.output.lines().find_map(|line| line.strip_suffix(" plans")?.parse().ok());
    let plans = plans.unwrap_or_else(|| panic!("{args:?} on {ranks} ranks: {ended:#?}"));
    // For who watches a long run.
    println!("{ranks} ranks, {}: {plans} plans in {:.1} s", args.join(" "), ended.took.as_secs_f64());
    plans
}

const CASES_LIMIT: Duration = Duration::from_secs(300);

/// Every plan of up to 8 devices once, on as many ranks as it has devices or on a few more. `SHARDWEAVE_ONE_OF` says
/// that one of so many is enough.
#[test]
fn the_cases_give_the_bits_of_threads() {
    let one_of = wish("SHARDWEAVE_ONE_OF").unwrap_or(1);
    for (ranks, devices) in [(1, "1-1"), (2, "2-2"), (3, "3-3"), (4, "1-4"), (8, "5-8")] {
        let plans = plays(ranks, &["cases", devices, &one_of.to_string()], CASES_LIMIT);
        assert!(plans > 0, "no case is for {devices} devices");
    }
}

/// How many programs are drawn without a wish.
const PROGRAMS: u64 = 1000;

fn wish(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")))
}

/// `SHARDWEAVE_CASES` and `SHARDWEAVE_SEED` say how many, and which, as in `generated.rs`.
#[test]
fn drawn_programs_give_the_bits_of_threads_however_late_ranks_are() {
    let (programs, seed) =
        (wish("SHARDWEAVE_CASES").unwrap_or(PROGRAMS), wish("SHARDWEAVE_SEED").unwrap_or(0));
    let limit = Duration::from_secs(120 + programs / 4);
    for (ranks, devices, part) in [(2, "2-2", 4), (3, "2-3", 4), (4, "2-4", 3), (8, "2-8", 6)] {
        let count = (programs / part).to_string();
        let seed = seed.to_string();
        let plans = plays(ranks, &["generated", devices, &count, &seed], limit);
        assert!(plans as u64 >= programs / part);
    }
}
