//! The streams of a layout: how many steps each runs, and what the layout is at one step.

use super::{CeilPieces, Factor, Layout, Peer, StepId};
use crate::id::Id;
use std::collections::BTreeSet;

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

    /// Blocks of different sizes may have different numbers of pieces, and not the largest the most:
    /// 4 over 3 steps is 2, 2; 3 over 3 steps is 1, 1, 1.
    fn streams_of(&self, dim: usize, size: u64) -> Vec<Stream> {
        let mut blocks = BTreeSet::from([size]);
        let mut found = Vec::new();
        for (place, factor) in self.cuts()[dim].iter().enumerate() {
            let count = match factor {
                Factor::Axis(axis) | Factor::Peer(Peer { axis, sizes: None, .. }) => self.mesh().size(*axis),
                Factor::Local(count) | Factor::Step(count, _) => *count,
                Factor::Stream(steps) => steps.count(size),
                Factor::Sizes(_, sizes) | Factor::Peer(Peer { sizes: Some(sizes), .. }) => {
                    blocks = sizes.iter().copied().collect();
                    continue;
                }
            };
            let steps = blocks.iter().map(|block| CeilPieces::new(*block, count).filled()).max().unwrap_or(0);
            if factor.is_stream() && steps > 1 {
                found.push(Stream { dim, place, blocks: count, steps });
            }
            blocks =
                blocks.iter().flat_map(|block| CeilPieces::new(*block, count).different_sizes()).collect();
        }
        found
    }

    /// The layout inside a loop over its streams: each becomes the running step of its counter.
    /// Counters are numbered in the order of [`Layout::streams`], from `first`.
    pub fn at_step(&self, sizes: &[u64], first: StepId) -> Layout {
        let streams = self.streams(sizes);
        let mut cuts = self.cuts().to_vec();
        for (number, stream) in streams.iter().enumerate() {
            cuts[stream.dim][stream.place] = Factor::Step(stream.blocks, StepId::new(first.index() + number));
        }
        Layout { mesh: self.mesh().clone(), cuts, partial: self.partial().to_vec() }
    }

    /// How many steps a loop over all streams runs.
    pub fn step_count(&self, sizes: &[u64]) -> u64 {
        self.streams(sizes).iter().map(|stream| stream.steps).fold(1, u64::saturating_mul)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::{Cuts, Steps};
    use crate::mesh::Mesh;
    use std::sync::Arc;

    fn steps(axis_size: u64, cuts: impl Fn(crate::mesh::AxisId) -> Cuts, size: u64) -> u64 {
        let mesh = Mesh::new("line", [("tp".to_string(), axis_size)], None).expect("a mesh");
        let axis = mesh.axis("tp").expect("its axis");
        let layout = Layout::new(Arc::new(mesh), vec![cuts(axis)], Vec::new()).expect("one axis");
        layout.step_count(&[size])
    }

    #[test]
    fn every_step_that_does_anything_on_some_device_runs() {
        let stream = |n| Factor::Stream(Steps::Count(n));
        assert_eq!(steps(2, |tp| vec![stream(4), Factor::Axis(tp)], 13), 4);
        assert_eq!(steps(2, |_| vec![stream(9)], 7), 7);
        assert_eq!(steps(2, |_| vec![stream(4)], 5), 3, "2, 2, 1");
        assert_eq!(steps(2, |tp| vec![Factor::Axis(tp), stream(3)], 7), 3, "2, 2 beside 1, 1, 1");
        assert_eq!(steps(2, |tp| vec![Factor::Sizes(tp, [4, 3].into()), stream(3)], 7), 3);
        assert_eq!(steps(2, |tp| vec![Factor::Axis(tp), stream(3)], 0), 1);
    }

    /// All lists of up to three of these factors, each mesh axis at most once, on `a = 2, b = 3`.
    fn lists() -> Vec<Cuts> {
        let (a, b) = (crate::mesh::AxisId::new(0), crate::mesh::AxisId::new(1));
        let factors = [
            Factor::Axis(a),
            Factor::Axis(b),
            Factor::Local(2),
            Factor::Stream(Steps::Count(2)),
            Factor::Stream(Steps::Count(4)),
        ];
        let longer = |list: &Cuts| -> Vec<Cuts> {
            let fits = |factor: &&Factor| factor.axis().is_none() || !list.contains(factor);
            factors.iter().filter(fits).map(|f| list.iter().chain([f]).cloned().collect()).collect()
        };
        let one = longer(&Cuts::new());
        let two: Vec<Cuts> = one.iter().flat_map(longer).collect();
        let three: Vec<Cuts> = two.iter().flat_map(longer).collect();
        [one, two, three].concat()
    }

    #[test]
    fn the_steps_are_those_at_which_some_device_holds_something() {
        let mesh = Arc::new(Mesh::new("m", [("a".into(), 2), ("b".into(), 3)], None).expect("a mesh"));
        let mut compared = 0;
        for cuts in lists() {
            let layout = Layout::new(mesh.clone(), vec![cuts.clone()], Vec::new()).expect("each axis once");
            for size in 0..14 {
                let streams = layout.streams(&[size]);
                let [stream] = streams[..] else { continue };
                let stepped = layout.at_step(&[size], StepId::new(0));
                let holds = |step: &u64| {
                    let pieces = super::super::DimCuts::new(&stepped, 0, size, &[*step]);
                    pieces.pieces().iter().any(|piece| piece.count() > 0)
                };
                let held: Vec<u64> = (0..stream.blocks).filter(holds).collect();
                assert_eq!(held, (0..stream.steps).collect::<Vec<_>>(), "{cuts:?} of {size}");
                compared += 1;
            }
        }
        assert!(compared > 500, "{compared} layouts have one stream");
    }
}
