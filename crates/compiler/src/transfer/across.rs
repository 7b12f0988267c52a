//! Moves between two grids: what every device sends and receives.
//!
//! What two pieces share is a product over dims. Where every source device has a part of its own and no
//! device is in both meshes, so is everything else: what a device sends is the product of what its
//! pieces send along each dim, and the devices that exchange, directly or through others, are those
//! whose pieces do along each dim. Otherwise pairs of devices that meet are walked over, but not kept.
//!
//! ```text
//!   p/a, q/b -> p/x/y     a receiver's piece of p meets 2 pieces of p, its piece of q meets all 3 of q:
//!                         6 senders, each at (place of its piece of p) + (place of its piece of q)
//! ```
//!
//! Devices that exchange, directly or through others, make a component; each component is one group.
//! The move has the pattern that all its components have.

use super::joined::Joined;
use super::meetings::{DimMeetings, Found, for_each_found};
use super::one_grid::all_reduce;
use super::{Parts, Traffic};
use crate::id::Id;
use crate::instr::{Kind, TensorType};
use crate::layout::{Layout, volume};
use crate::mesh::{AxisId, Mesh};
use std::collections::BTreeMap;

/// The traffic of a move between layouts on different grids.
pub(super) fn across_grids(source: &TensorType, target: &TensorType) -> Traffic {
    let parts = Parts::new(&source.layout, &target.layout);
    let reduces = parts.reduced.iter().any(|p| source.layout.mesh().size(p.axis) > 1);
    let moves = Moves::new(source, target, &parts);
    let total = moves.senders.iter().map(|sender| sender.elements).fold(0, u64::saturating_add);
    if total == 0 && !reduces {
        return Traffic::none();
    }
    let components = moves.components();
    let busy = components.values().filter(|component| component.devices > 1);
    let kind =
        |component| if reduces { moves.combining_kind(component) } else { moves.moving_kind(component) };
    let mut kinds: Vec<Kind> = busy.map(kind).collect();
    kinds.dedup();
    let kind = match kinds[..] {
        [kind] => kind,
        _ => Kind::Redistribute,
    };
    let group = components.values().map(|component| component.devices).max().unwrap_or(1);
    let bytes = source.dtype.size();
    let (most, total) = if kind == Kind::AllReduce {
        let counts = all_reduce(source, group, &[]);
        (counts.most, counts.total)
    } else {
        (moves.senders.iter().map(|sender| sender.elements).max().unwrap_or(0), total)
    };
    let partners = moves.senders.iter().map(|sender| sender.others).max().unwrap_or(0);
    Traffic {
        kind,
        axes: axes_of_move(&source.layout, &target.layout),
        group,
        bytes_per_device: most.saturating_mul(bytes),
        bytes_total: total.saturating_mul(bytes),
        messages: Traffic::messages_of(kind, group, partners),
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

/// A place of the source's mesh, by what it sends.
#[derive(Clone, Copy, Default)]
struct Sender {
    /// The elements that leave the device.
    elements: u64,
    /// The receivers, itself included.
    receivers: u64,
    /// The receivers without itself.
    others: u64,
}

/// A place of the target's mesh, by what it receives.
#[derive(Clone, Copy, Default)]
struct Receiver {
    senders: u64,
    /// Whether all it receives, from each sender, is the whole of both pieces.
    whole: bool,
}

struct Moves<'a> {
    source: &'a TensorType,
    target: &'a TensorType,
    sizes: Vec<u64>,
    senders: Vec<Sender>,
    receivers: Vec<Receiver>,
    /// The component of each place of the source's mesh that sends, and of each that receives.
    sender_components: Vec<u64>,
    receiver_components: Vec<u64>,
}

/// What is known of one component.
#[derive(Default)]
struct Component {
    devices: u64,
    /// The places that send and those that receive.
    senders: Vec<u64>,
    receivers: Vec<u64>,
    edges: u64,
    whole: bool,
    held: u128,
    wanted: u128,
}

impl<'a> Moves<'a> {
    fn new(source: &'a TensorType, target: &'a TensorType, parts: &Parts) -> Moves<'a> {
        let (from, to) = (source.layout.mesh(), target.layout.mesh());
        let (senders, receivers) = (from.device_count() as usize, to.device_count() as usize);
        let mut moves = Moves {
            source,
            target,
            sizes: source.sizes(),
            senders: vec![Sender::default(); senders],
            receivers: vec![Receiver { senders: 0, whole: true }; receivers],
            sender_components: vec![0; senders],
            receiver_components: vec![0; receivers],
        };
        let dims: Vec<DimMeetings> = (0..moves.sizes.len())
            .map(|dim| DimMeetings::new(&source.layout, &target.layout, dim, moves.sizes[dim]))
            .collect();
        let free = free_axes(&source.layout, parts);
        let one_each = free.iter().all(|&axis| from.size(axis) == 1);
        let all_receive = parts.placed.iter().all(|&axis| to.size(axis) == 1);
        let apart = !from.devices().any(|device| to.place_of(device).is_some());
        if one_each && all_receive && apart {
            moves.by_products(&dims, parts);
        } else {
            moves.by_pairs(&dims, parts, &free);
        }
        moves
    }

    /// What each place sends and receives, as products over dims.
    fn by_products(&mut self, dims: &[DimMeetings], parts: &Parts) {
        let (from, to) = (self.source.layout.mesh(), self.target.layout.mesh());
        let alike = dims.iter().fold(to.device_count(), |n, dim| n / dim.target.pieces().len() as u64);
        for (place, sender) in self.senders.iter_mut().enumerate() {
            let coords = from.coords(place as u64);
            (sender.elements, sender.receivers) = (alike, alike);
            for dim in dims {
                let piece = dim.source.index_at(&coords);
                let (elements, receivers) = dim.sent[piece];
                sender.elements = sender.elements.saturating_mul(elements);
                sender.receivers *= receivers;
                let component = &mut self.sender_components[place];
                *component = *component * dim.components + dim.source_components[piece];
            }
            sender.others = sender.receivers;
        }
        let parts: u64 = parts.reduced.iter().map(|p| from.size(p.axis)).product();
        for (place, receiver) in self.receivers.iter_mut().enumerate() {
            let coords = to.coords(place as u64);
            receiver.senders = parts;
            for dim in dims {
                let piece = dim.target.index_at(&coords);
                receiver.senders *= dim.met[piece].len() as u64;
                receiver.whole &= dim.met[piece].iter().all(|found| {
                    found.elements == found.held && found.elements == dim.target.pieces()[piece].count()
                });
                let component = &mut self.receiver_components[place];
                *component = *component * dim.components + dim.target_components[piece];
            }
        }
    }

    /// What each place sends and receives, pair by pair.
    fn by_pairs(&mut self, dims: &[DimMeetings], parts: &Parts, free: &[AxisId]) {
        let (from, to) = (self.source.layout.mesh(), self.target.layout.mesh());
        let reduced: Vec<AxisId> = parts.reduced.iter().map(|p| p.axis).collect();
        let reduced: Vec<u64> = from.coords_over(&reduced).map(|coords| from.place(&coords)).collect();
        let mut joined = Joined::new(from.device_bound().max(to.device_bound()) as usize);
        for place in 0..to.device_count() {
            let coords = to.coords(place);
            if parts.is_away(&coords) {
                continue;
            }
            let met: Vec<&[Found]> = dims.iter().map(|dim| dim.of(&coords)).collect();
            let wanted = dims.iter().map(|dim| dim.target.at(&coords).count()).fold(1, u64::saturating_mul);
            let at = counterpart(from, to, place, free);
            for &part in &reduced {
                let found = Found { place: at + part, elements: 1, held: 1 };
                for_each_found(&met, found, &mut |found| self.edge(place, wanted, found, &mut joined));
            }
        }
        for (place, component) in self.sender_components.iter_mut().enumerate() {
            *component = joined.root(from.device_at(place as u64).index()) as u64;
        }
        for (place, component) in self.receiver_components.iter_mut().enumerate() {
            *component = joined.root(to.device_at(place as u64).index()) as u64;
        }
    }

    fn edge(&mut self, to: u64, wanted: u64, found: Found, joined: &mut Joined) {
        let from_device = self.source.layout.mesh().device_at(found.place);
        let to_device = self.target.layout.mesh().device_at(to);
        let (sender, receiver) = (&mut self.senders[found.place as usize], &mut self.receivers[to as usize]);
        sender.receivers += 1;
        receiver.senders += 1;
        receiver.whole &= found.elements == found.held && found.elements == wanted;
        if from_device != to_device {
            sender.others += 1;
            sender.elements = sender.elements.saturating_add(found.elements);
            joined.join(from_device.index(), to_device.index());
        }
    }

    /// The sets of devices that exchange with each other, itself or through others, each by one of them.
    fn components(&self) -> BTreeMap<u64, Component> {
        let (from, to) = (self.source.layout.mesh(), self.target.layout.mesh());
        let new = || Component { whole: true, ..Component::default() };
        let mut components: BTreeMap<u64, Component> = BTreeMap::new();
        let held = |layout: &Layout, mesh: &Mesh, place: u64| {
            layout.piece_of(&self.sizes, mesh.device_at(place)).map_or(0, |piece| u128::from(volume(&piece)))
        };
        let mut takes_part = vec![false; from.device_bound().max(to.device_bound()) as usize];
        for (place, sender) in (0..).zip(&self.senders).filter(|(_, sender)| sender.receivers > 0) {
            let device = from.device_at(place).index();
            let component = components.entry(self.sender_components[place as usize]).or_insert_with(new);
            component.senders.push(place);
            component.edges += sender.receivers;
            component.held += held(&self.source.layout, from, place);
            component.devices += u64::from(!std::mem::replace(&mut takes_part[device], true));
        }
        for (place, receiver) in (0..).zip(&self.receivers).filter(|(_, receiver)| receiver.senders > 0) {
            let device = to.device_at(place).index();
            let component = components.entry(self.receiver_components[place as usize]).or_insert_with(new);
            component.receivers.push(place);
            component.whole &= receiver.whole;
            component.wanted += held(&self.target.layout, to, place);
            component.devices += u64::from(!std::mem::replace(&mut takes_part[device], true));
        }
        components
    }

    /// The pattern of a component in which parts are combined.
    fn combining_kind(&self, component: &Component) -> Kind {
        match component.receivers[..] {
            [_] => Kind::Reduce,
            _ if component.receivers.iter().all(|&place| self.holds_what_it_wants(place)) => Kind::AllReduce,
            _ => Kind::ReduceScatter,
        }
    }

    /// The pattern of a component in which elements only move.
    fn moving_kind(&self, component: &Component) -> Kind {
        let (senders, receivers) = (component.senders.len() as u64, component.receivers.len() as u64);
        let same_set = self.source.layout.mesh().same_devices(self.target.layout.mesh());
        let one_to_one = component.edges == senders && component.edges == receivers;
        let all_pairs = component.edges == senders * receivers;
        let (held, wanted) = (component.held, component.wanted);
        match () {
            () if one_to_one && component.whole => {
                if same_set {
                    Kind::Permute
                } else {
                    Kind::SendRecv
                }
            }
            () if senders == 1 && component.whole => Kind::Broadcast,
            () if senders == 1 && wanted == held => Kind::Scatter,
            () if receivers == 1 && wanted == held => Kind::Gather,
            () if same_set && all_pairs && self.each_receives(component, held) => Kind::AllGather,
            () if same_set && all_pairs && wanted == held => Kind::AllToAll,
            () => Kind::Redistribute,
        }
    }

    /// Whether every receiver gets so many elements.
    fn each_receives(&self, component: &Component, elements: u128) -> bool {
        let to = self.target.layout.mesh();
        component.receivers.iter().all(|&place| {
            let wanted = self.target.layout.piece_of(&self.sizes, to.device_at(place));
            wanted.is_some_and(|wanted| u128::from(volume(&wanted)) == elements)
        })
    }

    /// Whether a receiver has the same piece of the source.
    fn holds_what_it_wants(&self, place: u64) -> bool {
        let device = self.target.layout.mesh().device_at(place);
        let held = self.source.layout.piece_of(&self.sizes, device);
        held == self.target.layout.piece_of(&self.sizes, device)
    }
}

/// The axes of the source along which a receiver takes what is at its own counterpart.
fn free_axes(source: &Layout, parts: &Parts) -> Vec<AxisId> {
    let reduced = |axis: AxisId| parts.reduced.iter().any(|p| p.axis == axis);
    source.mesh().axes().keys().filter(|&axis| source.cuts_by(axis).is_none() && !reduced(axis)).collect()
}

/// Where a receiver stands along the free axes of the source's mesh, as the part of a place.
fn counterpart(from: &Mesh, to: &Mesh, place: u64, free: &[AxisId]) -> u64 {
    let own = from.place_of(to.device_at(place)).unwrap_or(place % from.device_count());
    let own = from.coords(own);
    let mut coords = from.coords(0);
    free.iter().for_each(|&axis| coords.set(axis, own.along(axis)));
    from.place(&coords)
}
