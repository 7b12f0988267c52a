//! Matrix products: one small trait, and who does which product.
//!
//! ```text
//!  contract ── product ──▶ lying down if it is tall ──▶ few rows   here: operands are read once, in place
//!           │                                      ╰──▶ engine     a crate: operands are packed first
//!           ╰─ an operand that others had before ────▶ packed     here: it was packed by the first of them
//! ```
//!
//! No product is best everywhere; [`engine`] has the table of who does what, with the measurements.
//! Every product is done by the thread that asks for it: each device is a thread already.

#[cfg(feature = "blas")]
mod blas;
mod engine;
mod few;
pub(super) mod packed;
mod registers;
mod sixteen;

use super::float::Real;
use super::vectors::has_avx512;

/// A matrix inside a slice: element `(i, j)` is at `start + i * rows + j * columns`.
#[derive(Clone, Copy, Debug)]
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

    fn at(self, i: usize, j: usize) -> usize {
        self.start + i * self.rows + j * self.columns
    }

    /// One past the last element of a matrix that is not empty.
    fn end(self, rows: usize, columns: usize) -> usize {
        self.at(rows - 1, columns - 1) + 1
    }
}

/// What a product is added to.
#[derive(Clone, Copy, Debug)]
pub(super) enum Onto<'a, T> {
    /// Nothing: it replaces what is there.
    Nothing,
    /// What is there.
    Result,
    /// One number for each row, or for each column; what is there is replaced.
    Bias(Bias<'a, T>),
}

/// Numbers that a product is added to, of which there are as many as rows or as columns.
#[derive(Clone, Copy, Debug)]
pub(super) enum Bias<'a, T> {
    /// One for each row.
    Rows(&'a [T]),
    /// One for each column.
    Columns(&'a [T]),
}

impl<T: Copy> Onto<'_, T> {
    fn transposed(self) -> Self {
        match self {
            Onto::Bias(Bias::Rows(all)) => Onto::Bias(Bias::Columns(all)),
            Onto::Bias(Bias::Columns(all)) => Onto::Bias(Bias::Rows(all)),
            same => same,
        }
    }
}

/// The sizes of a product: `m x k` times `k x n`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Size {
    pub m: usize,
    pub k: usize,
    pub n: usize,
}

