//! Output of commands on stdout.

use crate::error::{CliError, Exit};
use crate::stderr;
use std::io::{self, IsTerminal as _, StdoutLock, Write};
use std::path::Path;

/// Prints to stdout what `write` writes there.
pub fn print(write: impl FnOnce(&mut StdoutLock<'_>) -> io::Result<()>) -> Result<Exit, CliError> {
    let mut out = io::stdout().lock();
    write(&mut out).and_then(|()| out.flush()).map_err(|e| CliError::stdout(&e))?;
    Ok(Exit::Good)
}

/// Writes to stdout; a closed stdout is no error.
pub fn write(text: &[u8]) -> Exit {
    let _ = io::stdout().lock().write_all(text);
    Exit::Good
}

/// True if stdout is a terminal that takes colours, of a person who likes them.
pub fn color() -> bool {
    io::stdout().is_terminal() && stderr::likes_colors()
}

/// True if both stdout and stderr are terminals, or one file or pipe.
pub fn is_read_with_stderr() -> bool {
    io::stdout().is_terminal() && io::stderr().is_terminal() || is_one_file()
}

#[cfg(unix)]
fn is_one_file() -> bool {
    use std::os::fd::{AsFd, BorrowedFd};
    use std::os::unix::fs::MetadataExt as _;
    let place = |fd: BorrowedFd<'_>| {
        let file = std::fs::File::from(fd.try_clone_to_owned().ok()?);
        file.metadata().ok().map(|of| (of.dev(), of.ino()))
    };
    let place = (place(io::stdout().as_fd()), place(io::stderr().as_fd()));
    place.0.is_some() && place.0 == place.1
}

#[cfg(not(unix))]
fn is_one_file() -> bool {
    false
}

/// Text for people on its way to `out`: as it is where their locale has UTF-8, ASCII elsewhere.
/// Machine formats do not pass here.
pub struct Text<W> {
    out: W,
    is_utf8: bool,
}

impl<W: Write> Text<W> {
    pub fn to(out: W) -> Text<W> {
        Text { out, is_utf8: stderr::is_utf8() }
    }
}

/// Text for people on stdout.
pub fn text() -> Text<StdoutLock<'static>> {
    Text::to(io::stdout().lock())
}

impl<W: Write> Write for Text<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match std::str::from_utf8(bytes) {
            Ok(text) if !self.is_utf8 => {
                self.out.write_all(report::ascii(text).as_bytes())?;
                Ok(bytes.len())
            }
            _ => self.out.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

/// True for the name of stdout, `-`.
pub fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-"
}
