//! A session: one program on one placement, compiled once for each set of sizes and run often.
//!
//! ```text
//!  inputs ── bind ──▶ pieces in the devices' arenas ── execute ──▶ results there ── outputs ──▶ tensors, arrays
//!                     constants stay there
//! ```
//!
//! `run` does all three. Threads and arenas live as long as the session; between runs the threads are
//! parked.
//!
//! **What a failure leaves.** A run that fails gives no outputs and leaves the session usable: the next
//! `bind` and `execute` start afresh, and constants that are in place stay there, for a run does not write
//! to them. After a bind that fails nothing half-read is run: what could not be read must be bound again.
//! If the memory for new sizes cannot be had, the session may have let go of what it had; it runs again with sizes that
//! fit.

mod bind;
mod collect;
mod executor;
mod fits;
mod io;
mod loaded;
mod options;
mod plans;
mod prepared;
mod reshard;

pub use collect::OutputPieces;
pub use io::{Inputs, Outputs};
pub use options::SessionOptions;
pub use reshard::Resharded;

use crate::arena::Arenas;
use crate::array::Array;
use crate::execute::{
    InputError, Job, NotReady, PackedConstants, Play, Record, Recorder, Recording, RunError, Streams,
    WrongInput,
};
use crate::instantiate::LaneId;
use crate::meet::lock;
use crate::ranks;
use crate::tensor::ArraySource;
use bind::Binding;
use executor::Executor;
use loaded::{AfterRun, Feed, LoadedProgram};
use plans::{LoadedPlan, Plans};
use shardweave_compiler::compile::Plan;
use shardweave_compiler::host::{Role, Verified};
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes};
use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// A program that is run often. See the [module](self).
///
/// Streams of a device run beside each other, unless the options say otherwise, where there is a core for
/// each stream of each device. Where a link is played, one thread for each device is enough to play how its
/// streams overlap. In lockstep they always run beside each other, so that what is wrong between them shows.
pub struct Session {
    plans: Plans,
    options: SessionOptions,
    executor: Executor,
    arenas: Arc<Arenas>,
    /// The plan for which the arenas are; none before the first, or if there is not so much memory.
    in_use: Option<BoundPlan>,
    /// Inputs that stay bound.
    constants: Inputs,
    recording: Recording,
    /// The last run's.
    job: Option<Arc<Job>>,
}

/// A loaded plan with arenas that are large enough, and what is bound to its inputs.
struct BoundPlan {
    loaded: Arc<LoadedPlan>,
    /// For each input of the plan, what is bound to it.
    bound: Vec<Option<Arc<dyn ArraySource>>>,
    /// Which constants are packed as they are bound.
    packed: Arc<PackedConstants>,
    results: Results,
}

/// Whether the arenas hold the results of a run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Results {
    None,
    There,
}

impl Session {
    /// A session that compiles the program for the sizes of its inputs when they come. Without a
    /// placement it runs on one device. The plans of the 64 sets of sizes used last are kept.
    pub fn new(program: Program, placement: Option<Placement>, options: SessionOptions) -> Session {
        let executor = Executor::new(&options);
        Session::with(Plans::of(program, placement), options, executor)
    }

    /// A session for a plan that is there already; the inputs must have its sizes.
    ///
    /// # Errors
    /// [`RunError::OutOfMemory`] and [`RunError::TooLarge`] if what the plan needs is not there.
    pub fn from_plan(plan: Plan, options: SessionOptions) -> Result<Session, RunError> {
        Session::given(LoadedPlan::from_plan(plan, &options), options)
    }

    /// A session for a host program. Inputs and outputs have the types that
    /// are stored: a partial value of a half type is an `f32` array.
    ///
    /// # Errors
    /// As those of [`Session::from_plan`].
    pub fn from_host(host: &Verified, options: SessionOptions) -> Result<Session, RunError> {
        Session::given(LoadedPlan::from_host(host, &options), options)
    }

    fn given(loaded: Result<LoadedPlan, RunError>, options: SessionOptions) -> Result<Session, RunError> {
        let executor = Executor::new(&options);
        executor.agree(loaded.as_ref().map(|loaded| loaded.common).map_err(RunError::clone))?;
        let loaded = Arc::new(loaded?);
        let mut session = Session::with(Plans::Given(loaded.clone()), options, executor);
        session.take_into_use(loaded)?;
        Ok(session)
    }

