//! Contractions: `linear`, `matmul`, `einsum`.
//!
//! Two operands at a time, every dim of them has one of four roles, and after folding most products
//! are one matrix product, or a few in a loop, right where the operands and the result lie:
//!
//! ```text
//!                in a   in b   in c
//!   batch         x      x      x     a loop around the products
//!   m             x             x     rows of the result
//!   n                    x      x     columns of the result
//!   k             x      x            summed
//!
//!   einsum("b s n h, b t n h -> b n s t")     batch b n   m s   n t   k h     b*n products s x h x t
//! ```
//!
//! A role whose dims do not fold into one loop keeps its longest loop in the matrix product and turns
//! the others into loops around it. Where that would leave tiny products, the operands are first
//! brought into the order batch m k and batch k n. Dims that one operand has alone and the result does
//! not have are summed before.

use super::arithmetic::Arithmetic;
use super::copy::copy_elements;
use super::product::packed::{self, Form};
use super::product::{Bias, Call, Onto, Product, Size, Strides, gains_if_packed};
use super::reduce::{Add, fold_dims};
use super::scratch::Buffer;
use super::tile::{Feed, tiles};
use super::walk::{Dense, Few, Frame, Nest};
use super::wide::{Sink, Source, Wide, with_real};
use super::{Input, Output};
use shardweave_compiler::op::SpaceId;
use std::ops::Deref;

/// `linear(x, w)` and `linear(x, w, b)`: the bias is added before the one rounding.
pub(super) fn linear<'a>(frame: &Frame<'a>, operands: &[Input<'a>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let bias = operands.get(2).map(|bias| Term::<T>::new(frame, 2, bias));
        contract::<T>(frame, &operands[..2], bias, out);
    });
}

/// `matmul` and `einsum`.
pub(super) fn product<'a>(frame: &Frame<'a>, operands: &[Input<'a>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => contract::<T>(frame, operands, None, out));
}

/// How many numbers an operand takes that is packed, if the operation is one product in which others than this one
/// gain by it. Operands and result are `f32`.
pub(super) fn packed_len(frame: &Frame<'_>, fixed: usize) -> Option<usize> {
    let (_, plan) = Plan::of_one_product(frame)?;
    let Size { m, k, n } = plan.size;
    let (rows, columns, beside) = if fixed == 0 { (n, m, plan.c.rows) } else { (m, n, plan.c.columns) };
    let gains = k > 0 && gains_if_packed(rows) && beside == 1;
    packed::len(k, columns).filter(|_| gains)
}

/// The product, with an operand that is packed, in this product or before.
///
/// # Panics
/// If the operation has no [`packed_len`].
pub(super) fn with_packed<'a>(
    frame: &Frame<'a>,
    operands: &[Input<'a>],
    (fixed, form): (usize, Form<'_>),
    out: Output<'_>,
) {
    let (roles, plan) = Plan::of_one_product(frame).expect("what has a packed operand is one product");
    let Sink::Same(result) = Sink::<f32>::new(out.bytes, out.dtype) else {
        unreachable!("products of `f32` alone have packed operands");
    };
    let [a, b] = [0, 1].map(|index| Term::<f32>::new(frame, index, &operands[index]));
    let bias = operands.get(2).map(|bias| Term::new(frame, 2, bias));
    let folded = bias.as_ref().and_then(|bias| plan.bias(frame, &roles, bias));
    let call = Call {
        size: plan.size,
        a: (&a.data, plan.a),
        b: (&b.data, plan.b),
        c: (&mut *result, plan.c),
        onto: folded.map_or(Onto::Nothing, Onto::Bias),
    };
    let call = if fixed == 0 { call.transposed() } else { call };
    let mut rows = frame.buffer(packed::rows_len(call.size.m));
    packed::product(call, form, &mut rows);
    if folded.is_none() {
        add_bias(frame, bias.as_ref(), result);
    }
}

/// Adds the product of the operands to what is there, which is stored as sums are.
pub(super) fn add_product<'a>(frame: &Frame<'a>, operands: &[Input<'a>], out: Output<'_>) {
    with_real!(operands[0].dtype(), T => {
        let Sink::<T>::Same(result) = Sink::new(out.bytes, out.dtype) else {
            unreachable!("steps are combined in the wide type");
        };
        if !added_in_place(frame, operands, result) {
            let mut product = frame.buffer(result.len());
            multiply_all::<T>(frame, operands, None, &mut product);
            result.iter_mut().zip(product.iter()).for_each(|(y, &x)| *y += x);
        }
    });
}

/// Adds a product of two operands right where the sum lies, if that is one product or a few.
fn added_in_place<'a, T: Product>(frame: &Frame<'a>, operands: &[Input<'a>], result: &mut [T]) -> bool {
    let [a, b] = operands else { return false };
    let (a, b) = (Term::new(frame, 0, a), Term::new(frame, 1, b));
    let (a_has, b_has) = (a.dims.clone(), b.dims.clone());
    let a = a.only(frame, |dim| frame.result.has(dim) || b_has.has(dim));
    let b = b.only(frame, |dim| frame.result.has(dim) || a_has.has(dim));
    let roles = Roles::in_order_of(&a.dims, &b.dims, &frame.result);
    if roles.k.is_empty() {
        return false;
    }
    let plan = Plan::new(frame, &roles, [&a.dims, &b.dims, &frame.result]);
    if plan.is_tiny() {
        return false;
    }
    if plan.added.turns() > 0 {
        plan.run(&a.data, &b.data, result, Onto::Result);
    }
    true
}

/// One factor of a product.
struct Term<'a, T: Wide> {
    data: Data<'a, T>,
    dims: Dense,
}

