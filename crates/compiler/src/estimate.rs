//! How long a plan is estimated to take: the host program played on a clock.
//!
//! Every stream runs its actions one after another, and a wait goes on when what it waits for is done; so
//! what overlaps counts once.
//!
//! ```text
//!   s1   ├─ fetch 0 ─┤├─ fetch 1 ─┤          ├─ fetch 2 ─┤          the slot of 0 is free then
//!   s0                ├────── multiply 0 ────┤├────── multiply 1 ────┤
//! ```
//!
//! An operation takes its flops over `F`, on the device that has most of it. A move takes the latency of a
//! message for each of its phases, and the bytes over `B` of those two devices that have most to send each
//! other: all that a phase takes is under way at once, over a link between every two devices. (The cost by
//! which layouts are compared knows no schedule: it counts what one device sends.) All devices are taken to
//! be like the one that has most to do, as far as a few of them and the first steps of a loop show it, and
//! copies on one device to cost nothing.

use crate::cost::Cost;
use crate::host::{
    Action, At, BufferId, Enqueued, HostInstr, HostProgram, Recorded, Recordings, Walk, enqueue,
};
use crate::id::Id;
use crate::instr::{Compute, Kind, Move, TensorType};
use crate::layout::{Factor, StepId};
use crate::mesh::DeviceId;
use crate::op::work;
use crate::transfer::{Exchange, Traffic};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Of given pieces, no more devices and steps are looked at.
const MOST_LOOKED_AT: u64 = 64;

/// Microseconds of one run.
pub fn time_us(program: &HostProgram, cost: &Cost) -> f64 {
    let mut clock = Clock {
        program,
        cost,
        now: vec![0.0; program.streams],
        recordings: Recordings::new(),
        takes: Vec::new(),
    };
    clock.time(&program.body, &[]);
    let Ok(()) = enqueue::<Infallible>(&program.body, Walk::Ends, &mut |enqueued| {
        clock.run(enqueued);
        Ok(())
    });
    clock.now.into_iter().fold(0.0, f64::max)
}

/// What an action takes, every time.
struct Takes {
    /// The counters of the loops around.
    counters: Vec<StepId>,
    how_long: HowLong,
}

enum HowLong {
    /// The same at every step.
    Always(f64),
    /// At the first step of all these counters, where each device has its own piece, and at the others.
    ByPeers { counters: Vec<StepId>, first: f64, other: f64 },
}

struct Clock<'a> {
    program: &'a HostProgram,
    cost: &'a Cost,
    /// When each stream is done with what it was given.
    now: Vec<f64>,
    recordings: Recordings<f64>,
    /// By the place of an action in the text.
    takes: Vec<Takes>,
}

