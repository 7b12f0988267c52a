//! Operations cut over devices against the same operations whole.
//!
//! Every dim of an operation's space that may be cut is cut at random: into runs and blocks, uneven and
//! empty ones among them. Each piece is computed alone; parts of a combined dim are put together with
//! its operator. On integer-valued data the result must be that of the whole operation, bit for bit,
//! and signs of zeros too.

use super::programs::Draw;
use super::shapes::{made_up, sound};
use super::single;
use half::{bf16, f16};
use shardweave_compiler::dtype::{Combine, DType};
use shardweave_compiler::id::{Id, Table};
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::{DimUse, Op, Reduce, Space, SpaceId};
use shardweave_compiler::program::Operand;
use shardweave_runtime::compare::compare;
use shardweave_runtime::kernels::{self, Input, Output, Pieces, Scratch, compute};
use shardweave_runtime::tensor::{Tensor, copy_piece, for_each_run};

/// A way to cut a dim: sets that have every index once.
fn cut(draw: &mut Draw, size: u64) -> Vec<IndexSet> {
    let count = 1 + draw.below(3);
    let block = 1 + draw.below(4) as u64;
    let runs = draw.coin();
    let owner = |index: u64| {
        if runs { (index * count as u64 / size.max(1)) as usize } else { (index / block) as usize % count }
    };
    let set = |piece| IndexSet::from_blocks((0..size).filter(|&i| owner(i) == piece).map(|i| (i, i + 1)));
    (0..count).map(set).collect()
}

/// Which of the ways' sets stand together: all combinations of `some` dims.
fn combinations(ways: &Table<SpaceId, Vec<IndexSet>>, some: impl Fn(SpaceId) -> bool) -> Vec<Vec<usize>> {
    let mut all = vec![vec![0; ways.len()]];
    for (dim, sets) in ways.iter().filter(|&(dim, _)| some(dim)) {
        let longer = |chosen: Vec<usize>| {
            (0..sets.len()).map(move |set| {
                let mut chosen = chosen.clone();
                chosen[dim.index()] = set;
                chosen
            })
        };
        all = all.into_iter().flat_map(longer).collect();
    }
    all
}

/// Windows hold what is held of the dim that they are a part of.
fn with_windows(space: &Space, mut held: Vec<IndexSet>) -> Vec<IndexSet> {
    for dim in space.dims.keys() {
        if let Some((of, range)) = space.window(dim) {
            held[dim.index()] = held[of.index()].within(&range);
        }
    }
    held
}

/// The dims of a value as its piece has them, with what is held.
fn atoms(space: &Space, dims: &[Vec<SpaceId>], held: &[IndexSet]) -> (Vec<u64>, Vec<IndexSet>) {
    let ids = || dims.iter().flatten();
    (ids().map(|&id| space.dims[id].size).collect(), ids().map(|&id| held[id.index()].clone()).collect())
}

/// Half types as `f32`, as partial values are stored.
fn widened(tensor: &Tensor) -> Tensor {
    let floats: Vec<f32> = match tensor.dtype() {
        DType::Bf16 => tensor.elements::<bf16>().iter().map(|x| x.to_f32()).collect(),
        DType::F16 => tensor.elements::<f16>().iter().map(|x| x.to_f32()).collect(),
        _ => return tensor.clone(),
    };
    Tensor::from_elements(tensor.shape(), &floats)
}

/// `f32` as half types: the one rounding of a partial value.
fn narrowed(tensor: &Tensor, dtype: DType) -> Tensor {
    if tensor.dtype() == dtype {
        return tensor.clone();
    }
    match dtype {
        DType::Bf16 => {
            let halves: Vec<_> = tensor.elements::<f32>().iter().map(|&x| bf16::from_f32(x)).collect();
            Tensor::from_elements(tensor.shape(), &halves)
        }
        DType::F16 => {
            let halves: Vec<_> = tensor.elements::<f32>().iter().map(|&x| f16::from_f32(x)).collect();
            Tensor::from_elements(tensor.shape(), &halves)
        }
        _ => tensor.clone(),
    }
}

