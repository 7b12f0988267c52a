//! Copies that need not be made: a computation reads or writes a part of a buffer where it lies.
//!
//! ```text
//!   s0: alloc b3                                  b3 x: ..., view of b0
//!   s0: b3 <- copy b0                             b4 y: ..., view of b2
//!   s0: alloc b4
//!   s0: b4 <- linear(b3, b1) over ...             s0: b4 <- linear(b3, b1) over ...
//!   s0: free b3
//!   s0: b2 <- copy b4
//!   s0: free b4
//! ```
//!
//! Two copies are of this kind, if what is copied is one run of the other buffer's piece on every device:
//!
//! * *Out of an input*, to a buffer that only computations read. No run writes to an input, and it lives to the end, so
//!   whoever reads it later reads the same.
//! * *Of a result* that one computation writes and only the copy reads. The computation then writes to the copy's
//!   target, earlier than the copy did. Between the two the stream waits for nobody, so whatever is done before the
//!   copy on other streams is done before the computation as well; and nothing between them touches the target.

use crate::host::{Action, BufferId, HostInstr, HostProgram, Role, StreamId};
use crate::id::Table;
use crate::instr::verify::{Through, check_view};
use crate::instr::{Compute, Kind, Move};
use crate::layout::StepId;

/// The program without the copies that need not be made.
pub(super) fn run(mut program: HostProgram) -> HostProgram {
    let mut search = Search { uses: uses(&program), found: Vec::new(), counters: Vec::new() };
    search.block(&program, &program.body);
    for &(view, of) in &search.found {
        let buffer = &mut program.buffers[view];
        (buffer.view, buffer.offset, buffer.bytes, buffer.slots) = (Some(of), 0, 0, 1);
    }
    let is_view = |id: BufferId| search.found.iter().any(|(view, _)| *view == id);
    let goes = |action: &Action| match action {
        Action::Alloc(id) | Action::Free(id) => is_view(*id),
        Action::Move(moved) => is_view(moved.source) || is_view(moved.target),
        _ => false,
    };
    drop_actions(&mut program.body, &goes);
    program
}

fn drop_actions(body: &mut Vec<HostInstr>, goes: &impl Fn(&Action) -> bool) {
    body.retain(|instr| !matches!(instr, HostInstr::On(_, action) if goes(action)));
    for instr in body {
        if let HostInstr::Loop(steps) = instr {
            steps.stages.iter_mut().for_each(|body| drop_actions(body, goes));
        }
    }
}

/// How often a buffer is used by the text.
#[derive(Clone, Copy, Default)]
struct Uses {
    computed: usize,
    operand: usize,
    moved_to: usize,
    moved_from: usize,
}

fn uses(program: &HostProgram) -> Table<BufferId, Uses> {
    let mut uses: Table<BufferId, Uses> = program.buffers.keys().map(|_| Uses::default()).collect();
    for (_, action) in program.actions() {
        match action {
            Action::Compute(compute) => {
                uses[compute.writes()].computed += 1;
                compute.reads().for_each(|id| uses[id].operand += 1);
            }
            Action::Move(moved) => {
                uses[moved.writes()].moved_to += 1;
                uses[moved.reads()].moved_from += 1;
            }
            _ => {}
        }
    }
    uses
}

struct Search {
    uses: Table<BufferId, Uses>,
    /// The views with what they are views of.
    found: Vec<(BufferId, BufferId)>,
    counters: Vec<(StepId, u64)>,
}

impl Search {
    fn block(&mut self, program: &HostProgram, body: &[HostInstr]) {
        for (at, instr) in body.iter().enumerate() {
            match instr {
                HostInstr::On(stream, Action::Move(moved)) if moved.kind == Kind::Local => {
                    let found = self.of_input(program, moved);
                    let found = found.or_else(|| self.of_result(program, moved, *stream, &body[..at]));
                    self.found.extend(found);
                }
                HostInstr::On(..) => {}
                HostInstr::Loop(steps) => {
                    let outside = self.counters.len();
                    self.counters.extend(&steps.counters);
                    steps.stages.iter().for_each(|body| self.block(program, body));
                    self.counters.truncate(outside);
                }
            }
        }
    }

    /// A copy out of an input to what only computations read.
    fn of_input(&self, program: &HostProgram, moved: &Move<BufferId>) -> Option<(BufferId, BufferId)> {
        let (view, of) = (moved.target, moved.source);
        let read_alone = matches!(self.uses[view], Uses { computed: 0, moved_to: 1, moved_from: 0, .. });
        let stays = program.buffers[of].role.is_read_only();
        let fits = read_alone && stays && self.fits(program, view, of, Through::Reading);
        fits.then_some((view, of))
    }

    /// A copy of what was computed before it in the block.
    fn of_result(
        &self,
        program: &HostProgram,
        moved: &Move<BufferId>,
        stream: StreamId,
        before: &[HostInstr],
    ) -> Option<(BufferId, BufferId)> {
        let (view, of) = (moved.source, moved.target);
        let made_once =
            matches!(self.uses[view], Uses { computed: 1, operand: 0, moved_to: 0, moved_from: 1 });
        if !made_once || self.found.iter().any(|(known, _)| *known == of) {
            return None;
        }
        let compute = computation_before(before, stream, view, of)?;
        let apart = compute.reads().all(|id| self.home(id) != of);
        (apart && self.fits(program, view, of, Through::Writing)).then_some((view, of))
    }

    fn home(&self, id: BufferId) -> BufferId {
        self.found.iter().find(|(view, _)| *view == id).map_or(id, |(_, of)| *of)
    }

    fn fits(&self, program: &HostProgram, view: BufferId, of: BufferId, through: Through) -> bool {
        let [part, whole] = [view, of].map(|id| &program.buffers[id]);
        part.role == Role::Temporary && check_view(&part.ty, &whole.ty, through, &self.counters).is_ok()
    }
}

/// The computation of a buffer that stands before its copy to another one, if the stream waits for nobody in
/// between, and nothing touches the other one.
fn computation_before(
    before: &[HostInstr],
    stream: StreamId,
    copied: BufferId,
    to: BufferId,
) -> Option<&Compute<BufferId>> {
    for instr in before.iter().rev() {
        let HostInstr::On(on, action) = instr else { return None };
        match action {
            Action::Compute(compute) if compute.result == copied => {
                return (*on == stream).then_some(compute);
            }
            Action::Wait { .. } if *on == stream => return None,
            _ if action.writes() == Some(to) || action.reads().any(|id| id == to) => return None,
            _ if action.bounds() == Some(to) => return None,
            _ => {}
        }
    }
    None
}
