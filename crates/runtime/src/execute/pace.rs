//! Times that streams play, where a link is played: when the work of each stream of a device would be done.
//!
//! Bytes are copied at once, and with them goes a time before which nobody may compute with them. So a lane
//! never waits for a delivery where it moves: it asks for one, tells the time together with the tick, and
//! goes on. Only where it computes it waits until the time has come.
//!
//! ```text
//!                 real time ─▶                                    played time of the stream
//!  moves     |copy, tell|copy, tell|                              arrival of the first, of the second, ...
//!  computes        wait for the tick, wait till it is due |linear|        end of the linear
//! ```
//!
//! **What a stream's time is.** A stream does one thing after another, so it has one time: when all that it
//! did would be done. Work of a core takes real time: it starts when its stream's time has come, and when it
//! ends, that is the stream's time. A move starts on its wires at the time of its stream, which is that of
//! the last thing it met; it is done when all of it has arrived. A stream that only moves is a copy engine:
//! it needs no core where devices are real, so how soon the system gives its thread one does not count, nor
//! does what it copies out of the device's own memory. It cannot be early: a tick is told after the bytes are
//! copied.
//!
//! It does not matter whether a device has a lane for each stream or one for all: times belong to streams, and
//! the order of a program is one in which no stream waits for something later. So a device needs one thread
//! to play how its streams overlap.
//!
//! **Why nothing is seen before it is due.** A tick carries the time of the stream that tells it, and a stream
//! that meets a tick takes over its time if that is later. So the time of a stream is never before the time of
//! anything that it has met, and kernels, and the end of a lane, wait for the stream's time. Moves go on with
//! what is not yet due, but what they make is due later still.

use super::link::{Delivery, Link, Wires};
use crate::instantiate::{Copy, Lane, LaneId, Tasks, Work};
use crate::meet::{Dues, Tick};
use shardweave_compiler::host::StreamId;
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::mesh::DeviceId;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// The link of one run, as far as it is played.
pub(crate) struct Play {
    dues: Table<LaneId, Dues>,
    wires: Wires,
    start: Instant,
}

impl Play {
    /// For a run of these tasks that starts now, with nothing under way.
    pub fn new(link: Link, tasks: &Tasks) -> Play {
        let ticks = |lane: &Lane| {
            let told = lane.tasks.iter().filter_map(|task| match task.work {
                Work::Publish(tick) => Some(tick),
                _ => None,
            });
            Dues::new(told)
        };
        let dues = tasks.lanes.values().map(ticks).collect();
        Play { dues, wires: Wires::new(link, tasks.used.len()), start: Instant::now() }
    }

    /// From which moment times count.
    pub fn start(&self) -> Instant {
        self.start
    }
}

/// What runs a stream, where devices are real.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// A core: it computes.
    Core,
    /// Something that only moves bytes.
    Copier,
}

/// A stream as it is played.
#[derive(Clone, Copy)]
struct Played {
    engine: Engine,
    /// When all that it did would be done.
    time: Duration,
}

/// The times of a lane's streams.
pub(crate) struct Pace<'a> {
    play: &'a Play,
    lane: LaneId,
    device: DeviceId,
    streams: Table<StreamId, Played>,
}

