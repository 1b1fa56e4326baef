//! Messages to the user, and the terminal that they are for.

use std::fmt::Display;
use std::io::{self, ErrorKind, IsTerminal, Write};

/// Fewer columns than this are not believed.
const LEAST_COLUMNS: u16 = 20;

/// Prints `text` for the user, which a peer may have had a part in: as [`report::hanging`] lines. A
/// failure of stderr is no reason to leave anything undone.
pub fn say(text: impl Display) {
    let mut err = io::stderr().lock();
    let columns = err.is_terminal().then(runtime::terminal_columns).flatten();
    let text = text.to_string();
    let text = if is_utf8() { text } else { report::ascii(&text) };
    let _ = writeln!(err, "{}", report::hanging(&text, columns));
}

/// The value of a variable that is set and not empty.
fn variable(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// True if the reader's locale has UTF-8; without a variable on it, terminals are taken for UTF-8.
pub fn is_utf8() -> bool {
    let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(variable);
    locale.is_none_or(|name| name.to_ascii_lowercase().replace('-', "").contains("utf8"))
}

/// True if a terminal of this kind, the value of TERM, takes no control sequences. Windows has no
/// such variable.
pub fn is_dumb(kind: &str) -> bool {
    kind == "dumb" || kind.is_empty() && !cfg!(windows)
}

/// True if nobody has turned colours off, and the terminal takes control sequences.
pub fn likes_colors() -> bool {
    variable("NO_COLOR").is_none() && !is_dumb(&variable("TERM").unwrap_or_default())
}

/// A sentence of this program.
pub fn say_sentence(text: &str) {
    say(format_args!("netcaliper: {text}"));
}

/// Columns of the terminal on stdout, else the variable COLUMNS; `None` where neither is known.
pub fn stdout_columns() -> Option<u16> {
    let of_terminal = io::stdout().is_terminal().then(runtime::terminal_columns).flatten();
    let of_variable =
        || std::env::var("COLUMNS").ok()?.parse().ok().filter(|columns| *columns >= LEAST_COLUMNS);
    of_terminal.or_else(of_variable)
}

/// The sentence about a stdout that takes no more; none when its reader has closed it, as `head`
/// does.
pub fn of_stdout(error: &io::Error) -> Option<String> {
    (error.kind() != ErrorKind::BrokenPipe).then(|| format!("cannot write to stdout: {error}"))
}
