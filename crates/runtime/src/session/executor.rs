//! What runs a session's programs.

use super::SessionOptions;
use crate::engine::Engine;
use crate::execute::{AfterFailure, Backend, Job, RunError};
use crate::lockstep;
use crate::ranks::{self, Ranks};
use crate::threads::{Round, Threads};
use std::collections::BTreeSet;
use std::sync::Arc;

/// What runs a session's programs.
pub(super) enum Executor {
    Threads(Threads),
    Lockstep,
    Ranks(Ranks),
}

impl Executor {
    /// What the options ask for.
    pub fn new(options: &SessionOptions) -> Executor {
        match (&options.engine, options.backend) {
            (Some(engine), _) => Executor::Ranks(Ranks::new(engine.clone())),
            (None, Backend::Threads) => Executor::Threads(Threads::new(options.cores)),
            (None, Backend::Lockstep) => Executor::Lockstep,
        }
    }

    /// Where devices are ranks, they come together, if they have not.
    pub fn join(&mut self) -> Result<(), RunError> {
        match self {
            Executor::Threads(_) | Executor::Lockstep => Ok(()),
            Executor::Ranks(ranks) => ranks.join(),
        }
    }

    /// What joins the ranks, if devices are ranks.
    pub fn engine(&self) -> Option<&dyn Engine> {
        match self {
            Executor::Ranks(ranks) => Some(ranks.engine()),
            Executor::Threads(_) | Executor::Lockstep => None,
        }
    }

    /// Whether a device is played in this process.
    pub fn plays(&self, device: usize) -> bool {
        self.engine().is_none_or(|engine| engine.place().rank == device)
    }

    /// Whether this process sees the memory of a device.
    pub fn sees(&self, device: usize) -> bool {
        self.engine().is_none_or(|engine| engine.place().has_here(device))
    }

    /// Whether a device is played on this machine, and has its memory there.
    pub fn is_on_machine(&self, device: usize) -> bool {
        self.engine().is_none_or(|engine| engine.place().is_on_machine(device))
    }

    /// Ends well if it went well on all ranks, with the same number.
    pub fn agree(&self, own: Result<u64, RunError>) -> Result<(), RunError> {
        match self.engine() {
            Some(engine) => ranks::all_well(engine, own),
            None => own.map(|_| ()),
        }
    }

    /// Whether something is so on any rank.
    pub fn any(&self, own: bool) -> Result<bool, RunError> {
        match self.engine() {
            Some(engine) => {
                let least = engine.least(u64::from(!own));
                Ok(ranks::or_end(engine, least, "where ranks ask each other")? == 0)
            }
            None => Ok(own),
        }
    }

    /// All numbers that some rank has.
    pub fn union(&self, own: BTreeSet<usize>) -> Result<BTreeSet<usize>, RunError> {
        let Some(engine) = self.engine() else { return Ok(own) };
        let word: Vec<u8> = own.iter().flat_map(|&number| (number as u64).to_le_bytes()).collect();
        let told = ranks::or_end(engine, engine.tell_all(&word), "where ranks tell what they were to read")?;
        let numbers = |word: &Vec<u8>| {
            let (numbers, _) = word.as_chunks();
            numbers.iter().map(|&number| u64::from_le_bytes(number) as usize).collect::<Vec<_>>()
        };
        Ok(told.iter().flat_map(numbers).collect())
    }

    /// Calls `round` once for each of so many lanes.
    pub fn each(&mut self, lanes: usize, round: Round) -> Result<(), RunError> {
        match self {
            Executor::Threads(threads) => threads.each(lanes, round),
            Executor::Lockstep | Executor::Ranks(_) => {
                (0..lanes).for_each(|lane| round(lane));
                Ok(())
            }
        }
    }

    /// What a lane does when one of its tasks has failed.
    pub fn after_failure(&self) -> AfterFailure {
        match self {
            Executor::Threads(_) | Executor::Lockstep => AfterFailure::Stop,
            Executor::Ranks(_) => AfterFailure::GoOn,
        }
    }

    /// Runs all lanes to their ends.
    pub fn execute(&mut self, job: &Arc<Job>) -> Result<(), RunError> {
        match self {
            Executor::Threads(threads) => threads.execute(job),
            Executor::Lockstep => lockstep::execute(job),
            Executor::Ranks(ranks) => ranks.execute(job),
        }
    }
}
