//! Where outputs are written: found out before anything runs, written when everything has succeeded.

use crate::args::RunArgs;
use crate::playing::Ran;
use crate::ranks::Ranks;
use crate::values::NamedFile;
use crate::{faults, trace};
use serde_json::json;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::program::{Program, ValueId};
use shardweave_compiler::text::closest;
use shardweave_runtime::files::{FileFormat, OutputFiles, Reserved, beside};
use shardweave_runtime::session::{OutputPieces, Session};
use shardweave_runtime::tensor::Tensor;
use std::fs::OpenOptions;
use std::io::{self, Seek, SeekFrom, Write};
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

    /// Writes all files, or none. In one process outputs are put together first: pieces can have many short stretches,
    /// each of which would be a write of its own, and the reference has no pieces.
    pub fn write(&self, program: &Program, ran: &Ran, ranks: &mut Ranks) -> Result<(), Diagnostics> {
        let mut files = match (ranks.engine(), &ran.session) {
            (Some(_), Some(session)) => self.write_pieces(program, session, &ran.outputs, ranks)?,
            _ => self.write_whole(program, &ran.outputs)?,
        };
        let recording = &ran.recording;
        let finish = || {
            if let Some(path) = &self.trace {
                files.write_bytes(path, trace::chrome(recording).as_bytes())?;
            }
            files.commit()
        };
        let finished = ranks.first_alone(finish).unwrap_or(Ok(()));
        ranks.agree(finished.map_err(Diagnostics::from))
    }

    fn write_whole(
        &self,
        program: &Program,
        outputs: &[(String, Tensor)],
    ) -> Result<OutputFiles, Diagnostic> {
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
        Ok(files)
    }

    /// The first rank makes room in the files, then each writes its own pieces; of an output whose pieces are parts,
    /// the first rank writes the whole, which it has. The files are those of the first rank.
    fn write_pieces(
        &self,
        program: &Program,
        session: &Session,
        whole: &[(String, Tensor)],
        ranks: &mut Ranks,
    ) -> Result<OutputFiles, Diagnostics> {
        let pieces = session.pieces().map_err(|error| faults::of_session(program, error));
        let pieces = ranks.agree(pieces)?;
        let mut files = OutputFiles::new();
        let room = if ranks.is_first() { self.reserve(program, &pieces, &mut files) } else { Ok(Vec::new()) };
        let room = room.map(|room| json!(room).to_string().into_bytes()).map_err(Diagnostics::from);
        let room: Vec<Room> =
            serde_json::from_slice(&ranks.first_says(room)?).expect("what the first rank tells can be read");
        let all = || self.written(program, &pieces).into_iter().zip(&room);
        let (parts, own): (Vec<_>, Vec<_>) = all().partition(|((one, _), _)| one.are_parts());
        let written = own
            .into_iter()
            .try_for_each(|((one, path), room)| write_at(path, room, |write| one.try_for_each(write)));
        ranks.agree(written.map_err(Diagnostics::from))?;
        let parts = parts.into_iter().map(|((one, path), room)| (one.name(), path, room));
        let parts: Vec<(&str, &Path, &Room)> = parts.collect();
        let combined = ranks.first_alone(|| {
            parts.into_iter().try_for_each(|(name, path, room)| {
                let whole = whole.iter().find(|(output, _)| output == name);
                let (_, whole) = whole.expect("the first rank has all that is combined");
                write_at(path, room, |write| write(0, whole.bytes()))
            })
        });
        ranks.agree(combined.unwrap_or(Ok(())).map_err(Diagnostics::from))?;
        Ok(files)
    }

    /// Each array that is written, with the file it is written to.
    fn written<'a, 'p>(
        &'a self,
        program: &Program,
        pieces: &'a [OutputPieces<'p>],
    ) -> Vec<(&'a OutputPieces<'p>, &'a Path)> {
        let one_each = self.npy.iter().map(|(value, path)| {
            let name = &program.values()[*value].name;
            let output = pieces.iter().find(|output| output.name() == name);
            (output.expect("a run gives all outputs, and only outputs are targets"), path.as_path())
        });
        let together =
            self.safetensors.iter().flat_map(|path| pieces.iter().map(move |one| (one, path.as_path())));
        one_each.chain(together).collect()
    }

    /// Room for each array that is written, in that order.
    fn reserve(
        &self,
        program: &Program,
        pieces: &[OutputPieces<'_>],
        files: &mut OutputFiles,
    ) -> Result<Vec<Room>, Diagnostic> {
        let mut room = Vec::new();
        for (output, path) in &self.written(program, pieces)[..self.npy.len()] {
            let Reserved { ending, starts } = files.reserve_npy(path, output.dtype(), &output.shape())?;
            room.push((ending, starts[0]));
        }
        if let Some(path) = &self.safetensors {
            let arrays: Vec<_> = pieces.iter().map(|one| (one.name(), one.dtype(), one.shape())).collect();
            let Reserved { ending, starts } = files.reserve_safetensors(path, &arrays)?;
            room.extend(starts.into_iter().map(|start| (ending.clone(), start)));
        }
        Ok(room)
    }
}

/// What ranks do not know of a file that the first one makes: the ending of the name that it has while it is written,
/// and where in it the elements of an array start. (The target's own name may be no text, and all have it.)
type Room = (String, u64);

/// Writes stretches of an array, each from a byte of it on.
fn write_at(
    target: &Path,
    (ending, start): &Room,
    stretches: impl FnOnce(&mut dyn FnMut(u64, &[u8]) -> io::Result<()>) -> io::Result<()>,
) -> Result<(), Diagnostic> {
    let write = || {
        let mut file = OpenOptions::new().write(true).open(beside(target, ending)?)?;
        stretches(&mut |at, bytes| {
            file.seek(SeekFrom::Start(start + at))?;
            file.write_all(bytes)
        })?;
        file.sync_all()
    };
    write().map_err(|error| {
        let message = format!("file `{}` cannot be written: {error}", target.display());
        Diagnostic::general(Code::FileWrite, message).help("all ranks must see the folder of the outputs")
    })
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
