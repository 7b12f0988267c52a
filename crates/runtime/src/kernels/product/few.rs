//! Products of few rows: operands are read once, where they lie. Packing them, which the crates do,
//! costs more than it saves here.

use super::{Call, Product, Size, Strides};
use crate::kernels::reduce::{Add, fold_run};
use crate::kernels::vectors::vectorised;

/// How the operands of a product of few rows lie.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(in crate::kernels) enum FewRows {
    /// Both along the summed dim: an element is the scalar product of two runs.
    AlongK,
    /// The right one along the columns: a row of the result is a sum of scaled rows.
    AlongN,
}

/// Up to so many rows are done here. The operands and the result lie as in `x w^T`: gigaflops of two threads with
/// half of the 4096 columns each, k = 1024, on a 2-core Zen 5 (AVX-512) and with AVX2 alone.
///
/// | rows | here | gemmkit 0.1.2 | faer 0.24 | matrixmultiply 0.3.11 |
/// |---|---|---|---|---|
/// | 4 | 81, AVX2 101 | 17, 38 | 30, 58 | 20, 23 |
/// | 8 | 92, AVX2 131 | 48, 62 | 52, 100 | 45, 83 |
/// | 16 | 84, AVX2 121 | 46, 101 | 79, 158 | 85, 124 |
const FEW: usize = 8;

impl FewRows {
    /// If the product has few rows, and lies so that they can be done here.
    pub fn of<T>(call: &Call<'_, T>) -> Option<FewRows> {
        let (a, b): (Strides, Strides) = (call.a.1, call.b.1);
        match call.size {
            Size { m, .. } if m > FEW => None,
            Size { k, .. } if k == 1 || a.columns == 1 && b.rows == 1 => Some(FewRows::AlongK),
            Size { n, .. } if b.columns == 1 || n == 1 => Some(FewRows::AlongN),
            _ => None,
        }
    }
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

/// Columns that are worked on together, so that the sums stay in registers and the first cache.
const WIDTH: usize = 128;

/// `b` lies along `n`: rows of `b`, scaled and added up.
pub(super) fn sums_of_rows<T: Product>(mut call: Call<'_, T>) {
    let Size { m, k, n } = call.size;
    let ((a, at_a), (b, at_b)) = (call.a, call.b);
    for first in (0..n).step_by(WIDTH) {
        let width = WIDTH.min(n - first);
        let mut sums = [[T::real(0.0); WIDTH]; FEW];
        for p in 0..k {
            let row = &b[at_b.at(p, first)..][..width];
            let factors: [T; FEW] =
                std::array::from_fn(|i| if i < m { a[at_a.at(i, p)] } else { T::real(0.0) });
            add_scaled(&mut sums[..m], &factors, row);
        }
        for (i, sums) in sums[..m].iter().enumerate() {
            for (j, &sum) in sums[..width].iter().enumerate() {
                call.put((i, first + j), sum);
            }
        }
    }
}

vectorised! {
    fn add_scaled<T: Product>(sums: &mut [[T; WIDTH]], factors: &[T; FEW], row: &[T]) {
        for (sums, &factor) in sums.iter_mut().zip(factors) {
            sums.iter_mut().zip(row).for_each(|(sum, &x)| *sum += factor * x);
        }
    }
}
