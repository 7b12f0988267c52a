//! Element types: the operands of one operation have one type, of a kind its row allows.

use super::{CallType, OperandType, ValueType};
use crate::diagnostic::{Code, Diagnostic, Span, quote};
use crate::dtype::{DType, Number};
use crate::op::table::{DTypes, ResultDType};
use crate::op::{Op, row_of};

/// The result's element type, or what is wrong with those of the operands.
pub(super) fn check(call: CallType<'_>) -> Result<DType, Diagnostic> {
    let row = row_of(call.op);
    let mut values = call.values();
    match row.dtypes {
        DTypes::Condition => first(call, values.next(), "bool", |d| d == DType::Bool)?,
        DTypes::Ids => first(call, values.next(), "an integer type", DType::is_integer)?,
        _ => {}
    }
    let common = values.next();
    if let Some(one) = common {
        if let Some(other) = values.find(|value| value.dtype != one.dtype) {
            return Err(mixed(call, one, other));
        }
        allowed(call, one, row.dtypes)?;
        for (operand, place) in call.operands {
            if let OperandType::Number(number) = operand {
                fits(*number, one.dtype, *place, &format!("the type of {}", quote(one.name)))?;
            }
        }
    }
    if let Op::Full(number, dtype) = call.op {
        fits(*number, *dtype, call.span, "the type asked for")?;
    }
    Ok(match (row.result, call.op) {
        (ResultDType::Bool, _) => DType::Bool,
        (ResultDType::I64, _) => DType::I64,
        (ResultDType::Written, Op::Cast(dtype) | Op::Full(_, dtype)) => *dtype,
        _ => common.map_or(DType::I64, |value| value.dtype),
    })
}

/// The first operand of `where` and `embedding` has a type of its own.
fn first(
    call: CallType<'_>,
    value: Option<ValueType<'_>>,
    needed: &str,
    fine: impl Fn(DType) -> bool,
) -> Result<(), Diagnostic> {
    match value {
        Some(value) if !fine(value.dtype) => {
            let target = if needed == "bool" { DType::Bool } else { DType::I64 };
            let message = format!(
                "the first operand of `{}` is {needed}, but {} is {}",
                call.name(),
                quote(value.name),
                value.dtype
            );
            Err(Diagnostic::at(Code::DTypeNotAllowed, value.place, message).help(cast(value, target)))
        }
        _ => Ok(()),
    }
}

fn mixed(call: CallType<'_>, one: ValueType<'_>, other: ValueType<'_>) -> Diagnostic {
    let message = format!(
        "the operands of `{}` have different element types: {} is {}, {} is {}",
        call.name(),
        quote(one.name),
        one.dtype,
        quote(other.name),
        other.dtype
    );
    Diagnostic::at(Code::DTypeMismatch, other.place, message)
        .related(one.place, format!("this is {}", one.dtype))
        .help(cast(other, one.dtype))
}

fn allowed(call: CallType<'_>, value: ValueType<'_>, dtypes: DTypes) -> Result<(), Diagnostic> {
    let (fine, needs, target) = match dtypes {
        DTypes::Floats => (value.dtype.is_float(), "floats", DType::F32),
        DTypes::Numbers => (value.dtype != DType::Bool, "floats and integers", DType::I32),
        DTypes::Bools => (value.dtype == DType::Bool, "bool", DType::Bool),
        DTypes::None | DTypes::Any | DTypes::Condition | DTypes::Ids => return Ok(()),
    };
    if fine {
        return Ok(());
    }
    let message =
        format!("`{}` is defined on {needs}, but {} is {}", call.name(), quote(value.name), value.dtype);
    Err(Diagnostic::at(Code::DTypeNotAllowed, value.place, message).help(cast(value, target)))
}

fn cast(value: ValueType<'_>, dtype: DType) -> String {
    let name = quote(value.name);
    format!("cast it first: `cast({}, {dtype})`", name.trim_matches('`'))
}

fn fits(number: Number, dtype: DType, place: Span, whose: &str) -> Result<(), Diagnostic> {
    if number.fits(dtype) {
        return Ok(());
    }
    let message = format!("{number} cannot be held by {dtype}, {whose}");
    Err(Diagnostic::at(Code::NumberDoesNotFit, place, message).help(match dtype {
        DType::Bool => "of bool, numbers are 0 and 1".into(),
        dtype if dtype.is_integer() => {
            format!("write a whole number in the range of {dtype}, or use a float type")
        }
        dtype => format!("write a number in the range of {dtype}, or use a wider type"),
    }))
}
