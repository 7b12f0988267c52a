//! The example runs as it stands, on the ranks that it is started with.

use crate::{ended, exits};
use shardweave_testkit::launch;

#[path = "../../examples/ranks.rs"]
mod ranks;

/// Says to this test that it is one of the ranks.
const IS_RANK: &str = "SHARDWEAVE_EXAMPLE_RANK";

#[test]
fn it_runs_on_any_number_of_ranks() {
    if std::env::var_os(IS_RANK).is_some() {
        return ranks::main().expect("the example runs");
    }
    // No other program has the example in it.
    let program = std::env::current_exe().expect("a test has a file");
    for (ranks, columns) in [(1, 16), (4, 4)] {
        let mut command = launch::command(&program, ranks);
        command.env(IS_RANK, "1");
        command.args([
            "--exact",
            "example::it_runs_on_any_number_of_ranks",
            "--nocapture",
            "--test-threads=1",
        ]);
        let told = ended(command);
        exits(&told, 0);
        for rank in 0..ranks {
            let said = format!("rank {rank} holds [8, {columns}] of [8, 16]");
            assert!(told.output.contains(&said), "`{said}`: {told:#?}");
        }
    }
}
