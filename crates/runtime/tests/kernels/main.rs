//! The kernels and the reference against written numbers, against each other, and cut against whole.

mod errors;
mod operations;
mod pieces;
mod programs;
mod shapes;
mod single;
mod zeros;
