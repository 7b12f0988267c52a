//! The layout algebra: where one value lives on a mesh.
//!
//! A [`Layout`] has for each dim a list of factors, outermost first, each cutting every block that the
//! factors before it left; and a list of axes over which the pieces are still to be combined.
//! It maps each device (and inside a stream loop, each step) to the set of indices the device holds:
//! the product, over the dims, of one sorted list of intervals ([`IndexSet`]).
//! Everything else is derived from that one map: local shapes, what a reshard moves, whether two
//! layouts are equal, which bytes of a file a device reads.
//!
//! ```text
//! s/local(2)/tp on tp = 3, 10 indices       blocks of local: [0,5) [5,10)
//!   0 1 2 3 4 | 5 6 7 8 9                   each cut in ceil(5/3) = 2, 2, 1
//!   a a b b c   a a b b c                   tp=0 holds [0,2) [5,7), stored one after the other
//! ```
//!
//! Invariants (kept by [`Layout::new`]): a mesh axis stands at most once in a layout, cut or partial.

mod ceil;
mod equal;
mod stream;
mod index_set;
mod largest;
mod parse;
mod piece;
mod reach;
mod region;
mod scope;
mod print;

pub use ceil::CeilPieces;
pub use index_set::{IndexSet, Overlap, overlap, run_of, volume};
pub use parse::{compilers_dim, parse_layout};
pub use piece::{DimCuts, Place};
pub use print::LayoutText;
pub use region::{Region, box_intersection, is_empty_box};
pub use scope::{LayoutScope, Lookup, Writer};
pub use stream::Stream;

use crate::dtype::Combine;
use crate::id::{Id, id};
use crate::mesh::{AxisId, Mesh};
use std::collections::BTreeMap;
use std::sync::Arc;

id! {
    /// The step counter of one stream of a loop.
    StepId "i"
}

/// One cut of a dim. It applies to each block that the factors before it left.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Factor {
    /// `/tp`: ceil pieces over a mesh axis.
    Axis(AxisId),
    /// `/tp(5, 3, 4, 4)`: given pieces over a mesh axis.
    Sizes(AxisId, Arc<[u64]>),
    /// `/local(4)`: blocks that stay on the device.
    Local(u64),
    /// `/stream(4)`: stored like `local`, produced step by step.
    Stream(Steps),
    /// `/step(4, i0)`: inside a loop, the block of the running step.
    Step(u64, StepId),
    /// `/owner(tp, i0)`, `/ahead(tp, i0)` or `/next(tp, i0)`: inside a loop, a piece that a cut over an axis
    /// makes, but for another coordinate than the device's own.
    Peer(Peer),
}

/// The piece of a coordinate that the running step picks along an axis.
///
/// ```text
///   tp = 4             /tp        /owner(tp, i0)      /ahead(tp, i0)      /next(tp, i0)
///   device  0 1 2 3    0 1 2 3    i0 = 0   0 0 0 0    i0 = 0   0 1 2 3    i0 = 0   1 2 3 0
///                                 i0 = 1   1 1 1 1    i0 = 1   1 2 3 0    i0 = 1   2 3 0 1
///                                                                         i0 = 3   0 1 2 3
/// ```
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Peer {
    /// Along which axis.
    pub axis: AxisId,
    /// The given pieces; ceil pieces if there are none.
    pub sizes: Option<Arc<[u64]>>,
    /// Which coordinate.
    pub whose: Whose,
    /// The counter of the loop.
    pub step: StepId,
}

/// Whose piece a [`Peer`] is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Whose {
    /// In step `i` that of coordinate `i`: the same on all devices.
    Owner,
    /// In step `i` that of the device `i` places ahead, around the axis; in the first step its own.
    Ahead,
    /// In step `i` that of the device `i + 1` places ahead, around the axis; in the last step its own.
    Next,
}

/// The count of a `stream` factor.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Steps {
    /// `stream(n)`
    Count(u64),
    /// `stream`: as many as the dim is long.
    Whole,
    /// `stream(auto)`: as many as the compiler chose; until it has, one.
    Auto(u64),
}

impl Steps {
    /// How many blocks a dim of that size is cut into.
    pub fn count(self, dim_size: u64) -> u64 {
        match self {
            Steps::Count(n) => n,
            Steps::Whole => dim_size.max(1),
            Steps::Auto(n) => n,
        }
    }
}

