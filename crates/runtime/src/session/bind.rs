//! Inputs go to where the devices hold their pieces of them. Each device reads only its own.

use super::loaded::{Feed, FeedPiece, Loaded};
use crate::arena::Arenas;
use crate::execute::{RunError, panic_text};
use crate::tensor::ArraySource;
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
    let (shape, dtype) = (feed.ty.sizes(), feed.ty.dtype());
    if source.shape() != shape {
        return wrong(format!("{described} has sizes {:?}, the program asks for {shape:?}", source.shape()));
    }
    if source.dtype() != dtype {
        return wrong(format!(
            "{described} holds {}, the program asks for {dtype}; `cast` it in the program",
            source.dtype()
        ));
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
    match source.as_array().filter(|array| array.ty().held_as(&feed.ty)) {
        Some(array) => out.copy_from_slice(array.bytes_of(device)),
        None => piece.holds.fill(&feed.ty, source, out)?,
    }
    Ok(())
}
