//! What a user is told: a code, a place, a reason with names and sizes, and a way out.
//!
//! Invariant: a [`Diagnostic`] speaks of the user's input only. A broken invariant of ours is a panic
//! that names its pass, never a diagnostic.

mod codes;

pub use codes::{Code, CodeRow};

use std::fmt;

/// A stretch of bytes in the text of a file.
///
/// Spans compare equal to each other, so that two programs are equal when they *say* the same,
/// wherever it stands.
#[derive(Clone, Copy, Default)]
pub struct Span {
    /// The first byte.
    pub start: u32,
    /// One past the last byte.
    pub end: u32,
}

impl Span {
    /// The bytes `start..end`.
    pub fn new(start: usize, end: usize) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span { start: clamp(start), end: clamp(end) }
    }

    /// Whether `other` lies inside.
    pub fn contains(self, other: Span) -> bool {
        self.start <= other.start && other.end <= self.end
    }

    /// From the start of `self` to the end of `other`.
    pub fn to(self, other: Span) -> Span {
        Span { start: self.start, end: other.end.max(self.start) }
    }
}

impl PartialEq for Span {
    fn eq(&self, _: &Span) -> bool {
        true
    }
}

impl Eq for Span {}

impl fmt::Debug for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}..{}", self.start, self.end)
    }
}

/// A name of the user's as messages show it: in backticks, at most 60 characters of it, on one line.
pub fn quote(name: &str) -> String {
    const MOST: usize = 60;
    let mut shown = String::from("`");
    for (count, c) in name.chars().enumerate() {
        if count == MOST {
            shown.push_str("...");
            break;
        }
        match c {
            ' ' => shown.push(' '),
            c if c.is_whitespace() || c.is_control() => shown.extend(c.escape_default()),
            c => shown.push(c),
        }
    }
    shown.push('`');
    shown
}

/// Several names as messages show them: quoted, divided by commas, at most ten of them.
pub fn quote_all<'a>(names: impl IntoIterator<Item = &'a str>) -> String {
    const MOST: usize = 10;
    let mut names = names.into_iter();
    let mut shown: Vec<String> = names.by_ref().take(MOST).map(quote).collect();
    let more = names.count();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

/// One mistake of the user's.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Diagnostic {
    /// Which kind of mistake.
    pub code: Code,
    /// The reason, with the names and sizes involved. One sentence, no full stop.
    pub message: String,
    /// Where it is; none for mistakes of the command line or of another file.
    pub place: Option<Span>,
    /// Other places that have a part in it, each with what it says.
    pub related: Vec<(Span, String)>,
    /// A way out, if there is one to name.
    pub help: Option<String>,
}

impl Diagnostic {
    /// A mistake at a place in the text.
    pub fn at(code: Code, place: Span, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, message: message.into(), place: Some(place), related: Vec::new(), help: None }
    }

    /// A mistake that is in no place of the text.
    pub fn general(code: Code, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, message: message.into(), place: None, related: Vec::new(), help: None }
    }

    /// Adds a second place.
    #[must_use]
    pub fn related(mut self, place: Span, says: impl Into<String>) -> Diagnostic {
        self.related.push((place, says.into()));
        self
    }

    /// Adds the way out.
    #[must_use]
    pub fn help(mut self, help: impl Into<String>) -> Diagnostic {
        self.help = Some(help.into());
        self
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "error[{}]: {}", self.code, self.message)?;
        if let Some(help) = &self.help {
            write!(f, "\n  help: {help}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Diagnostic {}

/// Mistakes found so far. Passes go on after a mistake where they can, so that all are told at once.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Diagnostics {
    found: Vec<Diagnostic>,
    warnings: Vec<Diagnostic>,
}

impl Diagnostics {
    /// Nothing found yet.
    pub fn new() -> Diagnostics {
        Diagnostics::default()
    }

    /// Adds a mistake.
    pub fn push(&mut self, diagnostic: Diagnostic) {
        self.found.push(diagnostic);
    }

    /// Adds something worth telling that stops nobody.
    pub fn warn(&mut self, diagnostic: Diagnostic) {
        self.warnings.push(diagnostic);
    }

    /// Whether there is no mistake (there may be warnings).
    pub fn is_empty(&self) -> bool {
        self.found.is_empty()
    }

    /// The mistakes, in the order found.
    pub fn errors(&self) -> &[Diagnostic] {
        &self.found
    }

    /// The warnings, in the order found.
    pub fn warnings(&self) -> &[Diagnostic] {
        &self.warnings
    }

    /// Takes over all that `other` found.
    pub fn extend(&mut self, other: Diagnostics) {
        self.found.extend(other.found);
        self.warnings.extend(other.warnings);
    }

    /// The same without the warnings whose place is in a part of the text.
    #[must_use]
    pub fn without_warnings_in(mut self, part: Span) -> Diagnostics {
        self.warnings.retain(|warning| !warning.place.is_some_and(|place| part.contains(place)));
        self
    }

    /// The same with the mistakes whose place is in a part of the text as warnings: that part is not what
    /// is to be done.
    #[must_use]
    pub fn with_warnings_in(mut self, part: Span) -> Diagnostics {
        let inside = |diagnostic: &Diagnostic| diagnostic.place.is_some_and(|place| part.contains(place));
        let (warnings, errors) = self.found.into_iter().partition(inside);
        self.found = errors;
        self.warnings.extend::<Vec<_>>(warnings);
        self
    }

    /// The same in the order of their places; those without a place come first.
    #[must_use]
    pub fn in_text_order(mut self) -> Diagnostics {
        let place = |diagnostic: &Diagnostic| diagnostic.place.map(|span| span.start);
        self.found.sort_by_key(place);
        self.warnings.sort_by_key(place);
        self
    }

    /// `value` if no mistake was found, else the mistakes.
    pub fn finish<T>(self, value: T) -> Result<T, Diagnostics> {
        if self.found.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl From<Diagnostic> for Diagnostics {
    fn from(diagnostic: Diagnostic) -> Self {
        Diagnostics { found: vec![diagnostic], warnings: Vec::new() }
    }
}

impl fmt::Display for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, diagnostic) in self.found.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{diagnostic}")?;
        }
        Ok(())
    }
}

/// As [`Display`](fmt::Display): a `main` that returns an error prints it this way.
impl fmt::Debug for Diagnostics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Diagnostics {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quoted_names_are_short_and_on_one_line() {
        assert_eq!(quote("a\nb"), "`a\\nb`");
        assert_eq!(quote(&"x".repeat(1_000_000)).len(), 65);
        let many = vec!["d"; 12];
        assert!(quote_all(many).ends_with("`d`, and 2 more"));
    }
}
