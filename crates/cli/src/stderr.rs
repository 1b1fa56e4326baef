//! Messages to the user, and the terminal that they are for.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Fewer columns than this are not believed.
const LEAST_COLUMNS: u16 = 20;

/// Prints `text` for the user, which a peer may have had a part in: as [`report::hanging`] lines. A
/// failure of stderr is no reason to leave anything undone.
pub(crate) fn say(text: impl Display) {
    let mut err = io::stderr().lock();
    let columns = err.is_terminal().then(runtime::terminal_columns).flatten();
    let _ = writeln!(err, "{}", report::hanging(&text.to_string(), columns));
}

/// A sentence of this program.
#[cfg(feature = "nats")]
pub(crate) fn tell(text: &str) {
    say(format_args!("netcaliper: {text}"));
}

/// Columns of the terminal on stdout, else the variable COLUMNS; `None` where neither is known.
pub(crate) fn stdout_columns() -> Option<u16> {
    let of_terminal = io::stdout().is_terminal().then(runtime::terminal_columns).flatten();
    let told = || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns >= LEAST_COLUMNS);
    of_terminal.or_else(told)
}

/// The sentence about a stdout that takes no more; none when its reader has closed it, as `head`
/// does.
pub(crate) fn of_stdout(error: &io::Error) -> Option<String> {
    (error.kind() != ErrorKind::BrokenPipe).then(|| format!("cannot write to stdout: {error}"))
}
