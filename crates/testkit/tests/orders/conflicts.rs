//! Which steps of other lanes a step conflicts with: they touch a cell that one of the two writes, and no
//! wait orders them.
//!
//! ```text
//!  lane 0   write b2   wait for 1 ──┐           what lane 1 has done before its read: 1 step of lane 0
//!  lane 1   wait for 0 at 1   read b2           so the write of b2 never comes after it
//! ```

use super::machine::{Lane, Operand, Piece, Work};
use super::moves::{Owner, Taken};
use std::ops::Range;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Use {
    Read,
    Write,
}

/// Cells that a step touches; maybe more than it does, never fewer.
struct Touch {
    lane: usize,
    step: usize,
    kind: Use,
    cells: Range<usize>,
}

/// What conflicts with each step of each lane.
pub struct Conflicts {
    /// By lane and step: other lanes, with the number of the last step there that conflicts.
    last: Vec<Vec<Vec<(usize, usize)>>>,
}

impl Conflicts {
    pub fn new(lanes: &[Lane], devices: usize) -> Conflicts {
        let before = before(lanes);
        let mut touched: Vec<Vec<Touch>> = (0..devices).map(|_| Vec::new()).collect();
        for (lane, Lane { device, steps, .. }) in lanes.iter().enumerate() {
            // Steps that no order comes to conflict with nothing.
            for (step, one) in steps.iter().enumerate().take(before[lane].len()) {
                touches(&one.work, *device, &mut |device, kind, cells| {
                    touched[device].push(Touch { lane, step, kind, cells });
                });
            }
        }
        let ordered =
            |first: &Touch, second: &Touch| before[second.lane][second.step][first.lane] > first.step;
        let mut last: Vec<Vec<Vec<(usize, usize)>>> =
            lanes.iter().map(|lane| vec![Vec::new(); lane.steps.len()]).collect();
        for touches in &touched {
            for one in touches {
                let others = touches.iter().filter(|other| other.lane != one.lane && one.conflicts(other));
                for other in others.filter(|other| !ordered(one, other) && !ordered(other, one)) {
                    let known = &mut last[one.lane][one.step];
                    match known.iter_mut().find(|(lane, _)| *lane == other.lane) {
                        Some((_, step)) => *step = other.step.max(*step),
                        None => known.push((other.lane, other.step)),
                    }
                }
            }
        }
        Conflicts { last }
    }

    /// Whether a lane's next step conflicts with nothing that other lanes have still to do.
    pub fn is_free(&self, at: &[u32], lane: usize) -> bool {
        self.last[lane][at[lane] as usize].iter().all(|&(other, step)| at[other] as usize > step)
    }
}

/// For each lane and step how many steps of every lane are done, in any order, when it is next. Lanes end
/// where they stand for ever.
fn before(lanes: &[Lane]) -> Vec<Vec<Vec<usize>>> {
    // The last of a lane is what is done when the lane has passed all steps so far.
    let mut before = vec![vec![vec![0; lanes.len()]]; lanes.len()];
    loop {
        let mut somebody_went = false;
        for (lane, Lane { steps, .. }) in lanes.iter().enumerate() {
            while let Some(step) = steps.get(before[lane].len() - 1) {
                let whom: &[(usize, usize)] = if let Work::Wait(whom) = &step.work { whom } else { &[] };
                if whom.iter().any(|&(other, done)| before[other].len() <= done) {
                    break;
                }
                let at = before[lane].len();
                let mut known = before[lane][at - 1].clone();
                known[lane] = at;
                for &(other, done) in whom {
                    for (known, through) in known.iter_mut().zip(&before[other][done]) {
                        *known = (*known).max(*through);
                    }
                    known[other] = known[other].max(done);
                }
                before[lane].push(known);
                somebody_went = true;
            }
        }
        if !somebody_went {
            return before;
        }
    }
}

impl Touch {
    fn conflicts(&self, other: &Touch) -> bool {
        let overlap = self.cells.start < other.cells.end && other.cells.start < self.cells.end;
        overlap && (self.kind == Use::Write || other.kind == Use::Write)
    }
}

fn cells(piece: &Piece) -> Range<usize> {
    piece.start..piece.start + piece.elements * piece.width
}

fn touches(work: &Work, device: usize, touch: &mut dyn FnMut(usize, Use, Range<usize>)) {
    match work {
        Work::Wait(_) => {}
        Work::Spoil(cells) => touch(device, Use::Write, cells.clone()),
        Work::Read(operands, _) => {
            for operand in operands {
                match operand {
                    Operand::Own(piece) => touch(device, Use::Read, cells(piece)),
                    Operand::Lent(owners) => owners.iter().for_each(|Owner { device, piece, element }| {
                        let start = piece.start + element * piece.width;
                        touch(*device, Use::Read, start..start + piece.width);
                    }),
                }
            }
        }
        Work::Write(piece) => touch(device, Use::Write, cells(piece)),
        Work::Copy(Taken { fill, takes }) => {
            fill.iter().for_each(|piece| touch(device, Use::Write, cells(piece)));
            // Elements that follow each other at both ends are one stretch.
            for stretch in takes.chunk_by(|one, next| {
                one.from.device == next.from.device
                    && one.from.piece.start == next.from.piece.start
                    && one.from.element + 1 == next.from.element
                    && one.at + 1 == next.at
            }) {
                let (first, length) = (&stretch[0], stretch.len());
                let of = |piece: &Piece, element: usize| {
                    piece.start + element * piece.width..piece.start + (element + length) * piece.width
                };
                touch(first.from.device, Use::Read, of(&first.from.piece, first.from.element));
                touch(device, Use::Write, of(&first.to, first.at));
            }
        }
    }
}
