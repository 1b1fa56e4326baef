//! The independent ends of `tests/it/peers/`: scripts for Python's standard library.

use super::{Line, Proc, skip};
use std::process::Command;
use std::sync::OnceLock;

/// A peer with these arguments, or `None` (and `test` on record as skipped) where there is no Python.
pub(crate) fn peer(script: &str, test: &str, words: &str) -> Option<Proc> {
    call(script, test, words).map(|line| Proc::spawn(line.0))
}

/// The same as a service: with the address of the port that it prints.
pub(crate) fn service(script: &str, test: &str, words: &str) -> Option<(Proc, String)> {
    let server = peer(script, test, words)?;
    let at = format!("127.0.0.1:{}", server.port());
    Some((server, at))
}

/// A peer, not run yet.
pub(crate) fn call(script: &str, test: &str, words: &str) -> Option<Line> {
    let Some(mut command) = python() else {
        skip(test, "python3 is not there");
        return None;
    };
    command.arg(format!("{}/tests/it/peers/{script}", env!("CARGO_MANIFEST_DIR")));
    command.args(words.split_whitespace());
    Some(Line(command))
}

/// Python's interpreter itself, which `python3` may only look for, without the packages of the machine (`-S -E`): it starts in a
/// tenth of the time.
pub(crate) fn python() -> Option<Command> {
    static INTERPRETER: OnceLock<Option<String>> = OnceLock::new();
    let found = INTERPRETER.get_or_init(|| {
        let told = Command::new("python3").args(["-c", "import sys; print(sys.executable)"]).output().ok()?;
        let path = String::from_utf8(told.stdout).ok()?.trim().to_owned();
        (told.status.success() && !path.is_empty()).then_some(path)
    });
    let mut command = Command::new(found.as_ref()?);
    command.args(["-B", "-S", "-E"]);
    Some(command)
}
