//! Scalar products of few rows of `f32`, sixteen numbers at a time in the widest registers there are.
//!
//! A tile is some rows of `a` with some columns of `b`: their sums stay in registers, and each number that
//! is read takes part in several products. Columns of `b` are read where they lie, and those of the next
//! tile are fetched meanwhile. The rows of `a` are needed again and again: a block of them is laid out in
//! the order in which it is read, so that it stays in the first cache (rows that are a power of two apart
//! would push each other out of it).
//!
//! ```text
//!        b0 b1     k in steps of 16, in blocks of 1024
//!   a0    +  +
//!   a1    +  +     every + sixteen sums, added up in halves at the end of a block
//!   a2    +  +
//!   a3    +  +
//! ```
//!
//! Products are rounded before they are added (nothing is fused), and the sixteen sums are added up in
//! one order, so results are the same to the last bit on every machine.
#![expect(unsafe_code, reason = "vector registers, on machines that have them")]

use super::registers::{Plain, Sixteen};
use super::{Call, Size};
#[cfg(target_arch = "x86_64")]
use crate::kernels::vectors::{Widest, widest};
use std::mem::MaybeUninit;

/// Steps of sixteen in a block: sums of a block go into the total, which keeps their digits.
const STEPS: usize = 64;

/// So many rows are done together.
const ROWS: usize = 16;

/// Scalar products of all rows of `a` with all columns of `b`, both of which lie along `k`.
///
/// The tiles are the fastest of 1 x 1 to 8 x 6 (`ratios -- products`).
pub(super) fn dots(call: Call<'_, f32>) {
    #[cfg(target_arch = "x86_64")]
    match widest() {
        // SAFETY: the machine has AVX-512F, as `widest` says.
        Widest::Avx512 => return unsafe { x86::with_avx512(call) },
        // SAFETY: the machine has AVX2, as `widest` says.
        Widest::Avx2 => return unsafe { x86::with_avx2(call) },
        Widest::Plain => {}
    }
    // SAFETY: plain numbers are everywhere.
    unsafe { all_dots::<Plain, 1, 2>(call) }
}

/// A block of rows in groups of `R`, and in each group sixteen numbers of every row after the other. Rows
/// that are missing in the last group, and numbers in the last step, are 0.
#[repr(align(64))]
struct Block([MaybeUninit<[f32; 16]>; ROWS * STEPS]);

/// Tiles of `R` rows by `C` columns over the whole result, narrower ones at its right edge.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn all_dots<V: Sixteen, const R: usize, const C: usize>(mut call: Call<'_, f32>) {
    const { assert!(ROWS.is_multiple_of(R), "groups of rows fill a block") };
    let Size { m, k, n } = call.size;
    let mut block = Block([const { MaybeUninit::uninit() }; ROWS * STEPS]);
    for first in (0..m).step_by(ROWS) {
        let rows = ROWS.min(m - first);
        for start in (0..k).step_by(16 * STEPS) {
            let len = (16 * STEPS).min(k - start);
            let groups = lay_out::<R>(&call, (first, rows), (start, len), &mut block);
            let whole = n / C * C;
            for j in (0..whole).step_by(C) {
                for (group, rows) in groups.chunks_exact(len.div_ceil(16)).enumerate() {
                    // SAFETY: the caller's.
                    let totals = unsafe { tile::<V, R, C>(&call, rows, (start, len), j) };
                    put(&mut call, start, (first + group * R, j), &totals);
                }
            }
            for j in whole..n {
                for (group, rows) in groups.chunks_exact(len.div_ceil(16)).enumerate() {
                    // SAFETY: the caller's.
                    let totals = unsafe { tile::<V, R, 1>(&call, rows, (start, len), j) };
                    put(&mut call, start, (first + group * R, j), &totals);
                }
            }
        }
    }
}

/// Lays rows of `a` out, from one index of `k` on. Every element is a step of a group.
#[inline(always)]
fn lay_out<'b, const R: usize>(
    call: &Call<'_, f32>,
    (first, rows): (usize, usize),
    (start, len): (usize, usize),
    block: &'b mut Block,
) -> &'b [[[f32; 16]; R]] {
    let (a, at) = call.a;
    let steps = len.div_ceil(16);
    let used = &mut block.0[..rows.div_ceil(R) * steps * R];
    for (group, room) in used.chunks_exact_mut(steps * R).enumerate() {
        for r in 0..R {
            let i = group * R + r;
            let row = if i < rows { &a[at.at(first + i, start)..][..len] } else { &[] };
            let mut numbers = row.chunks(16);
            for step in 0..steps {
                let mut sixteen = [0.0; 16];
                if let Some(numbers) = numbers.next() {
                    sixteen[..numbers.len()].copy_from_slice(numbers);
                }
                room[step * R + r].write(sixteen);
            }
        }
    }
    // SAFETY: all of these were written just now.
    let used = unsafe { used.assume_init_ref() };
    used.as_chunks::<R>().0
}

