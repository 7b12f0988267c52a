//! The system's OpenBLAS, where the feature `blas` asks for it.
//!
//! It has threads of its own, which would fight with those that play devices for the cores: before the
//! first product it is told to use one thread. That holds for the whole process.
#![expect(unsafe_code, reason = "functions of a C library")]

use super::{Bias, Call, Onto, Size, Strides};
use crate::kernels::vectors::has_avx512;
use std::ffi::{CStr, c_char, c_int};
use std::sync::OnceLock;

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
            fn openblas_get_corename() -> *const c_char;
        }

        $(
            /// Does the product, if OpenBLAS is the faster one here and takes matrices that lie so; else the
            /// call comes back.
            pub(super) fn $real(call: Call<'_, $real>) -> Option<Call<'_, $real>> {
                let mut call = if call.c.1.columns == 1 { call } else { call.transposed() };
                let Some(Lying { size: [m, n, k], a, b, ldc }) = Lying::of(&call) else {
                    return Some(call);
                };
                if !is_ready() {
                    return Some(call);
                }
                let beta = match call.onto {
                    Onto::Nothing => 0.0,
                    Onto::Result => 1.0,
                    Onto::Bias(bias) => {
                        lay_down(bias, &mut call);
                        1.0
                    }
                };
                // SAFETY: the engine has checked that all elements of the matrices lie in their slices;
                // `Lying` that strides and sizes are what the numbers say. `c` is borrowed mutably and
                // overlaps nothing.
                unsafe {
                    $gemm(
                        ROW_MAJOR, a.0, b.0, m, n, k, 1.0,
                        call.a.0[call.a.1.start..].as_ptr(), a.1,
                        call.b.0[call.b.1.start..].as_ptr(), b.1,
                        beta,
                        call.c.0[call.c.1.start..].as_mut_ptr(), ldc,
                    );
                }
                None
            }
        )*
    };
}
products!(f32 cblas_sgemm, f64 cblas_dgemm);

/// A bias where the result will be, for the product to be added to: OpenBLAS writes zeros there otherwise.
fn lay_down<T: Copy>(bias: Bias<'_, T>, call: &mut Call<'_, T>) {
    let Size { m, n, .. } = call.size;
    for i in 0..m {
        let row = &mut call.c.0[call.c.1.at(i, 0)..][..n];
        match bias {
            Bias::Rows(all) => row.fill(all[i]),
            Bias::Columns(all) => row.copy_from_slice(all),
        }
    }
}

/// Kernels of OpenBLAS for AVX-512, by the names it gives them.
const FOR_AVX512: [&[u8]; 3] = [b"SkylakeX", b"Cooperlake", b"SapphireRapids"];

/// Whether OpenBLAS is to be used, which from then on uses one thread. It is not where the machine has AVX-512
/// and OpenBLAS does not know: its kernels for AVX2 reach half the rate of the crate's for AVX-512.
fn is_ready() -> bool {
    static READY: OnceLock<bool> = OnceLock::new();
    *READY.get_or_init(|| {
        // SAFETY: the first takes a number, the second gives a string that stays; both may be called at any
        // time.
        let kernels = unsafe {
            openblas_set_num_threads(1);
            CStr::from_ptr(openblas_get_corename())
        };
        let known = |name: &&[u8]| name.eq_ignore_ascii_case(kernels.to_bytes());
        !has_avx512() || FOR_AVX512.iter().any(known)
    })
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
