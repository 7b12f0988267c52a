//! Who was the last to take each byte of the arena.
//!
//! Only the last one matters to whoever takes a byte next: it could take the byte only after those before
//! it were done with it, so what comes after the last one comes after all of them.
//!
//! ```text
//!   bytes        0        64       128      192
//!   alloc b0     | b0                        |
//!   alloc b1              | b1      |            b0 was freed before
//!   last taker   | b0     | b1      | b0     |
//! ```

use crate::host::{Buffer, BufferId, HostProgram, MeshId, MeshPairs};
use crate::id::Table;
use std::collections::BTreeMap;
use std::ops::Range;

/// A slot of a buffer: which buffer, and which of its slots.
pub(super) type SlotId = (BufferId, u64);

/// For each mesh, whose devices have their own bytes, the last slot in every byte.
pub(super) struct Occupants {
    meshes: MeshPairs,
    /// Disjoint runs of bytes: the start of each with its end and its slot.
    last: Table<MeshId, BTreeMap<u64, (u64, SlotId)>>,
}

impl Occupants {
    /// Before anyone takes a byte.
    pub fn none(program: &HostProgram) -> Occupants {
        let meshes = MeshPairs::new(&program.buffers);
        let last = meshes.meshes().map(|_| BTreeMap::new()).collect();
        Occupants { meshes, last }
    }

    /// The slots that were last to take bytes of a slot on some device of its mesh, by mesh and place.
    pub fn before(&self, (id, slot): SlotId, buffer: &Buffer) -> impl Iterator<Item = SlotId> {
        let place = place(buffer, slot);
        self.meshes.meeting(id).iter().flat_map(move |&mesh| {
            let last = &self.last[mesh];
            let first = last.range(..place.start).next_back();
            let first = first.filter(|(_, run)| run.0 > place.start && !place.is_empty());
            first.into_iter().chain(last.range(place.clone())).map(|(_, run)| run.1)
        })
    }

    /// The slot takes its bytes.
    pub fn take(&mut self, (id, slot): SlotId, buffer: &Buffer) {
        let Range { start, end } = place(buffer, slot);
        if start == end {
            return;
        }
        let last = &mut self.last[self.meshes.mesh_of(id)];
        // Of runs that reach beyond the place, what is outside stays.
        while let Some((&from, &(to, other))) = last.range(..end).next_back().filter(|(_, run)| run.0 > start)
        {
            last.remove(&from);
            if to > end {
                last.insert(end, (to, other));
            }
            if from < start {
                last.insert(from, (start, other));
            }
        }
        last.insert(start, (end, (id, slot)));
    }
}

/// The bytes of a slot.
fn place(buffer: &Buffer, slot: u64) -> Range<u64> {
    let start = buffer.offset.saturating_add(buffer.bytes.saturating_mul(slot));
    start..start.saturating_add(buffer.bytes)
}
