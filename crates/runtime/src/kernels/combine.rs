//! How partial values are put together: element by element, with an operator.

use super::arithmetic::Arithmetic;
use super::elementwise::each;
use super::reduce::{Add as Sum, Fold, Max, Min, fold_all};
use super::vectors::vectorised;
use super::wide::{Sink, Source, with_wide};
use shardweave_compiler::dtype::{Combine, DType};

/// `acc = acc (op) part`, element by element. Half types are combined in `f32` and rounded once.
///
/// # Panics
/// If the two are not equally long, or not aligned for their elements.
pub fn combine(op: Combine, dtype: DType, acc: &mut [u8], part: &[u8]) {
    assert_eq!(acc.len(), part.len(), "two parts of one piece are equally long");
    with_wide!(dtype, T => {
        let mut sink = Sink::<T>::new(acc, dtype);
        let part = Source::<T>::new(part, dtype);
        match op {
            Combine::Sum => update::<T, Sum>(&mut sink, &part),
            Combine::Prod => update::<T, Prod>(&mut sink, &part),
            Combine::Max => update::<T, Max>(&mut sink, &part),
            Combine::Min => update::<T, Min>(&mut sink, &part),
        }
    });
}

/// `out = first (op) second`, element by element: as copying the first and combining it with the second,
/// but every element is read and written once.
///
/// # Panics
/// If the three are not equally long, or not aligned for their elements.
pub fn combine_two(op: Combine, dtype: DType, out: &mut [u8], first: &[u8], second: &[u8]) {
    assert!(out.len() == first.len() && out.len() == second.len(), "parts of one piece are equally long");
    with_wide!(dtype, T => {
        let mut sink = Sink::<T>::new(out, dtype);
        let parts = [first, second].map(|part| Source::<T>::new(part, dtype));
        match op {
            Combine::Sum => put::<T, Sum>(&mut sink, parts),
            Combine::Prod => put::<T, Prod>(&mut sink, parts),
            Combine::Max => put::<T, Max>(&mut sink, parts),
            Combine::Min => put::<T, Min>(&mut sink, parts),
        }
    });
}

fn update<T: Arithmetic, F: Fold<T>>(acc: &mut Sink<'_, T>, part: &Source<'_, T>) {
    match (acc, part) {
        (Sink::Same(acc), Source::Same(part)) => fold_all::<T, F>(acc, part),
        (Sink::Bf16(acc), Source::Bf16(part)) => acc
            .iter_mut()
            .zip(*part)
            .for_each(|(y, &x)| *y = F::fold(T::from_bf16(*y), T::from_bf16(x)).to_bf16()),
        (Sink::F16(acc), Source::F16(part)) => acc
            .iter_mut()
            .zip(*part)
            .for_each(|(y, &x)| *y = F::fold(T::from_f16(*y), T::from_f16(x)).to_f16()),
        _ => unreachable!("both have the same stored type"),
    }
}

fn put<T: Arithmetic, F: Fold<T>>(out: &mut Sink<'_, T>, parts: [Source<'_, T>; 2]) {
    match (out, parts) {
        (Sink::Same(out), [Source::Same(a), Source::Same(b)]) => fold_pairs::<T, F>(a, b, out),
        (Sink::Bf16(out), [Source::Bf16(a), Source::Bf16(b)]) => {
            each(a, b, out, |a, b| F::fold(T::from_bf16(a), T::from_bf16(b)).to_bf16());
        }
        (Sink::F16(out), [Source::F16(a), Source::F16(b)]) => {
            each(a, b, out, |a, b| F::fold(T::from_f16(a), T::from_f16(b)).to_f16());
        }
        _ => unreachable!("all have the same stored type"),
    }
}

vectorised! {
    /// `y = fold(a, b)` for each element.
    fn fold_pairs<T: Arithmetic, F: Fold<T>>(a: &[T], b: &[T], y: &mut [T]) {
        each(a, b, y, F::fold);
    }
}

/// Multiplication.
struct Prod;

