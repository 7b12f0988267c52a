//! A case as plain texts, with numbers where its variables stand.

use super::Case;
use super::expression::{Variables, evaluate};

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
