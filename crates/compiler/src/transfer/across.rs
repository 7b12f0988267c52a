//! Moves between two grids: the devices' fetches, counted one by one.
//!
//! Devices that exchange, directly or through others, make a component; each component is one group.
//! The move has the pattern that all its components have.

use super::{Fetch, Traffic, fetches, reduced_axes};
use crate::instr::{Kind, TensorType};
use crate::layout::{IndexSet, Layout, volume};
use crate::mesh::DeviceId;
use std::collections::{BTreeMap, BTreeSet};

/// The traffic of a move between layouts on different grids.
pub(super) fn across_grids(source: &TensorType, target: &TensorType) -> Traffic {
    let moves = Moves::new(source, target);
    let total = moves.sent.values().copied().fold(0, u64::saturating_add);
    let reduces =
        reduced_axes(&source.layout, &target.layout).iter().any(|p| source.layout.mesh().size(p.axis) > 1);
    if total == 0 && !reduces {
        return Traffic::none();
    }
    let components = moves.components();
    let busy = components.iter().filter(|members| members.len() > 1);
    let mut kinds: Vec<Kind> = busy.map(|members| moves.kind(members, reduces)).collect();
    kinds.dedup();
    let kind = match kinds[..] {
        [kind] => kind,
        _ => Kind::Redistribute,
    };
    let group = components.iter().map(BTreeSet::len).max().unwrap_or(1) as u64;
    let bytes = source.dtype.size();
    let counts = if kind == Kind::AllReduce { moves.all_reduce_counts(group) } else { None };
    let (most, total) = counts.unwrap_or((moves.sent.values().copied().max().unwrap_or(0), total));
    Traffic {
        kind,
        axes: axes_of_move(&source.layout, &target.layout),
        group,
        bytes_per_device: most.saturating_mul(bytes),
        bytes_total: total.saturating_mul(bytes),
        messages: Traffic::messages_of(kind, group, moves.most_partners()),
    }
}

/// The axes that spread the value where it comes from, else where it goes.
fn axes_of_move(source: &Layout, target: &Layout) -> Vec<String> {
    let used = |layout: &Layout| -> Vec<String> {
        let axes = layout.mesh().axes().iter();
        axes.filter(|&(id, axis)| axis.size > 1 && layout.uses(id))
            .map(|(_, axis)| axis.name.clone())
            .collect()
    };
    let axes = used(source);
    if axes.is_empty() { used(target) } else { axes }
}

/// Who sends how much to whom.
struct Moves {
    held: BTreeMap<DeviceId, Vec<IndexSet>>,
    wanted: BTreeMap<DeviceId, Vec<IndexSet>>,
    /// `(from, to)`, itself included, with the number of elements.
    edges: BTreeMap<(DeviceId, DeviceId), u64>,
    sent: BTreeMap<DeviceId, u64>,
}

impl Moves {
    fn new(source: &TensorType, target: &TensorType) -> Moves {
        let sizes = source.sizes();
        let pieces = |layout: &Layout| -> BTreeMap<DeviceId, Vec<IndexSet>> {
            let devices = layout.mesh().devices();
            devices.filter_map(|device| Some((device, layout.piece_of(&sizes, device)?))).collect()
        };
        let mut edges: BTreeMap<(DeviceId, DeviceId), u64> = BTreeMap::new();
        let mut sent: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for to in target.layout.mesh().devices() {
            for fetch in fetches(source, target, to, &[]) {
                let elements = Fetch::elements(&fetch);
                let edge = edges.entry((fetch.from, to)).or_default();
                *edge = edge.saturating_add(elements);
                if fetch.from != to {
                    let sent = sent.entry(fetch.from).or_default();
                    *sent = sent.saturating_add(elements);
                }
            }
        }
        let (held, wanted) = (pieces(&source.layout), pieces(&target.layout));
        Moves { held, wanted, edges, sent }
    }

