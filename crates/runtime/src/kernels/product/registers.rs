//! Sixteen numbers of `f32` in the widest registers of a machine: what the loops of
//! [`sixteen`](super::sixteen) and [`packed`](super::packed) are made of.
#![expect(unsafe_code, reason = "vector registers, on machines that have them")]

#[cfg(target_arch = "x86_64")]
pub(super) use x86::{Avx2, Avx512};

/// Sixteen numbers.
///
/// # Safety
/// Each function may be called only where the machine has the registers that the type is made of, and
/// [`plus_product_fused`](Sixteen::plus_product_fused) of two registers of eight only where it has FMA.
pub(super) unsafe trait Sixteen: Copy {
    /// All zero.
    unsafe fn zero() -> Self;
    /// Sixteen numbers.
    unsafe fn load(x: &[f32; 16]) -> Self;
    /// One number sixteen times.
    unsafe fn splat(x: f32) -> Self;
    /// Puts them where there are sixteen.
    unsafe fn store(self, x: &mut [f32; 16]);
    /// `self + a`.
    unsafe fn plus(self, a: Self) -> Self;
    /// `self + a b`, each product rounded first.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// `self + a b`, rounded once if the machine can.
    unsafe fn plus_product_fused(self, a: Self, b: Self) -> Self;
    /// All of them added up: the upper half to the lower half until one is left.
    unsafe fn total(self) -> f32;
    /// Asks for a cache line that will be read soon, if it can be asked for. It may be no memory at all.
    #[inline(always)]
    unsafe fn fetch(_: *const f32) {}
}

/// For machines without wide registers.
#[derive(Clone, Copy)]
pub(super) struct Plain([f32; 16]);

