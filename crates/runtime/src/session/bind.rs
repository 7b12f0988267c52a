//! Inputs go to where the devices hold their pieces of them. Each device reads only its own.

use super::loaded::{Feed, FeedPiece, LoadedProgram};
use crate::arena::Arenas;
use crate::execute::{InputError, RunError, WrongInput, panic_text};
use crate::tensor::{ArraySource, ReadError};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Id;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::program::{Program, SizeBinder, Sizes};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// An input to bind: its place among the program's inputs, and where its elements come from.
pub(crate) type Binding = (usize, Arc<dyn ArraySource>);

/// The sizes that the given arrays and names say; `array` is the one of an input. Inputs that lack or have
/// another element type are put into `wrong`; then there are no sizes.
pub(crate) fn sizes_of<'a>(
    program: &Program,
    named: &[(String, u64)],
    array: impl Fn(&str) -> Option<&'a Arc<dyn ArraySource>>,
    wrong: &mut Vec<WrongInput>,
) -> Result<Option<Sizes>, RunError> {
    let mut binder = SizeBinder::new(program);
    for (name, size) in named {
        binder.bind_named(name, *size);
    }
    let needed = program.needed();
    for (id, value) in program.values().iter().filter(|(id, _)| needed[*id] && program.is_input(*id)) {
        let mut refuse = |reason| wrong.push(WrongInput { name: value.name.clone(), reason });
        match array(&value.name) {
            None => refuse(InputError::Missing),
            Some(source) => {
                binder.bind_array(id, &source.describe(), source.shape());
                if let Err(reason) = check_dtype(&**source, value.dtype) {
                    refuse(reason);
                }
            }
        }
    }
    match wrong.is_empty() {
        true => binder.finish().map(Some).map_err(RunError::Compile),
        false => Ok(None),
    }
}

/// Whether an array is what an input asks for. Dims go by their order, whatever the array calls them.
pub(crate) fn check(feed: &Feed, source: &dyn ArraySource) -> Result<(), InputError> {
    if !feed.ty.has_sizes(source.shape()) {
        let (given, expected) = (source.shape().to_vec(), feed.ty.sizes());
        return Err(InputError::Sizes { from: source.describe(), given, expected });
    }
    check_dtype(source, feed.ty.dtype())
}

fn check_dtype(source: &dyn ArraySource, expected: DType) -> Result<(), InputError> {
    match source.dtype() {
        given if given == expected => Ok(()),
        given => Err(InputError::DType { from: source.describe(), given, expected }),
    }
}

/// Reads all pieces of one device; gives the inputs that cannot be read.
pub(crate) fn bind_device(
    program: &LoadedProgram,
    arenas: &Arenas,
    device: DeviceId,
    bindings: &[Binding],
) -> Vec<WrongInput> {
    let mut wrong = Vec::new();
    for (index, source) in bindings {
        let feed = &program.inputs[*index];
        let Some(piece) = &feed.pieces[device.index()] else { continue };
        // A source is foreign code.
        let read = catch_unwind(AssertUnwindSafe(|| bind_piece(feed, piece, arenas, device, &**source)));
        let read = read.unwrap_or_else(|payload| Err(ReadError::Panicked(panic_text(&*payload))));
        if let Err(why) = read {
            wrong.push(WrongInput { name: feed.name.clone(), reason: InputError::Unreadable(why) });
        }
    }
    wrong
}

fn bind_piece(
    feed: &Feed,
    piece: &FeedPiece,
    arenas: &Arenas,
    device: DeviceId,
    source: &dyn ArraySource,
) -> Result<(), ReadError> {
    let out = arenas.write(device.index(), piece.region.clone());
    match source.held_by(device, feed.ty.held()) {
        Some(held) => out.copy_from_slice(held),
        None => piece.holds.fill(&feed.ty, source, out)?,
    }
    Ok(())
}
