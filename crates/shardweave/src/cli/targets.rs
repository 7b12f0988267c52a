//! Where outputs are written: found out before anything runs, written when everything has succeeded.

use crate::args::RunArgs;
use crate::playing::Ran;
use crate::ranks::Ranks;
use crate::values::NamedFile;
use crate::{faults, trace};
use serde_json::json;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::program::{Program, ValueId};
use shardweave_compiler::text::closest;
use shardweave_runtime::execute::RunError;
use shardweave_runtime::files::{FileFormat, OutputFiles, Reserved};
use shardweave_runtime::session::OutputPieces;
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

    /// Writes all files, or none. The first rank makes room in them, each rank puts there what it has, and the first
    /// gives the files their names; one process alone does all of that.
    pub fn write(&self, program: &Program, ran: &Ran, ranks: &mut Ranks) -> Result<(), Diagnostics> {
        let outputs = Output::all(ran).map_err(|error| faults::of_session(program, error));
        let outputs = ranks.agree(outputs)?;
        let targets = self.of_arrays(program, &outputs);
        let mut files = OutputFiles::new();
        let reserved = match ranks.is_first() {
            true => targets.iter().map(|target| target.reserve(&mut files)).collect(),
            false => Ok(Vec::new()),
        };
        let word = reserved.map(|room| json!(room).to_string().into_bytes());
        let word = ranks.first_says(word.map_err(Diagnostics::from))?;
        let room: Vec<Reserved> =
            serde_json::from_slice(&word).expect("what the first rank tells can be read");
        let fill = |held: fn(&Held<'_>) -> bool| {
            targets.iter().zip(&room).try_for_each(|(target, room)| target.fill(room, held))
        };
        let filled = ranks.each_alone(|| fill(|held| matches!(held, Held::Pieces(_))));
        let filled = filled.map_err(|mistake| match ranks.is_first() {
            true => mistake,
            false => mistake.help("outputs go to a folder that all ranks see, and that has room for them"),
        });
        ranks.agree(filled.map_err(Diagnostics::from))?;
        let finish = || {
            fill(|held| matches!(held, Held::Whole(_)))?;
            if let Some(path) = &self.trace {
                files.write_bytes(path, trace::chrome(&ran.recording).as_bytes())?;
            }
            files.commit()
        };
        let finished = ranks.first_alone(finish).unwrap_or(Ok(()));
        ranks.agree(finished.map_err(Diagnostics::from))
    }

    /// The files that arrays are written to.
    fn of_arrays<'a>(&'a self, program: &Program, outputs: &'a [Output<'a>]) -> Vec<Target<'a>> {
        let one_each = self.npy.iter().map(|(value, path)| {
            let name = &program.values()[*value].name;
            let output = outputs.iter().find(|output| output.name == *name);
            let output = output.expect("a run gives all outputs, and only outputs are targets");
            Target { path, format: FileFormat::Npy, arrays: vec![output] }
        });
        let together = self.safetensors.iter().map(|path| Target {
            path,
            format: FileFormat::Safetensors,
            arrays: outputs.iter().collect(),
        });
        one_each.chain(together).collect()
    }
}

/// An output of a run.
struct Output<'a> {
    name: &'a str,
    dtype: DType,
    shape: Vec<u64>,
    held: Held<'a>,
}

/// What this process has of an output.
enum Held<'a> {
    /// What the devices have that it plays.
    Pieces(OutputPieces<'a>),
    /// All of it: devices held parts that were combined, or there are no devices.
    Whole(&'a Tensor),
    /// Nothing: the first rank has all of it.
    Nothing,
}

impl<'a> Output<'a> {
    /// All outputs, in the order of the program.
    fn all(ran: &'a Ran) -> Result<Vec<Output<'a>>, RunError> {
        let Some(session) = &ran.session else {
            let one = |(name, whole): &'a (String, Tensor)| Output {
                name,
                dtype: whole.dtype(),
                shape: whole.shape().to_vec(),
                held: Held::Whole(whole),
            };
            return Ok(ran.outputs.iter().map(one).collect());
        };
        let one = |pieces: OutputPieces<'a>| {
            let (name, dtype, shape) = (pieces.name(), pieces.dtype(), pieces.shape());
            let whole = ran.outputs.iter().find(|(output, _)| output == name).map(|(_, whole)| whole);
            let held = match pieces.are_parts() {
                true => whole.map_or(Held::Nothing, Held::Whole),
                false => Held::Pieces(pieces),
            };
            Output { name, dtype, shape, held }
        };
        Ok(session.pieces()?.into_iter().map(one).collect())
    }
}

/// A file that arrays are written to.
struct Target<'a> {
    path: &'a Path,
    format: FileFormat,
    arrays: Vec<&'a Output<'a>>,
}

impl Target<'_> {
    /// Makes room for the arrays.
    fn reserve(&self, files: &mut OutputFiles) -> Result<Reserved, Diagnostic> {
        match (self.format, &self.arrays[..]) {
            (FileFormat::Npy, [output]) => files.reserve_npy(self.path, output.dtype, &output.shape),
            (_, outputs) => {
                let arrays = outputs.iter().map(|output| (output.name, output.dtype, output.shape.clone()));
                files.reserve_safetensors(self.path, &arrays.collect::<Vec<_>>())
            }
        }
    }

    /// Writes what there is in this process of some of the arrays.
    fn fill(&self, room: &Reserved, is_meant: fn(&Held<'_>) -> bool) -> Result<(), Diagnostic> {
        if !self.arrays.iter().any(|output| is_meant(&output.held)) {
            return Ok(());
        }
        room.fill(self.path, |file| {
            let mut meant = self.arrays.iter().enumerate().filter(|(_, output)| is_meant(&output.held));
            meant.try_for_each(|(array, output)| match &output.held {
                Held::Pieces(pieces) => pieces.try_for_each(|at, bytes| file.put(array, at, bytes)),
                Held::Whole(whole) => file.put(array, 0, whole.bytes()),
                Held::Nothing => Ok(()),
            })
        })
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
