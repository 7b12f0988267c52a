//! The patterns of `einsum` and `rearrange`: `b s (n h) -> b n s h`.

use crate::diagnostic::quote;
use crate::text::{Kind, Token, lex};
use std::collections::BTreeSet;
use std::fmt;

/// One dim of one side: a name, a group of names that it is split into or merged from, or `1`.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Group {
    /// `n`
    Name(String),
    /// `(n h)` on the left; `e=(n h)` on the right, where a merge is named.
    Merge {
        /// The merged dim's name (right side only).
        name: Option<String>,
        /// What it is made of, outermost first.
        parts: Vec<String>,
    },
    /// `1` on the left: a dim of size 1 that is dropped.
    One,
    /// `one=1` on the right: a new dim of size 1.
    NewOne(String),
}

/// `operand, operand -> result`. `rearrange` has one operand; in `einsum` every group is a name.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Pattern {
    /// For each operand its dims.
    pub operands: Vec<Vec<Group>>,
    /// The result's dims.
    pub result: Vec<Group>,
}

impl Pattern {
    /// A pattern has at most so many different names.
    pub const MOST_NAMES: usize = 256;

    /// Reads a pattern of `einsum`: only names, none twice in one operand or in the result, and every
    /// name of the result in some operand. The error is a sentence.
    pub fn einsum(text: &str) -> Result<Pattern, String> {
        let pattern = Pattern::parse(text)?;
        let sides = pattern.operands.iter().chain([&pattern.result]);
        for group in sides.clone().flatten() {
            if !matches!(group, Group::Name(_)) {
                return Err(format!(
                    "a pattern of `einsum` has only names, not {}",
                    quote(&group.to_string())
                ));
            }
        }
        for side in sides {
            if let Some(name) = twice(names(side)) {
                return Err(format!("{} stands twice in one value of the pattern", quote(name)));
            }
        }
        let given: BTreeSet<&str> = pattern.operands.iter().flat_map(|side| names(side)).collect();
        if let Some(name) = names(&pattern.result).find(|name| !given.contains(name)) {
            return Err(format!("{} stands on the right of the pattern, but in no operand", quote(name)));
        }
        Ok(pattern)
    }

    /// Reads a pattern of `rearrange` with the sizes given beside it: one operand; every name stands
    /// once on each side; a merge has a name on the right and none on the left. The error is a
    /// sentence.
    pub fn rearrange(text: &str, sizes: &[(String, u64)]) -> Result<Pattern, String> {
        let pattern = Pattern::parse(text)?;
        let [operand] = &pattern.operands[..] else {
            return Err("a pattern of `rearrange` has one operand, so no comma".into());
        };
        for group in operand {
            if matches!(group, Group::Merge { name: Some(_), .. } | Group::NewOne(_)) {
                return Err(format!("{} cannot stand on the left of the pattern", quote(&group.to_string())));
            }
        }
        for group in &pattern.result {
            let shown = quote(&group.to_string());
            match group {
                Group::Merge { name: None, .. } => {
                    return Err(format!("the merged dim {shown} on the right needs a name: `e=(n h)`"));
                }
                Group::One => return Err("a new dim of size 1 on the right needs a name: `one=1`".into()),
                Group::Name(_) | Group::Merge { .. } | Group::NewOne(_) => {}
            }
        }
        if let Some(name) = twice(names(operand)).or_else(|| twice(names(&pattern.result))) {
            return Err(format!("{} stands twice on one side of the pattern", quote(name)));
        }
        if let Some(name) = twice(pattern.result.iter().filter_map(Group::dim)) {
            return Err(format!("the result would have the dim {} twice", quote(name)));
        }
        let (left, right): (BTreeSet<&str>, BTreeSet<&str>) =
            (names(operand).collect(), names(&pattern.result).collect());
        if let Some(name) = left.symmetric_difference(&right).next() {
            return Err(format!("{} stands on one side of the pattern only", quote(name)));
        }
        if let Some(name) = twice(sizes.iter().map(|(name, _)| name.as_str())) {
            return Err(format!("{} is given a size twice", quote(name)));
        }
        if let Some((name, _)) = sizes.iter().find(|(name, _)| !left.contains(name.as_str())) {
            return Err(format!("{} is given a size, but is not in the pattern", quote(name)));
        }
        Ok(pattern)
    }

