//! Which bytes of one dense piece go to which bytes of another: a product of runs, one list a dim.
//!
//! Offsets and strides are worked out once, in bytes. The innermost dims that are contiguous in both
//! pieces become one: what is left is a few nested loops around long copies.
//!
//! ```text
//!  source piece 4 x 6, rows 1..3 of it          dims   rows: one run of 2, strides 6 and 4 elements
//!  target piece 2 x 4, columns 2..6             inner  one run of 4 elements
//!
//!  both pieces 2 x 3 x 4, all of it             no dims, inner: one run of 24 elements
//! ```

use shardweave_compiler::layout::Overlap;
use std::ops::Range;

/// Bytes of one piece that go to bytes of another. Offsets count from the start of each piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Runs {
    dims: Box<[Dim]>,
    inner: Box<[Run]>,
}

/// An outer dim: its runs in elements, and the bytes from one index to the next.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Dim {
    runs: Box<[Overlap]>,
    source_stride: usize,
    target_stride: usize,
}

/// Contiguous bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Run {
    /// The first byte in the source piece.
    pub source: usize,
    /// The first byte in the target piece.
    pub target: usize,
    /// How many bytes.
    pub bytes: usize,
}

impl Runs {
    /// The product of `runs`, one list a dim, between dense row-major pieces of the given extents with
    /// elements of `element` bytes. `None` if a run reaches outside a piece, or a piece is larger than
    /// memory can be.
    pub fn new(runs: &[Vec<Overlap>], source: &[u64], target: &[u64], element: u64) -> Option<Runs> {
        let outside = |runs: &Vec<Overlap>, source: u64, target: u64| {
            let ends = runs
                .iter()
                .map(|run| (run.at_first.checked_add(run.len), run.at_second.checked_add(run.len)));
            ends.into_iter()
                .any(|(s, t)| s.is_none_or(|end| end > source) || t.is_none_or(|end| end > target))
        };
        if runs.len() != source.len() || runs.len() != target.len() {
            return None;
        }
        if runs.iter().zip(source).zip(target).any(|((runs, &s), &t)| outside(runs, s, t)) {
            return None;
        }
        if runs.iter().any(|runs| runs.iter().all(|run| run.len == 0)) {
            // Nothing goes; the other dims, of any size, are not walked for it.
            return Some(Runs { dims: [].into(), inner: [].into() });
        }
        let unit = usize::try_from(element).ok()?;
        let mut dims: Vec<Dim> = Vec::new();
        let mut inner = vec![Run { source: 0, target: 0, bytes: unit }];
        // Bytes from one index of the dim at hand to the next; from the innermost dim outwards.
        let (mut source_stride, mut target_stride) = (unit, unit);
        for ((runs, &source), &target) in runs.iter().zip(source).zip(target).rev() {
            // What is inside is one stretch in both pieces: the dim's runs are stretches too.
            let dense = Run { source: 0, target: 0, bytes: source_stride };
            if dims.is_empty() && source_stride == target_stride && inner == [dense] {
                inner = runs.iter().map(|run| scaled(run, source_stride)).collect();
            } else {
                dims.push(Dim { runs: runs.clone().into(), source_stride, target_stride });
            }
            source_stride = bytes(source_stride, source)?;
            target_stride = bytes(target_stride, target)?;
        }
        dims.reverse();
        Some(Runs { dims: dims.into(), inner: inner.into() })
    }

    /// How many bytes go.
    pub fn bytes(&self) -> usize {
        let outer = self.dims.iter().map(|dim| dim.runs.iter().map(|run| run.len as usize).sum::<usize>());
        outer.product::<usize>() * self.inner.iter().map(|run| run.bytes).sum::<usize>()
    }

    /// A part of the bytes that go, counted in the order in which they go.
    pub fn slice(&self, bytes: &Range<usize>) -> Runs {
        let mut inner: Vec<Run> = Vec::new();
        let mut before = 0;
        self.for_each(|run| {
            let (start, end) = (bytes.start.max(before), bytes.end.min(before + run.bytes));
            if start < end {
                let skip = start - before;
                inner.push(Run { source: run.source + skip, target: run.target + skip, bytes: end - start });
            }
            before += run.bytes;
        });
        Runs { dims: [].into(), inner: inner.into() }
    }

    /// The same bytes of the target piece, from a piece that is laid out like the target.
    ///
    /// # Panics
    /// If there are outer dims: only slices are taken so.
    pub fn taken_from_target(&self) -> Runs {
        assert!(self.dims.is_empty(), "a slice has no outer dims");
        let inner = self.inner.iter().map(|run| Run { source: run.target, ..*run });
        Runs { dims: [].into(), inner: inner.collect() }
    }

    /// Calls `visit` for every stretch, in row-major order.
    pub fn for_each(&self, mut visit: impl FnMut(Run)) {
        walk(&self.dims, &self.inner, 0, 0, &mut visit);
    }
}

fn walk(dims: &[Dim], inner: &[Run], source: usize, target: usize, visit: &mut impl FnMut(Run)) {
    let Some((dim, rest)) = dims.split_first() else {
        for run in inner {
            visit(Run { source: source + run.source, target: target + run.target, bytes: run.bytes });
        }
        return;
    };
    for run in &dim.runs {
        for index in 0..run.len {
            let source = source + (run.at_first + index) as usize * dim.source_stride;
            let target = target + (run.at_second + index) as usize * dim.target_stride;
            walk(rest, inner, source, target, visit);
        }
    }
}

