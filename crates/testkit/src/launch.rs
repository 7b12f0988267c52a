//! Starts the ranks of an MPI program, with a time limit.
//!
//! `MPIRUN` says which launcher; else it is the one beside `MPICC`, else `mpirun`. Open MPI and MPICH want different
//! words for the same: more ranks than cores, none of them bound to a core, by whatever user.

use std::io::Read;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
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
    command.arg("-n").arg(ranks.to_string()).arg(program);
    command
}

/// Runs so many ranks of a program until they end, at most for so long.
///
/// # Panics
/// If they cannot be started.
pub fn run(program: &Path, ranks: usize, args: &[&str], limit: Duration) -> Ended {
    let mut command = command(program, ranks);
    command.args(args).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    let start = Instant::now();
    let mut child = command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let output = read(child.stdout.take().expect("it is piped"));
    let errors = read(child.stderr.take().expect("it is piped"));
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child can be waited for") {
            break Some(status.code().unwrap_or(-1));
        }
        if start.elapsed() > limit {
            let group = rustix::process::Pid::from_child(&child);
            // It may have ended by now.
            let _ = rustix::process::kill_process_group(group, rustix::process::Signal::KILL);
            child.wait().expect("a killed child ends");
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let took = start.elapsed();
    let text = |thread: JoinHandle<String>| thread.join().expect("reading does not panic");
    Ended { status, output: text(output), errors: text(errors), took }
}

fn read(mut from: impl Read + Send + 'static) -> JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        from.read_to_end(&mut bytes).expect("a pipe can be read");
        String::from_utf8_lossy(&bytes).into_owned()
    })
}