    fn with(plans: Plans, options: SessionOptions, executor: Executor) -> Session {
        Session {
            plans,
            options,
            executor,
            arenas: Arc::new(Arenas::none()),
            in_use: None,
            constants: Inputs::new(),
            recording: Recording::default(),
            job: None,
        }
    }

    /// Inputs in, outputs out as whole arrays.
    ///
    /// # Errors
    /// Those of [`Session::bind`] and [`Session::execute`].
    pub fn run(&mut self, inputs: &Inputs) -> Result<Outputs, RunError> {
        self.bind(inputs)?;
        self.execute()?;
        self.outputs()
    }

    /// Inputs in, outputs out as they are placed: no device holds a whole array. An output can be an
    /// input of the next run.
    ///
    /// # Errors
    /// Those of [`Session::bind`] and [`Session::execute`].
    pub fn run_placed(&mut self, inputs: &Inputs) -> Result<Outputs<Array>, RunError> {
        self.bind(inputs)?;
        self.execute()?;
        self.placed_outputs()
    }

    /// Binds inputs that stay: later runs are given the others only. Each device reads its pieces of them
    /// when a run first needs them, and then not again: not when other inputs come, nor when these have
    /// other sizes, as long as the constant's own type and layout are the same. (Between ranks once more, when a plan first
    /// has others of the host read them in place.)
    ///
    /// Constants bound before stay bound; one of the same name is replaced. To bind a new name lets go of
    /// the plans made so far, so bind before the first run.
    ///
    /// # Errors
    /// [`RunError::Inputs`] with all names that are no inputs; then none of them is bound. Whether sizes and
    /// element types fit shows when a run first needs them.
    pub fn bind_constants(&mut self, constants: &Inputs) -> Result<(), RunError> {
        let unknown: Vec<WrongInput> = self.unknown(constants).collect();
        if !unknown.is_empty() {
            return Err(RunError::Inputs(unknown));
        }
        let known = &mut self.options.compile.constants;
        let before = known.len();
        known.extend(constants.iter().map(|(name, _)| name.to_string()));
        if known.len() > before && matches!(self.plans, Plans::Compiled(_)) {
            self.plans.forget();
            self.in_use = None;
        }
        for (name, array) in constants.iter() {
            self.constants.insert(name, array.clone());
        }
        Ok(())
    }

    /// Puts the inputs in place, on every device its pieces. Compiles first if the sizes are new.
    ///
    /// # Errors
    /// [`RunError::Inputs`]: all that is wrong with the inputs; [`RunError::Compile`] if they do not fit
    /// together, or the program cannot be planned at their sizes; [`RunError::OutOfMemory`] and
    /// [`RunError::TooLarge`] if what the plan needs is not there; [`RunError::Threads`].
    pub fn bind(&mut self, inputs: &Inputs) -> Result<(), RunError> {
        let plan = self.plan_for(inputs);
        self.put_to_use(plan)?;
        let bindings = self.bindings(inputs);
        self.read(bindings)
    }

    /// The plan for the sizes of these inputs.
    fn plan_for(&mut self, inputs: &Inputs) -> Result<Arc<LoadedPlan>, RunError> {
        if let (Plans::Compiled(compiled), false) = (&self.plans, self.sizes_fit(inputs)) {
            let mut wrong = Vec::new();
            let array = |name: &str| self.constants.get(name).or_else(|| inputs.get(name));
            return match bind::sizes_of(&compiled.program, &self.options.sizes, array, &mut wrong)? {
                Some(sizes) => self.plans.for_sizes(&sizes, &self.options),
                None => Err(self.refusal(wrong, inputs)),
            };
        }
        let in_use = self.in_use.as_ref().ok_or(RunError::NotReady(NotReady::Inputs))?;
        Ok(in_use.loaded.clone())
    }

