//! Runs the cases of a file: for every value of their variables, all sizes and all placements.

use super::expression::{Variables, evaluate};
use super::fill::numbers;
use super::trials::{bind, evaluated, inputs, is_wanted, read, shape};
use super::{Case, CaseFile, Claim, Until, What};
use crate::agree::{Agreed, Disagreement, Trial, agree};
use shardweave_compiler::compile::{self, Plan, compile};
use shardweave_compiler::diagnostic::{Diagnostic, Diagnostics};
use shardweave_compiler::file::{AxisSize, WeaveFile, parse_file};
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::{Factor, IndexSet};
use shardweave_compiler::mesh::{Axis, DeviceId, Mesh};
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes, ValueId};
use shardweave_runtime::execute::panic_text;
use shardweave_runtime::reference::Values;
use shardweave_runtime::tensor::{ArraySource, Tensor};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;

/// What became of the cases of a file.
#[derive(Debug)]
pub struct Outcome {
    /// How many programs were planned and run.
    pub runs: usize,
    /// What did not come out as it had to.
    pub failures: Vec<String>,
}

impl fmt::Display for Outcome {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} runs, {} failures", self.runs, self.failures.len())?;
        self.failures.iter().try_for_each(|failure| writeln!(f, "{failure}"))
    }
}

/// On which meshes cases run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Meshes {
    /// Those of the case.
    AsWritten,
    /// Every axis has size 1, unless its mesh lists devices: values stay right and nothing moves. Cases
    /// that have to be wrong, or that give the pieces of more devices, are left out.
    OfOneDevice,
}

/// Runs all cases of a file. A file that is not well formed is a failure too.
pub fn run_case_file(path: &Path, meshes: Meshes) -> Outcome {
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match std::fs::read_to_string(path) {
        Ok(text) => run_cases(&name, &text, meshes),
        Err(error) => Outcome { runs: 0, failures: vec![format!("{name}: {error}")] },
    }
}

/// Runs all cases of a text; `name` is what failures call it.
pub fn run_cases(name: &str, text: &str, meshes: Meshes) -> Outcome {
    let mut outcome = Outcome { runs: 0, failures: Vec::new() };
    let file = match CaseFile::parse(text) {
        Ok(file) => file,
        Err(reason) => {
            outcome.failures.push(format!("{name}: {reason}"));
            return outcome;
        }
    };
    let wanted = |case: &&Case| match meshes {
        Meshes::AsWritten => true,
        Meshes::OfOneDevice => case.errors.is_empty() && !gives_pieces(case),
    };
    for case in file.cases.iter().filter(wanted) {
        let head = format!("{name}:{} case {} {}", case.line, case.ids, case.title);
        // A panic in one case must not hide the others.
        let ran = catch_unwind(AssertUnwindSafe(|| run_case(case, meshes, &mut outcome, &head)));
        if let Err(payload) = ran {
            outcome.failures.push(format!("{head}: it panics: {}", panic_text(&*payload)));
        }
    }
    outcome
}

/// Whether a placement says how large the pieces along an axis are.
fn gives_pieces(case: &Case) -> bool {
    let file = parse_file(&case.text, &[]).0;
    let layouts = file.placements().iter().flat_map(|placement| placement.entries());
    let mut factors = layouts.flat_map(|entry| entry.layout.cuts().iter().flatten());
    factors.any(|factor| matches!(factor, Factor::Sizes(..)))
}

fn run_case(case: &Case, meshes: Meshes, outcome: &mut Outcome, head: &str) {
    for variables in case.combinations() {
        for sizes in &case.size_sets() {
            let at: Vec<String> = variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let head = format!("{head} [{}]", [&at[..], &[sizes_text(sizes)]].concat().join(" "));
            let setting = Setting { case, meshes, variables: &variables };
            if let Err(reason) = setting.run(sizes, outcome, &head) {
                outcome.failures.push(format!("{head}: {reason}"));
            }
        }
    }
}

fn sizes_text(sizes: &[(String, String)]) -> String {
    sizes.iter().map(|(name, size)| format!("{name}={size}")).collect::<Vec<_>>().join(" ")
}

/// A case at some values of its variables.
#[derive(Clone, Copy)]
struct Setting<'a> {
    case: &'a Case,
    meshes: Meshes,
    variables: &'a Variables,
}

