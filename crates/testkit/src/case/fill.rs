//! What arrays of a case hold.

use half::{bf16, f16};
use shardweave_compiler::dtype::DType;
use shardweave_runtime::tensor::Tensor;

/// The elements of an array.
#[derive(Clone, PartialEq, Debug)]
pub enum Fill {
    /// Small integers that look random: a function of the array's name and the position.
    Small,
    /// 0, 1, 2, ... row-major.
    Arange,
    /// 0, 1, ... up to below a number, again and again.
    Mod(u64),
    /// Fractions between -1 and 1 that look random: sums of them depend on their order.
    Noise,
    /// One number everywhere.
    All(f64),
    /// These numbers, row-major.
    Given(Vec<f64>),
}

impl Fill {
    /// `arange`, `noise`, `mod 7`, `all 1`, `[[1, 2], [3, 4]]`.
    pub fn parse(text: &str) -> Result<Fill, String> {
        let number = |text: &str| text.trim().parse::<f64>().map_err(|_| format!("`{text}` is no number"));
        match text.split_once(' ').unwrap_or((text, "")) {
            ("arange", "") => Ok(Fill::Arange),
            ("noise", "") => Ok(Fill::Noise),
            ("mod", n) => match n.trim().parse() {
                Ok(n) if n > 0 => Ok(Fill::Mod(n)),
                _ => Err(format!("`{n}` is no number from 1 on")),
            },
            ("all", n) => number(n).map(Fill::All),
            _ if text.starts_with('[') => {
                let flat = text.replace(['[', ']'], " ");
                let numbers = flat.split([',', ' ']).filter(|n| !n.is_empty()).map(number);
                numbers.collect::<Result<_, _>>().map(Fill::Given)
            }
            _ => Err(format!("`{text}` says nothing about an array")),
        }
    }

    /// The array of that type and shape; an error if there are not as many numbers as elements.
    pub fn tensor(&self, name: &str, dtype: DType, shape: &[u64]) -> Result<Tensor, String> {
        let count = shape.iter().product::<u64>();
        let at = |i: u64| match self {
            Fill::Small => small(name, i, dtype),
            Fill::Arange => i as f64,
            Fill::Noise => (hashed(name, i) >> 11) as f64 / (1_u64 << 52) as f64 - 1.0,
            Fill::Mod(n) => (i % n) as f64,
            Fill::All(x) => *x,
            Fill::Given(numbers) => numbers[i as usize],
        };
        match self {
            Fill::Given(numbers) if numbers.len() as u64 != count => {
                Err(format!("`{name}` of {shape:?} needs {count} numbers, not {}", numbers.len()))
            }
            _ => Ok(tensor(dtype, shape, &(0..count).map(at).collect::<Vec<f64>>())),
        }
    }
}

/// -3..=3; 0 or 1 for bools.
fn small(name: &str, index: u64, dtype: DType) -> f64 {
    let hash = hashed(name, index);
    if dtype == DType::Bool { (hash % 2) as f64 } else { (hash % 7) as f64 - 3.0 }
}

/// A number that looks random.
fn hashed(name: &str, index: u64) -> u64 {
    let mut hash = index.wrapping_add(0x9e37_79b9_7f4a_7c15);
    for byte in name.bytes() {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    }
    hash = (hash ^ (hash >> 32)).wrapping_mul(0xd6e8_feb8_6659_fd93);
    hash ^ (hash >> 29)
}

/// An array with these elements, converted as Rust's `as` does.
pub fn tensor(dtype: DType, shape: &[u64], numbers: &[f64]) -> Tensor {
    match dtype {
        DType::F64 => Tensor::from_elements(shape, numbers),
        DType::F32 => Tensor::from_elements(shape, &converted(numbers, |x| x as f32)),
        DType::Bf16 => Tensor::from_elements(shape, &converted(numbers, bf16::from_f64)),
        DType::F16 => Tensor::from_elements(shape, &converted(numbers, f16::from_f64)),
        DType::I64 => Tensor::from_elements(shape, &converted(numbers, |x| x as i64)),
        DType::I32 => Tensor::from_elements(shape, &converted(numbers, |x| x as i32)),
        DType::Bool => Tensor::from_bools(shape, &converted(numbers, |x| x != 0.0)),
    }
}

fn converted<T>(numbers: &[f64], one: impl Fn(f64) -> T) -> Vec<T> {
    numbers.iter().map(|&x| one(x)).collect()
}

/// The elements of an array as floats.
pub fn numbers(tensor: &Tensor) -> Vec<f64> {
    match tensor.dtype() {
        DType::F64 => tensor.elements().to_vec(),
        DType::F32 => tensor.elements::<f32>().iter().map(|&x| x.into()).collect(),
        DType::Bf16 => tensor.elements::<bf16>().iter().map(|&x| x.into()).collect(),
        DType::F16 => tensor.elements::<f16>().iter().map(|&x| x.into()).collect(),
        DType::I64 => tensor.elements::<i64>().iter().map(|&x| x as f64).collect(),
        DType::I32 => tensor.elements::<i32>().iter().map(|&x| x.into()).collect(),
        DType::Bool => tensor.bytes().iter().map(|&x| x.into()).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fills_are_read_and_made() {
        let made = |text: &str, shape: &[u64]| {
            let fill = Fill::parse(text).expect("the fill is well formed");
            fill.tensor("x", DType::F32, shape).map(|tensor| numbers(&tensor))
        };
        assert_eq!(made("arange", &[2, 2]), Ok(vec![0.0, 1.0, 2.0, 3.0]));
        assert_eq!(made("mod 2", &[3]), Ok(vec![0.0, 1.0, 0.0]));
        assert_eq!(made("all -1.5", &[2]), Ok(vec![-1.5, -1.5]));
        assert_eq!(made("[[1, 2], [3, inf]]", &[2, 2]), Ok(vec![1.0, 2.0, 3.0, f64::INFINITY]));
        assert!(made("[1, 2]", &[3]).is_err());
        assert!(Fill::parse("something").is_err());
    }

    #[test]
    fn small_numbers_are_small_and_differ() {
        let tensor = Fill::Small.tensor("x", DType::F32, &[100]).expect("any shape will do");
        let all = numbers(&tensor);
        assert!(all.iter().all(|x| x.abs() <= 3.0));
        assert!((-3..=3).all(|wanted| all.contains(&f64::from(wanted))));
        let other = Fill::Small.tensor("w", DType::F32, &[100]).expect("any shape will do");
        assert_ne!(all, numbers(&other));
        let noise = Fill::Noise.tensor("x", DType::F32, &[100]).expect("any shape will do");
        assert!(numbers(&noise).iter().all(|x| x.abs() <= 1.0 && x.fract() != 0.0));
    }
}
