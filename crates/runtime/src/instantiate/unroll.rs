//! Walks over the program as it runs and gives each lane its tasks.

use super::buffers::Buffers;
use super::islands::{across_hosts, apart};
use super::loans::{Block, Readers, blocks};
use super::moves::{Phase, phases};
use super::packing::Packing;
use super::reached::Reached;
use super::tasks::{Copy, Instr, Lane, LaneId, Messages, Task, Tasks, Turn, TurnId, Work};
use super::{InstantiateError, InstrId, Lending, Loans, Reads, Streams, kernels};
use crate::arena::Reach;
use crate::engine::Place;
use crate::meet::Tick;
use shardweave_compiler::host::{
    Action, At, BufferId, Enqueued, EventId, HostInstr, HostProgram, Recorded, Recordings, StreamId, Walk,
    enqueue,
};
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::instr::{Compute, Move};
use shardweave_compiler::mesh::{DeviceId, Mesh};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Programs with more tasks than this are refused: the tasks alone would take gigabytes.
const MOST_TASKS: u64 = 1 << 24;

/// What each device does in a run of the program.
///
/// Where devices are ranks, only the lanes of this rank's device have tasks.
pub fn instantiate(
    program: &HostProgram,
    streams: Streams,
    lending: Lending,
    place: Option<&Place>,
) -> Result<Tasks, InstantiateError> {
    let mut unroll = Unroll::new(program, streams, lending, place)?;
    enqueue(&program.body, Walk::Every, &mut |enqueued| unroll.action(enqueued))?;
    unroll.tasks.packed_arena = unroll.packing.end().max(unroll.tasks.arena);
    unroll.tasks.reach = unroll.reached.reach(program);
    unroll.tasks.packed_constants = unroll.packing.constants();
    unroll.tasks.last_tick = unroll.tick;
    Ok(unroll.tasks)
}

struct Unroll<'a> {
    program: &'a HostProgram,
    /// Where this process stands, if devices are ranks.
    place: Option<&'a Place>,
    buffers: Buffers<'a>,
    tasks: Tasks,
    /// The lane of a device's stream.
    lanes: BTreeMap<(DeviceId, StreamId), LaneId>,
    /// The last tick given out.
    tick: Tick,
    /// On which stream and when events were recorded.
    recorded: Recordings<(StreamId, Tick)>,
    /// The computations of the text, shared by all their turns.
    computes: BTreeMap<InstrId, Arc<Compute<BufferId>>>,
    packing: Packing,
    lending: Lending,
    readers: Readers<'a>,
    /// What is lent at the moment.
    lent: BTreeMap<BufferId, Loan>,
    reached: Reached,
}

/// A buffer that is read in blocks.
struct Loan {
    /// What each device reads of it, by device number.
    blocks: Vec<Vec<Block>>,
    /// Who waits for whom before what is lent may change; none if it was copied.
    end: Option<Meeting>,
}

/// Where blocks of what a move gives lie.
enum Lent {
    /// On the devices that have them.
    Borrowed(Vec<Vec<Block>>),
    /// On the device that reads them.
    Copied(Vec<Vec<Block>>),
}

