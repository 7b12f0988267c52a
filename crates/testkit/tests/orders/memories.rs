//! The memories of devices, each kept once and named by a number.
//!
//! What is in a device's memory follows from how far its own lanes are, so the many states of a right program
//! have few memories:
//!
//! ```text
//!  state (2, 1 | 0, 0)   memories m3, m0      device 0 at (2, 1) has m3, wherever device 1 is
//!  state (2, 1 | 1, 0)   memories m3, m1
//! ```
//!
//! Two numbers are equal where the memories are, so states are compared by numbers; and what a step makes of
//! given memories is worked out once.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hash, Hasher};
use std::rc::Rc;

/// A map of what is small and comes often.
pub type Fast<K, V> = HashMap<K, V, BuildHasherDefault<Mixer>>;

/// The most devices of a machine.
pub const MOST_DEVICES: usize = 9;

/// One of the memories.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Default, Debug)]
pub struct MemoryId(u32);

/// A step, and all that it depends on.
#[derive(PartialEq, Eq, Hash)]
pub struct Asked {
    pub lane: usize,
    pub at: u32,
    /// What the lane has read.
    pub read: u64,
    /// The memories of the devices that it touches; of others the first.
    pub memories: [MemoryId; MOST_DEVICES],
}

/// What a step makes of it.
#[derive(Clone, Copy)]
pub struct Went {
    pub read: u64,
    pub memory: MemoryId,
}

/// All that were seen.
#[derive(Default)]
pub struct Memories {
    cells: Vec<Rc<[u64]>>,
    numbers: Fast<Rc<[u64]>, MemoryId>,
    went: Fast<Asked, Went>,
}

impl Memories {
    pub fn number(&mut self, cells: Rc<[u64]>) -> MemoryId {
        let next = MemoryId(self.cells.len() as u32);
        *self.numbers.entry(cells.clone()).or_insert_with(|| {
            self.cells.push(cells);
            next
        })
    }

    pub fn cells(&self, id: MemoryId) -> &Rc<[u64]> {
        &self.cells[id.0 as usize]
    }

    /// What the step makes, worked out if it was not before.
    pub fn went(
        &mut self,
        asked: Asked,
        work: impl FnOnce(&mut Memories) -> Result<Went, String>,
    ) -> Result<Went, String> {
        if let Some(went) = self.went.get(&asked) {
            return Ok(*went);
        }
        let went = work(self)?;
        self.went.insert(asked, went);
        Ok(went)
    }
}

/// Mixes words. What is hashed here is nobody's wish, so it need not be hard to foresee.
#[derive(Default)]
pub struct Mixer(u64);

impl Hasher for Mixer {
    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.write_u64(u64::from_le_bytes(word));
        }
    }

    fn write_u32(&mut self, word: u32) {
        self.write_u64(word.into());
    }

    fn write_u64(&mut self, word: u64) {
        let mixed = (self.0.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        self.0 = mixed ^ mixed >> 32;
    }

    fn write_usize(&mut self, word: usize) {
        self.write_u64(word as u64);
    }

    fn finish(&self) -> u64 {
        self.0
    }
}
