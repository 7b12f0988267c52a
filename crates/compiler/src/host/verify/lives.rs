//! What happens to every buffer, action by action in the order enqueued.
//!
//! ```text
//!  alloc ─▶ (no element written) ─▶ accesses, each ordered after those it must not meet ─▶ free
//! ```
//!
//! A buffer keeps the region written since its life began, and its accesses. An access that no later
//! one can meet without meeting a newer access too is forgotten, so the lists stay short:
//! an access is replaced by one that is ordered after it, touches all it touches, and writes if it does.

use super::combined;
use super::elements::{holder, name_box};
use super::occupants::Occupants;
use super::order::{Order, Stamp};
use crate::host::{Action, At, Buffer, BufferId, Enqueued, HostProgram, Role, StreamId};
use crate::id::Table;
use crate::instr::verify::{added_axes, axes_of_own_steps, groups_meet};
use crate::instr::{Compute, Fault, Move, TensorType};
use crate::layout::{IndexSet, Region, box_intersection, is_empty_box};
use crate::mesh::DeviceId;
use std::ops::Range;

/// What an action does to elements.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Use {
    Read,
    Write,
}

struct Access<'a> {
    kind: Use,
    stamp: Stamp,
    action: &'a Action,
    /// What is touched.
    elements: Vec<IndexSet>,
}

/// A move that communicates, with the action it is.
type Met<'a> = (Stamp, &'a Move<BufferId>, &'a Action);

/// A buffer between its allocation and its end.
struct Life<'a> {
    born: Stamp,
    written: Region,
    accesses: Vec<Access<'a>>,
}

/// What a move gives a target.
struct Given {
    /// The elements that are there afterwards.
    elements: Vec<IndexSet>,
    /// All that is written, those that are filled with an identity among them.
    touched: Vec<IndexSet>,
}

/// One place of a buffer.
#[derive(Default)]
struct Slot<'a> {
    alive: Option<Life<'a>>,
    /// The last free.
    freed: Option<Stamp>,
}

/// Whose pieces are looked at.
#[derive(Clone, Copy)]
pub(super) enum Whom {
    /// All devices together.
    All,
    /// One device.
    Device(DeviceId),
}

impl Whom {
    /// The elements of a value that are held at some steps; `None` if the device is not in its mesh.
    fn held(self, ty: &TensorType, at: &At) -> Option<Vec<IndexSet>> {
        match self {
            Whom::All => Some(ty.layout.reach(&ty.sizes(), at.ranges())),
            Whom::Device(device) => ty.layout.piece_at_step(&ty.sizes(), device, at.steps()),
        }
    }
}

/// All buffers at one moment of the walk.
pub(super) struct Lives<'a> {
    program: &'a HostProgram,
    whom: Whom,
    order: Order,
    /// For each buffer its slots.
    slots: Table<BufferId, Vec<Slot<'a>>>,
    occupants: Occupants,
    /// The moves of each stream that communicate, in order.
    moves: Table<StreamId, Vec<Met<'a>>>,
}

