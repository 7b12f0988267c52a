//! Playing the devices: a session of threads, in lockstep or of ranks, or the reference on one device.

use crate::args::RunArgs;
use crate::ranks::Ranks;
use crate::values::Player;
use crate::{faults, memory};
use shardweave_compiler::compile::Plan;
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::id::Table;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::program::{Def, ValueId};
use shardweave_runtime::execute::{self, Backend, Record, Recording};
use shardweave_runtime::reference::{self, Values};
use shardweave_runtime::session::{Inputs, OutputPieces, Session, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, Tensor, byte_count};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// For each input that an output needs, where its elements come from.
pub type Sources = Table<ValueId, Option<Arc<dyn ArraySource>>>;

/// What a run gave.
pub struct Ran {
    /// Whole, in the order of the program, if they are wanted whole, or if there are no devices that hold pieces of
    /// them. Where ranks play the devices, the first rank has them, and the others none.
    pub outputs: Vec<(String, Tensor)>,
    /// What has the outputs as the devices hold them, if there are devices.
    pub session: Option<Session>,
    /// From inputs in place to outputs in place, the first time.
    pub first: Duration,
    /// The median of the runs after the first.
    pub repeated: Option<Duration>,
    /// What ran when, if that is wanted.
    pub recording: Recording,
}

/// Runs a plan as the flags say.
pub fn play(args: &RunArgs, plan: &Plan, sources: &Sources, ranks: &Ranks) -> Result<Ran, Diagnostics> {
    let options = |backend| SessionOptions { backend, ..options(args) };
    match args.on {
        Player::Threads => on_devices(args, plan, sources, options(Backend::Threads)),
        Player::Lockstep => on_devices(args, plan, sources, options(Backend::Lockstep)),
        Player::Mpi => {
            let engine = ranks.engine().cloned();
            on_devices(args, plan, sources, SessionOptions { engine, ..options(Backend::Threads) })
        }
        Player::Reference => on_reference(args, plan, sources),
    }
}

/// Runs a plan in this process alone, whoever played it before: all executors give the same bits.
pub fn play_here(args: &RunArgs, plan: &Plan, sources: &Sources) -> Result<Ran, Diagnostics> {
    on_devices(args, plan, sources, SessionOptions { backend: Backend::Lockstep, ..options(args) })
}

fn options(args: &RunArgs) -> SessionOptions {
    let record = if args.trace.is_some() { Record::Times } else { Record::Nothing };
    let link = args.target.link.map(|link| execute::Link {
        latency_us: link.latency_us,
        bytes_per_us: link.gigabytes_per_second * 1e3,
    });
    SessionOptions { record, link, ..SessionOptions::default() }
}

fn on_devices(
    args: &RunArgs,
    plan: &Plan,
    sources: &Sources,
    options: SessionOptions,
) -> Result<Ran, Diagnostics> {
    let fault = |error| faults::of_session(&plan.program, error);
    let mut session = Session::from_plan(plan.clone(), options).map_err(fault)?;
    let (weights, inputs) = bound_once_and_often(plan, sources);
    session.bind_constants(&weights).map_err(fault)?;
    let mut once = || -> Result<Duration, execute::RunError> {
        session.bind(&inputs)?;
        let start = Instant::now();
        session.execute()?;
        Ok(start.elapsed())
    };
    let first = once().map_err(fault)?;
    let repeated = (0..args.repeat.unwrap_or(0)).map(|_| once()).collect::<Result<Vec<_>, _>>();
    let repeated = median(repeated.map_err(fault)?);
    // What has the pieces writes them, unless they are parts, which are combined first.
    let has_parts = || Ok(session.pieces()?.iter().any(OutputPieces::are_parts));
    let outputs = match args.check || has_parts().map_err(fault)? {
        true => session.outputs().map_err(fault)?.into_vec(),
        false => Vec::new(),
    };
    Ok(Ran { outputs, first, repeated, recording: session.recording().clone(), session: Some(session) })
}

/// Weights stay from run to run; other inputs are read again, as they would be new.
fn bound_once_and_often(plan: &Plan, sources: &Sources) -> (Inputs, Inputs) {
    let (mut weights, mut others) = (Inputs::new(), Inputs::new());
    for (id, source) in sources.iter() {
        let Some(source) = source else { continue };
        let value = &plan.program.values()[id];
        let to = match value.def {
            Def::Input { from: Some(_) } => &mut weights,
            _ => &mut others,
        };
        to.insert(value.name.clone(), Arc::clone(source));
    }
    (weights, others)
}

fn on_reference(args: &RunArgs, plan: &Plan, sources: &Sources) -> Result<Ran, Diagnostics> {
    let inputs = whole_inputs(plan, sources)?;
    let once = || {
        let start = Instant::now();
        let outputs = reference::run(&plan.program, &plan.sizes, &inputs);
        outputs
            .map(|outputs| (outputs, start.elapsed()))
            .map_err(|error| faults::of_reference(&plan.program, &error))
    };
    let (outputs, first) = once()?;
    let repeated = (0..args.repeat.unwrap_or(0)).map(|_| once().map(|(_, time)| time));
    let repeated = median(repeated.collect::<Result<_, _>>()?);
    Ok(Ran { outputs, first, repeated, recording: Recording::default(), session: None })
}

/// Every value that an output needs, on one device.
pub fn reference_values(plan: &Plan, sources: &Sources) -> Result<Values, Diagnostics> {
    let inputs = whole_inputs(plan, sources)?;
    reference::evaluate(&plan.program, &plan.sizes, &inputs)
        .map_err(|error| faults::of_reference(&plan.program, &error))
}

/// The inputs as whole arrays.
fn whole_inputs(plan: &Plan, sources: &Sources) -> Result<BTreeMap<ValueId, Tensor>, Diagnostics> {
    memory::reference_fits(&plan.program, &plan.sizes)?;
    let mut inputs = BTreeMap::new();
    for (value, source) in sources.iter().filter_map(|(value, source)| Some((value, source.as_ref()?))) {
        let name = &plan.program.values()[value].name;
        if byte_count(source.dtype(), source.shape()).is_none() {
            return Err(Diagnostic::general(
                Code::TooLarge,
                format!("input `{name}` does not fit in memory"),
            )
            .into());
        }
        let mut tensor = Tensor::zeros(source.dtype(), source.shape());
        let whole: Vec<IndexSet> = source.shape().iter().map(|&size| IndexSet::range(0, size)).collect();
        let read = source.read(&whole, tensor.bytes_mut());
        read.map_err(|why| Diagnostic::general(Code::FileRead, format!("input `{name}`: {why}")))?;
        inputs.insert(value, tensor);
    }
    Ok(inputs)
}

/// The middle one of an odd number of times, the mean of the two in the middle of an even number.
fn median(mut times: Vec<Duration>) -> Option<Duration> {
    times.sort();
    let middle = times.len() / 2;
    match times.as_slice() {
        [] => None,
        odd if odd.len() % 2 == 1 => Some(odd[middle]),
        even => Some((even[middle - 1] + even[middle]) / 2),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        let of = |seconds: &[u64]| median(seconds.iter().map(|&s| Duration::from_secs(s)).collect());
        assert_eq!(of(&[]), None);
        assert_eq!(of(&[9, 1, 5]), Some(Duration::from_secs(5)));
        assert_eq!(of(&[9, 1, 5, 3]), Some(Duration::from_secs(4)));
    }
}
