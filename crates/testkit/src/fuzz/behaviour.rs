//! What an input did, as far as it tells one path through the program from another.
//!
//! Without instrumented code the program's own words are the best witness: every message is one path, and
//! so is every kind of operation and of move, and how many of them there are.

use shardweave_compiler::diagnostic::Diagnostics;
use std::collections::BTreeSet;

/// Short sentences about what happened.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub struct Behaviour {
    /// The sentences.
    pub traits: BTreeSet<String>,
}

impl Behaviour {
    /// Something happened.
    pub fn did(&mut self, what: impl Into<String>) {
        self.traits.insert(what.into());
    }

    /// Something happened so often; only the magnitude counts.
    pub fn counted(&mut self, what: &str, count: usize) {
        self.did(format!("{what} 2^{}", usize::BITS - count.leading_zeros()));
    }

    /// These messages were given.
    pub fn told(&mut self, stage: &str, found: &Diagnostics) {
        for diagnostic in found.errors().iter().chain(found.warnings()) {
            self.did(format!("{stage} {} {}", diagnostic.code, pattern(&diagnostic.message)));
        }
    }
}

/// A message without what differs from input to input: its first words, those in backticks left out.
pub fn pattern(message: &str) -> String {
    const MOST: usize = 14;
    let outside = message.split('`').step_by(2).flat_map(str::split_whitespace);
    let words =
        outside.filter(|word| word.bytes().all(|byte| byte.is_ascii_alphabetic() || b",.:;".contains(&byte)));
    words.take(MOST).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_the_same_for_other_names_and_sizes() {
        assert_eq!(pattern("`x` has 3 dims, `y` has 17"), pattern("`w` has 12 dims, `` has 0"));
        assert_ne!(pattern("`x` has dims"), pattern("`x` has none"));
    }
}
