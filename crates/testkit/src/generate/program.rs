//! Programs: inputs, then operations on what is there, each kept only if the program still reads, types
//! and binds with it.

use super::Seeds;
use super::dice::Dice;
use super::operation;
use crate::case::fill::Fill;
use crate::exactness::Exactness;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::{Program, Sizes};
use std::collections::BTreeMap;

/// Sizes of dims, the plainest first.
const SIZES: &[u64] = &[2, 3, 4, 1, 5, 6, 8, 7, 0, 13];

/// Names of the first dims.
const DIMS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

/// Values of more elements are not made.
const MOST_ELEMENTS: u64 = 4096;

/// The largest whole number of each float type up to which sums are exact, with room to spare.
fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(50),
        DType::F32 | DType::Bf16 => 2f64.powi(23),
        DType::F16 => 30_000.0,
        DType::I64 | DType::I32 | DType::Bool => f64::INFINITY,
    }
}

/// A value of the program.
#[derive(Clone, Debug)]
pub struct Known {
    /// Its name.
    pub name: String,
    /// Its dims with their sizes.
    pub dims: Vec<(String, u64)>,
    /// Its type.
    pub dtype: DType,
    /// How far it is determined.
    pub exactness: Exactness,
    /// No element is larger.
    pub bound: f64,
}

impl Known {
    /// Whether it has a dim.
    pub fn has(&self, dim: &str) -> bool {
        self.dims.iter().any(|(name, _)| name == dim)
    }

    /// The number of its elements.
    pub fn elements(&self) -> u64 {
        self.dims.iter().map(|(_, size)| size).product()
    }
}

/// A program that is being drawn.
#[derive(Clone, Debug)]
pub struct Draft {
    lines: Vec<String>,
    values: Vec<Known>,
    sizes: BTreeMap<String, u64>,
    fills: Vec<(String, Fill)>,
    fresh: usize,
}

/// An operation to try.
pub struct Attempt {
    /// The call.
    pub call: String,
    /// No element of the result is larger; nor is a sum of its terms' sizes.
    pub bound: f64,
    /// How far the result is determined.
    pub exactness: Exactness,
}

impl Draft {
    /// Draws a program.
    pub fn new(seeds: &Seeds) -> Draft {
        let sizes = DIMS.iter().zip(seeds.sizes);
        let sizes = sizes.map(|(name, byte)| (name.to_string(), SIZES[usize::from(byte) % SIZES.len()]));
        let mut draft = Draft {
            lines: Vec::new(),
            values: Vec::new(),
            sizes: sizes.collect(),
            fills: Vec::new(),
            fresh: 0,
        };
        for bytes in &seeds.inputs {
            draft.first_input(&mut Dice::new(bytes));
        }
        for bytes in &seeds.operations {
            draft.operation(&mut Dice::new(bytes));
        }
        draft
    }

    /// All values, in program order.
    pub fn values(&self) -> &[Known] {
        &self.values
    }

    /// The sizes to be bound: of the dims that stand in the program.
    pub fn sizes(&self) -> impl Iterator<Item = (&str, u64)> {
        let stands = |name: &str| self.values.iter().any(|value| value.has(name));
        self.sizes.iter().map(|(name, size)| (name.as_str(), *size)).filter(move |(name, _)| stands(name))
    }

    /// What inputs hold.
    pub fn fills(&self) -> &[(String, Fill)] {
        &self.fills
    }

    /// The program; its outputs are the last value and those that the bytes choose.
    pub fn text(&self, outputs: &[u8]) -> String {
        let mut chosen: Vec<&str> = self.values.last().map(|value| value.name.as_str()).into_iter().collect();
        for byte in outputs {
            if let Some(value) = Dice::new(&[*byte]).pick_late(&self.values)
                && !chosen.contains(&value.name.as_str())
            {
                chosen.push(&value.name);
            }
        }
        let outputs: String = chosen.iter().map(|name| format!("  output {name}\n")).collect();
        format!("program p {{\n{}{outputs}}}\n", self.lines.concat())
    }

