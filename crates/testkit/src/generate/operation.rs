//! One operation on what a program has so far: which, on what, and how large its result can get.

use super::dice::Dice;
use super::program::{Attempt, Draft, Known};
use crate::case::fill::Fill;
use crate::exactness::Exactness;
use shardweave_compiler::dtype::DType;

/// Products of more points than this are not made.
const MOST_POINTS: u64 = 1 << 16;

type Drawn = Option<Attempt>;

/// All kinds of operation, the plainest first.
const KINDS: &[fn(&mut Draft, &mut Dice<'_>) -> Drawn] = &[
    reshard,
    unary,
    linear,
    matmul,
    zip,
    reduce,
    with_number,
    einsum,
    linear,
    permute,
    reduce,
    split,
    merge,
    rename,
    slice,
    pad,
    concat,
    broadcast,
    linear,
    softmax,
    compare,
    choose,
    cast,
    argmax,
    embedding,
    slice,
    pad,
    concat,
    logic,
    function,
    norm,
    iota,
    full,
];

/// Draws an operation; `None` if what is drawn does not fit.
pub fn draw(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let kind = KINDS[dice.below(KINDS.len())];
    kind(draft, dice)
}

/// A value that an operation works on.
fn operand(draft: &Draft, dice: &mut Dice<'_>, fits: impl Fn(&Known) -> bool) -> Option<Known> {
    let fitting: Vec<&Known> = draft.values().iter().filter(|value| fits(value)).collect();
    dice.pick_late(&fitting).map(|value| (*value).clone())
}

fn tight(value: &Known) -> bool {
    value.exactness != Exactness::Loose
}

fn whole(value: &Known) -> bool {
    value.exactness == Exactness::Whole
}

fn float(value: &Known) -> bool {
    value.dtype.is_float() && whole(value)
}

fn number(value: &Known) -> bool {
    value.dtype != DType::Bool
}

/// A result that is as far determined as its operands.
fn like(value: &Known, call: String) -> Drawn {
    Some(Attempt { call, bound: value.bound, exactness: value.exactness })
}

fn reshard(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |_| true)?;
    like(&x, format!("reshard({})", x.name))
}

fn unary(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let name = ["relu", "neg", "abs", "square"][dice.below(4)];
    let x = operand(draft, dice, |x| number(x) && (name != "square" || tight(x)))?;
    let bound = if name == "square" { x.bound * x.bound } else { x.bound };
    Some(Attempt { call: format!("{name}({})", x.name), bound, exactness: x.exactness })
}

/// A weight for `x`: a value that shares its last dim, or a new input.
fn weight(draft: &mut Draft, dice: &mut Dice<'_>, x: &Known) -> Option<Known> {
    let (last, size) = x.dims.last()?.clone();
    let old = operand(draft, dice, |w| {
        float(w) && w.dtype == x.dtype && w.name != x.name && w.has(&last) && w.dims.len() > 1
    });
    if let Some(old) = old.filter(|_| dice.below(2) == 0) {
        return Some(old);
    }
    let mut dims = vec![(last, size)];
    for _ in 0..=dice.below(2) {
        dims.extend(draft.other_dim(dice, &[&dims[..], &x.dims[..]].concat()));
    }
    dims.rotate_left(1);
    draft.input(dims, x.dtype, Fill::Small)
}

/// The points of the iteration space of a product, and of its contracted part, if `kept` is kept.
fn points(x: &Known, w: &Known, kept: impl Fn(&str) -> bool) -> (u64, u64) {
    let mut all = x.dims.clone();
    all.extend(w.dims.iter().filter(|(name, _)| !x.has(name)).cloned());
    let contracted = all.iter().filter(|(name, _)| !kept(name)).map(|(_, size)| size).product();
    (all.iter().map(|(_, size)| size).product(), contracted)
}

fn product(draft: &mut Draft, dice: &mut Dice<'_>, name: &str) -> Drawn {
    let x = operand(draft, dice, |x| float(x) && !x.dims.is_empty())?;
    let w = weight(draft, dice, &x)?;
    let last = x.dims.last()?.0.clone();
    // Shared dims but the last are batch dims, or contracted where the result leaves them out.
    let mut result: Vec<&str> =
        x.dims.iter().map(|(dim, _)| dim.as_str()).filter(|dim| *dim != last).collect();
    result.extend(w.dims.iter().map(|(dim, _)| dim.as_str()).filter(|dim| !x.has(dim)));
    let asked = match dice.below(4) {
        3 => {
            let shared = |dim: &&str| x.has(dim) && w.has(dim);
            if let Some(at) = result.iter().position(shared) {
                result.remove(at);
            }
            if !result.is_empty() {
                result.rotate_left(1);
            }
            format!(" -> [{}]", result.join(", "))
        }
        _ => String::new(),
    };
    let (all, contracted) = points(&x, &w, |dim| result.contains(&dim));
    let mut bound = x.bound * w.bound * contracted as f64;
    let mut bias = String::new();
    if name == "linear" && dice.below(2) == 1 {
        let dims: Vec<(String, u64)> = w.dims.iter().filter(|(dim, _)| !x.has(dim)).cloned().collect();
        let b = draft.input(dims, x.dtype, Fill::Small)?;
        bound += b.bound;
        bias = format!(", {}", b.name);
    }
    let call = format!("{name}({}, {}{bias}){asked}", x.name, w.name);
    (all <= MOST_POINTS).then_some(Attempt { call, bound, exactness: Exactness::Whole })
}

