//! A session: one program on one placement, compiled once for each set of sizes and run often.
//!
//! ```text
//!  inputs ── bind ──▶ pieces in the devices' arenas ── execute ──▶ results there ── outputs ──▶ tensors
//! ```
//!
//! `run` does all three. A run that fails leaves the session usable: the next `bind` and `execute` start
//! afresh. Threads and arenas live as long as the session; between runs the threads are parked.

mod bind;
mod collect;
mod io;
mod loaded;
mod memory;
mod reshard;

pub use io::{Inputs, Outputs};
pub use reshard::Resharded;

use crate::arena::Arenas;
use crate::array::Array;
use crate::execute::{Backend, Job, Link, Probe, Record, Recorder, Recording, RunError, Streams};
use crate::instantiate::LaneId;
use crate::lockstep;
use crate::tensor::ArraySource;
use crate::threads::{Round, Threads};
use bind::Binding;
use loaded::{AfterRun, Loaded};
use shardweave_compiler::compile::{self, Plan, compile};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{HostProgram, Role};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, SizeBinder, Sizes};
use std::sync::{Arc, Mutex, PoisonError};

/// A session keeps the plans of this many sets of sizes, those used last.
const KEPT_PLANS: usize = 64;

/// What the user chooses.
#[derive(Clone)]
pub struct Options {
    /// How the program is compiled.
    pub compile: compile::Options,
    /// Sizes of dims that no input says.
    pub sizes: Vec<(String, u64)>,
    /// What runs the devices.
    pub backend: Backend,
    /// Which streams of a device run beside each other; without it, what pays: see [`Session`].
    pub streams: Option<Streams>,
    /// How many threads can run at the same time.
    pub cores: usize,
    /// How many bytes arenas and outputs may take; without it, what the system says is available.
    pub memory: Option<u64>,
    /// How much of each run is recorded.
    pub record: Record,
    /// Is told of everything that devices do.
    pub probe: Option<Arc<dyn Probe>>,
    /// Threads deliver as devices with this link between them would.
    pub link: Option<Link>,
}

impl Default for Options {
    fn default() -> Options {
        Options {
            compile: compile::Options::default(),
            sizes: Vec::new(),
            backend: Backend::default(),
            streams: None,
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            memory: None,
            record: Record::default(),
            probe: None,
            link: None,
        }
    }
}

/// A program that is run often. See the [module](self).
///
/// Streams of a device run beside each other, unless the options say otherwise, where that can gain
/// something: threads play a link, so that one stream can wait for it while another computes, or there
/// is a core for each stream of each device. In lockstep they always do, so that what is wrong between
/// them shows.
pub struct Session {
    source: Source,
    options: Options,
    executor: Executor,
    /// Plans made so far; the one in use is the first.
    ready: Vec<Ready>,
    arenas: Arc<Arenas>,
    /// For each input of the plan in use, what is bound to it.
    bound: Vec<Option<Arc<dyn ArraySource>>>,
    results: Results,
    recording: Recording,
}

/// Where plans come from.
enum Source {
    /// They are compiled for the sizes of the inputs.
    Program(Box<(Program, Option<Placement>)>),
    /// There is one, for fixed sizes.
    Given,
}

struct Ready {
    sizes: Option<Sizes>,
    plan: Option<Box<Plan>>,
    loaded: Arc<Loaded>,
}

/// Whether the arenas hold the results of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Results {
    None,
    There,
}

enum Executor {
    Threads(Threads),
    Lockstep,
}

impl Session {
    /// A session that compiles the program for the sizes of its inputs when they come. Without a
    /// placement it runs on one device.
    pub fn new(program: Program, placement: Option<Placement>, options: Options) -> Session {
        Session::with(Source::Program(Box::new((program, placement))), options)
    }

    /// A session for a plan that is there already; the inputs must have its sizes.
    pub fn from_plan(plan: Plan, options: Options) -> Result<Session, RunError> {
        let mut session = Session::with(Source::Given, options);
        let loaded = session.load(&plan.host, &|name| dtype_in(&plan.program, name))?;
        session.ready.push(Ready { sizes: Some(plan.sizes.clone()), plan: Some(Box::new(plan)), loaded });
        session.take_into_use()?;
        Ok(session)
    }

    /// A session for a host program, which is verified first. Inputs and outputs have the types that
    /// are stored: a partial value of a half type is an `f32` array.
    pub fn from_host(host: &HostProgram, options: Options) -> Result<Session, RunError> {
        let mut session = Session::with(Source::Given, options);
        let loaded = session.load(host, &|_| None)?;
        session.ready.push(Ready { sizes: None, plan: None, loaded });
        session.take_into_use()?;
        Ok(session)
    }

    fn with(source: Source, options: Options) -> Session {
        let executor = match options.backend {
            Backend::Threads => Executor::Threads(Threads::new(options.cores)),
            Backend::Lockstep => Executor::Lockstep,
        };
        Session {
            source,
            options,
            executor,
            ready: Vec::new(),
            arenas: Arc::new(Arenas::none()),
            bound: Vec::new(),
            results: Results::None,
            recording: Recording::default(),
        }
    }

