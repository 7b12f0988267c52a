//! Three answers that have to be the same: the reference, all devices in one thread, one thread each.
//!
//! ```text
//!   program, inputs ──▶ reference                                    one device, f64, no layouts
//!   + placement     ──▶ compile ──▶ lockstep, threads                equal to it, and to each other bit for bit
//!                          └──▶ explain ══ what the recorder counted while they ran
//! ```

use crate::exactness::{Exactness, exactness};
use crate::ranks::{Rank, on_ranks};
use shardweave_compiler::compile::{self, Plan, compile};
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::Layout;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes, ValueId};
use shardweave_runtime::array::Array;
use shardweave_runtime::compare::compare;
use shardweave_runtime::execute::{Backend, Loans, Record, Recording, RunError};
use shardweave_runtime::reference::{self, Values};
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A program on a placement, with all that it needs to run.
pub struct Trial<'a> {
    /// What to compute.
    pub program: &'a Program,
    /// Where; without it on one device.
    pub placement: Option<&'a Placement>,
    /// The sizes of its dims.
    pub sizes: &'a Sizes,
    /// The inputs that its outputs need, and maybe others.
    pub inputs: &'a BTreeMap<ValueId, Tensor>,
}

/// What all answers agree on.
pub struct Agreed {
    /// The plan that ran.
    pub plan: Plan,
    /// Every value of the program, from the reference.
    pub values: Values,
}

/// Why there is no such answer.
#[derive(Debug)]
pub enum Disagreement {
    /// The program does not compile.
    Compile(Diagnostics),
    /// An answer is missing or differs: which, and how.
    Differs(String),
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Disagreement::Compile(diagnostics) => write!(f, "it does not compile: {diagnostics}"),
            Disagreement::Differs(how) => f.write_str(how),
        }
    }
}

/// Compiles and runs a program in every way there is, and compares all answers, and the bytes that were
/// sent with those that the plan promises.
pub fn agree(trial: &Trial<'_>) -> Result<Agreed, Disagreement> {
    let Trial { program, sizes, inputs, .. } = trial;
    let (plan, all) = run_all(trial)?;
    let values = reference::evaluate(program, sizes, inputs)
        .map_err(|error| Disagreement::Differs(format!("the reference fails: {error}")))?;
    for outputs in &all {
        compare_with_reference(&plan, trial, outputs, &values).map_err(Disagreement::Differs)?;
    }
    Ok(Agreed { plan, values })
}

/// The same without the reference: all backends give the same bits, and send what the plan promises.
/// Returns the plan and the outputs by name.
pub fn backends_agree(trial: &Trial<'_>) -> Result<(Plan, NamedOutputs), Disagreement> {
    let (plan, all) = run_all(trial)?;
    let outputs = all.into_iter().next();
    outputs.map(|outputs| (plan, outputs)).ok_or_else(|| Disagreement::Differs("nothing ran".into()))
}

/// Outputs by name.
type NamedOutputs = Vec<(String, Tensor)>;

/// What all backends give, which is the same; and, where something is lent, what they give when it is used where it
/// lies: sums that are rounded can differ then, for other kernels make them.
fn run_all(trial: &Trial<'_>) -> Result<(Plan, Vec<NamedOutputs>), Disagreement> {
    let Trial { program, placement, sizes, .. } = trial;
    let plan = compile(program, *placement, sizes, &compile::CompileOptions::default());
    let plan = plan.map_err(Disagreement::Compile)?;
    let differs = |what: &str, how: String| Disagreement::Differs(format!("{what}: {how}"));
    let run = |name: &str, backend, loans| {
        let (outputs, recording) = run(&plan, trial, backend, loans).map_err(|error| differs(name, error))?;
        compare_bytes(&plan, &recording).map_err(|how| differs(name, how))?;
        Ok(outputs)
    };
    let both = |loans| {
        let outputs = run("lockstep", Backend::Lockstep, loans)?;
        same_bits(&outputs, &run("threads", Backend::Threads, loans)?).map_err(|output| {
            differs(&output, format!("lockstep and threads differ in their bits, loans: {loans:?}"))
        })?;
        Ok(outputs)
    };
    let mut ways = vec![Loans::WhereItPays];
    if plan.host.buffers.values().any(|buffer| buffer.lender.is_some()) {
        ways.push(Loans::Always);
    }
    let mut all = Vec::new();
    let devices = plan.host.devices as usize;
    for loans in ways {
        let outputs = both(loans)?;
        let of_ranks = if (2..=MOST_RANKS).contains(&devices) { &hosts(devices)[..] } else { &[] };
        for (name, hosts) in of_ranks {
            let ranks = run_on_ranks(&plan, trial, hosts, loans).map_err(|error| differs(name, error))?;
            same_bits(&outputs, &ranks).map_err(|output| {
                differs(&output, format!("lockstep and {name} differ in their bits, loans: {loans:?}"))
            })?;
        }
        all.push(outputs);
    }
    Ok((plan, all))
}

