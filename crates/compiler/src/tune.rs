//! What is chosen by planning the whole program several times: how many steps `stream(auto)` makes, and in
//! which way steps overlap that no `via` pins. The estimate decides.
//!
//! More steps hide more communication behind computation, but each pays its messages again, and works on
//! less at a time. So more steps are tried, and taken if the estimate gains enough by every doubling. All
//! `stream(auto)` of a placement have one number, for their steps have to line up.
//!
//! ```text
//!   steps       1        2        4        8
//!   estimate    58 ms    50 ms    47 ms    46 ms      4: doubling once more gains less than 5%
//! ```
//!
//! For the same reason the open streams of a placement first all take one way: the one that is best for the
//! whole program. Where they are few, each is then tried by itself.

use crate::cost::Cost;
use crate::diagnostic::Diagnostics;
use crate::estimate;
use crate::explain;
use crate::local::{self, LocalProgram};
use crate::lower::{self, Lowered};
use crate::placement::{Overlap, Placement};
use crate::program::{Program, Sizes, ValueId};
use crate::propagate::{self, Placed};
use crate::report::{Alternative, takes_more};
use crate::schedule;
use std::collections::BTreeSet;

/// More steps are not tried.
const MOST_STEPS: u64 = 64;

/// After so many numbers of steps without a gain no more are tried.
const MOST_IN_VAIN: u32 = 3;

/// More open streams than these all keep one way.
const MOST_SINGLE: usize = 6;

/// What is tried must take this much less time: the estimate knows nothing of what small products lose.
const GAIN: f64 = 0.05;

/// The ways to run what is open: a collective a step, or piece by piece. Earlier ones are preferred.
const WAYS: [Option<Overlap>; 4] =
    [None, Some(Overlap::Direct), Some(Overlap::Ring), Some(Overlap::Broadcast)];

/// A plan with all that was open decided.
pub struct Tuned {
    /// The placement with the number of steps that pays.
    pub placement: Option<Placement>,
    /// Where every value lives, and how every operation runs.
    pub placed: Placed,
    /// One device's view, and what was decided on the way to it.
    pub lowered: Lowered,
}

/// Plans a program, deciding what its placement leaves open.
pub fn run(
    program: &Program,
    placement: Option<&Placement>,
    sizes: &Sizes,
    cost: &Cost,
) -> Result<Tuned, Diagnostics> {
    let tune = Tune { program, sizes, cost };
    let Some(auto) = placement.filter(|placement| placement.has_auto_steps()) else {
        let (placed, lowered, _) = tune.planned(placement)?;
        return Ok(Tuned { placement: placement.cloned(), placed, lowered });
    };
    let in_steps = |steps: u64| -> Result<(Tuned, f64), Diagnostics> {
        let placement = auto.with_auto_steps(steps);
        let (placed, lowered, time) = tune.planned(Some(&placement))?;
        let time = time.map_or_else(|| tune.time_us(&lowered.local), Ok)?;
        Ok((Tuned { placement: Some(placement), placed, lowered }, time))
    };
    let (mut best, mut time) = in_steps(1)?;
    let (mut chosen, mut in_vain): (u64, u32) = (1, 0);
    for steps in counts(auto) {
        // What cannot run in so many steps runs in fewer.
        let Ok((tuned, with)) = in_steps(steps) else { break };
        let doublings = (steps as f64 / chosen as f64).log2();
        if with < time * (1.0 - GAIN).powf(doublings) {
            (best, time, chosen, in_vain) = (tuned, with, steps, 0);
        } else {
            in_vain += 1;
        }
        if in_vain == MOST_IN_VAIN {
            break;
        }
    }
    Ok(best)
}

/// The numbers of steps to try after 1: powers of two, and of the axes' lengths their doubles, with which steps
/// line up with pieces.
fn counts(placement: &Placement) -> BTreeSet<u64> {
    let lengths = placement.mesh().axes().values().map(|axis| axis.size);
    let doubled = |from: u64| std::iter::successors(Some(from), |steps| steps.checked_mul(2));
    let of = |from: u64| doubled(from).take_while(|&steps| steps <= MOST_STEPS);
    lengths.chain([2]).filter(|&length| length > 1).flat_map(of).collect()
}

struct Tune<'a> {
    program: &'a Program,
    sizes: &'a Sizes,
    cost: &'a Cost,
}

/// A plan in some ways, with its estimate.
struct Tried {
    placed: Placed,
    lowered: Lowered,
    time: f64,
}

