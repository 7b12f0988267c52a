//! Which operands of products are packed once, and where they lie.
//!
//! Kernels multiply with an operand that is laid out in the order in which they go through it, and laying it out
//! costs a product of few rows as much as half of the product. So the steps of a loop that share an operand share
//! its packed form:
//!
//! ```text
//!  loop over 8 steps            step 0                       steps 1 to 7
//!    b4 <- linear(b3, b1)       packs b1 while it computes   find b1 packed
//! ```
//!
//! So do the kernels of a product whose other operand is lent in blocks ([`loans`](super::loans)).
//!
//! **Invariant.** While a packed form is used, it holds what its buffer holds. For all turns an operand is packed only
//! if no action of the outermost loop around the product writes its buffer, begins its life or ends it: from the first
//! turn of the product in a run to its last the buffer stays as it is, and all these turns run one after another in one
//! lane, the first of which packs. Else it is packed for one turn: its kernels follow each other in one lane, and write
//! their result alone. A constant is written by no run at all, so its form is kept from run to run,
//! until constants are bound anew ([`PackedConstants`](crate::execute::PackedConstants)).
//!
//! Packed forms lie in the arena above all buffers. They are no part of the plan: where memory is short there are
//! none, and products pack for themselves. A device has at most as many bytes of them as its pieces of these
//! operands have, rounded up to whole panels. Forms of one loop lie where those of an earlier loop were, but for
//! those of constants, which stay; for that to be right, all these products must run in one lane, so only those of
//! one stream have packed operands.

use super::InstrId;
use super::tasks::{Kernel, Made, Operand, Packed, PackedConstantId, TurnId};
use crate::arena::ALIGNMENT;
use crate::kernels::{can_pack, packed_bytes};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::host::{Action, BufferId, HostInstr, HostProgram, Role, StreamId};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::Compute;
use shardweave_compiler::mesh::DeviceId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// The packed operands of a program, found as its turns are walked.
pub(super) struct Packing {
    /// By instruction the operand that its kernels share.
    shared: BTreeMap<InstrId, Shared>,
    /// The stream whose products have packed operands.
    stream: Option<StreamId>,
    /// By device number.
    devices: Vec<Room>,
    /// How many packed constants there are.
    constants: usize,
}

/// An operand that kernels of a product share.
#[derive(Clone, Copy)]
struct Shared {
    operand: usize,
    stays: Stays,
    /// Whether only kernels of one turn share it, or turns do as well.
    among: Among,
    /// Which of the instructions that stand in no loop the product is, or is in.
    outermost: usize,
}

/// Which kernels share an operand.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Among {
    /// Those of one turn, if there are several.
    Blocks,
    /// Those of all turns.
    Turns,
}

/// For how long what is packed is the same.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stays {
    /// From run to run.
    Constant,
    /// In all turns of the product.
    AllTurns,
    /// In one turn.
    OneTurn,
}

/// A packed form.
struct PackedForm {
    /// All bytes that there are for it, and those that it has.
    room: Range<usize>,
    place: Range<usize>,
    /// What is packed: whose bytes, and which; in one turn, in which.
    packed: (DeviceId, Range<usize>, Option<TurnId>),
}

/// The packed forms of one device.
struct Room {
    /// By instruction.
    forms: BTreeMap<InstrId, PackedForm>,
    /// The loop at hand.
    outermost: usize,
    /// Places of forms that its products do not use.
    free: Vec<Range<usize>>,
    /// Places of forms of its products.
    used: Vec<Range<usize>>,
    end: usize,
}

impl Packing {
    /// Before the first turn.
    pub fn new(program: &HostProgram, arena: usize) -> Packing {
        let room = || Room {
            forms: BTreeMap::new(),
            outermost: 0,
            free: Vec::new(),
            used: Vec::new(),
            end: arena.next_multiple_of(ALIGNMENT),
        };
        let devices = (0..program.devices).map(|_| room()).collect();
        Packing { shared: shared_operands(program), stream: None, devices, constants: 0 }
    }

    /// For how long an operand of a product stays packed, if it is packed where kernels share it.
    pub fn stays(&self, instr: InstrId) -> Option<Stays> {
        self.shared.get(&instr).filter(|_| can_pack()).map(|shared| shared.stays)
    }

    /// Packs an operand of a product on a device, if all kernels of a turn share one and gain by it.
    pub fn pack(
        &mut self,
        kernels: &mut [Kernel],
        (instr, turn): (InstrId, TurnId),
        device: DeviceId,
        stream: StreamId,
    ) {
        let Some(&shared) = self.shared.get(&instr) else { return };
        if shared.among == Among::Turns || kernels.len() > 1 {
            kernels
                .iter_mut()
                .for_each(|kernel| self.pack_one(kernel, shared, (instr, turn), device, stream));
        }
    }

