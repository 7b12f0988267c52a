//! When what a lane tells of is there, where that is later than when it tells: a delivery over a link that
//! is played.
//!
//! ```text
//!  lane            set(tick, time), publish(tick)
//!  who waits                                         waits for the tick, get(tick)
//! ```
//!
//! Every tick has a place of its own, so a lane may go on to later ticks before anybody has looked at an
//! earlier one. A place is written before its tick is published and read after it is met, so publishing,
//! which releases, and meeting, which acquires, are all the order that it needs.
//!
//! **Invariant.** Whoever waits for a tick of a lane waits for one that the lane tells: a wait is made with the
//! telling (`instantiate/unroll.rs`), for the same tick. So a tick without a place is a fault of ours, and not
//! one of which nothing has to be waited for.

use super::progress::Tick;
use super::sync::{AtomicU64, Ordering};

/// The times of one lane's ticks, in nanoseconds since the start of a run.
pub struct Dues {
    /// In ascending order.
    ticks: Box<[Tick]>,
    times: Box<[AtomicU64]>,
}

impl Dues {
    /// Of a lane that publishes these ticks, in ascending order.
    pub fn new(ticks: impl Iterator<Item = Tick>) -> Dues {
        let ticks: Box<[Tick]> = ticks.collect();
        let times = ticks.iter().map(|_| AtomicU64::new(0)).collect();
        Dues { ticks, times }
    }

    /// What the tick tells of is there at `time`. Called by the lane itself, before it publishes the tick.
    ///
    /// # Panics
    /// If the lane does not publish the tick.
    pub fn set(&self, tick: Tick, time: u64) {
        self.time(tick).store(time, Ordering::Relaxed);
    }

    /// When what the tick tells of is there. Only after the tick was met.
    ///
    /// # Panics
    /// If the lane does not publish the tick.
    pub fn get(&self, tick: Tick) -> u64 {
        self.time(tick).load(Ordering::Relaxed)
    }

    fn time(&self, tick: Tick) -> &AtomicU64 {
        let place = self.ticks.binary_search(&tick);
        &self.times[place.expect("a lane publishes every tick that it is waited for at")]
    }
}
