//! Programs on placements: planned and verified, and small ones run in every way.
//!
//! An input is a weave file whose comments give sizes, as in a case file: `#! size s=8 h=4`,
//! `#! mesh line.tp=2`. Programs drawn at random ([`generate`](crate::generate)) are right by
//! construction, so that edits of them mostly still are.

use super::{Behaviour, Random, behaviour::pattern, contents};
use crate::agree::{Disagreement, Trial, agree, backends_agree};
use crate::case::fill::{Fill, numbers};
use crate::case::{CaseFile, Given, concrete};
use crate::exactness::{Exactness, exactness};
use crate::forms;
use crate::generate::{Seeds, case_text};
use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::file::parse_file;
use shardweave_compiler::host::HostInstr;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes, ValueId};
use shardweave_runtime::reference;
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

/// Programs with at most so many elements in all their values are run.
const MOST_ELEMENTS: u64 = 1 << 14;

/// And on at most so many devices.
const MOST_DEVICES: u64 = 9;

/// And if a device has at most so many instructions to do, steps counted one by one.
const MOST_INSTRUCTIONS: u64 = 3000;

/// And if a device computes at most so much in products.
const MOST_FLOPS: u128 = 1 << 20;

/// Programs of more values are not run: an edit that repeats a line a thousand times is about planning.
const MOST_VALUES: usize = 200;

/// The cases with numbers for their variables, and what once failed.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = contents("cases", &["weave"]).into_iter();
    let texts = texts.map(|text| String::from_utf8(text).expect("cases are text"));
    let files = texts.map(|text| CaseFile::parse(&text).expect("the cases are well formed"));
    let cases = files.flat_map(|file| file.cases).flat_map(|case| concrete(&case));
    cases.map(String::into_bytes).chain(contents("corpus/plan", &["weave"])).collect()
}

/// A program drawn at random.
pub fn fresh(random: &mut Random) -> Vec<u8> {
    let draw = Draw { random };
    case_text(&draw.seeds()).into_bytes()
}

struct Draw<'a> {
    random: &'a mut Random,
}

impl Draw<'_> {
    fn bytes<const N: usize>(&mut self) -> [u8; N] {
        std::array::from_fn(|_| self.random.bits() as u8)
    }

    fn list<T>(&mut self, count: std::ops::RangeInclusive<usize>, one: impl Fn(&mut Self) -> T) -> Vec<T> {
        let count = count.start() + self.random.below(count.end() - count.start() + 1);
        (0..count).map(|_| one(self)).collect()
    }

    fn seeds(mut self) -> Seeds {
        Seeds {
            sizes: self.bytes(),
            inputs: self.list(1..=3, Draw::bytes),
            operations: self.list(1..=10, Draw::bytes),
            outputs: self.list(0..=2, |draw| draw.bytes::<1>()[0]),
            meshes: self.list(1..=3, Draw::bytes),
            placements: self.list(1..=2, |draw| draw.list(1..=9, Draw::bytes)),
        }
    }
}

/// Plans every placement of a file, and runs what is small.
pub fn check(input: &[u8]) -> Result<Behaviour, String> {
    let mut behaviour = Behaviour::default();
    let Ok(text) = std::str::from_utf8(input) else { return Ok(behaviour) };
    let given = Given::read(text);
    let (file, found) = parse_file(text, &given.axes);
    behaviour.told("file", &found);
    if !found.is_empty() {
        return Ok(behaviour);
    }
    for program in file.programs() {
        let known = given.sizes.iter().filter(|(name, _)| program.dim(name).is_some());
        let sizes = match Sizes::bind(program, known.map(|(name, size)| (name.as_str(), *size))) {
            Ok(sizes) => sizes,
            Err(found) => {
                behaviour.told("sizes", &found);
                continue;
            }
        };
        let placements = file.placements().iter().filter(|placement| placement.program() == program.name());
        for placement in placements.map(Some).chain([None]) {
            let subject = Subject { program, placement, sizes: &sizes, given: &given };
            let name = placement.map_or("none", |placement| placement.name());
            subject.check(&mut behaviour).map_err(|how| format!("placement `{name}`: {how}"))?;
        }
    }
    Ok(behaviour)
}

/// One program on one placement.
struct Subject<'a> {
    program: &'a Program,
    placement: Option<&'a Placement>,
    sizes: &'a Sizes,
    given: &'a Given,
}

