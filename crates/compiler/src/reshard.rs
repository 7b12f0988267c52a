//! From any layout to any layout: the cheapest short sequence of moves.
//!
//! Without a reduction one exchange does it: every device takes exactly what it lacks, so no sequence
//! moves fewer bytes or needs more memory than source and target. What is left to decide is how a
//! partial value is combined, and where:
//!
//! ```text
//!   partial(tp) ── reduce_scatter ──▶ target            the target divides the sum over the group
//!               ── all_reduce ──▶ whole ── exchange ──▶ target
//!               ── reduce_scatter along a dim ──▶ cut ── exchange ──▶ target
//!               ── cut ──▶ smaller partial ── any of these     the target cuts by axes not yet used
//! ```
//!
//! Every intermediate piece is at most as large as the source's. Sequences are tried and compared by
//! the one cost, then by total bytes, then by length. (After Rink et al. 2021, "Memory-efficient array
//! redistribution through portable collective communication", restricted to sequences that one general
//! exchange cannot replace.)

use crate::cost::Cost;
use crate::dtype::Combine;
use crate::instr::{Kind, TensorType};
use crate::layout::{Cuts, Factor, Layout, Partial};
use crate::transfer::{Traffic, reduced_axes};

/// One move of a route.
#[derive(Clone, PartialEq, Debug)]
pub struct Leg {
    /// Where it goes.
    pub target: Layout,
    /// What it sends.
    pub traffic: Traffic,
}

/// Moves one after another; none if the layouts are the same.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Route {
    /// The moves, in order; the last one ends in the layout asked for.
    pub legs: Vec<Leg>,
}

impl Route {
    /// Microseconds under the one cost, if each move runs in so many steps.
    pub fn time_us(&self, cost: &Cost, steps: u64) -> f64 {
        self.legs.iter().map(|leg| cost.moving_us(&leg.traffic, steps)).sum()
    }

    /// Bytes sent by all devices.
    pub fn bytes_total(&self) -> u64 {
        self.legs.iter().map(|leg| leg.traffic.bytes_total).fold(0, u64::saturating_add)
    }

    /// Whether devices exchange anything.
    pub fn communicates(&self) -> bool {
        self.legs.iter().any(|leg| leg.traffic.kind.communicates())
    }
}

/// The cheapest route from where a value is to where it is wanted.
pub fn route(source: &TensorType, target: &Layout, cost: &Cost) -> Route {
    let sizes = source.sizes();
    if source.layout.same_as(target, &sizes) {
        return Route::default();
    }
    let source = &reduce_all_but_last_operator(source, target);
    let (before, source) = source;
    let mut routes = Vec::new();
    let reduced: Vec<Partial> = reduced_axes(&source.layout, target)
        .into_iter()
        .filter(|p| source.layout.mesh().size(p.axis) > 1)
        .collect();
    if reduced.is_empty() || source.is_empty() {
        routes.push(vec![leg(source, target)]);
    } else {
        ways_to_reduce(source, target, &reduced, &mut routes);
        if let Some(cut) = local_cuts(source, target) {
            let mut after = Vec::new();
            let smaller = TensorType { layout: cut.clone(), ..source.clone() };
            ways_to_reduce(&smaller, target, &reduced, &mut after);
            routes.extend(
                after.into_iter().map(|legs| std::iter::once(leg(source, &cut)).chain(legs).collect()),
            );
        }
    }
    let routes = routes.into_iter().map(|legs| Route { legs: before.iter().cloned().chain(legs).collect() });
    routes
        .min_by(|a, b| {
            let rounded = |r: &Route| (r.time_us(cost, 1) * 1e6).round();
            let time = rounded(a).total_cmp(&rounded(b));
            time.then(a.bytes_total().cmp(&b.bytes_total())).then(a.legs.len().cmp(&b.legs.len()))
        })
        .expect("an all-reduce and an exchange always lead there")
}

/// One move.
fn leg(source: &TensorType, target: &Layout) -> Leg {
    let to = TensorType { layout: target.clone(), ..source.clone() };
    Leg { target: target.clone(), traffic: Traffic::of(source, &to) }
}

/// Parts of different operators are combined one operator after the other, in the order they print;
/// all but the last one by all-reduces.
fn reduce_all_but_last_operator(source: &TensorType, target: &Layout) -> (Vec<Leg>, TensorType) {
    let reduced = reduced_axes(&source.layout, target);
    let mut operators: Vec<Combine> =
        Combine::ALL.into_iter().filter(|c| reduced.iter().any(|p| p.combine == *c)).collect();
    operators.pop();
    let mut legs = Vec::new();
    let mut at = source.clone();
    for combine in operators {
        let rest =
            at.layout.partial().iter().copied().filter(|p| p.combine != combine || !reduced.contains(p));
        let next = at.layout.with_partial(rest.collect()).expect("fewer partial axes are still distinct");
        legs.push(leg(&at, &next));
        at.layout = next;
    }
    (legs, at)
}

