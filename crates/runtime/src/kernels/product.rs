//! Matrix products: one small trait before the crate that does them.
//!
//! `unsafe`: the crate takes pointers and strides. Products
//! of few rows are done here: packing, which the crate does, costs more than it saves there.
#![expect(unsafe_code, reason = "the product takes pointers")]

use super::float::Real;
use super::reduce::{Add, fold_run};
use super::vectors::vectorised;

/// A matrix inside a slice: element `(i, j)` is at `start + i * rows + j * columns`.
#[derive(Clone, Copy)]
pub(super) struct Strides {
    /// Where the first element is.
    pub start: usize,
    /// From one row to the next.
    pub rows: usize,
    /// From one column to the next.
    pub columns: usize,
}

impl Strides {
    fn transposed(self) -> Strides {
        Strides { rows: self.columns, columns: self.rows, ..self }
    }

    /// One past the last element of a matrix that is not empty.
    fn end(self, rows: usize, columns: usize) -> usize {
        self.start + (rows - 1) * self.rows + (columns - 1) * self.columns + 1
    }
}

/// Whether a product replaces what is there or is added to it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Onto {
    /// Replaces it.
    Nothing,
    /// Is added to it.
    Result,
}

/// The sizes of a product: `m x k` times `k x n`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

/// An element type whose matrices can be multiplied.
pub(super) trait Product: Real {
    /// `c = a b` or `c += a b`.
    ///
    /// # Panics
    /// If a matrix reaches outside its slice.
    fn product(
        size: Size,
        a: (&[Self], Strides),
        b: (&[Self], Strides),
        c: (&mut [Self], Strides),
        onto: Onto,
    ) {
        if size.m == 0 || size.n == 0 {
            return;
        }
        if size.n < size.m {
            // The same product lying down: c' = b' a'.
            let size = Size { m: size.n, k: size.k, n: size.m };
            let (a, b) = ((b.0, b.1.transposed()), (a.0, a.1.transposed()));
            return upright(size, a, b, (c.0, c.1.transposed()), onto);
        }
        upright(size, a, b, c, onto);
    }

    /// The crate's product. No size is 0.
    fn general(
        size: Size,
        a: (&[Self], Strides),
        b: (&[Self], Strides),
        c: (&mut [Self], Strides),
        onto: Onto,
    );
}

/// Up to so many rows are done here.
const FEW: usize = 8;

/// A product with no more rows than columns.
fn upright<T: Product>(
    size: Size,
    a: (&[T], Strides),
    b: (&[T], Strides),
    c: (&mut [T], Strides),
    onto: Onto,
) {
    if size.k == 0 {
        if onto == Onto::Nothing {
            for i in 0..size.m {
                for j in 0..size.n {
                    c.0[c.1.start + i * c.1.rows + j * c.1.columns] = T::real(0.0);
                }
            }
        }
    } else if size.m <= FEW && a.1.columns == 1 && b.1.rows == 1 {
        dots(size, a, b, c, onto);
    } else if size.m <= FEW && b.1.columns == 1 {
        sums_of_rows(size, a, b, c, onto);
    } else {
        T::general(size, a, b, c, onto);
    }
}

/// Both operands lie along `k`: one scalar product for each element.
fn dots<T: Product>(size: Size, a: (&[T], Strides), b: (&[T], Strides), c: (&mut [T], Strides), onto: Onto) {
    for j in 0..size.n {
        let b = &b.0[b.1.start + j * b.1.columns..][..size.k];
        for i in 0..size.m {
            let a = &a.0[a.1.start + i * a.1.rows..][..size.k];
            put(&mut c.0[c.1.start + i * c.1.rows + j * c.1.columns], dot(a, b), onto);
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
fn sums_of_rows<T: Product>(
    size: Size,
    a: (&[T], Strides),
    b: (&[T], Strides),
    c: (&mut [T], Strides),
    onto: Onto,
) {
    for first in (0..size.n).step_by(WIDTH) {
        let width = WIDTH.min(size.n - first);
        let mut sums = [[T::real(0.0); WIDTH]; FEW];
        for k in 0..size.k {
            let row = &b.0[b.1.start + k * b.1.rows + first..][..width];
            let factor = |i: usize| a.0[a.1.start + i * a.1.rows + k * a.1.columns];
            let factors: [T; FEW] =
                std::array::from_fn(|i| if i < size.m { factor(i) } else { T::real(0.0) });
            add_scaled(&mut sums[..size.m], &factors, row);
        }
        for (i, sums) in sums[..size.m].iter().enumerate() {
            for (j, &sum) in sums[..width].iter().enumerate() {
                put(&mut c.0[c.1.start + i * c.1.rows + (first + j) * c.1.columns], sum, onto);
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

fn put<T: Product>(c: &mut T, value: T, onto: Onto) {
    match onto {
        Onto::Nothing => *c = value,
        Onto::Result => *c += value,
    }
}

macro_rules! products {
    ($($real:ident $gemm:ident),*) => {$(
        impl Product for $real {
            fn general(
                Size { m, k, n }: Size,
                (a, at_a): (&[$real], Strides),
                (b, at_b): (&[$real], Strides),
                (c, at_c): (&mut [$real], Strides),
                onto: Onto,
            ) {
                assert!(m > 0 && k > 0 && n > 0, "an empty product is not the crate's");
                assert!(at_a.end(m, k) <= a.len(), "the left matrix lies in its slice");
                assert!(at_b.end(k, n) <= b.len(), "the right matrix lies in its slice");
                assert!(at_c.end(m, n) <= c.len(), "the result lies in its slice");
                let beta = if onto == Onto::Nothing { 0.0 } else { 1.0 };
                // SAFETY: strides are not negative, so element (0, 0) is the first and the last one is
                // that of `end`; both lie in the slices, as asserted. Slices are at most isize::MAX
                // bytes long, so offsets fit in isize. `c` is borrowed mutably and overlaps nothing.
                unsafe {
                    matrixmultiply::$gemm(
                        m,
                        k,
                        n,
                        1.0,
                        a[at_a.start..].as_ptr(),
                        at_a.rows as isize,
                        at_a.columns as isize,
                        b[at_b.start..].as_ptr(),
                        at_b.rows as isize,
                        at_b.columns as isize,
                        beta,
                        c[at_c.start..].as_mut_ptr(),
                        at_c.rows as isize,
                        at_c.columns as isize,
                    );
                }
            }
        }
    )*};
}
products!(f32 sgemm, f64 dgemm);
