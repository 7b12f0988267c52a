//! Moves between two layouts on one grid of devices.
//!
//! Everything is a product over dims, so nothing is as large as devices x devices:
//!
//! ```text
//!   group axes   the axes along which something moves: cut in the source where the factor lists of the
//!                two layouts part, and the reduced axes. A device exchanges only with devices that
//!                agree with it along all other axes.
//!   leaving(d)   = receivers x product over dims of (what any receiver needs of d's piece) - kept by d
//! ```

use super::meetings::{Meeting, meetings};
use super::{Parts, Traffic};
use crate::id::Id;
use crate::instr::{Kind, TensorType};
use crate::layout::{CeilPieces, DimCuts, Factor, Layout, StepId};
use crate::mesh::{AxisId, Coords};
use std::collections::BTreeMap;

/// The traffic of a move between layouts on one grid.
pub(super) fn on_one_grid(source: &TensorType, target: &TensorType) -> Traffic {
    let sizes = source.sizes();
    let grid = Grid::new(&source.layout, &target.layout, &sizes);
    let mesh = source.layout.mesh();
    let reduces = grid.reduced.iter().any(|&axis| mesh.size(axis) > 1);
    let group: u64 = grid.group.iter().map(|&axis| mesh.size(axis)).product();
    let counts = grid.counts();
    if !reduces && counts.total == 0 {
        return Traffic::none();
    }
    let kind = if reduces { grid.kind_of_reduction() } else { grid.kind_of_exchange() };
    let counts = if kind == Kind::AllReduce { all_reduce(source, group, &[]) } else { counts };
    let bytes = source.dtype.size();
    Traffic {
        kind,
        axes: grid.group.iter().map(|&axis| mesh.axes()[axis].name.clone()).collect(),
        group,
        bytes_per_device: counts.most.saturating_mul(bytes),
        bytes_total: counts.total.saturating_mul(bytes),
        messages: Traffic::messages_of(kind, group, counts.partners),
    }
}

/// Elements sent.
pub(super) struct Counts {
    pub most: u64,
    pub total: u64,
    pub partners: u64,
}

/// The elements that a group sends to all-reduce one piece.
struct BySlices {
    /// By the member that sends the most.
    most: u64,
    /// By all members.
    all: u64,
}

/// Every member reduces one ceil slice of the flat piece and sends it to the others. The owner of the first
/// slice, which is the largest, sends the most.
fn reduced_by_slices(piece: u64, group: u64) -> BySlices {
    let slice = CeilPieces::new(piece, group).largest();
    let most = (piece - slice).saturating_add((group - 1).saturating_mul(slice));
    BySlices { most, all: piece.saturating_mul(2 * (group - 1)) }
}

/// An all-reduce at every step of the source's counters.
///
/// Steps are not walked one by one: a counter belongs to one dim, whose pieces have few different sizes.
pub(super) fn all_reduce(source: &TensorType, group: u64, counters: &[(StepId, u64)]) -> Counts {
    let mesh = source.layout.mesh();
    let mut axes: Vec<AxisId> = source.layout.cuts().iter().flatten().filter_map(Factor::axis).collect();
    axes.sort_unstable();
    let alike = mesh.device_count() / group / axes.iter().map(|&axis| mesh.size(axis)).product::<u64>();
    let sizes = source.sizes();
    let dims: Vec<SizesAtSteps> =
        (0..sizes.len()).map(|dim| SizesAtSteps::new(source, dim, sizes[dim], counters)).collect();
    let mut counts = Counts { most: 0, total: 0, partners: group - 1 };
    for coords in mesh.coords_over(&axes) {
        // All different sizes of a piece, with how many steps have it.
        let pieces = dims.iter().fold(vec![(1u64, 1u64)], |pieces, dim| {
            let of_dim = dim.at(&coords);
            let times = |&(size, steps): &(u64, u64)| {
                of_dim.iter().map(move |(n, more)| (size.saturating_mul(*n), steps.saturating_mul(*more)))
            };
            pieces.iter().flat_map(times).collect()
        });
        let (mut most, mut all) = (0u64, 0u64);
        for (piece, steps) in pieces {
            let sent = reduced_by_slices(piece, group);
            most = most.saturating_add(sent.most.saturating_mul(steps));
            all = all.saturating_add(sent.all.saturating_mul(steps));
        }
        counts.most = counts.most.max(most);
        counts.total = counts.total.saturating_add(all.saturating_mul(alike));
    }
    counts
}

