//! Files of arrays: `.npy`, `.safetensors`, and the index of a split checkpoint.
//!
//! The first line of an input says what follows. To get past the lengths in a header, which edits rarely
//! leave right, an input can also be a header alone, to which the length is put:
//!
//! ```text
//!  npy          bytes of a file           safetensors         bytes of a file
//!  npy header   the dict, then elements   safetensors header  the JSON, then elements
//!  index        the JSON, beside two files `a.safetensors` and `b.safetensors`
//! ```
//!
//! What is accepted is read by an independent reader too, and has to be the same.

use super::{Behaviour, contents};
use shardweave_compiler::diagnostic::{Diagnostic, Diagnostics};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use shardweave_runtime::files::{FileArray, TensorFile, Weights, open_npy};
use shardweave_runtime::tensor::ArraySource;
use std::fs;
use std::io::Cursor;
use std::path::PathBuf;

const NPY: &str = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }\n";

const TENSORS: &str = r#"{"__metadata__":{"format":"pt"},"x":{"dtype":"F32","shape":[2,3],"data_offsets":[0,24]},"b":{"dtype":"BOOL","shape":[4],"data_offsets":[24,28]}}"#;

const INDEX: &str = r#"{"metadata":{"total_size":28},"weight_map":{"x":"a.safetensors","y":"b.safetensors","z":"b.safetensors"}}"#;

/// Each kind with a few of its well formed inputs, and what once failed.
pub fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    let elements: Vec<u8> = (0..24).collect();
    for (descr, order, shape) in [
        ("<f4", "False", "(2, 3)"),
        (">i4", "True", "(3, 2)"),
        ("<f8", "False", "(3,)"),
        ("|b1", "False", "(0, 24)"),
        ("<f2", "True", "(1, 2, 3, 2)"),
        ("<i8", "False", "()"),
    ] {
        let dict = format!("{{'descr': '{descr}', 'fortran_order': {order}, 'shape': {shape}, }}\n");
        seeds.push([b"npy header\n", dict.as_bytes(), &elements].concat());
    }
    seeds.push([b"npy\n", &npy_file(NPY.as_bytes(), &elements)[..]].concat());
    let tensors = [&elements[..], &[0, 1, 1, 0]].concat();
    seeds.push([b"safetensors header\n", TENSORS.as_bytes(), b"\n", &tensors].concat());
    seeds.push([b"safetensors\n", &tensor_file(TENSORS.as_bytes(), &tensors)[..]].concat());
    seeds.push([b"index\n", INDEX.as_bytes()].concat());
    seeds.extend(contents("corpus/files", &["bin"]));
    seeds
}

/// Writes the file that an input stands for, and reads it.
pub fn check(input: &[u8]) -> Result<Behaviour, String> {
    let folder = tempfile::tempdir().map_err(|error| format!("no folder to write to: {error}"))?;
    let mut behaviour = Behaviour::default();
    let Some((kind, rest)) = split_line(input) else { return Ok(behaviour) };
    let place = Place { folder: folder.path().to_owned() };
    match kind {
        b"npy" => place.npy(rest, &mut behaviour)?,
        b"npy header" => {
            let (dict, elements) = split_line(rest).unwrap_or((rest, b""));
            place.npy(&npy_file(dict, elements), &mut behaviour)?;
        }
        b"safetensors" => place.tensors(rest, &mut behaviour)?,
        b"safetensors header" => {
            let (json, elements) = split_line(rest).unwrap_or((rest, b""));
            place.tensors(&tensor_file(json, elements), &mut behaviour)?;
        }
        b"index" => place.index(rest, &mut behaviour)?,
        _ => behaviour.did("neither"),
    }
    Ok(behaviour)
}

fn split_line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let end = bytes.iter().position(|&byte| byte == b'\n')?;
    Some((&bytes[..end], &bytes[end + 1..]))
}

fn npy_file(dict: &[u8], elements: &[u8]) -> Vec<u8> {
    let length = u32::try_from(dict.len()).unwrap_or(u32::MAX).to_le_bytes();
    [b"\x93NUMPY\x02\x00", &length[..], dict, elements].concat()
}

fn tensor_file(json: &[u8], elements: &[u8]) -> Vec<u8> {
    [&(json.len() as u64).to_le_bytes()[..], json, elements].concat()
}

/// The folder of one input.
struct Place {
    folder: PathBuf,
}

