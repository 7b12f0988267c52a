//! What every device takes in a move, element by element and round by round.

use super::machine::Piece;
use shardweave_compiler::host::{At, BufferId, HostProgram};
use shardweave_compiler::id::Id;
use shardweave_compiler::instr::{Kind, Move, TensorType};
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::mesh::DeviceId;
use shardweave_compiler::transfer::{Exchange, Fetch, identity_of};
use std::ops::Range;

/// One element that a device takes.
#[derive(Clone, Debug)]
pub struct Take {
    pub from: Owner,
    pub to: Piece,
    /// Which element of the target piece.
    pub at: usize,
    pub how: How,
}

/// Whether an element replaces what is there or is combined with it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum How {
    Put,
    Combine,
}

/// Where an element comes from.
#[derive(Clone, Debug)]
pub struct Owner {
    pub device: usize,
    pub piece: Piece,
    pub element: usize,
}

/// What a device does in a round: the piece that it fills with an identity first, and what it takes.
#[derive(Default)]
pub struct Taken {
    pub fill: Option<Piece>,
    pub takes: Vec<Take>,
}

/// By device.
pub type Round = Vec<Taken>;

/// Elements of a device's source piece and of its own target piece.
type Pairs = Vec<(usize, usize)>;

/// A move at some steps of its loops.
struct Walk<'a> {
    moved: &'a Move<BufferId>,
    /// Where elements come from: what is passed on, from the step before.
    from: BufferId,
    before: &'a At,
    at: &'a At,
    types: [&'a TensorType; 2],
    piece: HeldAt<'a>,
}

/// Tells where a device holds a buffer at some steps.
type HeldAt<'a> = &'a dyn Fn(BufferId, usize, &At) -> Result<Option<Piece>, String>;

/// The rounds of a move; `piece` tells where a device holds a buffer.
pub fn rounds(
    program: &HostProgram,
    moved: &Move<BufferId>,
    at: &At,
    piece: HeldAt<'_>,
) -> Result<Vec<Round>, String> {
    // Whatever stands in an unverified program, nothing is asked of buffers that are not there.
    for id in [moved.source, moved.target] {
        piece(id, 0, at)?;
    }
    let target = &program.buffers[moved.target].ty;
    let mut all: Vec<Round> = Vec::new();
    for (from, before) in at.sources_of(moved, &target.layout) {
        let types = [&program.buffers[from].ty, target];
        let walk = Walk { moved, from, before: &before, at, types, piece };
        let rounds = walk.rounds(program)?;
        match &mut all[..] {
            [] => all = rounds,
            // A part of the device's own, after what is passed on.
            [first, ..] => {
                let own = rounds.into_iter().flatten();
                first.iter_mut().zip(own).for_each(|(first, own)| first.takes.extend(own.takes));
            }
        }
    }
    Ok(all)
}

/// The members that reduce a piece together, which of them a device is, and the elements of each slice.
struct Slices {
    members: Vec<usize>,
    place: usize,
    slices: Vec<Range<usize>>,
}

