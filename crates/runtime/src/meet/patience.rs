//! How long a thread looks for a tick before it sleeps.
//!
//! Looking is right when the other is about to come, and has a core to come on: sleeping and waking
//! takes tens of microseconds. It is wrong when the other computes for long, or waits for the very core
//! that looks. Which it is changes with the machine's load, so a thread learns it: each tick that is
//! there in time makes it a little more patient, each that is not makes it much less so.

use super::progress::{Met, Progress, Tick};
use super::sync::{AtomicU32, MOST_LOOKS, Ordering};

/// What one more tick in time adds.
pub const STEP: u32 = 100;

/// What a tick that did not come in time leaves: a quarter.
pub const DIVISOR: u32 = 4;

/// How many threads want to run, as against how many can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cores {
    /// A core for every thread.
    Enough,
    /// More threads than cores: whoever looks takes a core from someone who works.
    TooFew,
}

/// What one thread has learned. It alone writes it.
pub(crate) struct Patience {
    looks: AtomicU32,
}

impl Patience {
    pub fn new() -> Patience {
        Patience { looks: AtomicU32::new(MOST_LOOKS) }
    }

    /// How often it would look now, where it has a core.
    #[cfg(test)]
    pub fn looks(&self) -> u32 {
        self.looks.load(Ordering::Relaxed)
    }

    /// Waits until the tick is published, or its publisher has stopped.
    pub fn wait(&self, progress: &Progress, tick: Tick, cores: Cores) -> Met {
        let looks = match cores {
            Cores::Enough => self.looks.load(Ordering::Relaxed),
            Cores::TooFew => 0,
        };
        match progress.spin(tick, looks) {
            Met::NotYet => {
                self.looks.store(looks / DIVISOR, Ordering::Relaxed);
                progress.sleep(tick)
            }
            found => {
                self.looks.store((looks + STEP).min(MOST_LOOKS), Ordering::Relaxed);
                found
            }
        }
    }
}
