//! The commands, one file each.

pub mod check;
pub mod compile;
pub mod explain;
pub mod measure;
pub mod run;
