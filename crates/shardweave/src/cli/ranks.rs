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
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

/// This process among the ranks that run the command; one alone where no engine was asked for.
pub struct Ranks {
    engine: Option<Arc<dyn Engine>>,
    /// All words after the program's name.
    words: Vec<String>,
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
    /// The rank that it went wrong on, if not on all.
    pub only_on: Option<usize>,
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
        Ok(Ranks { engine, words: after_the_name(words), heartbeat, agreed: None })
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
        (COMMAND_LINE, digest(&self.words))
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
    pub fn first_alone<T>(&self, work: impl FnOnce() -> T) -> Option<T> {
        self.each_alone(|| self.is_first().then(work))
    }

    /// The same of what each rank does alone.
    pub fn each_alone<T>(&self, work: impl FnOnce() -> T) -> T {
        let Some(engine) = &self.engine else { return work() };
        let tell = |own: Work| match engine.least(own as u64) {
            Ok(0) => Work::Goes,
            Ok(_) => Work::Done,
            Err(error) => engine.abort(&format!("{error}, awaited while ranks work alone")),
        };
        let result = thread::scope(|scope| {
            let (at_work, hear) = mpsc::channel::<()>();
            let beats = move || {
                while hear.recv_timeout(self.heartbeat) == Err(RecvTimeoutError::Timeout) {
                    tell(Work::Goes);
                }
            };
            // Where there is no thread for it, nobody hears of the work till it is done.
            let _beats = thread::Builder::new().spawn_scoped(scope, beats);
            let result = work();
            drop(at_work);
            result
        });
        while tell(Work::Done) == Work::Goes {}
        result
    }

    /// How the command ends on all ranks, and who tells why.
    pub fn ended(&mut self, found: Option<&Diagnostics>) -> Ended {
        if let (Some(found), None) = (found, self.agreed) {
            // The error is the rank's own, whatever the others say to it.
            let _ = self.tell_all(&[], Err(found));
        }
        let exit = found.map_or(Exit::Fine, Exit::of);
        self.agreed.unwrap_or(Ended { exit, speaks: self.is_first(), only_on: None })
    }

    /// In what the words of a rank differ from those of another. All ranks make this call.
    fn other_words(&self, engine: &dyn Engine, ranks: [usize; 2]) -> String {
        let told = engine.tell_all(self.words.join("\n").as_bytes());
        let told = told.unwrap_or_else(|error| engine.abort(&error.to_string()));
        let [other, first] = ranks.map(|rank| String::from_utf8_lossy(&told[rank]).into_owned());
        first_difference(&other.lines().collect::<Vec<_>>(), &first.lines().collect::<Vec<_>>())
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
            Agreed::Differs { number, rank, than } => {
                let what = common[number].0;
                let more = match what {
                    COMMAND_LINE => self.other_words(&**engine, [rank, than]),
                    _ => String::new(),
                };
                let message = format!("rank {rank} has another {what} than rank {than}{more}");
                let mistake = Diagnostic::general(Code::RanksDiffer, message);
                Err(mistake.help("start all ranks with the same command on the same files").into())
            }
            Agreed::Failed { rank, why, by_all } => {
                let exit = why.first().map_or(Exit::Running, |&status| Exit::of_status(status));
                let only_on = (!by_all).then_some(rank);
                self.agreed = Some(Ended { exit, speaks: rank == engine.place().rank, only_on });
                Err(own.err().cloned().unwrap_or_else(|| {
                    let message = format!("rank {rank} failed, and says why");
                    Diagnostic::general(Code::RankFailed, message).into()
                }))
            }
        }
    }
}

/// What [`Ranks::command_line`] is called.
const COMMAND_LINE: &str = "command line";

/// Whether some rank still works alone.
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

/// All words after the program's name. Also words that are no text differ as they are written here.
fn after_the_name(words: &[OsString]) -> Vec<String> {
    let text = |word: &OsString| {
        let quoted = format!("{word:?}");
        quoted.strip_prefix('"').and_then(|word| word.strip_suffix('"')).unwrap_or(&quoted).to_string()
    };
    words.iter().skip(1).map(text).collect()
}

