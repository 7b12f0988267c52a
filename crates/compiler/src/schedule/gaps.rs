//! Which bytes are taken when, and where the lowest gap is.
//!
//! Moments are numbered. A tree over them has a node for every aligned run of 1, 2, 4, ... moments. A life
//! is covered by a few nodes, and touches those above its two ends:
//!
//! ```text
//!   moments       0 1 2 3 4 5 6 7
//!   a life          └───────┘            1..=5
//!   is covered by   1  2-3  4-5
//!   touches also    0-1  0-3  4-7  0-7   the nodes above 1 and above 5
//! ```
//!
//! Every node keeps the bytes that lives covering it take, and those that lives meeting it take. Two lives
//! overlap if a node that covers one is met by the other, so the bytes in the way of a life are those met in
//! the nodes that cover it and those covering the nodes above its ends: a number of sets that grows with the
//! logarithm of the moments, however many lives there are.

use super::lives::Life;
use std::collections::BTreeMap;
use std::ops::{Range, RangeInclusive};

/// The moments that matter: those at which a life starts, as places in the text. Of two lives that meet, one
/// starts within the other. The action that ends a life still belongs to it: it may not begin another.
pub(super) struct Moments {
    starts: Vec<usize>,
}

impl Moments {
    /// Those of all lives.
    pub fn of<'a>(lives: impl Iterator<Item = &'a Life>) -> Moments {
        let mut starts: Vec<usize> = lives.map(|life| life.start).collect();
        starts.sort_unstable();
        starts.dedup();
        Moments { starts }
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The first and the last moment of a life.
    pub fn of_life(&self, life: &Life) -> RangeInclusive<usize> {
        let first = self.starts.partition_point(|&start| start < life.start);
        let after = self.starts.partition_point(|&start| start <= life.end);
        first..=after.max(first + 1) - 1
    }
}

/// Bytes, as disjoint extents that do not touch: each start with its end.
#[derive(Default)]
struct Extents(BTreeMap<u64, u64>);

impl Extents {
    fn add(&mut self, bytes: Range<u64>) {
        let Range { mut start, mut end } = bytes;
        while let Some((&from, &to)) = self.0.range(..=end).next_back().filter(|&(_, &to)| to >= start) {
            (start, end) = (start.min(from), end.max(to));
            self.0.remove(&from);
        }
        self.0.insert(start, end);
    }

    /// Where the last extent ends that has some of these bytes.
    fn end_of_last_in(&self, bytes: Range<u64>) -> Option<u64> {
        let (_, &to) = self.0.range(..bytes.end).next_back()?;
        (to > bytes.start).then_some(to)
    }
}

#[derive(Default)]
struct Node {
    /// Taken all along the node's moments.
    covering: Extents,
    /// Taken at some of the node's moments.
    meeting: Extents,
}

/// The bytes taken at each moment.
pub(super) struct Taken {
    leaves: usize,
    /// The root is 1; below `n` stand `2 n` and `2 n + 1`. Where nothing is taken there is no node.
    nodes: Vec<Option<Box<Node>>>,
}

impl Taken {
    /// Nothing is taken at any of so many moments.
    pub fn nothing(moments: usize) -> Taken {
        let leaves = moments.max(1).next_power_of_two();
        Taken { leaves, nodes: std::iter::repeat_with(|| None).take(2 * leaves).collect() }
    }

    /// Takes bytes for a life.
    pub fn take(&mut self, life: &RangeInclusive<usize>, bytes: Range<u64>) {
        if bytes.is_empty() {
            return;
        }
        for at in self.covers(life) {
            self.node(at).covering.add(bytes.clone());
            self.node(at).meeting.add(bytes.clone());
        }
        for at in self.above_ends(life) {
            self.node(at).meeting.add(bytes.clone());
        }
    }

    fn node(&mut self, at: usize) -> &mut Node {
        self.nodes[at].get_or_insert_default()
    }

    /// The nodes that cover a life, each moment once.
    fn covers(&self, life: &RangeInclusive<usize>) -> Vec<usize> {
        let (mut from, mut to) = (life.start() + self.leaves, life.end() + self.leaves + 1);
        let mut nodes = Vec::new();
        // The nodes from..to of one level cover what those kept do not.
        while from < to {
            if from % 2 == 1 {
                nodes.push(from);
                from += 1;
            }
            if to % 2 == 1 {
                to -= 1;
                nodes.push(to);
            }
            (from, to) = (from / 2, to / 2);
        }
        nodes
    }

    /// The nodes of a life's first and last moment and all above them.
    fn above_ends(&self, life: &RangeInclusive<usize>) -> impl Iterator<Item = usize> + use<> {
        let above = |at: usize| std::iter::successors(Some(at), |&at| (at > 1).then_some(at / 2));
        let (first, last) = (life.start() + self.leaves, life.end() + self.leaves);
        // From where both ways meet on they are one.
        above(first).chain(above(last).zip(above(first)).take_while(|(a, b)| a != b).map(|(a, _)| a))
    }

    /// The bytes in the way of a life, as sets that may overlap.
    fn in_the_way(&self, life: &RangeInclusive<usize>) -> impl Iterator<Item = &Extents> {
        let node = |at: usize| self.nodes[at].as_deref();
        let meeting = self.covers(life).into_iter().filter_map(move |at| Some(&node(at)?.meeting));
        let covering = self.above_ends(life).filter_map(move |at| Some(&node(at)?.covering));
        meeting.chain(covering).filter(|extents| !extents.0.is_empty())
    }
}

/// The lowest place of so many bytes, from `floor` on, that shares no byte with what is taken during a life.
pub(super) fn lowest_gap<'a>(
    taken: impl IntoIterator<Item = &'a Taken>,
    life: &RangeInclusive<usize>,
    floor: u64,
    bytes: u64,
) -> u64 {
    let in_the_way: Vec<&Extents> = taken.into_iter().flat_map(|taken| taken.in_the_way(life)).collect();
    let mut place = floor;
    // Every place below the end of an extent that is in the way has that extent in the way too.
    while bytes > 0
        && let Some(end) =
            in_the_way.iter().find_map(|taken| taken.end_of_last_in(place..place.saturating_add(bytes)))
    {
        place = end;
    }
    place
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_filled_from_below() {
        let gap = |extents: &[(u64, u64)], bytes| {
            let mut taken = Taken::nothing(1);
            extents.iter().for_each(|&(start, end)| taken.take(&(0..=0), start..end));
            lowest_gap([&taken], &(0..=0), 0, bytes)
        };
        assert_eq!(gap(&[], 64), 0);
        assert_eq!(gap(&[(0, 64), (128, 192)], 64), 64);
        assert_eq!(gap(&[(0, 64), (128, 192)], 128), 192);
        assert_eq!(gap(&[(0, 256), (64, 128)], 64), 256);
        assert_eq!(gap(&[(64, 128)], 0), 0);
    }

    #[test]
    fn only_what_is_alive_at_once_is_in_the_way() {
        const MOMENTS: usize = 11;
        let all = (0..MOMENTS).flat_map(|first| (first..MOMENTS).map(move |last| first..=last));
        for life in all.clone() {
            let mut taken = Taken::nothing(MOMENTS);
            taken.take(&life, 0..64);
            for other in all.clone() {
                let meet = life.start() <= other.end() && other.start() <= life.end();
                let place = lowest_gap([&taken], &other, 0, 1);
                assert_eq!(place, if meet { 64 } else { 0 }, "{life:?} and {other:?}");
            }
        }
    }
}
