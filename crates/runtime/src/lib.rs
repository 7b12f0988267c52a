//! Runs what the compiler plans: tensors, kernels, communication, executors.

pub mod tensor;
pub mod files;
pub mod random;
pub mod compare;
pub mod kernels;
pub mod reference;
mod arena;
mod instantiate;
pub mod execute;
mod threads;
mod lockstep;
pub mod session;
