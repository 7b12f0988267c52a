//! What is lent: a device reads it in blocks, each in the arena of the device that has it.
//!
//! ```text
//!  b2 <- all_gather b0, b2 lent by b0      device 1                          device 0
//!                                          publish t, wait for 0 at t        publish t, wait for 1 at t
//!  b3 <- linear(b2, b1)                    kernel  own b0 -> its rows        kernel  own b0 -> its rows
//!                                          kernel  0's b0 -> the others      kernel  1's b0 -> the others
//!  free b2                                 publish u, wait for 0 at u        publish u, wait for 1 at u
//! ```
//!
//! The blocks are what the move would have copied, the own ones first; then those of the devices that come next, so
//! that not all read from one at a time. Who does not share memory copies, and reads the same blocks in the copy: so the
//! kernels, and their results, are the same whoever runs the program. Where a device's piece is one block of one device, any kernel reads that instead of
//! the piece; where it is several, each makes a run of the result. That blocks do lie so has been proved of all devices
//! (`host/verify/loans.rs` of the compiler); here it is found out once more for each device and step.

use super::buffers::Held;
use super::moves::Phase;
use super::packing::{Packing, Stays};
use super::tasks::{Copy, Piece};
use super::{InstantiateError, InstrId};
use crate::kernels::can_pack_anew;
use shardweave_compiler::host::{Action, BufferId, HostProgram};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::Compute;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::op::{Op, SpaceId};
use std::collections::BTreeMap;
use std::ops::Range;

/// Rows that a block must have for a product to be done block by block, where its other operand stays packed. On two
/// devices, with k 1024 and n 4096, it then takes 0.56 of what it takes with copies (and an operand that is packed every
/// time) with 16 rows, 0.87 with 128, 0.96 with 1024: `cargo bench -p shardweave-runtime --bench ratios -- loans`.
const ROWS_IF_PACKED: usize = 16;

/// The same where the other operand is packed for these blocks alone: 1.09 with 128 rows, 1.04 with 512, 1.00 with 1024.
const ROWS_IF_PACKED_ANEW: usize = 1024;

/// Bytes that a block must have for anything else to be done block by block: less is copied before a kernel has begun.
const BYTES: usize = 16 << 10;

/// Elements of a device's piece that lie in one run with some device.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Block {
    /// Whose arena they lie in.
    pub from: DeviceId,
    /// Their bytes there.
    pub region: Range<usize>,
    /// At which byte of the device's own piece the first would be.
    pub at: usize,
}

impl Block {
    /// The same elements where they were copied to: in the piece of the device that reads them.
    pub fn copied(&self, reader: DeviceId, piece: &Range<usize>) -> Block {
        let start = piece.start + self.at;
        Block { from: reader, region: start..start + self.region.len(), at: self.at }
    }
}

/// Where the elements of a move's target lie, by device number.
pub(super) fn blocks(phases: &[Phase]) -> Result<Vec<Vec<Block>>, InstantiateError> {
    let [phase] = phases else {
        return Err(InstantiateError::Broken("what is lent is taken in one phase".into()));
    };
    let of_device = |(device, copy): (usize, &Option<Copy>)| match copy {
        None => Ok(Vec::new()),
        Some(copy) => blocks_of(device, copy, phase.len()),
    };
    phase.iter().enumerate().map(of_device).collect()
}

fn blocks_of(device: usize, copy: &Copy, devices: usize) -> Result<Vec<Block>, InstantiateError> {
    let mut blocks = Vec::new();
    for transfer in &copy.transfers {
        let [part] = transfer.parts[..] else {
            return Err(InstantiateError::Broken("what is lent is combined".into()));
        };
        transfer.runs.for_each(|run| {
            let start = part.source + run.source;
            blocks.push(Block { from: part.from, region: start..start + run.bytes, at: run.target });
        });
    }
    if copy.fill.is_some() || copy.combine.is_some() {
        return Err(InstantiateError::Broken("what is lent is combined".into()));
    }
    let places_further = |block: &Block| (block.from.index() + devices - device) % devices;
    blocks.sort_by_key(|block| (places_further(block), block.at));
    Ok(blocks)
}

/// Who reads what is lent.
pub(super) struct Readers<'a>(BTreeMap<BufferId, Vec<(InstrId, &'a Compute<BufferId>)>>);