impl<'a> Lives<'a> {
    /// Before the first action: arguments, constants and state are there.
    pub fn new(program: &'a HostProgram, whom: Whom) -> Result<Lives<'a>, Fault> {
        let is_given = |id: BufferId| program.buffers[id].role.is_given();
        let slots = program.buffers.iter().map(|(id, buffer)| {
            let mut slots: Vec<Slot<'a>> = (0..buffer.slots).map(|_| Slot::default()).collect();
            if is_given(id) {
                let written = whom.held(&buffer.ty, &At::outside()).map(Region::of).unwrap_or_default();
                let alive = Some(Life { born: Order::start(), written, accesses: Vec::new() });
                slots = vec![Slot { alive, freed: None }];
            }
            slots
        });
        let slots = slots.collect();
        let mut occupants = Occupants::none(program);
        for (id, buffer) in program.buffers.iter().filter(|(id, _)| is_given(*id)) {
            if let Some((other, _)) = occupants.before((id, 0), buffer).next() {
                return Err(Fault::new(format!("{other} and {id} are both given and share bytes")));
            }
            occupants.take((id, 0), buffer);
        }
        let order = Order::new(program.streams);
        let moves = (0..program.streams).map(|_| Vec::new()).collect();
        Ok(Lives { program, whom, order, slots, occupants, moves })
    }

    /// The next action.
    pub fn run(&mut self, enqueued: &Enqueued<'a, '_>) -> Result<(), Fault> {
        let Enqueued { stream, action, at, .. } = *enqueued;
        let stamp = self.order.next(stream);
        match action {
            Action::Alloc(id) => self.alloc(*id, stamp, at),
            Action::Free(id) => {
                self.read_lender(*id, stamp, action, at)?;
                self.free(*id, stamp, at)
            }
            Action::Compute(compute) => {
                compute.reads().try_for_each(|id| self.read_lender(id, stamp, action, at))?;
                self.compute(compute, stamp, action, at)
            }
            Action::Move(moved) => self.moved(moved, stamp, action, at),
            Action::Record(event) => {
                self.order.record(stream, *event, at);
                Ok(())
            }
            Action::Wait { event, back } => self.order.wait(stream, *event, *back, at).ok_or_else(|| {
                let reason = "nothing that is enqueued before records it, so";
                Fault::new(format!(
                    "{stream} waits for {event}, but {reason} every device may wait here for ever"
                ))
            }),
        }
    }

    /// After the last action, when all streams are done.
    pub fn end(&self) -> Result<(), Fault> {
        for (id, buffer) in self.program.buffers.iter() {
            if buffer.role == Role::Temporary && self.slots[id].iter().any(|slot| slot.alive.is_some()) {
                return Err(Fault::new(format!("{id} is a temporary, but is never freed")));
            }
        }
        for (name, id) in &self.program.outputs {
            let ty = &self.program.buffers[*id].ty;
            let Some(whole) = self.whom.held(ty, &At::outside()) else { continue };
            let life = self.slots[*id].iter().find_map(|slot| slot.alive.as_ref());
            let life =
                life.ok_or_else(|| Fault::new(format!("output `{name}` is {id}, which is never allocated")))?;
            if let Some(missing) = life.written.missing(&whole) {
                let reason =
                    format!("output `{name}` is {id}, of which {} is never written", name_box(ty, &missing));
                return Err(Fault::new(reason).on(holder(ty, &missing, &[])));
            }
        }
        Ok(())
    }

    /// The slot of a buffer that is used at a step.
    fn slot(&mut self, id: BufferId, at: &At) -> &mut Slot<'a> {
        let slots = &mut self.slots[id];
        let slot = at.slot(slots.len() as u64);
        &mut slots[slot as usize]
    }

    /// What was written of a buffer that is alive.
    fn written(&mut self, id: BufferId, at: &At) -> Option<&Region> {
        self.slot(id, at).alive.as_ref().map(|life| &life.written)
    }

    fn alloc(&mut self, id: BufferId, stamp: Stamp, at: &At) -> Result<(), Fault> {
        if self.program.buffers[id].role.is_given() {
            return Err(Fault::new(format!(
                "{id} is {}, it is there already",
                self.program.buffers[id].role.name()
            )));
        }
        let slot = self.slot(id, at);
        if slot.alive.is_some() {
            return Err(Fault::new(format!("{id} is allocated twice")));
        }
        let own = slot.freed.map(|freed| (id, freed));
        let place = (id, at.slot(self.slots[id].len() as u64));
        let mut before: Vec<(BufferId, Stamp)> = own.into_iter().collect();
        for (other, slot) in self.occupants.before(place, &self.program.buffers[id]) {
            let slot = &self.slots[other][slot as usize];
            if slot.alive.is_some() {
                let device = self.shared_device(id, other);
                let reason = format!("{id} and {other} share bytes while both are in use");
                return Err(Fault::new(reason).on(device));
            }
            before.extend(slot.freed.map(|freed| (other, freed)));
        }
        if let Some((other, freed)) =
            before.into_iter().find(|(_, freed)| !self.order.is_before(*freed, stamp.stream))
        {
            let reason =
                format!("{id} takes bytes of {other}, whose free on {} may come later", freed.stream);
            return Err(Fault::new(reason).on(self.shared_device(id, other)));
        }
        self.occupants.take(place, &self.program.buffers[id]);
        let life = Life { born: stamp, written: Region::new(), accesses: Vec::new() };
        self.slot(id, at).alive = Some(life);
        Ok(())
    }