impl Subject<'_> {
    fn check(&self, behaviour: &mut Behaviour) -> Result<(), String> {
        let plan = match compile(self.program, self.placement, self.sizes, &CompileOptions::default()) {
            Ok(plan) => plan,
            Err(found) => {
                behaviour.told("plan", &found);
                return Ok(());
            }
        };
        self.note(&plan, behaviour);
        if plan.host.buffers.len() <= MOST_VALUES {
            forms::check(self.program, self.placement, &plan)?;
        }
        if self.is_small(&plan) { self.run(&plan, behaviour) } else { Ok(()) }
    }

    /// The values that an output needs: the others may have no sizes.
    fn needed(&self) -> impl Iterator<Item = ValueId> {
        let needed = self.program.needed();
        self.program.values().keys().filter(move |&id| needed[id])
    }

    fn note(&self, plan: &Plan, behaviour: &mut Behaviour) {
        for one in &plan.report.collectives {
            behaviour.did(format!("move {} {}", one.kind.name(), pattern(&one.because)));
        }
        for value in &plan.report.values {
            behaviour.did(format!("origin {}", pattern(&value.origin)));
        }
        for note in &plan.report.notes {
            behaviour.did(format!("note {}", pattern(note)));
        }
        for (id, _) in plan.program.values().iter() {
            if let Some(apply) = plan.program.apply(id) {
                behaviour.did(format!("op {}", apply.op.name()));
            }
        }
        behaviour.counted("collectives", plan.report.collectives.len());
        behaviour.counted("actions", plan.host.actions().len());
    }

    fn is_small(&self, plan: &Plan) -> bool {
        let elements = self.needed().map(|id| elements(self.program, id, self.sizes));
        plan.host.devices <= MOST_DEVICES
            && self.program.values().len() <= MOST_VALUES
            && instructions(&plan.host.body) <= MOST_INSTRUCTIONS
            && elements.fold(0, u64::saturating_add) <= MOST_ELEMENTS
            && plan.report.flops_per_device <= MOST_FLOPS
    }

    fn run(&self, plan: &Plan, behaviour: &mut Behaviour) -> Result<(), String> {
        let inputs = self.inputs()?;
        let trial =
            Trial { program: self.program, placement: self.placement, sizes: self.sizes, inputs: &inputs };
        let values = match reference::evaluate(self.program, self.sizes, &inputs) {
            Ok(values) => values,
            Err(error) => {
                behaviour.did(format!("fails {}", pattern(&error.to_string())));
                return Ok(());
            }
        };
        let known = self.needed().filter_map(|id| values.get(id));
        let ran = match self.is_determined(plan, &inputs, known) {
            true => agree(&trial).map(|_| behaviour.did("agrees")),
            false => backends_agree(&trial).map(|_| behaviour.did("backends agree")),
        };
        ran.map_err(|how| match how {
            Disagreement::Compile(found) => format!("it compiled, and now it does not: {found}"),
            Disagreement::Differs(how) => how,
        })
    }

    fn inputs(&self) -> Result<BTreeMap<ValueId, Tensor>, String> {
        let inputs = self.needed().filter(|&id| self.program.is_input(id));
        let filled = inputs.map(|id| {
            let value = &self.program.values()[id];
            let shape: Vec<u64> =
                self.program.sized_dims(id, self.sizes).into_iter().map(|(_, n)| n).collect();
            let given = self.given.fills.iter().find(|(name, _)| *name == value.name).map(|(_, fill)| fill);
            let tensor = given.and_then(|fill| fill.tensor(&value.name, value.dtype, &shape).ok());
            let tensor = match tensor {
                Some(tensor) => tensor,
                None => Fill::Small.tensor(&value.name, value.dtype, &shape)?,
            };
            Ok((id, tensor))
        });
        filled.collect()
    }

    /// Whether no sum of the program can be rounded, so that the reference must be met bit for bit: all
    /// values are whole numbers or rounded once from such, and so small that sums of products stay exact.
    /// What is rounded before its parts are combined, because a layout says so, is rounded more than once.
    fn is_determined<'v>(
        &self,
        plan: &Plan,
        inputs: &BTreeMap<ValueId, Tensor>,
        known: impl Iterator<Item = &'v Tensor>,
    ) -> bool {
        let exact = exactness(self.program, inputs, &plan.placed);
        let most = known.flat_map(numbers).fold(1.0, |most: f64, x| most.max(x.abs()));
        let narrowest =
            self.program.values().values().map(|value| limit(value.dtype)).fold(f64::INFINITY, f64::min);
        let terms = self.needed().map(|id| elements(self.program, id, self.sizes)).max();
        let once = |(_, one): (ValueId, &Exactness)| *one != Exactness::Loose;
        let needed = self.program.needed();
        exact.iter().filter(|(id, _)| needed[*id]).all(once)
            && most * most * terms.unwrap_or(1) as f64 <= narrowest
    }
}

/// Up to which whole numbers of a type are exact.
fn limit(dtype: DType) -> f64 {
    match dtype {
        DType::F64 => 2f64.powi(50),
        DType::F32 | DType::Bf16 => 2f64.powi(23),
        DType::F16 => 2f64.powi(11),
        DType::I64 | DType::I32 | DType::Bool => f64::INFINITY,
    }
}

fn elements(program: &Program, id: ValueId, sizes: &Sizes) -> u64 {
    program.sized_dims(id, sizes).iter().fold(1, |count, (_, size)| count.saturating_mul(*size))
}

/// How many instructions a device goes through.
fn instructions(body: &[HostInstr]) -> u64 {
    let counts = body.iter().map(|instr| match instr {
        HostInstr::On(..) => 1,
        HostInstr::Loop(steps) => {
            let once = steps.stages.iter().map(|body| instructions(body)).fold(0, u64::saturating_add);
            once.saturating_mul(steps.step_count())
        }
    });
    counts.fold(0, u64::saturating_add)
}
