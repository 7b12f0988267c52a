//! How lanes meet: each publishes how far it has come, others look or wait.

mod dues;
mod patience;
mod progress;
#[cfg(test)]
mod turns;

/// What the files of this folder and the crew of threads are made of; their models (`tests/models.rs`) put
/// other things in its place, which go through all interleavings.
pub(crate) mod sync {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicU64, Ordering};
    pub use std::sync::{Condvar, Mutex};
    pub use std::thread;
    pub use std::time::Instant;

    /// How often a thread looks for a tick at most before it sleeps: up to a hundred microseconds, as long as
    /// sleeping and waking take, on both sides.
    pub const MOST_LOOKS: u32 = 4_000;
}

/// Takes a lock, also after a panic: no lock is held while foreign code runs, so what one guards (a job, a
/// list of ends, buffers that hold nothing of worth) is whole whenever it is free.
pub(crate) fn lock<T>(mutex: &sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(crate) use dues::Dues;
pub(crate) use patience::{Cores, Patience};
pub(crate) use progress::{Met, Progress, Tick};
