//! `--on mpi`: every rank runs the same command; what is told is told once.
//!
//! ```text
//!  rank 0   parse ─▶ agree ─▶ read, compile ─▶ agree ─▶ bind, run ─▶ check ─▶ agree ─▶ write ─▶ agree ─▶ tell
//!  rank 1   parse ─▶ agree ─▶ read, compile ─▶ agree ─▶ bind, run ───────────▶ agree ─▶ write ─▶ agree
//! ```
//! While it binds and runs, the session agrees.
//!
//! They [`agree`] as sessions do; here is what that means for how a command ends. **Invariant.** A rank that ended early
//! goes straight to the next agreement that the others make. So all hear of it there, all end with one status, and the
//! lowest rank that has something to say says it.

use crate::exit::Exit;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_runtime::engine::{Engine, EngineError, digest};
use shardweave_runtime::ranks::{Agreed, Went, agree};
use std::ffi::OsString;
use std::sync::Arc;
use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

/// This process among the ranks that run the command; one alone where no engine was asked for.
pub struct Ranks {
    engine: Option<Arc<dyn Engine>>,
    /// All words after the program's name.
    words: u64,
    /// How often a rank that works alone says that it does.
    heartbeat: Duration,
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
        let timeout = value_of(words, "--timeout").and_then(|text| text.parse().ok());
        let timeout = timeout.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
        let engine = match value_of(words, "--on").is_some_and(|on| on == "mpi") {
            true => engine::join(words, timeout).map_err(|error| {
                Diagnostic::general(Code::EngineFailed, format!("the ranks cannot be joined: {error}"))
                    .help("start it with `mpirun -n RANKS shardweave run ... --on mpi`")
            })?,
            false => None,
        };
        if engine.is_some() {
            // What starts ranks gives each a terminal of its own, whatever its own output goes to.
            anstream::ColorChoice::Never.write_global();
        }
        let heartbeat = timeout.map_or(SLOWEST, |timeout| SLOWEST.min(timeout / BEATS));
        Ok(Ranks { engine, words: digest_of(words), heartbeat, agreed: None })
    }

    /// What joins the ranks.
    pub fn engine(&self) -> Option<&Arc<dyn Engine>> {
        self.engine.as_ref()
    }

    /// Whether this is the rank that tells what all have in common.
    pub fn is_first(&self) -> bool {
        self.engine.as_ref().is_none_or(|engine| engine.place().rank == 0)
    }

    /// The command line, which says which calls ranks make together.
    pub fn command_line(&self) -> Common {
        ("command line", self.words)
    }

    /// Goes on only if all ranks do.
    pub fn agree<T>(&mut self, own: Result<T, Diagnostics>) -> Result<T, Diagnostics> {
        self.agree_on(&[], own)
    }

    /// Goes on only if all ranks do, and have all this in common.
    pub fn agree_on<T>(&mut self, common: &[Common], own: Result<T, Diagnostics>) -> Result<T, Diagnostics> {
        self.tell_all(common, own.as_ref().map(|_| &[][..]))?;
        own
    }

    /// What rank 0 has to say to all, once all have come so far.
    pub fn first_says(&mut self, own: Result<Vec<u8>, Diagnostics>) -> Result<Vec<u8>, Diagnostics> {
        let is_first = self.is_first();
        let word = own.as_ref().map(|word| if is_first { &word[..] } else { &[] });
        Ok(self.tell_all(&[], word)?.swap_remove(0))
    }

    /// What the first rank alone does, however long it takes: the others wait for it, and hear now and then that it is
    /// still at work, so that it is not taken for one that hangs.
    pub fn first_alone<T: Send>(&self, work: impl FnOnce() -> T + Send) -> Option<T> {
        let Some(engine) = &self.engine else { return Some(work()) };
        let tell = |own: Work| match engine.least(own as u64) {
            Ok(0) => Work::Goes,
            Ok(_) => Work::Done,
            Err(error) => engine.abort(&format!("{error}, awaited while the first rank works alone")),
        };
        if !self.is_first() {
            while tell(Work::Done) == Work::Goes {}
            return None;
        }
        std::thread::scope(|scope| {
            let (done, hear) = std::sync::mpsc::channel();
            let working = scope.spawn(move || {
                let result = work();
                // Nobody hears it only if this process ends.
                let _ = done.send(());
                result
            });
            while hear.recv_timeout(self.heartbeat) == Err(RecvTimeoutError::Timeout) {
                tell(Work::Goes);
            }
            tell(Work::Done);
            Some(working.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
        })
    }

    /// How the command ends on all ranks, and who tells why.
    pub fn ended(&mut self, found: Option<&Diagnostics>) -> Ended {
        if let (Some(found), None) = (found, self.agreed) {
            // The error is the rank's own, whatever the others say to it.
            let _ = self.tell_all(&[], Err(found));
        }
        self.agreed.unwrap_or(Ended { exit: found.map_or(Exit::Fine, Exit::of), speaks: self.is_first() })
    }

    /// What all ranks say, if it went well on all and they have all this in common.
    fn tell_all(
        &mut self,
        common: &[Common],
        own: Result<&[u8], &Diagnostics>,
    ) -> Result<Vec<Vec<u8>>, Diagnostics> {
        let Some(engine) = &self.engine else {
            return own.map(|word| vec![word.to_vec()]).map_err(Diagnostics::clone);
        };
        let numbers: Vec<u64> = common.iter().map(|(_, number)| *number).collect();
        let status = [own.err().map_or(Exit::Fine, Exit::of) as u8];
        let went = match own {
            Ok(word) => Went::Well { common: &numbers, word },
            Err(found) if hears(found) => Went::Heard,
            Err(_) => Went::Failed(&status),
        };
        match agree(&**engine, went).unwrap_or_else(|error| engine.abort(&error.to_string())) {
            Agreed::Well(words) => Ok(words),
            Agreed::Differs { number, rank } => {
                let message = format!("rank {rank} has another {} than rank 0", common[number].0);
                let mistake = Diagnostic::general(Code::RanksDiffer, message);
                Err(mistake.help("start all ranks with the same command on the same files").into())
            }
            Agreed::Failed { rank, why } => {
                let exit = why.first().map_or(Exit::Running, |&status| Exit::of_status(status));
                self.agreed = Some(Ended { exit, speaks: rank == engine.place().rank });
                Err(own.err().cloned().unwrap_or_else(|| {
                    let message = format!("rank {rank} failed, and says why");
                    Diagnostic::general(Code::RankFailed, message).into()
                }))
            }
        }
    }
}

