//! Steps that take one device's piece each, instead of one collective a step.
//!
//! Where an operation needs an operand whole along a dim that an axis cuts, its rows can come piece by
//! piece: each step has the piece of one device along the axis ([`Peer`]). Which device's it is, and who
//! sends it, makes the way:
//!
//! ```text
//!   x: s/tp on tp = 4           device 0      device 1      device 2      device 3
//!   broadcast   step 1   has    piece 1 <- 1  piece 1       piece 1 <- 1  piece 1 <- 1
//!   direct      step 1   has    piece 1 <- 1  piece 2 <- 2  piece 3 <- 3  piece 0 <- 0
//!   ring        step 2   has    piece 2 <- 1  piece 3 <- 2  piece 0 <- 3  piece 1 <- 0
//! ```
//!
//! Where its result is scattered, the same ways lead back: each step makes a part of one device's piece.
//! With `broadcast` and `direct` the part goes straight to whose it is. With `ring` the sum of the parts
//! travels: a device adds its own part to what it got, and passes it on to the one behind it.
//!
//! ```text
//!   y: s/tp on tp = 4           device 0      device 1      device 2      device 3
//!   direct      step 1   gives  piece 1 -> 1  piece 2 -> 2  piece 3 -> 3  piece 0 -> 0
//!   ring        step 1   adds   piece 2 <- 1  piece 3 <- 2  piece 0 <- 3  piece 1 <- 0
//!               step 3   adds   piece 0 <- 1  piece 1 <- 2  piece 2 <- 3  piece 3 <- 0   each its own: done
//! ```
//!
//! The steps of a stream and the pieces of the axis have to line up: the stream's steps are the pieces, or
//! cut each piece into as many steps, or come before the axis in the operand's cuts, so that each step is
//! divided once more.

use super::Lower;
use super::operation::Running;
use crate::id::Id;
use crate::instr::{Kind, MOST_PIPELINED, Path, TensorType};
use crate::layout::{Cuts, Factor, Layout, Peer, StepId, Steps, Whose};
use crate::local::LocalId;
use crate::mesh::AxisId;
use crate::op::DimUse;
use crate::placement::Overlap;
use crate::program::Operand;
use crate::reshard::route;
use crate::transfer::Traffic;

/// How an operation runs, or a value is moved, piece by piece.
pub(super) struct ByPeers {
    /// The layout of the space, or of the value, in one step.
    pub over: Layout,
    /// The counters; those of peers come last, so that what a step had is passed on in the next.
    pub counters: Vec<(StepId, u64)>,
    /// The operand that comes piece by piece, and from whom; none if it is the result that goes.
    pub operand: Option<usize>,
    pub path: Path,
}

/// What goes piece by piece.
#[derive(Clone, Copy)]
enum Goes {
    /// An operand, which is gathered.
    In,
    /// A result, which is scattered as a sum.
    Out,
}

/// Whose piece a step has, and from whom it comes; `None` if the way is not one piece by piece.
fn piece_by_piece(way: Overlap, goes: Goes) -> Option<(Whose, Path)> {
    match (way, goes) {
        (Overlap::Broadcast, _) => Some((Whose::Owner, Path::Direct)),
        (Overlap::Direct, _) => Some((Whose::Ahead, Path::Direct)),
        (Overlap::Ring, Goes::In) => Some((Whose::Ahead, Path::PassedOn)),
        // A sum ends where it belongs.
        (Overlap::Ring, Goes::Out) => Some((Whose::Next, Path::PassedOn)),
        (Overlap::Collective | Overlap::None, _) => None,
    }
}

/// How an operand comes to where it is needed.
#[derive(Clone, Copy)]
enum Comes {
    /// All of it is gathered from this value.
    Gathered(LocalId),
    /// Anything else.
    Otherwise,
}

/// What becomes of the pieces of a result.
enum Sent {
    /// They stay where they are made.
    Nothing,
    /// They are parts, combined where the result is placed.
    Scattered,
    /// Anything else.
    Otherwise,
}

