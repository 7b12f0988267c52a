//! Functions of one floating point number, generic over `f32` and `f64`.
//!
//! `erf` and `erfc` are those of the crate `libm` (FreeBSD's msun); the others are Rust's own.

use super::arithmetic::Arithmetic;

/// `f32` or `f64`.
pub(super) trait Real:
    Arithmetic
    + std::ops::Add<Output = Self>
    + std::ops::Sub<Output = Self>
    + std::ops::Mul<Output = Self>
    + std::ops::Div<Output = Self>
    + std::ops::Neg<Output = Self>
    + std::ops::AddAssign
    + std::ops::SubAssign
    + std::ops::MulAssign
    + std::ops::DivAssign
{
    fn real(x: f64) -> Self;
    fn abs(self) -> Self;
    fn exp(self) -> Self;
    fn ln(self) -> Self;
    fn sqrt(self) -> Self;
    fn pow(self, exponent: Self) -> Self;
    fn erfc(self) -> Self;

    /// `1 / (1 + e^-x)`, without overflow on either side.
    fn sigmoid(self) -> Self {
        let e = (-self.abs()).exp();
        let one = Self::real(1.0);
        let numerator = if self >= Self::real(0.0) { one } else { e };
        numerator / (one + e)
    }

    /// `x (1 + erf(x / sqrt 2)) / 2`, by `erfc`, which keeps its digits where `erf` is near -1.
    fn gelu(self) -> Self {
        Self::real(0.5) * self * (-self * Self::real(std::f64::consts::FRAC_1_SQRT_2)).erfc()
    }

    /// `x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2`; `(1 + tanh u) / 2` is `sigmoid(2 u)`.
    fn gelu_tanh(self) -> Self {
        let twice = Self::real(2.0 * (2.0 / std::f64::consts::PI).sqrt());
        self * (twice * (self + Self::real(0.044715) * self * self * self)).sigmoid()
    }
}

macro_rules! reals {
    ($($real:ident $erfc:path),*) => {$(
        impl Real for $real {
            fn real(x: f64) -> $real {
                x as $real
            }
            fn abs(self) -> $real {
                $real::abs(self)
            }
            fn exp(self) -> $real {
                $real::exp(self)
            }
            fn ln(self) -> $real {
                $real::ln(self)
            }
            fn sqrt(self) -> $real {
                $real::sqrt(self)
            }
            fn pow(self, exponent: $real) -> $real {
                $real::powf(self, exponent)
            }
            fn erfc(self) -> $real {
                $erfc(self)
            }
        }
    )*};
}
reals!(f32 libm::erfcf, f64 libm::erfc);
