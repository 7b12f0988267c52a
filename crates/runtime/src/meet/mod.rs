//! How lanes meet: each publishes how far it has come, others look or wait.

mod dues;
mod patience;
mod progress;
#[cfg(test)]
mod turns;

/// What the files of this folder are made of; their models put other things in its place, which go through
/// all interleavings.
mod sync {
    pub use std::hint::spin_loop;
    pub use std::sync::atomic::{AtomicU64, Ordering};
    pub use std::sync::{Condvar, Mutex};
}

/// Takes a lock, also after a panic: no lock is held while foreign code runs, so what one guards (a job, a
/// list of ends, buffers that hold nothing of worth) is whole whenever it is free.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

pub(crate) use dues::Dues;
pub(crate) use patience::{Cores, Patience};
pub(crate) use progress::{Met, Progress, Tick};
