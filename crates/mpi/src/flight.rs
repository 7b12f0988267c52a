//! Messages and collectives that are under way, with the memory that they borrow for as long.
#![expect(unsafe_code, reason = "calls of C functions that go on using memory after they return")]

use crate::binding::{
    Bytes, Comm, Library, Parts, Slot, refused, sw_all_gather, sw_all_to_all, sw_broadcast, sw_gather,
    sw_has_ended, sw_least, sw_receive, sw_scatter, sw_send, sw_test,
};
use crate::pause::{Pause, Then};
use shardweave_runtime::engine::{EngineError, Late, Waits};
use smallvec::SmallVec;
use std::collections::BTreeSet;
use std::ffi::c_int;
use std::marker::PhantomData;

/// What was started together and is waited for together.
///
/// *Invariant:* what a request reads or writes is borrowed for `'a`. A flight that is dropped while requests are under
/// way ends all ranks, unless [some of them were late](Flight::wait).
pub(crate) struct Flight<'a> {
    library: &'a Library,
    /// Memory for as many requests; those of MPI need at most as much.
    requests: SmallVec<[u64; 8]>,
    /// How many bytes each brings; -1 if that is not to be checked.
    wanted: SmallVec<[c_int; 8]>,
    /// With whom, in messages.
    peers: SmallVec<[usize; 8]>,
    /// With whom, in collectives: who has not come to one cannot be seen.
    members: &'a [usize],
    /// All before this one have ended.
    ended: usize,
    given_up: bool,
    /// The first error: what is under way then is nobody's any more.
    failed: Option<EngineError>,
    borrowed: PhantomData<&'a mut [u8]>,
}

/// One run of bytes for each member of a group, from a common start.
pub(crate) struct Runs {
    pub counts: SmallVec<[c_int; 16]>,
    pub starts: SmallVec<[c_int; 16]>,
}

/// Bytes to read from; nowhere if there are none: the address that Rust gives to no bytes means something to Open MPI.
fn to_read(bytes: &[u8]) -> Bytes {
    let start = if bytes.is_empty() { std::ptr::null() } else { bytes.as_ptr() };
    Bytes { start: start.cast_mut(), count: count_of(bytes) }
}

/// Bytes to write to; the same.
fn to_write(bytes: &mut [u8]) -> Bytes {
    let start = if bytes.is_empty() { std::ptr::null_mut() } else { bytes.as_mut_ptr() };
    Bytes { start, count: count_of(bytes) }
}

/// MPI counts bytes by 32-bit numbers.
fn count_of(bytes: &[u8]) -> c_int {
    c_int::try_from(bytes.len()).expect("larger messages are sent in several")
}

impl<'a> Flight<'a> {
    /// No messages yet.
    pub(crate) fn new(library: &'a Library) -> Flight<'a> {
        Flight::of_members(library, &[])
    }

    /// No collective of these members yet.
    pub(crate) fn of_members(library: &'a Library, members: &'a [usize]) -> Flight<'a> {
        Flight {
            library,
            requests: SmallVec::new(),
            wanted: SmallVec::new(),
            peers: SmallVec::new(),
            members,
            ended: 0,
            given_up: false,
            failed: None,
            borrowed: PhantomData,
        }
    }

    /// Starts something: the function gets the place of the new request.
    fn start(
        &mut self,
        peer: usize,
        wanted: c_int,
        function: impl FnOnce(Slot) -> c_int,
    ) -> Result<(), EngineError> {
        let at = self.requests.len();
        self.requests.push(0);
        let slot = Slot { requests: self.requests.as_mut_ptr(), at: at as c_int };
        if let Err(error) = self.library.call(|| function(slot)) {
            self.requests.pop();
            return Err(self.noted(error));
        }
        self.wanted.push(wanted);
        self.peers.push(peer);
        Ok(())
    }

    pub(crate) fn send(
        &mut self,
        comm: Comm,
        to: usize,
        tag: i32,
        bytes: &'a [u8],
    ) -> Result<(), EngineError> {
        // SAFETY: the bytes are borrowed for as long as the request can be under way.
        self.start(to, -1, |slot| unsafe { sw_send(to_read(bytes), to as c_int, tag, comm.handle(), slot) })
    }

    pub(crate) fn receive(
        &mut self,
        comm: Comm,
        from: usize,
        tag: i32,
        bytes: &'a mut [u8],
    ) -> Result<(), EngineError> {
        // SAFETY: the bytes are borrowed for as long as the request can be under way.
        self.start(from, count_of(bytes), |slot| unsafe {
            sw_receive(to_write(bytes), from as c_int, tag, comm.handle(), slot)
        })
    }

    /// The root's part of a broadcast.
    pub(crate) fn broadcast(&mut self, comm: Comm, root: usize, bytes: &'a [u8]) -> Result<(), EngineError> {
        // SAFETY: the bytes are borrowed for as long as the request can be under way; the root's are only read.
        self.start(root, -1, |slot| unsafe {
            sw_broadcast(to_read(bytes), root as c_int, comm.handle(), slot)
        })
    }

