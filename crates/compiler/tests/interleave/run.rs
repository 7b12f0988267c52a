//! What the host verifier accepts is run, symbolically, in many orders: whatever order devices and
//! streams take, the outputs are the same, nothing undefined is read, and everybody comes to an end.
//!
//! Every byte of a device's arena holds a mark of the value it is a part of. A computation marks its
//! result with a digest of all it reads; a move copies marks as [`fetches`] says. Reading and writing
//! are separate turns, and so are arriving at a move, copying, and leaving it, so that what races shows
//! as another output or as a read of bytes that nobody has written.

use shardweave_compiler::host::{
    Action, At, Buffer, BufferId, Enqueued, HostProgram, Recorded, Recordings, StreamId, Walk, enqueue,
};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::{Arg, Compute, Move, TensorType};
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::transfer::{Fetch, fetches, identity_of};
use std::convert::Infallible;
use std::hash::{DefaultHasher, Hash, Hasher};

/// xorshift64*: small, and the same on every machine.
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    pub fn below(&mut self, bound: usize) -> usize {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 33) as usize % bound
    }
}

fn digest(of: impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    of.hash(&mut hasher);
    hasher.finish() | 1
}

/// An action of the unrolled program.
struct Task<'a> {
    stream: StreamId,
    action: &'a Action,
    at: At,
    /// For a wait: the task that recorded the event.
    waits: Recorded<usize>,
    /// For a move: what each device fetches.
    fetches: Vec<Vec<Fetch>>,
}

fn unroll(program: &HostProgram) -> Vec<Task<'_>> {
    let (mut tasks, mut recordings) = (Vec::new(), Recordings::new());
    let walked: Result<(), Infallible> = enqueue(&program.body, Walk::Every, &mut |enqueued| {
        let Enqueued { stream, action, at, .. } = *enqueued;
        let waits = match action {
            Action::Record(event) => {
                recordings.record(*event, at, tasks.len());
                Recorded::NotYet
            }
            Action::Wait { event, back } => match recordings.wait(*event, *back, at) {
                Recorded::There(&recorded) => Recorded::There(recorded),
                Recorded::NotYet => Recorded::NotYet,
                Recorded::Never => Recorded::Never,
            },
            _ => Recorded::NotYet,
        };
        let fetches = match action {
            Action::Move(moved) => fetches_of(program, moved, &steps(at)),
            _ => Vec::new(),
        };
        tasks.push(Task { stream, action, at: at.clone(), waits, fetches });
        Ok(())
    });
    let Ok(()) = walked;
    tasks
}

fn fetches_of(program: &HostProgram, moved: &Move<BufferId>, steps: &[u64]) -> Vec<Vec<Fetch>> {
    let [source, target] = [moved.source, moved.target].map(|id| &program.buffers[id].ty);
    let devices = (0..program.devices as usize).map(DeviceId::new);
    devices.map(|device| fetches(source, target, device, steps)).collect()
}

/// Where a lane, one stream of one device, stands in its current task.
#[derive(Clone, PartialEq)]
enum Phase {
    Start,
    /// A computation has read; this is what it will write.
    Read(u64),
    /// At a move: the device has arrived, and then has copied.
    Arrived,
    Copied,
}

struct Lane {
    device: DeviceId,
    stream: StreamId,
    /// The tasks of the stream.
    tasks: Vec<usize>,
    at: usize,
    phase: Phase,
}

/// A run in one order. An `Err` says what went wrong.
struct Run<'a> {
    program: &'a HostProgram,
    tasks: &'a [Task<'a>],
    lanes: Vec<Lane>,
    /// By device and byte: the mark of the element, and which of its bytes it is. Mark 0: undefined.
    memory: Vec<Vec<(u64, u8)>>,
    garbage: u64,
}

