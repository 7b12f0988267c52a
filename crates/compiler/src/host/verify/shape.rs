//! What must hold of a program before its order matters: ids, types, computations and moves by
//! themselves, the places of buffers.

use crate::host::{
    ALIGN, Action, Buffer, BufferId, EventId, HostInstr, HostLoop, HostProgram, Recordings, Role,
};
use crate::id::Id;
use crate::instr::verify::{
    Through, check_compute, check_meshes, check_move, check_type, check_view, enter_loop,
};
use crate::instr::{Arg, Fault, MOST_PIPELINED, MOST_STAGES, TensorType};
use crate::layout::StepId;
use std::collections::BTreeSet;

/// More streams than any device has.
const MOST_STREAMS: usize = 64;

const MOST_SLOTS: u64 = MOST_STAGES as u64;

/// Checks every buffer and every instruction by itself.
pub(super) fn check(program: &HostProgram) -> Result<(), Fault> {
    check_meshes(program.meshes())?;
    if program.streams > MOST_STREAMS {
        return Err(Fault::new("too many streams"));
    }
    for (id, buffer) in program.buffers.iter() {
        check_place(program, id, buffer)?;
    }
    let mut counters = Vec::new();
    Shape { program }.block(&program.body, &mut counters, Around::Nothing)?;
    check_ends(program)
}

/// A buffer's devices are those of the run; its place is in the arena and large enough for its largest piece.
fn check_place(program: &HostProgram, id: BufferId, buffer: &Buffer) -> Result<(), Fault> {
    if buffer.ty.layout.mesh().device_bound() > program.devices {
        let (mesh, devices) = (buffer.ty.layout.mesh().name(), program.devices);
        return Err(Fault::new(format!(
            "{id} lives on `{mesh}`, which has devices beyond the {devices} of the run"
        )));
    }
    if let Some(of) = buffer.view {
        return check_nothing_own(program, id, buffer, of);
    }
    let pieces = buffer.ty.layout.largest_piece(&buffer.ty.sizes());
    let bytes = pieces.iter().try_fold(buffer.ty.dtype.size(), |bytes, &size| bytes.checked_mul(size));
    if bytes.is_none_or(|bytes| bytes > buffer.bytes) {
        return Err(Fault::new(format!("{id} has {} bytes, too few for its largest piece", buffer.bytes)));
    }
    if !buffer.offset.is_multiple_of(ALIGN) {
        return Err(Fault::new(format!("{id} starts at {}, which is no multiple of {ALIGN}", buffer.offset)));
    }
    match buffer.slots {
        1 => {}
        2..=MOST_SLOTS if buffer.role == Role::Temporary && buffer.bytes.is_multiple_of(ALIGN) => {}
        slots => return Err(Fault::new(format!("{id} cannot have {slots} slots"))),
    }
    let end = buffer.bytes.checked_mul(buffer.slots).and_then(|bytes| buffer.offset.checked_add(bytes));
    if end.is_none_or(|end| end > program.arena) {
        return Err(Fault::new(format!("{id} reaches beyond the arena of {} bytes", program.arena)));
    }
    Ok(())
}

/// A view has no bytes of its own, and is one of a buffer that has.
fn check_nothing_own(program: &HostProgram, id: BufferId, view: &Buffer, of: BufferId) -> Result<(), Fault> {
    let (ty, name) = (view.ty.clone(), view.name.clone());
    let (role, view_of) = (Role::Temporary, Some(of));
    let plain = Buffer { name, ty, role, offset: 0, bytes: 0, slots: 1, view: view_of, lender: None };
    if *view != plain {
        return Err(Fault::new(format!("{id} is a view, but has a role or a place of its own")));
    }
    if buffer(program, of)?.view.is_some() {
        return Err(Fault::new(format!("{id} is a view of {of}, which is a view itself")));
    }
    Ok(())
}

/// Inputs are given, outputs last.
fn check_ends(program: &HostProgram) -> Result<(), Fault> {
    let ends = [(&program.inputs, "input"), (&program.outputs, "output")];
    for (list, what) in ends {
        let mut names = BTreeSet::new();
        for (name, id) in list {
            if !names.insert(name) {
                return Err(Fault::new(format!("{what} `{name}` stands twice")));
            }
            let buffer = buffer(program, *id)?;
            if what == "input" && !buffer.role.is_given() || buffer.role == Role::Temporary {
                return Err(Fault::new(format!("{what} `{name}` is {id}, which is {}", buffer.role.name())));
            }
            check_type(&buffer.ty, &[]).map_err(|fault| of_buffer(*id, fault))?;
        }
    }
    let given = program.buffers.iter().filter(|(_, buffer)| buffer.role.is_given());
    for (id, buffer) in given {
        check_type(&buffer.ty, &[]).map_err(|fault| of_buffer(id, fault))?;
    }
    Ok(())
}

fn buffer(program: &HostProgram, id: BufferId) -> Result<&Buffer, Fault> {
    program.buffers.get(id).ok_or_else(|| Fault::new(format!("there is no {id}")))
}