/// Whether the first rank still works alone.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    Goes = 0,
    Done = 1,
}

/// A rank that works alone says so at least so often,
const SLOWEST: Duration = Duration::from_millis(100);

/// and so often while others would wait for it.
const BEATS: u32 = 8;

/// Whether this is what another rank has told. A failure of the engine is a rank's own, though others have it too.
fn hears(found: &Diagnostics) -> bool {
    found.errors().iter().all(|mistake| mistake.code == Code::RankFailed)
}

/// How many processes a launcher of MPI has started, if this is the first of several.
pub fn launched() -> Option<u32> {
    let number = |name: &str| std::env::var(name).ok()?.parse::<u32>().ok();
    let of = |[rank, ranks]: [&str; 2]| Some((number(rank)?, number(ranks)?));
    let names = [["OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"], ["PMI_RANK", "PMI_SIZE"]];
    names.into_iter().find_map(of).filter(|&(rank, ranks)| rank == 0 && ranks > 1).map(|(_, ranks)| ranks)
}

/// A number for all words after the program's name.
fn digest_of(words: &[OsString]) -> u64 {
    // Also words that are no text differ as they are written here.
    let words: Vec<String> = words.iter().skip(1).map(|word| format!("{word:?}")).collect();
    digest(&words.iter().map(String::as_str).collect::<Vec<_>>())
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
    use shardweave_mpi::{MpiOptions, Transport};

    pub fn join(
        words: &[OsString],
        timeout: Option<Duration>,
    ) -> Result<Option<Arc<dyn Engine>>, EngineError> {
        let transport = match value_of(words, "--transport") {
            Some("messages") => Transport::Messages,
            _ => Transport::Shared,
        };
        let options = MpiOptions { transport, timeout, ..MpiOptions::default() };
        Ok(Some(Arc::new(options.init()?)))
    }
}

