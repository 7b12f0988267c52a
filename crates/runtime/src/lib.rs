//! Runs what the compiler plans: tensors, kernels, communication, executors.

pub mod files;
pub mod tensor;