    /// The others' part of a broadcast.
    pub(crate) fn be_told(
        &mut self,
        comm: Comm,
        root: usize,
        bytes: &'a mut [u8],
    ) -> Result<(), EngineError> {
        // SAFETY: the bytes are borrowed for as long as the request can be under way.
        self.start(root, -1, |slot| unsafe {
            sw_broadcast(to_write(bytes), root as c_int, comm.handle(), slot)
        })
    }

    pub(crate) fn all_gather(
        &mut self,
        comm: Comm,
        own: &'a [u8],
        (all, runs): (&'a mut [u8], &'a Runs),
    ) -> Result<(), EngineError> {
        // SAFETY: bytes and runs are borrowed for as long as the request can be under way.
        self.start(0, -1, |slot| unsafe {
            sw_all_gather(to_read(own), runs.to_write(all), comm.handle(), slot)
        })
    }

    pub(crate) fn all_to_all(
        &mut self,
        comm: Comm,
        (sent, sent_runs): (&'a [u8], &'a Runs),
        (got, got_runs): (&'a mut [u8], &'a Runs),
    ) -> Result<(), EngineError> {
        // SAFETY: bytes and runs are borrowed for as long as the request can be under way.
        self.start(0, -1, |slot| unsafe {
            sw_all_to_all(sent_runs.to_read(sent), got_runs.to_write(got), comm.handle(), slot)
        })
    }

    /// In this collective nothing is to come but from one member, and nothing goes but to it.
    pub(crate) fn waits_only_for(&mut self, member: usize) {
        self.members = &self.members[member..=member];
    }

    /// What all have comes to the root; the others receive nothing.
    pub(crate) fn gather(
        &mut self,
        comm: Comm,
        root: usize,
        own: &'a [u8],
        (all, runs): (&'a mut [u8], &'a Runs),
    ) -> Result<(), EngineError> {
        // SAFETY: bytes and runs are borrowed for as long as the request can be under way.
        self.start(root, -1, |slot| unsafe {
            sw_gather(to_read(own), runs.to_write(all), root as c_int, comm.handle(), slot)
        })
    }

    /// What the root has for each comes to it; the others send nothing.
    pub(crate) fn scatter(
        &mut self,
        comm: Comm,
        root: usize,
        (all, runs): (&'a [u8], &'a Runs),
        own: &'a mut [u8],
    ) -> Result<(), EngineError> {
        // SAFETY: bytes and runs are borrowed for as long as the request can be under way.
        self.start(root, -1, |slot| unsafe {
            sw_scatter(runs.to_read(all), to_write(own), root as c_int, comm.handle(), slot)
        })
    }

    /// Puts the least of all ranks in the place of each number; numbers with the highest bit are below zero.
    pub(crate) fn least(&mut self, comm: Comm, numbers: &'a mut [u64]) -> Result<(), EngineError> {
        let count = c_int::try_from(numbers.len()).expect("few numbers");
        // SAFETY: the numbers are borrowed for as long as the request can be under way.
        self.start(0, -1, |slot| unsafe { sw_least(numbers.as_mut_ptr(), count, comm.handle(), slot) })
    }

    /// An error, which is the reason for what becomes of this flight.
    fn noted(&mut self, error: EngineError) -> EngineError {
        self.failed.get_or_insert_with(|| error.clone());
        error
    }

    /// Whether all has ended.
    pub(crate) fn test(&mut self) -> Result<bool, EngineError> {
        self.test_all().map_err(|error| self.noted(error))
    }

    fn test_all(&mut self) -> Result<bool, EngineError> {
        /// `SW_FEW` of `shim.c`.
        const FEW: usize = 64;
        while self.ended < self.requests.len() {
            let (first, count) = (self.ended, (self.requests.len() - self.ended).min(FEW));
            let wanted = self.wanted[first..first + count].as_ptr();
            let (mut ended, mut wrong) = (0, -1);
            let requests = self.requests.as_mut_ptr();
            // SAFETY: there are as many requests and numbers from `first` on, and no more than `FEW`.
            self.library.call(|| unsafe {
                sw_test(requests, first as c_int, count as c_int, wanted, &mut ended, &mut wrong)
            })?;
            if ended == 0 {
                return Ok(false);
            }
            self.ended += count;
            if let Ok(wrong) = usize::try_from(wrong) {
                return Err(refused(format!(
                    "rank {} sent fewer bytes than the {} that were to come",
                    self.peers[first + wrong],
                    self.wanted[first + wrong]
                )));
            }
        }
        Ok(true)
    }

