//! Each rank reads and brings its pieces of the inputs.

use crate::{Case, HOSTS};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::{IndexSet, Layout};
use shardweave_compiler::mesh::{DeviceId, Mesh};
use shardweave_runtime::array::Array;
use shardweave_runtime::engine::Engine;
use shardweave_runtime::execute::{NotReady, RunError};
use shardweave_runtime::session::{Inputs, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, ReadError};
use shardweave_testkit::ranks::on_ranks;
use std::sync::Arc;

#[test]
fn each_rank_brings_the_piece_of_its_device() {
    let case = Case::mlp();
    for hosts in HOSTS {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let mut session = case.session(engine, SessionOptions::default());
            let line: Arc<Mesh> = Arc::new("mesh line { tp = 3 }".parse().expect("a mesh"));
            let mut local = Inputs::new();
            for (name, dims, cut) in [
                ("x", &["b", "s", "e"][..], "s/tp"),
                ("w0", &["h", "e"], "h/tp"),
                ("w1", &["e", "h"], "h/tp"),
            ] {
                let layout = Layout::parse(cut, dims, &line).expect("a layout");
                let source = case.inputs.get(name).expect("an input");
                let whole = Array::place(&**source, dims, layout).expect("it can be placed");
                let own = whole.piece(DeviceId::new(rank)).expect("all devices have a piece").clone();
                let array = Array::from_local(whole.ty().clone(), [(DeviceId::new(rank), own)]);
                local.insert(name, Arc::new(array.expect("the piece fits")));
            }
            let outputs = session.run(&local).unwrap_or_else(|error| panic!("rank {rank}: {error}"));
            for (name, tensor) in case.expected.iter().filter(|_| rank == 0) {
                assert_eq!(outputs.get(name).expect("an output").bytes(), tensor.bytes(), "{name}");
            }
        });
    }
}

/// An array whose elements cannot be read.
struct Unreadable(Arc<dyn ArraySource>);

impl ArraySource for Unreadable {
    fn dtype(&self) -> DType {
        self.0.dtype()
    }

    fn shape(&self) -> &[u64] {
        self.0.shape()
    }

    fn describe(&self) -> String {
        "a torn tape".into()
    }

    fn read(&self, _: &[IndexSet], _: &mut [u8]) -> Result<(), ReadError> {
        Err(ReadError::Failed("the tape is torn".into()))
    }
}

#[test]
fn inputs_that_one_rank_cannot_read_are_bound_on_none() {
    let case = Case::mlp();
    for hosts in HOSTS {
        on_ranks(&hosts, |engine| {
            let rank = engine.place().rank;
            let mut session = case.session(engine, SessionOptions::default());
            case.assert_runs(&mut session, rank);
            let torn = Arc::new(Unreadable(case.inputs.get("w1").expect("an input").clone()));
            let mut unreadable = case.inputs.clone();
            unreadable.insert("w1", torn);
            let lacking = case.inputs.iter().filter(|(name, _)| *name != "x");
            let lacking = lacking.fold(Inputs::new(), |mut some, (name, array)| {
                some.insert(name, array.clone());
                some
            });
            for (wrong, text) in [(&unreadable, "the tape is torn"), (&lacking, "`x`")] {
                let failed = session.bind(if rank == 1 { wrong } else { &case.inputs });
                match failed {
                    Err(RunError::Elsewhere { rank: 1, message }) if rank != 1 => {
                        assert!(message.contains(text), "{message}");
                    }
                    Err(error @ RunError::Inputs(_)) if rank == 1 => {
                        assert!(error.to_string().contains(text), "{error}");
                    }
                    other => panic!("rank {rank}: {other:?}"),
                }
                // If some ranks ran, they would wait for the others without end.
                assert_eq!(session.execute(), Err(RunError::NotReady(NotReady::Inputs)), "rank {rank}");
                assert_eq!(
                    session.outputs().err(),
                    Some(RunError::NotReady(NotReady::Outputs)),
                    "rank {rank}"
                );
                case.assert_runs(&mut session, rank);
            }
        });
    }
}
