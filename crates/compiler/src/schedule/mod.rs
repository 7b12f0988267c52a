//! From one device's view to the program that runs: buffers, streams, events.
//!
//! ```text
//!  LocalProgram ── translate ──▶ HostProgram ── pass ──▶ HostProgram ── pass ──▶ ... ── verify ──▶ Verified
//! ```
//!
//! [`translate`] gives a program that is always right: one stream, a place of its own for every buffer.
//! Each later pass makes it faster or smaller and keeps it right. The verifier proves the last program;
//! one that fails is a bug of a pass, which is then looked for and named. It never runs.
//!
//! `pipeline` puts communication on a stream of its own where steps overlap, with the events between;
//! `views` lets computations use what lies in another buffer as they want it, instead of a copy of it; `loans` says what
//! may be read on the devices that have it; places come last, because only then it is known which buffers are alive at once.

mod pipeline;
mod translate;
mod views;
mod loans;
mod longer;
mod lives;
mod buffers;
mod gaps;
mod peak;

pub use peak::peak_bytes;
pub use translate::translate;

use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::host::{Fault, HostProgram, Verified, verify};
use crate::local::LocalProgram;
use crate::program::MOST_BYTES;
use std::collections::BTreeSet;

/// A step from one host program to a better one.
struct Pass {
    name: &'static str,
    run: fn(HostProgram) -> HostProgram,
}

/// All passes, in the order they run.
const PASSES: [Pass; 4] = [
    Pass { name: "pipeline", run: pipeline::run },
    Pass { name: "views", run: views::run },
    Pass { name: "loans", run: loans::run },
    Pass { name: "buffers", run: buffers::place },
];

/// The program that runs; a mistake if its buffers have more bytes than can be counted. `constants` are
/// the inputs that stay bound between runs.
///
/// # Panics
/// If a pass breaks an invariant of the host form: a bug, named with its pass.
pub fn run(local: &LocalProgram, constants: &BTreeSet<String>) -> Result<Verified, Diagnostics> {
    let program = run_watched(local, constants, &mut |_, _| {})?;
    Ok(Verified::new(program).unwrap_or_else(|fault| blame(local, constants, &fault)))
}

/// The same without proof; `watch` is shown the program after each pass, with the pass's name.
pub fn run_watched(
    local: &LocalProgram,
    constants: &BTreeSet<String>,
    watch: &mut dyn FnMut(&'static str, &HostProgram),
) -> Result<HostProgram, Diagnostics> {
    let bytes: u128 = local.values.values().map(|value| u128::from(translate::place_bytes(&value.ty))).sum();
    if bytes > u128::from(MOST_BYTES) {
        let message = format!("the pieces of one device have {bytes} bytes together, more than 2^63");
        return Err(Diagnostic::general(Code::TooLarge, message).into());
    }
    let mut program = translate(local, constants);
    watch("translate", &program);
    for pass in &PASSES {
        program = (pass.run)(program);
        watch(pass.name, &program);
    }
    Ok(program)
}

/// Panics with the first pass whose program is wrong; `last` is what is wrong with the last one.
fn blame(local: &LocalProgram, constants: &BTreeSet<String>, last: &Fault) -> ! {
    let mut first = None;
    let _ = run_watched(local, constants, &mut |pass, program| {
        first = first.take().or_else(|| verify(program).err().map(|fault| (pass, fault)));
    });
    match first {
        Some((pass, fault)) => panic!("schedule, pass `{pass}`: {fault}"),
        None => panic!("schedule: {last}, but not when it is run again"),
    }
}
