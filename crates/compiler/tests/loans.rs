//! What moves give that can be read where it lies: which buffers are lent, and which loans are refused.

mod support;

use shardweave_compiler::compile::{CompileOptions, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::host;
use shardweave_compiler::program::SizeBinder;
use support::{Mutation, assert_refused, host_of};

/// The values that are lent in the plan of a program, in the order of its buffers.
fn lent(statements: &str, placement: &str) -> Vec<String> {
    let text = format!(
        "mesh line {{ tp = 2 }}\nmesh back {{ tp = 2 }} devices [1, 0]\nmesh far {{ t = 2 }} devices [3, 2]\n\
         mesh grid {{ dp = 2, tp = 2 }}\n\
         program p {{\n{statements}\n}}\nplacement q for p {placement}\n"
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{text}\n{found}");
    let (program, placement) = (&file.programs()[0], &file.placements()[0]);
    let sizes = SizeBinder::new(program).finish().expect("all sizes are in the text");
    let plan = compile(program, Some(placement), &sizes, &CompileOptions::default());
    let host = plan.unwrap_or_else(|found| panic!("{text}\n{found}")).host;
    let lent = host.buffers.values().filter(|buffer| buffer.lender.is_some());
    lent.map(|buffer| buffer.name.clone()).collect()
}

const LINEAR: &str = "input x: f32[s=8, e=6]\ninput w: f32[h=10, e]\ny = linear(x, w)\noutput y";

#[test]
fn rows_of_a_product_are_lent() {
    for placement in [
        "on line {\nx: s/tp\nw: h/tp\ny: h/tp\n}",
        // uneven, none for some device, in another order, from other devices
        "on line {\nx: s/tp(7, 1)\nw: h/tp\ny: h/tp\n}",
        "on line {\nx: s/tp(0, 8)\nw: h/tp\ny: h/tp\n}",
        "on line {\nx: s/tp on back\nw: h/tp\ny: h/tp\n}",
        "on line {\nx: s/t on far\nw: h/tp\ny: h/tp\n}",
        "on grid {\nx: s/dp/tp\nw: h/tp\ny: s/dp, h/tp\n}",
        // whole pieces of other devices
        "on line {\nx: s/tp on back\nw: replicated\ny: s/tp\n}",
        // one step after another
        "on line {\nx: s/tp\nw: h/tp\ny: s/stream(4), h/tp via none\n}",
    ] {
        assert_eq!(lent(LINEAR, placement), ["x"], "{placement}");
    }
}

#[test]
fn what_does_not_lie_in_blocks_of_the_result_is_copied() {
    let none: [&str; 0] = [];
    for placement in [
        // columns, and what is summed over
        "on line {\nx: e/tp\nw: h/tp\ny: h/tp\n}",
        "on line {\nx: s/tp\nw: h/tp\ny: s/tp\n}",
        // columns of the result
        "on line {\nx: replicated\nw: h/tp\ny: replicated\n}",
        // steps that overlap: what a step is computed with was fetched on another stream
        "on line {\nx: s/tp\nw: h/tp\ny: s/stream(4), h/tp via collective\n}",
    ] {
        assert_eq!(lent(LINEAR, placement), none, "{placement}");
    }
    // both, in two dims
    let both = "on grid {\nx: s/dp, e/tp\nw: h/tp\ny: h/tp\n}";
    assert_eq!(lent(LINEAR, both), none);
    // what combines rows, and what is an output
    let all = "input x: f32[s=8, e=6]\na = reshard(x)\ny = softmax(a, s)\noutput y";
    assert_eq!(lent(all, "on line {\nx: s/tp\na: replicated\ny: replicated\n}"), none);
    let output = "input x: f32[s=8, e=6]\ny = reshard(x)\nz = exp(y)\noutput y\noutput z";
    assert_eq!(lent(output, "on line {\nx: s/tp\ny: replicated\nz: replicated\n}"), none);
}

/// What is freed before it is used somewhere else stays for that, if there is memory: beside `big` there is.
#[test]
fn what_is_not_there_any_more_is_copied() {
    let made = "input x: f32[s=8, e=6]\ninput w: f32[h=10, e]\nt = exp(x)\ny = linear(t, w)\noutput y";
    let placement = "x: s/tp\nt: s/tp\nw: h/tp\ny: h/tp";
    assert!(lent(made, &format!("on line {{\n{placement}\n}}")).is_empty());
    let kept = format!("{made}\noutput t");
    assert_eq!(lent(&kept, &format!("on line {{\n{placement}\n}}")), ["t"]);
    let more = format!("{made}\ninput a: f32[n=64, m=16]\nbig = exp(a)\nz = sum(big, m)\noutput z");
    let placement = format!("on line {{\n{placement}\na: replicated\nbig: replicated\nz: replicated\n}}");
    assert_eq!(lent(&more, &placement), ["t"]);
}

#[test]
fn broken_loans_are_refused() {
    let mutations: &[Mutation] = &[
        // lent.host: what a move gives is read where it lies
        (
            "lent",
            "  s0: free b3\n  s0: free b2\n",
            "  s0: free b2\n  s0: free b3\n",
            "that changes before the loan ends",
        ),
        (
            "lent",
            "  s0: alloc b5",
            "  s0: b2 <- exp(b0) over s/tp on line\n  s0: alloc b5",
            "b3 is lent by b2, but that changes",
        ),
        (
            "lent",
            "  s0: alloc b5",
            "  loop i0 < 2 {\n    s0: b2 <- exp(b0) over s/tp on line\n  }\n  s0: alloc b5",
            "that changes before",
        ),
        (
            "lent",
            "s0: b3 <- all_gather b2 over tp group 2",
            "s0: b3 <- square(b3) over replicated on line",
            "no move fills it",
        ),
        ("lent", "s0: b3 <- all_gather b2", "s0: b3 <- all_gather b0", "another buffer is moved"),
        (
            "lent",
            "s0: b5 <- relu(b3) over replicated on line",
            "s0: b5 <- copy b3",
            "read by computations alone",
        ),
        (
            "lent",
            "s0: b5 <- relu(b3) over replicated on line",
            "s1: b5 <- relu(b3) over replicated on line",
            "several blocks or streams",
        ),
        (
            "lent",
            "  s0: b4 <- linear(b3, b1) over h/tp on line",
            "  loop i0 < 1 {\n    s0: b4 <- linear(b3, b1) over h/tp on line\n  }",
            "several blocks",
        ),
        ("lent", "  s0: free b3\n", "", "around all that uses it"),
        ("lent", "lent by b2", "lent by b9", "which has nothing of its own"),
        ("lent", "lent by b2", "lent by b3", "which has nothing of its own"),
        ("lent", "bytes 64\n  b6", "bytes 64, lent by b2\n  b6", "is not a temporary of one slot"),
        ("lent", "b4 y: f32[s=4, h=6]", "b4 y: f32[h=6, s=4]", "do not lie in runs"),
        ("lent", "relu(b3)", "softmax(b3, s)", "not every index of `s` is worked on alone"),
        ("lent", "relu(b3)", "add(b3, b3)", "one operand of a computation"),
        (
            "lent",
            "temporary, offset 128, bytes 64\n  input",
            "temporary, offset 128, bytes 64\n  b7 t: f32[s=4, e=4] at replicated on line, view of b3\n  input",
            "b7 is a view of b3, which is lent",
        ),
        // a peer reads what it is lent until the loan ends, which another stream must wait for
        (
            "lent",
            "  s0: alloc b4",
            "  s0: record e0\n  s1: wait e0\n  s1: b2 <- exp(b0) over s/tp on line\n  s0: alloc b4",
            "that changes",
        ),
        (
            "lent",
            "  s0: record e0\n  s1: wait e0\n  s1: alloc b6",
            "  s1: alloc b6",
            "b6 takes bytes of b2, whose free",
        ),
        (
            "lent",
            "  s0: free b3\n  s0: free b2\n  s0: record e0\n  s1: wait e0\n",
            "  s0: record e0\n  s0: free b3\n  s1: wait e0\n  s1: b2 <- exp(b0) over s/tp on line\n  s1: free b2\n",
            "race: `s0: free b3` reads",
        ),
    ];
    assert_refused("host", mutations, |text| host::verify(&host_of(text)).err());
}