impl Setting<'_> {
    fn run(self, sizes: &[(String, String)], outcome: &mut Outcome, head: &str) -> Result<(), String> {
        let sizes = evaluated(sizes, self.variables)?;
        let (file, found) = self.read()?;
        if !self.case.errors.is_empty() {
            outcome.runs += 1;
            return check_errors(self.case, &all_mistakes(&file, found, &sizes));
        }
        if !found.is_empty() {
            return Err(format!("{found}"));
        }
        check_names(self.case, &file)?;
        let wanted = |placement: &&Placement| is_wanted(self.case, placement);
        for placement in file.placements().iter().filter(wanted) {
            let program = file.program(placement.program()).expect("a sound file has its program");
            outcome.runs += 1;
            let subject = Subject { setting: self, program, placement };
            let ran = catch_unwind(AssertUnwindSafe(|| subject.run(&sizes)));
            let ran =
                ran.unwrap_or_else(|payload| Err(vec![format!("it panics: {}", panic_text(&*payload))]));
            if let Err(failures) = ran {
                let told = failures.iter().map(|failure| format!("{head} {}: {failure}", placement.name()));
                outcome.failures.extend(told);
            }
        }
        if file.placements().is_empty() { Err("it has no placement".into()) } else { Ok(()) }
    }

    /// The file, and what is wrong with it.
    fn read(self) -> Result<(WeaveFile, Diagnostics), String> {
        let (file, found) = read(self.case, self.variables)?;
        match self.meshes {
            Meshes::AsWritten => Ok((file, found)),
            Meshes::OfOneDevice => {
                let free = file.meshes().iter().filter(|mesh| mesh.listed_devices().is_none());
                let path = |mesh: &Arc<Mesh>, axis: &Axis| format!("{}.{}", mesh.name(), axis.name);
                let paths = free.flat_map(|mesh| mesh.axes().values().map(move |axis| path(mesh, axis)));
                let axes: Vec<AxisSize> = paths.map(|path| AxisSize { path, size: 1 }).collect();
                Ok(parse_file(&self.case.text, &axes))
            }
        }
    }
}

/// Everything that is wrong with a file at these sizes.
fn all_mistakes(file: &WeaveFile, mut found: Diagnostics, sizes: &[(String, u64)]) -> Diagnostics {
    if !found.is_empty() {
        return found;
    }
    for program in file.programs() {
        let bound = match bind(program, sizes) {
            Ok(bound) => bound,
            Err(mistakes) => {
                found.extend(mistakes);
                continue;
            }
        };
        for placement in file.placements().iter().filter(|placement| placement.program() == program.name()) {
            if let Err(mistakes) =
                compile(program, Some(placement), &bound, &compile::CompileOptions::default())
            {
                found.extend(mistakes);
            }
        }
    }
    found
}

/// Exactly the mistakes that the case names are found.
fn check_errors(case: &Case, found: &Diagnostics) -> Result<(), String> {
    let mut open: Vec<&Diagnostic> = found.errors().iter().collect();
    for (code, text) in &case.errors {
        let fits = |one: &&Diagnostic| one.code.name() == code && one.to_string().contains(text.as_str());
        match open.iter().position(fits) {
            Some(at) => {
                open.remove(at);
            }
            None => return Err(format!("no mistake {code} that says `{text}` is found, but {found}")),
        }
    }
    match open.first() {
        None => Ok(()),
        Some(one) => Err(format!("a mistake that the case does not name: {one}")),
    }
}

/// All names that the directives of a case mention exist.
fn check_names(case: &Case, file: &WeaveFile) -> Result<(), String> {
    let value = |name: &str| file.programs().iter().any(|program| program.value(name).is_some());
    let dim = |name: &str| file.programs().iter().any(|program| program.dim(name).is_some());
    let placement = |name: &str| file.placement(name).is_some();
    let of_claims = case.claims.iter().flat_map(|claim| &claim.of);
    let values = case.inputs.iter().chain(&case.outputs).map(|(name, _)| name);
    let sizes = case.sizes.iter().flatten().map(|(name, _)| name);
    let missing = (of_claims.chain(&case.only).find(|name| !placement(name)))
        .or_else(|| values.clone().find(|name| !value(name)))
        .or_else(|| sizes.clone().find(|name| !dim(name)));
    missing.map_or(Ok(()), |name| Err(format!("a directive names `{name}`, which the case does not have")))
}

/// One placement of a case.
struct Subject<'a> {
    setting: Setting<'a>,
    program: &'a Program,
    placement: &'a Placement,
}