fn of_buffer(id: BufferId, fault: Fault) -> Fault {
    Fault { reason: format!("{id}: {}", fault.reason), ..fault }
}

/// The loop around an action.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Around {
    /// None.
    Nothing,
    /// One whose steps follow each other.
    Steps,
    /// A pipeline.
    Pipeline,
}

impl Around {
    /// What is around the actions of a loop that stands here.
    fn inside(self, steps: &HostLoop) -> Result<Around, Fault> {
        if !(1..=MOST_STAGES).contains(&steps.stages.len()) {
            return Err(Fault::new(format!("a loop of {} stages", steps.stages.len())));
        }
        match (self, steps.is_pipeline()) {
            (_, false) => Ok(Around::Steps),
            (Around::Nothing, true) if steps.step_count() <= MOST_PIPELINED => Ok(Around::Pipeline),
            (Around::Nothing, true) => {
                let count = steps.step_count();
                Err(Fault::new(format!("a pipeline of {count} steps, more than {MOST_PIPELINED}")))
            }
            (_, true) => Err(Fault::new("a pipeline inside another loop")),
        }
    }
}

struct Shape<'a> {
    program: &'a HostProgram,
}

impl<'a> Shape<'a> {
    fn block(
        &self,
        body: &[HostInstr],
        counters: &mut Vec<(StepId, u64)>,
        around: Around,
    ) -> Result<(), Fault> {
        for instr in body {
            match instr {
                HostInstr::On(stream, action) => {
                    let known = stream.index() < self.program.streams;
                    let known =
                        known.then_some(()).ok_or_else(|| Fault::new(format!("there is no {stream}")));
                    let checked = known.and_then(|()| self.action(action, counters, around));
                    checked.map_err(|fault| fault.at(format!("{stream}: {action}")))?;
                }
                HostInstr::Loop(steps) => {
                    let outside = counters.len();
                    enter_loop(counters, &steps.counters)?;
                    let inside = around.inside(steps)?;
                    for body in &steps.stages {
                        self.block(body, counters, inside)?;
                    }
                    counters.truncate(outside);
                }
            }
        }
        Ok(())
    }

    fn action(&self, action: &Action, counters: &[(StepId, u64)], around: Around) -> Result<(), Fault> {
        match action {
            Action::Alloc(id) | Action::Free(id) => {
                self.ty(*id, counters)?;
                self.is_no_view(*id)?;
                match (self.program.buffers[*id].slots, around) {
                    (1, _) | (_, Around::Pipeline) => Ok(()),
                    _ => Err(Fault::new(format!("{id} has slots, but lives outside a pipeline"))),
                }
            }
            Action::Record(event) => self.event(*event),
            Action::Wait { event, back } if *back <= Recordings::<()>::MOST_BACK => self.event(*event),
            Action::Wait { .. } => Err(Fault::new("it looks back further than any pipeline needs")),
            Action::Compute(compute) => {
                let ty =
                    |operand: &Arg<BufferId>| operand.value().map(|id| self.ty(id, counters)).transpose();
                let operands = compute.operands.iter().map(ty).collect::<Result<Vec<_>, Fault>>()?;
                compute.reads().try_for_each(|id| self.view(id, Through::Reading, counters))?;
                self.view(compute.result, Through::Writing, counters)?;
                check_compute(compute, &operands, self.ty(compute.result, counters)?, counters)
            }
            Action::Move(moved) => {
                let (source, target) = (self.ty(moved.source, counters)?, self.ty(moved.target, counters)?);
                self.is_no_view(moved.source)?;
                self.is_no_view(moved.target)?;
                check_move(moved, source, target, counters)
            }
        }
    }

    /// If it is a view, whether it may be used so.
    fn view(&self, id: BufferId, through: Through, counters: &[(StepId, u64)]) -> Result<(), Fault> {
        let view = buffer(self.program, id)?;
        let Some(of) = view.view else { return Ok(()) };
        let checked = check_view(&view.ty, self.ty(of, counters)?, through, counters);
        checked.map_err(|fault| of_buffer(id, fault))
    }

    fn is_no_view(&self, id: BufferId) -> Result<(), Fault> {
        match buffer(self.program, id)?.view {
            Some(of) => Err(Fault::new(format!("{id} is a view of {of}, which only computations may use"))),
            None => Ok(()),
        }
    }

    /// The type of a buffer, which may be used inside these loops.
    fn ty(&self, id: BufferId, counters: &[(StepId, u64)]) -> Result<&'a TensorType, Fault> {
        let ty = &buffer(self.program, id)?.ty;
        check_type(ty, counters).map_err(|fault| of_buffer(id, fault))?;
        Ok(ty)
    }

    fn event(&self, event: EventId) -> Result<(), Fault> {
        let known = event.index() < self.program.events;
        known.then_some(()).ok_or_else(|| Fault::new(format!("there is no {event}")))
    }
}
