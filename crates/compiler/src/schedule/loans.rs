//! What a move gives is lent where computations can read it on the devices that have it, instead of a copy.
//!
//! ```text
//!   b2 x: ..., bytes 128                          b2 x: ..., bytes 128, lent by b0
//!   s0: b2 <- all_gather b0 over tp               s0: b2 <- all_gather b0 over tp      taken by nobody
//!   s0: b3 <- linear(b2, b1) over ...             s0: b3 <- linear(b2, b1) over ...    reads b0, block by block
//!   s0: free b2                                   s0: free b2                          until here b0 stays as it is
//! ```
//!
//! A buffer is lent if one move fills it, only computations of the move's block and stream read it, each of which can
//! be done block by block, and the move's source stays as it is until the buffer is freed; it is freed later, if there is
//! memory for that ([`longer`]). The buffer keeps its bytes:
//! whether a loan is made use of is for those to say who run the program, for what it spares depends on the machine. So
//! plans and their memory are the same.

use super::longer;
use crate::host::{Action, BufferId, HostInstr, HostProgram, Role, StreamId};
use crate::instr::verify::{check_by_blocks, check_loan};
use crate::instr::{Compute, Move};
use std::collections::{BTreeMap, BTreeSet};

/// The program with what can be lent.
pub(super) fn run(mut program: HostProgram) -> HostProgram {
    let viewed = program.buffers.values().filter_map(|buffer| buffer.view).collect();
    let mut search = Search { program: &program, viewed, found: BTreeMap::new() };
    search.block(&program.body);
    let found = search.found;
    for (&id, loan) in found.iter().filter(|(_, loan)| loan.needs == Needs::Nothing) {
        program.buffers[id].lender = Some(loan.lender);
    }
    let longer = found.into_iter().filter(|(_, loan)| loan.needs == Needs::LaterFree);
    longer::lend(program, &longer.map(|(id, loan)| (id, loan.lender)).collect::<Vec<_>>())
}

/// A loan that is found.
struct Loan {
    lender: BufferId,
    /// The dim along which it is read in blocks, if it is.
    dim: Option<usize>,
    needs: Needs,
}

/// What must be done for a loan.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Needs {
    Nothing,
    /// The lender is freed while it lends: that must come later.
    LaterFree,
}

struct Search<'a> {
    program: &'a HostProgram,
    /// Buffers that others are views of.
    viewed: BTreeSet<BufferId>,
    /// By the buffer that is lent.
    found: BTreeMap<BufferId, Loan>,
}

impl<'a> Search<'a> {
    fn block(&mut self, body: &'a [HostInstr]) {
        for (at, instr) in body.iter().enumerate() {
            match instr {
                HostInstr::On(stream, Action::Move(moved)) => {
                    if let Some(loan) = self.loan(moved, *stream, &body[..at], &body[at + 1..]) {
                        self.found.insert(moved.target, loan);
                    }
                }
                HostInstr::On(..) => {}
                HostInstr::Loop(steps) => steps.stages.iter().for_each(|stage| self.block(stage)),
            }
        }
    }

    /// How the target of a move can be lent by its source.
    fn loan(
        &self,
        moved: &Move<BufferId>,
        stream: StreamId,
        before: &[HostInstr],
        after: &'a [HostInstr],
    ) -> Option<Loan> {
        let [source, target] = [moved.source, moved.target].map(|id| &self.program.buffers[id]);
        let plain = target.role == Role::Temporary && target.slots == 1;
        let known = |id: BufferId| self.viewed.contains(&id) || self.found.contains_key(&id);
        if !plain || known(moved.target) || self.found.contains_key(&moved.source) {
            return None;
        }
        let dim = check_loan(moved, &source.ty, &target.ty).ok()?;
        let mut open =
            Open { program: self.program, moved, stream, readers: Vec::new(), needs: Needs::Nothing };
        if !is_new(moved.target, stream, before)
            || after.iter().find_map(|instr| open.goes_on(instr)) != Some(Ends::Well)
        {
            return None;
        }
        let in_blocks = |id: BufferId| self.found.get(&id).is_some_and(|loan| loan.dim.is_some());
        let ty = |id: BufferId| &self.program.buffers[id].ty;
        let by_blocks = |dim: usize| {
            open.readers.iter().all(|compute| {
                let alone = !compute.reads().any(in_blocks);
                alone && check_by_blocks(compute, moved.target, dim, &ty).is_ok()
            })
        };
        dim.is_none_or(by_blocks).then_some(Loan { lender: moved.source, dim, needs: open.needs })
    }
}

/// A loan, from the move on.
struct Open<'a> {
    program: &'a HostProgram,
    moved: &'a Move<BufferId>,
    stream: StreamId,
    /// The computations that read what is lent.
    readers: Vec<&'a Compute<BufferId>>,
    needs: Needs,
}

/// How a loan ends.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ends {
    /// With the life of what is lent.
    Well,
    /// Something is in the way.
    Badly,
}

impl<'a> Open<'a> {
    /// The next entry of the block; how the loan ends, if it does.
    fn goes_on(&mut self, instr: &'a HostInstr) -> Option<Ends> {
        let (source, target) = (self.moved.source, self.moved.target);
        let on_stream = matches!(instr, HostInstr::On(on, _) if *on == self.stream);
        match instr {
            HostInstr::On(_, Action::Free(id)) if *id == target && on_stream => return Some(Ends::Well),
            HostInstr::On(_, Action::Free(id))
                if *id == source && on_stream && self.program.buffers[source].slots == 1 =>
            {
                self.needs = Needs::LaterFree;
                return None;
            }
            // Others may wait for it, to take the bytes.
            HostInstr::On(_, Action::Record(_)) if self.needs == Needs::LaterFree => {
                return Some(Ends::Badly);
            }
            HostInstr::On(_, Action::Compute(compute))
                if on_stream && compute.reads().any(|id| id == target) =>
            {
                self.readers.push(compute);
            }
            _ if any_action(instr, &|action| touches(action, target)) => return Some(Ends::Badly),
            _ => {}
        }
        let home = |id: BufferId| self.program.home(id);
        let changed = |action: &Action| {
            action
                .writes()
                .into_iter()
                .chain(action.bounds())
                .map(home)
                .any(|id| id == source || id == target)
        };
        any_action(instr, &changed).then_some(Ends::Badly)
    }
}

/// Whether a buffer was allocated on a stream before in the block, and not touched since.
fn is_new(id: BufferId, stream: StreamId, before: &[HostInstr]) -> bool {
    let last = before.iter().rev().find(|instr| any_action(instr, &|action| touches(action, id)));
    matches!(last, Some(HostInstr::On(on, Action::Alloc(_))) if *on == stream)
}

fn touches(action: &Action, id: BufferId) -> bool {
    action.reads().chain(action.writes()).chain(action.bounds()).any(|touched| touched == id)
}

fn any_action(instr: &HostInstr, is: &impl Fn(&Action) -> bool) -> bool {
    match instr {
        HostInstr::On(_, action) => is(action),
        HostInstr::Loop(steps) => steps.stages.iter().flatten().any(|instr| any_action(instr, is)),
    }
}
