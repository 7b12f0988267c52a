//! What goes wrong while running, as messages with a code.

use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_runtime::execute::{How, RunError};
use shardweave_runtime::reference;

/// Why a session gave no outputs.
pub fn of_session(error: RunError) -> Diagnostics {
    let message = error.to_string();
    let code = match error {
        RunError::Compile(told) => return told,
        RunError::MissingInput(_) => Code::InputMissing,
        RunError::UnknownInput(_) => Code::InputUnknown,
        RunError::Input { .. } => Code::FileRead,
        RunError::OutOfMemory { .. } => {
            let help = "cut values that are replicated, or take smaller sizes; `explain` shows what is large";
            return Diagnostic::general(Code::OutOfMemory, message).help(help).into();
        }
        RunError::Threads(_) => {
            let help = "`--on lockstep` plays any number of devices in one thread";
            return Diagnostic::general(Code::OutOfMemory, message).help(help).into();
        }
        RunError::TooLarge(_) => Code::TooLarge,
        RunError::Device(failure) => match failure.how {
            How::Error(_) => Code::IdOutOfRange,
            How::Panic(_) => Code::DeviceFailed,
        },
        RunError::Deadlock(_) => Code::Deadlock,
        RunError::NotReady(_) | RunError::Broken(_) => Code::DeviceFailed,
    };
    Diagnostic::general(code, message).into()
}

/// Why the reference gave no outputs.
pub fn of_reference(error: &reference::RunError) -> Diagnostics {
    let code = match error {
        reference::RunError::MissingInput { .. } => Code::InputMissing,
        reference::RunError::WrongInput { .. } => Code::InputShape,
        reference::RunError::IdOutOfRange { .. } => Code::IdOutOfRange,
    };
    Diagnostic::general(code, error.to_string()).into()
}
