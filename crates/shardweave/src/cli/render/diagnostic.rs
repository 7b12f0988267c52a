//! Mistakes for people and for programs.
//!
//! ```text
//! [E0301] error: no value has the name `z` here
//!    ╭─[ mlp.weave:3:17 ]
//!  3 │  y = linear(x, z)
//!    │                ┬
//!    │                ╰── here
//!    │ Help: ...
//! ```

use super::output::{message, result};
use crate::args::Format;
use crate::exit::Exit;
use ariadne::{Color, Config, IndexType, Label, Report, ReportKind};
use serde_json::{Value, json};
use shardweave_compiler::diagnostic::{Diagnostic, Diagnostics, Span};
use std::ops::Range;
use std::path::Path;

/// The file that places speak of.
#[derive(Debug)]
pub struct Source {
    name: String,
    /// As read; what is not UTF-8 is replaced.
    text: String,
}

impl Source {
    pub fn new(path: &Path, bytes: &[u8]) -> Source {
        Source { name: path.display().to_string(), text: String::from_utf8_lossy(bytes).into_owned() }
    }

    /// No file: for mistakes that are in none.
    pub fn none() -> Source {
        Source::new(Path::new(""), &[])
    }

    /// Tells mistakes and warnings. JSON goes to stdout, unless a result stands there already: that of a
    /// run whose check failed.
    pub fn tell(&self, found: &Diagnostics, format: Format, exit: Exit) {
        match format {
            Format::Json if exit != Exit::Check => {
                message(&self.warnings(found));
                let _ = result(&self.errors_json(found).to_string()); // the status tells it too
            }
            _ => message(&(self.warnings(found) + &self.errors(found))),
        }
    }

    fn warnings(&self, found: &Diagnostics) -> String {
        self.drawn(found.warnings(), ("warning", Color::Yellow))
    }

    fn errors(&self, found: &Diagnostics) -> String {
        self.drawn(found.errors(), ("error", Color::Red))
    }

    fn drawn(&self, told: &[Diagnostic], kind: (&str, Color)) -> String {
        let text = drawable(&self.text);
        let canvas = Canvas { name: &self.name, text: &text, lines: ariadne::Source::from(text.as_str()) };
        told.iter().map(|diagnostic| canvas.draw(diagnostic, kind)).collect()
    }

    /// `{"errors": [...]}`.
    fn errors_json(&self, found: &Diagnostics) -> Value {
        let lines = LineStarts::of(&self.text);
        let error = |error: &Diagnostic| {
            let place = error.place.map(|span| lines.line_and_column(&self.text, span.start as usize));
            json!({
                "code": error.code.name(),
                "file": place.map(|_| &self.name),
                "line": place.map(|(line, _)| line),
                "column": place.map(|(_, column)| column),
                "message": error.message,
                "help": error.help,
            })
        };
        json!({ "errors": found.errors().iter().map(error).collect::<Vec<Value>>() })
    }
}

/// Where lines start.
struct LineStarts(Vec<usize>);

impl LineStarts {
    fn of(text: &str) -> LineStarts {
        LineStarts([0].into_iter().chain(text.match_indices('\n').map(|(at, _)| at + 1)).collect())
    }

    /// Counted from 1, columns in characters.
    fn line_and_column(&self, text: &str, at: usize) -> (usize, usize) {
        let at = floor(text, at);
        let line = self.0.partition_point(|&start| start <= at);
        (line, text[self.0[line - 1]..at].chars().count() + 1)
    }
}

/// The text on which mistakes are drawn.
struct Canvas<'a> {
    name: &'a str,
    text: &'a str,
    lines: ariadne::Source<&'a str>,
}

/// Lines that are longer are not drawn whole.
const LONGEST_LINE: usize = 400;

impl Canvas<'_> {
    fn draw(&self, told: &Diagnostic, (kind, color): (&str, Color)) -> String {
        let Some(place) = told.place else {
            return general(told, (kind, color), "");
        };
        let places = [place].into_iter().chain(told.related.iter().map(|(span, _)| *span));
        if places.map(|span| line_of(self.text, mark(self.text, span).start).len()).max() > Some(LONGEST_LINE)
        {
            return general(told, (kind, color), &self.excerpt(place));
        }
        let marked = |span: Span| (self.name, mark(self.text, span));
        // Labels in the order of their lines are drawn below one title; others would each get the title,
        // and with it the place, of the first.
        let label = |span: Span| Label::new(marked(span)).with_order(self.line_number(span));
        let mut report = Report::build(ReportKind::Custom(kind, color), marked(place))
            .with_code(told.code)
            .with_message(&told.message)
            .with_config(Config::new().with_index_type(IndexType::Byte))
            .with_label(label(place).with_message("here").with_color(color));
        for (span, says) in &told.related {
            report = report.with_label(label(*span).with_message(says).with_color(Color::Cyan));
        }
        if let Some(help) = &told.help {
            report = report.with_help(help);
        }
        let mut out = Vec::new();
        report
            .finish()
            .write((self.name, &self.lines), &mut out)
            .expect("memory takes what is written to it");
        String::from_utf8_lossy(&out).into_owned()
    }

    fn line_number(&self, span: Span) -> i32 {
        let lines = self.text[..mark(self.text, span).start].matches('\n').count();
        lines.try_into().unwrap_or(i32::MAX)
    }

    /// A part of a long line, with a mark under its middle.
    fn excerpt(&self, place: Span) -> String {
        const AROUND: usize = 40;
        let Range { start, .. } = mark(self.text, place);
        let line = line_of(self.text, start);
        let line_start = line.as_ptr().addr() - self.text.as_ptr().addr();
        let (before, after) = line.split_at(start - line_start);
        let first = before.char_indices().rev().nth(AROUND - 1).map_or(0, |(at, _)| at);
        let before: String = before[first..].replace('\t', " ");
        let after: String = after.chars().take(AROUND).collect::<String>().replace('\t', " ");
        let (line, column) = LineStarts::of(self.text).line_and_column(self.text, start);
        let name = self.name;
        format!("   {name}:{line}:{column}\n   {before}{after}\n   {:1$}^ here\n", "", before.chars().count())
    }
}

