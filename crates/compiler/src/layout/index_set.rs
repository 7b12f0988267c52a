//! Sets of indices along one dim, as sorted intervals, and how two of them overlap.

use std::fmt;
use std::ops::Range;

/// Indices along one dim: disjoint half-open intervals, sorted, no two touching, none empty.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
pub struct IndexSet {
    intervals: Vec<(u64, u64)>,
}

impl IndexSet {
    /// The indices `start..end`.
    pub fn range(start: u64, end: u64) -> IndexSet {
        IndexSet { intervals: if start < end { vec![(start, end)] } else { Vec::new() } }
    }

    /// From blocks in ascending order; empty blocks vanish, touching blocks join.
    pub fn from_blocks(blocks: impl IntoIterator<Item = (u64, u64)>) -> IndexSet {
        let mut intervals: Vec<(u64, u64)> = Vec::new();
        for (start, end) in blocks {
            if start >= end {
                continue;
            }
            match intervals.last_mut() {
                Some(last) if last.1 == start => last.1 = end,
                _ => intervals.push((start, end)),
            }
        }
        IndexSet { intervals }
    }

    /// How many indices.
    pub fn count(&self) -> u64 {
        self.intervals.iter().map(|(start, end)| end - start).sum()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.intervals.is_empty()
    }

    /// The intervals.
    pub fn intervals(&self) -> &[(u64, u64)] {
        &self.intervals
    }

    /// All indices, ascending.
    pub fn iter(&self) -> impl Iterator<Item = u64> + '_ {
        self.intervals.iter().flat_map(|&(start, end)| start..end)
    }

    /// How many indices both sets have.
    pub fn shared(&self, other: &IndexSet) -> u64 {
        common(self, other).map(|(start, end)| end - start).sum()
    }

    /// The indices both sets have.
    pub fn intersect(&self, other: &IndexSet) -> IndexSet {
        IndexSet::from_blocks(common(self, other))
    }

    /// The indices that at least one of the sets has.
    pub fn union(&self, other: &IndexSet) -> IndexSet {
        let (mut first, mut second) = (self.intervals.iter().peekable(), other.intervals.iter().peekable());
        let mut intervals: Vec<(u64, u64)> = Vec::new();
        while let Some(&(start, end)) = match (first.peek(), second.peek()) {
            (Some(a), Some(b)) if b.0 < a.0 => second.next(),
            (Some(_), _) => first.next(),
            (None, _) => second.next(),
        } {
            match intervals.last_mut() {
                Some(last) if last.1 >= start => last.1 = last.1.max(end),
                _ => intervals.push((start, end)),
            }
        }
        IndexSet { intervals }
    }

    /// The indices that the other set does not have.
    pub fn minus(&self, other: &IndexSet) -> IndexSet {
        let mut left = Vec::new();
        let mut taken = other.intervals.iter().copied().peekable();
        for &(mut start, end) in &self.intervals {
            while let Some(&(from, to)) = taken.peek().filter(|taken| taken.0 < end) {
                if start < from {
                    left.push((start, from));
                }
                start = start.max(to);
                if to > end {
                    break;
                }
                taken.next();
            }
            if start < end {
                left.push((start, end));
            }
        }
        IndexSet { intervals: left }
    }

    /// How many indices are below a bound.
    pub fn below(&self, bound: u64) -> u64 {
        let parts = self.intervals.iter().take_while(|(start, _)| *start < bound);
        parts.map(|&(start, end)| end.min(bound) - start).sum()
    }

    /// The indices within a range, counted from its start.
    pub fn within(&self, range: &Range<u64>) -> IndexSet {
        let clipped = self.intervals.iter().map(|&(start, end)| (start.max(range.start), end.min(range.end)));
        let inside = clipped.filter(|(start, end)| start < end);
        IndexSet::from_blocks(inside.map(|(start, end)| (start - range.start, end - range.start)))
    }

    /// Where in the other set this one begins, if it is there without gaps; anywhere if it is empty.
    pub fn run_of(&self, other: &IndexSet) -> Option<u64> {
        let (Some((start, _)), Some((_, end))) = (self.intervals.first(), self.intervals.last()) else {
            return Some(0);
        };
        let between = other.intersect(&IndexSet::range(*start, *end));
        (between == *self).then(|| other.below(*start))
    }

    /// Whether the other set has all indices of this one.
    pub fn is_subset(&self, other: &IndexSet) -> bool {
        self.shared(other) == self.count()
    }
}

/// How many elements a piece has; at most `u64::MAX`.
pub fn volume(piece: &[IndexSet]) -> u64 {
    piece.iter().map(IndexSet::count).fold(1, u64::saturating_mul)
}

