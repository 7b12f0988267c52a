//! How the lanes of ranks on one host meet: each rank tells in memory that all of them see how far its lanes have come.
//!
//! ```text
//!  bytes of rank 0      tick of its first lane | of its second | ...      a cache line each
//!  bytes of rank 1      ...
//! ```
//!
//! Ticks count on from run to run, so nobody has to wait until all have seen the last tick of a run before another
//! starts. **Invariant.** All ranks count the same runs of the same programs ([`Ranks`](super::Ranks) agrees on the
//! plan), so a tick means the same to all.

use crate::engine::{Engine, EngineError, SharedBytes};
use crate::meet::{Cores, Tick};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A cache line, or the two that are fetched together.
const LINE: usize = 128;

/// A rank has at most so many lanes.
pub(super) const MOST_LANES: usize = 64;

/// Looks without a pause: some tens of microseconds.
const LOOKS: u32 = 2_000;

/// Looks after which other threads may run, before the waiting thread sleeps: about a millisecond if nobody wants to.
const YIELDS: u32 = 2_000;

/// How long it sleeps between two looks, first and at most.
const NAPS: (Duration, Duration) = (Duration::from_micros(20), Duration::from_micros(200));

/// The ticks of all lanes on this host.
pub(super) struct Ticks {
    /// By rank; none for ranks of other hosts.
    ranks: Vec<Option<SharedBytes>>,
}

/// A lane: which rank plays it, and which of its lanes it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct LaneOf {
    pub rank: usize,
    pub lane: usize,
}

impl Ticks {
    /// No tick told yet.
    pub fn new(engine: &dyn Engine) -> Result<Ticks, EngineError> {
        let ranks = engine.share(MOST_LANES * LINE)?;
        match ranks.iter().flatten().all(|shared| shared.bytes() >= MOST_LANES * LINE) {
            true => Ok(Ticks { ranks }),
            false => Err(EngineError::Refused("the engine shares fewer bytes than it was asked for".into())),
        }
    }

    /// Says that all before the tick is done; in ascending order.
    pub fn publish(&self, lane: LaneOf, tick: Tick) {
        // Release: what the rank wrote before is seen by whoever acquires the tick.
        self.bytes(lane).number(lane.lane * LINE).store(tick, Ordering::Release);
    }

    /// Waits until the lane has told the tick. Where it takes long, `naps` is called with how long, again and again.
    pub fn wait(&self, lane: LaneOf, tick: Tick, cores: Cores, mut naps: impl FnMut(Duration)) {
        let number = self.bytes(lane).number(lane.lane * LINE);
        let there = || number.load(Ordering::Acquire) >= tick;
        let (spins, yields) = match cores {
            Cores::Enough => (LOOKS, YIELDS),
            Cores::TooFew => (0, YIELDS),
        };
        for _ in 0..spins {
            if there() {
                return;
            }
            std::hint::spin_loop();
        }
        for _ in 0..yields {
            if there() {
                return;
            }
            std::thread::yield_now();
        }
        let (start, mut nap) = (Instant::now(), NAPS.0);
        while !there() {
            naps(start.elapsed());
            std::thread::sleep(nap);
            nap = (nap * 2).min(NAPS.1);
        }
    }

    fn bytes(&self, lane: LaneOf) -> &SharedBytes {
        self.ranks[lane.rank].as_ref().expect("lanes meet only where they share memory")
    }
}
