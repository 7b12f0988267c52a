//! Operations along a dim that is cut, as what runs: a summary of each part, its gathering, the finish.
//!
//! ```text
//!   y = softmax(x, e), x: s/dp, e/tp
//!
//!   own   [e@part=4, e@number=2, s]  at e@part/tp, s/dp     exponentials_of_part(x, e)
//!   all   the same                   at s/dp                gathered over tp
//!   y     [s, e]                     at s/dp, e/tp          softmax_from_parts(x, all, e)
//! ```

use crate::cost::Cost;
use crate::dtype::DType;
use crate::id::Id;
use crate::instr::TensorType;
use crate::layout::{Cuts, Layout};
use crate::op::{Op, Space, SpaceId, Summary, cutting_axes, number_dim, part_dim, space};
use crate::reshard::{Route, route};

/// An operation on pieces.
pub(crate) struct OnPieces {
    pub op: Op,
    pub space: Space,
    pub over: Layout,
}

/// An operation along a dim that is cut.
pub(crate) struct Summarised {
    /// What every device says of its part.
    pub summary: OnPieces,
    /// What it says, each device its own; held wide.
    pub own: TensorType,
    /// Where what all say is needed.
    pub all: Layout,
    /// What goes on from there.
    pub finish: OnPieces,
    /// What is exchanged, for explanations.
    pub says: String,
}

/// How an operation on elements of a type runs when its space is laid out as `over`; none if it does not
/// work along a dim that `over` cuts, so that it can run at once.
pub(crate) fn summarised(op: &Op, whole: &Space, over: &Layout, dtype: DType) -> Option<Summarised> {
    let (finish, name) = op.from_parts()?;
    let dim = whole.dim(name)?;
    let axes = cutting_axes(over, dim);
    if axes.is_empty() {
        return None;
    }
    let parts = axes.iter().map(|&axis| over.mesh().size(axis)).product();
    let said = finish.summary();
    let elements = dims_of(whole, &whole.operands[0]);
    let cuts_of = |space: &Space| -> Vec<Cuts> {
        let cuts = |name: &String| whole.dim(name).map(|dim| over.cuts()[dim.index()].clone());
        space.dims.values().map(|dim| cuts(&dim.name).unwrap_or_default()).collect()
    };
    let on_pieces = |op: Op, operands: &[Vec<(String, u64)>], result: &[(String, u64)]| {
        let space = space(&op, operands, result);
        let over = Layout::new(over.mesh().clone(), cuts_of(&space), Vec::new());
        OnPieces { op, space, over: over.expect("the cuts of distinct dims of one layout are distinct") }
    };
    let own_dims = [(part_dim(name), parts), (number_dim(name), said.numbers())].into_iter();
    let own_dims: Vec<_> = own_dims.chain(elements.iter().filter(|(d, _)| d != name).cloned()).collect();
    let summary = on_pieces(Op::Summary(said, name.into()), &[elements], &own_dims);
    let own_layout = summary.space.result_layout(&summary.over)?;
    let mut operands: Vec<_> = whole.operands.iter().map(|groups| dims_of(whole, groups)).collect();
    if !finish.reads_elements() {
        operands.clear();
    }
    operands.push(own_dims.clone());
    let finish = on_pieces(Op::Finish(finish, name.into()), &operands, &dims_of(whole, &whole.result));
    let all = finish.space.operand_layout(&finish.over, operands.len() - 1, &[])?;
    let names: Vec<&str> = axes.iter().map(|&axis| over.mesh().axes()[axis].name.as_str()).collect();
    let says = format!("{} of each part of {name} over {}", said.says(), names.join(" and "));
    let dtype = if said == Summary::Largest { DType::I64 } else { dtype.wide() };
    Some(Summarised {
        summary,
        own: TensorType { dims: own_dims, dtype, layout: own_layout },
        all,
        finish,
        says,
    })
}

impl Summarised {
    /// How what is said comes to all.
    pub fn gathered(&self, cost: &Cost) -> Route {
        route(&self.own, &self.all, cost)
    }
}

/// The dims of a tensor of a space in which each is one dim.
fn dims_of(space: &Space, groups: &[Vec<SpaceId>]) -> Vec<(String, u64)> {
    let dims = groups.iter().flatten().map(|&dim| &space.dims[dim]);
    dims.map(|dim| (dim.name.clone(), dim.size)).collect()
}
