//! Words that cannot be names.

use super::is_name;
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span, quote};

/// Words that cannot name an axis, a value or a placement.
pub const RESERVED: [&str; 14] = [
    "stream",
    "local",
    "partial",
    "replicated",
    "on",
    "via",
    "strict",
    "auto",
    "none",
    "sum",
    "max",
    "min",
    "prod",
    "repeat",
];

/// Whether a name can be one of an axis, a value or a placement; `what` says of which: "a value".
pub fn check_name(what: &str, name: &str, span: Span) -> Result<(), Diagnostic> {
    let reason = if RESERVED.contains(&name) {
        "a reserved word"
    } else if matches!(name, "inf" | "nan") {
        "a number"
    } else {
        return check_spelling(name, span);
    };
    let message = format!("{} is {reason} and cannot name {what}", quote(name));
    Err(Diagnostic::at(Code::ReservedName, span, message).help("choose another name"))
}

/// Whether a name is spelled as names are. Dims, programs and meshes may be called anything that is.
pub fn check_spelling(name: &str, span: Span) -> Result<(), Diagnostic> {
    if is_name(name) {
        return Ok(());
    }
    let mistake = Diagnostic::at(Code::Syntax, span, format!("{} is not a name", quote(name)));
    Err(mistake.help("names are letters, digits, `_` and `.`, and start with a letter or `_`"))
}

/// The same for a name that a builder puts into its text: one that is none would be read as something else.
/// It has no place, for that text is not read then.
pub fn check_built(name: &str, found: &mut Diagnostics) {
    if let Err(mistake) = check_spelling(name, Span::default()) {
        found.push(Diagnostic { place: None, ..mistake });
    }
}
