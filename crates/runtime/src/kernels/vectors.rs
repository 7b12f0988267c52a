//! Loops with the widest vectors of the machine.
//!
//! The workspace is compiled for every x86-64 machine, whose vectors hold four `f32`. Where the machine
//! that runs has AVX2 and FMA, a second copy of a loop, compiled for them, works on eight; where it has AVX-512, a
//! third one on sixteen. All copies do the same operations in the same order, and a product and a sum are rounded
//! as one (`mul_add`) in all of them or in none, so results are the same to the last bit.

/// Defines a function of which there are three copies. What it calls profits only if it is inlined.
macro_rules! vectorised {
    (
        $(#[$doc:meta])*
        $visibility:vis fn $name:ident<$($generic:ident: $bound:path),*>(
            $($argument:ident: $of:ty),* $(,)?
        ) $(-> $result:ty)? $body:block
    ) => {
        $(#[$doc])*
        $visibility fn $name<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? {
            #[inline(always)]
            fn plain<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2,fma")]
                fn with_avx2<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? {
                    plain::<$($generic),*>($($argument),*)
                }
                #[target_feature(enable = "avx512f,avx512vl,avx512dq,avx512bw")]
                fn with_avx512<$($generic: $bound),*>($($argument: $of),*) $(-> $result)? {
                    plain::<$($generic),*>($($argument),*)
                }
                match $crate::kernels::vectors::widest() {
                    $crate::kernels::vectors::Widest::Avx512 => {
                        #[expect(unsafe_code, reason = "a function for wider vectors may be called where they are")]
                        // SAFETY: the function asks for the parts of AVX-512 that `widest` says the machine has.
                        return unsafe { with_avx512::<$($generic),*>($($argument),*) };
                    }
                    $crate::kernels::vectors::Widest::Avx2 => {
                        #[expect(unsafe_code, reason = "a function for wider vectors may be called where they are")]
                        // SAFETY: the function asks for AVX2 and FMA, which `widest` says the machine has.
                        return unsafe { with_avx2::<$($generic),*>($($argument),*) };
                    }
                    $crate::kernels::vectors::Widest::Plain => {}
                }
            }
            plain::<$($generic),*>($($argument),*)
        }
    };
}
pub(super) use vectorised;

/// The vectors that loops and products are compiled for.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Widest {
    Plain,
    Avx2,
    Avx512,
}

/// Whether the machine has AVX-512, which also decides who does a product.
pub(super) fn has_avx512() -> bool {
    #[cfg(target_arch = "x86_64")]
    let has = of_the_machine() == Widest::Avx512;
    #[cfg(not(target_arch = "x86_64"))]
    let has = false;
    has
}

/// Which copies run: those for the widest vectors of the machine. Tests may want narrower ones.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
pub(super) fn widest() -> Widest {
    #[cfg(test)]
    return of_the_machine().min(tests::AT_MOST.get());
    #[cfg(not(test))]
    of_the_machine()
}

/// Runs something with no wider vectors than these.
#[cfg(all(test, target_arch = "x86_64"))]
pub(super) fn at_most(widest: Widest, run: impl FnOnce()) {
    let before = tests::AT_MOST.replace(widest);
    run();
    tests::AT_MOST.set(before);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn of_the_machine() -> Widest {
    let has_avx512 = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512vl")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512bw");
    match is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") {
        true if has_avx512 => Widest::Avx512,
        true => Widest::Avx2,
        false => Widest::Plain,
    }
}

#[cfg(test)]
mod tests {
    use super::Widest;
    use crate::kernels::{Input, Output, Pieces, Scratch, compute};
    use crate::tensor::Tensor;
    use shardweave_compiler::dtype::DType;
    use shardweave_compiler::layout::IndexSet;
    use shardweave_compiler::op::table::{Family, TABLE};
    use shardweave_compiler::op::{Finish, Op, Reduce, Summary, Zip, space};
    use std::cell::Cell;

    thread_local! {
        /// The widest copies that this thread runs.
        pub(super) static AT_MOST: Cell<Widest> = const { Cell::new(Widest::Avx512) };
    }

