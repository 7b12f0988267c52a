//! Scalar products of few rows of `f32`, sixteen numbers at a time in the widest registers there are.
//!
//! A tile is two rows of `a` with four of `b`: eight sums stay in registers, and each number that is
//! read takes part in two to four products. The compiler does not find this by itself.
//!
//! ```text
//!        b0 b1 b2 b3     k in steps of 16, in blocks of 1024
//!   a0    +  +  +  +     every + sixteen sums, added up in halves at the end of a block
//!   a1    +  +  +  +
//! ```
//!
//! Products are rounded before they are added (nothing is fused), and the sixteen sums are added up in
//! one order, so results are the same to the last bit on every machine.
#![expect(unsafe_code, reason = "vector registers, on machines that have them")]

use super::{Call, Size};

/// Sums of a block of so many products go into the total: keeps their digits.
const BLOCK: usize = 1024;

/// Scalar products of all rows of `a` with all columns of `b`, both of which lie along `k`.
pub(super) fn dots(call: Call<'_, f32>) {
    #[cfg(target_arch = "x86_64")]
    {
        if is_x86_feature_detected!("avx512f") {
            // SAFETY: the machine has AVX-512F, as was asked just now.
            return unsafe { x86::with_avx512(call) };
        }
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the machine has AVX2, as was asked just now.
            return unsafe { x86::with_avx2(call) };
        }
    }
    // SAFETY: plain numbers are everywhere.
    unsafe { all_dots::<Plain, 1, 2>(call) }
}

/// Sixteen sums.
///
/// # Safety
/// Each function may be called only where the machine has the registers that the type is made of.
unsafe trait Sixteen: Copy {
    /// All zero.
    unsafe fn zero() -> Self;
    /// Sixteen numbers.
    unsafe fn load(x: &[f32; 16]) -> Self;
    /// `self + a b`, each product rounded first.
    unsafe fn plus_product(self, a: Self, b: Self) -> Self;
    /// The numbers.
    unsafe fn numbers(self) -> [f32; 16];
}

/// For machines without wide registers.
#[derive(Clone, Copy)]
struct Plain([f32; 16]);

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
    unsafe fn plus_product(self, a: Plain, b: Plain) -> Plain {
        Plain(std::array::from_fn(|lane| self.0[lane] + a.0[lane] * b.0[lane]))
    }
    #[inline(always)]
    unsafe fn numbers(self) -> [f32; 16] {
        self.0
    }
}

/// Tiles of `R` rows by `C` columns over the whole result, smaller ones at its edges.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn all_dots<V: Sixteen, const R: usize, const C: usize>(mut call: Call<'_, f32>) {
    let Size { m, n, .. } = call.size;
    let (whole_rows, whole_columns) = (m / R * R, n / C * C);
    for j in (0..whole_columns).step_by(C) {
        for i in (0..whole_rows).step_by(R) {
            // SAFETY: the caller's.
            unsafe { tile::<V, R, C>(&mut call, i, j) };
        }
        for i in whole_rows..m {
            // SAFETY: the caller's.
            unsafe { tile::<V, 1, C>(&mut call, i, j) };
        }
    }
    for j in whole_columns..n {
        for i in 0..m {
            // SAFETY: the caller's.
            unsafe { tile::<V, 1, 1>(&mut call, i, j) };
        }
    }
}

/// The elements of the result from `(i, j)`, `R` rows by `C` columns.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn tile<V: Sixteen, const R: usize, const C: usize>(call: &mut Call<'_, f32>, i: usize, j: usize) {
    let k = call.size.k;
    let ((a, at_a), (b, at_b)) = (call.a, call.b);
    let a: [&[f32]; R] = std::array::from_fn(|r| &a[at_a.at(i + r, 0)..][..k]);
    let b: [&[f32]; C] = std::array::from_fn(|c| &b[at_b.at(0, j + c)..][..k]);
    let mut totals = [[0.0; C]; R];
    for start in (0..k).step_by(BLOCK) {
        let end = k.min(start + BLOCK);
        // SAFETY: the caller's.
        let sums = unsafe { block::<V, R, C>(a.map(|row| &row[start..end]), b.map(|row| &row[start..end])) };
        for (total, sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
            *total += sum;
        }
    }
    for (r, totals) in totals.iter().enumerate() {
        for (c, &total) in totals.iter().enumerate() {
            call.put((i + r, j + c), total);
        }
    }
}

