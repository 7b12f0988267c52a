//! The programs of `examples/`, with sizes at which they are quick.

use std::path::Path;

/// File, program, placements, sizes.
pub const EXAMPLES: &[(&str, &str, &[&str], &str)] = &[
    (
        "mlp.weave",
        "mlp",
        &["none", "sequence_parallel", "overlapped", "overlapped_fine", "data_and_tensor"],
        "b=2 s=14 e=6 h=10",
    ),
    ("linear_multi_sharded.weave", "linear0", &["none", "pipelined"], "o=3 d=2 m=3 e=4 g=2 h=5"),
    ("linear_multi_sharded.weave", "linear0_flat", &["none", "pipelined_flat"], "s=19 e=4 h=6"),
    ("double_sharding.weave", "double_sharding", &["none", "keep_w", "keep_x"], "d=2 m=3 k=5 g=2 n=7"),
    ("sharded_linear.weave", "column_wise", &["none", "colwise"], "r=4 m=13 k=17 n=16"),
    ("sharded_linear.weave", "row_wise", &["none", "rowwise"], "r=4 m=13 k=16 n=17"),
    ("sharded_linear.weave", "free", &["none", "cheapest"], "r=4 m=13 k=16 n=17"),
    ("sharded_linear.weave", "ragged", &["none", "ragged_rows"], "t=16 k=17 n=18"),
];

/// The text of one of the files.
pub fn example(file: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}
