//! Times that lanes play, where a link is played: when the work of each lane would be done.
//!
//! Bytes are copied at once, and with them goes a time before which nobody may compute with them. So a lane
//! that only moves never waits for a delivery: it asks for one, tells the time together with the tick, and
//! goes on. Only who computes waits until the time has come.
//!
//! ```text
//!                 real time ─▶                                    played time of the lane
//!  moves     |copy, tell|copy, tell|                              arrival of the first, of the second, ...
//!  computes        wait for the tick, wait till it is due |linear|        end of the linear
//! ```
//!
//! **What a lane's time is.** A lane does one thing after another, so it has one time: when all that it did
//! would be done. Work of a core takes real time: it starts when the lane's time has come, and when it ends,
//! that is the lane's time. A move starts on its wires at the time of the lane, which is that of the last
//! thing it met; it is done when all of it has arrived. A lane that only moves is a copy engine: it needs
//! no core where devices are real, so how soon the system gives its thread one does not count, nor does what
//! it copies out of the device's own memory. It cannot be early: a tick is told after the bytes are copied.
//!
//! **Why nothing is seen before it is due.** A tick carries the time of the lane that tells it, and who meets
//! a tick takes over its time if that is later. So the time of a lane is never before the time of anything
//! that it has met, and kernels, and the end of a lane, wait for the lane's time. Moves go on with what is
//! not yet due, but what they make is due later still.

use super::link::{Delivery, Link, Wires};
use crate::instantiate::{Copy, Lane, LaneId, Tasks, Work};
use crate::meet::{Dues, Tick};
use shardweave_compiler::id::Table;
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

/// What runs the tasks of a lane, where devices are real.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// A core: it computes.
    Core,
    /// Something that only moves bytes.
    Copier,
}

/// One lane's time.
pub(crate) struct Pace<'a> {
    play: &'a Play,
    lane: LaneId,
    device: DeviceId,
    engine: Engine,
    /// When all that the lane did would be done.
    time: Duration,
}

