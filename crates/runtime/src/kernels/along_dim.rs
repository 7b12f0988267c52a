//! Operations that need a whole dim at once: `softmax`, `log_softmax`, `layer_norm`, `rms_norm`,
//! `argmax`.
//!
//! They work line by line (see [`lines`](super::lines)).

use super::arithmetic::Arithmetic;
use super::float::Real;
use super::lines::{Beside, along, for_each_line, map_lines};
use super::reduce::{Add, Max, fold_run};
use super::vectors::vectorised;
use super::walk::{Dense, Frame};
use super::wide::{elements_mut, with_real, with_wide};
use super::{Input, Output};

/// `softmax(x, d)`.
pub(super) fn softmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    with_real!(x.dtype(), T => map_lines::<T>(frame, dim, x, beside(frame), out, |line, _| softmax_line(line)));
}

vectorised! {
    /// Shifted by the largest element, so that no exponential overflows.
    fn softmax_line<T: Real>(line: &mut [T]) {
        let largest = fold_run::<T, Max>(line);
        line.iter_mut().for_each(|x| *x = Real::exp(*x - largest));
        let sum = fold_run::<T, Add>(line);
        line.iter_mut().for_each(|x| *x /= sum);
    }
}

/// `log_softmax(x, d)`.
pub(super) fn log_softmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    with_real!(x.dtype(), T => {
        let mut powers = frame.buffer(frame.extent(along(frame, dim)));
        map_lines::<T>(frame, dim, x, beside(frame), out, |line, _| log_softmax_line(line, &mut powers));
    });
}

vectorised! {
    fn log_softmax_line<T: Real>(line: &mut [T], powers: &mut [T]) {
        let largest = fold_run::<T, Max>(line);
        line.iter_mut().for_each(|x| *x -= largest);
        powers.iter_mut().zip(&*line).for_each(|(power, x)| *power = Real::exp(*x));
        let log_sum = Real::ln(fold_run::<T, Add>(powers));
        line.iter_mut().for_each(|x| *x -= log_sum);
    }
}

/// `layer_norm(x, g, b, d)`; g and b may be missing.
pub(super) fn layer_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let mut gain = Beside::<T>::operand(frame, dim, operands, 1);
        let mut bias = Beside::<T>::operand(frame, dim, operands, 2);
        let mut squares = frame.buffer(frame.extent(along(frame, dim)));
        map_lines::<T>(frame, dim, &operands[0], beside(frame), out, |line, [gain_at, bias_at, _]| {
            centre(line);
            // The mean was rounded: of large elements what is left of it counts.
            let rest = fold_run::<T, Add>(line) / T::real(line.len() as f64);
            scale(line, rest, T::real(eps), gain.as_mut().map(|gain| gain.at(gain_at)), &mut squares);
            if let Some(bias) = &mut bias {
                line.iter_mut().zip(bias.at(bias_at)).for_each(|(x, b)| *x += *b);
            }
        });
    });
}

/// `rms_norm(x, g, d)`; g may be missing.
pub(super) fn rms_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let mut gain = Beside::<T>::operand(frame, dim, operands, 1);
        let mut squares = frame.buffer(frame.extent(along(frame, dim)));
        map_lines::<T>(frame, dim, &operands[0], beside(frame), out, |line, [gain_at, ..]| {
            scale(line, T::real(0.0), T::real(eps), gain.as_mut().map(|gain| gain.at(gain_at)), &mut squares);
        });
    });
}

vectorised! {
    /// Takes the mean away.
    fn centre<T: Real>(line: &mut [T]) {
        let mean = fold_run::<T, Add>(line) / T::real(line.len() as f64);
        line.iter_mut().for_each(|x| *x -= mean);
    }
}

vectorised! {
    /// Takes a mean away, divides by the root of the mean square plus `eps`, and multiplies element by
    /// element by `gain`.
    fn scale<T: Real>(line: &mut [T], mean: T, eps: T, gain: Option<&[T]>, squares: &mut [T]) {
        squares.iter_mut().zip(&*line).for_each(|(square, &x)| *square = (x - mean) * (x - mean));
        let mean_square = fold_run::<T, Add>(squares) / T::real(line.len() as f64);
        let factor = T::real(1.0) / Real::sqrt(mean_square + eps);
        match gain {
            Some(gain) => line.iter_mut().zip(gain).for_each(|(x, g)| *x = (*x - mean) * (factor * *g)),
            None => line.iter_mut().for_each(|x| *x = (*x - mean) * factor),
        }
    }
}

/// `argmax(x, d)`: the lowest index of the largest element; the first NaN before all.
pub(super) fn argmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    let out = elements_mut::<i64>(out.bytes);
    with_wide!(x.dtype(), T => {
        for_each_line::<T>(frame, dim, x, &frame.result, |line, at| out[at] = first_largest(line) as i64);
    });
}

/// The index of the first element that is largest; the first NaN before all. 0 if there is none.
pub(super) fn first_largest<T: Arithmetic>(line: &[T]) -> usize {
    let mut best = 0;
    for (index, x) in line.iter().enumerate() {
        match x.partial_cmp(&line[best]) {
            Some(std::cmp::Ordering::Greater) => best = index,
            // One of the two is NaN: the first to be NaN has won.
            None if line[best].partial_cmp(&line[best]).is_some() => best = index,
            _ => {}
        }
    }
    best
}

/// What is read beside the lines: up to two more operands. The result stands where there is none.
fn beside<'a>(frame: &'a Frame<'_>) -> [&'a Dense; 3] {
    [1, 2, 3].map(|index| frame.operands.get(index).unwrap_or(&frame.result))
}