impl<'a> Run<'a> {
    fn new(program: &'a HostProgram, tasks: &'a [Task<'a>]) -> Run<'a> {
        let mut lanes = Vec::new();
        for device in (0..program.devices as usize).map(DeviceId::new) {
            for stream in (0..program.streams).map(StreamId::new) {
                let own = (0..tasks.len()).filter(|&task| tasks[task].stream == stream).collect();
                lanes.push(Lane { device, stream, tasks: own, at: 0, phase: Phase::Start });
            }
        }
        let memory = vec![vec![(0, 0); program.arena as usize]; program.devices as usize];
        let mut run = Run { program, tasks, lanes, memory, garbage: 0 };
        for (id, buffer) in program.buffers.iter().filter(|(_, buffer)| buffer.role.is_given()) {
            for device in buffer.ty.layout.mesh().devices() {
                run.write_piece(id, device, &At::outside(), digest(("given", id.index(), device.index())));
            }
        }
        run
    }

    /// Runs to the end, each turn with a lane that `choose` picks among those that can go on.
    fn finish(mut self, choose: &mut dyn FnMut(usize) -> usize) -> Result<u64, String> {
        loop {
            let ready: Vec<usize> = (0..self.lanes.len()).filter(|&lane| self.can_go(lane)).collect();
            if ready.is_empty() {
                break;
            }
            self.go(ready[choose(ready.len())])?;
        }
        if let Some(lane) = self.lanes.iter().find(|lane| lane.at < lane.tasks.len()) {
            let action = self.tasks[lane.tasks[lane.at]].action;
            return Err(format!("{} of {} waits for ever at {action}", lane.stream, lane.device));
        }
        let mut outputs = Vec::new();
        for (_, id) in &self.program.outputs {
            for device in self.program.buffers[*id].ty.layout.mesh().devices() {
                outputs.push(self.read_piece(*id, device, &At::outside())?);
            }
        }
        Ok(digest(outputs))
    }

    fn task_of(&self, lane: usize) -> Option<(usize, &'a Task<'a>)> {
        let lane = &self.lanes[lane];
        let task = *lane.tasks.get(lane.at)?;
        Some((task, &self.tasks[task]))
    }

    /// Whether a device has come to a task on its stream, or to a later phase of it.
    fn has_reached(&self, device: DeviceId, task: usize, phase: &Phase) -> bool {
        let stream = self.tasks[task].stream;
        let lane = &self.lanes[device.index() * self.program.streams + stream.index()];
        match lane.tasks.get(lane.at) {
            Some(&at) if at == task => match phase {
                Phase::Copied => lane.phase == Phase::Copied,
                _ => lane.phase == Phase::Arrived || lane.phase == Phase::Copied,
            },
            Some(&at) => at > task,
            None => true,
        }
    }

    fn can_go(&self, lane: usize) -> bool {
        let Some((number, task)) = self.task_of(lane) else { return false };
        let device = self.lanes[lane].device;
        match (task.action, &self.lanes[lane].phase) {
            (Action::Wait { .. }, _) => match task.waits {
                Recorded::There(record) => self.is_done(device, record),
                Recorded::NotYet => true,
                Recorded::Never => false,
            },
            (Action::Move(_), Phase::Arrived) => {
                let mut sources = task.fetches[device.index()].iter();
                sources.all(|fetch| self.has_reached(fetch.from, number, &Phase::Arrived))
            }
            (Action::Move(_), Phase::Copied) => task.fetches.iter().enumerate().all(|(other, fetches)| {
                let reads = fetches.iter().any(|fetch| fetch.from == device);
                !reads || self.has_reached(DeviceId::new(other), number, &Phase::Copied)
            }),
            _ => true,
        }
    }

    fn is_done(&self, device: DeviceId, task: usize) -> bool {
        let stream = self.tasks[task].stream;
        let lane = &self.lanes[device.index() * self.program.streams + stream.index()];
        lane.tasks.get(lane.at).is_none_or(|&at| at > task)
    }

    fn go(&mut self, lane: usize) -> Result<(), String> {
        let (_, task) = self.task_of(lane).expect("the lane can go on");
        let device = self.lanes[lane].device;
        let phase = self.lanes[lane].phase.clone();
        let next = match (task.action, phase) {
            (Action::Alloc(id) | Action::Free(id), _) => {
                self.spoil(*id, device, &task.at);
                None
            }
            (Action::Compute(compute), Phase::Start) => {
                self.read_operands(compute, device, task)?.map(Phase::Read)
            }
            (Action::Compute(compute), Phase::Read(mark)) => {
                self.write_piece(compute.result, device, &task.at, mark);
                None
            }
            (Action::Move(_), Phase::Start) => Some(Phase::Arrived),
            (Action::Move(moved), Phase::Arrived) => {
                self.copy(moved, device, task)?;
                Some(Phase::Copied)
            }
            _ => None,
        };
        let lane = &mut self.lanes[lane];
        lane.at += usize::from(next.is_none());
        lane.phase = next.unwrap_or(Phase::Start);
        Ok(())
    }

    /// `None` if the device does not take part.
    fn read_operands(
        &self,
        compute: &Compute<BufferId>,
        device: DeviceId,
        task: &Task<'_>,
    ) -> Result<Option<u64>, String> {
        if compute.over.mesh().place_of(device).is_none() {
            return Ok(None);
        }
        let mut read = Vec::new();
        for operand in &compute.operands {
            if let Arg::Value(id) = operand {
                read.push(self.read_piece(*id, device, &task.at)?);
            }
        }
        // Which part of the work it is, not at which step: a step that picks nothing repeats the work.
        let sizes: Vec<u64> = compute.space.dims.values().map(|dim| dim.size).collect();
        let part = compute.over.piece_at_step(&sizes, device, &steps(&task.at));
        Ok(Some(digest((compute.to_string(), format!("{part:?}"), device.index(), read))))
    }

    fn copy(&mut self, moved: &Move<BufferId>, device: DeviceId, task: &Task<'_>) -> Result<(), String> {
        let [source, target] = [moved.source, moved.target].map(|id| self.program.buffers[id].ty.clone());
        if identity_of(&source, &target, device).is_some() {
            self.write_piece(moved.target, device, &task.at, digest("identity"));
        }
        for fetch in &task.fetches[device.index()] {
            for (from, to) in pairs(fetch, &source, &target, device, &steps(&task.at)) {
                let mark = self.read_element(moved.source, fetch.from, from, &task.at)?;
                let mark = match fetch.part {
                    0 => mark,
                    _ => digest((self.read_element(moved.target, device, to, &task.at)?, mark)),
                };
                self.write_element(moved.target, device, to, &task.at, mark);
            }
        }
        Ok(())
    }

    fn element_range(&self, id: BufferId, element: u64, at: &At) -> std::ops::Range<usize> {
        let buffer = &self.program.buffers[id];
        let size = buffer.ty.dtype.size();
        let start = (slot_start(buffer, at) + element * size) as usize;
        start..start + size as usize
    }

    fn read_element(&self, id: BufferId, device: DeviceId, element: u64, at: &At) -> Result<u64, String> {
        let bytes = &self.memory[device.index()][self.element_range(id, element, at)];
        let mark = bytes[0].0;
        let whole = bytes.iter().zip(0..).all(|(&byte, at)| byte == (mark, at));
        if whole && mark % 2 == 1 {
            Ok(mark)
        } else {
            Err(format!("{id} is read on {device} but not written"))
        }
    }

    fn write_element(&mut self, id: BufferId, device: DeviceId, element: u64, at: &At, mark: u64) {
        let range = self.element_range(id, element, at);
        for (byte, at) in self.memory[device.index()][range].iter_mut().zip(0..) {
            *byte = (mark, at);
        }
    }

    fn elements(&self, id: BufferId, device: DeviceId, at: &At) -> u64 {
        let ty = &self.program.buffers[id].ty;
        let piece = ty.layout.piece_at_step(&ty.sizes(), device, &steps(at));
        piece.map_or(0, |piece| piece.iter().map(IndexSet::count).product())
    }

    fn read_piece(&self, id: BufferId, device: DeviceId, at: &At) -> Result<u64, String> {
        let elements = 0..self.elements(id, device, at);
        let marks: Result<Vec<u64>, String> =
            elements.map(|e| self.read_element(id, device, e, at)).collect();
        Ok(digest(marks?))
    }

    fn write_piece(&mut self, id: BufferId, device: DeviceId, at: &At, mark: u64) {
        for element in 0..self.elements(id, device, at) {
            self.write_element(id, device, element, at, digest((mark, element)));
        }
    }

    /// Marks all bytes of a buffer as undefined, on the devices that hold it.
    fn spoil(&mut self, id: BufferId, device: DeviceId, at: &At) {
        let buffer = &self.program.buffers[id];
        if buffer.ty.layout.mesh().place_of(device).is_some() {
            self.garbage += 2;
            let start = slot_start(buffer, at);
            let range = start as usize..(start + buffer.bytes) as usize;
            self.memory[device.index()][range].fill((self.garbage, 0));
        }
    }
}

/// By step id the running steps. Programs that the verifier refuses name steps that do not run.
fn steps(at: &At) -> Vec<u64> {
    let mut steps = at.steps().to_vec();
    steps.resize(steps.len().max(4), 0);
    steps
}

/// Where the slot of the running step starts.
fn slot_start(buffer: &Buffer, at: &At) -> u64 {
    buffer.offset + at.slot(buffer.slots) * buffer.bytes
}

/// The elements that a fetch copies: their places in the source's and in the target's piece.
fn pairs(
    fetch: &Fetch,
    source: &TensorType,
    target: &TensorType,
    device: DeviceId,
    steps: &[u64],
) -> Vec<(u64, u64)> {
    let extents = |ty: &TensorType, device| -> Vec<u64> {
        let piece = ty.layout.piece_at_step(&ty.sizes(), device, steps).unwrap_or_default();
        piece.iter().map(IndexSet::count).collect()
    };
    let (from, to) = (extents(source, fetch.from), extents(target, device));
    let mut pairs = vec![(0, 0)];
    for (dim, runs) in fetch.runs.iter().enumerate() {
        let indices = runs.iter().flat_map(|run| (0..run.len).map(|i| (run.at_first + i, run.at_second + i)));
        let indices: Vec<(u64, u64)> = indices.collect();
        pairs = pairs
            .iter()
            .flat_map(|&(a, b)| indices.iter().map(move |&(x, y)| (a, b, x, y)))
            .map(|(a, b, x, y)| (a * from[dim] + x, b * to[dim] + y))
            .collect();
    }
    pairs
}

/// Runs a program in its own order and in random ones. The marks of its outputs; an `Err` says what
/// depends on the order.
pub fn same_in_every_order(program: &HostProgram, orders: u64) -> Result<u64, String> {
    let tasks = unroll(program);
    let own = Run::new(program, &tasks).finish(&mut |_| 0)?;
    for seed in 0..orders {
        let mut random = Random::new(seed + 1);
        // Some orders let one lane run far ahead of the others.
        let favourite = random.below(4);
        let mut choose = |ready: usize| match favourite {
            0 => ready - 1,
            1 if random.below(8) > 0 => 0,
            _ => random.below(ready),
        };
        let other = Run::new(program, &tasks)
            .finish(&mut choose)
            .map_err(|wrong| format!("order {seed}: {wrong}"))?;
        if other != own {
            return Err(format!("order {seed} gives other outputs"));
        }
    }
    Ok(own)
}
