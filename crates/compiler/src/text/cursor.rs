//! A cursor over the tokens of a text, for recursive descent that goes on after a mistake.
//!
//! A function that reads something returns `Result<T, Reported>`: `Reported` says that the mistake is
//! already in the cursor's list, so `?` leaves the statement, and the caller skips to the next one
//! with [`Cursor::skip_statement`].
//!
//! A newline is a token, except inside `()` and `[]`: the cursor counts those and steps over it.

use super::lexer::{self, Kind, Token, lex};
use crate::diagnostic::{Code, Diagnostic, Diagnostics, Span};
use crate::dtype::Number;

/// A mistake was found and is in the cursor's list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Reported;

/// A place in the text to come back to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Bookmark(usize);

/// Words that start a definition of a file.
const DEFINITIONS: [&str; 3] = ["mesh", "program", "placement"];

/// Reads one text from start to end, collecting mistakes.
pub struct Cursor<'a> {
    text: &'a str,
    token: Token<'a>,
    /// One past the last token taken.
    before: usize,
    /// How many `(` and `[` are open.
    depth: usize,
    /// Where the last line starts that began inside `()` or `[]`.
    line_inside: Option<usize>,
    found: Diagnostics,
}

/// Reads a text that is one thing and nothing else; all mistakes if there are any.
pub fn read_alone<'a, T>(
    text: &'a str,
    read: impl FnOnce(&mut Cursor<'a>) -> Result<T, Reported>,
) -> Result<T, Diagnostics> {
    let mut cursor = Cursor::new(text);
    cursor.skip_newlines();
    let read = read(&mut cursor).and_then(|thing| cursor.expect_end().map(|()| thing));
    let found = cursor.finish();
    match read {
        Ok(thing) => found.finish(thing),
        Err(Reported) => Err(found),
    }
}

impl<'a> Cursor<'a> {
    /// After so many mistakes the rest of a text is not read.
    pub const MOST_MISTAKES: usize = 1000;

    /// At the start of a text.
    pub fn new(text: &'a str) -> Cursor<'a> {
        Cursor {
            text,
            token: lex(text, 0),
            before: 0,
            depth: 0,
            line_inside: None,
            found: Diagnostics::new(),
        }
    }

    /// The token that comes next.
    pub fn peek(&self) -> Token<'a> {
        self.token
    }

