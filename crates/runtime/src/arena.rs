//! The memory of all devices of a session: one block a device, shared by the threads, or by the ranks of a host, that
//! play them.
//!
//! Every device writes only to its own block and
//! reads blocks of others while a move runs or a loan lasts; no lock guards the bytes. That this is sound rests on
//! three things, named in the `SAFETY` reasons below:
//!
//! 1. **Bounds.** [`instantiate`](crate::instantiate) checks that every region of every task lies in the
//!    arena; regions are checked again here.
//! 2. **The verifier.** A session runs only [`Verified`](shardweave_compiler::host::Verified) programs:
//!    no two buffers alive at a time share bytes, and whatever two streams touch is ordered by an event
//!    unless both only read.
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

use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Buffers start at multiples of this: a cache line, and more than any element type asks for.
pub const ALIGNMENT: usize = 64;

/// The memory of all devices of a session.
///
/// ```text
///  offset   0 ........ kept ................ bytes
///  block    [ kept    ][ the others         ]
/// ```
pub struct Arenas {
    kept: Kept,
    /// The bytes above those that are kept, by device number; none for a device that holds nothing.
    others: Vec<Option<Block>>,
    bytes: usize,
}

/// The first bytes of every device, in blocks of their own: they outlive the arenas around them.
#[derive(Clone, Default)]
pub struct Kept {
    bytes: usize,
    blocks: Vec<Option<Arc<Block>>>,
}

/// Zeroed memory of one device.
struct Block {
    memory: Memory,
    /// The first byte at a multiple of [`ALIGNMENT`].
    start: NonNull<u8>,
    /// How many there are.
    bytes: usize,
}

/// Zeroed bytes that processes share. See [`Engine::share`](crate::engine::Engine::share).
#[derive(Clone)]
pub struct SharedBytes {
    start: NonNull<u8>,
    bytes: usize,
    /// Holds on to the memory.
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: bytes that are owned; who may touch which when is settled by the three rules above.
unsafe impl Send for SharedBytes {}
// SAFETY: the same.
unsafe impl Sync for SharedBytes {}

impl SharedBytes {
    /// Bytes that live as long as their owner.
    ///
    /// # Safety
    /// `start` is a multiple of 64, the `bytes` bytes from there can be read and written, by this process
    /// and those it shares them with, until `owner` is dropped, and nobody else uses them.
    pub unsafe fn new(start: NonNull<u8>, bytes: usize, owner: Arc<dyn Any + Send + Sync>) -> SharedBytes {
        SharedBytes { start, bytes, owner }
    }

    /// Zeroed bytes that only threads of this process share; none if there is not so much memory.
    pub fn within_process(bytes: usize) -> Option<SharedBytes> {
        let block = Block::new(bytes)?;
        Some(SharedBytes { start: block.start, bytes, owner: Arc::new(block) })
    }

    /// Where they start.
    pub fn start(&self) -> NonNull<u8> {
        self.start
    }

