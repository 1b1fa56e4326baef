//! The reason and the exit code with which a command ends.

use crate::stderr;
use std::fmt::Display;
use std::process::ExitCode;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The end of a command, as scripts see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    Good,
    /// Nothing could be measured, or connections ended in errors.
    Failed,
    Usage,
    /// A figure is worse than its limit.
    Threshold,
    /// The remote end vanished: the result covers the time until then.
    Partial,
    /// SIGINT or SIGTERM ended the run; the result covers the time until then.
    Interrupted,
    /// The exit code of a program that was run for the user.
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
pub struct CliError {
    pub text: String,
    pub exit: Exit,
}

impl CliError {
    pub fn usage(text: impl ToString) -> Self {
        CliError { text: text.to_string(), exit: Exit::Usage }
    }

    pub fn failed(text: impl ToString) -> Self {
        CliError { text: text.to_string(), exit: Exit::Failed }
    }

    /// Stdout takes no more. A reader that has closed it, as `head` does, wants no sentence about
    /// that either.
    pub fn stdout(error: &std::io::Error) -> Self {
        CliError::failed(stderr::of_stdout(error).unwrap_or_default())
    }
}

/// Locks a value that stays whole even where a thread panicked while it held the lock.
pub fn lock<T: ?Sized>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Adds to a failure the action, or the file, that it belongs to.
pub trait Context<T> {
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
