//! A region of a whole array, put together from the devices' pieces: each piece where its indices are,
//! replicated ones once, parts combined in order, and rounded to the array's type at the end.
//!
//! ```text
//!  s/tp, partial(dp)    part dp=0: pieces of tp=0, tp=1 ──┐
//!                       part dp=1: pieces of tp=0, tp=1 ──┴─ sum ──▶ round ──▶ the region
//! ```

use super::ArrayType;
use crate::instantiate::{Run, Runs};
use crate::kernels;
use crate::tensor::{AlignedBytes, byte_count};
use half::{bf16, f16};
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::layout::{IndexSet, Layout, Overlap, Partial, overlap};
use shardweave_compiler::mesh::{AxisId, DeviceId};
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::Range;

/// Which bytes of which pieces make a region. Found once; used as often as pieces change.
pub(crate) struct Gather {
    dtype: DType,
    stored: DType,
    /// Bytes of the region as it is stored.
    bytes: usize,
    /// The operators with which parts are combined, the one that is applied first first, and how many
    /// parts each combines.
    combines: Vec<(Combine, usize)>,
    /// The parts, in the order in which they are combined: the first operator's parts are neighbours.
    parts: Vec<Vec<Taken>>,
}

/// What is taken of a device's piece.
struct Taken {
    device: DeviceId,
    /// Which bytes of the piece go where in the region.
    runs: Runs,
}

impl Gather {
    /// How a region of an array (one index set a dim) is made; `None` if it is larger than memory can be.
    pub fn new(ty: &ArrayType, region: &[IndexSet]) -> Option<Gather> {
        let extents: Vec<u64> = region.iter().map(IndexSet::count).collect();
        let layout = ty.layout();
        let mesh = layout.mesh();
        let slowest_first = partial_axes(layout);
        let cut: Vec<AxisId> = layout.cuts().iter().flatten().filter_map(|factor| factor.axis()).collect();
        let mut parts = Vec::new();
        for part in mesh.coords_over(&slowest_first) {
            let mut pieces = Vec::new();
            for mut coords in mesh.coords_over(&cut) {
                for &axis in &slowest_first {
                    coords.set(axis, part.along(axis));
                }
                let device = mesh.device_at(mesh.place(&coords));
                pieces.extend(Taken::of(ty, device, region, &extents)?);
            }
            parts.push(pieces);
        }
        Some(Gather {
            dtype: ty.dtype(),
            stored: ty.stored_dtype(),
            bytes: byte_count(ty.stored_dtype(), &extents)?,
            combines: operators(layout),
            parts,
        })
    }

    /// Bytes that collecting takes at most, beside the region itself.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a piece of a device is taken.
    pub fn takes_of(&self, device: DeviceId) -> bool {
        self.parts.iter().flatten().any(|taken| taken.device == device)
    }

    /// The devices whose pieces are taken.
    pub fn devices(&self) -> BTreeSet<DeviceId> {
        self.parts.iter().flatten().map(|taken| taken.device).collect()
    }

    /// Whether pieces are parts that are combined.
    pub fn combines(&self) -> bool {
        self.parts.len() > 1 || self.stored != self.dtype
    }

    /// Which bytes of a device's piece go where in the region, if nothing is combined.
    pub fn stretches(&self, device: DeviceId, mut visit: impl FnMut(Run)) {
        let of_device = self.parts[0].iter().filter(|taken| taken.device == device);
        of_device.for_each(|taken| taken.runs.for_each(&mut visit));
    }

