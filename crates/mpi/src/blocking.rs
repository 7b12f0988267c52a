//! Calls that MPI has only in a form that blocks until all ranks make them: they begin and end MPI, make communicators
//! and share memory.
//!
//! Who waits in one of them cannot look at a clock, so a thread beside it does. When the time is over it ends this
//! process, and with it the launcher ends all others. The time is longer than elsewhere: processes take a while to begin,
//! and once they are there these calls come after others, which find out who is late.

#![expect(unsafe_code, reason = "a process is ended by a C function")]

use shardweave_runtime::ranks::launched;
use std::ffi::c_int;
use std::io::Write;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

unsafe extern "C" {
    fn sw_end_process(status: c_int) -> !;
}

/// However short the timeout is.
const AT_LEAST: Duration = Duration::from_secs(10);

/// Makes such a call; `what` all ranks do in it.
pub(crate) fn bounded<T>(timeout: Option<Duration>, what: &str, call: impl FnOnce() -> T) -> T {
    let Some(timeout) = timeout.map(|timeout| timeout.max(AT_LEAST)) else { return call() };
    thread::scope(|scope| {
        let (at_work, hear) = mpsc::channel::<()>();
        scope.spawn(move || {
            if hear.recv_timeout(timeout) == Err(RecvTimeoutError::Timeout) {
                let seconds = timeout.as_secs_f64();
                // MPI itself may not have told which rank this is.
                let rank = launched().map_or("a rank".into(), |(rank, _)| format!("rank {rank}"));
                say(&format!("{rank}: waited {seconds} s for all ranks to {what}"));
                end_process();
            }
        });
        let result = call();
        drop(at_work);
        result
    })
}

/// Says something about this process, in one write, so that it does not mix with what other ranks say. If nobody reads
/// it, that is all.
pub(crate) fn say(what: &str) {
    let _ = std::io::stderr().write_all(format!("shardweave: {what}\n").as_bytes());
    std::thread::sleep(TO_BE_READ);
}

/// Ends this process at once, in the middle of whatever its threads do; its launcher ends all others.
pub(crate) fn end_process() -> ! {
    // SAFETY: it asks the system only.
    unsafe { sw_end_process(c_int::from(BROKEN)) }
}

/// The status of a process that ends so.
pub(crate) const BROKEN: u8 = 3;

/// How long a launcher may take to pass on what a rank says: some end without what they have not read yet.
const TO_BE_READ: Duration = Duration::from_millis(200);
