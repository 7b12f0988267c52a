//! What Rust users are promised: the examples run, README shows the first of them, and everything can be
//! sent to another thread.

use shardweave::{
    Array, ArrayError, ArrayType, CompileOptions, Diagnostics, InputError, Inputs, Layout, Mesh, Outputs,
    Placement, Plan, Program, ProgramBuilder, ReadError, Report, RunError, Session, SessionOptions, Sizes,
    Tensor, WeaveFile, WrongInput,
};

#[path = "../examples/arrays.rs"]
mod arrays;
#[path = "../examples/serve.rs"]
mod serve;
#[path = "../examples/sharded_linear.rs"]
mod sharded_linear;

#[test]
fn the_examples_run() {
    sharded_linear::main().expect("a linear on four devices");
    serve::main().expect("a loop that serves");
    arrays::main().expect("arrays without a program");
}

#[test]
fn no_example_is_left_out() {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("examples");
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .expect("the examples")
        .map(|entry| entry.expect("a file").file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    // `ranks.rs` needs an MPI: it is compiled by `cargo xtask check`, if there is one.
    assert_eq!(names, ["arrays.rs", "ranks.rs", "serve.rs", "sharded_linear.rs"]);
}

#[test]
fn readme_shows_the_sharded_linear() {
    let (readme, example) =
        (include_str!("../../../README.md"), include_str!("../examples/sharded_linear.rs"));
    let code = example.split_once("\n\n").expect("a comment, then code").1;
    let code = code.replace("/// The whole example.\npub fn main", "fn main"); // it is called from here
    assert!(readme.contains(&format!("```rust\n{code}```")), "README.md and sharded_linear.rs differ");
    let body = code.lines().skip_while(|line| !line.starts_with("fn main")).skip(1);
    let lines = body.filter(|line| !line.is_empty() && !line.starts_with('}')).count();
    assert!(lines <= 20, "{lines} lines are no short example");
}

#[test]
fn everything_can_be_sent_and_errors_are_errors() {
    fn sent<T: Send + 'static>() {}
    fn shared<T: Send + Sync + Clone + 'static>() {}
    fn error<T: std::error::Error + Send + Sync + 'static>() {}
    sent::<Session>();
    shared::<Array>();
    shared::<ArrayType>();
    shared::<Layout>();
    shared::<Mesh>();
    shared::<Program>();
    shared::<ProgramBuilder>();
    shared::<Placement>();
    shared::<Plan>();
    shared::<Report>();
    shared::<Sizes>();
    shared::<Tensor>();
    shared::<Inputs>();
    shared::<Outputs>();
    shared::<Outputs<Array>>();
    shared::<WeaveFile>();
    shared::<CompileOptions>();
    shared::<SessionOptions>();
    error::<Diagnostics>();
    error::<RunError>();
    error::<ArrayError>();
    error::<InputError>();
    error::<WrongInput>();
    error::<ReadError>();
}