impl Place {
    fn write(&self, name: &str, bytes: &[u8]) -> Result<PathBuf, String> {
        let path = self.folder.join(name);
        fs::write(&path, bytes).map_err(|error| format!("no file to write to: {error}"))?;
        Ok(path)
    }

    fn npy(&self, file: &[u8], behaviour: &mut Behaviour) -> Result<(), String> {
        let path = self.write("x.npy", file)?;
        let array = match open_npy(&path) {
            Ok(array) => array,
            Err(mistake) => return told(behaviour, mistake),
        };
        behaviour.did(format!("npy {} of {} dims", array.dtype(), array.shape().len()));
        let whole = read_whole(&array, behaviour)?;
        let independent = match npyz::NpyFile::new(Cursor::new(file)) {
            Ok(independent) => independent,
            // numpy takes a type without an order of bytes; the other reader does not.
            Err(error) if error.to_string().contains("type string") => return Ok(()),
            Err(error) => return Err(format!("accepted, but an independent reader says: {error}")),
        };
        if independent.shape() != array.shape() {
            return Err(format!("the shape is {:?}, read as {:?}", independent.shape(), array.shape()));
        }
        let (descr, order) = (independent.dtype().descr(), independent.order());
        let header = independent.into_inner().position() as usize;
        match whole {
            Some(whole) => same_elements(&array, &whole, &file[header..], &descr, order),
            None => Ok(()),
        }
    }

    fn tensors(&self, file: &[u8], behaviour: &mut Behaviour) -> Result<(), String> {
        let path = self.write("m.safetensors", file)?;
        let opened = match TensorFile::open(&path) {
            Ok(opened) => opened,
            Err(mistake) => return told(behaviour, mistake),
        };
        let length = u64::from_le_bytes(file[..8].try_into().expect("8 bytes")) as usize;
        let header: serde_json::Value = serde_json::from_slice(&file[8..8 + length])
            .map_err(|error| format!("accepted, but the header is no JSON: {error}"))?;
        let entries = header.as_object().ok_or("accepted, but the header is no object")?;
        let names = opened.names();
        behaviour.counted("tensors", names.len());
        if names.len() != entries.keys().filter(|name| *name != "__metadata__").count() {
            return Err(format!("there are tensors {names:?} in {header}"));
        }
        for name in names {
            match opened.tensor(&name) {
                Err(mistake) => told(behaviour, mistake)?,
                Ok(None) => return Err(format!("`{name}` is named, but is not there")),
                Ok(Some(array)) => {
                    behaviour.did(format!("tensor {} of {} dims", array.dtype(), array.shape().len()));
                    let whole = read_whole(&array, behaviour)?;
                    same_entry(&array, &entries[&name], whole.as_deref(), &file[8 + length..])
                        .map_err(|how| format!("`{name}`: {how}"))?;
                }
            }
        }
        Ok(())
    }

