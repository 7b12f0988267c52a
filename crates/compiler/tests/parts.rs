//! What must hold of summaries of the parts of a dim, and of what is finished from them: edits of
//! `tests/forms/parts.local`, each with a part of the reason that must be given.

use shardweave_compiler::file::parse_file;
use shardweave_compiler::local::{self, parse_local};

const FORM: &str = include_str!("forms/parts.local");

/// An edit of every place where the first text stands, and why the result is refused.
type Edit = (&'static str, &'static str, &'static str);

const REFUSED: &[Edit] = &[
    // as many parts as there are, each device its own
    ("e@part=3", "e@part=4", "`e@part` counts 3 parts, but has size 4"),
    ("at e@part/tp, s/step(2, i0)/dp on", "at s/step(2, i0)/dp on", "the result does not hold what"),
    (
        "at e@part/dp/tp on",
        "at e@part/tp/dp on",
        "the result does not hold what the operation works on along",
    ),
    ("softmax_from_parts(%3, %5, e)", "softmax_from_parts(%3, %4, e)", "operand 2 does not hold what"),
    ("argmax_from_parts(%13, e)", "argmax_from_parts(%12, e)", "operand 1 does not hold what"),
    (
        "exponentials_of_part(%3, e) over s/step(2, i0)/dp, e/local(2)/tp",
        "exponentials_of_part(%3, e) over s/step(2, i0)/dp, e@part/tp",
        "`e@part` counts 1 parts, but has size 3",
    ),
    (
        "exponentials_of_part(%3, e) over s/step(2, i0)/dp, e/local(2)/tp",
        "exponentials_of_part(%3, e) over s/dp, e/step(2, i0)/tp",
        "the combined dim `e` is divided into steps",
    ),
    // as many numbers as are said
    ("e@number=4", "e@number=2", "the summary has 4 numbers, not as many as `e@number`"),
    ("softmax_from_parts(%3, %5, e)", "rms_norm_from_parts(%3, %5, e)", "the summary has 1 numbers"),
    // of the elements that are worked on, held wide
    (
        "layer_norm_from_parts(%7, %1, %9, e",
        "layer_norm_from_parts(%1, %9, e",
        "works on [], but `operand 2`",
    ),
    ("layer_norm_from_parts(%7, %1, %9, e", "layer_norm_from_parts(%7, %9, %1, e", "needs the dim `e@part`"),
    ("%8 n: f32", "%8 n: f64", "`moments_of_part` gives f32, but its result is f64"),
    ("%12 a: i64", "%12 a: f32", "`largest_of_part` gives i64, but its result is f32"),
    // nothing that needs a whole dim runs on a part of it
    ("softmax_from_parts(%3, %5, e)", "softmax(%3, e)", "dim `e` is cut, but is needed whole"),
    ("e@part", "e@parts", "the number of an operand, `part` or `number`"),
];

#[test]
fn broken_summaries_are_refused() {
    let verified = |text: &str| match parse_local(text) {
        Ok(program) => local::verify(&program).map_err(|fault| fault.to_string()),
        Err(mistakes) => Err(mistakes.to_string()),
    };
    assert_eq!(verified(FORM), Ok(()));
    let mut wrong = Vec::new();
    for (from, to, reason) in REFUSED {
        assert!(FORM.contains(from), "nothing to edit: {from}");
        let told = verified(&FORM.replace(from, to));
        if !told.as_ref().is_err_and(|told| told.contains(reason)) {
            wrong.push(format!("`{from}` as `{to}`:\n  told     {told:?}\n  expected {reason}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn programs_have_no_summaries() {
    for call in ["moments_of_part(x, e)", "softmax_from_parts(x, x, e)"] {
        let (_, mistakes) =
            parse_file(&format!("program p {{\n  input x: f32[e]\n  y = {call}\n  output y\n}}"), &[]);
        let told = mistakes.to_string();
        assert!(told.contains("there is no operation"), "{told}");
        assert!(
            !told.contains("_of_part ") && !told.contains("_from_parts "),
            "they are not offered: {told}"
        );
    }
}
