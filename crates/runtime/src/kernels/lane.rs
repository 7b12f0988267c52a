//! Operations that need a whole dim at once: `softmax`, `log_softmax`, `layer_norm`, `rms_norm`,
//! `argmax`.
//!
//! They work lane by lane (see [`lanes`](super::lanes)).

use super::arithmetic::Arithmetic;
use super::float::Real;
use super::lanes::{Beside, along, for_each_lane, map_lanes};
use super::reduce::{Add, Max, fold_run};
use super::vectors::vectorised;
use super::walk::{Dense, Frame};
use super::wide::{elements_mut, with_real, with_wide};
use super::{Input, Output};

/// `softmax(x, d)`.
pub(super) fn softmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    with_real!(x.dtype(), T => map_lanes::<T>(frame, dim, x, beside(frame), out, |lane, _| softmax_lane(lane)));
}

vectorised! {
    /// Shifted by the largest element, so that no exponential overflows.
    fn softmax_lane<T: Real>(lane: &mut [T]) {
        let largest = fold_run::<T, Max>(lane);
        lane.iter_mut().for_each(|x| *x = Real::exp(*x - largest));
        let sum = fold_run::<T, Add>(lane);
        lane.iter_mut().for_each(|x| *x /= sum);
    }
}

/// `log_softmax(x, d)`.
pub(super) fn log_softmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    with_real!(x.dtype(), T => {
        let mut powers = frame.buffer(frame.extent(along(frame, dim)));
        map_lanes::<T>(frame, dim, x, beside(frame), out, |lane, _| log_softmax_lane(lane, &mut powers));
    });
}

vectorised! {
    fn log_softmax_lane<T: Real>(lane: &mut [T], powers: &mut [T]) {
        let largest = fold_run::<T, Max>(lane);
        lane.iter_mut().for_each(|x| *x -= largest);
        powers.iter_mut().zip(&*lane).for_each(|(power, x)| *power = Real::exp(*x));
        let log_sum = Real::ln(fold_run::<T, Add>(powers));
        lane.iter_mut().for_each(|x| *x -= log_sum);
    }
}

/// `layer_norm(x, g, b, d)`; g and b may be missing.
pub(super) fn layer_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let mut gain = Beside::<T>::operand(frame, dim, operands, 1);
        let mut bias = Beside::<T>::operand(frame, dim, operands, 2);
        let mut squares = frame.buffer(frame.extent(along(frame, dim)));
        map_lanes::<T>(frame, dim, &operands[0], beside(frame), out, |lane, [gain_at, bias_at, _]| {
            centre(lane);
            // The mean was rounded: of large elements what is left of it counts.
            let rest = fold_run::<T, Add>(lane) / T::real(lane.len() as f64);
            scale(lane, rest, T::real(eps), gain.as_mut().map(|gain| gain.at(gain_at)), &mut squares);
            if let Some(bias) = &mut bias {
                lane.iter_mut().zip(bias.at(bias_at)).for_each(|(x, b)| *x += *b);
            }
        });
    });
}

/// `rms_norm(x, g, d)`; g may be missing.
pub(super) fn rms_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let mut gain = Beside::<T>::operand(frame, dim, operands, 1);
        let mut squares = frame.buffer(frame.extent(along(frame, dim)));
        map_lanes::<T>(frame, dim, &operands[0], beside(frame), out, |lane, [gain_at, ..]| {
            scale(lane, T::real(0.0), T::real(eps), gain.as_mut().map(|gain| gain.at(gain_at)), &mut squares);
        });
    });
}

vectorised! {
    /// Takes the mean away.
    fn centre<T: Real>(lane: &mut [T]) {
        let mean = fold_run::<T, Add>(lane) / T::real(lane.len() as f64);
        lane.iter_mut().for_each(|x| *x -= mean);
    }
}

vectorised! {
    /// Takes a mean away, divides by the root of the mean square plus `eps`, and multiplies element by
    /// element by `gain`.
    fn scale<T: Real>(lane: &mut [T], mean: T, eps: T, gain: Option<&[T]>, squares: &mut [T]) {
        squares.iter_mut().zip(&*lane).for_each(|(square, &x)| *square = (x - mean) * (x - mean));
        let mean_square = fold_run::<T, Add>(squares) / T::real(lane.len() as f64);
        let factor = T::real(1.0) / Real::sqrt(mean_square + eps);
        match gain {
            Some(gain) => lane.iter_mut().zip(gain).for_each(|(x, g)| *x = (*x - mean) * (factor * *g)),
            None => lane.iter_mut().for_each(|x| *x = (*x - mean) * factor),
        }
    }
}

/// `argmax(x, d)`: the lowest index of the largest element; the first NaN before all.
pub(super) fn argmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    let out = elements_mut::<i64>(out.bytes);
    with_wide!(x.dtype(), T => {
        for_each_lane::<T>(frame, dim, x, &frame.result, |lane, at| out[at] = first_largest(lane) as i64);
    });
}

/// The index of the first element that is largest; the first NaN before all. 0 if there is none.
pub(super) fn first_largest<T: Arithmetic>(lane: &[T]) -> usize {
    let mut best = 0;
    for (index, x) in lane.iter().enumerate() {
        match x.partial_cmp(&lane[best]) {
            Some(std::cmp::Ordering::Greater) => best = index,
            // One of the two is NaN: the first to be NaN has won.
            None if lane[best].partial_cmp(&lane[best]).is_some() => best = index,
            _ => {}
        }
    }
    best
}

/// What is read beside the lanes: up to two more operands. The result stands where there is none.
fn beside<'a>(frame: &'a Frame<'_>) -> [&'a Dense; 3] {
    [1, 2, 3].map(|index| frame.operands.get(index).unwrap_or(&frame.result))
}