/// Small integers of any sign, zeros of both signs among them; integers and bools stay.
fn integer_valued(tensor: &Tensor) -> Tensor {
    let round = |x: f64| (x * 3.0).round().clamp(-4.0, 4.0);
    let shape = tensor.shape();
    match tensor.dtype() {
        DType::F64 => {
            let all: Vec<_> = tensor.elements::<f64>().iter().map(|&x| round(x)).collect();
            Tensor::from_elements(shape, &all)
        }
        DType::F32 | DType::Bf16 | DType::F16 => {
            let all = widened(tensor);
            let all: Vec<_> = all.elements::<f32>().iter().map(|&x| round(x.into()) as f32).collect();
            narrowed(&Tensor::from_elements(shape, &all), tensor.dtype())
        }
        _ => tensor.clone(),
    }
}

/// Bits that are equal if elements are: all NaN are one.
fn bits(tensor: &Tensor) -> Vec<u64> {
    let float = |x: f64| if x.is_nan() { u64::MAX } else { x.to_bits() };
    match tensor.dtype() {
        DType::F64 => tensor.elements::<f64>().iter().map(|&x| float(x)).collect(),
        DType::F32 | DType::Bf16 | DType::F16 => {
            widened(tensor).elements::<f32>().iter().map(|&x| float(x.into())).collect()
        }
        DType::I64 => tensor.elements::<i64>().iter().map(|&x| x as u64).collect(),
        DType::I32 => tensor.elements::<i32>().iter().map(|&x| x as u64).collect(),
        DType::Bool => tensor.bytes().iter().map(|&x| x.into()).collect(),
    }
}

/// One operation, cut.
struct Cut<'a> {
    op: &'a Op,
    space: &'a Space,
    ways: Table<SpaceId, Vec<IndexSet>>,
    operands: Vec<CutOperand>,
    /// How the result is stored while it is partial.
    stored: DType,
}

enum CutOperand {
    Number(Input<'static>),
    Whole(Tensor),
}

impl Cut<'_> {
    /// The operation on one piece of the space.
    fn piece(&self, held: &[IndexSet], result_shape: &[u64]) -> Tensor {
        let pieces: Vec<Option<Tensor>> = self
            .operands
            .iter()
            .zip(&self.space.operands)
            .map(|(operand, dims)| {
                let CutOperand::Whole(tensor) = operand else { return None };
                let (sizes, sets) = atoms(self.space, dims, held);
                let shape: Vec<u64> = sets.iter().map(IndexSet::count).collect();
                let mut piece = Tensor::zeros(tensor.dtype(), &shape);
                copy_piece(tensor.bytes(), tensor.dtype(), &sizes, &sets, piece.bytes_mut());
                Some(piece)
            })
            .collect();
        let inputs: Vec<Input<'_>> = pieces
            .iter()
            .zip(&self.operands)
            .map(|(piece, operand)| match (piece, operand) {
                (Some(piece), _) => Input::Piece { bytes: piece.bytes(), dtype: piece.dtype() },
                (None, CutOperand::Number(number)) => *number,
                (None, CutOperand::Whole(_)) => unreachable!("it has a piece"),
            })
            .collect();
        let mut result = Tensor::zeros(self.stored, result_shape);
        // What was there before must not matter.
        if self.stored != DType::Bool {
            result.bytes_mut().fill(0x55);
        }
        let out = Output { bytes: result.bytes_mut(), dtype: self.stored };
        compute(self.op, self.space, &Pieces::new(self.space, held), &inputs, out, &Scratch::new())
            .expect("made-up ids exist");
        result
    }

