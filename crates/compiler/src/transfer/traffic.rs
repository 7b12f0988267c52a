//! The pattern, the group and the bytes of a whole move.

use super::across::across_grids;
use super::one_grid::{all_reduce, on_one_grid};
use crate::instr::{Kind, TensorType};
use crate::layout::{DimCuts, StepId};
use crate::mesh::AxisId;
use std::collections::BTreeMap;

/// What a whole move sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Traffic {
    /// The pattern.
    pub kind: Kind,
    /// The mesh axes along which it moves, in mesh order.
    pub axes: Vec<String>,
    /// How many devices take part in one group.
    pub group: u64,
    /// Bytes sent, the most of one device.
    pub bytes_per_device: u64,
    /// Bytes sent by all devices.
    pub bytes_total: u64,
    /// Messages that a device sends or waits for one after another: the logarithm of the group where
    /// a tree or a doubling does it, the number of partners where each needs its own.
    pub messages: u64,
}

impl Traffic {
    /// What a move from one layout to another sends. A move inside a loop is taken as a whole: all its
    /// steps together.
    pub fn of(source: &TensorType, target: &TensorType) -> Traffic {
        let (source, target) = (all_steps(source), all_steps(target));
        if source.is_empty() {
            return Traffic::none();
        }
        if source.layout.mesh().same_grid(target.layout.mesh()) {
            on_one_grid(&source, &target)
        } else {
            across_grids(&source, &target)
        }
    }

    /// What a move inside a loop over these counters sends, over all steps. The slices of an all-reduce
    /// are those of each step.
    pub fn in_loop(source: &TensorType, target: &TensorType, counters: &[(StepId, u64)]) -> Traffic {
        let whole = Traffic::of(source, target);
        if whole.kind != Kind::AllReduce || counters.is_empty() {
            return whole;
        }
        let counts = all_reduce(source, whole.group, counters);
        let bytes = source.dtype.size();
        Traffic {
            bytes_per_device: counts.most.saturating_mul(bytes),
            bytes_total: counts.total.saturating_mul(bytes),
            ..whole
        }
    }

    /// What a move sends whose pieces are passed on from device to device: a gather, or a sum that travels. A
    /// device sends on all pieces of its group but one: the piece that comes to it last, that of the device
    /// behind it; of a sum its own.
    pub fn passed_on(source: &TensorType, target: &TensorType) -> Traffic {
        let at_home = match source.layout.is_partial() {
            true => TensorType { layout: target.layout.at_peers(), ..target.clone() },
            false => source.clone(),
        };
        let whole = match source.layout.is_partial() {
            true => Traffic::of(source, &at_home),
            false => Traffic::of(source, target),
        };
        Traffic { bytes_per_device: whole.most_passed_on(&at_home), ..whole }
    }

    /// The bytes that a device sends on at most, if it sends all pieces of its group but one.
    fn most_passed_on(&self, pieces: &TensorType) -> u64 {
        let TensorType { layout, .. } = &all_steps(pieces);
        let (mesh, sizes) = (layout.mesh(), pieces.sizes());
        let cuts: Vec<_> = (0..layout.ndim()).map(|dim| DimCuts::new(layout, dim, sizes[dim], &[])).collect();
        let moved: Vec<AxisId> = self.axes.iter().filter_map(|axis| mesh.axis(axis)).collect();
        let mut groups: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        for place in 0..mesh.device_count() {
            let mut coords = mesh.coords(place);
            let piece: u64 = cuts.iter().map(|cuts| cuts.at(&coords).count()).product();
            moved.iter().for_each(|&axis| coords.set(axis, 0));
            let (all, least) = groups.entry(mesh.place(&coords)).or_insert((0, u64::MAX));
            *all += piece;
            *least = piece.min(*least);
        }
        let most = groups.values().map(|(all, least)| all - least).max().unwrap_or(0);
        most.saturating_mul(pieces.dtype.size())
    }

    /// With how many others a device exchanges something, each its share.
    pub fn partners(&self) -> u64 {
        let partners = match self.kind {
            // Of a gather each device sends all it has to one; the others divide it among all.
            Kind::Local | Kind::Permute | Kind::SendRecv | Kind::Gather | Kind::Reduce => 1,
            Kind::AllToAll | Kind::Redistribute => self.messages,
            _ => self.group.saturating_sub(1),
        };
        partners.max(1)
    }

    /// Nothing is sent.
    pub(super) fn none() -> Traffic {
        Traffic {
            kind: Kind::Local,
            axes: Vec::new(),
            group: 1,
            bytes_per_device: 0,
            bytes_total: 0,
            messages: 0,
        }
    }

    /// The messages of a pattern in a group, if a device has so many partners.
    pub(super) fn messages_of(kind: Kind, group: u64, partners: u64) -> u64 {
        let rounds = u64::from(group.max(1).next_power_of_two().trailing_zeros());
        match kind {
            Kind::Local => 0,
            Kind::AllGather
            | Kind::ReduceScatter
            | Kind::Broadcast
            | Kind::Reduce
            | Kind::Gather
            | Kind::Scatter => rounds,
            Kind::AllReduce => 2 * rounds,
            Kind::Permute | Kind::SendRecv => 1,
            Kind::AllToAll | Kind::Redistribute => partners.max(1),
        }
    }
}

/// The same type with every running step taken as all steps together.
fn all_steps(ty: &TensorType) -> TensorType {
    TensorType { layout: ty.layout.all_steps(), ..ty.clone() }
}
