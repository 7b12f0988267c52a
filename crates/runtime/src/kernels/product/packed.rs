//! Products with a right operand that is laid out in the order in which it is multiplied with.
//!
//! Laying it out costs as much as reading and writing it. Where many products share the operand, as the steps of a
//! loop do, it is laid out in the first of them, panel by panel while it is multiplied with, and the others find it
//! there. (The crates cannot do that: `gemmkit` takes operands laid out before, but not with a result whose rows lie
//! one after another.)
//!
//! ```text
//!          panel 0            panel 1
//!   b0,0 b0,1 .. b0,47    b0,48 .. b0,95          each panel all of k, one row of it after the other
//!   b1,0 b1,1 .. b1,47    b1,48 .. b1,95
//! ```
//!
//! A tile is some rows of `a` by one panel: its sums stay in registers while they run through a block of `k`. The
//! rows of `a` are copied into lines that are no power of two apart, so that they stay in the first cache beside
//! each other. With AVX-512, 64 rows, `k` 1024 and 2048 columns each, two threads reach 480 GFLOP/s, with `gemmkit`, which
//! lays out everything in every product, 310; with 512 rows 487 and 461: the last table of
//! `cargo bench -p shardweave-runtime --bench ratios -- products`.
#![expect(unsafe_code, reason = "vector registers, on machines that have them")]

use super::registers::Sixteen;
use super::{Bias, Call, Onto, Size, Strides};
#[cfg(target_arch = "x86_64")]
use crate::kernels::vectors::{Widest, widest};

/// So many indices of `k` are summed in registers.
const DEPTH: usize = 512;

/// From a row of `a` to the next, where they are laid out.
const APART: usize = DEPTH + 16;

/// So many rows of `a` are laid out at a time: they stay in the second cache.
const ROWS: usize = 256;

/// A right operand as it is laid out.
pub(in crate::kernels) enum Form<'a> {
    /// Still to be laid out here.
    New(&'a mut [f32]),
    /// It was laid out before.
    There(&'a [f32]),
}

impl Form<'_> {
    fn len(&self) -> usize {
        match self {
            Form::New(all) => all.len(),
            Form::There(all) => all.len(),
        }
    }
}

/// How many numbers a right operand of `k x n` takes when it is laid out; none if this machine has no registers for
/// it, or the operand is too narrow to gain by it.
pub(in crate::kernels) fn len(k: usize, n: usize) -> Option<usize> {
    let width = width()?;
    n.checked_next_multiple_of(width).filter(|_| n >= 2 * width)?.checked_mul(k)
}

/// How many numbers `m` rows take that are laid out.
pub(in crate::kernels) fn rows_len(m: usize) -> usize {
    m.min(ROWS) * APART
}

/// The columns of a panel on this machine.
fn width() -> Option<usize> {
    #[cfg(target_arch = "x86_64")]
    match widest() {
        Widest::Avx512 => return Some(16 * x86::PANEL_AVX512),
        Widest::Avx2 => return Some(16 * x86::PANEL_AVX2),
        Widest::Plain => {}
    }
    None
}

/// The product, whose rows of `c` lie one after another; `rows` is memory to work in.
///
/// # Panics
/// If a matrix reaches outside its slice, or the form or the memory for rows is not as long as [`len`] and
/// [`rows_len`] say.
pub(in crate::kernels) fn product(call: Call<'_, f32>, form: Form<'_>, rows: &mut [f32]) {
    let Size { m, k, n } = call.size;
    assert!(call.c.1.columns == 1, "rows of the result lie one after another");
    assert_eq!(Some(form.len()), len(k, n), "the form has the length of its operand");
    let rows = rows[..rows_len(m)].as_chunks_mut().0;
    #[cfg(target_arch = "x86_64")]
    match widest() {
        // SAFETY: the machine has AVX-512F, as `widest` says.
        Widest::Avx512 => return unsafe { x86::with_avx512(call, form, rows) },
        // SAFETY: the machine has AVX2 and FMA, as `widest` says.
        Widest::Avx2 => return unsafe { x86::with_avx2(call, form, rows) },
        Widest::Plain => {}
    }
    let _ = rows;
    unreachable!("no operand is laid out on a machine without wide registers");
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{APART, Form, multiply};
    use crate::kernels::product::Call;
    use crate::kernels::product::registers::{Avx2, Avx512};

    /// Sixteens in a panel: with 8 rows 24 sums, 3 columns and a row in 28 of 32 registers.
    pub const PANEL_AVX512: usize = 3;
    /// With 6 rows 12 sums, 2 columns and a row in 15 of 16 registers.
    pub const PANEL_AVX2: usize = 1;

    #[target_feature(enable = "avx512f")]
    pub fn with_avx512(call: Call<'_, f32>, form: Form<'_>, rows: &mut [[f32; APART]]) {
        // SAFETY: compiled for AVX-512F, so the machine has it.
        unsafe { multiply::<Avx512, 8, PANEL_AVX512>(call, form, rows) }
    }

    #[target_feature(enable = "avx2,fma")]
    pub fn with_avx2(call: Call<'_, f32>, form: Form<'_>, rows: &mut [[f32; APART]]) {
        // SAFETY: compiled for AVX2 and FMA, so the machine has them.
        unsafe { multiply::<Avx2, 6, PANEL_AVX2>(call, form, rows) }
    }
}

