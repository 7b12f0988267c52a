//! How ranks agree on how it went, before they do anything else together.
//!
//! ```text
//!  rank 0   well, 7      ┐
//!  rank 1   failed: why  ├─▶  all hear that rank 1 failed, and why
//!  rank 2   failed: why  ┘
//! ```
//!
//! **Invariant.** Where something can fail on one rank alone, all ranks agree on how it went before they do anything
//! else together. So either all go on, or none does; and the lowest rank that failed itself speaks for all, so that
//! one reason is told, once.

use crate::engine::{Engine, EngineError};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// How it went on a rank.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Went<'a> {
    /// Well.
    Well {
        /// What all ranks must have in common: numbers, which all give in the same order.
        common: &'a [u64],
        /// What the rank has to say to all.
        word: &'a [u8],
    },
    /// It failed itself: why.
    Failed(&'a [u8]),
    /// It has only heard of a failure on another rank, which has yet to speak.
    Heard,
}

/// What all ranks hear, the same on each.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Agreed {
    /// It went well on all, and they have all in common: the words, by rank.
    Well(Vec<Vec<u8>>),
    /// The lowest rank that failed itself, and why.
    Failed {
        /// Which rank.
        rank: usize,
        /// What it says. Nothing if all that failed have only heard of it.
        why: Vec<u8>,
        /// Whether every rank failed itself.
        by_all: bool,
    },
    /// It went well on all, but they differ.
    Differs {
        /// The first of the numbers that is not the same on all ranks.
        number: usize,
        /// The lowest rank that has another one than most ranks.
        rank: usize,
        /// The lowest of those that have what most have, of several numbers that of the lowest rank.
        than: usize,
    },
}

/// Tells all how it went here, and hears how it went in all. All ranks make this call.
///
/// # Errors
/// If the engine fails.
pub fn agree(engine: &dyn Engine, own: Went<'_>) -> Result<Agreed, EngineError> {
    let numbers = match own {
        Went::Well { common, .. } => common.len(),
        Went::Failed(_) | Went::Heard => 0,
    };
    Ok(heard(&engine.tell_all(&told(own))?, numbers))
}

const WELL: u8 = 0;
const FAILED: u8 = 1;
const HEARD: u8 = 2;

/// What a rank tells.
fn told(own: Went<'_>) -> Vec<u8> {
    match own {
        Went::Well { common, word } => {
            let numbers: Vec<u8> = common.iter().flat_map(|number| number.to_le_bytes()).collect();
            [&[WELL], &numbers[..], word].concat()
        }
        Went::Failed(why) => [&[FAILED], why].concat(),
        Went::Heard => vec![HEARD],
    }
}

/// What follows from what all ranks told, where it went well with so many numbers. Bytes that no rank of this version
/// tells are a failure.
fn heard(told: &[Vec<u8>], numbers: usize) -> Agreed {
    let kind = |told: &Vec<u8>| told.first().copied().unwrap_or(FAILED);
    let rest = |rank: usize| told[rank].get(1..).unwrap_or_default();
    let has_failed = |told: &Vec<u8>| !matches!(kind(told), WELL | HEARD);
    let failed = told.iter().position(has_failed);
    if let Some(rank) = failed.or_else(|| told.iter().position(|told| kind(told) == HEARD)) {
        return Agreed::Failed { rank, why: rest(rank).to_vec(), by_all: told.iter().all(has_failed) };
    }
    let number_of = |rank: usize, number: usize| rest(rank).get(8 * number..8 * (number + 1));
    for number in 0..numbers {
        let all: Vec<_> = (0..told.len()).map(|rank| number_of(rank, number)).collect();
        let than = lowest_of_most(&all);
        if let Some(rank) = all.iter().position(|own| *own != all[than]) {
            return Agreed::Differs { number, rank, than };
        }
    }
    let word = |rank: usize| rest(rank).get(8 * numbers..).unwrap_or_default().to_vec();
    Agreed::Well((0..told.len()).map(word).collect())
}

