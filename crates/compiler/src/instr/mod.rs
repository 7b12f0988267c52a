//! What devices do: the two kinds of work that [`LocalProgram`](crate::local::LocalProgram) and
//! [`HostProgram`](crate::host::HostProgram) share. `V` names what they work on: a local value or a
//! buffer.
//!
//! * [`Compute`]: one operation on pieces, on one device.
//! * [`Move`]: the elements of one value go from one layout to another. What is sent to whom follows
//!   from the two layouts alone (see [`transfer`](crate::transfer)); the [`Kind`] names the pattern.

mod fault;
pub(crate) mod parse;
pub(crate) mod print;
mod values;
pub(crate) mod verify;

pub use fault::Fault;

use crate::dtype::{Combine, DType, Number};
use crate::layout::{Factor, Layout, StepId};
use crate::op::{DimUse, Op, Space};

/// The steps of longer loops do not overlap: a pipeline is walked step by step to be proved.
pub const MOST_PIPELINED: u64 = 1 << 10;

/// A pipeline has no more stages, so a buffer no more slots, and a step waits for none further back.
pub const MOST_STAGES: usize = 16;

/// What a device holds of a value: global dims, how the elements are stored, and the layout.
#[derive(Clone, PartialEq, Debug)]
pub struct TensorType {
    /// Names and global sizes, outermost first.
    pub dims: Vec<(String, u64)>,
    /// How an element is stored. Partial values of a half type are stored as `f32`.
    pub dtype: DType,
    /// Where it lives.
    pub layout: Layout,
}

impl TensorType {
    /// The global sizes.
    pub fn sizes(&self) -> Vec<u64> {
        self.dims.iter().map(|(_, size)| *size).collect()
    }

    /// The bytes of the largest piece of a device at any step; at most `u64::MAX`.
    pub fn largest_piece_bytes(&self) -> u64 {
        self.layout.largest_piece(&self.sizes()).into_iter().fold(self.dtype.size(), u64::saturating_mul)
    }

    /// Whether there is no element at all.
    pub fn is_empty(&self) -> bool {
        self.dims.iter().any(|(_, size)| *size == 0)
    }

    /// The dims' names.
    pub fn names(&self) -> Vec<&str> {
        self.dims.iter().map(|(name, _)| name.as_str()).collect()
    }
}

/// One operation on pieces. The devices of the space layout's mesh run it; others skip it.
#[derive(Clone, PartialEq, Debug)]
pub struct Compute<V> {
    /// Which operation. Its result is computed in the wide type and rounded once to the result's
    /// stored type.
    pub op: Op,
    /// What it works on.
    pub operands: Vec<Arg<V>>,
    /// What it gives.
    pub result: V,
    /// The iteration space with global sizes.
    pub space: Space,
    /// How the space is cut: one list of factors for each dim of the space. Operands and result
    /// are its projections.
    pub over: Layout,
}

/// What a computation works on.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Arg<V> {
    /// A local value or buffer.
    Value(V),
    /// A number, of the type of the other operand.
    Number(Number),
}

/// The elements of `source` go to where `target`'s layout wants them.
///
/// Axes that are partial in the source and not in the target are reduced, in one order:
///
/// * parts that come in one step in that of the mesh;
/// * where one part of a piece comes a step, in that of the steps. With
///   [`Whose::Ahead`](crate::layout::Whose::Ahead) the device's own part is the first, then comes that of the
///   device before it, and so on around the axis. A sum that travels ([`Move::travels`]) begins with the device
///   before it, goes around the same way and ends with the own part.
///
/// Elements of the target that the source does not cover (inside a loop: those of other steps) are left as
/// they are.
#[derive(Clone, PartialEq, Debug)]
pub struct Move<V> {
    /// The pattern of what moves.
    pub kind: Kind,
    /// What moves.
    pub source: V,
    /// Where it goes.
    pub target: V,
    /// The names of the mesh axes along which it moves.
    pub axes: Vec<String>,
    /// How many devices take part in one group.
    pub group: u64,
    /// From whom a step's elements come.
    pub path: Path,
    /// Why it moves: a sentence for `explain`, printed behind `because`; none for a copy.
    pub because: Option<String>,
}

