//! Products of many rows: the crates, and who does what.
//!
//! Gigaflops of two threads, each with half of the columns, `x w^T` in `f32`, medians, on a 2-core
//! Zen 5 (AVX-512, 1 MiB of second cache a core); the last column is one product of OpenBLAS 0.3.21 with
//! its AVX-512 kernels on both cores. In brackets a 2-core Zen 3, which has AVX2 alone.
//!
//! | m, n, k | gemmkit 0.1.2 | matrixmultiply 0.3.11 | faer 0.24 | gemm 0.19 | OpenBLAS |
//! |---|---|---|---|---|---|
//! | 512, 4096, 1024 | 421 (118) | 342 (126) | 356 (130) | 343 (118) | 435 (144) |
//! | 2048, 4096, 1024 | 465 (114) | 382 (142) | 454 (126) | 427 (116) | 465 (146) |
//! | 2048, 1024, 4096 | 467 (119) | 381 (135) | 447 (123) | 421 (113) | 461 (138) |
//! | 64, 4096, 1024 | 246 (86) | 205 (99) | 242 (103) | 114 (73) | 173 (103) |
//!
//! So [`gemmkit`] where the machine has AVX-512, and [`matrixmultiply`] elsewhere. With few rows, of which
//! [`few`](super::few) does those that lie for it, [`gemmkit`] is ahead everywhere: 117 to 14 with one row of
//! `x w^T`, 249 to 87 with 8 of `x w`. With the feature `blas` the system's OpenBLAS does the others that lie as
//! it can take them. `cargo bench -p shardweave-runtime --bench ratios -- products` measures all of them but
//! faer and gemm.
#![expect(unsafe_code, reason = "products take pointers")]

use super::few::FEW;
use super::{Bias, Call, Onto, Size, Strides};
use crate::kernels::float::Real;
use crate::kernels::vectors::has_avx512;

macro_rules! engines {
    ($($real:ident),*) => {$(
        /// `c = a b + ...` by the crate that is fastest here. No size is 0.
        ///
        /// # Panics
        /// If a matrix reaches outside its slice, or a bias is not as long as rows or columns are many.
        pub(super) fn $real(call: Call<'_, $real>) {
            check(&call);
            if call.size.m <= FEW {
                return gemmkit::$real(call);
            }
            #[cfg(feature = "blas")]
            let Some(call) = super::blas::$real(call) else { return };
            if has_avx512() { gemmkit::$real(call) } else { matrixmultiply::$real(call) }
        }
    )*};
}
engines!(f32, f64);

/// What the SAFETY reasons below rest on.
fn check<T>(call: &Call<'_, T>) {
    let Size { m, k, n } = call.size;
    assert!(m > 0 && k > 0 && n > 0, "an empty product is not a crate's");
    assert!(call.a.1.end(m, k) <= call.a.0.len(), "the left matrix lies in its slice");
    assert!(call.b.1.end(k, n) <= call.b.0.len(), "the right matrix lies in its slice");
    assert!(call.c.1.end(m, n) <= call.c.0.len(), "the result lies in its slice");
    if let Onto::Bias(bias) = &call.onto {
        let (len, wanted) = match bias {
            Bias::Rows(all) => (all.len(), m),
            Bias::Columns(all) => (all.len(), n),
        };
        assert_eq!(len, wanted, "there is one number for each row or column");
    }
}

/// The crate `gemmkit`: it adds a bias while the result is in registers.
mod gemmkit {
    use super::{Bias, Call, Onto, Size};
    use ::gemmkit::{BiasDim, Parallelism, gemm_fused_unchecked, gemm_unchecked};

