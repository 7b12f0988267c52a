//! What `map` and `zip` operations do to a tile of elements, for each wide type.
//!
//! One `match` per tile chooses the loop; the loops are plain, so the compiler vectorises those whose
//! function it can.

use super::elementwise::each;
use super::float::Real;
use super::wide::Wide;
use shardweave_compiler::op::{Map, Zip};

/// A wide type with its operations on tiles.
pub(super) trait Arithmetic: Wide {
    /// `y = map(x)`.
    fn map(map: Map, x: &[Self], y: &mut [Self]);
    /// `y = zip(a, b)`; `zip` is no comparison.
    fn zip(zip: Zip, a: &[Self], b: &[Self], y: &mut [Self]);
    fn plus(self, other: Self) -> Self;
    fn times(self, other: Self) -> Self;
    /// The larger; NaN if one is NaN; 0 rather than -0.
    fn larger(self, other: Self) -> Self;
    /// The smaller; NaN if one is NaN; -0 rather than 0.
    fn smaller(self, other: Self) -> Self;
    /// Divides by a count; floats only.
    fn divide(self, count: f64) -> Self;
    /// What added to anything changes nothing.
    const ZERO: Self;
    /// What multiplied with anything changes nothing.
    const ONE: Self;
    /// Not larger than anything.
    const LEAST: Self;
    /// Not smaller than anything.
    const GREATEST: Self;
}

macro_rules! floats {
    ($($float:ident),*) => {$(
        impl Arithmetic for $float {
            #[inline(always)]
            fn map(map: Map, x: &[$float], y: &mut [$float]) {
                match map {
                    Map::Neg => one(x, y, |x| -x),
                    Map::Abs => one(x, y, |x| x.abs()),
                    Map::Exp => one(x, y, Real::exp),
                    Map::Log => one(x, y, |x| x.ln()),
                    Map::Sqrt => one(x, y, |x| x.sqrt()),
                    Map::Rsqrt => one(x, y, |x| 1.0 / x.sqrt()),
                    Map::Square => one(x, y, |x| x * x),
                    Map::Sin => one(x, y, |x| x.sin()),
                    Map::Cos => one(x, y, |x| x.cos()),
                    Map::Tanh => one(x, y, Real::tanh),
                    Map::Sigmoid => one(x, y, Real::sigmoid),
                    Map::Relu => one(x, y, |x| if x <= 0.0 { 0.0 } else { x }),
                    Map::Silu => one(x, y, |x| x * x.sigmoid()),
                    Map::Gelu => one(x, y, Real::gelu),
                    Map::GeluTanh => one(x, y, Real::gelu_tanh),
                    Map::Not => unreachable!("the compiler lets no float into `not`"),
                }
            }

            #[inline(always)]
            fn zip(zip: Zip, a: &[$float], b: &[$float], y: &mut [$float]) {
                match zip {
                    Zip::Add => each(a, b, y, |a, b| a + b),
                    Zip::Sub => each(a, b, y, |a, b| a - b),
                    Zip::Mul => each(a, b, y, |a, b| a * b),
                    Zip::Div => each(a, b, y, |a, b| a / b),
                    Zip::Maximum => each(a, b, y, Arithmetic::larger),
                    Zip::Minimum => each(a, b, y, Arithmetic::smaller),
                    Zip::Pow => each(a, b, y, Real::pow),
                    other => unreachable!("the compiler lets no float into {other:?}"),
                }
            }

            #[inline(always)]
            fn plus(self, other: $float) -> $float {
                self + other
            }
            #[inline(always)]
            fn times(self, other: $float) -> $float {
                self * other
            }
            // Selections instead of branches, so that loops are vectorised.
            #[inline(always)]
            fn larger(self, other: $float) -> $float {
                let larger = if self > other { self } else { other };
                let both = $float::from_bits(self.to_bits() & other.to_bits());
                let larger = if self == other { both } else { larger };
                if self.is_nan() { self } else { larger }
            }
            #[inline(always)]
            fn smaller(self, other: $float) -> $float {
                let smaller = if self < other { self } else { other };
                let either = $float::from_bits(self.to_bits() | other.to_bits());
                let smaller = if self == other { either } else { smaller };
                if self.is_nan() { self } else { smaller }
            }
            fn divide(self, count: f64) -> $float {
                self / count as $float
            }
            const ZERO: $float = -0.0;
            const ONE: $float = 1.0;
            const LEAST: $float = $float::NEG_INFINITY;
            const GREATEST: $float = $float::INFINITY;
        }
    )*};
}
floats!(f32, f64);