    /// The sets of devices that exchange with each other, itself or through others.
    fn components(&self) -> Vec<BTreeSet<DeviceId>> {
        let mut root: BTreeMap<DeviceId, DeviceId> =
            self.edges.keys().flat_map(|&(from, to)| [(from, from), (to, to)]).collect();
        fn find(root: &BTreeMap<DeviceId, DeviceId>, mut device: DeviceId) -> DeviceId {
            while root[&device] != device {
                device = root[&device];
            }
            device
        }
        for &(from, to) in self.edges.keys() {
            let (a, b) = (find(&root, from), find(&root, to));
            root.insert(a.max(b), a.min(b));
        }
        let mut components: BTreeMap<DeviceId, BTreeSet<DeviceId>> = BTreeMap::new();
        for &device in root.keys() {
            components.entry(find(&root, device)).or_default().insert(device);
        }
        components.into_values().collect()
    }

    fn kind(&self, members: &BTreeSet<DeviceId>, reduces: bool) -> Kind {
        let edges: Vec<(DeviceId, DeviceId)> =
            self.edges.keys().copied().filter(|(from, _)| members.contains(from)).collect();
        let senders: BTreeSet<DeviceId> = edges.iter().map(|e| e.0).collect();
        let receivers: BTreeSet<DeviceId> = edges.iter().map(|e| e.1).collect();
        let held = |device: &DeviceId| &self.held[device];
        let wanted = |device: &DeviceId| &self.wanted[device];
        if reduces {
            return match receivers.len() {
                1 => Kind::Reduce,
                _ if receivers.iter().all(|to| self.held.get(to) == Some(wanted(to))) => Kind::AllReduce,
                _ => Kind::ReduceScatter,
            };
        }
        let one_to_one = edges.len() == senders.len() && edges.len() == receivers.len();
        let whole = edges.iter().all(|(from, to)| held(from) == wanted(to));
        let same_set = self.held.keys().eq(self.wanted.keys());
        let held_in_all = senders.iter().map(|d| u128::from(volume(held(d)))).sum::<u128>();
        let wanted_in_all = receivers.iter().map(|d| u128::from(volume(wanted(d)))).sum::<u128>();
        let all_pairs = edges.len() == senders.len() * receivers.len();
        match () {
            () if one_to_one && whole => {
                if same_set {
                    Kind::Permute
                } else {
                    Kind::SendRecv
                }
            }
            () if senders.len() == 1 && whole => Kind::Broadcast,
            () if senders.len() == 1 && wanted_in_all == held_in_all => Kind::Scatter,
            () if receivers.len() == 1 && wanted_in_all == held_in_all => Kind::Gather,
            () if same_set
                && all_pairs
                && receivers.iter().all(|d| u128::from(volume(wanted(d))) == held_in_all) =>
            {
                Kind::AllGather
            }
            () if same_set && all_pairs && wanted_in_all == held_in_all => Kind::AllToAll,
            () => Kind::Redistribute,
        }
    }

    /// Elements sent by slices, where every member holds the whole value: the most, and by all.
    fn all_reduce_counts(&self, group: u64) -> Option<(u64, u64)> {
        let piece = self.held.values().map(|piece| volume(piece)).max()?;
        let slice = piece.div_ceil(group);
        let groups = self.held.len() as u64 / group;
        let most = (piece - slice).saturating_add((group - 1).saturating_mul(slice));
        Some((most, (2 * (group - 1)).saturating_mul(piece).saturating_mul(groups)))
    }

    fn most_partners(&self) -> u64 {
        let mut partners: BTreeMap<DeviceId, u64> = BTreeMap::new();
        for (from, to) in self.edges.keys().filter(|(from, to)| from != to) {
            *partners.entry(*from).or_default() += 1;
            *partners.entry(*to).or_default() += 0;
        }
        partners.values().copied().max().unwrap_or(0)
    }
}
