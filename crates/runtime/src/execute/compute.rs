//! A computation on a device's own pieces.

use super::Job;
use crate::instantiate::{Kernel, Made, Operand, PackedConstantId};
use crate::kernels::{self, Input, KernelError, Output, Packed, Scratch};
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::instr::Compute;
use shardweave_compiler::mesh::DeviceId;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicBool, Ordering};

/// Which constants lie packed in the arenas.
///
/// Made anew whenever constants are bound or the arenas change hands, with none: so what is packed is what is bound.
#[derive(Default)]
pub(crate) struct PackedConstants(Table<PackedConstantId, AtomicBool>);

impl PackedConstants {
    /// None of so many.
    pub fn none(of: usize) -> PackedConstants {
        PackedConstants((0..of).map(|_| AtomicBool::new(false)).collect())
    }

    // One lane alone looks at a constant and sets it, in one run after another.
    fn has(&self, constant: PackedConstantId) -> bool {
        self.0[constant].load(Ordering::Relaxed)
    }

    fn add(&self, constant: PackedConstantId) {
        self.0[constant].store(true, Ordering::Relaxed);
    }
}

/// Computes; an operand that is packed once for several turns is packed here or found packed.
pub(super) fn run(
    job: &Job,
    device: DeviceId,
    kernel: &Kernel,
    scratch: &Scratch,
) -> Result<(), KernelError> {
    let arenas = &job.arenas;
    let input = |operand: &Operand| match operand {
        Operand::Piece(from, piece) => {
            Input::Piece { bytes: arenas.read(from.index(), piece.region.clone()), dtype: piece.dtype }
        }
        Operand::Number(number, dtype) => Input::Number(*number, *dtype),
    };
    let operands: SmallVec<[Input<'_>; 6]> = kernel.operands.iter().map(input).collect();
    let bytes = arenas.write(device.index(), kernel.result.region.clone());
    let out = Output { bytes, dtype: kernel.result.dtype };
    let Compute { op, space, .. } = &*kernel.compute;
    if let Some(combine) = kernel.onto {
        return kernels::compute_onto(combine, (op, space, &kernel.pieces), &operands, out, scratch);
    }
    let Some(packed) = kernel.packed.as_ref().filter(|packed| packed.region.end <= arenas.bytes()) else {
        return kernels::compute(op, space, &kernel.pieces, &operands, out, scratch);
    };
    let is_there = match packed.made {
        Made::Here => false,
        Made::Before => true,
        Made::Once(constant) => job.packed.has(constant),
    };
    let form = match is_there {
        true => Packed::There(arenas.read(device.index(), packed.region.clone())),
        false => Packed::New(arenas.write(device.index(), packed.region.clone())),
    };
    kernels::compute_packed((op, space, &kernel.pieces), &operands, (packed.operand, form), out, scratch);
    if let Made::Once(constant) = packed.made {
        job.packed.add(constant);
    }
    Ok(())
}
