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

/// A link is taken to bring so many bytes in a microsecond at least.
pub(crate) const SLOWEST_LINK: u64 = 10;

/// One time of waiting.
pub(crate) struct Pause {
    since: Instant,
    /// Up to when it only tests.
    close: Duration,
    /// Up to when it gives way.
    near: Duration,
    bytes: usize,
    timeout: Option<Duration>,
    /// How long it waits in all.
    most: Option<Duration>,
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
        Pause { since: Instant::now(), close, near, bytes, timeout, most: timeout }
    }

    /// Waits a little, after a test that found that there is more to wait for.
    pub(crate) fn once(&self) -> Then {
        let waited = self.since.elapsed();
        if self.most.is_some_and(|most| waited >= most) {
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

    /// All wait: it goes on as long as the bytes could take over a slow link, and then no more.
    pub(crate) fn goes_on(&mut self) -> bool {
        let Some(timeout) = self.timeout else { return true };
        let slow = Duration::from_micros(self.bytes as u64 / SLOWEST_LINK);
        let most = timeout.saturating_mul(2).saturating_add(slow);
        self.most.replace(most) != Some(most)
    }

    /// There is as much time as at the beginning.
    pub(crate) fn begin_again(&mut self) {
        (self.since, self.most) = (Instant::now(), self.timeout);
    }
}