impl Walk<'_> {
    /// The rounds of what is taken from one source.
    fn rounds(&self, program: &HostProgram) -> Result<Vec<Round>, String> {
        let Walk { before, at, types, .. } = *self;
        let walk = self;
        let devices = 0..program.devices as usize;
        let exchange = Exchange::between((types[0], before.steps()), (types[1], at.steps()));
        let fetched: Vec<Vec<Fetch>> =
            devices.clone().map(|device| exchange.fetches(DeviceId::new(device))).collect();
        let slices: Vec<Option<Slices>> =
            devices.clone().map(|device| walk.slices(&fetched, device)).collect();
        let mut rounds = vec![Round::new(), Round::new()];
        for device in devices {
            let [first, second] = match &slices[device] {
                Some(slices) => walk.by_slices(&fetched[device], slices, device)?,
                None => [walk.direct(&fetched[device], device)?, Taken::default()],
            };
            rounds[0].push(first);
            rounds[1].push(second);
        }
        if slices.iter().all(Option::is_none) {
            rounds.truncate(1);
        }
        Ok(rounds)
    }

    fn extents(ty: &TensorType, device: usize, at: &At) -> Vec<usize> {
        let piece = ty.layout.piece_at_step(&ty.sizes(), DeviceId::new(device), at.steps());
        piece.unwrap_or_default().iter().map(|set| IndexSet::count(set) as usize).collect()
    }

    /// The elements of a fetch, in row-major order.
    fn pairs(&self, fetch: &Fetch, device: usize) -> Pairs {
        let [source, target] = self.types;
        let (from, to) =
            (Self::extents(source, fetch.from.index(), self.before), Self::extents(target, device, self.at));
        let mut pairs = vec![(0, 0)];
        for (dim, runs) in fetch.runs.iter().enumerate() {
            let of_run = |run: &shardweave_compiler::layout::Overlap| {
                let (first, second) = (run.at_first as usize, run.at_second as usize);
                (0..run.len as usize).map(move |i| (first + i, second + i))
            };
            let indices: Pairs = runs.iter().flat_map(of_run).collect();
            let with = |&(a, b): &(usize, usize)| {
                let (a, b) = (a * from[dim], b * to[dim]);
                indices.iter().map(move |&(x, y)| (a + x, b + y))
            };
            pairs = pairs.iter().flat_map(with).collect();
        }
        pairs
    }

    fn held(&self, id: BufferId, device: usize, at: &At) -> Result<Piece, String> {
        (self.piece)(id, device, at)?.ok_or_else(|| format!("device{device} holds nothing of {id}"))
    }

    fn taken(&self, fetch: &Fetch, device: usize, pairs: &[(usize, usize)]) -> Result<Vec<Take>, String> {
        let from = fetch.from.index();
        let (source, to) =
            (self.held(self.from, from, self.before)?, self.held(self.moved.target, device, self.at)?);
        let how = if fetch.part == 0 { How::Put } else { How::Combine };
        let take = |&(element, at): &(usize, usize)| Take {
            from: Owner { device: from, piece: source.clone(), element },
            to: to.clone(),
            at,
            how,
        };
        Ok(pairs.iter().map(take).collect())
    }

    /// Everything at once, straight from those who have it.
    fn direct(&self, fetched: &[Fetch], device: usize) -> Result<Taken, String> {
        let identity = identity_of(self.types[0], self.types[1], DeviceId::new(device));
        let fill = identity.map(|_| self.held(self.moved.target, device, self.at)).transpose()?;
        let mut takes = Vec::new();
        for fetch in fetched {
            takes.extend(self.taken(fetch, device, &self.pairs(fetch, device))?);
        }
        Ok(Taken { fill, takes })
    }

    /// The slices of an all_reduce whose members all take the same elements of the same members.
    fn slices(&self, fetched: &[Vec<Fetch>], device: usize) -> Option<Slices> {
        let group = |device: usize| -> Option<(Vec<usize>, Pairs)> {
            let fetches = &fetched[device];
            let pairs = self.pairs(fetches.first()?, device);
            let one = fetches.iter().zip(0..).all(|(fetch, part)| {
                fetch.part == part && fetch.runs == fetches[0].runs && self.pairs(fetch, device) == pairs
            });
            let filled = identity_of(self.types[0], self.types[1], DeviceId::new(device)).is_some();
            let members = fetches.iter().map(|fetch| fetch.from.index()).collect();
            (one && !filled && fetches.len() > 1).then_some((members, pairs))
        };
        if self.moved.kind != Kind::AllReduce {
            return None;
        }
        let (members, pairs) = group(device)?;
        let place = members.iter().position(|&member| member == device)?;
        let agree = |&member: &usize| {
            group(member).is_some_and(|(others, other)| others == members && other == pairs)
        };
        let length = pairs.len().div_ceil(members.len());
        let slice = |n: usize| (n * length).min(pairs.len())..((n + 1) * length).min(pairs.len());
        members.iter().all(agree).then(|| Slices {
            place,
            slices: (0..members.len()).map(slice).collect(),
            members: members.clone(),
        })
    }

    /// The own slice from every member, then the others' slices from the targets where they were made.
    fn by_slices(&self, fetched: &[Fetch], own: &Slices, device: usize) -> Result<[Taken; 2], String> {
        let [mut reduced, mut gathered] = [Taken::default(), Taken::default()];
        for fetch in fetched {
            let pairs = self.pairs(fetch, device);
            reduced.takes.extend(self.taken(fetch, device, &pairs[own.slices[own.place].clone()])?);
        }
        let to = self.held(self.moved.target, device, self.at)?;
        let pairs = self.pairs(&fetched[0], device);
        for (&member, slice) in own.members.iter().zip(&own.slices).filter(|(member, _)| **member != device) {
            let piece = self.held(self.moved.target, member, self.at)?;
            gathered.takes.extend(pairs[slice.clone()].iter().map(|&(_, at)| Take {
                from: Owner { device: member, piece: piece.clone(), element: at },
                to: to.clone(),
                at,
                how: How::Put,
            }));
        }
        Ok([reduced, gathered])
    }
}
