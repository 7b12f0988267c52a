//! The command line: what can be typed, and how it is read.

use crate::measuring::Wanted;
use crate::values::{Form, Link, NamedFile, NamedSize, Player, ProductSizes, Transport, positive};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, Parser, Subcommand};
use shardweave_compiler::compile::CompileOptions;
use shardweave_compiler::cost::Cost;
use shardweave_compiler::file::AxisSize;
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;

/// Write a tensor program as if for one device, say how values lie on a mesh, run it on every device.
#[derive(Parser, Debug)]
#[command(name = "shardweave", version, about, max_term_width = 100)]
pub struct Cli {
    #[command(subcommand)]
    pub command: Command,
}

/// What the words of the command line ask for.
#[derive(Debug)]
pub enum Asked {
    Command(Command),
    /// A text: help, or the version.
    Text(String),
}

/// Flags that take one or more values.
const SEVERAL: [&str; 5] = ["--size", "--mesh", "--input", "--weights", "--output"];

impl Cli {
    /// Reads the words of the command line. A word that does not parse is left out and the rest read
    /// again, so that all such words are told.
    pub fn read(words: impl IntoIterator<Item = OsString>) -> Result<Asked, Vec<clap::Error>> {
        let mut words = spread(words);
        let mut errors = Vec::new();
        loop {
            let error = match Cli::try_parse_from(&words) {
                Ok(cli) if errors.is_empty() => return Ok(Asked::Command(cli.command)),
                Ok(_) => return Err(errors),
                Err(error) => error,
            };
            let is_text = matches!(error.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
            if is_text && errors.is_empty() {
                return Ok(Asked::Text(error.render().ansi().to_string()));
            }
            let wrong = wrong_words(&words, &error);
            // What lacks may lack because of what was left out.
            if errors.is_empty() || wrong.is_some() {
                errors.push(error);
            }
            match wrong {
                Some(wrong) => drop(words.drain(wrong)),
                None => return Err(errors),
            }
        }
    }
}

/// Which words an error is about: a flag that there is not and what may be its values, or a flag and its
/// value.
fn wrong_words(words: &[OsString], error: &clap::Error) -> Option<Range<usize>> {
    let text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let flag = text(ContextKind::InvalidArg)?.split(' ').next()?;
    match error.kind() {
        ErrorKind::UnknownArgument => {
            let at = words.iter().position(|word| word == flag)?;
            let values = words[at + 1..].iter().take_while(|word| !ends_values(&word.to_string_lossy()));
            Some(at..at + 1 + values.count())
        }
        ErrorKind::ValueValidation | ErrorKind::InvalidValue => {
            let value = text(ContextKind::InvalidValue)?;
            let at = words.windows(2).position(|pair| pair[0] == flag && pair[1] == value)?;
            Some(at..at + 2)
        }
        _ => None,
    }
}

/// Repeats a flag before each of its values, so that FILE may stand anywhere: `--size s=4 e=2 p.weave`
/// becomes `--size s=4 --size e=2 p.weave`. Values end at the next flag, or at a word that ends as the
/// FILE does.
fn spread(words: impl IntoIterator<Item = OsString>) -> Vec<OsString> {
    let mut spread = Vec::new();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let several = word.to_str().is_some_and(|word| SEVERAL.contains(&word));
        spread.push(word.clone());
        if several {
            spread.extend(words.next());
            while let Some(value) = words.next_if(|word| !ends_values(&word.to_string_lossy())) {
                spread.extend([word.clone(), value]);
            }
        }
    }
    spread
}

fn ends_values(word: &str) -> bool {
    word.starts_with('-') || (word.ends_with(".weave") && !word.contains('='))
}

#[derive(Subcommand, Debug)]
pub enum Command {
    #[command(flatten)]
    OnFile(Box<FileCommand>),
    /// Measure this machine, in the form in which the costs of plans are given
    Measure(MeasureArgs),
}