macro_rules! integers {
    ($($int:ident),*) => {$(
        impl Arithmetic for $int {
            #[inline(always)]
            fn map(map: Map, x: &[$int], y: &mut [$int]) {
                match map {
                    Map::Neg => one(x, y, $int::wrapping_neg),
                    Map::Abs => one(x, y, $int::wrapping_abs),
                    Map::Square => one(x, y, |x| x.wrapping_mul(x)),
                    Map::Relu => one(x, y, |x| x.max(0)),
                    other => unreachable!("the compiler lets no integer into {other:?}"),
                }
            }

            #[inline(always)]
            fn zip(zip: Zip, a: &[$int], b: &[$int], y: &mut [$int]) {
                match zip {
                    Zip::Add => each(a, b, y, $int::wrapping_add),
                    Zip::Sub => each(a, b, y, $int::wrapping_sub),
                    Zip::Mul => each(a, b, y, $int::wrapping_mul),
                    Zip::Maximum => each(a, b, y, |a, b| a.max(b)),
                    Zip::Minimum => each(a, b, y, |a, b| a.min(b)),
                    other => unreachable!("the compiler lets no integer into {other:?}"),
                }
            }

            #[inline(always)]
            fn plus(self, other: $int) -> $int {
                self.wrapping_add(other)
            }
            #[inline(always)]
            fn times(self, other: $int) -> $int {
                self.wrapping_mul(other)
            }
            fn larger(self, other: $int) -> $int {
                self.max(other)
            }
            fn smaller(self, other: $int) -> $int {
                self.min(other)
            }
            fn divide(self, _: f64) -> $int {
                unreachable!("the compiler lets no integer into `mean`")
            }
            const ZERO: $int = 0;
            const ONE: $int = 1;
            const LEAST: $int = $int::MIN;
            const GREATEST: $int = $int::MAX;
        }
    )*};
}
integers!(i64, i32);

/// Bools, as 0 and 1: addition is or, multiplication is and.
impl Arithmetic for u8 {
    fn map(map: Map, x: &[u8], y: &mut [u8]) {
        match map {
            Map::Not => one(x, y, |x| x ^ 1),
            other => unreachable!("the compiler lets no bool into {other:?}"),
        }
    }

    fn zip(zip: Zip, a: &[u8], b: &[u8], y: &mut [u8]) {
        match zip {
            Zip::And => each(a, b, y, |a, b| a & b),
            Zip::Or => each(a, b, y, |a, b| a | b),
            other => unreachable!("the compiler lets no bool into {other:?}"),
        }
    }

    fn plus(self, other: u8) -> u8 {
        self | other
    }
    fn times(self, other: u8) -> u8 {
        self & other
    }
    fn larger(self, other: u8) -> u8 {
        self | other
    }
    fn smaller(self, other: u8) -> u8 {
        self & other
    }
    fn divide(self, _: f64) -> u8 {
        unreachable!("the compiler lets no bool into `mean`")
    }
    const ZERO: u8 = 0;
    const ONE: u8 = 1;
    const LEAST: u8 = 0;
    const GREATEST: u8 = 1;
}

/// `y = f(x)` for each element.
#[inline(always)]
fn one<T: Copy>(x: &[T], y: &mut [T], f: impl Fn(T) -> T) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_wins_and_zeros_have_an_order() {
        for (a, b) in [(f32::NAN, 1.0), (1.0, f32::NAN), (f32::NAN, f32::INFINITY)] {
            assert!(a.larger(b).is_nan() && a.smaller(b).is_nan());
        }
        for (a, b) in [(0.0f64, -0.0), (-0.0, 0.0)] {
            assert!(a.larger(b).is_sign_positive());
            assert!(a.smaller(b).is_sign_negative());
        }
        assert_eq!((-3.0f32).larger(-2.0), -2.0);
        assert_eq!((-3.0f32).smaller(-2.0), -3.0);
        assert_eq!(f32::NEG_INFINITY.larger(f32::LEAST), f32::NEG_INFINITY);
    }

    #[test]
    fn what_changes_nothing_changes_no_bit() {
        for x in [0.0f32, -0.0, 1.5, f32::INFINITY, f32::NEG_INFINITY, f32::MIN_POSITIVE / 4.0] {
            assert_eq!(x.plus(f32::ZERO).to_bits(), x.to_bits());
            assert_eq!(x.times(f32::ONE).to_bits(), x.to_bits());
            assert_eq!(x.larger(f32::LEAST).to_bits(), x.to_bits());
            assert_eq!(x.smaller(f32::GREATEST).to_bits(), x.to_bits());
        }
        for x in [i32::MIN, -1, 0, i32::MAX] {
            assert_eq!([x.plus(0), x.times(1), x.larger(i32::LEAST), x.smaller(i32::GREATEST)], [x; 4]);
        }
    }
}
