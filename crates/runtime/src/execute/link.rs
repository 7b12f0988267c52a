//! A slower link than shared memory, played: threads deliver as a network with this link would.
//!
//! ```text
//!  copy   ├─ elements ─┤
//!  link   ├── latency ──┼── bytes from other devices / speed ──┤ then the device goes on
//! ```
//! All that a device takes from others in one part of a move is in flight together, so latency counts
//! once; it comes in through the device's one link, so bytes count all. What a device takes from itself
//! is free.

use std::time::{Duration, Instant};

/// How two devices are linked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Microseconds before the first byte arrives.
    pub latency_us: f64,
    /// Bytes that arrive in a microsecond.
    pub bytes_per_us: f64,
}

impl Link {
    /// The shortest time that the system's clock is trusted to wake a thread after.
    const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

    /// How long so many bytes take; nothing takes no time.
    pub fn time(&self, bytes: u64) -> Duration {
        if bytes == 0 {
            return Duration::ZERO;
        }
        let microseconds = self.latency_us + bytes as f64 / self.bytes_per_us;
        Duration::try_from_secs_f64(microseconds * 1e-6).unwrap_or(Duration::MAX)
    }

    /// Waits until bytes that were asked for at `start` have arrived.
    pub(crate) fn deliver(&self, start: Instant, bytes: u64) {
        let time = self.time(bytes);
        loop {
            let left = time.saturating_sub(start.elapsed());
            match left.checked_sub(Link::SHORTEST_SLEEP) {
                Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
                _ if left.is_zero() => return,
                _ => std::thread::yield_now(),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_is_latency_and_bytes_over_speed() {
        let link = Link { latency_us: 2.0, bytes_per_us: 1000.0 };
        assert_eq!(link.time(0), Duration::ZERO);
        assert_eq!(link.time(1_000), Duration::from_micros(3));
        assert_eq!(link.time(1_000_000), Duration::from_micros(1002));
        assert_eq!(Link { latency_us: 0.0, bytes_per_us: 1e-300 }.time(u64::MAX), Duration::MAX);
    }

    #[test]
    fn a_delivery_is_never_early() {
        let link = Link { latency_us: 300.0, bytes_per_us: 1.0 };
        for bytes in [0, 1, 50, 2000] {
            let start = Instant::now();
            link.deliver(start, bytes);
            assert!(start.elapsed() >= link.time(bytes));
        }
    }
}
