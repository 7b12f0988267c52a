//! Tests as data: weave files whose comments say what has to come out.
//!
//! A file is cut at its `#! case` lines. What stands before the first one (meshes, mostly) belongs to
//! every case; each case is a whole weave file of its own, so names may repeat from case to case.
//!
//! ```text
//! mesh line { tp = 4 }
//!
//! #! case sA6 row-parallel linear, result whole
//! #! for D = 1 2 3 4 8
//! #! mesh line.tp=D
//! #! size m=8D k=12D n=5
//! #! expect rowwise: all_reduce y
//! program p { input x: f32[m, k]  input w: f32[n, k]  y = linear(x, w)  output y }   # on lines of their own
//! placement rowwise for p on line { ... }
//! ```
//!
//! | directive | meaning |
//! |---|---|
//! | `case IDS title` | starts a case; `IDS` are the rows it covers, divided by commas, or `-` (`tests/rows.rs`) |
//! | `for V = 1 2 3` | a variable and its values; several make all combinations |
//! | `each WAY = ring direct` | the case once for each word, which stands wherever `WAY` does |
//! | `mesh m.axis=EXPR ...` | as `--mesh` |
//! | `size dim=EXPR ...` | as `--size`; several sets of sizes are divided by ` \| ` |
//! | `plan` | only planned, not run |
//! | `input x: FILL`, `output y: FILL` | elements of an input (else small integers), and what must come out |
//! | `expect [P,..:] PLAN` | the plan's collectives, exactly, wherever there is more than one device |
//! | `at most [P,..:] PLAN` | the plan has no collective that is not one of these |
//! | `placed P: y = LAYOUT` | the layout chosen for a value, as it prints, on more than one device |
//! | `pieces P: y = [2,3] [1,3] -` | the shape of each device's piece; `-` holds nothing |
//! | `holds P: y = [0,1] [2] []` | the elements of each device's piece, row-major |
//! | `peak P: EXPR` | at most so many bytes on a device |
//! | `says P: text` | a note, origin, cause or alternative of the report contains the text, on more than one device |
//! | `only P,..` | run these placements; without it all |
//! | `error CODE [text]` | reading or planning fails with this code and text |
//!
//! `PLAN` is `nothing`, or items joined by ` + `, alternatives joined by ` or `. An item is
//! `[EXPR times] KIND VALUE` with, after it, any of `steps EXPR`, `group EXPR`, `bytes EXPR` (the most of one
//! device), `total EXPR`, `axes a,b`, `via WAY`; `EXPR` is explained in [`expression`].
//! `FILL` is `arange`, `mod N`, `noise`, `all NUMBER`, or numbers in brackets.

mod concrete;
pub mod expect;
pub mod expression;
pub mod fill;
mod trials;
mod run;

pub use concrete::{Given, concrete, planned};
pub use run::{Meshes, Outcome, run_case_file, run_cases};
pub use trials::each_trial;

use expect::{Expected, Limit};
use expression::Variables;
use fill::Fill;

/// All cases of a file.
#[derive(Clone, Debug)]
pub struct CaseFile {
    /// The cases, in order.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The rows of the lists of cases that it covers.
    pub ids: String,
    /// What it is about.
    pub title: String,
    /// Its first line, counted from 1.
    pub line: usize,
    /// The weave file: what stands before all cases, and its own lines, each where it stood.
    pub text: String,
    /// Variables with their values.
    pub variables: Vec<(String, Vec<u64>)>,
    /// Axis sizes: `line.tp` and an expression.
    pub meshes: Vec<(String, String)>,
    /// Sets of dim sizes.
    pub sizes: Vec<Vec<(String, String)>>,
    /// How far it goes.
    pub until: Until,
    /// What inputs hold.
    pub inputs: Vec<(String, Fill)>,
    /// What outputs must hold.
    pub outputs: Vec<(String, Fill)>,
    /// Which placements run; all if it is empty.
    pub only: Vec<String>,
    /// What must be true of the plans.
    pub claims: Vec<Claim>,
    /// The mistakes that must be found; a code, and what its message contains.
    pub errors: Vec<(String, String)>,
}

/// How far a case goes.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Until {
    /// Every backend runs it.
    #[default]
    Run,
    /// It is planned.
    Plan,
}

/// Something that must be true of a plan.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The placements it is about; all if it is empty.
    pub of: Vec<String>,
    /// Its line.
    pub line: usize,
    /// What must be true.
    pub what: What,
}

/// What can be claimed of a plan.
#[derive(Clone, Debug)]
pub enum What {
    /// Its collectives.
    Collectives(Expected),
    /// The layout of a value.
    Placed(String, String),
    /// The shapes of a value's pieces, by device.
    Pieces(String, Vec<Option<Vec<u64>>>),
    /// The elements of a value's pieces, by device.
    Holds(String, Vec<Option<Vec<f64>>>),
    /// The most bytes of a device.
    Peak(String),
    /// A text in the report.
    Says(String),
}