impl Clock<'_> {
    /// Finds what the actions of a block take, inside loops with these counters.
    fn time(&mut self, body: &[HostInstr], counters: &[(StepId, u64)]) {
        for instr in body {
            match instr {
                HostInstr::Loop(steps) => {
                    let inside = [counters, &steps.counters].concat();
                    steps.stages.iter().for_each(|stage| self.time(stage, &inside));
                }
                HostInstr::On(_, action) => {
                    let how_long = match action {
                        Action::Compute(compute) => {
                            HowLong::Always(self.computing_us(compute) / turns(counters))
                        }
                        Action::Move(moved) if !moved.kind.communicates() => HowLong::Always(0.0),
                        Action::Move(moved) if counters.is_empty() => HowLong::Always(self.moving_us(moved)),
                        Action::Move(moved) => self.in_loop(moved, counters),
                        _ => HowLong::Always(0.0),
                    };
                    let counters = counters.iter().map(|(id, _)| *id).collect();
                    self.takes.push(Takes { counters, how_long });
                }
            }
        }
    }

    /// What a move takes in the steps of a loop. Given pieces may be of any sizes, so all steps are
    /// looked at, as far as they are few; of others the second is like the later ones, or larger.
    fn in_loop(&self, moved: &Move<BufferId>, counters: &[(StepId, u64)]) -> HowLong {
        let peers = self.peers(moved);
        let steps = counters.iter().fold(1, |steps: u64, (_, count)| steps.saturating_mul(*count));
        let last = if self.has_given_pieces(moved) { steps.min(MOST_LOOKED_AT) } else { 2 };
        let first = self.step_us(moved, counters, 0);
        let other = (1..last.min(steps)).map(|step| self.step_us(moved, counters, step)).fold(0.0, f64::max);
        match peers.is_empty() {
            true => HowLong::Always(first.max(other)),
            false => HowLong::ByPeers { counters: peers, first, other },
        }
    }

    fn has_given_pieces(&self, moved: &Move<BufferId>) -> bool {
        let layouts = [moved.source, moved.target].map(|id| &self.ty(id).layout);
        let given = |factor: &Factor| match factor {
            Factor::Sizes(..) => true,
            Factor::Peer(peer) => peer.sizes.is_some(),
            _ => false,
        };
        layouts.iter().flat_map(|layout| layout.cuts()).flatten().any(given)
    }

    fn run(&mut self, enqueued: &Enqueued<'_, '_>) {
        let Enqueued { place, stream, action, at } = *enqueued;
        let now = &mut self.now[stream.index()];
        match action {
            Action::Compute(_) | Action::Move(_) => {
                let takes = &self.takes[place];
                let begins = |id: &StepId| at.steps().get(id.index()).is_none_or(|&step| step == 0);
                let once = match &takes.how_long {
                    HowLong::Always(time) => *time,
                    HowLong::ByPeers { counters, first, .. } if counters.iter().all(begins) => *first,
                    HowLong::ByPeers { other, .. } => *other,
                };
                let range =
                    |id: &StepId| at.ranges().get(id.index()).map_or(1, |range| range.end - range.start);
                let times: f64 = takes.counters.iter().map(|id| range(id) as f64).product();
                *now += times * once;
            }
            Action::Record(event) => self.recordings.record(*event, at, *now),
            Action::Wait { event, back } => {
                if let Recorded::There(done) = self.recordings.wait(*event, *back, at) {
                    *now = now.max(*done);
                }
            }
            Action::Alloc(_) | Action::Free(_) => {}
        }
    }

    fn ty(&self, id: BufferId) -> &TensorType {
        &self.program.buffers[id].ty
    }

    /// All steps of an operation together.
    fn computing_us(&self, compute: &Compute<BufferId>) -> f64 {
        let sizes: Vec<u64> = compute.space.dims.values().map(|dim| dim.size).collect();
        let most = compute.over.all_steps().largest_piece(&sizes);
        self.cost.time_us(work(&compute.op, &compute.space, &most), 0, 0)
    }

    /// A move outside loops.
    fn moving_us(&self, moved: &Move<BufferId>) -> f64 {
        let traffic = Traffic::of(self.ty(moved.source), self.ty(moved.target));
        self.cost.time_us(0, phases(moved.kind), traffic.bytes_per_device.div_ceil(traffic.partners()))
    }

    /// A move in a step of a loop, counted over all its counters.
    fn step_us(&self, moved: &Move<BufferId>, counters: &[(StepId, u64)], step: u64) -> f64 {
        let at = At::in_pipeline(counters, step);
        let target = self.ty(moved.target);
        let mesh = target.layout.mesh();
        let last = mesh.device_count().saturating_sub(1);
        let places: Vec<u64> = match self.has_given_pieces(moved) {
            true => (0..=last.min(MOST_LOOKED_AT)).collect(),
            false => vec![0, last.min(1), last / 2, last],
        };
        let devices = places.into_iter().map(|place| mesh.device_at(place));
        let mut most = 0;
        for (from, before) in at.sources_of(moved, &target.layout) {
            let exchange = Exchange::between((self.ty(from), before.steps()), (target, at.steps()));
            for device in devices.clone() {
                let mut sent: BTreeMap<DeviceId, u64> = BTreeMap::new();
                for fetch in exchange.fetches(device).iter().filter(|fetch| fetch.from != device) {
                    *sent.entry(fetch.from).or_default() += fetch.elements();
                }
                most = sent.into_values().fold(most, u64::max);
            }
        }
        // Each member combines a slice, and takes those of the others.
        let slices = if moved.kind == Kind::AllReduce { moved.group.max(1) } else { 1 };
        let bytes = most.saturating_mul(target.dtype.size()).div_ceil(slices);
        let phases = phases(moved.kind);
        if bytes == 0 { 0.0 } else { self.cost.time_us(0, phases, bytes.saturating_mul(phases)) }
    }

    /// The counters of peers that a move follows.
    fn peers(&self, moved: &Move<BufferId>) -> Vec<StepId> {
        let ends = [moved.source, moved.target].map(|id| &self.ty(id).layout);
        ends.iter().flat_map(|layout| layout.peers()).map(|peer| peer.step).collect()
    }
}

/// How often devices wait for each other, one after another.
fn phases(kind: Kind) -> u64 {
    if kind == Kind::AllReduce { 2 } else { 1 }
}

fn turns(counters: &[(StepId, u64)]) -> f64 {
    counters.iter().map(|(_, count)| *count as f64).product::<f64>().max(1.0)
}
