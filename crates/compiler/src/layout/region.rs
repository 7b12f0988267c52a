//! Sets of elements of one value, as unions of boxes.
//!
//! A box is the product of one [`IndexSet`] a dim. What a loop writes step by step is one box a step;
//! boxes that differ along one dim only are joined, so that the boxes stay few:
//!
//! ```text
//!   step 0  step 1           step 0 and 1
//!   rows    rows      add    rows [0,4)
//!   [0,2)   [2,4)     ───▶   columns [0,8)
//!   columns [0,8)
//! ```

use super::IndexSet;

/// Elements of one value.
///
/// Invariants: no box is empty; no two boxes are equal along all dims but one.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Region {
    boxes: Vec<Vec<IndexSet>>,
}

impl Region {
    /// No element.
    pub fn new() -> Region {
        Region::default()
    }

    /// The elements of a box.
    pub fn of(elements: Vec<IndexSet>) -> Region {
        let mut region = Region::new();
        region.add(elements);
        region
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.boxes.is_empty()
    }

    /// Adds all elements of a box.
    pub fn add(&mut self, added: Vec<IndexSet>) {
        let mut added = added;
        if is_empty_box(&added) {
            return;
        }
        // Each turn removes a box, so this ends.
        while let Some((at, dim)) =
            self.boxes.iter().enumerate().find_map(|(at, b)| Some((at, joint(b, &added)?)))
        {
            let other = self.boxes.swap_remove(at);
            match dim {
                Joint::Along(dim) => added[dim] = added[dim].union(&other[dim]),
                Joint::Covers => added = other,
                Joint::Covered => {}
            }
        }
        self.boxes.push(added);
    }

    /// Some elements of a box that are not in the region, as a box; `None` if all of them are.
    pub fn missing(&self, wanted: &[IndexSet]) -> Option<Vec<IndexSet>> {
        let mut left: Vec<Vec<IndexSet>> =
            if is_empty_box(wanted) { Vec::new() } else { vec![wanted.to_vec()] };
        for held in &self.boxes {
            left = left.iter().flat_map(|b| without(b, held)).collect();
        }
        left.pop()
    }
}

/// Whether a box has no element. A box of no dims has one: that of a scalar.
pub fn is_empty_box(elements: &[IndexSet]) -> bool {
    elements.iter().any(IndexSet::is_empty)
}

/// The elements that both boxes have, as a box.
pub fn box_intersection(a: &[IndexSet], b: &[IndexSet]) -> Vec<IndexSet> {
    a.iter().zip(b).map(|(a, b)| a.intersect(b)).collect()
}

/// How two boxes make one.
enum Joint {
    /// They differ along one dim only.
    Along(usize),
    /// The first has all elements of the second.
    Covers,
    /// The second has all elements of the first.
    Covered,
}

fn joint(first: &[IndexSet], second: &[IndexSet]) -> Option<Joint> {
    let mut different = (0..first.len()).filter(|&dim| first[dim] != second[dim]);
    match (different.next(), different.next()) {
        (None, _) => Some(Joint::Covers),
        (Some(dim), None) => Some(Joint::Along(dim)),
        _ if within(second, first) => Some(Joint::Covers),
        _ if within(first, second) => Some(Joint::Covered),
        _ => None,
    }
}

fn within(inner: &[IndexSet], outer: &[IndexSet]) -> bool {
    inner.iter().zip(outer).all(|(inner, outer)| inner.is_subset(outer))
}

/// The elements of one box that another does not have, as disjoint boxes:
///
/// ```text
///   +-----------+       +-----------+
///   | a  +---+  |       |    0      |     box d: common along dims before d,
///   |    | b |  |  ──▶  +----+---+--+            outside b along d,
///   |    +---+  |       | 1  |   | 1|            all of a along dims after d
///   +-----------+       +----+---+--+
///                       |    0      |
///                       +-----------+
/// ```
fn without(a: &[IndexSet], b: &[IndexSet]) -> Vec<Vec<IndexSet>> {
    let common = box_intersection(a, b);
    if is_empty_box(&common) {
        return vec![a.to_vec()];
    }
    let parts = (0..a.len()).map(|dim| {
        let mut part = a.to_vec();
        part[..dim].clone_from_slice(&common[..dim]);
        part[dim] = a[dim].minus(&b[dim]);
        part
    });
    parts.filter(|part| !is_empty_box(part)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(start: u64, end: u64) -> IndexSet {
        IndexSet::range(start, end)
    }

    #[test]
    fn steps_of_two_counters_become_one_box() {
        let mut region = Region::new();
        for row in 0..3 {
            for column in 0..4 {
                let wanted = [range(0, 3), range(0, 8)];
                assert!(region.missing(&wanted).is_some());
                region.add(vec![range(row, row + 1), range(2 * column, 2 * column + 2)]);
            }
        }
        assert_eq!(region.boxes.len(), 1);
        assert_eq!(region.missing(&[range(0, 3), range(0, 8)]), None);
        assert_eq!(region.missing(&[range(0, 4), range(0, 8)]), Some(vec![range(3, 4), range(0, 8)]));
    }

    #[test]
    fn a_box_over_the_corner_of_two_others_is_held() {
        let mut region = Region::new();
        region.add(vec![range(0, 2), range(0, 4)]);
        region.add(vec![range(2, 4), range(0, 2)]);
        assert_eq!(region.missing(&[range(1, 3), range(0, 2)]), None);
        assert_eq!(region.missing(&[range(1, 3), range(0, 3)]), Some(vec![range(2, 3), range(2, 3)]));
        region.add(vec![range(0, 4), range(0, 4)]);
        assert_eq!(region.boxes.len(), 1, "a box that covers the others replaces them");
    }

    #[test]
    fn a_scalar_is_one_element() {
        let mut region = Region::new();
        assert_eq!(region.missing(&[]), Some(vec![]));
        region.add(vec![]);
        assert_eq!(region.missing(&[]), None);
    }

    #[test]
    fn empty_boxes_are_nothing() {
        let mut region = Region::new();
        region.add(vec![range(0, 0), range(0, 4)]);
        assert!(region.is_empty());
        assert_eq!(region.missing(&[range(1, 1)]), None);
    }
}