/// For one dim: the different sizes of each device's piece over the steps of the dim's own counters.
struct SizesAtSteps {
    /// The cuts at the first step: they say which piece is held at which coordinates.
    cuts: DimCuts,
    /// `[piece]`: sizes with the number of steps that have them.
    sizes: Vec<BTreeMap<u64, u64>>,
}

impl SizesAtSteps {
    fn new(source: &TensorType, dim: usize, size: u64, counters: &[(StepId, u64)]) -> SizesAtSteps {
        let own = source.layout.cuts()[dim].iter().filter_map(|factor| match factor {
            Factor::Step(_, step) => counters.iter().find(|(id, _)| id == step),
            _ => None,
        });
        let own: Vec<(StepId, u64)> = own.copied().collect();
        let mut steps = vec![0; counters.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0)];
        let cuts = DimCuts::new(&source.layout, dim, size, &steps);
        let mut sizes = vec![BTreeMap::new(); cuts.pieces().len()];
        let all = own.iter().map(|(_, count)| *count).fold(1, u64::saturating_mul);
        for index in 0..all {
            let mut rest = index;
            for (id, count) in own.iter().rev() {
                steps[id.index()] = rest % count;
                rest /= count;
            }
            let at_step = DimCuts::new(&source.layout, dim, size, &steps);
            for (sizes, piece) in sizes.iter_mut().zip(at_step.pieces()) {
                *sizes.entry(piece.count()).or_insert(0) += 1;
            }
        }
        SizesAtSteps { cuts, sizes }
    }

    fn at(&self, coords: &Coords) -> &BTreeMap<u64, u64> {
        &self.sizes[self.cuts.index_at(coords)]
    }
}

/// Two layouts on one grid, dim by dim.
struct Grid<'a> {
    source: &'a Layout,
    target: &'a Layout,
    sizes: &'a [u64],
    dims: Vec<(DimCuts, DimCuts)>,
    /// Axes that cut the source, if it is not left in place along them, or are reduced: along them a
    /// receiver need not agree with its sender.
    spread: Vec<AxisId>,
    reduced: Vec<AxisId>,
    /// Axes partial in the target whose coordinate 0 alone receives.
    added: Vec<AxisId>,
    /// Axes along which something moves, in mesh order.
    group: Vec<AxisId>,
}

