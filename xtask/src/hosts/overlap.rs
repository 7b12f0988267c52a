//! What overlapping brings where what is sent takes about as long as the products.
//!
//! The MLP with one rank a host, in turns that alternate: what it sends alone (two gathers of as many bytes), its products
//! alone (two threads of one process, so what is sent is copied), one after the other, and overlapped in steps. With so
//! many steps at least one step of the one stays beside none of the other, so the bound is (1 + 1/steps) times the longer
//! of both.

use super::{FOLDER, Found, LINK, Runs, with};
use crate::{Failed, run};
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};

const STEPS: [u64; 3] = [4, 8, 16];

const TURNS: usize = 7;

/// Few rows of many columns: weights are more bytes than activations then, so that the plan moves activations, also
/// where cores are slow and the hidden dim is small.
const SIZES: [&str; 3] = ["b=1", "s=256", "e=6144"];

/// The hidden dim of which the products are measured first; it is then made so that they take as long as what is sent.
const HIDDEN: u64 = 1024;
const LEAST_HIDDEN: u64 = 320;

/// What MPI's progress is measured by.
pub struct Progress {
    program: PathBuf,
    library: PathBuf,
}

/// What the MLP sends: it gathers x, and scatters the sums of y2, which go the other way and are as many bytes.
const SENT: &str = "mesh line { tp = 2 }
program sent {
  input x: f32[b, s, e]
  input y: f32[b, s, e]
  x1 = relu(x)
  y1 = relu(y)
  output x1
  output y1
}
placement gathered for sent on line {
  x: s/tp
  y: s/tp
  x1: replicated
  y1: replicated
}
";

/// Builds it.
pub fn build(mpi: &Found) -> Result<Progress, Failed> {
    let mut bench = mpi.cargo("bench");
    bench.args([
        "--package",
        "shardweave-mpi",
        "--features",
        "engine",
        "--bench",
        "progress",
        "--",
        "compile",
    ]);
    let told = told(bench)?;
    let library = told.lines().next_back().unwrap_or_default();
    let program = library.strip_suffix(".direct.so").ok_or_else(|| {
        eprintln!("the benchmark `progress` says `{told}`, not where it is");
        Failed
    })?;
    Ok(Progress { program: program.into(), library: library.into() })
}

pub fn measure(runs: &Runs<'_>, progress: &Progress) -> Result<(), Failed> {
    println!("\nA message beside a product, one rank on each host");
    let library = progress.library.to_string_lossy();
    run(runs.ranks([1, 1], &progress.program, &["rank", &library, "9"]))?;

    let text = fs::read_to_string("examples/mlp.weave").map_err(|error| {
        eprintln!("examples/mlp.weave: {error}");
        Failed
    })?;
    let write = |name: &str, text: &str| {
        let path = format!("{FOLDER}/{name}.weave");
        let written = fs::write(&path, text);
        written.map(|()| path.clone()).map_err(|error| {
            eprintln!("{path}: {error}");
            Failed
        })
    };
    let in_steps = |steps: u64| {
        write(&format!("mlp_in_{steps}"), &text.replace("stream(4)", &format!("stream({steps})")))
    };
    let [four, eight, sixteen] = STEPS.map(in_steps);
    let in_steps = [four?, eight?, sixteen?];
    let gathered = write("sent", SENT)?;
    let sent = || milliseconds(runs, &gathered, "gathered", None);
    let at_once = |hidden| milliseconds(runs, "examples/mlp.weave", "sequence_parallel", Some(hidden));
    let before =
        (0..3).map(|_| Ok(sent()? / products(runs, HIDDEN)?)).collect::<Result<Vec<f64>, Failed>>()?;
    // With fewer inside, weights are less than activations, and the plan moves them instead.
    let hidden = ((HIDDEN as f64 * median(before) / 64.0).round() as u64 * 64).max(LEAST_HIDDEN);

    let mut turns: [Vec<f64>; 3 + STEPS.len()] = Default::default();
    for _ in 0..TURNS {
        turns[0].push(sent()?);
        turns[1].push(products(runs, hidden)?);
        turns[2].push(at_once(hidden)?);
        for (times, file) in turns[3..].iter_mut().zip(&in_steps) {
            times.push(milliseconds(runs, file, "overlapped_fine", Some(hidden))?);
        }
    }
    let [sent, products, one_after_the_other, overlapped @ ..] = turns;
    // The machine is now faster, now slower: what is compared was measured in one turn.
    let longer: Vec<f64> = sent.iter().zip(&products).map(|(sent, products)| sent.max(*products)).collect();
    println!(
        "\nThe MLP with a hidden dim of {hidden}, one rank on each host; milliseconds, medians of {TURNS} turns"
    );
    println!(
        "what is sent alone {:.1}, products alone {:.1}, one after the other {:.1}",
        median(sent),
        median(products),
        median(one_after_the_other)
    );
    for (overlapped, steps) in overlapped.into_iter().zip(STEPS) {
        let ratios = overlapped.iter().zip(&longer).map(|(overlapped, longer)| overlapped / longer).collect();
        let bound = 1.0 + 1.0 / steps as f64;
        println!(
            "{steps:>3} steps {:.1}: {:.2} times the longer, of which {bound:.2} is the bound",
            median(overlapped),
            median(ratios)
        );
    }
    Ok(())
}

/// The median of some runs of a file, with one rank on each host.
fn milliseconds(runs: &Runs<'_>, file: &str, placement: &str, hidden: Option<u64>) -> Result<f64, Failed> {
    let hidden = hidden.map(|hidden| format!("h={hidden}"));
    let words = ["run", file, "--placement", placement, "--mesh", "line.tp=2", "--size"];
    let words: Vec<&str> = words.into_iter().chain(hidden.as_deref()).collect();
    let often = ["--random", "1", "--repeat", "9", "--json", "--on", "mpi", "--timeout", "30"];
    let words = [&words[..], &SIZES, &LINK, &often].concat();
    time_of_a_run(runs.ranks([1, 1], &runs.built("shardweave"), &words))
}

/// The median of some runs of the MLP on two threads.
fn products(runs: &Runs<'_>, hidden: u64) -> Result<f64, Failed> {
    let hidden = format!("h={hidden}");
    let words = ["run", "examples/mlp.weave", "--placement", "sequence_parallel", "--mesh", "line.tp=2"];
    let often = ["--random", "1", "--repeat", "9", "--json"];
    let words = [&words[..], &["--size", &hidden], &SIZES, &often].concat();
    time_of_a_run(with(Command::new(runs.built("shardweave")), &words))
}

/// Milliseconds of a run, as a command tells them.
fn time_of_a_run(command: Command) -> Result<f64, Failed> {
    let told = told(command)?;
    let time = told.rsplit_once("\"run\":").and_then(|(_, rest)| rest.split(['}', ',']).next());
    time.and_then(|time| time.parse().ok()).ok_or_else(|| {
        eprintln!("no time of a run in {told}");
        Failed
    })
}

/// What a command prints.
fn told(mut command: Command) -> Result<String, Failed> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::inherit()).output().map_err(|error| {
        eprintln!("{command:?}: {error}");
        Failed
    })?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).into_owned()),
        false => Err(Failed),
    }
}

fn median(mut times: Vec<f64>) -> f64 {
    times.sort_by(f64::total_cmp);
    times[times.len() / 2]
}
