//! Starts the ranks of an MPI program, with a time limit, and sees to it that none is left.
//!
//! `MPIRUN` says which launcher; else it is the one beside `MPICC`, else `mpirun`. Open MPI and MPICH want different
//! words for the same: more ranks than cores, none of them bound to a core, by whatever user.

use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use shardweave_runtime::ranks::LAUNCHED;
use std::collections::BTreeMap;
use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// How the ranks ended.
#[derive(Debug)]
pub struct Ended {
    /// The status that the launcher ended with; none if it had to be killed.
    pub status: Option<i32>,
    /// What all ranks wrote to their standard output.
    pub output: String,
    /// What all ranks, and the launcher, wrote to their standard error.
    pub errors: String,
    /// How long it took.
    pub took: Duration,
    /// The ranks that did not end with their launcher.
    pub left: Vec<usize>,
}

/// The launcher of the MPI that programs are built with.
pub fn launcher() -> String {
    let beside = || {
        let compiler = std::env::var("MPICC").ok()?;
        let at = compiler.rfind("mpicc")?;
        Some(format!("{}mpirun{}", &compiler[..at], &compiler[at + "mpicc".len()..]))
    };
    std::env::var("MPIRUN").ok().or_else(beside).unwrap_or_else(|| "mpirun".to_string())
}

/// The command that starts so many ranks of a program, to which its arguments can be added.
///
/// # Panics
/// If there is no launcher.
pub fn command(program: &Path, ranks: usize) -> Command {
    let launcher = launcher();
    let version = Command::new(&launcher).arg("--version").output();
    let version = version.unwrap_or_else(|error| panic!("{launcher}, which starts ranks: {error}"));
    let mut command = Command::new(&launcher);
    let version = String::from_utf8_lossy(&version.stdout);
    if version.contains("Open MPI") || version.contains("OpenRTE") {
        command.args(["--oversubscribe", "--bind-to", "none"]);
        if rustix::process::geteuid().is_root() {
            command.arg("--allow-run-as-root");
        }
    }
    // MPICH waits busily, and so keeps others from a core that it has nothing to do with.
    command.env("MPIR_CVAR_POLLS_BEFORE_YIELD", "1");
    command.arg("-n").arg(ranks.to_string()).arg(program);
    command
}

/// Adds ranks with other arguments to what [`command`] made.
pub fn and_ranks(command: &mut Command, program: &Path, ranks: usize) {
    command.args([":", "-n", &ranks.to_string()]).arg(program);
}

/// Runs so many ranks of a program until they end, at most for so long.
///
/// # Panics
/// If they cannot be started.
pub fn run(program: &Path, ranks: usize, args: &[&str], limit: Duration) -> Ended {
    let mut command = command(program, ranks);
    command.args(args);
    Running::start(command).end(limit)
}

/// Ranks that run.
pub struct Running {
    launcher: Child,
    mark: String,
    start: Instant,
    output: JoinHandle<String>,
    errors: JoinHandle<String>,
}

/// A word of this in the environment of a process says that it belongs to a run.
const MARK: &str = "SHARDWEAVE_LAUNCHED";

impl Running {
    /// Starts what [`command`] made.
    ///
    /// # Panics
    /// If it does not start.
    pub fn start(mut command: Command) -> Running {
        static STARTED: AtomicUsize = AtomicUsize::new(0);
        let run = STARTED.fetch_add(1, Ordering::Relaxed);
        let mark = format!("{}.{run}", std::process::id());
        command.env(MARK, &mark).process_group(0);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let start = Instant::now();
        let mut launcher = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
        let output = read(launcher.stdout.take().expect("it is piped"));
        let errors = read(launcher.stderr.take().expect("it is piped"));
        Running { launcher, mark: format!("{MARK}={mark}"), start, output, errors }
    }

    /// How many ranks are there now. On Linux.
    pub fn count(&self) -> usize {
        ranks_with(&self.mark).len()
    }

    /// Kills a rank; `false` if it is not there.
    pub fn kill(&self, rank: usize) -> bool {
        self.signal(rank, Signal::KILL)
    }

    /// Stops a rank, which then does nothing any more; `false` if it is not there.
    pub fn stop(&self, rank: usize) -> bool {
        self.signal(rank, Signal::STOP)
    }

    fn signal(&self, rank: usize, signal: Signal) -> bool {
        ranks_with(&self.mark).get(&rank).is_some_and(|&pid| kill_process(pid, signal).is_ok())
    }

    /// Whether it has not ended yet.
    pub fn is_there(&mut self) -> bool {
        self.launcher.try_wait().expect("a child can be waited for").is_none()
    }

    /// Waits for so long from now until all ranks have ended; those that are there then are killed.
    pub fn end_within(self, time: Duration) -> Ended {
        let limit = self.start.elapsed() + time;
        self.end(limit)
    }

    /// Waits until all ranks have ended; those that are there so long after the start are killed.
    pub fn end(mut self, limit: Duration) -> Ended {
        let status = loop {
            if let Some(status) = self.launcher.try_wait().expect("a child can be waited for") {
                break Some(status.code().unwrap_or(-1));
            }
            if self.start.elapsed() > limit {
                let group = Pid::from_child(&self.launcher);
                // It may have ended by now, and a launcher may have given its ranks groups of their own.
                let _ = kill_process_group(group, Signal::KILL);
                ranks_with(&self.mark).into_values().for_each(kill);
                self.launcher.wait().expect("a killed child ends");
                break None;
            }
            thread::sleep(Duration::from_millis(5));
        };
        let took = self.start.elapsed();
        let left = left_of(&self.mark);
        let text = |thread: JoinHandle<String>| thread.join().expect("reading does not panic");
        Ended { status, output: text(self.output), errors: text(self.errors), took, left }
    }
}

/// The ranks that are still there when their launcher has ended: it may need a moment to end them. They are killed.
fn left_of(mark: &str) -> Vec<usize> {
    const MOMENT: Duration = Duration::from_secs(2);
    let start = Instant::now();
    loop {
        let left = ranks_with(mark);
        if left.is_empty() || start.elapsed() > MOMENT {
            left.values().copied().for_each(kill);
            return left.into_keys().collect();
        }
        thread::sleep(Duration::from_millis(5));
    }
}

fn kill(rank: Pid) {
    // It may have ended by now.
    let _ = kill_process(rank, Signal::KILL);
}

fn ranks_with(mark: &str) -> BTreeMap<usize, Pid> {
    let Ok(processes) = std::fs::read_dir("/proc") else { return BTreeMap::new() };
    let rank = |process: std::fs::DirEntry| {
        let pid = process.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let environment = String::from_utf8_lossy(&environment);
        let mut words = environment.split('\0');
        if !words.clone().any(|word| word == mark) {
            return None;
        }
        let number = |word: &'_ str| {
            let (name, number) = word.split_once('=')?;
            LAUNCHED.iter().any(|[rank, _]| *rank == name).then(|| number.to_string())
        };
        let rank = words.find_map(number)?;
        Some((rank.parse().ok()?, Pid::from_raw(pid)?))
    };
    processes.filter_map(|process| rank(process.ok()?)).collect()
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