/// `c = a b` or `c += a b` or `c = a b + bias`.
pub(super) struct Call<'a, T> {
    pub size: Size,
    pub a: (&'a [T], Strides),
    pub b: (&'a [T], Strides),
    pub c: (&'a mut [T], Strides),
    pub onto: Onto<'a, T>,
}

impl<'a, T: Copy> Call<'a, T> {
    /// The same product lying down: c' = b' a'.
    pub fn transposed(self) -> Call<'a, T> {
        let Size { m, k, n } = self.size;
        let turned = |(all, strides): (&'a [T], Strides)| (all, strides.transposed());
        Call {
            size: Size { m: n, k, n: m },
            a: turned(self.b),
            b: turned(self.a),
            c: (self.c.0, self.c.1.transposed()),
            onto: self.onto.transposed(),
        }
    }

    /// Puts an element of the product into the result.
    #[inline(always)]
    fn put(&mut self, (i, j): (usize, usize), value: T)
    where
        T: Real,
    {
        let c = &mut self.c.0[self.c.1.at(i, j)];
        *c = match self.onto {
            Onto::Nothing => value,
            Onto::Result => *c + value,
            Onto::Bias(Bias::Rows(all)) => value + all[i],
            Onto::Bias(Bias::Columns(all)) => value + all[j],
        };
    }
}

/// An element type whose matrices can be multiplied.
pub(super) trait Product: Real {
    /// The product.
    ///
    /// # Panics
    /// If a matrix reaches outside its slice.
    fn product(call: Call<'_, Self>) {
        let Size { m, n, .. } = call.size;
        if m == 0 || n == 0 {
            return;
        }
        upright(if n < m { call.transposed() } else { call });
    }

    /// A product with few rows, whose operands lie along `k`.
    fn few(call: Call<'_, Self>);

    /// The most rows that [`few`](Product::few) does faster than a crate, if it sums `k` products.
    fn few_rows(k: usize) -> usize;

    /// A product with many rows. No size is 0.
    fn many(call: Call<'_, Self>);
}

/// A product with no more rows than columns.
fn upright<T: Product>(mut call: Call<'_, T>) {
    let Size { m, k, n } = call.size;
    if k == 0 {
        for i in 0..m {
            for j in 0..n {
                call.put((i, j), T::real(0.0));
            }
        }
    } else if few::lies_so(&call) {
        T::few(call);
    } else {
        T::many(call);
    }
}

/// Whether a product of so many rows gains by an operand that is packed already: fewer read it in place.
pub(super) fn gains_if_packed(rows: usize) -> bool {
    rows > few::FEW
}

impl Product for f32 {
    fn few(call: Call<'_, f32>) {
        sixteen::dots(call);
    }

    fn few_rows(k: usize) -> usize {
        if k >= few::LONG && has_avx512() { few::FEW_LONG } else { few::FEW }
    }

    fn many(call: Call<'_, f32>) {
        engine::f32(call);
    }
}

impl Product for f64 {
    fn few(call: Call<'_, f64>) {
        few::dots(call);
    }

    fn few_rows(_: usize) -> usize {
        few::FEW
    }

    fn many(call: Call<'_, f64>) {
        engine::f64(call);
    }
}

#[cfg(test)]
mod tests {
    #[cfg(target_arch = "x86_64")]
    use super::packed::Form;
    use super::*;
    #[cfg(target_arch = "x86_64")]
    use crate::kernels::vectors::{Widest, at_most};

    /// A matrix of small integers in a slice of its own.
    fn matrix(rows: usize, columns: usize, across: bool) -> (Vec<f64>, Strides) {
        let (row, column) = if across { (1, rows) } else { (columns, 1) };
        let strides = Strides { start: 3, rows: row, columns: column };
        let mut all = vec![f64::NAN; strides.end(rows.max(1), columns.max(1)) + 2];
        for i in 0..rows {
            for j in 0..columns {
                all[strides.at(i, j)] = ((i * 7 + j * 5) % 11) as f64 - 5.0;
            }
        }
        (all, strides)
    }

    fn narrowed(all: &[f64]) -> Vec<f32> {
        all.iter().map(|&x| x as f32).collect()
    }

    /// Every way in which operands and result can lie, and everything a product can be added to,
    /// against the definition.
    fn check(size: Size) {
        let Size { m, k, n } = size;
        let (row_bias, column_bias): (Vec<f64>, Vec<f64>) =
            ((0..m).map(|i| i as f64 - 3.0).collect(), (0..n).map(|j| 7.0 - j as f64).collect());
        for lies in 0..8 {
            let across = |bit: usize| lies >> bit & 1 == 1;
            let (a, at_a) = matrix(m, k, across(0));
            let (b, at_b) = matrix(k, n, across(1));
            let (before, at_c) = matrix(m, n, across(2));
            for onto in 0..4 {
                let exact = |i: usize, j: usize| {
                    let sum: f64 = (0..k).map(|p| a[at_a.at(i, p)] * b[at_b.at(p, j)]).sum();
                    sum + [0.0, before[at_c.at(i, j)], row_bias[i], column_bias[j]][onto]
                };
                let (mut wide, mut narrow) = (before.clone(), narrowed(&before));
                let [a32, b32, rows32, columns32] =
                    [&a, &b, &row_bias, &column_bias].map(|all| narrowed(all));
                let at = [
                    Onto::Nothing,
                    Onto::Result,
                    Onto::Bias(Bias::Rows(&row_bias)),
                    Onto::Bias(Bias::Columns(&column_bias)),
                ];
                let at32 = [
                    Onto::Nothing,
                    Onto::Result,
                    Onto::Bias(Bias::Rows(&rows32)),
                    Onto::Bias(Bias::Columns(&columns32)),
                ];
                f64::product(Call {
                    size,
                    a: (&a, at_a),
                    b: (&b, at_b),
                    c: (&mut wide, at_c),
                    onto: at[onto],
                });
                f32::product(Call {
                    size,
                    a: (&a32, at_a),
                    b: (&b32, at_b),
                    c: (&mut narrow, at_c),
                    onto: at32[onto],
                });
                let mut expected = before.clone();
                for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                    expected[at_c.at(i, j)] = exact(i, j);
                }
                for (index, expected) in expected.into_iter().enumerate() {
                    let same = |x: f64| x == expected || x.is_nan() && expected.is_nan();
                    let found = (wide[index], narrow[index]);
                    assert!(
                        same(found.0) && same(found.1.into()),
                        "{size:?}, lying {lies}, onto {onto}: {found:?} for {expected}"
                    );
                }
            }
        }
    }

    #[test]
    fn products_of_integers_are_exact_however_they_lie() {
        for m in [0, 1, 3, 8, 9, 33] {
            for n in [0, 1, 5, 16, 37] {
                for k in [0, 1, 19, 40] {
                    check(Size { m, k, n });
                }
            }
        }
        for size in
            [Size { m: 3, k: 2100, n: 5 }, Size { m: 37, k: 300, n: 130 }, Size { m: 130, k: 33, n: 65 }]
        {
            check(size);
        }
    }

    /// Operands that are packed, in the product at hand or before, on every kind of machine that packs them.
    #[test]
    #[cfg(target_arch = "x86_64")]
    fn products_with_a_packed_operand_are_exact_however_they_lie() {
        let sizes = [(1, 1, 100), (9, 40, 96), (33, 7, 130), (8, 513, 200), (20, 1025, 97), (300, 30, 145)];
        for widest in [Widest::Plain, Widest::Avx2, Widest::Avx512] {
            at_most(widest, || {
                for ((m, k, n), lies) in sizes.iter().flat_map(|&size| (0..4).map(move |lies| (size, lies))) {
                    check_packed(Size { m, k, n }, lies);
                }
            });
        }
    }

    #[cfg(target_arch = "x86_64")]
    fn check_packed(size: Size, lies: usize) {
        let Size { m, k, n } = size;
        let Some(len) = packed::len(k, n) else { return };
        let (wide_a, at_a) = matrix(m, k, lies & 1 == 1);
        let (wide_b, at_b) = matrix(k, n, lies & 2 == 2);
        let (a, b) = (narrowed(&wide_a), narrowed(&wide_b));
        let rows: Vec<f32> = (0..m).map(|i| i as f32 - 3.0).collect();
        let columns: Vec<f32> = (0..n).map(|j| 7.0 - j as f32).collect();
        let at_c = Strides { start: 5, rows: n + 3, columns: 1 };
        let (mut form, mut laid_out) = (vec![f32::NAN; len], vec![f32::NAN; packed::rows_len(m)]);
        let onto =
            [Onto::Nothing, Onto::Result, Onto::Bias(Bias::Rows(&rows)), Onto::Bias(Bias::Columns(&columns))];
        for (turn, onto) in onto.into_iter().enumerate() {
            let mut c = vec![2.0; at_c.end(m, n) + 7];
            let form = if turn == 0 { Form::New(&mut form) } else { Form::There(&form) };
            let call = Call { size, a: (&a, at_a), b: (&b, at_b), c: (&mut c, at_c), onto };
            packed::product(call, form, &mut laid_out);
            let mut expected = vec![2.0; c.len()];
            for (i, j) in (0..m).flat_map(|i| (0..n).map(move |j| (i, j))) {
                let sum: f64 = (0..k).map(|p| wide_a[at_a.at(i, p)] * wide_b[at_b.at(p, j)]).sum();
                expected[at_c.at(i, j)] = sum as f32 + [0.0, 2.0, rows[i], columns[j]][turn];
            }
            assert_eq!(c, expected, "{size:?}, lying {lies}, turn {turn}");
        }
    }

    /// A sum of products is never -0: adding up what several devices made of it changes no sign.
    #[test]
    fn a_product_of_one_term_is_no_negative_zero() {
        for (m, n) in [(1, 1), (1, 40), (3, 5), (40, 40), (200, 300)] {
            for k in [1, 2, 4, 40] {
                let (a, b, mut c) = (vec![-1.0f32; m * k], vec![0.0f32; k * n], vec![f32::NAN; m * n]);
                let at = |rows, columns| Strides { start: 0, rows, columns };
                for at_b in [at(n, 1), at(1, k)] {
                    let call = Call {
                        size: Size { m, k, n },
                        a: (&a, at(k, 1)),
                        b: (&b, at_b),
                        c: (&mut c, at(n, 1)),
                        onto: Onto::Nothing,
                    };
                    f32::product(call);
                    assert!(c.iter().all(|x| x.to_bits() == 0), "{m} x {k} x {n}");
                }
            }
        }
    }
}