    /// The token after the next one.
    pub fn peek_second(&self) -> Token<'a> {
        let mut token = lex(self.text, self.token.end);
        while self.depth > 0 && token.kind == Kind::Newline {
            token = lex(self.text, token.end);
        }
        token
    }

    /// Takes the next token.
    pub fn bump(&mut self) -> Token<'a> {
        let token = self.token;
        match token.kind {
            Kind::Mark("(" | "[") => self.depth += 1,
            Kind::Mark(")" | "]") => self.depth = self.depth.saturating_sub(1),
            _ => {}
        }
        if self.depth == 0 {
            self.line_inside = None;
        }
        self.before = token.end;
        self.token = lex(self.text, token.end);
        while self.depth > 0 && self.token.kind == Kind::Newline {
            self.line_inside = Some(self.token.end);
            self.token = lex(self.text, self.token.end);
        }
        token
    }

    /// The place where the cursor is, to come back to with [`Cursor::go_to`].
    pub fn bookmark(&self) -> Bookmark {
        Bookmark(self.token.start)
    }

    /// Goes to a place outside `()` and `[]`.
    pub fn go_to(&mut self, place: Bookmark) {
        self.depth = 0;
        self.line_inside = None;
        self.before = place.0;
        self.token = lex(self.text, place.0);
    }

    /// From the token that started at `start` to the last token taken.
    pub fn span_from(&self, start: Span) -> Span {
        Span::new(start.start as usize, self.before).to(Span::new(self.before, self.before))
    }

    /// What stands at a place of the text.
    pub fn said(&self, place: Span) -> &'a str {
        self.text.get(place.start as usize..place.end as usize).unwrap_or_default()
    }

    /// Adds a mistake. After [`Cursor::MOST_MISTAKES`] the cursor goes to the end of the text.
    pub fn report(&mut self, mistake: Diagnostic) -> Reported {
        let count = self.found.errors().len();
        if count < Self::MOST_MISTAKES {
            self.found.push(mistake);
        } else if count == Self::MOST_MISTAKES {
            let place = mistake.place.unwrap_or_default();
            self.found.push(Diagnostic::at(
                Code::Syntax,
                place,
                "there are more mistakes, which are not listed",
            ));
            self.go_to(Bookmark(self.text.len()));
        }
        Reported
    }

    /// Adds a warning.
    pub fn warn(&mut self, warning: Diagnostic) {
        if self.found.warnings().len() < Self::MOST_MISTAKES {
            self.found.warn(warning);
        }
    }

    /// Reports that something else was expected at the next token.
    pub fn unexpected(&mut self, expected: &str) -> Reported {
        let mistake = self.surprise(expected);
        self.report(mistake)
    }

    /// The mistake that something else was expected at the next token, to be reported with a way out.
    pub fn surprise(&self, expected: &str) -> Diagnostic {
        let found = self.token.describe();
        let message = match self.token.kind {
            Kind::Bad(text) if text.starts_with('"') => "a text has no closing quote on its line".into(),
            Kind::Bad(_) => format!("{found} is not of the language; expected {expected}"),
            _ => format!("expected {expected}, found {found}"),
        };
        Diagnostic::at(Code::Syntax, self.token.span(), message)
    }

    /// How many mistakes were found so far.
    pub fn mistakes(&self) -> usize {
        self.found.errors().len()
    }

    /// All that was found.
    pub fn finish(self) -> Diagnostics {
        self.found
    }

    /// Expects nothing but newlines up to the end of the text.
    pub fn expect_end(&mut self) -> Result<(), Reported> {
        self.skip_newlines();
        match self.token.kind {
            Kind::End => Ok(()),
            _ => Err(self.unexpected("the end of the text")),
        }
    }

    /// Whether a mark comes next.
    pub fn at(&self, mark: &str) -> bool {
        matches!(self.token.kind, Kind::Mark(m) if m == mark)
    }

    /// Whether a word comes next.
    pub fn at_word(&self, word: &str) -> bool {
        matches!(self.token.kind, Kind::Name(name) if name == word)
    }

    /// Takes a mark if it comes next.
    pub fn eat(&mut self, mark: &str) -> Option<Span> {
        self.at(mark).then(|| self.bump().span())
    }

    /// Takes a word if it comes next.
    pub fn eat_word(&mut self, word: &str) -> Option<Span> {
        self.at_word(word).then(|| self.bump().span())
    }

    /// Takes a mark.
    pub fn expect(&mut self, mark: &str) -> Result<Span, Reported> {
        match self.eat(mark) {
            Some(span) => Ok(span),
            None => Err(self.unexpected(&format!("`{mark}`"))),
        }
    }

    /// Takes a word.
    pub fn expect_word(&mut self, word: &str) -> Result<Span, Reported> {
        match self.eat_word(word) {
            Some(span) => Ok(span),
            None => Err(self.unexpected(&format!("`{word}`"))),
        }
    }

    /// Takes a name; `what` says what it names: "the name of a mesh".
    pub fn name(&mut self, what: &str) -> Result<(&'a str, Span), Reported> {
        match self.token.kind {
            Kind::Name(name) => Ok((name, self.bump().span())),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes a number (also `inf` and `nan`); `what` says what it is for.
    pub fn number(&mut self, what: &str) -> Result<(Number, Span), Reported> {
        match self.token.kind {
            Kind::Number(text) | Kind::Name(text @ ("inf" | "nan")) => {
                let place = self.bump().span();
                let number = lexer::number(text, place).map_err(|mistake| self.report(mistake))?;
                Ok((number, place))
            }
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes a whole number from 0 to 2^64 - 1; `what` says what it is: "the size of an axis".
    pub fn count(&mut self, what: &str) -> Result<(u64, Span), Reported> {
        let written = self.token;
        let (number, place) = self.number(what)?;
        match number {
            Number::Int(n) if u64::try_from(n).is_ok() => Ok((n as u64, place)),
            _ => {
                let mistake = Diagnostic::at(
                    Code::BadNumber,
                    place,
                    format!("{} cannot be {what}", written.describe()),
                );
                Err(self.report(mistake.help("it is a whole number from 0 to 2^64 - 1")))
            }
        }
    }

    /// Takes a text; `what` says what it is.
    pub fn text(&mut self, what: &str) -> Result<(String, Span), Reported> {
        match self.token.kind {
            Kind::Text(written) => Ok((lexer::unescape(written), self.bump().span())),
            _ => Err(self.unexpected(what)),
        }
    }

    /// Takes `open`, items divided by commas (one may stand after the last), and `close`.
    pub fn list<T>(
        &mut self,
        open: &str,
        close: &str,
        mut item: impl FnMut(&mut Cursor<'a>) -> Result<T, Reported>,
    ) -> Result<Vec<T>, Reported> {
        let opened = self.expect(open)?;
        let mut items = Vec::new();
        loop {
            if self.eat(close).is_some() {
                return Ok(items);
            }
            items.push(item(self)?);
            if self.eat(",").is_none() && !self.at(close) {
                let found = self.token.describe();
                let message = format!("expected `,` or `{close}`, found {found}");
                let mistake = Diagnostic::at(Code::Syntax, self.token.span(), message);
                return Err(self.report(mistake.related(opened, format!("this `{open}` is open"))));
            }
        }
    }

    /// Steps over empty lines.
    pub fn skip_newlines(&mut self) {
        while self.token.kind == Kind::Newline {
            self.bump();
        }
    }

    /// Takes the end of a statement: a newline. A `}` or the end of the text end it too and stay.
    pub fn end_statement(&mut self) -> Result<(), Reported> {
        match self.token.kind {
            Kind::Newline => {
                self.bump();
                Ok(())
            }
            Kind::End | Kind::Mark("}") => Ok(()),
            _ => {
                let mistake = self.surprise("the end of the line");
                Err(self.report(mistake.help("what comes next has a line of its own")))
            }
        }
    }

    /// After a mistake: goes to the start of the next statement, or to the `}` that ends them. A `(` or
    /// `[` that is never closed does not swallow the lines after it: one that starts a statement counts.
    pub fn skip_statement(&mut self) {
        loop {
            if let Some(line) = self.line_inside.take()
                && self.depth > 0
                && self.starts_statement(line)
            {
                self.go_to(Bookmark(line));
                return;
            }
            match self.token.kind {
                Kind::End | Kind::Mark("}") => {
                    self.depth = 0;
                    return;
                }
                Kind::Newline => return self.raw_bump(),
                _ => {
                    self.bump();
                }
            }
        }
    }

    /// Goes over the rest of a definition: past its `}` and what follows on that line, or to where another
    /// one starts.
    pub fn skip_definition(&mut self) {
        self.depth = 0;
        self.line_inside = None;
        let mut braces = 0_usize;
        loop {
            match self.token.kind {
                Kind::End => return,
                Kind::Mark("{") => braces += 1,
                Kind::Mark("}") if braces <= 1 => return self.skip_line(),
                Kind::Mark("}") => braces -= 1,
                Kind::Newline => {
                    self.raw_bump();
                    if self.at_definition() {
                        return;
                    }
                    continue;
                }
                _ => {}
            }
            self.raw_bump();
        }
    }

    /// Goes to the end of the line, past what is in `()` and `[]`, or to a definition.
    fn skip_line(&mut self) {
        self.raw_bump();
        while !matches!(self.token.kind, Kind::End | Kind::Newline) && !self.at_definition() {
            self.bump();
        }
        self.depth = 0;
        self.line_inside = None;
    }

    /// Whether the next two tokens start a mesh, program or placement.
    pub fn at_definition(&self) -> bool {
        let at_word = matches!(self.token.kind, Kind::Name(word) if DEFINITIONS.contains(&word));
        at_word && matches!(lex(self.text, self.token.end).kind, Kind::Name(_))
    }

    /// Whether the line at byte `line` is a statement, and not the rest of a list: `n = 12` may be that.
    fn starts_statement(&self, line: usize) -> bool {
        let first = lex(self.text, line);
        let second = lex(self.text, first.end);
        match (first.kind, second.kind) {
            (Kind::Mark("}"), _) | (Kind::Name(_), Kind::Mark(":")) => true,
            (Kind::Name(_), Kind::Mark("=")) => matches!(lex(self.text, second.end).kind, Kind::Name(_)),
            (Kind::Name(word), Kind::Name(_)) => {
                DEFINITIONS.contains(&word) || matches!(word, "input" | "output")
            }
            _ => false,
        }
    }

    /// Takes a token without counting `()` and `[]`.
    fn raw_bump(&mut self) {
        self.before = self.token.end;
        self.token = lex(self.text, self.token.end);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newlines_vanish_inside_brackets_only() {
        let mut cursor = Cursor::new("f(a,\n  b)\ng");
        assert!(cursor.name("a name").is_ok());
        let names = cursor.list("(", ")", |c| c.name("a name").map(|n| n.0));
        assert_eq!(names, Ok(vec!["a", "b"]));
        assert_eq!(cursor.peek().kind, Kind::Newline);
        assert_eq!(cursor.end_statement(), Ok(()));
        assert!(cursor.at_word("g"));
    }

    #[test]
    fn an_open_bracket_does_not_swallow_the_next_statement() {
        let mut cursor = Cursor::new("y = f(a, b\nz = g(c)\n");
        for _ in 0..3 {
            cursor.bump();
        }
        assert_eq!(cursor.list("(", ")", |c| c.name("a name")), Err(Reported));
        cursor.skip_statement();
        assert!(cursor.at_word("z"));
        let found = cursor.finish();
        assert_eq!(found.errors()[0].message, "expected `,` or `)`, found `z`");
    }

    #[test]
    fn mistakes_are_capped() {
        let mut cursor = Cursor::new("a\nb");
        for _ in 0..2000 {
            cursor.unexpected("something");
        }
        assert_eq!(cursor.peek().kind, Kind::End);
        assert_eq!(cursor.finish().errors().len(), Cursor::MOST_MISTAKES + 1);
    }
}
