//! Who is late: a rank whose time is over asks all others, in notes, whether they wait too, and for whom.
//!
//! ```text
//!  rank 0  waits for 1, its time is over ── who is there? ──▶ rank 1  waits:  ── I am, and wait for rank 2 ──▶
//!                                        ── who is there? ──▶ rank 2  hangs:  (nothing)       rank 2 is late
//! ```
//!
//! Whoever waits looks now and then for such a question. So nobody is named who only waits for somebody else. If all
//! those answer for whom others wait, directly or not, it is bytes that take their time, and waiting goes on.
//!
//! The lowest rank that answers is the one to tell what happened; others that find it out leave it the time to.

use shardweave_runtime::engine::{EngineError, Late, Waits};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::{Duration, Instant};

/// How long an answer may take: whoever waits looks far more often.
const ANSWER: Duration = Duration::from_millis(200);

/// How long a rank leaves it to a lower one to tell what happened.
const LEFT_TO_OTHERS: Duration = Duration::from_secs(1);

/// Between two looks for answers.
const SLEEP: Duration = Duration::from_micros(100);

/// Questions are counted in notes by this many numbers, so that every MPI has tags for them.
const NUMBERS: i32 = 1 << 13;

/// A message of few bytes, which nobody waits for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Note {
    pub from: usize,
    pub tag: i32,
    pub bytes: Vec<u8>,
}

impl Note {
    /// The most bytes of a note.
    pub(crate) const MOST: usize = 512;
}

/// What brings notes.
pub(crate) trait Notes {
    /// Sends a note of at most [`Note::MOST`] bytes.
    fn send(&self, to: usize, tag: i32, bytes: &[u8]) -> Result<(), EngineError>;

    /// Takes a note that has come.
    fn take(&self) -> Result<Option<Note>, EngineError>;
}

/// By what ranks ask each other.
pub(crate) struct RollCall {
    rank: usize,
    ranks: usize,
    asked: Mutex<Asked>,
}

/// The last question of this rank, and who answered it.
#[derive(Default)]
struct Asked {
    number: i32,
    answers: BTreeMap<usize, Waits>,
}

impl RollCall {
    /// Nobody has asked yet.
    pub(crate) fn new(rank: usize, ranks: usize) -> RollCall {
        RollCall { rank, ranks, asked: Mutex::default() }
    }

    /// Answers those who have asked, if any. Another thread of this rank that is at it does the same.
    pub(crate) fn answer(&self, notes: &dyn Notes, waits: &dyn Fn() -> Waits) -> Result<(), EngineError> {
        match self.asked.try_lock() {
            Ok(mut asked) => self.take_notes(notes, &mut asked, waits),
            Err(TryLockError::Poisoned(asked)) => self.take_notes(notes, &mut asked.into_inner(), waits),
            Err(TryLockError::WouldBlock) => Ok(()),
        }
    }

    /// Who is to blame that what this rank waits for does not come; nobody if all wait.
    pub(crate) fn late(
        &self,
        notes: &dyn Notes,
        waits: &dyn Fn() -> Waits,
    ) -> Result<Option<Late>, EngineError> {
        let own = waits();
        let answers = self.ask(notes, waits)?;
        let late = absent(self.rank, &own, &answers);
        if late.is_empty() {
            return Ok(None);
        }
        if answers.keys().next().is_some_and(|&first| first < self.rank) {
            let start = Instant::now();
            while start.elapsed() < LEFT_TO_OTHERS {
                self.answer(notes, waits)?;
                std::thread::sleep(SLEEP);
            }
        }
        Ok(Some(Late { ranks: late, waiting: answers.into_iter().collect() }))
    }

    /// Who answers, and what it waits for.
    fn ask(
        &self,
        notes: &dyn Notes,
        waits: &dyn Fn() -> Waits,
    ) -> Result<BTreeMap<usize, Waits>, EngineError> {
        let mut asked: MutexGuard<'_, Asked> = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
        asked.number = (asked.number + 1) % NUMBERS;
        asked.answers.clear();
        let others = (0..self.ranks).filter(|&rank| rank != self.rank);
        for rank in others {
            notes.send(rank, question(asked.number), &[])?;
        }
        let start = Instant::now();
        while asked.answers.len() + 1 < self.ranks && start.elapsed() < ANSWER {
            self.take_notes(notes, &mut asked, waits)?;
            std::thread::sleep(SLEEP);
        }
        Ok(std::mem::take(&mut asked.answers))
    }

