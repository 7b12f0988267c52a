//! A short hunt with a fixed seed, and all inputs that once failed.

use peak_alloc::PeakAlloc;
use shardweave_testkit::fuzz::{Hunt, Slack, TARGETS, corpus, examine};
use std::fs;

#[global_allocator]
static HEAP: PeakAlloc = PeakAlloc;

/// Tests are built without optimization.
const SLACK: Slack = Slack(20);

/// How many inputs of each target are tried.
const INPUTS: [(&str, u64); 3] = [("parse", 3000), ("files", 3000), ("plan", 400)];

/// One test, since the memory is that of the whole process.
#[test]
fn nothing_fails_on_hostile_input() {
    let mut wrong = Vec::new();
    for (target, (name, inputs)) in TARGETS.iter().zip(INPUTS) {
        assert_eq!(target.name, name);
        let mut once_failed: Vec<_> = fs::read_dir(corpus(target))
            .expect("the corpus is there")
            .map(|entry| entry.expect("an entry").path())
            .collect();
        once_failed.sort();
        for path in once_failed {
            let input = fs::read(&path).expect("an input can be read");
            if let Err(reason) = examine(target, &input, SLACK) {
                wrong.push(format!("{}: {reason}", path.display()));
            }
        }
        let mut hunt = Hunt::new(target, 7, SLACK);
        while hunt.inputs() < inputs {
            if let Some(found) = hunt.step(&mut |_| ()) {
                wrong.push(format!("{name}: {}\n{}", found.reason, found.input.escape_ascii()));
            }
        }
        assert!(hunt.behaviours() > 30, "{name}: the hunt sees {} behaviours only", hunt.behaviours());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
