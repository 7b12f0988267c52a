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
    let one = |drain: &Drain| (drain.name.clone(), drain.whole(|device| piece(drain, device)));
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

/// What one process has of an output.
pub struct OutputPieces<'a> {
    drain: &'a Drain,
    arenas: &'a Arenas,
    here: Here,
}

/// Whose pieces are in one process.
enum Here {
    /// Those of all devices.
    All,
    /// Those of some; the others are with other ranks.
    Of(Vec<DeviceId>),
}

/// What there is of each output with a rank, or in the process that plays all devices.
pub(crate) fn pieces<'a>(
    program: &'a LoadedProgram,
    arenas: &'a Arenas,
    rank: Option<usize>,
) -> Vec<OutputPieces<'a>> {
    let of_rank = |drain: &Drain, rank| {
        let taken = drain.gather.devices().into_iter();
        Here::Of(taken.filter(|device| device.index() == rank).collect())
    };
    let here = |drain: &Drain| rank.map_or(Here::All, |rank| of_rank(drain, rank));
    program.outputs.iter().map(|drain| OutputPieces { drain, arenas, here: here(drain) }).collect()
}

impl<'a> OutputPieces<'a> {
    /// The output's name.
    pub fn name(&self) -> &'a str {
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

    /// Whether what ranks have are parts that are yet to be combined: then none of them has anything of the whole. All
    /// ranks say the same.
    pub fn are_parts(&self) -> bool {
        matches!(self.here, Here::Of(_)) && self.drain.gather.combines()
    }

    /// Every stretch of the output that is here, with the byte of the whole array (row-major) where it starts. Where all
    /// pieces are, they are put together first, for stretches can be many and short: then there is one.
    ///
    /// # Errors
    /// What `write` says, at once.
    ///
    /// # Panics
    /// If the pieces [are parts](Self::are_parts).
    pub fn try_for_each<E>(&self, mut write: impl FnMut(u64, &[u8]) -> Result<(), E>) -> Result<(), E> {
        assert!(!self.are_parts(), "parts are combined first");
        let piece = |device| self.drain.piece(self.arenas, device);
        let own = match &self.here {
            Here::All => return write(0, self.drain.whole(piece).bytes()),
            Here::Of(own) => own,
        };
        let mut written = Ok(());
        for &device in own {
            let piece = piece(device);
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

    /// The whole output, out of the pieces of all devices.
    fn whole<'a>(&self, piece: impl Fn(DeviceId) -> &'a [u8]) -> Tensor {
        let mut whole = Tensor::zeros(self.ty.dtype(), &self.ty.sizes());
        self.gather.collect(piece, whole.bytes_mut());
        whole
    }
}
