//! Files that we write: others read them, and either all are there or none is.

use shardweave_compiler::diagnostic::Code;
use shardweave_runtime::files::{OutputFiles, Reserved, open_npy};
use shardweave_runtime::tensor::Tensor;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

fn directory() -> TempDir {
    tempfile::tempdir().expect("tests can write to the directory for temporary files")
}

fn put(directory: &TempDir, name: &str, bytes: &[u8]) -> PathBuf {
    let path = directory.path().join(name);
    std::fs::write(&path, bytes).expect("tests can write");
    path
}

#[test]
fn what_we_write_as_safetensors_is_read_by_others() {
    let dir = directory();
    let flags = Tensor::from_bools(&[3], &[true, false, true]);
    let numbers = Tensor::from_elements(&[2, 1], &[1.5_f64, -2.0]);
    let halves = Tensor::from_elements(&[], &[half::bf16::from_f32(3.0)]);
    let path = dir.path().join("out.safetensors");
    let mut files = OutputFiles::new();
    let tensors = [("flags", &flags), ("numbers", &numbers), ("halves", &halves)];
    files.write_safetensors(&path, &tensors).expect("written");
    assert!(!path.exists(), "nothing is there before all are renamed");
    files.commit().expect("renamed");
    let bytes = std::fs::read(&path).expect("there");
    let read = safetensors::SafeTensors::deserialize(&bytes).expect("others read it");
    for (name, tensor) in tensors {
        let view = read.tensor(name).expect("there");
        assert_eq!(view.data(), tensor.bytes(), "{name}");
        assert_eq!(view.shape().len(), tensor.shape().len());
        assert_eq!(view.data().as_ptr().addr() - bytes.as_ptr().addr(), {
            let start = view.data().as_ptr().addr() - bytes.as_ptr().addr();
            start.next_multiple_of(tensor.dtype().size() as usize)
        });
    }
}

#[test]
fn what_is_not_committed_leaves_nothing() {
    let dir = directory();
    let tensor = Tensor::from_elements(&[1], &[1.0_f32]);
    let old = put(&dir, "old.npy", b"as it was");
    let mut files = OutputFiles::new();
    files.write_npy(&old, &tensor).expect("written beside");
    files.write_npy(&dir.path().join("new.npy"), &tensor).expect("written beside");
    drop(files);
    assert_eq!(std::fs::read(&old).expect("there"), b"as it was");
    assert_eq!(names(dir.path()), ["old.npy"]);

    // The last target turns into a directory meanwhile: the others are again what they were.
    let mut files = OutputFiles::new();
    files.write_npy(&old, &tensor).expect("written beside");
    files.write_npy(&dir.path().join("new.npy"), &tensor).expect("written beside");
    files.write_npy(&dir.path().join("late.npy"), &tensor).expect("written beside");
    std::fs::create_dir(dir.path().join("late.npy")).expect("tests can write");
    put(&dir, "late.npy/inside", b"");
    assert_eq!(files.commit().expect_err("a directory is in the way").code, Code::FileWrite);
    assert_eq!(names(dir.path()), ["late.npy", "old.npy"]);
    assert_eq!(names(&dir.path().join("late.npy")), ["inside"]);
    assert_eq!(std::fs::read(&old).expect("there"), b"as it was");

    let mut files = OutputFiles::new();
    files.write_npy(&old, &tensor).expect("written beside");
    files.commit().expect("renamed");
    assert!(open_npy(&old).is_ok(), "what was there is replaced");
    assert_eq!(names(dir.path()), ["late.npy", "old.npy"], "nothing else stays behind");
}

/// As ranks do it: one makes room, each puts there what it has.
#[test]
fn room_that_others_fill_makes_the_same_files() {
    let dir = directory();
    let (halves, numbers) = (
        Tensor::from_elements(&[3], &[1, 2, 3].map(half::bf16::from_bits)),
        Tensor::from_elements(&[2, 1], &[1.5_f64, -2.0]),
    );
    let arrays = [("halves", &halves), ("numbers", &numbers)];
    let path = |name: &str| dir.path().join(name);
    let mut files = OutputFiles::new();
    files.write_safetensors(&path("at once.st"), &arrays).expect("written");
    files.write_npy(&path("at once.npy"), &numbers).expect("written");
    let array = |(name, tensor): (&'static str, &Tensor)| (name, tensor.dtype(), tensor.shape().to_vec());
    let room = [
        files.reserve_safetensors(&path("filled.st"), &arrays.map(array)).expect("there is room"),
        files.reserve_npy(&path("filled.npy"), numbers.dtype(), numbers.shape()).expect("there is room"),
    ];
    // Others are told of it.
    let told = serde_json::to_vec(&room).expect("JSON");
    let others: [Reserved; 2] = serde_json::from_slice(&told).expect("the same");
    let [last, first] = [&numbers.bytes()[8..], &numbers.bytes()[..8]];
    others[0].fill(&path("filled.st"), |file| file.put(1, 8, last)).expect("filled");
    room[0]
        .fill(&path("filled.st"), |file| {
            file.put(1, 0, first)?;
            file.put(0, 0, halves.bytes())
        })
        .expect("filled");
    others[1].fill(&path("filled.npy"), |file| file.put(0, 8, last)).expect("filled");
    room[1].fill(&path("filled.npy"), |file| file.put(0, 0, first)).expect("filled");
    files.commit().expect("renamed");
    for format in ["st", "npy"] {
        let read = |name: &str| std::fs::read(path(&format!("{name}.{format}"))).expect("there");
        assert_eq!(read("filled"), read("at once"), "{format}");
    }
    let gone = others[1].fill(&path("filled.npy"), |file| file.put(0, 0, first)).expect_err("it is renamed");
    assert_eq!(gone.code, Code::FileWrite);
    assert_eq!(names(dir.path()).len(), 4, "nothing else stays behind");
}

#[test]
fn what_cannot_be_written_is_found_out_before() {
    let dir = directory();
    for path in
        [dir.path().to_owned(), dir.path().join("none/y.npy"), PathBuf::from("/dev/null"), PathBuf::new()]
    {
        assert_eq!(OutputFiles::probe(&path).expect_err("cannot be").code, Code::FileWrite, "{path:?}");
    }
    OutputFiles::probe(&dir.path().join("y.npy")).expect("can be");
    assert!(names(dir.path()).is_empty());
    let halves = Tensor::from_elements(&[1], &[half::bf16::ONE]);
    let told = OutputFiles::new().write_npy(&dir.path().join("y.npy"), &halves).expect_err("no bf16");
    assert_eq!(told.code, Code::FormatDType);
    assert!(told.help.is_some_and(|help| help.contains("safetensors")));
}

fn names(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).expect("a directory");
    let mut names: Vec<String> =
        entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}
