//! From a program to its machine: loops unrolled, pieces found, waits between lanes.

use super::loans::Lent;
use super::machine::{Lane, Machine, Operand, Piece, Step, UNDEFINED, Work, digest};
use super::memories::MOST_DEVICES;
use super::moves::{Round, rounds};
use shardweave_compiler::host::{
    Action, At, Buffer, BufferId, HostProgram, Recorded, Recordings, StreamId, Walk, enqueue,
};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::Compute;
use shardweave_compiler::layout::{IndexSet, volume};
use shardweave_compiler::mesh::DeviceId;
use std::collections::BTreeMap;
use std::ops::Range;

/// Programs of more steps, or with larger memories, are not made into machines.
const MOST_STEPS: usize = 10_000;
const MOST_BYTES: u64 = 1 << 18;

/// Whether a program is small enough for marks of all its elements.
pub fn is_small(program: &HostProgram) -> bool {
    program.arena.saturating_mul(program.devices) <= MOST_BYTES
        && program.devices <= MOST_DEVICES as u64
        && program.streams <= 5
}

impl Machine {
    /// An `Err` says why a program that was not verified makes no sense at all.
    pub fn new(program: &HostProgram) -> Result<Machine, String> {
        if !is_small(program) {
            return Err("it is not small".into());
        }
        let sizes = program.buffers.values().map(|buffer| buffer.ty.dtype.size());
        let devices = program.devices as usize;
        let mut build = Build {
            program,
            cell: sizes.min().unwrap_or(1),
            at: At::outside(),
            recordings: Recordings::new(),
            lanes: Vec::new(),
            turns: Vec::new(),
            count: 0,
            lent: BTreeMap::new(),
        };
        for device in 0..devices {
            let streams = (0..program.streams).map(StreamId::new);
            build.lanes.extend(streams.map(|stream| Lane { device, stream, steps: Vec::new() }));
        }
        enqueue(&program.body, Walk::Every, &mut |enqueued| {
            build.at = enqueued.at.clone();
            build.action(enqueued.stream, enqueued.action)
        })?;
        let mut memory = vec![vec![UNDEFINED; (program.arena / build.cell) as usize]; devices];
        build.at = At::outside();
        for (id, _) in program.buffers.iter().filter(|(_, buffer)| buffer.role.is_given()) {
            for (device, memory) in memory.iter_mut().enumerate() {
                if let Some(piece) = build.piece(id, device, &At::outside())? {
                    piece.write(memory, digest(("given", id.index(), device)));
                }
            }
        }
        let mut outputs = Vec::new();
        for (_, id) in &program.outputs {
            for device in 0..devices {
                outputs.extend(build.piece(*id, device, &At::outside())?.map(|piece| (device, piece)));
            }
        }
        Ok(Machine::of(build.lanes, build.turns, memory, outputs))
    }
}

/// Walks over the program as it is enqueued and gives each lane its steps.
struct Build<'a> {
    program: &'a HostProgram,
    /// Bytes of a cell: the smallest element that there is.
    cell: u64,
    /// Where in its loops the program is.
    at: At,
    /// Which stream recorded an event, and where its lanes were then.
    recordings: Recordings<(StreamId, Vec<usize>)>,
    lanes: Vec<Lane>,
    turns: Vec<String>,
    count: usize,
    /// What is lent at the moment.
    lent: BTreeMap<BufferId, Lent>,
}

/// The elements of a piece by their indices, in the order in which they are stored.
fn elements_of(piece: &[IndexSet]) -> Vec<Vec<u64>> {
    piece.iter().fold(vec![Vec::new()], |outer: Vec<Vec<u64>>, dim| {
        let with = |index: &Vec<u64>| dim.iter().map(|at| [&index[..], &[at]].concat()).collect::<Vec<_>>();
        outer.iter().flat_map(with).collect()
    })
}

