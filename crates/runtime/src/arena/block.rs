//! Where the bytes of an arena come from: the heap, pages of their own, or memory that processes share.
#![expect(unsafe_code, reason = "memory that devices share is handed out by its address")]

use super::ALIGNMENT;
use memmap2::MmapMut;
use std::alloc::{Layout, alloc_zeroed, dealloc};
use std::any::Any;
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Zeroed memory of one device.
pub(super) struct Block {
    memory: Memory,
    /// The first byte at a multiple of [`ALIGNMENT`].
    pub(super) start: NonNull<u8>,
    /// How many there are.
    pub(super) bytes: usize,
}

/// Zeroed bytes that processes share. See [`Engine::share`](crate::engine::Engine::share).
#[derive(Clone)]
pub struct SharedBytes {
    start: NonNull<u8>,
    bytes: usize,
    /// Holds on to the memory.
    owner: Arc<dyn Any + Send + Sync>,
}

// SAFETY: bytes that are owned; who may touch which when is settled by the three rules of the [module](super).
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

// SAFETY: a block owns its memory; who may touch which bytes when is settled by the three rules of the [module](super).
unsafe impl Send for Block {}
// SAFETY: the same.
unsafe impl Sync for Block {}

impl Block {
    /// From so many bytes on a block has pages of its own: a few large pages.
    pub(super) const LARGE: usize = 8 << 20;

    /// `bytes` zero bytes at a multiple of [`ALIGNMENT`]; `None` if there is not so much memory.
    pub(super) fn new(bytes: usize) -> Option<Block> {
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

    pub(super) fn of_shared(SharedBytes { start, bytes, owner }: SharedBytes) -> Block {
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
