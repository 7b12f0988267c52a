//! A whole array in memory: dtype, shape, and bytes aligned for every element type.

use bytemuck::Pod;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::instr::TensorType;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use std::fmt;

/// Bytes whose start is aligned to 64: for every element type and for a cache line.
#[derive(Clone, Default)]
pub struct AlignedBytes {
    lines: Vec<Line>,
    len: usize,
}

#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]
#[repr(C, align(64))]
struct Line([u8; 64]);

impl AlignedBytes {
    /// `len` zero bytes.
    pub fn zeroed(len: usize) -> AlignedBytes {
        AlignedBytes { lines: vec![Line([0; 64]); len.div_ceil(64)], len }
    }

    /// Makes it so many bytes, keeping the memory it has. What they are is arbitrary.
    pub(crate) fn resize(&mut self, len: usize) {
        let lines = len.div_ceil(64).max(self.lines.len());
        self.lines.resize(lines, Line([0; 64]));
        self.len = len;
    }

    /// For how many bytes there is memory.
    pub(crate) fn capacity(&self) -> usize {
        self.lines.len() * 64
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.len]
    }

    /// The bytes, to write.
    pub fn as_mut_slice(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.len]
    }
}

/// A whole array, row-major.
#[derive(Clone)]
pub struct Tensor {
    dtype: DType,
    shape: Vec<u64>,
    data: AlignedBytes,
}

/// A Rust type that is an element type.
pub trait Element: Pod + Send + Sync {
    /// The element type it is.
    const DTYPE: DType;
}

macro_rules! elements {
    ($($rust:ty => $dtype:ident),*) => {$(
        impl Element for $rust {
            const DTYPE: DType = DType::$dtype;
        }
    )*};
}
// `bool` has no type here: not every byte is a bool. A bool tensor is read and written as bytes 0 and 1.
elements!(f64 => F64, f32 => F32, half::bf16 => Bf16, half::f16 => F16, i64 => I64, i32 => I32);

impl Tensor {
    /// All elements zero (false).
    ///
    /// # Panics
    /// If the bytes do not fit in memory's address range; check sizes from outside first.
    pub fn zeros(dtype: DType, shape: &[u64]) -> Tensor {
        let bytes = byte_count(dtype, shape).expect("the bytes of a tensor fit in the address range");
        Tensor { dtype, shape: shape.to_vec(), data: AlignedBytes::zeroed(bytes) }
    }

    /// From elements in row-major order.
    ///
    /// # Panics
    /// If there are not as many elements as the shape asks for.
    #[track_caller]
    pub fn from_elements<T: Element>(shape: &[u64], elements: &[T]) -> Tensor {
        let mut tensor = Tensor::zeros(T::DTYPE, shape);
        let (wanted, given) = (tensor.elements::<T>().len(), elements.len());
        assert_eq!(wanted, given, "an array of shape {shape:?} has {wanted} elements, not {given}");
        tensor.elements_mut::<T>().copy_from_slice(elements);
        tensor
    }

    /// A bool array from flags in row-major order.
    ///
    /// # Panics
    /// If there are not as many flags as the shape asks for.
    #[track_caller]
    pub fn from_bools(shape: &[u64], flags: &[bool]) -> Tensor {
        let mut tensor = Tensor::zeros(DType::Bool, shape);
        let (wanted, given) = (tensor.bytes().len(), flags.len());
        assert_eq!(wanted, given, "an array of shape {shape:?} has {wanted} flags, not {given}");
        let bytes: Vec<u8> = flags.iter().map(|&flag| u8::from(flag)).collect();
        tensor.bytes_mut().copy_from_slice(&bytes);
        tensor
    }

    /// The element type.
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The sizes of the dims.
    pub fn shape(&self) -> &[u64] {
        &self.shape
    }

    /// The number of elements.
    pub fn len(&self) -> usize {
        self.bytes().len() / self.dtype.size() as usize
    }

    /// Whether there is no element.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The bytes, row-major, little endian.
    pub fn bytes(&self) -> &[u8] {
        self.data.as_slice()
    }

    /// The bytes, to write. Bytes of a bool tensor must be 0 or 1.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.data.as_mut_slice()
    }

    /// The elements, row-major.
    ///
    /// # Panics
    /// If the tensor is of another element type.
    #[track_caller]
    pub fn elements<T: Element>(&self) -> &[T] {
        assert_eq!(self.dtype, T::DTYPE, "elements of a {} tensor asked for as {}", self.dtype, T::DTYPE);
        bytemuck::cast_slice(self.data.as_slice())
    }

    /// The elements, to write.
    ///
    /// # Panics
    /// If the tensor is of another element type.
    #[track_caller]
    pub fn elements_mut<T: Element>(&mut self) -> &mut [T] {
        assert_eq!(self.dtype, T::DTYPE, "elements of a {} tensor asked for as {}", self.dtype, T::DTYPE);
        bytemuck::cast_slice_mut(self.data.as_mut_slice())
    }
}