    fn index(&self, json: &[u8], behaviour: &mut Behaviour) -> Result<(), String> {
        let one = |name: &str| format!(r#"{{"{name}":{{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}}}"#);
        self.write("a.safetensors", &tensor_file(one("x").as_bytes(), &[1]))?;
        let two = r#"{"y":{"dtype":"F32","shape":[],"data_offsets":[0,4]},"z":{"dtype":"I32","shape":[1],"data_offsets":[4,8]}}"#;
        self.write("b.safetensors", &tensor_file(two.as_bytes(), &[0; 8]))?;
        let path = self.write("m.safetensors.index.json", json)?;
        let weights = match Weights::open(&[path]) {
            Ok(weights) => weights,
            Err(mistakes) => {
                behaviour.told("index", &mistakes);
                return short(&mistakes);
            }
        };
        let names = weights.names();
        behaviour.counted("weights", names.len());
        for name in names {
            match weights.find(&name) {
                Ok(Some(array)) => drop(read_whole(&array, behaviour)?),
                Ok(None) => return Err(format!("`{name}` is named, but is not there")),
                Err(mistake) => told(behaviour, mistake)?,
            }
        }
        Ok(())
    }
}

/// A refusal: short, whatever the file held.
fn told(behaviour: &mut Behaviour, mistake: Diagnostic) -> Result<(), String> {
    let mistakes = Diagnostics::from(mistake);
    behaviour.told("file", &mistakes);
    short(&mistakes)
}

fn short(mistakes: &Diagnostics) -> Result<(), String> {
    const LONGEST: usize = 3000;
    match mistakes.errors().iter().find(|mistake| mistake.message.len() > LONGEST) {
        None => Ok(()),
        Some(mistake) => {
            Err(format!("a message of {} bytes with code {}", mistake.message.len(), mistake.code))
        }
    }
}

/// The elements, row-major, read whole and in two pieces; `None` if the file holds bools that are none.
fn read_whole(array: &FileArray, behaviour: &mut Behaviour) -> Result<Option<Vec<u8>>, String> {
    let whole = match array.load() {
        Ok(whole) => whole,
        Err(_) if array.dtype() == DType::Bool => {
            behaviour.did("bytes that are no bools");
            return Ok(None);
        }
        Err(reason) => return Err(reason.to_string()),
    };
    let (Some(&first), element) = (array.shape().first(), array.dtype().size()) else {
        return Ok(Some(whole.bytes().to_vec()));
    };
    let row: u64 = array.shape()[1..].iter().product::<u64>() * element;
    for rows in [0..first / 2, first / 2..first] {
        let piece = array.shape()[1..].iter().map(|&size| IndexSet::range(0, size));
        let piece: Vec<IndexSet> = [IndexSet::range(rows.start, rows.end)].into_iter().chain(piece).collect();
        let mut bytes = vec![0; ((rows.end - rows.start) * row) as usize];
        array.read(&piece, &mut bytes).map_err(|why| why.to_string())?;
        if bytes != whole.bytes()[(rows.start * row) as usize..(rows.end * row) as usize] {
            return Err(format!("rows {rows:?} of {array:?} read alone are others"));
        }
    }
    Ok(Some(whole.bytes().to_vec()))
}

/// Whether what was read is what is stored, by the words of the format: element `(i, j, k)` of `[a, b, c]`
/// lies at `k + c (j + b i)`, in Fortran order at `i + a (j + b k)`; `>` has the first byte first.
fn same_elements(
    array: &FileArray,
    whole: &[u8],
    stored: &[u8],
    descr: &str,
    order: npyz::Order,
) -> Result<(), String> {
    let element = array.dtype().size() as usize;
    let shape: Vec<usize> = array.shape().iter().map(|&size| size as usize).collect();
    if whole.len() != stored.len() {
        return Err(format!("{} bytes are stored, {} are read", stored.len(), whole.len()));
    }
    for (at, read) in whole.chunks_exact(element).enumerate() {
        let mut rest = at;
        let mut index = vec![0; shape.len()];
        for (dim, &size) in shape.iter().enumerate().rev() {
            index[dim] = rest % size;
            rest /= size;
        }
        let place = match order {
            npyz::Order::C => at,
            npyz::Order::Fortran => {
                shape.iter().zip(&index).rev().fold(0, |place, (&size, &i)| i + size * place)
            }
        };
        let mut expected = stored[place * element..][..element].to_vec();
        if descr.contains('>') {
            expected.reverse();
        }
        if read != expected {
            return Err(format!("element {index:?} is {read:?}, stored as {expected:?}"));
        }
    }
    Ok(())
}

/// Whether a tensor is what the entry of the header says.
fn same_entry(
    array: &FileArray,
    entry: &serde_json::Value,
    whole: Option<&[u8]>,
    elements: &[u8],
) -> Result<(), String> {
    let dtype = match array.dtype() {
        DType::Bool => "BOOL".into(),
        dtype => dtype.to_string().to_uppercase(),
    };
    let number = |value: &serde_json::Value| value.as_u64().ok_or_else(|| format!("{value} is no number"));
    let numbers = |key: &str| -> Result<Vec<u64>, String> {
        entry[key].as_array().into_iter().flatten().map(number).collect()
    };
    let offsets = numbers("data_offsets")?;
    let [start, end] = offsets[..] else { return Err(format!("the offsets are {offsets:?}")) };
    if entry["dtype"] != dtype.as_str() || numbers("shape")? != array.shape() {
        return Err(format!("{entry} is read as {dtype}{:?}", array.shape()));
    }
    let stored = elements.get(start as usize..end as usize).ok_or("the offsets are not in the file")?;
    match whole {
        Some(whole) if whole != stored => Err(format!("{entry} is read as other bytes")),
        _ => Ok(()),
    }
}
