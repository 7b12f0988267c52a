//! All lanes in the calling thread, in a fixed order: each goes as far as it can, then the next.
//!
//! When a whole round brings nobody further and some are not at their end, nothing ever will: then it
//! tells who waits for whom.

use crate::execute::{Job, Outcome, Rendezvous, RunError, Walk, deadlock, first_failure};
use crate::instantiate::LaneId;
use crate::threads::{Met, Tick};
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
    let mut walks: Vec<(LaneId, Walk<'_>)> =
        job.tasks.lanes.keys().map(|id| (id, Walk::new(job, id))).collect();
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
