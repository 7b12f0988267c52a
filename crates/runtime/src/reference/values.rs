//! One value from its definition.

use super::array::{Array, Numbers};
use super::contract::contract;
use super::elements::{compare, map_float, map_integer, zip_floats, zip_integers};
use super::{ReferenceError, dims, round};
use crate::tensor::Tensor;
use shardweave_compiler::dtype::{DType, Number};
use shardweave_compiler::id::Table;
use shardweave_compiler::op::{Group, Map, Op, Pattern, Zip};
use shardweave_compiler::program::{Apply, Operand, Program, Sizes, ValueId};

/// The value `id`, rounded to its type.
pub(super) fn compute(
    program: &Program,
    sizes: &Sizes,
    id: ValueId,
    apply: &Apply,
    values: &Table<ValueId, Option<Tensor>>,
) -> Result<Tensor, ReferenceError> {
    let value = &program.values()[id];
    let dim = |&dim| (program.dims()[dim].name.clone(), sizes[dim] as usize);
    let result: Vec<(String, usize)> = value.dims.iter().map(dim).collect();
    let dtype = apply.values().next().map_or(value.dtype, |first| program.values()[first].dtype);
    // In `where` the numbers take the type of the result, not of the condition.
    let number_type = if apply.op == Op::Where { value.dtype } else { dtype };
    let load = |operand: &Operand| match operand {
        Operand::Number(number) => scalar(*number, number_type),
        Operand::Value(v) => {
            let tensor = values[*v].as_ref().expect("operands are computed before");
            Array::load(tensor, program.values()[*v].dims.iter().map(|&d| program.dims()[d].name.clone()))
        }
    };
    let operands: Vec<Array> = apply.operands.iter().map(load).collect();
    if apply.op == Op::Embedding {
        return Ok(embedding(&value.name, &operands, &result)?.store(value.dtype));
    }
    Ok(apply_op(&apply.op, operands, &result).store(value.dtype))
}

fn apply_op(op: &Op, operands: Vec<Array>, result: &[(String, usize)]) -> Array {
    match op {
        Op::Linear => linear(operands, result),
        Op::Matmul => contract(operands, result),
        Op::Einsum(pattern) => contract(named_by(pattern, operands), result),
        Op::Map(map) => map_all(*map, &operands[0].spread(result)),
        Op::Cast(dtype) => operands[0].cast(*dtype).spread(result),
        Op::Zip(zip) => zip_all(*zip, &operands[0].spread(result), &operands[1].spread(result)),
        Op::Where => choose(operands.iter().map(|x| x.spread(result)).collect()),
        Op::Reduce(reduce, _) => dims::reduce(*reduce, &operands[0], result),
        Op::ArgMax(dim) => dims::argmax(dim, &operands[0], result),
        Op::Softmax(dim) => dims::lanes(dim, &operands[0], result, dims::softmax),
        Op::LogSoftmax(dim) => dims::lanes(dim, &operands[0], result, dims::log_softmax),
        Op::LayerNorm { dim, eps } => {
            let normal = dims::lanes(dim, &operands[0], result, |lane| dims::layer_norm(lane, *eps));
            scaled(normal, &operands[1..], result)
        }
        Op::RmsNorm { dim, eps } => {
            let normal = dims::lanes(dim, &operands[0], result, |lane| dims::rms_norm(lane, *eps));
            scaled(normal, &operands[1..], result)
        }
        Op::Rearrange { pattern, sizes } => dims::rearrange(&operands[0], pattern, sizes, result),
        Op::Rename(pairs) => rename(pairs, &operands[0]).spread(result),
        Op::Slice { dim, to, start, .. } => dims::slice(&operands[0], dim, to, *start as usize, result),
        Op::Pad { dim, to, before, after } => {
            dims::pad(&operands[0], dim, to, [*before as usize, *after as usize], result)
        }
        Op::Concat { to } => dims::concat(&operands, to, result),
        Op::Broadcast { .. } | Op::Reshard => operands[0].spread(result),
        Op::Iota(_) => {
            let numbers = Numbers::Integers((0..result[0].1 as i64).collect());
            Array { dims: result.to_vec(), numbers }
        }
        Op::Full(number, dtype) => scalar(*number, *dtype),
        Op::Embedding => unreachable!("it can fail, so it has its own way"),
        Op::Summary(..) | Op::Finish(..) => unreachable!("a program has no {}", op.name()),
    }
}

/// A number of a program as an array without dims.
fn scalar(number: Number, dtype: DType) -> Array {
    let numbers = match (dtype.is_float(), number) {
        (true, _) => Numbers::Floats(vec![round::number(number, dtype)]),
        (false, Number::Int(i)) => Numbers::Integers(vec![i as i64]),
        (false, Number::Float(_)) => unreachable!("the compiler lets no fraction become {dtype}"),
    };
    Array { dims: Vec::new(), numbers }
}

