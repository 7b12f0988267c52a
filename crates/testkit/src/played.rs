//! Many programs on the ranks that engines join: all ranks play each of them, and rank 0 compares with threads.
//!
//! ```text
//!  every rank   trial ─▶ as many devices as wanted? ─▶ compile ─▶ a session over each engine, run twice
//!  rank 0                                                           └─▶ the bits of threads?
//! ```
//!
//! **Invariant.** What is left out is left out by all ranks: that follows from the placement, which all have.

use crate::agree::{Trial, inputs_of, same_bits};
use crate::fuzz::Random;
use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::mesh::DeviceId;
use shardweave_runtime::engine::Engine;
use shardweave_runtime::execute::{Backend, Doing, InstrId, Probe};
use shardweave_runtime::session::{Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

type Outputs = Vec<(String, Tensor)>;

/// One rank, as it plays programs.
pub struct Player {
    /// Ways to join the same ranks, with their names.
    pub engines: Vec<(&'static str, Arc<dyn Engine>)>,
    /// Of how many devices the placements are that are played.
    pub devices: RangeInclusive<u64>,
    /// One of so many of them is played, in the order in which they come.
    pub one_of: usize,
    /// Is told of everything that this rank's device does.
    pub probe: Option<Arc<dyn Probe>>,
    /// How many trials had as many devices as wanted.
    seen: usize,
    /// How many plans were played, over each engine.
    pub plans: usize,
    /// What went wrong. That bits differ only rank 0 knows.
    pub failures: Vec<String>,
}

impl Player {
    /// Nothing played yet.
    pub fn new(engines: Vec<(&'static str, Arc<dyn Engine>)>, devices: RangeInclusive<u64>) -> Player {
        Player { engines, devices, one_of: 1, probe: None, seen: 0, plans: 0, failures: Vec::new() }
    }

    /// Plays a trial, if its placement has as many devices as wanted; `name` is what a failure calls it. All ranks make this
    /// call, with the same trial.
    pub fn play(&mut self, name: &str, trial: &Trial<'_>) {
        let meshes = trial.placement.into_iter().flat_map(|placement| placement.meshes());
        let devices = meshes.map(|mesh| mesh.device_bound()).max().unwrap_or(1);
        if !self.devices.contains(&devices) {
            return;
        }
        self.seen += 1;
        if !self.seen.is_multiple_of(self.one_of) {
            return;
        }
        let plan = match compile(trial.program, trial.placement, trial.sizes, &CompileOptions::default()) {
            Ok(plan) => plan,
            Err(found) => return self.failures.push(format!("{name}: {found}")),
        };
        self.plans += 1;
        let wanted = match self.engines.iter().all(|(_, engine)| engine.place().rank == 0) {
            true => {
                run(&plan, trial, SessionOptions { backend: Backend::Threads, ..SessionOptions::default() })
            }
            false => Ok(Vec::new()),
        };
        let played = wanted.and_then(|wanted| {
            self.engines.iter().try_for_each(|(way, engine)| {
                let options = SessionOptions {
                    engine: Some(engine.clone()),
                    probe: self.probe.clone(),
                    ..SessionOptions::default()
                };
                let outputs = run(&plan, trial, options).map_err(|error| format!("{way}: {error}"))?;
                if engine.place().rank != 0 {
                    return Ok(());
                }
                same_bits(&wanted, &outputs).map_err(|output| format!("{way}: {output} has other bits"))
            })
        });
        self.failures.extend(played.err().map(|error| format!("{name}: {error}")));
    }
}

/// What a session gives, which is the same when it runs once more.
fn run(plan: &Plan, trial: &Trial<'_>, options: SessionOptions) -> Result<Outputs, String> {
    let mut session = Session::from_plan(plan.clone(), options).map_err(|error| error.to_string())?;
    let inputs = inputs_of(trial);
    let first = session.run(&inputs).map_err(|error| error.to_string())?.into_vec();
    let again = session.run(&inputs).map_err(|error| format!("the second run: {error}"))?.into_vec();
    same_bits(&first, &again).map_err(|output| format!("{output}: the second run gives other bits"))?;
    Ok(first)
}

/// Makes a rank late, now and then, by up to so long: other numbers come from another seed.
pub struct Late {
    random: Mutex<Random>,
    most: Duration,
}

impl Late {
    /// No delay yet.
    pub fn new(seed: u64, most: Duration) -> Late {
        Late { random: Mutex::new(Random::new(seed)), most }
    }
}

impl Probe for Late {
    fn before(&self, _: DeviceId, _: InstrId, _: Doing) -> Result<(), String> {
        let microseconds = {
            let mut random = self.random.lock().unwrap_or_else(PoisonError::into_inner);
            let most = self.most.as_micros() as usize;
            if random.below(4) == 0 { random.below(most + 1) as u64 } else { 0 }
        };
        if microseconds > 0 {
            std::thread::sleep(Duration::from_micros(microseconds));
        }
        Ok(())
    }
}
