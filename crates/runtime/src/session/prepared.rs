//! A plan comes into use: it gets arenas that are large enough.

use super::executor::Executor;
use super::loaded::{Feed, LoadedProgram};
use super::plans::LoadedPlan;
use super::{BoundPlan, Results, Session, fits};
use crate::arena::{Arenas, Kept};
use crate::engine::EngineError;
use crate::execute::{PackedConstants, RunError};
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
        let used = || {
            let devices = tasks.used.iter().enumerate().filter(|(_, used)| **used).map(|(device, _)| device);
            devices.filter(|&device| self.executor.sees(device))
        };
        let (loses, lacks) = (
            kept.bytes() != program.kept || !used().all(|device| kept.has(device)),
            self.arenas.bytes() < tasks.packed_arena || !used().all(|device| self.arenas.has(device)),
        );
        let keeps = !self.executor.any(loses)?;
        if !keeps || self.executor.any(lacks)? {
            self.make_arenas(program, keeps)?;
        }
        let stays = |feed: &Feed| before.as_ref().filter(|_| keeps).and_then(|before| before.still(feed));
        let bound = program.inputs.iter().map(stays).collect();
        let packed = Arc::new(PackedConstants::none(tasks.packed_constants));
        self.in_use = Some(BoundPlan { loaded, bound, packed, results: Results::None });
        Ok(())
    }

    fn make_arenas(&mut self, program: &LoadedProgram, keeps: bool) -> Result<(), RunError> {
        // The old arenas are let go first, but for what is kept.
        let kept = if keeps { self.arenas.kept().clone() } else { Kept::default() };
        self.job = None;
        self.arenas = Arc::new(Arenas::none());
        if let Some(engine) = self.executor.engine() {
            or_end(engine, engine.give_back(), "where memory is given back")?;
        }
        let devices = program.device_count(|device| self.executor.is_on_machine(device));
        let available = self.options.memory.or_else(memory::available);
        let fits = |bytes: usize| fits::check(bytes as u64, devices, program.output_bytes, available);
        // Without packed operands it is slower; without the rest there is no run.
        let bytes = match fits(program.tasks.packed_arena) {
            Ok(()) => program.tasks.packed_arena,
            Err(_) => program.tasks.arena,
        };
        self.executor.agree(fits(bytes).map(|()| 0))?;
        self.arenas = Arc::new(match &self.executor {
            Executor::Ranks(ranks) => {
                let used = program.tasks.used.get(ranks.engine().place().rank) == Some(&true);
                let engine = ranks.engine();
                let share = |bytes| engine.share(if used { bytes } else { 0 });
                let shared = Arenas::shared(kept, program.kept, bytes, share).and_then(|arenas| {
                    let has = |device| arenas.has(device) && arenas.kept().has(device);
                    let used = program.tasks.used.iter().enumerate().filter(|(_, used)| **used);
                    match used.map(|(device, _)| device).filter(|&d| self.executor.sees(d)).all(has) {
                        true => Ok(arenas),
                        false => Err(EngineError::Refused(
                            "the engine shares fewer bytes than it was asked for".into(),
                        )),
                    }
                });
                all_have(engine, shared, "where arenas are made")?
            }
            Executor::Threads(_) | Executor::Lockstep => {
                let arenas = Arenas::around(kept, program.kept, bytes, &program.tasks.used);
                let missing = || RunError::OutOfMemory { per_device: bytes as u64, devices, available };
                arenas.ok_or_else(missing)?
            }
        });
        Ok(())
    }
}