impl<'a> Pace<'a> {
    /// A lane at its start.
    pub fn new(play: &'a Play, id: LaneId, tasks: &Tasks) -> Pace<'a> {
        let lane = &tasks.lanes[id];
        let mut streams: Table<StreamId, Played> = Table::new();
        for task in &lane.tasks {
            let stream = tasks.stream(task.turn);
            while streams.len() <= stream.index() {
                streams.push(Played { engine: Engine::Copier, time: Duration::ZERO });
            }
            if let Work::Kernel(_) = task.work {
                streams[stream].engine = Engine::Core;
            }
        }
        Pace { play, lane: id, device: lane.device, streams }
    }

    /// The lane is about to tell that a stream has come to a tick.
    pub fn tells(&self, stream: StreamId, tick: Tick) {
        let time = u64::try_from(self.streams[stream].time.as_nanos()).unwrap_or(u64::MAX);
        self.play.dues[self.lane].set(tick, time);
    }

    /// A stream has met others at a tick.
    pub fn met(&mut self, stream: StreamId, lanes: &[LaneId], tick: Tick) {
        let told = lanes.iter().map(|&lane| self.play.dues[lane].get(tick)).max();
        self.raise(stream, Duration::from_nanos(told.unwrap_or(0)));
    }

    /// Waits until the stream's time has come.
    pub fn wait_for(&self, stream: StreamId) {
        wait_until(self.play.start, self.streams[stream].time);
    }

    /// Waits until the times of all streams have come.
    pub fn wait_for_all(&self) {
        let last = self.streams.values().map(|stream| stream.time).max();
        wait_until(self.play.start, last.unwrap_or_default());
    }

    /// A stream has done work that takes real time.
    pub fn worked(&mut self, stream: StreamId) {
        self.raise(stream, self.play.start.elapsed());
    }

    /// A stream has copied what a move brings. Gives the time from the first byte on a wire to the last one
    /// that arrives, if anything came over one.
    pub fn took(&mut self, stream: StreamId, copy: &Copy) -> Option<Delivery> {
        let mut bytes: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for (from, more) in copy.sources().filter(|(from, more)| *from != self.device && *more > 0) {
            *bytes.entry(from).or_default() += more as u64;
        }
        let Played { engine, time } = self.streams[stream];
        let send = |(from, bytes)| self.play.wires.send(from, self.device, bytes, time);
        let all = bytes.into_iter().map(send).reduce(|one, other| Delivery {
            start: one.start.min(other.start),
            arrival: one.arrival.max(other.arrival),
        });
        match (all, engine) {
            (Some(all), _) => self.raise(stream, all.arrival),
            (None, Engine::Core) => self.worked(stream),
            (None, Engine::Copier) => {}
        }
        all
    }

    fn raise(&mut self, stream: StreamId, time: Duration) {
        let own = &mut self.streams[stream].time;
        *own = time.max(*own);
    }
}

/// The shortest time that the system's clock is trusted to wake a thread after.
const SHORTEST_SLEEP: Duration = Duration::from_micros(100);

/// Waits until so long after `start`.
fn wait_until(start: Instant, time: Duration) {
    loop {
        let left = time.saturating_sub(start.elapsed());
        match left.checked_sub(SHORTEST_SLEEP) {
            Some(sleep) if !sleep.is_zero() => std::thread::sleep(sleep),
            _ if left.is_zero() => return,
            _ => std::thread::yield_now(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::Reach;
    use crate::instantiate::tasks::Turn;
    use crate::instantiate::{Instr, InstrId, Lies, Onto, Part, Runs, Task, Transfer, TurnId};
    use shardweave_compiler::dtype::DType;
    use shardweave_compiler::layout::Overlap;

    /// Devices with one lane each, which publishes the ticks 1 to 3, each on another stream.
    fn tasks(devices: usize) -> Tasks {
        let instr = |stream| Instr {
            text: String::new(),
            name: String::new(),
            stream: StreamId::new(stream),
            value: None,
            kind: None,
        };
        let turn = |instr| Turn { instr: InstrId::new(instr), steps: [].into() };
        let publish = |tick: Tick| Task { turn: TurnId::new(tick as usize - 1), work: Work::Publish(tick) };
        let lane = |device| Lane {
            device: DeviceId::new(device),
            stream: None,
            tasks: (1..=3).map(publish).collect(),
        };
        Tasks {
            lanes: (0..devices).map(lane).collect(),
            instrs: (0..3).map(instr).collect(),
            turns: (0..3).map(turn).collect(),
            used: vec![true; devices],
            arena: 0,
            packed_arena: 0,
            reach: Reach::default(),
            packed_constants: 0,
            last_tick: 0,
        }
    }

    /// Takes so many thousand bytes from each of these devices.
    fn copy(from: &[(usize, u64)]) -> Copy {
        let transfer = |&(from, thousands): &(usize, u64)| {
            let bytes = 1000 * thousands;
            let all = Overlap { at_first: 0, at_second: 0, len: bytes };
            let runs = Runs::new(&[vec![all]], &[bytes], &[bytes], 1).expect("the whole piece");
            let part = Part { from: DeviceId::new(from), source: 0, lies: Lies::InArena };
            Transfer { parts: [part].into(), onto: Onto::Nothing, target: 0, runs }
        };
        let transfers = from.iter().map(transfer).collect();
        Copy { dtype: DType::Bool, fill: None, combine: None, transfers }
    }

    fn us(microseconds: u64) -> Duration {
        Duration::from_micros(microseconds)
    }

    /// 2 us, and 1000 bytes a microsecond.
    const LINK: Link = Link { latency_us: 2.0, bytes_per_us: 1000.0 };

    /// What a stream that only moves is told, and tells, does not depend on when it runs.
    #[test]
    fn streams_that_move_take_over_each_others_times() {
        let tasks = tasks(3);
        let play = Play::new(LINK, &tasks);
        let lane = |device| LaneId::new(device);
        let [mut one, mut two, mut three] = [0, 1, 2].map(|at| Pace::new(&play, lane(at), &tasks));
        let [first, second] = [0, 1].map(StreamId::new);
        let took = |start, arrival| Some(Delivery { start: us(start), arrival: us(arrival) });
        one.tells(first, 1);
        let all = copy(&[(0, 9), (1, 10), (2, 20)]);
        assert_eq!(one.took(first, &all), took(0, 22), "peers are beside each other");
        one.tells(first, 2);
        assert_eq!(one.took(first, &copy(&[(1, 10)])), took(22, 34), "a stream does one thing after another");
        assert_eq!(
            one.took(second, &copy(&[(1, 4)])),
            took(10, 16),
            "streams are beside each other, on one wire"
        );
        one.tells(first, 3);
        two.met(first, &[lane(0)], 1);
        assert_eq!(
            two.streams[first].time,
            us(0),
            "the tick of before, though the lane has told of later ones"
        );
        two.met(first, &[lane(0)], 2);
        assert_eq!(two.took(first, &copy(&[(1, 50)])), None, "what is its own is free");
        assert_eq!(two.took(first, &copy(&[(0, 5), (0, 5)])), took(22, 34), "one message from each");
        two.tells(first, 3);
        three.met(second, &[lane(0), lane(1)], 3);
        assert_eq!([first, second].map(|stream| three.streams[stream].time), [us(0), us(34)]);
        three.met(second, &[lane(0)], 1);
        assert_eq!(three.streams[second].time, us(34), "times do not go back");
    }

    /// A core is at work in real time, and never before the time of its stream.
    #[test]
    fn work_takes_real_time() {
        let tasks = tasks(2);
        let play = Play::new(Link { latency_us: 3000.0, bytes_per_us: 1e9 }, &tasks);
        let stream = StreamId::new(1);
        let mut pace = Pace::new(&play, LaneId::new(0), &tasks);
        pace.streams[stream].engine = Engine::Core;
        pace.took(stream, &copy(&[(1, 1)]));
        assert!(pace.streams[stream].time >= us(3000));
        pace.wait_for(stream);
        assert!(play.start.elapsed() >= pace.streams[stream].time);
        pace.worked(stream);
        let worked = pace.streams[stream].time;
        assert!(worked > us(3000) && worked <= play.start.elapsed());
        std::thread::sleep(us(50));
        assert_eq!(pace.took(stream, &copy(&[(0, 1)])), None);
        assert!(pace.streams[stream].time >= worked + us(50), "what it copies for itself is work");
        pace.took(StreamId::new(2), &copy(&[(1, 1)]));
        pace.wait_for_all();
        assert!(play.start.elapsed() >= pace.streams[StreamId::new(2)].time);
    }

    #[test]
    fn nobody_goes_on_too_early() {
        let start = Instant::now();
        for time in [0, 1, 50, 400, 2000].map(us) {
            wait_until(start, time);
            assert!(start.elapsed() >= time);
        }
    }
}