    type Dims<'a> = &'a [(&'a str, u64)];

    /// An array that looks random: small numbers, whole ones among them; with `wild`, any bits at all.
    fn made_up(dtype: DType, dims: Dims<'_>, seed: u64, wild: bool) -> Tensor {
        let shape: Vec<u64> = dims.iter().map(|(_, size)| *size).collect();
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut bits = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut tensor = Tensor::zeros(dtype, &shape);
        match dtype {
            DType::F32 => tensor.elements_mut::<f32>().iter_mut().for_each(|x| {
                let bits = bits();
                *x = if wild { f32::from_bits(bits as u32) } else { (bits % 4001) as f32 / 256.0 - 7.0 };
            }),
            DType::F64 => tensor.elements_mut::<f64>().iter_mut().for_each(|x| {
                let bits = bits();
                *x = if wild { f64::from_bits(bits) } else { (bits % 4001) as f64 / 256.0 - 7.0 };
            }),
            DType::I32 => tensor.elements_mut::<i32>().iter_mut().for_each(|x| *x = bits() as i32),
            other => unreachable!("{other} is not drawn"),
        }
        tensor
    }

    /// The result of an operation on one device that holds everything.
    fn result(op: &Op, operands: &[(Dims<'_>, &Tensor)], dims: Dims<'_>, dtype: DType) -> Tensor {
        let named = |dims: Dims<'_>| dims.iter().map(|(name, size)| (name.to_string(), *size)).collect();
        let operand_dims: Vec<Vec<(String, u64)>> = operands.iter().map(|(dims, _)| named(dims)).collect();
        let result_dims: Vec<(String, u64)> = named(dims);
        let space = space(op, &operand_dims, &result_dims);
        let held: Vec<IndexSet> = space.dims.values().map(|dim| IndexSet::range(0, dim.size)).collect();
        let inputs: Vec<Input<'_>> =
            operands.iter().map(|(_, x)| Input::Piece { bytes: x.bytes(), dtype: x.dtype() }).collect();
        let mut out = Tensor::zeros(dtype, &dims.iter().map(|(_, size)| *size).collect::<Vec<_>>());
        let (pieces, y) = (Pieces::new(&space, held), Output { bytes: out.bytes_mut(), dtype });
        compute(op, &space, &pieces, &inputs, y, &Scratch::new()).expect("it cannot fail");
        out
    }

    /// All copies give the same bits (which NaN it is counts for nothing).
    fn same(op: &Op, operands: &[(Dims<'_>, &Tensor)], dims: Dims<'_>, dtype: DType) -> Tensor {
        let wide = result(op, operands, dims, dtype);
        for at_most in [Widest::Avx2, Widest::Plain] {
            AT_MOST.set(at_most);
            let narrow = result(op, operands, dims, dtype);
            AT_MOST.set(Widest::Avx512);
            assert_same(&wide, &narrow, op, operands);
        }
        wide
    }

    fn assert_same(wide: &Tensor, plain: &Tensor, op: &Op, operands: &[(Dims<'_>, &Tensor)]) {
        let dtype = wide.dtype();
        let equal = match dtype {
            DType::F32 => {
                let pairs = wide.elements::<f32>().iter().zip(plain.elements::<f32>());
                pairs.into_iter().all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
            }
            DType::F64 => {
                let pairs = wide.elements::<f64>().iter().zip(plain.elements::<f64>());
                pairs.into_iter().all(|(a, b)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan())
            }
            _ => wide.bytes() == plain.bytes(),
        };
        assert!(equal, "{op:?} of {dtype} gives other bits with wider vectors, on {operands:?}");
    }

    #[test]
    fn elements_are_the_same_bits() {
        for (dtype, wild) in [(DType::F32, false), (DType::F32, true), (DType::F64, true), (DType::I32, true)]
        {
            for len in [1, 7, 8, 9, 31, 64, 65, 1000] {
                let dims: Dims<'_> = &[("r", 3), ("e", len)];
                let [a, b] = [1, 2].map(|seed| made_up(dtype, dims, seed + len, wild));
                for row in TABLE {
                    let allowed =
                        dtype.is_float() || row.dtypes != shardweave_compiler::op::table::DTypes::Floats;
                    match row.family {
                        Family::Map(map) if allowed && row.name != "not" => {
                            same(&Op::Map(map), &[(dims, &a)], dims, dtype);
                        }
                        Family::Zip(zip) if allowed && !matches!(zip, Zip::And | Zip::Or) => {
                            let gives = if zip.is_comparison() { DType::Bool } else { dtype };
                            same(&Op::Zip(zip), &[(dims, &a), (dims, &b)], dims, gives);
                        }
                        Family::Reduce(reduce) if allowed => {
                            let over = |dim: &str| Op::Reduce(reduce, vec![dim.into()]);
                            same(&over("e"), &[(dims, &a)], &dims[..1], dtype);
                            same(&over("r"), &[(dims, &a)], &dims[1..], dtype);
                        }
                        _ => {}
                    }
                }
            }
        }
        let mean = Op::Reduce(Reduce::Mean, vec!["e".into()]);
        let ones = Tensor::from_elements(&[1, 4], &[1.0f32, 2.0, 3.0, 6.0]);
        let of_ones = same(&mean, &[(&[("r", 1), ("e", 4)], &ones)], &[("r", 1)], DType::F32);
        assert_eq!(of_ones.elements::<f32>(), [3.0]);
    }

    #[test]
    fn lanes_are_the_same_bits() {
        for (dtype, wild) in [(DType::F32, false), (DType::F32, true), (DType::F64, false)] {
            for len in [1, 8, 13, 64, 1001] {
                let dims: Dims<'_> = &[("r", 3), ("e", len)];
                let x = made_up(dtype, dims, len, wild);
                let [g, b] = [3, 4].map(|seed| made_up(dtype, &dims[1..], seed, wild));
                let along = [(dims, &x), (&dims[1..], &g), (&dims[1..], &b)];
                let (dim, eps) = (|| "e".to_string(), 1e-5);
                for (op, operands) in [
                    (Op::Softmax(dim()), 1),
                    (Op::LogSoftmax(dim()), 1),
                    (Op::LayerNorm { dim: dim(), eps }, 3),
                    (Op::RmsNorm { dim: dim(), eps }, 2),
                ] {
                    same(&op, &along[..operands], dims, dtype);
                }
                for (summary, finish, operands) in [
                    (Summary::Exponentials, Finish::Softmax, 1),
                    (Summary::Exponentials, Finish::LogSoftmax, 1),
                    (Summary::Moments, Finish::LayerNorm { eps }, 3),
                    (Summary::Squares, Finish::RmsNorm { eps }, 2),
                ] {
                    let said_dims: Dims<'_> = &[("e@part", 1), ("e@number", summary.numbers()), ("r", 3)];
                    let said = same(&Op::Summary(summary, dim()), &along[..1], said_dims, dtype);
                    let mut operands = along[..operands].to_vec();
                    operands.push((said_dims, &said));
                    same(&Op::Finish(finish, dim()), &operands, dims, dtype);
                }
            }
        }
    }

    #[test]
    fn products_are_the_same_bits() {
        for dtype in [DType::F32, DType::F64] {
            for (m, k, n) in [(1, 9, 5), (3, 65, 17), (2, 300, 33), (17, 40, 24)] {
                let (x, w): (Dims<'_>, Dims<'_>) = (&[("m", m), ("k", k)], &[("n", n), ("k", k)]);
                let upright: Dims<'_> = &[("k", k), ("n", n)];
                let of = |dims| made_up(dtype, dims, m + k + n, false);
                let result: Dims<'_> = &[("m", m), ("n", n)];
                same(&Op::Linear, &[(x, &of(x)), (w, &of(w))], result, dtype);
                same(&Op::Matmul, &[(x, &of(x)), (upright, &of(upright))], result, dtype);
            }
        }
    }
}
