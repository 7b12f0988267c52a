//! Which buffers ranks of one host read where they lie with another rank.
//!
//! Every rank finds the same ones, whichever device it plays: of a move all know who takes what of whom.

use super::moves::Phase;
use crate::arena::{Reach, Whose};
use shardweave_compiler::host::{BufferId, HostProgram};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::Move;
use std::collections::BTreeSet;
use std::ops::Range;

/// The homes of buffers that other ranks read.
#[derive(Default)]
pub(super) struct Reached {
    buffers: BTreeSet<BufferId>,
}

impl Reached {
    /// What ranks take of each other in these phases of a move: what is left of them where messages are taken out.
    pub fn note(&mut self, mv: &Move<BufferId>, phases: &[Phase], program: &HostProgram) {
        // It takes from its source, and from its target what was put there before.
        for home in [mv.source, mv.target].map(|id| program.home(id)) {
            if self.buffers.contains(&home) {
                continue;
            }
            let extent = extent(program, home);
            let copies = phases.iter().flat_map(|phase| phase.iter().enumerate());
            let mut parts = copies.flat_map(|(device, copy)| {
                let transfers = copy.iter().flat_map(|copy| &copy.transfers);
                transfers.flat_map(|transfer| &transfer.parts).map(move |part| (device, part))
            });
            if parts.any(|(device, part)| part.from.index() != device && extent.contains(&part.source)) {
                self.buffers.insert(home);
            }
        }
    }

    /// Where they lie.
    pub fn reach(&self, program: &HostProgram) -> Reach {
        if self.buffers.is_empty() {
            return Reach::default();
        }
        let homes = program.buffers.iter().filter(|(id, _)| program.home(*id) == *id);
        Reach::of(homes.map(|(id, _)| {
            let whose = if self.buffers.contains(&id) { Whose::Reached } else { Whose::Own };
            (extent(program, id), whose)
        }))
    }
}

/// The bytes of a buffer, which lie in an arena that fits in memory.
fn extent(program: &HostProgram, id: BufferId) -> Range<usize> {
    let extent = program.buffers[id].extent();
    extent.start as usize..extent.end as usize
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Place;
    use crate::instantiate::planned::planned;
    use crate::instantiate::{Lending, Loans, Reads, Streams, instantiate};

    /// The buffers, by the values that they hold, of which the ranks of these hosts reach bytes.
    fn reached(hosts: [u32; 2], statements: &str, placement: &str) -> BTreeSet<String> {
        let plan = planned(2, statements, placement, &[]);
        let lending = Lending { loans: Loans::WhereItPays, reads: Reads::InPlace };
        let place = Place { rank: 0, hosts: hosts.into(), machines: vec![0, 0], cores: vec![2, 2] };
        let tasks =
            instantiate(&plan.host, Streams::Merged, lending, Some(&place)).expect("it can be instantiated");
        let reaches = |id| tasks.reach.touches(&extent(&plan.host, id));
        let buffers = plan.host.buffers.iter().filter(|(id, _)| reaches(*id));
        buffers.map(|(_, buffer)| buffer.name.clone()).collect()
    }

    #[test]
    fn what_others_take_is_reached_and_what_they_do_not_is_not() {
        let linear = "input x: f32[s=64, e=16]\ninput w: f32[h=256, e]\ny = linear(x, w)\noutput y";
        let names = |names: &[&str]| -> BTreeSet<String> { names.iter().map(ToString::to_string).collect() };
        for (placement, of_values) in [
            ("x: s/tp\nw: h/tp\ny: h/tp", &["x"][..]),
            ("x: s/stream(4)/tp\nw: h/tp\ny: s/stream(4), h/tp", &["x"]),
            ("x: replicated\nw: h/tp\ny: h/tp", &[]),
            ("x: e/tp\nw: e/tp\ny: replicated", &["y"]),
        ] {
            assert_eq!(reached([0, 0], linear, placement), names(of_values), "{placement}");
            assert_eq!(reached([0, 1], linear, placement), names(&[]), "{placement}: each sends messages");
        }
    }
}
