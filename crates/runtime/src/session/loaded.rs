//! A program that is loaded: its tasks, and where its inputs and outputs lie on every device.

use crate::arena::{ALIGNMENT, Kept, Reach, Whose};
use crate::array::{ArrayType, Gather, Holds};
use crate::engine::Place;
use crate::execute::RunError;
use crate::instantiate::{
    Buffers, Held, InstantiateError, Lending, Streams, Tasks, instantiate, share_bytes,
};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{At, Buffer, BufferId, HostProgram, Role, Verified};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::TensorType;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use std::ops::Range;
use std::sync::Arc;

/// A program that can run. Immutable; shared by all threads.
pub(crate) struct LoadedProgram {
    pub tasks: Arc<Tasks>,
    pub inputs: Vec<Feed>,
    pub outputs: Vec<Drain>,
    /// Bytes of all outputs as whole arrays.
    pub output_bytes: u64,
    /// The first bytes of the arena, which constants alone use: they can stay for other plans.
    pub kept: usize,
    /// Where the constants lie in them.
    constants: Vec<Range<usize>>,
}

/// Where an input goes.
pub(crate) struct Feed {
    pub name: String,
    pub ty: ArrayType,
    pub role: Role,
    /// Whether a run leaves the bytes as they were bound.
    pub after: AfterRun,
    /// By device number; none if the device is not in the input's mesh.
    pub pieces: Vec<Option<FeedPiece>>,
}

/// What a run does to the bytes of an input.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum AfterRun {
    /// Nothing: the next run finds them as they were bound.
    Kept,
    /// Their memory is used for something else.
    Overwritten,
}

/// A device's piece of an input.
pub(crate) struct FeedPiece {
    pub region: Range<usize>,
    pub holds: Holds,
}

/// Where an output comes from.
pub(crate) struct Drain {
    pub name: String,
    pub ty: ArrayType,
    /// How its pieces make the whole.
    pub gather: Gather,
    /// Where each device's piece lies, by device number; none if the device is not in the output's mesh.
    pub regions: Vec<Option<Range<usize>>>,
}

/// Says the element type of an input or output as a whole; a host program alone does not know it, for
/// partial values of half types are stored as `f32`.
pub(crate) type DTypeOf<'a> = &'a dyn Fn(&str) -> Option<DType>;

impl LoadedProgram {
    /// Loads a program.
    pub fn new(
        host: &Verified,
        streams: Streams,
        lending: Lending,
        place: Option<&Place>,
        dtype_of: DTypeOf<'_>,
    ) -> Result<LoadedProgram, RunError> {
        let tasks = instantiate(host, streams, lending, place).map_err(RunError::from)?;
        let buffers = Buffers::new(host)?;
        let written = written_buffers(host);
        let extent = |buffer: BufferId| host.buffers[buffer].extent();
        let overwritten =
            |buffer: BufferId| written.iter().any(|&other| share_bytes(&extent(buffer), &extent(other)));
        let mut inputs = Vec::new();
        for (name, buffer) in &host.inputs {
            let after = if overwritten(*buffer) { AfterRun::Overwritten } else { AfterRun::Kept };
            inputs.push(feed(name, *buffer, host, &buffers, after, dtype_of)?);
        }
        let mut outputs = Vec::new();
        let mut output_bytes: u64 = 0;
        for (name, buffer) in &host.outputs {
            let drain = drain(name, *buffer, host, &buffers, dtype_of)?;
            output_bytes = output_bytes.saturating_add(drain.gather.bytes() as u64);
            outputs.push(drain);
        }
        let constants = constants_apart(host);
        let end = constants.iter().map(|extent| extent.end).max().unwrap_or(0);
        let kept = end.next_multiple_of(ALIGNMENT);
        Ok(LoadedProgram { tasks: Arc::new(tasks), inputs, outputs, output_bytes, kept, constants })
    }

    /// Whether constants may stay where they are: where others reach them in a run of this program, they can.
    pub fn can_keep(&self, kept: &Kept) -> bool {
        let has = |extent: &Range<usize>| {
            kept.reach().holds(extent) && (kept.reach().touches(extent) || !self.tasks.reach.touches(extent))
        };
        kept.bytes() == self.kept && self.constants.iter().all(has)
    }

    /// What it keeps in place of that: others go on to reach what they have reached.
    pub fn keeps_instead(&self, before: &Kept) -> Kept {
        let reached = |extent: &Range<usize>| {
            self.tasks.reach.touches(extent) || before.bytes() == self.kept && before.reach().touches(extent)
        };
        let whose = |extent: &Range<usize>| if reached(extent) { Whose::Reached } else { Whose::Own };
        let extents = self.constants.iter().map(|extent| (extent.clone(), whose(extent)));
        Kept::new(self.kept, Reach::of(extents))
    }

