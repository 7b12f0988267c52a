//! What is done before what, whatever the timing.
//!
//! Each stream counts its actions and remembers, for every stream, up to which action it knows that
//! stream to be done. An event carries what its stream knew when it was recorded:
//!
//! ```text
//!   s0: alloc b0        s0 knows [1, 0]
//!   s0: b0 <- ...       s0 knows [2, 0]
//!   s0: record e0       s0 knows [3, 0]     e0 = [3, 0]
//!   s1: wait e0         s1 knows [3, 1]     so all of s0 up to here is done before what follows on s1
//! ```

use crate::host::{At, EventId, Recorded, Recordings, StreamId};
use crate::id::{Id, Table};

/// An action of a stream: the `time`th.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stamp {
    pub stream: StreamId,
    pub time: u64,
}

/// For each stream, up to which action it is known to be done.
type Clock = Table<StreamId, u64>;

/// What every stream knows of all streams.
pub(super) struct Order {
    clocks: Table<StreamId, Clock>,
    events: Recordings<Clock>,
}

impl Order {
    /// Before anything is enqueued.
    pub fn new(streams: usize) -> Order {
        let clock: Clock = (0..streams).map(|_| 0).collect();
        Order { clocks: (0..streams).map(|_| clock.clone()).collect(), events: Recordings::new() }
    }

    /// The next action of a stream.
    pub fn next(&mut self, stream: StreamId) -> Stamp {
        self.clocks[stream][stream] += 1;
        Stamp { stream, time: self.clocks[stream][stream] }
    }

    /// Whether an action is done before whatever is enqueued next on a stream.
    pub fn is_before(&self, earlier: Stamp, stream: StreamId) -> bool {
        self.clocks[stream][earlier.stream] >= earlier.time
    }

    /// The stream records an event.
    pub fn record(&mut self, stream: StreamId, event: EventId, at: &At) {
        self.events.record(event, at, self.clocks[stream].clone());
    }

    /// The stream waits for a recording of an event; `None` if it can never find one.
    pub fn wait(&mut self, stream: StreamId, event: EventId, back: u64, at: &At) -> Option<()> {
        let recorded = match self.events.wait(event, back, at) {
            Recorded::There(clock) => clock,
            Recorded::NotYet => return Some(()),
            Recorded::Never => return None,
        };
        let clock = &mut self.clocks[stream];
        for (of, time) in recorded.iter() {
            clock[of] = clock[of].max(*time);
        }
        Some(())
    }

    /// The start of the program, which is before everything.
    pub fn start() -> Stamp {
        Stamp { stream: StreamId::new(0), time: 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn knowledge_travels_with_events() {
        let [a, b, c] = [0, 1, 2].map(StreamId::new);
        let [first, second] = [0, 1].map(EventId::new);
        let (mut order, at) = (Order::new(3), At::outside());
        let early = order.next(a);
        order.record(a, first, &at);
        let late = order.next(a);
        assert_eq!(order.wait(c, second, 0, &at), None);
        assert_eq!(order.wait(b, first, 0, &at), Some(()));
        order.record(b, second, &at);
        assert_eq!(order.wait(c, second, 0, &at), Some(()));
        assert!(order.is_before(early, c) && !order.is_before(late, c));
        assert!(order.is_before(Order::start(), c));
    }
}
