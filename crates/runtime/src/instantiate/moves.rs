//! A move as copies: each device takes what it needs out of the arenas of its peers.
//!
//! ```text
//!  device 1                 ticks            device 0, from whom 1 takes
//!  wait until 0 is at t     t      ◀──────   publish t: what it gives is there
//!  copy
//!  publish t+1              t+1    ──────▶   wait until 1 is at t+1: what it gave may change again
//! ```
//!
//! Most moves have one such phase. An all_reduce has two ([`slices`](super::slices)): in the second,
//! devices take what others made in the first.

use super::buffers::{Buffers, Held, check_steps};
use super::slices;
use super::tasks::{Copy, Lies, Onto, Part, Transfer};
use super::{InstantiateError, runs::Runs};
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::host::{At, BufferId};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::{Kind, Move, TensorType};
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::transfer::{Exchange, Fetch, identity_of, reduced_axes};
use std::ops::Range;

/// What all devices take in one part of a move: by device number, none if a device takes nothing.
pub(super) type Phase = Vec<Option<Copy>>;

/// Pieces that a move takes elements from.
struct Taken {
    /// By device number.
    sources: Vec<Option<Held>>,
    /// What each device fetches of them.
    fetches: Vec<Vec<Fetch>>,
}

/// A move with the pieces it works on.
struct MovePieces {
    /// What is taken, one after another: what is passed on, or the source, or the one and then the other.
    taken: Vec<Taken>,
    /// The target pieces, by device number.
    targets: Vec<Option<Held>>,
    /// Where a device fills its target with an operator's identity first.
    fills: Vec<Option<Combine>>,
    /// How parts are combined; none if nothing is reduced.
    combine: Option<Combine>,
    /// How elements are stored.
    dtype: DType,
}

/// The phases of a move at a step. Every device reads in a phase only what was there before it.
pub(super) fn phases(
    mv: &Move<BufferId>,
    buffers: &Buffers<'_>,
    devices: usize,
    at: &At,
) -> Result<Vec<Phase>, InstantiateError> {
    let pieces = MovePieces::new(mv, buffers, devices, at)?;
    let direct = (0..devices).map(|device| pieces.copy_of(device)).collect::<Result<Phase, _>>()?;
    match mv.kind {
        Kind::AllReduce => Ok(slices::by_slices(direct)),
        _ => Ok(vec![direct]),
    }
}

impl MovePieces {
    fn new(
        mv: &Move<BufferId>,
        buffers: &Buffers<'_>,
        devices: usize,
        at: &At,
    ) -> Result<MovePieces, InstantiateError> {
        let (source, target) = (buffers.ty(mv.source)?, buffers.ty(mv.target)?);
        if source.dtype != target.dtype || source.sizes() != target.sizes() {
            return Err(InstantiateError::Broken("a move changes sizes or the stored type".into()));
        }
        check_steps(&source.layout, at)?;
        check_steps(&target.layout, at)?;
        let all = || (0..devices).map(DeviceId::new);
        let pieces = |buffer, at: &At| {
            all().map(|device| buffers.held(buffer, device, at)).collect::<Result<Vec<_>, _>>()
        };
        let taken = at.sources_of(mv, &target.layout).into_iter().map(|(from, before)| {
            let exchange = Exchange::between((buffers.ty(from)?, before.steps()), (target, at.steps()));
            let fetches = all().map(|device| exchange.fetches(device)).collect();
            Ok(Taken { sources: pieces(from, &before)?, fetches })
        });
        Ok(MovePieces {
            taken: taken.collect::<Result<_, InstantiateError>>()?,
            targets: pieces(mv.target, at)?,
            fills: all().map(|device| identity_of(source, target, device)).collect(),
            combine: combine_of(source, target)?,
            dtype: source.dtype,
        })
    }