/// The lowest of the ranks that have what most have; of several such groups the one with the lowest rank.
fn lowest_of_most<T: Ord>(all: &[T]) -> usize {
    let mut groups: BTreeMap<&T, (usize, Reverse<usize>)> = BTreeMap::new();
    for (rank, own) in all.iter().enumerate() {
        groups.entry(own).or_insert((0, Reverse(rank))).0 += 1;
    }
    groups.into_values().max().map_or(0, |(_, Reverse(lowest))| lowest)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What all hear when these ranks tell how it went on them.
    fn agreed<const N: usize>(all: [Went<'_>; N], numbers: usize) -> Agreed {
        heard(&all.map(told), numbers)
    }

    fn well<'a>(common: &'a [u64], word: &'a [u8]) -> Went<'a> {
        Went::Well { common, word }
    }

    #[test]
    fn where_it_went_well_on_all_their_words_are_heard() {
        let words = Agreed::Well(vec![b"zero".to_vec(), vec![], vec![FAILED; 20]]);
        let numbers = [u64::MAX, 3];
        for common in [&numbers[..], &numbers[..1], &[]] {
            let all = [well(common, b"zero"), well(common, b""), well(common, &[FAILED; 20])];
            assert_eq!(agreed(all, common.len()), words);
        }
    }

    #[test]
    fn the_lowest_rank_that_failed_itself_speaks() {
        let (fine, one, other) = (well(&[1], b"fine"), Went::Failed(b"one"), Went::Failed(b"other"));
        let failed = |rank: usize, why: &[u8]| Agreed::Failed { rank, why: why.to_vec(), by_all: false };
        let all_failed = Agreed::Failed { rank: 0, why: b"one".to_vec(), by_all: true };
        assert_eq!(agreed([one, other, one], 1), all_failed);
        for (all, expected) in [
            ([fine, one, other], failed(1, b"one")),
            ([other, fine, one], failed(0, b"other")),
            ([Went::Heard, fine, one], failed(2, b"one")),
            ([Went::Heard, other, Went::Heard], failed(1, b"other")),
            // Who failed says why, and not who differs.
            ([fine, well(&[2], b"fine"), one], failed(2, b"one")),
            // That nobody failed is a fault of ours; all hear of it still.
            ([fine, Went::Heard, Went::Heard], failed(1, b"")),
        ] {
            assert_eq!(agreed(all, 1), expected, "{all:?}");
        }
        let fine = told(well(&[], b""));
        for strange in [&[][..], &[7], &[FAILED]] {
            let Agreed::Failed { rank: 1, .. } = heard(&[fine.clone(), strange.to_vec()], 0) else {
                panic!("{strange:?} is no good news");
            };
        }
    }

    #[test]
    fn what_differs_first_is_found() {
        let differs = |number: usize, rank: usize, than: usize| Agreed::Differs { number, rank, than };
        for (all, expected) in [
            ([[1, 2], [1, 2], [1, 3]], differs(1, 2, 0)),
            ([[1, 2], [2, 3], [1, 3]], differs(0, 1, 0)),
            ([[1, 2], [1, 3], [2, 2]], differs(0, 2, 0)),
            // It is the one that most ranks do not have.
            ([[1, 2], [2, 1], [2, 1]], differs(0, 0, 1)),
            ([[9, 2], [2, 1], [2, 3]], differs(0, 0, 1)),
            // Where none has more than others, what rank 0 has.
            ([[3, 2], [2, 1], [1, 1]], differs(0, 1, 0)),
        ] {
            assert_eq!(agreed(all.each_ref().map(|common| well(common, b"")), 2), expected, "{all:?}");
        }
        // What is too short has another number.
        assert_eq!(heard(&[told(well(&[1], b"")), vec![WELL, 1, 0]], 1), differs(0, 1, 0));
    }
}
