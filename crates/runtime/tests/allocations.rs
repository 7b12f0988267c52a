//! A session that has run a few times allocates nothing when it runs again: but for what the crate needs that does large
//! products where there is no AVX-512, which lays out operands in memory of its own.
//!
//! The whole process counts, so the file has one test: all threads of a session, and nobody else.

use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::SizeBinder;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The system's allocator, and how often it was asked for memory.
struct Counting;

static ALLOCATIONS: AtomicUsize = AtomicUsize::new(0);

// SAFETY: every call goes to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.alloc(layout) }
    }
    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's.
        unsafe { System.dealloc(at, layout) }
    }
    unsafe fn realloc(&self, at: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        ALLOCATIONS.fetch_add(1, Ordering::Relaxed);
        // SAFETY: the caller's.
        unsafe { System.realloc(at, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// Runs that are counted.
const RUNS: usize = 5;

/// Runs before nothing is allocated any more: buffers have grown to what the program needs.
const WARM_UP: usize = 4;

fn allocations_of_a_run(name: &str, statements: &str, placement: &str) -> usize {
    let text = format!(
        "mesh line {{ tp = 4 }}\nmesh grid {{ dp = 2, tp = 2 }}\nmesh back {{ tp = 4 }} devices [3, 2, 1, 0]\n\
         program p {{\n{statements}\n}}\nplacement q for p {placement}\n"
    );
    let (file, found) = parse_file(&text, &[]);
    assert!(found.is_empty(), "{name}: {found}");
    let (program, placement) = (file.programs()[0].clone(), file.placements()[0].clone());
    let sizes = SizeBinder::new(&program).finish().unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut inputs = Inputs::new();
    for (id, value) in program.values().iter().filter(|(id, _)| program.is_input(*id)) {
        inputs.insert(&*value.name, Arc::new(RandomArray::for_input(1, &program, &sizes, id)));
    }
    let mut session = Session::new(program, Some(placement), SessionOptions::default());
    session.bind(&inputs).unwrap_or_else(|error| panic!("{name}: {error}"));
    let mut run = || session.execute().unwrap_or_else(|error| panic!("{name}: {error}"));
    (0..WARM_UP).for_each(|_| run());
    let before = ALLOCATIONS.load(Ordering::Relaxed);
    (0..RUNS).for_each(|_| run());
    ALLOCATIONS.load(Ordering::Relaxed) - before
}

const MLP: &str = "input x: f32[b=2, s=12, e=24]\ninput w0: f32[h=32, e]\ninput b0: f32[h]\ninput w1: f32[e, h]\n\
                   input b1: f32[e]\ny0 = linear(x, w0, b0)\ny1 = gelu(y0)\ny2 = linear(y1, w1, b1)\noutput y2";

/// Programs that use every kind of kernel and of move.
const PROGRAMS: [(&str, &str, &str); 11] = [
    ("mlp", MLP, "on line {\nx: s/tp\nw0: h/tp\nb0: h/tp\ny0: h/tp\nw1: h/tp\ny2: s/tp\n}"),
    (
        "mlp on a grid",
        MLP,
        "on grid {\nx: b/dp, s/tp\nw0: h/tp\nb0: h/tp\ny0: b/dp, h/tp\nw1: h/tp\ny2: b/dp, s/tp\n}",
    ),
    (
        "streams",
        MLP,
        "on line {\nx: s/tp\nw0: h/tp\nb0: h/tp\ny0: h/tp, s/stream(3)\nw1: h/tp\ny2: s/stream(3)/tp\n}",
    ),
    (
        "steps that share a packed weight",
        "input x: f32[s=48, e=16]\ninput w: f32[h=512, e]\ny = linear(x, w)\noutput y",
        "on line {\nx: s/tp\nw: h/tp\ny: h/tp, s/stream(4)\n}",
    ),
    (
        "halves",
        "input x: bf16[s=16, e=24]\ninput w: bf16[h=12, e]\ny = linear(x, w)\nz = gelu(y)\nc = cast(z, f16)\noutput c",
        "on line {\nx: e/tp\nw: e/tp\ny: s/tp\n}",
    ),
    (
        "several outputs, parts among them",
        "input x: f32[s=16, e=8]\ninput w: f32[h=12, e]\nz = linear(x, w)\ny = sum(z, s)\nm = max(z, h)\noutput z\noutput y\noutput m",
        "on line {\nx: e/tp\nw: e/tp\nz: partial(tp)\ny: partial(tp)\n}",
    ),
    (
        "norms",
        "input x: f32[s=16, e=20]\ninput g: f32[e]\ninput b: f32[e]\na = layer_norm(x, g, b, e)\nc = rms_norm(a, g, e)\n\
         d = softmax(c, e)\nf = log_softmax(d, s)\ni = argmax(f, e)\noutput f\noutput i",
        "on line {\nx: s/tp\na: s/tp\nc: e/tp\nd: e/tp\nf: s/tp\n}",
    ),
    (
        "views and numbers",
        "input x: f32[s=16, e=24]\na = rearrange(x, \"s (n h) -> n s h\", n=4)\nb = add(a, 1)\n\
         w = greater(b, 0)\nd = where(w, b, a)\nf = rearrange(d, \"n s h -> s k=(n h)\")\ng = slice(f, k -> t, 3, 20)\n\
         p = pad(g, t -> u, 1, 2)\nq = concat(v, p, f)\nr = sum(q, s)\noutput r\noutput q",
        "on line {\nx: s/tp\n}",
    ),
    (
        "moves",
        "input x: f32[s=16, e=12]\na = reshard(x)\nb = reshard(a)\nc = reshard(b)\nd = reshard(c)\noutput d\noutput a",
        "on line {\nx: s/tp\na: e/tp\nb: replicated\nc: s/tp(5, 3, 4, 4)\nd: s/tp on back\n}",
    ),
    (
        "rows of a table",
        "input ids: i64[s=16]\ninput table: f32[v=20, e=12]\ny = embedding(ids, table)\noutput y",
        "on line {\ntable: v/tp\ny: s/tp\n}",
    ),
    (
        "products of several shapes, and values from nothing",
        "input q: f32[n=4, s=8, h=6]\ninput k: f32[n, t=10, h]\na = einsum(\"n s h, n t h -> n s t\", q, k)\n\
         b = matmul(q, k) -> [n, s, t]\ni = iota(s)\nj = cast(i, f32)\nf = full(2.5, f32)\n\
         r = broadcast(j, c=3)\nd = add(a, b)\ne = mul(d, f)\ng = sum(r, c)\nu = add(e, g)\noutput u",
        "on line {\nq: s/tp\nk: t/tp\nu: n/tp\n}",
    ),
];

/// Whether the crate for large products leaves it to us where operands are laid out.
fn lays_out_in_place() -> bool {
    #[cfg(target_arch = "x86_64")]
    return std::arch::is_x86_feature_detected!("avx512f");
    #[cfg(not(target_arch = "x86_64"))]
    false
}

/// How many products a device does in a run: those of the program, in each step.
fn products(statements: &str, placement: &str) -> usize {
    let products = ["linear(", "matmul(", "einsum("].map(|name| statements.matches(name).count());
    let steps = placement.split("stream(").nth(1).and_then(|rest| rest.split(')').next());
    products.iter().sum::<usize>() * steps.map_or(1, |steps| steps.parse().expect("a number of steps"))
}

const DEVICES: usize = 4;

#[test]
fn a_run_allocates_nothing() {
    for (name, statements, placement) in PROGRAMS {
        let allocations = allocations_of_a_run(name, statements, placement);
        let most = if lays_out_in_place() { 0 } else { RUNS * DEVICES * products(statements, placement) };
        assert!(
            allocations <= most,
            "{name}: {allocations} allocations, at most {most} are those of products"
        );
    }
    assert!(ALLOCATIONS.load(Ordering::Relaxed) > 0, "what is allocated before is counted");
}
