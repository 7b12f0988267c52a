//! The lexer: one token at a place of the text.
//!
//! Names are `[A-Za-z_][A-Za-z0-9_.]*`. A number may have a sign, a point and an exponent; `-inf` is
//! a number, while `inf` and `nan` are names that stand for one where a number can be. `#` starts a
//! comment that ends with its line. In a text, `\"` is a quote and `\\` a backslash.

use crate::diagnostic::{Code, Diagnostic, Span, quote};
use crate::dtype::Number;

/// What a token is. Names, numbers and texts borrow what stands in the file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind<'a> {
    /// A name or word.
    Name(&'a str),
    /// A number as written; [`number`] reads it.
    Number(&'a str),
    /// A text as written between its quotes.
    Text(&'a str),
    /// `%3`: the number of a value of the local form, as written.
    Local(&'a str),
    /// A mark: one of `-> <- ( ) [ ] { } , : = / < > * + - @`.
    Mark(&'static str),
    /// The end of a line.
    Newline,
    /// What is no token.
    Bad(&'a str),
    /// The end of the text.
    End,
}

/// A token with its place.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Token<'a> {
    /// What it is.
    pub kind: Kind<'a>,
    /// The first byte.
    pub start: usize,
    /// One past the last byte.
    pub end: usize,
}

impl Token<'_> {
    /// The place for a message.
    pub fn span(&self) -> Span {
        Span::new(self.start, self.end)
    }

    /// The token as a message says it: quoted, or in words.
    pub fn describe(&self) -> String {
        match self.kind {
            Kind::Name(s) | Kind::Number(s) | Kind::Bad(s) => quote(s),
            Kind::Text(_) => "a text in quotes".into(),
            Kind::Local(s) => quote(&format!("%{s}")),
            Kind::Mark(s) => quote(s),
            Kind::Newline => "the end of the line".into(),
            Kind::End => "the end of the file".into(),
        }
    }
}

/// Longer marks stand before their beginnings.
const MARKS: [&str; 17] =
    ["->", "<-", "(", ")", "[", "]", "{", "}", ",", ":", "=", "/", "<", ">", "*", "+", "@"];

/// The token at or after byte `from`, which is on a character boundary; spaces and comments are skipped.
pub fn lex(text: &str, from: usize) -> Token<'_> {
    let start = skip_blank(text, from);
    let rest = &text[start..];
    let token = |kind, len| Token { kind, start, end: start + len };
    let Some(first) = rest.chars().next() else { return token(Kind::End, 0) };
    if first == '\n' {
        return token(Kind::Newline, 1);
    }
    if first.is_ascii_alphabetic() || first == '_' {
        let name = leading(rest, is_name_char);
        return token(Kind::Name(name), name.len());
    }
    if first == '"' {
        return text_token(rest, start);
    }
    if first == '%' {
        let digits = leading(&rest[1..], |c| c.is_ascii_digit());
        let kind = if digits.is_empty() { Kind::Bad("%") } else { Kind::Local(digits) };
        return token(kind, 1 + digits.len());
    }
    if let Some(len) = number_len(rest) {
        return token(Kind::Number(&rest[..len]), len);
    }
    if let Some(mark) = MARKS.into_iter().find(|mark| rest.starts_with(mark)) {
        return token(Kind::Mark(mark), mark.len());
    }
    if first == '-' {
        return token(Kind::Mark("-"), 1);
    }
    let bad = leading(rest, |c| !c.is_ascii_graphic() && !c.is_whitespace());
    let len = bad.len().max(first.len_utf8());
    token(Kind::Bad(&rest[..len]), len)
}

/// Whether the whole text is one name.
pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_') && text.chars().all(is_name_char)
}

fn is_name_char(c: char) -> bool {
    c.is_ascii_alphanumeric() || c == '_' || c == '.'
}

/// The longest beginning of which every character is accepted.
fn leading(text: &str, accept: impl Fn(char) -> bool) -> &str {
    &text[..text.find(|c| !accept(c)).unwrap_or(text.len())]
}

fn skip_blank(text: &str, mut at: usize) -> usize {
    loop {
        let rest = &text[at..];
        if rest.starts_with([' ', '\t', '\r', '\u{feff}']) {
            at += rest.chars().next().map_or(0, char::len_utf8);
        } else if rest.starts_with('#') {
            at += rest.find('\n').unwrap_or(rest.len());
        } else {
            return at;
        }
    }
}

/// A text ends with its quote; without one it is bad up to the end of its line.
fn text_token(rest: &str, start: usize) -> Token<'_> {
    let mut escaped = false;
    for (i, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => return Token { kind: Kind::Bad(&rest[..i]), start, end: start + i },
            '"' if !escaped => return Token { kind: Kind::Text(&rest[1..i]), start, end: start + i + 1 },
            _ => escaped = c == '\\' && !escaped,
        }
    }
    Token { kind: Kind::Bad(rest), start, end: start + rest.len() }
}

