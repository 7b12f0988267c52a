//! What a case runs: for some values of its variables and some sizes, programs on placements with their inputs.

use super::expression::{Variables, evaluate};
use super::fill::Fill;
use super::{Case, CaseFile, Until};
use crate::agree::Trial;
use shardweave_compiler::diagnostic::Diagnostics;
use shardweave_compiler::file::{AxisSize, WeaveFile, parse_file};
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, Sizes, ValueId};
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

/// Gives all that the cases of a text run, each with the words that name it, in an order that is always the same. Cases
/// that are only planned, or that have to be wrong, run nothing.
///
/// # Errors
/// If a case is not what it has to be; [`run_cases`](super::run_cases) tells all of that.
pub fn each_trial(text: &str, mut give: impl FnMut(&str, &Trial<'_>)) -> Result<(), String> {
    let runs = |case: &&Case| case.errors.is_empty() && case.until == Until::Run;
    for case in CaseFile::parse(text)?.cases.iter().filter(runs) {
        for variables in case.combinations() {
            let (file, found) = read(case, &variables)?;
            if !found.is_empty() {
                return Err(format!("case {} {}: {found}", case.ids, case.title));
            }
            for sizes in case.size_sets() {
                let given = evaluated(&sizes, &variables)?;
                for placement in file.placements().iter().filter(|placement| is_wanted(case, placement)) {
                    let program = file.program(placement.program()).expect("a sound file has its program");
                    let sizes = bind(program, &given).map_err(|found| found.to_string())?;
                    let inputs = inputs(case, program, &sizes)?;
                    let trial = Trial { program, placement: Some(placement), sizes: &sizes, inputs: &inputs };
                    let name = placement.name();
                    let head = format!("case {} {} {variables:?} {given:?} {name}", case.ids, case.title);
                    give(&head, &trial);
                }
            }
        }
    }
    Ok(())
}

/// The file of a case, and what is wrong with it.
pub(super) fn read(case: &Case, variables: &Variables) -> Result<(WeaveFile, Diagnostics), String> {
    let axis = |(path, size): (String, u64)| AxisSize { path, size };
    let axes: Vec<AxisSize> = evaluated(&case.meshes, variables)?.into_iter().map(axis).collect();
    Ok(parse_file(&case.text, &axes))
}

/// Sizes as numbers.
pub(super) fn evaluated(
    sizes: &[(String, String)],
    variables: &Variables,
) -> Result<Vec<(String, u64)>, String> {
    sizes.iter().map(|(name, size)| Ok((name.clone(), evaluate(size, variables)?))).collect()
}

/// Whether the case runs this placement.
pub(super) fn is_wanted(case: &Case, placement: &Placement) -> bool {
    case.only.is_empty() || case.only.iter().any(|name| name == placement.name())
}

/// Binds the sizes that a program has dims for.
pub(super) fn bind(program: &Program, sizes: &[(String, u64)]) -> Result<Sizes, Diagnostics> {
    let known = sizes.iter().filter(|(name, _)| program.dim(name).is_some());
    Sizes::bind(program, known.map(|(name, size)| (name.as_str(), *size)))
}

pub(super) fn shape(program: &Program, value: ValueId, sizes: &Sizes) -> Vec<u64> {
    program.sized_dims(value, sizes).into_iter().map(|(_, size)| size).collect()
}

/// The inputs that outputs need, as the case fills them.
pub(super) fn inputs(
    case: &Case,
    program: &Program,
    sizes: &Sizes,
) -> Result<BTreeMap<ValueId, Tensor>, String> {
    let needed = program.needed();
    let inputs = program.values().iter().filter(|(id, _)| needed[*id] && program.is_input(*id));
    let filled = inputs.map(|(id, value)| {
        let given = case.inputs.iter().find(|(name, _)| *name == value.name);
        let fill = given.map_or(&Fill::Small, |(_, fill)| fill);
        Ok((id, fill.tensor(&value.name, value.dtype, &shape(program, id, sizes))?))
    });
    filled.collect()
}
