//! What only the data shows, and inputs that do not fit.

use super::shapes::made_up;
use super::single;
use shardweave_compiler::program::{Program, Sizes};
use shardweave_runtime::kernels::KernelError;
use shardweave_runtime::reference::{self, ReferenceError};
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

const EMBED: &str = "program p {
  input ids: i32[s=3]
  input table: f32[v=5, e=2]
  input unused: f32[v]
  y = embedding(ids, table)
  z = neg(unused)
  output y
}";

fn embed() -> (Program, Sizes) {
    let program: Program = EMBED.parse().expect("a sound program");
    let sizes = Sizes::bind(&program, []).expect("all sizes are fixed");
    (program, sizes)
}

#[test]
fn an_id_outside_the_table_is_named() {
    let (program, sizes) = embed();
    let ids = program.value("ids").expect("it is there");
    let mut inputs = made_up(&program, &sizes, 1);
    for id in [5, -1, i32::MAX, i32::MIN] {
        inputs.insert(ids, Tensor::from_elements(&[3], &[0, id, 4]));
        let expected = KernelError::IdOutOfRange { id: id.into(), rows: 5 };
        assert_eq!(single::evaluate(&program, &sizes, &inputs).err(), Some(expected));
        let error = reference::run(&program, &sizes, &inputs).expect_err("the id does not exist");
        assert_eq!(error, ReferenceError::IdOutOfRange { value: "y".into(), id: id.into(), rows: 5 });
        assert_eq!(error.to_string(), format!("`y`: the id {id} is outside 0..5, the rows of the table"));
    }
    inputs.insert(ids, Tensor::from_elements(&[3], &[0, 1, 4]));
    assert!(single::evaluate(&program, &sizes, &inputs).is_ok());
}

#[test]
fn inputs_that_are_needed_must_be_there_and_fit() {
    let (program, sizes) = embed();
    let table = program.value("table").expect("it is there");
    let mut inputs = made_up(&program, &sizes, 1);
    assert!(inputs.len() == 2 && reference::run(&program, &sizes, &inputs).is_ok(), "one is not needed");
    inputs.insert(table, Tensor::from_elements(&[5, 2], &[0i64; 10]));
    let error = reference::run(&program, &sizes, &inputs).expect_err("the table has another type");
    assert_eq!(error.to_string(), "the input `table` is f32[5, 2], but i64[5, 2] was given");
    inputs.insert(table, Tensor::from_elements(&[2, 5], &[0f32; 10]));
    assert!(reference::run(&program, &sizes, &inputs).is_err(), "the table has another shape");
    let error = reference::run(&program, &sizes, &BTreeMap::new()).expect_err("nothing is given");
    assert_eq!(error, ReferenceError::MissingInput { input: "ids".into() });
}

#[test]
fn every_needed_value_can_be_looked_at() {
    let (program, sizes) = embed();
    let values = reference::evaluate(&program, &sizes, &made_up(&program, &sizes, 1)).expect("inputs fit");
    let found = ["ids", "table", "unused", "y", "z"]
        .map(|name| values.get(program.value(name).expect("it is there")).is_some());
    assert_eq!(found, [true, true, false, true, false]);
}