/// Where the elements of a factor are.
enum Data<'a, T: Wide> {
    /// In the operand.
    Operand(&'a [T]),
    /// Made from it.
    Made(Buffer<'a, T>),
}

impl<T: Wide> Deref for Data<'_, T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        match self {
            Data::Operand(all) => all,
            Data::Made(all) => all,
        }
    }
}

impl<'a, T: Product> Term<'a, T> {
    fn new(frame: &Frame<'a>, index: usize, input: &Input<'a>) -> Term<'a, T> {
        let Input::Piece { bytes, dtype } = *input else {
            unreachable!("the compiler lets no number into a contraction");
        };
        let dims = frame.operands[index].clone();
        let data = match Source::<T>::new(bytes, dtype) {
            Source::Same(all) => Data::Operand(all),
            halves => {
                let mut all = frame.buffer(dims.len());
                halves.gather(0, 1, &mut all);
                Data::Made(all)
            }
        };
        Term { data, dims }
    }

    /// Sums the dims that nobody else wants.
    fn only(self, frame: &Frame<'a>, wanted: impl Fn(SpaceId) -> bool) -> Term<'a, T> {
        if self.dims.ids().all(&wanted) {
            return self;
        }
        let dims = frame.dense(self.dims.ids().filter(|&dim| wanted(dim)));
        let mut sums = frame.buffer(dims.len());
        fold_dims::<T, Add>(frame, &self.dims, &Source::Same(&self.data), &dims, &mut sums);
        Term { data: Data::Made(sums), dims }
    }

    /// The same elements in another order of dims.
    fn ordered(&self, frame: &Frame<'a>, dims: Dense) -> Term<'a, T> {
        let mut data = frame.buffer(dims.len());
        copy_elements(frame.nest(dims.ids(), [&dims, &self.dims]), [0, 0], &mut data, &self.data);
        Term { data: Data::Made(data), dims }
    }
}

/// The product of all operands, summed over the dims that the result does not have.
fn contract<'a, T: Product>(
    frame: &Frame<'a>,
    operands: &[Input<'a>],
    bias: Option<Term<'a, T>>,
    out: Output<'_>,
) {
    let mut sink = Sink::<T>::new(out.bytes, out.dtype);
    if let Sink::Same(result) = &mut sink {
        multiply_all(frame, operands, bias.as_ref(), result);
    } else {
        let mut result = frame.buffer(frame.result.len());
        multiply_all(frame, operands, bias.as_ref(), &mut result);
        sink.scatter(0, 1, &result);
    }
}

/// From left to right, two at a time; each product keeps the dims that a later operand or the result has.
/// The bias is added to the last.
fn multiply_all<'a, T: Product>(
    frame: &Frame<'a>,
    operands: &[Input<'a>],
    bias: Option<&Term<'_, T>>,
    result: &mut [T],
) {
    let mut left = Term::new(frame, 0, &operands[0]);
    for index in 1..operands.len() {
        let right = Term::new(frame, index, &operands[index]);
        let rest = &frame.operands[index + 1..operands.len()];
        let wanted_later = |dim| frame.result.has(dim) || rest.iter().any(|dims| dims.has(dim));
        let last = rest.is_empty();
        let a = left.only(frame, |dim| wanted_later(dim) || right.dims.has(dim));
        let b = right.only(frame, |dim| wanted_later(dim) || a.dims.has(dim));
        if last {
            return multiply(frame, [&a, &b], &frame.result, result, bias);
        }
        let roles = Roles::new(&a.dims, &b.dims, wanted_later);
        let dims = frame.dense(roles.batch.into_iter().chain(roles.m).chain(roles.n));
        let mut data = frame.buffer(dims.len());
        multiply(frame, [&a, &b], &dims, &mut data, None);
        left = Term { data: Data::Made(data), dims };
    }
    let sum = left.only(frame, |dim| frame.result.has(dim));
    let nest = frame.nest(frame.result.ids(), [&frame.result, &sum.dims]);
    copy_elements(nest, [0, 0], result, &sum.data);
}

/// The dims of two operands by their roles, each role in the order of the operand that has it first.
struct Roles {
    batch: Few<SpaceId>,
    m: Few<SpaceId>,
    n: Few<SpaceId>,
    k: Few<SpaceId>,
}

impl Roles {
    fn new(a: &Dense, b: &Dense, kept: impl Fn(SpaceId) -> bool) -> Roles {
        let (shared, m): (Few<_>, Few<_>) = a.ids().partition(|&dim| b.has(dim));
        let (batch, k) = shared.into_iter().partition(|&dim| kept(dim));
        Roles { batch, m, n: b.ids().filter(|&dim| !a.has(dim)).collect(), k }
    }

    /// The kept roles in the order in which `c` has them.
    fn in_order_of(a: &Dense, b: &Dense, c: &Dense) -> Roles {
        let roles = Roles::new(a, b, |dim| c.has(dim));
        let order = |role: Few<SpaceId>| c.ids().filter(|dim| role.contains(dim)).collect();
        Roles { batch: order(roles.batch), m: order(roles.m), n: order(roles.n), k: roles.k }
    }
}

/// A product of fewer multiplications than this is not worth a call of its own, if there are many.
const TINY: usize = 16 * 16 * 16;

/// `c = a b + bias` with the dims of `c`; every dim of `a` and of `b` is shared or kept.
fn multiply<'a, T: Product>(
    frame: &Frame<'a>,
    [a, b]: [&Term<'a, T>; 2],
    c_dims: &Dense,
    c: &mut [T],
    bias: Option<&Term<'_, T>>,
) {
    let roles = Roles::in_order_of(&a.dims, &b.dims, c_dims);
    if roles.k.is_empty() {
        let nest = frame.nest(c_dims.ids(), [c_dims, &a.dims, &b.dims]);
        let summed = frame.space.dims.keys().any(|dim| !frame.result.has(dim));
        let zero = if summed { T::real(0.0) } else { T::ZERO };
        multiply_elements(nest, c, &a.data, &b.data, zero);
        return add_bias(frame, bias, c);
    }
    let mut plan = Plan::new(frame, &roles, [&a.dims, &b.dims, c_dims]);
    if plan.is_tiny() {
        let Roles { batch, m, n, k } = &roles;
        let join = |roles: [&Few<SpaceId>; 3]| frame.dense(roles.into_iter().flatten().copied());
        let (a, b) = (a.ordered(frame, join([batch, m, k])), b.ordered(frame, join([batch, k, n])));
        let dims = join([batch, m, n]);
        let mut data = frame.buffer(dims.len());
        plan = Plan::new(frame, &roles, [&a.dims, &b.dims, &dims]);
        plan.run(&a.data, &b.data, &mut data, Onto::Nothing);
        copy_elements(frame.nest(c_dims.ids(), [c_dims, &dims]), [0, 0], c, &data);
        return add_bias(frame, bias, c);
    }
    match bias.and_then(|bias| plan.bias(frame, &roles, bias)) {
        Some(bias) => plan.run(&a.data, &b.data, c, Onto::Bias(bias)),
        None => {
            plan.run(&a.data, &b.data, c, Onto::Nothing);
            add_bias(frame, bias, c);
        }
    }
}

/// Adds a bias to a result that is done.
fn add_bias<T: Product>(frame: &Frame<'_>, bias: Option<&Term<'_, T>>, result: &mut [T]) {
    let Some(bias) = bias else { return };
    let mut bias = Feed::ordered(frame, &bias.dims, &frame.result, Source::Same(&bias.data));
    for tile in tiles(result.len()) {
        let bias = bias.tile(&tile);
        result[tile].iter_mut().zip(bias).for_each(|(y, &b)| *y += b);
    }
}

/// No dim is summed here: the products of elements.
///
/// `zero` is added to each. A contraction that sums never gives -0, whatever is summed where: it is
/// then 0. If nothing at all is summed it is -0, which changes nothing.
fn multiply_elements<T: Arithmetic>(mut nest: Nest<3>, c: &mut [T], a: &[T], b: &[T], zero: T) {
    let inner = nest.take_innermost();
    let [c_step, a_step, b_step] = inner.strides;
    for [c_at, a_at, b_at] in nest.offsets() {
        for i in 0..inner.extent {
            c[c_at + i * c_step] = a[a_at + i * a_step].times(b[b_at + i * b_step]).plus(zero);
        }
    }
}

/// Loops around one matrix product. The arrays of all nests are a, b and c.
struct Plan {
    /// Batch dims, and what did not fold of m and n.
    around: Nest<3>,
    /// What did not fold of k: products that are added up.
    added: Nest<3>,
    batches: usize,
    size: Size,
    a: Strides,
    b: Strides,
    c: Strides,
}

impl Plan {
    fn new(frame: &Frame<'_>, roles: &Roles, pieces: [&Dense; 3]) -> Plan {
        let batch = frame.nest(roles.batch.iter().copied(), pieces);
        let mut of_role = [&roles.m, &roles.n, &roles.k].map(|role| frame.nest(role.iter().copied(), pieces));
        let [m, n, k] = of_role.each_mut().map(|nest| {
            let longest = (0..nest.loops().len()).max_by_key(|&i| nest.loops()[i].extent);
            nest.take(longest)
        });
        let [m_rest, n_rest, added] = of_role;
        let around = [&batch, &m_rest, &n_rest].into_iter().flat_map(|nest| nest.loops().iter().copied());
        let at = |array: usize, rows: [usize; 3], columns: [usize; 3]| Strides {
            start: 0,
            rows: rows[array],
            columns: columns[array],
        };
        Plan {
            around: Nest::new(around),
            added,
            batches: batch.turns(),
            size: Size { m: m.extent, k: k.extent, n: n.extent },
            a: at(0, m.strides, k.strides),
            b: at(1, k.strides, n.strides),
            c: at(2, m.strides, n.strides),
        }
    }

    /// The plan of an operation that is one product of its first two operands as they lie, if it is.
    fn of_one_product(frame: &Frame<'_>) -> Option<(Roles, Plan)> {
        let ([a, b, ..], c) = (&frame.operands[..], &frame.result) else { return None };
        let wanted =
            a.ids().all(|dim| b.has(dim) || c.has(dim)) && b.ids().all(|dim| a.has(dim) || c.has(dim));
        let roles = Roles::in_order_of(a, b, c);
        if !wanted || roles.k.is_empty() {
            return None;
        }
        let plan = Plan::new(frame, &roles, [a, b, c]);
        (plan.around.loops().is_empty() && plan.added.loops().is_empty()).then_some((roles, plan))
    }

    /// A bias that can be added in the one product that there is: it has one number for each of its
    /// columns, or for each of its rows, in their order.
    fn bias<'a, T: Product>(
        &self,
        frame: &Frame<'_>,
        roles: &Roles,
        bias: &'a Term<'_, T>,
    ) -> Option<Bias<'a, T>> {
        let alone = self.around.loops().is_empty() && self.added.turns() > 0;
        let strides = |role: &Few<SpaceId>| frame.nest(role.iter().copied(), [&bias.dims]);
        let (rows, columns) = (strides(&roles.m), strides(&roles.n));
        let stays = |nest: &Nest<1>| nest.loops().iter().all(|l| l.strides == [0]);
        let goes_on = |nest: &Nest<1>| matches!(nest.loops(), [one] if one.strides == [1]);
        match &bias.data {
            all if alone && stays(&rows) && goes_on(&columns) => Some(Bias::Columns(all)),
            all if alone && stays(&columns) && goes_on(&rows) => Some(Bias::Rows(all)),
            _ => None,
        }
    }

    fn calls_per_batch(&self) -> usize {
        (self.around.turns() * self.added.turns()).checked_div(self.batches).unwrap_or(0)
    }

    fn multiplications_per_call(&self) -> usize {
        self.size.m * self.size.k * self.size.n
    }

    /// Whether it is better to bring the operands into another order first.
    fn is_tiny(&self) -> bool {
        self.calls_per_batch() > 1 && self.multiplications_per_call() < TINY
    }

    /// The products, the first of each sum onto `first`.
    fn run<T: Product>(&self, a: &[T], b: &[T], c: &mut [T], first: Onto<'_, T>) {
        if self.added.turns() == 0 {
            return c.fill(T::real(0.0));
        }
        for [a_at, b_at, c_at] in self.around.offsets() {
            let mut onto = first;
            for [a_step, b_step, _] in self.added.offsets() {
                T::product(Call {
                    size: self.size,
                    a: (a, Strides { start: a_at + a_step, ..self.a }),
                    b: (b, Strides { start: b_at + b_step, ..self.b }),
                    c: (&mut *c, Strides { start: c_at, ..self.c }),
                    onto,
                });
                onto = Onto::Result;
            }
        }
    }
}
