//! Inputs made up from a seed: what `--random SEED` gives.
//!
//! Element `i` (row-major, of the whole array) is a function of the seed, the input's name and `i`
//! alone, so every device makes its own piece and all placements see the same numbers:
//!
//! ```text
//!   seed, name ──▶ key      word n of an input = mix(key + (n + 1) gamma)      element i: words 2i, 2i + 1
//! ```
//!
//! `mix` and `gamma` are those of SplitMix64 (G. L. Steele, D. Lea, C. H. Flood, "Fast splittable
//! pseudorandom number generators", OOPSLA 2014), which is a function of a counter. Normal numbers are
//! made from two words as in G. E. P. Box, M. E. Muller, "A note on the generation of random normal
//! deviates" (1958), with the functions of the crate `libm`, which are the same on every machine.

use crate::tensor::{ArraySource, ReadError, for_each_run};
use half::{bf16, f16};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::Op;
use shardweave_compiler::program::{Operand, Program, Sizes, ValueId};

/// An input whose elements are made up: floats are normal, divided by the square root of the last dim's
/// size; integers are 0 to 9, and smaller than a table that they index; bools are a fair coin.
#[derive(Clone, Debug)]
pub struct RandomArray {
    seed: u64,
    key: u64,
    dtype: DType,
    shape: Vec<u64>,
    below: u64,
}

impl RandomArray {
    /// The array that a seed gives for an input.
    pub fn new(seed: u64, name: &str, dtype: DType, shape: &[u64]) -> RandomArray {
        RandomArray { seed, key: key(seed, name), dtype, shape: shape.to_vec(), below: 10 }
    }

    /// The array that a seed gives for an input of a program: its integers are ids that exist, where the
    /// program uses them as such.
    pub fn for_input(seed: u64, program: &Program, sizes: &Sizes, input: ValueId) -> RandomArray {
        let value = &program.values()[input];
        let shape: Vec<u64> = value.dims.iter().map(|&dim| sizes[dim]).collect();
        let mut array = RandomArray::new(seed, &value.name, value.dtype, &shape);
        let needed = program.needed();
        for user in program.values().keys().filter(|&user| needed[user]) {
            let Some(apply) = program.apply(user) else { continue };
            if let (Op::Embedding, [Operand::Value(ids), Operand::Value(table)]) =
                (&apply.op, &apply.operands[..])
                && *ids == input
            {
                array.below = array.below.min(sizes[program.values()[*table].dims[0]]);
            }
        }
        array
    }

    fn word(&self, index: u64) -> u64 {
        mix(self.key.wrapping_add(GAMMA.wrapping_mul(index.wrapping_add(1))))
    }

    /// A normal number, divided by the square root of the last dim's size.
    fn normal(&self, index: u64) -> f64 {
        let unit = |word: u64| (word >> 11) as f64 / (1u64 << 53) as f64;
        // In (0, 1], so that its logarithm is finite.
        let radius = 1.0 - unit(self.word(2 * index));
        let angle = unit(self.word(2 * index + 1));
        let normal = libm::sqrt(-2.0 * libm::log(radius)) * libm::cos(2.0 * std::f64::consts::PI * angle);
        normal / libm::sqrt(self.shape.last().copied().unwrap_or(1) as f64)
    }

    fn integer(&self, index: u64) -> u64 {
        ((u128::from(self.word(2 * index)) * u128::from(self.below)) >> 64) as u64
    }

    fn write(&self, index: u64, element: &mut [u8]) {
        match self.dtype {
            DType::F64 => element.copy_from_slice(&self.normal(index).to_le_bytes()),
            DType::F32 => element.copy_from_slice(&(self.normal(index) as f32).to_le_bytes()),
            DType::Bf16 => element.copy_from_slice(&bf16::from_f32(self.normal(index) as f32).to_le_bytes()),
            DType::F16 => element.copy_from_slice(&f16::from_f32(self.normal(index) as f32).to_le_bytes()),
            DType::I64 => element.copy_from_slice(&(self.integer(index) as i64).to_le_bytes()),
            DType::I32 => element.copy_from_slice(&(self.integer(index) as i32).to_le_bytes()),
            DType::Bool => element[0] = (self.word(2 * index) >> 63) as u8,
        }
    }
}

impl ArraySource for RandomArray {
    fn dtype(&self) -> DType {
        self.dtype
    }

    fn shape(&self) -> &[u64] {
        &self.shape
    }

