//! `linear`, `matmul` and `einsum`: sums of products, two operands at a time.

use super::array::{Array, Numbers};

/// The product of all operands, summed over every dim that the result does not have; in the order of
/// the result's dims. A sum starts at 0, so it is never -0; where nothing is summed the product of -1 and 0
/// is.
pub(super) fn contract(operands: Vec<Array>, result: &[(String, usize)]) -> Array {
    let kept = |name: &str| result.iter().any(|(n, _)| n == name);
    let summed = operands.iter().any(|x| x.dims.iter().any(|(name, _)| !kept(name)));
    let mut rest = operands.into_iter();
    let mut product = rest.next().expect("a contraction has an operand");
    while let Some(next) = rest.next() {
        let wanted = |name: &str| {
            result.iter().any(|(n, _)| n == name) || rest.as_slice().iter().any(|later| later.has(name))
        };
        product = multiply(&product, &next, wanted);
    }
    let mut product = sum(&product, kept).spread(result);
    if let (true, Numbers::Floats(all)) = (summed, &mut product.numbers) {
        all.iter_mut().for_each(|x| *x += 0.0);
    }
    product
}

/// Sums over the dims that are not wanted.
pub(super) fn sum(x: &Array, wanted: impl Fn(&str) -> bool) -> Array {
    let (kept, gone): (Vec<_>, Vec<_>) = x.dims.iter().cloned().partition(|(name, _)| wanted(name));
    let count: usize = gone.iter().map(|(_, size)| size).product();
    let ordered = x.spread(&[&kept[..], &gone[..]].concat());
    let numbers = match &ordered.numbers {
        Numbers::Floats(all) => Numbers::Floats(rows(all, count, &kept, |row| {
            row.iter().copied().reduce(|a, b| a + b).unwrap_or(0.0)
        })),
        Numbers::Integers(all) => Numbers::Integers(rows(all, count, &kept, |row| {
            row.iter().fold(0, |a, b| i64::wrapping_add(a, *b))
        })),
    };
    Array { dims: kept, numbers }
}

/// One element for each row of `count` elements, also if the rows are empty.
pub(super) fn rows<T, Y>(all: &[T], count: usize, kept: &[(String, usize)], f: impl Fn(&[T]) -> Y) -> Vec<Y> {
    let rows: usize = kept.iter().map(|(_, size)| size).product();
    (0..rows).map(|row| f(&all[row * count..(row + 1) * count])).collect()
}

/// The product of two, summed over the dims that nobody wants. The result has the shared dims that
/// stay, then those of `a`, then those of `b`.
fn multiply(a: &Array, b: &Array, wanted: impl Fn(&str) -> bool) -> Array {
    let a = &sum(a, |name| wanted(name) || b.has(name));
    let b = &sum(b, |name| wanted(name) || a.has(name));
    let (shared, m): (Vec<_>, Vec<_>) = a.dims.iter().cloned().partition(|(name, _)| b.has(name));
    let (batch, k): (Vec<_>, Vec<_>) = shared.into_iter().partition(|(name, _)| wanted(name));
    let n: Vec<_> = b.dims.iter().filter(|(name, _)| !a.has(name)).cloned().collect();
    let (left, right) = (a.spread(&[&batch[..], &m, &k].concat()), b.spread(&[&batch[..], &n, &k].concat()));
    let count = |dims: &[(String, usize)]| dims.iter().map(|(_, size)| size).product::<usize>();
    let [batches, ms, ns, ks] = [count(&batch), count(&m), count(&n), count(&k)];
    let mut products = Vec::with_capacity(batches * ms * ns);
    for batch in 0..batches {
        for m in 0..ms {
            let row = &left.floats()[(batch * ms + m) * ks..][..ks];
            for n in 0..ns {
                let column = &right.floats()[(batch * ns + n) * ks..][..ks];
                products.push(row.iter().zip(column).map(|(x, y)| x * y).fold(-0.0, |sum, xy| sum + xy));
            }
        }
    }
    Array { dims: [batch, m, n].concat(), numbers: Numbers::Floats(products) }
}
