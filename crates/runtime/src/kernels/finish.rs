//! Operations along a dim that is cut, finished from what all parts say (see [`summary`](super::summary)).
//!
//! The parts are put together in their order, so that every device goes on with the same numbers:
//!
//! ```text
//! exponentials   m = max(m_i)      s = sum(s_i exp(m_i - m))
//! squares        q = sum(q_i)
//! moments        n = n_a + n_b     mean = mean_a + d n_b / n     q = q_a + q_b + d^2 n_a n_b / n,  d = mean_b - mean_a
//!                where a part's own mean is m + r / n, and its q is s - r^2 / n: it says m rounded, and r = sum(x - m), s = sum((x - m)^2)
//! largest        the largest, of equal ones the one with the lowest index
//! ```
//!
//! Moments are T. F. Chan's, G. H. Golub's and R. J. LeVeque's ("Updating formulae and a pairwise algorithm for
//! computing sample variances", 1979): no digit is lost where the mean is large. Sums of parts are added in
//! `f64` and rounded once.

use super::float::Real;
use super::lines::{Beside, along, map_lines, numbers_of, parts_of, piece};
use super::reduce::{Add, Max, fold_run};
use super::scratch::Buffer;
use super::summary::before;
use super::vectors::vectorised;
use super::walk::{Dense, Frame};
use super::wide::{Source, Wide, elements_mut, with_real};
use super::{Input, Output};
use shardweave_compiler::op::Finish;

/// The operation on `operands`, the last of which is the summary of all parts.
pub(super) fn finish(frame: &Frame<'_>, finish: Finish, dim: &str, operands: &[Input<'_>], out: Output<'_>) {
    match finish {
        Finish::Softmax => with_real!(operands[0].dtype(), T => {
            let mut said = Said::<T>::new(frame, dim, operands);
            map_lines::<T>(frame, dim, &operands[0], beside(frame), out, |line, [at, ..]| {
                let [largest, sum] = said.exponentials(at);
                shares(line, largest, sum);
            });
        }),
        Finish::LogSoftmax => with_real!(operands[0].dtype(), T => {
            let mut said = Said::<T>::new(frame, dim, operands);
            map_lines::<T>(frame, dim, &operands[0], beside(frame), out, |line, [at, ..]| {
                let [largest, sum] = said.exponentials(at);
                let log_sum = Real::ln(sum);
                line.iter_mut().for_each(|x| *x = (*x - largest) - log_sum);
            });
        }),
        Finish::LayerNorm { eps } => layer_norm(frame, dim, eps, operands, out),
        Finish::RmsNorm { eps } => with_real!(operands[0].dtype(), T => {
            let (mut said, others) = (Said::<T>::new(frame, dim, operands), operands.len() - 1);
            let mut gain = Beside::<T>::operand(frame, dim, &operands[..others], 1);
            let count = frame.space.dims[along(frame, dim)].size as f64;
            map_lines::<T>(frame, dim, &operands[0], beside(frame), out, |line, [at, gain_at, _]| {
                let factor = factor(said.sum(at) / count, eps);
                scale(line, [T::real(0.0); 2], factor, gain.as_mut().map(|gain| gain.at(gain_at)));
            });
        }),
        Finish::ArgMax => argmax(frame, dim, &operands[0], out),
    }
}

fn layer_norm(frame: &Frame<'_>, dim: &str, eps: f64, operands: &[Input<'_>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let (mut said, others) = (Said::<T>::new(frame, dim, operands), operands.len() - 1);
        let [mut gain, mut bias] = [1, 2].map(|k| Beside::<T>::operand(frame, dim, &operands[..others], k));
        map_lines::<T>(frame, dim, &operands[0], beside(frame), out, |line, [at, gain_at, bias_at]| {
            let [count, mean, squares] = said.moments(at);
            let gain = gain.as_mut().map(|gain| gain.at(gain_at));
            let rounded = T::real(mean);
            let mean = [rounded, T::real(mean - rounded.to_f64())];
            scale(line, mean, factor(squares / count, eps), gain);
            if let Some(bias) = &mut bias {
                line.iter_mut().zip(bias.at(bias_at)).for_each(|(x, b)| *x += *b);
            }
        });
    });
}

/// What is read beside the lines: the summary, and up to two more operands. The summary stands where there
/// is none.
fn beside<'a>(frame: &'a Frame<'_>) -> [&'a Dense; 3] {
    let said = frame.operands.len() - 1;
    [said, 1, 2].map(|index| &frame.operands[index.min(said)])
}

