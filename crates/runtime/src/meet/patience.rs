//! How long a thread looks for a tick before it sleeps.
//!
//! Looking is right when the other is about to come, and has a core to come on: a sleeping thread takes some
//! tens of microseconds to wake. It is wrong when the other computes for long, or waits for the very core
//! that looks. Who looks for as long as waking takes, and then sleeps, loses at most as much again as if it had
//! known; and time that is looked in vain is kept small beside all time: it is a debt, several times as large,
//! that time pays off, and with too much of it a thread sleeps at once.
//!
//! ```text
//!  debt      ▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁▁
//!           █▇▆▅▄▃▂▁         █▇▆▅▄▃▂▁
//!  ─────────┬───────┬────────┬──────────▶ time
//!   in vain ┘       └ in     └ in vain
//!                     time
//! ```

use super::progress::{Met, Progress, Tick};
use super::sync::{AtomicU64, Instant, MOST_LOOKS, Ordering};

/// Of all time at most this part is looked in vain, in the long run.
pub const PART: u64 = 16;

/// A thread with more debt than this, in nanoseconds, does not look. A few looks in vain make as much.
pub const MOST_DEBT: u64 = 5_000_000;

/// How many threads want to run, as against how many can.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cores {
    /// A core for every thread.
    Enough,
    /// More threads than cores: whoever looks takes a core from someone who works.
    TooFew,
}

/// What one thread looked in vain. It alone writes it.
pub(crate) struct Patience {
    since: Instant,
    debt: Debt,
}

impl Patience {
    pub fn new() -> Patience {
        Patience { since: Instant::now(), debt: Debt::new() }
    }

    /// Waits until the tick is published, or its publisher has stopped.
    pub fn wait(&self, progress: &Progress, tick: Tick, cores: Cores) -> Met {
        let found = progress.look(tick);
        if found != Met::NotYet {
            return found;
        }
        if cores == Cores::Enough {
            let start = self.now();
            if self.debt.allows(start) {
                let found = progress.spin(tick, MOST_LOOKS);
                if found != Met::NotYet {
                    return found;
                }
                self.debt.add(start, self.now());
            }
        }
        progress.sleep(tick)
    }

    /// Nanoseconds since it began.
    fn now(&self) -> u64 {
        u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Time looked in vain, [`PART`] times, until it is paid off: the time at which it will be.
pub(crate) struct Debt(AtomicU64);

impl Debt {
    pub fn new() -> Debt {
        Debt(AtomicU64::new(0))
    }

    /// Whether more may be looked.
    pub fn allows(&self, now: u64) -> bool {
        self.0.load(Ordering::Relaxed) <= now.saturating_add(MOST_DEBT)
    }

    /// Looked in vain from one time to another.
    pub fn add(&self, start: u64, end: u64) {
        let paid = self.0.load(Ordering::Relaxed).max(start);
        self.0.store(paid.saturating_add((end - start).saturating_mul(PART)), Ordering::Relaxed);
    }
}
