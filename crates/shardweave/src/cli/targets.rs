//! Where outputs are written: found out before anything runs, written when everything has succeeded.

use crate::args::{NamedFile, RunArgs};
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::program::{Program, ValueId};
use shardweave_compiler::text::closest;
use shardweave_runtime::files::{FileFormat, OutputFiles};
use shardweave_runtime::tensor::Tensor;
use std::path::{Path, PathBuf};

/// The files that a run writes.
#[derive(Debug)]
pub struct Targets {
    /// One output each.
    npy: Vec<(ValueId, PathBuf)>,
    /// All outputs.
    safetensors: Option<PathBuf>,
    /// What ran when.
    trace: Option<PathBuf>,
}

impl Targets {
    /// Reads the flags; tells of names that are no outputs and of files that cannot be written.
    pub fn of(program: &Program, args: &RunArgs, found: &mut Diagnostics) -> Targets {
        let mut npy: Vec<(ValueId, PathBuf)> = Vec::new();
        for named in &args.output {
            match npy_target(program, named, &npy) {
                Ok(output) => npy.push((output, named.file.clone())),
                Err(mistake) => found.push(mistake),
            }
        }
        let targets = Targets { npy, safetensors: args.outputs.clone(), trace: args.trace.clone() };
        let mut seen: Vec<&Path> = Vec::new();
        for path in targets.paths() {
            if seen.contains(&path) {
                let message = format!("file `{}` would be written twice", path.display());
                found.push(Diagnostic::general(Code::FileWrite, message).help("give each its own file"));
            } else if let Err(mistake) = OutputFiles::probe(path) {
                found.push(mistake);
            }
            seen.push(path);
        }
        targets
    }

    fn paths(&self) -> impl Iterator<Item = &Path> {
        let one_each = self.npy.iter().map(|(_, path)| path);
        one_each.chain(&self.safetensors).chain(&self.trace).map(PathBuf::as_path)
    }

    /// The file that an output is written to.
    pub fn file_of(&self, output: ValueId) -> Option<&Path> {
        let own = self.npy.iter().find(|(value, _)| *value == output).map(|(_, path)| path);
        own.or(self.safetensors.as_ref()).map(PathBuf::as_path)
    }

    /// Writes all files, or none.
    pub fn write(
        &self,
        program: &Program,
        outputs: &[(String, Tensor)],
        trace: &str,
    ) -> Result<(), Diagnostic> {
        let mut files = OutputFiles::new();
        for (value, path) in &self.npy {
            let name = &program.values()[*value].name;
            let output = outputs.iter().find(|(output, _)| output == name);
            let (_, tensor) = output.expect("a run gives all outputs, and only outputs are targets");
            files.write_npy(path, tensor)?;
        }
        if let Some(path) = &self.safetensors {
            let tensors: Vec<(&str, &Tensor)> =
                outputs.iter().map(|(name, tensor)| (name.as_str(), tensor)).collect();
            files.write_safetensors(path, &tensors)?;
        }
        if let Some(path) = &self.trace {
            files.write_bytes(path, trace.as_bytes())?;
        }
        files.commit()
    }
}

/// The output that goes to a `.npy` file.
fn npy_target(
    program: &Program,
    named: &NamedFile,
    earlier: &[(ValueId, PathBuf)],
) -> Result<ValueId, Diagnostic> {
    let (name, path) = (&named.name, named.file.display());
    let output = program.outputs().iter().copied().find(|&output| program.values()[output].name == *name);
    let Some(output) = output else {
        let outputs = || program.outputs().iter().map(|&output| program.values()[output].name.as_str());
        let mistake = Diagnostic::general(
            Code::OutputUnknown,
            format!("program `{}` has no output `{name}`", program.name()),
        );
        return Err(match closest(name, outputs()) {
            Some(similar) => mistake.help(format!("there is an output `{similar}`")),
            None => mistake.help(format!("its outputs are `{}`", outputs().collect::<Vec<_>>().join("`, `"))),
        });
    };
    if let Some((_, first)) = earlier.iter().find(|(value, _)| *value == output) {
        let message =
            format!("output `{name}` is to be written twice: to `{}` and to `{path}`", first.display());
        return Err(Diagnostic::general(Code::OutputUnknown, message).help("give one file for each output"));
    }
    if named.file.extension().is_some_and(|extension| extension == "safetensors") {
        let message = format!("`--output` writes `.npy`, but `{path}` is to be written");
        let help = format!("write all outputs with `--outputs {path}`");
        return Err(Diagnostic::general(Code::FileWrite, message).help(help));
    }
    FileFormat::Npy.takes(program.values()[output].dtype, &named.file)?;
    Ok(output)
}
