//! The program as it runs: buffers with lifetimes and addresses, streams of instructions, events
//! between streams, loops.
//!
//! Instructions are enqueued on streams in program order. Within a stream they run one after another;
//! between streams only events order them. A device outside an instruction's mesh skips it.
//!
//! ```text
//! host mlp {
//!   devices 4, arena 384, streams 1, events 0
//!   mesh line { tp = 4 }
//!   b0 x: f32[s=8, e=4] at s/tp on line, argument, offset 0, bytes 64
//!   b1 w: f32[h=16, e=4] at h/tp on line, argument, offset 64, bytes 64
//!   b2 x: f32[s=8, e=4] at replicated on line, temporary, offset 128, bytes 128
//!   b3 y0: f32[s=8, h=16] at h/tp on line, result, offset 256, bytes 128
//!   input x = b0
//!   input w = b1
//!   s0: alloc b2
//!   s0: b2 <- all_gather b0 over tp group 4 because "linear needs all of s"
//!   s0: alloc b3
//!   s0: b3 <- linear(b2, b1) over h/tp on line
//!   s0: free b2
//!   output y0 = b3
//! }
//! ```
//!
//! Other lines are `s0: record e0`, `s1: wait e0`, and `loop i0 < 4 {` ... `}`. `#` starts a comment.
//!
//! A loop whose steps overlap is a pipeline of stages, parted by `then` ([`enqueue`]). A buffer that lives
//! in several stages has a slot for each step under way (`bytes 64, slots 2`: step `i` uses slot `i mod 2`),
//! and whoever takes a slot waits for the step that had it before (`s1: wait e1 back 2`: for the recording
//! two steps ago).
//!
//! A buffer can be a *view* of another one (`b4 y: f32[s=8, h=6] at s/step(4, i0), h/tp on line, view of b2`): it has no
//! bytes and no life of its own, and what computations read and write of it they read and write of that one. So
//! a step's rows are used where they lie.
//!
//! What a move puts into a buffer can be *lent* by the buffer that it moves (`b2 x: ..., bytes 128, lent by b0`): until the
//! buffer is freed nothing changes the one that lends, and only computations read the buffer, so whoever shares memory with
//! those that hold the lender's pieces may read them there and copy nothing. Others copy, as the text says.
//!
//! Invariants, proved by [`verify`] before anything runs: no two streams touch the same bytes without
//! an event between them unless both only read; nothing is read before it is written, nor after it is
//! freed; no two live buffers share bytes; everything allocated is freed, but for results; all members
//! of a group meet its moves in one order, so no device waits for ever even if nothing is buffered.

mod enqueue;
mod meshes;
mod parse;
mod print;
mod verified;
mod verify;

pub use crate::instr::Fault;
pub use enqueue::{At, Enqueued, Recorded, Recordings, Turn, Walk, enqueue};
pub use meshes::{MeshId, MeshPairs};
pub use parse::parse_host;
pub use verified::Verified;
pub use verify::verify;

use crate::id::{Table, id};
use crate::instr::{Compute, Move, TensorType};
use crate::layout::StepId;
use crate::placement::Overlap;
use std::ops::Range;

id! {
    /// A buffer of a host program.
    BufferId "b"
    /// An event: recorded on one stream, waited for on others.
    EventId "e"
    /// A stream: a queue of instructions.
    StreamId "s"
}

impl StreamId {
    /// The stream with that number.
    pub(crate) const fn of(number: u32) -> StreamId {
        StreamId(number)
    }
}

/// Every buffer starts at a multiple of so many bytes: a cache line, and enough for every element type.
pub const ALIGN: u64 = 64;

/// What a buffer is for.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Role {
    /// Holds an input; there before the program starts.
    Argument,
    /// Holds an input that stays bound between runs.
    Constant,
    /// Written by one run and read by the next.
    State,
    /// Lives inside the run.
    Temporary,
    /// Holds an output; there after the program ends.
    Result,
}