    /// Waits until all of it has ended, of which the most are so many bytes.
    pub(crate) fn wait(&mut self, bytes: usize) -> Result<(), EngineError> {
        let mut pause = Pause::new(bytes, self.library.timeout());
        // How many requests were under way when it was last looked. What had not to be waited for is not among them.
        let mut under_way = None;
        while !self.test()? {
            match pause.once() {
                Then::Test => {}
                Then::TestAfterSleep => {
                    if under_way.is_none() {
                        under_way = Some(self.under_way()?.len());
                    }
                    self.library.answer(&|| self.waits())?;
                }
                Then::GiveUp => {
                    let left = self.under_way()?.len();
                    // Some of it has come, or gone: the others are at it.
                    if left == 0 || under_way.is_some_and(|before| left < before) {
                        under_way = Some(left);
                        pause.begin_again();
                        continue;
                    }
                    let late = self.library.late(&|| self.waits())?;
                    if late.is_none() && pause.goes_on() {
                        continue;
                    }
                    let late = EngineError::Late(late.unwrap_or_else(|| Late::of(self.waits().ranks)));
                    self.given_up = true;
                    self.library.has_broken(&late);
                    return Err(late);
                }
            }
        }
        Ok(())
    }

    /// For whom this rank waits.
    fn waits(&self) -> Waits {
        let place = "at an exchange".to_string();
        let under_way = self.under_way().unwrap_or_default();
        if !self.members.is_empty() && !under_way.is_empty() {
            let others = self.members.iter().copied().filter(|&member| member != self.library.rank());
            return Waits { ranks: others.collect(), place };
        }
        let ranks: BTreeSet<usize> = under_way.into_iter().map(|at| self.peers[at]).collect();
        Waits { ranks: ranks.into_iter().collect(), place }
    }

    /// The requests that have not ended.
    fn under_way(&self) -> Result<Vec<usize>, EngineError> {
        let mut under_way = Vec::new();
        for at in self.ended..self.requests.len() {
            let (requests, mut ended) = (self.requests.as_ptr(), 0);
            // SAFETY: there are as many requests.
            self.library.call(|| unsafe { sw_has_ended(requests, at as c_int, &mut ended) })?;
            if ended == 0 {
                under_way.push(at);
            }
        }
        Ok(under_way)
    }
}

impl Drop for Flight<'_> {
    fn drop(&mut self) {
        if !self.given_up && self.under_way().is_ok_and(|under_way| under_way.is_empty()) {
            return;
        }
        if !self.given_up {
            let under_way = "messages are under way that nobody waits for";
            match &self.failed {
                Some(error) => self.library.abort(&format!("{error}; {under_way}")),
                None => self.library.abort(under_way),
            }
        }
    }
}

/// Slices that lie one behind the other as one; `None` if they do not.
pub(crate) fn joined<'x>(parts: &'x [(usize, &[u8])]) -> Option<&'x [u8]> {
    let (start, bytes) = extent(parts.iter().map(|(_, part)| (part.as_ptr(), part.len())))?;
    if bytes == 0 {
        return Some(&[]);
    }
    // SAFETY: the parts cover these bytes without a gap, all of them are borrowed for `'x`, and they are parts of
    // one arena, as the contract of an exchange says.
    Some(unsafe { std::slice::from_raw_parts(start, bytes) })
}

/// The same of slices to write to.
pub(crate) fn joined_mut<'x>(parts: &'x mut [(usize, &mut [u8])]) -> Option<&'x mut [u8]> {
    let (start, bytes) =
        extent(parts.iter_mut().map(|(_, part)| (part.as_mut_ptr().cast_const(), part.len())))?;
    if bytes == 0 {
        return Some(&mut []);
    }
    // SAFETY: the same; they are borrowed alone, and the pointer was made from one to write to.
    Some(unsafe { std::slice::from_raw_parts_mut(start.cast_mut(), bytes) })
}

/// Where the first byte is and how many follow, if each part begins where the one before it ends.
fn extent(parts: impl Iterator<Item = (*const u8, usize)>) -> Option<(*const u8, usize)> {
    let mut parts = parts.filter(|&(_, bytes)| bytes > 0);
    let Some((start, mut bytes)) = parts.next() else { return Some((std::ptr::null(), 0)) };
    for (at, more) in parts {
        if at != start.wrapping_add(bytes) {
            return None;
        }
        bytes += more;
    }
    Some((start, bytes))
}

impl Runs {
    /// No runs.
    pub(crate) fn new() -> Runs {
        Runs { counts: SmallVec::new(), starts: SmallVec::new() }
    }

    /// One more run.
    pub(crate) fn push(&mut self, start: usize, count: usize) {
        let number = |n: usize| c_int::try_from(n).expect("larger exchanges go in messages");
        self.starts.push(number(start));
        self.counts.push(number(count));
    }

    /// Runs of these bytes, to read from.
    fn to_read(&self, bytes: &[u8]) -> Parts {
        self.parts(to_read(bytes))
    }

    /// Runs of these bytes, to write to.
    fn to_write(&self, bytes: &mut [u8]) -> Parts {
        self.parts(to_write(bytes))
    }

    fn parts(&self, bytes: Bytes) -> Parts {
        let end = |(&start, &count): (&c_int, &c_int)| i64::from(start) + i64::from(count);
        let is_inside = |run| end(run) <= i64::from(bytes.count);
        assert!(self.starts.iter().zip(&self.counts).all(is_inside), "runs lie in their memory");
        Parts { start: bytes.start, counts: self.counts.as_ptr(), starts: self.starts.as_ptr() }
    }
}
