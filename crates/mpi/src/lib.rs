//! Shardweave over MPI: every device is a process of its own, on one host or on many.
//!
//! ```text
//!  mpirun -n 4 program
//!    rank 0   Mpi::init ── Engine ── plays device 0
//!    rank 1   Mpi::init ── Engine ── plays device 1
//!    ...
//! ```
//!
//! [`Mpi`] keeps the contract of [`Engine`](shardweave_runtime::engine::Engine). Ranks of one host share memory by
//! MPI's shared windows and read each other's pieces where they lie; between hosts bytes go in messages or, where an
//! exchange has the form of one and three or more take part, by MPI's own collectives. It is there with the feature
//! `engine`, which needs an MPI; without it the crate is empty.
//!
//! **To build**: `cargo build --features engine` with an MPI 3 whose compiler is `mpicc` or what `MPICC` says. It is
//! tested with Open MPI 4.1 and MPICH 4.0. **To run**: `mpirun -n RANKS program`, with the `mpirun` of the same MPI.
//! Open MPI refuses more ranks than cores without `--oversubscribe`, and puts two ranks on one core unless
//! `--bind-to none` is given. All ranks run the same program and take the same options.
//!
//! **Where MPI is in use already**, [`Mpi::from_fortran`] takes a communicator of the program by its Fortran handle,
//! which is the one number for it that every language has: `MPI_Comm_c2f(comm)` in C, `comm.py2f()` in mpi4py,
//! `MPI_Comm_c2f(comm.as_raw())` with rsmpi. MPI stays the program's, which must have started it with
//! `MPI_THREAD_SERIALIZED` or `MPI_THREAD_MULTIPLE`.
//!
//! **Why a binding of our own.** rsmpi, the safe binding, needs libclang wherever it is built, and what is needed here
//! stands outside its safe part: shared windows, collectives with unequal counts on memory that is borrowed for as
//! long as they are under way, error handlers, communicators made by their members alone. So a small C file holds what
//! in MPI is a macro or has another type in each implementation, and handles cross as 64-bit numbers.
//!
//! **What is promised beyond the contract.**
//!
//! * Messages of one stream have that stream's tag, so those of several threads do not mix. What is larger than a
//!   limit (1 GiB) goes in several messages, so no size is too large for MPI's 32-bit counts.
//! * A call waits for others at most for the [timeout](MpiOptions::timeout), the first and the last ones too.
//! * With an MPI that takes calls from only one thread at a time, calls take turns, and every form goes in messages:
//!   making a communicator for a collective would block the other threads.
//! * Whoever waits tests for 50 us, then gives way between tests, and after a millisecond sleeps between them; all of
//!   it for longer the more bytes there are.
//! * [`Late`](shardweave_runtime::engine::EngineError::Late) names ranks that are awaited, by this rank or by one that it
//!   waits for, and do not answer when they are asked; the lowest rank that waits is the first to know. After it the
//!   ranks can only be ended: an engine that is dropped then, or by a panic, ends them.
//! * Memory that processes share is given back when the next is shared, when that is asked for, or at the end: that takes all ranks of a host,
//!   which drop it at different times.
//! * An engine that made MPI itself ends it when it and all shared memory have been dropped.
//!
//! `unsafe` is denied but in the files that say why they expect it: the end of a process, the binding, requests under way, and windows.
// Without the feature there is nothing that the text above could link to.
#![cfg_attr(not(feature = "engine"), allow(rustdoc::broken_intra_doc_links))]
#![deny(unsafe_code)]
#![cfg(feature = "engine")]

mod blocking;
mod roll;
mod binding;
mod pause;
mod flight;
mod group;
mod calls;
mod messages;
mod collectives;
mod windows;
mod cores;
mod world;
mod options;
mod mpi;

pub use binding::Threads;
pub use mpi::Mpi;
pub use options::{MpiOptions, Transport};