impl Role {
    /// Every role.
    pub const ALL: [Role; 5] = [Role::Argument, Role::Constant, Role::State, Role::Temporary, Role::Result];

    /// The spelling in the text form.
    pub fn name(self) -> &'static str {
        match self {
            Role::Argument => "argument",
            Role::Constant => "constant",
            Role::State => "state",
            Role::Temporary => "temporary",
            Role::Result => "result",
        }
    }

    /// The role of that name.
    pub fn from_name(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.name() == name)
    }

    /// Whether the buffer holds something before the program starts; it is then never allocated.
    pub fn is_given(self) -> bool {
        matches!(self, Role::Argument | Role::Constant | Role::State)
    }

    /// Whether a run may not write to the buffer.
    pub fn is_read_only(self) -> bool {
        matches!(self, Role::Argument | Role::Constant)
    }
}

/// A piece of every device's memory.
#[derive(Clone, PartialEq, Debug)]
pub struct Buffer {
    /// The name of the program's value it holds.
    pub name: String,
    /// Dims, stored type and layout: each device's piece is stored row-major.
    pub ty: TensorType,
    /// What it is for.
    pub role: Role,
    /// Where it starts in the device's arena, in bytes; the same on every device.
    pub offset: u64,
    /// How many bytes are set aside for a slot: the largest piece of any device at any step.
    pub bytes: u64,
    /// How many steps of its loop can hold one at once: slots, one after another. Step `i` uses slot
    /// `i mod slots`. 1 outside pipelines.
    pub slots: u64,
    /// The buffer in whose bytes it lies, if it has none of its own: what a device holds of it is one run of
    /// what the device holds of that one.
    pub view: Option<BufferId>,
    /// The buffer that lends what it holds, if this one need not be filled: whoever reads it may read that one
    /// instead, where it lies on the devices that the move takes it from.
    pub lender: Option<BufferId>,
}

impl Buffer {
    /// The bytes of all slots together.
    pub fn all_bytes(&self) -> u64 {
        self.bytes.saturating_mul(self.slots)
    }

    /// The bytes of the arena in which all slots lie.
    pub fn extent(&self) -> Range<u64> {
        self.offset..self.offset.saturating_add(self.all_bytes())
    }
}

/// One instruction.
#[derive(Clone, PartialEq, Debug)]
pub enum Action {
    /// The buffer's life begins; its content is undefined.
    Alloc(BufferId),
    /// The buffer's life ends.
    Free(BufferId),
    /// An operation on pieces.
    Compute(Compute<BufferId>),
    /// A value goes to another layout.
    Move(Move<BufferId>),
    /// The event happens when all before it on the stream is done.
    Record(EventId),
    /// What follows on the stream starts after the event's recording.
    Wait {
        /// Which event.
        event: EventId,
        /// How many steps ago ([`Recordings`]).
        back: u64,
    },
}

impl Action {
    /// The buffers that it reads.
    pub fn reads(&self) -> impl Iterator<Item = BufferId> {
        let (compute, moved) = match self {
            Action::Compute(compute) => (Some(compute), None),
            Action::Move(moved) => (None, Some(moved)),
            Action::Alloc(_) | Action::Free(_) | Action::Record(_) | Action::Wait { .. } => (None, None),
        };
        compute.into_iter().flat_map(Compute::reads).chain(moved.map(Move::reads))
    }

    /// The buffer that it writes.
    pub fn writes(&self) -> Option<BufferId> {
        match self {
            Action::Compute(compute) => Some(compute.writes()),
            Action::Move(moved) => Some(moved.writes()),
            Action::Alloc(_) | Action::Free(_) | Action::Record(_) | Action::Wait { .. } => None,
        }
    }