    /// How many bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// A number that processes share, at a multiple of 8 bytes. Bytes that numbers are kept in are used for nothing
    /// else.
    ///
    /// # Panics
    /// If it is not one, or does not lie in these bytes.
    pub(crate) fn number(&self, at: usize) -> &AtomicU64 {
        assert!(
            at.is_multiple_of(8) && at + 8 <= self.bytes,
            "there is no number at {at} of {} bytes",
            self.bytes
        );
        // SAFETY: the number lies in the bytes, is aligned as they are and by its place, lives as long as they do, and
        // every bit pattern is one.
        unsafe { AtomicU64::from_ptr(self.start.as_ptr().add(at).cast()) }
    }
}

/// Where a block's memory comes from.
enum Memory {
    Heap(NonNull<u8>, Layout),
    /// Pages of its own, as large as the system makes them: walking over rows of a large piece then
    /// costs no look-up of a page each.
    Pages(#[expect(dead_code, reason = "kept for as long as the block is")] MmapMut),
    /// Shared with other processes.
    Shared(#[expect(dead_code, reason = "kept for as long as the block is")] Arc<dyn Any + Send + Sync>),
}

// SAFETY: a block owns its memory; who may touch which bytes when is settled by the three rules above.
unsafe impl Send for Block {}
// SAFETY: the same.
unsafe impl Sync for Block {}

impl Arenas {
    /// Zeroed memory for the devices that need some, around memory that is there already: the first `kept`
    /// bytes of a device are those of `before` if it kept as many, else zeroed too. `None` if there is not
    /// so much.
    ///
    /// # Panics
    /// If more bytes are kept than there are.
    pub fn around(before: Kept, kept: usize, bytes: usize, devices: &[bool]) -> Option<Arenas> {
        let before = if before.bytes == kept { before.blocks } else { Vec::new() };
        let others = bytes.checked_sub(kept).expect("what is kept is a part of the arena");
        let mut arenas = Arenas { kept: Kept { bytes: kept, blocks: Vec::new() }, others: Vec::new(), bytes };
        arenas.kept.blocks.try_reserve_exact(devices.len()).ok()?;
        arenas.others.try_reserve_exact(devices.len()).ok()?;
        for (device, &used) in devices.iter().enumerate() {
            let there = before.get(device).cloned().flatten();
            let (kept, others) = match (used, there) {
                (false, there) => (there, None),
                (true, Some(there)) => (Some(there), Some(Block::new(others)?)),
                (true, None) => (Some(Arc::new(Block::new(kept)?)), Some(Block::new(others)?)),
            };
            arenas.kept.blocks.push(kept);
            arenas.others.push(others);
        }
        Some(arenas)
    }

    /// The same in memory that processes share: `share` gives so many bytes for each device, none for those that
    /// have none here, and is asked first for what is kept, if that is not there already, and then for the others.
    pub fn shared<E>(
        before: Kept,
        kept: usize,
        bytes: usize,
        mut share: impl FnMut(usize) -> Result<Vec<Option<SharedBytes>>, E>,
    ) -> Result<Arenas, E> {
        let others = bytes.checked_sub(kept).expect("what is kept is a part of the arena");
        let blocks = match before.bytes == kept && !before.blocks.is_empty() {
            true => before.blocks,
            false => {
                share(kept)?.into_iter().map(|shared| shared.map(|s| Arc::new(Block::of_shared(s)))).collect()
            }
        };
        let others = share(others)?.into_iter().map(|shared| shared.map(Block::of_shared)).collect();
        Ok(Arenas { kept: Kept { bytes: kept, blocks }, others, bytes })
    }

    /// No memory for nobody.
    pub fn none() -> Arenas {
        Arenas { kept: Kept::default(), others: Vec::new(), bytes: 0 }
    }

    /// The part of the memory that can outlive the rest.
    pub fn kept(&self) -> &Kept {
        &self.kept
    }

    /// Bytes of one device.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a device has as much memory here.
    pub fn has(&self, device: usize) -> bool {
        self.others
            .get(device)
            .and_then(Option::as_ref)
            .is_some_and(|block| block.bytes >= self.bytes - self.kept.bytes)
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
        assert!(
            region.start <= region.end
                && region.end <= self.bytes
                && (region.end <= kept || kept <= region.start),
            "bytes {region:?} of device {device} are not in its arena of {} bytes, {kept} of them kept",
            self.bytes
        );
        let (block, at) = match region.end <= kept {
            true => (self.kept.blocks[device].as_deref(), region.start),
            false => (self.others[device].as_ref(), region.start - kept),
        };
        let block = block.expect("a device that runs tasks has an arena");
        // What other ranks share has a length of its own.
        assert!(
            at.checked_add(region.len()).is_some_and(|end| end <= block.bytes),
            "bytes {region:?} of device {device} are not among the {} that it shares",
            block.bytes
        );
        // SAFETY: `start` has `bytes` bytes after it in one allocation, and the offset is at most that.
        unsafe { block.start.as_ptr().add(at) }
    }
}

impl Kept {
    /// How many bytes of each device.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a device has as much memory here.
    pub fn has(&self, device: usize) -> bool {
        self.blocks.get(device).and_then(Option::as_ref).is_some_and(|block| block.bytes >= self.bytes)
    }
}

impl Block {
    /// From so many bytes on a block has pages of its own: a few large pages.
    const LARGE: usize = 8 << 20;

    /// `bytes` zero bytes at a multiple of [`ALIGNMENT`]; `None` if there is not so much memory.
    fn new(bytes: usize) -> Option<Block> {
        if bytes >= Block::LARGE { Block::of_pages(bytes) } else { Block::of_heap(bytes) }
    }

    fn of_pages(bytes: usize) -> Option<Block> {
        let mut pages = MmapMut::map_anon(bytes).ok()?;
        // Large pages are a wish: without them all is as it would be, but slower.
        #[cfg(target_os = "linux")]
        let _ = pages.advise(memmap2::Advice::HugePage);
        // A page starts at a multiple of more than `ALIGNMENT`.
        let start = NonNull::new(pages.as_mut_ptr())?;
        Some(Block { memory: Memory::Pages(pages), start, bytes })
    }

    fn of_shared(SharedBytes { start, bytes, owner }: SharedBytes) -> Block {
        Block { memory: Memory::Shared(owner), start, bytes }
    }

    fn of_heap(bytes: usize) -> Option<Block> {
        // Zeroed memory of small alignment comes untouched from the system; of large alignment it would
        // be written here. So align by hand.
        let layout = Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, 8).ok()?;
        // SAFETY: the size is not zero: it is at least `ALIGNMENT`.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = allocated.as_ptr().align_offset(ALIGNMENT);
        assert!(skip < ALIGNMENT, "a byte pointer can be aligned within the {ALIGNMENT} bytes added for it");
        // SAFETY: `skip < ALIGNMENT`, so the result and `bytes` after it lie in the allocation.
        let start = unsafe { allocated.add(skip) };
        Some(Block { memory: Memory::Heap(allocated, layout), start, bytes })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        if let Memory::Heap(allocated, layout) = &self.memory {
            // SAFETY: allocated by `of_heap` with this layout, and freed once: here.
            unsafe { dealloc(allocated.as_ptr(), *layout) }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arenas(bytes: usize, devices: &[bool]) -> Option<Arenas> {
        Arenas::around(Kept::default(), 0, bytes, devices)
    }

    #[test]
    fn memory_is_zero_aligned_and_each_devices_own() {
        let arenas = arenas(200, &[true, false, true]).unwrap();
        assert!(arenas.has(0) && !arenas.has(1) && arenas.has(2) && !arenas.has(3));
        assert_eq!(arenas.read(0, 0..200), [0; 200]);
        assert_eq!(arenas.read(2, 0..1).as_ptr().align_offset(ALIGNMENT), 0);
        arenas.write(0, 10..12).copy_from_slice(&[1, 2]);
        assert_eq!(arenas.read(0, 9..13), [0, 1, 2, 0]);
        assert_eq!(arenas.read(2, 9..13), [0; 4]);
    }

    #[test]
    fn what_is_kept_outlives_the_rest() {
        let devices = [true, false, true];
        let small = Arenas::around(Kept::default(), 64, 128, &devices).unwrap();
        small.write(2, 60..64).copy_from_slice(&[1, 2, 3, 4]);
        small.write(2, 64..66).copy_from_slice(&[5, 6]);
        let large = Arenas::around(small.kept().clone(), 64, 1 << 20, &[true, true, true]).unwrap();
        drop(small);
        assert_eq!(large.read(2, 60..64), [1, 2, 3, 4]);
        assert_eq!(large.read(2, 64..66), [0, 0]);
        assert_eq!(large.read(1, 0..4), [0; 4]);
        // Another size is another memory.
        let other = Arenas::around(large.kept().clone(), 128, 1 << 20, &devices).unwrap();
        assert_eq!(other.read(2, 60..64), [0; 4]);
    }

    #[test]
    #[should_panic(expected = "64 of them kept")]
    fn regions_across_what_is_kept_are_refused() {
        Arenas::around(Kept::default(), 64, 128, &[true]).unwrap().read(0, 60..68);
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

    /// Ranks share 100 bytes each, however many are asked for.
    fn short() -> Arenas {
        let share = |_| Ok::<_, ()>(vec![SharedBytes::within_process(100), None]);
        Arenas::shared(Kept::default(), 0, 128, share).unwrap()
    }

    #[test]
    fn shared_memory_that_is_too_short_is_none() {
        let short = short();
        assert!(short.kept().has(0) && !short.has(0) && !short.has(1));
        assert_eq!(short.read(0, 90..100), [0; 10]);
    }

    #[test]
    #[should_panic(expected = "not among the 100 that it shares")]
    fn regions_outside_of_what_is_shared_are_refused() {
        short().read(0, 90..101);
    }
}
