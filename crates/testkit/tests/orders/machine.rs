//! A host program as a machine: what each lane, one stream of one device, does step by step, and a memory
//! of marks instead of numbers.
//!
//! ```text
//!  b2 <- all_gather b0 over tp       device 0, s0        device 1, s0
//!                                    wait until 1 is here ◀─▶ wait until 0 is here
//!                                    copy                copy
//!                                    wait until 1 copied ◀─▶ wait until 0 copied
//!  b3 <- linear(b2, b1)              read                read
//!                                    write               write
//! ```
//!
//! Every cell of a device's memory holds a mark of the element it is a part of. A computation marks its
//! result with a digest of all it reads; a move copies marks as [`fetches`] says. Reading and writing are
//! separate steps, and so are arriving at a move, each of its rounds, and leaving it, so that what races
//! shows as another mark or as a read of cells that nobody has written. An all_reduce has two rounds, as
//! executors run it: each member reduces a slice, then takes the slices of the others from where they were
//! made. What is lent nobody takes: computations read it with those who have it, and when the loan ends, these wait for
//! them.

use super::conflicts::Conflicts;
use super::memories::{Asked, MOST_DEVICES, Memories, MemoryId, Mixer, Went};
use super::moves::{How, Owner, Taken};
use shardweave_compiler::host::{BufferId, StreamId};
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::ops::Range;
use std::rc::Rc;

/// One program on all its devices.
pub struct Machine {
    lanes: Vec<Lane>,
    /// The actions as they come, loops unrolled.
    turns: Vec<String>,
    outputs: Vec<(usize, Piece)>,
    /// What the devices hold in the beginning.
    memory: Vec<Rc<[u64]>>,
    conflicts: Conflicts,
}

/// One stream of one device.
pub struct Lane {
    pub device: usize,
    pub stream: StreamId,
    pub steps: Vec<Step>,
}

/// One thing that a lane does.
pub struct Step {
    pub turn: usize,
    pub work: Work,
    /// The other devices whose memories it touches.
    others: Vec<usize>,
}

impl Step {
    pub fn new(turn: usize, work: Work) -> Step {
        let others = match &work {
            Work::Copy(Taken { takes, .. }) => takes.iter().map(|take| take.from.device).collect(),
            Work::Read(operands, _) => operands.iter().flat_map(Operand::lenders).collect(),
            _ => BTreeSet::new(),
        };
        Step { turn, work, others: others.into_iter().collect() }
    }
}

pub enum Work {
    /// Goes on when each of these lanes has done so many steps. It touches no memory.
    Wait(Vec<(usize, usize)>),
    /// A buffer's life begins or ends: its cells are undefined now.
    Spoil(Range<usize>),
    /// A computation reads all its operands; the digest is what it is.
    Read(Vec<Operand>, u64),
    /// And writes its result.
    Write(Piece),
    /// One round of a move.
    Copy(Taken),
}

/// What a computation reads.
pub enum Operand {
    /// A piece of the device's own.
    Own(Piece),
    /// Elements that lie with other devices or its own, in the order in which its piece would have them.
    Lent(Vec<Owner>),
}

impl Operand {
    fn lenders(&self) -> impl Iterator<Item = usize> {
        let owners = if let Operand::Lent(owners) = self { &owners[..] } else { &[] };
        owners.iter().map(|owner| owner.device)
    }
}

/// Elements one after another in the memory of a device.
#[derive(Clone, Debug)]
pub struct Piece {
    pub buffer: BufferId,
    pub start: usize,
    pub elements: usize,
    /// Cells of an element.
    pub width: usize,
}

/// Between two steps: how far each lane is, and what the memories hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct State {
    /// How many steps each lane has done; it stands at no wait that is over.
    pub at: Box<[u32]>,
    /// What the lane has read and will write.
    read: Box<[u64]>,
    /// By device. A cell is a mark, whether it is defined, and which cell of its element it is.
    memory: Box<[MemoryId]>,
}

impl State {
    /// The same as another state of this machine, in its own place.
    pub fn become_like(&mut self, other: &State) {
        self.at.copy_from_slice(&other.at);
        self.read.copy_from_slice(&other.read);
        self.memory.copy_from_slice(&other.memory);
    }
}

/// The bits of a cell that say which one of its element it is.
const PLACE: u64 = 0b0111;
const DEFINED: u64 = 0b1000;
/// A cell that nobody has written.
pub const UNDEFINED: u64 = 0;