fn linear(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    product(draft, dice, "linear")
}

fn matmul(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    product(draft, dice, "matmul")
}

fn einsum(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, float)?;
    let w = operand(draft, dice, |w| float(w) && w.dtype == x.dtype && w.name != x.name)?;
    let mut union: Vec<String> = x.dims.iter().map(|(dim, _)| dim.clone()).collect();
    union.extend(w.dims.iter().map(|(dim, _)| dim.clone()).filter(|dim| !x.has(dim)));
    let mask = dice.below(256);
    let mut result: Vec<String> =
        union.iter().enumerate().filter(|(at, _)| mask >> at & 1 == 0).map(|(_, dim)| dim.clone()).collect();
    let turn = dice.below(result.len());
    result.rotate_left(turn);
    let names = |value: &Known| value.dims.iter().map(|(dim, _)| dim.as_str()).collect::<Vec<_>>().join(" ");
    let (all, contracted) = points(&x, &w, |dim| result.iter().any(|kept| kept == dim));
    let call =
        format!("einsum(\"{}, {} -> {}\", {}, {})", names(&x), names(&w), result.join(" "), x.name, w.name);
    let bound = x.bound * w.bound * contracted as f64;
    (all <= MOST_POINTS).then_some(Attempt { call, bound, exactness: Exactness::Whole })
}

fn zip(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let name = ["add", "mul", "sub", "maximum", "minimum", "div"][dice.below(6)];
    let a = operand(draft, dice, |a| number(a) && tight(a) && (name != "div" || a.dtype.is_float()))?;
    let b = operand(draft, dice, |b| b.dtype == a.dtype && tight(b))?;
    let bound = match name {
        "add" | "sub" => a.bound + b.bound,
        "mul" => a.bound * b.bound,
        _ => a.bound.max(b.bound),
    };
    let at_least = if name == "div" { Exactness::Fraction } else { Exactness::Whole };
    let exactness = a.exactness.max(b.exactness).max(at_least);
    Some(Attempt { call: format!("{name}({}, {})", a.name, b.name), bound, exactness })
}

fn with_number(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let name = ["add", "mul", "sub", "maximum", "minimum"][dice.below(5)];
    let x = operand(draft, dice, |x| number(x) && tight(x))?;
    let (text, value, exactness) = match dice.below(6) {
        0 => ("2", 2.0, x.exactness),
        1 => ("-1", 1.0, x.exactness),
        2 => ("0", 0.0, x.exactness),
        3 if x.dtype.is_float() => ("0.5", 0.5, Exactness::Fraction),
        4 if x.dtype.is_float() => ("-inf", 0.0, Exactness::Fraction),
        _ => ("3", 3.0, x.exactness),
    };
    let call = if dice.below(2) == 0 {
        format!("{name}({}, {text})", x.name)
    } else {
        format!("{name}({text}, {})", x.name)
    };
    let bound = if name == "mul" { x.bound * f64::max(value, 1.0) } else { x.bound + value };
    Some(Attempt { call, bound, exactness })
}

/// A dim of a value.
fn dim_of(dice: &mut Dice<'_>, x: &Known) -> Option<(String, u64)> {
    dice.pick(&x.dims).cloned()
}

fn reduce(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let name = ["sum", "max", "min", "mean"][dice.below(4)];
    let sums = matches!(name, "sum" | "mean");
    let x = operand(draft, dice, |x| {
        number(x) && (whole(x) || !sums && tight(x)) && (name != "mean" || x.dtype.is_float())
    })?;
    let (first, mut size) = dim_of(dice, &x)?;
    let mut dims = vec![first];
    if dice.below(3) == 2 {
        let (second, more) = dim_of(dice, &x)?;
        if !dims.contains(&second) {
            dims.push(second);
            size *= more;
        }
    }
    let bound = if sums { x.bound * size.max(1) as f64 } else { x.bound };
    // Of nothing there is no number to bound.
    let fraction = name == "mean" || size == 0 && !sums && x.dtype.is_float();
    let exactness = if fraction { Exactness::Fraction } else { x.exactness };
    Some(Attempt { call: format!("{name}({}, {})", x.name, dims.join(", ")), bound, exactness })
}

