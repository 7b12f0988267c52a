//! What a device says of its part of a dim that is cut, line by line.
//!
//! ```text
//! exponentials_of_part(x, e)   [e@part=1, e@number=2, s]   max(x), sum(exp(x - max))
//! squares_of_part              [         1         =1   ]   sum(x^2)
//! moments_of_part              [         1         =4   ]   count, mean, sum(x - mean), sum((x - mean)^2)
//! largest_of_part              [         1         =2   ]   the largest as an ordered i64, its index
//! ```
//!
//! An empty line says what changes nothing when it is put together with others.

use super::along_dim::first_largest;
use super::arithmetic::Arithmetic;
use super::float::Real;
use super::lines::{along, for_each_line, numbers_of};
use super::reduce::{Add, Max, fold_run};
use super::vectors::vectorised;
use super::walk::Frame;
use super::wide::{Wide, elements_mut, with_real, with_wide};
use super::{Input, Output};
use shardweave_compiler::id::Id;
use shardweave_compiler::op::Summary;
use std::cmp::Reverse;

/// One of the summaries of `x` along its part of `dim`.
pub(super) fn summary(frame: &Frame<'_>, summary: Summary, dim: &str, x: &Input<'_>, out: Output<'_>) {
    if out.bytes.is_empty() {
        return; // no line: nothing is set aside for one, however long it would be
    }
    let apart = frame.result.stride(numbers_of(frame, dim));
    match summary {
        Summary::Exponentials => with_real!(x.dtype(), T => {
            let mut room = frame.buffer(frame.extent(along(frame, dim)));
            tell::<T, T, 2>(frame, dim, x, out, apart, |line| exponentials(line, &mut room));
        }),
        Summary::Squares => with_real!(x.dtype(), T => {
            let mut room = frame.buffer(frame.extent(along(frame, dim)));
            tell::<T, T, 1>(frame, dim, x, out, apart, |line| [squares_around(line, T::real(0.0), &mut room)]);
        }),
        Summary::Moments => with_real!(x.dtype(), T => {
            let mut room = frame.buffer(frame.extent(along(frame, dim)));
            tell::<T, T, 4>(frame, dim, x, out, apart, |line| moments(line, &mut room));
        }),
        Summary::Largest => {
            let held = &frame.held[along(frame, dim).index()];
            let mut indices = frame.buffer(held.count() as usize);
            indices.iter_mut().zip(held.iter()).for_each(|(at, index)| *at = index as i64);
            with_wide!(x.dtype(), T => {
                tell::<T, i64, 2>(frame, dim, x, out, apart, |line| largest(line, &indices));
            });
        }
    }
}

/// Writes the numbers of each line, `apart` elements apart.
fn tell<T: Wide, N: crate::tensor::Element, const COUNT: usize>(
    frame: &Frame<'_>,
    dim: &str,
    x: &Input<'_>,
    out: Output<'_>,
    apart: usize,
    mut of_line: impl FnMut(&[T]) -> [N; COUNT],
) {
    let out = elements_mut::<N>(out.bytes);
    for_each_line::<T>(frame, dim, x, &frame.result, |line, at| {
        for (n, number) in of_line(line).into_iter().enumerate() {
            out[at + n * apart] = number;
        }
    });
}

vectorised! {
    /// The largest, and the sum of the exponentials less the largest. Where the largest is -inf there is
    /// nothing to add: what the other parts have decides.
    fn exponentials<T: Real>(line: &[T], powers: &mut [T]) -> [T; 2] {
        let largest = fold_run::<T, Max>(line);
        if largest == T::LEAST {
            return [largest, T::real(0.0)];
        }
        powers.iter_mut().zip(line).for_each(|(power, &x)| *power = Real::exp(x - largest));
        [largest, fold_run::<T, Add>(powers)]
    }
}

vectorised! {
    /// The sum of the squares of the distances from `middle`.
    fn squares_around<T: Real>(line: &[T], middle: T, squares: &mut [T]) -> T {
        squares.iter_mut().zip(line).for_each(|(square, &x)| *square = (x - middle) * (x - middle));
        fold_run::<T, Add>(squares)
    }
}

