//! `shardweave run`: the program on its devices.
//!
//! ```text
//!  choose ─▶ bind ─▶ compile ─▶ execute ─▶ check ─▶ write ─▶ tell
//!    2        1         1          3         4        1             the status if it fails there
//! ```
//! Outputs are written when everything else has gone well, also when the check has failed: then they
//! are what one wants to look at.

use crate::args::{Format, RunArgs};
use crate::bind::{Bound, Missing, bind};
use crate::checked::{Checked, check};
use crate::choose::{Choice, choose};
use crate::playing::{Ran, Sources, play};
use crate::ranks::{Common, Ranks};
use crate::render::{OutputReport, Over, RunReport, Timeline, Times, Told, result};
use crate::targets::Targets;
use crate::values::Player;
use shardweave_compiler::compile::{Plan, compile};
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::file::WeaveFile;
use shardweave_compiler::id::Table;
use shardweave_compiler::program::Program;
use shardweave_runtime::engine::digest;
use shardweave_runtime::execute::Streams;
use shardweave_runtime::files::FileArray;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::tensor::ArraySource;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Runs the program, and tells what it gave.
pub fn run(args: &RunArgs, file: &WeaveFile, ranks: &mut Ranks) -> Result<(), Diagnostics> {
    fits_player(args, ranks)?;
    let planned = Planned::of(args, file);
    let common = planned.as_ref().map(|planned| planned.common(ranks.command_line())).unwrap_or_default();
    let Planned { choice, targets, sources, plan, compile_time, .. } = ranks.agree_on(&common, planned)?;

    let ran = play(args, &plan, &sources, ranks)?;
    let checked = match args.check {
        true => ranks.first_alone(|| check(args, choice, &plan, &sources, &ran.outputs)).transpose(),
        false => Ok(None),
    };
    let checked = ranks.agree(checked)?;
    targets.write(choice.program, &ran, ranks)?;

    let told = match ranks.is_first() {
        true => {
            let progress = progress(&plan, &ran, ranks);
            tell(args, &plan, &targets, &ran, checked.as_ref(), compile_time, progress)
        }
        false => Ok(()),
    };
    let ended = told.and_then(|()| checked.and_then(|checked| checked.failed).map_or(Ok(()), Err));
    ranks.agree(ended.map_err(Diagnostics::from))
}

/// Whether who plays the devices is there, and is the one that other flags are for.
fn fits_player(args: &RunArgs, ranks: &Ranks) -> Result<(), Diagnostic> {
    if args.on == Player::Mpi {
        let mistake = || Diagnostic::general(Code::NotBuiltIn, "`--on mpi` is not built into this binary");
        let help = "build it with `--features mpi`, or run on `threads`, `lockstep` or `reference`";
        return ranks.engine().map(|_| ()).ok_or_else(|| mistake().help(help));
    }
    let flags = [("--timeout", args.timeout.is_some()), ("--transport", args.transport.is_some())];
    match flags.into_iter().find(|(_, given)| *given) {
        Some((flag, _)) => {
            let message = format!("`{flag}` is for ranks, but the devices are not played by any");
            Err(Diagnostic::general(Code::Arguments, message).help("add `--on mpi`, or leave it out"))
        }
        None => Ok(()),
    }
}

/// All that is there before the devices are.
struct Planned<'a> {
    choice: Choice<'a>,
    targets: Targets,
    sources: Sources,
    /// A number for what the input files hold.
    files: u64,
    plan: Plan,
    compile_time: Duration,
}