    fn pack_one(
        &mut self,
        kernel: &mut Kernel,
        shared: Shared,
        (instr, turn): (InstrId, TurnId),
        device: DeviceId,
        stream: StreamId,
    ) {
        let Compute { op, space, .. } = &*kernel.compute;
        let stored = kernel.operands.iter().map(|operand| match operand {
            Operand::Piece(_, piece) => piece.dtype,
            Operand::Number(_, dtype) => *dtype,
        });
        let stored: Vec<_> = stored.chain([kernel.result.dtype]).collect();
        let bytes = packed_bytes(op, space, &kernel.pieces, shared.operand, &stored);
        let (Some(bytes), Operand::Piece(from, operand)) = (bytes, &kernel.operands[shared.operand]) else {
            return;
        };
        if *self.stream.get_or_insert(stream) != stream {
            return;
        }
        let room = &mut self.devices[device.index()];
        let turn = Some(turn).filter(|_| shared.stays == Stays::OneTurn);
        let packed = (*from, operand.region.clone(), turn);
        let made = match room.forms.get_mut(&instr) {
            Some(form) if form.place.len() == bytes && form.packed == packed => Made::Before,
            // Nobody needs what was packed for another turn.
            Some(form) if turn.is_some() && form.packed.2 != turn && bytes <= form.room.len() => {
                (form.place, form.packed) = (form.room.start..form.room.start + bytes, packed);
                Made::Here
            }
            Some(_) => return,
            None => {
                let Some(found) = room.place(shared, bytes) else { return };
                let place = found.start..found.start + bytes;
                room.forms.insert(instr, PackedForm { room: found, place, packed });
                match shared.stays {
                    Stays::Constant => {
                        self.constants += 1;
                        Made::Once(PackedConstantId::new(self.constants - 1))
                    }
                    Stays::AllTurns | Stays::OneTurn => Made::Here,
                }
            }
        };
        let region = room.forms[&instr].place.clone();
        kernel.packed = Some(Packed { operand: shared.operand, region, made });
    }

    /// The bytes of one device's arena with all packed forms.
    pub fn end(&self) -> usize {
        self.devices.iter().map(|room| room.end).max().unwrap_or(0)
    }

    /// How many packed constants all devices have.
    pub fn constants(&self) -> usize {
        self.constants
    }
}

impl Room {
    /// A place for so many bytes; none if there is no such address.
    fn place(&mut self, shared: Shared, bytes: usize) -> Option<Range<usize>> {
        if self.outermost != shared.outermost {
            self.outermost = shared.outermost;
            self.free.append(&mut self.used);
        }
        let is_constant = shared.stays == Stays::Constant;
        let fits = self.free.iter().position(|place| place.len() >= bytes).filter(|_| !is_constant);
        let whole = match fits {
            Some(found) => self.free.swap_remove(found),
            None => {
                let end = self.end.checked_add(bytes)?.checked_next_multiple_of(ALIGNMENT)?;
                isize::try_from(end).ok()?;
                std::mem::replace(&mut self.end, end)..end
            }
        };
        if !is_constant {
            self.used.push(whole.clone());
        }
        Some(whole)
    }
}

