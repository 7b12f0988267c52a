//! `sum`, `mean`, `max`, `min` over named dims.
//!
//! A dense operand has one loop of stride 1. Either it is reduced (rows: each run is folded into one
//! element) or it stays (columns: runs are folded element by element into a row of accumulators):
//!
//! ```text
//! x[b, s, e] over e    ▸▸▸▸▸▸ one element        over s    ▾▾▾▾▾▾
//!                      ▸▸▸▸▸▸ one element                  ▾▾▾▾▾▾
//!                                                          one row of elements
//! ```
//!
//! Sums keep their digits: a run is halved until it is short and then added up in 16 lanes, and many
//! runs are added up in blocks, so that no element takes part in more than about 64 + n/4096 roundings.
//! The order depends on the extents alone.

use super::arithmetic::Arithmetic;
use super::vectors::vectorised;
use super::walk::{Dense, Few, Frame, Nest};
use super::wide::{Sink, Source, with_wide};
use super::{Input, Output};
use shardweave_compiler::dtype::Combine;
use shardweave_compiler::op::{Reduce, SpaceId};

/// How two elements become one.
pub(super) trait Fold<T> {
    const IDENTITY: T;
    fn fold(a: T, b: T) -> T;
}

/// Addition.
pub(super) struct Add;
/// The larger; NaN wins.
pub(super) struct Max;
/// The smaller; NaN wins.
pub(super) struct Min;

impl<T: Arithmetic> Fold<T> for Add {
    const IDENTITY: T = T::ZERO;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a.plus(b)
    }
}
impl<T: Arithmetic> Fold<T> for Max {
    const IDENTITY: T = T::LEAST;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a.larger(b)
    }
}
impl<T: Arithmetic> Fold<T> for Min {
    const IDENTITY: T = T::GREATEST;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a.smaller(b)
    }
}

/// One operand; the dims that the result does not have are reduced.
pub(super) fn reduce(frame: &Frame<'_>, reduce: Reduce, x: &Input<'_>, out: Output<'_>) {
    let Input::Piece { bytes, dtype } = *x else {
        unreachable!("the compiler lets no number into a reduction");
    };
    with_wide!(dtype, T => {
        let source = Source::<T>::new(bytes, dtype);
        let mut sums = frame.buffer(frame.result.len());
        let [from, to] = [&frame.operands[0], &frame.result];
        match reduce.combine() {
            Combine::Max => fold_dims::<T, Max>(frame, from, &source, to, &mut sums),
            Combine::Min => fold_dims::<T, Min>(frame, from, &source, to, &mut sums),
            _ => fold_dims::<T, Add>(frame, from, &source, to, &mut sums),
        }
        finish(frame, reduce, &mut sums);
        Sink::<T>::new(out.bytes, out.dtype).scatter(0, 1, &sums);
    });
}

/// What is left to do to sums: `mean` divides by the global size; a sum of nothing anywhere is 0,
/// though a sum of nothing on this device alone is the identity, which is -0.
fn finish<T: Arithmetic>(frame: &Frame<'_>, reduce: Reduce, sums: &mut [T]) {
    if reduce.combine() != Combine::Sum {
        return;
    }
    let reduced = frame.operands[0].ids().filter(|&dim| !frame.result.has(dim));
    let count: u128 = reduced.map(|dim| u128::from(frame.space.dims[dim].size)).product();
    if count == 0 {
        sums.fill(T::zeroed());
    }
    if reduce == Reduce::Mean {
        sums.iter_mut().for_each(|sum| *sum = sum.divide(count as f64));
    }
}

/// Folds the dims that `to` does not have. `sums` has one element for each element of `to`.
pub(super) fn fold_dims<T: Arithmetic, F: Fold<T>>(
    frame: &Frame<'_>,
    from: &Dense,
    source: &Source<'_, T>,
    to: &Dense,
    sums: &mut [T],
) {
    sums.fill(F::IDENTITY);
    if from.len() == 0 {
        return;
    }
    let gone: Few<SpaceId> = from.ids().filter(|&dim| !to.has(dim)).collect();
    let mut kept = frame.nest(to.ids(), [from, to]);
    let mut gone = frame.nest(gone, [from]);
    let stays = kept.loops().iter().position(|l| l.strides[0] == 1);
    if stays.is_some() {
        let line = kept.take(stays);
        for [x, y] in kept.offsets() {
            columns::<T, F>(source, &gone, x, line.extent, &mut sums[y..], line.strides[1]);
        }
    } else {
        let run = gone.take_innermost();
        let mut buffer = frame.buffer(run.extent);
        for [x, y] in kept.offsets() {
            sums[y] = rows::<T, F>(source, &gone, x, &mut buffer);
        }
    }
}

/// How many runs are folded before the result goes into the total.
const RUNS: usize = 64;

