//! Runs every placement of `examples/` with small sizes on every backend and compares with one device.

use crate::{Failed, run, shardweave};

/// One program of `examples/`.
struct Example {
    file: &'static str,
    program: &'static str,
    placements: &'static [&'static str],
    sizes: &'static [&'static str],
}

const EXAMPLES: &[Example] = &[
    Example {
        file: "examples/mlp.weave",
        program: "mlp",
        placements: &["none", "sequence_parallel", "overlapped", "overlapped_fine", "data_and_tensor"],
        sizes: &["b=2", "s=30", "e=24", "h=50"],
    },
    Example {
        file: "examples/linear_multi_sharded.weave",
        program: "linear0",
        placements: &["none", "pipelined"],
        sizes: &["o=8", "d=2", "m=3", "e=16", "g=2", "h=24"],
    },
    Example {
        file: "examples/linear_multi_sharded.weave",
        program: "linear0_flat",
        placements: &["none", "pipelined_flat"],
        sizes: &["s=50", "e=16", "h=24"],
    },
    Example {
        file: "examples/double_sharding.weave",
        program: "double_sharding",
        placements: &["none", "keep_w", "keep_x"],
        sizes: &["d=2", "m=3", "k=5", "g=2", "n=7"],
    },
    Example {
        file: "examples/sharded_linear.weave",
        program: "column_wise",
        placements: &["none", "colwise"],
        sizes: &["r=4", "m=13", "k=17", "n=16"],
    },
    Example {
        file: "examples/sharded_linear.weave",
        program: "row_wise",
        placements: &["none", "rowwise"],
        sizes: &["r=4", "m=13", "k=16", "n=17"],
    },
    Example {
        file: "examples/sharded_linear.weave",
        program: "free",
        placements: &["none", "cheapest"],
        sizes: &["r=4", "m=13", "k=16", "n=17"],
    },
    Example {
        file: "examples/sharded_linear.weave",
        program: "ragged",
        placements: &["none", "ragged_rows"],
        sizes: &["t=16", "k=17", "n=18"],
    },
];

/// Runs them all.
pub fn run_all() -> Result<(), Failed> {
    for example in EXAMPLES {
        for placement in example.placements {
            for backend in ["threads", "lockstep"] {
                println!("{} {} {placement} on {backend}", example.file, example.program);
                let mut command = shardweave();
                command.args(["run", example.file, "--program", example.program, "--placement", placement]);
                command.arg("--size").args(example.sizes);
                command.args(["--random", "1", "--check", "--on", backend]);
                run(command)?;
            }
        }
    }
    println!("every example agrees with one device");
    Ok(())
}
