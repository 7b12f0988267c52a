//! Writing arrays: beside the target first, renamed when everything has succeeded.
//!
//! ```text
//!  reserve_npy(y.npy) ────────▶ .y.npy.4711.partial: header, and room for elements
//!    fill                        elements ──┐
//!  write_npy(z.npy): both        elements ──┴─ commit ─▶ y.npy, z.npy
//! ```
//!
//! Several processes can fill the room that one of them has made. Dropped without `commit`, nothing is left: a target is never seen half written, and a run that fails
//! leaves what was there before.

use super::npy;
use super::safetensors::{self, Entry};
use crate::tensor::{Tensor, byte_count};
use serde::{Deserialize, Serialize};
use shardweave_compiler::diagnostic::{Code, Diagnostic};
use shardweave_compiler::dtype::DType;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// A file format for outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FileFormat {
    /// One array.
    Npy,
    /// Arrays by name.
    Safetensors,
}

impl FileFormat {
    /// An error if the format has no such element type.
    pub fn takes(self, dtype: DType, path: &Path) -> Result<(), Diagnostic> {
        if self == FileFormat::Npy && npy::header(dtype, &[]).is_none() {
            let message = format!("file `{}`: the `.npy` format has no {dtype}", path.display());
            let help = "write it with `--outputs FILE.safetensors`, or `cast` the output to f32";
            return Err(Diagnostic::general(Code::FormatDType, message).help(help));
        }
        Ok(())
    }
}

/// Files being written.
#[derive(Debug, Default)]
pub struct OutputFiles {
    staged: Vec<Staged>,
}

/// A file beside its target. Removed when dropped, unless it has been renamed.
#[derive(Debug)]
struct Staged {
    target: PathBuf,
    beside: PathBuf,
    ending: String,
}

impl OutputFiles {
    /// Nothing written yet.
    pub fn new() -> OutputFiles {
        OutputFiles::default()
    }

    /// Finds out, before there is anything to write, whether a file can be written there.
    pub fn probe(path: &Path) -> Result<(), Diagnostic> {
        Staged::create(path).map(|_removed_at_once| ()).map_err(|error| cannot(path, &error))
    }

    /// Writes an array beside `path`.
    pub fn write_npy(&mut self, path: &Path, tensor: &Tensor) -> Result<(), Diagnostic> {
        let room = self.reserve_npy(path, tensor.dtype(), tensor.shape())?;
        self.fill_last(path, &room, &[tensor.bytes()])
    }

    /// Writes arrays by name beside `path`.
    pub fn write_safetensors(&mut self, path: &Path, tensors: &[(&str, &Tensor)]) -> Result<(), Diagnostic> {
        let array = |(name, tensor): &(_, &Tensor)| (*name, tensor.dtype(), tensor.shape().to_vec());
        let arrays: Vec<(&str, DType, Vec<u64>)> = tensors.iter().map(array).collect();
        let room = self.reserve_safetensors(path, &arrays)?;
        self.fill_last(path, &room, &tensors.iter().map(|(_, tensor)| tensor.bytes()).collect::<Vec<_>>())
    }

    /// Writes any bytes beside `path`.
    pub fn write_bytes(&mut self, path: &Path, bytes: &[u8]) -> Result<(), Diagnostic> {
        let room = self.reserve(path, &[], &[bytes.len()])?;
        self.fill_last(path, &room, &[bytes])
    }

    /// Fills the room that was made last; if that fails, there is no such file.
    fn fill_last(&mut self, path: &Path, room: &Reserved, arrays: &[&[u8]]) -> Result<(), Diagnostic> {
        let filled = room.fill(path, |filling| {
            arrays.iter().enumerate().try_for_each(|(array, bytes)| filling.put(array, 0, bytes))
        });
        if filled.is_err() {
            self.staged.pop();
        }
        filled
    }