    /// Inputs in, outputs out.
    pub fn run(&mut self, inputs: &Inputs) -> Result<Outputs, RunError> {
        self.bind(inputs)?;
        self.execute()?;
        self.outputs()
    }

    /// Puts the inputs in place, on every device its pieces. Compiles first if the sizes are new.
    pub fn bind(&mut self, inputs: &Inputs) -> Result<(), RunError> {
        if let Source::Program(source) = &self.source {
            let sizes = sizes_of(&source.0, &self.options.sizes, inputs)?;
            self.prepare(&sizes)?;
        }
        let loaded = self.loaded()?;
        for (name, _) in inputs.iter() {
            self.check_name(&loaded, name)?;
        }
        let mut bindings: Vec<Binding> = Vec::new();
        for (index, feed) in loaded.inputs.iter().enumerate() {
            let source = inputs.get(&feed.name).ok_or_else(|| RunError::MissingInput(feed.name.clone()))?;
            bind::check(feed, &**source)?;
            let stays = feed.role == Role::Constant
                && self.bound[index].as_ref().is_some_and(|bound| Arc::ptr_eq(bound, source));
            if !stays {
                bindings.push((index, source.clone()));
            }
        }
        self.read(&loaded, bindings)
    }

    /// Runs the program on what is bound: from inputs in place to results in place. May be called again
    /// without binding again, unless the plan uses the memory of an input for something else.
    pub fn execute(&mut self) -> Result<(), RunError> {
        let loaded = self.loaded()?;
        if self.bound.iter().any(Option::is_none) {
            return Err(RunError::NotReady("a run needs its inputs bound first"));
        }
        self.results = Results::None;
        let job = Arc::new(Job {
            tasks: loaded.tasks.clone(),
            arenas: self.arenas.clone(),
            recorder: Recorder::new(self.options.record),
            probe: self.options.probe.clone(),
            link: self.options.link.filter(|_| self.options.backend == Backend::Threads),
        });
        let ran = self.executor.execute(&job);
        self.recording = job.recorder.finish(&loaded.tasks);
        for (feed, bound) in loaded.inputs.iter().zip(&mut self.bound) {
            if feed.after == AfterRun::Overwritten {
                *bound = None;
            }
        }
        ran?;
        self.results = Results::There;
        Ok(())
    }

    /// Inputs in, outputs out as they are placed: no device holds a whole array. An output can be an
    /// input of the next run.
    pub fn run_placed(&mut self, inputs: &Inputs) -> Result<Outputs<Array>, RunError> {
        self.bind(inputs)?;
        self.execute()?;
        self.placed_outputs()
    }

    /// The outputs of the last run as whole arrays, in the order of the program.
    pub fn outputs(&self) -> Result<Outputs, RunError> {
        Ok(Outputs::new(collect::whole(&*self.with_results()?, &self.arenas)))
    }

    /// The outputs of the last run in the layouts in which the devices hold them.
    pub fn placed_outputs(&self) -> Result<Outputs<Array>, RunError> {
        Ok(Outputs::new(collect::placed(&*self.with_results()?, &self.arenas)))
    }

    /// The program whose results are in the arenas.
    fn with_results(&self) -> Result<Arc<Loaded>, RunError> {
        match self.results {
            Results::There => self.loaded(),
            Results::None => Err(RunError::NotReady("there are no outputs before a run that succeeds")),
        }
    }

    /// What the last run did, as far as the options ask for it.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The plan in use, if the session compiled it or was made from it.
    pub fn plan(&self) -> Option<&Plan> {
        self.ready.first()?.plan.as_deref()
    }

    /// Makes the plan for these sizes the one in use, compiling it if it is not there.
    pub fn prepare(&mut self, sizes: &Sizes) -> Result<(), RunError> {
        let Source::Program(source) = &self.source else {
            return Err(RunError::NotReady("a session made from a plan runs no other sizes"));
        };
        match self.ready.iter().position(|ready| ready.sizes.as_ref() == Some(sizes)) {
            Some(0) => return Ok(()),
            Some(place) => self.ready[..=place].rotate_right(1),
            None => {
                let (program, placement) = &**source;
                let plan = compile(program, placement.as_ref(), sizes, &self.options.compile);
                let plan = plan.map_err(RunError::Compile)?;
                let loaded = self.load(&plan.host, &|name| dtype_in(program, name))?;
                self.ready
                    .insert(0, Ready { sizes: Some(sizes.clone()), plan: Some(Box::new(plan)), loaded });
                self.ready.truncate(KEPT_PLANS);
            }
        }
        self.take_into_use()
    }

    fn load(&self, host: &HostProgram, dtype_of: loaded::DTypeOf<'_>) -> Result<Arc<Loaded>, RunError> {
        Ok(Arc::new(Loaded::new(host, self.streams(host), dtype_of)?))
    }

    fn streams(&self, host: &HostProgram) -> Streams {
        let lanes = host.devices.saturating_mul(host.streams as u64);
        let pays = match self.options.backend {
            Backend::Threads => self.options.link.is_some() || lanes <= self.options.cores as u64,
            Backend::Lockstep => true,
        };
        self.options.streams.unwrap_or(if pays { Streams::Apart } else { Streams::Merged })
    }