impl<'a> Readers<'a> {
    /// Of all buffers of a program that are lent.
    pub fn of(program: &'a HostProgram) -> Readers<'a> {
        let mut readers: BTreeMap<BufferId, Vec<(InstrId, &Compute<BufferId>)>> = BTreeMap::new();
        for (place, (_, action)) in program.actions().into_iter().enumerate() {
            let Action::Compute(compute) = action else { continue };
            for id in compute.reads().filter(|id| program.buffers[*id].lender.is_some()) {
                readers.entry(id).or_default().push((InstrId::new(place), compute));
            }
        }
        Readers(readers)
    }

    /// Whether reading blocks costs less than a copy: of a buffer of which a device holds so much, in these blocks.
    pub fn gain(&self, buffer: BufferId, held: &Held, blocks: &[Block], packing: &Packing) -> bool {
        if blocks.len() < 2 {
            return true;
        }
        let rows = held.extents.iter().find(|&&extent| extent > 1).map_or(0, |&rows| rows as usize);
        let (rows, bytes) = (rows / blocks.len(), held.piece.region.len() / blocks.len());
        let gains = |(instr, compute): &(InstrId, &Compute<BufferId>)| match compute.op {
            Op::Linear | Op::Matmul | Op::Einsum(_) => match packing.stays(*instr) {
                Some(Stays::Constant | Stays::AllTurns) => rows >= ROWS_IF_PACKED,
                Some(Stays::OneTurn) => can_pack_anew() && rows >= ROWS_IF_PACKED_ANEW,
                None => false,
            },
            _ => bytes >= BYTES,
        };
        self.0.get(&buffer).is_some_and(|readers| readers.iter().all(gains))
    }
}

/// What a device reads of a piece that is lent.
pub(super) enum Lent<'a> {
    /// All of it in one run.
    Whole(&'a Block),
    /// One block after another.
    Blocks(&'a [Block]),
}

impl<'a> Lent<'a> {
    /// Of a piece of so many bytes; none if it has no elements.
    pub fn of(blocks: &'a [Block], bytes: usize) -> Result<Option<Lent<'a>>, InstantiateError> {
        let found: usize = blocks.iter().map(|block| block.region.len()).sum();
        let mut ends: Vec<(usize, usize)> =
            blocks.iter().map(|block| (block.at, block.at + block.region.len())).collect();
        ends.sort_unstable();
        let apart = ends.windows(2).all(|pair| pair[0].1 <= pair[1].0);
        if found != bytes || !apart || ends.last().is_some_and(|last| last.1 > bytes) {
            return Err(InstantiateError::Broken("blocks do not make up the piece that is lent".into()));
        }
        Ok(match blocks {
            _ if bytes == 0 => None,
            [block] => Some(Lent::Whole(block)),
            blocks => Some(Lent::Blocks(blocks)),
        })
    }
}

/// A cut of a computation along one dim of its space.
pub(super) struct Split<'a> {
    pub dim: SpaceId,
    /// The indices that the device holds of each dim of the space.
    pub held: &'a [IndexSet],
}

impl Split<'_> {
    /// The dim whose indices blocks of an operand's piece have in full.
    pub fn of<'a>(dims: &[Vec<SpaceId>], held: &'a [IndexSet]) -> Result<Split<'a>, InstantiateError> {
        match dims.iter().find(|dim| extent(dim, held) > 1).map(Vec::as_slice) {
            Some(&[dim]) => Ok(Split { dim, held }),
            _ => Err(broken()),
        }
    }

    /// Which indices of the dim, counted among those held, a block of an operand's piece has.
    pub fn rows(&self, block: &Block, piece: &Piece) -> Result<Range<u64>, InstantiateError> {
        let row = piece.region.len() as u64 / self.held[self.dim.index()].count();
        let (start, bytes) = (block.at as u64, block.region.len() as u64);
        let whole = start.is_multiple_of(row) && bytes.is_multiple_of(row);
        whole.then(|| start / row..(start + bytes) / row).ok_or_else(broken)
    }

    /// What is held where only some indices of the dim are.
    pub fn held_of(&self, rows: &Range<u64>) -> Vec<IndexSet> {
        let mut held = self.held.to_vec();
        let dim = &mut held[self.dim.index()];
        let mut before = 0;
        let intervals = dim.intervals().iter().map(|&(start, end)| {
            let first = before;
            before += end - start;
            let clipped = |row: u64| start + row.clamp(first, before) - first;
            (clipped(rows.start), clipped(rows.end))
        });
        *dim = IndexSet::from_blocks(intervals);
        held
    }

    /// The run of a piece that has these indices of the dim; none if the piece does not have the dim.
    pub fn part(
        &self,
        piece: &Piece,
        dims: &[Vec<SpaceId>],
        rows: &Range<u64>,
    ) -> Result<Option<Piece>, InstantiateError> {
        let Some(place) = dims.iter().position(|dim| dim.contains(&self.dim)) else { return Ok(None) };
        let around = dims[..place].iter().all(|dim| extent(dim, self.held) <= 1);
        let once = dims.iter().flatten().filter(|&&dim| dim == self.dim).count() == 1;
        if !around || !once || dims[place].len() != 1 {
            return Err(broken());
        }
        let row = piece.region.len() / self.held[self.dim.index()].count() as usize;
        let at = |row_number: u64| piece.region.start + row_number as usize * row;
        Ok(Some(Piece { region: at(rows.start)..at(rows.end), dtype: piece.dtype }))
    }
}

