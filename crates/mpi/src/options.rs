//! What is chosen when ranks are joined.

use crate::binding::{Threads, refused};
use crate::pause::SLOWEST_LINK;
use shardweave_runtime::engine::EngineError;
use std::time::Duration;

/// What is chosen when ranks are joined. All ranks choose the same.
///
/// ```no_run
/// use shardweave_mpi::MpiOptions;
/// use std::time::Duration;
///
/// let mpi = MpiOptions { timeout: Some(Duration::from_secs(30)), ..MpiOptions::default() }.init()?;
/// # Ok::<(), shardweave_runtime::engine::EngineError>(())
/// ```
#[derive(Clone, Debug)]
pub struct MpiOptions {
    /// From which threads MPI is to take calls, if it begins here.
    pub threads: Threads,
    /// How bytes go within a host.
    pub transport: Transport,
    /// How long every call waits for the others; for ever if nothing is said. Beginning and ending MPI may take 10 seconds
    /// in any case, and a link that brings 10 MB in a second is fast enough for any timeout.
    pub timeout: Option<Duration>,
    /// The most bytes of one message or collective, from 1 to 2^31 - 1.
    pub limit: usize,
}

/// How bytes go from rank to rank of one host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Transport {
    /// Each reads what it needs where it lies.
    Shared,
    /// In messages, as between hosts.
    Messages,
}

impl Default for MpiOptions {
    fn default() -> MpiOptions {
        MpiOptions { threads: Threads::Any, transport: Transport::Shared, timeout: None, limit: 1 << 30 }
    }
}

impl MpiOptions {
    /// Whether MPI can count the bytes of a message of the limit.
    pub(crate) fn check(&self) -> Result<(), EngineError> {
        match self.limit > 0 && i32::try_from(self.limit).is_ok() {
            true => Ok(()),
            false => Err(refused(format!("a message has from 1 to {} bytes, not {}", i32::MAX, self.limit))),
        }
    }

    /// The most bytes of one message, of which each that comes shows that the others are at it.
    pub(crate) fn piece(&self) -> usize {
        let in_time = |timeout: Duration| timeout.as_micros().saturating_mul(SLOWEST_LINK.into()).max(1);
        let in_time = self.timeout.map_or(u128::MAX, in_time);
        self.limit.min(PIECE).min(usize::try_from(in_time).unwrap_or(usize::MAX))
    }
}

/// The most bytes of one message: what is longer goes in several.
const PIECE: usize = 16 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_piece_comes_in_time_over_a_slow_link() {
        let piece = |limit, seconds: Option<f64>| {
            let timeout = seconds.map(Duration::from_secs_f64);
            MpiOptions { limit, timeout, ..MpiOptions::default() }.piece()
        };
        assert_eq!(piece(1 << 30, None), 16 << 20);
        assert_eq!(piece(1 << 30, Some(30.0)), 16 << 20);
        assert_eq!(piece(1 << 30, Some(0.5)), 5_000_000);
        assert_eq!(piece(333, Some(0.5)), 333);
        assert_eq!(piece(1 << 30, Some(0.0)), 1);
    }

    #[test]
    fn a_limit_that_mpi_cannot_count_is_refused() {
        for limit in [0, 1 << 31, usize::MAX] {
            let error = MpiOptions { limit, ..MpiOptions::default() }.check().unwrap_err().to_string();
            assert!(error.contains(&limit.to_string()), "{error}");
        }
        assert_eq!(MpiOptions::default().check(), Ok(()));
    }
}
