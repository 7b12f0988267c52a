//! Rounding to the element types, by arithmetic on the values rather than on their bits.

use shardweave_compiler::dtype::{DType, Number};

/// Bits of precision and the exponent of the least normal number.
fn format(dtype: DType) -> Option<(i32, i32)> {
    match dtype {
        DType::Bf16 => Some((8, -126)),
        DType::F16 => Some((11, -14)),
        _ => None,
    }
}

/// The nearest value of a floating point type, ties to even.
pub(super) fn round(x: f64, dtype: DType) -> f64 {
    let Some((precision, least)) = format(dtype) else {
        return if dtype == DType::F32 { f64::from(x as f32) } else { x };
    };
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    // The distance between neighbours around x; dividing by a power of two is exact.
    let exponent = libm::ilogb(x).max(least);
    let unit = libm::ldexp(1.0, exponent - precision + 1);
    let rounded = (x / unit).round_ties_even() * unit;
    let largest = if dtype == DType::F16 { 65504.0 } else { f64::from(half::bf16::MAX.to_f32()) };
    if rounded.abs() > largest { f64::INFINITY.copysign(x) } else { rounded }
}

/// The nearest value of a floating point type to an integer.
pub(super) fn round_integer(i: i128, dtype: DType) -> f64 {
    match (dtype, format(dtype)) {
        (_, Some((precision, _))) => {
            // Leave out all but the leading bits, to the nearest, ties to even.
            let width = 128 - i.unsigned_abs().leading_zeros() as i32;
            let unit = 1i128 << (width - precision).max(0);
            let (whole, rest) = (i.div_euclid(unit), i.rem_euclid(unit));
            let up = rest * 2 > unit || (rest * 2 == unit && whole % 2 != 0);
            round(((whole + i128::from(up)) * unit) as f64, dtype)
        }
        (DType::F32, None) => f64::from(i as f32),
        _ => i as f64,
    }
}

/// A number of a program as a value of a floating point type.
pub(super) fn number(number: Number, dtype: DType) -> f64 {
    match number {
        Number::Int(i) => round_integer(i, dtype),
        Number::Float(x) => round(x, dtype),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_stays_and_every_middle_goes_to_the_even_one() {
        let f16 = |bits: u16| f64::from(half::f16::from_bits(bits));
        let bf16 = |bits: u16| f64::from(half::bf16::from_bits(bits));
        for bits in 0..0x7bffu16 {
            let (x, next) = (f16(bits), f16(bits + 1));
            assert_eq!(round(x, DType::F16), x);
            let even = if bits % 2 == 0 { x } else { next };
            assert_eq!(round((x + next) / 2.0, DType::F16), even);
            assert_eq!(round(-(x + next) / 2.0, DType::F16), -even);
        }
        for bits in 0..0x7f7fu16 {
            let (x, next) = (bf16(bits), bf16(bits + 1));
            assert_eq!(round(x, DType::Bf16), x);
            let even = if bits % 2 == 0 { x } else { next };
            assert_eq!(round((x + next) / 2.0, DType::Bf16), even);
        }
        assert_eq!(round(65520.0, DType::F16), f64::INFINITY);
        assert_eq!(round(65519.0, DType::F16), 65504.0);
        assert_eq!(round(-1e39, DType::Bf16), f64::NEG_INFINITY);
    }

    #[test]
    fn integers_round_once() {
        assert_eq!(round_integer((1 << 40) + (1 << 32), DType::Bf16), 2f64.powi(40));
        assert_eq!(round_integer((1 << 40) + (1 << 32) + 1, DType::Bf16), 2f64.powi(40) + 2f64.powi(33));
        assert_eq!(round_integer(-2049, DType::F16), -2048.0);
        assert_eq!(round_integer(i64::MIN.into(), DType::Bf16), -(2f64.powi(63)));
        assert_eq!(round_integer(16_777_217, DType::F32), 16_777_216.0);
    }
}