impl Tune<'_> {
    fn time_us(&self, local: &LocalProgram) -> Result<f64, Diagnostics> {
        // Which inputs stay bound does not change the time of a run.
        let host = schedule::run_watched(local, &BTreeSet::new(), &mut |_, _| {})?;
        Ok(estimate::time_us(&host, self.cost))
    }

    fn lowered(&self, placed: &Placed) -> Lowered {
        let lowered = lower::run(self.program, self.sizes, placed, self.cost);
        if let Err(fault) = local::verify(&lowered.local) {
            panic!("lower: {fault}\n{}", lowered.local);
        }
        lowered
    }

    /// The program in a placement, with the ways that are open chosen; and its estimate, if that decided.
    fn planned(&self, placement: Option<&Placement>) -> Result<(Placed, Lowered, Option<f64>), Diagnostics> {
        let placed = propagate::run(self.program, placement, self.sizes, self.cost)?;
        let lowered = self.lowered(&placed);
        let open: Vec<ValueId> = self.open(&placed);
        if open.is_empty() {
            return Ok((placed, lowered, None));
        }
        let time = self.time_us(&lowered.local)?;
        let mut best = Tried { placed, lowered, time };
        let mut others = Vec::new();
        self.improve(&mut best, &open, &mut others)?;
        if (2..=MOST_SINGLE).contains(&open.len()) {
            for value in open {
                self.improve(&mut best, &[value], &mut others)?;
            }
        }
        let Tried { mut placed, lowered, time } = best;
        placed.alternatives.extend(others.into_iter().map(|other| other.beside(time)));
        Ok((placed, lowered, Some(time)))
    }

    /// The values whose steps may overlap in any way.
    fn open(&self, placed: &Placed) -> Vec<ValueId> {
        let in_steps = |value: ValueId| {
            let sizes: Vec<u64> =
                self.program.sized_dims(value, self.sizes).into_iter().map(|(_, size)| size).collect();
            placed.layout(value).step_count(&sizes) > 1
        };
        let open = placed
            .ops
            .iter()
            .filter(|(value, plan)| plan.as_ref().is_some_and(|plan| plan.via.is_none()) && in_steps(*value));
        open.map(|(value, _)| value).collect()
    }

    /// Tries all ways for some values; keeps the best, and what the others take.
    fn improve(
        &self,
        best: &mut Tried,
        values: &[ValueId],
        others: &mut Vec<Other>,
    ) -> Result<(), Diagnostics> {
        let names: Vec<&str> = values.iter().map(|&value| &self.program.values[value].name[..]).collect();
        let names = names.join(", ");
        let ways = |lowered: &Lowered| values.iter().map(|&value| lowered.overlap(value)).collect::<Vec<_>>();
        let told = |tried: &Tried| Other {
            values: names.clone(),
            way: ways(&tried.lowered).into_iter().flatten().flatten().find(|way| *way != Overlap::None),
            bytes_total: explain::bytes_total(&tried.lowered.local),
            time: tried.time,
        };
        // What is asked for may not line up: a way is what comes of it.
        let mut seen = vec![ways(&best.lowered)];
        for way in WAYS {
            let mut placed = best.placed.clone();
            for &value in values {
                placed.ops[value].iter_mut().for_each(|plan| plan.chosen = way);
            }
            let lowered = self.lowered(&placed);
            if seen.contains(&ways(&lowered)) {
                continue;
            }
            seen.push(ways(&lowered));
            let time = self.time_us(&lowered.local)?;
            let mut tried = Tried { placed, lowered, time };
            if time < best.time * (1.0 - GAIN) {
                std::mem::swap(best, &mut tried);
            }
            others.push(told(&tried));
        }
        Ok(())
    }
}

/// Ways that were not taken.
struct Other {
    values: String,
    way: Option<Overlap>,
    bytes_total: u64,
    time: f64,
}

impl Other {
    /// Told beside the estimate of the plan that was taken.
    fn beside(self, best: f64) -> Alternative {
        let because = if (self.time - best).abs() <= best * 1e-6 {
            "as fast".into()
        } else if self.time > best {
            takes_more(self.time, best)
        } else {
            format!("less than {:.0}% faster, too little for smaller products", GAIN * 100.0)
        };
        Alternative {
            value: self.values,
            instead: format!("run via {}", self.way.unwrap_or(Overlap::None).name()),
            bytes_total: self.bytes_total,
            time_us: self.time,
            because,
        }
    }
}
