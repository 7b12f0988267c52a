//! Hunts for inputs that fail: `fuzz TARGET [--seconds N] [--seed S] [--folder F]`, or `fuzz TARGET FILE`
//! to run one input. `cargo xtask fuzz` builds and calls it.
//!
//! What is found lies in the folder. The input at hand lies there too while it runs, so that it is not
//! lost if the process ends: by a stack that overflows, by memory that cannot be had, or because an input
//! takes so long that it is given up.

use peak_alloc::PeakAlloc;
use shardweave_testkit::fuzz::{Hunt, Slack, TARGETS, Target, examine, target};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, io, thread};

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// After so long without a new input the process gives up: something hangs.
const GIVE_UP: Duration = Duration::from_secs(400);

const USAGE: &str = "fuzz TARGET [--seconds N] [--seed S] [--folder F] | fuzz TARGET FILE";

struct Arguments {
    target: &'static Target,
    seconds: u64,
    seed: u64,
    folder: PathBuf,
    file: Option<PathBuf>,
}

fn main() -> ExitCode {
    let done = arguments().and_then(|arguments| match &arguments.file {
        Some(file) => run_one(&arguments, file),
        None => hunt(&arguments),
    });
    match done {
        Ok(code) => code,
        Err(reason) => {
            eprintln!("{reason}");
            ExitCode::from(2)
        }
    }
}

fn arguments() -> Result<Arguments, String> {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    let usage = || format!("{USAGE}\ntargets: {}", names.join(" "));
    let mut given = env::args().skip(1);
    let target = given.next().and_then(|name| target(&name)).ok_or_else(usage)?;
    let folder = Path::new("target/fuzz").join(target.name);
    let mut arguments = Arguments { target, seconds: 60, seed: 0, folder, file: None };
    while let Some(argument) = given.next() {
        let mut number = || given.next().and_then(|text| text.parse().ok()).ok_or_else(usage);
        match argument.as_str() {
            "--seconds" => arguments.seconds = number()?,
            "--seed" => arguments.seed = number()?,
            "--folder" => arguments.folder = given.next().ok_or_else(usage)?.into(),
            _ => arguments.file = Some(argument.into()),
        }
    }
    Ok(arguments)
}

fn run_one(arguments: &Arguments, file: &Path) -> Result<ExitCode, String> {
    let input = fs::read(file).map_err(|error| format!("{}: {error}", file.display()))?;
    match examine(arguments.target, &input, Slack(1)) {
        Ok(behaviour) => {
            behaviour.traits.iter().for_each(|one| println!("{one}"));
            Ok(ExitCode::SUCCESS)
        }
        Err(reason) => {
            println!("{reason}");
            Ok(ExitCode::FAILURE)
        }
    }
}

fn hunt(arguments: &Arguments) -> Result<ExitCode, String> {
    let Arguments { target, seconds, seed, folder, .. } = arguments;
    let written = |error: io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(written)?;
    let current = folder.join("current");
    if current.exists() {
        let kept = folder.join(format!("ended-{seed}"));
        println!("the process before this one ended with the input that is now {}", kept.display());
        fs::rename(&current, kept).map_err(written)?;
    }
    // Panics are caught and told once; their usual text would drown that.
    std::panic::set_hook(Box::new(|_| ()));
    let started = Instant::now();
    let mut hunt = Hunt::new(target, *seed, Slack(1));
    let watched = watch();
    let (mut found, mut told) = (0, Duration::ZERO);
    let mut keep = |input: &[u8]| {
        watched.fetch_add(1, Ordering::Relaxed);
        let _ = fs::write(&current, input); // if the disk is full, the input is lost, no more
    };
    while started.elapsed() < Duration::from_secs(*seconds) {
        if let Some(failure) = hunt.step(&mut keep) {
            found += 1;
            let file = folder.join(format!("found-{seed}-{found}"));
            println!("{}: {}", file.display(), failure.reason);
            fs::write(file, &failure.input).map_err(written)?;
        }
        if started.elapsed() >= told + Duration::from_secs(60) {
            told = started.elapsed();
            tell(&hunt, told, found);
        }
    }
    tell(&hunt, started.elapsed(), found);
    fs::remove_file(&current).map_err(written)?;
    Ok(if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn tell(hunt: &Hunt, time: Duration, found: u32) {
    let (inputs, corpus, behaviours) = (hunt.inputs(), hunt.corpus(), hunt.behaviours());
    let seconds = time.as_secs();
    println!("{seconds} s: {inputs} inputs, {behaviours} behaviours, {corpus} kept, {found} found");
}

/// Ends the process when the number it gives has not changed for long.
fn watch() -> Arc<AtomicU64> {
    let inputs = Arc::new(AtomicU64::new(0));
    let seen = inputs.clone();
    thread::spawn(move || {
        let (mut last, mut since) = (0, Instant::now());
        loop {
            thread::sleep(Duration::from_secs(5));
            match seen.load(Ordering::Relaxed) {
                now if now != last => (last, since) = (now, Instant::now()),
                _ if since.elapsed() > GIVE_UP => {
                    println!("an input takes more than {} s; it is the file `current`", GIVE_UP.as_secs());
                    std::process::abort();
                }
                _ => {}
            }
        }
    });
    inputs
}
