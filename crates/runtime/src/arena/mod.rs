//! The memory of all devices of a session: an arena a device. Threads see all of it; of the ranks of a host each sees its
//! own, and of the others [what it reads](Reach) in moves and loans.
//!
//! Every device writes only to its own arena and
//! reads those of others while a move runs or a loan lasts; no lock guards the bytes. That this is sound rests on
//! three things, named in the `SAFETY` reasons below:
//!
//! 1. **Bounds.** [`instantiate`](crate::instantiate) checks that every region of every task lies in the
//!    arena; regions are checked again here.
//! 2. **The verifier.** A session runs only [`Verified`](shardweave_compiler::host::Verified) programs:
//!    no two buffers alive at a time share bytes, and whatever two streams touch is ordered by an event
//!    unless both only read. Different bytes of an arena are different bytes of memory, whichever of it
//!    they lie in ([`Reach`]).
//! 3. **The rendezvous.** A device reads a peer's buffer only after the peer has published that it
//!    arrived at the move, and the peer changes the buffer only after the reader has published that it is
//!    done ([`Progress`](crate::meet::Progress): release and acquire). All that the peer wrote before
//!    happens before the read; all that it writes after happens after. In a move that copies the reader is
//!    done, and the peer waits for it, at the end of the move. What is lent is read later, by kernels: then
//!    both are at the end of the loan, the free of what is lent, and no action of the peer up to there
//!    writes to the buffer that lends or ends its life (rule 2: the text is one for all devices).
//!
//! So two threads, in one process or in two, never touch the same byte at the same time unless both read. References are made only
//! for the very bytes that a task reads or writes, and only as long as it does.
#![expect(unsafe_code, reason = "devices share memory by the rules above")]

mod block;
mod reach;

pub use block::SharedBytes;
pub use reach::{Reach, Whose};

use block::Block;
use std::ops::Range;
use std::sync::Arc;

/// Buffers start at multiples of this: a cache line, and more than any element type asks for.
pub const ALIGNMENT: usize = 64;

/// The memory of all devices of a session.
///
/// ```text
///  offset   0 ........ kept ................ bytes
///  blocks   [ kept    ][ the others         ]        each of them in two: what is reached, and what is not
/// ```
pub struct Arenas {
    kept: Kept,
    /// The bytes above those that are kept.
    others: Blocks,
    /// How much of them there is.
    room: Need,
    bytes: usize,
    /// Which bytes above those that are kept are reached,
    reach: Reach,
    /// and what it says of those that are kept, where [`Kept`] has the say.
    below: Need,
}

/// The first bytes of every device, in blocks of their own: they outlive the arenas around them.
#[derive(Clone, Default)]
pub struct Kept {
    bytes: usize,
    /// Which of them are reached.
    reach: Reach,
    need: Need,
    blocks: Blocks,
}

/// A part of the arenas, by device number; none for a device that holds nothing, or not here.
#[derive(Clone, Default)]
struct Blocks {
    own: Vec<Option<Arc<Block>>>,
    /// What other processes reach.
    reached: Vec<Option<Arc<Block>>>,
}

/// How many bytes a device needs of a part of the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Need {
    /// Of its own.
    pub own: usize,
    /// Of those that others reach.
    pub reached: usize,
}

/// What a process sees of a device's arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Sees {
    /// All: it plays the device.
    All,
    /// What is reached.
    Reached,
}

impl Arenas {
    /// Zeroed memory of their own for the devices that are played here, around what is kept. There is room for as much as
    /// is asked for, or more. `None` if there is not so much. What is reached is [shared](Arenas::sharing) after that.
    pub fn around(
        mut kept: Kept,
        bytes: usize,
        reach: Reach,
        room: Need,
        devices: &[bool],
    ) -> Option<Arenas> {
        kept.blocks.add_own(kept.need.own, devices)?;
        let room = room.or_more(need(&reach, kept.bytes..bytes));
        let mut others = Blocks::default();
        others.add_own(room.own, devices)?;
        let below = need(&reach, 0..kept.bytes);
        Some(Arenas { kept, others, room, bytes, reach, below })
    }

    /// With memory for what is reached: `share` gives so many bytes of each device, none for those that have none here,
    /// and is asked first for what is kept, if that is not there already, and then for the others. It is not asked for
    /// nothing.
    pub fn sharing<E>(
        mut self,
        mut share: impl FnMut(usize) -> Result<Vec<Option<SharedBytes>>, E>,
    ) -> Result<Arenas, E> {
        let parts = [(&mut self.kept.blocks, self.kept.need), (&mut self.others, self.room)];
        for (blocks, Need { reached, .. }) in parts {
            if reached > 0 && blocks.reached.is_empty() {
                let shared = share(reached)?.into_iter();
                blocks.reached = shared.map(|shared| shared.map(|s| Arc::new(Block::of_shared(s)))).collect();
            }
        }
        Ok(self)
    }

