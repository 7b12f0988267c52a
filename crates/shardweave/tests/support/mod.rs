//! Runs the built binary in a directory of its own.
#![allow(dead_code)] // each test file uses a part

pub mod examples;

use npyz::WriterBuilder;
use safetensors::tensor::{Dtype, TensorView};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Command;
use tempfile::TempDir;

/// A directory with files, in which commands are run.
pub struct Bench {
    directory: TempDir,
}

/// How a command ended.
pub struct Ended {
    pub status: i32,
    pub stdout: String,
    pub stderr: String,
    command: String,
}

impl Bench {
    pub fn new() -> Bench {
        Bench {
            directory: tempfile::tempdir().expect("tests can write to the directory for temporary files"),
        }
    }

    /// With a file `p.weave`.
    pub fn with(program: &str) -> Bench {
        let bench = Bench::new();
        bench.put("p.weave", program.as_bytes());
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.path(name), bytes).expect("tests can write");
    }

    /// Runs `shardweave` with words separated by blanks.
    pub fn run(&self, words: &str) -> Ended {
        let output = Command::new(env!("CARGO_BIN_EXE_shardweave"))
            .args(words.split_whitespace())
            .current_dir(self.directory.path())
            .output()
            .expect("the binary is built");
        Ended {
            status: output.status.code().expect("the command ends by itself"),
            stdout: String::from_utf8(output.stdout).expect("text"),
            stderr: String::from_utf8(output.stderr).expect("text"),
            command: words.to_owned(),
        }
    }

    /// All names in the directory, sorted.
    pub fn names(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).expect("a directory");
        let mut names: Vec<String> = entries
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    /// Saves f32 elements, row-major.
    pub fn npy(&self, name: &str, shape: &[u64], elements: &[f32]) {
        self.npy_in_order(name, shape, elements, npyz::Order::C);
    }

    /// Saves f32 elements in the order in which they are to lie in the file.
    pub fn npy_in_order(&self, name: &str, shape: &[u64], elements: &[f32], order: npyz::Order) {
        self.npy_of(name, shape, elements, order);
    }

    /// Saves elements of any type.
    pub fn npy_of<T: npyz::AutoSerialize + Copy>(
        &self,
        name: &str,
        shape: &[u64],
        elements: &[T],
        order: npyz::Order,
    ) {
        let mut bytes = Vec::new();
        let options = npyz::WriteOptions::<T>::new().default_dtype().shape(shape).order(order);
        let mut writer = options.writer(&mut bytes).begin_nd().expect("a header");
        writer.extend(elements.iter().copied()).expect("elements");
        writer.finish().expect("all elements");
        self.put(name, &bytes);
    }

    /// Saves f32 tensors.
    pub fn safetensors(&self, name: &str, tensors: &[(&str, &[usize], &[f32])]) {
        let bytes: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, _, elements)| elements.iter().flat_map(|x| x.to_le_bytes()).collect())
            .collect();
        let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
            (*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).expect("bytes fit the shape"))
        });
        self.put(name, &safetensors::serialize(views, None).expect("good tensors"));
    }

    /// Reads an f32 array: its sizes and its elements.
    pub fn read_npy(&self, name: &str) -> (Vec<u64>, Vec<f32>) {
        read_npy(&self.path(name))
    }
}

pub fn read_npy(path: &Path) -> (Vec<u64>, Vec<f32>) {
    let bytes = std::fs::read(path).expect("the file is there");
    let file = npyz::NpyFile::new(bytes.as_slice()).expect("a .npy file");
    (file.shape().to_vec(), file.into_vec().expect("f32"))
}

impl Ended {
    /// Checks the exit status.
    #[track_caller]
    pub fn exits(self, status: i32) -> Ended {
        assert_eq!(
            self.status, status,
            "shardweave {}\n--- stdout\n{}\n--- stderr\n{}",
            self.command, self.stdout, self.stderr
        );
        self
    }

    /// Checks that every word stands in stderr.
    #[track_caller]
    pub fn tells(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(
                self.stderr.contains(word),
                "shardweave {}\nstderr lacks `{word}`:\n{}",
                self.command,
                self.stderr
            );
        }
        self
    }

    /// Checks that every word stands in stdout.
    #[track_caller]
    pub fn prints(self, words: &[&str]) -> Ended {
        for word in words {
            assert!(
                self.stdout.contains(word),
                "shardweave {}\nstdout lacks `{word}`:\n{}",
                self.command,
                self.stdout
            );
        }
        self
    }

    /// Stdout as JSON.
    #[track_caller]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.stdout).unwrap_or_else(|error| {
            panic!(
                "shardweave {}: {error}\n--- stdout\n{}\n--- stderr\n{}",
                self.command, self.stdout, self.stderr
            )
        })
    }

    /// The codes of the errors that `--json` gives.
    #[track_caller]
    pub fn codes(&self) -> Vec<String> {
        let json = self.json();
        let errors = json["errors"].as_array().expect("a list of errors");
        errors.iter().map(|error| error["code"].as_str().expect("a code").to_owned()).collect()
    }
}
