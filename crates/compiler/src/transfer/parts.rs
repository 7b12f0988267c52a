//! What becomes of the partial axes of both layouts in a move.
//!
//! ```text
//!   kept      partial in both: every part moves for itself
//!   reduced   partial in the source only: the parts are combined
//!   placed    partial in the target only: the value goes to coordinate 0
//!   in place  partial in the target, cut in the source: every device keeps what it holds
//!
//!   s/tp -> partial(tp)      0 1 . .  +  . . 2 3      each device its piece, identity elsewhere
//! ```
//!
//! Operators are applied in their order, the first one innermost: `partial(a, max), partial(b, prod)` is
//! the product along `b` of the largest along `a`. So an axis is kept only if nothing that is combined
//! after it is combined now.

use crate::dtype::Combine;
use crate::layout::{Factor, Layout, Partial};
use crate::mesh::{AxisId, Coords};

/// The partial axes of a move, by what becomes of them.
pub(super) struct Parts {
    /// Those of the source that are combined.
    pub reduced: Vec<Partial>,
    /// Those of the target whose coordinate 0 alone receives.
    pub placed: Vec<AxisId>,
    /// Those of the target along which every device receives what it holds of the source.
    pub in_place: Vec<AxisId>,
    /// All of the target, with how they are combined.
    target: Vec<Partial>,
}

impl Parts {
    pub fn new(source: &Layout, target: &Layout) -> Parts {
        let one_grid = source.mesh().same_grid(target.mesh());
        let longer = |p: &&Partial| source.mesh().size(p.axis) > 1;
        let gone = source.partial().iter().filter(|p| !target.partial().contains(p)).filter(longer);
        let last_reduced = gone.map(|p| p.combine).max();
        let is_kept = |p: &&Partial| {
            let in_order = last_reduced.is_none_or(|last| p.combine >= last);
            one_grid && target.partial().contains(p) && in_order
        };
        let kept: Vec<Partial> = source.partial().iter().filter(is_kept).copied().collect();
        let reduced = source.partial().iter().filter(|p| !kept.contains(p)).copied().collect();
        let added = target.partial().iter().filter(|p| !kept.contains(p)).map(|p| p.axis);
        let may_stay = one_grid && one_operator(target) && !in_steps(source) && !in_steps(target);
        let (in_place, placed) = added
            .partition(|&axis| may_stay && source.mesh().size(axis) > 1 && source.cuts_by(axis).is_some());
        Parts { reduced, placed, in_place, target: target.partial().to_vec() }
    }

    /// Whether a device of the target, by its coordinates, receives nothing.
    pub fn is_away(&self, coords: &Coords) -> bool {
        self.placed.iter().any(|&axis| coords.along(axis) != 0)
    }

    /// The operator whose identity a device's target is filled with before it receives anything.
    pub fn identity(&self, coords: &Coords) -> Option<Combine> {
        if !self.is_away(coords) && self.in_place.is_empty() {
            return None;
        }
        // Where the device is away from 0 along several axes, its part vanishes in the combination that
        // comes first.
        let first = self.target.iter().filter(|p| coords.along(p.axis) != 0).map(|p| p.combine).min();
        first.or(self.target.first().map(|p| p.combine))
    }
}

/// Whether all partial axes of a layout are combined alike.
fn one_operator(layout: &Layout) -> bool {
    layout.partial().windows(2).all(|pair| pair[0].combine == pair[1].combine)
}

/// Whether a layout is filled step by step: what a step fills, the next one must not.
fn in_steps(layout: &Layout) -> bool {
    layout.cuts().iter().flatten().any(|factor| matches!(factor, Factor::Stream(_) | Factor::Step(..)))
}