    /// How many of the devices hold anything.
    pub fn device_count(&self, is_counted: impl Fn(usize) -> bool) -> u64 {
        let used = self.tasks.used.iter().enumerate().filter(|(_, used)| **used);
        used.filter(|(device, _)| is_counted(*device)).count() as u64
    }
}

impl From<InstantiateError> for RunError {
    fn from(error: InstantiateError) -> RunError {
        match error {
            InstantiateError::TooLarge(what) => RunError::TooLarge(what),
            InstantiateError::Broken(_) => RunError::Broken(error.to_string()),
        }
    }
}

/// A device's piece of a buffer outside any loop.
fn held(buffers: &Buffers<'_>, buffer: BufferId, device: usize) -> Result<Option<Held>, InstantiateError> {
    buffers.held(buffer, DeviceId::new(device), &At::outside())
}

fn feed(
    name: &str,
    buffer: BufferId,
    host: &HostProgram,
    buffers: &Buffers<'_>,
    after: AfterRun,
    dtype_of: DTypeOf<'_>,
) -> Result<Feed, RunError> {
    let ty = array_type(name, buffers.ty(buffer)?, dtype_of)?;
    let piece = |device: usize| -> Result<Option<FeedPiece>, RunError> {
        let Some(held) = held(buffers, buffer, device)? else { return Ok(None) };
        let holds = Holds::of(&ty, DeviceId::new(device));
        Ok(holds.map(|holds| FeedPiece { region: held.piece.region, holds }))
    };
    let pieces = (0..host.devices as usize).map(piece).collect::<Result<_, _>>()?;
    Ok(Feed { name: name.to_string(), role: host.buffers[buffer].role, after, pieces, ty })
}

fn drain(
    name: &str,
    buffer: BufferId,
    host: &HostProgram,
    buffers: &Buffers<'_>,
    dtype_of: DTypeOf<'_>,
) -> Result<Drain, RunError> {
    let ty = array_type(name, buffers.ty(buffer)?, dtype_of)?;
    let region = |device| Ok(held(buffers, buffer, device)?.map(|held| held.piece.region));
    let regions = (0..host.devices as usize).map(region).collect::<Result<_, RunError>>()?;
    let shape = ty.sizes();
    let whole: Vec<IndexSet> = shape.iter().map(|&size| IndexSet::range(0, size)).collect();
    let gather = Gather::new(&ty, &whole);
    let gather =
        gather.ok_or_else(|| RunError::TooLarge(format!("output `{name}` of {shape:?} elements")))?;
    Ok(Drain { name: name.to_string(), ty, gather, regions })
}

/// The type of an input or output as an array. Half types may be stored wide, nothing else differs.
fn array_type(name: &str, stored: &TensorType, dtype_of: DTypeOf<'_>) -> Result<ArrayType, RunError> {
    let dtype = dtype_of(name).unwrap_or(stored.dtype);
    if stored.dtype != dtype && stored.dtype != dtype.wide() {
        return Err(RunError::Broken(format!("`{name}` of type {dtype} is stored as {}", stored.dtype)));
    }
    Ok(ArrayType::of_value(dtype, stored.clone()))
}

impl Feed {
    /// Whether both are constants of one type in one place.
    pub fn is_where(&self, other: &Feed) -> bool {
        let start = |feed: &Feed| feed.pieces.iter().flatten().map(|piece| piece.region.start).next();
        let constant = |feed: &Feed| feed.role == Role::Constant;
        constant(self) && constant(other) && start(self) == start(other) && self.ty == other.ty
    }
}

/// Where the constants lie, if all other buffers lie above them; else none is kept apart.
fn constants_apart(host: &HostProgram) -> Vec<Range<usize>> {
    let (constants, others): (Vec<&Buffer>, Vec<&Buffer>) =
        host.buffers.values().partition(|buffer| buffer.role == Role::Constant);
    let end = constants.iter().map(|buffer| buffer.extent().end).max().unwrap_or(0);
    let apart = others.iter().all(|buffer| buffer.bytes == 0 || buffer.offset >= end);
    // A verified buffer lies in the arena, which fits in memory.
    let extent = |buffer: &&Buffer| buffer.extent().start as usize..buffer.extent().end as usize;
    constants.iter().filter(|_| apart).map(extent).collect()
}

/// The buffers that some instruction writes.
fn written_buffers(host: &HostProgram) -> Vec<BufferId> {
    host.actions().into_iter().filter_map(|(_, action)| action.writes()).map(|id| host.home(id)).collect()
}
