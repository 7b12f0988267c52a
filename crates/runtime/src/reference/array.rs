//! Arrays of the reference: numbers in `f64` or `i64`, dims by name.

use super::round::{round, round_integer};
use crate::tensor::Tensor;
use half::{bf16, f16};
use shardweave_compiler::dtype::DType;

/// The elements of an array.
#[derive(Clone, Debug)]
pub(super) enum Numbers {
    /// Of a floating point type.
    Floats(Vec<f64>),
    /// Of an integer type, or bools as 0 and 1.
    Integers(Vec<i64>),
}

/// A row-major array whose dims have names.
#[derive(Clone, Debug)]
pub(super) struct Array {
    pub dims: Vec<(String, usize)>,
    pub numbers: Numbers,
}

impl Array {
    /// The elements of a tensor, exactly.
    pub fn load(tensor: &Tensor, names: impl IntoIterator<Item = String>) -> Array {
        let dims = names.into_iter().zip(tensor.shape().iter().map(|&size| size as usize)).collect();
        let numbers = match tensor.dtype() {
            DType::F64 => Numbers::Floats(tensor.elements().to_vec()),
            DType::F32 => Numbers::Floats(tensor.elements::<f32>().iter().map(|&x| x.into()).collect()),
            DType::Bf16 => Numbers::Floats(tensor.elements::<bf16>().iter().map(|&x| x.into()).collect()),
            DType::F16 => Numbers::Floats(tensor.elements::<f16>().iter().map(|&x| x.into()).collect()),
            DType::I64 => Numbers::Integers(tensor.elements().to_vec()),
            DType::I32 => Numbers::Integers(tensor.elements::<i32>().iter().map(|&x| x.into()).collect()),
            DType::Bool => Numbers::Integers(tensor.bytes().iter().map(|&x| x.into()).collect()),
        };
        Array { dims, numbers }
    }

    /// The elements rounded to a type (integers wrap).
    pub fn store(&self, dtype: DType) -> Tensor {
        let shape: Vec<u64> = self.dims.iter().map(|(_, size)| *size as u64).collect();
        match (&self.numbers, dtype) {
            (Numbers::Floats(all), DType::F64) => Tensor::from_elements(&shape, all),
            (Numbers::Floats(all), DType::F32) => {
                Tensor::from_elements(&shape, &all.iter().map(|&x| x as f32).collect::<Vec<_>>())
            }
            (Numbers::Floats(all), DType::Bf16) => {
                let exact = |&x: &f64| bf16::from_f32(round(x, dtype) as f32);
                Tensor::from_elements(&shape, &all.iter().map(exact).collect::<Vec<_>>())
            }
            (Numbers::Floats(all), DType::F16) => {
                let exact = |&x: &f64| f16::from_f32(round(x, dtype) as f32);
                Tensor::from_elements(&shape, &all.iter().map(exact).collect::<Vec<_>>())
            }
            (Numbers::Integers(all), DType::I64) => Tensor::from_elements(&shape, all),
            (Numbers::Integers(all), DType::I32) => {
                Tensor::from_elements(&shape, &all.iter().map(|&x| x as i32).collect::<Vec<_>>())
            }
            (Numbers::Integers(all), DType::Bool) => {
                Tensor::from_bools(&shape, &all.iter().map(|&x| x != 0).collect::<Vec<_>>())
            }
            (numbers, dtype) => unreachable!("{numbers:?} are no values of {dtype}"),
        }
    }

    /// Rust's `as`.
    pub fn cast(&self, dtype: DType) -> Array {
        let numbers = match (&self.numbers, dtype) {
            (Numbers::Floats(all), DType::I64) => Numbers::Integers(all.iter().map(|&x| x as i64).collect()),
            (Numbers::Floats(all), DType::I32) => {
                Numbers::Integers(all.iter().map(|&x| i64::from(x as i32)).collect())
            }
            (Numbers::Floats(all), DType::Bool) => {
                Numbers::Integers(all.iter().map(|&x| i64::from(x != 0.0)).collect())
            }
            (Numbers::Integers(all), dtype) if dtype.is_float() => {
                Numbers::Floats(all.iter().map(|&i| round_integer(i.into(), dtype)).collect())
            }
            (numbers, _) => numbers.clone(),
        };
        Array { dims: self.dims.clone(), numbers }
    }

    /// The same array with other names for its dims.
    pub fn named(mut self, names: impl IntoIterator<Item = String>) -> Array {
        for (dim, name) in self.dims.iter_mut().zip(names) {
            dim.0 = name;
        }
        self
    }

    /// The size of a dim.
    pub fn size(&self, name: &str) -> usize {
        self.dims.iter().find(|(n, _)| n == name).map_or(1, |(_, size)| *size)
    }

    /// Whether there is a dim of that name.
    pub fn has(&self, name: &str) -> bool {
        self.dims.iter().any(|(n, _)| n == name)
    }

    /// How far it is from one index of a dim to the next; 0 without such a dim.
    pub fn step(&self, name: &str) -> usize {
        match self.dims.iter().position(|(n, _)| n == name) {
            Some(at) => self.dims[at + 1..].iter().map(|(_, size)| size).product(),
            None => 0,
        }
    }

    /// The floats.
    pub fn floats(&self) -> &[f64] {
        match &self.numbers {
            Numbers::Floats(all) => all,
            Numbers::Integers(_) => unreachable!("the compiler lets no integers into this operation"),
        }
    }

    /// The integers.
    pub fn integers(&self) -> &[i64] {
        match &self.numbers {
            Numbers::Integers(all) => all,
            Numbers::Floats(_) => unreachable!("the compiler lets no floats into this operation"),
        }
    }

    /// The elements at the given positions.
    pub fn pick(&self, positions: impl Iterator<Item = usize>) -> Numbers {
        match &self.numbers {
            Numbers::Floats(all) => Numbers::Floats(positions.map(|at| all[at]).collect()),
            Numbers::Integers(all) => Numbers::Integers(positions.map(|at| all[at]).collect()),
        }
    }

    /// The array with the given dims: in their order, repeated along those it does not have.
    pub fn spread(&self, dims: &[(String, usize)]) -> Array {
        if self.dims == dims {
            return self.clone();
        }
        let steps: Vec<usize> = dims.iter().map(|(name, _)| self.step(name)).collect();
        Array { dims: dims.to_vec(), numbers: self.pick(positions(dims, &steps, 0)) }
    }
}

/// For each index of an array with these dims, row-major, a position: `start` and for each dim the
/// index times the dim's step.
pub(super) fn positions<'a>(
    dims: &'a [(String, usize)],
    steps: &'a [usize],
    start: usize,
) -> impl Iterator<Item = usize> + 'a {
    let count: usize = dims.iter().map(|(_, size)| size).product();
    (0..count).map(move |index| {
        let (mut rest, mut at) = (index, start);
        for ((_, size), step) in dims.iter().zip(steps).rev() {
            at += rest % size * step;
            rest /= size;
        }
        at
    })
}