    fn free(&mut self, id: BufferId, stamp: Stamp, at: &At) -> Result<(), Fault> {
        let role = self.program.buffers[id].role;
        if role != Role::Temporary {
            return Err(Fault::new(format!("{id} is freed, but is {}", role.name())));
        }
        let life = self.slot(id, at).alive.take().ok_or_else(|| self.not_alive(id))?;
        if !self.order.is_before(life.born, stamp.stream) {
            return Err(Fault::new(format!(
                "{id} may be freed before it is allocated on {}",
                life.born.stream
            )));
        }
        if let Some(open) = life.accesses.iter().find(|a| !self.order.is_before(a.stamp, stamp.stream)) {
            let who = format!("`{}: {}`", open.stamp.stream, open.action);
            return Err(Fault::new(format!("{id} may be freed while {who} still uses it")));
        }
        self.slot(id, at).freed = Some(stamp);
        Ok(())
    }

    fn compute(
        &mut self,
        compute: &Compute<BufferId>,
        stamp: Stamp,
        action: &'a Action,
        at: &At,
    ) -> Result<(), Fault> {
        let reads = compute.reads().map(|id| (id, Use::Read));
        for (id, kind) in reads.chain([(compute.writes(), Use::Write)]) {
            let ty = &self.program.buffers[id].ty;
            let Some(elements) = self.whom.held(ty, at) else { continue };
            let written = if kind == Use::Write { elements.clone() } else { Vec::new() };
            // What is done to a view is done to the buffer in which it lies.
            let home = self.program.home(id);
            if kind == Use::Write && at.goes_on(compute).is_some() {
                combined::must_be_there(self.program, home, self.written(home, at), &elements, at)?;
            }
            self.access(home, Access { kind, stamp, action, elements }, written, at)?;
        }
        Ok(())
    }

    /// Of a buffer that is lent: what it got out of its lender is read there as well, until its life ends.
    fn read_lender(&mut self, id: BufferId, stamp: Stamp, action: &'a Action, at: &At) -> Result<(), Fault> {
        let buffers = &self.program.buffers;
        let Some(lender) = buffers[id].lender else { return Ok(()) };
        let [ty, lent] = [lender, id].map(|id| &buffers[id].ty);
        let Some(own) = self.whom.held(ty, at) else { return Ok(()) };
        let elements = box_intersection(&own, &lent.layout.reach(&lent.sizes(), at.ranges()));
        self.access(lender, Access { kind: Use::Read, stamp, action, elements }, Vec::new(), at)
    }

    fn moved(
        &mut self,
        moved: &'a Move<BufferId>,
        stamp: Stamp,
        action: &'a Action,
        at: &At,
    ) -> Result<(), Fault> {
        let program = self.program;
        let target = &program.buffers[moved.target].ty;
        let access = |kind, elements| Access { kind, stamp, action, elements };
        let wanted = target.layout.reach(&target.sizes(), at.ranges());
        let own_target = self.whom.held(target, at);
        // What the target gets: from the first source all, from a second what is combined with that.
        let mut got: Option<Given> = None;
        for (from, before) in at.sources_of(moved, &target.layout) {
            let source = &program.buffers[from].ty;
            let own = self.whom.held(source, &before);
            if let Some(own) = &own {
                let read = box_intersection(own, &wanted);
                self.access(from, access(Use::Read, read), Vec::new(), &before)?;
            }
            let Some(own_target) = &own_target else { continue };
            // What a device made in its own order of steps, it alone has.
            let alone = !axes_of_own_steps(&source.layout, &target.layout).is_empty();
            let given = match own.filter(|_| alone) {
                Some(own) => own,
                None => source.layout.reach(&source.sizes(), before.ranges()),
            };
            let given = box_intersection(&given, own_target);
            // A part that comes after others is combined with what they left.
            if combined::is_later_part(&source.layout, &before) {
                let put = got.as_ref().map(|got| Region::of(got.elements.clone()));
                let there = put.as_ref().or_else(|| self.written(moved.target, at));
                combined::must_be_there(program, moved.target, there, &given, at)?;
            }
            // Where an axis becomes partial, all but its first devices fill their piece with the identity.
            let filled = !added_axes(&source.layout, &target.layout).is_empty();
            let touched = if filled { own_target.clone() } else { given.clone() };
            got.get_or_insert(Given { elements: given, touched });
        }
        if let Some(Given { elements, touched }) = got {
            self.access(moved.target, access(Use::Write, touched), elements, at)?;
        }
        if moved.kind.communicates() { self.meet(moved, stamp, action) } else { Ok(()) }
    }