impl Subject<'_> {
    fn run(&self, sizes: &[(String, u64)]) -> Result<(), Vec<String>> {
        let sizes = bind(self.program, sizes).map_err(|mistakes| vec![mistakes.to_string()])?;
        let (plan, values) = self.plan_and_run(&sizes).map_err(|reason| vec![reason])?;
        let mut failures = Vec::new();
        if let Err(reason) = crate::forms::check(self.program, Some(self.placement), &plan) {
            failures.push(reason);
        }
        let about =
            |claim: &&Claim| claim.of.is_empty() || claim.of.iter().any(|name| name == self.placement.name());
        if self.setting.meshes == Meshes::OfOneDevice {
            let found = &plan.report.collectives;
            if plan.report.devices == 1 && !found.is_empty() {
                failures.push(super::expect::listed(found));
            }
            return if failures.is_empty() { Ok(()) } else { Err(failures) };
        }
        for claim in self.setting.case.claims.iter().filter(about) {
            if let Err(reason) = self.check(claim, &plan, values.as_ref()) {
                failures.push(format!("line {}: {reason}", claim.line));
            }
        }
        if failures.is_empty() { Ok(()) } else { Err(failures) }
    }

    fn plan_and_run(&self, sizes: &Sizes) -> Result<(Plan, Option<Values>), String> {
        if self.setting.case.until == Until::Plan {
            let plan =
                compile(self.program, Some(self.placement), sizes, &compile::CompileOptions::default());
            return Ok((plan.map_err(|mistakes| mistakes.to_string())?, None));
        }
        let inputs = inputs(self.setting.case, self.program, sizes)?;
        let trial = Trial { program: self.program, placement: Some(self.placement), sizes, inputs: &inputs };
        let Agreed { plan, values } = agree(&trial).map_err(|how: Disagreement| how.to_string())?;
        self.check_outputs(sizes, &values)?;
        Ok((plan, Some(values)))
    }

    /// All answers agree with the reference, so it is enough that the reference is right.
    fn check_outputs(&self, sizes: &Sizes, values: &Values) -> Result<(), String> {
        for (name, fill) in &self.setting.case.outputs {
            let Some(id) = self.program.value(name) else { continue };
            let found = values.get(id).ok_or_else(|| format!("no output needs {name}"))?;
            let wanted = fill.tensor(name, found.dtype(), &shape(self.program, id, sizes))?;
            let (found, wanted) = (numbers(found), numbers(&wanted));
            let same = |(x, y): (&f64, &f64)| x == y || x.is_nan() && y.is_nan();
            if !found.iter().zip(&wanted).all(same) {
                return Err(format!("{name} is {found:?}, not {wanted:?}"));
            }
        }
        Ok(())
    }

    fn check(&self, claim: &Claim, plan: &Plan, values: Option<&Values>) -> Result<(), String> {
        match &claim.what {
            What::Collectives(_) if plan.report.devices == 1 => {
                let found = &plan.report.collectives;
                if found.is_empty() { Ok(()) } else { Err(super::expect::listed(found)) }
            }
            What::Collectives(expected) => expected.check(&plan.report.collectives, self.setting.variables),
            What::Placed(..) | What::Says(_) if plan.report.devices == 1 => Ok(()),
            What::Placed(value, layout) => {
                let report = plan.report.values.iter().find(|one| one.name == *value);
                let placed = report.map(|one| one.placed.as_str());
                let right = layout.split(" or ").any(|layout| placed == Some(layout.trim()));
                if right { Ok(()) } else { Err(format!("{value} is placed {placed:?}")) }
            }
            What::Peak(bytes) => {
                let (most, peak) =
                    (evaluate(bytes, self.setting.variables)?, plan.report.peak_bytes_per_device);
                if peak <= most { Ok(()) } else { Err(format!("the peak is {peak}, not at most {most}")) }
            }
            What::Says(text) => match everything_said(plan) {
                said if said.contains(text.as_str()) => Ok(()),
                said => Err(format!("nobody says `{text}`, but\n{said}")),
            },
            What::Pieces(value, wanted) => {
                let pieces = self.pieces(plan, value)?;
                let shapes = pieces.iter().map(|piece| piece.as_ref().map(|piece| extents(piece)));
                let shapes: Vec<_> = shapes.collect();
                if shapes == *wanted { Ok(()) } else { Err(format!("the pieces of {value} are {shapes:?}")) }
            }
            What::Holds(value, wanted) => {
                let id = self.value(value)?;
                let values = values.ok_or("a case that is only planned holds nothing")?;
                let whole = values.get(id).ok_or_else(|| format!("no output needs {value}"))?;
                let held = self.pieces(plan, value)?.into_iter();
                let held = held.map(|piece| piece.map(|piece| elements(whole, &piece)).transpose());
                let held: Vec<_> = held.collect::<Result<_, _>>()?;
                if held == *wanted { Ok(()) } else { Err(format!("the devices hold {held:?} of {value}")) }
            }
        }
    }

    fn value(&self, name: &str) -> Result<ValueId, String> {
        self.program.value(name).ok_or_else(|| format!("there is no value {name}"))
    }

    /// The indices that each device holds of a value.
    fn pieces(&self, plan: &Plan, value: &str) -> Result<Vec<Option<Vec<IndexSet>>>, String> {
        let id = self.value(value)?;
        let sizes = shape(&plan.program, id, &plan.sizes);
        let layout = plan.placed.layout(id);
        let devices = (0..plan.report.devices as usize).map(DeviceId::new);
        Ok(devices.map(|device| layout.piece_of(&sizes, device)).collect())
    }
}

fn extents(piece: &[IndexSet]) -> Vec<u64> {
    piece.iter().map(IndexSet::count).collect()
}

/// The elements of a piece of an array.
fn elements(whole: &Tensor, piece: &[IndexSet]) -> Result<Vec<f64>, String> {
    let mut part = Tensor::zeros(whole.dtype(), &extents(piece));
    whole.read(piece, part.bytes_mut()).map_err(|why| why.to_string())?;
    Ok(numbers(&part))
}

/// All sentences of a report.
fn everything_said(plan: &Plan) -> String {
    let report = &plan.report;
    let origins = report.values.iter().map(|value| format!("{}: {}", value.name, value.origin));
    let causes = report.collectives.iter().map(|one| one.because.clone());
    let others =
        report.alternatives.iter().map(|one| format!("{}: {}; {}", one.value, one.instead, one.because));
    origins.chain(causes).chain(others).chain(report.notes.iter().cloned()).collect::<Vec<_>>().join("\n")
}
