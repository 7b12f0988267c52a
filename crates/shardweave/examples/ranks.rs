//! A linear layer on ranks of MPI: each process plays one device and has its own pieces only.
//!
//! ```text
//! cargo build --example ranks --features mpi
//! mpirun -n 4 target/debug/examples/ranks
//! ```

use shardweave::mpi::Mpi;
use shardweave::{
    DType, DeviceId, Engine, Inputs, Mesh, Op, Placement, Program, Session, SessionOptions, Tensor,
};
use std::sync::Arc;

/// What every rank does.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    // A program that has begun MPI itself gives its communicator: `Mpi::from_fortran(handle)`.
    let mpi = Arc::new(Mpi::init()?);
    let rank = mpi.place().rank;

    let layer = Program::builder("layer")
        .input("x", DType::F32, ["s", "e"])
        .input("w", DType::F32, ["h", "e"])
        .op("y", Op::Linear, ["x", "w"])
        .output("y")
        .finish()?;
    let line: Arc<Mesh> = Arc::new(format!("mesh line {{ tp = {} }}", mpi.place().ranks()).parse()?);
    let cut = Placement::builder("cut", &layer, &line).place("x", "s/tp").place("w", "h/tp").finish()?;

    // All ranks make the same calls. Of the inputs each reads its own pieces only.
    let options = SessionOptions { engine: Some(mpi), ..SessionOptions::default() };
    let mut session = Session::new(layer, Some(cut), options);
    let x = Tensor::from_elements(&[8, 2], &[1.0_f32; 16]);
    let w = Tensor::from_elements(&[16, 2], &[0.5_f32; 32]);
    let outputs = session.run_placed(&Inputs::new().with("x", x).with("w", w))?;

    let y = outputs.get("y").expect("an output");
    let own = y.piece(DeviceId::from(rank as u32)).expect("each rank is a device of the mesh");
    assert!(own.elements::<f32>().iter().all(|&element| element == 1.0));
    println!("rank {rank} holds {:?} of {:?}", own.shape(), y.shape());
    Ok(())
}
