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
//! be like the one that has most to do, and copies on one device to cost nothing.

use crate::cost::Cost;
use crate::host::{
    Action, At, BufferId, Enqueued, HostInstr, HostProgram, Recorded, Recordings, Walk, enqueue,
};
use crate::id::Id;
use crate::instr::{Compute, Kind, Move, TensorType};
use crate::layout::StepId;
use crate::mesh::DeviceId;
use crate::op::work;
use crate::transfer::{Exchange, Traffic};
use std::collections::BTreeMap;
use std::convert::Infallible;

/// Microseconds of one run.
pub fn time_us(program: &HostProgram, cost: &Cost) -> f64 {
    let mut clock = Clock {
        program,
        cost,
        now: vec![0.0; program.streams],
        recordings: Recordings::new(),
        takes: Vec::new(),
    };
    clock.time(&program.body, &[], false);
    let Ok(()) = enqueue::<Infallible>(&program.body, Walk::Ends, &mut |enqueued| {
        clock.run(enqueued);
        Ok(())
    });
    clock.now.into_iter().fold(0.0, f64::max)
}

/// What an action takes.
struct Takes {
    /// Once, at the first step of all counters of peers, if there are any: there each device has its own piece.
    first: f64,
    /// Once, at any other step of them.
    other: f64,
    /// The counters of the loops around.
    counters: Vec<StepId>,
    /// Those of them that count peers.
    peers: Vec<StepId>,
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
    fn time(&mut self, body: &[HostInstr], counters: &[(StepId, u64)], in_pipeline: bool) {
        for instr in body {
            match instr {
                HostInstr::Loop(steps) => {
                    let inside = [counters, &steps.counters].concat();
                    let pipeline = in_pipeline || steps.is_pipeline();
                    steps.stages.iter().for_each(|stage| self.time(stage, &inside, pipeline));
                }
                HostInstr::On(_, action) => {
                    let (first, other) = match action {
                        Action::Compute(compute) => {
                            let time = self.computing_us(compute) / turns(counters);
                            (time, time)
                        }
                        Action::Move(moved) if !moved.kind.communicates() => (0.0, 0.0),
                        Action::Move(moved) if in_pipeline => {
                            let [first, other] = [0, 1].map(|step| self.step_us(moved, counters, step));
                            if self.peers(moved).is_empty() {
                                (first.max(other), 0.0)
                            } else {
                                (first, other)
                            }
                        }
                        Action::Move(moved) => {
                            let time = self.moving_us(moved, counters);
                            (time, time)
                        }
                        _ => (0.0, 0.0),
                    };
                    let peers = match action {
                        Action::Move(moved) => self.peers(moved),
                        _ => Vec::new(),
                    };
                    let counters = counters.iter().map(|(id, _)| *id).collect();
                    self.takes.push(Takes { first, other, counters, peers });
                }
            }
        }
    }

    fn run(&mut self, enqueued: &Enqueued<'_, '_>) {
        let Enqueued { place, stream, action, at } = *enqueued;
        let now = &mut self.now[stream.index()];
        match action {
            Action::Compute(_) | Action::Move(_) => {
                let takes = &self.takes[place];
                let step = |id: &StepId| at.steps().get(id.index()).copied().unwrap_or(0);
                let first = takes.peers.iter().all(|id| step(id) == 0);
                let range =
                    |id: &StepId| at.ranges().get(id.index()).map_or(1, |range| range.end - range.start);
                let times: f64 = takes.counters.iter().map(|id| range(id) as f64).product();
                *now += times * if first { takes.first } else { takes.other };
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

    /// A move outside pipelines, once: from what all its steps send together.
    fn moving_us(&self, moved: &Move<BufferId>, counters: &[(StepId, u64)]) -> f64 {
        let traffic = Traffic::in_loop(self.ty(moved.source), self.ty(moved.target), counters);
        let bytes = traffic.bytes_per_device.div_ceil(traffic.partners());
        self.cost.time_us(0, phases(moved.kind), 0) + self.cost.time_us(0, 0, bytes) / turns(counters)
    }

    /// A move in a step of a pipeline, counted over all its counters.
    fn step_us(&self, moved: &Move<BufferId>, counters: &[(StepId, u64)], step: u64) -> f64 {
        let at = At::in_pipeline(counters, step);
        let target = self.ty(moved.target);
        let mesh = target.layout.mesh();
        let last = mesh.device_count().saturating_sub(1);
        let devices = [0, 1, last / 2, last].map(|place| mesh.device_at(place.min(last)));
        let mut most = 0;
        for (from, before) in at.sources_of(moved, &target.layout) {
            let exchange = Exchange::between((self.ty(from), before.steps()), (target, at.steps()));
            for device in devices {
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
