//! Choices from bytes.

/// Bytes that are used up one by one; where there are none left, every choice is the first one.
pub struct Dice<'a> {
    bytes: std::slice::Iter<'a, u8>,
}

impl<'a> Dice<'a> {
    /// Starts with the first byte.
    pub fn new(bytes: &'a [u8]) -> Dice<'a> {
        Dice { bytes: bytes.iter() }
    }

    /// One of `count` choices.
    pub fn below(&mut self, count: usize) -> usize {
        let byte = self.bytes.next().copied().unwrap_or(0);
        usize::from(byte) % count.max(1)
    }

    /// One of these; `None` if there are none.
    pub fn pick<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        let at = self.below(things.len());
        things.get(at)
    }

    /// The latest of these more easily than the first.
    pub fn pick_late<'t, T>(&mut self, things: &'t [T]) -> Option<&'t T> {
        let at = self.below(things.len());
        things.iter().rev().nth(at)
    }

    /// True in one of `count` cases, and not by the first choice.
    pub fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == count - 1
    }
}
