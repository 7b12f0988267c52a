//! All interleavings of what streams, events and moves are made of: lanes that publish, wait and stop, the
//! times that they tell with their ticks, and the crew of threads that plays them. No wakeup is lost, no stop
//! is missed, what was written before a tick is seen after it, and everybody comes to an end.
//!
//! `loom` runs each model once for every order in which its threads can take their steps, with every
//! value that the memory model lets them read; a thread that waits for ever fails the model. The files are
//! those of the library, with what `loom` has in the place of the system's atomics, locks and threads: so
//! `cargo test` runs the models as they are, and nothing is built a second time.

/// What the files are made of, as `loom` has it.
mod sync {
    pub use loom::hint::spin_loop;
    pub use loom::sync::atomic::{AtomicU64, Ordering};
    pub use loom::sync::{Condvar, Mutex};
    pub use loom::thread;

    /// No time passes in a model.
    pub struct Instant;

    impl Instant {
        pub fn now() -> Instant {
            Instant
        }

        #[allow(clippy::unused_self)] // as the system's is called
        pub fn elapsed(&self) -> std::time::Duration {
            std::time::Duration::ZERO
        }
    }

    /// Each look doubles what there is to go through.
    pub const MOST_LOOKS: u32 = 2;
}

#[path = "../src/threads/crew.rs"]
mod crew;
#[path = "../src/meet/dues.rs"]
mod dues;
#[path = "../src/meet/patience.rs"]
#[allow(dead_code)] // tests with real threads look into it
mod patience;
#[path = "../src/meet/progress.rs"]
#[allow(dead_code)] // a session resets it between runs
mod progress;

/// As the crew knows them.
mod meet {
    pub(crate) use crate::patience::{Cores, Patience};
    pub(crate) use crate::progress::{Met, Progress};
    pub(crate) use crate::sync;

    pub fn lock<T>(mutex: &sync::Mutex<T>) -> loom::sync::MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// As the crew knows them.
mod execute {
    #[derive(Debug)]
    #[allow(dead_code)] // the reasons are for people
    pub enum RunError {
        Broken(String),
        Threads(String),
    }

    pub fn panic_text(_: &(dyn std::any::Any + Send)) -> String {
        "a panic".into()
    }
}

use crew::Crew;
use dues::Dues;
use loom::sync::Arc;
use loom::sync::atomic::{AtomicU64, Ordering};
use loom::thread;
use patience::{Cores, Patience};
use progress::{Met, Progress};

/// All orders in which a thread is interrupted at most so often: enough where all orders are too many.
fn interrupted(at_most: usize, model: impl Fn() + Sync + Send + 'static) {
    let mut few = loom::model::Builder::new();
    few.preemption_bound = Some(at_most);
    few.check(model);
}

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
    interrupted(2, || {
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

/// A lane that looks before it sleeps, or has no core to look on, misses nothing.
#[test]
fn a_tick_is_met_whether_a_lane_looks_first_or_sleeps_at_once() {
    for cores in [Cores::Enough, Cores::TooFew] {
        loom::model(move || {
            let (progress, written) = (Arc::new(Progress::new()), Arc::new(AtomicU64::new(0)));
            let lane = {
                let (progress, written) = (progress.clone(), written.clone());
                thread::spawn(move || {
                    written.store(7, Ordering::Relaxed);
                    progress.publish(1);
                    progress.stop();
                })
            };
            let patience = Patience::new();
            assert_eq!(patience.wait(&progress, 1, cores), Met::Reached);
            assert_eq!(written.load(Ordering::Relaxed), 7);
            assert_eq!(patience.wait(&progress, 2, cores), Met::Stopped);
            lane.join().unwrap();
        });
    }
}

/// A lane that plays a link tells the time of a tick and goes on to the next: whoever meets the first finds
/// the time of the first.
#[test]
fn a_tick_is_met_with_its_own_time() {
    loom::model(|| {
        let told = Arc::new((Progress::new(), Dues::new([1, 2].into_iter())));
        let lane = {
            let told = told.clone();
            thread::spawn(move || {
                for tick in [1, 2] {
                    told.1.set(tick, 100 * tick);
                    told.0.publish(tick);
                }
            })
        };
        for tick in [1, 2] {
            assert_eq!(told.0.sleep(tick), Met::Reached);
            assert_eq!(told.1.get(tick), 100 * tick);
        }
        lane.join().unwrap();
    });
}

/// One stream fills two slots in turn, another one reads them: it waits for what was recorded two steps back,
/// so nothing that is still read is written.
#[test]
fn a_slot_is_filled_again_when_it_was_read() {
    const STEPS: u64 = 3;
    const SLOTS: u64 = 2;
    interrupted(3, || {
        let (filled, read) = (Arc::new(Progress::new()), Arc::new(Progress::new()));
        let slots = Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        let fills = {
            let (filled, read, slots) = (filled.clone(), read.clone(), slots.clone());
            thread::spawn(move || {
                for step in 1..=STEPS {
                    assert_eq!(read.sleep(step.saturating_sub(SLOTS)), Met::Reached);
                    slots[(step % SLOTS) as usize].store(step, Ordering::Relaxed);
                    filled.publish(step);
                }
            })
        };
        for step in 1..=STEPS {
            assert_eq!(filled.sleep(step), Met::Reached);
            assert_eq!(slots[(step % SLOTS) as usize].load(Ordering::Relaxed), step);
            read.publish(step);
        }
        fills.join().unwrap();
    });
}

/// Lane 0 fails; 1 waits for it, and 2 for 1: as in a run, who waits for one that has stopped stops too.
#[test]
fn a_failing_lane_ends_all() {
    interrupted(2, || {
        let lanes = Arc::new([Progress::new(), Progress::new(), Progress::new()]);
        let waits = |own: usize| {
            let lanes = lanes.clone();
            thread::spawn(move || {
                assert_eq!(lanes[own - 1].sleep(1), Met::Reached);
                lanes[own].publish(1);
                assert_eq!(lanes[own - 1].sleep(2), Met::Stopped);
                lanes[own].stop();
            })
        };
        let others = [waits(1), waits(2)];
        lanes[0].publish(1);
        lanes[0].stop();
        others.into_iter().for_each(|other| other.join().unwrap());
    });
}

/// A crew that grows from the caller alone to two: each rank is called once in each round, what it did is seen
/// when the round is over, and the thread ends with the crew.
#[test]
fn rounds_of_a_crew_are_whole() {
    interrupted(2, || {
        let mut crew = Crew::new();
        let calls = std::sync::Arc::new([AtomicU64::new(0), AtomicU64::new(0)]);
        for (ranks, called) in [(1, [1, 0]), (2, [2, 1]), (2, [3, 2])] {
            let counted = calls.clone();
            let call = move |rank: usize| {
                let before = counted[rank].load(Ordering::Relaxed);
                counted[rank].store(before + 1, Ordering::Relaxed);
            };
            crew.each(ranks, Cores::TooFew, std::sync::Arc::new(call)).unwrap();
            let calls = [0, 1].map(|rank: usize| calls[rank].load(Ordering::Relaxed));
            assert_eq!(calls, called);
        }
    });
}
