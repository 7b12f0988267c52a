//! A value placed on devices, alive between runs.
//!
//! ```text
//!  whole array, file ── place ──────▶          ── piece(device) ──▶ what one device holds
//!  checked pieces ───── from_pieces ▶  Array   ── to_tensor ──────▶ the whole, parts combined
//!  a run's outputs ───────────────────▶        ── reshard ────────▶ Array in another layout
//!                                              ── Inputs ─────────▶ a run: each device takes its piece
//! ```
//!
//! Invariants (kept by the constructors): exactly the devices of the layout's mesh have a piece (where every device is
//! a process of its own, each has the piece of its device); a piece
//! has the sizes and the element type that [`ArrayType`] says; devices that hold the same indices of the
//! same part hold the same bytes. Pieces never change: an `Array` is cheap to clone and can be shared
//! between threads and sessions. Where devices share an address space, those that hold the same share one
//! piece.
//!
//! Considered and left: pieces that a run writes in place would save a copy, but a failing run would leave
//! half an array; and an `Array` that borrows a session's memory could not outlive its next run.

mod error;
mod fill;
mod gather;
mod pieces;
mod ty;

pub use error::ArrayError;
pub(crate) use fill::Holds;
pub(crate) use gather::Gather;
pub use ty::ArrayType;

use crate::memory;
use crate::tensor::{AlignedBytes, ArraySource, ReadError, Tensor};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::TensorType;
use shardweave_compiler::layout::{IndexSet, Layout};
use shardweave_compiler::mesh::DeviceId;
use std::fmt;
use std::sync::Arc;

/// A value placed on devices. See the [module](self).
///
/// ```
/// use shardweave_compiler::{layout::Layout, mesh::Mesh};
/// use shardweave_runtime::{array::Array, tensor::Tensor};
/// use std::sync::Arc;
///
/// let line: Arc<Mesh> = Arc::new("mesh line { tp = 2 }".parse()?);
/// let whole = Tensor::from_elements(&[3, 2], &[0_i32, 1, 2, 3, 4, 5]);
/// let rows = Array::place(&whole, &["s", "e"], Layout::parse("s/tp", &["s", "e"], &line)?)?;
/// assert_eq!(rows.piece(1.into()).unwrap().elements::<i32>(), [4, 5]);
/// assert_eq!(rows.to_tensor().elements::<i32>(), [0, 1, 2, 3, 4, 5]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
pub struct Array {
    ty: Arc<ArrayType>,
    /// By device number; none for a device that is not in the mesh.
    pieces: Vec<Option<Arc<Tensor>>>,
    /// The sizes of the dims.
    shape: Vec<u64>,
}

impl Array {
    /// Puts a whole array (in memory, in a file, another `Array`) in a layout: every device reads its own
    /// piece and nothing else. In a partial layout the value sits at coordinate 0, the operator's
    /// identity elsewhere.
    ///
    /// # Errors
    /// [`ArrayError`]: dims or layout that do not fit the array, elements that cannot be read, more bytes
    /// than there is memory.
    pub fn place(source: &dyn ArraySource, dims: &[&str], layout: Layout) -> Result<Array, ArrayError> {
        let shape = source.shape();
        if dims.len() != shape.len() {
            return Err(ArrayError::Names { named: dims.len(), shape: shape.to_vec() });
        }
        let dims: Vec<(&str, u64)> = dims.iter().copied().zip(shape.iter().copied()).collect();
        let ty = ArrayType::new(source.dtype(), &dims, layout)?;
        match (piece_bytes(&ty), memory::available()) {
            (bytes, Some(available)) if bytes > available => {
                return Err(ArrayError::OutOfMemory { bytes, available });
            }
            _ => {}
        }
        Array::try_filled(ty, |ty, device, out| {
            let holds = Holds::of(ty, device).expect("only devices of the mesh are filled");
            holds.fill(ty, source, out).map_err(ArrayError::Read)
        })
    }

    /// An array whose pieces `fill` writes, one for all devices that hold the same.
    pub(crate) fn try_filled<E>(
        ty: ArrayType,
        fill: impl Fn(&ArrayType, DeviceId, &mut [u8]) -> Result<(), E>,
    ) -> Result<Array, E> {
        Array::try_filled_on(ty, |_| true, fill)
    }

    /// The same on some of the devices: the other pieces lie in other processes.
    pub(crate) fn try_filled_on<E>(
        ty: ArrayType,
        is_here: impl Fn(DeviceId) -> bool,
        fill: impl Fn(&ArrayType, DeviceId, &mut [u8]) -> Result<(), E>,
    ) -> Result<Array, E> {
        let mut pieces = no_pieces(&ty);
        for device in ty.layout().mesh().devices().filter(|&device| is_here(device)) {
            let first = ty.first_holder(device);
            let first = if is_here(first) { first } else { device };
            if pieces[first.index()].is_none() {
                let shape = ty.piece_shape(first).expect("a holder is in the mesh");
                let mut piece = Tensor::zeros(ty.stored_dtype(), &shape);
                fill(&ty, first, piece.bytes_mut())?;
                pieces[first.index()] = Some(Arc::new(piece));
            }
            pieces[device.index()] = pieces[first.index()].clone();
        }
        Ok(Array::of(ty, pieces))
    }

