//! Which bytes of an arena other processes reach.
//!
//! ```text
//!  arena     [ own a | reached b | own c | reached d ]
//!  own       [ own a | own c ]
//!  reached   [ reached b | reached d ]
//! ```
//!
//! What the ranks of a host read of each other lies in memory that they share. All else is a rank's own: of that the
//! system has more, and gives it in larger pages, so that products walk over it faster.

#![forbid(unsafe_code)]

use super::ALIGNMENT;
use std::ops::Range;

/// The stretches of an arena that other processes reach, the same on every device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// In order; between two of them lies something else.
    stretches: Vec<Stretch>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stretch {
    bytes: Range<usize>,
    /// How many bytes are reached below it.
    before: usize,
}

/// In which memory a byte lies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Whose {
    /// The device's own.
    Own,
    /// That which others reach.
    Reached,
}

impl Reach {
    /// Of these extents those that are reached, and all that overlap with them.
    pub fn of(extents: impl IntoIterator<Item = (Range<usize>, Whose)>) -> Reach {
        let aligned = |end: usize| end.checked_next_multiple_of(ALIGNMENT).unwrap_or(end);
        let mut extents: Vec<(Range<usize>, Whose)> = extents
            .into_iter()
            .filter(|(extent, _)| !extent.is_empty())
            .map(|(extent, whose)| (extent.start..aligned(extent.end), whose))
            .collect();
        extents.sort_by_key(|(extent, _)| extent.start);
        // What overlaps lies together.
        let mut together: Vec<(Range<usize>, Whose)> = Vec::new();
        for (extent, whose) in extents {
            match together.last_mut() {
                Some((last, of_last)) if extent.start < last.end => {
                    last.end = last.end.max(extent.end);
                    *of_last = (*of_last).max(whose);
                }
                _ => together.push((extent, whose)),
            }
        }
        let mut stretches: Vec<Stretch> = Vec::new();
        for (bytes, _) in together.into_iter().filter(|(_, whose)| *whose == Whose::Reached) {
            let before = stretches.last().map_or(0, |last| last.before + last.bytes.len());
            match stretches.last_mut() {
                Some(last) if last.bytes.end == bytes.start => last.bytes.end = bytes.end,
                _ => stretches.push(Stretch { bytes, before }),
            }
        }
        Reach { stretches }
    }

    /// Whether some of these bytes are reached.
    pub fn touches(&self, region: &Range<usize>) -> bool {
        self.below(region.end) > self.below(region.start)
    }

    /// How many of the bytes below an offset are reached.
    pub fn below(&self, offset: usize) -> usize {
        let next = self.stretches.partition_point(|stretch| stretch.bytes.start < offset);
        next.checked_sub(1).map_or(0, |last| {
            let Stretch { bytes, before } = &self.stretches[last];
            before + offset.min(bytes.end) - bytes.start
        })
    }

    /// Whether all of these bytes lie in the same memory.
    pub fn holds(&self, region: &Range<usize>) -> bool {
        self.place(region).is_some()
    }

    /// In which memory a region lies, and how many bytes of that memory lie below it; none if it reaches from one into
    /// the other.
    pub(super) fn place(&self, region: &Range<usize>) -> Option<(Whose, usize)> {
        let next = self.stretches.partition_point(|stretch| stretch.bytes.start <= region.start);
        let last = next.checked_sub(1).map(|last| &self.stretches[last]);
        match last {
            Some(Stretch { bytes, before }) if region.start < bytes.end => {
                (region.end <= bytes.end).then(|| (Whose::Reached, before + region.start - bytes.start))
            }
            _ => {
                let end = self.stretches.get(next).map_or(usize::MAX, |stretch| stretch.bytes.start);
                let reached = last.map_or(0, |stretch| stretch.before + stretch.bytes.len());
                (region.end <= end).then(|| (Whose::Own, region.start - reached))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 64 to 192 and 256 to 320.
    fn reach() -> Reach {
        use Whose::{Own, Reached};
        Reach::of([(256..310, Reached), (0..64, Own), (128..192, Own), (64..130, Reached), (192..256, Own)])
    }

    #[test]
    fn what_overlaps_with_what_is_reached_is_reached() {
        let stretches: Vec<Range<usize>> = reach().stretches.into_iter().map(|s| s.bytes).collect();
        assert_eq!(stretches, [64..192, 256..320]);
        use Whose::{Own, Reached};
        let one = Reach::of([(0..128, Reached)]);
        assert_eq!(Reach::of([(0..64, Reached), (64..128, Reached), (128..128, Reached)]), one);
        assert_eq!(Reach::of([(0..64, Reached), (64..128, Own), (64..128, Reached)]), one);
        assert_eq!(Reach::of([(0..64, Own)]), Reach::default());
    }

    #[test]
    fn bytes_of_either_memory_lie_one_after_another() {
        let places = [
            (0..64, Some((Whose::Own, 0))),
            (64..192, Some((Whose::Reached, 0))),
            (100..101, Some((Whose::Reached, 36))),
            (192..250, Some((Whose::Own, 64))),
            (256..320, Some((Whose::Reached, 128))),
            (320..1000, Some((Whose::Own, 128))),
            (60..70, None),
            (180..200, None),
            (200..257, None),
        ];
        for (region, place) in places {
            assert_eq!(reach().place(&region), place, "{region:?}");
        }
        assert_eq!(Reach::default().place(&(7..usize::MAX)), Some((Whose::Own, 7)));
    }

    #[test]
    fn bytes_below_an_offset_are_counted() {
        assert!(reach().touches(&(0..65)) && !reach().touches(&(0..64)) && !reach().touches(&(192..256)));
        for (offset, below) in [(0, 0), (64, 0), (65, 1), (192, 128), (256, 128), (300, 172), (999, 192)] {
            assert_eq!(reach().below(offset), below, "{offset}");
        }
    }
}