/// The operands that kernels of a product share, by instruction.
fn shared_operands(program: &HostProgram) -> BTreeMap<InstrId, Shared> {
    let actions = program.actions();
    let mut found = BTreeMap::new();
    let mut start = 0;
    for (outermost, instr) in program.body.iter().enumerate() {
        let inside = &actions[start..start + instr.action_count()];
        let repeats = matches!(instr, HostInstr::Loop(steps) if steps.step_count() > 1);
        let changed =
            inside.iter().flat_map(|(_, action)| action.writes().into_iter().chain(action.bounds()));
        let changed: BTreeSet<BufferId> = changed.map(|id| program.home(id)).collect();
        for (place, (_, action)) in (start..).zip(inside) {
            let Action::Compute(compute) = action else { continue };
            let is_lent = |id: BufferId| program.buffers[id].lender.is_some();
            let all = compute.reads().chain([compute.writes()]);
            if all.into_iter().any(|id| program.buffers[id].ty.dtype != DType::F32) {
                continue;
            }
            let in_blocks = compute.reads().any(is_lent);
            let operand = |&operand: &usize| {
                let buffer = compute.operands.get(operand)?.value()?;
                // A view can be of other elements in every step.
                let stays = program.home(buffer) == buffer && !changed.contains(&buffer);
                let stays = match program.buffers[buffer].role {
                    Role::Constant if stays => Stays::Constant,
                    _ if stays && repeats => Stays::AllTurns,
                    _ => Stays::OneTurn,
                };
                let among = if stays == Stays::OneTurn || !repeats { Among::Blocks } else { Among::Turns };
                let shares = in_blocks || among == Among::Turns;
                (shares && !is_lent(buffer)).then_some(Shared { operand, stays, among, outermost })
            };
            // What is on the right lies as the result does more often.
            if let Some(shared) = [1, 0].iter().find_map(operand) {
                found.insert(InstrId::new(place), shared);
            }
        }
        start += inside.len();
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instantiate::planned::planned;
    use crate::instantiate::{Lending, Loans, Reads, Streams, Work, instantiate};

    /// For each product of the first device: who packs, and which bytes; none if nobody does.
    fn packed(statements: &str, placement: &str, constants: &[&str]) -> Vec<Option<(Made, Range<usize>)>> {
        let plan = planned(2, statements, placement, constants);
        let lending = Lending { loans: Loans::WhereItPays, reads: Reads::InPlace };
        let tasks = instantiate(&plan.host, Streams::Merged, lending, None).expect("it can be instantiated");
        let of_first = &tasks.lanes[crate::instantiate::LaneId::new(0)].tasks;
        let products = of_first.iter().filter_map(|task| match &task.work {
            Work::Kernel(kernel) => Some(kernel.packed.as_ref().map(|p| (p.made, p.region.clone()))),
            _ => None,
        });
        let found: Vec<_> = products.collect();
        let beyond = |region: &Range<usize>| region.start >= tasks.arena && region.end <= tasks.packed_arena;
        assert!(
            found.iter().flatten().all(|(_, region)| beyond(region)),
            "packed forms lie above all buffers"
        );
        found
    }

    fn made(packed: &[Option<(Made, Range<usize>)>]) -> Vec<Option<Made>> {
        packed.iter().map(|found| found.as_ref().map(|(made, _)| *made)).collect()
    }

    const LINEAR: &str = "input x: f32[s=64, e=16]\ninput w: f32[h=256, e]\ny = linear(x, w)\noutput y";

    #[test]
    fn the_first_step_packs_and_the_others_find_it() {
        if !crate::kernels::can_pack() {
            return;
        }
        let [here, before] = [Some(Made::Here), Some(Made::Before)];
        let in_steps = "x: s/tp\nw: h/tp\ny: s/stream(4), h/tp";
        assert_eq!(made(&packed(LINEAR, in_steps, &[])), [here, before, before, before]);
        let once = Some(Made::Once(PackedConstantId::new(0)));
        assert_eq!(made(&packed(LINEAR, in_steps, &["w"])), [once, before, before, before]);
        // What is there once is not packed beforehand, but for several blocks that are lent; nor is what comes in the
        // steps, nor for few rows.
        assert_eq!(made(&packed(LINEAR, "x: replicated\nw: h/tp\ny: h/tp", &["w"])), [None]);
        let lent = "x: s/tp\nw: h/tp\ny: h/tp";
        assert_eq!(made(&packed(LINEAR, lent, &["w"])), [once, before]);
        assert_eq!(made(&packed(LINEAR, lent, &[])), [None], "too few rows to pack for them alone");
        let many = LINEAR.replace("s=64", "s=2048");
        assert_eq!(made(&packed(&many, lent, &[])), [here, before]);
        let gathered = "x: s/tp\nw: h/tp\ny: s/tp, h/stream(2)";
        let left = made(&packed(LINEAR, gathered, &[]));
        assert!(left.iter().all(Option::is_none), "x lies across the rows of the result: {left:?}");
        let few = LINEAR.replace("s=64", "s=32");
        assert_eq!(made(&packed(&few, in_steps, &[])), [None; 4]);
    }

    #[test]
    fn a_later_loop_packs_where_an_earlier_one_did_but_for_constants() {
        if !crate::kernels::can_pack() {
            return;
        }
        let two = "input x: f32[s=64, e=16]\ninput u: f32[t=96, e]\ninput w: f32[h=256, e]\n\
                   input v: f32[h, e]\ny = linear(x, w)\nz = linear(u, v)\noutput y\noutput z";
        let placed = "x: s/tp\nu: t/tp\nw: h/tp\nv: h/tp\ny: s/stream(2), h/tp\nz: t/stream(3), h/tp";
        let regions = |constants: &[&str]| -> Vec<Range<usize>> {
            packed(two, placed, constants).into_iter().flatten().map(|(_, region)| region).collect()
        };
        let regions_of = |constants: &[&str]| {
            let all = regions(constants);
            assert!(
                all[0] == all[1] && all[2] == all[3] && all[3] == all[4],
                "the steps of a loop share one"
            );
            (all[0].clone(), all[2].clone())
        };
        let (first, second) = regions_of(&[]);
        assert_eq!(first, second);
        for constants in [&["w"][..], &["v"], &["w", "v"]] {
            let (first, second) = regions_of(constants);
            assert!(first.end <= second.start || second.end <= first.start, "{first:?} and {second:?}");
        }
    }
}
