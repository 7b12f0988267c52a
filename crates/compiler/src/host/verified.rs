//! A host program that is proved.

use super::{HostProgram, verify};
use crate::instr::Fault;
use std::fmt;
use std::ops::Deref;

/// A host program that [`verify`] has accepted. Nobody can change it, so the proof holds as long as it
/// lives: it is made once, and what runs programs asks for this type.
#[derive(Clone, PartialEq, Debug)]
pub struct Verified {
    program: HostProgram,
}

impl Verified {
    /// Proves a program, or tells where it breaks an invariant.
    pub fn new(program: HostProgram) -> Result<Verified, Fault> {
        verify(&program)?;
        Ok(Verified { program })
    }

    /// The program, to be changed; the proof is gone.
    pub fn into_program(self) -> HostProgram {
        self.program
    }
}

impl Deref for Verified {
    type Target = HostProgram;

    fn deref(&self) -> &HostProgram {
        &self.program
    }
}

impl fmt::Display for Verified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(f)
    }
}
