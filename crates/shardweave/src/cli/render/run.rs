//! What a run gave, for people and for programs.

use super::json::{explanation, sizes};
use super::report::{explanation as plan_text, notes, title};
use super::table::{Column, dims, table};
use super::timeline::Timeline;
use serde_json::{Map, Value, json};
use shardweave_compiler::report::Report;
use shardweave_runtime::compare::Comparison;
use std::path::PathBuf;

/// All there is to tell of a run.
#[derive(Debug)]
pub struct RunReport {
    pub report: Report,
    pub outputs: Vec<OutputReport>,
    /// None if nothing was checked.
    pub check: Option<CheckReport>,
    /// None if nothing was traced.
    pub timeline: Option<Timeline>,
    pub times: Times,
    /// How much of the plan is told to people.
    pub told: Told,
}

/// How much of the plan is told to people.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Told {
    /// Its title.
    Title,
    /// All that `explain` tells.
    Plan,
}

/// One output.
#[derive(Clone, Debug)]
pub struct OutputReport {
    pub name: String,
    pub dims: Vec<(String, u64)>,
    pub dtype: &'static str,
    pub placed: String,
    /// Where it is written, if it is.
    pub file: Option<PathBuf>,
}

/// The outputs beside those of one device.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// In the order of the program's outputs.
    pub outputs: Vec<(String, Comparison)>,
}

impl CheckReport {
    pub fn ok(&self) -> bool {
        self.outputs.iter().all(|(_, found)| found.ok)
    }

    fn largest(&self, error: impl Fn(&Comparison) -> f64) -> f64 {
        self.outputs.iter().map(|(_, found)| error(found)).fold(0.0, f64::max)
    }
}

/// Milliseconds.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub compile: f64,
    pub first_run: f64,
    /// The median of the repeated runs, if there are any.
    pub run: Option<f64>,
}

impl RunReport {
    /// What `run --json` prints.
    pub fn json(&self) -> Value {
        let mut fields = explanation(&self.report);
        let outputs = self.outputs.iter().map(|output| (output.name.clone(), output_json(output)));
        fields.insert("outputs".into(), outputs.collect::<Map<_, _>>().into());
        fields.insert("check".into(), self.check.as_ref().map_or(Value::Null, check_json));
        let Times { compile, first_run, run } = self.times;
        fields.insert("time_ms".into(), json!({ "compile": compile, "first_run": first_run, "run": run }));
        if let Some(timeline) = &self.timeline {
            fields.insert("timeline".into(), timeline.json());
        }
        fields.into()
    }

    /// What `run` prints.
    pub fn text(&self) -> String {
        let mut text = match self.told {
            Told::Title => title(&self.report) + "\n" + &notes(&self.report),
            Told::Plan => plan_text(&self.report),
        };
        text.push_str(&format!("\n{}", outputs(&self.outputs)));
        if let Some(check) = &self.check {
            text.push_str(&format!("\n{}", check_text(check)));
        }
        if let Some(timeline) = &self.timeline {
            text.push_str(&format!("\n{}", timeline.text()));
        }
        let Times { compile, first_run, run } = self.times;
        let repeated = run.map_or(String::new(), |run| format!(", then {run:.3} ms (median)"));
        text.push_str(&format!("\ncompiled in {compile:.3} ms, ran in {first_run:.3} ms{repeated}\n"));
        text
    }
}

fn output_json(output: &OutputReport) -> Value {
    json!({
        "dims": sizes(&output.dims),
        "dtype": output.dtype,
        "placed": output.placed,
        "file": output.file.as_ref().map(|file| file.display().to_string()),
    })
}

fn check_json(check: &CheckReport) -> Value {
    let one =
        |found: &Comparison| json!({ "ok": found.ok, "max_abs": found.max_abs, "max_rel": found.max_rel });
    let outputs = check.outputs.iter().map(|(name, found)| (name.clone(), one(found)));
    json!({
        "ok": check.ok(),
        "max_abs": check.largest(|found| found.max_abs),
        "max_rel": check.largest(|found| found.max_rel),
        "outputs": outputs.collect::<Map<_, _>>(),
    })
}

fn outputs(outputs: &[OutputReport]) -> String {
    let columns = [
        Column::Text("output"),
        Column::Text("dims"),
        Column::Text("dtype"),
        Column::Text("placed"),
        Column::Text("file"),
    ];
    let rows = outputs.iter().map(|output| {
        let file = output.file.as_ref().map_or("-".into(), |file| file.display().to_string());
        [output.name.clone(), dims(&output.dims), output.dtype.into(), output.placed.clone(), file]
    });
    table(columns, rows)
}

fn check_text(check: &CheckReport) -> String {
    let columns = [
        Column::Text("checked"),
        Column::Text("result"),
        Column::Number("largest error"),
        Column::Number("relative"),
    ];
    let rows = check.outputs.iter().map(|(name, found)| {
        let result = if found.ok { "agrees with one device" } else { "DIFFERS from one device" };
        [name.clone(), result.into(), format!("{:.3e}", found.max_abs), format!("{:.3e}", found.max_rel)]
    });
    table(columns, rows)
}
