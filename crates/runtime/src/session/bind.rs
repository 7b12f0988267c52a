//! Inputs go to where the devices hold their pieces of them. Each device reads only its own.

use super::loaded::{Feed, FeedPiece, Loaded};
use crate::arena::Arenas;
use crate::execute::{InputError, RunError, panic_text};
use crate::tensor::ArraySource;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::program::{Program, SizeBinder, Sizes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An input to bind: its place among the program's inputs, and where its elements come from.
pub(crate) type Binding = (usize, Arc<dyn ArraySource>);

/// The sizes that the given arrays and names say; `array` is the one of an input.
pub(crate) fn sizes_of<'a>(
    program: &Program,
    named: &[(String, u64)],
    array: impl Fn(&str) -> Option<&'a Arc<dyn ArraySource>>,
) -> Result<Sizes, RunError> {
    let mut binder = SizeBinder::new(program);
    for (name, size) in named {
        binder.bind_named(name, *size);
    }
    let needed = program.needed();
    for (id, value) in program.values.iter().filter(|(id, _)| needed[*id] && program.is_input(*id)) {
        let source = array(&value.name).ok_or_else(|| RunError::MissingInput(value.name.clone()))?;
        binder.bind_array(id, &source.describe(), source.shape());
    }
    binder.finish().map_err(RunError::Compile)
}

/// Whether an array is what an input asks for. Dims go by their order, whatever the array calls them.
pub(crate) fn check(feed: &Feed, source: &dyn ArraySource) -> Result<(), RunError> {
    let wrong = |reason| Err(RunError::Input { name: feed.name.clone(), reason });
    let from = || source.describe();
    if !feed.ty.has_sizes(source.shape()) {
        let (given, expected) = (source.shape().to_vec(), feed.ty.sizes());
        return wrong(InputError::Sizes { from: from(), given, expected });
    }
    if source.dtype() != feed.ty.dtype() {
        let (given, expected) = (source.dtype(), feed.ty.dtype());
        return wrong(InputError::DType { from: from(), given, expected });
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
            read.map_err(|why| RunError::Input {
                name: feed.name.clone(),
                reason: InputError::Unreadable(why),
            })?;
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
    match source.held_by(device, feed.ty.held()) {
        Some(held) => out.copy_from_slice(held),
        None => piece.holds.fill(&feed.ty, source, out)?,
    }
    Ok(())
}
