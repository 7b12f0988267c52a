//! Products of two threads at once, each with its own half, as two devices do them: by whom the project
//! chooses, and by each of those it can choose from.

use crate::openblas::Library;
use gemmkit::Parallelism;
use matrixmultiply::sgemm;
use shardweave_compiler::dtype::DType;
use shardweave_compiler::layout::IndexSet;
use shardweave_compiler::op::{Op, Space, space};
use shardweave_runtime::kernels::{
    Input, Output, Packed, Pieces, Scratch, compute, compute_packed, packed_bytes,
};
use shardweave_runtime::tensor::Tensor;
use std::hint::black_box;
use std::sync::Barrier;
use std::time::Instant;

/// How the right operand of a product lies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Lying {
    /// `w[n, k]`, as in `linear`: along what is summed.
    AlongK,
    /// `w[k, n]`, as in `matmul`: along the columns.
    AlongN,
}

/// The half of one thread: `m x k` times `k x n`.
#[derive(Clone, Copy)]
pub struct Half {
    /// Sizes of this half.
    pub size: [usize; 3],
    /// How the right operand lies.
    pub lying: Lying,
}

/// Who multiplies.
#[derive(Clone, Copy)]
pub enum By<'a> {
    /// Whoever the project chooses.
    Chosen,
    /// The project's kernel for packed operands, with an operand that it packs in every product.
    Packing,
    /// The same, with an operand that was packed before.
    Packed,
    /// The crate `gemmkit`.
    Gemmkit,
    /// The crate `matrixmultiply`.
    Matrixmultiply,
    /// OpenBLAS, on one thread for each half.
    OpenBlas(&'a Library),
}

/// Which operand is the right one.
const W: usize = 1;

/// The memory of one thread.
struct Memory {
    x: Tensor,
    w: Tensor,
    y: Tensor,
    /// `w` as it is packed; empty if nothing is gained by it.
    packed: Vec<f32>,
    scratch: Scratch,
}

/// Two threads with their memory.
pub struct Halves {
    half: Half,
    space: Space,
    pieces: Pieces,
    op: Op,
    memory: [Memory; 2],
}

impl Halves {
    /// Both halves, filled.
    pub fn new(half: Half) -> Halves {
        let [m, k, n] = half.size;
        let dims = |names: &str| {
            let size = |name| match name {
                'm' => m,
                'k' => k,
                _ => n,
            };
            names.chars().map(|name| (name.to_string(), size(name) as u64)).collect::<Vec<_>>()
        };
        let (op, w_dims) = match half.lying {
            Lying::AlongK => (Op::Linear, dims("nk")),
            Lying::AlongN => (Op::Matmul, dims("kn")),
        };
        let space = space(&op, &[dims("mk"), w_dims], &dims("mn"));
        let held: Vec<IndexSet> = space.dims.values().map(|dim| IndexSet::range(0, dim.size)).collect();
        let filled = |len: usize| {
            let all: Vec<f32> = (0..len).map(|i| (i % 13) as f32 - 6.0).collect();
            Tensor::from_elements(&[len as u64], &all)
        };
        let pieces = Pieces::new(&space, held);
        let bytes = packed_bytes(&op, &space, &pieces, W, &[DType::F32; 3]).unwrap_or(0);
        let memory = |_| Memory {
            x: filled(m * k),
            w: filled(n * k),
            y: filled(m * n),
            packed: vec![0.0; bytes / size_of::<f32>()],
            scratch: Scratch::new(),
        };
        Halves { half, pieces, space, op, memory: [0, 1].map(memory) }
    }

    /// Whether the right operand can be packed, and something is gained by it.
    pub fn can_pack(&self) -> bool {
        self.memory.iter().all(|memory| !memory.packed.is_empty())
    }

    /// Seconds that the slower of both threads takes for so many products, after one that does not count.
    pub fn run(&mut self, by: By<'_>, times: usize) -> f64 {
        let Halves { half, space, pieces, op, memory: [own, other] } = self;
        let barrier = &Barrier::new(2);
        let (half, space, pieces, op) = (*half, &*space, &*pieces, &*op);
        let work = move |memory: &mut Memory| {
            let mut multiply = |by| {
                half.multiply(by, memory, (op, space, pieces));
                black_box(&mut memory.y);
            };
            multiply(if let By::Packed = by { By::Packing } else { by });
            barrier.wait();
            let start = Instant::now();
            (0..times).for_each(|_| multiply(by));
            start.elapsed().as_secs_f64()
        };
        std::thread::scope(|scope| {
            let other = scope.spawn(move || work(other));
            let own = work(own);
            other.join().map_or(own, |other| own.max(other))
        })
    }
}

impl Half {
    fn multiply(self, by: By<'_>, memory: &mut Memory, (op, space, pieces): (&Op, &Space, &Pieces)) {
        let [m, k, n] = self.size;
        let Memory { x, w, y, packed, scratch } = memory;
        let (x, w, y) = (x.elements::<f32>(), w.elements::<f32>(), y.elements_mut::<f32>());
        let (row, column) = match self.lying {
            Lying::AlongK => (1, k as isize),
            Lying::AlongN => (n as isize, 1),
        };
        let (x_row, y_row) = (k as isize, n as isize);
        let piece = |all| Input::Piece { bytes: bytemuck::cast_slice(all), dtype: DType::F32 };
        let operands = [piece(x), piece(w)];
        // SAFETY: the matrices are dense and have the lengths that sizes and strides say.
        unsafe {
            match by {
                By::Chosen => {
                    let out = Output { bytes: bytemuck::cast_slice_mut(y), dtype: DType::F32 };
                    let done = compute(op, space, pieces, &operands, out, scratch);
                    done.expect("a product cannot fail");
                }
                By::Packing | By::Packed => {
                    let out = Output { bytes: bytemuck::cast_slice_mut(y), dtype: DType::F32 };
                    let packed: &mut [u8] = bytemuck::cast_slice_mut(packed);
                    let packed = match by {
                        By::Packing => Packed::New(packed),
                        _ => Packed::There(packed),
                    };
                    compute_packed((op, space, pieces), &operands, (W, packed), out, scratch);
                }
                By::Gemmkit => {
                    let (x, w, y) = (x.as_ptr(), w.as_ptr(), y.as_mut_ptr());
                    let serial = Parallelism::Serial;
                    gemmkit::gemm_unchecked(
                        m, k, n, 1.0, x, x_row, 1, w, row, column, 0.0, y, y_row, 1, serial,
                    );
                }
                By::Matrixmultiply => {
                    let (x, w, y) = (x.as_ptr(), w.as_ptr(), y.as_mut_ptr());
                    sgemm(m, k, n, 1.0, x, x_row, 1, w, row, column, 0.0, y, y_row, 1);
                }
                By::OpenBlas(library) => {
                    let transposed = self.lying == Lying::AlongK;
                    library.multiply([m, n, k], transposed, [x, w], y);
                }
            }
        }
    }
}
