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

use super::ALIGNMENT;
use std::ops::Range;

/// The stretches of an arena that other processes reach, the same on every device.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reach {
    /// In order; between two of them is something else.
    stretches: Vec<Stretch>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Stretch {
    bytes: Range<usize>,
    /// How many bytes are reached below it.
    before: usize,
}

/// In which memory a byte lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Whose {
    /// The device's own.
    Own,
    /// That which others reach.
    Reached,
}

impl Reach {
    /// Of these extents those that are reached, and all that overlap with them.
    pub fn of(extents: impl IntoIterator<Item = (Range<usize>, bool)>) -> Reach {
        let aligned = |end: usize| end.checked_next_multiple_of(ALIGNMENT).unwrap_or(end);
        let mut extents: Vec<(Range<usize>, bool)> = extents
            .into_iter()
            .filter(|(extent, _)| !extent.is_empty())
            .map(|(extent, reached)| (extent.start..aligned(extent.end), reached))
            .collect();
        extents.sort_by_key(|(extent, _)| extent.start);
        // What overlaps lies together.
        let mut together: Vec<(Range<usize>, bool)> = Vec::new();
        for (extent, reached) in extents {
            match together.last_mut() {
                Some((last, of_last)) if extent.start < last.end => {
                    last.end = last.end.max(extent.end);
                    *of_last |= reached;
                }
                Some((last, true)) if reached && extent.start == last.end => last.end = extent.end,
                _ => together.push((extent, reached)),
            }
        }
        let mut before = 0;
        let stretches = together.into_iter().filter(|(_, reached)| *reached).map(|(bytes, _)| {
            let stretch = Stretch { before, bytes };
            before += stretch.bytes.len();
            stretch
        });
        Reach { stretches: stretches.collect() }
    }

    /// How many of the bytes below an offset are reached.
    pub fn below(&self, offset: usize) -> usize {
        let next = self.stretches.partition_point(|stretch| stretch.bytes.start < offset);
        next.checked_sub(1).map_or(0, |last| {
            let Stretch { bytes, before } = &self.stretches[last];
            before + offset.min(bytes.end) - bytes.start
        })
    }

    /// The stretches below an offset.
    pub(super) fn clipped(&self, offset: usize) -> Reach {
        let below = self.stretches.iter().filter(|stretch| stretch.bytes.start < offset);
        let clip = |stretch: &Stretch| Stretch {
            bytes: stretch.bytes.start..stretch.bytes.end.min(offset),
            before: stretch.before,
        };
        Reach { stretches: below.map(clip).collect() }
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
        Reach::of([(256..310, true), (0..64, false), (128..192, false), (64..130, true), (192..256, false)])
    }

    #[test]
    fn what_overlaps_with_what_is_reached_is_reached() {
        let stretches: Vec<Range<usize>> = reach().stretches.into_iter().map(|s| s.bytes).collect();
        assert_eq!(stretches, [64..192, 256..320]);
        assert_eq!(Reach::of([(0..64, true), (64..128, true), (128..128, true)]).stretches.len(), 1);
        assert_eq!(Reach::of([(0..64, false)]), Reach::default());
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
        for (offset, below) in [(0, 0), (64, 0), (65, 1), (192, 128), (256, 128), (300, 172), (999, 192)] {
            assert_eq!(reach().below(offset), below, "{offset}");
            assert_eq!(reach().clipped(offset).below(usize::MAX), below, "{offset}");
        }
    }
}