/// Tiles of `R` rows by a panel of `C` sixteens over the whole result, lower ones at its bottom.
///
/// # Safety
/// The machine has the registers of `V`, and can fuse.
#[inline(always)]
unsafe fn multiply<V: Sixteen, const R: usize, const C: usize>(
    mut call: Call<'_, f32>,
    mut form: Form<'_>,
    rows: &mut [[f32; APART]],
) {
    let Size { m, k, n } = call.size;
    for first in (0..m).step_by(ROWS) {
        for start in (0..k).step_by(DEPTH) {
            let depth = DEPTH.min(k - start);
            let rows = &mut rows[..ROWS.min(m - first)];
            lay_out_rows(&call, (first, start), depth, rows);
            for (panel, j) in (0..n).step_by(16 * C).enumerate() {
                let place = (panel * k + start) * 16 * C..(panel * k + start + depth) * 16 * C;
                let panel: &[f32] = match &mut form {
                    Form::There(all) => &all[place],
                    Form::New(all) => {
                        let panel = &mut all[place];
                        if first == 0 {
                            lay_out_panel(call.b, (start, j), (16 * C).min(n - j), panel, 16 * C);
                        }
                        panel
                    }
                };
                let panel = panel.as_chunks::<16>().0.as_chunks::<C>().0;
                let (groups, rest) = rows.as_chunks::<R>();
                for (group, rows) in groups.iter().enumerate() {
                    // SAFETY: the caller's, for this and all below.
                    unsafe { tile::<V, R, C>(&mut call, start, rows, panel, (first + group * R, j)) };
                }
                let mut i = first + groups.len() * R;
                let (fours, rest) = rest.as_chunks::<4>();
                for rows in fours {
                    // SAFETY: as above.
                    unsafe { tile::<V, 4, C>(&mut call, start, rows, panel, (i, j)) };
                    i += 4;
                }
                for rows in rest.as_chunks::<1>().0 {
                    // SAFETY: as above.
                    unsafe { tile::<V, 1, C>(&mut call, start, rows, panel, (i, j)) };
                    i += 1;
                }
            }
        }
    }
}

/// Copies `depth` numbers of rows of `a`.
#[inline(always)]
fn lay_out_rows(
    call: &Call<'_, f32>,
    (first, start): (usize, usize),
    depth: usize,
    rows: &mut [[f32; APART]],
) {
    let (a, at) = call.a;
    for (i, row) in rows.iter_mut().enumerate() {
        let from = at.at(first + i, start);
        if at.columns == 1 {
            row[..depth].copy_from_slice(&a[from..][..depth]);
        } else {
            for (p, number) in row[..depth].iter_mut().enumerate() {
                *number = a[from + p * at.columns];
            }
        }
    }
}

/// Lays out `columns` columns of `b` from `(start, j)` on, in a panel that is `width` wide.
#[inline(always)]
fn lay_out_panel(
    (b, at): (&[f32], Strides),
    (start, j): (usize, usize),
    columns: usize,
    panel: &mut [f32],
    width: usize,
) {
    /// So much of a column is read at a time.
    const ALONG: usize = 64;
    if columns < width {
        panel.fill(0.0);
    }
    if at.columns == 1 {
        for (p, row) in panel.chunks_exact_mut(width).enumerate() {
            row[..columns].copy_from_slice(&b[at.at(start + p, j)..][..columns]);
        }
        return;
    }
    for (block, panel) in panel.chunks_mut(ALONG * width).enumerate() {
        let start = start + block * ALONG;
        let depth = panel.len() / width;
        let fours = if at.rows == 1 { columns / 4 * 4 } else { 0 };
        for q in (0..fours).step_by(4) {
            let mut lines = [&[][..]; 4];
            for (c, line) in lines.iter_mut().enumerate() {
                *line = &b[at.at(start, j + q + c)..][..depth];
            }
            four_columns(lines, &mut panel[q..], width);
        }
        for q in fours..columns {
            for p in 0..depth {
                panel[p * width + q] = b[at.at(start + p, j + q)];
            }
        }
    }
}

