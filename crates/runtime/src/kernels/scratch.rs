//! Memory that kernels work in: tiles, blocks, operands brought into another order.
//!
//! Each lane of a device keeps its scratch from run to run. A kernel takes buffers and gives them back when it is done;
//! after a few runs of a program the largest ones are there, and nothing is allocated any more.

use crate::tensor::AlignedBytes;
use bytemuck::Pod;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::marker::PhantomData;
use std::ops::{Deref, DerefMut};

/// Buffers of one lane that nobody uses at the moment.
#[derive(Default)]
pub struct Scratch {
    free: RefCell<Vec<AlignedBytes>>,
}

impl Scratch {
    /// No buffers yet.
    pub fn new() -> Scratch {
        Scratch::default()
    }

    /// A buffer of so many elements; what they are is arbitrary.
    pub(crate) fn buffer<T: Pod>(&self, len: usize) -> Buffer<'_, T> {
        let size = len.checked_mul(size_of::<T>()).expect("a buffer fits in memory");
        let mut bytes = self.taken(size);
        bytes.resize(size);
        Buffer { scratch: self, bytes, elements: PhantomData }
    }

    /// The smallest free buffer with room for so many bytes; without one the largest, which grows.
    fn taken(&self, size: usize) -> AlignedBytes {
        let mut free = self.free.borrow_mut();
        let fits = |bytes: &AlignedBytes| bytes.capacity() >= size;
        let order = |bytes: &AlignedBytes| match fits(bytes) {
            true => Ok(bytes.capacity()),
            false => Err(Reverse(bytes.capacity())),
        };
        let best = (0..free.len()).min_by_key(|&index| order(&free[index]));
        best.map(|index| free.swap_remove(index)).unwrap_or_default()
    }
}

/// A buffer that a kernel has taken.
pub(crate) struct Buffer<'a, T> {
    scratch: &'a Scratch,
    bytes: AlignedBytes,
    elements: PhantomData<T>,
}

impl<T: Pod> Deref for Buffer<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        bytemuck::cast_slice(self.bytes.as_slice())
    }
}

impl<T: Pod> DerefMut for Buffer<'_, T> {
    fn deref_mut(&mut self) -> &mut [T] {
        bytemuck::cast_slice_mut(self.bytes.as_mut_slice())
    }
}

impl<T> Drop for Buffer<'_, T> {
    fn drop(&mut self) {
        self.scratch.free.borrow_mut().push(std::mem::take(&mut self.bytes));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_come_back_and_the_smallest_that_fits_is_taken() {
        let scratch = Scratch::new();
        let (small, large) = (scratch.buffer::<f32>(100), scratch.buffer::<u8>(100_000));
        let [at_small, at_large] = [small.as_ptr() as usize, large.as_ptr() as usize];
        drop((large, small));
        let (again, other) = (scratch.buffer::<i64>(40), scratch.buffer::<i64>(40));
        assert_eq!((again.as_ptr() as usize, other.as_ptr() as usize), (at_small, at_large));
        assert_eq!((again.len(), other.len()), (40, 40));
    }

    #[test]
    fn the_largest_grows_if_none_fits() {
        let scratch = Scratch::new();
        drop((scratch.buffer::<u8>(64), scratch.buffer::<u8>(128)));
        drop(scratch.buffer::<u8>(1024));
        let mut capacities: Vec<usize> = scratch.free.borrow().iter().map(AlignedBytes::capacity).collect();
        capacities.sort_unstable();
        assert!(capacities.len() == 2 && capacities[0] < 1024 && capacities[1] >= 1024, "{capacities:?}");
    }
}
