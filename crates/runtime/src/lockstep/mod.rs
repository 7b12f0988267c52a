//! All lanes in the calling thread, in a fixed order: each goes as far as it can, then the next.
//!
//! When a whole round brings nobody further and some are not at their end, nothing ever will: then it
//! tells who waits for whom.

use crate::execute::{Job, Outcome, Rendezvous, RunError, Walk, deadlock, first_failure};
use crate::instantiate::LaneId;
use crate::kernels::Scratch;
use crate::meet::{Met, Tick};
use shardweave_compiler::id::Table;
use std::cell::Cell;

/// How far each lane has come.
struct Board {
    lanes: Table<LaneId, Cell<Come>>,
}

#[derive(Clone, Copy)]
struct Come {
    tick: Tick,
    stopped: Stopped,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Stopped {
    No,
    Yes,
}

impl Rendezvous for Board {
    fn publish(&self, lane: LaneId, tick: Tick) {
        self.lanes[lane].set(Come { tick, stopped: Stopped::No });
    }

    fn meet(&self, lane: LaneId, tick: Tick) -> Met {
        let come = self.lanes[lane].get();
        match come.stopped {
            _ if come.tick >= tick => Met::Reached,
            Stopped::Yes => Met::Stopped,
            Stopped::No => Met::NotYet,
        }
    }
}

impl Board {
    fn stop(&self, lane: LaneId) {
        let tick = self.lanes[lane].get().tick;
        self.lanes[lane].set(Come { tick, stopped: Stopped::Yes });
    }
}

/// Runs all lanes to their ends.
pub(crate) fn execute(job: &Job) -> Result<(), RunError> {
    let at_start = |_| Cell::new(Come { tick: 0, stopped: Stopped::No });
    let board = Board { lanes: job.tasks.lanes.keys().map(at_start).collect() };
    let scratch = Scratch::new();
    let mut walks: Vec<(LaneId, Walk<'_>)> =
        job.tasks.lanes.keys().map(|id| (id, Walk::new(job, id, &scratch))).collect();
    let mut failed = Vec::new();
    loop {
        let mut stuck = Vec::new();
        let mut somebody_moved = false;
        walks.retain_mut(|(id, walk)| {
            let device = job.tasks.lanes[*id].device;
            let before = walk.position();
            let outcome = walk.advance(&board);
            somebody_moved |= walk.position() != before;
            match outcome {
                Outcome::Waits(turn, lanes) => {
                    stuck.push((turn, device, lanes));
                    return true;
                }
                Outcome::Finished => {}
                Outcome::Stopped(..) => board.stop(*id),
                Outcome::Failed(turn, how) => {
                    board.stop(*id);
                    failed.push((turn, device, how));
                }
            }
            somebody_moved = true;
            false
        });
        if walks.is_empty() {
            return first_failure(job, failed).map_or(Ok(()), |failure| Err(RunError::Device(failure)));
        }
        if !somebody_moved {
            return Err(deadlock(job, &stuck));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arena::{Arenas, Kept, Need, Reach};
    use crate::execute::{AfterFailure, Record, Recorder};
    use crate::instantiate::tasks::{Instr, Lane, Task, Tasks, Turn, Work};
    use crate::threads::Threads;
    use shardweave_compiler::host::StreamId;
    use shardweave_compiler::id::Id;
    use shardweave_compiler::mesh::DeviceId;
    use std::sync::Arc;
    use std::time::Instant;

    /// Lanes, one a device, with these tasks. No verified program deadlocks, so these are made by hand.
    fn job(lanes: Vec<Vec<Work>>) -> Arc<Job> {
        let used = vec![true; lanes.len()];
        let (mut instrs, mut turns) = (Table::new(), Table::new());
        let lanes = lanes.into_iter().enumerate().map(|(device, works)| {
            let task = |(at, work)| {
                let instr = instrs.push(Instr {
                    text: format!("{device}.{at}"),
                    name: String::new(),
                    stream: StreamId::new(0),
                    value: None,
                    kind: None,
                });
                Task { turn: turns.push(Turn { instr, steps: [].into() }), work }
            };
            let tasks = works.into_iter().enumerate().map(task).collect();
            Lane { device: DeviceId::new(device), stream: None, tasks }
        });
        let lanes = lanes.collect();
        let arenas = Arenas::around(Kept::default(), 0, Reach::default(), Need::default(), &used)
            .expect("no bytes can be had");
        let tasks = Tasks {
            lanes,
            instrs,
            turns,
            used,
            arena: 0,
            packed_arena: 0,
            reach: Reach::default(),
            packed_constants: 0,
            last_tick: 0,
        };
        let recorder = Recorder::new(Record::Nothing, Instant::now());
        let (tasks, arenas, packed) = (Arc::new(tasks), Arc::new(arenas), Arc::default());
        Arc::new(Job {
            tasks,
            arenas,
            packed,
            recorder,
            probe: None,
            play: None,
            after_failure: AfterFailure::Stop,
        })
    }

    fn wait(lanes: &[usize], tick: Tick) -> Work {
        Work::Wait(lanes.iter().map(|&lane| LaneId::new(lane)).collect(), tick)
    }

    #[test]
    fn lanes_that_wait_for_each_other_are_told() {
        let around = vec![
            vec![Work::Publish(1), wait(&[1, 2], 2), Work::Publish(2)],
            vec![Work::Publish(1), wait(&[0], 1), wait(&[0], 2), Work::Publish(2)],
            vec![wait(&[0, 1], 1), Work::Publish(2)],
        ];
        let error = execute(&job(around)).unwrap_err().to_string();
        let told =
            "nothing can go on\n  device0 waits at `0.1` for device1\n  device1 waits at `1.2` for device0";
        assert_eq!(error, told);
    }

    /// Threads cannot see a circle, but a lane whose partner has ended without coming does not wait.
    #[test]
    fn a_partner_that_ends_without_coming_is_told() {
        let lanes = || vec![vec![Work::Publish(1)], vec![wait(&[0], 1), wait(&[0], 2)]];
        let told = "nothing can go on\n  device1 waits at `1.1` for device0";
        assert_eq!(execute(&job(lanes())).unwrap_err().to_string(), told);
        assert_eq!(Threads::new(2).execute(&job(lanes())).unwrap_err().to_string(), told);
    }
}
