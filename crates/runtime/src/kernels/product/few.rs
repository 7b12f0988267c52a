//! Products of few rows whose operands lie along `k`: an element is the scalar product of two runs, which are
//! read where they lie. Packing them, which the crates do, costs more than it saves here.

use super::{Call, Product, Size};
use crate::kernels::reduce::{Add, fold_run};
use crate::kernels::vectors::vectorised;

/// From two to so many rows are done here; one row is `gemmkit`'s, whose rate is the same.
pub(super) const FEW: usize = 8;
/// In `f32` with AVX-512, where at least [`LONG`] products are summed.
pub(super) const FEW_LONG: usize = 32;
pub(super) const LONG: usize = 512;

/// If the product has few rows, and lies so that they can be done here.
pub(super) fn lies_so<T: Product>(call: &Call<'_, T>) -> bool {
    let Size { m, k, .. } = call.size;
    k == 1 && m <= FEW || m > 1 && m <= T::few_rows(k) && call.a.1.columns == 1 && call.b.1.rows == 1
}

/// Both operands lie along `k`: one scalar product for each element.
pub(super) fn dots<T: Product>(mut call: Call<'_, T>) {
    let Size { m, k, n } = call.size;
    let ((a, at_a), (b, at_b)) = (call.a, call.b);
    for j in 0..n {
        let b = &b[at_b.at(0, j)..][..k];
        for i in 0..m {
            call.put((i, j), dot(&a[at_a.at(i, 0)..][..k], b));
        }
    }
}

/// A sum of products, never -0: in 16 lanes, in blocks that are added up in halves.
fn dot<T: Product>(a: &[T], b: &[T]) -> T {
    const SHORT: usize = 1024;
    if a.len() > SHORT {
        let half = (a.len() / 2).next_multiple_of(LANES);
        return dot(&a[..half], &b[..half]) + dot(&a[half..], &b[half..]);
    }
    short_dot(a, b)
}

const LANES: usize = 16;

vectorised! {
    fn short_dot<T: Product>(a: &[T], b: &[T]) -> T {
        let mut lanes = [T::real(0.0); LANES];
        let (a, b) = (a.chunks_exact(LANES), b.chunks_exact(LANES));
        let rest = a.remainder().iter().zip(b.remainder());
        for (a, b) in a.zip(b) {
            for lane in 0..LANES {
                lanes[lane] += a[lane] * b[lane];
            }
        }
        for (lane, (&a, &b)) in lanes.iter_mut().zip(rest) {
            *lane += a * b;
        }
        fold_run::<T, Add>(&lanes)
    }
}