    macro_rules! products {
        ($($real:ident),*) => {$(
            pub fn $real(call: Call<'_, $real>) {
                let Size { m, k, n } = call.size;
                let ((a, at_a), (b, at_b), (c, at_c)) = (call.a, call.b, call.c);
                let (a, b, c) = (&a[at_a.start..], &b[at_b.start..], &mut c[at_c.start..]);
                let bias = match call.onto {
                    Onto::Nothing | Onto::Result => None,
                    Onto::Bias(Bias::Rows(all)) => Some((all, BiasDim::PerRow)),
                    Onto::Bias(Bias::Columns(all)) => Some((all, BiasDim::PerCol)),
                };
                let beta = if let Onto::Result = call.onto { 1.0 } else { 0.0 };
                // SAFETY: strides are not negative, so element (0, 0) is the first and the last one is
                // that of `end`; both lie in the slices, and the bias is long enough, as `check` has
                // asserted. Slices are at most isize::MAX bytes long, so offsets fit in isize. `c` is
                // borrowed mutably and overlaps nothing.
                unsafe {
                    match bias {
                        None => gemm_unchecked(
                            m, k, n, 1.0,
                            a.as_ptr(), at_a.rows as isize, at_a.columns as isize,
                            b.as_ptr(), at_b.rows as isize, at_b.columns as isize,
                            beta,
                            c.as_mut_ptr(), at_c.rows as isize, at_c.columns as isize,
                            Parallelism::Serial,
                        ),
                        Some((bias, dim)) => gemm_fused_unchecked(
                            m, k, n, 1.0,
                            a.as_ptr(), at_a.rows as isize, at_a.columns as isize,
                            b.as_ptr(), at_b.rows as isize, at_b.columns as isize,
                            beta,
                            c.as_mut_ptr(), at_c.rows as isize, at_c.columns as isize,
                            bias.as_ptr(), dim, true,
                            None,
                            Parallelism::Serial,
                        ),
                    }
                }
            }
        )*};
    }
    products!(f32, f64);
}

/// The crate `matrixmultiply`, which knows no bias.
mod matrixmultiply {
    use super::{Call, Onto, Size, bias_after};
    use ::matrixmultiply::{dgemm, sgemm};

    macro_rules! products {
        ($($real:ident $gemm:ident),*) => {$(
            pub fn $real(call: Call<'_, $real>) {
                bias_after(call, |call| {
                    let Size { m, k, n } = call.size;
                    let ((a, at_a), (b, at_b), (c, at_c)) = (call.a, call.b, call.c);
                    let (a, b, c) = (&a[at_a.start..], &b[at_b.start..], &mut c[at_c.start..]);
                    let beta = if let Onto::Result = call.onto { 1.0 } else { 0.0 };
                    // SAFETY: strides are not negative, so element (0, 0) is the first and the last one
                    // is that of `end`; both lie in the slices, as `check` has asserted. Slices are at
                    // most isize::MAX bytes long, so offsets fit in isize. `c` is borrowed mutably and
                    // overlaps nothing.
                    unsafe {
                        $gemm(
                            m, k, n, 1.0,
                            a.as_ptr(), at_a.rows as isize, at_a.columns as isize,
                            b.as_ptr(), at_b.rows as isize, at_b.columns as isize,
                            beta,
                            c.as_mut_ptr(), at_c.rows as isize, at_c.columns as isize,
                        );
                    }
                });
            }
        )*};
    }
    products!(f32 sgemm, f64 dgemm);
}

/// So many columns are done before their bias is added: matrices are packed by so many anyhow.
const COLUMNS: usize = 1024;

/// A product by a crate that knows no bias: it is added to a block of columns as soon as it is done.
fn bias_after<T: Real>(call: Call<'_, T>, multiply: impl Fn(Call<'_, T>)) {
    let Onto::Bias(bias) = call.onto else {
        return multiply(call);
    };
    let Size { m, k, n } = call.size;
    for first in (0..n).step_by(COLUMNS) {
        let columns = COLUMNS.min(n - first);
        let from = |at: Strides| Strides { start: at.at(0, first), ..at };
        multiply(Call {
            size: Size { m, k, n: columns },
            a: call.a,
            b: (call.b.0, from(call.b.1)),
            c: (&mut *call.c.0, from(call.c.1)),
            onto: Onto::Nothing,
        });
        for i in 0..m {
            for j in first..first + columns {
                let bias = match bias {
                    Bias::Rows(all) => all[i],
                    Bias::Columns(all) => all[j],
                };
                call.c.0[call.c.1.at(i, j)] += bias;
            }
        }
    }
}
