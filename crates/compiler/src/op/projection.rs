//! Layouts of an iteration space and of the tensors in it.
//!
//! * [`Space::project`]: what a layout of the space says of one operand or result.
//! * [`Space::lift`]: what a layout of one operand or result says of the space.
//!
//! For an ordinary dim both are the identity. A merged dim `(n h)` holds `n` blocks of `h`:
//!
//! ```text
//!   n/x          -> (n h)/x                  whole blocks
//!   h/y          -> (n h)/local(n)/y         a part of every block
//!   n/x, h/y     -> (n h)/x/local(n_x)/y     n_x blocks on each x
//! ```
//!
//! A window of another dim follows the cuts of that dim (see [`window`](super::window)).
//!
//! Both guess by these rules and then compare the index sets, so what they return is exact or nothing.

use super::held::cutting_axes;
use super::window::{around_window, window_cuts};
use super::{DimUse, Space, SpaceId};
use crate::layout::{CeilPieces, Cuts, DimCuts, Factor, IndexSet, Layout, Partial};
use crate::mesh::Mesh;
use std::sync::Arc;

/// Merged dims that fall into more blocks than this are not followed: the value is moved instead.
const MOST_MERGED_BLOCKS: u64 = 1 << 16;

impl Space {
    /// The cuts of a tensor whose dims are made of `groups`, when the space is laid out as `over`;
    /// `None` if a merged dim's part of a device cannot be written as cuts.
    pub fn project(&self, over: &Layout, groups: &[Vec<SpaceId>]) -> Option<Vec<Cuts>> {
        groups.iter().map(|group| self.project_dim(over, group)).collect()
    }

    fn project_dim(&self, over: &Layout, group: &[SpaceId]) -> Option<Cuts> {
        if let [dim] = group
            && let DimUse::PartsOf(of) = self.dims[*dim].usage
        {
            return Some(cutting_axes(over, of).into_iter().map(Factor::Axis).collect());
        }
        let parts: Vec<Part<'_>> = self.parts(over.cuts(), group);
        match (&parts[..], group) {
            ([], _) => Some(Vec::new()),
            ([part], [dim]) => match self.window(*dim) {
                Some((of, range)) => {
                    window_cuts(&over.cuts()[index(of)], over.mesh(), self.dims[of].size, &range)
                }
                None => Some(part.cuts.clone()),
            },
            (parts, _) => merge(parts, over.mesh()),
        }
    }

    /// The layout of the result when the space is laid out as `over`: its cuts, and what is left to
    /// combine (the axes that cut combined dims, and those partial in `over`).
    pub fn result_layout(&self, over: &Layout) -> Option<Layout> {
        let cuts = self.project(over, &self.result)?;
        let mut partial: Vec<Partial> = over.partial().to_vec();
        for (dim, cuts) in self.dims.values().zip(over.cuts()) {
            if let DimUse::Combined(combine) = dim.usage {
                let axes = cuts.iter().filter_map(Factor::axis);
                partial.extend(axes.map(|axis| Partial { axis, combine }));
            }
        }
        Layout::new(over.mesh().clone(), cuts, partial)
    }

    /// The layout that an operand must have when the space is laid out as `over`; `partial` are the
    /// axes that pass through the operation by this operand.
    pub fn operand_layout(&self, over: &Layout, operand: usize, partial: &[Partial]) -> Option<Layout> {
        let cuts = self.project(over, &self.operands[operand])?;
        Layout::new(over.mesh().clone(), cuts, partial.to_vec())
    }

    /// The cuts of the space that a tensor with these cuts asks for (other dims are not cut): none if a
    /// merged dim's cuts do not fall on its parts, several if one of its dims is a window. Of a dim that
    /// has windows only those cuts that its windows can follow.
    pub fn lift(&self, cuts: &[Cuts], mesh: &Arc<Mesh>, groups: &[Vec<SpaceId>]) -> Vec<Vec<Cuts>> {
        let Some(exact) = self.lift_all_but_windows(cuts, mesh, groups) else { return Vec::new() };
        let mut found = vec![exact];
        for (group, cuts) in groups.iter().zip(cuts) {
            let Some((of, range)) = group.first().and_then(|&dim| self.window(dim)) else { continue };
            let size = self.dims[of].size;
            let cuts: Cuts = cuts.iter().map(|factor| factor.stored(range.end - range.start)).collect();
            let around = around_window(&cuts, mesh, size, &range);
            let with = |lifted: &Vec<Cuts>, around: &Cuts| {
                let mut lifted = lifted.clone();
                lifted[index(of)].clone_from(around);
                lifted
            };
            found =
                found.iter().flat_map(|lifted| around.iter().map(|around| with(lifted, around))).collect();
        }
        let mut distinct: Vec<Vec<Cuts>> = Vec::new();
        for mut lifted in found {
            for dim in self.dims.keys().filter(|&dim| self.has_windows(dim)) {
                lifted[index(dim)] = self.followed_by_windows(dim, &lifted[index(dim)], mesh);
            }
            if !distinct.contains(&lifted) {
                distinct.push(lifted);
            }
        }
        distinct
    }