vectorised! {
    /// The sum of the distances from `middle`.
    fn distances_from<T: Real>(line: &[T], middle: T, distances: &mut [T]) -> T {
        distances.iter_mut().zip(line).for_each(|(distance, &x)| *distance = x - middle);
        fold_run::<T, Add>(distances)
    }
}

/// Count, mean, and the sums of the distances from it and of their squares. The mean is rounded: the
/// distances say by how much.
fn moments<T: Real>(line: &[T], room: &mut [T]) -> [T; 4] {
    if line.is_empty() {
        return [T::real(0.0); 4];
    }
    let count = T::real(line.len() as f64);
    let mean = fold_run::<T, Add>(line) / count;
    [count, mean, distances_from(line, mean, room), squares_around(line, mean, room)]
}

/// The largest in the order of integers, and its global index; of nothing the least and the last.
fn largest<T: Ordered>(line: &[T], indices: &[i64]) -> [i64; 2] {
    let first = first_largest(line);
    match (line.get(first), indices.get(first)) {
        (Some(largest), Some(&index)) => [largest.order(), index],
        _ => [i64::MIN, i64::MAX],
    }
}

/// Which of two summaries of parts has the largest element: the larger, of equal ones the one before.
pub(super) fn before([order, index]: [i64; 2]) -> (i64, Reverse<i64>) {
    (order, Reverse(index))
}

/// Elements that integers can stand for.
trait Ordered: Arithmetic {
    /// An integer in the order of the elements; -0 and 0 are one, NaN is above all.
    fn order(self) -> i64;
}

impl Ordered for f64 {
    fn order(self) -> i64 {
        if self.is_nan() {
            return i64::MAX;
        }
        // Bits of negative numbers grow as the numbers fall; adding 0 makes -0 a 0.
        let bits = (self + 0.0).to_bits() as i64;
        bits ^ ((bits >> 63) as u64 >> 1) as i64
    }
}

impl Ordered for f32 {
    fn order(self) -> i64 {
        f64::from(self).order()
    }
}

macro_rules! integers {
    ($($int:ident),*) => {$(
        impl Ordered for $int {
            fn order(self) -> i64 {
                self.into()
            }
        }
    )*};
}
integers!(i64, i32, u8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_are_in_the_order_of_floats() {
        let ordered = [
            f64::NEG_INFINITY,
            -f64::MAX,
            -1.5,
            -f64::MIN_POSITIVE,
            -5e-324,
            0.0,
            5e-324,
            1.0,
            f64::MAX,
            f64::INFINITY,
            f64::NAN,
        ];
        assert!(ordered.windows(2).all(|pair| pair[0].order() < pair[1].order()));
        assert_eq!((-0.0f64).order(), 0.0f64.order());
        assert_eq!((-f64::NAN).order(), f64::NAN.order());
        assert!(f64::NEG_INFINITY.order() > i64::MIN, "nothing is below every element");
        assert!((-f32::MAX).order() < (-f32::MIN_POSITIVE).order() && 1.0f32.order() < 1.1f32.order());
    }

    #[test]
    fn an_empty_lane_changes_nothing() {
        assert_eq!(exponentials::<f32>(&[], &mut []), [f32::NEG_INFINITY, 0.0]);
        assert_eq!(moments::<f64>(&[], &mut []), [0.0; 4]);
        assert_eq!(squares_around::<f32>(&[], 0.0, &mut []), 0.0);
        let least = largest::<i64>(&[i64::MIN], &[7]);
        assert!(before(least) > before(largest::<i64>(&[], &[])));
    }

    #[test]
    fn the_first_of_equal_elements_is_the_largest() {
        assert_eq!(largest(&[1.0f32, 3.0, 3.0], &[2, 5, 6])[1], 5);
        assert_eq!(largest(&[1.0f64, f64::NAN, f64::INFINITY, f64::NAN], &[0, 1, 2, 3]), [i64::MAX, 1]);
        assert!(before([4, 2]) > before([4, 3]) && before([5, 9]) > before([4, 0]));
    }
}