    /// A name for a dim that is nowhere yet.
    pub fn fresh_dim(&mut self) -> String {
        self.fresh += 1;
        format!("n{}", self.fresh)
    }

    /// A fresh dim of that size.
    pub fn fresh_dim_of(&mut self, size: u64) -> String {
        let name = self.fresh_dim();
        self.sizes.insert(name.clone(), size);
        name
    }

    /// One of the first dims that is not among these.
    pub fn other_dim(&self, dice: &mut Dice<'_>, not: &[(String, u64)]) -> Option<(String, u64)> {
        let free: Vec<_> = DIMS.iter().filter(|name| not.iter().all(|(dim, _)| dim != *name)).collect();
        let name = dice.pick(&free)?;
        Some((name.to_string(), self.sizes[**name]))
    }

    fn first_input(&mut self, dice: &mut Dice<'_>) {
        let dtypes = [
            DType::F32,
            DType::F64,
            DType::F32,
            DType::Bf16,
            DType::I32,
            DType::F16,
            DType::I64,
            DType::Bool,
        ];
        let ndim = [2, 1, 3, 0][dice.below(4)];
        let dtype = dtypes[dice.below(dtypes.len())];
        let mut dims: Vec<(String, u64)> = Vec::new();
        for _ in 0..ndim {
            dims.extend(self.other_dim(dice, &dims));
        }
        self.input(dims, dtype, Fill::Small);
    }

    /// Adds an input; its name.
    pub fn input(&mut self, dims: Vec<(String, u64)>, dtype: DType, fill: Fill) -> Option<Known> {
        let name = format!("x{}", self.values.len());
        let bound = match fill {
            Fill::Mod(n) => n as f64,
            _ => 3.0,
        };
        let known = Known { name, dims, dtype, exactness: Exactness::Whole, bound };
        if known.elements() > MOST_ELEMENTS {
            return None;
        }
        let names: Vec<&str> = known.dims.iter().map(|(name, _)| name.as_str()).collect();
        self.lines.push(format!("  input {}: {dtype}[{}]\n", known.name, names.join(", ")));
        self.fills.push((known.name.clone(), fill));
        self.values.push(known.clone());
        Some(known)
    }

    /// Adds an operation, if one that the bytes stand for fits.
    fn operation(&mut self, dice: &mut Dice<'_>) {
        let before = self.clone();
        let attempt = operation::draw(self, dice);
        if attempt.and_then(|attempt| self.add(attempt)).is_none() {
            *self = before;
        }
    }

    /// Adds the result of an attempt, if the program stays sound with it.
    fn add(&mut self, attempt: Attempt) -> Option<()> {
        let name = format!("v{}", self.values.len());
        self.lines.push(format!("  {name} = {}\n", attempt.call));
        let (program, sizes) = self.read(&name)?;
        let id = program.value(&name)?;
        let dtype = program.values()[id].dtype;
        let known = Known {
            name,
            dims: program.sized_dims(id, &sizes),
            dtype,
            exactness: attempt.exactness,
            bound: attempt.bound,
        };
        let exact = known.exactness != Exactness::Whole || known.bound <= limit(dtype);
        if !exact || known.elements() > MOST_ELEMENTS {
            return None;
        }
        for (dim, size) in &known.dims {
            self.sizes.entry(dim.clone()).or_insert(*size);
        }
        self.values.push(known);
        Some(())
    }

    /// The program with one output, read and bound.
    fn read(&self, output: &str) -> Option<(Program, Sizes)> {
        let text = format!("program p {{\n{}  output {output}\n}}\n", self.lines.concat());
        let (file, found) = parse_file(&text, &[]);
        if !found.is_empty() {
            return None;
        }
        let program = file.programs().first()?.clone();
        let known = self.sizes.iter().filter(|(name, _)| program.dim(name).is_some());
        let sizes = Sizes::bind(&program, known.map(|(name, size)| (name.as_str(), *size))).ok()?;
        Some((program, sizes))
    }
}
