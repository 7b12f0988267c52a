//! The OpenBLAS of the system, if there is one, to compare with. It is found while running, so that the
//! benchmarks need none.

use libloading::Library as Shared;
use std::ffi::{CStr, c_char, c_int};

/// `cblas_sgemm`.
type Sgemm = unsafe extern "C" fn(
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    c_int,
    f32,
    *const f32,
    c_int,
    *const f32,
    c_int,
    f32,
    *mut f32,
    c_int,
);

/// The library.
pub struct Library {
    shared: Shared,
    sgemm: Sgemm,
    set_threads: unsafe extern "C" fn(c_int),
}

impl Library {
    /// If there is one.
    pub fn load() -> Option<Library> {
        // SAFETY: OpenBLAS runs nothing at load time but its own set-up; the functions have the types of
        // its header `cblas.h`.
        unsafe {
            let shared = Shared::new("libopenblas.so.0").ok()?;
            let sgemm = *shared.get::<Sgemm>(b"cblas_sgemm\0").ok()?;
            let set_threads = *shared.get(b"openblas_set_num_threads\0").ok()?;
            Some(Library { shared, sgemm, set_threads })
        }
    }

    /// Which kernels it has chosen.
    pub fn kernels(&self) -> String {
        // SAFETY: the function has this type in OpenBLAS's header, and gives a string that stays.
        let name = unsafe {
            let name = self.shared.get::<unsafe extern "C" fn() -> *const c_char>(b"openblas_get_corename\0");
            name.ok().map(|name| CStr::from_ptr(name()).to_string_lossy().into_owned())
        };
        name.unwrap_or_default()
    }

    /// How many threads a product is done on from now on, in the whole process.
    pub fn on_threads(&self, threads: usize) {
        // SAFETY: it takes a number.
        unsafe { (self.set_threads)(threads as c_int) };
    }

    /// `y = x w` with `x` of `m` by `k` and `w` of `k` by `n`, or of `n` by `k` if it is transposed.
    pub fn multiply(&self, size: [usize; 3], transposed: bool, [x, w]: [&[f32]; 2], y: &mut [f32]) {
        let [m, n, k] = size;
        assert!(x.len() == m * k && w.len() == n * k && y.len() == m * n, "the matrices are dense");
        let (row_major, as_it_is, turned) = (101, 111, 112);
        let (w_lies, w_row) = if transposed { (turned, k) } else { (as_it_is, n) };
        let [m, n, k, w_row] = [m, n, k, w_row].map(|size| size as c_int);
        // SAFETY: the matrices are as large as the sizes say.
        unsafe {
            (self.sgemm)(
                row_major,
                as_it_is,
                w_lies,
                m,
                n,
                k,
                1.0,
                x.as_ptr(),
                k,
                w.as_ptr(),
                w_row,
                0.0,
                y.as_mut_ptr(),
                n,
            );
        }
    }

    /// `x w^T` with `x` of `m` by `k` and `w` of `n` by `k`, on both cores.
    pub fn product(&self, m: usize, n: usize, k: usize) -> Product<'_> {
        let made = |len: usize| (0..len).map(|i| (i % 13) as f32 - 6.0).collect();
        Product { library: self, size: [m, n, k], x: made(m * k), w: made(n * k), y: vec![0.0; m * n] }
    }
}

/// A product to be run.
pub struct Product<'a> {
    library: &'a Library,
    size: [usize; 3],
    x: Vec<f32>,
    w: Vec<f32>,
    y: Vec<f32>,
}

impl Product<'_> {
    /// Runs it. Before and after it OpenBLAS uses one thread: with the feature `blas` it is the same library
    /// that the layers call, on a thread for each device.
    pub fn run(&mut self) {
        self.library.on_threads(2);
        self.library.multiply(self.size, true, [&self.x, &self.w], &mut self.y);
        self.library.on_threads(1);
    }
}
