//! Output of commands on stdout.

use crate::error::{CliError, Exit};
use std::io::{self, IsTerminal as _, StdoutLock, Write as _};
use std::path::Path;

/// Prints to stdout what `write` writes there.
pub(crate) fn print(write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>) -> Result<Exit, CliError> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush()).map_err(|e| CliError::stdout(&e))?;
    Ok(Exit::Good)
}

/// Writes to stdout; a closed stdout is no error.
pub(crate) fn write(text: &[u8]) -> Exit {
    let _ = io::stdout().lock().write_all(text);
    Exit::Good
}

/// True if stdout is a terminal of a person who likes colours.
pub(crate) fn color() -> bool {
    io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
}

/// Whether this is the name of stdout.
pub(crate) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
