//! Where outputs are written: found out before anything runs, written when everything has succeeded.

use crate::args::{NamedFile, RunArgs};
use crate::playing::Ran;
use crate::ranks::Ranks;
use crate::{faults, trace};
use serde_json::json;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::program::{Program, ValueId};
use shardweave_compiler::text::closest;
use shardweave_runtime::files::{FileFormat, OutputFiles};
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

    /// Writes all files, or none.
    pub fn write(&self, program: &Program, ran: &Ran, ranks: &mut Ranks) -> Result<(), Diagnostics> {
        let arrays = match (ranks.engine(), &ran.session) {
            (Some(_), Some(session)) => self.write_pieces(program, session, &ran.outputs, ranks)?,
            _ => self.write_whole(program, &ran.outputs)?,
        };
        let mut files = arrays;
        let written = match (&self.trace, ranks.is_first()) {
            (Some(path), true) => files.write_bytes(path, trace::chrome(&ran.recording).as_bytes()),
            _ => Ok(()),
        };
        let committed = written.and_then(|()| files.commit());
        ranks.agree(committed.map_err(Diagnostics::from))
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
        let room = room.map(|room| room_text(&room).into_bytes()).map_err(Diagnostics::from);
        let room = room_of(&ranks.first_says(room)?);
        let written = room.iter().try_for_each(|(name, file, start)| {
            let own =
                pieces.iter().find(|pieces| pieces.name() == name).expect("only outputs have room in files");
            write_at(own, whole.iter().find(|(output, _)| output == name), file, *start).map_err(|error| {
                let message = format!("file `{}` cannot be written: {error}", file.display());
                Diagnostic::general(Code::FileWrite, message)
                    .help("all ranks must see the folder of the outputs")
            })
        });
        ranks.agree(written.map_err(Diagnostics::from))?;
        Ok(files)
    }

    /// Room for all outputs: the name of each, the file, and where in it.
    fn reserve(
        &self,
        program: &Program,
        pieces: &[OutputPieces<'_>],
        files: &mut OutputFiles,
    ) -> Result<Vec<Room>, Diagnostic> {
        let mut room = Vec::new();
        for (value, path) in &self.npy {
            let name = &program.values()[*value].name;
            let output = pieces.iter().find(|output| output.name() == name);
            let output = output.expect("a run gives all outputs, and only outputs are targets");
            let reserved = files.reserve_npy(path, output.dtype(), &output.shape())?;
            room.push((name.clone(), reserved.beside, reserved.starts[0]));
        }
        if let Some(path) = &self.safetensors {
            let arrays: Vec<_> = pieces.iter().map(|one| (one.name(), one.dtype(), one.shape())).collect();
            let reserved = files.reserve_safetensors(path, &arrays)?;
            let all = arrays.iter().zip(reserved.starts);
            room.extend(all.map(|((name, ..), start)| ((*name).to_owned(), reserved.beside.clone(), start)));
        }
        Ok(room)
    }
}

/// The name of an output, the file it is written to, and where in it its elements start.
type Room = (String, PathBuf, u64);

/// The room as it is told to other ranks.
fn room_text(room: &[Room]) -> String {
    json!(room.iter().map(|(name, file, start)| (name, file, start)).collect::<Vec<_>>()).to_string()
}

fn room_of(text: &[u8]) -> Vec<Room> {
    serde_json::from_slice(text).expect("what the first rank tells can be read")
}

/// Writes what lies here of an output.
fn write_at(
    pieces: &OutputPieces<'_>,
    whole: Option<&(String, Tensor)>,
    file: &Path,
    start: u64,
) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).open(file)?;
    let mut write = |at: u64, bytes: &[u8]| {
        file.seek(SeekFrom::Start(start + at))?;
        file.write_all(bytes)
    };
    match (pieces.are_parts(), whole) {
        (true, Some((_, whole))) => write(0, whole.bytes())?,
        (true, None) => {} // the first rank has it
        (false, _) => pieces.try_for_each(write)?,
    }
    file.sync_all()
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
