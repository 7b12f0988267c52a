//! Runs what the compiler plans: tensors, kernels, communication, executors.
//!
//! `unsafe` is denied but in the files that say why they expect it: the arenas that devices share, mapped
//! files, calls of matrix products, and loops compiled for wider vectors. The modules stand in reading
//! order; each uses only those above it.
#![deny(unsafe_code)]

pub mod tensor;
mod digest;
pub mod files;
pub mod random;
pub mod compare;
pub mod kernels;
pub mod reference;
pub mod memory;
mod meet;
mod arena;
pub mod engine;
mod instantiate;
pub mod array;
pub mod execute;
mod threads;
mod lockstep;
pub mod ranks;
pub mod session;
