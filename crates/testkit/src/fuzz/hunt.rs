//! The hunt: inputs are edited, run, kept if they did something new, and shrunk if they failed.

use super::behaviour::pattern;
use super::mutate::mutated;
use super::random::Random;
use super::watch::{Slack, examine};
use super::{Behaviour, Target};
use std::collections::BTreeSet;

/// The most runs that shrinking one input takes; the fewer, the longer a run may take.
const MOST_SHRINKS: u32 = 3000;

/// An input that failed, as small as it could be made.
#[derive(Clone, Debug)]
pub struct Found {
    /// The input.
    pub input: Vec<u8>,
    /// What must not be.
    pub reason: String,
}

/// A hunt for inputs that fail. The same seed gives the same inputs.
pub struct Hunt {
    target: &'static Target,
    slack: Slack,
    random: Random,
    /// The seeds, then every input that did something new.
    corpus: Vec<Vec<u8>>,
    /// How many of the seeds were not run yet.
    untried: usize,
    known: BTreeSet<String>,
    failures: BTreeSet<String>,
    inputs: u64,
}

impl Hunt {
    /// Starts from the seeds of a target.
    pub fn new(target: &'static Target, seed: u64, slack: Slack) -> Hunt {
        let corpus = (target.seeds)();
        Hunt {
            target,
            slack,
            random: Random::new(seed),
            untried: corpus.len(),
            corpus,
            known: BTreeSet::new(),
            failures: BTreeSet::new(),
            inputs: 0,
        }
    }

    /// How many inputs were run, those of shrinking not counted.
    pub fn inputs(&self) -> u64 {
        self.inputs
    }

    /// How many inputs the corpus has.
    pub fn corpus(&self) -> usize {
        self.corpus.len()
    }

    /// How many different things inputs did.
    pub fn behaviours(&self) -> usize {
        self.known.len()
    }

    /// The next input; `before` sees it before it is run, so that it is not lost if the process ends.
    /// A failure of a kind that was found before is not told again.
    pub fn step(&mut self, before: &mut dyn FnMut(&[u8])) -> Option<Found> {
        let input = self.next_input();
        self.inputs += 1;
        before(&input);
        match examine(self.target, &input, self.slack) {
            Ok(behaviour) => {
                self.keep(input, behaviour);
                None
            }
            Err(reason) if self.failures.insert(pattern(&reason)) => Some(self.shrink(input, reason, before)),
            Err(_) => None,
        }
    }

    /// First the seeds as they are; then now and then a fresh input, else an edit.
    fn next_input(&mut self) -> Vec<u8> {
        if self.untried > 0 {
            self.untried -= 1;
            return self.corpus[self.untried].clone();
        }
        match self.target.fresh {
            Some(fresh) if self.random.below(3) == 0 => fresh(&mut self.random),
            _ => {
                let (one, other) =
                    (self.random.below(self.corpus.len()), self.random.below(self.corpus.len()));
                mutated(&mut self.random, &self.corpus[one], &self.corpus[other])
            }
        }
    }

    fn keep(&mut self, input: Vec<u8>, behaviour: Behaviour) {
        let before = self.known.len();
        self.known.extend(behaviour.traits);
        if self.known.len() > before {
            self.corpus.push(input);
        }
    }

    /// Takes pieces away, large ones first, as long as it fails in the same way.
    fn shrink(&mut self, input: Vec<u8>, reason: String, before: &mut dyn FnMut(&[u8])) -> Found {
        let kind = pattern(&reason);
        let mut found = Found { input, reason };
        let (mut runs, most) = (0, MOST_SHRINKS / self.target.seconds);
        let mut length = found.input.len().div_ceil(2);
        while length > 0 && runs < most {
            let mut at = 0;
            while at < found.input.len() && runs < most {
                let mut smaller = found.input.clone();
                smaller.drain(at..(at + length).min(found.input.len()));
                runs += 1;
                before(&smaller);
                match examine(self.target, &smaller, self.slack) {
                    Err(reason) if pattern(&reason) == kind => found = Found { input: smaller, reason },
                    _ => at += length,
                }
            }
            length = if length == 1 { 0 } else { length.div_ceil(2) };
        }
        found
    }
}