impl Build<'_> {
    fn devices(&self) -> Range<usize> {
        0..self.program.devices as usize
    }

    fn lane(&self, device: usize, stream: StreamId) -> usize {
        device * self.program.streams + stream.index()
    }

    fn push(&mut self, device: usize, stream: StreamId, work: Work) {
        let (lane, turn) = (self.lane(device, stream), self.turns.len() - 1);
        self.lanes[lane].steps.push(Step::new(turn, work));
    }

    fn done(&self, device: usize, stream: StreamId) -> usize {
        self.lanes[self.lane(device, stream)].steps.len()
    }

    fn action(&mut self, stream: StreamId, action: &Action) -> Result<(), String> {
        self.count += self.program.devices as usize;
        if stream.index() >= self.program.streams || self.count > MOST_STEPS {
            return Err(format!("there is no {stream}, or there are too many steps"));
        }
        self.turns.push(format!("{stream}: {action}"));
        match action {
            Action::Free(id) => {
                if let Some(lent) = self.lent.remove(id) {
                    self.end(&lent, stream);
                }
                self.spoil(*id, stream)
            }
            Action::Alloc(id) => self.spoil(*id, stream),
            Action::Compute(compute) => self.compute(compute, stream),
            Action::Move(moved) => {
                let piece = |id, device, at: &At| self.piece(id, device, at);
                let rounds = rounds(self.program, moved, &self.at, &piece)?;
                if self.program.buffers[moved.target].lender == Some(moved.source) {
                    let lent = Lent::of(rounds)?;
                    self.lend(&lent, stream);
                    self.lent.insert(moved.target, lent);
                } else {
                    self.meet(stream, rounds);
                }
                Ok(())
            }
            Action::Record(event) => {
                let at = self.devices().map(|device| self.done(device, stream)).collect();
                self.recordings.record(*event, &self.at, (stream, at));
                Ok(())
            }
            Action::Wait { event, back } => {
                let recorded = match self.recordings.wait(*event, *back, &self.at) {
                    Recorded::There(recorded) => Some(recorded.clone()),
                    Recorded::NotYet => return Ok(()),
                    Recorded::Never => None,
                };
                for device in self.devices() {
                    // What is never recorded never happens: a lane that waits for itself never goes on.
                    let never = (self.lane(device, stream), self.done(device, stream) + 1);
                    let whom = recorded.as_ref();
                    let whom = whom.map_or(never, |(of, at)| (self.lane(device, *of), at[device]));
                    self.push(device, stream, Work::Wait(vec![whom]));
                }
                Ok(())
            }
        }
    }

    /// Where the slot of a buffer at this step starts.
    fn slot_start(buffer: &Buffer, at: &At) -> u64 {
        buffer.offset + at.slot(buffer.slots) * buffer.bytes
    }

    fn buffer(&self, id: BufferId) -> Result<&Buffer, String> {
        let buffer = self.program.buffers.get(id).ok_or_else(|| format!("there is no {id}"))?;
        let known = buffer.ty.layout.mesh().device_bound() <= self.program.devices;
        let whole = buffer.offset.is_multiple_of(self.cell)
            && (buffer.slots == 1 || buffer.bytes.is_multiple_of(self.cell));
        let fits = known && whole && buffer.extent().end <= self.program.arena;
        if fits { Ok(buffer) } else { Err(format!("{id} does not fit")) }
    }

    fn spoil(&mut self, id: BufferId, stream: StreamId) -> Result<(), String> {
        let buffer = self.buffer(id)?;
        let start = Self::slot_start(buffer, &self.at);
        let cells = (start / self.cell) as usize..((start + buffer.bytes) / self.cell) as usize;
        let mesh = buffer.ty.layout.mesh().clone();
        for device in self.devices().filter(|&device| mesh.place_of(DeviceId::new(device)).is_some()) {
            self.push(device, stream, Work::Spoil(cells.clone()));
        }
        Ok(())
    }

    fn piece(&self, id: BufferId, device: usize, at: &At) -> Result<Option<Piece>, String> {
        let buffer = self.buffer(id)?;
        let held = buffer.ty.layout.piece_at_step(&buffer.ty.sizes(), DeviceId::new(device), at.steps());
        let Some(held) = held else { return Ok(None) };
        let (elements, size) = (volume(&held), buffer.ty.dtype.size());
        if let Some(of) = buffer.view {
            return self.part_of(id, &held, of, device, at).map(Some);
        }
        if elements.checked_mul(size).is_none_or(|bytes| bytes > buffer.bytes) {
            return Err(format!("{id} is too short"));
        }
        Ok(Some(Piece {
            buffer: id,
            start: (Self::slot_start(buffer, at) / self.cell) as usize,
            elements: elements as usize,
            width: (size / self.cell) as usize,
        }))
    }

    /// A view's piece in the piece of the buffer that it is a view of: element by element, they lie one after
    /// another.
    fn part_of(
        &self,
        view: BufferId,
        held: &[IndexSet],
        of: BufferId,
        device: usize,
        at: &At,
    ) -> Result<Piece, String> {
        let missing = || format!("device{device} does not hold {view} as one run of {of}");
        if self.buffer(of)?.view.is_some() || self.buffer(of)?.ty.dtype != self.buffer(view)?.ty.dtype {
            return Err(missing());
        }
        let whole = self.piece(of, device, at)?.ok_or_else(missing)?;
        let ty = &self.buffer(of)?.ty;
        let indices = ty.layout.piece_at_step(&ty.sizes(), DeviceId::new(device), at.steps());
        let elements = elements_of(&indices.unwrap_or_default());
        let part = elements_of(held);
        let first =
            part.first().map_or(Some(0), |first| elements.iter().position(|element| element == first));
        let first = first.filter(|&first| elements[first..].starts_with(&part)).ok_or_else(missing)?;
        Ok(Piece { buffer: view, start: whole.start + first * whole.width, elements: part.len(), ..whole })
    }

    fn compute(&mut self, compute: &Compute<BufferId>, stream: StreamId) -> Result<(), String> {
        let operands: Vec<BufferId> = compute.reads().collect();
        let sizes: Vec<u64> = compute.space.dims.values().map(|dim| dim.size).collect();
        for device in self.devices() {
            // Which part of the work it is, not at which step: a step that picks nothing repeats the work.
            let part = compute.over.piece_at_step(&sizes, DeviceId::new(device), self.at.steps());
            let Some(part) = part else { continue };
            let mut read = Vec::new();
            // What is combined with what steps before gave reads that as well.
            let begun = compute.combined_steps().filter(|(steps, _)| {
                steps.iter().any(|id| self.at.steps().get(id.index()).is_some_and(|&step| step > 0))
            });
            for id in operands.iter().copied().chain(begun.map(|_| compute.result)) {
                let Some(own) = self.piece(id, device, &self.at)? else { continue };
                let lent = self.lent.get(&id).map(|lent| lent.read_by(device, &own)).transpose()?;
                read.push(lent.map_or(Operand::Own(own), Operand::Lent));
            }
            let what = digest((compute.to_string(), format!("{part:?}"), device));
            self.push(device, stream, Work::Read(read, what));
            if let Some(piece) = self.piece(compute.result, device, &self.at)? {
                self.push(device, stream, Work::Write(piece));
            }
        }
        Ok(())
    }

    /// A device waits for those it will read from to have come to the move.
    fn lend(&mut self, lent: &Lent, stream: StreamId) {
        let here: Vec<usize> = self.devices().map(|device| self.done(device, stream)).collect();
        for device in self.devices() {
            let owners = self.devices().filter(|&owner| lent.reads(device, owner));
            let whom = owners.map(|owner| (self.lane(owner, stream), here[owner])).collect();
            self.push(device, stream, Work::Wait(whom));
        }
    }

    /// And at the end of the loan for those who read from it to have come there.
    fn end(&mut self, lent: &Lent, stream: StreamId) {
        let here: Vec<usize> = self.devices().map(|device| self.done(device, stream)).collect();
        for device in self.devices() {
            let readers = self.devices().filter(|&reader| lent.reads(reader, device));
            let whom = readers.map(|reader| (self.lane(reader, stream), here[reader])).collect();
            self.push(device, stream, Work::Wait(whom));
        }
    }

    /// A device waits before each round for those it reads from to have come there, and at the end for all
    /// who have read from it.
    fn meet(&mut self, stream: StreamId, rounds: Vec<Round>) {
        let here: Vec<usize> = self.devices().map(|device| self.done(device, stream)).collect();
        let lanes: Vec<usize> = self.devices().map(|device| self.lane(device, stream)).collect();
        let reads = |round: &Round, reader: usize, owner: usize| {
            reader != owner && round[reader].takes.iter().any(|take| take.from.device == owner)
        };
        let mut leaves: Vec<Vec<(usize, usize)>> = self.devices().map(|_| Vec::new()).collect();
        for (at, round) in rounds.into_iter().enumerate() {
            let mut waits = Vec::new();
            for device in self.devices() {
                let owners = self.devices().filter(|&owner| reads(&round, device, owner));
                waits.push(Work::Wait(owners.map(|owner| (lanes[owner], here[owner] + 2 * at)).collect()));
                let readers = self.devices().filter(|&reader| reads(&round, reader, device));
                leaves[device].extend(readers.map(|reader| (lanes[reader], here[reader] + 2 * at + 2)));
            }
            for (device, (taken, wait)) in round.into_iter().zip(waits).enumerate() {
                let nothing = taken.fill.is_none() && taken.takes.is_empty();
                self.push(device, stream, wait);
                self.push(device, stream, if nothing { Work::Wait(Vec::new()) } else { Work::Copy(taken) });
            }
        }
        for (device, leave) in leaves.into_iter().enumerate() {
            self.push(device, stream, Work::Wait(leave));
        }
    }
}