impl<'a> Pace<'a> {
    /// A lane at its start.
    pub fn new(play: &'a Play, id: LaneId, lane: &Lane) -> Pace<'a> {
        let computes = lane.tasks.iter().any(|task| matches!(task.work, Work::Kernel(_)));
        let engine = if computes { Engine::Core } else { Engine::Copier };
        Pace { play, lane: id, device: lane.device, engine, time: Duration::ZERO }
    }

    /// The lane is about to tell that it has come to a tick.
    pub fn tells(&self, tick: Tick) {
        let time = u64::try_from(self.time.as_nanos()).unwrap_or(u64::MAX);
        self.play.dues[self.lane].set(tick, time);
    }

    /// The lane has met others at a tick.
    pub fn met(&mut self, lanes: &[LaneId], tick: Tick) {
        let told = lanes.iter().map(|&lane| self.play.dues[lane].get(tick)).max();
        self.time = self.time.max(Duration::from_nanos(told.unwrap_or(0)));
    }

    /// Waits until the lane's time has come.
    pub fn wait(&self) {
        wait_until(self.play.start, self.time);
    }

    /// The lane has done work that takes real time.
    pub fn worked(&mut self) {
        self.time = self.time.max(self.play.start.elapsed());
    }

    /// The lane has copied what a move brings. Gives the time from the first byte on a wire to the last one
    /// that arrives, if anything came over one.
    pub fn took(&mut self, copy: &Copy) -> Option<Delivery> {
        let mut bytes: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for (from, more) in copy.sources().filter(|(from, more)| *from != self.device && *more > 0) {
            *bytes.entry(from).or_default() += more as u64;
        }
        let send = |(from, bytes)| self.play.wires.send(from, self.device, bytes, self.time);
        let all = bytes.into_iter().map(send).reduce(|one, other| Delivery {
            start: one.start.min(other.start),
            arrival: one.arrival.max(other.arrival),
        });
        match (all, self.engine) {
            (Some(all), _) => self.time = all.arrival,
            (None, Engine::Core) => self.worked(),
            (None, Engine::Copier) => {}
        }
        all
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
    use crate::instantiate::{Onto, Part, Runs, Task, Transfer, TurnId};
    use shardweave_compiler::dtype::DType;
    use shardweave_compiler::id::Id;
    use shardweave_compiler::layout::Overlap;

    /// Devices with one lane each, which publish the ticks 1 to 3.
    fn tasks(devices: usize) -> Tasks {
        let publish = |tick| Task { turn: TurnId::new(0), work: Work::Publish(tick) };
        let lane = |device| Lane {
            device: DeviceId::new(device),
            stream: None,
            tasks: (1..=3).map(publish).collect(),
        };
        let (instrs, turns) = (Table::new(), Table::new());
        let (lanes, used) = ((0..devices).map(lane).collect(), vec![true; devices]);
        Tasks { lanes, instrs, turns, used, arena: 0, packed_arena: 0, packed_constants: 0 }
    }

    /// Takes so many thousand bytes from each of these devices.
    fn copy(from: &[(usize, u64)]) -> Copy {
        let transfer = |&(from, thousands): &(usize, u64)| {
            let bytes = 1000 * thousands;
            let all = Overlap { at_first: 0, at_second: 0, len: bytes };
            let runs = Runs::new(&[vec![all]], &[bytes], &[bytes], 1).expect("the whole piece");
            let part = Part { from: DeviceId::new(from), source: 0 };
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

    /// What a lane that only moves is told, and tells, does not depend on when it runs.
    #[test]
    fn lanes_that_move_take_over_each_others_times() {
        let tasks = tasks(3);
        let play = Play::new(LINK, &tasks);
        let lane = |device| LaneId::new(device);
        let [mut one, mut two, mut three] =
            [0, 1, 2].map(|at| Pace::new(&play, lane(at), &tasks.lanes[lane(at)]));
        let took = |start, arrival| Some(Delivery { start: us(start), arrival: us(arrival) });
        one.tells(1);
        assert_eq!(one.took(&copy(&[(0, 9), (1, 10), (2, 20)])), took(0, 22), "peers are beside each other");
        one.tells(2);
        assert_eq!(one.took(&copy(&[(1, 10)])), took(22, 34), "one lane does one thing after another");
        one.tells(3);
        two.met(&[lane(0)], 1);
        assert_eq!(two.time, us(0), "the tick of before, though the lane has told of later ones");
        two.met(&[lane(0)], 2);
        assert_eq!(two.took(&copy(&[(1, 50)])), None, "what is its own is free");
        assert_eq!(two.took(&copy(&[(0, 5), (0, 5)])), took(22, 34), "one message from each");
        two.tells(3);
        three.met(&[lane(0), lane(1)], 3);
        assert_eq!(three.time, us(34));
        three.met(&[lane(0)], 1);
        assert_eq!(three.time, us(34), "times do not go back");
    }

    /// A core is at work in real time, and never before the time of its lane.
    #[test]
    fn work_takes_real_time() {
        let tasks = tasks(2);
        let play = Play::new(Link { latency_us: 3000.0, bytes_per_us: 1e9 }, &tasks);
        let id = LaneId::new(0);
        let mut pace = Pace { engine: Engine::Core, ..Pace::new(&play, id, &tasks.lanes[id]) };
        pace.took(&copy(&[(1, 1)]));
        assert!(pace.time >= us(3000));
        pace.wait();
        assert!(play.start.elapsed() >= pace.time);
        pace.worked();
        let worked = pace.time;
        assert!(worked > us(3000) && worked <= play.start.elapsed());
        std::thread::sleep(us(50));
        assert_eq!(pace.took(&copy(&[(0, 1)])), None);
        assert!(pace.time >= worked + us(50), "what it copies for itself is work");
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
