//! A linear layer on four devices: the rows of `x` and of `w` are both cut, so one of them moves.

use shardweave::{DType, Inputs, Mesh, Op, Placement, Program, Session, SessionOptions, Tensor};
use std::sync::Arc;

/// The whole example.
pub fn main() -> Result<(), Box<dyn std::error::Error>> {
    let layer = Program::builder("layer")
        .input("x", DType::F32, ["s", "e"])
        .input("w", DType::F32, ["h", "e"])
        .op("y", Op::Linear, ["x", "w"])
        .output("y")
        .finish()?;
    let line: Arc<Mesh> = Arc::new("mesh line { tp = 4 }".parse()?);
    let cut = Placement::builder("cut", &layer, &line).place("x", "s/tp").place("w", "h/tp").finish()?;

    let mut session = Session::new(layer, Some(cut), SessionOptions::default());
    let (x, w) =
        (Tensor::from_elements(&[8, 2], &[1.0_f32; 16]), Tensor::from_elements(&[4, 2], &[0.5_f32; 8]));
    let outputs = session.run(&Inputs::new().with("x", x).with("w", w))?;
    assert_eq!(outputs.get("y").expect("an output").elements::<f32>(), [1.0; 32]);

    for moved in &session.plan().expect("it has run").report.collectives {
        println!("{moved}");
    }
    Ok(())
}
