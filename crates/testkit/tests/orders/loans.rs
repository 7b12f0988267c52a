//! What is lent: elements that computations read with the devices that have them.

use super::machine::Piece;
use super::moves::{How, Owner, Round, Take};

/// For each device what it reads, in the order of its piece.
pub struct Lent(Vec<Vec<Take>>);

impl Lent {
    /// What a move would copy; an `Err` if that is no copy.
    pub fn of(rounds: Vec<Round>) -> Result<Lent, String> {
        let Ok([round]) = <[Round; 1]>::try_from(rounds) else {
            return Err("what is lent is taken in several rounds".into());
        };
        let combined = |take: &Take| take.how != How::Put;
        if round.iter().any(|taken| taken.fill.is_some() || taken.takes.iter().any(combined)) {
            return Err("what is lent is combined".into());
        }
        let in_order = |mut takes: Vec<Take>| {
            takes.sort_by_key(|take| take.at);
            takes
        };
        Ok(Lent(round.into_iter().map(|taken| in_order(taken.takes)).collect()))
    }

    /// Whether one device reads what lies with another.
    pub fn reads(&self, reader: usize, owner: usize) -> bool {
        reader != owner && self.0[reader].iter().any(|take| take.from.device == owner)
    }

    /// The elements of a device's piece.
    pub fn read_by(&self, device: usize, own: &Piece) -> Result<Vec<Owner>, String> {
        let takes = &self.0[device];
        let all = takes.iter().map(|take| take.at).eq(0..own.elements);
        let missing = || format!("{} is lent, but not all of it", own.buffer);
        all.then(|| takes.iter().map(|take| take.from.clone()).collect()).ok_or_else(missing)
    }
}
