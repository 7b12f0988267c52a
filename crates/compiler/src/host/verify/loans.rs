//! Loans: what a move puts into a buffer may be read in the buffer that it moves.
//!
//! ```text
//!   s0: alloc b2
//!   s0: b2 <- all_gather b0 over tp       ┬ b0 is lent: nothing writes to it or ends its life,
//!   s0: b3 <- linear(b2, b1) ..           │ and computations of this stream alone read b2
//!   s0: free b2                           ┴
//! ```
//!
//! All of that stands in one block of the text, so it is enqueued with nothing of another step in between. What other
//! streams do to the lender is left to the walk ([`lives`](super::lives)): for it, whoever reads what is lent reads the
//! lender as well, and so does the end of the loan. That a peer's piece stays as it is follows from the same: the text
//! is the peer's text, and at the end of the loan a device waits for those that read from it.

use crate::host::{Action, Buffer, BufferId, HostInstr, HostProgram, Role, StreamId};
use crate::instr::verify::{check_by_blocks, check_loan};
use crate::instr::{Fault, Move};
use std::collections::{BTreeMap, BTreeSet};

/// Checks all loans.
pub(super) fn check(program: &HostProgram) -> Result<(), Fault> {
    let lent = program.buffers.iter().filter_map(|(id, buffer)| Some((id, buffer.lender?)));
    let lenders: BTreeMap<BufferId, BufferId> = lent.collect();
    if lenders.is_empty() {
        return Ok(());
    }
    for (&id, &lender) in &lenders {
        let Buffer { role, slots, view, .. } = &program.buffers[id];
        if *role != Role::Temporary || *slots != 1 || view.is_some() {
            return Err(Fault::new(format!("{id} is lent, but is not a temporary of one slot")));
        }
        if program.buffers.get(lender).is_none_or(|lender| lender.lender.is_some() || lender.view.is_some()) {
            return Err(Fault::new(format!("{id} is lent by {lender}, which has nothing of its own")));
        }
    }
    if let Some((view, of)) = program
        .buffers
        .iter()
        .find_map(|(id, buffer)| Some((id, buffer.view?)))
        .filter(|(_, of)| lenders.contains_key(of))
    {
        return Err(Fault::new(format!("{view} is a view of {of}, which is lent")));
    }
    let mut loans = Loans { program, lenders, blocks: 0, uses: BTreeMap::new(), changes: BTreeMap::new() };
    loans.block(&program.body, &mut Vec::new());
    // The computations that go block by block.
    let mut by_blocks = BTreeSet::new();
    for (&id, &lender) in &loans.lenders {
        let readers = loans.check(id, lender)?;
        if !readers.into_iter().all(|reader| by_blocks.insert(reader)) {
            return Err(Fault::new(format!("{id} and another buffer are lent to one computation in blocks")));
        }
    }
    Ok(())
}

/// A place in the text: the block, and which of its instructions.
type Place = (usize, usize);

/// What an action does with a buffer that is lent.
struct Use<'a> {
    place: Place,
    stream: StreamId,
    action: &'a Action,
}

struct Loans<'a> {
    program: &'a HostProgram,
    /// The buffers that are lent, with those that lend.
    lenders: BTreeMap<BufferId, BufferId>,
    /// How many blocks were entered.
    blocks: usize,
    /// What is done with each that is lent, in the order of the text.
    uses: BTreeMap<BufferId, Vec<Use<'a>>>,
    /// Where those that lend are written, begin or end: in the block itself, or in a loop that stands there.
    changes: BTreeMap<BufferId, BTreeSet<Place>>,
}

impl<'a> Loans<'a> {
    /// Collects what is done in a block, which stands at these places of the blocks around it.
    fn block(&mut self, body: &'a [HostInstr], around: &mut Vec<Place>) {
        let block = self.blocks;
        self.blocks += 1;
        for (at, instr) in body.iter().enumerate() {
            around.push((block, at));
            match instr {
                HostInstr::On(stream, action) => self.action(*stream, action, around),
                HostInstr::Loop(steps) => steps.stages.iter().for_each(|stage| self.block(stage, around)),
            }
            around.pop();
        }
    }

    fn action(&mut self, stream: StreamId, action: &'a Action, places: &[Place]) {
        let touched: BTreeSet<BufferId> =
            action.reads().chain(action.writes()).chain(action.bounds()).collect();
        for id in touched.into_iter().filter(|id| self.lenders.contains_key(id)) {
            let place = *places.last().expect("an action stands in a block");
            self.uses.entry(id).or_default().push(Use { place, stream, action });
        }
        for id in action.writes().into_iter().chain(action.bounds()).map(|id| self.program.home(id)) {
            self.changes.entry(id).or_default().extend(places);
        }
    }

    /// Checks a loan. Returns where computations stand that read it in blocks.
    fn check(&self, id: BufferId, lender: BufferId) -> Result<Vec<Place>, Fault> {
        let uses = self.uses.get(&id).map_or(&[][..], Vec::as_slice);
        let wrong = |reason: &str| Fault::new(format!("{id} is lent by {lender}, but {reason}"));
        let [alloc, moved, readers @ .., free] = uses else {
            return Err(wrong("there is no move between its allocation and its end"));
        };
        let block = moved.place.0;
        if let Some(other) = uses.iter().find(|one| (one.place.0, one.stream) != (block, moved.stream)) {
            let at = format!("{}: {}", other.stream, other.action);
            return Err(wrong("is used in several blocks or streams").at(at));
        }
        let (Action::Alloc(_), Action::Free(_)) = (alloc.action, free.action) else {
            return Err(wrong("its allocation and its end are not around all that uses it"));
        };
        let Action::Move(fills) = moved.action else { return Err(wrong("no move fills it")) };
        if (fills.source, fills.target) != (lender, id) {
            return Err(wrong("another buffer is moved").at(format!("{}: {}", moved.stream, moved.action)));
        }
        let within = moved.place..=free.place;
        if self.changes.get(&lender).is_some_and(|changes| changes.range(within).next().is_some()) {
            return Err(wrong("that changes before the loan ends"));
        }
        self.pieces(id, fills, readers)
            .map_err(|fault| Fault { reason: format!("{id}: {}", fault.reason), ..fault })
    }

    /// Whoever reads the buffer can read what lies with the lender's devices.
    fn pieces(&self, id: BufferId, fills: &Move<BufferId>, readers: &[Use<'_>]) -> Result<Vec<Place>, Fault> {
        let ty = |id: BufferId| &self.program.buffers[id].ty;
        let dim = check_loan(fills, ty(fills.source), ty(id))?;
        let mut by_blocks = Vec::new();
        for Use { place, stream, action } in readers {
            let at = |fault: Fault| fault.at(format!("{stream}: {action}"));
            let Action::Compute(compute) = action else {
                return Err(at(Fault::new("what is lent is read by computations alone")));
            };
            if compute.writes() == id {
                return Err(at(Fault::new("what is lent is written")));
            }
            if let Some(dim) = dim {
                check_by_blocks(compute, id, dim, &ty).map_err(at)?;
                by_blocks.push(*place);
            }
        }
        Ok(by_blocks)
    }
}