/// The bytes of an array; `None` if they do not fit in the address range.
pub fn byte_count(dtype: DType, shape: &[u64]) -> Option<usize> {
    if shape.contains(&0) {
        return Some(0);
    }
    let bytes = shape.iter().try_fold(dtype.size(), |bytes, &size| bytes.checked_mul(size))?;
    usize::try_from(bytes).ok().filter(|&bytes| isize::try_from(bytes).is_ok())
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({}{:?})", self.dtype, self.shape)
    }
}

/// Somewhere an input's elements come from: memory, a file, a generator.
///
/// A device asks for its own piece only, so a file is read (or mapped) only where pieces lie.
pub trait ArraySource: Send + Sync {
    /// The element type.
    fn dtype(&self) -> DType;

    /// The sizes of the dims.
    fn shape(&self) -> &[u64];

    /// Where the elements come from, for messages: `file x.npy`.
    fn describe(&self) -> String;

    /// Writes the elements of a piece (one index set a dim), row-major, to `out`, which is exactly as
    /// long as they are.
    ///
    /// # Errors
    /// [`ReadError`]: what the source cannot give, and why.
    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError>;

    /// The bytes of what a device already holds, if the elements lie on devices as `held` says: a run
    /// that wants them so copies piece by piece and looks for no element.
    fn held_by(&self, _device: DeviceId, _held: &TensorType) -> Option<&[u8]> {
        None
    }
}

/// Why elements cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum ReadError {
    /// A byte stands where a bool is 0 or 1.
    NotBool {
        /// Where the elements come from.
        from: String,
        /// The byte.
        byte: u8,
    },
    /// What a source has to say.
    Failed(String),
    /// The source panicked: what the panic says.
    Panicked(String),
}

impl fmt::Display for ReadError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ReadError::NotBool { from, byte } => {
                write!(f, "{from} holds the byte {byte} where a bool is 0 or 1")
            }
            ReadError::Failed(why) => f.write_str(why),
            ReadError::Panicked(says) => write!(f, "reading it panicked: {says}"),
        }
    }
}

impl std::error::Error for ReadError {}

impl ArraySource for Tensor {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn describe(&self) -> String {
        "an array in memory".into()
    }

    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        copy_piece(self.bytes(), self.dtype, &self.shape, piece, out);
        Ok(())
    }
}

/// Copies a piece of a row-major array given as bytes to `out`, row-major.
///
/// # Panics
/// If `out` is not as long as the piece, or the piece reaches outside the array.
pub fn copy_piece(bytes: &[u8], dtype: DType, shape: &[u64], piece: &[IndexSet], out: &mut [u8]) {
    let mut at = 0;
    for_each_run(dtype, shape, piece, |start, len| {
        out[at..at + len].copy_from_slice(&bytes[start..start + len]);
        at += len;
    });
    assert_eq!(at, out.len(), "a piece is as long as the place it is copied to");
}

/// Calls `visit(first byte, bytes)` for each contiguous run that a piece has in a row-major array, in
/// the piece's own order.
pub fn for_each_run(dtype: DType, shape: &[u64], piece: &[IndexSet], mut visit: impl FnMut(usize, usize)) {
    if piece.iter().any(IndexSet::is_empty) {
        return;
    }
    // Trailing dims that the piece holds whole make one run with the dim before them.
    let whole = |dim: &usize| piece[*dim].count() == shape[*dim];
    let tail = (0..shape.len()).rev().take_while(whole).count();
    let inner: u64 = shape[shape.len() - tail..].iter().product::<u64>() * dtype.size();
    let outer = &piece[..shape.len() - tail];
    walk(outer, &shape[..shape.len() - tail], 0, inner as usize, &mut visit);
}

/// Visits the runs of the first dim of `piece`, `base` being the index of what stands before it.
fn walk(piece: &[IndexSet], shape: &[u64], base: u64, inner: usize, visit: &mut impl FnMut(usize, usize)) {
    match piece {
        [] => visit(base as usize * inner, inner),
        [last] => {
            for &(start, end) in last.intervals() {
                visit((base * shape[0] + start) as usize * inner, (end - start) as usize * inner);
            }
        }
        [first, rest @ ..] => {
            for index in first.iter() {
                walk(rest, &shape[1..], base * shape[0] + index, inner, visit);
            }
        }
    }
}
