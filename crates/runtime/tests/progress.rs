//! All interleavings of lanes that publish, wait and stop: no wakeup is lost, no stop is missed, and what
//! was written before a tick is seen after it.
//!
//! `loom` runs each model once for every order in which its threads can take their steps, with every
//! value that the memory model lets them read; a thread that waits for ever fails the model.

/// What `progress` is made of, as `loom` has it.
mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use loom::sync::{Condvar, Mutex};
}

#[path = "../src/meet/progress.rs"]
#[allow(dead_code)] // a session resets it between runs
mod progress;

use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use progress::{Met, Progress};

/// A lane writes, publishes, writes again, publishes again; what each tick promises is there.
#[test]
fn what_was_written_before_a_tick_is_seen_by_who_waits_for_it() {
    loom::model(|| {
        let (progress, written) = (Arc::new(Progress::new()), Arc::new(AtomicU64::new(0)));
        let lane = {
            let (progress, written) = (progress.clone(), written.clone());
            thread::spawn(move || {
                for tick in 1..=2 {
                    written.store(tick, Ordering::Relaxed);
                    progress.publish(tick);
                }
            })
        };
        for tick in 1..=2 {
            assert_eq!(progress.sleep(tick), Met::Reached);
            assert!(written.load(Ordering::Relaxed) >= tick);
        }
        lane.join().unwrap();
    });
}

/// Two lanes sleep for different ticks; both are woken, by the tick or by the stop. Of three threads, all
/// orders in which a thread is interrupted at most twice.
#[test]
fn a_stop_after_a_tick_wakes_all_who_sleep() {
    let mut few = loom::model::Builder::new();
    few.preemption_bound = Some(2);
    few.check(|| {
        let progress = Arc::new(Progress::new());
        let waiter = |tick, found| {
            let progress = progress.clone();
            thread::spawn(move || assert_eq!(progress.sleep(tick), found))
        };
        let waiters = [waiter(1, Met::Reached), waiter(2, Met::Stopped)];
        progress.publish(1);
        progress.stop();
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
}

/// A lane that stops without a tick is never waited for.
#[test]
fn a_stop_is_not_missed() {
    loom::model(|| {
        let progress = Arc::new(Progress::new());
        let lane = {
            let progress = progress.clone();
            thread::spawn(move || progress.stop())
        };
        if progress.spin(1, 1) == Met::NotYet {
            assert_eq!(progress.sleep(1), Met::Stopped);
        }
        lane.join().unwrap();
    });
}

/// Two lanes meet, as in a move: each arrives, reads what the other wrote, and goes on when it was read.
#[test]
fn two_lanes_exchange_without_a_race() {
    loom::model(|| {
        let lanes = Arc::new([Progress::new(), Progress::new()]);
        let memory = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let play = |own: usize| {
            let (lanes, memory) = (lanes.clone(), memory.clone());
            move || {
                memory[own].store(7, Ordering::Relaxed);
                lanes[own].publish(1);
                assert_eq!(lanes[1 - own].sleep(1), Met::Reached);
                assert_eq!(memory[1 - own].load(Ordering::Relaxed), 7);
                lanes[own].publish(2);
                assert_eq!(lanes[1 - own].sleep(2), Met::Reached);
                memory[own].store(9, Ordering::Relaxed);
            }
        };
        let other = thread::spawn(play(1));
        play(0)();
        other.join().unwrap();
    });
}
