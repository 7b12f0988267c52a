//! What is measured: programs on two devices, ready to run.
#![allow(dead_code)] // each benchmark uses a part

use shardweave_compiler::file::parse_file;
use shardweave_compiler::program::SizeBinder;
use shardweave_runtime::random::RandomArray;
use shardweave_runtime::session::{Inputs, Session, SessionOptions};
use std::sync::Arc;

/// How often everything is run: `cargo test` runs it once, to see that it runs.
pub fn turns() -> usize {
    if std::env::args().any(|arg| arg == "--bench") { 21 } else { 1 }
}

/// Sizes of dims, by name.
pub type Sizes = [(&'static str, u64)];

/// A program, and a placement for it.
#[derive(Clone, Copy)]
pub struct Subject {
    /// What the benchmark calls it.
    pub name: &'static str,
    /// The statements of the program.
    pub program: &'static str,
    /// The entries of the placement.
    pub placement: &'static str,
}

impl Subject {
    /// A session with the inputs in place that has run once.
    ///
    /// # Panics
    /// If the text is wrong: then the benchmark is.
    pub fn ready(&self, sizes: &Sizes) -> Session {
        self.ready_on(2, sizes, SessionOptions { cores: 2, ..SessionOptions::default() })
    }

    /// The same on so many devices.
    ///
    /// # Panics
    /// If the text is wrong: then the benchmark is.
    pub fn ready_on(&self, devices: u64, sizes: &Sizes, options: SessionOptions) -> Session {
        self.ready_with(devices, sizes, options, &[])
    }

    /// The same with inputs that stay bound, by name.
    ///
    /// # Panics
    /// If the text is wrong: then the benchmark is.
    pub fn ready_with(
        &self,
        devices: u64,
        sizes: &Sizes,
        options: SessionOptions,
        constants: &[&str],
    ) -> Session {
        let Subject { program, placement, .. } = self;
        let text = format!(
            "mesh line {{ tp = {devices} }}\nmesh back {{ tp = 2 }} devices [1, 0]\n\
             program p {{\n{program}\n}}\nplacement q for p on line {{\n{placement}\n}}\n"
        );
        let (file, found) = parse_file(&text, &[]);
        assert!(found.is_empty(), "{text}\n{found}");
        let (program, placement) = (file.programs()[0].clone(), file.placements()[0].clone());
        let mut binder = SizeBinder::new(&program);
        for &(name, size) in
            sizes.iter().filter(|(name, _)| program.dims().values().any(|dim| dim.name == *name))
        {
            binder.bind_named(name, size);
        }
        let bound = binder.finish().unwrap_or_else(|error| panic!("{error}"));
        let (mut inputs, mut stay) = (Inputs::new(), Inputs::new());
        for (id, value) in program.values().iter().filter(|(id, _)| program.is_input(*id)) {
            let to = if constants.contains(&&*value.name) { &mut stay } else { &mut inputs };
            to.insert(&*value.name, Arc::new(RandomArray::for_input(7, &program, &bound, id)));
        }
        let mut session = Session::new(program, Some(placement), options);
        session.bind_constants(&stay).unwrap_or_else(|error| panic!("{error}"));
        session.bind(&inputs).and_then(|()| session.execute()).unwrap_or_else(|error| panic!("{error}"));
        session
    }
}

/// A sharded layer, and the same halves of its products on the same devices with nothing else.
pub struct Layer {
    /// The layer.
    pub sharded: Subject,
    /// Its products.
    pub alone: Subject,
    /// What it computes besides products.
    pub besides: Option<Subject>,
    /// How many products of `2 m k n` operations it has.
    pub products: u64,
}

/// The activation between the two products of an mlp.
const GELU: Subject = Subject {
    name: "gelu alone",
    program: "input h: f32[m, n]\ny = gelu(h)\noutput y",
    placement: "h: n/tp\ny: n/tp",
};

/// An activation of rows that are gathered.
pub const GATHERED: Subject = Subject {
    name: "gather + gelu",
    program: "input x: f32[m, k]\ny = gelu(x)\noutput y",
    placement: "x: m/tp\ny: replicated",
};

/// The four layers, on `m` rows, `k` columns outside and `n` columns inside.
pub const LAYERS: [Layer; 4] = [
    Layer {
        sharded: Subject {
            name: "gather + linear",
            program: "input x: f32[m, k]\ninput w: f32[n, k]\ninput b: f32[n]\ny = linear(x, w, b)\noutput y",
            placement: "x: m/tp\nw: n/tp\nb: n/tp\ny: n/tp",
        },
        alone: HALF_COLUMNS,
        besides: None,
        products: 1,
    },
    Layer {
        sharded: Subject {
            name: "linear + reduce-scatter",
            program: "input h: f32[m, n]\ninput w: f32[k, n]\ny = linear(h, w)\noutput y",
            placement: "h: n/tp\nw: n/tp\ny: m/tp",
        },
        alone: SUMS,
        besides: None,
        products: 1,
    },
    Layer {
        sharded: Subject {
            name: "linear + all-reduce",
            program: "input h: f32[m, n]\ninput w: f32[k, n]\ny = linear(h, w)\noutput y",
            placement: "h: n/tp\nw: n/tp\ny: replicated",
        },
        alone: SUMS,
        besides: None,
        products: 1,
    },
    Layer {
        sharded: Subject {
            name: "mlp, sequence parallel",
            program: "input x: f32[m, k]\ninput w: f32[n, k]\ninput b: f32[n]\ninput v: f32[k, n]\n\
                      h = linear(x, w, b)\ng = gelu(h)\ny = linear(g, v)\noutput y",
            placement: "x: m/tp\nw: n/tp\nb: n/tp\nh: n/tp\nv: n/tp\ny: m/tp",
        },
        alone: Subject {
            name: "both products",
            program: "input x: f32[m, k]\ninput w: f32[n, k]\ninput v: f32[k, n]\n\
                      h = linear(x, w)\ny = linear(h, v)\noutput y",
            placement: "x: replicated\nw: n/tp\nh: n/tp\nv: n/tp\ny: partial(tp)",
        },
        besides: Some(GELU),
        products: 2,
    },
];

/// `x w^T`, each device with half of the columns.
pub const HALF_COLUMNS: Subject = Subject {
    name: "halves of the columns",
    program: "input x: f32[m, k]\ninput w: f32[n, k]\ny = linear(x, w)\noutput y",
    placement: "x: replicated\nw: n/tp\ny: n/tp",
};

/// `h w^T`, each device with half of what is summed.
const SUMS: Subject = Subject {
    name: "halves of the sums",
    program: "input h: f32[m, n]\ninput w: f32[k, n]\ny = linear(h, w)\noutput y",
    placement: "h: n/tp\nw: n/tp\ny: partial(tp)",
};

/// A product that runs in steps of its rows, the same product at once, and one step's product with all of its rows in
/// place.
pub struct Steps {
    /// The product in steps.
    pub stepped: Subject,
    /// The product at once.
    pub whole: Subject,
    /// The product of a step.
    pub step: Subject,
    /// How many steps.
    pub count: u64,
}

const LINEAR: &str = "input x: f32[m, k]\ninput w: f32[n, k]\ny = linear(x, w)\noutput y";

/// Products in eight steps.
pub const STEPS: [Steps; 3] = [
    Steps {
        stepped: Subject {
            name: "pinned, rows gathered",
            program: LINEAR,
            placement: "x: m/tp\nw: n/tp\ny: m/stream(8), n/tp",
        },
        whole: Subject { name: "", program: LINEAR, placement: "x: m/tp\nw: n/tp\ny: n/tp" },
        step: HALF_COLUMNS,
        count: 8,
    },
    Steps {
        stepped: Subject {
            name: "pinned, rows in place",
            program: LINEAR,
            placement: "x: replicated\nw: n/tp\ny: m/stream(8), n/tp",
        },
        whole: HALF_COLUMNS,
        step: HALF_COLUMNS,
        count: 8,
    },
    Steps {
        stepped: Subject {
            name: "auto, rows gathered",
            program: LINEAR,
            placement: "x: m/tp\nw: n/tp\ny: m/stream(auto), n/tp",
        },
        whole: Subject { name: "", program: LINEAR, placement: "x: m/tp\nw: n/tp\ny: n/tp" },
        step: HALF_COLUMNS,
        count: 8,
    },
];

/// What a device at least has to do with bytes: its rank, its own memory and the other's, each as large as the
/// value, and where its result goes.
pub type Bytes = fn(usize, [&[f32]; 2], &mut [f32]);

/// A collective, and what it at least has to do.
pub struct Collective {
    /// The move.
    pub moved: Subject,
    /// The bytes.
    pub bytes: Bytes,
}

const RESHARD: &str = "input x: f32[m, n]\ny = reshard(x)\noutput y";

/// Collectives on a value of `m` by `n`.
pub const COLLECTIVES: [Collective; 6] = [
    Collective {
        moved: Subject { name: "all_gather", program: RESHARD, placement: "x: m/tp\ny: replicated" },
        bytes: |_, [own, other], target| {
            let half = target.len() / 2;
            target[..half].copy_from_slice(&own[..half]);
            target[half..].copy_from_slice(&other[..half]);
        },
    },
    Collective {
        moved: Subject { name: "reduce_scatter", program: RESHARD, placement: "x: partial(tp)\ny: m/tp" },
        bytes: add_own_half,
    },
    Collective {
        moved: Subject { name: "all_reduce", program: RESHARD, placement: "x: partial(tp)\ny: replicated" },
        bytes: |rank, both, target| {
            add_own_half(rank, both, target);
            let half = target.len() / 2;
            target[half..].copy_from_slice(&both[1][(1 - rank) * half..][..half]);
        },
    },
    Collective {
        moved: Subject { name: "all_to_all", program: RESHARD, placement: "x: m/tp\ny: n/tp" },
        bytes: copy_quarters,
    },
    Collective {
        moved: Subject { name: "permute", program: RESHARD, placement: "x: m/tp\ny: m/tp on back" },
        bytes: |_, [_, other], target| {
            let half = target.len() / 2;
            target[..half].copy_from_slice(&other[..half]);
        },
    },
    Collective {
        moved: Subject {
            name: "redistribute",
            program: RESHARD,
            placement: "x: m/local(2)/tp\ny: m/tp(640, 1408)",
        },
        bytes: copy_quarters,
    },
];

/// The device's half of two parts of a sum.
fn add_own_half(rank: usize, [own, other]: [&[f32]; 2], target: &mut [f32]) {
    let half = target.len() / 2;
    let [a, b] = [own, other].map(|all| &all[rank * half..][..half]);
    target.iter_mut().zip(a.iter().zip(b)).for_each(|(y, (a, b))| *y = a + b);
}

/// A quarter of the value from each device.
fn copy_quarters(rank: usize, both: [&[f32]; 2], target: &mut [f32]) {
    let quarter = target.len() / 4;
    for (n, all) in both.iter().enumerate() {
        target[n * quarter..][..quarter].copy_from_slice(&all[rank * quarter..][..quarter]);
    }
}