#[cfg(not(feature = "mpi"))]
mod engine {
    use super::{Arc, Duration, Engine, EngineError, OsString};

    /// There is none; the command says so when it has read its arguments.
    pub fn join(_: &[OsString], _: Option<Duration>) -> Result<Option<Arc<dyn Engine>>, EngineError> {
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
        let mut ranks = Ranks::join(&[]).unwrap();
        assert_eq!(ranks.agree(Ok(1)), Ok(1));
        let found: Diagnostics = Diagnostic::general(Code::FileRead, "no").into();
        assert_eq!(ranks.agree(Err::<(), _>(found.clone())), Err(found.clone()));
        assert_eq!(ranks.ended(Some(&found)), Ended { exit: Exit::Input, speaks: true });
    }

    /// What each of so many ranks gives.
    fn on_ranks<T: Send>(ranks: usize, rank: impl Fn(usize, &mut Ranks) -> T + Sync) -> Vec<T> {
        let hosts: Vec<u32> = (0..ranks as u32).collect();
        shardweave_testkit::ranks::on_ranks(&hosts, |engine| {
            let number = engine.place().rank;
            let heartbeat = Duration::from_millis(1);
            rank(number, &mut Ranks { engine: Some(engine), heartbeat, ..Ranks::join(&[]).unwrap() })
        })
    }

    #[test]
    fn the_lowest_rank_that_failed_itself_speaks() {
        let failed = |code| Err::<(), Diagnostics>(Diagnostic::general(code, "it").into());
        let (heard, engine, array) =
            (failed(Code::RankFailed), failed(Code::EngineFailed), failed(Code::InputShape));
        for (own, speaks, exit) in [
            ([&Ok(()), &heard, &array], 2, Exit::Input),
            ([&heard, &engine, &engine], 1, Exit::Running),
            ([&engine, &engine, &engine], 0, Exit::Running),
            ([&array, &heard, &engine], 0, Exit::Input),
        ] {
            let ended = on_ranks(3, |rank, ranks| {
                let found = ranks.agree(own[rank].clone()).unwrap_err();
                ranks.ended(Some(&found))
            });
            let expected = [0, 1, 2].map(|rank| Ended { exit, speaks: rank == speaks });
            assert_eq!(ended, expected, "{own:?}");
        }
    }

    #[test]
    fn what_differs_first_is_named() {
        let words = |flag: &str| [OsString::from("shardweave"), OsString::from(flag)];
        let (one, other) = (digest_of(&words("--check")), digest_of(&words("--plan")));
        assert_ne!(one, other);
        for (commons, told) in [
            ([[1, one], [1, other]], "command line"),
            ([[1, one], [2, other]], "program"),
            ([[2, one], [1, one]], "program"),
        ] {
            let ended = on_ranks(2, |rank, ranks| {
                let [program, line] = commons[rank];
                let found =
                    ranks.agree_on(&[("program", program), ("command line", line)], Ok(())).unwrap_err();
                (found.errors()[0].message.clone(), ranks.ended(Some(&found)))
            });
            for (rank, (message, ended)) in ended.iter().enumerate() {
                assert_eq!(*message, format!("rank 1 has another {told} than rank 0"));
                assert_eq!(*ended, Ended { exit: Exit::Input, speaks: rank == 0 });
            }
        }
    }

    #[test]
    fn while_the_first_rank_works_alone_the_others_hear_of_it() {
        let heard = on_ranks(3, |_, ranks| {
            let done = ranks.first_alone(|| std::thread::sleep(Duration::from_millis(30)));
            (done, ranks.agree(Ok(())))
        });
        assert_eq!(heard, [(Some(()), Ok(())), (None, Ok(())), (None, Ok(()))]);
    }
}
