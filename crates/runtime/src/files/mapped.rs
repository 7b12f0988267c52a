//! A file as bytes, without reading it: the one place of this module that needs `unsafe`.
#![expect(unsafe_code, reason = "a mapped file is only as still as other programs leave it")]

use super::unreadable;
use memmap2::Mmap;
use shardweave_compiler::diagnostic::Diagnostic;
use std::fs::File;
use std::path::{Path, PathBuf};

/// A whole file, mapped read-only.
#[derive(Debug)]
pub struct MappedFile {
    path: PathBuf,
    map: Mmap,
}

impl MappedFile {
    /// Maps a regular file. Pipes and devices are refused, since they have no length.
    pub fn open(path: &Path) -> Result<MappedFile, Diagnostic> {
        let cannot = |error: std::io::Error| unreadable(path, format_args!("cannot be read: {error}"));
        if !std::fs::metadata(path).map_err(cannot)?.is_file() {
            return Err(unreadable(path, "is not a regular file"));
        }
        let file = File::open(path).map_err(cannot)?;
        // SAFETY: the map is private to this struct and never written through. Headers are copied out before
        // they are parsed, elements before they are taken for numbers, and every bit pattern of theirs is
        // allowed. What remains is the caveat of every mapped file: a program that writes to the file while
        // it is mapped changes bytes under a reader, and one that shortens it makes reads of the lost pages
        // fail with a signal. Readers of model files accept that.
        let map = unsafe { Mmap::map(&file) }.map_err(cannot)?;
        Ok(MappedFile { path: path.to_owned(), map })
    }

    /// Where the file is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its content.
    pub fn bytes(&self) -> &[u8] {
        &self.map
    }
}
