//! The order in which a program is enqueued: its loops, step by step.
//!
//! Long loops are not run whole. All steps have the same text; they differ in the blocks that
//! [`Factor::Step`](crate::layout::Factor::Step) picks, and the blocks of two steps of one counter are
//! the same set (nothing follows the counter) or disjoint. So whatever can go wrong between two steps,
//! or at the start or the end of a loop, goes wrong between the first two or the last two. The steps
//! between are walked at once, as one step that touches all their blocks:
//!
//! ```text
//!   i0 < 1000      0   1   2..998   998   999
//! ```

use crate::host::{Action, HostInstr, StreamId};
use crate::id::Id;
use crate::instr::Fault;
use crate::layout::StepId;
use std::ops::Range;

/// Loops of at most so many steps, those of the loops around them included, are walked step by step.
const MOST_SINGLE_STEPS: u64 = 16;

/// Calls `visit` for every action in the order enqueued, with a range of steps for each counter, by
/// step id.
pub(super) fn unroll<'a>(
    body: &'a [HostInstr],
    visit: &mut impl FnMut(StreamId, &'a Action, &[Range<u64>]) -> Result<(), Fault>,
) -> Result<(), Fault> {
    Unroll { steps: Vec::new(), visit }.block(body, 1)
}

struct Unroll<'v, V> {
    steps: Vec<Range<u64>>,
    visit: &'v mut V,
}

impl<'a, V: FnMut(StreamId, &'a Action, &[Range<u64>]) -> Result<(), Fault>> Unroll<'_, V> {
    fn block(&mut self, body: &'a [HostInstr], outer_steps: u64) -> Result<(), Fault> {
        for instr in body {
            match instr {
                HostInstr::On(stream, action) => (self.visit)(*stream, action, &self.steps)?,
                HostInstr::Loop { counters, body } => {
                    let total = counters.iter().fold(outer_steps, |n, (_, steps)| n.saturating_mul(*steps));
                    self.counters(counters, body, total)?;
                }
            }
        }
        Ok(())
    }

    fn counters(
        &mut self,
        counters: &[(StepId, u64)],
        body: &'a [HostInstr],
        total: u64,
    ) -> Result<(), Fault> {
        let Some((&(counter, count), inner)) = counters.split_first() else {
            return self.block(body, total);
        };
        let at = counter.index();
        if self.steps.len() <= at {
            self.steps.resize(at + 1, 0..1);
        }
        for range in turns(count, total) {
            self.steps[at] = range;
            self.counters(inner, body, total)?;
        }
        self.steps[at] = 0..1;
        Ok(())
    }
}

/// The turns in which a counter is walked.
fn turns(count: u64, total: u64) -> Vec<Range<u64>> {
    if total <= MOST_SINGLE_STEPS || count <= 5 {
        (0..count).map(|step| step..step + 1).collect()
    } else {
        vec![0..1, 1..2, 2..count - 2, count - 2..count - 1, count - 1..count]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_is_in_one_turn() {
        for (count, total) in [(0, 0), (1, 1), (5, 1000), (6, 1000), (16, 16), (17, 17), (1000, 1000)] {
            let turns = turns(count, total);
            let steps: Vec<u64> = turns.iter().cloned().flatten().collect();
            assert_eq!(steps, (0..count).collect::<Vec<_>>(), "{count} of {total}");
        }
    }
}