    fn describe(&self) -> String {
        format!("random numbers from the seed {}", self.seed)
    }

    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        let size = self.dtype.size() as usize;
        let mut places = out.chunks_exact_mut(size);
        for_each_run(self.dtype, &self.shape, piece, |start, len| {
            let first = (start / size) as u64;
            for (index, element) in (first..).zip(places.by_ref().take(len / size)) {
                self.write(index, element);
            }
        });
        Ok(())
    }
}

/// The odd number nearest to 2^64 divided by the golden ratio.
const GAMMA: u64 = 0x9e37_79b9_7f4a_7c15;

/// A bijection whose every output bit depends on every input bit.
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// Where the words of an input start.
fn key(seed: u64, name: &str) -> u64 {
    name.bytes().fold(mix(seed.wrapping_add(GAMMA)), |key, byte| {
        mix(key.wrapping_add(GAMMA).wrapping_add(u64::from(byte)))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::Tensor;

    fn whole(array: &RandomArray) -> Tensor {
        let mut tensor = Tensor::zeros(array.dtype, &array.shape);
        let piece: Vec<IndexSet> = array.shape.iter().map(|&size| IndexSet::range(0, size)).collect();
        array.read(&piece, tensor.bytes_mut()).expect("numbers can always be made up");
        tensor
    }

    #[test]
    fn words_are_those_of_splitmix64() {
        // The first outputs of the generator that starts at 1234567, as published with Vigna's code.
        let array = RandomArray { key: 1234567, ..RandomArray::new(0, "x", DType::I64, &[]) };
        let words: Vec<u64> = (0..3).map(|index| array.word(index)).collect();
        assert_eq!(words, [6457827717110365317, 3203168211198807973, 9817491932198370423]);
    }

    #[test]
    fn a_piece_is_a_part_of_the_whole() {
        for dtype in DType::ALL {
            let array = RandomArray::new(7, "x", dtype, &[4, 6]);
            let all = whole(&array);
            let piece = [IndexSet::from_blocks([(1, 2), (3, 4)]), IndexSet::range(2, 5)];
            let (mut expected, mut given) = (Tensor::zeros(dtype, &[2, 3]), Tensor::zeros(dtype, &[2, 3]));
            all.read(&piece, expected.bytes_mut()).expect("a tensor in memory is read");
            array.read(&piece, given.bytes_mut()).expect("numbers can always be made up");
            assert_eq!(given.bytes(), expected.bytes(), "{dtype}");
        }
    }

    #[test]
    fn floats_are_normal() {
        let x = whole(&RandomArray::new(1, "x", DType::F64, &[400, 100]));
        let x = x.elements::<f64>();
        let moment = |n| x.iter().map(|x| (x * 10.0).powi(n)).sum::<f64>() / x.len() as f64;
        assert!(moment(1).abs() < 0.02, "{}", moment(1));
        assert!((moment(2) - 1.0).abs() < 0.03, "{}", moment(2));
        assert!((moment(4) - 3.0).abs() < 0.2, "{}", moment(4));
        let beyond_two = x.iter().filter(|x| x.abs() > 0.2).count() as f64 / x.len() as f64;
        assert!((beyond_two - 0.0455).abs() < 0.005, "{beyond_two}");
        let scalar = whole(&RandomArray::new(1, "x", DType::F64, &[])).elements::<f64>()[0];
        assert!((scalar / 10.0 - x[0]).abs() < 1e-15, "a scalar is divided by 1");
    }

    #[test]
    fn integers_and_coins_are_fair() {
        let x = whole(&RandomArray::new(3, "ids", DType::I32, &[20_000]));
        for digit in 0..10 {
            let count = x.elements::<i32>().iter().filter(|&&x| x == digit).count();
            assert!((1800..2200).contains(&count), "{count} times {digit}");
        }
        let coins = whole(&RandomArray::new(3, "c", DType::Bool, &[20_000]));
        let heads = coins.bytes().iter().filter(|&&c| c == 1).count();
        assert!((9700..10300).contains(&heads), "{heads}");
    }

    #[test]
    fn seed_and_name_both_matter() {
        let word = |seed, name: &str| RandomArray::new(seed, name, DType::I64, &[]).word(0);
        let words = [word(0, "x"), word(1, "x"), word(0, "y"), word(0, "xy"), word(0, "yx"), word(0, "")];
        for (i, a) in words.iter().enumerate() {
            assert!(!words[..i].contains(a));
        }
    }
}
