//! Arrays without a program: made from pieces, looked at device by device, and taken to another layout.

use shardweave::{Array, ArrayError, ArrayType, DType, DeviceId, Layout, Mesh, Tensor};
use std::error::Error;
use std::sync::Arc;

/// The whole example.
pub fn main() -> Result<(), Box<dyn Error>> {
    let line: Arc<Mesh> = Arc::new("mesh line { tp = 3 }".parse()?);
    let dims = [("s", 6), ("d", 2)];
    let layout = |text| Layout::parse(text, &["s", "d"], &line);

    // Each device has made some rows; how many differs.
    let rows = |first: i32, count: i32| {
        let elements: Vec<i32> = (2 * first..2 * (first + count)).collect();
        Tensor::from_elements(&[count as u64, 2], &elements)
    };
    let pieces = || [(0.into(), rows(0, 1)), (1.into(), rows(1, 3)), (2.into(), rows(4, 2))];

    // Equal pieces would be 2, 2, 2: these are not they, and nothing is guessed.
    let equal = ArrayType::new(DType::I32, &dims, layout("s/tp")?)?;
    let error = Array::from_pieces(equal, pieces()).expect_err("the pieces are not equal");
    let expected =
        ArrayError::PieceShape { device: DeviceId::from(0), given: vec![1, 2], expected: vec![2, 2] };
    assert_eq!(error, expected);
    println!("{error}");

    let exact = ArrayType::new(DType::I32, &dims, layout("s/tp(1, 3, 2)")?)?;
    let array = Array::from_pieces(exact, pieces())?;
    assert_eq!(array.to_tensor().elements::<i32>(), Vec::from_iter(0..12));

    // To columns, by the same planner that plans programs.
    let moved = array.reshard(&layout("d/tp")?)?;
    for collective in &moved.collectives {
        println!("{collective}");
    }
    for device in moved.array.devices() {
        println!("{device} holds {:?}", moved.array.ty().indices(device).expect("it is in the mesh"));
    }
    assert_eq!(moved.array.to_tensor().bytes(), array.to_tensor().bytes());
    Ok(())
}
