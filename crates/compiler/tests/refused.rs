//! What the verifiers of the local and host forms refuse.
//!
//! A file of `tests/forms` is a correct program. Mutations are edits of its text: each names what is broken, the
//! edit, and a part of the reason that must be given.

mod support;

use shardweave_compiler::host::{self, Fault};
use shardweave_compiler::id::Id;
use shardweave_compiler::local::{self, LocalId, LocalInstr, parse_local};
use support::{Mutation, assert_refused, edited, host_of, local_of, read};

#[test]
fn broken_host_programs_are_refused() {
    let mutations: &[Mutation] = &[
        // pipelined.host: events
        ("pipelined", "    s0: wait e0\n", "", "b3 may be used before it is allocated on s1"),
        ("pipelined", "    s1: wait e1 back 1\n", "", "whose free on s0 may come later"),
        ("pipelined", "wait e1 back 1", "wait e1 back 2", "whose free on s0 may come later"),
        ("pipelined", "wait e1 back 1", "wait e1", "s1 waits for e1, but nothing"),
        ("pipelined", "wait e1 back 1", "wait e1 back 17", "further than any pipeline needs"),
        // staged.host: stages and slots
        ("staged", "wait e3 back 2", "wait e3 back 3", "whose free on s0 may come later"),
        ("staged", "    s1: wait e3 back 2\n", "", "whose free on s0 may come later"),
        ("staged", "bytes 64, slots 2\n  b5", "bytes 64\n  b5", "b4 is allocated twice"),
        (
            "staged",
            "bytes 64, slots 2\n  b5",
            "bytes 64, slots 3\n  b5",
            "b4 takes bytes of b5, whose free on s0 may come later",
        ),
        ("staged", "bytes 64, slots 2\n  b5", "bytes 64, slots 0\n  b5", "b4 cannot have 0 slots"),
        (
            "staged",
            "argument, offset 576, bytes 64",
            "argument, offset 576, bytes 64, slots 2",
            "cannot have 2 slots",
        ),
        ("staged", "loop i0 < 4 via", "loop i0 < 5000 via", "a pipeline of 5000 steps"),
        (
            "pipelined",
            "    s1: record e0\n    s0: wait e0\n",
            "    s0: wait e0\n    s1: record e0\n",
            "s0 waits for e0",
        ),
        (
            "pipelined",
            "    s0: free b3\n    s0: record e1\n",
            "    s0: record e1\n    s0: free b3\n",
            "may come later",
        ),
        (
            "pipelined",
            "over s/step(4, i0), h/tp on line\n    s0: free b3\n    s0: record e1\n",
            "over s/step(4, i0), h/tp on line\n    s1: free b3\n    s0: record e1\n",
            "b3 may be freed while `s0: b4 <- linear(b3, b1)",
        ),
        // travelling.host: a sum that is not done
        ("travelling", "i0 < 2, i1 < 3", "i0 < 2, i1 < 2", "not all around an axis of 3"),
        ("travelling", "i0 < 2, i1 < 3", "i1 < 3, i0 < 2", "does not travel through all devices"),
        (
            "travelling",
            "b5 y: f32[m=11, n=4] at m/step(2, i0)/next(tp, i1) on",
            "b5 y: f32[m=11, n=4] at m/step(2, i0)/ahead(tp, i1) on",
            "does not end where it belongs",
        ),
        (
            "travelling",
            "b5 y: f32[m=11, n=4] at m/step(2, i0)/next(tp, i1) on",
            "b5 y: f32[m=11, n=4] at m/step(3, i0)/next(tp, i1) on",
            "not of the same pieces",
        ),
        (
            "travelling",
            "s1: free b4\n",
            "s1: free b4\n    s1: b2 <- redistribute b5 over tp group 3\n",
            "b5 is read while its sum still travels",
        ),
        (
            "travelling",
            "    s1: free b5\n",
            "    s1: b5 <- reduce_scatter b4 over tp group 3\n    s1: free b5\n",
            "b5 is written while its sum travels",
        ),
        ("travelling", "    s1: wait e3\n", "", "b4 may be used before it is allocated on s0"),
        (
            "travelling",
            "b5 y: f32[m=11, n=4] at m/step(2, i0)/next(tp, i1) on line, temporary, offset 256, bytes 64, slots 2",
            "b5 y: f32[m=11, n=4] at m/step(2, i0)/next(tp, i1) on line, temporary, offset 256, bytes 64",
            "b5 is",
        ),
        ("travelling", " passed on", "", "a part is combined with"),
        // summed.host: steps that are added up
        ("summed", "i0 < 4", "i0 < 3", "the steps do not combine all of dim `k`"),
        ("summed", "    s0: wait e3\n", "", "b2 may be used before it is allocated on s1"),
        (
            "summed",
            "    s0: b3 <- linear(b2, b4)",
            "    s0: b3 <- linear(b2, b4) over k/step(4, i0), n/tp on line\n    s1: b3 <- linear(b2, b4)",
            "b4 may be used before it is allocated on s0",
        ),
        // lives
        ("pipelined", "  s0: alloc b2\n", "", "b2 is used before it is allocated"),
        ("pipelined", "  s0: alloc b2\n", "  s0: alloc b2\n  s0: alloc b2\n", "b2 is allocated twice"),
        ("pipelined", "    s0: free b4\n", "", "b4 is allocated twice"),
        (
            "pipelined",
            "    s0: free b4\n",
            "    s0: free b4\n    s0: free b4\n",
            "b4 is used after it is freed",
        ),
        (
            "pipelined",
            "    s0: b2 <- copy b4\n    s0: free b4\n",
            "    s0: free b4\n    s0: b2 <- copy b4\n",
            "b4 is used after it is freed",
        ),
        ("pipelined", "  output y = b2\n", "  s0: free b2\n  output y = b2\n", "b2 is freed, but is result"),
        (
            "pipelined",
            "  s0: alloc b2\n",
            "  s0: alloc b2\n  s0: alloc b0\n",
            "b0 is argument, it is there already",
        ),
        (
            "pipelined",
            "  output y = b2\n",
            "  s0: free b0\n  output y = b2\n",
            "b0 is freed, but is argument",
        ),
        ("ahead", "  s0: free b2\n", "", "b2 is a temporary, but is never freed"),
        ("ahead", "  s0: free b2\n", "  s1: free b2\n", "b2 may be freed while `s0: b4 <- copy b2`"),
        // places
        ("pipelined", "temporary, offset 320", "temporary, offset 256", "share bytes while both are in use"),
        ("pipelined", "argument, offset 64", "argument, offset 0", "both given and share bytes"),
        ("pipelined", "temporary, offset 320", "temporary, offset 321", "no multiple of 64"),
        ("pipelined", "temporary, offset 320", "temporary, offset 384", "beyond the arena"),
        ("pipelined", "offset 128, bytes 128", "offset 128, bytes 64", "too few for its largest piece"),
        ("pipelined", "devices 2", "devices 1", "devices beyond the 1 of the run"),
        // regions
        ("pipelined", "loop i0 < 4", "loop i0 < 3", "[s 6..8, h 0..6] is never written, on device 0"),
        ("pipelined", "loop i0 < 4", "loop i0 < 5", "i0 runs 5 steps over 4 blocks"),
        ("ahead", "    s0: wait e0\n", "", "b2 may be used before it is allocated on s1"),
        (
            "ahead",
            "    s1: record e0\n    s0: wait e0\n    s0: alloc b4\n    s0: b4 <- copy b2\n",
            "    s0: wait e0\n    s0: alloc b4\n    s0: b4 <- copy b2\n    s1: record e0\n",
            "s0 waits for e0",
        ),
        (
            "ahead",
            "    s1: b2 <- copy b3\n    s1: free b3\n    s1: record e0\n    s0: wait e0\n",
            "    s1: record e0\n    s0: wait e0\n    s1: b2 <- copy b3\n    s1: free b3\n",
            "race: `s1: b2 <- copy b3` writes [s 0..2, e 0..4] of b2",
        ),
        (
            "ahead",
            "    s1: b2 <- copy b3\n",
            "",
            "b2 is read before [s 0..2, e 0..4] is written, on device 0",
        ),
        (
            "pipelined",
            "    s0: b4 <- linear(b3, b1) over s/step(4, i0), h/tp on line\n",
            "",
            "b4 is read before",
        ),
        (
            "two_groups",
            "s0: b4 <- add(b2, b3)",
            "s0: b4 <- add(b2, b6)",
            "operand 2 does not hold what the operation works on along `t`",
        ),
        ("two_groups", "  s0: wait e0\n", "", "b3 may be used before it is allocated on s1"),
        ("two_groups", "  s1: record e0\n  s1: alloc b6\n", "  s1: alloc b6\n", "s0 waits for e0"),
        (
            "two_groups",
            "  s1: b3 <- all_gather b1 over dp group 2\n  s1: record e0\n",
            "  s1: record e0\n  s1: b3 <- all_gather b1 over dp group 2\n",
            "race: `s1: b3 <- all_gather b1 over dp group 2` writes [t 0..8] of b3",
        ),
        // roles
        (
            "two_groups",
            "  s1: b6 <- copy b1\n",
            "  s1: b6 <- copy b1\n  s1: b1 <- copy b6\n",
            "b1 is written, but is argument",
        ),
        ("two_groups", "output z = b4", "output z = b2", "output `z` is b2, which is temporary"),
        ("two_groups", "input x = b0", "input x = b4", "input `x` is b4, which is result"),
        ("two_groups", "output y = b6", "output z = b6", "output `z` stands twice"),
        // one order of moves
        (
            "two_groups",
            "b3 <- all_gather b1 over dp group 2",
            "b3 <- all_gather b1 over dp, tp group 8",
            "no one order of moves",
        ),
        // moves
        (
            "pipelined",
            "all_gather b0 over tp group 2",
            "copy b0",
            "a copy, but elements of other devices are needed, on device 1",
        ),
        (
            "pipelined",
            "all_gather b0 over tp group 2",
            "all_gather b0 over tp group 3",
            "groups of 2, not of 3",
        ),
        (
            "pipelined",
            "all_gather b0 over tp group 2",
            "all_gather b0 over cp group 2",
            "neither mesh has an axis `cp`",
        ),
        (
            "pipelined",
            "all_gather b0 over tp group 2",
            "all_reduce b0 over tp group 2",
            "no axis is partial in the source only",
        ),
        (
            "pipelined",
            "all_gather b0 over tp group 2",
            "send_recv b0 over tp group 2",
            "between the devices of one set",
        ),
        ("pipelined", "b3 <- all_gather b0", "b4 <- all_gather b0", "do not have the same dims"),
        (
            "pipelined",
            "b3 <- all_gather b0",
            "b3 <- all_gather b3",
            "b3 is read before [s 0..2, e 0..4] is written",
        ),
        (
            "two_groups",
            "b5 x: f32[s=8] at partial(dp)",
            "b5 x: f16[s=8] at partial(dp)",
            "f32 elements move to where f16 is stored",
        ),
        (
            "two_groups",
            "b2 x: f32[s=8] at replicated",
            "b2 x: f32[s=8] at partial(tp)",
            "operand 1 is still partial over `tp`",
        ),
        // computations
        (
            "pipelined",
            "linear(b3, b1) over s/step(4, i0), h/tp",
            "linear(b3, b1) over s/step(4, i0)",
            "operand 2 does not hold what the operation works on along `h`, on device 0",
        ),
        (
            "pipelined",
            "linear(b3, b1) over s/step(4, i0), h/tp",
            "linear(b3, b1) over s/step(4, i0), e/tp",
            "operand 1 does not hold what the operation works on along `e`",
        ),
        (
            "pipelined",
            "linear(b3, b1) over s/step(4, i0), h/tp",
            "linear(b3, b1) over s/step(4, i1), h/tp",
            "i1 is not the counter of a loop around it",
        ),
        ("pipelined", "linear(b3, b1)", "linear(b3, b3)", "h"),
        ("pipelined", "b1 w: f32", "b1 w: i32", "f32"),
        (
            "two_groups",
            "s0: b4 <- add(b2, b3) over replicated on grid\n",
            "s0: b4 <- add(b2, b3) over replicated on grid\n  s0: b4 <- exp(b4) over replicated on grid\n",
            "b4 is read and written at once",
        ),
        (
            "pipelined",
            "b3 x: f32[s=8, e=4] at s/step(4, i0)",
            "b3 x: f32[s=8, e=4] at s/step(2, i0)",
            "i0 runs 4 steps over 2 blocks",
        ),
        // views.host: what lies in another buffer
        ("views", "  s1: wait e0\n", "", "b2 may be used before it is allocated on s0"),
        ("views", "  s0: alloc b2\n", "", "b2"),
        ("views", "s0: alloc b2\n", "s0: alloc b2\n  s0: alloc b6\n", "which only computations may use"),
        ("views", "s1: b5 <- gelu(b6) over h/tp on line", "s1: b5 <- copy b6", "only computations may use"),
        ("views", "loop i0 < 4", "loop i0 < 3", "b2 is read before"),
        ("views", "view of b0", "view of b9", "there is no b9"),
        ("views", "view of b0", "view of b3", "b3 is a view of b3, which is a view itself"),
        ("views", "view of b0", "view of b1", "dims and elements of what it is a view of"),
        (
            "views",
            "x: f32[s=8, e=4] at s/step(4, i0)",
            "x: f32[s=8, e=4] at e/step(4, i0)",
            "one after another",
        ),
        ("views", "x: f32[s=8, e=4] at replicated", "x: f32[s=8, e=4] at s/tp", "as one run of its piece"),
        (
            "views",
            "  input x = b0",
            "  mesh far { tp = 2 } devices [1, 2]\n  b7 y: f32[s=8, h=6] at h/tp on far, view of b2\n  input x = b0",
            "b7 lives on `far`, which has devices beyond the 2 of the run",
        ),
        // ids and counters
        ("pipelined", "s0: alloc b4", "s2: alloc b4", "there is no s2"),
        ("pipelined", "s0: alloc b4", "s0: alloc b9", "there is no b9"),
        ("pipelined", "s1: record e0", "s1: record e7", "there is no e7"),
        ("pipelined", "loop i0 < 4", "loop i0 < 4, i0 < 2", "i0 counts two loops at once"),
        ("pipelined", "streams 2", "streams 4000000000", "too many streams"),
    ];
    let verify = |text: &str| host::verify(&host_of(text)).err();
    assert_refused("host", mutations, verify);
}

