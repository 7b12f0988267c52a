//! Weights: tensors found by name over one or several files.
//!
//! A checkpoint that is split has an index that says which file has which tensor:
//! ```text
//! {"weight_map": {"a.weight": "model-1-of-2.safetensors", "b.weight": "model-2-of-2.safetensors"}}
//! ```
//! The files are named relative to the index.

use super::array::FileArray;
use super::mapped::MappedFile;
use super::safetensors::TensorFile;
use super::{short, unreadable};
use serde::Deserialize;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics, quote};
use shardweave_compiler::text::closest;
use std::collections::BTreeMap;
use std::path::{Component, Path, PathBuf};

/// Tensors of several files, by name.
#[derive(Debug, Default)]
pub struct Weights {
    files: Vec<Source>,
}

/// One of the files that were given.
#[derive(Debug)]
enum Source {
    File(TensorFile),
    Split(SplitCheckpoint),
}

/// The files of one index.
#[derive(Debug)]
struct SplitCheckpoint {
    index: PathBuf,
    files: Vec<TensorFile>,
    /// For each tensor the place of its file in `files`.
    holder: BTreeMap<String, usize>,
}

impl Weights {
    /// Opens `.safetensors` files and indices of split checkpoints. All that cannot be opened are told.
    pub fn open<P: AsRef<Path>>(paths: &[P]) -> Result<Weights, Diagnostics> {
        let mut found = Diagnostics::new();
        let mut files = Vec::new();
        for path in paths.iter().map(AsRef::as_ref) {
            let is_index = path.extension().is_some_and(|extension| extension == "json");
            let source = if is_index {
                SplitCheckpoint::open(path).map(Source::Split)
            } else {
                TensorFile::open(path).map(Source::File).map_err(Diagnostics::from)
            };
            match source {
                Ok(source) => files.push(source),
                Err(told) => found.extend(told),
            }
        }
        found.finish(Weights { files })
    }

    /// Whether no file was given.
    pub fn is_empty(&self) -> bool {
        self.files.is_empty()
    }

    /// The tensor of that name; an error if two files have it.
    pub fn find(&self, name: &str) -> Result<Option<FileArray>, Diagnostic> {
        let mut holders = self.files.iter().filter_map(|source| source.holder(name));
        let (first, second) = (holders.next(), holders.next());
        if let (Some(first), Some(second)) = (first, second) {
            let message = format!(
                "tensor {} is in two of the weight files: `{}` and `{}`",
                quote(name),
                first.path().display(),
                second.path().display()
            );
            return Err(Diagnostic::general(Code::InputTwice, message).help("give only one of them"));
        }
        match first {
            Some(file) => file.tensor(name),
            None => Ok(None),
        }
    }

    /// All names, sorted.
    pub fn names(&self) -> Vec<String> {
        let mut names: Vec<String> = self.files.iter().flat_map(Source::names).collect();
        names.sort();
        names
    }

    /// A name to be offered where `name` is missing: one with another prefix, or a few letters away.
    pub fn similar(&self, name: &str) -> Option<String> {
        let names = self.names();
        let ends_with =
            |long: &str, short: &str| long.strip_suffix(short).is_some_and(|rest| rest.ends_with('.'));
        let prefixed = names.iter().find(|other| ends_with(other, name) || ends_with(name, other));
        prefixed.cloned().or_else(|| closest(name, names.iter().map(String::as_str)).map(str::to_owned))
    }

    /// The files, as they were given.
    pub fn describe(&self) -> String {
        let paths = self.files.iter().map(|source| match source {
            Source::File(file) => format!("`{}`", file.path().display()),
            Source::Split(split) => format!("`{}`", split.index.display()),
        });
        paths.collect::<Vec<_>>().join(", ")
    }
}

impl Source {
    fn holder(&self, name: &str) -> Option<&TensorFile> {
        match self {
            Source::File(file) => file.has(name).then_some(file),
            Source::Split(split) => split.holder.get(name).map(|&file| &split.files[file]),
        }
    }

    fn names(&self) -> Vec<String> {
        match self {
            Source::File(file) => file.names(),
            Source::Split(split) => split.holder.keys().cloned().collect(),
        }
    }
}

impl SplitCheckpoint {
    fn open(index: &Path) -> Result<SplitCheckpoint, Diagnostics> {
        #[derive(Deserialize)]
        struct Index {
            weight_map: BTreeMap<String, String>,
        }
        let text = MappedFile::open(index)?.bytes().to_vec();
        let Index { weight_map } = serde_json::from_slice(&text).map_err(|error| {
            unreadable(index, format_args!("is not an index of a split checkpoint: {}", short(&error)))
        })?;
        let mut found = Diagnostics::new();
        let mut files: BTreeMap<&str, Option<TensorFile>> = BTreeMap::new();
        for name in weight_map.values() {
            if !files.contains_key(name.as_str()) {
                let opened = beside(index, name).and_then(|path| TensorFile::open(&path));
                files.insert(name, opened.map_err(|told| found.push(told)).ok());
            }
        }
        for (tensor, name) in &weight_map {
            let file = files[name.as_str()].as_ref();
            if file.is_some_and(|file| !file.has(tensor)) {
                let why = format!("says that {} has tensor {}, but it has not", quote(name), quote(tensor));
                found.push(unreadable(index, why));
            }
        }
        let places: BTreeMap<&str, usize> = files.keys().enumerate().map(|(i, &name)| (name, i)).collect();
        let holder =
            weight_map.iter().map(|(tensor, name)| (tensor.clone(), places[name.as_str()])).collect();
        let files: Vec<TensorFile> = files.into_values().flatten().collect();
        found.finish(SplitCheckpoint { index: index.to_owned(), files, holder })
    }
}

/// No system has files with longer names; a message repeats the name.
const LONGEST_NAME: usize = 1024;

/// The path of a file that an index names. An index says nothing about files elsewhere.
fn beside(index: &Path, name: &str) -> Result<PathBuf, Diagnostic> {
    let plain = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if name.is_empty() || name.len() > LONGEST_NAME || !Path::new(name).components().all(plain) {
        return Err(unreadable(
            index,
            format_args!("names {}, which is not a file beside it or below", quote(name)),
        ));
    }
    Ok(index.with_file_name(name))
}