impl Lower<'_> {
    /// The operation piece by piece, if that is asked for and its steps line up with the pieces.
    pub(super) fn by_peers(&self, running: &Running<'_>) -> Option<ByPeers> {
        let way = running.plan.way()?;
        let comes: Vec<(usize, Comes)> =
            (0..running.operands.len()).filter_map(|k| Some((k, self.comes(running, k)?))).collect();
        // What came in every step would come again with every piece of it.
        let gathered: Option<Vec<(usize, LocalId)>> = comes
            .iter()
            .map(|&(k, comes)| match comes {
                Comes::Gathered(source) => Some((k, source)),
                Comes::Otherwise => None,
            })
            .collect();
        let gathered = gathered?;
        // What is cut where the operation needs or gives it whole, with the dims of the space.
        let (cut, whole, groups, operand) = match (&gathered[..], self.sent(running)) {
            ([(k, source)], Sent::Nothing) => {
                let need = self.needed(running, *k, &running.plan.over);
                (self.ty(*source).layout.clone(), need, &running.space.operands[*k], Some(*k))
            }
            ([], Sent::Scattered) => {
                (running.target.clone(), running.natural.clone(), &running.space.result, None)
            }
            _ => return None,
        };
        let (whose, path) = piece_by_piece(way, if operand.is_some() { Goes::In } else { Goes::Out })?;
        let sizes: Vec<u64> = running.space.dims.values().map(|dim| dim.size).collect();
        let refined = Refined::new(&running.over, &running.counters, whose);
        let (over, counters) = refined.through(&cut, &whole, |dim| {
            let [of] = groups[dim][..] else { return None };
            // Steps of what is summed or looked through would each give a part of every element.
            let kept = running.space.dims[of].usage == DimUse::Kept && !running.space.has_windows(of);
            kept.then(|| (of.index(), sizes[of.index()]))
        })?;
        // A sum travels to those who have a part of it, and to nobody else.
        let has_part = |axis: AxisId| running.natural.partial().iter().any(|part| part.axis == axis);
        let ends_there = over.peers().all(|peer| has_part(peer.axis)) && cut.mesh().same_grid(over.mesh());
        if whose == Whose::Next && !ends_there {
            return None;
        }
        let operands =
            (0..running.operands.len()).all(|k| running.space.operand_layout(&over, k, &[]).is_some());
        let projected = operands && running.space.result_layout(&over).is_some();
        projected.then_some(ByPeers { over, counters, operand, path })
    }

    /// The steps of a value that is moved piece by piece out of a source, if that is asked for and they line
    /// up with the pieces.
    pub(super) fn moved_by_peers(
        &self,
        (source, target): (&Layout, &TensorType),
        (step, counters): (&Layout, &[(StepId, u64)]),
        way: Option<Overlap>,
    ) -> Option<ByPeers> {
        let (whose, path) = piece_by_piece(way?, Goes::In)?;
        let sizes = target.sizes();
        let gathers = Traffic::of(&TensorType { layout: source.clone(), ..target.clone() }, target).kind;
        if gathers != Kind::AllGather || !source.mesh().same_grid(target.layout.mesh()) {
            return None;
        }
        let refined = Refined::new(step, counters, whose);
        // What follows goes along with the steps, not with pieces of another dim.
        let in_steps = |dim: usize| target.layout.cuts()[dim].iter().any(Factor::is_stream);
        let of = |dim: usize| in_steps(dim).then(|| (dim, sizes[dim]));
        let (step, counters) = refined.through(source, &target.layout, of)?;
        Some(ByPeers { over: step, counters, operand: None, path })
    }

    /// How an operand comes, if it is communicated in each step of the loop.
    fn comes(&self, running: &Running<'_>, k: usize) -> Option<Comes> {
        let Operand::Value(operand) = running.operands[k] else { return None };
        let need = self.needed(running, k, &running.plan.over);
        let sizes = self.operand_sizes(operand);
        let steps = need.step_count(&sizes);
        let (from, how) = self.cheapest(operand, &need, steps);
        let in_steps = steps > 1 && steps == running.steps();
        how.legs.last().filter(|last| in_steps && last.traffic.kind.communicates())?;
        let one_gather = matches!(&how.legs[..], [leg] if leg.traffic.kind == Kind::AllGather);
        let one_grid = self.ty(from).layout.mesh().same_grid(running.over.mesh());
        Some(if one_gather && one_grid { Comes::Gathered(from) } else { Comes::Otherwise })
    }

    /// How the pieces of the result get to where it is placed.
    fn sent(&self, running: &Running<'_>) -> Sent {
        let piece = self.result_type(running, running.natural.clone());
        let how = route(&piece, &running.target, self.cost);
        let mut kinds = how.legs.iter().map(|leg| leg.traffic.kind).filter(|kind| kind.communicates());
        match (kinds.next(), &how.legs[..]) {
            (None, _) => Sent::Nothing,
            (Some(Kind::ReduceScatter), [_]) => Sent::Scattered,
            _ => Sent::Otherwise,
        }
    }
}

/// The steps of a loop while pieces of peers are put in.
struct Refined<'a> {
    over: &'a Layout,
    whose: Whose,
    cuts: Vec<Cuts>,
    counters: Vec<(StepId, u64)>,
    peers: Vec<(StepId, u64)>,
    next: StepId,
}