fn extent(dim: &[SpaceId], held: &[IndexSet]) -> u64 {
    dim.iter().map(|id| held[id.index()].count()).product()
}

fn broken() -> InstantiateError {
    InstantiateError::Broken("blocks of what is lent are not what the computation works on".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::instantiate::planned::planned;
    use crate::instantiate::{LaneId, Lending, Loans, Operand, Reads, Streams, Work, instantiate};

    /// What the second of three devices does with gathered rows; of kernels, whose first operand they read.
    fn tasks(rows: u64, (loans, reads): (Loans, Reads), constants: &[&str]) -> Vec<String> {
        let statements =
            format!("input x: f32[s={rows}, e=16]\ninput w: f32[h=300, e]\ny = linear(x, w)\noutput y");
        let plan = planned(3, &statements, "x: s/tp\nw: h/tp\ny: h/tp", constants);
        let lending = Lending { loans, reads };
        let tasks = instantiate(&plan.host, Streams::Merged, lending, None).expect("it can be instantiated");
        let text = |work: &Work| match work {
            Work::Kernel(kernel) => match &kernel.operands[0] {
                Operand::Piece(from, piece) => format!("{from} {}", piece.region.len() / 64),
                Operand::Number(..) => "a number".into(),
            },
            Work::Copy(_) => "copy".into(),
            Work::Borrow(_) => "borrow".into(),
            Work::Publish(_) => "tell".into(),
            Work::Wait(lanes, _) => format!("wait {}", lanes.len()),
            Work::Exchange(_) => "exchange".into(),
        };
        tasks.lanes[LaneId::new(1)].tasks.iter().map(|task| text(&task.work)).collect()
    }

    #[test]
    fn blocks_are_read_one_after_another_the_own_one_first() {
        let copied = ["tell", "wait 2", "copy", "tell", "wait 2", "device1 7"];
        for reads in [Reads::InPlace, Reads::FromCopies] {
            assert_eq!(tasks(7, (Loans::Never, reads), &[]), copied);
        }
        let lent = ["tell", "wait 2", "borrow", "device1 3", "device2 1", "device0 3", "tell", "wait 2"];
        assert_eq!(tasks(7, (Loans::Always, Reads::InPlace), &[]), lent);
        // From a copy the same blocks are read in the same order.
        let blocks = ["tell", "wait 2", "copy", "tell", "wait 2", "device1 3", "device1 1", "device1 3"];
        assert_eq!(tasks(7, (Loans::Always, Reads::FromCopies), &[]), blocks);
        // A device that has nothing gives nothing.
        let one = ["wait 1", "borrow", "device0 1", "tell"];
        assert_eq!(tasks(1, (Loans::Always, Reads::InPlace), &[]), one);
    }

    #[test]
    fn loans_pay_where_the_other_operand_stays_packed_or_rows_are_many() {
        let borrows = |rows, constants: &[&str]| {
            tasks(rows, (Loans::WhereItPays, Reads::InPlace), constants).contains(&"borrow".to_string())
        };
        assert!(!borrows(7, &["w"]) && !borrows(300, &[]));
        let found = (borrows(300, &["w"]), borrows(3 * 1024, &[]));
        assert_eq!(found, (crate::kernels::can_pack(), can_pack_anew()));
    }

    #[test]
    fn rows_are_counted_among_those_that_are_held() {
        let held = [IndexSet::from_blocks([(2, 5), (8, 9), (12, 20)])];
        let split = Split { dim: SpaceId::new(0), held: &held };
        let of = |rows: Range<u64>| split.held_of(&rows)[0].intervals().to_vec();
        assert_eq!(of(0..12), held[0].intervals());
        assert_eq!(of(1..2), [(3, 4)]);
        assert_eq!(of(2..5), [(4, 5), (8, 9), (12, 13)]);
        assert_eq!(of(4..12), [(12, 20)]);
        assert_eq!(of(3..3), []);
    }

    #[test]
    fn blocks_that_overlap_or_leave_gaps_are_refused() {
        let block = |at: usize, bytes: usize| Block { from: DeviceId::new(0), region: 64..64 + bytes, at };
        assert!(Lent::of(&[block(4, 8), block(0, 4)], 12).is_ok());
        for wrong in [&[block(0, 4), block(4, 4)][..], &[block(0, 8), block(4, 4)], &[block(4, 12)], &[]] {
            assert!(Lent::of(wrong, 12).is_err(), "{wrong:?}");
        }
    }
}
