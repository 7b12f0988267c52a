//! What is estimated and what is chosen by it, against times worked out by hand.
//!
//! Numbers are such that a step of a product takes 100 us or a multiple of it: `F` = 1 flop a us.

use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::cost::Cost;
use shardweave_compiler::file::parse_file;
use shardweave_compiler::placement::Overlap;
use shardweave_compiler::program::Sizes;

/// A product whose operand `x` is gathered along its rows, on `tp` devices. Each device has 4 rows of 5 numbers,
/// and multiplies all rows by 5 columns: 50 us a row.
fn plan(tp: u64, (x, y): (&str, &str), cost: Cost) -> Plan {
    let text = format!(
        "mesh line {{ tp = {tp} }}
program p {{
  input x: f32[s = {}, e = 5]
  input w: f32[h = {}, e = 5]
  y = linear(x, w)
  output y
}}
placement q for p on line {{
  x: {x}
  w: h/tp
  y: {y}
}}",
        4 * tp,
        5 * tp
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{found}");
    let (program, placement) = (&file.programs()[0], &file.placements()[0]);
    let sizes = Sizes::bind(program, []).expect("all sizes are written");
    let options = CompileOptions { cost, ..CompileOptions::default() };
    compile(program, Some(placement), &sizes, &options).expect("a plan")
}

/// A link that takes so long for a byte, and for a message.
fn link(us_per_byte: f64, latency_us: f64) -> Cost {
    Cost { flops_per_us: 1.0, latency_us, bytes_per_us: 1.0 / us_per_byte }
}

fn assert_time(plan: &Plan, expected: f64) {
    let time = plan.report.time_us;
    assert!((time - expected).abs() < 1e-6, "{time} instead of {expected}\n{}", plan.host);
}

/// One piece of 80 bytes comes from the other device, in one message.
#[test]
fn one_thing_after_another_takes_all_together() {
    assert_time(&plan(2, ("s/tp", "h/tp"), link(1.0, 7.0)), 7.0 + 80.0 + 400.0);
    // In four steps that do not overlap the link's latency is paid four times.
    let none = plan(2, ("s/stream(4)/tp", "s/stream(4), h/tp via none"), link(1.0, 7.0));
    assert_time(&none, 4.0 * 7.0 + 80.0 + 400.0);
}

#[test]
fn of_what_overlaps_the_longer_counts() {
    let ways = ("s/stream(4)/tp", "s/stream(4), h/tp via collective");
    // 20 bytes a step: the first is waited for, then products hide the others.
    assert_time(&plan(2, ways, link(1.0, 0.0)), 20.0 + 400.0);
    // 200 us a step: products are hidden, but for the last.
    assert_time(&plan(2, ways, link(10.0, 0.0)), 800.0 + 100.0);
    // Three others send at once, each over a link of its own; there are twice as many rows.
    assert_time(&plan(4, ways, link(10.0, 0.0)), 200.0 + 800.0);
}

/// Each step is two: the own rows, then the peer's, which come meanwhile.
#[test]
fn the_own_piece_is_not_waited_for() {
    for way in ["direct", "ring"] {
        let placed = format!("s/stream(4), h/tp via {way}");
        let ways = ("s/stream(4)/tp", &placed[..]);
        assert_time(&plan(2, ways, link(1.0, 0.0)), 400.0);
        // 200 us for the rows of a step; the last product comes after them.
        assert_time(&plan(2, ways, link(10.0, 0.0)), 800.0 + 50.0);
    }
}

fn way(plan: &Plan) -> Overlap {
    plan.report.collectives[0].overlap
}

#[test]
fn the_way_that_is_estimated_fastest_is_chosen() {
    let open = ("s/stream(4)/tp", "s/stream(4), h/tp");
    // 90 us a step beside products of 100: the first fetch is not hidden (490), or by the own rows (440).
    let direct = plan(2, open, link(4.5, 0.0));
    assert_eq!(way(&direct), Overlap::Direct);
    assert_time(&direct, 90.0 + 350.0);
    let others: Vec<&str> = direct.report.alternatives.iter().map(|other| &other.instead[..]).collect();
    for told in ["run via collective", "run via ring", "run via broadcast"] {
        assert!(others.contains(&told), "{others:?}");
    }
    // With three others a collective has three links at once, and piece by piece one after another.
    let four = plan(4, open, link(10.0, 0.0));
    assert_eq!(way(&four), Overlap::Collective);
    let direct = four.report.alternatives.iter().find(|other| other.instead == "run via direct");
    let direct = direct.expect("what else there was is told");
    assert!(
        direct.time_us > four.report.time_us * 1.5 && direct.because.contains(" us more ("),
        "{direct:?}"
    );
    // Nothing to gain: what is simplest.
    assert_eq!(way(&plan(2, open, link(0.01, 0.0))), Overlap::Collective);
}

#[test]
fn what_is_pinned_is_not_chosen() {
    let pinned = plan(2, ("s/stream(4)/tp", "s/stream(4), h/tp via collective"), link(4.5, 0.0));
    assert_eq!(way(&pinned), Overlap::Collective);
    assert!(pinned.report.alternatives.iter().all(|other| !other.instead.contains("via")));
}

#[test]
fn steps_and_way_are_chosen_together() {
    let auto = ("s/stream(auto)/tp", "s/stream(auto), h/tp");
    let slow = plan(2, auto, link(4.5, 1.0));
    assert!(way(&slow) != Overlap::None && slow.report.time_us < 450.0, "{}", slow.local);
    let fast = plan(2, auto, link(0.001, 0.0));
    assert_eq!((way(&fast), fast.report.collectives[0].steps), (Overlap::None, 1));
}

#[test]
fn why_steps_are_so_many_and_why_they_do_not_overlap_is_told() {
    let notes = |x: &str, y: &str| plan(2, (x, y), link(4.5, 1.0)).report.notes.join("\n");
    let told = notes("s/stream(auto)/tp", "s/stream(auto), h/tp");
    assert!(told.contains("y: stream(auto) runs in 4 steps: more"), "{told}");
    let told = notes("replicated", "s/stream(4), h/tp via ring");
    assert!(told.contains("y: via ring is not taken: its steps communicate nothing"), "{told}");
    let text = "mesh line { tp = 2 }
program p {
  input x: f32[s = 8]
  y = reshard(x)
  output y
}
placement q for p on line {
  x: s/stream(4)/tp
  y: s/stream(4)
}";
    let (file, found) = parse_file(text, &[]);
    assert!(found.is_empty(), "{found}");
    let (program, placement) = (&file.programs()[0], &file.placements()[0]);
    let sizes = Sizes::bind(program, []).expect("all sizes are written");
    let plan = compile(program, Some(placement), &sizes, &CompileOptions::default()).expect("a plan");
    let told = plan.report.notes.join("\n");
    assert!(told.contains("y: its steps follow each other: nothing is computed"), "{told}");
}
