//! How many steps `stream(auto)` makes: as many as pay.
//!
//! More steps hide more communication behind computation, but each pays its messages again, and works on
//! less at a time. So the number of steps is doubled as long as the whole program, planned with it, is
//! estimated to gain enough. All `stream(auto)` of a placement have one number, for their steps have to
//! line up.
//!
//! ```text
//!   steps       1        2        4        8
//!   estimate    58 ms    50 ms    47 ms    46 ms      4: doubling once more gains less than 5%
//! ```

use crate::cost::Cost;
use crate::diagnostic::Diagnostics;
use crate::placement::Placement;
use crate::program::{Program, Sizes};

/// More steps are not tried.
const MOST_STEPS: u64 = 64;

/// Twice the steps must take this much less time: the estimate knows nothing of what small products lose.
const GAIN: f64 = 0.05;

/// The placement with the number of steps that pays, if it leaves it to the compiler.
pub fn choose(
    program: &Program,
    placement: &Placement,
    sizes: &Sizes,
    cost: &Cost,
) -> Result<Option<Placement>, Diagnostics> {
    if !placement.has_auto_steps() {
        return Ok(None);
    }
    let estimated = |steps: u64| -> Result<(Placement, f64), Diagnostics> {
        let placement = placement.with_auto_steps(steps);
        let placed = crate::propagate::run(program, Some(&placement), sizes, cost)?;
        let local = crate::lower::run(program, sizes, &placed, cost);
        Ok((placement, crate::explain::time_us(&local, cost)))
    };
    let (mut best, mut time) = estimated(1)?;
    let mut steps = 2;
    while steps <= MOST_STEPS {
        // What cannot run in so many steps runs in fewer.
        let Ok((placement, with)) = estimated(steps) else { break };
        if with > time * (1.0 - GAIN) {
            break;
        }
        (best, time) = (placement, with);
        steps *= 2;
    }
    Ok(Some(best))
}