/// Folds runs as long as `buffer`, one at each offset of `gone`, into one element.
fn rows<T: Arithmetic, F: Fold<T>>(
    source: &Source<'_, T>,
    gone: &Nest<1>,
    start: usize,
    buffer: &mut [T],
) -> T {
    let len = buffer.len();
    let (mut total, mut block) = (F::IDENTITY, F::IDENTITY);
    for (count, [x]) in gone.offsets().enumerate() {
        if count % RUNS == 0 {
            total = F::fold(total, block);
            block = F::IDENTITY;
        }
        block = F::fold(block, fold_run::<T, F>(source.run(start + x, len, buffer)));
    }
    F::fold(total, block)
}

/// Elements of a row of accumulators.
const COLUMNS: usize = 512;

/// Folds runs of `len` elements, one at each offset of `gone`, into one run of the result.
fn columns<T: Arithmetic, F: Fold<T>>(
    source: &Source<'_, T>,
    gone: &Nest<1>,
    start: usize,
    len: usize,
    sums: &mut [T],
    stride: usize,
) {
    let mut buffer = [F::IDENTITY; COLUMNS];
    for first in (0..len).step_by(COLUMNS) {
        let width = COLUMNS.min(len - first);
        let (mut total, mut block) = ([F::IDENTITY; COLUMNS], [F::IDENTITY; COLUMNS]);
        for (count, [x]) in gone.offsets().enumerate() {
            if count % RUNS == 0 {
                fold_all::<T, F>(&mut total[..width], &block);
                block = [F::IDENTITY; COLUMNS];
            }
            fold_all::<T, F>(&mut block[..width], source.run(start + first + x, width, &mut buffer));
        }
        fold_all::<T, F>(&mut total[..width], &block);
        for (y, t) in sums[first * stride..].iter_mut().step_by(stride).zip(&total[..width]) {
            *y = *t;
        }
    }
}

vectorised! {
    /// `into = fold(into, from)` for each element.
    pub(super) fn fold_all<T: Copy, F: Fold<T>>(into: &mut [T], from: &[T]) {
        fold_into::<T, F>(into, from);
    }
}

#[inline(always)]
fn fold_into<T: Copy, F: Fold<T>>(into: &mut [T], from: &[T]) {
    for (y, &x) in into.iter_mut().zip(from) {
        *y = F::fold(*y, x);
    }
}

/// Folds a run: in halves until it is short, then in lanes.
pub(super) fn fold_run<T: Copy, F: Fold<T>>(run: &[T]) -> T {
    const SHORT: usize = 512;
    if run.len() > SHORT {
        let (left, right) = run.split_at((run.len() / 2).next_multiple_of(LANES));
        return F::fold(fold_run::<T, F>(left), fold_run::<T, F>(right));
    }
    fold_short::<T, F>(run)
}

/// Elements are folded in so many lanes side by side.
const LANES: usize = 16;

vectorised! {
    fn fold_short<T: Copy, F: Fold<T>>(run: &[T]) -> T {
        let mut lanes = [F::IDENTITY; LANES];
        let chunks = run.chunks_exact(LANES);
        let rest = chunks.remainder();
        for chunk in chunks {
            fold_into::<T, F>(&mut lanes, chunk);
        }
        fold_into::<T, F>(&mut lanes, rest);
        let mut width = LANES;
        while width > 1 {
            width /= 2;
            let (left, right) = lanes.split_at_mut(width);
            fold_into::<T, F>(left, right);
        }
        lanes[0]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_keep_their_digits() {
        // 0.1 a million times: added up one by one in f32 it is off by 1 %.
        let run = vec![0.1f32; 1_000_000];
        let naive: f32 = run.iter().sum();
        assert!((naive / 1e5 - 1.0).abs() > 5e-3);
        assert!((fold_run::<_, Add>(&run) / 1e5 - 1.0f32).abs() < 1e-6);
        // Integers are exact.
        let run: Vec<f32> = (0..5000).map(|i| (i % 7) as f32).collect();
        let exact: i64 = (0..5000).map(|i| i % 7).sum();
        assert_eq!(fold_run::<_, Add>(&run), exact as f32);
    }

    #[test]
    fn every_length_folds_every_element_once() {
        for len in [0, 1, 15, 16, 17, 511, 512, 513, 1025, 5000] {
            let run = vec![1i64; len];
            assert_eq!(fold_run::<_, Add>(&run), len as i64);
            let mut run = vec![-5i64; len];
            if let Some(last) = run.last_mut() {
                *last = 7;
                assert_eq!(fold_run::<_, Max>(&run), 7);
            }
        }
        assert_eq!(fold_run::<f64, Min>(&[]), f64::INFINITY);
        assert!(fold_run::<f64, Add>(&[]).is_sign_negative());
    }
}
