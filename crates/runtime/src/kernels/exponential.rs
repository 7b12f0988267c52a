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

/// e^x = 2^n e^r with |r| <= ln 2 / 2; relative error below 2e-7.
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

/// By the exponential, but near 0, where that would lose digits, by a polynomial; relative error below
/// 3e-7.
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
/// Half of it is e^(-x^2 / 2) times a function of t = 1 / (1 + 0.3 |x|) that changes slowly. Relative
/// error below 1e-6 for x > -5, and about that times x^2 / 25 below, from the rounding of x^2.
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

    /// The largest relative error at many points of a range.
    fn error(from: f32, to: f32, f: fn(f32) -> f32, exact: fn(f64) -> f64) -> f64 {
        let steps = 20_000;
        let point = |i: i32| from + (to - from) * (i as f32 / steps as f32);
        (0..=steps).map(point).map(|x| (f64::from(f(x)) / exact(x.into()) - 1.0).abs()).fold(0.0, f64::max)
    }

    #[test]
    fn errors_are_a_few_last_bits() {
        let exact_tail = |x: f64| 0.5 * libm::erfc(-x / std::f64::consts::SQRT_2);
        assert!(error(-87.0, 88.7, exp, f64::exp) < 2e-7, "{}", error(-87.0, 88.7, exp, f64::exp));
        assert!(error(1e-6, 0.7, tanh, f64::tanh) < 3e-7, "{}", error(1e-6, 0.7, tanh, f64::tanh));
        assert!(error(-20.0, -0.5, tanh, f64::tanh) < 3e-7, "{}", error(-20.0, -0.5, tanh, f64::tanh));
        let near = error(-5.0, 20.0, normal_below, exact_tail);
        assert!(near < 1e-6, "{near}");
        let far = error(-12.0, -5.0, normal_below, exact_tail);
        assert!(far < 6e-6, "{far}");
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
