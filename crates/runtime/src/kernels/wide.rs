//! The types in which kernels compute, and the one rounding from them to the stored types.
//!
//! ```text
//! stored   f64  f32  bf16  f16  i64  i32  bool
//! wide     f64  f32  f32   f32  i64  i32  u8 (0 or 1)
//! ```
//!
//! Every conversion here is Rust's `as`: to the nearest, ties to even; into integers saturating, NaN
//! to 0. To the half types it is one rounding from any type: where a detour through `f32` would round
//! twice, the `f32` in between is rounded to odd, which keeps the second rounding right
//! (S. Boldo, G. Melquiond, "Emulation of a FMA and correctly rounded sums: proved algorithms using
//! rounding to odd", IEEE Transactions on Computers 57(4), 2008).

use crate::tensor::Element;
use half::{bf16, f16};
use shardweave_compiler::dtype::{DType, Number};

/// A type in which kernels compute.
pub(super) trait Wide: bytemuck::Pod + PartialOrd + Send + Sync {
    /// The stored type that is this very type.
    const DTYPE: DType;

    fn to_f64(self) -> f64;
    fn to_f32(self) -> f32;
    /// The nearest `f32`, or if there is none the odd one of its two neighbours.
    fn to_odd_f32(self) -> f32;
    fn to_i64(self) -> i64;
    fn to_i32(self) -> i32;
    fn is_nonzero(self) -> bool;

    fn from_bf16(x: bf16) -> Self;
    fn from_f16(x: f16) -> Self;
    /// A number of a program that has first become a `dtype`.
    fn from_number(number: Number, dtype: DType) -> Self;

    fn to_bf16(self) -> bf16 {
        bf16::from_f32(self.to_odd_f32())
    }
    fn to_f16(self) -> f16 {
        f16::from_f32(self.to_odd_f32())
    }
}

impl Wide for f64 {
    const DTYPE: DType = DType::F64;
    fn to_f64(self) -> f64 {
        self
    }
    fn to_f32(self) -> f32 {
        self as f32
    }
    fn to_odd_f32(self) -> f32 {
        let near = self as f32;
        if f64::from(near) == self || self.is_nan() || near.to_bits() & 1 == 1 {
            return near;
        }
        // An inexact even result: its neighbour on the other side of `self` is odd.
        let grew = f64::from(near).abs() > self.abs();
        f32::from_bits(if grew { near.to_bits() - 1 } else { near.to_bits() + 1 })
    }
    fn to_i64(self) -> i64 {
        self as i64
    }
    fn to_i32(self) -> i32 {
        self as i32
    }
    fn is_nonzero(self) -> bool {
        self != 0.0
    }
    fn from_bf16(x: bf16) -> f64 {
        x.to_f64()
    }
    fn from_f16(x: f16) -> f64 {
        x.to_f64()
    }
    fn from_number(number: Number, dtype: DType) -> f64 {
        match dtype {
            DType::F64 => number.as_f64(),
            _ => f64::from(f32::from_number(number, dtype)),
        }
    }
}

impl Wide for f32 {
    const DTYPE: DType = DType::F32;
    fn to_f64(self) -> f64 {
        f64::from(self)
    }
    fn to_f32(self) -> f32 {
        self
    }
    fn to_odd_f32(self) -> f32 {
        self
    }
    fn to_i64(self) -> i64 {
        self as i64
    }
    fn to_i32(self) -> i32 {
        self as i32
    }
    fn is_nonzero(self) -> bool {
        self != 0.0
    }
    fn from_bf16(x: bf16) -> f32 {
        x.to_f32()
    }
    fn from_f16(x: f16) -> f32 {
        x.to_f32()
    }
    fn from_number(number: Number, dtype: DType) -> f32 {
        let odd = match number {
            Number::Int(i) => integer_to_odd_f32(i),
            Number::Float(x) => x.to_odd_f32(),
        };
        match (dtype, number) {
            (DType::Bf16, _) => bf16::from_f32(odd).to_f32(),
            (DType::F16, _) => f16::from_f32(odd).to_f32(),
            (_, Number::Int(i)) => i as f32,
            (_, Number::Float(x)) => x as f32,
        }
    }
}

/// An integer as the `f32` of its 24 leading bits, the last of them set if any bit after it is.
fn integer_to_odd_f32(i: i128) -> f32 {
    let magnitude = i.unsigned_abs();
    let excess = (128 - magnitude.leading_zeros()).saturating_sub(24);
    let head = magnitude >> excess;
    let sticky = u128::from(head << excess != magnitude);
    let odd = ((head | sticky) << excess) as f32;
    if i < 0 { -odd } else { odd }
}

