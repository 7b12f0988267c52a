//! What goes wrong on one rank is heard by all, and their sessions go on: sources that cannot be read, probes that
//! refuse and panic at every part of a run, memory that is lacking, engines that refuse; what cannot be called back ends
//! all.

mod constants;
mod differing;
mod ended;
mod engines;
mod failures;
mod inputs;
mod memory;
mod outputs;

use shardweave_compiler::compile::{CompileOptions, Plan, compile};
use shardweave_compiler::file::parse_file;
use shardweave_compiler::placement::Placement;
use shardweave_compiler::program::{Program, SizeBinder};
use shardweave_runtime::engine::Engine;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::Tensor;
use std::sync::Arc;

/// All on one host, each on its own, and two of three together.
const HOSTS: [[u32; 3]; 3] = [[0, 0, 0], [0, 1, 2], [0, 1, 0]];

/// Gathers, sums that are scattered, and a loop whose steps overlap.
const MLP: &str = "input x: f32[b=2, s=12, e=24]\ninput w0: f32[h=30, e]\ninput w1: f32[e, h]\n\
                   y0 = linear(x, w0)\ny1 = gelu(y0)\ny2 = linear(y1, w1)\noutput y2";
const PLACED: &str = "x: s/tp\nw0: h/tp\ny0: h/tp, s/stream(3)\nw1: h/tp\ny2: s/stream(3)/tp";

fn placed_on_three(statements: &str, placed: &str) -> (Program, Placement) {
    let text = format!(
        "mesh line {{ tp = 3 }}\nprogram p {{\n{statements}\n}}\nplacement q for p on line {{\n{placed}\n}}\n"
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{found}");
    (file.programs()[0].clone(), file.placements()[0].clone())
}

/// A program of three devices, and what it gives for its inputs.
struct Case {
    plan: Plan,
    inputs: Inputs,
    expected: Vec<(String, Tensor)>,
}

impl Case {
    fn new(statements: &str, placed: &str) -> Case {
        let (program, placement) = &placed_on_three(statements, placed);
        let sizes = SizeBinder::new(program).finish().expect("all sizes are in the text");
        let plan = compile(program, Some(placement), &sizes, &CompileOptions::default());
        let plan = plan.expect("it can be planned");
        let inputs = program.values().keys().filter(|&id| program.is_input(id));
        let inputs = inputs.fold(Inputs::new(), |inputs, id| {
            inputs.with(program.values()[id].name.clone(), RandomArray::for_input(1, program, &sizes, id))
        });
        let session = Session::from_plan(plan.clone(), SessionOptions::default());
        let expected =
            session.and_then(|mut session| session.run(&inputs)).expect("threads run it").into_vec();
        Case { plan, inputs, expected }
    }

    fn mlp() -> Case {
        Case::new(MLP, PLACED)
    }

    fn session(&self, engine: Arc<dyn Engine>, options: SessionOptions) -> Session {
        let options = SessionOptions { engine: Some(engine), ..options };
        Session::from_plan(self.plan.clone(), options).expect("it can be loaded")
    }

    /// A run that goes well, on all ranks.
    #[track_caller]
    fn assert_runs(&self, session: &mut Session, rank: usize) {
        assert_gives(session, rank, &self.inputs, &self.expected);
    }
}

/// A run that goes well, on all ranks, and gives this on rank 0.
#[track_caller]
fn assert_gives(session: &mut Session, rank: usize, inputs: &Inputs, expected: &[(String, Tensor)]) {
    let outputs = session.run(inputs).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
    let expected = if rank == 0 { expected } else { &[] };
    assert_eq!(outputs.iter().count(), expected.len());
    for (name, tensor) in expected {
        assert_eq!(outputs.get(name).expect("an output").bytes(), tensor.bytes(), "{name}");
    }
}