    /// The buffer whose life it begins or ends.
    pub fn bounds(&self) -> Option<BufferId> {
        match self {
            Action::Alloc(id) | Action::Free(id) => Some(*id),
            Action::Compute(_) | Action::Move(_) | Action::Record(_) | Action::Wait { .. } => None,
        }
    }
}

/// One entry of a host program.
#[derive(Clone, PartialEq, Debug)]
pub enum HostInstr {
    /// An action on a stream.
    On(StreamId, Action),
    /// The same for step after step.
    Loop(HostLoop),
}

impl HostInstr {
    /// How many actions the text has.
    pub fn action_count(&self) -> usize {
        match self {
            HostInstr::On(..) => 1,
            HostInstr::Loop(steps) => steps.stages.iter().flatten().map(HostInstr::action_count).sum(),
        }
    }
}

/// Steps one after another; every counter runs, the last one fastest.
#[derive(Clone, PartialEq, Debug)]
pub struct HostLoop {
    /// The step counters with their number of steps.
    pub counters: Vec<(StepId, u64)>,
    /// How communication is to run beside computation: what the passes go by.
    pub overlap: Overlap,
    /// What each step enqueues, stage after stage; the stages of one step are enqueued one turn apart
    /// ([`enqueue`]). There is at least one.
    pub stages: Vec<Vec<HostInstr>>,
}

impl HostLoop {
    /// Whether several steps can be under way at once: stages follow each other, or a wait looks back.
    pub fn is_pipeline(&self) -> bool {
        let looks_back =
            |instr: &HostInstr| matches!(instr, HostInstr::On(_, Action::Wait { back: 1.., .. }));
        self.stages.len() > 1 || self.stages.iter().flatten().any(looks_back)
    }

    /// How many steps all counters make together.
    pub fn step_count(&self) -> u64 {
        self.counters.iter().fold(1, |steps, (_, count)| steps.saturating_mul(*count))
    }

    /// Every counter at a step that is counted over all of them.
    pub fn at_step(&self, step: u64) -> impl Iterator<Item = (StepId, u64)> {
        at_step(&self.counters, step)
    }
}

/// Each of several counters, the last one fastest, at a step that is counted over all of them.
fn at_step(counters: &[(StepId, u64)], step: u64) -> impl Iterator<Item = (StepId, u64)> {
    let mut rest = step;
    counters.iter().rev().map(move |&(id, count)| {
        let at = rest % count.max(1);
        rest /= count.max(1);
        (id, at)
    })
}

/// A program ready to run.
#[derive(Clone, PartialEq, Debug)]
pub struct HostProgram {
    /// The program's name.
    pub name: String,
    /// All buffers.
    pub buffers: Table<BufferId, Buffer>,
    /// How many streams there are.
    pub streams: usize,
    /// How many events there are.
    pub events: usize,
    /// What to do.
    pub body: Vec<HostInstr>,
    /// The program's inputs, by name, in program order.
    pub inputs: Vec<(String, BufferId)>,
    /// The program's outputs, by name.
    pub outputs: Vec<(String, BufferId)>,
    /// Bytes of the arena of every device.
    pub arena: u64,
    /// How many devices a run has.
    pub devices: u64,
}

impl HostProgram {
    /// The buffer in whose bytes a buffer lies: itself, but for a view.
    pub fn home(&self, id: BufferId) -> BufferId {
        self.buffers.get(id).and_then(|buffer| buffer.view).unwrap_or(id)
    }

    /// All actions in the order they stand in the text; those of a loop once.
    pub fn actions(&self) -> Vec<(StreamId, &Action)> {
        fn collect<'a>(body: &'a [HostInstr], actions: &mut Vec<(StreamId, &'a Action)>) {
            for instr in body {
                match instr {
                    HostInstr::On(stream, action) => actions.push((*stream, action)),
                    HostInstr::Loop(steps) => steps.stages.iter().for_each(|body| collect(body, actions)),
                }
            }
        }
        let mut actions = Vec::new();
        collect(&self.body, &mut actions);
        actions
    }
}
