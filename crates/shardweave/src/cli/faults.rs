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
        RunError::Array(_) => Code::InputShape,
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
    with_way_out(code, message)
}

/// Why the reference gave no outputs.
pub fn of_reference(error: &reference::RunError) -> Diagnostics {
    let code = match error {
        reference::RunError::MissingInput { .. } => Code::InputMissing,
        reference::RunError::WrongInput { .. } => Code::InputShape,
        reference::RunError::IdOutOfRange { .. } => Code::IdOutOfRange,
    };
    with_way_out(code, error.to_string())
}

/// What is found while running, with what can be done about it.
fn with_way_out(code: Code, message: String) -> Diagnostics {
    let help = match code {
        Code::IdOutOfRange => {
            "ids count the rows of the table from 0: each must be below the table's first size"
        }
        Code::InputMissing => {
            "give it with `--input`, `--inputs` or `--weights`, or let `--random SEED` fill it"
        }
        Code::InputUnknown => "inputs have the names that the program gives them",
        Code::FileRead | Code::InputShape => "give an array with the element type and sizes of the input",
        Code::TooLarge => "take smaller sizes, or cut more",
        _ => "this is a fault of ours, not of the program: please report it with the file and the command",
    };
    Diagnostic::general(code, message).help(help).into()
}
