//! Arrays from pieces that are there already, one a device.

use super::{Array, ArrayError, ArrayType, no_pieces};
use crate::tensor::Tensor;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::{Factor, Layout};
use shardweave_compiler::mesh::{DeviceId, Mesh};
use std::collections::BTreeMap;
use std::sync::Arc;

impl Array {
    /// An array from the pieces that its devices hold. Every device of the mesh gives one, of the sizes
    /// and element type that `ty` says; devices that hold the same indices must give the same bytes.
    ///
    /// Nothing is guessed: pieces of other sizes than the layout asks for are an error that names the
    /// device. For pieces cut as they come see [`from_pieces_along`](Array::from_pieces_along), for the piece of one
    /// process among many [`from_local`](Array::from_local).
    ///
    /// # Errors
    /// [`ArrayError`], which names the device: a piece that lacks, is given twice or has other sizes or another
    /// element type than `ty` says, or differs from that of a device that holds the same indices.
    pub fn from_pieces(
        ty: ArrayType,
        pieces: impl IntoIterator<Item = (DeviceId, Tensor)>,
    ) -> Result<Array, ArrayError> {
        let array = Array::from_local(ty, pieces)?;
        let lacking = array.layout().mesh().devices().find(|&device| array.piece(device).is_none());
        match lacking {
            Some(device) => Err(ArrayError::NoPiece(device)),
            None => Ok(array),
        }
    }

    /// The same where every device is a process of its own: from the pieces of the devices that this process plays. The
    /// other pieces lie in other processes, so the array [is not whole](Array::is_whole); it can be the input of a run in
    /// which every device needs no more than its own piece.
    ///
    /// # Errors
    /// As [`Array::from_pieces`], but pieces may lack.
    pub fn from_local(
        ty: ArrayType,
        pieces: impl IntoIterator<Item = (DeviceId, Tensor)>,
    ) -> Result<Array, ArrayError> {
        let mesh = ty.layout().mesh().clone();
        let mut given = no_pieces(&ty);
        for (device, piece) in pieces {
            check(&ty, &mesh, device, &piece)?;
            if given[device.index()].replace(Arc::new(piece)).is_some() {
                return Err(ArrayError::PieceTwice(device));
            }
        }
        // Of those that hold the same, the first one that is here.
        let mut first_here: BTreeMap<DeviceId, DeviceId> = BTreeMap::new();
        for device in mesh.devices() {
            let Some(own) = given[device.index()].clone() else { continue };
            let first = *first_here.entry(ty.first_holder(device)).or_insert(device);
            let same = given[first.index()].clone();
            if same.as_ref().is_some_and(|same| same.bytes() != own.bytes()) {
                return Err(ArrayError::Replicas { first, other: device });
            }
            given[device.index()] = same;
        }
        Ok(Array::of(ty, given))
    }

    /// An array from pieces of any sizes along the dim `cut`, which they cut over one axis of a mesh: the
    /// layout says exactly these sizes, `d/tp(2, 3, 4, 5)`, and the size of the dim is their sum. All
    /// other sizes and the element type are those of the first piece.
    ///
    /// # Errors
    /// [`ArrayError`]: a dim or axis that there is not, or what [`Array::from_pieces`] refuses.
    pub fn from_pieces_along(
        cut: &str,
        axis: &str,
        mesh: &Arc<Mesh>,
        dims: &[&str],
        pieces: Vec<(DeviceId, Tensor)>,
    ) -> Result<Array, ArrayError> {
        let unknown = |what, name: &str| ArrayError::Unknown { what, name: name.into() };
        let along = mesh.axis(axis).ok_or_else(|| unknown("axis", axis))?;
        let dim = dims.iter().position(|dim| *dim == cut).ok_or_else(|| unknown("dim", cut))?;
        let given: BTreeMap<DeviceId, &Tensor> =
            pieces.iter().map(|(device, piece)| (*device, piece)).collect();
        let of = |device| given.get(&device).copied().ok_or(ArrayError::NoPiece(device));
        let piece = of(mesh.device_at(0))?;
        let (dtype, mut shape) = (piece.dtype(), piece.shape().to_vec());
        if shape.len() != dims.len() {
            return Err(ArrayError::Names { named: dims.len(), shape });
        }
        let mut sizes = Vec::new();
        for coords in mesh.coords_over(&[along]) {
            let device = mesh.device_at(mesh.place(&coords));
            // A piece with too few dims is told below, with what is expected of it.
            sizes.push(of(device)?.shape().get(dim).copied().unwrap_or(0));
        }
        let sum = sizes.iter().try_fold(0_u64, |sum, &size| sum.checked_add(size));
        shape[dim] = sum.ok_or(ArrayError::TooLarge)?;
        let mut cuts = vec![Vec::new(); dims.len()];
        cuts[dim].push(Factor::Sizes(along, sizes.into()));
        let layout = Layout::new(mesh.clone(), cuts, Vec::new()).expect("one axis stands once");
        let dims: Vec<(&str, u64)> = dims.iter().copied().zip(shape).collect();
        Array::from_pieces(ArrayType::new(dtype, &dims, layout)?, pieces)
    }
}

/// Whether a piece is what the type asks of the device.
fn check(ty: &ArrayType, mesh: &Mesh, device: DeviceId, piece: &Tensor) -> Result<(), ArrayError> {
    let outside = || ArrayError::NotInMesh { device, mesh: mesh.name().into() };
    let expected = ty.piece_shape(device).ok_or_else(outside)?;
    if piece.shape() != expected {
        return Err(ArrayError::PieceShape { device, given: piece.shape().to_vec(), expected });
    }
    if piece.dtype() != ty.stored_dtype() {
        let (given, expected) = (piece.dtype(), ty.stored_dtype());
        return Err(ArrayError::PieceDType { device, given, expected });
    }
    Ok(())
}
