//! Weights from files: each device reads the elements of its piece and no others, however the value is
//! cut.

mod hand;

use hand::{BACKENDS, Hand, Watched, counting, mesh, run, ty};
use safetensors::tensor::{Dtype, TensorView};
use shardweave_compiler::dtype::DType;
use shardweave_runtime::files::TensorFile;
use shardweave_runtime::session::Inputs;
use std::sync::Arc;

#[test]
fn sj1_only_the_elements_of_a_piece_are_read() {
    let whole = counting(DType::F32, &[6, 5, 4]);
    let directory = tempfile::tempdir().expect("tests can write to the directory for temporary files");
    let path = directory.path().join("w.safetensors");
    let view = TensorView::new(Dtype::F32, vec![6, 5, 4], whole.bytes()).expect("bytes fit the shape");
    let bytes = safetensors::serialize([("w", view)], None).expect("a good tensor");
    std::fs::write(&path, bytes).expect("tests can write");
    let file = TensorFile::open(&path).expect("a good file");

    let home = mesh("grid", &[("a", 2), ("b", 2)], None);
    let pieces: [(&str, [u64; 4]); 8] = [
        ("r/a", [60, 60, 60, 60]),
        ("c/a/b", [24, 24, 24, 48]), // 5 over 2 is 3 and 2, over 2 again 2, 1 and 1, 1
        ("d/b", [60, 60, 60, 60]),
        ("r/a/b", [20, 20, 40, 40]),
        ("r/a(1, 5), d/b", [10, 10, 50, 50]),
        ("d/local(2)/a, c/b", [24, 24, 36, 36]),
        ("r/a(0, 6)", [0, 0, 120, 120]),
        ("replicated", [120; 4]),
    ];
    for (layout, elements) in pieces {
        let mut hand = Hand::new();
        let w = hand.input("w", ty(DType::F32, &[("r", 6), ("c", 5), ("d", 4)], layout, &home, &[]));
        hand.program_output("w", w);
        let host = hand.finish();
        for backend in BACKENDS {
            let array = file.tensor("w").expect("it can be read").expect("it is there");
            let watched = Arc::new(Watched::new(array));
            let mut inputs = Inputs::new();
            inputs.insert("w", watched.clone());
            let outputs = run(&host, backend, &inputs);
            assert_eq!(watched.elements_read(), elements, "{layout}");
            assert_eq!(outputs.get("w").expect("an output").bytes(), whole.bytes(), "{layout}");
        }
    }
}