fn argmax(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| number(x) && tight(x))?;
    let (dim, size) = dim_of(dice, &x)?;
    let call = format!("argmax({}, {dim})", x.name);
    Some(Attempt { call, bound: size as f64, exactness: Exactness::Whole })
}

fn permute(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| x.dims.len() > 1)?;
    let names: Vec<&str> = x.dims.iter().map(|(dim, _)| dim.as_str()).collect();
    let mut turned = names.clone();
    let turn = 1 + dice.below(turned.len() - 1);
    turned.rotate_left(turn);
    like(&x, format!("rearrange({}, \"{} -> {}\")", x.name, names.join(" "), turned.join(" ")))
}

fn split(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| !x.dims.is_empty())?;
    let at = dice.below(x.dims.len());
    let inner = [2, 3, 1, 4][dice.below(4)];
    if !x.dims[at].1.is_multiple_of(inner) {
        return None;
    }
    let (outer, inner_dim) = (draft.fresh_dim(), draft.fresh_dim());
    let names = |group: String| {
        let mut names: Vec<String> = x.dims.iter().map(|(dim, _)| dim.clone()).collect();
        names[at] = group;
        names.join(" ")
    };
    let left = names(format!("({outer} {inner_dim})"));
    let right = if dice.below(2) == 0 {
        names(format!("{outer} {inner_dim}"))
    } else {
        names(format!("{inner_dim} {outer}"))
    };
    like(&x, format!("rearrange({}, \"{left} -> {right}\", {inner_dim}={inner})", x.name))
}

fn merge(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| x.dims.len() > 1)?;
    let names: Vec<String> = x.dims.iter().map(|(dim, _)| dim.clone()).collect();
    let at = dice.below(names.len() - 1);
    let merged = draft.fresh_dim();
    let (a, b) = if dice.below(3) < 2 { (at, at + 1) } else { (at + 1, at) };
    let mut right: Vec<String> = names.clone();
    right[at] = format!("{merged}=({} {})", names[a], names[b]);
    right.remove(at + 1);
    like(&x, format!("rearrange({}, \"{} -> {}\")", x.name, names.join(" "), right.join(" ")))
}

fn rename(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| !x.dims.is_empty())?;
    let (dim, size) = dim_of(dice, &x)?;
    let new = draft.fresh_dim_of(size);
    like(&x, format!("rename({}, {dim} -> {new})", x.name))
}

fn slice(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| !x.dims.is_empty())?;
    let (dim, size) = dim_of(dice, &x)?;
    let start = dice.below(size as usize + 1) as u64;
    let end = start + dice.below((size - start) as usize + 1) as u64;
    let new = draft.fresh_dim();
    like(&x, format!("slice({}, {dim} -> {new}, {start}, {end})", x.name))
}

fn pad(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| !x.dims.is_empty())?;
    let (dim, _) = dim_of(dice, &x)?;
    let new = draft.fresh_dim();
    like(&x, format!("pad({}, {dim} -> {new}, {}, {})", x.name, dice.below(4), dice.below(4)))
}

fn concat(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |x| !x.dims.is_empty())?;
    let at = dice.below(x.dims.len());
    let fits = |y: &Known| {
        y.dtype == x.dtype
            && y.dims.len() == x.dims.len()
            && (0..x.dims.len()).all(|dim| dim == at || x.dims[dim] == y.dims[dim])
    };
    let y = operand(draft, dice, fits)?;
    let z = if dice.below(3) == 2 { format!(", {}", x.name) } else { String::new() };
    let new = draft.fresh_dim();
    let call = format!("concat({new}, {}, {}{z})", x.name, y.name);
    let exactness = x.exactness.max(y.exactness);
    Some(Attempt { call, bound: x.bound.max(y.bound), exactness })
}

fn broadcast(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, |_| true)?;
    if dice.below(2) == 0 {
        let (dim, _) = draft.other_dim(dice, &x.dims)?;
        return like(&x, format!("broadcast({}, {dim})", x.name));
    }
    let new = draft.fresh_dim();
    like(&x, format!("broadcast({}, {new}={})", x.name, 1 + dice.below(5)))
}

fn loose(call: String) -> Drawn {
    Some(Attempt { call, bound: f64::INFINITY, exactness: Exactness::Loose })
}

/// Wide enough that the last bits stay below the tolerance.
fn wide(value: &Known) -> bool {
    moderate(value) && matches!(value.dtype, DType::F32 | DType::F64)
}

/// Not so large that differences are lost.
fn moderate(value: &Known) -> bool {
    float(value) && value.bound < 1000.0
}

fn softmax(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let name = ["softmax", "log_softmax"][dice.below(2)];
    let x = operand(draft, dice, moderate)?;
    let (dim, _) = dim_of(dice, &x)?;
    loose(format!("{name}({}, {dim})", x.name))
}

