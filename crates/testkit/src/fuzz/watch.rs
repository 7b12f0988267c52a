//! One input under watch: its processor time, the most memory at a time, panics.

use super::{Behaviour, Target};
use peak_alloc::PeakAlloc;
use rustix::time::{ClockId, clock_gettime};
use shardweave_runtime::execute::panic_text;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

/// How many times longer than in an optimized build an input may take.
#[derive(Clone, Copy, Debug)]
pub struct Slack(pub u32);

/// Checks an input; an `Err` says what must not be.
///
/// Memory is counted for the whole process, where [`PeakAlloc`] is its allocator (elsewhere it is not
/// bounded), so only one thread at a time should call this there.
pub fn examine(target: &Target, input: &[u8], slack: Slack) -> Result<Behaviour, String> {
    let before = PeakAlloc.current_usage();
    PeakAlloc.reset_peak_usage();
    let started = thread_time();
    let checked = catch_unwind(AssertUnwindSafe(|| (target.check)(input)));
    let took = thread_time().saturating_sub(started);
    let peak = PeakAlloc.peak_usage().saturating_sub(before);
    let behaviour = match checked {
        Ok(checked) => checked?,
        Err(payload) => return Err(format!("it panics: {}", panic_text(&*payload))),
    };
    // Processor time of the one thread: other load on the machine does not count.
    if took > Duration::from_secs(target.seconds.into()) * slack.0 {
        return Err(format!("it takes too long: {:.1} s", took.as_secs_f64()));
    }
    if peak > target.heap + target.heap_per_byte * input.len() {
        return Err(format!("it takes too much memory: {peak} bytes for an input of {}", input.len()));
    }
    Ok(behaviour)
}

/// Processor time of the calling thread.
fn thread_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}
