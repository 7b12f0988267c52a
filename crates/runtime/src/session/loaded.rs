//! A program made ready to run: its tasks, and where its inputs and outputs lie on every device.

use crate::execute::RunError;
use crate::instantiate::{Buffers, Held, InstantiateError, Runs, Steps, Streams, Tasks, instantiate};
use crate::tensor::byte_count;
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::host::{Action, BufferId, HostInstr, HostProgram, Role, verify};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::TensorType;
use shardweave_compiler::layout::{IndexSet, Layout, Overlap, overlap};
use shardweave_compiler::mesh::{AxisId, DeviceId};
use std::ops::Range;
use std::sync::Arc;

/// A program ready to run. Immutable; shared by all threads.
pub(crate) struct Loaded {
    pub tasks: Arc<Tasks>,
    pub inputs: Vec<Feed>,
    pub outputs: Vec<Drain>,
    /// Bytes of all outputs as whole arrays.
    pub output_bytes: u64,
}

/// Where an input goes.
pub(crate) struct Feed {
    pub name: String,
    pub shape: Vec<u64>,
    /// The element type of the whole array.
    pub dtype: DType,
    /// How elements are stored on devices.
    pub stored: DType,
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

/// What a piece holds.
pub(crate) enum Holds {
    /// These indices of the array.
    Indices(Vec<IndexSet>),
    /// Nothing of a partial value: the identity of the operator with which it is combined.
    Identity(Combine),
}

/// Where an output comes from.
pub(crate) struct Drain {
    pub name: String,
    pub shape: Vec<u64>,
    /// The element type of the whole array.
    pub dtype: DType,
    /// How elements are stored on devices.
    pub stored: DType,
    /// The operators with which parts are combined, the one that is applied first first, and how many
    /// parts each combines.
    pub combines: Vec<(Combine, usize)>,
    /// The parts, in the order in which they are combined: the first operator's parts are neighbours.
    pub parts: Vec<Vec<DrainPiece>>,
}

/// A device's piece of a part of an output.
pub(crate) struct DrainPiece {
    pub device: DeviceId,
    pub region: Range<usize>,
    /// Where its bytes go in the whole array.
    pub runs: Runs,
}

/// Says the element type of an input or output as a whole; a host program alone does not know it, for
/// partial values of half types are stored as `f32`.
pub(crate) type DTypeOf<'a> = &'a dyn Fn(&str) -> Option<DType>;

impl Loaded {
    /// Verifies a program and makes it ready.
    pub fn new(host: &HostProgram, streams: Streams, dtype_of: DTypeOf<'_>) -> Result<Loaded, RunError> {
        verify(host).map_err(|fault| RunError::Broken(format!("{fault}")))?;
        let tasks = instantiate(host, streams).map_err(RunError::from)?;
        let buffers = Buffers::new(host)?;
        let written = written_buffers(&host.body);
        let overwritten = |buffer: BufferId| written.iter().any(|&other| share_bytes(host, buffer, other));
        let mut inputs = Vec::new();
        for (name, buffer) in &host.inputs {
            let after = if overwritten(*buffer) { AfterRun::Overwritten } else { AfterRun::Kept };
            inputs.push(feed(name, *buffer, host, &buffers, after, dtype_of)?);
        }
        let mut outputs = Vec::new();
        let mut output_bytes: u64 = 0;
        for (name, buffer) in &host.outputs {
            let drain = drain(name, *buffer, host, &buffers, dtype_of)?;
            let bytes = byte_count(drain.stored, &drain.shape).ok_or_else(|| {
                RunError::TooLarge(format!("output `{name}` of {:?} elements", drain.shape))
            })?;
            output_bytes = output_bytes.saturating_add(bytes as u64);
            outputs.push(drain);
        }
        Ok(Loaded { tasks: Arc::new(tasks), inputs, outputs, output_bytes })
    }

