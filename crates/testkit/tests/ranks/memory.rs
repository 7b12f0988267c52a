//! Memory that some rank cannot have.

use crate::engines::{Call, Countdown, Watched};
use crate::{Case, HOSTS, assert_gives, placed_on_three};
use shardweave_compiler::dtype::DType;
use shardweave_runtime::engine::Engine;
use shardweave_runtime::execute::RunError;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_testkit::ranks::{Rank, on_ranks};
use std::sync::Arc;

/// More bytes than any system gives.
const NEVER_THERE: usize = isize::MAX as usize;

/// Who cannot have its memory says why, the others hear of it, and all can begin again.
#[test]
fn memory_that_one_rank_cannot_have_is_told_by_that_rank() {
    let case = Case::mlp();
    // Where ranks meet, and if they share a host what they read of each other.
    for (hosts, call) in HOSTS.into_iter().map(|hosts| (hosts, 1)).chain([([0, 0, 0], 2)]) {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let engine = without_memory(engine, call);
            let options = SessionOptions { engine: Some(engine.clone()), ..SessionOptions::default() };
            match Session::from_plan(case.plan.clone(), options).err() {
                Some(RunError::NotShared(_)) if rank == 1 => {}
                Some(RunError::Elsewhere { rank: 1, message }) if rank != 1 => {
                    assert!(message.contains("cannot be had"), "{message}");
                }
                other => panic!("rank {rank}, call {call}: {other:?}"),
            }
            case.assert_runs(&mut case.session(engine, SessionOptions::default()), rank);
        });
    }
}

/// An engine that does not share what it is asked for this time, counted from 1, on rank 1.
fn without_memory(engine: Arc<Rank>, time: i64) -> Arc<dyn Engine> {
    let (when, is_the_one) = (Countdown::new(time), engine.place().rank == 1);
    Watched::new(engine, move |call| {
        if let Call::Share(bytes) = call {
            *bytes = if when.is_now() && is_the_one { NEVER_THERE } else { *bytes };
        }
        Ok(())
    })
}

/// The same where the memory of constants is shared, since others read them, and that of nothing else.
#[test]
fn memory_of_constants_that_one_rank_cannot_have_is_told_by_that_rank() {
    let (program, placement) = placed_on_three(
        "input x: f32[s, e=6]\ninput w: f32[h=9, e]\ny = linear(x, w)\noutput y",
        "x: s/tp\nw: h/tp\ny: s/tp",
    );
    let weights = Inputs::new().with("w", RandomArray::new(1, "w", DType::F32, &[9, 6]));
    let inputs = Inputs::new().with("x", RandomArray::new(1, "x", DType::F32, &[120, 6]));
    let session = |options| {
        let mut session = Session::new(program.clone(), Some(placement.clone()), options);
        session.bind_constants(&weights).expect("an input");
        session
    };
    let expected = session(SessionOptions::default()).run(&inputs).expect("threads run it").into_vec();
    on_ranks(&[0, 0, 0], |engine| {
        let rank = engine.place().rank;
        let engine = without_memory(engine, 2);
        let mut session = session(SessionOptions { engine: Some(engine), ..SessionOptions::default() });
        match session.run(&inputs).err() {
            Some(RunError::NotShared(_)) if rank == 1 => {}
            Some(RunError::Elsewhere { rank: 1, .. }) if rank != 1 => {}
            other => panic!("rank {rank}: {other:?}"),
        }
        assert_gives(&mut session, rank, &inputs, &expected);
    });
}

/// Why a plan's memory is not there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Lacks {
    /// All ranks know that there is less.
    All,
    /// One rank knows.
    One,
    /// The engine of one rank cannot share so much, where ranks share memory.
    Shared,
}

/// Bytes that are there: enough for the small plans, and not for the large ones.
const THERE: usize = 1 << 20;

/// Rows for which one device's arena fits, but not with the outputs beside it; and for which it does not fit alone.
const LARGE: [u64; 2] = [18_000, 1 << 20];

/// A plan that does not fit leaves a session that runs those that do, whatever was in use before.
#[test]
fn after_a_plan_that_is_too_large_smaller_ones_run() {
    let (program, placement) = placed_on_three(
        "input x: f32[s, e=6]\ninput w: f32[h=9, e]\ny = linear(x, w)\noutput y",
        "x: s/tp\nw: h/tp\ny: h/tp",
    );
    let weights = Inputs::new().with("w", RandomArray::new(1, "w", DType::F32, &[9, 6]));
    let inputs = |rows: u64| Inputs::new().with("x", RandomArray::new(1, "x", DType::F32, &[rows, 6]));
    let expected = |rows| {
        let mut session = Session::new(program.clone(), Some(placement.clone()), SessionOptions::default());
        session.bind_constants(&weights).expect("an input");
        session.run(&inputs(rows)).expect("threads run it").into_vec()
    };
    let small = [12, 30].map(|rows| (inputs(rows), expected(rows)));
    let all = [Lacks::All, Lacks::One, Lacks::Shared];
    let cases = HOSTS.into_iter().flat_map(|hosts| all.map(|lacks| (hosts, lacks)));
    for (hosts, lacks) in cases.filter(|(hosts, lacks)| *lacks != Lacks::Shared || *hosts == [0, 0, 0]) {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let engine = Watched::new(engine, move |call| {
                if let Call::Share(bytes) = call {
                    let refused = lacks == Lacks::Shared && rank == 1 && *bytes > THERE;
                    *bytes = if refused { NEVER_THERE } else { *bytes };
                }
                Ok(())
            });
            let memory = match lacks {
                Lacks::All => Some(THERE as u64),
                Lacks::One => (rank == 1).then_some(THERE as u64),
                Lacks::Shared => None,
            };
            let options = SessionOptions { engine: Some(engine), memory, ..SessionOptions::default() };
            let mut session = Session::new(program.clone(), Some(placement.clone()), options);
            session.bind_constants(&weights).expect("an input");
            // First with nothing in use, then in place of what is.
            for rows in [LARGE[1], LARGE[0], LARGE[1]] {
                if lacks == Lacks::Shared && rows == LARGE[0] {
                    continue;
                }
                let speaks = if lacks == Lacks::All { 0 } else { 1 };
                match (session.run(&inputs(rows)).err(), lacks) {
                    (Some(RunError::OutOfMemory { .. }), Lacks::All | Lacks::One) if rank == speaks => {}
                    (Some(RunError::NotShared(_)), Lacks::Shared) if rank == speaks => {}
                    (Some(RunError::Elsewhere { rank: found, .. }), _) if rank != speaks => {
                        assert_eq!(found, speaks);
                    }
                    (other, _) => panic!("rank {rank}, {lacks:?}, {rows} rows: {other:?}"),
                }
                for (inputs, expected) in &small {
                    assert_gives(&mut session, rank, inputs, expected);
                }
            }
        });
    }
}
