//! Ranks that do not come, end the others, or send what was not agreed.

use crate::exchanges::{Drawn, FORMS};
use shardweave_mpi::{Mpi, MpiOptions};
use shardweave_runtime::engine::{Engine, EngineError, Exchange, Form};
use shardweave_runtime::ranks::launched;
use std::thread::sleep;
use std::time::{Duration, Instant};

const FAR_TOO_LONG: Duration = Duration::from_secs(30);
pub const TIMEOUT: Duration = Duration::from_millis(300);

/// The last rank sleeps; all others find out that it is late, and that nobody else is.
pub fn a_rank_is_late(mpi: &Mpi, what: &str) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    let last = ranks - 1;
    let form = match what {
        "messages" => Some(Form::Messages),
        "broadcast" => Some(Form::Broadcast { root: last }),
        "all_gather" => Some(Form::AllGather),
        "all_to_all" => Some(Form::AllToAll),
        "gather_to_last" => Some(Form::Gather { root: last }),
        "gather_to_first" => Some(Form::Gather { root: 0 }),
        "scatter" | "scatter_to_busy" => Some(Form::Scatter { root: last }),
        _ => None,
    };
    // The root follows from the number.
    let root = if what == "gather_to_first" { 0 } else { last };
    let drawn = form.map(|form| Drawn::even(form, ranks, (7 * ranks + root) as u64, 10_000));
    // All have met once: a group that is there already is asked in another way than one that is made.
    if let Some(drawn) = drawn.as_ref().filter(|_| std::env::args().any(|arg| arg == "--met")) {
        drawn.make(mpi, 0);
    }
    // Members that have nothing for each other do not blame each other.
    let is_busy = what == "scatter_to_busy" && rank == 1;
    if rank == last || is_busy {
        sleep(FAR_TOO_LONG);
        panic!("this rank should have been ended");
    }
    let start = Instant::now();
    let late = match drawn {
        // Who sends to the root may be done with it before all have come. The next call waits for all.
        Some(drawn) if what.starts_with("gather_to") => {
            drawn.try_make(mpi, 0).and_then(|()| mpi.least(1).map(drop))
        }
        Some(drawn) => drawn.try_make(mpi, 0),
        None if what == "tell_all" => mpi.tell_all(&[1, 2]).map(drop),
        None if what == "least" => mpi.least(1).map(drop),
        None if what == "gather" => mpi.gather(&[1; 100]).map(drop),
        None if what == "share" => mpi.share(100).map(drop),
        None => panic!("nothing is late in `{what}`"),
    };
    let took = start.elapsed();
    let Err(EngineError::Late(late)) = late else { panic!("a rank is late, but {late:?}") };
    assert_eq!(late.ranks, [last]);
    assert!(took >= TIMEOUT && took < Duration::from_secs(5), "after {took:?}");
    // Others still find out who is late.
    sleep(Duration::from_millis(400));
    mpi.abort(&format!("in {what}: {}", EngineError::Late(late)));
}

/// The last rank does not begin, while the others wait for it to do so.
pub fn a_rank_does_not_begin(options: MpiOptions) {
    let rank = launched().map(|(rank, _)| rank);
    if rank.expect("the launcher says which rank this is") == 1 {
        sleep(FAR_TOO_LONG);
        panic!("this rank should have been ended");
    }
    let begun = options.init().map(drop);
    unreachable!("the other rank does not begin, but {begun:?}");
}

/// The last rank does not end, while the others wait for it to do so.
pub fn a_rank_does_not_end(mpi: Mpi) {
    if mpi.place().rank == mpi.place().ranks() - 1 {
        sleep(FAR_TOO_LONG);
        panic!("this rank should have been ended");
    }
    drop(mpi);
    unreachable!("the last rank does not end, but it was not waited for");
}

/// Who comes before the time is over is waited for, also where time is asked for more than once.
pub fn a_rank_is_slow_but_comes(mpi: &Mpi) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    for (number, form) in FORMS.into_iter().enumerate() {
        if rank == number % ranks {
            sleep(Duration::from_millis(150));
        }
        Drawn::even(form, ranks, number as u64, 5000).make(mpi, number);
        assert_eq!(mpi.least(rank as u64), Ok(0));
    }
}

/// The last rank ends all while they wait for it without a timeout.
pub fn a_rank_aborts(mpi: &Mpi) {
    let ranks = mpi.place().ranks();
    if mpi.place().rank == ranks - 1 {
        sleep(Duration::from_millis(100));
        mpi.abort("the device is on fire");
    }
    let waited = Drawn::even(Form::AllGather, ranks, 1, 100).try_make(mpi, 0);
    panic!("the last rank does not come, but {waited:?}");
}

/// The last rank ends, or makes another call, while the others make one.
pub fn a_rank_goes_its_own_way(mpi: Mpi, what: &str) {
    let (rank, ranks) = (mpi.place().rank, mpi.place().ranks());
    if rank == ranks - 1 {
        match what {
            "ends" => drop(mpi),
            _ => assert_eq!(
                told(mpi.share(100).map(drop)),
                format!("rank 0 tells all something while this rank shares memory: {SAME}")
            ),
        }
        // What it has to say comes out, and then it is ended.
        eprintln!("the reason of this rank");
        sleep(FAR_TOO_LONG);
        panic!("this rank should have been ended");
    }
    let does = if what == "ends" { "has ended its part" } else { "shares memory" };
    let other = told(mpi.tell_all(&[1; 1000]).map(drop));
    assert_eq!(other, format!("rank {} {does} while this rank tells all something: {SAME}", ranks - 1));
    // What follows cannot go well.
    drop(mpi);
    unreachable!("the ranks should have been ended");
}

const SAME: &str = "all ranks make the same calls in the same order";

fn told(made: Result<(), EngineError>) -> String {
    made.expect_err("the others make another call").to_string()
}

/// The last rank panics while the others wait for it without a timeout.
pub fn a_rank_panics(mpi: &Mpi) {
    let ranks = mpi.place().ranks();
    assert!(mpi.place().rank != ranks - 1, "this rank has a bug");
    let waited = mpi.least(1);
    unreachable!("the last rank does not come, but {waited:?}");
}

/// The last rank ends without a word while the others wait for it.
pub fn a_rank_dies(mpi: &Mpi) {
    if mpi.place().rank == mpi.place().ranks() - 1 {
        std::process::abort();
    }
    let waited = mpi.least(1);
    unreachable!("the last rank does not come, but {waited:?}");
}

/// Rank 0 sends less than rank 1 expects.
pub fn a_message_is_too_short(mpi: &Mpi) {
    let mut got = [0; 100];
    let sends: &[(usize, &[u8])] = if mpi.place().rank == 0 { &[(1, &[7; 60])] } else { &[] };
    let receives: &mut [(usize, &mut [u8])] =
        if mpi.place().rank == 1 { &mut [(0, &mut got)] } else { &mut [] };
    let exchange = Exchange { stream: 0, form: Form::Messages, members: &[0, 1], most: 100, sends, receives };
    let made = mpi.exchange(exchange);
    match mpi.place().rank {
        0 => assert_eq!(made, Ok(())),
        _ => {
            let error = made.expect_err("40 bytes are missing").to_string();
            assert!(error.contains("rank 0") && error.contains("100"), "{error}");
        }
    }
}