/// Where in a row-major piece a part of it begins, if the part's elements lie there one after another in their
/// order; anywhere if it has none.
pub fn run_of(part: &[IndexSet], whole: &[IndexSet]) -> Option<u64> {
    if volume(part) == 0 {
        return Some(0);
    }
    let Some(first) = part.iter().zip(whole).position(|(part, whole)| part != whole) else { return Some(0) };
    let (inner, outer) = (first + 1.., ..first);
    let is_one_run = part[inner.clone()] == whole[inner.clone()] && volume(&whole[outer]) == 1;
    let at = part[first].run_of(&whole[first]).filter(|_| is_one_run)?;
    at.checked_mul(volume(&whole[inner]))
}

/// A run of indices that two pieces share: where it lies in each, and how long it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Overlap {
    /// The first position in the first piece.
    pub at_first: u64,
    /// The first position in the second piece.
    pub at_second: u64,
    /// How many indices.
    pub len: u64,
}

/// The runs that two pieces share, in ascending order. Positions count the indices held before.
pub fn overlap(first: &IndexSet, second: &IndexSet) -> Vec<Overlap> {
    let mut runs: Vec<Overlap> = Vec::new();
    let (mut before_first, mut before_second) = (0, 0);
    let (mut i, mut j) = (0, 0);
    while let (Some(&a), Some(&b)) = (first.intervals.get(i), second.intervals.get(j)) {
        let (start, end) = (a.0.max(b.0), a.1.min(b.1));
        if start < end {
            let run = Overlap {
                at_first: before_first + (start - a.0),
                at_second: before_second + (start - b.0),
                len: end - start,
            };
            match runs.last_mut() {
                Some(last)
                    if last.at_first + last.len == run.at_first
                        && last.at_second + last.len == run.at_second =>
                {
                    last.len += run.len;
                }
                _ => runs.push(run),
            }
        }
        if a.1 <= b.1 {
            before_first += a.1 - a.0;
            i += 1;
        }
        if b.1 <= a.1 {
            before_second += b.1 - b.0;
            j += 1;
        }
    }
    runs
}

/// The common intervals of two sets, ascending.
fn common<'a>(first: &'a IndexSet, second: &'a IndexSet) -> impl Iterator<Item = (u64, u64)> + 'a {
    let (mut i, mut j) = (0, 0);
    std::iter::from_fn(move || {
        while let (Some(&a), Some(&b)) = (first.intervals.get(i), second.intervals.get(j)) {
            if a.1 <= b.1 {
                i += 1;
            }
            if b.1 <= a.1 {
                j += 1;
            }
            let (start, end) = (a.0.max(b.0), a.1.min(b.1));
            if start < end {
                return Some((start, end));
            }
        }
        None
    })
}

impl fmt::Debug for IndexSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let runs: Vec<String> =
            self.intervals.iter().map(|(start, end)| format!("[{start},{end})")).collect();
        f.write_str(&runs.join(" "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn overlap_counts_positions_in_both_pieces() {
        let a = IndexSet::from_blocks([(0, 2), (5, 7)]);
        let b = IndexSet::from_blocks([(1, 6)]);
        assert_eq!(
            overlap(&a, &b),
            [Overlap { at_first: 1, at_second: 0, len: 1 }, Overlap { at_first: 2, at_second: 4, len: 1 }]
        );
        assert_eq!(a.shared(&b), 2);
        assert_eq!(a.intersect(&b), IndexSet::from_blocks([(1, 2), (5, 6)]));
    }

    #[test]
    fn set_algebra_agrees_with_single_indices() {
        // Every pair of subsets of 0..6, as bits.
        let set =
            |bits: u32| IndexSet::from_blocks((0..6).filter(|i| bits >> i & 1 == 1).map(|i| (i, i + 1)));
        for a in 0..64 {
            for b in 0..64 {
                assert_eq!(set(a).union(&set(b)), set(a | b));
                assert_eq!(set(a).minus(&set(b)), set(a & !b));
                assert_eq!(set(a).intersect(&set(b)), set(a & b));
                assert_eq!(set(a).is_subset(&set(b)), a & !b == 0);
            }
            for start in 0..=6_u64 {
                assert_eq!(set(a).below(start), u64::from((a & ((1 << start) - 1)).count_ones()));
                for end in start..=6 {
                    assert_eq!(set(a).within(&(start..end)), set((a & ((1 << end) - 1)) >> start));
                }
            }
        }
    }

    #[test]
    fn touching_blocks_join_and_empty_ones_vanish() {
        assert_eq!(IndexSet::from_blocks([(0, 2), (2, 2), (2, 5)]), IndexSet::range(0, 5));
        assert!(IndexSet::range(3, 3).is_empty());
    }
}