fn function(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let names = ["gelu", "exp", "sigmoid", "tanh", "silu", "gelu_tanh", "sin", "cos", "sqrt", "rsqrt", "log"];
    let name = names[dice.below(names.len())];
    let x = operand(draft, dice, |x| wide(x) && x.bound < 80.0)?;
    loose(format!("{name}({})", x.name))
}

fn norm(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, moderate)?;
    let (dim, size) = dim_of(dice, &x)?;
    // Of one element the norm is 0 or a sign, and what is left is noise.
    if size < 2 {
        return None;
    }
    let gain = draft.input(vec![(dim.clone(), size)], x.dtype, Fill::Small)?;
    let shift = draft.input(vec![(dim.clone(), size)], x.dtype, Fill::Small)?;
    loose(match dice.below(6) {
        0 => format!("rms_norm({}, {}, {dim})", x.name, gain.name),
        1 => format!("layer_norm({}, {}, {}, {dim})", x.name, gain.name, shift.name),
        2 => format!("layer_norm({}, {dim})", x.name),
        3 => format!("layer_norm({}, {}, {dim})", x.name, gain.name),
        4 => format!("rms_norm({}, {dim})", x.name),
        _ => format!("rms_norm({}, {dim}, eps=0.5)", x.name),
    })
}

fn compare(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let names = ["less", "less_equal", "greater", "greater_equal", "equal", "not_equal"];
    let name = names[dice.below(names.len())];
    let a = operand(draft, dice, tight)?;
    let b = operand(draft, dice, |b| b.dtype == a.dtype && tight(b))?;
    let call = format!("{name}({}, {})", a.name, b.name);
    Some(Attempt { call, bound: 1.0, exactness: Exactness::Whole })
}

fn logic(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let a = operand(draft, dice, |a| a.dtype == DType::Bool)?;
    let b = operand(draft, dice, |b| b.dtype == DType::Bool)?;
    let call = match dice.below(3) {
        0 => format!("not({})", a.name),
        1 => format!("and({}, {})", a.name, b.name),
        _ => format!("or({}, {})", a.name, b.name),
    };
    Some(Attempt { call, bound: 1.0, exactness: Exactness::Whole })
}

fn choose(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let a = operand(draft, dice, tight)?;
    let old = operand(draft, dice, |c| c.dtype == DType::Bool);
    let c = old.or_else(|| draft.input(a.dims.clone(), DType::Bool, Fill::Small))?;
    let b = operand(draft, dice, |b| b.dtype == a.dtype && tight(b))?;
    let (call, bound, exactness) = match dice.below(3) {
        2 if number(&a) => (format!("where({}, {}, 0)", c.name, a.name), a.bound, a.exactness),
        _ => {
            let exactness = a.exactness.max(b.exactness);
            (format!("where({}, {}, {})", c.name, a.name, b.name), a.bound.max(b.bound), exactness)
        }
    };
    Some(Attempt { call, bound, exactness })
}

fn cast(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let x = operand(draft, dice, tight)?;
    let dtype = DType::ALL[dice.below(DType::ALL.len())];
    // A fraction is rounded again; what has no bound may become anything.
    let exactness = if dtype.is_float() { x.exactness } else { Exactness::Whole };
    let bound = match (x.exactness, dtype) {
        (_, DType::Bool) => 1.0,
        (Exactness::Whole, _) if x.dtype.is_float() || x.bound < 1e6 => x.bound,
        _ => f64::INFINITY,
    };
    Some(Attempt { call: format!("cast({}, {dtype})", x.name), bound, exactness })
}

fn embedding(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let table = operand(draft, dice, |table| table.dims.len() == 2 && table.dims[0].1 > 0)?;
    let rows = table.dims[0].1;
    let mut dims: Vec<(String, u64)> = Vec::new();
    for _ in 0..dice.below(3) {
        dims.extend(draft.other_dim(dice, &[&dims[..], &table.dims[..]].concat()));
    }
    let dtype = [DType::I64, DType::I32][dice.below(2)];
    let ids = draft.input(dims, dtype, Fill::Mod(rows))?;
    like(&table, format!("embedding({}, {})", ids.name, table.name))
}

fn iota(draft: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let (dim, size) = draft.other_dim(dice, &[])?;
    Some(Attempt { call: format!("iota({dim})"), bound: size as f64, exactness: Exactness::Whole })
}

fn full(_: &mut Draft, dice: &mut Dice<'_>) -> Drawn {
    let (text, exactness) = [("2", Exactness::Whole), ("1.5", Exactness::Fraction)][dice.below(2)];
    let dtype = [DType::F32, DType::Bf16, DType::F64][dice.below(3)];
    Some(Attempt { call: format!("full({text}, {dtype})"), bound: 2.0, exactness })
}
