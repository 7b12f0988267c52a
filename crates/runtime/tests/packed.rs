//! Operands that are packed once for all steps of a loop, and constants that stay packed from run to run: what is
//! multiplied with is always what is bound.

use shardweave_compiler::file::{WeaveFile, parse_file};
use shardweave_runtime::execute::Backend;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;

const S: usize = 100;
const E: usize = 30;
const H: usize = 400;

/// Rows of `x` in steps, which share `w`; and rows of `y`, which share `v`.
const STEPS: &str = "
mesh line { tp = 2 }
program p {
  input x: f32[s, e]
  input w: f32[h, e]
  input b: f32[h]
  input v: f32[h, e]
  y = linear(x, w, b)
  z = einsum(\"s h, h e -> s e\", y, v)
  output y
  output z
}
placement q for p on line {
  x: s/tp
  w: h/tp
  b: h/tp
  y: s/stream(4), h/tp
  v: h/tp
  z: s/stream(3), e/tp
}";

fn file() -> WeaveFile {
    let (file, found) = parse_file(STEPS, &[]);
    assert!(found.is_empty(), "{found}");
    file
}

fn session(options: SessionOptions) -> Session {
    let file = file();
    Session::new(file.programs()[0].clone(), Some(file.placements()[0].clone()), options)
}

fn backends() -> [SessionOptions; 2] {
    [Backend::Threads, Backend::Lockstep]
        .map(|backend| SessionOptions { backend, ..SessionOptions::default() })
}

/// Small integers.
fn matrix(rows: usize, columns: usize, seed: usize) -> Vec<f32> {
    (0..rows * columns).map(|i| ((i * 7 + i / columns * 3 + seed) % 5) as f32 - 2.0).collect()
}

fn tensor(rows: usize, columns: usize, seed: usize) -> Tensor {
    Tensor::from_elements(&[rows as u64, columns as u64], &matrix(rows, columns, seed))
}

fn bias() -> Vec<f32> {
    (0..H).map(|h| (h % 9) as f32 - 4.0).collect()
}

/// What `y` and `z` are, by the definition.
fn expected(x: usize, w: usize, v: usize) -> [Vec<f32>; 2] {
    let (x, w, v, b) = (matrix(S, E, x), matrix(H, E, w), matrix(H, E, v), bias());
    let y_at = |s: usize, h: usize| (0..E).map(|e| x[s * E + e] * w[h * E + e]).sum::<f32>() + b[h];
    let y: Vec<f32> = (0..S).flat_map(|s| (0..H).map(move |h| (s, h))).map(|(s, h)| y_at(s, h)).collect();
    let z_at = |s: usize, e: usize| (0..H).map(|h| y[s * H + h] * v[h * E + e]).sum::<f32>();
    let z = (0..S).flat_map(|s| (0..E).map(move |e| (s, e))).map(|(s, e)| z_at(s, e)).collect();
    [y, z]
}

fn x(seed: usize) -> Inputs {
    Inputs::new().with("x", tensor(S, E, seed)).with("b", Tensor::from_elements(&[H as u64], &bias()))
}

fn weights(w: usize, v: usize) -> Inputs {
    Inputs::new().with("w", tensor(H, E, w)).with("v", tensor(H, E, v))
}

fn check(session: &mut Session, inputs: &Inputs, expected: [Vec<f32>; 2]) {
    let outputs = session.run(inputs).unwrap_or_else(|error| panic!("{error}"));
    for (name, expected) in ["y", "z"].into_iter().zip(expected) {
        let found = outputs.get(name).expect("it is an output").elements::<f32>();
        assert_eq!(found, expected, "{name}");
    }
}

#[test]
fn a_weight_that_changes_from_run_to_run_is_packed_in_every_run() {
    for options in backends() {
        let mut session = session(options);
        for seed in 0..4 {
            let inputs = x(seed).with("w", tensor(H, E, 2 * seed)).with("v", tensor(H, E, seed + 1));
            check(&mut session, &inputs, expected(seed, 2 * seed, seed + 1));
        }
    }
}

#[test]
fn constants_stay_packed_until_they_are_bound_anew() {
    for options in backends() {
        let mut session = session(options);
        session.bind_constants(&weights(0, 1)).unwrap();
        for seed in 0..3 {
            check(&mut session, &x(seed), expected(seed, 0, 1));
        }
        session.bind_constants(&weights(3, 1)).unwrap();
        check(&mut session, &x(1), expected(1, 3, 1));
        check(&mut session, &x(2), expected(2, 3, 1));
        // One of them alone.
        session.bind_constants(&Inputs::new().with("v", tensor(H, E, 4))).unwrap();
        check(&mut session, &x(2), expected(2, 3, 4));
        check(&mut session, &x(0), expected(0, 3, 4));
    }
}

/// A plan for other sizes has other packed forms, in the same memory.
#[test]
fn plans_for_other_sizes_do_not_find_each_others_forms() {
    let mut session = session(SessionOptions::default());
    session.bind_constants(&weights(2, 3)).unwrap();
    for rows in [S, 40, S, 1, S] {
        let some = Tensor::from_elements(&[rows as u64, E as u64], &matrix(S, E, 1)[..rows * E]);
        let inputs = x(0).with("x", some);
        let all = expected(1, 2, 3);
        check(&mut session, &inputs, [all[0][..rows * H].to_vec(), all[1][..rows * E].to_vec()]);
    }
}

/// Packed forms are a wish: where there is memory for the plan alone, the plan runs without them.
#[test]
fn a_plan_runs_without_packed_forms_where_memory_is_short() {
    let inputs = || x(0).with("w", tensor(H, E, 1)).with("v", tensor(H, E, 2));
    let mut roomy = session(SessionOptions::default());
    check(&mut roomy, &inputs(), expected(0, 1, 2));
    let arena = roomy.plan().expect("it was compiled").host.arena;
    let outputs = (S * H + S * E) as u64 * 4;
    let options = SessionOptions { memory: Some(2 * arena + outputs), ..SessionOptions::default() };
    check(&mut session(options), &inputs(), expected(0, 1, 2));
    let options = SessionOptions { memory: Some(2 * arena + outputs - 1), ..SessionOptions::default() };
    assert!(session(options).run(&inputs()).is_err(), "the plan itself does not fit");
}

/// Sums of floats depend on how they are packed, but not on whether it was in this run.
#[test]
fn floats_are_the_same_in_every_run() {
    let fractions = |seed| -> Vec<f32> { matrix(H, E, seed).iter().map(|x| x / 3.0 + 0.1).collect() };
    let weight = |seed| Tensor::from_elements(&[H as u64, E as u64], &fractions(seed));
    let run = |session: &mut Session, inputs: &Inputs| -> Vec<Vec<u32>> {
        let outputs = session.run(inputs).unwrap();
        let bits = |name| outputs.get(name).unwrap().elements::<f32>().iter().map(|x| x.to_bits()).collect();
        ["y", "z"].map(bits).to_vec()
    };
    let (mut kept, mut given) = (session(SessionOptions::default()), session(SessionOptions::default()));
    kept.bind_constants(&Inputs::new().with("w", weight(0)).with("v", weight(1))).unwrap();
    let first = run(&mut kept, &x(0));
    for _ in 0..2 {
        assert_eq!(run(&mut kept, &x(0)), first);
        assert_eq!(run(&mut given, &x(0).with("w", weight(0)).with("v", weight(1))), first);
    }
}