macro_rules! integers {
    ($($int:ident $dtype:ident),*) => {$(
        impl Wide for $int {
            const DTYPE: DType = DType::$dtype;
            fn to_f64(self) -> f64 {
                self as f64
            }
            fn to_f32(self) -> f32 {
                self as f32
            }
            fn to_odd_f32(self) -> f32 {
                integer_to_odd_f32(self as i128)
            }
            fn to_i64(self) -> i64 {
                self as i64
            }
            fn to_i32(self) -> i32 {
                self as i32
            }
            fn is_nonzero(self) -> bool {
                self != 0
            }
            fn from_bf16(x: bf16) -> $int {
                x.to_f32() as $int
            }
            fn from_f16(x: f16) -> $int {
                x.to_f32() as $int
            }
            fn from_number(number: Number, _: DType) -> $int {
                match number {
                    Number::Int(i) => i as $int,
                    Number::Float(x) => x as $int,
                }
            }
        }
    )*};
}
integers!(i64 I64, i32 I32, u8 Bool);

/// The elements of a piece, to read as a wide type.
#[derive(Clone, Copy)]
pub(super) enum Source<'a, T> {
    /// Stored as they are.
    Same(&'a [T]),
    /// Stored as `bf16`.
    Bf16(&'a [bf16]),
    /// Stored as `f16`.
    F16(&'a [f16]),
}

impl<'a, T: Wide> Source<'a, T> {
    /// # Panics
    /// If elements stored as `dtype` are not computed in `T`.
    pub fn new(bytes: &'a [u8], dtype: DType) -> Source<'a, T> {
        assert_eq!(dtype.wide(), T::DTYPE, "{dtype} is computed in its wide type");
        match dtype {
            DType::Bf16 => Source::Bf16(bytemuck::cast_slice(bytes)),
            DType::F16 => Source::F16(bytemuck::cast_slice(bytes)),
            _ => Source::Same(bytemuck::cast_slice(bytes)),
        }
    }

    /// Reads elements `start`, `start + stride`, ... into `out`.
    pub fn gather(&self, start: usize, stride: usize, out: &mut [T]) {
        match self {
            Source::Same(all) => gather(all, start, stride, out, |x| x),
            Source::Bf16(all) => gather(all, start, stride, out, T::from_bf16),
            Source::F16(all) => gather(all, start, stride, out, T::from_f16),
        }
    }

    /// The elements `start..start + len`: in place where they can be, else read into `buffer`, which has
    /// room for them.
    pub fn run<'b>(&self, start: usize, len: usize, buffer: &'b mut [T]) -> &'b [T]
    where
        'a: 'b,
    {
        if let Source::Same(all) = self {
            return &all[start..start + len];
        }
        self.gather(start, 1, &mut buffer[..len]);
        &buffer[..len]
    }

    /// One element.
    pub fn at(&self, index: usize) -> T {
        match self {
            Source::Same(all) => all[index],
            Source::Bf16(all) => T::from_bf16(all[index]),
            Source::F16(all) => T::from_f16(all[index]),
        }
    }
}

fn gather<S: Copy, T: Copy>(all: &[S], start: usize, stride: usize, out: &mut [T], convert: impl Fn(S) -> T) {
    match (stride, out.len()) {
        (_, 0) => {}
        (0, _) => out.fill(convert(all[start])),
        (1, len) => {
            for (y, &x) in out.iter_mut().zip(&all[start..start + len]) {
                *y = convert(x);
            }
        }
        _ => {
            for (y, &x) in out.iter_mut().zip(all[start..].iter().step_by(stride)) {
                *y = convert(x);
            }
        }
    }
}

/// A piece to be written from a wide type, with one rounding.
pub(super) enum Sink<'a, T> {
    /// Stored as they are.
    Same(&'a mut [T]),
    /// Stored as `bf16`.
    Bf16(&'a mut [bf16]),
    /// Stored as `f16`.
    F16(&'a mut [f16]),
}

impl<'a, T: Wide> Sink<'a, T> {
    /// # Panics
    /// If elements stored as `dtype` are not computed in `T`.
    pub fn new(bytes: &'a mut [u8], dtype: DType) -> Sink<'a, T> {
        assert_eq!(dtype.wide(), T::DTYPE, "{dtype} is computed in its wide type");
        match dtype {
            DType::Bf16 => Sink::Bf16(bytemuck::cast_slice_mut(bytes)),
            DType::F16 => Sink::F16(bytemuck::cast_slice_mut(bytes)),
            _ => Sink::Same(bytemuck::cast_slice_mut(bytes)),
        }
    }

    /// Writes one value to every element.
    pub fn fill(&mut self, value: T) {
        match self {
            Sink::Same(all) => all.fill(value),
            Sink::Bf16(all) => all.fill(value.to_bf16()),
            Sink::F16(all) => all.fill(value.to_f16()),
        }
    }

    /// Writes `values` to elements `start`, `start + stride`, ...
    pub fn scatter(&mut self, start: usize, stride: usize, values: &[T]) {
        match self {
            Sink::Same(all) => scatter(all, start, stride, values, |x| x),
            Sink::Bf16(all) => scatter(all, start, stride, values, T::to_bf16),
            Sink::F16(all) => scatter(all, start, stride, values, T::to_f16),
        }
    }

    /// Lets `write` write the elements `start..start + len`: in place where they can be, else by way of
    /// `buffer`, which has room for them. What `write` finds there is arbitrary.
    pub fn run(&mut self, start: usize, len: usize, buffer: &mut [T], write: impl FnOnce(&mut [T])) {
        if let Sink::Same(all) = self {
            return write(&mut all[start..start + len]);
        }
        let buffer = &mut buffer[..len];
        write(buffer);
        self.scatter(start, 1, buffer);
    }
}

fn scatter<S: Copy, T: Copy>(
    all: &mut [S],
    start: usize,
    stride: usize,
    values: &[T],
    convert: impl Fn(T) -> S,
) {
    match (stride, values.len()) {
        (_, 0) => {}
        (1, len) => {
            for (y, &x) in all[start..start + len].iter_mut().zip(values) {
                *y = convert(x);
            }
        }
        _ => {
            for (y, &x) in all[start..].iter_mut().step_by(stride.max(1)).zip(values) {
                *y = convert(x);
            }
        }
    }
}

/// Runs `$body` with `$T` the wide type of a dtype.
macro_rules! with_wide {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.wide() {
            shardweave_compiler::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
            shardweave_compiler::dtype::DType::I64 => {
                type $T = i64;
                $body
            }
            shardweave_compiler::dtype::DType::I32 => {
                type $T = i32;
                $body
            }
            shardweave_compiler::dtype::DType::Bool => {
                type $T = u8;
                $body
            }
            _ => {
                type $T = f32;
                $body
            }
        }
    };
}
pub(super) use with_wide;

/// Runs `$body` with `$T` the wide type of a floating point dtype.
macro_rules! with_real {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype.wide() {
            shardweave_compiler::dtype::DType::F64 => {
                type $T = f64;
                $body
            }
            shardweave_compiler::dtype::DType::F32 => {
                type $T = f32;
                $body
            }
            other => unreachable!("the compiler lets no {other} into an operation on floats"),
        }
    };
}
pub(super) use with_real;

/// The stored type of a Rust type, to view bytes as it.
pub(super) fn elements_mut<T: Element>(bytes: &mut [u8]) -> &mut [T] {
    bytemuck::cast_slice_mut(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn doubles_become_halves_in_one_rounding() {
        // Just above the middle between two bf16: through f32 it would fall on the tie and round down.
        let above = 1.0 + 2f64.powi(-8) + 2f64.powi(-40);
        assert_eq!((above as f32) as f64, 1.0 + 2f64.powi(-8));
        assert_eq!(above.to_bf16().to_f64(), 1.0 + 2f64.powi(-7));
        assert_eq!((1.0 + 2f64.powi(-8)).to_bf16().to_f64(), 1.0);
        let below = 1.0 + 3.0 * 2f64.powi(-11) - 2f64.powi(-45);
        assert_eq!(below.to_f16().to_f64(), 1.0 + 2f64.powi(-10));
        assert_eq!((-above).to_bf16().to_f64(), -1.0 - 2f64.powi(-7));
    }

    #[test]
    fn the_range_of_halves_ends_where_it_rounds_to_infinity() {
        assert_eq!(65519.999f64.to_f16().to_f64(), 65504.0);
        assert_eq!(65520f64.to_f16(), f16::INFINITY);
        assert_eq!(1e300.to_bf16(), bf16::INFINITY);
        assert_eq!((-1e300).to_bf16(), bf16::NEG_INFINITY);
        assert_eq!(1e-300.to_bf16().to_f32(), 0.0);
        assert!(f64::NAN.to_bf16().is_nan());
        // Half of the least subnormal rounds to zero, a little more to the least subnormal.
        assert_eq!(2f64.powi(-25).to_f16().to_f64(), 0.0);
        assert_eq!((2f64.powi(-25) * (1.0 + 1e-12)).to_f16().to_f64(), 2f64.powi(-24));
    }

    #[test]
    fn integers_become_halves_in_one_rounding() {
        let tie = (1i64 << 40) + (1 << 32);
        assert_eq!(tie.to_bf16().to_f64(), 2f64.powi(40));
        assert_eq!((tie + 1).to_bf16().to_f64(), 2f64.powi(40) + 2f64.powi(33));
        assert_eq!((-tie - 1).to_bf16().to_f64(), -(2f64.powi(40) + 2f64.powi(33)));
        assert_eq!(i64::MIN.to_bf16().to_f64(), -(2f64.powi(63)));
        assert_eq!(0i32.to_f16().to_f64(), 0.0);
        assert_eq!(2049i32.to_f16().to_f64(), 2048.0);
        assert_eq!(2051i32.to_f16().to_f64(), 2052.0);
    }

    #[test]
    fn numbers_take_the_type_first() {
        assert_eq!(f32::from_number(Number::Float(0.1), DType::Bf16), 0.100_097_656);
        assert_eq!(f32::from_number(Number::Float(0.1), DType::F32), 0.1);
        assert_eq!(f32::from_number(Number::Int(16_777_217), DType::F32), 16_777_216.0);
        assert_eq!(i32::from_number(Number::Int(-7), DType::I32), -7);
        assert!(f32::from_number(Number::Float(f64::NAN), DType::F16).is_nan());
    }
}
