//! The command `shardweave`: reads the arguments and the file, runs a command, tells what was wrong.
//!
//! ```text
//!  args ─▶ parse_bytes ─▶ choose ─▶ bind ─▶ compile ─▶ Session          commands/
//!               └───────────┴────────┴────────┴──────────┴──▶ Diagnostics ─▶ render, exit
//! ```
#![forbid(unsafe_code)]

mod args;
mod bind;
mod checked;
mod choose;
mod commands;
mod exit;
mod faults;
mod measuring;
mod memory;
mod playing;
mod ranks;
mod render;
mod targets;
mod trace;

use args::{Cli, Command, FileCommand, Format, MeasureArgs};
use choose::choose;
use exit::Exit;
use ranks::{Ended, Ranks};
use render::Source;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::file::{MOST_FILE_BYTES, WeaveFile, parse_bytes};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    let mut ranks = match Ranks::join(&words) {
        Ok(ranks) => ranks,
        Err(mistake) => {
            Source::new(Path::new(""), &[]).tell(&mistake.into(), Format::Text, Exit::Running);
            return Exit::Running.into();
        }
    };
    let exit = match Cli::read(words) {
        Ok(cli) => match &cli.command {
            Command::OnFile(command) => run(command, &mut ranks),
            Command::Measure(args) => measure(args, &mut ranks),
        },
        Err(errors) => unparsed(&errors, &mut ranks),
    };
    exit.into()
}

/// Tells what cannot be read of the arguments; other ranks may have others.
fn unparsed(errors: &[clap::Error], ranks: &mut Ranks) -> Exit {
    let mistake = Diagnostic::general(Code::Arguments, "the arguments do not parse");
    match ranks.ended(Some(&mistake.into())) {
        Ended { speaks: true, .. } => render::unparsed(errors),
        Ended { .. } if render::is_asked_for(errors) => Exit::Fine,
        Ended { exit, .. } => exit,
    }
}

/// Measures, and tells what went wrong. There is no file.
fn measure(args: &MeasureArgs, ranks: &mut Ranks) -> Exit {
    told(&Source::new(Path::new(""), &[]), args.format(), commands::measure::run(args), ranks)
}

/// Runs a command and tells what went wrong.
fn run(command: &FileCommand, ranks: &mut Ranks) -> Exit {
    let (source, ended) = match read(command.file()) {
        Ok(bytes) => {
            let source = Source::new(command.file(), &bytes);
            let (file, found) = parse_bytes(&bytes, &command.axes());
            let ended = run_on(command, &source, &file, found, ranks);
            (source, ended)
        }
        Err(error) => {
            let message = format!("file `{}` cannot be read: {error}", command.file().display());
            (Source::new(command.file(), &[]), Err(Diagnostic::general(Code::FileRead, message).into()))
        }
    };
    told(&source, command.format(), ended, ranks)
}

fn told(source: &Source, format: Format, ended: Result<(), Diagnostics>, ranks: &mut Ranks) -> Exit {
    let Ended { exit, speaks } = ranks.ended(ended.as_ref().err());
    if let (Err(found), true) = (ended, speaks) {
        source.tell(&found, format, exit);
    }
    exit
}

/// Runs a command on what was read, if that has no mistake.
fn run_on(
    command: &FileCommand,
    source: &Source,
    file: &WeaveFile,
    found: Diagnostics,
    ranks: &mut Ranks,
) -> Result<(), Diagnostics> {
    let found = without_other_placements(command, file, found);
    if !found.is_empty() {
        return Err(found);
    }
    if ranks.is_first() {
        source.tell(&of_the_choice(command, file, found), Format::Text, Exit::Fine);
    }
    match command {
        FileCommand::Check(args) => commands::check::run(args, file),
        FileCommand::Explain(args) => commands::explain::run(args, file),
        FileCommand::Compile(args) => commands::compile::run(args, file),
        FileCommand::Run(args) => commands::run::run(args, file, ranks),
    }
}

/// Mistakes in placements other than the one that is asked for stop nothing: they become warnings.
fn without_other_placements(command: &FileCommand, file: &WeaveFile, found: Diagnostics) -> Diagnostics {
    let Some(wanted) = command.plan_args().and_then(|args| args.placement.as_deref()) else { return found };
    let others = file.broken_placements().iter().filter(|placement| placement.name != wanted);
    others.fold(found, |found, placement| found.with_warnings_in(placement.span))
}

/// Warnings without those about programs that are not the chosen one, and with one for each `--mesh` that
/// changes nothing.
fn of_the_choice(command: &FileCommand, file: &WeaveFile, found: Diagnostics) -> Diagnostics {
    let Some(Ok(choice)) = command.plan_args().map(|args| choose(file, args)) else { return found };
    let others = file.programs().iter().filter(|program| program.name() != choice.program.name());
    let mut found = others.fold(found, |found, program| found.without_warnings_in(program.span()));
    for axis in command.axes() {
        let Some(mesh) = file.mesh_of(&axis) else { continue };
        if !choice.placement.is_some_and(|placement| placement.meshes().any(|used| used == mesh)) {
            found.warn(choice.unused_mesh(&axis, mesh));
        }
    }
    found
}

/// The file's bytes; one more than may be, if there are more.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
