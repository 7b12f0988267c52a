//! Where each device's piece of each buffer lies, checked against the arena.

use super::InstantiateError;
use super::tasks::Piece;
use crate::arena::ALIGNMENT;
use crate::tensor::byte_count;
use shardweave_compiler::host::{At, BufferId, HostProgram};
use shardweave_compiler::instr::TensorType;
use shardweave_compiler::layout::{Factor, IndexSet, Layout, run_of, volume};
use shardweave_compiler::mesh::DeviceId;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The buffers of a program.
pub struct Buffers<'a> {
    program: &'a HostProgram,
    arena: usize,
    /// What devices hold of buffers that do not change from step to step: it may have many blocks, and is
    /// asked for at every step.
    unchanging: RefCell<BTreeMap<(BufferId, DeviceId), Indices>>,
}

/// What a device holds of a buffer; none if it is not in its mesh.
type Indices = Option<Rc<[IndexSet]>>;

/// A device's piece of a buffer.
pub struct Held {
    /// How many indices of each dim.
    pub extents: Vec<u64>,
    /// Where they are stored.
    pub piece: Piece,
}

impl<'a> Buffers<'a> {
    pub fn new(program: &'a HostProgram) -> Result<Buffers<'a>, InstantiateError> {
        let too_large = || InstantiateError::TooLarge(format!("an arena of {} bytes", program.arena));
        let arena = usize::try_from(program.arena)
            .ok()
            .and_then(|n| n.checked_next_multiple_of(ALIGNMENT))
            .filter(|&n| isize::try_from(n).is_ok())
            .ok_or_else(too_large)?;
        Ok(Buffers { program, arena, unchanging: RefCell::default() })
    }

    /// Bytes of one device's arena, so many that what lies above it is aligned.
    pub fn arena(&self) -> usize {
        self.arena
    }

    /// The type of a buffer.
    pub fn ty(&self, buffer: BufferId) -> Result<&'a TensorType, InstantiateError> {
        let found = self.program.buffers.get(buffer);
        found.map(|b| &b.ty).ok_or_else(|| InstantiateError::Broken(format!("there is no buffer {buffer}")))
    }

    /// A device's piece of a buffer at a step; none if the device is not in its mesh.
    pub fn held(
        &self,
        buffer: BufferId,
        device: DeviceId,
        at: &At,
    ) -> Result<Option<Held>, InstantiateError> {
        let ty = self.ty(buffer)?;
        check_steps(&ty.layout, at)?;
        let Some(indices) = self.indices(buffer, device, at)? else {
            return Ok(None);
        };
        let extents: Vec<u64> = indices.iter().map(IndexSet::count).collect();
        let region = match self.program.home(buffer) {
            own if own == buffer => self.region(buffer, &extents, at)?,
            home => self.region_in(home, &indices, device, at)?,
        };
        Ok(Some(Held { extents, piece: Piece { region, dtype: ty.dtype } }))
    }

    fn indices(&self, buffer: BufferId, device: DeviceId, at: &At) -> Result<Indices, InstantiateError> {
        let ty = self.ty(buffer)?;
        let found = || ty.layout.piece_at_step(&ty.sizes(), device, at.steps()).map(Rc::from);
        if ty.layout.cuts().iter().flatten().any(|factor| factor.step().is_some()) {
            return Ok(found());
        }
        Ok(self.unchanging.borrow_mut().entry((buffer, device)).or_insert_with(found).clone())
    }

    /// The bytes of a part of a device's piece of a buffer: one run of it.
    fn region_in(
        &self,
        buffer: BufferId,
        part: &[IndexSet],
        device: DeviceId,
        at: &At,
    ) -> Result<std::ops::Range<usize>, InstantiateError> {
        let ty = self.ty(buffer)?;
        check_steps(&ty.layout, at)?;
        let whole = self.indices(buffer, device, at)?.unwrap_or_default();
        let extents: Vec<u64> = whole.iter().map(IndexSet::count).collect();
        let all = self.region(buffer, &extents, at)?;
        let (size, within) = (ty.dtype.size(), run_of(part, &whole).filter(|_| part.len() == whole.len()));
        let start = within.and_then(|start| start.checked_mul(size)?.checked_add(all.start as u64));
        let end = start.and_then(|start| start.checked_add(volume(part).checked_mul(size)?));
        let region = start.zip(end).filter(|(_, end)| *end <= all.end as u64);
        let region = region.map(|(start, end)| start as usize..end as usize);
        let reason = || format!("{device} holds a view of {buffer} that is no run of its piece");
        region.ok_or_else(|| InstantiateError::Broken(reason()))
    }

    /// The bytes of a piece of these extents, in the slot of the running step.
    fn region(
        &self,
        buffer: BufferId,
        extents: &[u64],
        at: &At,
    ) -> Result<std::ops::Range<usize>, InstantiateError> {
        let row = &self.program.buffers[buffer];
        let fits = |bytes: &usize| *bytes as u64 <= row.bytes;
        let bytes = byte_count(row.ty.dtype, extents).filter(fits);
        let start = at.slot(row.slots).checked_mul(row.bytes).and_then(|slot| slot.checked_add(row.offset));
        let start = start.and_then(|start| usize::try_from(start).ok());
        let start = start.filter(|start| start % ALIGNMENT == 0);
        let region = start.zip(bytes).and_then(|(start, bytes)| Some(start..start.checked_add(bytes)?));
        region.filter(|region| region.end <= self.arena).ok_or_else(|| {
            InstantiateError::Broken(format!(
                "a piece of {extents:?} does not fit in {buffer}: {} bytes at {} of {}",
                row.bytes, row.offset, self.arena
            ))
        })
    }
}

/// Every step that a layout names must be running.
pub fn check_steps(layout: &Layout, at: &At) -> Result<(), InstantiateError> {
    let mut named = layout.cuts().iter().flatten().filter_map(Factor::step);
    match named.find(|&step| !at.is_running(step)) {
        Some(step) => Err(InstantiateError::Broken(format!("the step {step} is named outside its loop"))),
        None => Ok(()),
    }
}
