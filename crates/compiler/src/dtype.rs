//! Element types, and the numbers a program may write.

use std::fmt;

/// The type of every element of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum DType {
    /// IEEE 754 double precision.
    F64,
    /// IEEE 754 single precision.
    F32,
    /// The upper half of an `f32`: 8 bits of exponent, 8 of precision.
    Bf16,
    /// IEEE 754 half precision.
    F16,
    /// Signed 64-bit integers; arithmetic wraps.
    I64,
    /// Signed 32-bit integers; arithmetic wraps.
    I32,
    /// One byte, 0 or 1.
    Bool,
}

impl DType {
    /// Every element type, in the order the documentation lists them.
    pub const ALL: [DType; 7] =
        [DType::F64, DType::F32, DType::Bf16, DType::F16, DType::I64, DType::I32, DType::Bool];

    /// The spelling in every text form.
    pub fn name(self) -> &'static str {
        match self {
            DType::F64 => "f64",
            DType::F32 => "f32",
            DType::Bf16 => "bf16",
            DType::F16 => "f16",
            DType::I64 => "i64",
            DType::I32 => "i32",
            DType::Bool => "bool",
        }
    }

    /// The type of that name.
    pub fn from_name(name: &str) -> Option<DType> {
        DType::ALL.into_iter().find(|d| d.name() == name)
    }

    /// Bytes of one element.
    pub fn size(self) -> u64 {
        match self {
            DType::F64 | DType::I64 => 8,
            DType::F32 | DType::I32 => 4,
            DType::Bf16 | DType::F16 => 2,
            DType::Bool => 1,
        }
    }

    /// Whether it is one of the four floating point types.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F64 | DType::F32 | DType::Bf16 | DType::F16)
    }

    /// Whether it is `i64` or `i32`.
    pub fn is_integer(self) -> bool {
        matches!(self, DType::I64 | DType::I32)
    }

    /// The type in which an operation computes and a partial value is held: `f32` for the half
    /// types, else the type itself.
    pub fn wide(self) -> DType {
        match self {
            DType::Bf16 | DType::F16 => DType::F32,
            other => other,
        }
    }
}

impl DType {
    /// The type that other languages and libraries call so.
    pub fn from_other_notation(name: &str) -> Option<DType> {
        Some(match name.to_ascii_lowercase().as_str() {
            "f64" | "float64" | "double" => DType::F64,
            "f32" | "float32" | "float" | "single" => DType::F32,
            "bf16" | "bfloat16" => DType::Bf16,
            "f16" | "float16" | "half" => DType::F16,
            "i64" | "int64" | "long" | "int" => DType::I64,
            "i32" | "int32" => DType::I32,
            "bool" | "boolean" | "i1" => DType::Bool,
            _ => return None,
        })
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A number written in a program. It has no type of its own: it takes the type of what it meets.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// Written without point or exponent.
    Int(i128),
    /// Written with a point or an exponent, or one of `inf`, `-inf`, `nan`.
    Float(f64),
}

impl Number {
    /// The value as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Int(i) => i as f64,
            Number::Float(x) => x,
        }
    }

    /// The number that a value of a half type holds for this one: the nearest, ties to even. Other types
    /// take it as it is.
    pub fn rounded(self, dtype: DType) -> Number {
        let (precision, least) = match dtype {
            DType::Bf16 => (8, -126),
            DType::F16 => (11, -14),
            _ => return self,
        };
        match self {
            // An f64 holds it without rounding, so that it is rounded once.
            Number::Int(i) if i.unsigned_abs() >= 1 << f64::MANTISSA_DIGITS => {
                let excess = 128 - i.unsigned_abs().leading_zeros() - f64::MANTISSA_DIGITS;
                let head = i.unsigned_abs() >> excess;
                let sticky = u128::from(head << excess != i.unsigned_abs());
                let odd = ((head | sticky) << excess) as f64;
                Number::Float(nearest(if i < 0 { -odd } else { odd }, precision, least))
            }
            other => Number::Float(nearest(other.as_f64(), precision, least)),
        }
    }

    /// Whether a value of type `dtype` can hold the number: no integer type takes a fraction,
    /// and a finite number must stay finite.
    pub fn fits(self, dtype: DType) -> bool {
        match dtype {
            DType::I64 => matches!(self, Number::Int(i) if i64::try_from(i).is_ok()),
            DType::I32 => matches!(self, Number::Int(i) if i32::try_from(i).is_ok()),
            DType::Bool => matches!(self, Number::Int(0 | 1)),
            float => {
                let x = self.as_f64();
                !x.is_finite() || x.abs() < first_overflow(float)
            }
        }
    }
}

