//! The functions of `direct.c`: what a C program would call.

use libloading::{Library, Symbol};
use shardweave_mpi::Mpi;
use shardweave_testkit::launch;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::time::Duration;

/// Starts this program again as so many ranks with these words, and tells what they print.
pub fn start_ranks(ranks: usize, words: &[&str], limit: Duration) -> ExitCode {
    let own = std::env::current_exe().expect("this program has a path");
    let ended = launch::run(&own, ranks, words, limit);
    print!("{}", ended.output);
    eprint!("{}", ended.errors);
    if ended.status == Some(0) { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// The functions, loaded, with a communicator of the ranks of an engine.
pub struct Direct {
    library: Library,
}

/// What is sent, where what comes goes, how many bytes for each.
type Function = unsafe extern "C" fn(*const u8, *mut u8, i32) -> i32;

impl Direct {
    /// Compiles `direct.c` as a plain program would be; gives the library's path.
    pub fn compiled() -> PathBuf {
        let compiler = std::env::var("MPICC").unwrap_or_else(|_| "mpicc".to_string());
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/direct");
        let library = std::env::current_exe().expect("this program has a path").with_extension("direct.so");
        let mut command = Command::new(&compiler);
        command.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&library).arg(folder.join("direct.c"));
        let status = command.status().unwrap_or_else(|error| panic!("{compiler}: {error}"));
        assert!(status.success(), "{compiler} compiles direct.c");
        library
    }

    /// Loads the library on all ranks.
    pub fn load(library: &str, mpi: &Mpi) -> Direct {
        // SAFETY: it was compiled from `direct.c`, for the MPI of this program.
        let library = unsafe { Library::new(library) }.expect("the library that was compiled");
        // SAFETY: the function has these types.
        let begin: Symbol<'_, unsafe extern "C" fn(i32) -> i32> =
            unsafe { library.get(b"direct_begin") }.expect("a function of direct.c");
        // SAFETY: MPI has begun, and all ranks make this call.
        assert_eq!(unsafe { begin(mpi.to_fortran()) }, 0);
        Direct { library }
    }

    /// Gives the communicator back.
    pub fn end(self) {
        // SAFETY: a function without arguments that returns a number.
        let end: Symbol<'_, unsafe extern "C" fn() -> i32> =
            unsafe { self.library.get(b"direct_end") }.expect("a function of direct.c");
        // SAFETY: MPI has begun, and all ranks make this call.
        assert_eq!(unsafe { end() }, 0);
    }

    /// Calls a function on all ranks, for so many bytes each.
    pub fn call(&self, name: &str, sent: &[u8], got: &mut [u8], bytes: usize) {
        // SAFETY: the functions that take memory have these types.
        let function: Symbol<'_, Function> =
            unsafe { self.library.get(name.as_bytes()) }.expect("a function of direct.c");
        let bytes = i32::try_from(bytes).expect("C counts so far");
        // SAFETY: callers give as much memory as the function takes, and all ranks make this call.
        assert_eq!(unsafe { function(sent.as_ptr(), got.as_mut_ptr(), bytes) }, 0);
    }
}
