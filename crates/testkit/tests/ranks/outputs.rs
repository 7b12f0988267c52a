//! What ranks have of the outputs.

use crate::engines::{Call, Countdown, Watched};
use crate::{Case, HOSTS};
use shardweave_runtime::engine::{Engine, EngineError};
use shardweave_runtime::execute::{Record, RunError};
use shardweave_runtime::session::{OutputPieces, Session, SessionOptions};
use shardweave_testkit::ranks::on_ranks;
use std::convert::Infallible;

/// All ranks have, or have not, the results of a run that went well, whatever becomes of what was recorded.
#[test]
fn results_are_there_also_where_what_was_recorded_is_lost() {
    let case = Case::new(
        "input x: f32[s=12, e=6]\na = reshard(x)\nb = square(a)\nc = reshard(b)\noutput c",
        "x: s/tp\na: e/tp\nb: e/tp\nc: s/tp",
    );
    let refused = EngineError::Refused("the wire is cut".into());
    on_ranks(&[0, 1, 0], |engine| {
        let rank = engine.place().rank;
        let (first, refused) = (Countdown::new(1), refused.clone());
        let faulty = Watched::new(engine, move |call| match call {
            Call::Gather if first.is_now() => Err(refused.clone()),
            _ => Ok(()),
        });
        let options = SessionOptions { record: Record::Bytes, ..SessionOptions::default() };
        let mut session = case.session(faulty, options);
        session.bind(&case.inputs).expect("inputs can be read");
        assert_eq!(session.execute(), Err(RunError::Engine("the wire is cut".into())));
        let outputs = session.outputs().expect("the run itself went well");
        assert_eq!(outputs.iter().count(), usize::from(rank == 0));
        assert!(outputs.iter().all(|(_, tensor)| tensor.bytes() == case.expected[0].1.bytes()));
        case.assert_runs(&mut session, rank);
    });
}

/// Stretches of an output, each with the byte where it starts.
type Stretches = Vec<(u64, Vec<u8>)>;

/// What a process has of each output; none of one whose pieces are parts.
fn stretches(session: &Session) -> Vec<Option<Stretches>> {
    let pieces = session.pieces().expect("it has run");
    let of = |output: &OutputPieces<'_>| {
        if output.are_parts() {
            return None;
        }
        let mut all = Vec::new();
        let Ok(()) = output.try_for_each(|at, bytes| -> Result<(), Infallible> {
            all.push((at, bytes.to_vec()));
            Ok(())
        });
        Some(all)
    };
    pieces.iter().map(of).collect()
}

#[test]
fn all_processes_together_have_every_element_once() {
    let case = Case::new(
        "input x: f32[s=7, e=5]\nrows = square(x)\ncolumns = square(x)\nall = square(x)\nz = sum(x, s)\n\
         output rows\noutput columns\noutput all\noutput z",
        "x: s/tp\nrows: s/tp\ncolumns: e/tp\nall: replicated\nz: partial(tp)",
    );
    let whole: Vec<&[u8]> = case.expected.iter().map(|(_, tensor)| tensor.bytes()).collect();

    let mut session = Session::from_plan(case.plan.clone(), SessionOptions::default()).expect("it loads");
    session.run(&case.inputs).expect("it runs");
    let one_each = |bytes: &&[u8]| Some(vec![(0, bytes.to_vec())]);
    assert_eq!(stretches(&session), whole.iter().map(one_each).collect::<Vec<_>>());

    for hosts in HOSTS {
        let ranks = on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let mut session = case.session(engine, SessionOptions::default());
            case.assert_runs(&mut session, rank);
            stretches(&session)
        });
        for (output, whole) in whole.iter().enumerate() {
            let of_ranks: Option<Vec<_>> = ranks.iter().map(|rank| rank[output].clone()).collect();
            let Some(of_ranks) = of_ranks else {
                assert_eq!(output, 3, "the last one alone is combined");
                assert!(ranks.iter().all(|rank| rank[output].is_none()), "all ranks say the same");
                continue;
            };
            let mut all: Vec<_> = of_ranks.into_iter().flatten().collect();
            all.sort();
            let (mut together, mut end) = (Vec::new(), 0);
            for (at, bytes) in all {
                assert_eq!(at, end, "output {output}");
                end += bytes.len() as u64;
                together.extend(bytes);
            }
            assert_eq!(&together, whole, "output {output}");
        }
    }
}
