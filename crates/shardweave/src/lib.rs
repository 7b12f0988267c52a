//! Tensor programs on meshes of devices: write what to compute as if for one device, say where values
//! live, run it on every device.
//!
//! ```
//! use shardweave::{Inputs, Session, SessionOptions, Tensor, WeaveFile};
//!
//! let file: WeaveFile = "
//!     mesh line { tp = 2 }
//!     program layer {
//!       input x: f32[s, e]
//!       input w: f32[h, e]
//!       y = linear(x, w)
//!       output y
//!     }
//!     placement columns for layer on line {
//!       x: s/tp               # the rows of x are cut over two devices
//!       w: h/tp               # so are the rows of w: one of the two must be gathered
//!     }
//! "
//! .parse()?;
//! let (program, placement) = (file.programs()[0].clone(), file.placements()[0].clone());
//!
//! let mut session = Session::new(program, Some(placement), SessionOptions::default());
//! let outputs = session.run(
//!     &Inputs::new()
//!         .with("x", Tensor::from_elements(&[2, 3], &[1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0]))
//!         .with("w", Tensor::from_elements(&[2, 3], &[1.0_f32, 0.0, 0.0, 0.0, 0.0, 1.0])),
//! )?;
//!
//! let y = outputs.get("y").expect("y is an output");
//! assert_eq!(y.elements::<f32>(), [1.0, 3.0, 4.0, 6.0]);
//!
//! // What moved, and why:
//! let plan = session.plan().expect("a session that has run has a plan");
//! for collective in &plan.report.collectives {
//!     println!("{collective}");
//! }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The same can be said in Rust ([`Program::builder`], [`Placement::builder`]), and text and builders can
//! be mixed:
//!
//! ```
//! # use shardweave::{DType, Mesh, Op, Placement, Program};
//! # use std::sync::Arc;
//! let line: Arc<Mesh> = Arc::new("mesh line { tp = 2 }".parse()?);
//! let layer = Program::builder("layer")
//!     .input("x", DType::F32, ["s", "e"])
//!     .input("w", DType::F32, ["h", "e"])
//!     .op("y", Op::Linear, ["x", "w"])
//!     .output("y")
//!     .finish()?;
//! let columns = Placement::builder("columns", &layer, &line).place("x", "s/tp").place("w", "h/tp").finish()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Arrays in files are inputs as they are: a device reads only its piece of them.
//!
//! ```
//! use shardweave::files::{OutputFiles, Weights, open_npy};
//! use shardweave::{DType, Inputs, Op, Program, Session, SessionOptions, Tensor};
//!
//! # let folder = std::env::temp_dir().join(format!("shardweave-files-{}", std::process::id()));
//! # std::fs::create_dir_all(&folder)?;
//! # let (x, model, y) = (folder.join("x.npy"), folder.join("model.safetensors"), folder.join("y.npy"));
//! # let ones = |shape: &[u64]| Tensor::from_elements(shape, &vec![1.0_f32; shape.iter().product::<u64>() as usize]);
//! # let mut given = OutputFiles::new();
//! # given.write_npy(&x, &ones(&[4, 2]))?;
//! # given.write_safetensors(&model, &[("layer.0.weight", &ones(&[3, 2]))])?;
//! # given.commit()?;
//! let layer = Program::builder("layer")
//!     .input("x", DType::F32, ["s", "e"])
//!     .input("w", DType::F32, ["h", "e"])
//!     .op("y", Op::Linear, ["x", "w"])
//!     .output("y")
//!     .finish()?;
//! let weights = Weights::open(&[&model])?; // .safetensors files, or the .index.json of a split checkpoint
//! let w = weights.find("layer.0.weight")?.ok_or("the model has no such tensor")?;
//!
//! let mut session = Session::new(layer, None, SessionOptions::default());
//! session.bind_constants(&Inputs::new().with("w", w))?;
//! let outputs = session.run(&Inputs::new().with("x", open_npy(&x)?))?;
//!
//! let mut files = OutputFiles::new();
//! files.write_npy(&y, outputs.get("y").expect("an output"))?;
//! files.commit()?; // all files, or none
//! # assert_eq!(open_npy(&y)?.load()?.elements::<f32>(), [2.0; 12]);
//! # std::fs::remove_dir_all(&folder)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # The vocabulary
//!
//! * A [`Program`] is what to compute; no device is named. A [`Placement`] says where its values live on
//!   a [`Mesh`], as far as you care to say; the rest is worked out. Both are read from the text of a
//!   [`WeaveFile`], or built. [`parse_file`] also gives the warnings, and takes other sizes for axes of its
//!   meshes ([`AxisSize`]).
//! * [`compile`] gives the [`Plan`]: all forms the program goes through, and the [`Report`] that
//!   explains it. It needs sizes ([`Sizes`]) and no memory.
//! * A [`Session`] compiles once for each set of sizes and runs often. [`Inputs`] are arrays in memory
//!   ([`Tensor`]), in files ([`files`]), placed ([`Array`]), or anything else that is an [`ArraySource`]: a
//!   device asks for its own piece only. Inputs that stay are bound once ([`Session::bind_constants`]).
//! * An [`Array`] is a value placed on devices, with a piece for each: made from a whole array, a file or
//!   pieces, given by [`Session::run_placed`], fed to a run, taken to another [`Layout`], read whole or by
//!   piece.
//! * An [`Engine`] joins processes, one for each device: with the feature `mpi` that is MPI, on one host or many. A
//!   session is given one in its [`SessionOptions`]; all ranks then make the same calls.
//! * Mistakes of yours are [`Diagnostics`]: a code, a place, a reason, a way out. What goes wrong while
//!   running is a [`RunError`]; the session can go on.
//!
//! The folder `examples` of this crate has a linear layer, a loop that serves requests, and arrays without a
//! program. What is not at the root is in the crates below: [`compiler`] plans and is pure, [`runtime`] runs.
#![forbid(unsafe_code)]

pub use shardweave_compiler as compiler;
#[cfg(feature = "mpi")]
pub use shardweave_mpi as mpi;
pub use shardweave_runtime as runtime;

pub use shardweave_compiler::compile::{CompileOptions, Plan, compile};
pub use shardweave_compiler::cost::Cost;
pub use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
pub use shardweave_compiler::dtype::{DType, Number};
pub use shardweave_compiler::file::{AxisSize, WeaveFile, parse_bytes, parse_file};
pub use shardweave_compiler::layout::Layout;
pub use shardweave_compiler::mesh::{DeviceId, Mesh};
pub use shardweave_compiler::op::{Map, Op, Pattern, Reduce, Zip};
pub use shardweave_compiler::placement::{Communication, Overlap, Placement, PlacementBuilder};
pub use shardweave_compiler::program::{DimText, Program, ProgramBuilder, Sizes, Term};
pub use shardweave_compiler::report::Report;
pub use shardweave_runtime::array::{Array, ArrayError, ArrayType};
pub use shardweave_runtime::engine::{Engine, EngineError};
pub use shardweave_runtime::execute::{Backend, Failure, InputError, RunError, WrongInput};
pub use shardweave_runtime::files;
pub use shardweave_runtime::session::{Inputs, Outputs, Resharded, Session, SessionOptions};
pub use shardweave_runtime::tensor::{ArraySource, Element, ReadError, Tensor};

/// The Rust blocks of README run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../README.md")]
mod readme {}

/// The Rust blocks of the tour run as tests.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/tour.md")]
mod tour {}
