//! The verifier of the host form: proves that a program may run, for every device and every timing.
//!
//! * [`shape`]: each instruction by itself, and the places of the buffers.
//! * [`order`]: which instruction is done before which, whatever the timing: vector clocks over streams
//!   and events.
//! * [`occupants`]: which buffer was the last in every byte.
//! * [`lives`]: the program is walked in the order in which it is [enqueued](super::enqueue), and every
//!   access of a buffer is compared with those before it.
//! * [`combined`]: what a part is combined with must be there.
//! * [`loans`]: what is lent stays as it is while it is, and can be read where it lies.
//!
//! **Why devices need not be looked at one by one.** All devices run one text, and at one step they
//! differ in which pieces they hold and in which instructions they skip.
//!
//! * *Order.* Streams, events, allocations and frees are the same on every device; skipping an
//!   instruction takes accesses away and adds none.
//! * *Regions.* A computation reads and writes whole pieces. A move reads of its source, and writes of
//!   its target, the elements of the piece that are in the box `V` = (what all devices hold of the
//!   source) and (what all hold of the target): a box that is the same for all devices. So "every
//!   device has written all it reads" is: `V` of the read, as far as anyone holds it, is in the union of
//!   the `V` of the writes; and two accesses meet on some device if their `V` meet where anyone holds
//!   them. These are questions about the global index space ([`Layout::reach`](crate::layout::Layout::reach)).
//! * *Bytes.* A buffer has one place on all devices, large enough for the largest piece. Two buffers
//!   share bytes if their places overlap and some device is in both meshes.
//!
//! Where devices go through the steps in different orders ([`Whose::lead`](crate::layout::Whose::lead)),
//! what all hold at a step says nothing of one of them, so the program is walked once more for single
//! devices with their own pieces: the first two, the middle one and the last along each such axis. All
//! others do the same with other blocks.
//!
//! What does depend on the device (a copy that would need foreign elements, operands that are not
//! projections) is compared coordinate by coordinate, along the axes that matter.
//!
//! **Why peers are safe.** A move starts on a device when those it reads from have reached it, and ends
//! when all who read from the device are done; devices write to their own target only. So what others
//! read of a device's source (or of its target, where they pass on what was combined there) they read
//! inside the device's own move, and the device's own order protects it. What is lent they read until the device's own
//! end of the loan, and only what they lend is read later than in the move ([`loans`]).
//!
//! **Why nobody waits for ever.** Each instruction waits only for what was enqueued before it: the one
//! before it on its stream, a recording that stands before its wait (checked), and the same move on
//! other devices, which again waits only for what was enqueued before. The enqueueing order is one order
//! for all devices, so there is no cycle, with no buffer between devices. Where a communicator serves
//! more than one stream, moves must also reach it in one order on all members: any two moves that two
//! devices have in common are ordered by the clocks (checked).

mod combined;
mod elements;
mod lives;
mod loans;
mod occupants;
mod order;
mod shape;
mod travelling;

use super::{HostProgram, Walk, enqueue};
use crate::instr::Fault;
use crate::layout::{Factor, Peer};
use crate::mesh::DeviceId;
use lives::{Lives, Whom};
use std::collections::BTreeSet;

/// Proves the invariants of the host form, or tells where they break.
pub fn verify(program: &HostProgram) -> Result<(), Fault> {
    shape::check(program)?;
    travelling::check(program)?;
    loans::check(program)?;
    walk(program, Whom::All)?;
    walked_alone(program).into_iter().try_for_each(|device| walk(program, Whom::Device(device)))
}

fn walk(program: &HostProgram, whom: Whom) -> Result<(), Fault> {
    let mut lives = Lives::new(program, whom)?;
    let how = match whom {
        Whom::All => Walk::Ends,
        Whom::Device(_) => Walk::Every,
    };
    enqueue(&program.body, how, &mut |enqueued| {
        lives.run(enqueued).map_err(|fault| fault.at(format!("{}: {}", enqueued.stream, enqueued.action)))
    })?;
    lives.end()
}

/// The devices whose own pieces are looked at: along each axis on which devices are ahead of each other.
fn walked_alone(program: &HostProgram) -> BTreeSet<DeviceId> {
    let mut devices = BTreeSet::new();
    for layout in program.buffers.values().map(|buffer| &buffer.ty.layout) {
        for factor in layout.cuts().iter().flatten() {
            let (Factor::Peer(Peer { axis, .. }), Some(_)) = (factor, factor.decided_by()) else { continue };
            let (mesh, length) = (layout.mesh(), layout.mesh().size(*axis));
            let mut coords = mesh.coords(0);
            for place in [0, 1, length / 2, length.saturating_sub(1)] {
                coords.set(*axis, place.min(length.saturating_sub(1)));
                devices.insert(mesh.device_at(mesh.place(&coords)));
            }
        }
    }
    devices
}
