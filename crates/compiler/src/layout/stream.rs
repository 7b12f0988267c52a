//! The streams of a layout: how many steps each runs, and what the layout is at one step.

use super::{Factor, Layout, StepId};
use crate::id::Id;

/// A stream of a layout: one counter of the loop that runs it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Stream {
    /// The dim it is a factor of.
    pub dim: usize,
    /// Its place among the dim's factors.
    pub place: usize,
    /// Into how many blocks it cuts.
    pub blocks: u64,
    /// How many of its steps do anything on some device; at least 2.
    pub steps: u64,
}

impl Layout {
    /// The streams that run more than one step, dim by dim, outermost first.
    pub fn streams(&self, sizes: &[u64]) -> Vec<Stream> {
        (0..self.ndim()).flat_map(|dim| self.streams_of(dim, sizes[dim])).collect()
    }

    fn streams_of(&self, dim: usize, size: u64) -> Vec<Stream> {
        let mut block = size;
        let mut found = Vec::new();
        for (place, factor) in self.cuts()[dim].iter().enumerate() {
            let blocks = match factor {
                Factor::Axis(axis) => self.mesh().size(*axis),
                Factor::Local(count) | Factor::Step(count, _) => *count,
                Factor::Stream(steps) => steps.count(size),
                Factor::Sizes(_, sizes) => {
                    block = sizes.iter().copied().max().unwrap_or(0);
                    continue;
                }
            };
            let piece = block.div_ceil(blocks);
            if factor.is_stream() && piece > 0 && block.div_ceil(piece) > 1 {
                found.push(Stream { dim, place, blocks, steps: block.div_ceil(piece) });
            }
            block = piece;
        }
        found
    }

    /// The layout inside a loop over its streams: each becomes the running step of its counter.
    /// Counters are numbered in the order of [`Layout::streams`], from `first`.
    pub fn at_step(&self, sizes: &[u64], first: usize) -> Layout {
        let streams = self.streams(sizes);
        let mut cuts = self.cuts().to_vec();
        for (number, stream) in streams.iter().enumerate() {
            cuts[stream.dim][stream.place] = Factor::Step(stream.blocks, StepId::new(first + number));
        }
        Layout { mesh: self.mesh().clone(), cuts, partial: self.partial().to_vec() }
    }

    /// How many steps a loop over all streams runs.
    pub fn step_count(&self, sizes: &[u64]) -> u64 {
        self.streams(sizes).iter().map(|stream| stream.steps).fold(1, u64::saturating_mul)
    }
}
