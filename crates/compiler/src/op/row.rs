//! The row of an operation: by its name where it may be called, or by the operation itself.

use super::form_table::FORM_TABLE;
use super::table::{Family, OpRow, TABLE};
use super::{Finish, Op};

/// Where an operation may be called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scope {
    /// In programs and in all forms.
    Programs,
    /// In the forms that devices run only: the compiler makes it of others.
    Forms,
}

/// The row of an operation's name, where it may be called.
pub fn row(name: &str, scope: Scope) -> Option<&'static OpRow> {
    let in_forms = FORM_TABLE.iter().filter(|_| scope == Scope::Forms);
    TABLE.iter().chain(in_forms).find(|row| row.name == name)
}

/// The row of an operation.
pub fn row_of(op: &Op) -> &'static OpRow {
    let family = family(op);
    let mut rows = TABLE.iter().chain(FORM_TABLE);
    rows.find(|row| row.family == family).expect("every operation has a row in a table")
}

fn family(op: &Op) -> Family {
    match op {
        Op::Linear => Family::Linear,
        Op::Matmul => Family::Matmul,
        Op::Einsum(_) => Family::Einsum,
        Op::Map(map) => Family::Map(*map),
        Op::Cast(_) => Family::Cast,
        Op::Zip(zip) => Family::Zip(*zip),
        Op::Where => Family::Where,
        Op::Reduce(reduce, _) => Family::Reduce(*reduce),
        Op::ArgMax(_) => Family::ArgMax,
        Op::Softmax(_) => Family::Softmax,
        Op::LogSoftmax(_) => Family::LogSoftmax,
        Op::LayerNorm { .. } => Family::LayerNorm,
        Op::RmsNorm { .. } => Family::RmsNorm,
        Op::Rearrange { .. } => Family::Rearrange,
        Op::Rename(_) => Family::Rename,
        Op::Slice { .. } => Family::Slice,
        Op::Pad { .. } => Family::Pad,
        Op::Concat { .. } => Family::Concat,
        Op::Broadcast { .. } => Family::Broadcast,
        Op::Iota(_) => Family::Iota,
        Op::Full(..) => Family::Full,
        Op::Embedding => Family::Embedding,
        Op::Reshard => Family::Reshard,
        Op::Summary(summary, _) => Family::Summary(*summary),
        Op::Finish(finish, _) => match finish {
            Finish::Softmax => Family::FinishSoftmax,
            Finish::LogSoftmax => Family::FinishLogSoftmax,
            Finish::LayerNorm { .. } => Family::FinishLayerNorm,
            Finish::RmsNorm { .. } => Family::FinishRmsNorm,
            Finish::ArgMax => Family::FinishArgMax,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_families_are_unique() {
        let rows: Vec<&OpRow> = TABLE.iter().chain(FORM_TABLE).collect();
        for (i, row) in rows.iter().enumerate() {
            for other in &rows[..i] {
                assert_ne!(row.name, other.name);
                assert_ne!(row.family, other.family);
            }
        }
    }
}
