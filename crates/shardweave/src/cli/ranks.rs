//! `--on mpi`: every rank runs the same command; what is told is told once.
//!
//! ```text
//!  rank 0   read, compile ─▶ agree ─▶ bind, run (the session agrees) ─▶ check ─▶ agree ─▶ write ─▶ agree ─▶ tell
//!  rank 1   read, compile ─▶ agree ─▶ bind, run ───────────────────────────────▶ agree ─▶ write ─▶ agree
//! ```
//!
//! **Invariant.** Whatever can fail on one rank alone is followed by an agreement before ranks do anything else
//! together, and a rank that ended early goes straight to the next agreement that the others make. So all hear of it
//! there, all end with one status, and the lowest rank that has something to say says it.

use crate::exit::Exit;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_runtime::engine::{Engine, EngineError};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// This process among the ranks that run the command; one alone where no engine was asked for.
pub struct Ranks {
    engine: Option<Arc<dyn Engine>>,
    agreed: Option<Ended>,
}

/// How the command ended, as all ranks agreed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Ended {
    pub exit: Exit,
    /// Whether this rank tells what went wrong.
    pub speaks: bool,
}

/// What ranks must have in common, with a number for what one of them has.
pub type Common = (&'static str, u64);

impl Ranks {
    /// Joins the other ranks, if the words of the command line ask for it; they are not parsed yet, so that what is
    /// wrong with them, too, is told once.
    pub fn join(words: &[OsString]) -> Result<Ranks, Diagnostic> {
        let engine = match value_of(words, "--on").is_some_and(|on| on == "mpi") {
            true => engine::join(words).map_err(|error| {
                Diagnostic::general(Code::RankFailed, format!("the ranks cannot be joined: {error}"))
                    .help("start it with `mpirun -n RANKS shardweave run ... --on mpi`")
            })?,
            false => None,
        };
        if engine.is_some() {
            // What starts ranks gives each a terminal of its own, whatever its own output goes to.
            anstream::ColorChoice::Never.write_global();
        }
        Ok(Ranks { engine, agreed: None })
    }

    /// What joins the ranks.
    pub fn engine(&self) -> Option<&Arc<dyn Engine>> {
        self.engine.as_ref()
    }

    /// Whether this is the rank that tells what all have in common.
    pub fn is_first(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| engine.place().rank == 0)
    }

    /// Goes on only if all ranks do.
    pub fn agree<T>(&mut self, own: Result<T, Diagnostics>) -> Result<T, Diagnostics> {
        self.agree_on(&[], own)
    }

    /// Goes on only if all ranks do, and have all this in common.
    pub fn agree_on<T>(&mut self, common: &[Common], own: Result<T, Diagnostics>) -> Result<T, Diagnostics> {
        let numbers = common.iter().flat_map(|(_, number)| number.to_le_bytes());
        let told = self.tell_all(own.as_ref().err(), &numbers.collect::<Vec<u8>>())?;
        let own = own?;
        for (place, (what, _)) in common.iter().enumerate() {
            let of = |word: &Vec<u8>| word.get(place * 8..(place + 1) * 8).map(<[u8]>::to_vec);
            let differs = |word: &Vec<u8>| of(word) != of(&told[0]);
            if let Some(rank) = told.iter().position(differs) {
                let message = format!("rank {rank} has another {what} than rank 0");
                let mistake = Diagnostic::general(Code::RanksDiffer, message);
                return Err(mistake.help("start all ranks with the same command on the same files").into());
            }
        }
        Ok(own)
    }

    /// What rank 0 has to say to all, once all have come so far.
    pub fn first_says(&mut self, own: Result<Vec<u8>, Diagnostics>) -> Result<Vec<u8>, Diagnostics> {
        let word = own.as_ref().map_or(&[][..], Vec::as_slice);
        let word = if self.is_first() { word } else { &[] };
        let mut told = self.tell_all(own.as_ref().err(), word)?;
        own?;
        Ok(told.swap_remove(0))
    }

    /// What the first rank alone does, however long it takes: the others wait for it, and hear now and then that it is
    /// still at work, so that it is not taken for one that hangs.
    pub fn first_alone<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Option<T> {
        let Some(engine) = &self.engine else { return Some(work()) };
        let still = |is_done: bool| match engine.least(u64::from(is_done)) {
            Ok(done) => done == 0,
            Err(error) => engine.abort(&format!("{error}, awaited while the first rank works alone")),
        };
        if !self.is_first() {
            while still(true) {}
            return None;
        }
        std::thread::scope(|scope| {
            let (tell, hear) = std::sync::mpsc::channel();
            let working = scope.spawn(move || {
                let done = work();
                // Nobody hears it only if this process ends.
                let _ = tell.send(());
                done
            });
            while hear.recv_timeout(HEARTBEAT) == Err(RecvTimeoutError::Timeout) {
                still(false);
            }
            still(true);
            Some(working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// How the command ends on all ranks, and who tells why.
    pub fn ended(&mut self, found: Option<&Diagnostics>) -> Ended {
        if found.is_some() && self.agreed.is_none() {
            // The error is the rank's own, whatever the others say to it.
            let _ = self.tell_all(found, &[]);
        }
        self.agreed.unwrap_or(Ended { exit: found.map_or(Exit::Fine, Exit::of), speaks: self.is_first() })
    }

    /// What all ranks say, if none of them has failed.
    fn tell_all(&mut self, failed: Option<&Diagnostics>, word: &[u8]) -> Result<Vec<Vec<u8>>, Diagnostics> {
        let Some(engine) = &self.engine else {
            return match failed {
                Some(found) => Err(found.clone()),
                None => Ok(vec![word.to_vec()]),
            };
        };
        let status =
            failed.map_or(Exit::Fine as u8, |found| if hears(found) { HEARS } else { Exit::of(found) as u8 });
        let mut told = match engine.tell_all(&[&[status], word].concat()) {
            Ok(told) => told,
            Err(error) => engine.abort(&error.to_string()),
        };
        let status = |word: &Vec<u8>| word.first().copied().unwrap_or(HEARS);
        let speaker = |word: &Vec<u8>| !matches!(status(word), HEARS | FINE);
        if told.iter().all(|word| status(word) == FINE) {
            told.iter_mut().for_each(|word| *word = word.split_off(1));
            return Ok(told);
        }
        let rank = told.iter().position(speaker).unwrap_or(0);
        let exit = Exit::of_status(status(&told[rank]));
        self.agreed = Some(Ended { exit, speaks: rank == engine.place().rank });
        let message = format!("rank {rank} failed, and says why");
        Err(failed.cloned().unwrap_or_else(|| Diagnostic::general(Code::RankFailed, message).into()))
    }
}

/// How often a rank that works alone says that it does.
const HEARTBEAT: Duration = Duration::from_millis(100);

const FINE: u8 = Exit::Fine as u8;

/// The status of a rank that only heard of a failure on another one.
const HEARS: u8 = u8::MAX;

fn hears(found: &Diagnostics) -> bool {
    found.errors().iter().all(|mistake| mistake.code == Code::RankFailed)
}

/// The value of a flag, in words that are not parsed: the last one counts.
fn value_of<'a>(words: &'a [OsString], flag: &str) -> Option<&'a str> {
    let words = || words.iter().map(|word| word.to_str().unwrap_or_default());
    let joined = |word: &'a str| word.strip_prefix(flag)?.strip_prefix('=');
    let pairs = words().zip(words().skip(1).chain([""]));
    pairs.filter_map(|(word, next)| if word == flag { Some(next) } else { joined(word) }).last()
}

#[cfg(feature = "mpi")]
mod engine {
    use super::{Arc, Duration, Engine, EngineError, OsString, value_of};
    use shardweave_mpi::{Mpi, Transport};

    pub fn join(words: &[OsString]) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let transport = match value_of(words, "--transport") {
            Some("messages") => Transport::Messages,
            _ => Transport::Shared,
        };
        let mpi = Mpi::init()?.with_transport(transport);
        let timeout = value_of(words, "--timeout").and_then(|text| text.parse().ok());
        Ok(Some(Arc::new(match timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()) {
            Some(timeout) => mpi.with_timeout(timeout),
            None => mpi,
        })))
    }
}

#[cfg(not(feature = "mpi"))]
mod engine {
    use super::{Arc, Engine, EngineError, OsString};

    /// There is none; the command says so when it has read its arguments.
    pub fn join(_: &[OsString]) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_found_in_words_that_are_not_parsed() {
        let words =
            ["shardweave", "run", "f.weave", "--on", "mpi", "--timeout=3", "--transport"].map(OsString::from);
        let value = |flag| value_of(&words, flag);
        assert_eq!(
            (value("--on"), value("--timeout"), value("--transport")),
            (Some("mpi"), Some("3"), Some(""))
        );
        assert_eq!(value("--check"), None);
    }

    #[test]
    fn a_process_alone_agrees_with_itself() {
        let mut ranks = Ranks { engine: None, agreed: None };
        assert_eq!(ranks.agree(Ok(1)), Ok(1));
        let found: Diagnostics = Diagnostic::general(Code::FileRead, "no").into();
        assert_eq!(ranks.agree(Err::<(), _>(found.clone())), Err(found.clone()));
        assert_eq!(ranks.ended(Some(&found)), Ended { exit: Exit::Input, speaks: true });
    }
}
