//! Sums that travel: a step's part is combined with what the device ahead had in the step before.
//!
//! ```text
//!   b4 <- reduce_scatter b3 over tp group 4 passed on       b3: m/next(tp, i0), partial(tp)
//!   b2 <- copy b4                                           b4: m/next(tp, i0)      b2: m/tp
//! ```
//!
//! The layout of such a buffer says whose piece it is a part of, not that it is whole: that it is on the
//! piece's own device, in the last step, when every device along the axis has added its part. So each
//! device may take its own piece out of it, and nothing else may read it.

use crate::host::{Action, BufferId, HostInstr, HostProgram};
use crate::instr::verify::axes_of_own_steps;
use crate::instr::{Fault, Kind, Move};
use crate::layout::{Factor, Layout, StepId, Whose};
use crate::mesh::AxisId;
use std::collections::BTreeMap;

/// Checks all travelling sums and whoever reads them.
pub(super) fn check(program: &HostProgram) -> Result<(), Fault> {
    let mut found = Travelling { program, sums: BTreeMap::new() };
    found.collect(&program.body, &mut Vec::new())?;
    if found.sums.is_empty() {
        return Ok(());
    }
    found.program.actions().into_iter().try_for_each(|(stream, action)| {
        found.reads(action).map_err(|fault| fault.at(format!("{stream}: {action}")))
    })
}

struct Travelling<'a> {
    program: &'a HostProgram,
    /// The axes along which each buffer's sum travels.
    sums: BTreeMap<BufferId, Vec<AxisId>>,
}

impl Travelling<'_> {
    fn collect(&mut self, body: &[HostInstr], counters: &mut Vec<(StepId, u64)>) -> Result<(), Fault> {
        for instr in body {
            match instr {
                HostInstr::On(stream, Action::Move(moved)) if moved.travels() => {
                    let axes = self.axes(moved, counters);
                    let axes =
                        axes.map_err(|fault| fault.at(format!("{stream}: {}", Action::Move(moved.clone()))))?;
                    self.sums.insert(moved.target, axes);
                }
                HostInstr::On(..) => {}
                HostInstr::Loop(steps) => {
                    let outside = counters.len();
                    counters.extend(&steps.counters);
                    steps.stages.iter().try_for_each(|stage| self.collect(stage, counters))?;
                    counters.truncate(outside);
                }
            }
        }
        Ok(())
    }

    /// The axes along which a sum travels, if it goes through all devices along them and ends where it belongs.
    fn axes(&self, moved: &Move<BufferId>, counters: &[(StepId, u64)]) -> Result<Vec<AxisId>, Fault> {
        let [source, target] = [moved.source, moved.target].map(|id| &self.program.buffers[id].ty.layout);
        let longer = |axis: &AxisId| target.mesh().size(*axis) > 1;
        let reduced = source.partial().iter().filter(|p| !target.partial().contains(p)).map(|p| p.axis);
        let mut reduced: Vec<AxisId> = reduced.filter(longer).collect();
        let mut axes = Vec::new();
        let mut steps = Vec::new();
        for factor in target.cuts().iter().flatten() {
            let Factor::Peer(peer) = factor else { continue };
            if peer.whose != Whose::Next {
                return Err(Fault::new("a travelling sum does not end where it belongs"));
            }
            axes.push(peer.axis);
            steps.push((peer.step, target.mesh().size(peer.axis)));
        }
        let mut last = counters[counters.len().saturating_sub(steps.len())..].to_vec();
        last.sort_unstable();
        steps.sort_unstable();
        if steps.is_empty() || steps != last {
            return Err(Fault::new("a sum does not travel through all devices, one after another"));
        }
        reduced.sort_unstable();
        let mut travelled: Vec<AxisId> = axes.iter().copied().filter(longer).collect();
        travelled.sort_unstable();
        if source.cuts() != target.cuts() || reduced != travelled {
            return Err(Fault::new("a travelling sum and the parts of it are not of the same pieces"));
        }
        Ok(axes)
    }

    /// Of a travelling sum a device reads its own piece.
    fn reads(&self, action: &Action) -> Result<(), Fault> {
        let (own, travels) = match action {
            Action::Move(moved) => (self.takes_own(moved), moved.travels()),
            _ => (false, false),
        };
        let unfinished = action.reads().find(|id| !own && self.sums.contains_key(id));
        let spoilt = action.writes().filter(|id| !travels && self.sums.contains_key(id));
        match (unfinished, spoilt) {
            (Some(id), _) => Err(Fault::new(format!("{id} is read while its sum still travels"))),
            (_, Some(id)) => Err(Fault::new(format!("{id} is written while its sum travels"))),
            (None, None) => Ok(()),
        }
    }

    /// Whether each device takes its own piece, of what it has.
    fn takes_own(&self, moved: &Move<BufferId>) -> bool {
        let Some(axes) = self.sums.get(&moved.source) else { return true };
        let layout = |id: BufferId| -> &Layout { &self.program.buffers[id].ty.layout };
        let own = axes_of_own_steps(layout(moved.source), layout(moved.target));
        let one_grid = layout(moved.source).mesh().same_grid(layout(moved.target).mesh());
        moved.kind == Kind::Local && one_grid && axes.iter().all(|axis| own.contains(axis))
    }
}