/// The scalar products of rows of one length.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn block<V: Sixteen, const R: usize, const C: usize>(a: [&[f32]; R], b: [&[f32]; C]) -> [[f32; C]; R] {
    let steps = b[0].len() / 16;
    let a_steps = a.map(|row| &row.as_chunks::<16>().0[..steps]);
    let b_steps = b.map(|row| &row.as_chunks::<16>().0[..steps]);
    // SAFETY: the caller's, for this and all below.
    let mut sums = unsafe { [[V::zero(); C]; R] };
    for step in 0..steps {
        // SAFETY: as above.
        let columns: [V; C] = std::array::from_fn(|c| unsafe { V::load(&b_steps[c][step]) });
        for r in 0..R {
            // SAFETY: as above.
            let row = unsafe { V::load(&a_steps[r][step]) };
            for c in 0..C {
                // SAFETY: as above.
                sums[r][c] = unsafe { sums[r][c].plus_product(row, columns[c]) };
            }
        }
    }
    let rest = steps * 16;
    std::array::from_fn(|r| {
        std::array::from_fn(|c| {
            // SAFETY: as above.
            let mut numbers = unsafe { sums[r][c].numbers() };
            for (sum, (a, b)) in numbers.iter_mut().zip(a[r][rest..].iter().zip(&b[c][rest..])) {
                *sum += a * b;
            }
            total(numbers)
        })
    })
}

/// Added up in halves.
#[inline(always)]
fn total(mut numbers: [f32; 16]) -> f32 {
    for width in [8, 4, 2, 1] {
        for lane in 0..width {
            numbers[lane] += numbers[lane + width];
        }
    }
    numbers[0]
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Call, Sixteen, all_dots};
    use std::arch::x86_64::{
        __m256, _mm256_add_ps, _mm256_loadu_ps, _mm256_mul_ps, _mm256_setzero_ps, _mm256_storeu_ps,
    };
    use std::arch::x86_64::{
        __m512, _mm512_add_ps, _mm512_loadu_ps, _mm512_mul_ps, _mm512_setzero_ps, _mm512_storeu_ps,
    };

    #[target_feature(enable = "avx512f")]
    pub fn with_avx512(call: Call<'_, f32>) {
        // SAFETY: compiled for AVX-512F, so the machine has it.
        unsafe { all_dots::<Avx512, 2, 4>(call) }
    }

    #[target_feature(enable = "avx2")]
    pub fn with_avx2(call: Call<'_, f32>) {
        // SAFETY: compiled for AVX2, so the machine has it.
        unsafe { all_dots::<Avx2, 1, 4>(call) }
    }

    #[derive(Clone, Copy)]
    struct Avx512(__m512);

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
        unsafe fn plus_product(self, a: Avx512, b: Avx512) -> Avx512 {
            // SAFETY: the caller's.
            Avx512(unsafe { _mm512_add_ps(self.0, _mm512_mul_ps(a.0, b.0)) })
        }
        #[inline(always)]
        unsafe fn numbers(self) -> [f32; 16] {
            let mut numbers = [0.0; 16];
            // SAFETY: the caller's; sixteen numbers are written to where there is room for sixteen.
            unsafe { _mm512_storeu_ps(numbers.as_mut_ptr(), self.0) };
            numbers
        }
    }

    #[derive(Clone, Copy)]
    struct Avx2(__m256, __m256);

    // SAFETY: each function asks for AVX2 only.
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
        unsafe fn plus_product(self, a: Avx2, b: Avx2) -> Avx2 {
            // SAFETY: the caller's.
            unsafe {
                let (low, high) = (_mm256_mul_ps(a.0, b.0), _mm256_mul_ps(a.1, b.1));
                Avx2(_mm256_add_ps(self.0, low), _mm256_add_ps(self.1, high))
            }
        }
        #[inline(always)]
        unsafe fn numbers(self) -> [f32; 16] {
            let mut numbers = [0.0; 16];
            // SAFETY: the caller's; twice eight numbers are written to where there is room for sixteen.
            unsafe {
                _mm256_storeu_ps(numbers.as_mut_ptr(), self.0);
                _mm256_storeu_ps(numbers[8..].as_mut_ptr(), self.1);
            }
            numbers
        }
    }
}