impl<V> Compute<V> {
    /// The counters whose steps cut what the operation combines, and how that is combined: such a step gives a
    /// part of every element. It is combined with what the steps before gave, so the order of the parts is that
    /// of the steps; the first, where all of these counters stand at 0, begins. `None` if there are no such
    /// counters, or if they combine differently.
    pub fn combined_steps(&self) -> Option<(Vec<StepId>, Combine)> {
        let mut steps = Vec::new();
        let mut how = None;
        for (dim, cuts) in self.space.dims.values().zip(self.over.cuts()) {
            let DimUse::Combined(combine) = dim.usage else { continue };
            steps.extend(cuts.iter().filter_map(Factor::step));
            if cuts.iter().any(|factor| factor.step().is_some()) && *how.get_or_insert(combine) != combine {
                return None;
            }
        }
        how.map(|how| (steps, how))
    }
}

impl<V> Move<V> {
    /// Whether a sum travels: what comes from the device ahead is combined with the device's own part.
    pub fn travels(&self) -> bool {
        self.path == Path::PassedOn && self.kind.reduces()
    }
}

/// From whom a step of a pipeline takes what it moves.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Path {
    /// From those who hold it in the source.
    Direct,
    /// From those who got it in the step before: out of their piece of the target, as that step left it.
    /// Where no [`Peer`](crate::layout::Peer) of the target has moved yet, from the source. If parts are
    /// combined, the device's own part of the source is then added: the sum travels.
    PassedOn,
}

/// The pattern of a move, by what moves between index maps and device sets.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Kind {
    /// Every device has what it needs: a copy on each device.
    Local,
    /// The pieces of a group, whole on every member.
    AllGather,
    /// The parts of a group combined, each member keeping its piece.
    ReduceScatter,
    /// The parts of a group combined, whole on every member.
    AllReduce,
    /// Every member's piece is divided among all members.
    AllToAll,
    /// Each device's whole piece goes to one device of the same set.
    Permute,
    /// One device's whole value goes to all.
    Broadcast,
    /// The parts of a group combined on one device.
    Reduce,
    /// The pieces of a group, whole on one device.
    Gather,
    /// One device's whole value, cut over others.
    Scatter,
    /// Each device's whole piece goes to one device of another set.
    SendRecv,
    /// Everything else.
    Redistribute,
}

impl Kind {
    /// Every kind.
    pub const ALL: [Kind; 12] = [
        Kind::Local,
        Kind::AllGather,
        Kind::ReduceScatter,
        Kind::AllReduce,
        Kind::AllToAll,
        Kind::Permute,
        Kind::Broadcast,
        Kind::Reduce,
        Kind::Gather,
        Kind::Scatter,
        Kind::SendRecv,
        Kind::Redistribute,
    ];

    /// The spelling in JSON and in the text forms.
    pub fn name(self) -> &'static str {
        match self {
            Kind::Local => "copy",
            Kind::AllGather => "all_gather",
            Kind::ReduceScatter => "reduce_scatter",
            Kind::AllReduce => "all_reduce",
            Kind::AllToAll => "all_to_all",
            Kind::Permute => "permute",
            Kind::Broadcast => "broadcast",
            Kind::Reduce => "reduce",
            Kind::Gather => "gather",
            Kind::Scatter => "scatter",
            Kind::SendRecv => "send_recv",
            Kind::Redistribute => "redistribute",
        }
    }

    /// The kind of that name.
    pub fn from_name(name: &str) -> Option<Kind> {
        Kind::ALL.into_iter().find(|k| k.name() == name)
    }

    /// Whether parts are combined.
    pub fn reduces(self) -> bool {
        matches!(self, Kind::AllReduce | Kind::ReduceScatter | Kind::Reduce)
    }

    /// Whether devices exchange anything.
    pub fn communicates(self) -> bool {
        self != Kind::Local
    }
}