impl<'a> Planned<'a> {
    fn of(args: &RunArgs, file: &'a WeaveFile) -> Result<Planned<'a>, Diagnostics> {
        let choice = choose(file, &args.target)?;
        let (bound, targets) = prepare(args, choice.program)?;
        let sources = sources(args, choice.program, &bound);
        let samples =
            bound.arrays.values().map(|array| array.as_ref().map_or(0, FileArray::sample).to_le_bytes());
        let files = digest(&samples.collect::<Vec<_>>());
        let start = Instant::now();
        let plan = compile(choice.program, choice.placement, &bound.sizes, &args.target.options())?;
        Ok(Planned { choice, targets, sources, files, plan, compile_time: start.elapsed() })
    }

    /// What all ranks must have in common: last the command line, for of what differs, the others say more. (That they
    /// have the same plan, the session sees to.)
    fn common(&self, command_line: Common) -> Vec<Common> {
        let program = self.choice.program.to_string();
        let placement =
            self.choice.placement.map(|placement| placement.text(self.choice.program).to_string());
        let placement = placement.unwrap_or_default();
        let sizes = format!("{:?}", self.plan.sizes);
        let texts = [
            ("version of Shardweave", env!("CARGO_PKG_VERSION")),
            ("program", &program),
            ("placement", &placement),
            ("set of sizes", &sizes),
        ];
        let texts = texts.map(|(what, text)| (what, digest(&[text])));
        texts.into_iter().chain([("content of its input files", self.files), command_line]).collect()
    }
}

/// Binds inputs and outputs; all that is wrong with either is told.
fn prepare(args: &RunArgs, program: &Program) -> Result<(Bound, Targets), Diagnostics> {
    let missing = if args.random.is_some() { Missing::Random } else { Missing::Mistake };
    let bound = bind(program, &args.target.size, &args.arrays, missing);
    let mut found = bound.as_ref().err().cloned().unwrap_or_default();
    let targets = Targets::of(program, args, &mut found);
    match bound {
        Ok(bound) => found.finish((bound, targets)),
        Err(_) => Err(found),
    }
}

/// For each input that an output needs, where its elements come from.
fn sources(args: &RunArgs, program: &Program, bound: &Bound) -> Sources {
    let needed = program.needed();
    let source = |(value, array): (_, &Option<_>)| {
        if !(needed[value] && program.is_input(value)) {
            return None;
        }
        Some(match (array, args.random) {
            (Some(array), _) => Arc::new(FileArray::clone(array)) as Arc<dyn ArraySource>,
            (None, seed) => {
                let seed = seed.expect("an input without an array is a mistake unless there is a seed");
                Arc::new(RandomArray::for_input(seed, program, &bound.sizes, value))
            }
        })
    };
    bound.arrays.iter().map(source).collect::<Table<_, _>>()
}

/// How what ranks send to each other goes on while they compute.
fn progress(plan: &Plan, ran: &Ran, ranks: &Ranks) -> Option<String> {
    ranks.engine()?;
    Some(match ran.session.as_ref()?.streams()? {
        Streams::Apart => "communication has a thread of its own on each rank".into(),
        Streams::Merged if plan.host.streams == 1 => {
            "the plan has nothing to communicate while it computes".into()
        }
        Streams::Merged => format!(
            "communication is not overlapped: that takes {} cores for each rank, which some machine does not have",
            plan.host.streams
        ),
    })
}

fn tell(
    args: &RunArgs,
    plan: &Plan,
    targets: &Targets,
    ran: &Ran,
    checked: Option<&Checked>,
    compile_time: Duration,
    progress: Option<String>,
) -> Result<(), Diagnostic> {
    let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
    let outputs = plan.program.outputs().iter().map(|&output| {
        let name = &plan.program.values()[output].name;
        let value = plan.report.values.iter().find(|value| value.name == *name);
        let value = value.expect("the report has every value that an output needs");
        OutputReport {
            name: name.clone(),
            dims: value.dims.clone(),
            dtype: value.dtype,
            placed: value.placed.clone(),
            file: targets.file_of(output).map(ToOwned::to_owned),
        }
    });
    let mut plan_report = plan.report.clone();
    plan_report.notes.extend(progress);
    let mut over = Over::Memory;
    if let (Some(link), Player::Threads) = (args.target.link, args.on) {
        over = Over::SimulatedLink;
        plan_report.notes.push(format!(
            "the threads deliver as a link with {} us and {} GB/s between two devices would",
            link.latency_us, link.gigabytes_per_second
        ));
    }
    let report =
        RunReport {
            report: plan_report,
            outputs: outputs.collect(),
            check: checked.map(|checked| checked.report.clone()),
            timeline: Some(ran.recording.spent())
                .filter(|devices| !devices.is_empty())
                .map(|devices| Timeline { run: ran.recording.time, devices, over }),
            times: Times {
                compile: milliseconds(compile_time),
                first_run: milliseconds(ran.first),
                run: ran.repeated.map(milliseconds),
            },
            told: if args.plan { Told::Plan } else { Told::Title },
        };
    result(&match args.target.format() {
        Format::Json => report.json().to_string(),
        Format::Text => report.text(),
    })
}