impl Factor {
    /// The mesh axis over which the factor deals out pieces: to each coordinate its own.
    pub fn axis(&self) -> Option<AxisId> {
        match self {
            Factor::Axis(axis) | Factor::Sizes(axis, _) => Some(*axis),
            _ => None,
        }
    }

    /// The mesh axis whose coordinate decides which piece a device holds.
    pub fn decided_by(&self) -> Option<AxisId> {
        match self {
            Factor::Peer(_) => self.ahead(),
            other => other.axis(),
        }
    }

    /// The mesh axis along which devices pick pieces of each other, each another one.
    pub fn ahead(&self) -> Option<AxisId> {
        match self {
            Factor::Peer(peer) => peer.whose.lead().map(|_| peer.axis),
            _ => None,
        }
    }

    /// The step counter that the factor follows.
    pub fn step(&self) -> Option<StepId> {
        match self {
            Factor::Step(_, step) | Factor::Peer(Peer { step, .. }) => Some(*step),
            _ => None,
        }
    }

    /// Whether the factor is a stream.
    pub fn is_stream(&self) -> bool {
        matches!(self, Factor::Stream(_))
    }

    /// The factor as it is stored, of a dim of that size: a stream as blocks that stay.
    pub fn stored(&self, dim_size: u64) -> Factor {
        match self {
            Factor::Stream(steps) => Factor::Local(steps.count(dim_size)),
            other => other.clone(),
        }
    }

    /// Pieces of these sizes over an axis, as many as it is long: ceil pieces if that is what they are.
    pub fn pieces(axis: AxisId, sizes: Vec<u64>) -> Factor {
        let len = sizes.iter().copied().fold(0, u64::saturating_add);
        match CeilPieces::new(len, sizes.len() as u64).sizes().eq(sizes.iter().copied()) {
            true => Factor::Axis(axis),
            false => Factor::Sizes(axis, sizes.into()),
        }
    }
}

impl Whose {
    /// The spelling in the text forms.
    pub fn name(self) -> &'static str {
        match self {
            Whose::Owner => "owner",
            Whose::Ahead => "ahead",
            Whose::Next => "next",
        }
    }

    /// The one of that spelling.
    pub fn from_name(name: &str) -> Option<Whose> {
        [Whose::Owner, Whose::Ahead, Whose::Next].into_iter().find(|whose| whose.name() == name)
    }

    /// How many places ahead a device looks in the first step; none if all devices look at the same place.
    pub fn lead(self) -> Option<u64> {
        match self {
            Whose::Owner => None,
            Whose::Ahead => Some(0),
            Whose::Next => Some(1),
        }
    }
}

/// An axis whose devices hold parts that are still to be combined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct Partial {
    /// The axis.
    pub axis: AxisId,
    /// How the parts are put together.
    pub combine: Combine,
}

/// The factors of one dim, outermost first.
pub type Cuts = Vec<Factor>;

/// Where one value lives.
///
/// ```
/// # use shardweave_compiler::{layout::Layout, mesh::Mesh};
/// # use std::sync::Arc;
/// let grid: Arc<Mesh> = Arc::new("mesh grid { dp = 2, tp = 4 }".parse()?);
/// let layout = Layout::parse("s/tp, partial(dp)", &["b", "s"], &grid)?;
/// assert_eq!(layout.to_string(), "d1/tp, partial(dp) on grid");
/// assert_eq!(layout.text(&["b", "s"], Some("grid")).to_string(), "s/tp, partial(dp)");
/// # Ok::<(), shardweave_compiler::diagnostic::Diagnostics>(())
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Layout {
    mesh: Arc<Mesh>,
    cuts: Vec<Cuts>,
    partial: Vec<Partial>,
}

impl Layout {
    /// A layout; `None` if an axis stands twice in it. Partial axes are kept in mesh order.
    pub fn new(mesh: Arc<Mesh>, cuts: Vec<Cuts>, mut partial: Vec<Partial>) -> Option<Layout> {
        let mut seen = vec![false; mesh.axes().len()];
        let axes = cuts.iter().flatten().filter_map(Factor::axis).chain(partial.iter().map(|p| p.axis));
        for axis in axes {
            if std::mem::replace(&mut seen[axis.index()], true) {
                return None;
            }
        }
        partial.sort_unstable();
        Some(Layout { mesh, cuts, partial })
    }

    /// Whole on every device of the mesh.
    pub fn replicated(mesh: Arc<Mesh>, ndim: usize) -> Layout {
        Layout { mesh, cuts: vec![Vec::new(); ndim], partial: Vec::new() }
    }