    /// A plan comes into use, if it is there on all ranks.
    fn put_to_use(&mut self, plan: Result<Arc<LoadedPlan>, RunError>) -> Result<(), RunError> {
        self.executor.agree(plan.as_ref().map(|plan| plan.common).map_err(RunError::clone))?;
        let plan = plan?;
        match &self.in_use {
            Some(in_use) if Arc::ptr_eq(&in_use.loaded, &plan) => Ok(()),
            _ => self.take_into_use(plan),
        }
    }

    /// What is to be read: all inputs that are not there yet.
    fn bindings(&self, inputs: &Inputs) -> Result<Vec<Binding>, RunError> {
        let in_use = self.in_use.as_ref().ok_or(RunError::NotReady(NotReady::Inputs))?;
        let mut wrong = Vec::new();
        let mut bindings: Vec<Binding> = Vec::new();
        let mut taken = 0;
        for (index, feed) in in_use.loaded.program.inputs.iter().enumerate() {
            let mut refuse = |reason| wrong.push(WrongInput { name: feed.name.clone(), reason });
            let (constant, given) = (self.constants.get(&feed.name), inputs.get(&feed.name));
            taken += usize::from(given.is_some());
            let source = match (constant, given) {
                // That it is given beside the constant is told with the names below.
                (Some(source), _) | (None, Some(source)) => source,
                (None, None) => {
                    refuse(InputError::Missing);
                    continue;
                }
            };
            if let Err(reason) = bind::check(feed, &**source) {
                refuse(reason);
            }
            let may_stay = constant.is_some() || feed.role == Role::Constant;
            let is_there = in_use.bound[index].as_ref().is_some_and(|bound| Arc::ptr_eq(bound, source));
            if !(may_stay && is_there) {
                bindings.push((index, source.clone()));
            }
        }
        let named_right = taken == inputs.len() && self.constants.is_empty();
        if !wrong.is_empty() || !named_right && self.misnamed(inputs).next().is_some() {
            return Err(self.refusal(wrong, inputs));
        }
        Ok(bindings)
    }

    /// The error of inputs that are wrong, with those that are wrong by their names.
    fn refusal(&self, mut wrong: Vec<WrongInput>, inputs: &Inputs) -> RunError {
        wrong.extend(self.misnamed(inputs));
        RunError::Inputs(wrong)
    }

    /// The names of inputs that may not be given: those that are constants, and those that the program does
    /// not have. One that no output needs may be given.
    fn misnamed(&self, inputs: &Inputs) -> impl Iterator<Item = WrongInput> {
        let constants = inputs.iter().filter(|(name, _)| self.constants.get(name).is_some());
        let twice =
            constants.map(|(name, _)| WrongInput { name: name.into(), reason: InputError::BoundAsConstant });
        twice.chain(self.unknown(inputs))
    }

    fn unknown(&self, inputs: &Inputs) -> impl Iterator<Item = WrongInput> {
        let unknown = inputs.iter().filter(|(name, _)| !self.plans.has_input(name));
        unknown.map(|(name, _)| WrongInput { name: name.into(), reason: InputError::Unknown })
    }

    /// Runs the program on what is bound: from inputs in place to results in place. May be called again
    /// without binding again, unless the plan uses the memory of an input for something else.
    ///
    /// # Errors
    /// [`RunError::Device`] if a device finds something wrong with the data, [`RunError::Deadlock`] if none
    /// can go on; [`RunError::NotReady`] if inputs are not bound; [`RunError::Threads`].
    pub fn execute(&mut self) -> Result<(), RunError> {
        let in_use = self.in_use.as_mut().ok_or(RunError::NotReady(NotReady::Inputs))?;
        let program = &in_use.loaded.program;
        if in_use.bound.iter().any(Option::is_none) {
            return Err(RunError::NotReady(NotReady::Inputs));
        }
        in_use.results = Results::None;
        let link = self.options.link.filter(|_| matches!(self.executor, Executor::Threads(_)));
        let play = link.map(|link| Play::new(link, &program.tasks));
        let start = play.as_ref().map_or_else(Instant::now, Play::start);
        let job = Job {
            tasks: program.tasks.clone(),
            arenas: self.arenas.clone(),
            packed: in_use.packed.clone(),
            recorder: Recorder::new(self.options.record, start),
            probe: self.options.probe.clone(),
            play,
            after_failure: self.executor.after_failure(),
        };
        // The place of the last run's job, if nobody holds it: a run allocates nothing.
        match self.job.as_mut().and_then(Arc::get_mut) {
            Some(place) => *place = job,
            None => self.job = Some(Arc::new(job)),
        }
        let job = self.job.as_ref().expect("it was put there just now");
        let ran = self.executor.execute(job);
        let recording = job.recorder.finish(&program.tasks);
        let together = match self.executor.engine() {
            Some(engine) if self.options.record != Record::Nothing => ranks::together(engine, recording),
            _ => Ok(recording),
        };
        let recorded = together.map(|recording| self.recording = recording);
        // Whatever else went wrong: what the run overwrote is not there any more.
        for (feed, bound) in program.inputs.iter().zip(&mut in_use.bound) {
            if feed.after == AfterRun::Overwritten {
                *bound = None;
            }
        }
        ran?;
        // The results are there on all ranks, also where rank 0 alone cannot read what was recorded.
        in_use.results = Results::There;
        recorded
    }

