//! `cast(x, bf16)`: Rust's `as`, from any type to any; to bool it is `!= 0`.

use super::tile::{Feed, tiles};
use super::walk::Frame;
use super::wide::{Wide, elements_mut, with_wide};
use super::{Input, Output};
use shardweave_compiler::dtype::DType;

/// The result's stored type is what is cast to.
pub(super) fn cast(frame: &Frame<'_>, x: &Input<'_>, out: Output<'_>) {
    let size = out.dtype.size() as usize;
    with_wide!(x.dtype(), T => {
        let mut x = Feed::<T>::new(frame, 0, x);
        for tile in tiles(frame.result.len()) {
            cast_tile(x.tile(&tile), out.dtype, &mut out.bytes[tile.start * size..tile.end * size]);
        }
    });
}

fn cast_tile<T: Wide>(x: &[T], dtype: DType, out: &mut [u8]) {
    match dtype {
        DType::F64 => convert(x, elements_mut(out), T::to_f64),
        DType::F32 => convert(x, elements_mut(out), T::to_f32),
        DType::Bf16 => convert(x, elements_mut(out), T::to_bf16),
        DType::F16 => convert(x, elements_mut(out), T::to_f16),
        DType::I64 => convert(x, elements_mut(out), T::to_i64),
        DType::I32 => convert(x, elements_mut(out), T::to_i32),
        DType::Bool => convert(x, out, |x| u8::from(x.is_nonzero())),
    }
}

fn convert<S: Copy, T>(x: &[S], y: &mut [T], f: impl Fn(S) -> T) {
    for (y, &x) in y.iter_mut().zip(x) {
        *y = f(x);
    }
}
