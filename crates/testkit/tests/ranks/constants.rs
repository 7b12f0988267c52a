//! Constants stay where they are, also where plans for other sizes reach others of them.

use crate::{assert_gives, placed_on_three};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use shardweave_runtime::engine::Engine;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use shardweave_runtime::tensor::{ArraySource, ReadError};
use shardweave_testkit::ranks::on_ranks;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// An array that counts how often a piece of it is read.
struct Counted {
    array: RandomArray,
    reads: Arc<AtomicUsize>,
}

impl ArraySource for Counted {
    fn dtype(&self) -> DType {
        self.array.dtype()
    }
    fn shape(&self) -> &[u64] {
        self.array.shape()
    }
    fn describe(&self) -> String {
        "a counted array".into()
    }
    fn read(&self, piece: &[IndexSet], out: &mut [u8]) -> Result<(), ReadError> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.array.read(piece, out)
    }
}

/// Few rows move to the weights, which stay a rank's own; to many rows the weights move, for which others reach them. From
/// then on they do, so that no other size has them read again.
#[test]
fn constants_are_read_again_once_if_others_come_to_reach_them() {
    let (program, placement) = placed_on_three(
        "input x: f32[s, e=2000]\ninput w: f32[h=90, e]\ny = linear(x, w)\noutput y",
        "x: s/tp\nw: h/tp\ny: s/tp",
    );
    let (few, many) = (3, 3000);
    let weights = || RandomArray::new(1, "w", DType::F32, &[90, 2000]);
    let inputs = |rows: u64| Inputs::new().with("x", RandomArray::new(1, "x", DType::F32, &[rows, 2000]));
    let expected = |rows| {
        let mut session = Session::new(program.clone(), Some(placement.clone()), SessionOptions::default());
        session.bind_constants(&Inputs::new().with("w", weights())).expect("an input");
        session.run(&inputs(rows)).expect("threads run it").into_vec()
    };
    for (first, then, reads) in [(few, many, [1, 2, 2, 2, 2]), (many, few, [1; 5])] {
        let (of_first, of_then) = (expected(first), expected(then));
        on_ranks(&[0, 0, 0], |engine| {
            let rank = engine.place().rank;
            let options = SessionOptions { engine: Some(engine), ..SessionOptions::default() };
            let mut session = Session::new(program.clone(), Some(placement.clone()), options);
            let counted = Arc::new(AtomicUsize::new(0));
            let array = Counted { array: weights(), reads: counted.clone() };
            session.bind_constants(&Inputs::new().with("w", array)).expect("an input");
            let found = (0..reads.len()).map(|time| {
                let (rows, expected) = if time % 2 == 0 { (first, &of_first) } else { (then, &of_then) };
                assert_gives(&mut session, rank, &inputs(rows), expected);
                counted.load(Ordering::Relaxed)
            });
            let found: Vec<usize> = found.collect();
            assert_eq!(found, reads, "{first} rows first, rank {rank}");
        });
    }
}
