//! A loop that serves requests: the weights are bound once, requests have any length, and what one run
//! gives goes into the next without leaving the devices.

use shardweave::{
    Array, DType, Inputs, Layout, Mesh, Op, Placement, Program, RunError, Session, SessionOptions, Tensor,
};
use std::error::Error;
use std::sync::Arc;

/// A token looks up its row, and the rows seen so far are kept: `seen` grows by the tokens of a request.
fn program() -> Result<Program, Box<dyn Error>> {
    let program = Program::builder("remember")
        .input("tokens", DType::I64, ["t"])
        .input("table", DType::F32, ["v", "e"])
        .input("seen", DType::F32, ["s", "e"])
        .op("rows", Op::Embedding, ["tokens", "table"])
        .op("longer", Op::Concat { to: "all".into() }, ["seen", "rows"])
        .output("longer")
        .finish()?;
    Ok(program)
}

/// The whole example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let line: Arc<Mesh> = Arc::new("mesh line { tp = 3 }".parse()?);
    let program = program()?;
    let columns = Placement::builder("columns", &program, &line)
        .place("table", "e/tp")
        .place("seen", "e/tp")
        .place("longer", "e/tp")
        .finish()?;
    let mut session = Session::new(program, Some(columns), SessionOptions::default());

    // Each device reads its columns of the table once, whatever the requests are.
    let table: Vec<f32> = (0..5 * 6).map(|i| i as f32).collect();
    session.bind_constants(&Inputs::new().with("table", Tensor::from_elements(&[5, 6], &table)))?;

    let nothing = Tensor::zeros(DType::F32, &[0, 6]);
    let mut seen = Array::place(&nothing, &["s", "e"], Layout::parse("e/tp", &["s", "e"], &line)?)?;
    for request in [&[0_i64, 3][..], &[1], &[4, 4, 2]] {
        let tokens = Tensor::from_elements(&[request.len() as u64], request);
        let inputs = Inputs::new().with("tokens", tokens).with("seen", seen);
        seen = session.run_placed(&inputs)?.get("longer").expect("an output").clone();
        println!(
            "{} rows, device 2 holds {:?}",
            seen.shape()[0],
            seen.piece(2.into()).expect("it is in the mesh")
        );
    }
    assert_eq!(seen.shape(), [6, 6]);
    assert_eq!(seen.to_tensor().elements::<f32>()[6..12], [18.0, 19.0, 20.0, 21.0, 22.0, 23.0]);

    // A request that fails is an error, and the next one is served.
    let wrong =
        Inputs::new().with("tokens", Tensor::from_elements(&[1], &[5_i64])).with("seen", seen.clone());
    let Err(RunError::Device(failure)) = session.run_placed(&wrong) else { panic!("there is no row 5") };
    println!("{failure}");
    let right = Inputs::new().with("tokens", Tensor::from_elements(&[1], &[4_i64])).with("seen", seen);
    assert_eq!(session.run_placed(&right)?.get("longer").expect("an output").shape(), [7, 6]);
    Ok(())
}
