//! `.npy`: one array with a short header, as numpy saves it.
//!
//! ```text
//!  93 N U M P Y │ 1 0 │ length │ {'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }  \n │ elements
//!     magic      version  u16 in version 1,    a Python dict, padded with spaces so that
//!                         u32 in 2 and 3       the elements start at a multiple of 64
//! ```
//!
//! The header is read by hand: the dict has three keys of known form, and a general reader of Python
//! literals would recurse, multiply and allocate as a hostile header asks. The tests compare with the
//! `npyz` crate in both directions.

use super::array::{ByteOrder, DimOrder, FileArray, Stored};
use super::mapped::MappedFile;
use super::unreadable;
use crate::tensor::byte_count;
use shardweave_compiler::diagnostic::{Code, Diagnostic, quote};
use shardweave_compiler::dtype::DType;
use std::path::Path;
use std::sync::Arc;

const MAGIC: &[u8] = b"\x93NUMPY";

/// numpy's own limit on the number of dims.
const MOST_DIMS: usize = 64;

/// Opens a `.npy` file. Only the header is read.
pub fn open_npy(path: &Path) -> Result<FileArray, Diagnostic> {
    let file = MappedFile::open(path)?;
    let header = Header::read(file.bytes()).map_err(|why| not_npy(path, &why))?;
    let (dtype, bytes) = element_type(path, &header.descr)?;
    let need = byte_count(dtype, &header.shape);
    let have = file.bytes().len() - header.end;
    if need != Some(have) {
        let need = need.map_or("more bytes than there can be".into(), |n| format!("{n} bytes of elements"));
        let shape = &header.shape;
        return Err(unreadable(
            path,
            format_args!("the header says {dtype}{shape:?}, which takes {need}, but {have} follow it"),
        ));
    }
    let stored = Stored { dims: header.order, bytes };
    let array = FileArray::new(Arc::new(file), None, header.end, (dtype, header.shape), stored);
    Ok(array.expect("the file is as long as the header asks for"))
}

/// A file whose header is not that of a `.npy` file. If it is of the other format, that is said.
fn not_npy(path: &Path, why: &str) -> Diagnostic {
    let mistake = unreadable(path, why);
    match path.extension().is_some_and(|extension| extension == "safetensors") {
        true => mistake
            .help("give a file of tensors with `--inputs`, or with `--weights` for those named by `from`"),
        false => mistake,
    }
}

/// Whether a file starts as `.npy` does.
pub(super) fn is_npy(file: &[u8]) -> bool {
    file.starts_with(MAGIC)
}

/// The header of an array of `dtype`; an error for `bf16`, which numpy does not have.
pub(super) fn header(dtype: DType, shape: &[u64]) -> Option<Vec<u8>> {
    let descr = match dtype {
        DType::F64 => "<f8",
        DType::F32 => "<f4",
        DType::F16 => "<f2",
        DType::I64 => "<i8",
        DType::I32 => "<i4",
        DType::Bool => "|b1",
        DType::Bf16 => return None,
    };
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    let mut dict =
        format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({}), }}", sizes.trim_end());
    if shape.len() > 1 {
        dict = dict.replace(",)", ")"); // only a tuple of one needs its comma
    }
    let before = MAGIC.len() + 4;
    let padded = (before + dict.len() + 1).next_multiple_of(64) - before - 1;
    let dict = format!("{dict:padded$}\n");
    let length = u16::try_from(dict.len()).ok()?;
    Some([MAGIC, &[1, 0], &length.to_le_bytes(), dict.as_bytes()].concat())
}

/// The element type of a typestr such as `<f4`.
fn element_type(path: &Path, descr: &str) -> Result<(DType, ByteOrder), Diagnostic> {
    let order = if descr.starts_with('>') { ByteOrder::Big } else { ByteOrder::Little };
    let dtype = match descr.strip_prefix(['<', '>', '|', '=']).unwrap_or(descr) {
        "f8" => DType::F64,
        "f4" => DType::F32,
        "f2" => DType::F16,
        "i8" => DType::I64,
        "i4" => DType::I32,
        "b1" | "?" => DType::Bool,
        _ => {
            let message = format!(
                "file `{}` holds elements of numpy's type {}; only f64 f32 f16 i64 i32 bool can be read",
                path.display(),
                quote(descr)
            );
            let raw = descr.ends_with("V2") || descr.contains("bfloat16");
            let help = if raw {
                "numpy has no bf16: save the array as `.safetensors`"
            } else {
                "convert it with numpy's `astype` before saving"
            };
            return Err(Diagnostic::general(Code::FormatDType, message).help(help));
        }
    };
    Ok((dtype, order))
}

/// What the header of a file says.
#[derive(Debug)]
struct Header {
    descr: String,
    order: DimOrder,
    shape: Vec<u64>,
    /// Where the elements start.
    end: usize,
}

