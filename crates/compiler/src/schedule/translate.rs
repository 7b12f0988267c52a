//! From the local to the host form on one stream: every value becomes a buffer.
//!
//! Invariant: the stream runs the instructions of the local program in their order, and a buffer lives
//! from right before the instruction that first writes it to right after the last one that uses it, in
//! the block (the program, or the body of one loop) that defines the value. So whatever is used is
//! alive, and nothing is alive for longer than it must.
//!
//! ```text
//!   %3 = all_gather %0            s0: alloc b3
//!   %4 = linear(%3, %1)           s0: b3 <- all_gather b0
//!                                 s0: alloc b4
//!                                 s0: b4 <- linear(b3, b1)
//!                                 s0: free b3
//! ```
//!
//! The results of a loop are values of the block around it: they are allocated before the loop. Inputs
//! are there before the program starts, outputs stay after it ends. A sum that travels is taken by the next
//! step of another device, so it lives for one step more: it has two slots, and a second stage frees it.

use super::buffers;
use super::pipeline::COMPUTE;
use crate::host::{ALIGN, Action, Buffer, BufferId, HostInstr, HostLoop, HostProgram, Role};
use crate::id::{Id, Table};
use crate::instr::TensorType;
use crate::local::{LocalId, LocalInstr, LocalProgram};
use std::collections::{BTreeMap, BTreeSet};

/// The host program on one stream, each buffer in a place of its own. `constants` are the inputs that stay
/// bound between runs.
pub fn translate(local: &LocalProgram, constants: &BTreeSet<String>) -> HostProgram {
    let mut inputs = Vec::new();
    for instr in &local.body {
        if let LocalInstr::Input(id) = instr {
            inputs.push((local.values[*id].name.clone(), buffer_of(*id)));
        }
    }
    let roles = roles(local, &inputs, constants);
    let travelling = travelling(&local.body);
    let buffers = local.values.iter().map(|(id, value)| {
        let (name, ty, role) = (value.name.clone(), value.ty.clone(), roles[buffer_of(id)]);
        let bytes = place_bytes(&ty);
        let slots = if travelling.contains(&buffer_of(id)) { 2 } else { 1 };
        Buffer { name, ty, role, offset: 0, bytes, slots, view: None, lender: None }
    });
    let buffers: Table<BufferId, Buffer> = buffers.collect();
    let body = Translator { roles: &roles, filled: BTreeSet::new() }.block(&local.body);
    let outputs = local.outputs.iter().map(|(name, id)| (name.clone(), buffer_of(*id))).collect();
    let bounds = local.values.values().map(|value| value.ty.layout.mesh().device_bound());
    let devices = bounds.max().unwrap_or(1);
    buffers::apart(HostProgram {
        name: local.name.clone(),
        buffers,
        streams: 1,
        events: 0,
        body,
        inputs,
        outputs,
        arena: 0,
        devices,
    })
}

/// The bytes set aside for a value: its largest piece of any device at any step, rounded up so that the
/// next place is aligned.
pub(super) fn place_bytes(ty: &TensorType) -> u64 {
    ty.largest_piece_bytes().checked_next_multiple_of(ALIGN).unwrap_or(u64::MAX / ALIGN * ALIGN)
}

fn roles(
    local: &LocalProgram,
    inputs: &[(String, BufferId)],
    constants: &BTreeSet<String>,
) -> Table<BufferId, Role> {
    let mut roles: Table<BufferId, Role> = local.values.keys().map(|_| Role::Temporary).collect();
    for (_, id) in &local.outputs {
        roles[buffer_of(*id)] = Role::Result;
    }
    for (name, id) in inputs {
        roles[*id] = if constants.contains(name) { Role::Constant } else { Role::Argument };
    }
    roles
}

/// The buffers of sums that travel.
fn travelling(body: &[LocalInstr]) -> BTreeSet<BufferId> {
    let of = |instr: &LocalInstr| match instr {
        LocalInstr::Move(moved) if moved.travels() => BTreeSet::from([buffer_of(moved.target)]),
        LocalInstr::Loop(steps) => travelling(&steps.body),
        _ => BTreeSet::new(),
    };
    body.iter().flat_map(of).collect()
}

fn buffer_of(id: LocalId) -> BufferId {
    BufferId::new(id.index())
}

struct Translator<'a> {
    roles: &'a Table<BufferId, Role>,
    /// Results of the loops around the block: they were allocated outside.
    filled: BTreeSet<LocalId>,
}

impl Translator<'_> {
    fn block(&mut self, body: &[LocalInstr]) -> Vec<HostInstr> {
        let lives = self.lives(body);
        let mut begins: Vec<Vec<BufferId>> = vec![Vec::new(); body.len()];
        let mut ends = begins.clone();
        for (id, (first, last)) in lives {
            let buffer = buffer_of(id);
            if !self.roles[buffer].is_given() {
                begins[first].push(buffer);
            }
            if self.roles[buffer] == Role::Temporary {
                ends[last].push(buffer);
            }
        }
        let mut out = Vec::new();
        for (instr, (begins, ends)) in body.iter().zip(begins.into_iter().zip(ends)) {
            out.extend(begins.into_iter().map(|id| on(Action::Alloc(id))));
            self.instr(instr, &mut out);
            out.extend(ends.into_iter().map(|id| on(Action::Free(id))));
        }
        out
    }

    /// For each value that a block defines, the instructions that define it and use it last.
    fn lives(&self, body: &[LocalInstr]) -> BTreeMap<LocalId, (usize, usize)> {
        let mut lives: BTreeMap<LocalId, (usize, usize)> = BTreeMap::new();
        for (at, instr) in body.iter().enumerate() {
            for id in instr.writes().into_iter().filter(|id| !self.filled.contains(id)) {
                lives.insert(id, (at, at));
            }
            for id in instr.reads() {
                lives.entry(id).and_modify(|(_, last)| *last = at);
            }
        }
        lives
    }

    fn instr(&mut self, instr: &LocalInstr, out: &mut Vec<HostInstr>) {
        match instr {
            LocalInstr::Input(_) => {}
            LocalInstr::Compute(compute) => out.push(on(Action::Compute(compute.renamed(buffer_of)))),
            LocalInstr::Move(moved) => out.push(on(Action::Move(moved.renamed(buffer_of)))),
            LocalInstr::Loop(steps) => {
                self.filled.extend(&steps.results);
                let body = self.block(&steps.body);
                self.filled.retain(|id| !steps.results.contains(id));
                let (counters, overlap) = (steps.counters.clone(), steps.overlap);
                let travelling = travelling(&steps.body);
                let ends_travelling = |instr: &HostInstr| match instr {
                    HostInstr::On(_, Action::Free(id)) => travelling.contains(id),
                    _ => false,
                };
                let (later, body): (Vec<_>, Vec<_>) = body.into_iter().partition(ends_travelling);
                let stages = if later.is_empty() { vec![body] } else { vec![body, later] };
                out.push(HostInstr::Loop(HostLoop { counters, overlap, stages }));
            }
        }
    }
}

fn on(action: Action) -> HostInstr {
    HostInstr::On(COMPUTE, action)
}