    /// The same memory for another plan, that keeps the same and for which it is [enough](Arenas::has).
    pub fn reaching(&self, bytes: usize, reach: Reach) -> Arenas {
        let below = need(&reach, 0..self.kept.bytes);
        Arenas { kept: self.kept.clone(), others: self.others.clone(), room: self.room, bytes, reach, below }
    }

    /// No memory for nobody.
    pub fn none() -> Arenas {
        let (kept, others, none) = (Kept::default(), Blocks::default(), Need::default());
        Arenas { kept, others, room: none, bytes: 0, reach: Reach::default(), below: none }
    }

    /// The part of the memory that can outlive the rest.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Bytes of one device.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// How much there is of each device above what is kept.
    pub fn room(&self) -> Need {
        self.room
    }

    /// Whether there is memory here for so many bytes of a device, of which so many are reached, as far as they are seen.
    pub fn has(&self, device: usize, sees: Sees, bytes: usize, reach: &Reach) -> bool {
        let others = need(reach, self.kept.bytes.min(bytes)..bytes);
        self.kept.has(device, sees) && self.others.has(device, sees, others)
    }

    /// A device's bytes, to read.
    ///
    /// Only for the tasks of a verified program, at their turn (rules 2 and 3).
    pub(crate) fn read(&self, device: usize, region: Range<usize>) -> &[u8] {
        let start = self.pointer(device, &region);
        // SAFETY: the region lies in the block (checked by `pointer`), whose bytes are initialised (zeroed
        // or written). Nobody writes to them while the task reads: rules 2 and 3.
        unsafe { std::slice::from_raw_parts(start, region.len()) }
    }

    /// A device's bytes, to write.
    ///
    /// Only for the tasks of a verified program, at their turn (rules 2 and 3).
    #[allow(clippy::mut_from_ref)] // the rules of this file stand in for the borrow checker
    pub(crate) fn write(&self, device: usize, region: Range<usize>) -> &mut [u8] {
        let start = self.pointer(device, &region);
        // SAFETY: the region lies in the block (checked by `pointer`), whose bytes are initialised (zeroed
        // or written). Nobody else touches them while the task writes: rules 2 and 3.
        unsafe { std::slice::from_raw_parts_mut(start, region.len()) }
    }

    /// Where a region starts.
    ///
    /// # Panics
    /// If the region reaches outside the device's memory or across what is kept, which instantiation and
    /// loading rule out.
    fn pointer(&self, device: usize, region: &Range<usize>) -> *mut u8 {
        let kept = self.kept.bytes;
        let within = region.start <= region.end
            && region.end <= self.bytes
            && (region.end <= kept || kept <= region.start);
        let (reach, blocks, first) = match region.end <= kept {
            true => (&self.kept.reach, &self.kept.blocks, Need::default()),
            false => (&self.reach, &self.others, self.below),
        };
        let place = reach.place(region).filter(|_| within);
        let Some((whose, below)) = place else {
            panic!(
                "bytes {region:?} of device {device} are not in its arena of {} bytes, {kept} of them kept",
                self.bytes
            )
        };
        // No bytes lie anywhere, also in an arena that is not here.
        if region.is_empty() {
            return std::ptr::without_provenance_mut(ALIGNMENT);
        }
        let (blocks, at) = match whose {
            Whose::Own => (&blocks.own, below - first.own),
            Whose::Reached => (&blocks.reached, below - first.reached),
        };
        let block = blocks.get(device).and_then(Option::as_deref);
        let block = block.expect("a device that runs tasks has an arena");
        // What other ranks share has a length of its own.
        assert!(
            at.checked_add(region.len()).is_some_and(|end| end <= block.bytes),
            "bytes {region:?} of device {device} are not among the {} that it has there",
            block.bytes
        );
        // SAFETY: `start` has `bytes` bytes after it in one allocation, and the offset is at most that.
        unsafe { block.start.as_ptr().add(at) }
    }
}

/// How many bytes lie between two offsets.
pub fn need(reach: &Reach, offsets: Range<usize>) -> Need {
    let reached = reach.below(offsets.end) - reach.below(offsets.start);
    Need { own: offsets.len() - reached, reached }
}

impl Need {
    /// As much as both need.
    pub fn or_more(self, other: Need) -> Need {
        Need { own: self.own.max(other.own), reached: self.reached.max(other.reached) }
    }
}

