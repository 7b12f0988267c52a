//! Known faults of each kind, put into programs that are right and not shown to the verifier: exploring
//! finds them.

use super::MOST;
use super::explore::{Orders, Wrong, explore};
use super::machine::Machine;
use shardweave_compiler::host::{self, parse_host};
use shardweave_testkit::sources::hosts_of_forms;

/// Of a form, each place where the first text stands as the second, and what is then found.
struct Fault {
    form: &'static str,
    edits: &'static [(&'static str, &'static str)],
    found: &'static str,
}

const FAULTS: &[Fault] = &[
    // a wait is dropped: stream 0 does not know that its block is there
    Fault {
        form: "pipelined.host",
        edits: &[("    s0: wait e0\n", "")],
        found: "b3 is read but not written, on s0 of",
    },
    // or stream 1 that its last block is used
    Fault {
        form: "pipelined.host",
        edits: &[("    s1: wait e1 back 1\n", "")],
        found: "b3 is read but not written, on s0 of",
    },
    // an event is recorded too early
    Fault {
        form: "ahead.host",
        edits: &[("    s1: record e0\n", ""), ("    s1: b3 <-", "    s1: record e0\n    s1: b3 <-")],
        found: "b2 is read but not written, on s0 of",
    },
    // or never
    Fault {
        form: "pipelined.host",
        edits: &[("    s0: record e1\n", "")],
        found: "nobody can go on:\n  device0 waits at `s0: wait e0`\n  device0 waits at `s1: wait e1 back 1`\n",
    },
    // a buffer takes the place of one that another stream uses
    Fault { form: "ahead.host", edits: &[("offset 384", "offset 320")], found: "race: cell 80 of device" },
    // a pipeline takes a slot one step too early
    Fault {
        form: "staged.host",
        edits: &[("    s1: wait e3 back 2\n", "")],
        found: "b4 is read but not written, on s0 of",
    },
    // a buffer is freed before it is read
    Fault {
        form: "mlp.local",
        edits: &[(
            "  s0: b6 <- gelu(b5) over h/tp on line\n  s0: free b5",
            "  s0: free b5\n  s0: b6 <- gelu(b5) over h/tp on line",
        )],
        found: "b5 is read but not written, on s0 of",
    },
    // what a device gives is written anew while others may still take it
    Fault {
        form: "two_groups.host",
        edits: &[
            ("argument, offset 0,", "state, offset 0,"),
            (
                "s1: b3 <- all_gather b1 over dp group 2",
                "s1: b0 <- copy b2\n  s1: b3 <- all_gather b1 over dp group 2",
            ),
        ],
        found: "b2 is read but not written, on s1 of",
    },
    // what is lent is freed before the loan ends
    Fault {
        form: "lent.host",
        edits: &[("  s0: free b2\n", ""), ("  s0: alloc b5", "  s0: free b2\n  s0: alloc b5")],
        found: "b2 is read but not written, on s0 of",
    },
    // or written
    Fault {
        form: "lent.host",
        edits: &[("  s0: alloc b5", "  s0: b2 <- exp(b0) over s/tp on line\n  s0: alloc b5")],
        found: "race: what has been read depends on the order",
    },
    // or written on another stream, which does not know when the loan ends
    Fault {
        form: "lent.host",
        edits: &[
            ("  s0: record e0\n  s1: wait e0\n", ""),
            (
                "  s0: alloc b4",
                "  s0: record e0\n  s1: wait e0\n  s1: b2 <- exp(b0) over s/tp on line\n  s0: alloc b4",
            ),
        ],
        found: "race: what has been read depends on the order",
    },
    // a loan does not end
    Fault {
        form: "lent.host",
        edits: &[("  s0: free b3\n", "")],
        found: "b2 is read but not written, on s0 of",
    },
    // what is lent is moved on, though nobody has put it there
    Fault {
        form: "lent.host",
        edits: &[("s0: b5 <- relu(b3) over replicated on line", "s0: b5 <- copy b3")],
        found: "b3 is read but not written, on s0 of",
    },
];

#[test]
fn known_faults_are_found() {
    let forms = hosts_of_forms();
    for Fault { form, edits, found } in FAULTS {
        let (_, right) = forms.iter().find(|(name, _)| name == form).expect("the form is there");
        let mut text = right.to_string();
        for (from, to) in *edits {
            assert!(text.contains(from), "{form}: no `{from}` in\n{text}");
            text = text.replace(from, to);
        }
        let program = parse_host(&text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
        assert!(host::verify(&program).is_err(), "the verifier accepts\n{text}");
        let machine = Machine::new(&program).unwrap_or_else(|why| panic!("{why}\n{text}"));
        for orders in [Orders::All, Orders::Different] {
            let wrong = explore(&machine, orders, MOST).expect_err("something goes wrong").to_string();
            assert!(wrong.contains(found), "{form}, {orders:?}: not `{found}`, but {wrong}\n{text}");
        }
    }
}

/// A race is told with two orders that differ in who is first.
#[test]
fn a_race_is_told_with_both_orders() {
    let text = include_str!("../../../compiler/tests/forms/ahead.host").replace("offset 384", "offset 320");
    let program = parse_host(&text).unwrap_or_else(|mistakes| panic!("{mistakes}\n{text}"));
    let machine = Machine::new(&program).unwrap_or_else(|why| panic!("{why}\n{text}"));
    let Err(Wrong::Race(_, [one, mut other])) = explore(&machine, Orders::Different, MOST) else {
        panic!("no race in\n{text}")
    };
    other.reverse();
    let told = ["device0 copies for `s0: b4 <- copy b2`", "device0 does `s1: alloc b3`"];
    assert!(one == told && other == told, "{one:?} {other:?}");
}