/// The bias is added once to each element of the product.
fn linear(mut operands: Vec<Array>, result: &[(String, usize)]) -> Array {
    let bias = (operands.len() == 3).then(|| operands.remove(2));
    let product = contract(operands, result);
    match bias {
        Some(bias) => zip_all(Zip::Add, &product, &bias.spread(result)),
        None => product,
    }
}

/// Times the first of the others, plus the second.
fn scaled(normal: Array, others: &[Array], result: &[(String, usize)]) -> Array {
    let operations = [Zip::Mul, Zip::Add].into_iter().zip(others);
    operations.fold(normal, |at, (zip, other)| zip_all(zip, &at, &other.spread(result)))
}

/// The pattern names the operands' dims by position.
fn named_by(pattern: &Pattern, operands: Vec<Array>) -> Vec<Array> {
    let named = |(x, groups): (Array, &Vec<Group>)| x.named(groups.iter().map(Group::to_string));
    operands.into_iter().zip(&pattern.operands).map(named).collect()
}

fn rename(pairs: &[(String, String)], x: &Array) -> Array {
    let new = |name: &String| pairs.iter().find(|(from, _)| from == name).map_or(name, |(_, to)| to).clone();
    let names: Vec<String> = x.dims.iter().map(|(name, _)| new(name)).collect();
    x.clone().named(names)
}

fn map_all(map: Map, x: &Array) -> Array {
    let numbers = match &x.numbers {
        Numbers::Floats(all) => Numbers::Floats(all.iter().map(|&x| map_float(map, x)).collect()),
        Numbers::Integers(all) => Numbers::Integers(all.iter().map(|&x| map_integer(map, x)).collect()),
    };
    Array { dims: x.dims.clone(), numbers }
}

/// Two arrays with the same dims.
fn zip_all(zip: Zip, a: &Array, b: &Array) -> Array {
    let numbers = match (&a.numbers, &b.numbers) {
        (Numbers::Floats(a), Numbers::Floats(b)) => {
            let pairs = a.iter().zip(b);
            if zip.is_comparison() {
                Numbers::Integers(pairs.map(|(a, b)| i64::from(compare(zip, a, b))).collect())
            } else {
                Numbers::Floats(pairs.map(|(&a, &b)| zip_floats(zip, a, b)).collect())
            }
        }
        (Numbers::Integers(a), Numbers::Integers(b)) => {
            let pairs = a.iter().zip(b);
            if zip.is_comparison() {
                Numbers::Integers(pairs.map(|(a, b)| i64::from(compare(zip, a, b))).collect())
            } else {
                Numbers::Integers(pairs.map(|(&a, &b)| zip_integers(zip, a, b)).collect())
            }
        }
        _ => unreachable!("the compiler lets no two types into one operation"),
    };
    Array { dims: a.dims.clone(), numbers }
}

/// `where(c, a, b)`, all with the same dims.
fn choose(operands: Vec<Array>) -> Array {
    let [c, a, b] = &operands[..] else { unreachable!("`where` has three operands") };
    let numbers = match (&a.numbers, &b.numbers) {
        (Numbers::Floats(a), Numbers::Floats(b)) => Numbers::Floats(either(c.integers(), a, b)),
        (Numbers::Integers(a), Numbers::Integers(b)) => Numbers::Integers(either(c.integers(), a, b)),
        _ => unreachable!("the compiler lets no two types into one `where`"),
    };
    Array { dims: a.dims.clone(), numbers }
}

fn either<T: Copy>(c: &[i64], a: &[T], b: &[T]) -> Vec<T> {
    c.iter().zip(a.iter().zip(b)).map(|(&c, (&a, &b))| if c != 0 { a } else { b }).collect()
}

/// `embedding(ids, table)`: for each id its row.
fn embedding(value: &str, operands: &[Array], result: &[(String, usize)]) -> Result<Array, ReferenceError> {
    let [ids, table] = operands else { unreachable!("`embedding` has two operands") };
    let (rows, row) = (table.dims[0].1, table.dims[1..].to_vec());
    let length: usize = row.iter().map(|(_, size)| size).product();
    let mut positions = Vec::new();
    for &id in ids.integers() {
        let at = usize::try_from(id).ok().filter(|&at| at < rows);
        let at = at.ok_or(ReferenceError::IdOutOfRange { value: value.into(), id, rows: rows as u64 })?;
        positions.extend(at * length..(at + 1) * length);
    }
    let dims = [ids.dims.clone(), row].concat();
    Ok(Array { dims, numbers: table.pick(positions.into_iter()) }.spread(result))
}
