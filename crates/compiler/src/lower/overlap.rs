//! How the steps of a loop overlap: what its communication is, step by step.

use super::Lower;
use crate::id::Id;
use crate::instr::{Kind, MOST_PIPELINED, Move, Path, TensorType};
use crate::layout::{DimCuts, Factor, IndexSet, Peer, StepId, Whose};
use crate::local::{LocalId, LocalInstr};
use crate::mesh::AxisId;
use crate::placement::Overlap;
use std::ops::Range;

impl Lower<'_> {
    /// The way in which the steps of a loop overlap, which the user may have pinned. None if there is
    /// nothing to overlap: one step, or no communication, or nothing but communication.
    pub(super) fn overlap(
        &self,
        counters: &[(StepId, u64)],
        body: &[LocalInstr],
        via: Option<Overlap>,
    ) -> Overlap {
        let steps = counters.iter().fold(1, |steps: u64, (_, count)| steps.saturating_mul(*count));
        let computes = body.iter().any(|instr| matches!(instr, LocalInstr::Compute(_)));
        let mut moves = body.iter().filter_map(|instr| match instr {
            LocalInstr::Move(moved) if moved.kind.communicates() => Some(moved),
            _ => None,
        });
        let first = moves.next();
        if via == Some(Overlap::None) || !(2..=MOST_PIPELINED).contains(&steps) || !computes {
            return Overlap::None;
        }
        let ahead = |moved: &&Move<LocalId>| {
            let mut ends = [moved.source, moved.target].into_iter();
            ends.any(|id| {
                let mut factors = self.ty(id).layout.cuts().iter().flatten();
                factors.any(|f| matches!(f, Factor::Peer(Peer { whose: Whose::Ahead, .. })))
            })
        };
        match first {
            None => Overlap::None,
            Some(first) if first.path == Path::PassedOn => Overlap::Ring,
            Some(first) if ahead(&first) => Overlap::Direct,
            Some(_) if via == Some(Overlap::Collective) => Overlap::Collective,
            Some(first) if std::iter::once(first).chain(moves).all(|moved| self.has_one_end(moved)) => {
                Overlap::Broadcast
            }
            Some(_) => Overlap::Collective,
        }
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