    /// Reads the groups of both sides.
    fn parse(text: &str) -> Result<Pattern, String> {
        let mut reader = Reader { text, token: lex(text, 0) };
        let mut operands = vec![reader.side()?];
        while reader.eat(",") {
            operands.push(reader.side()?);
        }
        if !reader.eat("->") {
            return Err(match reader.token.kind {
                Kind::End => "the pattern has no `->`".into(),
                _ => reader.unexpected("`->`"),
            });
        }
        let result = reader.side()?;
        if reader.token.kind != Kind::End {
            return Err(reader.unexpected("the end of the pattern"));
        }
        let pattern = Pattern { operands, result };
        let all = pattern.operands.iter().chain([&pattern.result]).flat_map(|side| names(side));
        if all.collect::<BTreeSet<_>>().len() > Pattern::MOST_NAMES {
            return Err(format!("a pattern has at most {} different names", Pattern::MOST_NAMES));
        }
        Ok(pattern)
    }
}

/// A pattern, or a side of one, that is written without spaces, one letter a dim, with them: `bsh,he->bse`
/// as `b s h, h e -> b s e`. None if it is not written so.
pub(crate) fn spaced(text: &str) -> Option<String> {
    let sides: Vec<Vec<&str>> =
        text.split("->").map(|side| side.split(',').map(str::trim).collect()).collect();
    let words = || sides.iter().flatten();
    let glued = words().all(|word| word.chars().all(|c| c.is_ascii_alphabetic()));
    if !glued || words().all(|word| word.len() < 2) {
        return None;
    }
    let apart = |word: &&str| word.chars().map(String::from).collect::<Vec<_>>().join(" ");
    let apart = |side: &Vec<&str>| side.iter().map(apart).collect::<Vec<_>>().join(", ");
    Some(sides.iter().map(apart).collect::<Vec<_>>().join(" -> "))
}

/// Reads a pattern token by token.
struct Reader<'a> {
    text: &'a str,
    token: Token<'a>,
}

impl<'a> Reader<'a> {
    fn bump(&mut self) -> Token<'a> {
        let next = lex(self.text, self.token.end);
        std::mem::replace(&mut self.token, next)
    }

    fn eat(&mut self, mark: &str) -> bool {
        let found = matches!(self.token.kind, Kind::Mark(m) if m == mark);
        if found {
            self.bump();
        }
        found
    }

    fn unexpected(&self, expected: &str) -> String {
        let found = match self.token.kind {
            Kind::End => "its end".into(),
            _ => self.token.describe(),
        };
        format!("in the pattern, expected {expected}, found {found}")
    }

    /// Groups up to `,`, `->` or the end.
    fn side(&mut self) -> Result<Vec<Group>, String> {
        let mut groups = Vec::new();
        loop {
            match self.token.kind {
                Kind::Name(name) => {
                    self.bump();
                    groups.push(if self.eat("=") { self.named(name)? } else { Group::Name(name.into()) });
                }
                Kind::Number("1") => {
                    self.bump();
                    groups.push(Group::One);
                }
                Kind::Mark("(") => groups.push(Group::Merge { name: None, parts: self.parts()? }),
                Kind::Mark("," | "->") | Kind::End => return Ok(groups),
                _ => return Err(self.unexpected("a name, `(` or `1`")),
            }
        }
    }

    /// What follows `name=`.
    fn named(&mut self, name: &str) -> Result<Group, String> {
        match self.token.kind {
            Kind::Number("1") => {
                self.bump();
                Ok(Group::NewOne(name.into()))
            }
            Kind::Mark("(") => Ok(Group::Merge { name: Some(name.into()), parts: self.parts()? }),
            _ => Err(self.unexpected("`(` or `1` after `=`")),
        }
    }

    /// `(n h)`: at least one name.
    fn parts(&mut self) -> Result<Vec<String>, String> {
        self.bump();
        let mut parts = Vec::new();
        while let Kind::Name(name) = self.token.kind {
            self.bump();
            parts.push(name.to_string());
        }
        if parts.is_empty() || !self.eat(")") {
            return Err(self.unexpected(if parts.is_empty() { "a name" } else { "a name or `)`" }));
        }
        Ok(parts)
    }
}

