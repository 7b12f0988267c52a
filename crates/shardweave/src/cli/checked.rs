//! `--check`: the outputs beside those of one device, and where they differ, which value differs first.

use crate::args::RunArgs;
use crate::choose::Choice;
use crate::playing::{Sources, play_here, reference_values};
use crate::render::CheckReport;
use crate::values::Player;
use shardweave_compiler::compile::{Plan, compile};
use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::program::ValueId;
use shardweave_runtime::compare::{Comparison, compare};
use shardweave_runtime::reference::Values;
use shardweave_runtime::tensor::Tensor;

/// What the check found.
pub struct Checked {
    pub report: CheckReport,
    /// What to tell if it failed.
    pub failed: Option<Diagnostic>,
}

/// Compares the outputs of a run with the reference.
pub fn check(
    args: &RunArgs,
    choice: Choice<'_>,
    plan: &Plan,
    sources: &Sources,
    outputs: &[(String, Tensor)],
) -> Result<Checked, Diagnostics> {
    let reference = reference_values(plan, sources)?;
    let compared = plan
        .program
        .outputs()
        .iter()
        .zip(outputs)
        .map(|(&value, (name, output))| (name.clone(), compare(output, needed(&reference, value))));
    let report = CheckReport { outputs: compared.collect() };
    let failed = (!report.ok()).then(|| failure(args, choice, plan, sources, &reference, &report));
    Ok(Checked { report, failed })
}

/// A value that an output needs.
fn needed(reference: &Values, value: ValueId) -> &Tensor {
    reference.get(value).expect("the reference has every value that an output needs")
}

/// Names the outputs that differ, and the first value that does.
fn failure(
    args: &RunArgs,
    choice: Choice<'_>,
    plan: &Plan,
    sources: &Sources,
    reference: &Values,
    report: &CheckReport,
) -> Diagnostic {
    let wrong = report.outputs.iter().filter(|(_, found)| !found.ok);
    let wrong: Vec<String> =
        wrong.map(|(name, found)| format!("`{name}` by up to {:.3e}", found.max_abs)).collect();
    let message = format!("the outputs differ from those of one device: {}", wrong.join(", "));
    match first_difference(args, choice, plan, sources, reference) {
        Ok(Some((value, found))) => {
            let value = &plan.program.values()[value];
            let index =
                found.first_wrong.map_or(String::new(), |at| format!(", at element {at} (row-major)"));
            let help = format!("the first value that differs is `{}`{index}", value.name);
            Diagnostic::at(Code::CheckFailed, value.span, message).help(help)
        }
        Ok(None) if args.on == Player::Mpi => Diagnostic::general(Code::CheckFailed, message).help(
            "with what rank 0 reads, one process gives the right values: do all ranks read the same files?",
        ),
        Ok(None) => Diagnostic::general(Code::CheckFailed, message).help(
            "with every value as an output all of them agree: please report it with the file and the command",
        ),
        Err(_) => Diagnostic::general(Code::CheckFailed, message)
            .help("which value differs first could not be found out: keeping all values needs more memory"),
    }
}

/// Runs once more with every value as an output, and finds the first, in program order, that differs.
fn first_difference(
    args: &RunArgs,
    choice: Choice<'_>,
    plan: &Plan,
    sources: &Sources,
    reference: &Values,
) -> Result<Option<(ValueId, Comparison)>, Diagnostics> {
    let needed_by_outputs = plan.program.needed();
    let all = plan.program.values().keys().filter(|&value| needed_by_outputs[value]).collect();
    let program =
        plan.program.with_outputs(all).expect("outputs need themselves, and each value is there once");
    let all = compile(&program, choice.placement, &plan.sizes, &args.target.options())?;
    let values = play_here(args, &all, sources)?.outputs;
    let compared = program.outputs().iter().zip(&values);
    let mut compared =
        compared.map(|(&value, (_, tensor))| (value, compare(tensor, needed(reference, value))));
    Ok(compared.find(|(_, found)| !found.ok))
}
