//! Runs what the compiler plans: tensors, kernels, communication, executors.

pub mod files;
pub mod tensor;
pub mod kernels;
pub mod reference;
pub mod compare;
pub mod random;
