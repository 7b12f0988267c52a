//! A slower link than shared memory, as arithmetic: when what is sent over it arrives.
//!
//! Every pair of devices has a link, and each direction of it is a wire of its own. What goes over one
//! wire goes one message after another; different wires know nothing of each other.
//!
//! ```text
//!  1 to 0   |─ bytes / speed ─|.. latency ..▶ arrives
//!           |                 |─ bytes ─|.. latency ..▶    the wire is free again before the first arrives
//!  2 to 0   |─ bytes ─|.. latency ..▶                      beside them
//! ```
//!
//! Times count from the start of a run. Nothing here looks at a clock.

use crate::meet::lock;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

/// How two devices are linked.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Link {
    /// Microseconds before the first byte arrives.
    pub latency_us: f64,
    /// Bytes that arrive in a microsecond.
    pub bytes_per_us: f64,
}

impl Link {
    /// How long a message takes on a wire that is free; nothing takes no time.
    pub fn time(&self, bytes: u64) -> Duration {
        if bytes == 0 { Duration::ZERO } else { self.latency().saturating_add(self.busy(bytes)) }
    }

    /// How long a message keeps others off its wire.
    fn busy(&self, bytes: u64) -> Duration {
        microseconds(bytes as f64 / self.bytes_per_us)
    }

    fn latency(&self) -> Duration {
        microseconds(self.latency_us)
    }
}

/// Without end where a duration cannot be so long.
fn microseconds(microseconds: f64) -> Duration {
    Duration::try_from_secs_f64(microseconds * 1e-6).unwrap_or(Duration::MAX)
}

/// When a message starts on its wire and when all of it has arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Delivery {
    pub start: Duration,
    pub arrival: Duration,
}

/// All wires between the devices of a run.
pub(crate) struct Wires {
    link: Link,
    /// For each device the wires that lead to it, by the device that they come from.
    to: Box<[Mutex<BTreeMap<DeviceId, Wire>>]>,
}

impl Wires {
    /// Between so many devices, nothing under way.
    pub fn new(link: Link, devices: usize) -> Wires {
        Wires { link, to: (0..devices).map(|_| Mutex::default()).collect() }
    }

    /// Sends a message that is ready at `earliest`.
    pub fn send(&self, from: DeviceId, to: DeviceId, bytes: u64, earliest: Duration) -> Delivery {
        let busy = self.link.busy(bytes);
        let start = lock(&self.to[to.index()]).entry(from).or_default().take(earliest, busy);
        Delivery { start, arrival: start.saturating_add(busy).saturating_add(self.link.latency()) }
    }
}

/// One direction of a link.
#[derive(Default)]
struct Wire {
    /// When it is busy, in order; no span meets the next.
    busy: Vec<(Duration, Duration)>,
}

