//! A program on one device through the kernels.

use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Table;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::{Op, Space};
use shardweave_compiler::program::{Apply, Operand, Program, Sizes, ValueId};
use shardweave_runtime::kernels::{Input, KernelError, Output, Pieces, Scratch, compute};
use shardweave_runtime::tensor::Tensor;
use std::collections::BTreeMap;

/// Every value that the outputs need.
pub fn evaluate(
    program: &Program,
    sizes: &Sizes,
    inputs: &BTreeMap<ValueId, Tensor>,
) -> Result<Table<ValueId, Option<Tensor>>, KernelError> {
    let needed = program.needed();
    let mut values: Table<ValueId, Option<Tensor>> = Table::new();
    for (id, value) in program.values().iter() {
        let computed = match program.apply(id) {
            _ if !needed[id] => None,
            None => Some(inputs[&id].clone()),
            Some(apply) => {
                let shape: Vec<u64> = value.dims.iter().map(|&dim| sizes[dim]).collect();
                let mut result = Tensor::zeros(value.dtype, &shape);
                let space = program.space(id, sizes).expect("it is no input");
                let operands = operands(program, id, apply, &values);
                let out = Output { dtype: value.dtype, bytes: result.bytes_mut() };
                let pieces = Pieces::new(&space, all_of(&space));
                compute(&apply.op, &space, &pieces, &operands, out, &Scratch::new())?;
                Some(result)
            }
        };
        values.push(computed);
    }
    Ok(values)
}

/// The operands of the operation that gives `id`, whole.
pub fn operands<'a>(
    program: &Program,
    id: ValueId,
    apply: &Apply,
    values: &'a Table<ValueId, Option<Tensor>>,
) -> Vec<Input<'a>> {
    let number_type = number_type(program, id, apply);
    let operand = |operand: &Operand| match operand {
        Operand::Number(number) => Input::Number(*number, number_type),
        Operand::Value(value) => {
            let tensor = values[*value].as_ref().expect("operands are computed before");
            Input::Piece { bytes: tensor.bytes(), dtype: tensor.dtype() }
        }
    };
    apply.operands.iter().map(operand).collect()
}

/// The type that a number among the operands takes.
fn number_type(program: &Program, id: ValueId, apply: &Apply) -> DType {
    match (&apply.op, apply.values().next()) {
        (Op::Where, _) | (_, None) => program.values()[id].dtype,
        (_, Some(value)) => program.values()[value].dtype,
    }
}

/// All indices of every dim.
pub fn all_of(space: &Space) -> Vec<IndexSet> {
    space.dims.values().map(|dim| IndexSet::range(0, dim.size)).collect()
}
