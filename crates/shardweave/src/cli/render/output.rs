//! The two streams. Colours are taken out by `anstream` where the stream is no terminal.

use crate::args::Format;
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

/// Tells what `clap` says of arguments that are no command, and on which rank they stand, if that is one of several.
pub fn unparsed(errors: &[clap::Error], only_on: Option<usize>, format: Format) {
    let place = only_on.map_or(String::new(), |rank| format!("on rank {rank}: "));
    if format == Format::Json {
        let errors: Vec<Value> = errors.iter().map(|error| unparsed_json(error, &place)).collect();
        let _ = result(&json!({ "errors": errors }).to_string()); // the status tells it too
        return;
    }
    for error in errors {
        let text = error.render();
        message(&match error.kind() {
            ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => text.ansi().to_string(),
            _ if place.is_empty() => format!("[{}] {}", Code::Arguments, text.ansi()),
            _ => {
                let text = text.to_string();
                format!("[{}] error: {place}{}", Code::Arguments, text.trim_start_matches("error: "))
            }
        });
    }
}

fn unparsed_json(error: &clap::Error, place: &str) -> Value {
    let text = error.render().to_string();
    let (first, rest) = text.split_once('\n').unwrap_or((&text, ""));
    json!({
        "code": Code::Arguments.name(),
        "file": null,
        "line": null,
        "column": null,
        "message": format!("{place}{}", first.trim_start_matches("error: ")),
        "help": Some(rest.trim()).filter(|rest| !rest.is_empty()),
    })
}
