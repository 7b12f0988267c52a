//! How partial values are put together: element by element, with an operator.

use super::arithmetic::Arithmetic;
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
            Combine::Sum => update(&mut sink, &part, T::plus),
            Combine::Prod => update(&mut sink, &part, T::times),
            Combine::Max => update(&mut sink, &part, T::larger),
            Combine::Min => update(&mut sink, &part, T::smaller),
        }
    });
}

fn update<T: Arithmetic>(acc: &mut Sink<'_, T>, part: &Source<'_, T>, f: impl Fn(T, T) -> T) {
    match (acc, part) {
        (Sink::Same(acc), Source::Same(part)) => {
            acc.iter_mut().zip(*part).for_each(|(y, &x)| *y = f(*y, x));
        }
        (Sink::Bf16(acc), Source::Bf16(part)) => {
            acc.iter_mut().zip(*part).for_each(|(y, &x)| *y = f(T::from_bf16(*y), T::from_bf16(x)).to_bf16());
        }
        (Sink::F16(acc), Source::F16(part)) => {
            acc.iter_mut().zip(*part).for_each(|(y, &x)| *y = f(T::from_f16(*y), T::from_f16(x)).to_f16());
        }
        _ => unreachable!("both have the same stored type"),
    }
}

/// The bytes of the element that changes nothing: -0, 1, and the least and the greatest of the type
/// (for floats the infinities). On `bool` a sum and a maximum are "or", a product and a minimum "and".
pub fn identity(op: Combine, dtype: DType) -> Vec<u8> {
    let mut bytes = crate::tensor::AlignedBytes::zeroed(dtype.size() as usize);
    with_wide!(dtype, T => {
        let value = match op {
            Combine::Sum => T::ZERO,
            Combine::Prod => T::ONE,
            Combine::Max => T::LEAST,
            Combine::Min => T::GREATEST,
        };
        Sink::<T>::new(bytes.as_mut_slice(), dtype).scatter(0, 1, &[value]);
    });
    bytes.as_slice().to_vec()
}

/// Repeats an element's bytes over a whole piece.
///
/// # Panics
/// If the piece is not a whole number of elements.
pub fn fill(element: &[u8], piece: &mut [u8]) {
    assert_eq!(piece.len() % element.len(), 0, "a piece is a whole number of elements");
    for chunk in piece.chunks_exact_mut(element.len()) {
        chunk.copy_from_slice(element);
    }
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
                    fill(&identity(op, dtype), neutral.as_mut_slice());
                    let before = value.as_slice().to_vec();
                    combine(op, dtype, value.as_mut_slice(), neutral.as_slice());
                    assert_eq!(value.as_slice(), before, "{op} of {dtype}");
                    combine(op, dtype, neutral.as_mut_slice(), value.as_slice());
                    assert_eq!(neutral.as_slice(), before, "{op} of {dtype} from the left");
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