// SAFETY: it is made of plain numbers.
unsafe impl Sixteen for Plain {
    #[inline(always)]
    unsafe fn zero() -> Plain {
        Plain([0.0; 16])
    }
    #[inline(always)]
    unsafe fn load(x: &[f32; 16]) -> Plain {
        Plain(*x)
    }
    #[inline(always)]
    unsafe fn splat(x: f32) -> Plain {
        Plain([x; 16])
    }
    #[inline(always)]
    unsafe fn store(self, x: &mut [f32; 16]) {
        *x = self.0;
    }
    #[inline(always)]
    unsafe fn plus(self, a: Plain) -> Plain {
        Plain(std::array::from_fn(|lane| self.0[lane] + a.0[lane]))
    }
    #[inline(always)]
    unsafe fn plus_product(self, a: Plain, b: Plain) -> Plain {
        Plain(std::array::from_fn(|lane| self.0[lane] + a.0[lane] * b.0[lane]))
    }
    #[inline(always)]
    unsafe fn plus_product_fused(self, a: Plain, b: Plain) -> Plain {
        // SAFETY: plain numbers are everywhere. (Fused, each would be a call of a function.)
        unsafe { self.plus_product(a, b) }
    }
    #[inline(always)]
    unsafe fn total(mut self) -> f32 {
        for width in [8, 4, 2, 1] {
            for lane in 0..width {
                self.0[lane] += self.0[lane + width];
            }
        }
        self.0[0]
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::Sixteen;
    use std::arch::x86_64::{
        __m128, __m256, _MM_HINT_T0, _mm_add_ps, _mm_add_ss, _mm_cvtss_f32, _mm_movehdup_ps, _mm_movehl_ps,
        _mm_prefetch, _mm256_add_ps, _mm256_castpd_ps, _mm256_castps256_ps128, _mm256_extractf128_ps,
        _mm256_fmadd_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_set1_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };
    use std::arch::x86_64::{
        __m512, _mm512_add_ps, _mm512_castpd512_pd256, _mm512_castps_pd, _mm512_extractf64x4_pd,
        _mm512_fmadd_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_set1_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    /// Eight sums added up.
    ///
    /// # Safety
    /// The machine has AVX.
    #[inline(always)]
    unsafe fn total_of_eight(x: __m256) -> f32 {
        // SAFETY: the caller's.
        unsafe { total_of_four(_mm_add_ps(_mm256_castps256_ps128(x), _mm256_extractf128_ps::<1>(x))) }
    }

    /// Four sums added up.
    ///
    /// # Safety
    /// The machine has SSE3.
    #[inline(always)]
    unsafe fn total_of_four(x: __m128) -> f32 {
        // SAFETY: the caller's.
        unsafe {
            let two = _mm_add_ps(x, _mm_movehl_ps(x, x));
            _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)))
        }
    }

    /// In one register; needs AVX-512F.
    #[derive(Clone, Copy)]
    pub struct Avx512(__m512);

    // SAFETY: each function asks for AVX-512F only.
    unsafe impl Sixteen for Avx512 {
        #[inline(always)]
        unsafe fn zero() -> Avx512 {
            // SAFETY: the caller's.
            Avx512(unsafe { _mm512_setzero_ps() })
        }
        #[inline(always)]
        unsafe fn load(x: &[f32; 16]) -> Avx512 {
            // SAFETY: the caller's; sixteen numbers are read from where there are sixteen.
            Avx512(unsafe { _mm512_loadu_ps(x.as_ptr()) })
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Avx512 {
            // SAFETY: the caller's.
            Avx512(unsafe { _mm512_set1_ps(x) })
        }
        #[inline(always)]
        unsafe fn store(self, x: &mut [f32; 16]) {
            // SAFETY: the caller's; sixteen numbers are written to where there are sixteen.
            unsafe { _mm512_storeu_ps(x.as_mut_ptr(), self.0) };
        }
        #[inline(always)]
        unsafe fn plus(self, a: Avx512) -> Avx512 {
            // SAFETY: the caller's.
            Avx512(unsafe { _mm512_add_ps(self.0, a.0) })
        }
        #[inline(always)]
        unsafe fn plus_product_fused(self, a: Avx512, b: Avx512) -> Avx512 {
            // SAFETY: the caller's.
            Avx512(unsafe { _mm512_fmadd_ps(a.0, b.0, self.0) })
        }
        #[inline(always)]
        unsafe fn plus_product(self, a: Avx512, b: Avx512) -> Avx512 {
            // SAFETY: the caller's.
            Avx512(unsafe { _mm512_add_ps(self.0, _mm512_mul_ps(a.0, b.0)) })
        }
        #[inline(always)]
        unsafe fn total(self) -> f32 {
            // SAFETY: the caller's.
            unsafe {
                let all = _mm512_castps_pd(self.0);
                let [low, high] = [_mm512_castpd512_pd256(all), _mm512_extractf64x4_pd::<1>(all)];
                total_of_eight(_mm256_add_ps(_mm256_castpd_ps(low), _mm256_castpd_ps(high)))
            }
        }
        #[inline(always)]
        unsafe fn fetch(at: *const f32) {
            // SAFETY: nothing is read.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
    }

    /// In two registers; needs AVX2.
    #[derive(Clone, Copy)]
    pub struct Avx2(__m256, __m256);

    // SAFETY: each function asks for AVX2 only, but for the one that asks for FMA.
    unsafe impl Sixteen for Avx2 {
        #[inline(always)]
        unsafe fn zero() -> Avx2 {
            // SAFETY: the caller's.
            unsafe { Avx2(_mm256_setzero_ps(), _mm256_setzero_ps()) }
        }
        #[inline(always)]
        unsafe fn load(x: &[f32; 16]) -> Avx2 {
            // SAFETY: the caller's; twice eight numbers are read from where there are sixteen.
            unsafe { Avx2(_mm256_loadu_ps(x.as_ptr()), _mm256_loadu_ps(x[8..].as_ptr())) }
        }
        #[inline(always)]
        unsafe fn splat(x: f32) -> Avx2 {
            // SAFETY: the caller's.
            unsafe { Avx2(_mm256_set1_ps(x), _mm256_set1_ps(x)) }
        }
        #[inline(always)]
        unsafe fn store(self, x: &mut [f32; 16]) {
            // SAFETY: the caller's; twice eight numbers are written to where there are sixteen.
            unsafe {
                _mm256_storeu_ps(x.as_mut_ptr(), self.0);
                _mm256_storeu_ps(x[8..].as_mut_ptr(), self.1);
            }
        }
        #[inline(always)]
        unsafe fn plus(self, a: Avx2) -> Avx2 {
            // SAFETY: the caller's.
            unsafe { Avx2(_mm256_add_ps(self.0, a.0), _mm256_add_ps(self.1, a.1)) }
        }
        #[inline(always)]
        unsafe fn plus_product_fused(self, a: Avx2, b: Avx2) -> Avx2 {
            // SAFETY: the caller's.
            unsafe { Avx2(_mm256_fmadd_ps(a.0, b.0, self.0), _mm256_fmadd_ps(a.1, b.1, self.1)) }
        }
        #[inline(always)]
        unsafe fn plus_product(self, a: Avx2, b: Avx2) -> Avx2 {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1));
                Avx2(_mm256_add_ps(self.0, low), _mm256_add_ps(self.1, high))
            }
        }
        #[inline(always)]
        unsafe fn total(self) -> f32 {
            // SAFETY: the caller's.
            unsafe { total_of_eight(_mm256_add_ps(self.0, self.1)) }
        }
        #[inline(always)]
        unsafe fn fetch(at: *const f32) {
            // SAFETY: nothing is read.
            unsafe { _mm_prefetch::<_MM_HINT_T0>(at.cast()) };
        }
    }
}