/// Puts four columns next to each other: four by four numbers at a time.
#[inline(always)]
fn four_columns(lines: [&[f32]; 4], panel: &mut [f32], width: usize) {
    let depth = lines[0].len();
    let whole = depth / 4 * 4;
    for p in (0..whole).step_by(4) {
        let mut numbers = [[0.0; 4]; 4];
        for (numbers, line) in numbers.iter_mut().zip(lines) {
            numbers.copy_from_slice(&line[p..][..4]);
        }
        for x in 0..4 {
            let row = [numbers[0][x], numbers[1][x], numbers[2][x], numbers[3][x]];
            panel[(p + x) * width..][..4].copy_from_slice(&row);
        }
    }
    for p in whole..depth {
        for (q, line) in lines.iter().enumerate() {
            panel[p * width + q] = line[p];
        }
    }
}

/// Sums of a tile over a block of `k` go into the result: the first block's in place of what is there, the
/// others' onto it.
///
/// # Safety
/// The machine has the registers of `V`, and can fuse.
#[inline(always)]
unsafe fn tile<V: Sixteen, const R: usize, const C: usize>(
    call: &mut Call<'_, f32>,
    start: usize,
    rows: &[[f32; APART]; R],
    panel: &[[[f32; 16]; C]],
    (i, j): (usize, usize),
) {
    assert!(panel.len() <= DEPTH, "a block is as deep as rows are long");
    // SAFETY: the caller's, for this and all below.
    let mut sums = unsafe { [[V::zero(); C]; R] };
    for (p, columns) in panel.iter().enumerate() {
        // SAFETY: as above.
        let mut b = unsafe { [V::zero(); C] };
        for c in 0..C {
            // SAFETY: as above.
            b[c] = unsafe { V::load(&columns[c]) };
        }
        for r in 0..R {
            // SAFETY: as above, and a row is longer than a block is deep.
            let a = unsafe { V::splat(*rows[r].get_unchecked(p)) };
            for c in 0..C {
                // SAFETY: as above.
                sums[r][c] = unsafe { sums[r][c].plus_product_fused(a, b[c]) };
            }
        }
    }
    for (r, sums) in sums.iter().enumerate() {
        for (c, &sums) in sums.iter().enumerate() {
            if j + 16 * c < call.size.n {
                // SAFETY: as above.
                unsafe { put(call, start, (i + r, j + 16 * c), sums) };
            }
        }
    }
}

/// Puts sixteen sums into a row of the result, or as many as it has columns from `j` on.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn put<V: Sixteen>(call: &mut Call<'_, f32>, start: usize, (i, j): (usize, usize), sums: V) {
    let count = (call.size.n - j).min(16);
    let result = &mut call.c.0[call.c.1.at(i, j)..][..count];
    let onto = if start == 0 { call.onto } else { Onto::Result };
    // SAFETY: the caller's, for this and all below.
    let sums = unsafe {
        match onto {
            Onto::Nothing => sums,
            Onto::Result => sums.plus(some(result)),
            Onto::Bias(Bias::Rows(all)) => sums.plus(V::splat(all[i])),
            Onto::Bias(Bias::Columns(all)) => sums.plus(some(&all[j..][..count])),
        }
    };
    match result.as_chunks_mut::<16>() {
        // SAFETY: as above.
        ([sixteen], _) => unsafe { sums.store(sixteen) },
        (_, rest) => {
            let mut all = [0.0; 16];
            // SAFETY: as above.
            unsafe { sums.store(&mut all) };
            rest.copy_from_slice(&all[..count]);
        }
    }
}

/// At most sixteen numbers, and zeros.
///
/// # Safety
/// The machine has the registers of `V`.
#[inline(always)]
unsafe fn some<V: Sixteen>(numbers: &[f32]) -> V {
    match numbers.as_chunks::<16>() {
        // SAFETY: the caller's.
        ([sixteen], _) => unsafe { V::load(sixteen) },
        (_, rest) => {
            let mut all = [0.0; 16];
            all[..rest.len()].copy_from_slice(rest);
            // SAFETY: the caller's.
            unsafe { V::load(&all) }
        }
    }
}