    fn lift_all_but_windows(
        &self,
        cuts: &[Cuts],
        mesh: &Arc<Mesh>,
        groups: &[Vec<SpaceId>],
    ) -> Option<Vec<Cuts>> {
        let mut lifted: Vec<Cuts> = vec![Vec::new(); self.dims.len()];
        for (group, cuts) in groups.iter().zip(cuts) {
            match &group[..] {
                [] => {}
                [dim] if self.window(*dim).is_some() => {}
                [dim] => lifted[index(*dim)] = cuts.clone(),
                dims => {
                    let sizes: Vec<u64> = dims.iter().map(|&d| self.dims[d].size).collect();
                    let parts = split(cuts, &sizes, mesh)?;
                    for (&dim, part) in dims.iter().zip(parts) {
                        lifted[index(dim)] = part;
                    }
                    let exact = merge(&self.parts(&lifted, group), mesh)
                        .is_some_and(|merged| same_pieces(&merged, cuts, mesh, sizes.iter().product()));
                    if !exact {
                        return None;
                    }
                }
            }
        }
        Some(lifted)
    }

    fn parts<'a>(&self, cuts: &'a [Cuts], group: &[SpaceId]) -> Vec<Part<'a>> {
        group.iter().map(|&d| Part { size: self.dims[d].size, cuts: &cuts[index(d)] }).collect()
    }
}

fn index(dim: SpaceId) -> usize {
    crate::id::Id::index(dim)
}

/// One of the dims that a merged dim is made of.
struct Part<'a> {
    size: u64,
    cuts: &'a Cuts,
}

/// How many pieces a factor makes.
fn count(factor: &Factor, mesh: &Mesh, size: u64) -> u64 {
    match factor {
        Factor::Axis(axis) | Factor::Sizes(axis, _) => mesh.size(*axis),
        Factor::Peer(peer) => mesh.size(peer.axis),
        Factor::Local(count) | Factor::Step(count, _) => *count,
        Factor::Stream(steps) => steps.count(size),
    }
}

