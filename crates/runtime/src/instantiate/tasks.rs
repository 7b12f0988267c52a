//! What each device does, one thing after another: the form that executors run.
//!
//! A *lane* plays one device, or one stream of a device where streams run beside each other. Lanes
//! meet at *ticks*, which count up in program order and are the same on all lanes: one lane publishes a
//! tick, others wait until it has. Nothing else orders lanes.

use super::runs::Runs;
use crate::arena::Reach;
use crate::engine::Form;
use crate::kernels::Pieces;
use crate::meet::Tick;
use shardweave_compiler::dtype::{Combine, DType, Number};
use shardweave_compiler::host::{BufferId, StreamId};
use shardweave_compiler::id::{Id, Table, id};
use shardweave_compiler::instr::{Compute, Kind};
use shardweave_compiler::mesh::DeviceId;
use std::ops::Range;
use std::sync::Arc;

id! {
    /// A lane.
    LaneId "lane"
    /// An instruction of the host program, counted in the order of its text.
    InstrId "instr"
    /// One time that an instruction runs: loops unrolled, counted in program order.
    TurnId "turn"
    /// A constant that a device keeps packed from run to run.
    PackedConstantId "packed"
}

/// Everything that a run does.
#[derive(Debug)]
pub struct Tasks {
    /// All lanes, those of one device next to each other, devices in order.
    pub lanes: Table<LaneId, Lane>,
    /// The instructions of the program.
    pub instrs: Table<InstrId, Instr>,
    /// Which instruction runs when, and at which steps.
    pub turns: Table<TurnId, Turn>,
    /// For each device of the run whether it holds anything.
    pub used: Vec<bool>,
    /// Bytes of one device's arena.
    pub arena: usize,
    /// The same with the packed operands that lie above the buffers.
    pub packed_arena: usize,
    /// Which bytes of it other processes reach: what ranks of one host read of each other.
    pub reach: Reach,
    /// How many constants are kept packed, on all devices.
    pub packed_constants: usize,
    /// The last tick.
    pub last_tick: Tick,
}

/// What one lane does.
#[derive(Debug)]
pub struct Lane {
    /// The device that the lane plays.
    pub device: DeviceId,
    /// The stream of the device; none if the lane runs all of them, in program order.
    pub stream: Option<StreamId>,
    /// What it does, in order.
    pub tasks: Vec<Task>,
}

/// An instruction, as messages and recordings name it.
#[derive(Clone, Debug)]
pub struct Instr {
    /// As it stands in the host program.
    pub text: String,
    /// In short, as the program names it: `linear y`, `all_gather x`; an event's id where streams meet.
    pub name: String,
    /// The stream it is enqueued on.
    pub stream: StreamId,
    /// The program's value that it makes a part of, if it makes anything.
    pub value: Option<String>,
    /// The pattern, if it is a move.
    pub kind: Option<Kind>,
}

/// One time that an instruction runs.
#[derive(Clone, Debug)]
pub struct Turn {
    /// Which instruction.
    pub instr: InstrId,
    /// The running step of each loop around it, outermost first.
    pub steps: Box<[u64]>,
}

/// One thing that a lane does.
#[derive(Debug)]
pub struct Task {
    /// What it is a part of.
    pub turn: TurnId,
    /// What to do.
    pub work: Work,
}

/// What a task does.
#[derive(Debug)]
pub enum Work {
    /// Computes on the device's own pieces.
    Kernel(Box<Kernel>),
    /// Takes elements from pieces of its own and of other devices.
    Copy(Box<Copy>),
    /// Takes nothing: what would be taken is lent, and kernels read it where it lies.
    Borrow(Box<Copy>),
    /// Exchanges bytes with ranks whose memory is not shared.
    Exchange(Box<Messages>),
    /// Tells that all before it is done.
    Publish(Tick),
    /// Goes on when all of these lanes have published the tick.
    Wait(Box<[LaneId]>, Tick),
}

/// An operation on pieces.
#[derive(Debug)]
pub struct Kernel {
    /// Which operation, and its space.
    pub compute: Arc<Compute<BufferId>>,
    /// What the device holds of the space, and how the pieces lie.
    pub pieces: Pieces,
    /// The operands, in order.
    pub operands: Box<[Operand]>,
    /// Where the result goes.
    pub result: Piece,
    /// How the result is combined with what steps before gave; none if it replaces what is there.
    pub onto: Option<Combine>,
    /// The operand that is packed once for several turns, if there is one.
    pub packed: Option<Packed>,
}

/// An operand of a product in the order in which it is multiplied with.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Packed {
    /// Which operand.
    pub operand: usize,
    /// Its bytes, above those of all buffers. Where the arena does not reach so far, nothing is packed.
    pub region: Range<usize>,
    /// Who packs it.
    pub made: Made,
}

/// Who packs an operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Made {
    /// The kernel itself.
    Here,
    /// A kernel before it in the same lane, in every run.
    Before,
    /// The kernel itself, in the first run since constants were bound.
    Once(PackedConstantId),
}