/// The first of a rank's words that another does not have there, each with the flag before it.
fn first_difference(words: &[&str], first: &[&str]) -> String {
    let at = (0..words.len().max(first.len())).find(|&at| words.get(at) != first.get(at)).unwrap_or(0);
    let word = |of: &[&str]| {
        let Some(word) = of.get(at) else { return "nothing".to_string() };
        match at.checked_sub(1).map(|before| of[before]).filter(|flag| flag.starts_with("--")) {
            Some(flag) if !word.starts_with("--") => format!("`{flag} {word}`"),
            _ => format!("`{word}`"),
        }
    };
    format!(": {} instead of {}", word(words), word(first))
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
        assert_eq!(ranks.ended(Some(&found)), Ended { exit: Exit::Input, speaks: true, only_on: None });
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
            let only_on = own.iter().any(|own| **own == Ok(()) || **own == heard).then_some(speaks);
            let expected = [0, 1, 2].map(|rank| Ended { exit, speaks: rank == speaks, only_on });
            assert_eq!(ended, expected, "{own:?}");
        }
    }

    #[test]
    fn what_differs_first_is_named() {
        let words = |flag: &str| [OsString::from("shardweave"), OsString::from(flag)];
        for (programs, flags, told) in [
            (
                &[1, 1][..],
                &["--check", "--plan"][..],
                "rank 1 has another command line than rank 0: `--plan` instead of `--check`",
            ),
            (&[1, 2], &["--check", "--plan"], "rank 1 has another program than rank 0"),
            (&[2, 1], &["--check", "--check"], "rank 1 has another program than rank 0"),
            (
                &[1, 1, 1],
                &["--check", "--plan", "--plan"],
                "rank 0 has another command line than rank 1: `--check` instead of `--plan`",
            ),
        ] {
            let ended = on_ranks(programs.len(), |rank, ranks| {
                ranks.words = after_the_name(&words(flags[rank]));
                let common = [("program", programs[rank]), ranks.command_line()];
                let found = ranks.agree_on(&common, Ok(())).unwrap_err();
                (found.errors()[0].message.clone(), ranks.ended(Some(&found)))
            });
            for (rank, (message, ended)) in ended.iter().enumerate() {
                assert_eq!(message, told);
                assert_eq!(*ended, Ended { exit: Exit::Input, speaks: rank == 0, only_on: None });
            }
        }
        for (words, first, told) in [
            (
                &["run", "--random", "2"][..],
                &["run", "--random", "1"][..],
                ": `--random 2` instead of `--random 1`",
            ),
            (&["run"], &["run", "--check"], ": nothing instead of `--check`"),
            (&["run", "--check", "--plan"], &["run", "--check"], ": `--plan` instead of nothing"),
            (&["check", "f"], &["run", "f"], ": `check` instead of `run`"),
        ] {
            assert_eq!(first_difference(words, first), told);
        }
    }

    #[test]
    fn while_a_rank_works_alone_the_others_hear_of_it() {
        let heard = on_ranks(3, |_, ranks| {
            let done = ranks.first_alone(|| std::thread::sleep(Duration::from_millis(30)));
            (done, ranks.agree(Ok(())))
        });
        assert_eq!(heard, [(Some(()), Ok(())), (None, Ok(())), (None, Ok(()))]);
        let slow = |rank: usize| std::thread::sleep(Duration::from_millis(10 * rank as u64));
        let heard = on_ranks(3, |rank, ranks| (ranks.each_alone(|| slow(rank)), ranks.agree(Ok(rank))));
        assert_eq!(heard, [0, 1, 2].map(|rank| ((), Ok(rank))));
    }

    #[cfg(unix)]
    #[test]
    fn words_that_are_no_text_differ() {
        use std::os::unix::ffi::OsStringExt;
        let word = |byte| after_the_name(&["shardweave".into(), OsString::from_vec(vec![byte])]);
        assert_ne!(word(0xf0), word(0xf1));
    }
}
