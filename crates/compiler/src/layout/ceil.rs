//! The one rule by which an axis, blocks and steps cut: pieces of `ceil(len / count)`.
//!
//! ```text
//!   7 over 4     0 1 | 2 3 | 4 5 | 6         the last ones are smaller
//!   5 over 4     0 1 | 2 3 | 4   |           or empty
//! ```

/// A block of so many indices, cut into so many pieces.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct CeilPieces {
    len: u64,
    count: u64,
    piece: u64,
}

impl CeilPieces {
    /// `len` indices in `count` pieces. No pieces at all are taken as one.
    pub fn new(len: u64, count: u64) -> CeilPieces {
        let count = count.max(1);
        CeilPieces { len, count, piece: len.div_ceil(count) }
    }

    /// How many indices are cut.
    pub fn whole(self) -> u64 {
        self.len
    }

    /// How many indices the largest piece has, which is the first.
    pub fn largest(self) -> u64 {
        self.piece
    }

    /// Where a piece starts.
    pub fn start(self, index: u64) -> u64 {
        index.saturating_mul(self.piece).min(self.len)
    }

    /// The first index of a piece and the one after its last.
    pub fn bounds(self, index: u64) -> (u64, u64) {
        (self.start(index), self.start(index.saturating_add(1)))
    }

    /// How many indices a piece has.
    pub fn size(self, index: u64) -> u64 {
        let (start, end) = self.bounds(index);
        end - start
    }

    /// The sizes of all pieces.
    pub fn sizes(self) -> impl ExactSizeIterator<Item = u64> {
        (0..self.count as usize).map(move |index| self.size(index as u64))
    }

    /// How many pieces are as large as the largest, of those that are not empty.
    pub fn full(self) -> u64 {
        self.len.checked_div(self.piece).unwrap_or(0)
    }

    /// How many indices the piece after the full ones has.
    pub fn rest(self) -> u64 {
        self.len.checked_rem(self.piece).unwrap_or(0)
    }

    /// How many pieces are not empty.
    pub fn filled(self) -> u64 {
        self.full() + u64::from(self.rest() > 0)
    }

    /// The different sizes that pieces have: the largest first, then a smaller one, then 0.
    pub fn different_sizes(self) -> impl Iterator<Item = u64> {
        let smaller = (self.rest() > 0).then(|| self.rest());
        let empty = (self.piece > 0 && self.filled() < self.count).then_some(0);
        [Some(self.piece), smaller, empty].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_pieces_are_smaller_or_empty() {
        let sizes = |len, count| CeilPieces::new(len, count).sizes().collect::<Vec<_>>();
        assert_eq!(sizes(7, 4), [2, 2, 2, 1]);
        assert_eq!(sizes(5, 4), [2, 2, 1, 0]);
        assert_eq!(sizes(0, 3), [0, 0, 0]);
        assert_eq!(CeilPieces::new(5, 4).bounds(2), (4, 5));
    }

    #[test]
    fn what_is_said_of_all_pieces_is_what_the_pieces_are() {
        for len in 0..20 {
            for count in 1..9 {
                let pieces = CeilPieces::new(len, count);
                let sizes: Vec<u64> = pieces.sizes().collect();
                assert_eq!(sizes.iter().sum::<u64>(), len);
                assert_eq!(pieces.filled(), sizes.iter().filter(|&&n| n > 0).count() as u64);
                assert_eq!(Some(pieces.largest()), sizes.first().copied());
                let mut different = sizes.clone();
                different.dedup();
                assert_eq!(pieces.different_sizes().collect::<Vec<_>>(), different, "{len} over {count}");
            }
        }
        assert!(CeilPieces::new(1, u64::MAX).different_sizes().eq([1, 0]));
        let huge = CeilPieces::new(u64::MAX, u64::MAX);
        assert_eq!((huge.size(0), huge.filled()), (1, u64::MAX));
    }
}