/// One over the root of a mean square plus `eps`.
fn factor<T: Real>(mean: f64, eps: f64) -> T {
    T::real(1.0 / (mean + eps).sqrt())
}

vectorised! {
    /// Each element's share of the sum of all exponentials.
    fn shares<T: Real>(line: &mut [T], largest: T, sum: T) {
        line.iter_mut().for_each(|x| *x = Real::exp(*x - largest) / sum);
    }
}

vectorised! {
    /// Takes the mean away (as it is rounded, and the rest of it), and multiplies by a factor and element by
    /// element by `gain`.
    fn scale<T: Real>(line: &mut [T], mean: [T; 2], factor: T, gain: Option<&[T]>) {
        let centred = |x: T| (x - mean[0]) - mean[1];
        match gain {
            Some(gain) => line.iter_mut().zip(gain).for_each(|(x, g)| *x = centred(*x) * (factor * *g)),
            None => line.iter_mut().for_each(|x| *x = centred(*x) * factor),
        }
    }
}

vectorised! {
    /// The weights of sums of exponentials less their own `largest`, where `all` is the largest of all.
    fn weigh<T: Real>(sums: &mut [T], largest: &[T], all: T) {
        sums.iter_mut().zip(largest).for_each(|(sum, own)| *sum *= Real::exp(*own - all));
    }
}

/// What all parts say of each line.
struct Said<'a, T: Wide> {
    source: Source<'a, T>,
    /// From one part to the next, and from one number to the next.
    steps: [usize; 2],
    /// One number of every part, and another.
    numbers: [Buffer<'a, T>; 2],
}

impl<'a, T: Real> Said<'a, T> {
    fn new(frame: &Frame<'a>, dim: &str, operands: &[Input<'a>]) -> Said<'a, T> {
        let dense = frame.operands.last().expect("the summary is the last operand");
        let said = operands.last().expect("the summary is the last operand");
        let [part, number] = [parts_of(frame, dim), numbers_of(frame, dim)];
        let numbers = [0, 1].map(|_| frame.buffer(frame.extent(part)));
        Said { source: piece(said), steps: [dense.stride(part), dense.stride(number)], numbers }
    }

    /// Reads a number of every part into one of the two lists.
    fn read(&mut self, at: usize, number: usize, list: usize) -> &mut [T] {
        self.source.gather(at + number * self.steps[1], self.steps[0], &mut self.numbers[list]);
        &mut self.numbers[list]
    }

    /// The sum over all parts of the only number they say.
    fn sum(&mut self, at: usize) -> f64 {
        self.read(at, 0, 0).iter().map(|x| x.to_f64()).sum()
    }

    /// The largest element, and the sum of all exponentials less it.
    fn exponentials(&mut self, at: usize) -> [T; 2] {
        self.read(at, 0, 0);
        self.read(at, 1, 1);
        let [largest, sums] = &mut self.numbers;
        let all = fold_run::<T, Max>(largest);
        weigh(sums, largest, all);
        [all, fold_run::<T, Add>(sums)]
    }

    /// Count, mean, and the sum of the squares around it.
    fn moments(&mut self, at: usize) -> [f64; 3] {
        let parts = self.numbers[0].len();
        let mut total = [0.0f64; 3];
        for part in 0..parts {
            let mut numbers = [T::real(0.0); 4];
            self.source.gather(at + part * self.steps[0], self.steps[1], &mut numbers);
            let [count, rounded, rest, around] = numbers.map(Wide::to_f64);
            if count > 0.0 {
                let (mean, squares) = (rounded + rest / count, around - rest * rest / count);
                let (all, distance) = (total[0] + count, mean - total[1]);
                let shift = distance * (count / all);
                total = [all, total[1] + shift, total[2] + squares + distance * shift * total[0]];
            }
        }
        total
    }
}

/// `argmax_from_parts(p, d)`.
fn argmax(frame: &Frame<'_>, dim: &str, said: &Input<'_>, out: Output<'_>) {
    let (source, out) = (piece::<i64>(said), elements_mut::<i64>(out.bytes));
    let dense = &frame.operands[0];
    let [part, number] = [parts_of(frame, dim), numbers_of(frame, dim)];
    for [from, to] in frame.nest(frame.result.ids(), [dense, &frame.result]).offsets() {
        let of_part = |part_at: usize| {
            let mut numbers = [0; 2];
            source.gather(from + part_at * dense.stride(part), dense.stride(number), &mut numbers);
            numbers
        };
        let best = (0..frame.extent(part)).map(of_part).max_by_key(|numbers| before(*numbers));
        out[to] = best.expect("a cut dim has parts")[1];
    }
}