/// Commands on a .weave file.
#[derive(Subcommand, Debug)]
pub enum FileCommand {
    /// Check all that does not depend on sizes
    Check(CheckArgs),
    /// Tell where every value lives, what moves between devices, and why
    Explain(ExplainArgs),
    /// Print one of the forms that a program goes through
    Compile(CompileArgs),
    /// Run a program on its devices
    Run(RunArgs),
}

impl FileCommand {
    pub fn file(&self) -> &PathBuf {
        match self {
            FileCommand::Check(args) => &args.file,
            FileCommand::Explain(args) => &args.target.file,
            FileCommand::Compile(args) => &args.target.file,
            FileCommand::Run(args) => &args.target.file,
        }
    }

    pub fn format(&self) -> Format {
        match self {
            FileCommand::Check(args) => args.format(),
            _ => self.plan_args().map_or(Format::Text, PlanArgs::format),
        }
    }

    /// The axes that are to have another size.
    pub fn axes(&self) -> Vec<AxisSize> {
        let sizes = self.plan_args().map_or(&[] as &[NamedSize], |args| &args.mesh);
        sizes.iter().map(|axis| AxisSize { path: axis.name.clone(), size: axis.size }).collect()
    }

    /// What to plan; `check` plans nothing.
    pub fn plan_args(&self) -> Option<&PlanArgs> {
        match self {
            FileCommand::Check(_) => None,
            FileCommand::Explain(args) => Some(&args.target),
            FileCommand::Compile(args) => Some(&args.target),
            FileCommand::Run(args) => Some(&args.target),
        }
    }
}

/// For whom results and errors are written.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Format {
    /// For people: results on stdout, messages on stderr.
    Text,
    /// For programs: JSON on stdout.
    Json,
}

impl Format {
    /// The format that words ask for which may be no command.
    pub fn of_words(words: &[OsString]) -> Format {
        if words.iter().any(|word| word == "--json") { Format::Json } else { Format::Text }
    }
}

#[derive(Args, Debug)]
pub struct CheckArgs {
    /// The .weave file
    pub file: PathBuf,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl CheckArgs {
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }
}

#[derive(Args, Debug)]
pub struct ExplainArgs {
    #[command(flatten)]
    pub target: PlanArgs,
    #[command(flatten)]
    pub arrays: ArrayArgs,
}

#[derive(Args, Debug)]
pub struct CompileArgs {
    #[command(flatten)]
    pub target: PlanArgs,
    #[command(flatten)]
    pub arrays: ArrayArgs,
    /// Which form to print
    #[arg(long, value_name = "FORM")]
    pub emit: Form,
}

#[derive(Args, Debug)]
pub struct RunArgs {
    #[command(flatten)]
    pub target: PlanArgs,
    #[command(flatten)]
    pub arrays: ArrayArgs,
    /// Fill the inputs that have no array
    #[arg(long, value_name = "SEED")]
    pub random: Option<u64>,
    /// Write an output to a .npy file
    #[arg(long, value_name = "NAME=FILE.npy ...")]
    pub output: Vec<NamedFile>,
    /// Write all outputs to a .safetensors file
    #[arg(long, value_name = "FILE.safetensors")]
    pub outputs: Option<PathBuf>,
    /// What plays the devices
    #[arg(long, value_name = "BACKEND", default_value = "threads")]
    pub on: Player,
    /// Compare the outputs with those of one device
    #[arg(long)]
    pub check: bool,
    /// Tell the plan too, as `explain` does
    #[arg(long)]
    pub plan: bool,
    /// Run N times more and tell the median time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: Option<u32>,
    /// How ranks of one host give each other their pieces, with `--on mpi`; without it in shared memory
    #[arg(long, value_name = "TRANSPORT")]
    pub transport: Option<Transport>,
    /// End all ranks when one waits for another for so many seconds, with `--on mpi`: more than the slowest rank
    /// takes longer than the fastest one to read its pieces and to compute its part
    #[arg(long, value_name = "SECONDS", value_parser = positive)]
    pub timeout: Option<f64>,
    /// Write what ran when, as a Chrome trace, and sum it up
    #[arg(long, value_name = "FILE.json")]
    pub trace: Option<PathBuf>,
}

