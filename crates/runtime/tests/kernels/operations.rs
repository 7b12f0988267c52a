//! Runs `operations.txt`: each case for every element type it is written for, through the kernels and
//! through the reference.

use super::single;
use half::{bf16, f16};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::op::table::{DTypes, TABLE};
use shardweave_compiler::program::{Program, Sizes};
use shardweave_runtime::compare::compare;
use shardweave_runtime::reference;
use shardweave_runtime::tensor::Tensor;
use std::collections::{BTreeMap, BTreeSet};

/// A call with its inputs and its result.
struct Case<'a> {
    line: usize,
    call: &'a str,
    inputs: Vec<(&'a str, Array<'a>)>,
    result: Array<'a>,
    exactly: bool,
}

/// `F[a=2, b=2]  0 1 1 0`
#[derive(Clone)]
struct Array<'a> {
    dtype: &'a str,
    dims: &'a str,
    numbers: Vec<&'a str>,
}

fn cases(text: &str) -> Vec<Case<'_>> {
    let mut cases: Vec<Case<'_>> = Vec::new();
    for (line, row) in text.lines().enumerate().filter(|(_, row)| !row.is_empty() && !row.starts_with('#')) {
        match row.strip_prefix("  ") {
            None => {
                let result = Array { dtype: "", dims: "", numbers: Vec::new() };
                cases.push(Case { line: line + 1, call: row, inputs: Vec::new(), result, exactly: false });
            }
            Some(row) => {
                let case = cases.last_mut().expect("a case starts with a call");
                case.exactly = row.starts_with("==");
                match row.trim_start_matches('=').strip_prefix(' ') {
                    Some(result) => case.result = array(result),
                    None => {
                        let (name, rest) = row.split_once(": ").expect("an input has a name");
                        case.inputs.push((name, array(rest)));
                    }
                }
            }
        }
    }
    cases
}

fn array(text: &str) -> Array<'_> {
    let (dtype, rest) = text.split_once('[').expect("dims stand in brackets");
    let (dims, numbers) = rest.split_once(']').expect("dims stand in brackets");
    Array { dtype, dims, numbers: numbers.split_whitespace().collect() }
}

/// The types that a letter stands for.
fn types(letter: &str) -> Vec<DType> {
    let all = DType::ALL.into_iter();
    match letter {
        "F" => all.filter(|d| d.is_float()).collect(),
        "N" => all.filter(|&d| d != DType::Bool).collect(),
        "A" => all.collect(),
        _ => Vec::new(),
    }
}

impl Array<'_> {
    fn dtype(&self, variable: Option<DType>) -> DType {
        DType::from_name(self.dtype).or(variable).expect("a type or a letter")
    }

    fn tensor(&self, variable: Option<DType>) -> Tensor {
        let size = |dim: &str| dim.split_once('=').expect("dims have sizes").1.parse().expect("a size");
        let shape: Vec<u64> = self.dims.split(", ").filter(|dim| !dim.is_empty()).map(size).collect();
        fn all<T: std::str::FromStr>(numbers: &[&str]) -> Vec<T> {
            numbers.iter().map(|n| n.parse().unwrap_or_else(|_| panic!("`{n}` is no number"))).collect()
        }
        let floats = || all::<f64>(&self.numbers);
        match self.dtype(variable) {
            DType::F64 => Tensor::from_elements(&shape, &floats()),
            DType::F32 => Tensor::from_elements(&shape, &all::<f32>(&self.numbers)),
            DType::Bf16 => {
                let halves: Vec<_> = floats().into_iter().map(|x| bf16::from_f32(x as f32)).collect();
                Tensor::from_elements(&shape, &halves)
            }
            DType::F16 => {
                let halves: Vec<_> = floats().into_iter().map(|x| f16::from_f32(x as f32)).collect();
                Tensor::from_elements(&shape, &halves)
            }
            DType::I64 => Tensor::from_elements(&shape, &all::<i64>(&self.numbers)),
            DType::I32 => Tensor::from_elements(&shape, &all::<i32>(&self.numbers)),
            DType::Bool => {
                let flags: Vec<_> = all::<u8>(&self.numbers).into_iter().map(|x| x != 0).collect();
                Tensor::from_bools(&shape, &flags)
            }
        }
    }
}

