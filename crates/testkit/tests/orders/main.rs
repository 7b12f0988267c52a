//! What the host verifier accepts runs the same in every order, and what is broken on purpose is refused.
//!
//! A program is made into a [machine](machine), of which every order is [tried](explore). The programs
//! are those of the forms, of the cases and of the golden files; the same [put on streams](streams) that
//! hardly wait for each other; and [mutations](mutations) of them: of the forms all there are, of the others
//! as many as there is time for, the same every time.

mod build;
mod conflicts;
mod explore;
mod faults;
mod loans;
mod machine;
mod memories;
mod moves;
mod mutants;
mod mutations;
mod rings;
mod streams;

use build::is_small;
use explore::{Orders, Wrong, explore};
use machine::Machine;
use shardweave_compiler::host::{Action, HostInstr, HostLoop, HostProgram};
use shardweave_compiler::placement::Overlap;
use shardweave_testkit::fuzz::Random;
use shardweave_testkit::sources::{hosts_of_cases, hosts_of_forms, hosts_of_goldens};
use std::collections::BTreeSet;

/// A program on at most three devices is explored with nothing left out if it has at most so many states.
/// Pipelines of three devices have the most, and twice as many with twice the steps.
const MOST_OF_FEW: usize = 3 << 20;
/// One on more devices is if it has at most so many.
const MOST_OF_MANY: usize = 1 << 13;
/// A changed program: there are many.
const MOST_OF_MUTANT: usize = 1 << 10;

/// Where orders that do not differ are left out, no program has more states.
const MOST: usize = 1 << 13;

/// What was explored.
#[derive(Clone, Copy, Default, Debug)]
struct Tried {
    /// How many programs, how many of them with a loop, and with more than one stream.
    programs: usize,
    loops: usize,
    streams: usize,
    /// Programs of which all orders were tried, and their states.
    whole: usize,
    states: usize,
    /// Programs that both ways find wrong.
    wrong: usize,
}

impl Tried {
    /// The outputs of a program that is right, or what goes wrong.
    fn explore(&mut self, program: &HostProgram, room: usize) -> Result<u64, Wrong> {
        let outputs = self.compare(program, room)?;
        Ok(outputs.unwrap_or_else(|| panic!("the orders that differ are not few:\n{program}")))
    }

    /// Tries all orders that differ, and all there are where there is room for their states; both ways must
    /// say the same. `None` if a program that is not right is too large for both.
    fn compare(&mut self, program: &HostProgram, room: usize) -> Result<Option<u64>, Wrong> {
        let machine = Machine::new(program).unwrap_or_else(|why| panic!("{why}:\n{program}"));
        let different = explore(&machine, Orders::Different, MOST);
        let different = different.map(|explored| explored.map(|one| one.outputs));
        self.programs += 1;
        self.loops += usize::from(program.body.iter().any(|one| matches!(one, HostInstr::Loop(_))));
        self.streams += usize::from(program.streams > 1);
        match (&different, explore(&machine, Orders::All, room)) {
            // What there is no room for is left to the orders that differ.
            (_, Ok(None)) => {}
            (Err(_), Err(_)) => self.wrong += 1,
            (Ok(outputs), Ok(Some(all))) => {
                assert!(outputs.is_none_or(|outputs| outputs == all.outputs), "{program}");
                self.whole += 1;
                self.states += all.states;
            }
            (Err(wrong), Ok(Some(_))) => panic!("only some orders show that {wrong}\n{program}"),
            (Ok(None), Err(wrong)) => return Err(wrong),
            (Ok(Some(_)), Err(wrong)) => panic!("only all orders show that {wrong}\n{program}"),
        }
        different
    }
}

/// The outputs of a program that is right.
fn outputs(program: &HostProgram) -> u64 {
    Tried::default().explore(program, 0).unwrap_or_else(|wrong| panic!("{wrong}\n{program}"))
}

/// All small programs, each once.
fn small(programs: Vec<(String, HostProgram)>) -> Vec<(String, HostProgram)> {
    let mut seen = BTreeSet::new();
    let small = programs.into_iter().filter(|(_, program)| is_small(program));
    small.filter(|(_, program)| seen.insert(program.to_string())).collect()
}