    /// All pieces put together.
    fn whole(&self, shape: &[u64]) -> Tensor {
        let mut result = Tensor::zeros(self.stored, shape);
        let combined = |dim: SpaceId| matches!(self.space.dims[dim].usage, DimUse::Combined(_));
        let combine = self.space.dims.values().find_map(|dim| match dim.usage {
            DimUse::Combined(combine) => Some(combine),
            _ => None,
        });
        for kept in combinations(&self.ways, |dim| !combined(dim)) {
            let mut total: Option<Tensor> = None;
            let mut place = (Vec::new(), Vec::new());
            for parts in combinations(&self.ways, combined) {
                let held: Vec<IndexSet> = self
                    .ways
                    .iter()
                    .map(|(dim, sets)| {
                        let chosen = if combined(dim) { &parts } else { &kept };
                        sets[chosen[dim.index()]].clone()
                    })
                    .collect();
                let held = with_windows(self.space, held);
                place = atoms(self.space, &self.space.result, &held);
                let piece_shape: Vec<u64> = place.1.iter().map(IndexSet::count).collect();
                let piece = self.piece(&held, &piece_shape);
                match &mut total {
                    None => total = Some(piece),
                    Some(total) => {
                        let combine = combine.unwrap_or(Combine::Sum);
                        kernels::combine(combine, self.stored, total.bytes_mut(), piece.bytes());
                    }
                }
            }
            let total = total.expect("there is at least one part");
            let (mut at, from) = (0, total.bytes());
            let to = result.bytes_mut();
            for_each_run(self.stored, &place.0, &place.1, |start, len| {
                to[start..start + len].copy_from_slice(&from[at..at + len]);
                at += len;
            });
        }
        result
    }
}

/// Whether every sum is exact whatever the order.
fn exact(op: &Op, space: &Space, dtype: DType) -> bool {
    let largest = match op {
        Op::Linear | Op::Matmul | Op::Einsum(_) => space.points() << (2 * space.operands.len()),
        Op::Reduce(Reduce::Mean, _) => u128::MAX,
        Op::Reduce(Reduce::Sum, _) => space.points() * 16,
        _ => 0,
    };
    !dtype.is_float() || largest < 1 << if dtype == DType::F64 { 53 } else { 24 }
}

fn check(seed: u64) -> bool {
    let Some((program, sizes, text)) = sound(seed) else { return false };
    let draw = &mut Draw(seed ^ 0x5555);
    let inputs =
        made_up(&program, &sizes, seed).into_iter().map(|(id, x)| (id, integer_valued(&x))).collect();
    let results = single::evaluate(&program, &sizes, &inputs).expect("made-up ids exist");
    let out = program.outputs()[0];
    let expected = results[out].as_ref().expect("it is an output");
    let Some(apply) = program.apply(out) else { return false };
    let space = program.space(out, &sizes).expect("it is no input");

    let with_bias = apply.op == Op::Linear && apply.operands.len() == 3;
    let mut partial = false;
    let ways: Table<SpaceId, Vec<IndexSet>> = space
        .dims
        .values()
        .map(|dim| match dim.usage {
            DimUse::Whole | DimUse::Summarised => vec![IndexSet::range(0, dim.size)],
            // A bias is added once: only where nothing is left to be added.
            DimUse::Combined(_) if with_bias => vec![IndexSet::range(0, dim.size)],
            DimUse::Combined(_) => {
                partial = true;
                cut(draw, dim.size)
            }
            DimUse::Kept => cut(draw, dim.size),
            DimUse::Window(_) => vec![IndexSet::range(0, 0)], // follows the dim that it is a part of
            DimUse::InParts | DimUse::PartsOf(_) => unreachable!("a program has no summaries"),
        })
        .collect();
    let stored = if partial { expected.dtype().wide() } else { expected.dtype() };
    let whole_inputs = single::operands(&program, out, apply, &results);
    let operands = apply.operands.iter().zip(whole_inputs).map(|(operand, input)| match (operand, input) {
        (Operand::Value(value), _) => {
            let tensor = results[*value].as_ref().expect("operands are computed before");
            CutOperand::Whole(if draw.coin() { widened(tensor) } else { tensor.clone() })
        }
        (Operand::Number(number), input) => CutOperand::Number(Input::Number(*number, input.dtype())),
    });
    let cut = Cut { op: &apply.op, space: &space, ways, operands: operands.collect(), stored };
    let result = narrowed(&cut.whole(expected.shape()), expected.dtype());
    if exact(&apply.op, &space, stored) {
        assert_eq!(bits(&result), bits(expected), "program {seed} cut as {:?}\n{text}", cut.ways);
    } else {
        let found = compare(&result, expected);
        assert!(found.ok, "program {seed} cut as {:?}: {found:?}\n{text}", cut.ways);
    }
    true
}

#[test]
fn pieces_put_together_are_the_whole() {
    let ran = (10_000..14_000).filter(|&seed| check(seed)).count();
    assert!(ran > 3600, "only {ran} programs could run");
}
