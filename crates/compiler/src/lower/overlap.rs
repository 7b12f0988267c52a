//! How the steps of a loop overlap: what its communication is, step by step.

use super::Lower;
use crate::id::Id;
use crate::instr::{Kind, MOST_PIPELINED, Move, Path, TensorType};
use crate::layout::{DimCuts, Factor, IndexSet, Peer, StepId, Whose};
use crate::local::{LocalId, LocalInstr};
use crate::mesh::AxisId;
use crate::placement::Overlap;
use std::ops::Range;

/// Why the steps of a loop do not overlap, though nobody wants them apart.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Apart {
    /// They communicate nothing.
    NothingSent,
    /// They do nothing but communicate.
    NothingComputed,
    /// They are more than a pipeline has.
    TooMany,
}

impl Lower<'_> {
    /// The way in which the steps of a loop overlap, which the user may have pinned; or why they do not.
    pub(super) fn overlap(
        &self,
        counters: &[(StepId, u64)],
        body: &[LocalInstr],
        via: Option<Overlap>,
    ) -> Result<Overlap, Apart> {
        let steps = counters.iter().fold(1, |steps: u64, (_, count)| steps.saturating_mul(*count));
        let computes = body.iter().any(|instr| matches!(instr, LocalInstr::Compute(_)));
        let mut moves = body.iter().filter_map(|instr| match instr {
            LocalInstr::Move(moved) if moved.kind.communicates() => Some(moved),
            _ => None,
        });
        if via == Some(Overlap::None) || steps < 2 {
            return Ok(Overlap::None);
        }
        let first = moves.next().ok_or(Apart::NothingSent)?;
        if !computes {
            return Err(Apart::NothingComputed);
        }
        if steps > MOST_PIPELINED {
            return Err(Apart::TooMany);
        }
        let ahead = |moved: &&Move<LocalId>| {
            let mut ends = [moved.source, moved.target].into_iter();
            ends.any(|id| {
                let mut factors = self.ty(id).layout.cuts().iter().flatten();
                factors.any(|f| matches!(f, Factor::Peer(Peer { whose: Whose::Ahead, .. })))
            })
        };
        let has_one_end = || std::iter::once(first).chain(moves).all(|moved| self.has_one_end(moved));
        Ok(match first {
            first if first.path == Path::PassedOn => Overlap::Ring,
            first if ahead(&first) => Overlap::Direct,
            _ if via == Some(Overlap::Collective) => Overlap::Collective,
            _ if has_one_end() => Overlap::Broadcast,
            _ => Overlap::Collective,
        })
    }

    /// Whether in each step one device of a group sends all, or one receives all.
    fn has_one_end(&self, moved: &Move<LocalId>) -> bool {
        let [source, target] = [moved.source, moved.target].map(|id| self.ty(id));
        match moved.kind {
            Kind::AllGather | Kind::Broadcast | Kind::Scatter => ends(source, target, &moved.axes) == 1,
            Kind::ReduceScatter | Kind::Reduce | Kind::Gather => ends(target, source, &moved.axes) == 1,
            _ => false,
        }
    }
}

/// How many devices of a group hold some of what the others hold in the first step.
fn ends(cut: &TensorType, other: &TensorType, axes: &[String]) -> u64 {
    let sizes = cut.sizes();
    let first: Vec<Range<u64>> = other
        .layout
        .cuts()
        .iter()
        .chain(cut.layout.cuts())
        .flatten()
        .filter_map(|factor| factor.step())
        .map(|step| step.index() + 1)
        .max()
        .map_or(Vec::new(), |length| vec![0..1; length]);
    let steps = vec![0; first.len()];
    let moved = |axis: AxisId| axes.contains(&cut.layout.mesh().axes()[axis].name);
    let reach = other.layout.reach(&sizes, &first);
    let dims = reach.iter().enumerate().map(|(dim, reach)| {
        let cuts = DimCuts::new(&cut.layout, dim, sizes[dim], &steps);
        if !cuts.axes().any(moved) {
            return 1;
        }
        let meets = |piece: &&IndexSet| !piece.intersect(reach).is_empty();
        cuts.pieces().iter().filter(meets).count() as u64
    });
    dims.product()
}