fn all_small() -> Vec<(String, HostProgram)> {
    small([hosts_of_forms(), hosts_of_goldens(), hosts_of_cases()].concat())
}

/// What a pipeline moves step by step.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Side {
    Gathered,
    Reduced,
}

/// How a program's pipelines overlap: those that gather, and those that reduce.
fn ways(program: &HostProgram) -> Vec<(Overlap, Side)> {
    let pipelines = program.body.iter().filter_map(|instr| match instr {
        HostInstr::Loop(steps) if steps.is_pipeline() => Some(steps),
        _ => None,
    });
    let way = |steps: &HostLoop| {
        let kinds = steps.stages.iter().flatten().filter_map(|instr| match instr {
            HostInstr::On(_, Action::Move(moved)) if moved.kind.communicates() => Some(moved.kind),
            _ => None,
        });
        let sides: BTreeSet<Side> =
            kinds.map(|kind| if kind.reduces() { Side::Reduced } else { Side::Gathered }).collect();
        sides.into_iter().map(|side| (steps.overlap, side)).collect::<Vec<_>>()
    };
    pipelines.flat_map(way).collect()
}

/// On two and on three devices every order of every program is tried, so of every way to overlap there is; but
/// for two of those in which a sum travels around three devices, which have the most states of all. On
/// more devices a program has a state for every combination of how far each is, so that is done for those with
/// few; of the others only orders that differ are tried.
#[test]
fn right_programs_run_the_same_in_every_order() {
    let (mut few, mut many) = (Tried::default(), Tried::default());
    let mut overlapped: BTreeSet<(u64, Overlap, Side)> = BTreeSet::new();
    for (name, program) in all_small() {
        let is_few = program.devices <= 3;
        let (tried, room) = if is_few { (&mut few, MOST_OF_FEW) } else { (&mut many, MOST_OF_MANY) };
        let before = tried.whole;
        tried.explore(&program, room).unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{program}"));
        let whole = tried.whole > before;
        let ways = ways(&program);
        let travels = program.devices == 3 && ways == [(Overlap::Ring, Side::Reduced)];
        let fits = whole || !is_few || travels;
        assert!(fits, "{name}: more than {MOST_OF_FEW} states; fewer steps will do\n{program}");
        if whole {
            overlapped.extend(ways.into_iter().map(|(way, side)| (program.devices, way, side)));
        }
    }
    for devices in [2, 3] {
        for way in [Overlap::Collective, Overlap::Broadcast, Overlap::Direct, Overlap::Ring] {
            for side in [Side::Gathered, Side::Reduced] {
                assert!(overlapped.contains(&(devices, way, side)), "{overlapped:?}");
            }
        }
    }
    let told = format!("few devices: {few:?}, many: {many:?}");
    assert!(few.programs - few.whole <= 2, "{told}");
    assert!(few.programs > 450 && few.loops > 20, "{told}");
    assert!(many.programs > 400 && many.whole > 200 && many.loops > 20, "{told}");
    assert!(few.states > 10_000_000 && few.streams + many.streams > 40, "{told}");
}

#[test]
fn no_wait_that_the_verifier_asks_for_is_missing() {
    let mut random = Random::new(3);
    let mut tried = Tried::default();
    for (name, right) in all_small() {
        let short = right.actions().len() <= MOST_ACTIONS;
        if right.streams == 1
            && short
            && let Some(program) = streams::parallel(&right, &mut random)
        {
            let ran = tried.explore(&program, MOST_OF_MUTANT);
            let ran = ran.unwrap_or_else(|wrong| panic!("{name}: {wrong}\n{program}"));
            assert_eq!(ran, outputs(&right), "{name} has other outputs\n{program}");
        }
    }
    assert!(tried.streams > 700 && tried.loops > 15 && tried.whole > 300, "{tried:?}");
}

/// Longer programs are not put on streams: every wait is tried by verifying the whole.
const MOST_ACTIONS: usize = 60;
