//! Buffers that live longer, so that they can lend what they hold, as far as that takes no memory.
//!
//! ```text
//!   s0: b3 <- all_gather b2          s0: b3 <- all_gather b2
//!   s0: free b2                      s0: b4 <- linear(b3, b1)
//!   s0: b4 <- linear(b3, b1)         s0: free b3
//!   s0: free b3                      s0: free b2
//! ```
//!
//! What lives longer must fit below what is alive at once elsewhere, in the order of the text; and when all buffers have
//! their places, the arena must not have become larger.

use super::buffers;
use super::lives::lives;
use crate::host::{Action, BufferId, HostInstr, HostProgram};
use std::collections::{BTreeMap, BTreeSet};

/// The program with those of the loans (what is lent, and by whom) for which there is memory.
pub(super) fn lend(program: HostProgram, loans: &[(BufferId, BufferId)]) -> HostProgram {
    let affordable = affordable(&program, loans);
    if affordable.is_empty() {
        return program;
    }
    let mut longer = program.clone();
    let mut borrowers: BTreeMap<BufferId, BTreeSet<BufferId>> = BTreeMap::new();
    for (id, lender) in affordable {
        longer.buffers[id].lender = Some(lender);
        borrowers.entry(lender).or_default().insert(id);
    }
    free_later(&mut longer.body, &borrowers);
    let arena = |program: &HostProgram| buffers::place(program.clone()).arena;
    if arena(&longer) <= arena(&program) { longer } else { program }
}

/// The loans whose lenders can live on while there are never more bytes alive than there are at the worst moment anyhow.
fn affordable(program: &HostProgram, loans: &[(BufferId, BufferId)]) -> Vec<(BufferId, BufferId)> {
    if loans.is_empty() {
        return Vec::new();
    }
    let mut lives = lives(program);
    let mut alive: Vec<u64> = vec![0; program.actions().len()];
    for (id, life) in lives.iter() {
        let end = life.end.min(alive.len());
        let bytes = if program.buffers[id].view.is_some() { 0 } else { program.buffers[id].all_bytes() };
        alive[life.start.min(end)..end].iter_mut().for_each(|sum| *sum = sum.saturating_add(bytes));
    }
    let most = alive.iter().copied().max().unwrap_or(0);
    let fits = |&(id, lender): &(BufferId, BufferId)| {
        let (from, to, bytes) = (lives[lender].end, lives[id].end, program.buffers[lender].all_bytes());
        let Some(moments) = alive.get_mut(from..to.max(from)) else { return false };
        let fits = moments.iter().all(|sum| sum.saturating_add(bytes) <= most);
        if fits {
            moments.iter_mut().for_each(|sum| *sum = sum.saturating_add(bytes));
            lives[lender].end = to.max(from);
        }
        fits
    };
    loans.iter().copied().filter(fits).collect()
}

/// Moves the free of each lender behind those of all who borrow from it.
fn free_later(body: &mut Vec<HostInstr>, borrowers: &BTreeMap<BufferId, BTreeSet<BufferId>>) {
    // What is to be freed, with those who still borrow from it.
    let mut waiting: Vec<(HostInstr, BTreeSet<BufferId>)> = Vec::new();
    for mut instr in std::mem::take(body) {
        let freed = match &mut instr {
            HostInstr::Loop(steps) => {
                steps.stages.iter_mut().for_each(|stage| free_later(stage, borrowers));
                None
            }
            HostInstr::On(_, Action::Free(id)) => Some(*id),
            HostInstr::On(..) => None,
        };
        match freed.and_then(|id| borrowers.get(&id)) {
            Some(borrowers) => waiting.push((instr, borrowers.clone())),
            None => body.push(instr),
        }
        if let Some(id) = freed {
            for (_, borrowers) in &mut waiting {
                borrowers.remove(&id);
            }
            body.extend(waiting.extract_if(.., |(_, borrowers)| borrowers.is_empty()).map(|(free, _)| free));
        }
    }
    body.extend(waiting.into_iter().map(|(free, _)| free));
}