/// The line around a place.
fn line_of(text: &str, at: usize) -> &str {
    let start = text[..at].rfind('\n').map_or(0, |newline| newline + 1);
    let end = text[at..].find('\n').map_or(text.len(), |newline| at + newline);
    &text[start..end]
}

/// A mistake that is in no place of the text, or whose place is shown in another way.
fn general(told: &Diagnostic, (kind, color): (&str, Color), place: &str) -> String {
    let number = if color == Color::Red { 31 } else { 33 };
    let help = told.help.as_ref().map_or(String::new(), |help| format!("   help: {help}\n"));
    format!("\x1b[{number}m[{}] {kind}:\x1b[0m {}\n{place}{help}", told.code, told.message)
}

/// The part of a span that is marked: at least one character, at most to the end of the first line.
fn mark(text: &str, span: Span) -> Range<usize> {
    let start = floor(text, (span.start as usize).min(text.len() - 1));
    let end = floor(text, span.end as usize);
    let line_end = text[start..].find('\n').map_or(text.len(), |newline| start + newline);
    let first = start + text[start..].chars().next().map_or(0, char::len_utf8);
    start..end.min(line_end).max(first)
}

/// The last place between characters that is not behind `at`.
fn floor(text: &str, at: usize) -> usize {
    text.floor_char_boundary(at.min(text.len()))
}

/// The text with what a terminal would obey, and what only some count as ends of lines, replaced by
/// characters of the same length; a blank at the end, so that also the end can be marked.
fn drawable(text: &str) -> String {
    let drawn = text.chars().map(|character| match character {
        '\n' | '\t' => character,
        '\u{2028}' | '\u{2029}' => '\u{2022}',
        other if other.is_control() && other.len_utf8() == 1 => ' ',
        other if other.is_control() => '\u{b7}',
        other => other,
    });
    drawn.chain([' ']).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shardweave_compiler::diagnostic::Code;

    fn plain(source: &Source, diagnostic: Diagnostic) -> String {
        let told = source.errors(&diagnostic.into());
        anstream::adapter::strip_str(&told).to_string()
    }

    #[test]
    fn a_mistake_shows_its_line_with_a_mark_under_it() {
        let source = Source::new(Path::new("a.weave"), "mesh m { t = 2 }\n  y = relu(é, z)\n".as_bytes());
        let at = source.text.find('z').expect("there");
        let mistake = Diagnostic::at(Code::UnknownValue, Span::new(at, at + 1), "no value `z`")
            .related(Span::new(5, 6), "the mesh")
            .help("declare it");
        let told = plain(&source, mistake.clone());
        for part in [
            "[E0301] error: no value `z`",
            "a.weave:2:15",
            "y = relu(é, z)",
            "here",
            "the mesh",
            "declare it",
        ] {
            assert!(told.contains(part), "{told}\nlacks {part}");
        }
        assert_eq!(told.matches("a.weave:").count(), 1, "one place for both lines\n{told}");
        let json = source.errors_json(&mistake.into());
        assert_eq!(
            json.to_string(),
            r#"{"errors":[{"code":"E0301","file":"a.weave","line":2,"column":15,"message":"no value `z`","help":"declare it"}]}"#
        );
    }

    #[test]
    fn a_mistake_without_place_has_no_file_in_json() {
        let source = Source::new(Path::new("a.weave"), b"");
        let mistake = Diagnostic::general(Code::FileRead, "file `x` cannot be read");
        assert_eq!(plain(&source, mistake.clone()), "[E0607] error: file `x` cannot be read\n");
        assert_eq!(
            source.errors_json(&mistake.into()).to_string(),
            r#"{"errors":[{"code":"E0607","file":null,"line":null,"column":null,"message":"file `x` cannot be read","help":null}]}"#
        );
    }

    #[test]
    fn any_span_in_any_text_can_be_drawn() {
        for text in
            ["", "\n", "\r\n", "a", "é\u{2028}\u{85}b", "\u{1b}[31m\t\0x\u{7f}\n\n\n", "🦀🦀\n🦀", "a\n\tb\n"]
        {
            let source = Source::new(Path::new("a.weave"), text.as_bytes());
            for start in 0..text.len() + 3 {
                for end in [0, start, start + 1, start + 5, usize::MAX] {
                    let mistake = Diagnostic::at(Code::Syntax, Span::new(start, end), "x");
                    let told = plain(&source, mistake.clone());
                    assert!(
                        told.contains("here") && !told.contains('\u{1b}'),
                        "{text:?} {start}..{end}\n{told}"
                    );
                    source.errors_json(&mistake.into());
                }
            }
        }
    }

    #[test]
    fn of_a_long_line_only_a_part_is_drawn() {
        let text = "é".repeat(100_000) + "z" + &"\t".repeat(100_000);
        let source = Source::new(Path::new("a.weave"), text.as_bytes());
        let mistake = Diagnostic::at(Code::Syntax, Span::new(200_000, 200_001), "x").help("y");
        let told = plain(&source, mistake);
        assert!(told.len() < 400, "{told}");
        let expected = format!(
            "   a.weave:1:100001\n   {}z{}\n   {}^ here\n   help: y\n",
            "é".repeat(40),
            " ".repeat(39),
            " ".repeat(40)
        );
        assert!(told.ends_with(&expected), "{told}");
    }
}
