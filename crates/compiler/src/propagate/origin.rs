//! Why a value lives where it does: the chain back to what the user wrote.

use super::PlacedValue;
use crate::id::Table;
use crate::program::{Program, ValueId};

/// Who asked for a value's layout.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Origin {
    /// The user.
    Given,
    /// Operands whose cuts the operation hands on to its result.
    Forward {
        /// The values the cuts come from.
        from: Vec<ValueId>,
    },
    /// An operation that uses the value and is cheapest this way.
    Backward {
        /// The result of that operation.
        user: ValueId,
        /// The values that decided how it runs.
        from: Vec<ValueId>,
    },
    /// Nothing asks for a cut.
    Default,
}

/// Chains longer than this are cut short.
const LONGEST: usize = 4;

/// For each value the one that the user placed and that its layout goes back to, along the first of each
/// chain; the value itself if it is given or nothing asks for it.
pub(super) fn given_ancestors(values: &Table<ValueId, Option<PlacedValue>>) -> Table<ValueId, ValueId> {
    let mut ancestors: Table<ValueId, Option<ValueId>> = values.keys().map(|_| None).collect();
    for of in values.keys() {
        let mut chain = Vec::new();
        let mut at = of;
        // A layout is derived of layouts that were there before, so the chain ends.
        let ancestor = loop {
            if let Some(known) = ancestors[at] {
                break known;
            }
            chain.push(at);
            match values[at].as_ref().and_then(|placed| placed.origin.first()) {
                Some(next) => at = next,
                None => break at,
            }
        };
        for value in chain {
            ancestors[value] = Some(ancestor);
        }
    }
    ancestors.values().zip(values.keys()).map(|(known, own)| known.unwrap_or(own)).collect()
}

impl Origin {
    /// The first of the values it comes from.
    fn first(&self) -> Option<ValueId> {
        match self {
            Origin::Given | Origin::Default => None,
            Origin::Forward { from } | Origin::Backward { from, .. } => from.first().copied(),
        }
    }

    /// `given`, or a sentence with the chain back to what the user wrote.
    pub fn sentence(
        &self,
        program: &Program,
        values: &Table<ValueId, Option<PlacedValue>>,
        of: ValueId,
    ) -> String {
        let mut parts = Vec::new();
        let (mut at, mut origin) = (of, self);
        for _ in 0..LONGEST {
            let (from, part) = match origin {
                Origin::Given if parts.is_empty() => return "given".into(),
                Origin::Given => {
                    parts.push(format!("{} is given", program.values[at].name));
                    break;
                }
                Origin::Default => {
                    parts.push(match parts.is_empty() {
                        true => "nothing asks for a cut".into(),
                        false => format!("nothing asks for a cut of {}", program.values[at].name),
                    });
                    break;
                }
                Origin::Forward { from } => {
                    let op = program.apply(at).map_or("", |apply| apply.op.name());
                    (from, format!("from {} through {op}", names(program, from)))
                }
                Origin::Backward { user, from } => {
                    let op = program.apply(*user).map_or("", |apply| apply.op.name());
                    let user = &program.values[*user].name;
                    (from, format!("as {op} of {user} needs it, after {}", names(program, from)))
                }
            };
            parts.push(part);
            let Some(next) = from.iter().find_map(|&v| Some((v, &values[v].as_ref()?.origin))) else { break };
            (at, origin) = next;
        }
        parts.join("; ")
    }
}

fn names(program: &Program, values: &[ValueId]) -> String {
    let names: Vec<&str> = values.iter().map(|&v| program.values[v].name.as_str()).collect();
    if names.is_empty() { "nothing".into() } else { names.join(", ") }
}
