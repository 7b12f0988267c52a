//! Memory that the ranks of a host share.
//!
//! ```text
//!  share  ─ which of the windows have all dropped? free them, in order
//!         ─ is there room for all of this one? then allocate, zero, and agree that all have it
//! ```
//!
//! Freeing a window is a call that all ranks of the host make, but they drop it at different times. So dropping does
//! nothing, and the next call of `share` or `give_back`, which all make too, finds what none of them holds any more.
//!
//! An MPI may leave its other ranks waiting where one cannot have the memory. So it is asked for only if the system has
//! room for it, and if it fails all the same, all ranks are ended.
#![expect(unsafe_code, reason = "memory that MPI gives is handed on by its address")]

use crate::binding::{Library, Window, refused};
use crate::group::Group;
use shardweave_runtime::engine::{EngineError, SharedBytes};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex, PoisonError, Weak};

/// Shared bytes start at multiples of this, as the arenas ask for.
const ALIGNMENT: usize = 64;

/// What an MPI may need beside the bytes: the rest of a page for each rank, and its own notes.
const BESIDE: u64 = 1 << 20;
const PAGE: u64 = 4096;

/// Who shares.
pub(crate) struct Sharers<'a> {
    pub library: &'a Library,
    /// All ranks, to agree with.
    pub all: &'a Group,
    /// Those of this host.
    pub host: &'a Group,
}

/// The windows of this host, in the order in which they were made.
pub(crate) struct Windows {
    made: Mutex<Vec<Made>>,
}

struct Made {
    window: Window,
    held: Weak<Held>,
}

/// Memory of one window is used here.
struct Held {
    /// Until it is dropped, MPI does not end.
    _mpi: Arc<dyn Any + Send + Sync>,
}

impl Windows {
    pub(crate) fn new() -> Windows {
        Windows { made: Mutex::new(Vec::new()) }
    }

    /// Frees all windows. All ranks of the host make this call, and hold none.
    pub(crate) fn free_all(&self, library: &Library) -> Result<(), EngineError> {
        let made = std::mem::take(&mut *self.made.lock().unwrap_or_else(PoisonError::into_inner));
        made.iter().try_for_each(|made| library.unshare(made.window))
    }

    /// So many bytes of each rank of the host, by rank; see [`Engine::share`](shardweave_runtime::engine::Engine::share).
    /// MPI does not end before `mpi` is dropped.
    pub(crate) fn share(
        &self,
        sharers: &Sharers<'_>,
        bytes: usize,
        mpi: Arc<dyn Any + Send + Sync>,
    ) -> Result<Vec<Option<SharedBytes>>, EngineError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let swept = in_time(sweep(sharers, &mut made))?;
        let (place, room) = sharers.library.room();
        let told = sharers.host.tell_some(sharers.library, [bytes as u64, place])?;
        let wanted: Vec<u64> = told.iter().map(|&[bytes, _]| bytes).collect();
        let apart = told.iter().position(|&[_, other]| other != place).map(|at| sharers.host.members()[at]);
        agree(sharers, &swept.and_then(|()| together(apart)).and_then(|()| has_room(room, &wanted)))?;
        let bytes = asked(bytes as u64).expect("there is room") as usize;
        let window = sharers.library.share(sharers.host.comm(), bytes).unwrap_or_else(|error| {
            // The others wait for this rank inside MPI, where they cannot be told.
            sharers.library.abort(&format!("it cannot share the memory of its host: {error}"))
        });
        let parts = sharers.library.open(window).and_then(|()| parts(sharers, window, &wanted));
        if let Ok(parts) = &parts {
            let (own, bytes) = parts[sharers.host.own()];
            // SAFETY: these bytes are this rank's, and nobody has been told of them.
            unsafe { own.write_bytes(0, bytes) };
        }
        let agreed = agree(sharers, &parts);
        if matches!(agreed, Err(EngineError::Refused(_) | EngineError::Elsewhere)) {
            // Why the memory cannot be used says more than what becomes of the window.
            let _ = sharers.library.unshare(window);
        }
        agreed?;
        let held = Arc::new(Held { _mpi: mpi });
        made.push(Made { window, held: Arc::downgrade(&held) });
        let mut shared: Vec<Option<SharedBytes>> = (0..sharers.all.members().len()).map(|_| None).collect();
        for (&rank, (start, bytes)) in sharers.host.members().iter().zip(parts?) {
            let owner: Arc<dyn Any + Send + Sync> = held.clone();
            // SAFETY: `parts` aligned and measured it, all ranks zeroed theirs before they agreed, and the window is
            // freed only when none of them holds it any more.
            shared[rank] = Some(unsafe { SharedBytes::new(start, bytes, owner) });
        }
        Ok(shared)
    }
}