pub fn digest(of: impl Hash) -> u64 {
    let mut hasher = Mixer::default();
    of.hash(&mut hasher);
    hasher.finish() & !PLACE | DEFINED
}

impl Machine {
    /// Lanes from this memory of each device on; their steps say which turn they belong to. Outputs are
    /// pieces with their devices.
    pub fn of(
        lanes: Vec<Lane>,
        turns: Vec<String>,
        memory: Vec<Vec<u64>>,
        outputs: Vec<(usize, Piece)>,
    ) -> Machine {
        let conflicts = Conflicts::new(&lanes, memory.len());
        Machine { lanes, turns, outputs, memory: memory.into_iter().map(Rc::from).collect(), conflicts }
    }

    pub fn start(&self, memories: &mut Memories) -> State {
        let mut start = State {
            at: vec![0; self.lanes.len()].into(),
            read: vec![0; self.lanes.len()].into(),
            memory: self.memory.iter().map(|cells| memories.number(cells.clone())).collect(),
        };
        self.pass_waits(&mut start);
        start
    }

    fn next(&self, state: &State, lane: usize) -> Option<&Step> {
        self.lanes[lane].steps.get(state.at[lane] as usize)
    }

    /// The lanes that can go on: those that do not stand at a wait.
    pub fn ready(&self, state: &State) -> Vec<usize> {
        let can =
            |lane: &usize| self.next(state, *lane).is_some_and(|step| !matches!(step.work, Work::Wait(_)));
        (0..self.lanes.len()).filter(can).collect()
    }

    /// One of these lanes, if its next step conflicts with nothing that the others can still do before it.
    ///
    /// Such a step may be taken as the only one, and no fault is lost. Take any order that goes on from
    /// here to a fault: a read of what is not written, a standstill, or two steps that can both be next and
    /// conflict. If the lane goes on in it, its first step there is this one, and can be moved to the front.
    /// If it does not, the step can still be taken at the end, so that is no standstill; nor is it one of
    /// the two that conflict. Taking it first changes nothing that the others see: the same order leads to
    /// the same fault after it. Either way fewer steps are left, so in the end the fault is come to.
    pub fn free(&self, state: &State, ready: &[usize]) -> Option<usize> {
        ready.iter().copied().find(|&lane| self.conflicts.is_free(&state.at, lane))
    }

    /// The lanes that are not at their end.
    pub fn unfinished(&self, state: &State) -> Vec<usize> {
        (0..self.lanes.len()).filter(|&lane| self.next(state, lane).is_some()).collect()
    }

    /// A lane that can go on does its next step; then every lane passes the waits that are over.
    ///
    /// Waits are no steps of an order: whether one is over depends only on how far lanes are, it stays so,
    /// and passing it touches no memory. So in any order it can be passed earlier, up to where it is over,
    /// and all steps that touch memory still come one after another as before.
    pub fn go(&self, memories: &mut Memories, state: &mut State, lane: usize) -> Result<(), String> {
        let step = self.next(state, lane).expect("the lane can go on");
        let device = self.lanes[lane].device;
        let mut touched = [MemoryId::default(); MOST_DEVICES];
        touched[device] = state.memory[device];
        for &other in &step.others {
            touched[other] = state.memory[other];
        }
        let asked = Asked { lane, at: state.at[lane], read: state.read[lane], memories: touched };
        let went = memories.went(asked, |memories| self.work(memories, state, lane, &step.work))?;
        state.read[lane] = went.read;
        state.memory[device] = went.memory;
        state.at[lane] += 1;
        self.pass_waits(state);
        Ok(())
    }

