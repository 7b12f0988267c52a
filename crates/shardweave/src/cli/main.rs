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
mod values;

use args::{Asked, Cli, Command, FileCommand, Format, MeasureArgs};
use choose::choose;
use exit::Exit;
use ranks::{Ended, Ranks};
use render::Source;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::file::{MOST_FILE_BYTES, WeaveFile, parse_bytes};
use shardweave_runtime::engine::digest;
use shardweave_runtime::ranks::launched;
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::ExitCode;
use values::Player;

fn main() -> ExitCode {
    let words: Vec<OsString> = std::env::args_os().collect();
    match Ranks::join(&words) {
        Ok(mut ranks) => on_all_ranks(&words, &mut ranks).into(),
        Err(mistake) => {
            // Who cannot join the others cannot know who tells it: each does.
            Source::none().tell(&mistake.into(), Format::of_words(&words), Exit::Running);
            Exit::Running.into()
        }
    }
}

/// Does what the words ask for, if all ranks are asked for the same kind of thing.
fn on_all_ranks(words: &[OsString], ranks: &mut Ranks) -> Exit {
    let read = Cli::read(words.to_vec());
    let own = read.as_ref().map_err(|_| {
        // What `clap` says has a form of its own.
        Diagnostics::from(Diagnostic::general(Code::Arguments, "the arguments do not parse"))
    });
    let text = match &own {
        Ok(Asked::Text(text)) => text,
        _ => "",
    };
    let found = match ranks.agree_on(&[("kind of command", digest(&[text]))], own) {
        Ok(Asked::Command(Command::OnFile(command))) => return run(command, ranks),
        Ok(Asked::Command(Command::Measure(args))) => return measure(args, ranks),
        Ok(Asked::Text(text)) => {
            if ranks.is_first() {
                let _ = render::result(text); // a closed stdout is no reason to fail
            }
            return Exit::Fine;
        }
        Err(found) => found,
    };
    let (Ended { exit, speaks, only_on }, format) = (ranks.ended(Some(&found)), Format::of_words(words));
    match &read {
        Err(errors) if speaks => render::unparsed(errors, only_on, format),
        Ok(_) if speaks => Source::none().tell(&on_rank(only_on, found), format, exit),
        _ => {}
    }
    exit
}

/// Measures, and tells what went wrong. There is no file.
fn measure(args: &MeasureArgs, ranks: &mut Ranks) -> Exit {
    told(&Source::none(), args.format(), commands::measure::run(args), ranks)
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
    let Ended { exit, speaks, only_on } = ranks.ended(ended.as_ref().err());
    if let (Err(found), true) = (ended, speaks) {
        source.tell(&on_rank(only_on, found), format, exit);
    }
    exit
}

/// With the rank that it went wrong on, if that is one of several.
fn on_rank(rank: Option<usize>, found: Diagnostics) -> Diagnostics {
    let Some(rank) = rank else { return found };
    let mut told = Diagnostics::new();
    for mistake in found.errors() {
        told.push(Diagnostic { message: format!("on rank {rank}: {}", mistake.message), ..mistake.clone() });
    }
    told
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
        source.tell(&also_not_joined(command, of_the_choice(command, file, found)), Format::Text, Exit::Fine);
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

/// Warns who lets `mpirun` start ranks, but not join them.
fn also_not_joined(command: &FileCommand, mut found: Diagnostics) -> Diagnostics {
    let FileCommand::Run(args) = command else { return found };
    if let (Some((0, processes @ 2..)), true) = (launched(), args.on != Player::Mpi) {
        let message =
            format!("this is one of {processes} processes, and each of them runs the whole program");
        found
            .warn(Diagnostic::general(Code::NotJoined, message).help("`--on mpi` lets each play one device"));
    }
    found
}

/// The file's bytes; one more than may be, if there are more.
fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    File::open(path)?.take(MOST_FILE_BYTES as u64 + 1).read_to_end(&mut bytes)?;
    Ok(bytes)
}