impl CaseFile {
    /// Reads a file of cases.
    pub fn parse(text: &str) -> Result<CaseFile, String> {
        let lines: Vec<&str> = text.lines().collect();
        let starts: Vec<usize> =
            (0..lines.len()).filter(|&at| directive(lines[at]).is_some_and(|d| d.0 == "case")).collect();
        let prelude = starts.first().copied().ok_or("there is no `#! case` in the file")?;
        let mut cases = Vec::new();
        for (n, &start) in starts.iter().enumerate() {
            let end = starts.get(n + 1).copied().unwrap_or(lines.len());
            for own in each(&lines[start..end]).map_err(|reason| format!("line {}: {reason}", start + 1))? {
                let mut case = Case { line: start + 1, ..Case::default() };
                for line in &lines[..prelude] {
                    case.text.push_str(line);
                    case.text.push('\n');
                }
                case.text.extend(std::iter::repeat_n('\n', start - prelude));
                for (at, line) in own.iter().enumerate() {
                    case.text.push_str(line);
                    case.text.push('\n');
                    if let Some((word, rest)) = directive(line) {
                        case.add(word, rest, start + at + 1)
                            .map_err(|reason| format!("line {}: {reason}", start + at + 1))?;
                    }
                }
                cases.push(case);
            }
        }
        Ok(CaseFile { cases })
    }
}

/// The lines of a case, once for each word of its `each`.
fn each(lines: &[&str]) -> Result<Vec<Vec<String>>, String> {
    let mut all = vec![lines.iter().map(|line| line.to_string()).collect::<Vec<_>>()];
    for (_, rest) in lines.iter().filter_map(|line| directive(line)).filter(|(word, _)| *word == "each") {
        let (name, words) = split(rest, '=')?;
        let with = |one: &Vec<String>, word: &str| one.iter().map(|line| line.replace(name, word)).collect();
        all = all.iter().flat_map(|one| words.split_whitespace().map(move |word| with(one, word))).collect();
    }
    Ok(all)
}

/// The word and the rest of a directive.
fn directive(line: &str) -> Option<(&str, &str)> {
    let line = line.trim().strip_prefix("#!")?.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    Some((word, rest.trim()))
}

impl Case {
    fn add(&mut self, word: &str, rest: &str, line: usize) -> Result<(), String> {
        let mut claim = |of, what| self.claims.push(Claim { of, line, what });
        match word {
            "case" => {
                let (ids, title) = rest.split_once(' ').unwrap_or((rest, ""));
                (self.ids, self.title) = (ids.into(), title.trim().into());
            }
            // The lines have been made for each of its words.
            "each" => {}
            "for" => {
                let (name, values) = split(rest, '=')?;
                let values = values.split_whitespace().map(|v| v.parse().map_err(|_| format!("`{v}`?")));
                self.variables.push((name.into(), values.collect::<Result<_, _>>()?));
            }
            "mesh" => self.meshes.extend(assignments(rest)?),
            "size" => self.sizes = rest.split(" | ").map(assignments).collect::<Result<_, _>>()?,
            "plan" => self.until = Until::Plan,
            "input" => self.inputs.push(named_fill(rest)?),
            "output" => self.outputs.push(named_fill(rest)?),
            "only" => self.only.extend(names(rest)),
            "expect" => {
                let (of, plan) = of_placements(rest);
                claim(of, What::Collectives(Expected::parse(Limit::Exactly, plan)?));
            }
            "at" => {
                let (of, plan) = of_placements(rest.strip_prefix("most").ok_or("`at most`?")?);
                claim(of, What::Collectives(Expected::parse(Limit::AtMost, plan)?));
            }
            "placed" => {
                let (of, (value, layout)) = claimed(rest)?;
                claim(of, What::Placed(value, layout));
            }
            "pieces" => {
                let (of, (value, pieces)) = claimed(rest)?;
                claim(of, What::Pieces(value, lists(&pieces)?));
            }
            "holds" => {
                let (of, (value, pieces)) = claimed(rest)?;
                claim(of, What::Holds(value, lists(&pieces)?));
            }
            "peak" => {
                let (of, bytes) = of_placements(rest);
                claim(of, What::Peak(bytes.into()));
            }
            "says" => {
                let (of, text) = of_placements(rest);
                claim(of, What::Says(text.into()));
            }
            "error" => {
                let (code, text) = rest.split_once(' ').unwrap_or((rest, ""));
                self.errors.push((code.into(), text.trim().into()));
            }
            other => return Err(format!("there is no directive `{other}`")),
        }
        Ok(())
    }