/// More ranks are too many threads that wait for each other.
const MOST_RANKS: usize = 16;

/// Ways to spread ranks over hosts.
fn hosts(ranks: usize) -> [(&'static str, Vec<u32>); 3] {
    let of = |host: fn(usize) -> usize| (0..ranks).map(|rank| host(rank) as u32).collect();
    [
        ("ranks of one host", of(|_| 0)),
        ("ranks of many hosts", of(|rank| rank)),
        ("ranks of two hosts", of(|rank| rank % 2)),
    ]
}

/// What one rank has after a run.
struct OfRank {
    /// On rank 0.
    outputs: Vec<(String, Tensor)>,
    /// With the piece of this rank.
    placed: Vec<(String, Array)>,
    recording: Recording,
}

/// Runs on ranks, twice; gives what rank 0 has. The pieces of all ranks together are the same, and the bytes that they
/// took are what the plan promises.
fn run_on_ranks(
    plan: &Plan,
    trial: &Trial<'_>,
    hosts: &[u32],
    loans: Loans,
) -> Result<Vec<(String, Tensor)>, String> {
    let run = |rank: Arc<Rank>| -> Result<OfRank, String> {
        let text = |error: RunError| error.to_string();
        let options =
            SessionOptions { engine: Some(rank), record: Record::Bytes, loans, ..SessionOptions::default() };
        let mut session = Session::from_plan(plan.clone(), options).map_err(text)?;
        let inputs = inputs_of(trial);
        let outputs = session.run(&inputs).map_err(text)?.into_vec();
        let recording = session.recording().clone();
        let placed = session.run_placed(&inputs).map_err(text)?.into_vec();
        let again = session.outputs().map_err(text)?.into_vec();
        same_bits(&outputs, &again).map_err(|output| format!("{output}: the second run gives other bits"))?;
        Ok(OfRank { outputs, placed, recording })
    };
    let mut ran = on_ranks(hosts, run).into_iter().collect::<Result<Vec<_>, _>>()?;
    for (at, (name, output)) in ran[0].outputs.iter().enumerate() {
        let ty = ran[0].placed[at].1.ty().clone();
        let pieces = ty.layout().mesh().devices().map(|device| {
            let piece = ran[device.index()].placed[at].1.piece(device);
            (device, piece.expect("a rank has the piece of its device").clone())
        });
        let whole = Array::from_pieces(ty.clone(), pieces.collect::<Vec<_>>());
        let whole = whole.map_err(|error| format!("{name}: {error}"))?.to_tensor();
        if whole.bytes() != output.bytes() {
            return Err(format!("{name}: the pieces of the ranks make another whole"));
        }
    }
    // What all ranks recorded has come together on rank 0.
    compare_bytes(plan, &ran[0].recording)?;
    Ok(ran.swap_remove(0).outputs)
}

/// The inputs that a program asks for, by name.
pub(crate) fn inputs_of(trial: &Trial<'_>) -> Inputs {
    let needed = trial.program.needed();
    let given = trial.inputs.iter().filter(|(id, _)| needed[**id]);
    given.fold(Inputs::new(), |inputs, (id, tensor)| {
        inputs.with(trial.program.values()[*id].name.clone(), tensor.clone())
    })
}

fn run(
    plan: &Plan,
    trial: &Trial<'_>,
    backend: Backend,
    loans: Loans,
) -> Result<(NamedOutputs, Recording), String> {
    let options = SessionOptions { backend, loans, record: Record::Bytes, ..SessionOptions::default() };
    let mut session = Session::from_plan(plan.clone(), options).map_err(|error| error.to_string())?;
    let inputs = inputs_of(trial);
    let outputs = session.run(&inputs).map_err(|error| error.to_string())?.into_vec();
    let recording = session.recording().clone();
    // The arenas are dirty now: what is not written before it is read shows.
    let again = session.run(&inputs).map_err(|error| format!("the second run: {error}"))?.into_vec();
    same_bits(&outputs, &again).map_err(|output| format!("{output}: the second run gives other bits"))?;
    let placed = run_placed(&mut session, plan, trial).map_err(|error| format!("with arrays: {error}"))?;
    same_bits(&outputs, &placed).map_err(|output| format!("{output}: arrays give other bits"))?;
    Ok((outputs, recording))
}

/// The same with arrays that lie on devices: an input in its own layout, the next whole on every device, and
/// so on; the first inputs stay bound. Outputs are taken as they are placed.
fn run_placed(
    session: &mut Session,
    plan: &Plan,
    trial: &Trial<'_>,
) -> Result<Vec<(String, Tensor)>, String> {
    let needed = trial.program.needed();
    let given: Vec<_> = trial.inputs.iter().filter(|(id, _)| needed[**id]).collect();
    let (mut constants, mut inputs) = (Inputs::new(), Inputs::new());
    for (at, &(&id, tensor)) in given.iter().enumerate() {
        let layout = &plan.placed.values[id].as_ref().expect("a needed value is placed").layout;
        let layout = match at % 2 {
            0 => layout.clone(),
            _ => Layout::replicated(layout.mesh().clone(), layout.ndim()),
        };
        let array = Array::place(tensor, &trial.program.dim_names(id), layout);
        let to = if at < given.len() / 2 { &mut constants } else { &mut inputs };
        to.insert(
            trial.program.values()[id].name.clone(),
            Arc::new(array.map_err(|error| error.to_string())?),
        );
    }
    session.bind_constants(&constants).map_err(|error| error.to_string())?;
    let outputs = session.run_placed(&inputs).map_err(|error| error.to_string())?;
    Ok(outputs.iter().map(|(name, array)| (name.to_string(), array.to_tensor())).collect())
}

fn compare_with_reference(
    plan: &Plan,
    trial: &Trial<'_>,
    outputs: &[(String, Tensor)],
    values: &Values,
) -> Result<(), String> {
    let program = trial.program;
    let exactness = exactness(program, trial.inputs, &plan.placed);
    let names: Vec<&str> = outputs.iter().map(|(name, _)| name.as_str()).collect();
    let wanted: Vec<&str> = program.outputs().iter().map(|&id| program.values()[id].name.as_str()).collect();
    if names != wanted {
        return Err(format!("the outputs are {names:?}, not {wanted:?}"));
    }
    for (&id, (name, output)) in program.outputs().iter().zip(outputs) {
        let reference = values.get(id).expect("the reference has every output");
        if (output.dtype(), output.shape()) != (reference.dtype(), reference.shape()) {
            return Err(format!("{name} is {output:?}, not {reference:?}"));
        }
        let comparison = compare(output, reference);
        let right = match exactness[id] {
            Exactness::Loose => comparison.ok,
            Exactness::Whole | Exactness::Fraction => comparison.max_abs == 0.0,
        };
        if !right {
            return Err(format!("{name} differs from the reference: {}", differences(output, reference)));
        }
    }
    Ok(())
}

/// The first elements that differ.
fn differences(output: &Tensor, reference: &Tensor) -> String {
    const MOST: usize = 6;
    let (found, wanted) = (crate::case::fill::numbers(output), crate::case::fill::numbers(reference));
    let differ = |x: f64, y: f64| x != y && !(x.is_nan() && y.is_nan());
    let all = found.iter().zip(&wanted).enumerate().filter(|(_, (x, y))| differ(**x, **y));
    let shown: Vec<String> =
        all.clone().take(MOST).map(|(at, (x, y))| format!("[{at}] {x} instead of {y}")).collect();
    format!("{} of {} elements, {}", all.count(), found.len(), shown.join(", "))
}

/// The name of the first output whose bytes differ.
pub(crate) fn same_bits(first: &[(String, Tensor)], second: &[(String, Tensor)]) -> Result<(), String> {
    let mut pairs = first.iter().zip(second);
    match pairs.find(|((_, a), (_, b))| a.bytes() != b.bytes()) {
        None => Ok(()),
        Some(((name, _), _)) => Err(name.clone()),
    }
}

/// Whether each collective sent what the plan says. Stages of a pipeline may change their order, so they are
/// compared from the one that sends least on.
fn compare_bytes(plan: &Plan, recording: &Recording) -> Result<(), String> {
    let mut planned: Vec<_> = plan.report.collectives.iter().collect();
    planned.sort_by_key(|one| (one.kind, one.bytes_total, one.bytes_per_device));
    let mut ran: Vec<_> = recording.moves.iter().filter(|one| one.kind.communicates()).collect();
    ran.sort_by_key(|one| (one.kind, one.total(), one.most()));
    if planned.len() != ran.len() {
        return Err(format!("{} collectives are planned, {} run", planned.len(), ran.len()));
    }
    for (planned, ran) in planned.iter().zip(ran) {
        let (most, total) = (ran.most(), ran.total());
        if (planned.kind, planned.bytes_per_device, planned.bytes_total) != (ran.kind, most, total) {
            return Err(format!(
                "{} of {} is planned to send {} bytes a device and {} in all, `{}` sends {most} and {total}",
                planned.kind.name(),
                planned.value,
                planned.bytes_per_device,
                planned.bytes_total,
                ran.text,
            ));
        }
    }
    if let Some(copy) = recording.moves.iter().find(|one| !one.kind.communicates() && one.total() > 0) {
        return Err(format!("`{}` is no collective and sends {} bytes", copy.text, copy.total()));
    }
    Ok(())
}