    fn of(ty: ArrayType, pieces: Vec<Option<Arc<Tensor>>>) -> Array {
        let shape = ty.sizes();
        Array { ty: Arc::new(ty), pieces, shape }
    }

    /// Element type, dims and layout.
    pub fn ty(&self) -> &ArrayType {
        &self.ty
    }

    /// The sizes of the dims.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// Where the array lives. What a placement would write for it is [`ArrayType::placed`].
    pub fn layout(&self) -> &Layout {
        self.ty.layout()
    }

    /// The devices that hold a piece, in the order of their numbers.
    pub fn devices(&self) -> impl Iterator<Item = DeviceId> + '_ {
        let held = self.pieces.iter().enumerate().filter(|(_, piece)| piece.is_some());
        held.map(|(device, _)| DeviceId::new(device))
    }

    /// What a device holds; `None` if it is not in the mesh, or plays in another process. Its sizes are
    /// [`ArrayType::piece_shape`], its indices [`ArrayType::indices`].
    pub fn piece(&self, device: DeviceId) -> Option<&Tensor> {
        self.pieces.get(device.index())?.as_deref()
    }

    /// Whether all pieces are here. Where every device is a process of its own, the outputs of a run have one piece in
    /// each; they are not whole then, also if every piece has all elements.
    pub fn is_whole(&self) -> bool {
        self.layout().mesh().devices().all(|device| self.piece(device).is_some())
    }

    /// The whole array: pieces put together, parts combined in mesh order and rounded once.
    ///
    /// # Panics
    /// If pieces lie in other processes: unless it [is whole](Array::is_whole).
    pub fn to_tensor(&self) -> Tensor {
        let whole: Vec<IndexSet> = self.shape.iter().map(|&size| IndexSet::range(0, size)).collect();
        let mut tensor = Tensor::zeros(self.ty.dtype(), &self.shape);
        let gather = Gather::new(&self.ty, &whole).expect("the whole has no more bytes than the array");
        gather.collect(|device| self.bytes_of(device), tensor.bytes_mut());
        tensor
    }

    /// The same pieces in a layout that means the same.
    pub(crate) fn relabelled(&self, ty: ArrayType) -> Array {
        Array { ty: Arc::new(ty), pieces: self.pieces.clone(), shape: self.shape.clone() }
    }

    pub(crate) fn bytes_of(&self, device: DeviceId) -> &[u8] {
        match self.piece(device) {
            Some(piece) => piece.bytes(),
            None => panic!(
                "the piece of {device} lies in another process: `Session::outputs` brings pieces together"
            ),
        }
    }
}

/// Bytes of all pieces, those that devices share once.
fn piece_bytes(ty: &ArrayType) -> u64 {
    let devices = ty.layout().mesh().devices().filter(|&device| ty.first_holder(device) == device);
    let bytes = |device| {
        let shape = ty.piece_shape(device).unwrap_or_default();
        shape.into_iter().fold(ty.stored_dtype().size(), u64::saturating_mul)
    };
    devices.map(bytes).fold(0, u64::saturating_add)
}

fn no_pieces(ty: &ArrayType) -> Vec<Option<Arc<Tensor>>> {
    vec![None; ty.layout().mesh().device_bound() as usize]
}

impl ArraySource for Array {
    fn dtype(&self) -> DType {
        self.ty.dtype()
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn describe(&self) -> String {
        format!("an array placed at {}", self.ty.placed())
    }

    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        let gather = Gather::new(&self.ty, piece).expect("a region has no more bytes than the array");
        if let Some(device) = gather.devices().into_iter().find(|&device| self.piece(device).is_none()) {
            return Err(ReadError::Failed(format!("the piece of {device} lies in another process")));
        }
        if self.ty.layout().partial().is_empty() {
            gather.collect(|device| self.bytes_of(device), out);
        } else {
            // Elements are computed with, so they must be aligned.
            let mut aligned = AlignedBytes::zeroed(out.len());
            gather.collect(|device| self.bytes_of(device), aligned.as_mut_slice());
            out.copy_from_slice(aligned.as_slice());
        }
        Ok(())
    }

    fn held_by(&self, device: DeviceId, held: &TensorType) -> Option<&[u8]> {
        self.ty.is_held_as(held).then(|| self.piece(device).map(Tensor::bytes)).flatten()
    }
}

impl fmt::Debug for Array {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Array({}{:?}, {})", self.ty.dtype(), self.shape, self.describe())
    }
}