    /// The sets of sizes; one empty set if there is none.
    fn size_sets(&self) -> Vec<Vec<(String, String)>> {
        if self.sizes.is_empty() { vec![Vec::new()] } else { self.sizes.clone() }
    }

    /// All combinations of the variables' values.
    pub fn combinations(&self) -> Vec<Variables> {
        let mut all = vec![Variables::new()];
        for (name, values) in &self.variables {
            let with = |one: &Variables, value: u64| {
                let mut one = one.clone();
                one.insert(name.clone(), value);
                one
            };
            all = all.iter().flat_map(|one| values.iter().map(move |&value| with(one, value))).collect();
        }
        all
    }
}

fn split(text: &str, at: char) -> Result<(&str, &str), String> {
    let (before, after) = text.split_once(at).ok_or_else(|| format!("`{at}` is missing in `{text}`"))?;
    Ok((before.trim(), after.trim()))
}

fn names(text: &str) -> Vec<String> {
    text.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_string).collect()
}

fn assignments(text: &str) -> Result<Vec<(String, String)>, String> {
    let one = |text| split(text, '=').map(|(name, value)| (name.to_string(), value.to_string()));
    text.split_whitespace().map(one).collect()
}

fn named_fill(text: &str) -> Result<(String, Fill), String> {
    let (name, fill) = split(text, ':')?;
    Ok((name.into(), Fill::parse(fill)?))
}

/// `p, q: rest`, or a rest that is about all placements.
fn of_placements(text: &str) -> (Vec<String>, &str) {
    match text.split_once(':') {
        Some((of, rest)) => (names(of), rest.trim()),
        None => (Vec::new(), text.trim()),
    }
}

/// `p: value = rest`
fn claimed(text: &str) -> Result<(Vec<String>, (String, String)), String> {
    let (of, rest) = of_placements(text);
    let (value, rest) = split(rest, '=')?;
    Ok((of, (value.into(), rest.into())))
}

/// `[1,2] [] -`
fn lists<T: std::str::FromStr>(text: &str) -> Result<Vec<Option<Vec<T>>>, String> {
    let mut lists = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        if let Some(after) = rest.strip_prefix('-') {
            lists.push(None);
            rest = after.trim();
            continue;
        }
        let inner = rest.strip_prefix('[').ok_or_else(|| format!("`[` is expected at `{rest}`"))?;
        let (inner, after) = split(inner, ']')?;
        let numbers = inner.split(',').map(str::trim).filter(|n| !n.is_empty());
        let numbers = numbers.map(|n| n.parse().map_err(|_| format!("`{n}` is no number")));
        lists.push(Some(numbers.collect::<Result<_, _>>()?));
        rest = after;
    }
    Ok(lists)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_keep_their_lines_and_share_what_stands_before_them() {
        let text = "mesh line { tp = 4 }\n#! case sA1,cB2 first one\n#! for D = 1 2\n#! for o = 3 4\nprogram\n#! case x second\nother";
        let file = CaseFile::parse(text).expect("the file is well formed");
        let [first, second] = &file.cases[..] else { panic!("{file:?}") };
        assert_eq!((first.ids.as_str(), first.title.as_str(), first.line), ("sA1,cB2", "first one", 2));
        assert_eq!(first.combinations().len(), 4);
        assert_eq!(second.text.lines().next(), Some("mesh line { tp = 4 }"));
        assert_eq!(second.text.lines().nth(6), Some("other"));
        assert!(!second.text.contains("program"));
    }

    #[test]
    fn a_case_stands_for_each_of_its_words() {
        let text = "#! case a by WAY\n#! each WAY = ring direct\n#! expect p: all_gather x via WAY\nWAY\n";
        let file = CaseFile::parse(text).expect("the file is well formed");
        let titles: Vec<&str> = file.cases.iter().map(|case| case.title.as_str()).collect();
        assert_eq!(titles, ["by ring", "by direct"]);
        assert_eq!(file.cases[1].text.lines().nth(3), Some("direct"));
    }

    #[test]
    fn claims_are_read() {
        let text = "#! case a t\n#! pieces p: y = [2,3] [] -\n#! holds p,q: y = [0, 1] [2]\n#! says p: a: b\n#! at most all_gather x\n";
        let file = CaseFile::parse(text).expect("the file is well formed");
        let claims = &file.cases[0].claims;
        let What::Pieces(_, pieces) = &claims[0].what else { panic!("{claims:?}") };
        assert_eq!(*pieces, [Some(vec![2, 3]), Some(vec![]), None]);
        assert_eq!(claims[1].of, ["p", "q"]);
        assert!(matches!(&claims[2].what, What::Says(text) if text == "a: b"));
        assert!(CaseFile::parse("#! case a t\n#! expct nothing").is_err());
        assert!(CaseFile::parse("program p").is_err());
    }
}
