//! Some ranks with a communicator of their own, for collectives.
//!
//! Who is missing in a collective cannot be seen from its request. So a rank whose time is over asks all others, in
//! notes on the same communicator, whether they have come to this collective:
//!
//! ```text
//!  rank 0  collective 7 ....... time is over ── come to 7? ──▶ rank 1  waits in 7:   ── I have ──▶
//!                                            ── come to 7? ──▶ rank 2  is elsewhere: (nothing)      rank 2 is late
//! ```
//!
//! Whoever waits looks now and then for such a question. If all have come, it is the bytes that take their time, and
//! waiting goes on.

use crate::binding::{Comm, Library};
use crate::flight::{Flight, Runs};
use crate::pause::{Pause, Then};
use shardweave_runtime::engine::EngineError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// How long an answer may take: whoever waits looks far more often.
const ANSWER: Duration = Duration::from_millis(200);

/// Collectives are counted in notes by this many numbers, so that every MPI has tags for them.
const NUMBERS: u64 = 1 << 14;

pub(crate) struct Group {
    comm: Comm,
    members: Box<[usize]>,
    /// The place of this rank among the members.
    own: usize,
    /// In how many collectives this rank has been.
    entered: AtomicU64,
}

impl Group {
    /// Members in ascending order, as the communicator numbers them.
    pub(crate) fn new(comm: Comm, members: impl Into<Box<[usize]>>, rank: usize) -> Group {
        let members = members.into();
        let own = members.binary_search(&rank).expect("this rank is a member");
        Group { comm, members, own, entered: AtomicU64::new(0) }
    }

    pub(crate) fn comm(&self) -> Comm {
        self.comm
    }

    pub(crate) fn members(&self) -> &[usize] {
        &self.members
    }

    /// The place of this rank among the members.
    pub(crate) fn own(&self) -> usize {
        self.own
    }

    /// Starts one collective of so many bytes and waits for it.
    pub(crate) fn run<'a>(
        &self,
        library: &'a Library,
        bytes: usize,
        start: impl FnOnce(&mut Flight<'a>) -> Result<(), EngineError>,
    ) -> Result<(), EngineError> {
        let number = self.entered.fetch_add(1, Ordering::Relaxed) + 1;
        let mut pause = Pause::new(bytes, library.timeout());
        let mut flight = Flight::new(library);
        start(&mut flight)?;
        while !flight.test()? {
            match pause.once() {
                Then::Test => {}
                Then::TestAfterSleep => self.answer(library, number).map(drop)?,
                Then::GiveUp => {
                    let late = self.late(library, number)?;
                    if !late.is_empty() {
                        let late = EngineError::Late(late);
                        flight.give_up(&late);
                        return Err(late);
                    }
                    pause.begin_again();
                }
            }
        }
        Ok(())
    }

    /// All members meet.
    pub(crate) fn meet(&self, library: &Library) -> Result<(), EngineError> {
        self.least(library, &mut [0])
    }

    /// Puts the least of all members in the place of each number.
    pub(crate) fn least(&self, library: &Library, numbers: &mut [u64]) -> Result<(), EngineError> {
        // MPICH compares numbers of 64 bits as if they had a sign, whatever their type says. With the highest bit the
        // other way, that is the same order.
        let flip = |numbers: &mut [u64]| numbers.iter_mut().for_each(|number| *number ^= 1 << 63);
        flip(numbers);
        let comm = self.comm;
        self.run(library, 0, |flight| flight.least(comm, numbers))?;
        flip(numbers);
        Ok(())
    }

    /// A number of each member.
    pub(crate) fn tell(&self, library: &Library, own: u64) -> Result<Vec<u64>, EngineError> {
        Ok(self.tell_some(library, [own])?.into_iter().map(|[number]| number).collect())
    }

    /// Some numbers of each member.
    pub(crate) fn tell_some<const N: usize>(
        &self,
        library: &Library,
        own: [u64; N],
    ) -> Result<Vec<[u64; N]>, EngineError> {
        let mut runs = Runs::new();
        (0..self.members.len()).for_each(|member| runs.push(8 * N * member, 8 * N));
        let own: Vec<u8> = own.iter().flat_map(|number| number.to_le_bytes()).collect();
        let mut all = vec![0; 8 * N * self.members.len()];
        let comm = self.comm;
        self.run(library, 0, |flight| flight.all_gather(comm, &own, &mut all, &runs))?;
        let numbers: Vec<u64> = all.as_chunks().0.iter().map(|&bytes| u64::from_le_bytes(bytes)).collect();
        Ok(numbers.as_chunks().0.to_vec())
    }

    /// Takes all notes: answers questions, and returns who answered one of this rank.
    fn answer(&self, library: &Library, number: u64) -> Result<Vec<usize>, EngineError> {
        let mut answered = Vec::new();
        while let Some(note) = library.take_note(self.comm)? {
            let (about, is_answer) = (note.tag as u64 / 2, note.tag % 2 == 1);
            match is_answer {
                true if about == number % NUMBERS => answered.push(note.from),
                true => {}
                false => {
                    // Not so many collectives lie between two ranks that the numbers would come round.
                    let ahead = (about + NUMBERS - number % NUMBERS) % NUMBERS;
                    if ahead == 0 || ahead > NUMBERS / 2 {
                        library.note(self.comm, note.from, note.tag + 1)?;
                    }
                }
            }
        }
        Ok(answered)
    }

    /// The members that do not say that they have come to the collective of this number.
    fn late(&self, library: &Library, number: u64) -> Result<Vec<usize>, EngineError> {
        let question = (number % NUMBERS * 2) as i32;
        let mut missing: Vec<usize> = (0..self.members.len()).filter(|&member| member != self.own).collect();
        for &member in &missing {
            library.note(self.comm, member, question)?;
        }
        let pause = Pause::new(0, Some(ANSWER));
        while !missing.is_empty() && pause.once() != Then::GiveUp {
            let answered = self.answer(library, number)?;
            missing.retain(|member| !answered.contains(member));
        }
        Ok(missing.into_iter().map(|member| self.members[member]).collect())
    }
}