    /// How many devices hold anything.
    pub fn device_count(&self) -> u64 {
        self.tasks.used.iter().filter(|&&used| used).count() as u64
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

fn feed(
    name: &str,
    buffer: BufferId,
    host: &HostProgram,
    buffers: &Buffers<'_>,
    after: AfterRun,
    dtype_of: DTypeOf<'_>,
) -> Result<Feed, RunError> {
    let ty = buffers.ty(buffer)?;
    let piece = |device| -> Result<Option<FeedPiece>, RunError> {
        let held = buffers.held(buffer, DeviceId::new(device), &Steps::default())?;
        Ok(held.map(|Held { indices, piece, .. }| {
            let holds = identity_at(&ty.layout, DeviceId::new(device))
                .map_or(Holds::Indices(indices), Holds::Identity);
            FeedPiece { region: piece.region, holds }
        }))
    };
    Ok(Feed {
        name: name.to_string(),
        shape: ty.sizes(),
        dtype: dtype_of(name).unwrap_or(ty.dtype),
        stored: ty.dtype,
        role: host.buffers[buffer].role,
        after,
        pieces: (0..host.devices as usize).map(piece).collect::<Result<_, _>>()?,
    })
}

/// The operator whose identity a device holds of an array that is put into a partial layout: it is not
/// at coordinate 0 of all partial axes. Where it is not at several, the operator that is applied first
/// decides: its identity vanishes before the others see it.
fn identity_at(layout: &Layout, device: DeviceId) -> Option<Combine> {
    let mesh = layout.mesh();
    let coords = mesh.coords(mesh.place_of(device)?);
    layout.partial().iter().filter(|p| coords.along(p.axis) != 0).map(|p| p.combine).min()
}

fn drain(
    name: &str,
    buffer: BufferId,
    host: &HostProgram,
    buffers: &Buffers<'_>,
    dtype_of: DTypeOf<'_>,
) -> Result<Drain, RunError> {
    let ty = buffers.ty(buffer)?;
    let mesh = ty.layout.mesh();
    // Operators in the order of `Combine`, their axes in mesh order; the first operator varies fastest.
    let mut partial = ty.layout.partial().to_vec();
    partial.sort_by_key(|p| (p.combine, p.axis));
    let mut combines: Vec<(Combine, usize)> = Vec::new();
    for p in &partial {
        let size = mesh.size(p.axis) as usize;
        match combines.last_mut() {
            Some((combine, count)) if *combine == p.combine => *count *= size,
            _ => combines.push((p.combine, size)),
        }
    }
    let slowest_first = in_coordinate_order(&partial);
    let cut: Vec<AxisId> = ty.layout.cuts().iter().flatten().filter_map(|factor| factor.axis()).collect();
    let mut parts = Vec::new();
    for part in mesh.coords_over(&slowest_first) {
        let mut pieces = Vec::new();
        for mut coords in mesh.coords_over(&cut) {
            for &axis in &slowest_first {
                coords.set(axis, part.along(axis));
            }
            let device = mesh.device_at(mesh.place(&coords));
            let held = buffers.held(buffer, device, &Steps::default())?;
            pieces.extend(held.map(|held| drain_piece(device, &held, ty)).transpose()?);
        }
        parts.push(pieces);
    }
    Ok(Drain {
        name: name.to_string(),
        shape: ty.sizes(),
        dtype: dtype_of(name).unwrap_or(ty.dtype),
        stored: host.buffers[buffer].ty.dtype,
        combines,
        parts,
    })
}

/// The partial axes so that the last operator's vary slowest, and within one operator the first axis.
fn in_coordinate_order(partial: &[shardweave_compiler::layout::Partial]) -> Vec<AxisId> {
    let mut axes: Vec<_> = partial.to_vec();
    axes.sort_by_key(|p| (std::cmp::Reverse(p.combine), p.axis));
    axes.iter().map(|p| p.axis).collect()
}

fn drain_piece(device: DeviceId, held: &Held, ty: &TensorType) -> Result<DrainPiece, RunError> {
    let shape = ty.sizes();
    let whole = shape.iter().map(|&size| IndexSet::range(0, size));
    let runs: Vec<Vec<Overlap>> =
        held.indices.iter().zip(whole).map(|(held, whole)| overlap(held, &whole)).collect();
    let runs = Runs::new(&runs, &held.extents, &shape, ty.dtype.size());
    let runs = runs.ok_or_else(|| RunError::TooLarge(format!("an output of {shape:?} elements")))?;
    Ok(DrainPiece { device, region: held.piece.region.clone(), runs })
}

/// The buffers that some instruction writes.
fn written_buffers(body: &[HostInstr]) -> Vec<BufferId> {
    let mut written = Vec::new();
    for instr in body {
        match instr {
            HostInstr::On(_, Action::Compute(compute)) => written.push(compute.result),
            HostInstr::On(_, Action::Move(mv)) => written.push(mv.target),
            HostInstr::On(..) => {}
            HostInstr::Loop { body, .. } => written.extend(written_buffers(body)),
        }
    }
    written
}

fn share_bytes(host: &HostProgram, a: BufferId, b: BufferId) -> bool {
    let range = |id: BufferId| {
        let buffer = &host.buffers[id];
        (buffer.offset, buffer.offset.saturating_add(buffer.bytes))
    };
    let ((a_start, a_end), (b_start, b_end)) = (range(a), range(b));
    a == b || (a_start < b_end && b_start < a_end)
}