impl<'a> Refined<'a> {
    /// The cuts and counters of steps that are not refined yet.
    fn new(over: &'a Layout, counters: &[(StepId, u64)], whose: Whose) -> Refined<'a> {
        let next = counters.iter().map(|(id, _)| id.index() + 1).max().unwrap_or(0);
        Refined {
            over,
            whose,
            cuts: over.cuts().to_vec(),
            counters: counters.to_vec(),
            peers: Vec::new(),
            next: StepId::new(next),
        }
    }

    /// Goes through the pieces of all dims that `cut` cuts and `whole` does not; `of` says which dim of the
    /// steps that is, and how long. Gives the steps and their counters, `None` if they do not line up, or
    /// are too many to overlap.
    fn through(
        mut self,
        cut: &Layout,
        whole: &Layout,
        of: impl Fn(usize) -> Option<(usize, u64)>,
    ) -> Option<(Layout, Vec<(StepId, u64)>)> {
        for (dim, (own, needed)) in cut.cuts().iter().zip(whole.cuts()).enumerate() {
            let kept = |axis: &AxisId| needed.iter().any(|factor| factor.axis() == Some(*axis));
            if own.iter().filter_map(Factor::axis).any(|axis| !kept(&axis)) {
                let (of, size) = of(dim)?;
                self.dim(of, own, size)?;
            }
        }
        let Refined { over, cuts, mut counters, peers, .. } = self;
        counters.extend(peers);
        let turns = counters.iter().fold(1, |turns: u64, (_, count)| turns.saturating_mul(*count));
        let over = Layout::new(over.mesh().clone(), cuts, over.partial().to_vec())?;
        (turns <= MOST_PIPELINED).then_some((over, counters))
    }

    /// The cuts of a dim whose operand is cut as `own`; `None` if they do not line up.
    fn dim(&mut self, dim: usize, own: &Cuts, size: u64) -> Option<()> {
        let stays = |factor: &Factor| matches!(factor, Factor::Local(_) | Factor::Stream(_));
        let first = own.iter().position(|factor| factor.axis().is_some())?;
        let end = own.iter().rposition(|factor| factor.axis().is_some())? + 1;
        let (before, axes) = (&own[..first], &own[first..end]);
        // A given piece is not cut further.
        let given = |factor: &Factor| matches!(factor, Factor::Sizes(..));
        if axes.iter().any(stays) || axes.iter().rev().skip(1).any(given) {
            return None;
        }
        let steps = self.cuts[dim].clone();
        if steps.len() == before.len() && steps.iter().zip(before).all(|(s, b)| is_step_of(s, b, size)) {
            // Each step of the stream is cut over the axes.
            for axis in axes {
                let step = self.fresh();
                let peer = self.peer(axis, step)?;
                self.cuts[dim].push(peer);
            }
            return Some(());
        }
        match (&steps[..], before, axes) {
            (&[Factor::Step(blocks, step)], [], [Factor::Axis(axis)]) => {
                let places = self.over.mesh().size(*axis);
                let (piece, block) = (size.div_ceil(places), size.div_ceil(blocks));
                let lines_up = blocks % places == 0 && block > 0 && piece == block * (blocks / places);
                if !lines_up {
                    return None;
                }
                // The counter of the stream goes over the pieces; what divides them has its own.
                self.counters.retain(|(id, _)| *id != step);
                let peer = self.peer(&axes[0], step)?;
                self.cuts[dim] = vec![peer];
                if blocks > places {
                    let inner = self.fresh();
                    self.counters.push((inner, blocks / places));
                    self.cuts[dim].push(Factor::Step(blocks / places, inner));
                }
                Some(())
            }
            _ => None,
        }
    }

    /// The piece of another coordinate in place of the device's own.
    fn peer(&mut self, factor: &Factor, step: StepId) -> Option<Factor> {
        let (axis, sizes) = match factor {
            Factor::Axis(axis) => (*axis, None),
            Factor::Sizes(axis, sizes) => (*axis, Some(sizes.clone())),
            _ => return None,
        };
        self.peers.push((step, self.over.mesh().size(axis)));
        Some(Factor::Peer(Peer { axis, sizes, whose: self.whose, step }))
    }

    fn fresh(&mut self) -> StepId {
        let step = self.next;
        self.next = StepId::new(step.index() + 1);
        step
    }
}

/// Whether a factor of the space in one step is the step of a factor that an operand has.
fn is_step_of(step: &Factor, own: &Factor, size: u64) -> bool {
    match (step, own) {
        (Factor::Step(blocks, _), Factor::Stream(steps)) => steps.count(size) == *blocks,
        (Factor::Step(blocks, _), Factor::Local(count)) => blocks == count,
        (Factor::Local(a), Factor::Stream(Steps::Count(b))) => a == b,
        (step, own) => step == own,
    }
}