    /// The mesh.
    pub fn mesh(&self) -> &Arc<Mesh> {
        &self.mesh
    }

    /// For each dim its factors.
    pub fn cuts(&self) -> &[Cuts] {
        &self.cuts
    }

    /// The axes still to be combined, in mesh order.
    pub fn partial(&self) -> &[Partial] {
        &self.partial
    }

    /// How many dims.
    pub fn ndim(&self) -> usize {
        self.cuts.len()
    }

    /// Whether parts are still to be combined (over an axis longer than 1).
    pub fn is_partial(&self) -> bool {
        self.partial.iter().any(|p| self.mesh.size(p.axis) > 1)
    }

    /// The same cuts, nothing partial.
    pub fn combined(&self) -> Layout {
        Layout { partial: Vec::new(), ..self.clone() }
    }

    /// The same cuts with other partial axes; `None` if one of them cuts a dim.
    pub fn with_partial(&self, partial: Vec<Partial>) -> Option<Layout> {
        Layout::new(self.mesh.clone(), self.cuts.clone(), partial)
    }

    /// The layout with every running step taken as all steps together.
    pub fn all_steps(&self) -> Layout {
        let all = |factor: &Factor| match factor {
            Factor::Step(count, _) => Factor::Stream(Steps::Count(*count)),
            // Given pieces stand last, so what they leave is one block.
            Factor::Peer(Peer { sizes: Some(_), .. }) => Factor::Stream(Steps::Count(1)),
            Factor::Peer(peer) => Factor::Stream(Steps::Count(self.mesh.size(peer.axis))),
            other => other.clone(),
        };
        let cuts = self.cuts.iter().map(|factors| factors.iter().map(all).collect()).collect();
        Layout { mesh: self.mesh.clone(), cuts, partial: self.partial.clone() }
    }

    /// The pieces of peers in the cuts.
    pub fn peers(&self) -> impl Iterator<Item = &Peer> {
        self.cuts.iter().flatten().filter_map(|factor| match factor {
            Factor::Peer(peer) => Some(peer),
            _ => None,
        })
    }

    /// The layout with every peer's piece at the peer itself.
    pub fn at_peers(&self) -> Layout {
        let own = |factor: &Factor| match factor {
            Factor::Peer(Peer { axis, sizes: Some(sizes), .. }) => Factor::Sizes(*axis, sizes.clone()),
            Factor::Peer(peer) => Factor::Axis(peer.axis),
            other => other.clone(),
        };
        let cuts = self.cuts.iter().map(|factors| factors.iter().map(own).collect()).collect();
        Layout { mesh: self.mesh.clone(), cuts, partial: self.partial.clone() }
    }

    /// The same with other factors for those that follow some counters.
    pub fn with_steps(&self, instead: &BTreeMap<StepId, Cuts>) -> Layout {
        let of = |factor: &Factor| match factor.step().and_then(|step| instead.get(&step)) {
            Some(factors) => factors.clone(),
            None => vec![factor.clone()],
        };
        let cuts = self.cuts.iter().map(|factors| factors.iter().flat_map(of).collect()).collect();
        Layout { mesh: self.mesh.clone(), cuts, partial: self.partial.clone() }
    }

    /// Whether an axis cuts a dim or is partial.
    pub fn uses(&self, axis: AxisId) -> bool {
        self.cuts_by(axis).is_some() || self.partial.iter().any(|p| p.axis == axis)
    }

    /// The dim that an axis cuts.
    pub fn cuts_by(&self, axis: AxisId) -> Option<usize> {
        self.cuts.iter().position(|factors| factors.iter().any(|f| f.axis() == Some(axis)))
    }

    /// The same with another number of steps for each `stream(auto)`.
    pub fn with_auto_steps(&self, steps: u64) -> Layout {
        let of = |factor: &Factor| match factor {
            Factor::Stream(Steps::Auto(_)) => Factor::Stream(Steps::Auto(steps)),
            other => other.clone(),
        };
        let cuts = self.cuts.iter().map(|factors| factors.iter().map(of).collect()).collect();
        Layout { mesh: self.mesh.clone(), cuts, partial: self.partial.clone() }
    }

    /// Whether a dim has a stream factor.
    pub fn has_stream(&self) -> bool {
        self.cuts.iter().flatten().any(Factor::is_stream)
    }
}
