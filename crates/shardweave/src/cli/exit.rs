//! The exit status: how a command ended, read from the codes of what went wrong.

use shardweave_compiler::diagnostic::{Code, Diagnostics};
use std::process::ExitCode;

/// How a command ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Exit {
    /// Fine.
    Fine = 0,
    /// A name, file, size, dtype or array does not fit, or the plan does not fit in memory.
    Input = 1,
    /// The arguments do not parse, a needed choice is missing, or the feature is not built in.
    Usage = 2,
    /// Found while running.
    Running = 3,
    /// The check failed.
    Check = 4,
}

impl Exit {
    /// The status for these mistakes. What is found while running wins over a failed check.
    pub fn of(found: &Diagnostics) -> Exit {
        let has = |exit| found.errors().iter().any(|diagnostic| Exit::of_code(diagnostic.code) == exit);
        [Exit::Running, Exit::Check, Exit::Usage, Exit::Input]
            .into_iter()
            .find(|&exit| has(exit))
            .unwrap_or(Exit::Fine)
    }

    /// The exit with this status; found while running, if there is none.
    pub fn of_status(status: u8) -> Exit {
        let all = [Exit::Fine, Exit::Input, Exit::Usage, Exit::Running, Exit::Check];
        all.into_iter().find(|&exit| exit as u8 == status).unwrap_or(Exit::Running)
    }

    fn of_code(code: Code) -> Exit {
        match code {
            Code::Arguments | Code::ChoiceNeeded | Code::NotBuiltIn => Exit::Usage,
            Code::IdOutOfRange | Code::DeviceFailed | Code::Deadlock | Code::Fault => Exit::Running,
            Code::RankFailed | Code::EngineFailed => Exit::Running,
            Code::CheckFailed => Exit::Check,
            _ => Exit::Input,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> ExitCode {
        ExitCode::from(exit as u8)
    }
}