#[derive(Args, Debug)]
pub struct MeasureArgs {
    /// How many devices, all at work; without it, one for each core, and at least two
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..=MOST_MEASURED))]
    pub devices: Option<u64>,
    /// The product on each device: rows, columns, and how many elements are summed
    #[arg(long, value_name = "M,N,K", default_value = "512,2048,1024")]
    pub product: ProductSizes,
    /// Take each number N times and tell the median
    #[arg(long, value_name = "N", default_value_t = 11, value_parser = clap::value_parser!(u32).range(1..))]
    pub repeat: u32,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// More devices than this are not measured: each is a thread with megabytes to copy.
const MOST_MEASURED: u64 = 1024;

impl MeasureArgs {
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    pub fn wanted(&self) -> Wanted {
        let cores = || std::thread::available_parallelism().map_or(2, |cores| cores.get().max(2) as u64);
        let devices = self.devices.unwrap_or_else(|| cores().min(MOST_MEASURED));
        Wanted { devices, product: self.product.0, times: self.repeat }
    }
}

/// What to plan, at which sizes, for which machine.
#[derive(Args, Debug)]
pub struct PlanArgs {
    /// The .weave file
    pub file: PathBuf,
    /// The program, if the file has several
    #[arg(long, value_name = "PROGRAM")]
    pub program: Option<String>,
    /// The placement, if there are several; `none` for one device
    #[arg(long, value_name = "PLACEMENT|none")]
    pub placement: Option<String>,
    /// Bind the size of a dim
    #[arg(long, value_name = "DIM=N ...")]
    pub size: Vec<NamedSize>,
    /// Change an axis of a mesh
    #[arg(long, value_name = "MESH.AXIS=N ...")]
    pub mesh: Vec<NamedSize>,
    /// Latency in microseconds and GB/s between two devices
    #[arg(long, value_name = "US,GBS")]
    pub link: Option<Link>,
    /// GFLOP/s of one device
    #[arg(long, value_name = "GFLOPS", value_parser = positive)]
    pub flops: Option<f64>,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

impl PlanArgs {
    pub fn format(&self) -> Format {
        if self.json { Format::Json } else { Format::Text }
    }

    /// What the planner takes computing and sending to cost.
    pub fn options(&self) -> CompileOptions {
        let mut cost = Cost::default();
        if let Some(link) = self.link {
            cost.latency_us = link.latency_us;
            cost.bytes_per_us = link.gigabytes_per_second * 1e3;
        }
        if let Some(gigaflops) = self.flops {
            cost.flops_per_us = gigaflops * 1e3;
        }
        CompileOptions { cost, ..CompileOptions::default() }
    }
}

/// Where arrays come from. To explain and compile, only their headers are read.
#[derive(Args, Debug)]
pub struct ArrayArgs {
    /// Read an input from a .npy file
    #[arg(long, value_name = "NAME=FILE.npy ...")]
    pub input: Vec<NamedFile>,
    /// Read inputs by name from a .safetensors file
    #[arg(long, value_name = "FILE.safetensors")]
    pub inputs: Option<PathBuf>,
    /// Files with the tensors named by `from`: .safetensors, or the .index.json of a split checkpoint
    #[arg(long, value_name = "FILE.safetensors ...")]
    pub weights: Vec<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spread_text(words: &str) -> String {
        let spread = spread(words.split(' ').map(OsString::from));
        spread.iter().map(|word| word.to_string_lossy()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_flag_is_repeated_before_each_of_its_values() {
        for (words, expected) in [
            ("run p.weave --size s=4 e=2 --json", "run p.weave --size s=4 --size e=2 --json"),
            ("run --size s=4 e=2 p.weave", "run --size s=4 --size e=2 p.weave"),
            (
                "run --weights a b p.weave --input x=y.weave",
                "run --weights a --weights b p.weave --input x=y.weave",
            ),
            ("run --size --json", "run --size --json"),
            ("run --size", "run --size"),
            ("run --size=s=4 p.weave", "run --size=s=4 p.weave"),
        ] {
            assert_eq!(spread_text(words), expected);
        }
    }

    #[test]
    fn the_arguments_are_well_formed() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }
}
