//! A case as plain texts, with numbers where its variables stand, and what such a text says.

use super::Case;
use super::expression::{Variables, evaluate};
use super::fill::Fill;
use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::file::{AxisSize, parse_file};
use shardweave_compiler::program::Sizes;

/// For some values of the variables and some sizes of a case, a weave file whose comments say the axes and
/// sizes: `#! mesh line.tp=4`, `#! size s=8 h=2`. Other directives are left out.
pub fn concrete(case: &Case) -> Vec<String> {
    /// Of cases with many values of their variables only the first few are taken.
    const MOST: usize = 4;
    let plain: String = case
        .text
        .lines()
        .filter(|line| !line.trim_start().starts_with("#!"))
        .fold(String::new(), |text, line| if line.trim().is_empty() { text } else { text + line + "\n" });
    let combinations = case.combinations().into_iter();
    let texts = combinations.flat_map(|variables| {
        let sets = case.size_sets().into_iter();
        let heads = sets.filter_map(|sizes| head(case, &sizes, &variables)).collect::<Vec<_>>();
        heads.into_iter().map(|head| head + &plain)
    });
    texts.take(MOST).collect()
}

fn head(case: &Case, sizes: &[(String, String)], variables: &Variables) -> Option<String> {
    let line = |word: &str, pairs: &[(String, String)]| -> Option<String> {
        let pair =
            |(name, size): &(String, String)| Some(format!(" {name}={}", evaluate(size, variables).ok()?));
        let pairs = pairs.iter().map(pair).collect::<Option<String>>()?;
        Some(if pairs.is_empty() { pairs } else { format!("#! {word}{pairs}\n") })
    };
    Some(line("mesh", &case.meshes)? + &line("size", sizes)?)
}

/// What the comments of such a text say. Lines that say nothing sensible are left out.
pub struct Given {
    /// Sizes of axes.
    pub axes: Vec<AxisSize>,
    /// Sizes of dims.
    pub sizes: Vec<(String, u64)>,
    /// What inputs hold.
    pub fills: Vec<(String, Fill)>,
}

impl Given {
    /// Reads the comments of a text.
    pub fn read(text: &str) -> Given {
        let mut given = Given { axes: Vec::new(), sizes: Vec::new(), fills: Vec::new() };
        for line in text.lines().filter_map(|line| line.trim().strip_prefix("#!")) {
            let (word, rest) = line.trim().split_once(' ').unwrap_or((line, ""));
            let pairs = rest.split_whitespace().filter_map(|pair| pair.split_once('='));
            let mut pairs = pairs.filter_map(|(name, size)| Some((name.to_string(), size.parse().ok()?)));
            match word {
                "size" => given.sizes.extend(pairs),
                "mesh" => given.axes.extend(pairs.by_ref().map(|(path, size)| AxisSize { path, size })),
                "input" => given.fills.extend(
                    rest.split_once(':')
                        .and_then(|(x, fill)| Some((x.trim().into(), Fill::parse(fill.trim()).ok()?))),
                ),
                _ => {}
            }
        }
        given
    }
}

/// The plans of such a text, with the names of their placements; what does not compile is left out.
pub fn planned(text: &str) -> Vec<(String, Plan)> {
    let given = Given::read(text);
    let (file, found) = parse_file(text, &given.axes);
    let mut plans = Vec::new();
    for placement in file.placements().iter().filter(|_| found.is_empty()) {
        let program = file.program(placement.program()).expect("a sound file has its program");
        let known = given.sizes.iter().filter(|(name, _)| program.dim(name).is_some());
        let sizes = Sizes::bind(program, known.map(|(name, size)| (name.as_str(), *size)));
        let plan =
            sizes.and_then(|sizes| compile(program, Some(placement), &sizes, &CompileOptions::default()));
        plans.extend(plan.ok().map(|plan| (placement.name().to_string(), plan)));
    }
    plans
}
