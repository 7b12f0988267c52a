//! The memory of all devices of a session: one block a device, shared by the threads that play them.
//!
//! Every device writes only to its own block and
//! reads blocks of others while a move runs; no lock guards the bytes. That this is sound rests on
//! three things, named in the `SAFETY` reasons below:
//!
//! 1. **Bounds.** [`instantiate`](crate::instantiate) checks that every region of every task lies in the
//!    arena; regions are checked again here.
//! 2. **The verifier.** A session runs only programs that [`verify`](shardweave_compiler::host::verify)
//!    has proved: no two buffers alive at a time share bytes, and whatever two streams touch is ordered
//!    by an event unless both only read.
//! 3. **The rendezvous.** A device reads a peer's buffer only after the peer has published that it
//!    arrived at the move, and the peer goes on only after the reader has published that it is done
//!    ([`Progress`](crate::threads::Progress): release and acquire). All that the peer wrote before
//!    happens before the read; all that it writes after happens after.
//!
//! So two threads never touch the same byte at the same time unless both read. References are made only
//! for the very bytes that a task reads or writes, and only as long as it does.
#![expect(unsafe_code, reason = "devices share memory by the rules above")]

use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::ops::Range;
use std::ptr::NonNull;

/// Buffers start at multiples of this: a cache line, and more than any element type asks for.
pub const ALIGNMENT: usize = 64;

/// The memory of all devices of a session.
pub struct Arenas {
    /// By device number; none for a device that holds nothing.
    blocks: Vec<Option<Block>>,
    bytes: usize,
}

/// Zeroed memory of one device.
struct Block {
    allocated: NonNull<u8>,
    layout: Layout,
    /// The first byte at a multiple of [`ALIGNMENT`].
    start: NonNull<u8>,
}

// SAFETY: a block owns its memory; who may touch which bytes when is settled by the three rules above.
unsafe impl Send for Block {}
// SAFETY: the same.
unsafe impl Sync for Block {}

impl Arenas {
    /// Zeroed memory for the devices that need some; `None` if there is not so much.
    pub fn new(bytes: usize, devices: &[bool]) -> Option<Arenas> {
        let mut blocks = Vec::new();
        blocks.try_reserve_exact(devices.len()).ok()?;
        for &used in devices {
            blocks.push(if used { Some(Block::new(bytes)?) } else { None });
        }
        Some(Arenas { blocks, bytes })
    }

    /// No memory for nobody.
    pub fn none() -> Arenas {
        Arenas { blocks: Vec::new(), bytes: 0 }
    }

    /// Bytes of one device.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether a device has memory here.
    pub fn has(&self, device: usize) -> bool {
        self.blocks.get(device).is_some_and(Option::is_some)
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
    /// If the region reaches outside the device's memory, which instantiation rules out.
    fn pointer(&self, device: usize, region: &Range<usize>) -> *mut u8 {
        assert!(
            region.start <= region.end && region.end <= self.bytes,
            "bytes {region:?} of device {device} are not in its arena of {} bytes",
            self.bytes
        );
        let block = self.blocks[device].as_ref().expect("a device that runs tasks has an arena");
        // SAFETY: `start` has `self.bytes` bytes after it in one allocation, and the offset is at most that.
        unsafe { block.start.as_ptr().add(region.start) }
    }
}

impl Block {
    /// `bytes` zero bytes at a multiple of [`ALIGNMENT`]; `None` if there is not so much memory.
    fn new(bytes: usize) -> Option<Block> {
        // Zeroed memory of small alignment comes untouched from the system; of large alignment it would
        // be written here. So align by hand.
        let layout = Layout::from_size_align(bytes.checked_add(ALIGNMENT)?, 8).ok()?;
        // SAFETY: the size is not zero: it is at least `ALIGNMENT`.
        let allocated = NonNull::new(unsafe { alloc_zeroed(layout) })?;
        let skip = allocated.as_ptr().align_offset(ALIGNMENT);
        assert!(skip < ALIGNMENT, "a byte pointer can be aligned within the {ALIGNMENT} bytes added for it");
        // SAFETY: `skip < ALIGNMENT`, so the result and `bytes` after it lie in the allocation.
        let start = unsafe { allocated.add(skip) };
        Some(Block { allocated, layout, start })
    }
}

impl Drop for Block {
    fn drop(&mut self) {
        // SAFETY: allocated by `new` with this layout, and freed once: here.
        unsafe { dealloc(self.allocated.as_ptr(), self.layout) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_zero_aligned_and_each_devices_own() {
        let arenas = Arenas::new(200, &[true, false, true]).unwrap();
        assert!(arenas.has(0) && !arenas.has(1) && arenas.has(2) && !arenas.has(3));
        assert_eq!(arenas.read(0, 0..200), [0; 200]);
        assert_eq!(arenas.read(2, 0..1).as_ptr().align_offset(ALIGNMENT), 0);
        arenas.write(0, 10..12).copy_from_slice(&[1, 2]);
        assert_eq!(arenas.read(0, 9..13), [0, 1, 2, 0]);
        assert_eq!(arenas.read(2, 9..13), [0; 4]);
    }

    #[test]
    fn what_cannot_be_had_is_none() {
        assert!(Arenas::new(usize::MAX, &[true]).is_none());
        assert!(Arenas::new(isize::MAX as usize - 200, &[true]).is_none());
    }

    #[test]
    fn no_memory_is_memory_too() {
        assert_eq!(Arenas::new(0, &[true]).unwrap().read(0, 0..0), [0; 0]);
    }

    #[test]
    #[should_panic(expected = "not in its arena")]
    fn regions_outside_are_refused() {
        Arenas::new(8, &[true]).unwrap().read(0, 4..9);
    }
}
