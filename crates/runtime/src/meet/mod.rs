//! How lanes meet: each publishes how far it has come, others look or wait.

mod patience;
mod progress;
#[cfg(test)]
mod turns;

/// What [`progress`] is made of; its test puts other things in their place, which go through all
/// interleavings.
mod sync {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicU64, Ordering};
    pub use std::sync::{Condvar, Mutex};
}

pub(crate) use patience::{Cores, Patience};
pub(crate) use progress::{Met, Progress, Tick};