    /// Compares an access with those before it, and keeps it; `written` are elements that it gives.
    fn access(
        &mut self,
        id: BufferId,
        new: Access<'a>,
        written: Vec<IndexSet>,
        at: &At,
    ) -> Result<(), Fault> {
        let Some(mut life) = self.slot(id, at).alive.take() else { return Err(self.not_alive(id)) };
        let checked = self.compare(id, &life, &new, at.ranges());
        if new.kind == Use::Write {
            life.written.add(written);
        }
        life.accesses.retain(|old| {
            let after = self.order.is_before(old.stamp, new.stamp.stream);
            let strong = new.kind == Use::Write || old.kind == Use::Read;
            let covers = old.elements.iter().zip(&new.elements).all(|(old, new)| old.is_subset(new));
            !(after && strong && covers)
        });
        life.accesses.push(new);
        self.slot(id, at).alive = Some(life);
        checked
    }

    fn compare(
        &self,
        id: BufferId,
        life: &Life<'a>,
        new: &Access<'a>,
        steps: &[Range<u64>],
    ) -> Result<(), Fault> {
        let Buffer { ty, role, .. } = &self.program.buffers[id];
        if new.kind == Use::Write && role.is_read_only() {
            return Err(Fault::new(format!("{id} is written, but is {}", role.name())));
        }
        if !self.order.is_before(life.born, new.stamp.stream) {
            return Err(Fault::new(format!(
                "{id} may be used before it is allocated on {}",
                life.born.stream
            )));
        }
        for old in &life.accesses {
            let conflict = new.kind == Use::Write || old.kind == Use::Write;
            let ordered = old.stamp != new.stamp && self.order.is_before(old.stamp, new.stamp.stream);
            let meeting = box_intersection(&old.elements, &new.elements);
            if conflict && !ordered && !is_empty_box(&meeting) {
                let reason = if old.stamp == new.stamp {
                    format!("{id} is read and written at once")
                } else {
                    let verb = if old.kind == Use::Write { "writes" } else { "reads" };
                    let who = format!("`{}: {}`", old.stamp.stream, old.action);
                    format!(
                        "race: {who} {verb} {} of {id}, and no event orders the two",
                        name_box(ty, &meeting)
                    )
                };
                return Err(Fault::new(reason).on(holder(ty, &meeting, steps)));
            }
        }
        match life.written.missing(&new.elements).filter(|_| new.kind == Use::Read) {
            None => Ok(()),
            Some(missing) => {
                let reason = format!("{id} is read before {} is written", name_box(ty, &missing));
                Err(Fault::new(reason).on(holder(ty, &missing, steps)))
            }
        }
    }

    /// Any two moves that two devices have in common are met in one order.
    fn meet(&mut self, moved: &'a Move<BufferId>, stamp: Stamp, action: &'a Action) -> Result<(), Fault> {
        let types = |m: &Move<BufferId>| -> [&TensorType; 2] {
            [m.source, m.target].map(|id| &self.program.buffers[id].ty)
        };
        for (earlier, other, other_action) in self.moves.iter().flat_map(|(of, moves)| {
            // Of another stream all are done up to some move.
            let done = moves.partition_point(|(earlier, ..)| self.order.is_before(*earlier, stamp.stream));
            if of == stamp.stream { &[] } else { &moves[done..] }
        }) {
            let ([a, b], [c, d]) = (types(other), types(moved));
            if groups_meet((other, a, b), (moved, c, d)) {
                let reason = format!(
                    "no one order of moves: in one group a device may wait here for another, which waits in \
                     `{}: {other_action}` for the first",
                    earlier.stream
                );
                let device = d.layout.mesh().devices().next();
                return Err(Fault::new(reason).on(device));
            }
        }
        self.moves[stamp.stream].push((stamp, moved, action));
        Ok(())
    }

    fn not_alive(&self, id: BufferId) -> Fault {
        match self.slots[id].iter().any(|slot| slot.freed.is_some()) {
            true => Fault::new(format!("{id} is used after it is freed")),
            false => Fault::new(format!("{id} is used before it is allocated")),
        }
    }

    fn shared_device(&self, a: BufferId, b: BufferId) -> Option<DeviceId> {
        let [a, b] = [a, b].map(|id| self.program.buffers[id].ty.layout.mesh());
        a.devices().find(|&device| b.place_of(device).is_some())
    }
}