impl Windows {
    /// Frees what none of the host holds any more, and returns when all ranks have done so.
    pub(crate) fn give_back(&self, sharers: &Sharers<'_>) -> Result<(), EngineError> {
        let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
        let swept = in_time(sweep(sharers, &mut made))?;
        agree(sharers, &swept)
    }
}

/// What is still to be agreed on; where ranks are late, nothing is.
fn in_time<T>(given: Result<T, EngineError>) -> Result<Result<T, EngineError>, EngineError> {
    match given {
        Err(late @ EngineError::Late(_)) => Err(late),
        given => Ok(given),
    }
}

/// Zeroed bytes of a rank that shares with nobody: ordinary memory.
pub(crate) fn share_alone(
    sharers: &Sharers<'_>,
    bytes: usize,
) -> Result<Vec<Option<SharedBytes>>, EngineError> {
    let own =
        SharedBytes::within_process(bytes).ok_or_else(|| refused(format!("no memory for {bytes} bytes")));
    // As often as those agree that share.
    agree(sharers, &own)?;
    agree(sharers, &Ok(()))?;
    let mut shared: Vec<Option<SharedBytes>> = (0..sharers.all.members().len()).map(|_| None).collect();
    shared[sharers.all.own()] = Some(own?);
    Ok(shared)
}

/// Frees what none of the host holds any more.
fn sweep(sharers: &Sharers<'_>, made: &mut Vec<Made>) -> Result<(), EngineError> {
    if made.is_empty() {
        return Ok(());
    }
    // A window that is dropped after this is found the next time.
    let mut dropped: Vec<u64> = made.iter().map(|made| u64::from(made.held.strong_count() == 0)).collect();
    sharers.host.least(sharers.library, &mut dropped)?;
    let mut dropped = dropped.into_iter();
    let mut freed = Ok(());
    made.retain(|made| match dropped.next() {
        Some(1) if freed.is_ok() => {
            freed = sharers.library.unshare(made.window);
            false
        }
        _ => true,
    });
    freed
}

/// Whether no rank of this host stands apart from this one.
fn together(apart: Option<usize>) -> Result<(), EngineError> {
    match apart {
        None => Ok(()),
        Some(rank) => Err(refused(format!(
            "rank {rank} is of this host, but its /dev/shm is another one (containers of one host can be given the same)"
        ))),
    }
}

/// Whether there is room for what the ranks of this host want.
fn has_room(room: u64, wanted: &[u64]) -> Result<(), EngineError> {
    let add = |sum: u64, &bytes: &u64| sum.checked_add(asked(bytes)?)?.checked_add(PAGE);
    let total = wanted.iter().try_fold(BESIDE, add);
    let room = room.min(isize::MAX as u64);
    match total.is_some_and(|total| total <= room) {
        true => Ok(()),
        false => Err(refused(format!(
            "the ranks of this host want to share {} bytes, and it has room for {room} (on Linux that of /dev/shm); \
             ranks that send messages within a host too need none",
            wanted.iter().map(|&bytes| u128::from(bytes)).sum::<u128>()
        ))),
    }
}

/// So many bytes that there are `bytes` from the first multiple of [`ALIGNMENT`] on; at least one, so that each part
/// has an address.
fn asked(bytes: u64) -> Option<u64> {
    bytes.checked_add(ALIGNMENT as u64)
}

/// Whether all ranks have what they need; if not, why.
fn agree<T>(sharers: &Sharers<'_>, own: &Result<T, EngineError>) -> Result<(), EngineError> {
    let mut all = [u64::from(own.is_ok())];
    sharers.all.least(sharers.library, &mut all)?;
    match (own, all) {
        (Err(error), _) => Err(error.clone()),
        (Ok(_), [0]) => Err(EngineError::Elsewhere),
        (Ok(_), _) => Ok(()),
    }
}

/// Where the bytes of each rank of the host start, and how many it wanted.
fn parts(
    sharers: &Sharers<'_>,
    window: Window,
    wanted: &[u64],
) -> Result<Vec<(NonNull<u8>, usize)>, EngineError> {
    let part = |(member, &wanted): (usize, &u64)| {
        let (start, bytes) = sharers.library.part(window, member)?;
        let skip = start.align_offset(ALIGNMENT);
        let wanted = wanted as usize;
        // The same for all who map it: memory is mapped by pages.
        match NonNull::new(start.wrapping_add(skip)) {
            Some(first) if !start.is_null() && skip.checked_add(wanted).is_some_and(|end| end <= bytes) => {
                Ok((first, wanted))
            }
            _ => Err(refused(format!("MPI gave {bytes} bytes where {wanted} were asked for"))),
        }
    };
    wanted.iter().enumerate().map(part).collect()
}