impl<'a> Unroll<'a> {
    fn new(
        program: &'a HostProgram,
        streams: Streams,
        lending: Lending,
        place: Option<&'a Place>,
    ) -> Result<Unroll<'a>, InstantiateError> {
        let used = used_devices(program)?;
        let buffers = Buffers::new(program)?;
        let mut tasks = Tasks {
            lanes: Table::new(),
            instrs: Table::new(),
            turns: Table::new(),
            arena: buffers.arena(),
            packed_arena: buffers.arena(),
            reach: Reach::default(),
            packed_constants: 0,
            last_tick: 0,
            used: used.clone(),
        };
        let lane_count = match place {
            Some(_) => 1,
            None => used.iter().filter(|&&used| used).count() as u64,
        };
        if turns_of(&program.body).saturating_mul(lane_count) > MOST_TASKS {
            let what =
                format!("a plan of more than {MOST_TASKS} instructions, counted on all devices at all steps");
            return Err(InstantiateError::TooLarge(what));
        }
        list_instrs(program, &mut tasks.instrs);
        let mut lanes = BTreeMap::new();
        for device in (0..used.len()).filter(|&device| used[device]).map(DeviceId::new) {
            for stream in (0..program.streams).map(StreamId::new) {
                let lane = match (streams, stream.index()) {
                    (Streams::Merged, 0) => {
                        tasks.lanes.push(Lane { device, stream: None, tasks: Vec::new() })
                    }
                    (Streams::Merged, _) => lanes[&(device, StreamId::new(0))],
                    (Streams::Apart, _) => {
                        tasks.lanes.push(Lane { device, stream: Some(stream), tasks: Vec::new() })
                    }
                };
                lanes.insert((device, stream), lane);
            }
        }
        Ok(Unroll {
            program,
            place,
            packing: Packing::new(program, buffers.arena()),
            buffers,
            tasks,
            lanes,
            tick: 0,
            recorded: Recordings::new(),
            computes: BTreeMap::new(),
            lending,
            readers: Readers::of(program),
            lent: BTreeMap::new(),
            reached: Reached::default(),
        })
    }

    fn action(&mut self, enqueued: &Enqueued<'_, '_>) -> Result<(), InstantiateError> {
        let Enqueued { place, stream, action, at } = *enqueued;
        let instr = InstrId::new(place);
        if stream.index() >= self.program.streams {
            return Err(InstantiateError::Broken(format!("there is no stream {stream}")));
        }
        let turn = match action {
            Action::Alloc(_) => return Ok(()),
            Action::Free(id) if !self.lent.contains_key(id) => return Ok(()),
            _ => self.tasks.turns.push(Turn { instr, steps: at.outermost_first() }),
        };
        match action {
            Action::Compute(compute) => self.compute(instr, turn, stream, compute, at),
            Action::Move(mv) => self.move_(turn, stream, mv, at),
            Action::Record(event) => {
                self.record(turn, stream, *event, at);
                Ok(())
            }
            Action::Wait { event, back } => {
                if let Recorded::There(&recorded) = self.recorded.wait(*event, *back, at) {
                    self.wait(turn, stream, recorded);
                }
                Ok(())
            }
            Action::Free(id) => {
                if let Some(Loan { end: Some(end), .. }) = self.lent.remove(id) {
                    self.meet(turn, stream, &end);
                }
                Ok(())
            }
            Action::Alloc(_) => Ok(()),
        }
        .map_err(|error| self.at(instr, error))
    }

    fn push(&mut self, device: DeviceId, stream: StreamId, turn: TurnId, work: Work) {
        let lane = self.lanes[&(device, stream)];
        self.tasks.lanes[lane].tasks.push(Task { turn, work });
    }

    /// The devices that get tasks: all that hold anything, but where devices are ranks only that of this one.
    fn devices(&self) -> Vec<DeviceId> {
        let here = |device: &DeviceId| self.place.is_none_or(|place| place.rank == device.index());
        self.used().filter(here).collect()
    }

    /// All devices that hold anything.
    fn used(&self) -> impl Iterator<Item = DeviceId> {
        let used = self.tasks.used.iter().enumerate().filter(|(_, used)| **used);
        used.map(|(device, _)| DeviceId::new(device))
    }

    fn compute(
        &mut self,
        instr: InstrId,
        turn: TurnId,
        stream: StreamId,
        compute: &Compute<BufferId>,
        at: &At,
    ) -> Result<(), InstantiateError> {
        let compute = self.computes.entry(instr).or_insert_with(|| Arc::new(compute.clone())).clone();
        for device in self.devices() {
            let lent = |id: BufferId| Some(&self.lent.get(&id)?.blocks[device.index()][..]);
            let mut kernels = kernels::kernels(&compute, &self.buffers, device, at, &lent)?;
            self.packing.pack(&mut kernels, (instr, turn), device, stream);
            for kernel in kernels {
                self.push(device, stream, turn, Work::Kernel(Box::new(kernel)));
            }
        }
        Ok(())
    }

    fn move_(
        &mut self,
        turn: TurnId,
        stream: StreamId,
        mv: &Move<BufferId>,
        at: &At,
    ) -> Result<(), InstantiateError> {
        let phases = phases(mv, &self.buffers, self.tasks.used.len(), at)?;
        let across = |phase| self.place.map_or(Vec::new(), |place| across_hosts(phase, place));
        let across: Vec<Vec<Vec<usize>>> = phases.iter().map(across).collect();
        let reads = if across.iter().all(Vec::is_empty) { self.lending.reads } else { Reads::FromCopies };
        let lent = self.lent_blocks(mv, &phases, reads, at)?;
        let (phases, messages): (Vec<Phase>, Vec<Option<Messages>>) = match self.place {
            Some(Place { rank, .. }) => {
                let phases = phases.into_iter().zip(&across);
                phases.map(|(phase, across)| apart(phase, across, *rank, stream.index())).unzip()
            }
            None => (phases, Vec::new()),
        };
        if self.place.is_some() {
            self.reached.note(mv, &phases, self.program);
        }
        let mut messages = messages.into_iter();
        let mut meetings = meetings(&phases);
        let borrowed = match lent {
            Some(Lent::Borrowed(blocks)) => {
                let end = meetings.pop().unwrap_or_default();
                self.lent.insert(mv.target, Loan { blocks, end: Some(end) });
                true
            }
            Some(Lent::Copied(blocks)) => {
                self.lent.insert(mv.target, Loan { blocks, end: None });
                false
            }
            None => false,
        };
        let mut meetings = meetings.into_iter();
        let devices = self.devices();
        for mut phase in phases {
            self.meet(turn, stream, &meetings.next().unwrap_or_default());
            for &device in &devices {
                if let Some(copy) = phase[device.index()].take().map(Box::new) {
                    let work = if borrowed { Work::Borrow(copy) } else { Work::Copy(copy) };
                    self.push(device, stream, turn, work);
                }
            }
            if let (Some(messages), Some(place)) = (messages.next().flatten(), self.place) {
                let own = DeviceId::new(place.rank);
                self.push(own, stream, turn, Work::Exchange(Box::new(messages)));
            }
        }
        meetings.for_each(|meeting| self.meet(turn, stream, &meeting));
        Ok(())
    }

    /// The blocks in which what a move gives is read, if that is how it is read.
    ///
    /// Whether it is does not depend on who runs the program, only on whether it pays: so computations are the same
    /// kernels everywhere, and give the same bits. Where memory is not shared, or shall not be, the blocks lie in the copy.
    fn lent_blocks(
        &self,
        mv: &Move<BufferId>,
        phases: &[Phase],
        reads: Reads,
        at: &At,
    ) -> Result<Option<Lent>, InstantiateError> {
        if self.program.buffers[mv.target].lender != Some(mv.source) || self.lending.loans == Loans::Never {
            return Ok(None);
        }
        let mut blocks = blocks(phases)?;
        if self.lending.loans == Loans::WhereItPays && !self.gains(mv.target, &blocks, at)? {
            return Ok(None);
        }
        if reads == Reads::InPlace {
            return Ok(Some(Lent::Borrowed(blocks)));
        }
        for (device, blocks) in blocks.iter_mut().enumerate() {
            let device = DeviceId::new(device);
            if let Some(held) = self.buffers.held(mv.target, device, at)? {
                blocks.iter_mut().for_each(|block| *block = block.copied(device, &held.piece.region));
            }
        }
        Ok(Some(Lent::Copied(blocks)))
    }

    /// Whether all devices gain by reading what is lent in these blocks: they meet alike, so they do it alike.
    fn gains(&self, target: BufferId, blocks: &[Vec<Block>], at: &At) -> Result<bool, InstantiateError> {
        for device in self.used() {
            let Some(held) = self.buffers.held(target, device, at)? else { continue };
            if !self.readers.gain(target, &held, &blocks[device.index()], &self.packing) {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Devices publish the next tick and wait for it.
    fn meet(&mut self, turn: TurnId, stream: StreamId, meeting: &Meeting) {
        self.tick += 1;
        for device in self.devices() {
            if meeting.awaited.contains(&device) {
                self.push(device, stream, turn, Work::Publish(self.tick));
            }
            if let Some(partners) = meeting.waits.get(&device) {
                let lanes = partners.iter().map(|&partner| self.lanes[&(partner, stream)]).collect();
                self.push(device, stream, turn, Work::Wait(lanes, self.tick));
            }
        }
    }

    /// An event happens when the lane of its stream, on the same device, comes to where it was recorded.
    fn record(&mut self, turn: TurnId, stream: StreamId, event: EventId, at: &At) {
        self.tick += 1;
        self.recorded.record(event, at, (stream, self.tick));
        for device in self.devices() {
            self.push(device, stream, turn, Work::Publish(self.tick));
        }
    }

    /// In one lane nobody waits, for the event was recorded before; but the times of streams meet here where
    /// a link is played.
    fn wait(&mut self, turn: TurnId, stream: StreamId, (recording, tick): (StreamId, Tick)) {
        for device in self.devices() {
            let other = self.lanes[&(device, recording)];
            self.push(device, stream, turn, Work::Wait([other].into(), tick));
        }
    }

    fn at(&self, instr: InstrId, error: InstantiateError) -> InstantiateError {
        match error {
            InstantiateError::Broken(reason) => {
                InstantiateError::Broken(format!("`{}`: {reason}", self.tasks.instrs[instr].text))
            }
            other => other,
        }
    }
}

/// Who waits for whom at a tick.
#[derive(Default)]
struct Meeting {
    /// Whom each device waits for.
    waits: BTreeMap<DeviceId, BTreeSet<DeviceId>>,
    /// Which devices are waited for.
    awaited: BTreeSet<DeviceId>,
}

impl Meeting {
    fn wait(&mut self, who: DeviceId, for_whom: DeviceId) {
        self.waits.entry(who).or_default().insert(for_whom);
        self.awaited.insert(for_whom);
    }

    fn has(&self, who: DeviceId, for_whom: DeviceId) -> bool {
        self.waits.get(&who).is_some_and(|partners| partners.contains(&for_whom))
    }
}

/// The meetings of a move: one before each phase, one after the last.
fn meetings(phases: &[Phase]) -> Vec<Meeting> {
    let mut meetings: Vec<Meeting> = (0..=phases.len()).map(|_| Meeting::default()).collect();
    for (meeting, phase) in meetings.iter_mut().zip(phases) {
        reads(phase).for_each(|(reader, owner)| meeting.wait(reader, owner));
    }
    // Before it goes on, a device waits for all who read from it, unless it has met them since: who
    // is at a later phase is done with the earlier ones.
    for (at, phase) in phases.iter().enumerate() {
        for (reader, owner) in reads(phase) {
            if !meetings[at + 1..phases.len()].iter().any(|meeting| meeting.has(owner, reader)) {
                meetings[phases.len()].wait(owner, reader);
            }
        }
    }
    meetings
}

/// Who reads from whom in a phase, but for a device's own pieces.
fn reads(phase: &Phase) -> impl Iterator<Item = (DeviceId, DeviceId)> {
    phase.iter().enumerate().flat_map(|(reader, copy)| {
        let reader = DeviceId::new(reader);
        let sources = copy.iter().flat_map(Copy::sources);
        sources.map(|(from, _)| from).filter(move |&owner| owner != reader).map(move |owner| (reader, owner))
    })
}

/// The devices of the meshes of all buffers and computations.
fn used_devices(program: &HostProgram) -> Result<Vec<bool>, InstantiateError> {
    if program.devices > Mesh::MOST_DEVICES {
        return Err(InstantiateError::TooLarge(format!("a run of {} devices", program.devices)));
    }
    let mut used = vec![false; program.devices as usize];
    for buffer in program.buffers.values() {
        for device in buffer.ty.layout.mesh().devices() {
            let Some(used) = used.get_mut(device.index()) else {
                let reason = format!("{device} is used, but a run has {} devices", program.devices);
                return Err(InstantiateError::Broken(reason));
            };
            *used = true;
        }
    }
    Ok(used)
}

/// How many instructions run.
fn turns_of(body: &[HostInstr]) -> u64 {
    let turns = |instr: &HostInstr| match instr {
        HostInstr::On(..) => 1,
        HostInstr::Loop(steps) => {
            let turns = steps.stages.iter().map(|body| turns_of(body)).fold(0, u64::saturating_add);
            turns.saturating_mul(steps.step_count())
        }
    };
    body.iter().map(turns).fold(0, u64::saturating_add)
}

fn list_instrs(program: &HostProgram, instrs: &mut Table<InstrId, Instr>) {
    for (stream, action) in program.actions() {
        let kind = match action {
            Action::Move(mv) => Some(mv.kind),
            _ => None,
        };
        let value =
            action.writes().and_then(|buffer| program.buffers.get(buffer)).map(|buffer| buffer.name.clone());
        let of_value =
            |operation| [Some(operation), value.as_deref()].into_iter().flatten().collect::<Vec<_>>();
        let name = match action {
            Action::Compute(compute) => of_value(compute.op.name()).join(" "),
            Action::Move(mv) => of_value(mv.kind.name()).join(" "),
            Action::Record(event) | Action::Wait { event, .. } => event.to_string(),
            Action::Alloc(buffer) | Action::Free(buffer) => buffer.to_string(),
        };
        instrs.push(Instr { text: format!("{stream}: {action}"), name, stream, value, kind });
    }
}
