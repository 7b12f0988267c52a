//! An array in a mapped file, of which each device reads its own piece.

use super::mapped::MappedFile;
use crate::digest::digest;
use crate::tensor::{ArraySource, ReadError, Tensor, byte_count, copy_piece};
use shardweave_compiler::diagnostic::quote;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Which dim's elements are neighbours in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DimOrder {
    /// The last dim's: row-major, as in memory.
    LastFastest,
    /// The first dim's: what numpy calls Fortran order.
    FirstFastest,
}

/// Which byte of an element comes first in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ByteOrder {
    /// The least significant: as in memory.
    Little,
    /// The most significant.
    Big,
}

/// How elements lie in a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Stored {
    pub dims: DimOrder,
    pub bytes: ByteOrder,
}

impl Stored {
    /// As in memory.
    pub const PLAIN: Stored = Stored { dims: DimOrder::LastFastest, bytes: ByteOrder::Little };
}

/// An array in a file. Cheap to clone; the file stays mapped as long as one of its arrays lives.
///
/// Invariant: the mapped file holds all the bytes that `dtype` and `shape` ask for from `start` on.
#[derive(Clone)]
pub struct FileArray {
    file: Arc<MappedFile>,
    /// The name in the file, where the format has names.
    tensor: Option<String>,
    start: usize,
    dtype: DType,
    shape: Vec<u64>,
    stored: Stored,
}

/// A large array is known by so many stretches of so many bytes.
const SAMPLES: usize = 16;
const STRETCH: usize = 256;

impl FileArray {
    /// The array at `start` of a file; `None` if the file does not reach that far.
    pub(super) fn new(
        file: Arc<MappedFile>,
        tensor: Option<String>,
        start: usize,
        (dtype, shape): (DType, Vec<u64>),
        stored: Stored,
    ) -> Option<FileArray> {
        let end = start.checked_add(byte_count(dtype, &shape)?)?;
        (end <= file.bytes().len()).then_some(FileArray { file, tensor, start, dtype, shape, stored })
    }

    /// The file.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The whole array.
    ///
    /// # Errors
    /// [`ReadError`]: the file holds what no element of its type is.
    pub fn load(&self) -> Result<Tensor, ReadError> {
        let whole: Vec<IndexSet> = self.shape.iter().map(|&size| IndexSet::range(0, size)).collect();
        let mut tensor = Tensor::zeros(self.dtype, &self.shape);
        self.read(&whole, tensor.bytes_mut())?;
        Ok(tensor)
    }

    /// A number for what the array is: its element type, its sizes, and its bytes, of a large one some of them. Other
    /// arrays have, as good as surely, another number, but for changes of single elements of large ones.
    pub fn sample(&self) -> u64 {
        let bytes = self.bytes();
        let what = format!("{} {:?} {:?}", self.dtype, self.shape, self.stored);
        if bytes.len() <= SAMPLES * STRETCH {
            return digest(&[what.as_bytes(), bytes]);
        }
        let last = bytes.len() - STRETCH;
        let stretch = |number: usize| {
            // Spread evenly, from the first byte to the last.
            let start = (last as u128 * number as u128 / (SAMPLES as u128 - 1)) as usize;
            &bytes[start..start + STRETCH]
        };
        let parts: Vec<&[u8]> = [what.as_bytes()].into_iter().chain((0..SAMPLES).map(stretch)).collect();
        digest(&parts)
    }

    /// The array's bytes, as they lie in the file.
    fn bytes(&self) -> &[u8] {
        let len = byte_count(self.dtype, &self.shape).expect("checked when the array was made");
        &self.file.bytes()[self.start..self.start + len]
    }
}

impl ArraySource for FileArray {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn describe(&self) -> String {
        let file = self.path().display();
        match &self.tensor {
            Some(tensor) => format!("tensor {} of file `{file}`", quote(tensor)),
            None => format!("file `{file}`"),
        }
    }

    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        match self.stored.dims {
            DimOrder::LastFastest => copy_piece(self.bytes(), self.dtype, &self.shape, piece, out),
            DimOrder::FirstFastest => {
                copy_first_fastest(self.bytes(), self.dtype.size() as usize, &self.shape, piece, out);
            }
        }
        if self.stored.bytes == ByteOrder::Big {
            out.chunks_exact_mut(self.dtype.size() as usize).for_each(<[u8]>::reverse);
        }
        // A bool is a byte 0 or 1; kernels and casts rely on it, and a file may hold anything.
        match out.iter().find(|&&byte| self.dtype == DType::Bool && byte > 1) {
            Some(&byte) => Err(ReadError::NotBool { from: self.describe(), byte }),
            None => Ok(()),
        }
    }
}

impl fmt::Debug for FileArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileArray({}, {}{:?})", self.describe(), self.dtype, self.shape)
    }
}

/// Copies a piece of an array whose first dim is fastest to `out`, row-major.
///
/// Element `(i, j, k)` of `[a, b, c]` lies at `i + a (j + b k)`.
fn copy_first_fastest(bytes: &[u8], element: usize, shape: &[u64], piece: &[IndexSet], out: &mut [u8]) {
    if piece.iter().any(IndexSet::is_empty) {
        return; // else the dims outside the empty one would be walked for nothing
    }
    let strides: Vec<usize> = shape
        .iter()
        .scan(element, |stride, &size| {
            let this = *stride;
            *stride = stride.saturating_mul(size as usize);
            Some(this)
        })
        .collect();
    let mut at = 0;
    gather(piece, &strides, 0, &mut |start| {
        out[at..at + element].copy_from_slice(&bytes[start..start + element]);
        at += element;
    });
    assert_eq!(at, out.len(), "a piece is as long as the place it is copied to");
}

/// Visits the first byte of each element of a piece, row-major.
fn gather(piece: &[IndexSet], strides: &[usize], base: usize, visit: &mut impl FnMut(usize)) {
    match piece {
        [] => visit(base),
        [first, rest @ ..] => {
            for index in first.iter() {
                gather(rest, &strides[1..], base + index as usize * strides[0], visit);
            }
        }
    }
}
