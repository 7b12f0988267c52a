//! The calls that all ranks make together. Each begins with the same small collective, in which all say which call it is:
//! so a rank that makes another one, or has ended, is found out by all of them, and nobody takes its number for
//! something else.

use crate::binding::{Library, refused};
use crate::group::Group;
use shardweave_runtime::engine::EngineError;
use std::fmt;

/// A call that all ranks make.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Call {
    Share,
    GiveBack,
    TellAll,
    Least,
    Gather,
    End,
}

const CALLS: [Call; 6] = [Call::Share, Call::GiveBack, Call::TellAll, Call::Least, Call::Gather, Call::End];

/// Begins a call; gives a number of each rank.
pub(crate) fn begin(
    call: Call,
    number: u64,
    all: &Group,
    library: &Library,
) -> Result<Vec<u64>, EngineError> {
    let told = all.tell_some(library, [call as u64, number])?;
    match told.iter().position(|&[other, _]| other != call as u64) {
        None => Ok(told.into_iter().map(|[_, number]| number).collect()),
        Some(rank) => {
            let other = CALLS.get(told[rank][0] as usize).copied();
            let error = refused(format!(
                "rank {rank} {} while this rank {call}: all ranks make the same calls in the same order",
                other.map_or("makes a call of another version".to_string(), |other| other.to_string()),
            ));
            library.has_broken(&error);
            Err(error)
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Call::Share => "shares memory",
            Call::GiveBack => "gives memory back",
            Call::TellAll => "tells all something",
            Call::Least => "asks for the least number",
            Call::Gather => "gives what rank 0 gathers",
            Call::End => "has ended its part",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_known_by_their_numbers() {
        for (number, call) in CALLS.into_iter().enumerate() {
            assert_eq!(call as usize, number);
        }
    }
}