impl Kept {
    /// So many bytes of each device, of which those are reached; there is no memory yet.
    pub fn new(bytes: usize, reach: Reach) -> Kept {
        Kept { bytes, need: need(&reach, 0..bytes), reach, blocks: Blocks::default() }
    }

    /// How many bytes of each device.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Which of them are reached.
    pub fn reach(&self) -> &Reach {
        &self.reach
    }

    /// Whether there is that much memory of a device here, as far as it is seen.
    pub fn has(&self, device: usize, sees: Sees) -> bool {
        self.blocks.has(device, sees, self.need)
    }
}

impl Blocks {
    /// Gives so many zeroed bytes to all of the devices that have none.
    fn add_own(&mut self, bytes: usize, devices: &[bool]) -> Option<()> {
        self.own.try_reserve_exact(devices.len()).ok()?;
        self.own.resize(devices.len().max(self.own.len()), None);
        for (block, _) in self.own.iter_mut().zip(devices).filter(|(block, used)| **used && block.is_none()) {
            *block = Some(Arc::new(Block::new(bytes)?));
        }
        Some(())
    }

    fn has(&self, device: usize, sees: Sees, need: Need) -> bool {
        let has = |blocks: &[Option<Arc<Block>>], bytes: usize| {
            blocks.get(device).and_then(Option::as_ref).is_some_and(|block| block.bytes >= bytes)
        };
        (need.reached == 0 || has(&self.reached, need.reached))
            && (sees == Sees::Reached || has(&self.own, need.own))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arenas(bytes: usize, devices: &[bool]) -> Option<Arenas> {
        Arenas::around(Kept::default(), bytes, Reach::default(), Need::default(), devices)
    }

    #[test]
    fn memory_is_zero_aligned_and_each_devices_own() {
        let arenas = arenas(200, &[true, false, true]).unwrap();
        let has = |device| arenas.has(device, Sees::All, 200, &Reach::default());
        assert!(has(0) && !has(1) && has(2) && !has(3));
        assert_eq!(arenas.read(0, 0..200), [0; 200]);
        assert_eq!(arenas.read(2, 0..1).as_ptr().align_offset(ALIGNMENT), 0);
        arenas.write(0, 10..12).copy_from_slice(&[1, 2]);
        assert_eq!(arenas.read(0, 9..13), [0, 1, 2, 0]);
        assert_eq!(arenas.read(2, 9..13), [0; 4]);
    }

    #[test]
    fn what_is_kept_outlives_the_rest() {
        let devices = [true, false, true];
        let around = |kept: Kept, bytes, devices: &[bool]| {
            Arenas::around(kept, bytes, Reach::default(), Need::default(), devices).unwrap()
        };
        let small = around(Kept::new(64, Reach::default()), 128, &devices);
        small.write(2, 60..64).copy_from_slice(&[1, 2, 3, 4]);
        small.write(2, 64..66).copy_from_slice(&[5, 6]);
        let large = around(small.kept().clone(), 1 << 20, &[true; 3]);
        drop(small);
        assert_eq!(large.read(2, 60..64), [1, 2, 3, 4]);
        assert_eq!(large.read(2, 64..66), [0, 0]);
        assert_eq!(large.read(1, 0..4), [0; 4]);
    }

    #[test]
    #[should_panic(expected = "64 of them kept")]
    fn regions_across_what_is_kept_are_refused() {
        let kept = Kept::new(64, Reach::default());
        Arenas::around(kept, 128, Reach::default(), Need::default(), &[true]).unwrap().read(0, 60..68);
    }

    #[test]
    fn large_memory_is_zero_and_aligned_too() {
        let arenas = arenas(Block::LARGE + 100, &[true]).unwrap();
        assert_eq!(arenas.read(0, 0..1).as_ptr().align_offset(ALIGNMENT), 0);
        assert_eq!(arenas.read(0, Block::LARGE..Block::LARGE + 100), [0; 100]);
        arenas.write(0, Block::LARGE + 99..Block::LARGE + 100).fill(1);
    }

    #[test]
    fn what_cannot_be_had_is_none() {
        assert!(arenas(usize::MAX, &[true]).is_none());
        assert!(arenas(isize::MAX as usize - 200, &[true]).is_none());
    }

    #[test]
    fn no_memory_is_memory_too() {
        assert_eq!(arenas(0, &[true]).unwrap().read(0, 0..0), [0; 0]);
    }

    #[test]
    #[should_panic(expected = "not in its arena")]
    fn regions_outside_are_refused() {
        arenas(8, &[true]).unwrap().read(0, 4..9);
    }

    fn reaching(extent: Range<usize>) -> Reach {
        Reach::of([(extent, Whose::Reached)])
    }

    /// The arenas of a rank that plays device 0 and shares memory with device 1, of which others reach the bytes from 64
    /// to 192; each shares so many, however many are asked for.
    fn of_rank(shared: usize) -> Arenas {
        let kept = Kept::new(64, Reach::default());
        let none = Need::default();
        let arenas = Arenas::around(kept, 256, reaching(64..192), none, &[true, false]).unwrap();
        let share = |asked| {
            assert_eq!(asked, 128, "what is kept is not reached, so that it is not asked for");
            Ok::<_, ()>((0..2).map(|_| SharedBytes::within_process(shared)).collect())
        };
        arenas.sharing(share).unwrap()
    }

    #[test]
    fn others_see_what_is_reached() {
        let arenas = of_rank(128);
        let has = |device, sees| arenas.has(device, sees, 256, &reaching(64..192));
        assert!(has(0, Sees::All) && has(1, Sees::Reached));
        assert!(!has(1, Sees::All), "the rest of it is with the rank that plays it");
        for (device, region) in [(0, 0..64), (0, 64..192), (0, 192..256), (1, 64..192)] {
            assert_eq!(arenas.write(device, region.clone()), vec![0; region.len()]);
            arenas.write(device, region.clone()).fill(region.start as u8 + 1);
        }
        assert_eq!(arenas.read(0, 63..64), [1]);
        assert_eq!(arenas.read(0, 64..65), [65]);
        assert_eq!(arenas.read(0, 192..193), [193]);
        assert_eq!(arenas.read(1, 256..256), [0; 0], "no bytes are everywhere");
    }

    #[test]
    fn another_plan_reaches_other_bytes_of_the_same_memory() {
        let arenas = of_rank(128);
        assert_eq!(arenas.room(), Need { own: 64, reached: 128 });
        let fits = |bytes, extent| {
            let reach = reaching(extent);
            let has = arenas.has(0, Sees::All, bytes, &reach) && arenas.has(1, Sees::Reached, bytes, &reach);
            has.then(|| arenas.reaching(bytes, reach))
        };
        let other = fits(192, 128..192).expect("it needs no more than there is");
        other.write(0, 64..128).fill(1);
        other.write(0, 128..192).fill(2);
        assert_eq!(other.read(0, 127..128), [1]);
        assert!(fits(256, 64..256).is_none(), "more is reached");
        assert!(fits(256, 128..192).is_none(), "more is not reached");
        // What is kept lies where it lay, whatever another plan reaches.
        arenas.write(0, 0..64).fill(3);
        let over_all = fits(192, 0..192).expect("as much above what is kept");
        assert_eq!(over_all.read(0, 0..64), [3; 64]);
        assert_eq!(over_all.read(0, 127..129), [2, 0], "what was reached first is so still");
    }

    #[test]
    fn there_is_room_for_what_plans_before_needed() {
        let kept = Kept::new(64, reaching(0..64));
        let room = Need { own: 200, reached: 1 };
        let arenas = Arenas::around(kept, 256, reaching(64..192), room, &[true, false]).unwrap();
        assert_eq!(arenas.room(), Need { own: 200, reached: 128 });
        let mut asked = Vec::new();
        let arenas = arenas.sharing(|bytes| {
            asked.push(bytes);
            Ok::<_, ()>((0..2).map(|_| SharedBytes::within_process(bytes)).collect())
        });
        let arenas = arenas.unwrap();
        assert_eq!(asked, [64, 128]);
        assert!(arenas.has(0, Sees::All, 264, &Reach::default()));
        arenas.write(1, 0..64).fill(1);
        assert_eq!(arenas.read(0, 0..64), [0; 64]);
    }

    #[test]
    #[should_panic(expected = "a device that runs tasks has an arena")]
    fn nobody_reaches_the_rest_of_another_arena() {
        of_rank(128).read(1, 192..200);
    }

    #[test]
    #[should_panic(expected = "are not in its arena")]
    fn regions_across_what_is_reached_are_refused() {
        of_rank(128).read(0, 190..200);
    }

    #[test]
    fn shared_memory_that_is_too_short_is_none() {
        let short = of_rank(100);
        let has = |device, sees| short.has(device, sees, 256, &reaching(64..192));
        assert!(!has(0, Sees::All) && !has(1, Sees::Reached));
        assert_eq!(short.read(0, 154..164), [0; 10]);
    }

    #[test]
    #[should_panic(expected = "not among the 100 that it has there")]
    fn regions_outside_of_what_is_shared_are_refused() {
        of_rank(100).read(0, 154..165);
    }
}
