//! What goes wrong while running, as messages with a code, at the value of the program that has it.

use shardweave_compiler::diagnostic::{Code, Diagnostic, Diagnostics};
use shardweave_compiler::program::Program;
use shardweave_runtime::execute::{How, InputError, RunError, WrongInput};
use shardweave_runtime::kernels::KernelError;
use shardweave_runtime::reference;

/// Why a session gave no outputs.
pub fn of_session(program: &Program, error: RunError) -> Diagnostics {
    let message = error.to_string();
    let (code, value) = match &error {
        RunError::Compile(told) => return told.clone(),
        RunError::Inputs(wrong) => return of_inputs(program, wrong),
        RunError::Array(_) => (Code::InputShape, None),
        RunError::OutOfMemory { .. } => {
            let help = "cut values that are replicated, or take smaller sizes; `explain` shows what is large";
            return Diagnostic::general(Code::OutOfMemory, message).help(help).into();
        }
        RunError::Threads(_) => {
            let help = "`--on lockstep` plays any number of devices in one thread";
            return Diagnostic::general(Code::Threads, message).help(help).into();
        }
        RunError::NotShared(_) => {
            let help = "with shared memory, see to `/dev/shm` (containers: `--shm-size`, `--ipc`) or take `--transport messages`, \
                        which needs none; else take smaller sizes, or cut values that are replicated";
            return Diagnostic::general(Code::OutOfMemory, message).help(help).into();
        }
        RunError::TooFewRanks { devices, .. } => {
            let help = format!(
                "start it with `mpirun -n {devices}`, the one of the MPI that it was built with, or take a smaller mesh \
                 with `--mesh`"
            );
            return Diagnostic::general(Code::TooFewRanks, message).help(help).into();
        }
        RunError::RanksDiffer { .. } => {
            let help = "start all ranks with the same command on the same files";
            return Diagnostic::general(Code::RanksDiffer, message).help(help).into();
        }
        RunError::Elsewhere { .. } => return Diagnostic::general(Code::RankFailed, message).into(),
        RunError::Engine(_) => {
            let help = "see what MPI itself says, and how `docs/mpi.md` starts ranks";
            return Diagnostic::general(Code::EngineFailed, message).help(help).into();
        }
        RunError::TooLarge(_) => (Code::TooLarge, None),
        RunError::Device(failure) => (of_device(&failure.how), failure.value.as_ref()),
        RunError::Deadlock(_) => (Code::Deadlock, None),
        RunError::NotReady(_) | RunError::Broken(_) => (Code::Fault, None),
    };
    with_way_out(program, value, code, message)
}

fn of_inputs(program: &Program, wrong: &[WrongInput]) -> Diagnostics {
    let mut all = Diagnostics::new();
    for input in wrong {
        all.extend(with_way_out(program, Some(&input.name), of_input(&input.reason), input.to_string()));
    }
    all
}

fn of_input(reason: &InputError) -> Code {
    match reason {
        InputError::Missing => Code::InputMissing,
        InputError::Unknown => Code::InputUnknown,
        InputError::Sizes { .. } => Code::InputShape,
        InputError::DType { .. } => Code::InputDType,
        InputError::Unreadable(_) => Code::FileRead,
        InputError::BoundAsConstant => Code::InputTwice,
    }
}

fn of_device(how: &How) -> Code {
    match how {
        How::Kernel(KernelError::IdOutOfRange { .. }) => Code::IdOutOfRange,
        How::Refused(_) | How::Panic(_) => Code::DeviceFailed,
    }
}

/// Why the reference gave no outputs.
pub fn of_reference(program: &Program, error: &reference::ReferenceError) -> Diagnostics {
    let (code, value) = match error {
        reference::ReferenceError::MissingInput { input } => (Code::InputMissing, input),
        reference::ReferenceError::WrongInput { input, .. } => (Code::InputShape, input),
        reference::ReferenceError::IdOutOfRange { value, .. } => (Code::IdOutOfRange, value),
    };
    with_way_out(program, Some(value), code, error.to_string())
}

/// What is found while running, with what can be done about it; `value` is the name of the value that has
/// it, if one has.
fn with_way_out(program: &Program, value: Option<&String>, code: Code, message: String) -> Diagnostics {
    let help = match code {
        Code::IdOutOfRange => {
            "ids count the rows of the table from 0: each must be below the table's first size"
        }
        Code::InputMissing => {
            "give it with `--input`, `--inputs` or `--weights`, or let `--random SEED` fill it"
        }
        Code::InputUnknown => "inputs have the names that the program gives them",
        Code::InputTwice => "give it once",
        Code::FileRead | Code::InputShape | Code::InputDType => {
            "give an array with the element type and sizes of the input"
        }
        Code::TooLarge => "take smaller sizes, or cut more",
        _ => "this is a fault of ours, not of the program: please report it with the file and the command",
    };
    let mistake = match value.and_then(|name| program.value(name)) {
        Some(value) => Diagnostic::at(code, program.values()[value].span, message),
        None => Diagnostic::general(code, message),
    };
    mistake.help(help).into()
}
