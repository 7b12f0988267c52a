//! The system's OpenBLAS, where the feature `blas` asks for it.
//!
//! It has threads of its own, which would fight with those that play devices for the cores: before the
//! first product it is told to use one thread. That holds for the whole process.
#![expect(unsafe_code, reason = "functions of a C library")]

use super::engine::bias_after;
use super::{Call, Onto, Size, Strides};
use std::ffi::c_int;
use std::sync::Once;

/// `CblasRowMajor`, `CblasNoTrans`, `CblasTrans` of `cblas.h`.
const ROW_MAJOR: c_int = 101;
const AS_IT_IS: c_int = 111;
const TRANSPOSED: c_int = 112;

macro_rules! products {
    ($($real:ident $gemm:ident),*) => {
        unsafe extern "C" {
            $(fn $gemm(
                order: c_int, a_transposed: c_int, b_transposed: c_int,
                m: c_int, n: c_int, k: c_int,
                alpha: $real, a: *const $real, lda: c_int, b: *const $real, ldb: c_int,
                beta: $real, c: *mut $real, ldc: c_int,
            );)*
            fn openblas_set_num_threads(threads: c_int);
        }

        $(
            /// The product, if OpenBLAS takes matrices that lie so; else the call comes back.
            pub(super) fn $real(call: Call<'_, $real>) -> Result<(), Call<'_, $real>> {
                let call = if call.c.1.columns == 1 { call } else { call.transposed() };
                if Lying::of(&call).is_none() {
                    return Err(call);
                }
                one_thread();
                bias_after(call, |call| {
                    let Lying { size: [m, n, k], a, b, ldc } =
                        Lying::of(&call).expect("a block of columns lies as all columns do");
                    let beta = if let Onto::Result = call.onto { 1.0 } else { 0.0 };
                    // SAFETY: the engine has checked that all elements of the matrices lie in their
                    // slices; `Lying` that strides and sizes are what the numbers say. `c` is borrowed
                    // mutably and overlaps nothing.
                    unsafe {
                        $gemm(
                            ROW_MAJOR, a.0, b.0, m, n, k, 1.0,
                            call.a.0[call.a.1.start..].as_ptr(), a.1,
                            call.b.0[call.b.1.start..].as_ptr(), b.1,
                            beta,
                            call.c.0[call.c.1.start..].as_mut_ptr(), ldc,
                        );
                    }
                });
                Ok(())
            }
        )*
    };
}
products!(f32 cblas_sgemm, f64 cblas_dgemm);

/// Tells OpenBLAS to use one thread.
fn one_thread() {
    static TOLD: Once = Once::new();
    // SAFETY: it takes a number and may be called at any time.
    TOLD.call_once(|| unsafe { openblas_set_num_threads(1) });
}

/// A call in the words of `cblas.h`: sizes, and for each matrix whether it is transposed and how many
/// elements one of its rows (or columns) is from the next.
struct Lying {
    size: [c_int; 3],
    a: (c_int, c_int),
    b: (c_int, c_int),
    ldc: c_int,
}

impl Lying {
    /// If the matrices lie so, and the numbers are not too large.
    fn of<T>(call: &Call<'_, T>) -> Option<Lying> {
        let Size { m, k, n } = call.size;
        let number = |n: usize| c_int::try_from(n).ok();
        let lies = |at: Strides, rows: usize, columns: usize| match at {
            Strides { columns: 1, rows: apart, .. } if apart >= columns => Some((AS_IT_IS, number(apart)?)),
            Strides { rows: 1, columns: apart, .. } if apart >= rows => Some((TRANSPOSED, number(apart)?)),
            _ => None,
        };
        let (AS_IT_IS, ldc) = lies(call.c.1, m, n)? else { return None };
        let size = [number(m)?, number(n)?, number(k)?];
        Some(Lying { size, a: lies(call.a.1, m, k)?, b: lies(call.b.1, k, n)?, ldc })
    }
}