    /// What a step makes of what its lane has read, and of its device's memory.
    fn work(&self, memories: &mut Memories, state: &State, lane: usize, work: &Work) -> Result<Went, String> {
        let device = self.lanes[lane].device;
        let mut read = state.read[lane];
        let mut memory = memories.cells(state.memory[device]).clone();
        match work {
            Work::Wait(_) => unreachable!("who waits cannot go on"),
            Work::Spoil(cells) => Rc::make_mut(&mut memory)[cells.clone()].fill(UNDEFINED),
            Work::Read(operands, what) => {
                let of = |owner: &Owner| {
                    let own = owner.device == device;
                    let from = if own { &memory } else { memories.cells(state.memory[owner.device]) };
                    owner.piece.element(from, owner.element)
                };
                let marks = operands.iter().map(|operand| match operand {
                    Operand::Own(piece) => piece.read(&memory),
                    Operand::Lent(owners) => {
                        Ok(digest(owners.iter().map(of).collect::<Result<Vec<_>, _>>()?))
                    }
                });
                let marks: Result<Vec<u64>, String> = marks.collect();
                read = digest((what, marks.map_err(|why| self.undefined(lane, &why))?));
            }
            Work::Write(piece) => piece.write(Rc::make_mut(&mut memory), std::mem::take(&mut read)),
            Work::Copy(Taken { fill, takes }) => {
                if let Some(piece) = fill {
                    piece.write(Rc::make_mut(&mut memory), digest("identity"));
                }
                for take in takes {
                    let own = take.from.device == device;
                    let from = if own { &memory } else { memories.cells(state.memory[take.from.device]) };
                    let source = take.from.piece.element(from, take.from.element);
                    let mut mark = source.map_err(|why| self.undefined(lane, &why))?;
                    if take.how == How::Combine {
                        let before = take.to.element(&memory, take.at);
                        mark = digest((before.map_err(|why| self.undefined(lane, &why))?, mark));
                    }
                    take.to.put(Rc::make_mut(&mut memory), take.at, mark);
                }
            }
        }
        Ok(Went { read, memory: memories.number(memory) })
    }

    fn pass_waits(&self, state: &mut State) {
        loop {
            let over =
                (0..self.lanes.len()).find(|&lane| match self.next(state, lane).map(|step| &step.work) {
                    Some(Work::Wait(whom)) => {
                        whom.iter().all(|&(other, steps)| state.at[other] as usize >= steps)
                    }
                    _ => false,
                });
            let Some(lane) = over else { return };
            state.at[lane] += 1;
        }
    }

    /// A digest of all outputs.
    pub fn outputs(&self, memories: &Memories, state: &State) -> Result<u64, String> {
        let cells = |device: usize| memories.cells(state.memory[device]);
        let read = self.outputs.iter().map(|(device, piece)| piece.read(cells(*device)));
        Ok(digest(read.collect::<Result<Vec<u64>, String>>()?))
    }

    /// What a lane does next, as text.
    pub fn text(&self, lane: usize, at: u32) -> String {
        let Lane { device, steps, .. } = &self.lanes[lane];
        let step = &steps[at as usize];
        let what = match step.work {
            Work::Wait(_) => "waits at",
            Work::Spoil(_) => "does",
            Work::Read(..) => "reads for",
            Work::Write(_) => "writes for",
            Work::Copy(..) => "copies for",
        };
        format!("device{device} {what} `{}`", self.turns[step.turn])
    }

    fn undefined(&self, lane: usize, why: &str) -> String {
        let Lane { device, stream, .. } = &self.lanes[lane];
        format!("{why}, on {stream} of device{device}")
    }

    /// The first cell in which two memories differ.
    pub fn difference(&self, memories: &Memories, one: &State, other: &State) -> String {
        for (device, (&one, &other)) in one.memory.iter().zip(&other.memory).enumerate() {
            let [one, other] = [one, other].map(|id| memories.cells(id));
            if let Some(cell) = (0..one.len()).find(|&cell| one[cell] != other[cell]) {
                return format!("cell {cell} of device{device}");
            }
        }
        "what has been read".into()
    }
}

impl Piece {
    pub fn element(&self, memory: &[u64], element: usize) -> Result<u64, String> {
        let start = self.start + element * self.width;
        let cells = &memory[start..start + self.width];
        let mark = cells[0] & !PLACE;
        let whole = cells.iter().zip(0..).all(|(&cell, place)| cell == mark | place);
        if whole && mark & DEFINED != 0 {
            Ok(mark)
        } else {
            Err(format!("{} is read but not written", self.buffer))
        }
    }

    pub fn put(&self, memory: &mut [u64], element: usize, mark: u64) {
        let start = self.start + element * self.width;
        for (cell, place) in memory[start..start + self.width].iter_mut().zip(0..) {
            *cell = mark & !PLACE | place;
        }
    }

    fn read(&self, memory: &[u64]) -> Result<u64, String> {
        let marks = (0..self.elements).map(|element| self.element(memory, element));
        Ok(digest(marks.collect::<Result<Vec<u64>, String>>()?))
    }

    pub fn write(&self, memory: &mut [u64], mark: u64) {
        for element in 0..self.elements {
            self.put(memory, element, digest((mark, element)));
        }
    }
}
