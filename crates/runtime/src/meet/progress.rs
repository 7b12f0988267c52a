//! How far one lane has come: the only thing that lanes tell each other while they run.
//!
//! A lane publishes ticks in ascending order; others wait until it has published a tick, or learn that
//! it has stopped and never will. Whatever a lane wrote to memory before it published is seen by
//! whoever waited for that tick.
//!
//! ```text
//!                    state = tick << 2 | STOPPED | SLEEPERS
//!  publish(tick)                              sleep(tick)
//!    old = swap(tick << 2)                      take the lock
//!    if old had SLEEPERS:                       loop:  old = state |= SLEEPERS
//!      take the lock, wake all                         done if old says so, else sleep on the lock
//! ```
//!
//! No wakeup is lost: all changes of `state` are read-modify-writes of one atomic, so they have one
//! order. Either the waiter's `|=` comes after the publisher's swap, then it sees the tick; or it comes
//! before, then the publisher sees `SLEEPERS` and takes the lock, which it gets only when the waiter
//! sleeps (or has found another way out). `tests/models.rs` goes through all interleavings.

use super::sync::{AtomicU64, Condvar, Mutex, Ordering, spin_loop};
use std::sync::PoisonError;

/// A point in a run: 1, 2, 3, ... in the order of the program.
pub type Tick = u64;

const SLEEPERS: u64 = 1;
const STOPPED: u64 = 2;
const TICK_SHIFT: u32 = 2;

/// What someone who looked for a tick found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Met {
    /// The tick is published.
    Reached,
    /// Not yet.
    NotYet,
    /// It stopped before, and will never publish it.
    Stopped,
}

/// The progress of one lane. On cache lines of its own: others look at it all the time.
#[repr(align(128))]
pub struct Progress {
    state: AtomicU64,
    sleepers: Mutex<()>,
    changed: Condvar,
}

impl Progress {
    /// Nothing published yet: tick 0 is reached.
    pub fn new() -> Progress {
        Progress { state: AtomicU64::new(0), sleepers: Mutex::new(()), changed: Condvar::new() }
    }

    /// Says that all before `tick` is done. Called by the lane itself only, in ascending order.
    pub fn publish(&self, tick: Tick) {
        // Release: what the lane wrote before is seen by whoever acquires the tick.
        let old = self.state.swap(tick << TICK_SHIFT, Ordering::AcqRel);
        self.wake(old);
    }

    /// Says that no further tick will come.
    pub fn stop(&self) {
        let old = self.state.fetch_or(STOPPED, Ordering::AcqRel);
        self.wake(old);
    }

    /// Starts again from tick 0. Only while nobody waits.
    pub fn reset(&self) {
        self.state.store(0, Ordering::Release);
    }

    /// Whether `tick` is published.
    pub fn look(&self, tick: Tick) -> Met {
        met(self.state.load(Ordering::Acquire), tick)
    }

    /// Looks until `tick` is published or the lane has stopped, so many times.
    pub fn spin(&self, tick: Tick, looks: u32) -> Met {
        for _ in 0..looks {
            match self.look(tick) {
                Met::NotYet => spin_loop(),
                found => return found,
            }
        }
        self.look(tick)
    }

    /// Sleeps until `tick` is published or the lane has stopped.
    pub fn sleep(&self, tick: Tick) -> Met {
        let mut guard = self.sleepers.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            match met(self.state.fetch_or(SLEEPERS, Ordering::AcqRel), tick) {
                Met::NotYet => guard = self.changed.wait(guard).unwrap_or_else(PoisonError::into_inner),
                found => return found,
            }
        }
    }

    fn wake(&self, old: u64) {
        if old & SLEEPERS != 0 {
            // Holding the lock once means: every sleeper that set the flag is asleep by now, or has
            // seen the change.
            drop(self.sleepers.lock().unwrap_or_else(PoisonError::into_inner));
            self.changed.notify_all();
        }
    }
}

fn met(state: u64, tick: Tick) -> Met {
    if state >> TICK_SHIFT >= tick {
        Met::Reached
    } else if state & STOPPED != 0 {
        Met::Stopped
    } else {
        Met::NotYet
    }
}