    /// Makes room for an array beside `path`. Its elements are put there with [`Reserved::fill`]; if that fails, nothing
    /// must be committed.
    pub fn reserve_npy(&mut self, path: &Path, dtype: DType, shape: &[u64]) -> Result<Reserved, Diagnostic> {
        FileFormat::Npy.takes(dtype, path)?;
        let header = npy::header(dtype, shape);
        let header = header.ok_or_else(|| cannot(path, &io::Error::other("the array has too many dims")))?;
        let bytes =
            byte_count(dtype, shape).ok_or_else(|| cannot(path, &io::Error::other("it is too large")))?;
        self.reserve(path, &header, &[bytes])
    }

    /// Makes room for arrays by name beside `path`, as [`reserve_npy`](Self::reserve_npy) does for one. They are counted
    /// in the order given.
    pub fn reserve_safetensors(
        &mut self,
        path: &Path,
        arrays: &[(&str, DType, Vec<u64>)],
    ) -> Result<Reserved, Diagnostic> {
        let order = by_width(arrays.iter().map(|(_, dtype, _)| *dtype));
        let mut entries = Vec::new();
        for (name, dtype, shape) in order.iter().map(|&at| &arrays[at]) {
            let bytes = byte_count(*dtype, shape);
            let bytes = bytes.ok_or_else(|| cannot(path, &io::Error::other("it is too large")))?;
            entries.push(Entry { name: (*name).to_owned(), dtype: *dtype, shape: shape.clone(), bytes });
        }
        let header = safetensors::header(&entries).map_err(|why| cannot(path, &io::Error::other(why)))?;
        let lengths: Vec<usize> = entries.iter().map(|entry| entry.bytes).collect();
        let reserved = self.reserve(path, &header, &lengths)?;
        let mut starts = vec![0; arrays.len()];
        order.iter().zip(reserved.starts).for_each(|(&at, start)| starts[at] = start);
        Ok(Reserved { starts, ..reserved })
    }

    fn reserve(&mut self, path: &Path, header: &[u8], lengths: &[usize]) -> Result<Reserved, Diagnostic> {
        let reserve = || {
            let (staged, mut file) = Staged::create(path)?;
            file.write_all(header)?;
            let mut end = header.len() as u64;
            let mut starts = Vec::new();
            for &length in lengths {
                starts.push(end);
                end += length as u64;
            }
            file.set_len(end)?;
            let ending = staged.ending.clone();
            Ok((staged, Reserved { ending, starts }))
        };
        let (staged, reserved) = reserve().map_err(|error| cannot(path, &error))?;
        self.staged.push(staged);
        Ok(reserved)
    }

    /// Renames all files to their targets. If one cannot be, every target is again what it was before.
    pub fn commit(mut self) -> Result<(), Diagnostic> {
        let mut placed: Vec<Placed> = Vec::new();
        for staged in &self.staged {
            match Placed::put(staged) {
                Ok(done) => placed.push(done),
                Err(error) => {
                    placed.into_iter().rev().for_each(Placed::undo);
                    return Err(cannot(&staged.target, &error));
                }
            }
        }
        placed.into_iter().for_each(Placed::keep);
        self.staged.iter_mut().for_each(Staged::keep);
        Ok(())
    }
}

/// Room for arrays in a file that is being written. Can be told to other processes, which can fill it as well.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Reserved {
    /// What the file's name has beyond that of its target. (The target's own name may be no text.)
    ending: String,
    /// Where the elements of each array start in it.
    starts: Vec<u64>,
}

/// A file in which there is room for arrays.
#[derive(Debug)]
pub struct Filling<'a> {
    file: File,
    starts: &'a [u64],
}

impl Reserved {
    /// Writes elements into the file that is to become `path`.
    pub fn fill(
        &self,
        path: &Path,
        put: impl FnOnce(&mut Filling<'_>) -> io::Result<()>,
    ) -> Result<(), Diagnostic> {
        let fill = || {
            // Beside the target, as where the room was made.
            let file = OpenOptions::new().write(true).open(hidden(&target_of(path)?, &self.ending)?)?;
            let mut filling = Filling { file, starts: &self.starts };
            put(&mut filling)?;
            filling.file.sync_all()
        };
        fill().map_err(|error| cannot(path, &error))
    }
}

impl Filling<'_> {
    /// Puts bytes of an array there, from this one of its bytes on.
    pub fn put(&mut self, array: usize, at: u64, bytes: &[u8]) -> io::Result<()> {
        self.file.seek(SeekFrom::Start(self.starts[array] + at))?;
        self.file.write_all(bytes)
    }
}

