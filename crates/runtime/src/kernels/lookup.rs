//! Operations that look at which indices a device holds: `iota` and `embedding`.

use super::arithmetic::Arithmetic;
use super::walk::Frame;
use super::wide::{Sink, Source, elements_mut, with_wide};
use super::{Input, KernelError, Output};
use shardweave_compiler::dtype::DType;
use shardweave_compiler::id::Id;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::SpaceId;
use std::num::NonZeroUsize;

/// `iota(d)`: the global indices held of its one dim.
pub(super) fn iota(frame: &Frame<'_>, out: Output<'_>) {
    let out = elements_mut::<i64>(out.bytes);
    for (y, index) in out.iter_mut().zip(frame.held[0].iter()) {
        *y = index as i64;
    }
}

/// `embedding(ids, table)`. Rows that this device does not hold give the identity of addition: adding
/// up the results of all devices that hold a part of the table changes no bit of a row.
pub(super) fn embedding(
    frame: &Frame<'_>,
    operands: &[Input<'_>],
    out: Output<'_>,
) -> Result<(), KernelError> {
    let [Input::Piece { bytes: ids, dtype: ids_type }, Input::Piece { bytes: table, dtype }] = *operands
    else {
        unreachable!("the compiler lets no number into `embedding`");
    };
    let rows = frame.operands[1].dims()[0].dim;
    let mut starts = frame.buffer::<Start>(frame.operands[0].len());
    row_starts(frame, rows, (ids, ids_type), &mut starts)?;
    with_wide!(dtype, T => gather_rows::<T>(frame, rows, &starts, &Source::new(table, dtype), out));
    Ok(())
}

/// Where a row starts in the table's piece, counted from 1; none if another device holds the row.
type Start = Option<NonZeroUsize>;

/// For each id where its row starts.
fn row_starts(
    frame: &Frame<'_>,
    rows: SpaceId,
    (ids, ids_type): (&[u8], DType),
    starts: &mut [Start],
) -> Result<(), KernelError> {
    let (held, count) = (&frame.held[rows.index()], frame.space.dims[rows].size);
    let stride = frame.operands[1].stride(rows);
    let start = |id: i64| match u64::try_from(id) {
        Ok(row) if row < count => {
            Ok(position(held, row).and_then(|at| NonZeroUsize::new(at as usize * stride + 1)))
        }
        _ => Err(KernelError::IdOutOfRange { id, rows: count }),
    };
    for (index, at) in starts.iter_mut().enumerate() {
        *at = match ids_type {
            DType::I32 => start(bytemuck::cast_slice::<_, i32>(ids)[index].into())?,
            _ => start(bytemuck::cast_slice::<_, i64>(ids)[index])?,
        };
    }
    Ok(())
}

/// How many indices of the set stand before `index`, if it is in the set.
fn position(held: &IndexSet, index: u64) -> Option<u64> {
    let mut before = 0;
    for &(start, end) in held.intervals() {
        if index < start {
            return None;
        }
        if index < end {
            return Some(before + index - start);
        }
        before += end - start;
    }
    None
}

fn gather_rows<T: Arithmetic>(
    frame: &Frame<'_>,
    rows: SpaceId,
    starts: &[Start],
    table: &Source<'_, T>,
    out: Output<'_>,
) {
    let [ids, table_dims] = [&frame.operands[0], &frame.operands[1]];
    let mut sink = Sink::<T>::new(out.bytes, out.dtype);
    let mut inside = frame.nest(table_dims.ids().filter(|&dim| dim != rows), [table_dims, &frame.result]);
    let line = inside.take_innermost();
    let mut buffer = frame.buffer(line.extent);
    for [id, y] in frame.nest(ids.ids(), [ids, &frame.result]).offsets() {
        for [x, inner_y] in inside.offsets() {
            match starts[id] {
                None => buffer.fill(T::ZERO),
                Some(start) => table.gather(start.get() - 1 + x, line.strides[0], &mut buffer),
            }
            sink.scatter(y + inner_y, line.strides[1], &buffer);
        }
    }
}
