//! What the ranks of a session tell each other when something went wrong on one of them: the errors of its runs, as
//! ranks [`agree`] on them.

use super::agree::{Agreed, Went, agree};
use crate::engine::{Engine, EngineError};
use crate::execute::{How, RunError};
use crate::kernels::KernelError;

/// Ends well if it went well on all ranks, with the same number. The lowest rank that failed has its own error, the
/// others hear of it.
pub(crate) fn all_well(engine: &dyn Engine, own: Result<u64, RunError>) -> Result<(), RunError> {
    match own {
        Ok(number) => all(engine, Went::Well { common: &[number], word: &[] }, None),
        Err(error) => {
            let why = error.to_string();
            all(engine, Went::Failed(why.as_bytes()), Some(error))
        }
    }
}

/// What ranks got together, if all of them have it. Who was refused its part has the reason, the others hear of it.
pub(crate) fn all_have<T>(
    engine: &dyn Engine,
    given: Result<T, EngineError>,
    place: &str,
) -> Result<T, RunError> {
    match &given {
        Ok(_) => all_well(engine, Ok(0))?,
        Err(EngineError::Refused(why)) => all_well(engine, Err(RunError::NotShared(why.clone())))?,
        Err(EngineError::Elsewhere) => all(engine, Went::Heard, None)?,
        Err(EngineError::Late(_)) => {} // there will be no agreement
    }
    or_end(engine, given, place)
}

/// Ends well if it did on all ranks; else with the own error, if this is the rank that speaks.
fn all(engine: &dyn Engine, went: Went<'_>, own: Option<RunError>) -> Result<(), RunError> {
    match or_end(engine, agree(engine, went), "at an agreement")? {
        Agreed::Well(_) => Ok(()),
        Agreed::Differs { rank, than, .. } => Err(RunError::RanksDiffer { rank, than }),
        Agreed::Failed { rank, why, .. } => Err(match own {
            Some(error) if rank == engine.place().rank => error,
            _ => RunError::Elsewhere { rank, message: String::from_utf8_lossy(&why).into_owned() },
        }),
    }
}

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
