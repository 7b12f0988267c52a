//! Outputs leave the devices' memory: as whole arrays, or as they are placed.

use super::loaded::{Drain, LoadedProgram};
use crate::arena::Arenas;
use crate::array::Array;
use crate::tensor::Tensor;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::convert::Infallible;

/// All outputs as whole arrays, in the order of the program.
pub(crate) fn whole(program: &LoadedProgram, arenas: &Arenas) -> Vec<(String, Tensor)> {
    let one = |drain: &Drain| {
        let mut whole = Tensor::zeros(drain.ty.dtype(), &drain.ty.sizes());
        drain.gather.collect(|device| piece(drain, arenas, device), whole.bytes_mut());
        (drain.name.clone(), whole)
    };
    program.outputs.iter().map(one).collect()
}

/// All outputs in the layouts in which the devices hold them, in the order of the program.
pub(crate) fn placed(program: &LoadedProgram, arenas: &Arenas) -> Vec<(String, Array)> {
    let one = |drain: &Drain| {
        let copy = |_: &_, device, out: &mut [u8]| -> Result<(), Infallible> {
            out.copy_from_slice(piece(drain, arenas, device));
            Ok(())
        };
        let Ok(array) = Array::try_filled(drain.ty.clone(), copy);
        (drain.name.clone(), array)
    };
    program.outputs.iter().map(one).collect()
}

/// A device's piece of an output.
fn piece<'a>(drain: &Drain, arenas: &'a Arenas, device: DeviceId) -> &'a [u8] {
    let region = drain.regions[device.index()].clone().expect("a device of the mesh holds a piece");
    arenas.read(device.index(), region)
}
