//! The patterns of `einsum` and `rearrange`: `b s (n h) -> b n s h`.

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

impl Group {
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
