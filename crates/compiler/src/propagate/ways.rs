//! The ways an operation could run: candidate layouts of its iteration space.
//!
//! Every operand whose layout is known, and the result if it is known, asks for cuts of the space. For
//! each dim the options are what is asked there, or no cut; a way takes one option for each dim such
//! that no axis stands twice.
//!
//! ```text
//!   y[s, h] = linear(x[s, k], w[h, k])     x: s/tp   w: h/tp   y: s/tp
//!
//!   s: {/tp, -}   h: {/tp, -}   k: {-}     ways:  s/tp    h/tp    no cut
//! ```
//!
//! An axis that is asked for on one dim only is taken there: only conflicts are a matter of cost.
//! A dim whose result is made in steps keeps the stream in every option, outermost.

use crate::dtype::Combine;
use crate::id::{Id, Table};
use crate::layout::{Cuts, Factor, Layout, Partial};
use crate::mesh::{AxisId, Mesh};
use crate::op::{DimUse, Op, Passes, Space, SpaceId, number_passes, passes};
use crate::program::{Apply, Operand, Program, ValueId};
use std::sync::Arc;

/// More combinations than this are not tried.
const MOST_WAYS: usize = 512;

/// What is known of an operation when its ways are listed.
#[derive(Clone, Copy)]
pub(super) struct Question<'a> {
    pub program: &'a Program,
    /// The operation's result.
    pub value: ValueId,
    pub apply: &'a Apply,
    pub space: &'a Space,
    /// The layouts in which each value can be had; none if it is not decided.
    pub at_hand: &'a Table<ValueId, Vec<Layout>>,
    /// Where the result is to be, if that is decided.
    pub wanted: Option<&'a Layout>,
    pub home: &'a Arc<Mesh>,
    /// Unlisted inputs that live where this operation needs them, so they never move for it.
    pub followers: &'a [ValueId],
}

/// One way to run an operation.
#[derive(Clone, PartialEq, Debug)]
pub(super) struct Way {
    pub over: Layout,
    pub carriers: Vec<usize>,
}