impl Case<'_> {
    /// The types that the case's letter stands for; one turn without a type if it has no letter.
    fn variables(&self) -> Vec<Option<DType>> {
        let mut arrays = self.inputs.iter().map(|(_, array)| array).chain([&self.result]);
        let letter = arrays.find(|array| !types(array.dtype).is_empty());
        letter.map_or(vec![None], |array| types(array.dtype).into_iter().map(Some).collect())
    }

    fn program(&self, variable: Option<DType>) -> Program {
        let input = |(name, array): &(&str, Array<'_>)| {
            format!("input {name}: {}[{}]\n", array.dtype(variable), array.dims)
        };
        let inputs: String = self.inputs.iter().map(input).collect();
        let text = format!("program p {{\n{inputs}out = {}\noutput out\n}}", self.call);
        text.parse().unwrap_or_else(|why| panic!("line {}: {why}\n{text}", self.line))
    }

    fn run(&self, variable: Option<DType>) {
        let program = self.program(variable);
        let place = format!("line {}: {} of {variable:?}", self.line, self.call);
        let sizes = Sizes::bind(&program, []).unwrap_or_else(|why| panic!("{place}: {why}"));
        let out = program.value("out").expect("the call gives it");
        let inputs: BTreeMap<_, _> = self
            .inputs
            .iter()
            .map(|(name, array)| (program.value(name).expect("inputs are values"), array.tensor(variable)))
            .collect();
        let dims = self.result.dims.split(", ").filter(|dim| !dim.is_empty());
        let names: Vec<&str> = dims.map(|dim| dim.split_once('=').expect("dims have sizes").0).collect();
        assert_eq!(program.dim_names(out), names, "{place}");

        let expected = self.result.tensor(variable);
        let reference =
            reference::run(&program, &sizes, &inputs).unwrap_or_else(|why| panic!("{place}: {why}"));
        let kernels =
            single::evaluate(&program, &sizes, &inputs).unwrap_or_else(|why| panic!("{place}: {why}"));
        let kernels = kernels[out].clone().expect("it is an output");
        for (by, result) in [("reference", &reference[0].1), ("kernels", &kernels)] {
            assert_eq!(result.dtype(), expected.dtype(), "{place}: {by}");
            let found = compare(result, &expected);
            let shown = (format_all(result), format_all(&expected));
            let same_bits = shown.0 == shown.1;
            assert!(
                found.ok && (same_bits || !self.exactly),
                "{place}: {by} gave\n{}\nexpected\n{}\n{found:?}",
                shown.0,
                shown.1
            );
        }
    }
}

fn format_all(tensor: &Tensor) -> String {
    match tensor.dtype() {
        DType::F64 => format!("{:?}", tensor.elements::<f64>()),
        DType::F32 => format!("{:?}", tensor.elements::<f32>()),
        DType::Bf16 => format!("{:?}", tensor.elements::<bf16>()),
        DType::F16 => format!("{:?}", tensor.elements::<f16>()),
        DType::I64 => format!("{:?}", tensor.elements::<i64>()),
        DType::I32 => format!("{:?}", tensor.elements::<i32>()),
        DType::Bool => format!("{:?}", tensor.bytes()),
    }
}

const TEXT: &str = include_str!("operations.txt");

#[test]
fn every_case_gives_what_is_written() {
    for case in cases(TEXT) {
        for variable in case.variables() {
            case.run(variable);
        }
    }
}

#[test]
fn every_operation_has_a_case_for_every_type() {
    let mut seen: BTreeMap<&str, BTreeSet<DType>> = BTreeMap::new();
    for case in cases(TEXT) {
        let name = case.call.split('(').next().expect("a call has a name");
        let last = case.inputs.last().map_or(&case.result, |(_, array)| array);
        let seen = seen.entry(name).or_default();
        seen.extend(case.variables().into_iter().map(|variable| last.dtype(variable)));
    }
    for row in TABLE {
        let allowed: Vec<DType> = match row.dtypes {
            DTypes::None => Vec::new(),
            DTypes::Floats => types("F"),
            DTypes::Numbers => types("N"),
            DTypes::Any | DTypes::Condition | DTypes::Ids => types("A"),
            DTypes::Bools => vec![DType::Bool],
        };
        let seen = seen.get(row.name).unwrap_or_else(|| panic!("`{}` has no case", row.name));
        for dtype in allowed {
            assert!(seen.contains(&dtype), "`{}` has no case for {dtype}", row.name);
        }
    }
}