impl<T: Arithmetic> Fold<T> for Prod {
    const IDENTITY: T = T::ONE;
    #[inline(always)]
    fn fold(a: T, b: T) -> T {
        a.times(b)
    }
}

/// Fills a piece with the element that changes nothing: -0, 1, and the least and the greatest of the type
/// (for floats the infinities). On `bool` a sum and a maximum are "or", a product and a minimum "and".
///
/// # Panics
/// If the piece is not a whole number of elements, or not aligned for them.
pub fn fill_identity(op: Combine, dtype: DType, piece: &mut [u8]) {
    with_wide!(dtype, T => {
        Sink::<T>::new(piece, dtype).fill(match op {
            Combine::Sum => T::ZERO,
            Combine::Prod => T::ONE,
            Combine::Max => T::LEAST,
            Combine::Min => T::GREATEST,
        });
    });
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;
    use half::bf16;

    fn combined<T: crate::tensor::Element>(op: Combine, a: &[T], b: &[T]) -> Vec<T> {
        let shape = [a.len() as u64];
        let mut acc = Tensor::from_elements(&shape, a);
        combine(op, T::DTYPE, acc.bytes_mut(), Tensor::from_elements(&shape, b).bytes());
        acc.elements().to_vec()
    }

    #[test]
    fn identities_change_no_bit_of_any_type() {
        for dtype in DType::ALL {
            for op in Combine::ALL {
                let size = dtype.size() as usize;
                for pattern in [0u8, 1, 0x3f, 0x80] {
                    // For bool 0 and 1; for the others some finite element, subnormals and -0 among them.
                    let mut value = crate::tensor::AlignedBytes::zeroed(size);
                    value.as_mut_slice()[size - 1] = if dtype == DType::Bool { pattern & 1 } else { pattern };
                    let mut neutral = crate::tensor::AlignedBytes::zeroed(size);
                    fill_identity(op, dtype, neutral.as_mut_slice());
                    let before = value.as_slice().to_vec();
                    combine(op, dtype, value.as_mut_slice(), neutral.as_slice());
                    assert_eq!(value.as_slice(), before, "{op} of {dtype}");
                    combine(op, dtype, neutral.as_mut_slice(), value.as_slice());
                    assert_eq!(neutral.as_slice(), before, "{op} of {dtype} from the left");
                    fill_identity(op, dtype, neutral.as_mut_slice());
                    let mut both = crate::tensor::AlignedBytes::zeroed(size);
                    combine_two(op, dtype, both.as_mut_slice(), neutral.as_slice(), value.as_slice());
                    assert_eq!(both.as_slice(), before, "{op} of {dtype} of two");
                }
            }
        }
    }

    #[test]
    fn parts_are_put_together() {
        assert_eq!(combined(Combine::Sum, &[1.5f32, 2.0], &[1.0, -4.0]), [2.5, -2.0]);
        assert_eq!(combined(Combine::Prod, &[i32::MAX, 3], &[2, -4]), [-2, -12]);
        assert_eq!(combined(Combine::Max, &[1.0f64, -1.0], &[0.5, 7.0]), [1.0, 7.0]);
        assert_eq!(combined(Combine::Min, &[1i64, i64::MIN], &[-3, 7]), [-3, i64::MIN]);
        assert!(combined(Combine::Max, &[f32::NAN], &[1.0])[0].is_nan());
        assert!(combined(Combine::Min, &[1.0], &[f32::NAN])[0].is_nan());
        let halves = combined(Combine::Sum, &[bf16::from_f32(256.0)], &[bf16::from_f32(1.5)]);
        assert_eq!(halves[0].to_f32(), 258.0);
    }

    #[test]
    fn bools_are_or_and_and() {
        for (op, expected) in [
            (Combine::Sum, [0, 1, 1, 1]),
            (Combine::Max, [0, 1, 1, 1]),
            (Combine::Prod, [0, 0, 0, 1]),
            (Combine::Min, [0, 0, 0, 1]),
        ] {
            let mut acc = [0, 0, 1, 1];
            combine(op, DType::Bool, &mut acc, &[0, 1, 0, 1]);
            assert_eq!(acc, expected, "{op}");
        }
    }
}
