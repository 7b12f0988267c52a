//! One device's piece, filled from a whole array: read, widened where parts are held wide, or the
//! identity where the device holds nothing of a partial value.

use super::ArrayType;
use crate::kernels;
use crate::tensor::{AlignedBytes, ArraySource, ReadError};
use half::{bf16, f16};
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::layout::{IndexSet, Layout};
use shardweave_compiler::mesh::DeviceId;

/// What a device holds of a whole array that is put into a layout.
pub(crate) enum Holds {
    /// These indices of the array.
    Indices(Vec<IndexSet>),
    /// Nothing of a partial value: the identity of the operator with which it is combined.
    Identity(Combine),
}

impl Holds {
    /// What a device holds; `None` if it is not in the mesh.
    pub fn of(ty: &ArrayType, device: DeviceId) -> Option<Holds> {
        let indices = ty.indices(device)?;
        Some(identity_at(ty.layout(), device).map_or(Holds::Indices(indices), Holds::Identity))
    }

    /// Fills a piece, which is as long as its elements are.
    pub fn fill(&self, ty: &ArrayType, source: &dyn ArraySource, out: &mut [u8]) -> Result<(), ReadError> {
        let (dtype, stored) = (ty.dtype(), ty.stored_dtype());
        match self {
            Holds::Identity(combine) => kernels::fill_identity(*combine, stored, out),
            Holds::Indices(indices) if stored == dtype => source.read(indices, out)?,
            Holds::Indices(indices) => {
                let elements = out.len() / stored.size() as usize;
                let mut narrow = AlignedBytes::zeroed(elements * dtype.size() as usize);
                source.read(indices, narrow.as_mut_slice())?;
                widen(dtype, narrow.as_slice(), bytemuck::cast_slice_mut(out));
            }
        }
        Ok(())
    }
}

/// The operator whose identity a device holds of an array that is put into a partial layout: it is not
/// at coordinate 0 of all partial axes. Where it is not at several, the operator that is applied first
/// decides: its identity vanishes before the others see it.
fn identity_at(layout: &Layout, device: DeviceId) -> Option<Combine> {
    let mesh = layout.mesh();
    let coords = mesh.coords(mesh.place_of(device)?);
    layout.partial().iter().filter(|p| coords.along(p.axis) != 0).map(|p| p.combine).min()
}

/// Half floats as `f32`.
fn widen(dtype: DType, from: &[u8], to: &mut [f32]) {
    match dtype {
        DType::Bf16 => {
            to.iter_mut().zip(bytemuck::cast_slice::<_, bf16>(from)).for_each(|(y, x)| *y = x.to_f32())
        }
        DType::F16 => {
            to.iter_mut().zip(bytemuck::cast_slice::<_, f16>(from)).for_each(|(y, x)| *y = x.to_f32())
        }
        other => unreachable!("only half types are stored wider than they are, not {other}"),
    }
}