    /// Writes the region, row-major, in the array's element type, to `out`, which is as long as it is.
    pub fn collect<'a>(&self, piece: impl Fn(DeviceId) -> &'a [u8], out: &mut [u8]) {
        let parts = 0..self.parts.len();
        if self.stored == self.dtype {
            return self.combined(&piece, &self.combines, parts, out);
        }
        let mut wide = AlignedBytes::zeroed(self.bytes);
        self.combined(&piece, &self.combines, parts, wide.as_mut_slice());
        round(self.dtype, bytemuck::cast_slice(wide.as_slice()), out);
    }

    /// Puts the parts of a range together: those of the last operator are each put together first.
    fn combined<'a>(
        &self,
        piece: &impl Fn(DeviceId) -> &'a [u8],
        combines: &[(Combine, usize)],
        parts: Range<usize>,
        out: &mut [u8],
    ) {
        let Some(((combine, count), inner)) = combines.split_last() else {
            return self.place(piece, parts.start, out);
        };
        let step = parts.len() / count;
        let part = |n: usize| parts.start + n * step..parts.start + (n + 1) * step;
        self.combined(piece, inner, part(0), out);
        let mut next = AlignedBytes::zeroed(if *count > 1 { self.bytes } else { 0 });
        for n in 1..*count {
            self.combined(piece, inner, part(n), next.as_mut_slice());
            kernels::combine(*combine, self.stored, out, next.as_slice());
        }
    }

    /// Puts the pieces of one part in place. Together they cover the region.
    fn place<'a>(&self, piece: &impl Fn(DeviceId) -> &'a [u8], part: usize, out: &mut [u8]) {
        for taken in &self.parts[part] {
            let bytes = piece(taken.device);
            taken.runs.for_each(|run| {
                out[run.target..run.target + run.bytes]
                    .copy_from_slice(&bytes[run.source..run.source + run.bytes]);
            });
        }
    }
}

impl Taken {
    /// What a region takes of a device's piece: nothing if they share no index. `None` if the piece is
    /// larger than memory can be.
    fn of(ty: &ArrayType, device: DeviceId, region: &[IndexSet], extents: &[u64]) -> Option<Option<Taken>> {
        let held = ty.indices(device).expect("coordinates of the mesh belong to a device of the mesh");
        let runs: Vec<Vec<Overlap>> =
            held.iter().zip(region).map(|(held, wanted)| overlap(held, wanted)).collect();
        if runs.iter().any(Vec::is_empty) {
            return Some(None);
        }
        let piece: Vec<u64> = held.iter().map(IndexSet::count).collect();
        let runs = Runs::new(&runs, &piece, extents, ty.stored_dtype().size())?;
        Some(Some(Taken { device, runs }))
    }
}

/// The partial axes so that the last operator's vary slowest, and within one operator the first axis.
fn partial_axes(layout: &Layout) -> Vec<AxisId> {
    let mut partial: Vec<Partial> = layout.partial().to_vec();
    partial.sort_by_key(|p| (Reverse(p.combine), p.axis));
    partial.into_iter().map(|p| p.axis).collect()
}

/// The operators in the order of [`Combine`], each with how many parts it combines.
fn operators(layout: &Layout) -> Vec<(Combine, usize)> {
    let mut partial: Vec<Partial> = layout.partial().to_vec();
    partial.sort_by_key(|p| (p.combine, p.axis));
    let mut operators: Vec<(Combine, usize)> = Vec::new();
    for p in &partial {
        let size = layout.mesh().size(p.axis) as usize;
        match operators.last_mut() {
            Some((combine, count)) if *combine == p.combine => *count *= size,
            _ => operators.push((p.combine, size)),
        }
    }
    operators
}

/// Rounds parts that were stored wide.
fn round(dtype: DType, wide: &[f32], out: &mut [u8]) {
    match dtype {
        DType::Bf16 => {
            let out: &mut [bf16] = bytemuck::cast_slice_mut(out);
            out.iter_mut().zip(wide).for_each(|(y, &x)| *y = bf16::from_f32(x));
        }
        DType::F16 => {
            let out: &mut [f16] = bytemuck::cast_slice_mut(out);
            out.iter_mut().zip(wide).for_each(|(y, &x)| *y = f16::from_f32(x));
        }
        other => unreachable!("only half types are stored wider than they are, not {other}"),
    }
}