/// Every device must have what it holds of what is written: through a view it does not get what others write.
#[test]
fn a_view_of_what_only_others_write_is_refused() {
    let text = "host p {
  devices 2, arena 128, streams 1, events 0
  mesh line { tp = 2 }
  b0 x: f32[s=8] at s/tp on line, argument, offset 0, bytes 16
  b1 y: f32[s=8] at s/tp on line, result, offset 64, bytes 32
  b2 y: f32[s=8] at s/tp on line, view of b1
  input x = b0
  s0: alloc b1
  s0: b2 <- gelu(b0) over s/tp on line
  output y = b1
}";
    host::verify(&host_of(text)).expect("each device writes its own piece");
    let text = edited(text, "b1 y: f32[s=8] at s/tp", "b1 y: f32[s=8] at replicated");
    let fault = host::verify(&host_of(&text)).expect_err("nobody writes the other half");
    assert!(fault.reason.contains("a device holds elements that only others write"), "{fault}");
}

#[test]
fn broken_local_programs_are_refused() {
    let mutations: &[Mutation] = &[
        // one definition, before every use, in the block that sees it
        (
            "mlp",
            "%8 y2: f32[b=2, s=8, e=4] at s/tp on line = reduce_scatter %7",
            "%8 y2: f32[b=2, s=8, e=4] at s/tp on line = reduce_scatter %8",
            "%8 is used before it is defined",
        ),
        ("pipelined", "output t = %8", "output t = %6", "output `t` is %6, which is not defined at the end"),
        (
            "pipelined",
            "add(%4, %2) over s/local(4)",
            "add(%7, %2) over s/local(4)",
            "%7 is used after the loop that it is defined in",
        ),
        ("pipelined", "mul(%6, -0.5)", "mul(%3, -0.5)", "%3 is used while its loop still fills it"),
        ("pipelined", "  %8 t:", "  %3 <- copy %4\n  %8 t:", "%3 is not a result of a loop around the line"),
        (
            "pipelined",
            "    %3 <- copy %6\n",
            "    %3 <- copy %6\n    %2 <- copy %2\n",
            "%2 is not a result of a loop around the line",
        ),
        ("pipelined", "output t = %8", "output y = %8", "output `y` stands twice"),
        ("pipelined", "output t = %8", "output t = %9", "there is no %9"),
        // loops
        ("pipelined", "i0 < 4", "i0 < 3", "the steps of the loop do not write all of %3"),
        ("pipelined", "    %3 <- copy %6\n", "", "the steps of the loop do not write all of %3"),
        ("pipelined", "i0 < 4", "i0 < 4, i0 < 2", "i0 counts two loops at once"),
        (
            "pipelined",
            "result %4 z: f32[s=8, h=6] at s/stream(4)",
            "result %4 z: f32[s=8, h=6] at s/step(4, i0)",
            "%4: i0 is not the counter of a loop around it",
        ),
        (
            "pipelined",
            "%5 x: f32[s=8, e=4] at s/step(4, i0) on line = all_gather %0",
            "%5 x: f32[s=8, e=4] at replicated on line = all_gather %0",
            "operand 1 does not hold what the operation works on along `s`",
        ),
        (
            "pipelined",
            "%8 t: f32[s=8, h=6] at s/stream(4) on line = add(%4, %2) over s/local(4)",
            "%8 t: f32[s=8, h=6] at s/step(4, i0) on line = copy %4",
            "expected",
        ),
        // sums over steps
        ("summed", "i0 < 4", "i0 < 3", "the steps do not combine all of dim `k`"),
        ("summed", "i0 < 4", "i0 < 4, i1 < 2", "every step of i1 combines the same again"),
        (
            "summed",
            "    %3 <- linear(%2, %4)",
            "    %5 y: f32[m=6, n=4] at n/tp on line = linear(%2, %4)",
            "no result of a loop around",
        ),
        ("summed", "result %3 y: f32[m=6, n=4]", "result %3 y: f64[m=6, n=4]", "f32"),
        // layouts
        (
            "mlp",
            "%4 x: f32[b=2, s=8, e=4] at replicated",
            "%4 x: f32[b=2, s=8, e=4] at b/tp",
            "operand 1 does not hold what the operation works on along `b`",
        ),
        (
            "mlp",
            "linear(%6, %3) over h/tp",
            "linear(%6, %3) over replicated",
            "operand 1 does not hold what the operation works on along `h`",
        ),
        ("mlp", "at partial(tp) on line", "at partial(tp, max) on line", "not partial over just the axes"),
        ("mlp", "at partial(tp) on line", "at replicated on line", "not partial over just the axes"),
        ("mlp", "gelu(%5) over h/tp", "softmax(%5, h) over h/tp", "dim `h` is cut, but is needed whole"),
        ("mlp", "gelu(%5)", "neg(%4)", "the result"),
        ("mlp", "reduce_scatter %7", "all_to_all %7", "does not combine, but `tp` is partial"),
        ("mlp", "reduce_scatter %7", "all_reduce %7", "all_reduce changes how dim `s` is cut"),
        ("mlp", "= all_gather %0", "= all_gather %1", "do not have the same dims"),
        (
            "mlp",
            "all_gather %0 over tp group 4",
            "copy %0",
            "elements of other devices are needed, on device 0",
        ),
        ("mlp", "%2 b0: f32[h=6] at h/tp", "%2 b0: f32[h=6] at h/tp(3, 3, 0, 0)", "operand 3 does not hold"),
        (
            "mlp",
            "%0 x: f32[b=2, s=8, e=4] at s/tp",
            "%0 x: f32[b=2, s=8, e=4] at s/tp(2, 2, 2, 1)",
            "the given pieces of dim `s` do not hold all of it",
        ),
        ("mlp", "y1: f32[b=2, s=8, h=6]", "y1: f32[b=2, s=8, h=7]", "size"),
        ("mlp", "%4 x: f32[b=2, s=8, e=4]", "%4 x: f32[b=2, s=8, b=4]", "dim `b` stands twice"),
        ("kinds", "argmax(%8, s) over e/cp", "argmax(%8, e) over e/cp", "the result"),
        (
            "kinds",
            "embedding(%1, %3) over s/local(2)/dp, v@1/tp",
            "embedding(%1, %3) over s/dp, v@1/tp",
            "operand 1 does not hold",
        ),
        (
            "kinds",
            "permute %0 over dp, tp group 6",
            "send_recv %0 over dp, tp group 6",
            "between the devices of one set",
        ),
        (
            "kinds",
            "redistribute %4 over dp, tp group 8",
            "gather %4 over dp, tp group 8",
            "does not combine, but `tp` is partial",
        ),
    ];
    let verify = |text: &str| match parse_local(text) {
        Ok(program) => local::verify(&program).err(),
        Err(mistakes) => Some(Fault::new(mistakes.to_string())),
    };
    assert_refused("local", mutations, verify);
}

/// What the text cannot say: a move into a value that something else defines.
#[test]
fn a_value_is_defined_once() {
    let mut program = local_of(&read("pipelined.local"));
    for instr in &mut program.body {
        let LocalInstr::Loop(steps) = instr else { continue };
        for inner in &mut steps.body {
            if let LocalInstr::Move(moved) = inner
                && steps.results.contains(&moved.target)
            {
                moved.target = LocalId::new(2);
            }
        }
    }
    let fault = local::verify(&program).expect_err("%2 is defined by `full`");
    assert_eq!(fault.reason, "%2 is defined twice");
}
