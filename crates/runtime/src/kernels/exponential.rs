//! `exp`, `tanh` and the normal distribution in `f32`, in plain arithmetic without calls or branches, so
//! that loops over them are vectorised: about a quarter of a nanosecond to one an element, where a call
//! into the system's library takes 3 to 10.
//!
//! The constants were fitted with 40 digits (Chebyshev) for this file; the tests measure the errors
//! against `f64` functions. The reduction of the argument by a multiple of ln 2 in two parts is W. J.
//! Cody's and W. Waite's ("Software Manual for the Elementary Functions", 1980).

/// Below this `exp` rounds to 0; above `GREATEST` to infinity.
const LEAST: f32 = -104.0;
const GREATEST: f32 = 89.0;
/// Adding 1.5 x 2^23 rounds to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts: the first has so few bits that its multiples by small integers are exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// e^x = 2^n e^r with |r| <= ln 2 / 2; within 1.25 units of the last place.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > GREATEST { GREATEST } else { x };
    let shifted = x * std::f32::consts::LOG2_E + ROUND;
    let n = shifted - ROUND;
    let r = (x - n * LN_2_HIGH) - n * LN_2_LOW;
    // The exponential series.
    let terms = [1.0 / 5040.0, 1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0];
    let power = polynomial(terms, r);
    // In two factors, so that neither leaves the range of normal numbers.
    let n = shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32;
    power * two_to_the(n >> 1) * two_to_the(n - (n >> 1))
}

#[inline(always)]
fn two_to_the(n: i32) -> f32 {
    f32::from_bits((n.wrapping_add(127) as u32) << 23)
}

/// Coefficients from the highest power down.
#[inline(always)]
fn polynomial<const N: usize>(coefficients: [f32; N], x: f32) -> f32 {
    let mut sum = coefficients[0];
    for c in &coefficients[1..] {
        sum = sum * x + c;
    }
    sum
}

/// By the exponential, but near 0, where that would lose digits, by a polynomial; within 1.5 units of the
/// last place.
#[inline(always)]
pub(super) fn tanh(x: f32) -> f32 {
    let size = x.abs();
    let far = 1.0 - 2.0 / (exp(2.0 * size) + 1.0);
    let square = x * x;
    let near = [-0.006_096_714, 0.020_997_18, -0.053_850_91, 0.133_327_7, -0.333_333_3];
    let near = size + size * square * polynomial(near, square);
    (if size < 0.625 { near } else { far }).copysign(x)
}