    /// Takes all notes that have come: answers questions, keeps answers.
    fn take_notes(
        &self,
        notes: &dyn Notes,
        asked: &mut Asked,
        waits: &dyn Fn() -> Waits,
    ) -> Result<(), EngineError> {
        while let Some(Note { from, tag, bytes }) = notes.take()? {
            if tag % 2 == 0 {
                notes.send(from, tag + 1, &to_bytes(&waits()))?;
            } else if tag == question(asked.number) + 1 {
                asked.answers.insert(from, from_bytes(&bytes));
            }
        }
        Ok(())
    }
}

fn question(number: i32) -> i32 {
    2 * number
}

/// Those who do not answer, of those for whom a rank waits, or for whom others wait for whom it waits.
fn absent(rank: usize, own: &Waits, answers: &BTreeMap<usize, Waits>) -> Vec<usize> {
    let mut found: BTreeSet<usize> = own.ranks.iter().copied().filter(|&other| other != rank).collect();
    let mut to_see: Vec<usize> = found.iter().copied().collect();
    while let Some(waits) = to_see.pop().map(|next| answers.get(&next)) {
        let more = waits.into_iter().flat_map(|waits| &waits.ranks).copied();
        to_see.extend(more.filter(|&other| other != rank).filter(|&other| found.insert(other)));
    }
    found.into_iter().filter(|other| !answers.contains_key(other)).collect()
}

/// As an answer has it: few enough bytes to be sent without waiting for who takes them.
fn to_bytes(waits: &Waits) -> Vec<u8> {
    let ranks: Vec<String> = waits.ranks.iter().map(usize::to_string).collect();
    let mut text = format!("{} {}", ranks.join(","), waits.place);
    text.truncate(text.floor_char_boundary(Note::MOST));
    text.into_bytes()
}

/// The other way. A number that did not find its place as a whole is one that nobody misses.
fn from_bytes(bytes: &[u8]) -> Waits {
    let text = String::from_utf8_lossy(bytes);
    let (ranks, place) =
        text.split_once(' ').unwrap_or_else(|| (text.rsplit_once(',').unwrap_or_default().0, ""));
    let ranks = ranks.split(',').filter_map(|rank| rank.parse().ok()).collect();
    Waits { ranks, place: place.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waits(ranks: &[usize]) -> Waits {
        Waits { ranks: ranks.to_vec(), place: format!("the place of {ranks:?}") }
    }

    #[test]
    fn nobody_is_late_who_only_waits() {
        let of = |own: &[usize], answers: &[(usize, &[usize])]| {
            let answers = answers.iter().map(|(rank, ranks)| (*rank, waits(ranks))).collect();
            absent(0, &waits(own), &answers)
        };
        assert_eq!(of(&[1], &[(1, &[2])]), [2]);
        assert_eq!(of(&[1, 2], &[(1, &[2])]), [2]);
        assert_eq!(of(&[1], &[(1, &[2]), (2, &[3, 0]), (3, &[4, 5]), (5, &[1])]), [4]);
        // Rank 3 computes, and nobody waits for it.
        assert_eq!(of(&[1], &[(1, &[2]), (2, &[1])]), [0; 0]);
        assert_eq!(of(&[0, 1, 2], &[]), [1, 2]);
    }

    #[test]
    fn an_answer_says_for_whom_a_rank_waits() {
        for ranks in [&[][..], &[3], &[0, 12, 7]] {
            assert_eq!(from_bytes(&to_bytes(&waits(ranks))), waits(ranks));
        }
        let many: Vec<usize> = (1000..2000).collect();
        let bytes = to_bytes(&waits(&many));
        assert_eq!(bytes.len(), Note::MOST);
        let Waits { ranks, place } = from_bytes(&bytes);
        assert!(place.is_empty() && ranks.len() > 20 && many.starts_with(&ranks), "{ranks:?}");
        let long = Waits { ranks: vec![1], place: "ü".repeat(1000) };
        assert!(from_bytes(&to_bytes(&long)).place.starts_with("üü"));
    }
}
