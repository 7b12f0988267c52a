//! What becomes of mutants: they are refused, or harmless in every order.

use super::build::is_small;
use super::machine::Machine;
use super::mutations::{Edit, Meaning, Mutation, REORDERED, mutations};
use super::{MOST_OF_MUTANT, Tried, outputs, small};
use shardweave_compiler::host::{self, HostProgram, parse_host};
use shardweave_testkit::fuzz::Random;
use shardweave_testkit::sources::{hosts_of_cases, hosts_of_forms, hosts_of_goldens};

/// A program that is right, to be changed.
struct Right {
    name: String,
    program: HostProgram,
    text: String,
    outputs: u64,
}

impl Right {
    fn all(programs: Vec<(String, HostProgram)>) -> Vec<Right> {
        let right = |(name, program): (String, HostProgram)| Right {
            text: program.to_string(),
            outputs: outputs(&program),
            name,
            program,
        };
        small(programs).into_iter().map(right).collect()
    }

    fn lines(&self) -> Vec<&str> {
        self.text.lines().collect()
    }
}

#[derive(Default, Debug)]
struct Fates {
    accepted: usize,
    refused: usize,
    /// How many of the refused ones were tried, and how many of those go wrong in some order.
    broken: usize,
    caught: usize,
    tried: Tried,
}

impl Fates {
    /// What is accepted is tried and must be harmless; what is refused though it is a program is returned.
    fn of(&mut self, right: &Right, mutant: &str, meaning: Meaning, what: &str) -> Option<HostProgram> {
        let program = match parse_host(mutant) {
            Ok(program) if program == right.program => return None,
            Ok(program) if host::verify(&program).is_ok() => program,
            refused => {
                self.refused += 1;
                return refused.ok();
            }
        };
        self.accepted += 1;
        if is_small(&program) {
            let what = || format!("{}: {what} is accepted, but", right.name);
            let ran = self.tried.explore(&program, MOST_OF_MUTANT);
            let ran = ran.unwrap_or_else(|wrong| panic!("{} {wrong}\n{program}", what()));
            let harmless = meaning == Meaning::Other || ran == right.outputs;
            assert!(harmless, "{} has other outputs\n{program}", what());
        }
        None
    }

    /// Tries what is refused.
    fn catch(&mut self, broken: &HostProgram) {
        if Machine::new(broken).is_ok() {
            self.broken += 1;
            self.caught += usize::from(self.tried.compare(broken, MOST_OF_MUTANT).is_err());
        }
    }
}

#[test]
fn every_mutation_at_every_place_of_a_form_is_refused_or_harmless() {
    let forms = Right::all(hosts_of_forms());
    for mutation in mutations() {
        let mut fates = Fates::default();
        for right in &forms {
            let lines = right.lines();
            for edit in (mutation.edits)(&lines) {
                fates.of(right, &edit.of(&lines), mutation.meaning, mutation.name);
            }
        }
        assert!(fates.refused > fates.accepted, "{}: {fates:?}", mutation.name);
    }
}

#[test]
fn mutations_of_plans_are_refused_or_harmless() {
    let all: Vec<&Mutation> = mutations().collect();
    let (mut random, mut fates) = (Random::new(20), Fates::default());
    for right in &Right::all([hosts_of_goldens(), hosts_of_cases()].concat()) {
        let lines = right.lines();
        for _ in 0..MUTANTS {
            let mutation = all[random.below(all.len())];
            let edits: Vec<Edit> = (mutation.edits)(&lines);
            if let Some(edit) = random.pick(&edits) {
                fates.of(right, &edit.of(&lines), mutation.meaning, mutation.name);
            }
        }
    }
    let enough = fates.refused > 15_000 && fates.accepted > 1500 && fates.tried.whole > 800;
    assert!(enough && fates.tried.loops > 50, "{fates:?}");
}

/// How many mutants of each plan are tried.
const MUTANTS: usize = 40;

/// Exploring would notice what the verifier lets through: what it refuses does go wrong in some order,
/// unless it is only useless, as a buffer that is never freed.
#[test]
fn what_is_refused_for_its_order_goes_wrong_in_some_order() {
    let forms = Right::all(hosts_of_forms());
    let (mut broken, mut caught, mut both) = (0, 0, 0);
    for mutation in REORDERED {
        let mut fates = Fates::default();
        for right in &forms {
            let lines = right.lines();
            let edits = (mutation.edits)(&lines);
            for edit in edits.iter().step_by(edits.len().div_ceil(MOST_REFUSED).max(1)) {
                let refused = fates.of(right, &edit.of(&lines), mutation.meaning, mutation.name);
                refused.iter().for_each(|program| fates.catch(program));
            }
        }
        let about_events = ["record", "wait", "event"].iter().any(|word| mutation.name.contains(word));
        assert!(!about_events || fates.caught == fates.broken, "{}: {fates:?}", mutation.name);
        (broken, caught) = (broken + fates.broken, caught + fates.caught);
        both += fates.tried.wrong;
    }
    let told = format!("{caught} of {broken} go wrong, {both} of them also where all orders are tried");
    assert!(caught * 2 > broken && broken > 1000 && both > 700, "{told}");
}

/// How many refused mutants of a kind are tried of each program.
const MOST_REFUSED: usize = 60;

/// Several mutations at once, so that one may hide what another breaks.
#[test]
fn what_is_accepted_after_several_mutations_is_harmless() {
    let mut fates = Fates::default();
    for right in &Right::all(hosts_of_forms()) {
        for seed in 0..EDITS {
            let mut random = Random::new(seed + 100);
            let mut text = right.text.clone();
            for _ in 0..=random.below(3) {
                let lines: Vec<&str> = text.lines().collect();
                let edits: Vec<Edit> =
                    REORDERED.iter().flat_map(|mutation| (mutation.edits)(&lines)).collect();
                if let Some(edit) = random.pick(&edits) {
                    text = edit.of(&lines);
                }
            }
            let refused = fates.of(right, &text, Meaning::Other, "several mutations");
            refused.iter().for_each(|program| fates.catch(program));
        }
    }
    assert!(fates.accepted > 20 && fates.caught * 2 > fates.broken, "{fates:?}");
}

/// How many edits of each program are tried.
const EDITS: u64 = 200;
