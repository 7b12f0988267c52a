//! What an array is, before it holds anything: element type, dims with sizes, layout.

use super::ArrayError;
use crate::tensor::byte_count;
use shardweave_compiler::diagnostic::Span;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::instr::TensorType;
use shardweave_compiler::layout::{Factor, IndexSet, Layout};
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::placement::verify_layout;
use shardweave_compiler::program::{Assembler, DimText, Sizes};
use shardweave_compiler::propagate::stored;
use std::fmt;

/// The type of an [`Array`](super::Array). Immutable.
///
/// Invariants: dim names are names and distinct, sizes count fewer bytes than 2^63; the layout has a list
/// of cuts for each dim, its given pieces add up, and it names no running step.
#[derive(Clone, PartialEq, Debug)]
pub struct ArrayType {
    /// The element type of the whole array.
    dtype: DType,
    /// Dims and layout, and how elements are stored: parts of a half type are held as `f32`.
    held: TensorType,
}

impl ArrayType {
    /// The type of an array with these dims, outermost first, in this layout.
    ///
    /// # Errors
    /// [`ArrayError`]: another number of dims than the layout cuts, dims that cannot be, given pieces that do
    /// not add up to their dim, a running step.
    pub fn new(dtype: DType, dims: &[(&str, u64)], layout: Layout) -> Result<ArrayType, ArrayError> {
        if layout.ndim() != dims.len() {
            return Err(ArrayError::DimCount { named: dims.len(), cut: layout.ndim() });
        }
        if layout.cuts().iter().flatten().any(|factor| matches!(factor, Factor::Step(..))) {
            return Err(ArrayError::RunningStep);
        }
        verify_dims(dtype, dims)?;
        let dims: Vec<(String, u64)> = dims.iter().map(|&(name, size)| (name.to_string(), size)).collect();
        verify_layout("the array", &dims, &layout).finish(()).map_err(ArrayError::Type)?;
        Ok(ArrayType { dtype, held: TensorType { dims, dtype: stored(dtype, &layout), layout } })
    }

    /// The type of a value of a planned program, whose elements are of `dtype` when it is whole.
    pub(crate) fn of_value(dtype: DType, held: TensorType) -> ArrayType {
        ArrayType { dtype, held }
    }

    /// The element type of the whole array.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The element type of the pieces: that of the whole array, but `f32` for parts of a half type that
    /// are still to be combined.
    pub fn stored_dtype(&self) -> DType {
        self.held.dtype
    }

    /// Names and sizes of the dims, outermost first.
    pub fn dims(&self) -> &[(String, u64)] {
        &self.held.dims
    }

    /// The sizes of the dims.
    pub fn sizes(&self) -> Vec<u64> {
        self.held.sizes()
    }

    /// Whether the array has these sizes.
    pub(crate) fn has_sizes(&self, shape: &[u64]) -> bool {
        self.dims().iter().map(|(_, size)| size).eq(shape)
    }

    /// Where the array lives.
    pub fn layout(&self) -> &Layout {
        &self.held.layout
    }

    /// The layout as a placement writes it: `s/tp, partial(dp) on grid`.
    pub fn placed(&self) -> String {
        let names: Vec<&str> = self.dims().iter().map(|(name, _)| name.as_str()).collect();
        self.layout().text(&names, None).to_string()
    }

    /// Which indices of each dim a device holds; `None` if it is not in the mesh. The device's piece has
    /// them in ascending order.
    pub fn indices(&self, device: DeviceId) -> Option<Vec<IndexSet>> {
        self.layout().piece_of(&self.sizes(), device)
    }

    /// The sizes of a device's piece; `None` if it is not in the mesh.
    pub fn piece_shape(&self, device: DeviceId) -> Option<Vec<u64>> {
        Some(self.indices(device)?.iter().map(IndexSet::count).collect())
    }

    /// What devices hold: dims, layout, and the type in which elements are stored.
    pub(crate) fn held(&self) -> &TensorType {
        &self.held
    }

    /// Whether pieces of both types are the same bytes on the same devices.
    pub(crate) fn is_held_as(&self, held: &TensorType) -> bool {
        let sizes = self.sizes();
        self.held.dtype == held.dtype && sizes == held.sizes() && self.layout().same_as(&held.layout, &sizes)
    }

    /// The same array in another layout.
    pub(crate) fn in_layout(&self, layout: Layout) -> Result<ArrayType, ArrayError> {
        let dims: Vec<(&str, u64)> = self.dims().iter().map(|(name, size)| (name.as_str(), *size)).collect();
        ArrayType::new(self.dtype, &dims, layout)
    }

    /// The first device, in mesh order, that holds the same elements as this one, which is in the mesh.
    pub(crate) fn first_holder(&self, device: DeviceId) -> DeviceId {
        let mesh = self.layout().mesh();
        let place = mesh.place_of(device).expect("only devices of the mesh hold a piece");
        let mut coords = mesh.coords(place);
        for axis in mesh.axes().keys().filter(|&axis| !self.layout().uses(axis)) {
            coords.set(axis, 0);
        }
        mesh.device_at(mesh.place(&coords))
    }
}

/// `f32[s=4, e=2] at s/tp on line`
impl fmt::Display for ArrayType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let dims: Vec<String> = self.dims().iter().map(|(name, size)| format!("{name}={size}")).collect();
        write!(f, "{}[{}] at {}", self.dtype, dims.join(", "), self.placed())
    }
}

/// Dims of an array follow the rules of an input's: the program with that one input is made.
fn verify_dims(dtype: DType, dims: &[(&str, u64)]) -> Result<(), ArrayError> {
    let span = Span::default();
    let texts: Vec<DimText> =
        dims.iter().map(|&(name, size)| DimText { name: name.into(), size: Some(size), span }).collect();
    let mut program = Assembler::new("array", span);
    let made =
        program.input("array", span, dtype, &texts, None).and_then(|value| program.output(value, span));
    made.map_err(|mistake| ArrayError::Type(mistake.into()))?;
    let program = program.finish().map_err(ArrayError::Type)?;
    Sizes::bind(&program, []).map_err(ArrayError::Type)?;
    let sizes: Vec<u64> = dims.iter().map(|&(_, size)| size).collect();
    byte_count(dtype.wide(), &sizes).map(drop).ok_or(ArrayError::TooLarge)
}
