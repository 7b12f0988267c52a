//! Outputs leave the devices' memory: as whole arrays, or as they are placed.

use super::loaded::{Drain, LoadedProgram};
use crate::arena::Arenas;
use crate::array::Array;
use crate::engine::Engine;
use crate::execute::RunError;
use crate::ranks::or_end;
use crate::tensor::Tensor;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::collections::BTreeMap;
use std::convert::Infallible;

/// All outputs as whole arrays, in the order of the program.
pub(crate) fn whole<'a>(
    program: &LoadedProgram,
    piece: impl Fn(&Drain, DeviceId) -> &'a [u8],
) -> Vec<(String, Tensor)> {
    let one = |drain: &Drain| {
        let mut whole = Tensor::zeros(drain.ty.dtype(), &drain.ty.sizes());
        drain.gather.collect(|device| piece(drain, device), whole.bytes_mut());
        (drain.name.clone(), whole)
    };
    program.outputs.iter().map(one).collect()
}

/// The same on rank 0, nothing on the others.
pub(crate) fn at_rank_0(
    program: &LoadedProgram,
    engine: &dyn Engine,
    arenas: &Arenas,
) -> Result<Vec<(String, Tensor)>, RunError> {
    let rank = engine.place().rank;
    let mut own: Vec<u8> = Vec::new();
    for drain in program.outputs.iter().filter(|drain| drain.gather.takes_of(DeviceId::new(rank))) {
        own.extend_from_slice(drain.piece(arenas, DeviceId::new(rank)));
    }
    let told = or_end(engine, engine.gather(&own), "where outputs come together")?;
    let Some(told) = told else { return Ok(Vec::new()) };
    // Where the pieces of each output start among the bytes of each rank.
    let mut start = vec![0; told.len()];
    let mut pieces: BTreeMap<(&str, DeviceId), &[u8]> = BTreeMap::new();
    for drain in &program.outputs {
        for (device, bytes) in told.iter().enumerate() {
            let region = drain.regions.get(device).cloned().flatten();
            if let Some(region) = region.filter(|_| drain.gather.takes_of(DeviceId::new(device))) {
                let end = start[device] + region.len();
                let piece = bytes.get(start[device]..end);
                let short = || RunError::Engine(format!("rank {device} sends too few bytes of its outputs"));
                pieces.insert((&drain.name, DeviceId::new(device)), piece.ok_or_else(short)?);
                start[device] = end;
            }
        }
    }
    Ok(whole(program, |drain, device| pieces[&(drain.name.as_str(), device)]))
}

/// All outputs in the layouts in which the devices hold them, in the order of the program: the pieces of the devices
/// that are played here.
pub(crate) fn placed(
    program: &LoadedProgram,
    arenas: &Arenas,
    plays: impl Fn(usize) -> bool,
) -> Vec<(String, Array)> {
    let one = |drain: &Drain| {
        let copy = |_: &_, device, out: &mut [u8]| -> Result<(), Infallible> {
            out.copy_from_slice(drain.piece(arenas, device));
            Ok(())
        };
        let Ok(array) = Array::try_filled_on(drain.ty.clone(), |device| plays(device.index()), copy);
        (drain.name.clone(), array)
    };
    program.outputs.iter().map(one).collect()
}

/// The pieces of an output that one process has.
pub struct OutputPieces<'a> {
    drain: &'a Drain,
    arenas: &'a Arenas,
    devices: Vec<DeviceId>,
}

/// The pieces of each output on the devices that are played here.
pub(crate) fn pieces<'a>(
    program: &'a LoadedProgram,
    arenas: &'a Arenas,
    plays: impl Fn(usize) -> bool,
) -> Vec<OutputPieces<'a>> {
    let one = |drain: &'a Drain| {
        let here = drain.gather.devices().into_iter().filter(|device| plays(device.index()));
        OutputPieces { drain, arenas, devices: here.collect() }
    };
    program.outputs.iter().map(one).collect()
}

impl OutputPieces<'_> {
    /// The output's name.
    pub fn name(&self) -> &str {
        &self.drain.name
    }

    /// Its element type.
    pub fn dtype(&self) -> DType {
        self.drain.ty.dtype()
    }

    /// Its sizes.
    pub fn shape(&self) -> Vec<u64> {
        self.drain.ty.sizes()
    }

    /// Whether pieces are parts that are yet to be combined: then there is no piece of the whole on any device.
    pub fn are_parts(&self) -> bool {
        self.drain.gather.combines()
    }

    /// Every stretch of the output that lies here, with the byte of the whole array (row-major) where it starts.
    ///
    /// # Errors
    /// What `write` says, at once.
    ///
    /// # Panics
    /// If the pieces [are parts](Self::are_parts).
    pub fn try_for_each<E>(&self, mut write: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        assert!(!self.are_parts(), "parts are combined first");
        let mut written = Ok(());
        for &device in &self.devices {
            let piece = self.drain.piece(self.arenas, device);
            self.drain.gather.stretches(device, |run| {
                if written.is_ok() {
                    written = write(run.target as u64, &piece[run.source..run.source + run.bytes]);
                }
            });
        }
        written
    }
}

impl Drain {
    /// A device's piece of the output.
    pub fn piece<'a>(&self, arenas: &'a Arenas, device: DeviceId) -> &'a [u8] {
        let region = self.regions[device.index()].clone().expect("a device of the mesh holds a piece");
        arenas.read(device.index(), region)
    }
}
