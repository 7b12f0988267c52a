//! `.safetensors`: many arrays with names, little endian and row-major.
//!
//! ```text
//!  length u64 │ {"a": {"dtype": "F32", "shape": [2, 3], "data_offsets": [0, 24]}, ...}   │ elements
//!                the offsets count from the end of the header and leave no gap
//! ```
//!
//! The header is read and written by the `safetensors` crate, which checks that the tensors follow each
//! other without gap and are as long as type and shape ask for. That they fill the file exactly is
//! checked here, where the sum cannot overflow. Elements may lie at any address: they are copied.

use super::array::{FileArray, Stored};
use super::mapped::MappedFile;
use super::{npy, short, unreadable};
use safetensors::tensor::{Dtype, Metadata, TensorInfo};
use shardweave_compiler::diagnostic::{Code, Diagnostic, quote};
use shardweave_compiler::dtype::DType;
use std::path::Path;
use std::sync::Arc;

/// Bytes of the length before the header.
const LENGTH: usize = 8;

/// The longest header that is read, as in the format's reference implementation.
const LONGEST_HEADER: u64 = 100_000_000;

/// An opened `.safetensors` file. Only the header is read.
#[derive(Debug)]
pub struct TensorFile {
    file: Arc<MappedFile>,
    header: Metadata,
    /// Where the elements start.
    data: usize,
}

impl TensorFile {
    /// Opens a file and checks that its header fits it.
    pub fn open(path: &Path) -> Result<TensorFile, Diagnostic> {
        let file = MappedFile::open(path)?;
        if npy::is_npy(file.bytes()) {
            let message = format!("file `{}` is a `.npy` file: one array without a name", path.display());
            let help = "give it to its input with `--input NAME=FILE.npy`, or save it as `.safetensors`";
            return Err(Diagnostic::general(Code::FileRead, message).help(help));
        }
        let (header, data) = read_header(file.bytes()).map_err(|why| unreadable(path, why))?;
        Ok(TensorFile { file: Arc::new(file), header, data })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        self.file.path()
    }

    /// The names of the tensors, in the order in which they lie in the file.
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// Whether the file has a tensor of that name.
    pub fn has(&self, name: &str) -> bool {
        self.header.info(name).is_some()
    }

    /// The tensor of that name, if there is one; an error if its elements are of a type that no value
    /// can have.
    pub fn tensor(&self, name: &str) -> Result<Option<FileArray>, Diagnostic> {
        let Some(info) = self.header.info(name) else {
            return Ok(None);
        };
        let dtype = from_stored(info.dtype).ok_or_else(|| {
            let message = format!(
                "tensor {} of file `{}` holds elements of type {}; only f64 f32 bf16 f16 i64 i32 bool \
                 can be read",
                quote(name),
                self.path().display(),
                info.dtype
            );
            Diagnostic::general(Code::FormatDType, message).help("convert the tensor and save it again")
        })?;
        let shape = info.shape.iter().map(|&size| size as u64).collect();
        let start = self.data + info.data_offsets.0;
        let array = FileArray::new(
            Arc::clone(&self.file),
            Some(name.to_owned()),
            start,
            (dtype, shape),
            Stored::PLAIN,
        );
        Ok(Some(array.expect("the header was checked against the length of the file")))
    }
}

/// The header, and where the elements start.
fn read_header(file: &[u8]) -> Result<(Metadata, usize), String> {
    let (length, rest) = file.split_first_chunk::<LENGTH>().ok_or("ends inside its header")?;
    let length = u64::from_le_bytes(*length);
    if length > LONGEST_HEADER || length > rest.len() as u64 {
        return Err(format!("its header claims to be {length} bytes long, but only {} follow", rest.len()));
    }
    let (text, data) = rest.split_at(length as usize);
    // Copied first: what a mapped file holds may change under a reader that looks twice.
    let text = text.to_vec();
    let header: Metadata =
        serde_json::from_slice(&text).map_err(|error| format!("bad header: {}", short(&error)))?;
    if header.data_len() != data.len() {
        return Err(format!(
            "its header describes {} bytes of elements, but {} follow it",
            header.data_len(),
            data.len()
        ));
    }
    Ok((header, LENGTH + length as usize))
}

/// A tensor that is to be written.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub bytes: usize,
}

/// The start of a file that holds these tensors; they have to follow in this order, larger element
/// types first, so that every element is aligned.
pub(super) fn header(entries: &[Entry]) -> Result<Vec<u8>, String> {
    let mut offset: usize = 0;
    let mut tensors = Vec::new();
    for entry in entries {
        let end = offset.checked_add(entry.bytes).ok_or("more bytes than there can be")?;
        let shape = entry.shape.iter().map(|&size| size as usize).collect();
        let info = TensorInfo { dtype: to_stored(entry.dtype), shape, data_offsets: (offset, end) };
        tensors.push((entry.name.clone(), info));
        offset = end;
    }
    let metadata = Metadata::new(None, tensors).map_err(|error| error.to_string())?;
    let mut text = serde_json::to_vec(&metadata).map_err(|error| error.to_string())?;
    text.resize(text.len().next_multiple_of(LENGTH), b' ');
    Ok([&(text.len() as u64).to_le_bytes(), text.as_slice()].concat())
}

fn from_stored(dtype: Dtype) -> Option<DType> {
    Some(match dtype {
        Dtype::F64 => DType::F64,
        Dtype::F32 => DType::F32,
        Dtype::BF16 => DType::Bf16,
        Dtype::F16 => DType::F16,
        Dtype::I64 => DType::I64,
        Dtype::I32 => DType::I32,
        Dtype::BOOL => DType::Bool,
        _ => return None,
    })
}

fn to_stored(dtype: DType) -> Dtype {
    match dtype {
        DType::F64 => Dtype::F64,
        DType::F32 => Dtype::F32,
        DType::Bf16 => Dtype::BF16,
        DType::F16 => Dtype::F16,
        DType::I64 => Dtype::I64,
        DType::I32 => Dtype::I32,
        DType::Bool => Dtype::BOOL,
    }
}