impl<'a> Question<'a> {
    /// The layout in which an operand is first to be had.
    pub fn known(&self, operand: usize) -> Option<&'a Layout> {
        match self.apply.operands[operand] {
            Operand::Value(value) => self.at_hand[value].first(),
            Operand::Number(_) => None,
        }
    }

    /// The sizes of the space's dims.
    pub fn space_sizes(&self) -> Vec<u64> {
        self.space.dims.values().map(|dim| dim.size).collect()
    }

    /// Every way, on every mesh that the operation may run on: that of its placed result or another
    /// grid of the same devices, else those of its operands.
    pub fn ways(&self) -> Vec<Way> {
        let mut meshes: Vec<&Arc<Mesh>> = self.wanted.iter().map(|layout| layout.mesh()).collect();
        for mesh in (0..self.apply.operands.len()).filter_map(|k| self.known(k)).map(Layout::mesh) {
            let allowed = self.wanted.is_none_or(|wanted| mesh.same_devices(wanted.mesh()));
            if allowed && !meshes.iter().any(|known| known.same_grid(mesh)) {
                meshes.push(mesh);
            }
        }
        if meshes.is_empty() {
            meshes.push(self.home);
        }
        meshes.into_iter().flat_map(|mesh| self.ways_on(mesh)).collect()
    }

    /// The ways on one mesh. Where the steps that are asked for cannot be followed (a merged dim's steps
    /// are no blocks of its parts), the operation runs at once.
    fn ways_on(&self, mesh: &Arc<Mesh>) -> Vec<Way> {
        let mut asks = self.asks(mesh);
        let ways = self.ways_of(&asks, mesh);
        if !ways.is_empty() {
            return ways;
        }
        for ask in &mut asks {
            ask.cuts = self.without_streams(std::mem::take(&mut ask.cuts));
        }
        self.ways_of(&asks, mesh)
    }

    /// Whether result and operands can be laid out as a layout of the space says.
    fn can_run(&self, over: &Layout) -> bool {
        let operands = &self.space.operands;
        self.space.result_layout(over).is_some()
            && operands.iter().all(|dims| self.space.project(over, dims).is_some())
    }

    /// Every combination of what is asked for in which the operation can run.
    fn ways_of(&self, asks: &[Ask], mesh: &Arc<Mesh>) -> Vec<Way> {
        let options: Vec<Vec<Cuts>> =
            self.space.dims.keys().map(|dim| self.options(asks, dim.index())).collect();
        // Each dim must take the axes that are asked for on it alone; where that leaves no way at all,
        // it need not.
        let unopposed = self.unopposed(asks, mesh);
        let takes = |dim: usize, cuts: &Cuts| {
            let mut axes = unopposed.iter().filter(|&&(_, at)| at == dim);
            axes.all(|&(axis, _)| cuts.iter().any(|factor| factor.axis() == Some(axis)))
        };
        let dims = options.iter().enumerate();
        let agreed: Vec<Vec<Cuts>> = dims
            .map(|(dim, of_dim)| of_dim.iter().filter(|cuts| takes(dim, cuts)).cloned().collect())
            .collect();
        let ways = self.combinations(agreed, mesh);
        if ways.is_empty() { self.combinations(options, mesh) } else { ways }
    }

    /// Every way that takes one of the options of each dim. If there are too many, dims keep only
    /// their last option (no cut but the stream), the last dims first.
    fn combinations(&self, mut options: Vec<Vec<Cuts>>, mesh: &Arc<Mesh>) -> Vec<Way> {
        for dim in (0..options.len()).rev() {
            let ways = options.iter().map(Vec::len).try_fold(1, usize::checked_mul);
            if ways.is_some_and(|n| n <= MOST_WAYS) {
                break;
            }
            let spare = options[dim].len().saturating_sub(1);
            options[dim].drain(..spare);
        }
        let mut ways = Vec::new();
        for (partial, carriers) in self.passing(mesh) {
            for_each_combination(&options, &mut Vec::new(), &mut |cuts| {
                let over = Layout::new(mesh.clone(), cuts.to_vec(), partial.clone());
                ways.extend(
                    over.filter(|over| self.can_run(over))
                        .map(|over| Way { over, carriers: carriers.clone() }),
                );
            });
        }
        ways
    }

    /// The axes that are asked for on one dim only, and are partial nowhere: they are taken there. Along a
    /// dim that is summarised that has its price, so there no one may have it without.
    fn unopposed(&self, asks: &[Ask], mesh: &Arc<Mesh>) -> Vec<(AxisId, usize)> {
        let known = (0..self.apply.operands.len()).filter_map(|k| self.known(k));
        let parts: Vec<AxisId> = known
            .filter(|layout| layout.mesh().same_grid(mesh))
            .flat_map(|layout| layout.partial().iter().map(|p| p.axis))
            .collect();
        let dims_of = |axis: AxisId| -> Vec<usize> {
            let asked =
                |dim: &usize| asks.iter().any(|ask| ask.cuts[*dim].iter().any(|f| f.axis() == Some(axis)));
            (0..self.space.dims.len()).filter(asked).collect()
        };
        let axes = mesh.axes().keys().filter(|axis| !parts.contains(axis));
        axes.filter_map(|axis| match dims_of(axis)[..] {
            [dim] if !self.can_be_had_without(axis, dim, mesh) => Some((axis, dim)),
            _ => None,
        })
        .collect()
    }

    /// Whether a dim that is summarised is not cut by an axis in a layout of the elements at hand, or where
    /// the result is to be.
    fn can_be_had_without(&self, axis: AxisId, dim: usize, mesh: &Arc<Mesh>) -> bool {
        if self.space.dims[Id::new(dim)].usage != DimUse::Summarised {
            return false;
        }
        let is_dim = |group: &Vec<SpaceId>| group.iter().any(|id| id.index() == dim);
        let without = |layout: &Layout, groups: &[Vec<SpaceId>]| {
            let at = groups.iter().position(is_dim);
            at.is_some_and(|at| !layout.mesh().same_grid(mesh) || layout.cuts_by(axis) != Some(at))
        };
        let at_hand = match self.apply.operands.first() {
            Some(Operand::Value(value)) => &self.at_hand[*value][..],
            _ => &[],
        };
        at_hand.iter().any(|layout| without(layout, &self.space.operands[0]))
            || self.wanted.is_some_and(|wanted| without(wanted, &self.space.result))
    }

    /// What operands and result ask of the space on a mesh.
    pub fn asks(&self, mesh: &Arc<Mesh>) -> Vec<Ask> {
        let mut asks = Vec::new();
        for k in self.claim_order() {
            let Some(layout) = self.known(k).filter(|layout| layout.mesh().same_grid(mesh)) else {
                continue;
            };
            // An input's streams only say how it is stored.
            let is_input = matches!(self.apply.operands[k], Operand::Value(v) if self.program.is_input(v));
            for cuts in self.space.lift(layout.cuts(), mesh, &self.space.operands[k]) {
                let cuts = if is_input { self.without_streams(cuts) } else { cuts };
                asks.push(Ask { who: Asker::Operand(k), cuts });
            }
        }
        if let Some(wanted) = self.wanted {
            // On another grid only the result's steps say something.
            let one_grid = wanted.mesh().same_grid(mesh);
            let kept = |factor: &&Factor| one_grid || factor.is_stream();
            let wanted: Vec<Cuts> =
                wanted.cuts().iter().map(|cuts| cuts.iter().filter(kept).cloned().collect()).collect();
            let lifted = self.space.lift(&wanted, mesh, &self.space.result);
            asks.extend(lifted.into_iter().map(|cuts| Ask { who: Asker::Result, cuts }));
        }
        for ask in &mut asks {
            for (dim, cuts) in self.space.dims.values().zip(&mut ask.cuts) {
                match dim.usage {
                    DimUse::Whole => cuts.clear(),
                    // Nothing is gained by parts of nothing.
                    DimUse::Summarised if dim.size == 0 => cuts.clear(),
                    DimUse::Combined(_) | DimUse::Summarised => {
                        cuts.iter_mut().for_each(|factor| *factor = factor.stored(dim.size))
                    }
                    DimUse::Kept | DimUse::Window(_) => {}
                    DimUse::InParts | DimUse::PartsOf(_) => {
                        unreachable!("propagate: a program has no summaries")
                    }
                }
            }
        }
        asks
    }

    fn without_streams(&self, cuts: Vec<Cuts>) -> Vec<Cuts> {
        let dims = cuts.into_iter().zip(self.space.dims.values());
        dims.map(|(cuts, dim)| cuts.iter().map(|factor| factor.stored(dim.size)).collect()).collect()
    }

    /// The operands in the order in which their claims win ties: weight before bias before input.
    pub fn claim_order(&self) -> Vec<usize> {
        let count = self.apply.operands.len();
        match self.apply.op {
            Op::Linear | Op::Matmul | Op::Einsum(_) => (1..count).chain([0]).collect(),
            _ => (0..count).collect(),
        }
    }

    /// The different cuts of one dim that are worth trying.
    fn options(&self, asks: &[Ask], dim: usize) -> Vec<Cuts> {
        let streams = |ask: &Ask| ask.cuts[dim].iter().filter(|f| f.is_stream()).cloned().collect::<Cuts>();
        let streamed = |of_result: bool| {
            asks.iter()
                .filter(move |ask| (ask.who == Asker::Result) == of_result)
                .map(streams)
                .find(|s| !s.is_empty())
        };
        let (asked, inherited) = (streamed(true), streamed(false));
        let result_has_no_stream = asked.is_none();
        let stream = asked.or(inherited).unwrap_or_default();
        let size = self.space.dims[Id::new(dim)].size;
        let mut options: Vec<Cuts> = Vec::new();
        for ask in asks {
            let cuts = &ask.cuts[dim];
            if cuts.iter().all(|factor| factor.axis().is_none()) {
                continue;
            }
            if streams(ask) == stream || ask.who == Asker::Result && result_has_no_stream {
                options.push(cuts.clone());
            }
            if streams(ask) != stream {
                let rest = without_blocks(cuts, &stream, size);
                // Given pieces are those of the whole dim; a step's block has no such pieces.
                let given = rest.iter().any(|factor| matches!(factor, Factor::Sizes(..)));
                if stream.is_empty() || !given {
                    options.push(stream.iter().cloned().chain(rest).collect());
                }
            }
        }
        options.push(stream);
        let mut distinct: Vec<Cuts> = Vec::new();
        for cuts in options {
            if !distinct.contains(&cuts) {
                distinct.push(cuts);
            }
        }
        distinct
    }

    /// The sets of partial axes that may pass through the operation, with the operands that carry
    /// them; passing nothing is always possible.
    fn passing(&self, mesh: &Arc<Mesh>) -> Vec<(Vec<Partial>, Vec<usize>)> {
        let partial = |k: usize| -> Vec<Partial> {
            let known = self.known(k).filter(|layout| layout.mesh().same_grid(mesh));
            known.map(|layout| layout.partial().to_vec()).unwrap_or_default()
        };
        let all: Vec<usize> = (0..self.apply.operands.len()).collect();
        let mut passing = vec![(Vec::new(), Vec::new())];
        let number = |operand: &Operand| match operand {
            Operand::Number(number) => number_passes(&self.apply.op, *number),
            Operand::Value(_) => true,
        };
        if !self.apply.operands.iter().all(number) {
            return passing;
        }
        for &k in &all {
            let parts = partial(k);
            let Some(first) = parts.first() else { continue };
            if parts.iter().any(|p| p.combine != first.combine) || !self.combines_like(first.combine) {
                continue;
            }
            match passes(&self.apply.op, k, first.combine) {
                Some(Passes::Alone) => passing.push((parts, vec![k])),
                Some(Passes::Together) if k == 0 && all.iter().all(|&other| partial(other) == parts) => {
                    passing.push((parts, all.clone()));
                }
                _ => {}
            }
        }
        passing
    }

    /// Whether everything the operation itself combines is combined by the same operator.
    fn combines_like(&self, combine: Combine) -> bool {
        self.space.dims.values().all(|dim| !matches!(dim.usage, DimUse::Combined(own) if own != combine))
    }
}

/// Who asks.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Asker {
    Operand(usize),
    Result,
}

/// What one tensor asks of the space.
pub(super) struct Ask {
    pub who: Asker,
    pub cuts: Vec<Cuts>,
}

/// Cuts without their streams, and without leading blocks that are the steps of `stream`.
fn without_blocks(cuts: &Cuts, stream: &Cuts, size: u64) -> Cuts {
    let same_blocks = |(a, b): &(&Factor, &Factor)| {
        matches!(a.stored(size), Factor::Local(_)) && a.stored(size) == b.stored(size)
    };
    let steps = stream.iter().zip(cuts).take_while(same_blocks).count();
    cuts[steps..].iter().filter(|factor| !factor.is_stream()).cloned().collect()
}

/// Calls `found` with every combination of one option for each dim.
fn for_each_combination(options: &[Vec<Cuts>], chosen: &mut Vec<Cuts>, found: &mut impl FnMut(&[Cuts])) {
    let Some(of_dim) = options.get(chosen.len()) else {
        found(chosen);
        return;
    };
    for option in of_dim {
        chosen.push(option.clone());
        for_each_combination(options, chosen, found);
        chosen.pop();
    }
}
