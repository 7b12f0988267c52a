//! The two streams. Colours are taken out by `anstream` where the stream is no terminal.

use crate::exit::Exit;
use clap::error::ErrorKind;
use serde_json::{Value, json};
use shardweave_compiler::diagnostic::{Code, Diagnostic};
use std::io::{self, Write};

/// Writes a result to stdout. A reader that has seen enough, such as `head`, is no mistake.
pub fn result(text: &str) -> Result<(), Diagnostic> {
    match write_all(&mut anstream::stdout(), text) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Diagnostic::general(Code::FileWrite, format!("the result cannot be written: {error}")))
        }
        _ => Ok(()),
    }
}

/// Writes a message to stderr. There is nobody to tell if that fails.
pub fn message(text: &str) {
    let _ = write_all(&mut anstream::stderr(), text);
}

fn write_all(stream: &mut impl Write, text: &str) -> io::Result<()> {
    stream.write_all(text.as_bytes())?;
    if !text.ends_with('\n') && !text.is_empty() {
        stream.write_all(b"\n")?;
    }
    stream.flush()
}

/// What `clap` says of arguments that are no command: help and version are what was asked for.
pub fn unparsed(errors: &[clap::Error]) -> Exit {
    if is_asked_for(errors) {
        let asked = errors.iter().map(|asked| asked.render().ansi().to_string());
        let _ = result(&asked.collect::<String>()); // a closed stdout is no reason to fail
        return Exit::Fine;
    }
    // The arguments did not parse, so whether JSON is wanted is read off the words.
    if std::env::args_os().any(|word| word == "--json") {
        let errors: Vec<Value> = errors.iter().map(unparsed_json).collect();
        let _ = result(&json!({ "errors": errors }).to_string());
        return Exit::Usage;
    }
    for error in errors {
        let text = error.render();
        message(&match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => text.ansi().to_string(),
            _ => format!("[{}] {}", Code::Arguments, text.ansi()),
        });
    }
    Exit::Usage
}

/// Whether these are no mistakes, but an answer that was asked for: help, or the version.
pub fn is_asked_for(errors: &[clap::Error]) -> bool {
    matches!(errors, [asked] if matches!(asked.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion))
}

fn unparsed_json(error: &clap::Error) -> Value {
    let text = error.render().to_string();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    json!({
        "code": Code::Arguments.name(),
        "file": null,
        "line": null,
        "column": null,
        "message": first.trim_start_matches("error: "),
        "help": Some(rest.trim()).filter(|rest| !rest.is_empty()),
    })
}
