//! Inputs go to where the devices hold their pieces of them. Each device reads only its own.

use super::loaded::{Feed, FeedPiece, Holds, Loaded};
use crate::arena::Arenas;
use crate::execute::{RunError, panic_text};
use crate::kernels;
use crate::tensor::{AlignedBytes, ArraySource};
use half::{bf16, f16};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An input to bind: its place among the program's inputs, and where its elements come from.
pub(crate) type Binding = (usize, Arc<dyn ArraySource>);

/// Whether an array is what an input asks for.
pub(crate) fn check(feed: &Feed, source: &dyn ArraySource) -> Result<(), RunError> {
    let wrong = |reason| Err(RunError::Input { name: feed.name.clone(), reason });
    let described = source.describe();
    if source.shape() != feed.shape {
        return wrong(format!(
            "{described} has sizes {:?}, the program asks for {:?}",
            source.shape(),
            feed.shape
        ));
    }
    if source.dtype() != feed.dtype {
        return wrong(format!(
            "{described} holds {}, the program asks for {}; `cast` it in the program",
            source.dtype(),
            feed.dtype
        ));
    }
    if feed.stored != feed.dtype && feed.stored != feed.dtype.wide() {
        let reason = format!("input `{}` of type {} is stored as {}", feed.name, feed.dtype, feed.stored);
        return Err(RunError::Broken(reason));
    }
    Ok(())
}

/// Reads all pieces of one device.
pub(crate) fn bind_device(
    loaded: &Loaded,
    arenas: &Arenas,
    device: DeviceId,
    bindings: &[Binding],
) -> Result<(), RunError> {
    for (index, source) in bindings {
        let feed = &loaded.inputs[*index];
        if let Some(piece) = &feed.pieces[device.index()] {
            // A source is foreign code.
            let read = catch_unwind(AssertUnwindSafe(|| bind_piece(feed, piece, arenas, device, &**source)));
            let read =
                read.unwrap_or_else(|payload| Err(format!("reading it panicked: {}", panic_text(&*payload))));
            read.map_err(|reason| RunError::Input { name: feed.name.clone(), reason })?;
        }
    }
    Ok(())
}

fn bind_piece(
    feed: &Feed,
    piece: &FeedPiece,
    arenas: &Arenas,
    device: DeviceId,
    source: &dyn ArraySource,
) -> Result<(), String> {
    let out = arenas.write(device.index(), piece.region.clone());
    match &piece.holds {
        Holds::Identity(combine) => kernels::fill(&kernels::identity(*combine, feed.stored), out),
        Holds::Indices(indices) if feed.stored == feed.dtype => source.read(indices, out)?,
        Holds::Indices(indices) => {
            let elements = out.len() / feed.stored.size() as usize;
            let mut narrow = AlignedBytes::zeroed(elements * feed.dtype.size() as usize);
            source.read(indices, narrow.as_mut_slice())?;
            widen(feed.dtype, narrow.as_slice(), bytemuck::cast_slice_mut(out));
        }
    }
    Ok(())
}

/// Half floats as `f32`.
fn widen(dtype: DType, from: &[u8], to: &mut [f32]) {
    match dtype {
        DType::Bf16 => {
            to.iter_mut().zip(bytemuck::cast_slice::<_, bf16>(from)).for_each(|(y, x)| *y = x.to_f32())
        }
        DType::F16 => {
            to.iter_mut().zip(bytemuck::cast_slice::<_, f16>(from)).for_each(|(y, x)| *y = x.to_f32())
        }
        other => unreachable!("only half types are stored wider than they are, not {other}"),
    }
}
