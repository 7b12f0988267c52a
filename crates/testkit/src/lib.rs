//! How Shardweave is proved right.
//!
//! Each part has its own tests in `tests/`:
//!
//! * [`case`]: cases as data. A weave file whose comments say what the plan and the values have to be;
//!   [`run_case_file`] runs one, `cases/` has them all.
//! * [`generate`]: programs, meshes and placements drawn at random, and shrunk when one fails.
//! * [`ranks`]: ranks as threads, and what joins them.
//! * [`agree()`]: the reference, the lockstep executor, the threads and ranks give the same numbers, and send the
//!   bytes that the plan promises.
//! * [`sources`]: the texts of the repository that tests start from, and the plans of the cases.
//! * [`fuzz`]: any bytes as weave file, compiled form, array file or plan.
//! * [`forms`]: every form prints and parses back to the same thing.
//! * [`played`]: many programs on the ranks that an engine joins, compared with threads.
//! * [`launch`]: ranks of an MPI program, started and ended.
#![forbid(unsafe_code)]

pub mod case;
mod exactness;
pub mod ranks;
mod agree;
pub mod forms;
pub mod launch;
pub mod played;
pub mod sources;
pub mod fuzz;
pub mod generate;

pub use agree::{Agreed, Disagreement, Trial, agree, backends_agree};
pub use case::{Meshes, Outcome, run_case_file, run_cases};
pub use exactness::{Exactness, exactness};