/// The names of one side, left to right.
fn names(side: &[Group]) -> impl Iterator<Item = &str> {
    side.iter().flat_map(Group::parts).map(String::as_str)
}

/// The first name that stands a second time.
fn twice<'a>(names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let mut seen = BTreeSet::new();
    names.into_iter().find(|name| !seen.insert(*name))
}

impl Group {
    /// The name of the result's dim that the group on the right stands for.
    pub fn dim(&self) -> Option<&str> {
        match self {
            Group::Name(name) | Group::NewOne(name) | Group::Merge { name: Some(name), .. } => Some(name),
            Group::Merge { name: None, .. } | Group::One => None,
        }
    }

    /// The names that stand in this group, outermost first.
    pub fn parts(&self) -> &[String] {
        match self {
            Group::Name(name) => std::slice::from_ref(name),
            Group::Merge { parts, .. } => parts,
            Group::One | Group::NewOne(_) => &[],
        }
    }
}

impl fmt::Display for Group {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Group::Name(name) => f.write_str(name),
            Group::Merge { name: Some(name), parts } => write!(f, "{name}=({})", parts.join(" ")),
            Group::Merge { name: None, parts } => write!(f, "({})", parts.join(" ")),
            Group::One => f.write_str("1"),
            Group::NewOne(name) => write!(f, "{name}=1"),
        }
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let side = |groups: &[Group]| groups.iter().map(Group::to_string).collect::<Vec<_>>().join(" ");
        let left: Vec<String> = self.operands.iter().map(|o| side(o)).collect();
        write!(f, "{} ->", left.join(", "))?;
        let right = side(&self.result);
        if right.is_empty() { Ok(()) } else { write!(f, " {right}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_print_as_they_were_written() {
        for text in ["b n s h, b n t h -> b n s t", " ->", ", n -> n", "a b -> b a"] {
            assert_eq!(Pattern::einsum(text).expect(text).to_string(), text);
        }
        for text in ["b s (n h) -> b n s h", "1 a (b) -> e=(b a) one=1"] {
            assert_eq!(Pattern::rearrange(text, &[]).expect(text).to_string(), text);
        }
    }

    #[test]
    fn malformed_patterns_are_explained() {
        for (text, expected) in [
            ("a b", "the pattern has no `->`"),
            ("a -> b", "`b` stands on the right of the pattern, but in no operand"),
            ("a a -> a", "`a` stands twice in one value of the pattern"),
            ("(a b) -> a b", "a pattern of `einsum` has only names, not `(a b)`"),
            ("a ... -> a", "in the pattern, expected a name, `(` or `1`, found `.`"),
            ("a -> a -> a", "in the pattern, expected the end of the pattern, found `->`"),
        ] {
            assert_eq!(Pattern::einsum(text), Err(expected.into()), "{text}");
        }
        for (text, expected) in [
            ("a, b -> a b", "a pattern of `rearrange` has one operand, so no comma"),
            ("a b -> (a b)", "the merged dim `(a b)` on the right needs a name: `e=(n h)`"),
            ("a -> a 1", "a new dim of size 1 on the right needs a name: `one=1`"),
            ("e=(a b) -> a b", "`e=(a b)` cannot stand on the left of the pattern"),
            ("a b -> a", "`b` stands on one side of the pattern only"),
            ("a b -> a=(b) c=(a) a=1", "the result would have the dim `a` twice"),
            ("(a (b c)) -> a b c", "in the pattern, expected a name or `)`, found `(`"),
            ("() -> a", "in the pattern, expected a name, found `)`"),
        ] {
            assert_eq!(Pattern::rearrange(text, &[]), Err(expected.into()), "{text}");
        }
        let sizes = [("z".to_string(), 3)];
        assert_eq!(
            Pattern::rearrange("(a b) -> a b", &sizes),
            Err("`z` is given a size, but is not in the pattern".into())
        );
    }
}