impl Header {
    fn read(file: &[u8]) -> Result<Header, String> {
        let rest = file.strip_prefix(MAGIC).ok_or("does not start as a `.npy` file does")?;
        let (length, before) = match *rest {
            [1, 0, a, b, ..] => (u64::from(u16::from_le_bytes([a, b])), 4),
            [2 | 3, 0, a, b, c, d, ..] => (u64::from(u32::from_le_bytes([a, b, c, d])), 6),
            [major, minor, ..] if minor > 0 || !(1..=3).contains(&major) => {
                return Err(format!("`.npy` version {major}.{minor} is not known"));
            }
            _ => return Err("ends inside its header".into()),
        };
        let text = usize::try_from(length).ok().and_then(|length| rest[before..].get(..length));
        let text = text.ok_or_else(|| {
            format!("its header claims to be {length} bytes long, but only {} follow", rest.len() - before)
        })?;
        let end = MAGIC.len() + before + text.len();
        // Copied first: what a mapped file holds may change under a reader that looks twice.
        let text = text.to_vec();
        let (descr, order, shape) =
            Dict { rest: &text }.read().map_err(|why| format!("bad header: {why}"))?;
        Ok(Header { descr, order, shape, end })
    }
}

/// Reads the dict from left to right.
struct Dict<'a> {
    rest: &'a [u8],
}

impl Dict<'_> {
    fn read(mut self) -> Result<(String, DimOrder, Vec<u64>), String> {
        let (mut descr, mut order, mut shape) = (None, None, None);
        self.expect(b'{')?;
        while !self.accept(b'}') {
            let key = self.string()?;
            self.expect(b':')?;
            match key.as_str() {
                "descr" => descr = Some(self.descr()?),
                "fortran_order" => order = Some(self.order()?),
                "shape" => shape = Some(self.shape()?),
                other => return Err(format!("unknown key {}", quote(other))),
            }
            if !self.accept(b',') {
                self.expect(b'}')?;
                break;
            }
        }
        self.skip_space();
        match self.rest {
            [] => {}
            _ => return Err("something follows the dict".into()),
        }
        Ok((
            descr.ok_or("it has no `descr`")?,
            order.ok_or("it has no `fortran_order`")?,
            shape.ok_or("it has no `shape`")?,
        ))
    }

    /// The typestr. Record types are a list and are not read.
    fn descr(&mut self) -> Result<String, String> {
        self.skip_space();
        match self.rest.first() {
            Some(b'[') => Err("its elements are records, not numbers".into()),
            _ => self.string(),
        }
    }

    fn order(&mut self) -> Result<DimOrder, String> {
        self.skip_space();
        for (word, order) in [("True", DimOrder::FirstFastest), ("False", DimOrder::LastFastest)] {
            if let Some(rest) = self.rest.strip_prefix(word.as_bytes()) {
                self.rest = rest;
                return Ok(order);
            }
        }
        Err("`fortran_order` is neither True nor False".into())
    }

    /// `()`, `(3,)`, `(3, 4)`; Python 2 wrote `3L`.
    fn shape(&mut self) -> Result<Vec<u64>, String> {
        let mut shape = Vec::new();
        self.expect(b'(')?;
        while !self.accept(b')') {
            if shape.len() == MOST_DIMS {
                return Err(format!("it has more than {MOST_DIMS} dims"));
            }
            shape.push(self.size()?);
            self.accept(b'L');
            if !self.accept(b',') {
                self.expect(b')')?;
                break;
            }
        }
        Ok(shape)
    }

    fn size(&mut self) -> Result<u64, String> {
        self.skip_space();
        let digits = self.rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let (number, rest) = self.rest.split_at(digits);
        self.rest = rest;
        let number = std::str::from_utf8(number).expect("digits are text");
        number.parse().map_err(|_| "a size in `shape` is not a number of 64 bits".into())
    }

    /// A quoted string without escapes.
    fn string(&mut self) -> Result<String, String> {
        self.skip_space();
        let (quote, rest) = match self.rest {
            [quote @ (b'\'' | b'"'), rest @ ..] => (*quote, rest),
            _ => return Err("a quoted string is missing".into()),
        };
        let end = rest.iter().position(|&byte| byte == quote).ok_or("a quoted string does not end")?;
        self.rest = &rest[end + 1..];
        Ok(String::from_utf8_lossy(&rest[..end]).into_owned())
    }

    fn expect(&mut self, wanted: u8) -> Result<(), String> {
        if self.accept(wanted) { Ok(()) } else { Err(format!("`{}` is missing", char::from(wanted))) }
    }

    fn accept(&mut self, wanted: u8) -> bool {
        self.skip_space();
        match self.rest {
            [first, rest @ ..] if *first == wanted => {
                self.rest = rest;
                true
            }
            _ => false,
        }
    }

    fn skip_space(&mut self) {
        self.rest = self.rest.trim_ascii_start();
    }
}