/// Through a symbolic link the file is written that it points to.
fn target_of(path: &Path) -> io::Result<PathBuf> {
    if path.is_symlink() { fs::canonicalize(path) } else { Ok(path.to_owned()) }
}

fn hidden(target: &Path, ending: &str) -> io::Result<PathBuf> {
    let name = target.file_name().ok_or_else(|| io::Error::other("the path has no file name"))?;
    let mut hidden = std::ffi::OsString::from(".");
    hidden.push(name);
    hidden.push(ending);
    Ok(target.with_file_name(hidden))
}

/// The order in which a `.safetensors` file has arrays of these element types: the widest first.
fn by_width(dtypes: impl Iterator<Item = DType>) -> Vec<usize> {
    let dtypes: Vec<DType> = dtypes.collect();
    let mut order: Vec<usize> = (0..dtypes.len()).collect();
    order.sort_by_key(|&at| std::cmp::Reverse(dtypes[at].size()));
    order
}

/// A target that has its new content, and its old content beside it if there was any.
struct Placed {
    target: PathBuf,
    old: Option<PathBuf>,
}

impl Placed {
    fn put(staged: &Staged) -> io::Result<Placed> {
        let Staged { target, beside, .. } = staged;
        // What came there since the target was looked at is moved away only if it is a file.
        let old = match fs::symlink_metadata(target) {
            Ok(there) if there.is_file() => Some(beside.with_extension("old")),
            Ok(_) => return Err(io::Error::other("there is something that is no file")),
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        if let Some(old) = &old {
            // A second name keeps the old content; where the file system has none, it is moved away.
            fs::hard_link(target, old).or_else(|_| fs::rename(target, old))?;
        }
        if let Err(error) = fs::rename(beside, target) {
            if let Some(old) = &old {
                // Two names of one file: renaming one to the other would leave both.
                let _ = if target.exists() { fs::remove_file(old) } else { fs::rename(old, target) };
            }
            return Err(error);
        }
        Ok(Placed { target: target.clone(), old })
    }

    /// The target as it was. What fails here is not told: the first error is.
    fn undo(self) {
        let _ = match &self.old {
            Some(old) => fs::rename(old, &self.target),
            None => fs::remove_file(&self.target),
        };
    }

    /// The old content is not needed any more.
    fn keep(self) {
        if let Some(old) = &self.old {
            let _ = fs::remove_file(old); // a second name that stays behind loses nothing
        }
    }
}

impl Staged {
    fn create(path: &Path) -> io::Result<(Staged, File)> {
        let target = target_of(path)?;
        match fs::metadata(&target) {
            Ok(there) if !there.is_file() => {
                return Err(io::Error::other("there is something that is no file"));
            }
            Ok(there) if there.permissions().readonly() => return Err(io::ErrorKind::PermissionDenied.into()),
            _ => {}
        }
        for attempt in 0_u32.. {
            let ending = format!(".{}.{attempt}.partial", std::process::id());
            let beside = hidden(&target, &ending)?;
            match File::create_new(&beside) {
                Ok(file) => return Ok((Staged { target, beside, ending }, file)),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && attempt < 1000 => {}
                Err(error) => return Err(error),
            }
        }
        unreachable!("the loop ends at the latest after its thousandth attempt")
    }

    /// There is nothing left to remove.
    fn keep(&mut self) {
        self.beside = PathBuf::new();
    }
}

impl Drop for Staged {
    fn drop(&mut self) {
        if !self.beside.as_os_str().is_empty() {
            let _ = fs::remove_file(&self.beside); // it may have been renamed, or never been there
        }
    }
}

fn cannot(path: &Path, error: &io::Error) -> Diagnostic {
    Diagnostic::general(Code::FileWrite, format!("file `{}` cannot be written: {error}", path.display()))
        .help("name a file in a folder that can be written to")
}