/// The cuts of the merged dim, checked against the index sets of the parts.
fn merge(parts: &[Part<'_>], mesh: &Arc<Mesh>) -> Option<Cuts> {
    let Some(last) = parts.iter().rposition(|part| !part.cuts.is_empty()) else {
        return Some(Vec::new());
    };
    // A peer's piece of a part is in no simple way one of the merged dim.
    if parts.iter().flat_map(|part| part.cuts).any(|factor| matches!(factor, Factor::Peer(_))) {
        return None;
    }
    let mut merged: Cuts = Vec::new();
    for part in &parts[..last] {
        let pieces = part.cuts.iter().map(|f| count(f, mesh, part.size)).fold(1, u64::saturating_mul);
        if pieces == 0 || part.size % pieces != 0 {
            return None;
        }
        merged.extend(part.cuts.iter().cloned());
        if part.size / pieces > 1 {
            merged.push(Factor::Local(part.size / pieces));
        }
    }
    // Of a merged dim in which nothing lies outside, no given piece holds anything.
    let is_empty = parts[..last].iter().any(|part| part.size == 0);
    let inner = match is_empty {
        true => 0,
        false => parts[last + 1..].iter().map(|part| part.size).fold(1, u64::saturating_mul),
    };
    for (place, factor) in parts[last].cuts.iter().enumerate() {
        merged.push(match factor {
            Factor::Sizes(axis, sizes) => {
                Factor::Sizes(*axis, sizes.iter().map(|n| n.saturating_mul(inner)).collect())
            }
            // Uneven ceil pieces of the part are given pieces of the merged dim.
            Factor::Axis(axis)
                if last == 0 && place == 0 && !parts[last].size.is_multiple_of(mesh.size(*axis)) =>
            {
                let pieces = CeilPieces::new(parts[last].size, mesh.size(*axis)).sizes();
                Factor::Sizes(*axis, pieces.map(|n| n.saturating_mul(inner)).collect())
            }
            Factor::Stream(steps) => {
                Factor::Stream(crate::layout::Steps::Count(steps.count(parts[last].size)))
            }
            other => other.clone(),
        });
    }
    // Before any index set is made: a part outside a cut one, however large, is that many blocks.
    let total = parts.iter().map(|part| part.size).fold(1, u64::saturating_mul);
    let stays = merged.iter().filter(|factor| factor.axis().is_none());
    let blocks = stays.map(|factor| count(factor, mesh, total)).fold(1, u64::saturating_mul);
    if blocks > MOST_MERGED_BLOCKS {
        return None;
    }
    holds_at_every_step(&merged, parts, mesh)?.then_some(merged)
}

/// Whether merged cuts hold what the parts hold at every step. A stream stands for its steps: storing
/// the blocks of one together says nothing about the blocks of the other. The merged cuts have the
/// parts' streams in the same order. What holds at the first two and the last two steps holds at all.
fn holds_at_every_step(merged: &Cuts, parts: &[Part<'_>], mesh: &Arc<Mesh>) -> Option<bool> {
    let total: u64 = parts.iter().map(|part| part.size).product();
    let mut counts = Vec::new();
    let merged = stepped(merged, total, &mut counts);
    let mut number = Vec::new();
    let cuts: Vec<Cuts> = parts.iter().map(|part| stepped(part.cuts, part.size, &mut number)).collect();
    let parts: Vec<Part<'_>> =
        parts.iter().zip(&cuts).map(|(part, cuts)| Part { size: part.size, cuts }).collect();
    let mut samples: Vec<Vec<u64>> = vec![Vec::new()];
    for &count in &counts {
        let mut steps = vec![0, 1, count.saturating_sub(2), count.saturating_sub(1)];
        steps.retain(|&step| step < count);
        steps.sort_unstable();
        steps.dedup();
        let longer = |sample: &Vec<u64>| -> Vec<Vec<u64>> {
            steps.iter().map(|&step| sample.iter().copied().chain([step]).collect()).collect()
        };
        samples = samples.iter().flat_map(longer).collect();
    }
    for steps in samples {
        if !holds_what_parts_hold(&merged, &parts, mesh, &steps)? {
            return Some(false);
        }
    }
    Some(true)
}

/// Cuts with every stream as a step of a counter of its own, numbered on from `counts`.
fn stepped(cuts: &Cuts, size: u64, counts: &mut Vec<u64>) -> Cuts {
    let step = |factor: &Factor| {
        let count = match factor {
            Factor::Step(count, _) => *count,
            Factor::Stream(steps) => steps.count(size),
            other => return other.clone(),
        };
        counts.push(count);
        Factor::Step(count, crate::id::Id::new(counts.len() - 1))
    };
    cuts.iter().map(step).collect()
}

/// Whether the merged cuts hold at a step, at every coordinate, the product of what the parts hold.
/// `None` if there are too many blocks to say.
fn holds_what_parts_hold(merged: &Cuts, parts: &[Part<'_>], mesh: &Arc<Mesh>, steps: &[u64]) -> Option<bool> {
    let total = parts.iter().map(|part| part.size).product();
    let merged = DimCuts::of(merged, mesh, total, steps);
    let cuts: Vec<DimCuts> = parts.iter().map(|p| DimCuts::of(p.cuts, mesh, p.size, steps)).collect();
    let mut axes: Vec<_> = merged.axes().chain(cuts.iter().flat_map(DimCuts::axes)).collect();
    axes.sort_unstable();
    axes.dedup();
    for coords in mesh.coords_over(&axes) {
        let mut blocks: Vec<(u64, u64)> = vec![(0, 1)];
        for (part, cuts) in parts.iter().zip(&cuts) {
            let set = cuts.at(&coords);
            let whole = set.count() == part.size;
            let runs: u64 = if whole { 1 } else { blocks.iter().map(|b| b.1 - b.0).sum::<u64>() };
            if runs.saturating_mul(set.intervals().len() as u64) > MOST_MERGED_BLOCKS {
                return None;
            }
            blocks = if whole {
                blocks.iter().map(|b| (b.0 * part.size, b.1 * part.size)).collect()
            } else {
                let outer = blocks.iter().flat_map(|b| b.0..b.1);
                outer
                    .flat_map(|o| {
                        set.intervals().iter().map(move |i| (o * part.size + i.0, o * part.size + i.1))
                    })
                    .collect()
            };
        }
        if *merged.at(&coords) != IndexSet::from_blocks(blocks) {
            return Some(false);
        }
    }
    Some(true)
}

fn same_pieces(a: &Cuts, b: &Cuts, mesh: &Arc<Mesh>, size: u64) -> bool {
    let layout = |cuts: &Cuts| Layout::new(mesh.clone(), vec![cuts.clone()], Vec::new());
    match (layout(a), layout(b)) {
        (Some(a), Some(b)) => a.same_as(&b, &[size]),
        _ => false,
    }
}

/// Deals the factors of a merged dim out to its parts, outermost first, as long as they divide.
fn split(cuts: &Cuts, sizes: &[u64], mesh: &Arc<Mesh>) -> Option<Vec<Cuts>> {
    let total = sizes.iter().copied().fold(1, u64::saturating_mul);
    let mut parts: Vec<Cuts> = vec![Vec::new(); sizes.len()];
    let mut part = 0;
    let mut rest = *sizes.first()?;
    for factor in cuts {
        while rest == 1 && part + 1 < sizes.len() {
            part += 1;
            rest = sizes[part];
        }
        let inner = sizes[part + 1..].iter().copied().fold(1, u64::saturating_mul);
        let n = count(factor, mesh, total);
        if let Factor::Sizes(axis, given) = factor {
            if inner == 0 || given.iter().any(|g| g % inner != 0) {
                return None;
            }
            parts[part].push(Factor::Sizes(*axis, given.iter().map(|g| g / inner).collect()));
            rest = 0; // nothing may cut uneven pieces further: the comparison would not hold
            continue;
        }
        if n == 0 || rest % n != 0 {
            // The last ceil cut of a part may be uneven if it falls between whole blocks.
            parts[part].push(factor.clone());
            rest = 0;
            continue;
        }
        parts[part].push(factor.clone());
        rest /= n;
    }
    Some(parts)
}
