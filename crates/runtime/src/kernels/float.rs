//! Functions of one floating point number, generic over `f32` and `f64`.
//!
//! Those that activations and `softmax` need often have their own form in `f32`
//! ([`exponential`](super::exponential)); in `f64`, `erfc` is that of the crate `libm` (FreeBSD's msun).

use super::arithmetic::Arithmetic;
use super::exponential;
use std::ops::{Add, AddAssign, Div, DivAssign, Mul, MulAssign, Neg, Sub, SubAssign};

/// `f32` or `f64`.
pub(super) trait Real:
    Arithmetic
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
    + SubAssign
    + MulAssign
    + DivAssign
{
    fn real(x: f64) -> Self;
    fn abs(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn tanh(self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    /// The share of the standard normal distribution below the number: `(1 + erf(x / sqrt 2)) / 2`.
    fn normal_below(self) -> Self;

    /// `1 / (1 + e^-x)`, without overflow on either side.
    #[inline(always)]
    fn sigmoid(self) -> Self {
        let e = Real::exp(-self.abs());
        let one = Self::real(1.0);
        let numerator = if self >= Self::real(0.0) { one } else { e };
        numerator / (one + e)
    }

    /// `x (1 + erf(x / sqrt 2)) / 2`.
    #[inline(always)]
    fn gelu(self) -> Self {
        self * self.normal_below()
    }

    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`; `(1 + tanh u) / 2` is `sigmoid(2 u)`.
    #[inline(always)]
    fn gelu_tanh(self) -> Self {
        let twice = Self::real(2.0 * (2.0 / std::f64::consts::PI).sqrt());
        self * (twice * (self + Self::real(0.044715) * self * self * self)).sigmoid()
    }
}

macro_rules! reals {
    ($($real:ident $exp:path, $tanh:path, $normal_below:path;)*) => {$(
        impl Real for $real {
            #[inline(always)]
            fn real(x: f64) -> $real {
                x as $real
            }
            #[inline(always)]
            fn abs(self) -> $real {
                $real::abs(self)
            }
            #[inline(always)]
            fn exp(self) -> $real {
                $exp(self)
            }
            fn ln(self) -> $real {
                $real::ln(self)
            }
            #[inline(always)]
            fn sqrt(self) -> $real {
                $real::sqrt(self)
            }
            #[inline(always)]
            fn tanh(self) -> $real {
                $tanh(self)
            }
            fn pow(self, exponent: $real) -> $real {
                $real::powf(self, exponent)
            }
            #[inline(always)]
            fn normal_below(self) -> $real {
                $normal_below(self)
            }
        }
    )*};
}
reals! {
    f32 exponential::exp, exponential::tanh, exponential::normal_below;
    f64 f64::exp, f64::tanh, normal_below;
}

/// By `erfc`, which keeps its digits where `erf` is near -1.
fn normal_below(x: f64) -> f64 {
    0.5 * libm::erfc(-x * std::f64::consts::FRAC_1_SQRT_2)
}