impl Wire {
    /// Takes the wire for so long, from when it is first free for so long: no sooner than `earliest`. Gives
    /// the start.
    ///
    /// Two streams may ask in another order than their messages are ready in, for lanes do not run in step
    /// with the times that they play. So a message may go before those that were asked for sooner, into a
    /// gap that they leave.
    fn take(&mut self, earliest: Duration, length: Duration) -> Duration {
        let mut start = earliest;
        let mut place = self.busy.partition_point(|&(_, end)| end <= earliest);
        while let Some(&(from, end)) = self.busy.get(place) {
            if start.saturating_add(length) <= from {
                break;
            }
            start = start.max(end);
            place += 1;
        }
        if length.is_zero() {
            return start;
        }
        let end = start.saturating_add(length);
        let follows = place.checked_sub(1).filter(|&before| self.busy[before].1 == start);
        let leads = self.busy.get(place).is_some_and(|&(from, _)| from == end);
        match (follows, leads) {
            (Some(before), true) => {
                self.busy[before].1 = self.busy[place].1;
                self.busy.remove(place);
            }
            (Some(before), false) => self.busy[before].1 = end,
            (None, true) => self.busy[place].0 = start,
            (None, false) => self.busy.insert(place, (start, end)),
        }
        start
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    /// 2 us, and 1000 bytes a microsecond.
    const LINK: Link = Link { latency_us: 2.0, bytes_per_us: 1000.0 };

    /// Sends so many thousand bytes; start and arrival in microseconds.
    fn sent(wires: &Wires, from: usize, to: usize, thousands: u64, earliest: u64) -> (u128, u128) {
        let (from, to) = (DeviceId::new(from), DeviceId::new(to));
        let Delivery { start, arrival } = wires.send(from, to, thousands * 1000, us(earliest));
        (start.as_micros(), arrival.as_micros())
    }

    #[test]
    fn time_is_latency_and_bytes_over_speed() {
        assert_eq!(LINK.time(0), Duration::ZERO);
        assert_eq!(LINK.time(1_000), us(3));
        assert_eq!(LINK.time(1_000_000), us(1002));
        assert_eq!(Link { latency_us: 0.0, bytes_per_us: 1e-300 }.time(u64::MAX), Duration::MAX);
    }

    #[test]
    fn bytes_of_one_pair_go_one_after_another_and_their_latencies_overlap() {
        let wires = Wires::new(LINK, 2);
        assert_eq!(sent(&wires, 1, 0, 10, 5), (5, 17));
        // Ready while the first is under way: it starts when the wire is free, before the first is there.
        assert_eq!(sent(&wires, 1, 0, 10, 6), (15, 27));
        assert_eq!(sent(&wires, 1, 0, 3, 0), (0, 5), "there is room before both");
        assert_eq!(sent(&wires, 1, 0, 3, 0), (25, 30), "there is none any more");
        assert_eq!(sent(&wires, 1, 0, 1, 100), (100, 103), "the wire was free for long");
    }

    #[test]
    fn pairs_and_directions_are_beside_each_other() {
        let wires = Wires::new(LINK, 4);
        for (from, to) in [(1, 0), (2, 0), (3, 0), (0, 1), (0, 2), (1, 2)] {
            assert_eq!(sent(&wires, from, to, 10, 0), (0, 12), "{from} to {to}");
        }
        assert_eq!(sent(&wires, 2, 0, 10, 1), (10, 22));
    }

    #[test]
    fn a_message_takes_the_first_gap_that_is_long_enough() {
        let wires = Wires::new(LINK, 2);
        for earliest in [10, 20, 40] {
            sent(&wires, 0, 1, 5, earliest);
        }
        assert_eq!(sent(&wires, 0, 1, 6, 0).0, 0);
        assert_eq!(sent(&wires, 0, 1, 6, 0).0, 25, "15 to 20 is too short");
        assert_eq!(sent(&wires, 0, 1, 5, 12).0, 15, "and just long enough for less");
        assert_eq!(sent(&wires, 0, 1, 9, 0).0, 31);
        assert_eq!(sent(&wires, 0, 1, 1, 0).0, 6);
        let wire = &wires.to[1].lock().unwrap()[&DeviceId::new(0)];
        assert_eq!(wire.busy, [(us(0), us(7)), (us(10), us(45))], "what meets is one span");
    }

    /// However messages come, none is early, and no two are on the wire at once.
    #[test]
    fn a_wire_carries_one_message_at_a_time() {
        let mut state = 1_u64;
        let mut below = |n: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % n
        };
        for _ in 0..50 {
            let wires = Wires::new(LINK, 2);
            let mut spans: Vec<(u128, u128)> = Vec::new();
            for _ in 0..60 {
                let (thousands, earliest) = (1 + below(7), below(300));
                let (start, arrival) = sent(&wires, 0, 1, thousands, earliest);
                assert!(start >= u128::from(earliest));
                assert_eq!(arrival, start + u128::from(thousands) + 2);
                spans.push((start, start + u128::from(thousands)));
            }
            spans.sort_unstable();
            assert!(spans.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{spans:?}");
        }
    }

    #[test]
    fn a_link_that_never_delivers_does_not_overflow() {
        let wires = Wires::new(Link { latency_us: 1e300, bytes_per_us: 1e-300 }, 2);
        let send = |earliest| wires.send(DeviceId::new(0), DeviceId::new(1), 7, us(earliest)).arrival;
        assert_eq!([send(0), send(1)], [Duration::MAX; 2]);
    }
}
