//! Ranks that differ in what they chose run nothing: the ticks of one would mean nothing to another, or one would wait
//! for what another does not do.

use crate::{Case, MLP, PLACED, placed_on_three};
use shardweave_runtime::engine::Engine;
use shardweave_runtime::execute::{Loans, Record, RunError, Streams};
use shardweave_runtime::session::{Session, SessionOptions};
use shardweave_testkit::ranks::on_ranks;

#[test]
fn ranks_that_choose_something_else_are_told_apart() {
    let case = Case::mlp();
    let (program, placement) = placed_on_three(MLP, PLACED);
    let base = SessionOptions { streams: Some(Streams::Merged), ..SessionOptions::default() };
    let others: [(&str, SessionOptions); 4] = [
        ("streams", SessionOptions { streams: Some(Streams::Apart), ..base.clone() }),
        ("loans", SessionOptions { loans: Loans::Never, ..base.clone() }),
        ("record", SessionOptions { record: Record::Bytes, ..base.clone() }),
        ("record", SessionOptions { record: Record::Times, ..base.clone() }),
    ];
    for ((what, other), (odd, than)) in others.iter().flat_map(|other| [(other, (2, 0)), (other, (0, 1))]) {
        on_ranks(&[0, 0, 0], |engine| {
            let options = if engine.place().rank == odd { other } else { &base };
            let options = SessionOptions { engine: Some(engine), ..options.clone() };
            let differs = Some(RunError::RanksDiffer { rank: odd, than });
            assert_eq!(Session::from_plan(case.plan.clone(), options.clone()).err(), differs, "{what}");
            // So it is where the plan comes with the inputs.
            let mut session = Session::new(program.clone(), Some(placement.clone()), options);
            assert_eq!(session.run(&case.inputs).err(), differs, "{what}");
        });
    }
}
