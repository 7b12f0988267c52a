//! Operations that need a whole dim at once: `softmax`, `log_softmax`, `layer_norm`, `rms_norm`,
//! `argmax`.
//!
//! A *lane* is the elements along that dim with all other indices fixed. Each lane is read into a
//! buffer, worked on there, and written; a lane whose elements lie apart is gathered on the way.

use super::arithmetic::Arithmetic;
use super::float::Real;
use super::reduce::{Add, Max, fold_run};
use super::vectors::vectorised;
use super::walk::Frame;
use super::wide::{Sink, Source, Wide, elements_mut, with_real, with_wide};
use super::{Input, Output};
use bytemuck::Zeroable;
use shardweave_compiler::op::SpaceId;

/// `softmax(x, d)`.
pub(super) fn softmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    with_real!(x.dtype(), T => lanes::<T>(frame, dim, x, out, softmax_lane));
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
        let mut powers = Vec::new();
        lanes::<T>(frame, dim, x, out, |lane| log_softmax_lane(lane, &mut powers));
    });
}

vectorised! {
    fn log_softmax_lane<T: Real>(lane: &mut [T], powers: &mut Vec<T>) {
        let largest = fold_run::<T, Max>(lane);
        lane.iter_mut().for_each(|x| *x -= largest);
        powers.clear();
        powers.extend(lane.iter().map(|x| Real::exp(*x)));
        let log_sum = Real::ln(fold_run::<T, Add>(powers));
        lane.iter_mut().for_each(|x| *x -= log_sum);
    }
}

/// `layer_norm(x, g, b, d)`; g and b may be missing.
pub(super) fn layer_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let gain = operands.get(1).map(whole::<T>);
        let bias = operands.get(2).map(whole::<T>);
        let mut squares = Vec::new();
        lanes::<T>(frame, dim, &operands[0], out, |lane| {
            centre(lane);
            scale(lane, T::real(eps), gain.as_deref(), &mut squares);
            if let Some(bias) = &bias {
                lane.iter_mut().zip(bias).for_each(|(x, b)| *x += *b);
            }
        });
    });
}

/// `rms_norm(x, g, d)`; g may be missing.
pub(super) fn rms_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let gain = operands.get(1).map(whole::<T>);
        let mut squares = Vec::new();
        lanes::<T>(frame, dim, &operands[0], out, |lane| {
            scale(lane, T::real(eps), gain.as_deref(), &mut squares);
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
    /// Divides by the root of the mean square plus `eps`, and multiplies element by element by `gain`.
    fn scale<T: Real>(lane: &mut [T], eps: T, gain: Option<&[T]>, squares: &mut Vec<T>) {
        squares.clear();
        squares.extend(lane.iter().map(|&x| x * x));
        let mean = fold_run::<T, Add>(squares) / T::real(lane.len() as f64);
        let factor = T::real(1.0) / Real::sqrt(mean + eps);
        match gain {
            Some(gain) => lane.iter_mut().zip(gain).for_each(|(x, g)| *x *= factor * *g),
            None => lane.iter_mut().for_each(|x| *x *= factor),
        }
    }
}

/// All elements of an operand that has only the one dim.
fn whole<T: Wide>(input: &Input<'_>) -> Vec<T> {
    let Input::Piece { bytes, dtype } = *input else {
        unreachable!("the compiler lets no number into a normalisation");
    };
    let mut all = vec![T::zeroed(); bytes.len() / dtype.size() as usize];
    Source::new(bytes, dtype).gather(0, 1, &mut all);
    all
}

/// `argmax(x, d)`: the lowest index of the largest element; the first NaN before all.
pub(super) fn argmax(frame: &Frame<'_>, dim: &str, x: &Input<'_>, out: Output<'_>) {
    let out = elements_mut::<i64>(out.bytes);
    with_wide!(x.dtype(), T => {
        let (source, dim) = (piece::<T>(x), along(frame, dim));
        let (extent, stride) = (frame.extent(dim), frame.operands[0].stride(dim));
        let mut lane = vec![T::zeroed(); extent];
        for [x, y] in frame.nest(frame.result.ids(), [&frame.operands[0], &frame.result]).offsets() {
            source.gather(x, stride, &mut lane);
            out[y] = first_largest(&lane) as i64;
        }
    });
}

fn first_largest<T: Arithmetic>(lane: &[T]) -> usize {
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

/// The dim of that name.
fn along(frame: &Frame<'_>, dim: &str) -> SpaceId {
    frame.space.dim(dim).expect("an operation's dim is in its space")
}

fn piece<'a, T: Wide>(x: &Input<'a>) -> Source<'a, T> {
    match *x {
        Input::Piece { bytes, dtype } => Source::new(bytes, dtype),
        Input::Number(..) => unreachable!("the compiler lets no number into an operation on lanes"),
    }
}

/// So many lanes that lie side by side are read and written together: a cache line of `f32`.
const BESIDE: usize = 16;

/// Works on every lane of the first operand along `dim`; the result has the same dims.
fn lanes<T: Real>(
    frame: &Frame<'_>,
    dim: &str,
    x: &Input<'_>,
    out: Output<'_>,
    mut work: impl FnMut(&mut [T]),
) {
    if frame.result.len() == 0 {
        return;
    }
    let (source, mut sink) = (piece::<T>(x), Sink::<T>::new(out.bytes, out.dtype));
    let dim = along(frame, dim);
    let [from, to] = [&frame.operands[0], &frame.result];
    let extent = frame.extent(dim);
    let step = [from.stride(dim), to.stride(dim)];
    let mut others = frame.nest(to.ids().filter(|&id| id != dim), [from, to]);
    let beside = others.loops().iter().position(|l| l.strides[0] == 1);
    let beside = others.take(beside);
    let mut block = vec![T::zeroed(); extent * BESIDE.min(beside.extent)];
    for at in others.offsets() {
        for first in (0..beside.extent).step_by(BESIDE) {
            let count = BESIDE.min(beside.extent - first);
            let start = [0, 1].map(|n| at[n] + first * beside.strides[n]);
            let block = &mut block[..extent * count];
            read_lanes(&source, start[0], step[0], block, count);
            block.chunks_exact_mut(extent).for_each(&mut work);
            write_lanes(&mut sink, start[1], [step[1], beside.strides[1]], block, count);
        }
    }
}

/// Reads `count` lanes, one after the other into `block`; their elements lie side by side.
fn read_lanes<T: Wide>(source: &Source<'_, T>, start: usize, step: usize, block: &mut [T], count: usize) {
    if count == 1 {
        return source.gather(start, step, block);
    }
    let (extent, mut row) = (block.len() / count, [T::zeroed(); BESIDE]);
    for i in 0..extent {
        source.gather(start + i * step, 1, &mut row[..count]);
        for (lane, x) in row[..count].iter().enumerate() {
            block[lane * extent + i] = *x;
        }
    }
}

/// Writes `count` lanes; `steps` go along a lane and from lane to lane.
fn write_lanes<T: Wide>(sink: &mut Sink<'_, T>, start: usize, steps: [usize; 2], block: &[T], count: usize) {
    if count == 1 {
        return sink.scatter(start, steps[0], block);
    }
    let (extent, mut row) = (block.len() / count, [T::zeroed(); BESIDE]);
    for i in 0..extent {
        for (lane, x) in row[..count].iter_mut().enumerate() {
            *x = block[lane * extent + i];
        }
        sink.scatter(start + i * steps[0], steps[1], &row[..count]);
    }
}