    /// What a device takes, straight from those who have it.
    fn copy_of(&self, device: usize) -> Result<Option<Copy>, InstantiateError> {
        let Some(target) = &self.targets[device] else {
            return Ok(None);
        };
        let fill = self.fills[device].map(|combine| (combine, target.piece.region.clone()));
        let mut transfers: Vec<Transfer> = Vec::new();
        for taken in &self.taken {
            let mut fetches = taken.fetches[device].iter().peekable();
            while let Some(first) = fetches.next() {
                // All parts of the same elements follow each other.
                let mut parts = vec![taken.part(first, device, target)?];
                let onto = if first.part == 0 { Onto::Nothing } else { Onto::Earlier };
                while let Some(later) = fetches.next_if(|fetch| fetch.part > first.part) {
                    if later.runs != first.runs {
                        let reason = format!("device {device} combines parts that do not belong together");
                        return Err(InstantiateError::Broken(reason));
                    }
                    parts.push(taken.part(later, device, target)?);
                }
                if self.combine.is_none() && (parts.len() > 1 || onto == Onto::Earlier) {
                    let reason = format!("device {device} combines parts, but nothing says how");
                    return Err(InstantiateError::Broken(reason));
                }
                let runs = taken.runs(first, device, target, self.dtype)?;
                // What is combined with what was just put there is another part of the same transfer.
                match transfers.iter_mut().find(|put| onto == Onto::Earlier && put.runs == runs) {
                    Some(put) => put.parts = put.parts.iter().copied().chain(parts).collect(),
                    None => {
                        let target = target.piece.region.start;
                        transfers.push(Transfer { parts: parts.into(), onto, target, runs });
                    }
                }
            }
        }
        let nothing = transfers.is_empty() && fill.is_none();
        let copy = Copy { dtype: self.dtype, fill, combine: self.combine, transfers: transfers.into() };
        Ok((!nothing).then_some(copy))
    }
}

impl Taken {
    /// The piece that a device fetches from.
    fn source(&self, fetch: &Fetch, device: usize) -> Result<&Held, InstantiateError> {
        let source = self.sources.get(fetch.from.index()).and_then(Option::as_ref);
        let missing = || format!("device {device} fetches from {}, which holds nothing", fetch.from);
        source.ok_or_else(|| InstantiateError::Broken(missing()))
    }

    fn part(&self, fetch: &Fetch, device: usize, target: &Held) -> Result<Part, InstantiateError> {
        let source = self.source(fetch, device)?;
        if fetch.from.index() == device && share_bytes(&source.piece.region, &target.piece.region) {
            return Err(InstantiateError::Broken(format!("device {device} moves a buffer onto itself")));
        }
        Ok(Part { from: fetch.from, source: source.piece.region.start, lies: Lies::InArena })
    }

    fn runs(
        &self,
        fetch: &Fetch,
        device: usize,
        target: &Held,
        dtype: DType,
    ) -> Result<Runs, InstantiateError> {
        let source = self.source(fetch, device)?;
        let runs = Runs::new(&fetch.runs, &source.extents, &target.extents, dtype.size());
        let outside = || format!("device {device} fetches what is not in the piece of {}", fetch.from);
        runs.ok_or_else(|| InstantiateError::Broken(outside()))
    }
}

/// Whether two regions of one arena share bytes.
pub(crate) fn share_bytes<T: Ord>(a: &Range<T>, b: &Range<T>) -> bool {
    a.start < b.end && b.start < a.end && !a.is_empty() && !b.is_empty()
}

/// How a move combines: its reduced axes have one operator.
fn combine_of(source: &TensorType, target: &TensorType) -> Result<Option<Combine>, InstantiateError> {
    let mesh = source.layout.mesh();
    let reduced = reduced_axes(&source.layout, &target.layout);
    let mut operators: Vec<Combine> =
        reduced.iter().filter(|p| mesh.size(p.axis) > 1).map(|p| p.combine).collect();
    operators.dedup();
    match operators[..] {
        [] => Ok(None),
        [combine] => Ok(Some(combine)),
        _ => Err(InstantiateError::Broken("a move reduces with two operators at once".into())),
    }
}
