//! Operations along a cut dim are as accurate as on one device: both are compared with the reference, on long
//! lanes, large means, and values of very different sizes.

use shardweave_compiler::compile::{CompileOptions, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::{SizeBinder, SizeSource};
use shardweave_runtime::compare::compare;
use shardweave_runtime::execute::Backend;
use shardweave_runtime::reference;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

const TEXT: &str = "
mesh line { tp = 8 }
program p {
  input x: f32[s=3, e]
  input g: f32[e]
  norm = layer_norm(x, g, e)
  root = rms_norm(x, g, e)
  soft = softmax(x, e)
  logs = log_softmax(x, e)
  output norm
  output root
  output soft
  output logs
}
placement cut for p on line {
  x: e/tp
}
placement blocks for p on line {
  x: e/local(7)/tp
}
";

/// A number between -1 and 1 that looks random.
fn noise(i: u64) -> f64 {
    let hash =
        (i.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20).wrapping_mul(0xd6e8_feb8_6659_fd93);
    (hash >> 11) as f64 / (1u64 << 52) as f64 - 1.0
}

/// The largest relative error of each output, placement by placement; on one device first.
fn errors(size: u64, element: impl Fn(u64) -> f64) -> Vec<Vec<f64>> {
    let (file, mistakes) = parse_file(TEXT, &[]);
    assert!(mistakes.is_empty(), "{mistakes}");
    let program = &file.programs()[0];
    let mut binder = SizeBinder::new(program);
    binder.bind(program.dim("e").expect("a dim"), size, SizeSource::Named);
    let sizes = binder.finish().expect("all sizes are bound");
    let x: Vec<f32> = (0..3 * size).map(|i| element(i) as f32).collect();
    let g: Vec<f32> = (0..size).map(|i| 1.0 + 0.25 * noise(i) as f32).collect();
    let arrays = [("x", Tensor::from_elements(&[3, size], &x)), ("g", Tensor::from_elements(&[size], &g))];
    let by_id: BTreeMap<_, _> =
        arrays.iter().map(|(name, x)| (program.value(name).expect("an input"), x.clone())).collect();
    let exact = reference::evaluate(program, &sizes, &by_id).expect("it cannot fail");
    let run = |placement: Option<&_>| -> Vec<f64> {
        let plan = compile(program, placement, &sizes, &CompileOptions::default()).expect("it can be placed");
        let communicates = plan.report.collectives.len();
        assert_eq!(
            communicates,
            if placement.is_some() { 3 } else { 0 },
            "softmax and log_softmax share one"
        );
        let options = SessionOptions { backend: Backend::Lockstep, ..SessionOptions::default() };
        let mut session = Session::from_plan(plan, options).expect("it fits in memory");
        let inputs = arrays.iter().cloned().fold(Inputs::new(), |all, (name, x)| all.with(name, x));
        let outputs = session.run(&inputs).expect("it cannot fail");
        let error = |&id| {
            let (name, exact) = (&program.values()[id].name, exact.get(id).expect("an output"));
            compare(outputs.get(name).expect("an output"), exact).max_rel
        };
        program.outputs().iter().map(error).collect()
    };
    std::iter::once(None).chain(file.placements().iter().map(Some)).map(run).collect()
}

#[test]
fn parts_are_as_accurate_as_the_whole() {
    /// Twice the rounding of an `f32`: what two orders of one sum may differ by where both are good.
    const NOISE: f64 = 1.2e-7;
    for size in [5, 64, 1000, 30_011] {
        for (what, element) in [
            ("around 0", Box::new(|i| 3.0 * noise(i)) as Box<dyn Fn(u64) -> f64>),
            ("a large mean", Box::new(|i| 4096.0 + noise(i))),
            ("a mean of each part", Box::new(move |i| (i * 8 / size) as f64 * 50.0 + noise(i))),
            ("very different sizes", Box::new(|i| noise(i) * 10f64.powi((i % 5) as i32 - 3))),
        ] {
            let all = errors(size, element);
            let (whole, cut) = all.split_first().expect("one device comes first");
            for (which, (whole, cut)) in cut.iter().flat_map(|cut| whole.iter().zip(cut)).enumerate() {
                assert!(*cut <= 1.5 * whole + NOISE, "{what}, {size}, {which}: {cut:e} instead of {whole:e}");
                assert!(*cut < 1e-5, "{what}, {size}, {which}: {cut:e} is too near to the tolerance");
            }
        }
    }
}
