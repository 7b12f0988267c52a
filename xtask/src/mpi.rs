//! The tests that need an MPI, with Open MPI and with MPICH.
//!
//! Each is built in a folder of its own, so that neither builds the other's again, without debug information, which
//! takes half of the time. An MPI that is not there is installed where that can be done; if it cannot, its tests are
//! skipped, and the last line says so.

use crate::{Failed, cargo, run};
use std::path::Path;
use std::process::{Command, Stdio};

/// One MPI.
struct Mpi {
    name: &'static str,
    /// Where it is built, below `target`.
    folder: &'static str,
    /// Its compiler and its launcher, wherever both MPIs are installed (Debian), and what tells it from others.
    compiler: &'static str,
    launcher: &'static str,
    says: &'static [&'static str],
    packages: &'static [&'static str],
    /// What the tests are told if nobody has told them otherwise.
    wishes: &'static [(&'static str, &'static str)],
}

const ALL: [Mpi; 2] = [
    Mpi {
        name: "Open MPI",
        folder: "target/openmpi",
        compiler: "mpicc.openmpi",
        launcher: "mpirun.openmpi",
        says: &["Open MPI", "OpenRTE"],
        packages: &["libopenmpi-dev", "openmpi-bin"],
        wishes: &[],
    },
    Mpi {
        name: "MPICH",
        folder: "target/mpich",
        compiler: "mpicc.mpich",
        launcher: "mpirun.mpich",
        says: &["HYDRA"],
        packages: &["libmpich-dev", "mpich"],
        // It waits busily, so where there are more ranks than cores each meeting of them takes turns of the scheduler:
        // a session of 4 ranks on 2 cores begins in a quarter of a second.
        wishes: &[("SHARDWEAVE_ONE_OF", "10"), ("SHARDWEAVE_CASES", "100")],
    },
];

/// Test files, of all packages.
const TESTS: [&str; 3] = ["contract", "mpi", "ranks"];

/// The commands of an MPI that is there.
pub struct Found {
    mpi: &'static Mpi,
    compiler: &'static str,
    pub launcher: &'static str,
}

/// Runs all tests with every MPI.
pub fn test_all() -> Result<(), Failed> {
    let mut told = Vec::new();
    let mut failed = false;
    for mpi in &ALL {
        let ended = match found(mpi).or_else(|| install(mpi)) {
            Some(found) if test(&found).is_ok() => "passed".to_string(),
            Some(_) => {
                failed = true;
                "FAILED".into()
            }
            None => format!(
                "SKIPPED: `{}` and `{}` are missing (apt-get install {})",
                mpi.compiler,
                mpi.launcher,
                mpi.packages.join(" ")
            ),
        };
        told.push(format!("tests with {}: {ended}", mpi.name));
    }
    println!("\n{}", told.join("\n"));
    if failed { Err(Failed) } else { Ok(()) }
}

fn test(found: &Found) -> Result<(), Failed> {
    println!("\ntests with {}", found.mpi.name);
    let mut tests = found.cargo("test");
    tests.args(["--package", "shardweave-mpi", "--package", "shardweave-testkit", "--package", "shardweave"]);
    tests.args(["--features", FEATURES, "--no-fail-fast"]);
    tests.args(TESTS.iter().flat_map(|test| ["--test", test]));
    let wishes = found.mpi.wishes.iter().filter(|(name, _)| std::env::var_os(name).is_none());
    tests.envs(wishes.copied());
    run(tests)
}

const FEATURES: &str = "shardweave-mpi/engine,shardweave-testkit/mpi,shardweave/mpi";

/// Lints what is compiled only with an MPI, if there is one.
pub fn check() -> Result<(), Failed> {
    let Some(found) = ALL.iter().find_map(found) else {
        println!("what needs an MPI is not checked: there is none");
        return Ok(());
    };
    let mut clippy = found.cargo("clippy");
    clippy.args(["--workspace", "--all-targets", "--features", FEATURES, "--", "-D", "warnings"]);
    run(clippy)
}

/// Many drawn programs, over every MPI that is there.
pub fn generated(programs: u32, seed: u64) -> Result<(), Failed> {
    let all: Vec<Found> = ALL.iter().filter_map(found).collect();
    if all.is_empty() {
        eprintln!("there is no MPI: install one with `cargo xtask mpi`");
        return Err(Failed);
    }
    for found in all {
        println!("programs with {}", found.mpi.name);
        let mut tests = found.cargo("test");
        tests.args(["--package", "shardweave-testkit", "--features", "mpi", "--test", "mpi", "drawn"]);
        tests.args(["--", "--nocapture", "--test-threads=1"]);
        tests.env("SHARDWEAVE_CASES", programs.to_string());
        tests.env("SHARDWEAVE_SEED", seed.to_string());
        run(tests)?;
    }
    Ok(())
}

/// Open MPI, if it is there.
pub fn open_mpi() -> Result<Found, Failed> {
    found(&ALL[0]).ok_or_else(|| {
        eprintln!("Open MPI is missing: apt-get install {}", ALL[0].packages.join(" "));
        Failed
    })
}

impl Found {
    /// What cargo builds lies below this.
    pub fn folder(&self) -> &'static Path {
        Path::new(self.mpi.folder)
    }

    /// A cargo that builds with this MPI.
    pub fn cargo(&self, command: &str) -> Command {
        let mut cargo = cargo(&[command, "--target-dir", self.mpi.folder]);
        cargo.env("MPICC", self.compiler).env("MPIRUN", self.launcher);
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_INCREMENTAL", "0");
        cargo
    }
}

/// An MPI by its own names, or by the common ones if these are its.
fn found(mpi: &'static Mpi) -> Option<Found> {
    let pairs = [(mpi.compiler, mpi.launcher), ("mpicc", "mpirun")];
    let pair = pairs.into_iter().find(|(compiler, launcher)| {
        says(compiler, "-show").is_some()
            && says(launcher, "--version").is_some_and(|told| mpi.says.iter().any(|name| told.contains(name)))
    });
    pair.map(|(compiler, launcher)| Found { mpi, compiler, launcher })
}

/// What a command prints, if it is there.
fn says(program: &str, flag: &str) -> Option<String> {
    let output = Command::new(program).arg(flag).stdin(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Installs an MPI, where that can be done without asking.
fn install(mpi: &'static Mpi) -> Option<Found> {
    if says("id", "-u")?.trim() != "0" {
        return None;
    }
    println!("installing {}: {}", mpi.name, mpi.packages.join(" "));
    let apt = |args: &[&str]| {
        let mut apt = Command::new("apt-get");
        apt.args(args).env("DEBIAN_FRONTEND", "noninteractive").stdin(Stdio::null());
        run(apt).is_ok()
    };
    let get = || apt(&[&["install", "--yes", "--quiet", "--no-install-recommends"], mpi.packages].concat());
    // The list of packages may be old, or not be there.
    if get() || (apt(&["update", "--quiet"]) && get()) { found(mpi) } else { None }
}
