//! Whether a result is right: `--check` compares each output with the reference.
//!
//! A float `y` agrees with the reference `r` if `|y - r| <= tolerance x (|r| + rms(r))`, where `rms` is
//! the root of the mean square of all finite elements of the reference: an element that is small beside
//! the others may be off by as much as those. NaN agrees with NaN, an infinity with itself; integers and
//! bools agree if they are equal.

use crate::tensor::Tensor;
use half::{bf16, f16};
use shardweave_compiler::dtype::DType;

/// How far two elements of a type may lie apart; `None`: not at all.
pub fn tolerance(dtype: DType) -> Option<f64> {
    match dtype {
        DType::F64 => Some(1e-11),
        DType::F32 => Some(1e-4),
        DType::F16 => Some(4e-3),
        DType::Bf16 => Some(3e-2),
        DType::I64 | DType::I32 | DType::Bool => None,
    }
}

/// What a comparison found.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Comparison {
    /// Whether every element agrees.
    pub ok: bool,
    /// The largest `|y - r|`; infinite if a NaN or an infinity stands against anything else.
    pub max_abs: f64,
    /// The largest `|y - r| / (|r| + rms(r))`: what the tolerance is compared with.
    pub max_rel: f64,
    /// The first element (row-major) that does not agree.
    pub first_wrong: Option<usize>,
}

/// Compares a result with the reference.
///
/// # Panics
/// If the two differ in type or shape: both are the same value of one program.
pub fn compare(result: &Tensor, reference: &Tensor) -> Comparison {
    assert_eq!(result.dtype(), reference.dtype(), "both are the same value");
    assert_eq!(result.shape(), reference.shape(), "both are the same value");
    let pairs = || (0..result.len()).map(|index| (element(result, index), element(reference, index)));
    let finite = || pairs().map(|(_, r)| r.as_f64()).filter(|r| r.is_finite());
    // Divided by the largest first, so that no square overflows.
    let largest = finite().fold(0.0, |largest: f64, r| largest.max(r.abs()));
    let scale = if largest > 0.0 { largest } else { 1.0 };
    let mean_square = finite().map(|r| (r / scale).powi(2)).sum::<f64>() / finite().count().max(1) as f64;
    let rms = mean_square.sqrt() * scale;

    let mut found = Comparison { ok: true, max_abs: 0.0, max_rel: 0.0, first_wrong: None };
    for (index, (y, r)) in pairs().enumerate() {
        if y.same(r) {
            continue;
        }
        let error = y.distance(r);
        let relative = error / (r.as_f64().abs() + rms);
        let agrees = tolerance(result.dtype()).is_some_and(|tolerance| relative <= tolerance);
        found.max_abs = found.max_abs.max(error);
        found.max_rel = found.max_rel.max(if relative.is_nan() { f64::INFINITY } else { relative });
        if !agrees {
            found.ok = false;
            found.first_wrong = found.first_wrong.or(Some(index));
        }
    }
    found
}

/// One element, exactly.
#[derive(Clone, Copy)]
enum Element {
    Float(f64),
    Integer(i64),
}

impl Element {
    fn as_f64(self) -> f64 {
        match self {
            Element::Float(x) => x,
            Element::Integer(i) => i as f64,
        }
    }

    fn same(self, other: Element) -> bool {
        match (self, other) {
            (Element::Integer(a), Element::Integer(b)) => a == b,
            _ => self.as_f64() == other.as_f64() || (self.as_f64().is_nan() && other.as_f64().is_nan()),
        }
    }

    fn distance(self, other: Element) -> f64 {
        match (self, other) {
            (Element::Integer(a), Element::Integer(b)) => a.abs_diff(b) as f64,
            _ => {
                let distance = (self.as_f64() - other.as_f64()).abs();
                if distance.is_nan() { f64::INFINITY } else { distance }
            }
        }
    }
}

fn element(tensor: &Tensor, index: usize) -> Element {
    match tensor.dtype() {
        DType::F64 => Element::Float(tensor.elements()[index]),
        DType::F32 => Element::Float(tensor.elements::<f32>()[index].into()),
        DType::Bf16 => Element::Float(tensor.elements::<bf16>()[index].into()),
        DType::F16 => Element::Float(tensor.elements::<f16>()[index].into()),
        DType::I64 => Element::Integer(tensor.elements()[index]),
        DType::I32 => Element::Integer(tensor.elements::<i32>()[index].into()),
        DType::Bool => Element::Integer(tensor.bytes()[index].into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn floats(result: &[f32], reference: &[f32]) -> Comparison {
        let shape = [result.len() as u64];
        compare(&Tensor::from_elements(&shape, result), &Tensor::from_elements(&shape, reference))
    }

    #[test]
    fn small_elements_are_measured_by_the_large_ones() {
        let found = floats(&[1.0, 1e-5], &[1.0, 0.0]);
        assert!(found.ok, "{found:?}");
        assert!(floats(&[1e-5], &[1e-5 * 1.00019]).ok);
        let found = floats(&[1.0, 2e-4], &[1.0, 0.0]);
        assert_eq!((found.ok, found.first_wrong), (false, Some(1)));
        // rms is sqrt(1/2)
        assert!((found.max_rel - 2e-4 * 2f64.sqrt()).abs() < 1e-9, "{found:?}");
        assert!((found.max_abs - 2e-4).abs() < 1e-10);
    }

    #[test]
    fn what_is_not_finite_agrees_with_itself_only() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        assert_eq!(
            floats(&[nan, inf, -inf, 1.0], &[nan, inf, -inf, 1.0]),
            Comparison { ok: true, max_abs: 0.0, max_rel: 0.0, first_wrong: None }
        );
        for (y, r) in [(nan, 1.0), (1.0, nan), (inf, -inf), (inf, f32::MAX), (f32::MAX, inf), (nan, inf)] {
            let found = floats(&[0.5, y], &[0.5, r]);
            let expected = Comparison {
                ok: false,
                max_abs: f64::INFINITY,
                max_rel: f64::INFINITY,
                first_wrong: Some(1),
            };
            assert_eq!(found, expected, "{y} against {r}");
        }
        assert!(!floats(&[1e-30], &[0.0]).ok, "nothing is near a reference of zeros");
        assert!(floats(&[-0.0], &[0.0]).ok);
        assert!(floats(&[], &[]).ok);
    }

    #[test]
    fn integers_and_bools_are_exact() {
        let big = i64::MAX - 1;
        let found =
            compare(&Tensor::from_elements(&[2], &[5, big]), &Tensor::from_elements(&[2], &[5, i64::MAX]));
        assert_eq!((found.ok, found.max_abs, found.first_wrong), (false, 1.0, Some(1)));
        let bools = |flags: &[bool]| Tensor::from_bools(&[2], flags);
        assert!(compare(&bools(&[true, false]), &bools(&[true, false])).ok);
        assert!(!compare(&bools(&[true, false]), &bools(&[true, true])).ok);
    }

    #[test]
    fn doubles_near_the_largest_do_not_overflow() {
        let one = |x: f64| Tensor::from_elements(&[2], &[x, 1.0]);
        assert!(compare(&one(1e300), &one(1e300 * (1.0 + 1e-12))).ok);
        assert!(!compare(&one(1e300), &one(1e300 * (1.0 + 1e-10))).ok);
    }
}