/// The nearest number with so many bits, the least exponent of a normal one being `least`.
fn nearest(x: f64, precision: i32, least: i32) -> f64 {
    if !x.is_finite() || x == 0.0 {
        return x;
    }
    let exponent = ((x.to_bits() >> 52) & 0x7ff) as i32 - 1023;
    // The distance between neighbours around x, a power of two: dividing by it is exact.
    let unit = f64::from_bits(((exponent.max(least) - precision + 1 + 1023) as u64) << 52);
    (x / unit).round_ties_even() * unit
}

/// The smallest positive number that rounds to infinity.
fn first_overflow(float: DType) -> f64 {
    match float {
        DType::F32 => 340_282_356_779_733_661_637_539_395_458_142_568_448.0, // 2^128 - 2^103
        DType::Bf16 => 339_617_752_923_046_005_526_922_703_901_628_039_168.0, // 2^128 - 2^119
        DType::F16 => 65_520.0,
        _ => f64::INFINITY,
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        match (self, other) {
            (Number::Int(a), Number::Int(b)) => a == b,
            (Number::Float(a), Number::Float(b)) => a.to_bits() == b.to_bits(),
            _ => false,
        }
    }
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Number::Int(i) => write!(f, "{i}"),
            Number::Float(x) if x.is_nan() => f.write_str("nan"),
            Number::Float(x) if x.is_infinite() => f.write_str(if *x > 0.0 { "inf" } else { "-inf" }),
            Number::Float(x) => write!(f, "{x:?}"),
        }
    }
}

/// How the pieces of a partial value, or the elements of a reduced dim, are put together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Combine {
    /// Added; the identity is 0. On `bool`: or.
    Sum,
    /// The largest; NaN wins. The identity is the type's least value. On `bool`: or.
    Max,
    /// The smallest; NaN wins. The identity is the type's greatest value. On `bool`: and.
    Min,
    /// Multiplied; the identity is 1. On `bool`: and.
    Prod,
}

impl Combine {
    /// Every operator.
    pub const ALL: [Combine; 4] = [Combine::Sum, Combine::Max, Combine::Min, Combine::Prod];

    /// The spelling in every text form.
    pub fn name(self) -> &'static str {
        match self {
            Combine::Sum => "sum",
            Combine::Max => "max",
            Combine::Min => "min",
            Combine::Prod => "prod",
        }
    }

    /// The operator of that name.
    pub fn from_name(name: &str) -> Option<Combine> {
        Combine::ALL.into_iter().find(|c| c.name() == name)
    }
}

impl fmt::Display for Combine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_become_halves_in_one_rounding() {
        let rounded = |number: Number, dtype| number.rounded(dtype).as_f64();
        assert_eq!(rounded(Number::Float(0.1), DType::Bf16), 0.100_097_656_25);
        assert_eq!(rounded(Number::Float(-0.1), DType::F16), -0.099_975_585_937_5);
        assert_eq!(rounded(Number::Float(2f64.powi(-25) * 1.5), DType::F16), 2f64.powi(-24));
        assert_eq!(rounded(Number::Int(2049), DType::F16), 2048.0);
        assert_eq!(rounded(Number::Int(2051), DType::F16), 2052.0);
        // Just above the middle, by less than an f64 can see.
        let above = (1i128 << 90) + (1 << 82) + 1;
        assert_eq!(rounded(Number::Int(above), DType::Bf16), 2f64.powi(90) + 2f64.powi(83));
        assert_eq!(rounded(Number::Int(-above), DType::Bf16), -(2f64.powi(90) + 2f64.powi(83)));
        assert!(rounded(Number::Float(f64::NAN), DType::Bf16).is_nan());
        assert_eq!(Number::Int(7).rounded(DType::F32), Number::Int(7));
    }
}
