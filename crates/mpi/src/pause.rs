//! How a rank waits: at first it only tests, so that what comes at once is seen at once; then it gives way between
//! tests; then it sleeps between them, and leaves its core to others.
//!
//! ```text
//!  |------- tests -------|--------- gives way ---------|------------ sleeps ---------- ... timeout
//!  0     50 us,                   + 1 ms,
//!        + 256 us a MiB           + 1 ms a MiB
//! ```
//!
//! MPI moves bytes only while it is called, so the more there are, the longer a rank stays close by: a MiB takes 75 us
//! to 100 us within a host, and who gives way before it has come loses a whole turn on a core that others want.

use std::time::{Duration, Instant};

const TESTS: Duration = Duration::from_micros(50);
/// However many bytes there are.
const MOST_TESTS: Duration = Duration::from_millis(4);
const GIVES_WAY: Duration = Duration::from_millis(1);
const SLEEP: Duration = Duration::from_micros(30);

/// One time of waiting.
pub(crate) struct Pause {
    since: Instant,
    /// Up to when it only tests.
    close: Duration,
    /// Up to when it gives way.
    near: Duration,
    timeout: Option<Duration>,
}

/// What is to be done before the next test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Then {
    /// Nothing.
    Test,
    /// A little, now and then: there is time.
    TestAfterSleep,
    /// The time is over.
    GiveUp,
}

impl Pause {
    /// Waiting for so many bytes begins.
    pub(crate) fn new(bytes: usize, timeout: Option<Duration>) -> Pause {
        let close = TESTS + Duration::from_micros((bytes >> 12) as u64).min(MOST_TESTS);
        let near = close + GIVES_WAY + Duration::from_micros((bytes >> 10) as u64);
        Pause { since: Instant::now(), close, near, timeout }
    }

    /// Waits a little, after a test that found that there is more to wait for.
    pub(crate) fn once(&self) -> Then {
        let waited = self.since.elapsed();
        if self.timeout.is_some_and(|timeout| waited >= timeout) {
            return Then::GiveUp;
        }
        if waited < self.close {
            std::hint::spin_loop();
            return Then::Test;
        }
        if waited < self.near {
            std::thread::yield_now();
            return Then::Test;
        }
        std::thread::sleep(SLEEP);
        Then::TestAfterSleep
    }

    /// There is as much time as at the beginning.
    pub(crate) fn begin_again(&mut self) {
        self.since = Instant::now();
    }
}
