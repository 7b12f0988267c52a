//! A plan comes into use: it gets arenas that are large enough.

use super::loaded::{Feed, LoadedProgram};
use super::plans::LoadedPlan;
use super::{BoundPlan, Results, Session, fits};
use crate::arena::{Arenas, Need, Sees, need};
use crate::engine::EngineError;
use crate::execute::{PackedConstants, RunError};
use crate::instantiate::Tasks;
use crate::memory;
use crate::ranks::{all_have, or_end};
use std::sync::Arc;

impl Session {
    /// The plan gets arenas that are large enough. Constants that it wants where they are stay bound.
    pub(super) fn take_into_use(&mut self, loaded: Arc<LoadedPlan>) -> Result<(), RunError> {
        self.executor.join()?;
        let before = self.in_use.take();
        let program = &loaded.program;
        let tasks = &program.tasks;
        let kept = self.arenas.kept();
        let (bytes, reach) = (tasks.packed_arena, &tasks.reach);
        let loses = !program.can_keep(kept) || !self.seen(tasks).all(|(device, sees)| kept.has(device, sees));
        let lacks = !self.seen(tasks).all(|(device, sees)| self.arenas.has(device, sees, bytes, reach));
        let keeps = !self.executor.any(loses)?;
        match !keeps || self.executor.any(lacks)? {
            true => self.make_arenas(program, keeps)?,
            false => self.arenas = Arc::new(self.arenas.reaching(bytes, reach.clone())),
        }
        let stays = |feed: &Feed| before.as_ref().filter(|_| keeps).and_then(|before| before.still(feed));
        let bound = program.inputs.iter().map(stays).collect();
        let packed = Arc::new(PackedConstants::none(tasks.packed_constants));
        self.in_use = Some(BoundPlan { loaded, bound, packed, results: Results::None });
        Ok(())
    }

    /// The devices that hold anything and of whose arenas this process sees something.
    fn seen(&self, tasks: &Tasks) -> impl Iterator<Item = (usize, Sees)> {
        let used = tasks.used.iter().enumerate().filter(|(_, used)| **used).map(|(device, _)| device);
        let seen = used.filter(|&device| self.executor.sees(device));
        seen.map(|device| (device, if self.executor.plays(device) { Sees::All } else { Sees::Reached }))
    }

    fn make_arenas(&mut self, program: &LoadedProgram, keeps: bool) -> Result<(), RunError> {
        // The old arenas are let go first, but for what is kept.
        let (kept, room) = (self.arenas.kept(), self.arenas.room());
        let kept = if keeps { kept.clone() } else { program.keeps_instead(kept) };
        self.job = None;
        self.arenas = Arc::new(Arenas::none());
        if let Some(engine) = self.executor.engine() {
            or_end(engine, engine.give_back(), "where memory is given back")?;
        }
        let devices = program.device_count(|device| self.executor.is_on_machine(device));
        let available = self.options.memory.or_else(memory::available);
        let tasks = &program.tasks;
        let fits = |bytes: usize| fits::check(bytes as u64, devices, program.output_bytes, available);
        // Without packed operands it is slower; without the rest there is no run.
        let bytes = match fits(tasks.packed_arena) {
            Ok(()) => tasks.packed_arena,
            Err(_) => tasks.arena,
        };
        // With room for both, plans that take turns need no others.
        let both = room.or_more(need(&tasks.reach, program.kept..bytes));
        let all = program.kept.saturating_add(both.own).saturating_add(both.reached);
        let room = if fits(all).is_ok() { both } else { Need::default() };
        let played = tasks.used.iter().enumerate();
        let played: Vec<bool> = played.map(|(device, used)| *used && self.executor.plays(device)).collect();
        // There is as much, but the system does not give it.
        let missing = || RunError::OutOfMemory { per_device: bytes as u64, devices, available: None };
        let own = fits(bytes).and_then(|()| {
            Arenas::around(kept, bytes, tasks.reach.clone(), room, &played).ok_or_else(missing)
        });
        self.executor.agree(own.as_ref().map(|_| 0).map_err(RunError::clone))?;
        let own = own?;
        self.arenas = Arc::new(match self.executor.engine() {
            Some(engine) => {
                let plays = played.get(engine.place().rank) == Some(&true);
                let shared = own.sharing(|bytes| engine.share(if plays { bytes } else { 0 }));
                let shared = shared.and_then(|arenas| {
                    match self.seen(tasks).all(|(device, sees)| arenas.has(device, sees, bytes, &tasks.reach))
                    {
                        true => Ok(arenas),
                        false => Err(EngineError::Refused(
                            "the engine shares fewer bytes than it was asked for".into(),
                        )),
                    }
                });
                all_have(engine, shared, "where arenas are made")?
            }
            None => own,
        });
        Ok(())
    }
}
