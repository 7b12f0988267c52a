//! `exp`, `tanh` and the normal distribution in `f32`, in plain arithmetic without calls or branches, so
//! that loops over them are vectorised: an eighth to a half of a nanosecond an element, where a call into the
//! system's library takes 3 to 10.
//!
//! Where a product is added to, it is rounded once (`mul_add`): that is one instruction in loops for wider vectors
//! ([`vectors`](super::vectors)), and a call with the same result on machines that have none, where `gelu` then takes
//! some 35 nanoseconds an element.
//!
//! The constants were fitted with 40 digits for this file, for the least largest relative error; the tests
//! measure the errors against `f64` functions. The reduction of the argument by a multiple of ln 2 in two parts is
//! W. J. Cody's and W. Waite's ("Software Manual for the Elementary Functions", 1980).

/// Below this `exp` rounds to 0; above `GREATEST` to infinity.
const LEAST: f32 = -104.0;
const GREATEST: f32 = 89.0;
/// Adding 1.5 x 2^23 rounds to an integer, which then stands in the low bits.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts: the first has so few bits that its multiples by small integers are exact.
const LN_2_HIGH: f32 = 0.693_145_75;
const LN_2_LOW: f32 = 1.428_606_8e-6;

/// e^x, within 1 unit of the last place.
#[inline(always)]
pub(super) fn exp(x: f32) -> f32 {
    let x = if x < LEAST { LEAST } else { x };
    let x = if x > GREATEST { GREATEST } else { x };
    let (n, r) = reduced(x);
    // In two factors, so that neither leaves the range of normal numbers.
    e_to_the(r) * two_to_the(n >> 1) * two_to_the(n - (n >> 1))
}

/// `n` and `r` such that e^x = 2^n e^r with |r| <= ln 2 / 2, for `x` from `LEAST - 9` to `GREATEST`.
#[inline(always)]
fn reduced(x: f32) -> (i32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let n = shifted - ROUND;
    let r = n.mul_add(-LN_2_LOW, n.mul_add(-LN_2_HIGH, x));
    (shifted.to_bits().wrapping_sub(ROUND.to_bits()) as i32, r)
}

/// For |r| <= ln 2 / 2, as [`reduced`] leaves it.
#[inline(always)]
fn e_to_the(r: f32) -> f32 {
    polynomial([0.001_381_453_8, 0.008_368_745, 0.041_668_39, 0.166_665_2, 0.499_999_93, 1.0, 1.0], r)
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
        sum = sum.mul_add(x, *c);
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
    let near = (size * square).mul_add(polynomial(near, square), size);
    (if size < 0.625 { near } else { far }).copysign(x)
}

/// From here on the normal distribution's tail is 0 in `f32`.
const NO_TAIL: f32 = 15.0;
/// A factor that keeps numbers normal until the last product, which alone rounds where it is subnormal.
const LIFT: i32 = 64;
const LOWER: f32 = 1.0 / (1u128 << LIFT) as f32;

/// The share of the standard normal distribution below x, `(1 + erf(x / sqrt 2)) / 2`, within 5.5 units of
/// the last place.
///
/// The tail below -|x| is e^(-x^2 / 2) times a function that falls slowly from 1/2, here the quotient of two
/// polynomials without cancellation: all their terms are positive. What the rounding of x^2 leaves is put back
/// into the exponent, where it would count x^2 times as much.
#[inline(always)]
pub(super) fn normal_below(x: f32) -> f32 {
    let size = x.abs();
    let size = if size > NO_TAIL { NO_TAIL } else { size };
    let half = -0.5 * size;
    let power = half * size;
    let (n, r) = reduced(power);
    let left = half.mul_add(size, -power);
    let above = [0.004_122_029, 0.040_687_44, 0.183_418_94, 0.438_578_84, 0.5].map(|c| c * LOWER);
    let below = [0.010_332_28, 0.101_994_53, 0.469_948_83, 1.203_324_3, 1.675_042_5, 1.0];
    let slow = polynomial(above, size) / polynomial(below, size);
    let tail = e_to_the(r + left) * two_to_the(n + LIFT) * slow;
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
            ("exp", exp, f64::exp, &[(0.0, f32::INFINITY, 1.0), (-0.0, f32::NEG_INFINITY, 1.0)]),
            ("tanh", tanh, f64::tanh, &[(0.0, f32::INFINITY, 1.5), (-0.0, f32::NEG_INFINITY, 1.5)]),
            (
                "normal_below",
                normal_below,
                exact_normal,
                &[(0.0, f32::INFINITY, 2.5), (-0.0, -1.0, 4.0), (-1.0, f32::NEG_INFINITY, 5.5)],
            ),
            (
                "gelu",
                Real::gelu,
                exact_gelu,
                &[
                    (0.0, f32::MAX, 4.5),
                    (-0.0, -1.0, 4.0),
                    (-1.0, -12.9, 6.0),
                    // The share below is subnormal there and has fewer places.
                    (-12.9, f32::MIN, 9.0),
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