/// What an operation reads.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A piece in a device's arena: its own, or that of one that lends it.
    Piece(DeviceId, Piece),
    /// A number, which takes the given type first.
    Number(Number, DType),
}

/// A dense piece in an arena.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Its bytes in the arena.
    pub region: Range<usize>,
    /// How its elements are stored.
    pub dtype: DType,
}

/// What one device takes in a move, in this order.
#[derive(Debug)]
pub struct Copy {
    /// How elements are stored, at both ends.
    pub dtype: DType,
    /// Bytes that are filled with the identity of an operator first: parts of a partial value that
    /// hold nothing of it.
    pub fill: Option<(Combine, Range<usize>)>,
    /// How the parts of a transfer are combined; none if nothing is reduced.
    pub combine: Option<Combine>,
    /// What is taken.
    pub transfers: Box<[Transfer]>,
}

/// Elements that one device takes: from one piece, or from several that are combined.
#[derive(Debug)]
pub struct Transfer {
    /// The parts, in the order in which they are combined. There is at least one.
    pub parts: Box<[Part]>,
    /// What they meet in the target.
    pub onto: Onto,
    /// Where the target piece starts in the arena of the device.
    pub target: usize,
    /// Which bytes of each source piece go to which bytes of the target piece.
    pub runs: Runs,
}

/// What parts do to what a target holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Onto {
    /// The first replaces it.
    Nothing,
    /// All are combined with it: parts of the same elements came before.
    Earlier,
}

/// A source piece.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Part {
    /// Whose it is.
    pub from: DeviceId,
    /// Where it starts.
    pub source: usize,
    /// Where it lies.
    pub lies: Lies,
}

/// Where a source piece lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lies {
    /// In the arena of the device whose it is: the runs say what is taken of it.
    InArena,
    /// In what was received: what is taken, and nothing else, one run behind the other.
    InMail,
}

/// What a rank exchanges with others at a time. See [`messages`](super::messages).
#[derive(Debug)]
pub struct Messages {
    /// The stream, and the form and the members of the exchange, as the engine is told.
    pub stream: usize,
    pub form: Form,
    pub members: Box<[usize]>,
    /// The most bytes that one member sends or receives.
    pub most: usize,
    /// How elements are stored, at all ends.
    pub dtype: DType,
    /// Bytes that are filled with the identity of an operator first.
    pub fill: Option<(Combine, Range<usize>)>,
    /// What is put together before it is sent.
    pub packs: Box<[Pack]>,
    /// To whom what is sent.
    pub sends: Box<[(usize, Spot)]>,
    /// How many bytes are put together before they are sent.
    pub packed: usize,
    /// From whom what is received.
    pub receives: Box<[(usize, Spot)]>,
    /// How many bytes are received that do not go straight to where they belong.
    pub mail: usize,
    /// What is done with what was received, and with own pieces.
    pub copy: Option<Copy>,
    /// What is taken of others, in bytes.
    pub taken: Box<[(DeviceId, usize)]>,
}

/// Stretches of the own arena, put one behind the other.
#[derive(Debug)]
pub struct Pack {
    /// Where in the bytes that are put together.
    pub at: usize,
    /// What.
    pub chunks: Box<[Chunk]>,
}

/// Bytes of a piece.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Chunk<R = Runs> {
    /// Where the piece starts in the arena.
    pub source: usize,
    /// Which of its bytes: a [`Runs`], or a reference to one.
    pub runs: R,
}

/// Where the bytes of a message lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Spot {
    /// In the own arena.
    Arena(Range<usize>),
    /// In what is put together, or in what is received, to be taken apart.
    Mail(Range<usize>),
}

impl Copy {
    /// The devices that elements are taken from, the device itself perhaps among them, with bytes.
    pub fn sources(&self) -> impl Iterator<Item = (DeviceId, usize)> {
        let of = |transfer: &'_ Transfer| transfer.runs.bytes();
        self.transfers.iter().flat_map(move |t| t.parts.iter().map(move |part| (part.from, of(t))))
    }
}

impl Tasks {
    /// The device of a lane, if the lane is the first of those that play it.
    pub fn first_of_device(&self, lane: LaneId) -> Option<DeviceId> {
        let device = self.lanes[lane].device;
        let before = lane.index().checked_sub(1).map(|before| self.lanes[LaneId::new(before)].device);
        (before != Some(device)).then_some(device)
    }

    /// The stream on which an instruction is enqueued.
    pub fn stream(&self, turn: TurnId) -> StreamId {
        self.instrs[self.turns[turn].instr].stream
    }

    /// An instruction at its steps, for messages.
    pub fn turn_text(&self, turn: TurnId) -> String {
        let Turn { instr, steps } = &self.turns[turn];
        let Instr { text, value, .. } = &self.instrs[*instr];
        let value = value.as_ref().map(|value| format!(", for `{value}`")).unwrap_or_default();
        let steps: Vec<String> = steps.iter().map(u64::to_string).collect();
        let steps = if steps.is_empty() { String::new() } else { format!(", in step {}", steps.join(", ")) };
        format!("`{text}`{value}{steps}")
    }
}