    fn loaded(&self) -> Result<Arc<Loaded>, RunError> {
        let first = self.ready.first().ok_or(RunError::NotReady("a run needs its inputs bound first"))?;
        Ok(first.loaded.clone())
    }

    /// Nothing is bound to the first plan yet; it gets arenas that are large enough.
    fn take_into_use(&mut self) -> Result<(), RunError> {
        let loaded = self.loaded()?;
        self.bound = vec![None; loaded.inputs.len()];
        self.results = Results::None;
        let tasks = &loaded.tasks;
        let held = |device: usize| !tasks.used[device] || self.arenas.has(device);
        if self.arenas.bytes() >= tasks.arena && (0..tasks.used.len()).all(held) {
            return Ok(());
        }
        let made = self.make_arenas(&loaded);
        if made.is_err() {
            // A plan without arenas cannot be used; it is not kept.
            self.ready.remove(0);
            self.arenas = Arc::new(Arenas::none());
        }
        made
    }

    fn make_arenas(&mut self, loaded: &Loaded) -> Result<(), RunError> {
        self.arenas = Arc::new(Arenas::none());
        let (bytes, devices) = (loaded.tasks.arena, loaded.device_count());
        let available = self.options.memory.or_else(memory::available);
        memory::check(bytes as u64, devices, loaded.output_bytes, available)?;
        let arenas = Arenas::new(bytes, &loaded.tasks.used);
        let missing = || RunError::OutOfMemory { per_device: bytes as u64, devices, available };
        self.arenas = Arc::new(arenas.ok_or_else(missing)?);
        Ok(())
    }

    /// An input that no output needs may be given; one that the program does not have may not.
    fn check_name(&self, loaded: &Loaded, name: &str) -> Result<(), RunError> {
        let of_program = |program: &Program| program.value(name).is_some_and(|value| program.is_input(value));
        let known = loaded.inputs.iter().any(|feed| feed.name == name)
            || self.plan().is_some_and(|plan| of_program(&plan.program));
        if known { Ok(()) } else { Err(RunError::UnknownInput(name.to_string())) }
    }

    /// Every device reads its pieces.
    fn read(&mut self, loaded: &Arc<Loaded>, bindings: Vec<Binding>) -> Result<(), RunError> {
        self.results = Results::None;
        for (index, _) in &bindings {
            self.bound[*index] = None;
        }
        let bindings = Arc::new(bindings);
        let errors: Arc<Mutex<Vec<(DeviceId, RunError)>>> = Arc::default();
        let round = {
            let (loaded, arenas) = (loaded.clone(), self.arenas.clone());
            let (bindings, errors) = (bindings.clone(), errors.clone());
            move |rank: usize| {
                let lane = LaneId::new(rank);
                let device = loaded.tasks.lanes[lane].device;
                let plays_first =
                    loaded.tasks.lanes_of(device).next().is_some_and(|(first, _)| first == lane);
                if plays_first && let Err(error) = bind::bind_device(&loaded, &arenas, device, &bindings) {
                    errors.lock().unwrap_or_else(PoisonError::into_inner).push((device, error));
                }
            }
        };
        self.executor.each(loaded.tasks.lanes.len(), Arc::new(round))?;
        let mut errors = std::mem::take(&mut *errors.lock().unwrap_or_else(PoisonError::into_inner));
        errors.sort_by_key(|(device, _)| *device);
        if let Some((_, error)) = errors.into_iter().next() {
            return Err(error);
        }
        for (index, source) in bindings.iter() {
            self.bound[*index] = Some(source.clone());
        }
        Ok(())
    }
}

impl Executor {
    /// Calls `round` once for each of `ranks`.
    fn each(&mut self, ranks: usize, round: Round) -> Result<(), RunError> {
        match self {
            Executor::Threads(threads) => threads.each(ranks, round),
            Executor::Lockstep => {
                (0..ranks).for_each(|rank| round(rank));
                Ok(())
            }
        }
    }

    /// Runs all lanes to their ends.
    fn execute(&mut self, job: &Arc<Job>) -> Result<(), RunError> {
        match self {
            Executor::Threads(threads) => threads.execute(job),
            Executor::Lockstep => lockstep::execute(job),
        }
    }
}

/// The sizes that the given arrays and names say.
fn sizes_of(program: &Program, named: &[(String, u64)], inputs: &Inputs) -> Result<Sizes, RunError> {
    let mut binder = SizeBinder::new(program);
    for (name, size) in named {
        binder.bind_named(name, *size);
    }
    let needed = program.needed();
    for (id, value) in program.values.iter().filter(|(id, _)| needed[*id] && program.is_input(*id)) {
        let source = inputs.get(&value.name).ok_or_else(|| RunError::MissingInput(value.name.clone()))?;
        binder.bind_array(id, &source.describe(), source.shape());
    }
    binder.finish().map_err(RunError::Compile)
}

fn dtype_in(program: &Program, name: &str) -> Option<DType> {
    program.value(name).map(|value| program.values[value].dtype)
}