/// How long the number is that `rest` starts with. Letters glued to it belong to it, so that they are
/// one mistake and not two tokens.
fn number_len(rest: &str) -> Option<usize> {
    let unsigned = rest.strip_prefix('-').unwrap_or(rest);
    let sign = rest.len() - unsigned.len();
    if sign == 1 && leading(unsigned, is_name_char) == "inf" {
        return Some(4);
    }
    if !unsigned.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    let mut previous = ' ';
    let end = unsigned.find(|c: char| {
        let exponent_sign = matches!(c, '+' | '-') && matches!(previous, 'e' | 'E');
        previous = c;
        !(is_name_char(c) || exponent_sign)
    });
    Some(sign + end.unwrap_or(unsigned.len()))
}

/// Reads a number as written: `4`, `-1.5`, `1e-5`, `inf`, `-inf`, `nan`.
pub fn number(text: &str, place: Span) -> Result<Number, Diagnostic> {
    let bad = |why: &str| Diagnostic::at(Code::BadNumber, place, format!("{} {why}", quote(text)));
    match text {
        "inf" => return Ok(Number::Float(f64::INFINITY)),
        "-inf" => return Ok(Number::Float(f64::NEG_INFINITY)),
        "nan" => return Ok(Number::Float(f64::NAN)),
        _ => {}
    }
    if text.strip_prefix('-').unwrap_or(text).bytes().all(|b| b.is_ascii_digit()) {
        return text
            .parse()
            .map(Number::Int)
            .map_err(|_| bad("is too large a number").help("whole numbers have at most 38 digits"));
    }
    match text.parse::<f64>() {
        Ok(x) if x.is_finite() => Ok(Number::Float(x)),
        Ok(_) => Err(bad("is too large a number").help("write `inf` for infinity")),
        Err(_) => Err(bad("is not a number").help("numbers are written `4`, `-1.5`, `1e-5`, `inf`, `nan`")),
    }
}

/// The text between quotes with its escapes undone.
pub fn unescape(written: &str) -> String {
    let mut out = String::with_capacity(written.len());
    let mut chars = written.chars().peekable();
    while let Some(c) = chars.next() {
        match (c, chars.peek()) {
            ('\\', Some(&next @ ('"' | '\\'))) => {
                out.push(next);
                chars.next();
            }
            _ => out.push(c),
        }
    }
    out
}

/// A text as it is written in a file, with its quotes. (A line break cannot be written and becomes a
/// space.)
pub fn quoted_text(text: &str) -> String {
    format!("\"{}\"", text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', " "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kinds(text: &str) -> Vec<Kind<'_>> {
        let mut at = 0;
        let mut kinds = Vec::new();
        loop {
            let token = lex(text, at);
            if token.kind == Kind::End {
                return kinds;
            }
            assert!(token.end > at, "the lexer stands still at {at} of {text:?}");
            at = token.end;
            kinds.push(token.kind);
        }
    }

    #[test]
    fn tokens_of_every_kind() {
        use Kind::{Bad, Local, Mark, Name, Newline, Number, Text};
        assert_eq!(
            kinds("x.y -> [1, -2.5e-3]#c\n%12 <- \"a\\\"b\""),
            [
                Name("x.y"),
                Mark("->"),
                Mark("["),
                Number("1"),
                Mark(","),
                Number("-2.5e-3"),
                Mark("]"),
                Newline,
                Local("12"),
                Mark("<-"),
                Text("a\\\"b")
            ]
        );
        assert_eq!(kinds("-inf -infx"), [Number("-inf"), Mark("-"), Name("infx")]);
        assert_eq!(kinds("12ab\u{e9} ~"), [Number("12ab"), Bad("\u{e9}"), Bad("~")]);
        assert_eq!(kinds("\"open\nx"), [Bad("\"open"), Newline, Name("x")]);
    }

    #[test]
    fn numbers_keep_their_kind() {
        let read = |text| number(text, Span::default());
        assert_eq!(read("12"), Ok(Number::Int(12)));
        assert_eq!(read("-1e-5"), Ok(Number::Float(-1e-5)));
        assert_eq!(read("-inf"), Ok(Number::Float(f64::NEG_INFINITY)));
        for bad in ["1e999", "12ab", "1.2.3", "1e", "99999999999999999999999999999999999999999999"] {
            assert_eq!(read(bad).expect_err(bad).code, Code::BadNumber);
        }
    }

    #[test]
    fn quoting_undoes_itself() {
        for text in ["", "a", "a\"b", "a\\", "\\\"", "\\\\\""] {
            let quoted = quoted_text(text);
            let Kind::Text(written) = lex(&quoted, 0).kind else { panic!("{quoted} is no text") };
            assert_eq!(unescape(written), text);
        }
    }
}