/// All ways to combine `reduced` (one operator) on the way to `target`.
fn ways_to_reduce(source: &TensorType, target: &Layout, reduced: &[Partial], routes: &mut Vec<Vec<Leg>>) {
    let names: Vec<String> =
        reduced.iter().map(|p| source.layout.mesh().axes()[p.axis].name.clone()).collect();
    let kept: Vec<Partial> =
        source.layout.partial().iter().copied().filter(|p| !reduced.contains(p)).collect();
    // Straight into the target, where nothing but the reduction moves.
    if reduces_straight(source, target, &names) {
        routes.push(vec![leg(source, target)]);
    }
    // Some axes scattered where the target wants them, the rest all-reduced on the smaller pieces.
    let scattered: Vec<Partial> =
        reduced.iter().copied().filter(|p| target.cuts_by(p.axis).is_some()).collect();
    if source.layout.mesh().same_grid(target.mesh())
        && !scattered.is_empty()
        && scattered.len() < reduced.len()
    {
        let rest: Vec<Partial> =
            source.layout.partial().iter().copied().filter(|p| !scattered.contains(p)).collect();
        if let Some(middle) = target.with_partial(rest) {
            let names: Vec<String> =
                scattered.iter().map(|p| source.layout.mesh().axes()[p.axis].name.clone()).collect();
            if reduces_straight(source, &middle, &names) {
                let at = TensorType { layout: middle.clone(), ..source.clone() };
                routes.push(vec![leg(source, &middle), leg(&at, target)]);
            }
        }
    }
    // Whole on every member, then on to the target.
    let whole = source.layout.with_partial(kept.clone()).expect("fewer partial axes are still distinct");
    push_via(source, whole, target, routes);
    // Scattered along one dim, then on to the target.
    for dim in 0..source.layout.ndim() {
        let mut cuts: Vec<Cuts> = source.layout.cuts().to_vec();
        cuts[dim].extend(reduced.iter().map(|p| Factor::Axis(p.axis)));
        let middle = Layout::new(source.layout.mesh().clone(), cuts, kept.clone());
        let middle = middle.expect("an axis that is partial cuts nothing");
        push_via(source, middle, target, routes);
    }
}

/// Adds the way over `middle`, if `middle` can be reached by a reduction alone.
fn push_via(source: &TensorType, middle: Layout, target: &Layout, routes: &mut Vec<Vec<Leg>>) {
    let first = leg(source, &middle);
    let at = TensorType { layout: middle, ..source.clone() };
    if at.layout.same_as(target, &source.sizes()) {
        routes.push(vec![Leg { target: target.clone(), ..first }]);
    } else {
        routes.push(vec![first, leg(&at, target)]);
    }
}

/// Whether one reduction leads to the target: nothing but the reduced axes moves, and each element is
/// wanted by one member of its group, or all elements by all.
fn reduces_straight(source: &TensorType, target: &Layout, reduced: &[String]) -> bool {
    let traffic = leg(source, target).traffic;
    if source.layout.mesh().same_grid(target.mesh()) {
        // Along an axis that cuts the target or makes it partial by another operator, one member wants it.
        let all_taken =
            reduced.iter().all(|name| source.layout.mesh().axis(name).is_some_and(|axis| target.uses(axis)));
        traffic.axes == *reduced && matches!(traffic.kind, Kind::ReduceScatter | Kind::Reduce) && all_taken
            || traffic.axes == *reduced && traffic.kind == Kind::AllReduce
    } else {
        reduces_straight_across(source, target)
    }
}

/// Between two grids: every source device holds parts of the whole value, and the target gives each
/// element to one of these devices.
fn reduces_straight_across(source: &TensorType, target: &Layout) -> bool {
    let mesh = source.layout.mesh();
    let all_partial = mesh
        .axes()
        .iter()
        .all(|(axis, a)| a.size == 1 || source.layout.partial().iter().any(|p| p.axis == axis));
    let all_cut = target.mesh().axes().iter().all(|(axis, a)| a.size == 1 || target.cuts_by(axis).is_some());
    let among = target.mesh().devices().all(|device| mesh.place_of(device).is_some());
    among && all_partial && all_cut && !target.is_partial()
}

/// The source cut further, without communication, along axes that the target uses and the source does
/// not: what is reduced afterwards is smaller.
fn local_cuts(source: &TensorType, target: &Layout) -> Option<Layout> {
    if !source.layout.mesh().same_grid(target.mesh()) {
        return None;
    }
    let mut cuts: Vec<Cuts> = source.layout.cuts().to_vec();
    for (dim, wanted) in target.cuts().iter().enumerate() {
        if let Some(more) = wanted.strip_prefix(&source.layout.cuts()[dim][..]) {
            let free = |factor: &&Factor| factor.axis().is_some_and(|axis| !source.layout.uses(axis));
            cuts[dim].extend(more.iter().take_while(free).cloned());
        }
    }
    if cuts == source.layout.cuts() {
        return None;
    }
    Layout::new(source.layout.mesh().clone(), cuts, source.layout.partial().to_vec())
}
