//! Operations element by element: the loops. What is done to an element is in [`arithmetic`](super::arithmetic).

use super::arithmetic::Arithmetic;
use super::tile::{Feed, TILE, tiles};
use super::vectors::vectorised;
use super::walk::Frame;
use super::wide::{Sink, Wide, with_wide};
use super::{Input, Output};
use shardweave_compiler::dtype::{DType, Number};
use shardweave_compiler::op::{Map, Zip};

/// One operand.
pub(super) fn map(frame: &Frame<'_>, map: Map, x: &Input<'_>, out: Output<'_>) {
    with_wide!(out.dtype, T => {
        let mut x = Feed::<T>::new(frame, 0, x);
        let mut sink = Sink::<T>::new(out.bytes, out.dtype);
        let mut buffer = frame.buffer(TILE);
        for tile in tiles(frame.result.len()) {
            let x = x.tile(&tile);
            sink.run(tile.start, tile.len(), &mut buffer, |y| map_tile(map, x, y));
        }
    });
}

/// Two operands.
pub(super) fn zip(frame: &Frame<'_>, zip: Zip, operands: &[Input<'_>], out: Output<'_>) {
    let dtype = operands[0].dtype();
    if zip.is_comparison() {
        with_wide!(dtype, T => compare::<T>(frame, zip, operands, out));
    } else {
        with_wide!(dtype, T => arithmetic::<T>(frame, zip, operands, out));
    }
}

fn arithmetic<T: Arithmetic>(frame: &Frame<'_>, zip: Zip, operands: &[Input<'_>], out: Output<'_>) {
    let mut a = Feed::<T>::new(frame, 0, &operands[0]);
    let mut b = Feed::<T>::new(frame, 1, &operands[1]);
    let mut sink = Sink::<T>::new(out.bytes, out.dtype);
    let mut buffer = frame.buffer(TILE);
    for tile in tiles(frame.result.len()) {
        let (a, b) = (a.tile(&tile), b.tile(&tile));
        sink.run(tile.start, tile.len(), &mut buffer, |y| zip_tile(zip, a, b, y));
    }
}

fn compare<T: Wide>(frame: &Frame<'_>, zip: Zip, operands: &[Input<'_>], out: Output<'_>) {
    assert_eq!(out.dtype, DType::Bool, "a comparison gives bool");
    let mut a = Feed::<T>::new(frame, 0, &operands[0]);
    let mut b = Feed::<T>::new(frame, 1, &operands[1]);
    for tile in tiles(frame.result.len()) {
        compare_tile(zip, a.tile(&tile), b.tile(&tile), &mut out.bytes[tile.clone()]);
    }
}

vectorised! {
    fn compare_tile<T: Wide>(zip: Zip, a: &[T], b: &[T], y: &mut [u8]) {
        match zip {
            Zip::Less => each(a, b, y, |a, b| u8::from(a < b)),
            Zip::LessEqual => each(a, b, y, |a, b| u8::from(a <= b)),
            Zip::Greater => each(a, b, y, |a, b| u8::from(a > b)),
            Zip::GreaterEqual => each(a, b, y, |a, b| u8::from(a >= b)),
            Zip::Equal => each(a, b, y, |a, b| u8::from(a == b)),
            Zip::NotEqual => each(a, b, y, |a, b| u8::from(a != b)),
            other => unreachable!("{other:?} is no comparison"),
        }
    }
}

vectorised! {
    fn map_tile<T: Arithmetic>(map: Map, x: &[T], y: &mut [T]) {
        T::map(map, x, y);
    }
}

vectorised! {
    fn zip_tile<T: Arithmetic>(zip: Zip, a: &[T], b: &[T], y: &mut [T]) {
        T::zip(zip, a, b, y);
    }
}

/// `where(c, a, b)`.
pub(super) fn choose(frame: &Frame<'_>, operands: &[Input<'_>], out: Output<'_>) {
    with_wide!(out.dtype, T => {
        let mut c = Feed::<u8>::new(frame, 0, &operands[0]);
        let mut a = Feed::<T>::new(frame, 1, &operands[1]);
        let mut b = Feed::<T>::new(frame, 2, &operands[2]);
        let mut sink = Sink::<T>::new(out.bytes, out.dtype);
        let mut buffer = frame.buffer(TILE);
        for tile in tiles(frame.result.len()) {
            let (c, a, b) = (c.tile(&tile), a.tile(&tile), b.tile(&tile));
            sink.run(tile.start, tile.len(), &mut buffer, |y| {
                for (y, (c, (a, b))) in y.iter_mut().zip(c.iter().zip(a.iter().zip(b))) {
                    *y = if *c != 0 { *a } else { *b };
                }
            });
        }
    });
}

/// `full(1.5, f32)`.
pub(super) fn full(number: Number, dtype: DType, out: Output<'_>) {
    with_wide!(out.dtype, T => {
        let value = T::from_number(number, dtype);
        Sink::<T>::new(out.bytes, out.dtype).fill(value);
    });
}

/// `y = f(a, b)` for each element.
#[inline(always)]
pub(super) fn each<A: Copy, Y>(a: &[A], b: &[A], y: &mut [Y], f: impl Fn(A, A) -> Y) {
    for (y, (&a, &b)) in y.iter_mut().zip(a.iter().zip(b)) {
        *y = f(a, b);
    }
}
