//! Runs what the compiler plans: tensors, kernels, communication, executors.
//!
//! `unsafe` is denied but in the files that say why they expect it: the arenas that devices share, mapped
//! files, the call of the matrix product, and loops compiled for wider vectors.
#![deny(unsafe_code)]

pub mod tensor;
pub mod files;
pub mod random;
pub mod compare;
pub mod kernels;
pub mod reference;
pub mod memory;
mod arena;
mod instantiate;
pub mod array;
pub mod execute;
mod threads;
mod lockstep;
pub mod session;
