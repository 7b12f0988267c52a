//! What ranks tell each other when something went wrong on one of them.
//!
//! **Invariant.** Where something can fail on one rank alone, all ranks agree on how it went before they do anything
//! else together. So either all go on, or none does.

use crate::engine::{Engine, EngineError};
use crate::execute::{How, RunError};
use crate::kernels::KernelError;

/// Ends well if it went well on all ranks, with the same number. The lowest rank that failed has its own error, the
/// others hear of it.
pub(crate) fn agree(engine: &dyn Engine, own: Result<u64, RunError>) -> Result<(), RunError> {
    let word = match &own {
        Ok(number) => [&[FINE][..], &number.to_le_bytes()].concat(),
        Err(error) => [&[FAILED], error.to_string().as_bytes()].concat(),
    };
    let told = or_end(engine, engine.tell_all(&word), "at an agreement")?;
    let failed = |word: &Vec<u8>| word.first() != Some(&FINE);
    if let Some(rank) = told.iter().position(failed) {
        return Err(match own {
            Err(error) if rank == engine.place().rank => error,
            _ => {
                let message = String::from_utf8_lossy(told[rank].get(1..).unwrap_or_default()).into_owned();
                RunError::Elsewhere { rank, message }
            }
        });
    }
    let differs = |word: &&Vec<u8>| **word != told[0];
    match told.iter().enumerate().find(|(_, word)| differs(word)) {
        None => Ok(()),
        Some((rank, _)) => Err(RunError::RanksDiffer { rank }),
    }
}

const FINE: u8 = 0;
const FAILED: u8 = 1;

/// What the engine gave; if ranks did not come in time, there is nothing left to do together, so it ends all. The one
/// way from an engine's error to that of a run, so that nobody goes on after [`EngineError::Late`].
pub(crate) fn or_end<T>(
    engine: &dyn Engine,
    given: Result<T, EngineError>,
    place: &str,
) -> Result<T, RunError> {
    match given {
        Ok(given) => Ok(given),
        Err(late @ EngineError::Late(_)) => engine.abort(&format!("{late}, awaited {place}")),
        Err(error) => Err(RunError::Engine(error.to_string())),
    }
}

/// What ranks got together, if all of them have it. Who was refused its part has the reason, the others hear of it.
pub(crate) fn all_have<T>(
    engine: &dyn Engine,
    given: Result<T, EngineError>,
    place: &str,
) -> Result<T, RunError> {
    let own = match &given {
        Ok(_) | Err(EngineError::Elsewhere) => Ok(0),
        Err(EngineError::Refused(why)) => Err(RunError::NotShared(why.clone())),
        Err(EngineError::Late(_)) => or_end(engine, given.as_ref().map(|_| 0).map_err(Clone::clone), place),
    };
    agree(engine, own)?;
    or_end(engine, given, place)
}

const KERNEL: u8 = 0;
const REFUSED: u8 = 1;
const PANIC: u8 = 2;

/// How a device failed, for other ranks.
pub(super) fn how_to_bytes(how: &How) -> Vec<u8> {
    let text = |kind: u8, text: &str| [&[kind], text.as_bytes()].concat();
    match how {
        How::Kernel(KernelError::IdOutOfRange { id, rows }) => {
            [&[KERNEL][..], &id.to_le_bytes(), &rows.to_le_bytes()].concat()
        }
        How::Refused(reason) => text(REFUSED, reason),
        How::Panic(reason) => text(PANIC, reason),
    }
}

/// The other way. Bytes that no rank of this version writes are told as they are.
pub(super) fn how_from_bytes(bytes: &[u8]) -> How {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match bytes.split_first() {
        Some((&KERNEL, rest)) if rest.len() == 16 => {
            let (id, rows) = rest.split_at(8);
            let (id, rows) = (id.try_into().expect("eight bytes"), rows.try_into().expect("eight bytes"));
            let (id, rows) = (i64::from_le_bytes(id), u64::from_le_bytes(rows));
            How::Kernel(KernelError::IdOutOfRange { id, rows })
        }
        Some((&REFUSED, rest)) => How::Refused(text(rest)),
        Some((_, rest)) => How::Panic(text(rest)),
        None => How::Panic("it did not tell why".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_hear_how_a_device_failed() {
        let all = [
            How::Kernel(KernelError::IdOutOfRange { id: -3, rows: 7 }),
            How::Refused("no".into()),
            How::Panic("ouch".into()),
        ];
        for how in all {
            assert_eq!(how_from_bytes(&how_to_bytes(&how)), how);
        }
    }
}