/// The share of the standard normal distribution below x, `(1 + erf(x / sqrt 2)) / 2`.
///
/// Half of it is e^(-x^2 / 2) times a function of t = 1 / (1 + 0.3 |x|) that changes slowly. Within 8 units
/// of the last place for x > -1, 14 for x > -5; below it grows with x^2, from its rounding, to 80 where
/// the result vanishes.
#[inline(always)]
pub(super) fn normal_below(x: f32) -> f32 {
    let size = x.abs();
    let t = 1.0 / (1.0 + 0.3 * size);
    let slow = [
        -0.041_912_05,
        0.228_514_91,
        -0.465_048_82,
        0.395_101_16,
        -0.168_426_96,
        0.197_422_76,
        0.155_035_81,
        0.220_836_82,
        0.239_100_86,
        0.239_375_5,
    ];
    let tail = 0.5 * exp(-0.5 * x * x) * t * polynomial(slow, t);
    if x < 0.0 { tail } else { 1.0 - tail }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::kernels::float::Real;

    /// The distance from an exact value in units of the last place of the nearest `f32` (of the least
    /// normal ones where it is subnormal).
    fn ulps(found: f32, exact: f64) -> f64 {
        if f64::from(found) == exact || found.is_nan() && exact.is_nan() || found == exact as f32 {
            return 0.0;
        }
        let near = (exact as f32).abs().clamp(f32::from_bits(1), f32::MAX);
        let place = f64::from(near.next_up().min(f32::MAX)) - f64::from(near);
        let place = if place > 0.0 { place } else { f64::from(f32::MAX) - f64::from(f32::MAX.next_down()) };
        ((f64::from(found) - exact) / place).abs()
    }

    /// The largest error, and where, over every 257th number (a prime, so that all patterns of the last
    /// bits occur) from one away from 0 to another of its sign.
    fn worst(from: f32, to: f32, f: fn(f32) -> f32, exact: fn(f64) -> f64) -> (f64, f32) {
        let all = (from.to_bits()..=to.to_bits()).step_by(257).map(f32::from_bits);
        all.map(|x| (ulps(f(x), exact(x.into())), x)).fold((0.0, from), |a, b| if b.0 > a.0 { b } else { a })
    }

    fn exact_normal(x: f64) -> f64 {
        0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
    }

    /// A function, the exact one, and for ranges of numbers the most that they may differ.
    type Row = (&'static str, fn(f32) -> f32, fn(f64) -> f64, &'static [(f32, f32, f64)]);

    #[test]
    fn errors_over_the_whole_range() {
        let exact_sigmoid: fn(f64) -> f64 = |x| 1.0 / (1.0 + (-x).exp());
        let exact_silu: fn(f64) -> f64 = |x| x / (1.0 + (-x).exp());
        let exact_gelu: fn(f64) -> f64 = |x| x * exact_normal(x);
        let silu: fn(f32) -> f32 = |x| x * Real::sigmoid(x);
        let rows: [Row; 6] = [
            ("exp", exp, f64::exp, &[(0.0, f32::INFINITY, 1.25), (-0.0, f32::NEG_INFINITY, 1.25)]),
            ("tanh", tanh, f64::tanh, &[(0.0, f32::INFINITY, 1.5), (-0.0, f32::NEG_INFINITY, 1.5)]),
            (
                "normal_below",
                normal_below,
                exact_normal,
                &[
                    (0.0, f32::INFINITY, 4.5),
                    (-0.0, -1.0, 8.0),
                    (-1.0, -5.0, 14.0),
                    (-5.0, -9.0, 40.0),
                    (-9.0, f32::NEG_INFINITY, 80.0),
                ],
            ),
            (
                "gelu",
                Real::gelu,
                exact_gelu,
                &[
                    (0.0, f32::MAX, 8.0),
                    (-0.0, -1.0, 8.0),
                    (-1.0, -5.0, 14.0),
                    (-5.0, -9.0, 40.0),
                    (-9.0, f32::MIN, 80.0),
                ],
            ),
            (
                "sigmoid",
                Real::sigmoid,
                exact_sigmoid,
                &[(0.0, f32::INFINITY, 2.0), (-0.0, f32::NEG_INFINITY, 2.5)],
            ),
            // Below -87 the sigmoid is subnormal and has fewer places.
            ("silu", silu, exact_silu, &[(0.0, f32::MAX, 2.5), (-0.0, -87.0, 3.5)]),
        ];
        for (name, f, exact, ranges) in rows {
            for &(from, to, most) in ranges {
                let (error, at) = worst(from, to, f, exact);
                assert!(error < most, "{name}: {error} ulp at {at:?}");
            }
        }
    }

    #[test]
    fn ends_of_the_range() {
        assert_eq!([exp(0.0), exp(-0.0), exp(f32::NEG_INFINITY), exp(-110.0)], [1.0, 1.0, 0.0, 0.0]);
        assert_eq!([exp(f32::INFINITY), exp(88.8), exp(1e30)], [f32::INFINITY; 3]);
        // The last exponentials before overflow, and subnormal ones.
        assert!((exp(88.72) / 3.400_e38 - 1.0).abs() < 0.01);
        assert!((f64::from(exp(-95.0)) / (-95f64).exp() - 1.0).abs() < 1e-2);
        assert!(exp(f32::NAN).is_nan() && tanh(f32::NAN).is_nan() && normal_below(f32::NAN).is_nan());
        assert_eq!([tanh(f32::INFINITY), tanh(-50.0), tanh(0.0)], [1.0, -1.0, 0.0]);
        assert!(tanh(-0.0).is_sign_negative());
        assert_eq!([normal_below(0.0), normal_below(40.0), normal_below(-40.0)], [0.5, 1.0, 0.0]);
        assert_eq!([normal_below(f32::INFINITY), normal_below(f32::NEG_INFINITY)], [1.0, 0.0]);
    }
}
