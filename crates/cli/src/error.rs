//! Why a command ends, and how: its exit code, and the sentence of an error.

use crate::stderr;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How a command ended, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Good,
    /// Something failed: nothing could be measured, or connections ended in errors.
    Failed,
    Usage,
    /// A figure is worse than was to be accepted.
    Threshold,
    /// The remote end vanished: the result covers what was measured until then.
    Partial,
    /// Ended by SIGINT or SIGTERM; the result covers what was measured until then.
    Interrupted,
    /// What a command ended with that was run for the user.
    Command(u8),
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        ExitCode::from(match exit {
            Exit::Good => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Threshold => 3,
            Exit::Partial => 4,
            Exit::Interrupted => 130,
            Exit::Command(code) => code,
        })
    }
}

/// Why a command could not do its work: one sentence (none where the reader of stdout has closed
/// it), and the exit code.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) text: String,
    pub(crate) exit: Exit,
}

impl CliError {
    pub(crate) fn usage(text: impl ToString) -> Self {
        CliError { text: text.to_string(), exit: Exit::Usage }
    }

    pub(crate) fn failed(text: impl ToString) -> Self {
        CliError { text: text.to_string(), exit: Exit::Failed }
    }

    /// Stdout takes no more. A reader that has closed it, as `head` does, wants no sentence about
    /// that either.
    pub(crate) fn stdout(error: &std::io::Error) -> Self {
        CliError::failed(stderr::of_stdout(error).unwrap_or_default())
    }
}

/// Locks what is whole even after a thread panicked that had it.
pub(crate) fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Says of a failure what was being done, or with which file.
pub(crate) trait Context<T> {
    fn context(self, what: impl Display) -> Result<T, CliError>;
}

impl<T, E: Display> Context<T> for Result<T, E> {
    fn context(self, what: impl Display) -> Result<T, CliError> {
        self.map_err(|error| CliError::failed(format!("{what}: {error}")))
    }
}

impl From<runtime::EngineError> for CliError {
    fn from(error: runtime::EngineError) -> Self {
        match error {
            runtime::EngineError::Setting(text) => CliError::usage(text),
            runtime::EngineError::Interrupted(text) => CliError { text, exit: Exit::Interrupted },
            other => CliError::failed(other),
        }
    }
}