impl<'a> Grid<'a> {
    fn new(source: &'a Layout, target: &'a Layout, sizes: &'a [u64]) -> Grid<'a> {
        let mesh = source.mesh();
        let parts = Parts::new(source, target);
        let reduced: Vec<AxisId> = parts.reduced.iter().map(|p| p.axis).collect();
        let mut dims = Vec::new();
        let (mut spread, mut group) = (reduced.clone(), reduced.clone());
        for (dim, &size) in sizes.iter().enumerate() {
            let (a, b) = (source.plain_cuts(dim, size), target.plain_cuts(dim, size));
            spread.extend(a.iter().filter_map(Factor::axis));
            let common = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
            if !source.same_dim(target, dim, size) {
                group.extend(a[common..].iter().filter_map(Factor::axis));
            }
            dims.push((DimCuts::of(&a, mesh, size, &[]), DimCuts::of(&b, mesh, size, &[])));
        }
        // Along these a receiver takes what is at its own coordinate.
        spread.retain(|axis| !parts.in_place.contains(axis));
        group.retain(|axis| mesh.size(*axis) > 1 && !parts.in_place.contains(axis));
        group.sort_unstable();
        group.dedup();
        Grid { source, target, sizes, dims, spread, reduced, added: parts.placed, group }
    }

    /// What leaves each device, over all devices.
    fn counts(&self) -> Counts {
        let mesh = self.source.mesh();
        let tables: Vec<Sends> = self.dims.iter().map(|(a, b)| Sends::new(self, a, b)).collect();
        let cuts_target = |axis: &AxisId| self.dims.iter().any(|(_, b)| b.axes().any(|a| a == *axis));
        let receivers: u64 = self
            .spread
            .iter()
            .filter(|axis| !cuts_target(axis) && !self.added.contains(axis))
            .map(|&axis| mesh.size(axis))
            .product();
        let mut relevant: Vec<AxisId> =
            self.dims.iter().flat_map(|(a, b)| a.axes().chain(b.axes())).collect();
        relevant.extend(&self.added);
        relevant.sort_unstable();
        relevant.dedup();
        let alike = mesh.device_count() / relevant.iter().map(|&axis| mesh.size(axis)).product::<u64>();
        let mut counts = Counts { most: 0, total: 0, partners: 0 };
        for coords in mesh.coords_over(&relevant) {
            let (mut needed, mut partners, mut kept) = (receivers, receivers, 1);
            for ((a, b), table) in self.dims.iter().zip(&tables) {
                let (elements, receivers) = table.at(a, &coords);
                needed = needed.saturating_mul(elements);
                partners = partners.saturating_mul(receivers);
                kept = u64::saturating_mul(kept, a.at(&coords).shared(b.at(&coords)));
            }
            // Only coordinate 0 of an added axis receives: itself alone, where sender and receiver agree.
            let away = self.added.iter().filter(|&&axis| coords.along(axis) != 0);
            if away.clone().any(|axis| !self.spread.contains(axis)) {
                needed = 0;
            }
            if away.count() > 0 {
                kept = 0;
            }
            let leaving = needed.saturating_sub(kept);
            counts.most = counts.most.max(leaving);
            counts.total = counts.total.saturating_add(leaving.saturating_mul(alike));
            counts.partners = counts.partners.max(partners.saturating_sub(u64::from(kept > 0)));
        }
        counts
    }

    fn kind_of_reduction(&self) -> Kind {
        let long = |axis: &&AxisId| self.source.mesh().size(**axis) > 1;
        if self
            .dims
            .iter()
            .enumerate()
            .all(|(dim, _)| self.source.same_dim(self.target, dim, self.sizes[dim]))
        {
            match self.added.iter().any(|axis| long(&axis)) {
                false => Kind::AllReduce,
                true if self.group.iter().all(|axis| self.added.contains(axis)) => Kind::Reduce,
                true => Kind::Redistribute,
            }
        } else if self.on_one_member(self.target) {
            Kind::Reduce
        } else {
            Kind::ReduceScatter
        }
    }

    fn kind_of_exchange(&self) -> Kind {
        let (from_one, to_one) = (self.on_one_member(self.source), self.on_one_member(self.target));
        let in_target = |axis: &AxisId| self.dims.iter().any(|(_, b)| b.axes().any(|a| a == *axis));
        if !self.group.iter().any(in_target) {
            let added = self.group.iter().filter(|axis| self.added.contains(axis)).count();
            return match added {
                0 if from_one => Kind::Broadcast,
                0 => Kind::AllGather,
                n if n == self.group.len() => Kind::Gather,
                _ => Kind::Redistribute,
            };
        }
        if !self.group.iter().all(in_target) {
            return Kind::Redistribute;
        }
        match (from_one, to_one) {
            (true, false) => Kind::Scatter,
            (false, true) => Kind::Gather,
            _ if self.is_permutation() => Kind::Permute,
            _ if self.all_pairs_meet() => Kind::AllToAll,
            _ => Kind::Redistribute,
        }
    }

    /// Whether given pieces put all of every group on one member.
    fn on_one_member(&self, layout: &Layout) -> bool {
        let given = layout.cuts().iter().flatten().filter_map(|factor| match factor {
            Factor::Sizes(axis, sizes) if self.group.contains(axis) => Some((*axis, sizes)),
            _ => None,
        });
        let given: Vec<_> = given.collect();
        !given.is_empty()
            && given.len() == self.group.len()
            && given.iter().all(|(_, sizes)| sizes.iter().filter(|&&n| n > 0).count() == 1)
    }

    /// Whether the target's pieces are the source's pieces on other devices.
    fn is_permutation(&self) -> bool {
        let axes = |which: fn(&(DimCuts, DimCuts)) -> &DimCuts| {
            let mut axes: Vec<AxisId> =
                self.dims.iter().flat_map(|dim| which(dim).axes().collect::<Vec<_>>()).collect();
            axes.sort_unstable();
            axes
        };
        let sorted = |cuts: &DimCuts| {
            let mut pieces = cuts.pieces().to_vec();
            pieces.sort_unstable();
            pieces
        };
        axes(|dim| &dim.0) == axes(|dim| &dim.1) && self.dims.iter().all(|(a, b)| sorted(a) == sorted(b))
    }

    /// Whether every piece of a group in the source shares elements with every piece of the group in
    /// the target, empty ones aside.
    fn all_pairs_meet(&self) -> bool {
        let mesh = self.source.mesh();
        self.dims.iter().all(|(a, b)| {
            let (a_axes, b_axes): (Vec<AxisId>, Vec<AxisId>) = (a.axes().collect(), b.axes().collect());
            let fixed = |axis: &&AxisId| !self.group.contains(axis) && b_axes.contains(axis);
            let fixed: Vec<AxisId> = a_axes.iter().filter(fixed).copied().collect();
            let group_of = |at: &Coords| fixed.iter().map(|&axis| at.along(axis)).collect::<Vec<u64>>();
            let groups: Vec<Vec<u64>> = mesh.coords_over(&b_axes).map(|at| group_of(&at)).collect();
            // How many pieces that are not empty each group has in the target.
            let mut filled: BTreeMap<&[u64], usize> = BTreeMap::new();
            for (group, _) in groups.iter().zip(b.pieces()).filter(|(_, piece)| !piece.is_empty()) {
                *filled.entry(group).or_default() += 1;
            }
            let met = meetings(a, b);
            mesh.coords_over(&a_axes).zip(a.pieces()).zip(&met).all(|((at, held), met)| {
                let own = group_of(&at);
                let meets = met.iter().filter(|meeting| groups[meeting.piece] == own).count();
                held.is_empty() || meets == filled.get(&own[..]).copied().unwrap_or(0)
            })
        })
    }
}

/// For one dim: how much of each source piece the receivers need, summed along the spread axes.
struct Sends {
    /// The axes of the target that receiver and sender agree along.
    agree: Vec<(AxisId, u64)>,
    /// `[source piece][agreed coordinates]`: elements needed, and how many receivers need any.
    needed: Vec<Vec<(u64, u64)>>,
}

impl Sends {
    fn new(grid: &Grid<'_>, source: &DimCuts, target: &DimCuts) -> Sends {
        let mesh = grid.source.mesh();
        let axes: Vec<AxisId> = target.axes().collect();
        let agree: Vec<(AxisId, u64)> = axes
            .iter()
            .filter(|axis| !grid.spread.contains(axis))
            .map(|&axis| (axis, mesh.size(axis)))
            .collect();
        let combinations = agree.iter().map(|&(_, size)| size).product::<u64>() as usize;
        let agreed: Vec<usize> =
            mesh.coords_over(&axes).map(|coords| Sends::index(&agree, &coords)).collect();
        let needed = meetings(source, target).into_iter().map(|met| {
            let mut row = vec![(0, 0); combinations];
            for Meeting { piece, elements } in met {
                let cell = &mut row[agreed[piece]];
                cell.0 += elements;
                cell.1 += 1;
            }
            row
        });
        let needed = needed.collect();
        Sends { agree, needed }
    }

    fn at(&self, source: &DimCuts, coords: &Coords) -> (u64, u64) {
        self.needed[source.index_at(coords)][Sends::index(&self.agree, coords)]
    }

    fn index(agree: &[(AxisId, u64)], coords: &Coords) -> usize {
        agree.iter().fold(0, |index, &(axis, size)| index * size as usize + coords.along(axis) as usize)
    }
}
