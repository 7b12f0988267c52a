//! What a verifier of a form found.

use crate::id::Id;
use crate::mesh::DeviceId;
use std::fmt;

/// A form breaks one of its invariants. This is a mistake of the pass that made the form (or of
/// whoever wrote it by hand), never of the user of a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Fault {
    /// The instruction as text; none if the fault is in no single one.
    pub instr: Option<String>,
    /// A device on which it happens; none if it happens whatever the device.
    pub device: Option<DeviceId>,
    /// What is wrong, with the names involved.
    pub reason: String,
}

impl Fault {
    /// A fault for this reason.
    pub fn new(reason: impl Into<String>) -> Fault {
        Fault { instr: None, device: None, reason: reason.into() }
    }

    /// Names a device on which it happens.
    #[must_use]
    pub fn on(mut self, device: Option<DeviceId>) -> Fault {
        self.device = device;
        self
    }

    /// Names the instruction, unless one is named already.
    #[must_use]
    pub fn at(mut self, instr: impl fmt::Display) -> Fault {
        self.instr.get_or_insert_with(|| instr.to_string());
        self
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)?;
        if let Some(device) = self.device {
            write!(f, ", on device {}", device.index())?;
        }
        if let Some(instr) = &self.instr {
            write!(f, "\n  at `{instr}`")?;
        }
        Ok(())
    }
}

impl std::error::Error for Fault {}
