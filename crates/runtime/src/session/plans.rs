//! The plans of a session: compiled for the sizes that come, kept for when they come again.

use super::loaded::{DTypeOf, LoadedProgram};
use super::{SessionOptions, fits};
use crate::engine::digest;
use crate::execute::{Backend, NotReady, RunError, Streams};
use crate::instantiate::{Lending, Reads};
use crate::memory;
use shardweave_compiler::compile::{Plan, compile};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{HostProgram, Verified};
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes};
use std::sync::Arc;

/// The plans of this many sets of sizes are kept, those used last.
const KEPT_PLANS: usize = 64;

/// Plans, and where they come from.
pub(super) enum Plans {
    /// They are compiled for the sizes of the inputs.
    Compiled(Box<Compiled>),
    /// There is one, for fixed sizes.
    Given(Arc<LoadedPlan>),
}

/// Plans of one program.
pub(super) struct Compiled {
    pub program: Program,
    placement: Option<Placement>,
    /// The plans made so far, those used last first.
    loaded: Vec<Arc<LoadedPlan>>,
}

/// A plan and its program, loaded.
pub(super) struct LoadedPlan {
    sizes: Option<Sizes>,
    pub plan: Option<Plan>,
    pub program: LoadedProgram,
    /// What ranks must have in common is another number for other plans and options; 0 where devices are no ranks.
    pub common: u64,
}

impl Plans {
    /// Plans yet to be made.
    pub fn of(program: Program, placement: Option<Placement>) -> Plans {
        Plans::Compiled(Box::new(Compiled { program, placement, loaded: Vec::new() }))
    }

    /// The plan for these sizes.
    pub fn for_sizes(
        &mut self,
        sizes: &Sizes,
        options: &SessionOptions,
    ) -> Result<Arc<LoadedPlan>, RunError> {
        let Plans::Compiled(compiled) = self else {
            return Err(RunError::NotReady(NotReady::OtherSizes));
        };
        let loaded = &mut compiled.loaded;
        match loaded.iter().position(|loaded| loaded.sizes.as_ref() == Some(sizes)) {
            Some(place) => loaded[..=place].rotate_right(1),
            None => {
                let plan = compile(&compiled.program, compiled.placement.as_ref(), sizes, &options.compile);
                loaded.insert(0, Arc::new(LoadedPlan::from_plan(plan.map_err(RunError::Compile)?, options)?));
                loaded.truncate(KEPT_PLANS);
            }
        }
        Ok(loaded[0].clone())
    }

    /// Whether an input of that name may be given. One that no output needs may.
    pub fn has_input(&self, name: &str) -> bool {
        let of_program = |program: &Program| program.value(name).is_some_and(|v| program.is_input(v));
        match self {
            Plans::Compiled(compiled) => of_program(&compiled.program),
            Plans::Given(loaded) => match &loaded.plan {
                Some(plan) => of_program(&plan.program),
                None => loaded.program.inputs.iter().any(|feed| feed.name == name),
            },
        }
    }

    /// More inputs stay bound from now on: plans that do not know it are not used again.
    pub fn forget(&mut self) {
        if let Plans::Compiled(compiled) = self {
            compiled.loaded.clear();
        }
    }
}

impl LoadedPlan {
    /// Loads a plan.
    pub fn from_plan(plan: Plan, options: &SessionOptions) -> Result<LoadedPlan, RunError> {
        let program = load(&plan.host, options, &|name| dtype_in(&plan.program, name))?;
        let common = common(&plan.host, options);
        Ok(LoadedPlan { sizes: Some(plan.sizes.clone()), plan: Some(plan), program, common })
    }

    /// Loads a host program, of which there is no plan.
    pub fn from_host(host: &Verified, options: &SessionOptions) -> Result<LoadedPlan, RunError> {
        let program = load(host, options, &|_| None)?;
        Ok(LoadedPlan { sizes: None, plan: None, program, common: common(host, options) })
    }
}

fn load(host: &Verified, options: &SessionOptions, dtype_of: DTypeOf<'_>) -> Result<LoadedProgram, RunError> {
    let place = options.engine.as_ref().map(|engine| engine.place());
    match place {
        Some(place) if host.devices > place.ranks() as u64 => {
            Err(RunError::TooFewRanks { devices: host.devices, ranks: place.ranks() })
        }
        _ => {
            // Before the plan is taken apart, which for arrays that this machine cannot hold may take long. Whether it fits
            // is found out where it gets arenas, which first lets go of those that are there.
            let most = memory::available().into_iter().chain(options.memory).max();
            fits::check(host.arena, 1, 0, most)?;
            LoadedProgram::new(host, streams(host, options), lending(options), place, dtype_of)
        }
    }
}

/// A number for all that ranks must have in common to make the same calls and to mean the same by a tick: the program,
/// what each chose of how it is run and what is recorded, and the version.
fn common(host: &HostProgram, options: &SessionOptions) -> u64 {
    if options.engine.is_none() {
        return 0;
    }
    let SessionOptions { loans, record, .. } = options;
    let chosen = format!("{:?} {loans:?} {record:?}", streams(host, options));
    digest(&[&host.to_string(), &chosen, env!("CARGO_PKG_VERSION")])
}

/// Whether streams run beside each other: see [`Session`](super::Session).
pub(super) fn streams(host: &HostProgram, options: &SessionOptions) -> Streams {
    let lanes = host.streams as u64;
    let pays = match (&options.engine, options.backend) {
        // By what all ranks know, so that all choose the same.
        (Some(engine), _) => engine.place().has_cores(host.devices, lanes),
        (None, Backend::Threads) => host.devices.saturating_mul(lanes) <= options.cores as u64,
        (None, Backend::Lockstep) => true,
    };
    options.streams.unwrap_or(if pays { Streams::Apart } else { Streams::Merged })
}

/// Where a link is played, what moves has to come over it. In lockstep all is copied, as the program says it: so
/// copies are held against what is read in place.
fn lending(options: &SessionOptions) -> Lending {
    let copies = match options.engine {
        Some(_) => false,
        None => options.link.is_some() || options.backend == Backend::Lockstep,
    };
    Lending { loans: options.loans, reads: if copies { Reads::FromCopies } else { Reads::InPlace } }
}

fn dtype_in(program: &Program, name: &str) -> Option<DType> {
    program.value(name).map(|value| program.values()[value].dtype)
}