fn scaled(run: &Overlap, stride: usize) -> Run {
    // In range: the run lies in a piece whose bytes fit (checked when the stride grows past it).
    Run {
        source: run.at_first as usize * stride,
        target: run.at_second as usize * stride,
        bytes: run.len as usize * stride,
    }
}

/// `stride * count`, if memory can be that large.
fn bytes(stride: usize, count: u64) -> Option<usize> {
    let bytes = stride.checked_mul(usize::try_from(count).ok()?)?;
    isize::try_from(bytes).ok().map(|_| bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(at_first: u64, at_second: u64, len: u64) -> Overlap {
        Overlap { at_first, at_second, len }
    }

    fn stretches(runs: &Runs) -> Vec<(usize, usize, usize)> {
        let mut found = Vec::new();
        runs.for_each(|run| found.push((run.source, run.target, run.bytes)));
        found
    }

    #[test]
    fn whole_pieces_are_one_stretch() {
        let all = Runs::new(
            &[vec![run(0, 0, 2)], vec![run(0, 0, 3)], vec![run(0, 0, 4)]],
            &[2, 3, 4],
            &[2, 3, 4],
            4,
        )
        .unwrap();
        assert_eq!(stretches(&all), [(0, 0, 96)]);
        assert_eq!(all.bytes(), 96);
    }

    #[test]
    fn rows_of_a_wider_piece_are_taken_one_by_one() {
        let part = Runs::new(&[vec![run(1, 0, 2)], vec![run(2, 0, 4)]], &[4, 6], &[2, 4], 4).unwrap();
        assert_eq!(stretches(&part), [(32, 0, 16), (56, 16, 16)]);
        assert_eq!(part.bytes(), 32);
    }

    #[test]
    fn a_cut_outer_dim_of_whole_rows_is_one_stretch_a_run() {
        let part =
            Runs::new(&[vec![run(0, 1, 1), run(1, 4, 2)], vec![run(0, 0, 5)]], &[3, 5], &[6, 5], 2).unwrap();
        assert_eq!(stretches(&part), [(0, 10, 10), (10, 40, 20)]);
    }

    /// Several runs in every dim, against the definition: all products of indices.
    #[test]
    fn every_element_of_the_product_goes_once() {
        let runs = [vec![run(0, 2, 1), run(2, 3, 2)], vec![run(1, 0, 1), run(3, 2, 1)], vec![run(0, 1, 2)]];
        let (source, target) = ([5, 4, 3], [6, 3, 4]);
        let plan = Runs::new(&runs, &source, &target, 1).unwrap();
        let pairs = |dim: usize| {
            runs[dim]
                .iter()
                .flat_map(|r| (0..r.len).map(|i| (r.at_first + i, r.at_second + i)))
                .collect::<Vec<_>>()
        };
        let mut expected = Vec::new();
        for (a, x) in pairs(0) {
            for (b, y) in pairs(1) {
                for (c, z) in pairs(2) {
                    expected.push(((a * 4 + b) * 3 + c, (x * 3 + y) * 4 + z));
                }
            }
        }
        let mut found = Vec::new();
        plan.for_each(|r| found.extend((0..r.bytes).map(|i| ((r.source + i) as u64, (r.target + i) as u64))));
        assert_eq!(found, expected);
        assert_eq!(plan.bytes(), expected.len());
    }

    #[test]
    fn slices_cut_stretches_and_go_on_in_the_next() {
        let part = Runs::new(&[vec![run(1, 0, 2)], vec![run(2, 0, 4)]], &[4, 6], &[2, 4], 4).unwrap();
        assert_eq!(stretches(&part.slice(&(8..24))), [(40, 8, 8), (56, 16, 8)]);
        assert_eq!(stretches(&part.slice(&(8..24)).taken_from_target()), [(8, 8, 8), (16, 16, 8)]);
        assert_eq!(stretches(&part.slice(&(16..16))), []);
        assert_eq!(part.slice(&(0..32)).bytes(), 32);
    }

    #[test]
    fn a_scalar_is_one_element() {
        assert_eq!(stretches(&Runs::new(&[], &[], &[], 8).unwrap()), [(0, 0, 8)]);
    }

    #[test]
    fn runs_outside_a_piece_are_refused() {
        assert_eq!(Runs::new(&[vec![run(0, 0, 3)]], &[2], &[3], 4), None);
        assert_eq!(Runs::new(&[vec![run(0, 1, 3)]], &[3], &[3], 4), None);
        assert_eq!(Runs::new(&[vec![run(u64::MAX, 0, 2)]], &[3], &[3], 4), None);
        let one = || vec![run(0, 0, 1)];
        assert_eq!(Runs::new(&[one(), one()], &[u64::MAX, 2], &[1, 1], 4), None);
    }

    #[test]
    fn where_nothing_goes_no_size_is_too_large() {
        let nothing = Runs::new(&[vec![], vec![]], &[u64::MAX, 2], &[1, 1], 4).unwrap();
        assert_eq!(stretches(&nothing), []);
    }
}