/// Scalar products of a group of rows with the columns from `j`, of `len` indices of `k`.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn tile<V: Sixteen, const R: usize, const C: usize>(
    call: &Call<'_, f32>,
    rows: &[[[f32; 16]; R]],
    (start, len): (usize, usize),
    j: usize,
) -> [[f32; C]; R] {
    let (b, at) = call.b;
    let (steps, rest) = (len / 16, len % 16);
    let (mut whole, mut last) = ([&[][..]; C], [[0.0; 16]; C]);
    for c in 0..C {
        let (sixteens, others) = b[at.at(start, j + c)..][..len].as_chunks::<16>();
        whole[c] = &sixteens[..steps];
        last[c][..rest].copy_from_slice(others);
    }
    // SAFETY: the caller's, for this and all below.
    let mut sums = unsafe { [[V::zero(); C]; R] };
    for (step, row) in rows[..steps].iter().enumerate() {
        let mut columns = [&[0.0; 16]; C];
        for c in 0..C {
            columns[c] = &whole[c][step];
            // SAFETY: as above; what is fetched need not be there.
            unsafe { V::fetch(columns[c].as_ptr().wrapping_add(C * at.columns)) };
        }
        // SAFETY: as above.
        unsafe { add_products(&mut sums, row, columns) };
    }
    if rest > 0 {
        // SAFETY: as above.
        unsafe { add_products(&mut sums, &rows[steps], last.each_ref()) };
    }
    let mut totals = [[0.0; C]; R];
    for (total, sum) in totals.as_flattened_mut().iter_mut().zip(sums.as_flattened()) {
        // SAFETY: as above.
        *total = unsafe { sum.total() };
    }
    totals
}

/// One step of a tile. (A closure would be compiled without the registers; this is all loops.)
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn add_products<V: Sixteen, const R: usize, const C: usize>(
    sums: &mut [[V; C]; R],
    rows: &[[f32; 16]; R],
    columns: [&[f32; 16]; C],
) {
    // SAFETY: the caller's, for this and all below.
    let mut b = unsafe { [V::zero(); C] };
    for c in 0..C {
        // SAFETY: as above.
        b[c] = unsafe { V::load(columns[c]) };
    }
    for r in 0..R {
        // SAFETY: as above.
        let a = unsafe { V::load(&rows[r]) };
        for c in 0..C {
            // SAFETY: as above.
            sums[r][c] = unsafe { sums[r][c].plus_product(a, b[c]) };
        }
    }
}

/// Puts a tile's totals of the block from `start` into the result: the first in place of what is there, the
/// others onto it.
#[inline(always)]
fn put<const R: usize, const C: usize>(
    call: &mut Call<'_, f32>,
    start: usize,
    (i, j): (usize, usize),
    totals: &[[f32; C]; R],
) {
    let rows = R.min(call.size.m - i);
    for (r, totals) in totals[..rows].iter().enumerate() {
        for (c, &total) in totals.iter().enumerate() {
            match start {
                0 => call.put((i + r, j + c), total),
                _ => call.c.0[call.c.1.at(i + r, j + c)] += total,
            }
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{Call, all_dots};
    use crate::kernels::product::registers::{Avx2, Avx512};

    #[target_feature(enable = "avx512f")]
    pub fn with_avx512(call: Call<'_, f32>) {
        // SAFETY: compiled for AVX-512F, so the machine has it.
        unsafe {
            match call.size.m {
                1 => all_dots::<Avx512, 1, 4>(call),
                2 => all_dots::<Avx512, 2, 2>(call),
                3 | 4 => all_dots::<Avx512, 4, 2>(call),
                5..=8 => all_dots::<Avx512, 8, 2>(call),
                _ => all_dots::<Avx512, 4, 4>(call),
            }
        }
    }

    #[target_feature(enable = "avx2")]
    pub fn with_avx2(call: Call<'_, f32>) {
        // SAFETY: compiled for AVX2, so the machine has it.
        unsafe {
            match call.size.m {
                1 => all_dots::<Avx2, 1, 2>(call),
                _ => all_dots::<Avx2, 2, 2>(call),
            }
        }
    }
}
