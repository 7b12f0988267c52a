//! The functions of `shim.c`, with results for error codes. All that is left of MPI's own types are handles.
//!
//! A [`Library`] says that MPI is there; whoever has none can call nothing. Where MPI takes calls from one thread at a
//! time only, it is what they take turns by; so nothing may block in a call unless all ranks are known to make it.
#![expect(unsafe_code, reason = "calls of C functions; what they may assume is said at each")]

use crate::blocking::{BROKEN, bounded, end_process, say};
use crate::roll::{Note, Notes, RollCall};
use shardweave_runtime::engine::{EngineError, Late, Waits};
use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError, TryLockError};
use std::time::{Duration, Instant};

unsafe extern "C" {
    fn sw_state(initialized: *mut c_int, finalized: *mut c_int) -> c_int;
    fn sw_begin(wanted: c_int, level: *mut c_int) -> c_int;
    fn sw_threads(level: *mut c_int) -> c_int;
    fn sw_end() -> c_int;
    fn sw_abort(comm: u64, status: c_int) -> c_int;
    fn sw_text(code: c_int, text: *mut c_char, bytes: c_int);
    fn sw_world() -> u64;
    fn sw_from_fortran(fortran: i32, comm: *mut u64, none: *mut c_int) -> c_int;
    fn sw_to_fortran(comm: u64) -> i32;
    fn sw_rank(comm: u64, rank: *mut c_int, ranks: *mut c_int) -> c_int;
    fn sw_greatest_tag(comm: u64, tag: *mut c_int) -> c_int;
    fn sw_duplicate(comm: u64, made: *mut u64) -> c_int;
    fn sw_split_by_host(comm: u64, key: c_int, made: *mut u64) -> c_int;
    fn sw_group(comm: u64, members: c_int, ranks: *const c_int, tag: c_int, made: *mut u64) -> c_int;
    fn sw_free(comm: u64) -> c_int;
    fn sw_note(bytes: *const u8, count: c_int, comm: u64, to: c_int, tag: c_int) -> c_int;
    fn sw_take_note(
        bytes: *mut u8,
        most: c_int,
        comm: u64,
        count: *mut c_int,
        from: *mut c_int,
        tag: *mut c_int,
    ) -> c_int;
    fn sw_room(place: *mut u64, bytes: *mut u64);
    fn sw_cores(mask: *mut u64);
    fn sw_share(comm: u64, bytes: u64, made: *mut u64, there: *mut c_int) -> c_int;
    fn sw_open(window: u64) -> c_int;
    fn sw_part(window: u64, rank: c_int, start: *mut *mut c_void, bytes: *mut u64) -> c_int;
    fn sw_unshare(window: u64) -> c_int;

    // Called by `flight.rs`, where what they touch is borrowed.
    pub(crate) fn sw_send(bytes: Bytes, to: c_int, tag: c_int, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_receive(bytes: Bytes, from: c_int, tag: c_int, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_broadcast(bytes: Bytes, root: c_int, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_all_gather(own: Bytes, all: Parts, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_all_to_all(sent: Parts, got: Parts, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_gather(own: Bytes, all: Parts, root: c_int, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_scatter(all: Parts, own: Bytes, root: c_int, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_least(numbers: *mut u64, count: c_int, comm: u64, slot: Slot) -> c_int;
    pub(crate) fn sw_test(
        requests: *mut u64,
        first: c_int,
        count: c_int,
        wanted: *const c_int,
        ended: *mut c_int,
        wrong: *mut c_int,
    ) -> c_int;
    pub(crate) fn sw_has_ended(requests: *const u64, at: c_int, ended: *mut c_int) -> c_int;
}

/// Bytes, as they cross to C.
#[repr(C)]
pub(crate) struct Bytes {
    pub start: *mut u8,
    pub count: c_int,
}

/// Bytes of each member of a group, as they cross to C: how many, and how far from the start.
#[repr(C)]
pub(crate) struct Parts {
    pub start: *mut u8,
    pub counts: *const c_int,
    pub starts: *const c_int,
}

/// Where a request is kept, as it crosses to C.
#[repr(C)]
pub(crate) struct Slot {
    pub requests: *mut u64,
    pub at: c_int,
}

/// A communicator.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Comm(u64);

impl Comm {
    /// As it crosses to C.
    pub(crate) fn handle(self) -> u64 {
        self.0
    }
}

/// Memory that the ranks of a host share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Window(u64);

/// From which threads MPI takes calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Threads {
    /// From one at a time: they take turns, and all exchanges go in messages.
    OneAtATime,
    /// From any, at any time.
    Any,
}

/// MPI, begun in this process.
pub(crate) struct Library {
    /// There if calls have to take turns.
    turns: Option<Mutex<()>>,
    /// Whether this is to end MPI.
    ours: bool,
    /// The communicator of all ranks that the others are made from.
    base: Comm,
    rank: usize,
    /// Whether the ranks are being ended.
    aborting: AtomicBool,
    /// Why something stays under way for ever.
    broken: OnceLock<String>,
    /// How long calls wait for other ranks.
    timeout: Option<Duration>,
    /// By what ranks find out who is late, once they have joined, and the communicator of their notes.
    roll: OnceLock<(Comm, RollCall)>,
}

/// Whether an MPI function did its work.
fn check(code: c_int) -> Result<(), EngineError> {
    if code == 0 {
        return Ok(());
    }
    let mut text: [c_char; 512] = [0; 512];
    // SAFETY: the text has 512 bytes, and gets a zero at its end.
    let text = unsafe {
        sw_text(code, text.as_mut_ptr(), 512);
        CStr::from_ptr(text.as_ptr())
    };
    Err(EngineError::Refused(format!("MPI refuses: {}", text.to_string_lossy())))
}

pub(crate) fn refused(why: impl Into<String>) -> EngineError {
    EngineError::Refused(why.into())
}

/// Guards the beginning: MPI is begun once in a process, and it is asked first whether it is.
static BEGINNING: Mutex<()> = Mutex::new(());

impl Library {
    /// Begins MPI.
    pub(crate) fn begin(threads: Threads, timeout: Option<Duration>) -> Result<Library, EngineError> {
        let _one = BEGINNING.lock().unwrap_or_else(PoisonError::into_inner);
        if is_begun()? {
            return Err(refused(
                "MPI has begun in this process already, and can begin only once: give the communicator that is there \
                 to `Mpi::from_fortran`",
            ));
        }
        let wanted = if threads == Threads::Any { 2 } else { 1 };
        let mut level = 0;
        // SAFETY: MPI has not begun, and nobody else begins it: the lock is held.
        check(unsafe { sw_begin(wanted, &mut level) })?;
        // SAFETY: MPI has begun.
        let world = Comm(unsafe { sw_world() });
        Library::of(level, true, world, timeout)
    }

    /// Takes MPI as the program began it.
    pub(crate) fn joined(fortran: i32, timeout: Option<Duration>) -> Result<Library, EngineError> {
        if !is_begun()? {
            return Err(refused("MPI has not begun in this process, so it has no communicator to give"));
        }
        let (mut level, mut comm, mut none) = (0, 0, 0);
        // SAFETY: MPI has begun.
        check(unsafe { sw_threads(&mut level) })?;
        // SAFETY: the same; any number may be asked for.
        check(unsafe { sw_from_fortran(fortran, &mut comm, &mut none) })?;
        if none != 0 {
            return Err(refused(format!("{fortran} is not the Fortran handle of a communicator")));
        }
        Library::of(level, false, Comm(comm), timeout)
            .map_err(|error| refused(format!("the communicator with the Fortran handle {fortran}: {error}")))
    }

    fn of(level: c_int, ours: bool, base: Comm, timeout: Option<Duration>) -> Result<Library, EngineError> {
        let turns = match level {
            0 => {
                return Err(refused(
                    "MPI takes calls from one thread only: begin it with MPI_THREAD_SERIALIZED or \
                     MPI_THREAD_MULTIPLE",
                ));
            }
            1 => Some(Mutex::new(())),
            _ => None,
        };
        let (aborting, broken) = (AtomicBool::new(false), OnceLock::new());
        let mut library =
            Library { turns, ours, base, rank: 0, aborting, broken, timeout, roll: OnceLock::new() };
        library.rank = library.rank_of(base)?.0;
        Ok(library)
    }

    /// Ends MPI if it is ours. Nothing may be called after.
    pub(crate) fn end(&self) {
        if self.ours {
            // What it says comes too late to be of use.
            // SAFETY: the last call.
            let _ = self.blocking("end", || unsafe { sw_end() });
        }
    }

    /// Ends all ranks.
    pub(crate) fn abort(&self, reason: &str) -> ! {
        if !self.aborting.swap(true, Ordering::SeqCst) {
            say(&format!("rank {}: {reason}", self.rank));
            let _turn = self.turn_soon();
            // SAFETY: MPI has begun, and the communicator is of all ranks.
            unsafe { sw_abort(self.base.0, c_int::from(BROKEN)) };
            end_process();
        }
        // Another thread is at it.
        loop {
            std::thread::sleep(Duration::from_secs(1));
        }
    }

    /// The turn, or after a while none: whoever has it may never give it back.
    fn turn_soon(&self) -> Option<std::sync::MutexGuard<'_, ()>> {
        let (turns, start) = (self.turns.as_ref()?, Instant::now());
        while start.elapsed() < Duration::from_secs(1) {
            match turns.try_lock() {
                Ok(turn) => return Some(turn),
                Err(TryLockError::Poisoned(turn)) => return Some(turn.into_inner()),
                Err(TryLockError::WouldBlock) => std::thread::yield_now(),
            }
        }
        None
    }

    /// Something stays under way for ever: ranks can only be ended.
    pub(crate) fn has_broken(&self, reason: &EngineError) {
        self.broken.get_or_init(|| reason.to_string());
    }

    /// Why ranks can only be ended, if so.
    pub(crate) fn broken(&self) -> Option<&str> {
        self.broken.get().map(String::as_str)
    }

    /// Whether calls may come from several threads at the same time.
    pub(crate) fn threads(&self) -> Threads {
        if self.turns.is_some() { Threads::OneAtATime } else { Threads::Any }
    }

    /// A call of MPI, at its turn.
    pub(crate) fn call(&self, function: impl FnOnce() -> c_int) -> Result<(), EngineError> {
        let _turn = self.turns.as_ref().map(|turns| turns.lock().unwrap_or_else(PoisonError::into_inner));
        check(function())
    }

    /// A call of MPI that blocks until other ranks make it too; `what` they do in it.
    fn blocking(&self, what: &str, function: impl FnOnce() -> c_int) -> Result<(), EngineError> {
        bounded(self.timeout, what, || self.call(function))
    }

    /// Ranks have joined, and can ask each other in notes: the communicator has no other messages.
    pub(crate) fn have_joined(&self, notes: Comm, ranks: usize) {
        self.roll.get_or_init(|| (notes, RollCall::new(self.rank, ranks)));
    }

    /// The communicator by which ranks ask each other.
    pub(crate) fn notes(&self) -> Option<Comm> {
        self.roll.get().map(|(comm, _)| *comm)
    }

    /// Tells those who ask what this rank waits for.
    pub(crate) fn answer(&self, waits: &dyn Fn() -> Waits) -> Result<(), EngineError> {
        match (self.timeout, self.roll.get()) {
            (Some(_), Some((comm, roll))) => roll.answer(&InNotes { library: self, comm: *comm }, waits),
            // Nobody asks.
            _ => Ok(()),
        }
    }

    /// Who is to blame that what this rank waits for does not come; nobody if all wait.
    pub(crate) fn late(&self, waits: &dyn Fn() -> Waits) -> Result<Option<Late>, EngineError> {
        let roll = self.roll.get();
        roll.map_or(Ok(None), |(comm, roll)| roll.late(&InNotes { library: self, comm: *comm }, waits))
    }

    /// This process among all ranks.
    pub(crate) fn rank(&self) -> usize {
        self.rank
    }

    /// How long calls wait for other ranks.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.timeout
    }

    /// The communicator of all ranks that MPI or the program has.
    pub(crate) fn base(&self) -> Comm {
        self.base
    }

    /// The rank of this process, and how many there are.
    pub(crate) fn rank_of(&self, comm: Comm) -> Result<(usize, usize), EngineError> {
        let (mut rank, mut ranks) = (0, 0);
        // SAFETY: a communicator that has not been freed.
        self.call(|| unsafe { sw_rank(comm.0, &mut rank, &mut ranks) })?;
        Ok((rank as usize, ranks as usize))
    }

    pub(crate) fn to_fortran(&self, comm: Comm) -> i32 {
        let mut fortran = 0;
        let asked = self.call(|| {
            // SAFETY: a communicator that has not been freed.
            fortran = unsafe { sw_to_fortran(comm.0) };
            0
        });
        asked.expect("it cannot fail");
        fortran
    }

    pub(crate) fn greatest_tag(&self, comm: Comm) -> Result<usize, EngineError> {
        let mut tag = 0;
        // SAFETY: a communicator that has not been freed.
        self.call(|| unsafe { sw_greatest_tag(comm.0, &mut tag) })?;
        Ok(tag as usize)
    }

    /// One more communicator of the same ranks. All of them make this call.
    pub(crate) fn duplicate(&self, comm: Comm) -> Result<Comm, EngineError> {
        let mut made = 0;
        // SAFETY: a communicator that has not been freed.
        self.call(|| unsafe { sw_duplicate(comm.0, &mut made) })?;
        Ok(Comm(made))
    }

    /// The ranks of this host. All ranks of all hosts make this call.
    pub(crate) fn split_by_host(&self, comm: Comm) -> Result<Comm, EngineError> {
        let mut made = 0;
        // SAFETY: a communicator that has not been freed.
        self.call(|| unsafe { sw_split_by_host(comm.0, self.rank as c_int, &mut made) })?;
        Ok(Comm(made))
    }

    /// A communicator of some ranks. They make this call, and do not mix it up with another that has another tag.
    pub(crate) fn group(&self, comm: Comm, members: &[usize], tag: i32) -> Result<Comm, EngineError> {
        let ranks: Vec<c_int> = members.iter().map(|&rank| rank as c_int).collect();
        let mut made = 0;
        // SAFETY: a communicator that has not been freed, and as many ranks as are said.
        self.blocking("make a group", || unsafe {
            sw_group(comm.0, ranks.len() as c_int, ranks.as_ptr(), tag, &mut made)
        })?;
        Ok(Comm(made))
    }

    /// Frees a communicator. All its ranks make this call, and nobody uses it after.
    pub(crate) fn free(&self, comm: Comm) -> Result<(), EngineError> {
        // SAFETY: as the caller promises.
        self.blocking("free a group", || unsafe { sw_free(comm.0) })
    }

    /// Where processes of this host share memory, by a number for that place, and how many bytes can still be had there.
    pub(crate) fn room(&self) -> (u64, u64) {
        let (mut place, mut bytes) = (0, 0);
        // SAFETY: it asks the system only.
        unsafe { sw_room(&mut place, &mut bytes) };
        (place, bytes)
    }

    /// Memory that the ranks of a host share, so many bytes of this one. All of them make this call. Where it fails on
    /// one, the others may wait for ever.
    pub(crate) fn share(&self, host: Comm, bytes: usize) -> Result<Window, EngineError> {
        let (mut made, mut there) = (0, 0);
        // SAFETY: a communicator that has not been freed.
        self.blocking("share memory", || unsafe { sw_share(host.0, bytes as u64, &mut made, &mut there) })?;
        match there {
            0 => Err(refused(format!(
                "{bytes} bytes that others can see are not seen here (this process may use too few addresses, or has a \
                 /dev/shm of its own)"
            ))),
            _ => Ok(Window(made)),
        }
    }

    /// Makes loads and stores of memory allowed, before any.
    pub(crate) fn open(&self, window: Window) -> Result<(), EngineError> {
        // SAFETY: a window that has not been freed.
        self.call(|| unsafe { sw_open(window.0) })
    }

    /// Where the bytes of a rank of the host start, and how many there are.
    pub(crate) fn part(&self, window: Window, rank: usize) -> Result<(*mut u8, usize), EngineError> {
        let (mut start, mut bytes) = (std::ptr::null_mut(), 0);
        // SAFETY: a window that has not been freed.
        self.call(|| unsafe { sw_part(window.0, rank as c_int, &mut start, &mut bytes) })?;
        Ok((start.cast(), bytes as usize))
    }

    /// Frees memory. All ranks of the host make this call, and nobody touches the memory after.
    pub(crate) fn unshare(&self, window: Window) -> Result<(), EngineError> {
        // SAFETY: as the caller promises.
        self.blocking("give memory back", || unsafe { sw_unshare(window.0) })
    }
}

/// Notes go by a communicator of their own.
struct InNotes<'a> {
    library: &'a Library,
    comm: Comm,
}

impl Notes for InNotes<'_> {
    /// The bytes are never given back, for nobody waits until they have gone: notes are for the rare case that something
    /// went wrong.
    fn send(&self, to: usize, tag: i32, bytes: &[u8]) -> Result<(), EngineError> {
        let bytes: &'static [u8] = if bytes.is_empty() { &[] } else { Vec::leak(bytes.to_vec()) };
        let start = if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr() };
        // SAFETY: a communicator that has not been freed, and bytes that stay.
        self.library.call(|| unsafe { sw_note(start, bytes.len() as c_int, self.comm.0, to as c_int, tag) })
    }

    fn take(&self) -> Result<Option<Note>, EngineError> {
        let (mut count, mut from, mut tag, mut bytes) = (0, 0, 0, [0; Note::MOST]);
        let start = bytes.as_mut_ptr();
        // SAFETY: a communicator that has not been freed, and as many bytes as are said.
        self.library.call(|| unsafe {
            sw_take_note(start, Note::MOST as c_int, self.comm.0, &mut count, &mut from, &mut tag)
        })?;
        let bytes = usize::try_from(count).ok().map(|count| bytes[..count].to_vec());
        Ok(bytes.map(|bytes| Note { from: from as usize, tag, bytes }))
    }
}

/// A bit for each core that this process may use; none where the system does not say it.
pub(crate) fn core_bits() -> [u64; 16] {
    let mut bits = [0; 16];
    // SAFETY: it asks the system only, and has as many numbers to write to as it takes.
    unsafe { sw_cores(bits.as_mut_ptr()) };
    bits
}

/// Whether calls of MPI are allowed.
fn is_begun() -> Result<bool, EngineError> {
    let (mut initialized, mut finalized) = (0, 0);
    // SAFETY: these questions may be asked at any time.
    check(unsafe { sw_state(&mut initialized, &mut finalized) })?;
    if finalized != 0 {
        return Err(refused("MPI has ended in this process, and cannot begin again"));
    }
    Ok(initialized != 0)
}