    /// The outputs of the last run as whole arrays, in the order of the program. Where devices are ranks, all of
    /// them make this call; rank 0 has the outputs then, and the others none.
    ///
    /// # Errors
    /// [`RunError::NotReady`] before a run that succeeds.
    pub fn outputs(&self) -> Result<Outputs, RunError> {
        let program = self.with_results()?;
        Ok(Outputs::new(match self.executor.engine() {
            None => collect::whole(program, |drain, device| drain.piece(&self.arenas, device)),
            Some(engine) => collect::at_rank_0(program, engine, &self.arenas)?,
        }))
    }

    /// What this process has of each output of the last run, in the order of the program. Where devices are ranks, each
    /// has the pieces of its own: of elements that several devices hold, the first one's. All processes together have
    /// every element once.
    ///
    /// # Errors
    /// [`RunError::NotReady`] before a run that succeeds.
    pub fn pieces(&self) -> Result<Vec<OutputPieces<'_>>, RunError> {
        let rank = self.executor.engine().map(|engine| engine.place().rank);
        Ok(collect::pieces(self.with_results()?, &self.arenas, rank))
    }

    /// The outputs of the last run in the layouts in which the devices hold them. Where devices are ranks, each rank
    /// gets the piece of its own, and can give it to the next run.
    ///
    /// # Errors
    /// [`RunError::NotReady`] before a run that succeeds.
    pub fn placed_outputs(&self) -> Result<Outputs<Array>, RunError> {
        let plays = |device| self.executor.plays(device);
        Ok(Outputs::new(collect::placed(self.with_results()?, &self.arenas, plays)))
    }

    /// The program whose results are in the arenas.
    fn with_results(&self) -> Result<&LoadedProgram, RunError> {
        let there = self.in_use.as_ref().filter(|in_use| in_use.results == Results::There);
        there.map(|in_use| &in_use.loaded.program).ok_or(RunError::NotReady(NotReady::Outputs))
    }

    /// What the last run did, as far as the options ask for it.
    pub fn recording(&self) -> &Recording {
        &self.recording
    }

    /// The plan in use, if the session compiled it or was made from it.
    pub fn plan(&self) -> Option<&Plan> {
        self.in_use.as_ref()?.loaded.plan.as_ref()
    }

    /// Whether the streams of the plan in use run beside each other; none if it has only one.
    pub fn streams(&self) -> Option<Streams> {
        let host = &self.plan()?.host;
        (host.streams > 1).then(|| plans::streams(host, &self.options))
    }

    /// Makes the plan for these sizes the one in use, compiling it if it is not there.
    pub fn prepare(&mut self, sizes: &Sizes) -> Result<(), RunError> {
        let plan = self.plans.for_sizes(sizes, &self.options);
        self.put_to_use(plan)
    }

    /// Whether the plan in use is for the sizes of these inputs: all sizes that inputs say are in their
    /// shapes, and the others do not change.
    fn sizes_fit(&self, inputs: &Inputs) -> bool {
        let fits = |feed: &Feed| {
            let array = self.constants.get(&feed.name).or_else(|| inputs.get(&feed.name));
            array.is_some_and(|array| feed.ty.has_sizes(array.shape()))
        };
        self.in_use.as_ref().is_some_and(|in_use| in_use.loaded.program.inputs.iter().all(fits))
    }

    /// Every device reads its pieces. *Invariant: on all ranks the same inputs are bound*, so all of them run, or none.
    fn read(&mut self, bindings: Result<Vec<Binding>, RunError>) -> Result<(), RunError> {
        let (bindings, mistaken) = match bindings {
            Ok(bindings) => (Arc::new(bindings), None),
            Err(error) => (Arc::default(), Some(error)),
        };
        let read = mistaken.map_or_else(|| self.read_here(&bindings), Err);
        let agreed = self.executor.agree(read.map(|()| 0));
        let to_read = bindings.iter().map(|(index, _)| *index).collect();
        let unbound = match &agreed {
            Ok(()) => Ok(BTreeSet::new()),
            Err(_) => self.executor.union(to_read),
        };
        let in_use = self.in_use.as_mut().ok_or(RunError::NotReady(NotReady::Inputs))?;
        if agreed.is_ok() {
            for (index, source) in bindings.iter() {
                in_use.bound[*index] = Some(source.clone());
            }
        } else if self.executor.engine().is_some() {
            in_use.results = Results::None;
            match unbound {
                Ok(unbound) => unbound.iter().for_each(|&index| in_use.bound[index] = None),
                // Who does not know what others have bound has nothing.
                Err(_) => in_use.bound.fill(None),
            }
        }
        agreed
    }

    /// Every device of this process reads its pieces; they are not bound yet.
    fn read_here(&mut self, bindings: &Arc<Vec<Binding>>) -> Result<(), RunError> {
        let in_use = self.in_use.as_mut().ok_or(RunError::NotReady(NotReady::Inputs))?;
        in_use.results = Results::None;
        if bindings.is_empty() {
            return Ok(());
        }
        for (index, _) in bindings.iter() {
            in_use.bound[*index] = None;
        }
        let inputs = &in_use.loaded.program.inputs;
        if bindings.iter().any(|(index, _)| inputs[*index].role == Role::Constant) {
            in_use.packed = Arc::new(PackedConstants::none(in_use.loaded.program.tasks.packed_constants));
        }
        let loaded = &in_use.loaded;
        let errors: Arc<Mutex<Vec<(DeviceId, WrongInput)>>> = Arc::default();
        let plays: Vec<bool> =
            (0..loaded.program.tasks.used.len()).map(|device| self.executor.plays(device)).collect();
        let round = {
            let (loaded, arenas) = (loaded.clone(), self.arenas.clone());
            let (bindings, errors) = (bindings.clone(), errors.clone());
            move |lane: usize| {
                let tasks = &loaded.program.tasks;
                let first = tasks.first_of_device(LaneId::new(lane));
                let Some(device) = first.filter(|device| plays[device.index()]) else { return };
                let wrong = bind::bind_device(&loaded.program, &arenas, device, &bindings);
                let mut errors = lock(&errors);
                errors.extend(wrong.into_iter().map(|input| (device, input)));
            }
        };
        self.executor.each(loaded.program.tasks.lanes.len(), Arc::new(round))?;
        let mut errors = std::mem::take(&mut *lock(&errors));
        errors.sort_by_key(|(device, _)| *device);
        // Each input once, as the first device has it.
        let mut wrong: Vec<WrongInput> = Vec::new();
        for (_, input) in errors {
            if wrong.iter().all(|told| told.name != input.name) {
                wrong.push(input);
            }
        }
        if wrong.is_empty() { Ok(()) } else { Err(RunError::Inputs(wrong)) }
    }
}

impl BoundPlan {
    /// What is bound to a constant of another plan, if this one has it in the same place.
    fn still(&self, wanted: &Feed) -> Option<Arc<dyn ArraySource>> {
        let inputs = &self.loaded.program.inputs;
        let index = inputs.iter().position(|feed| feed.name == wanted.name && feed.is_where(wanted))?;
        self.bound[index].clone()
    }
}
