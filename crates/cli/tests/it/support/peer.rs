//! The independent ends of `tests/it/peers/`: scripts for Python's standard library.

use super::{Line, Proc, skip};
use std::process::Command;

/// A peer with these arguments, or `None` (and `test` on record as skipped) where there is no Python.
pub(crate) fn peer(script: &str, test: &str, words: &str) -> Option<Proc> {
    call(script, test, words).map(|line| Proc::spawn(line.0))
}

/// The same, not run yet.
pub(crate) fn call(script: &str, test: &str, words: &str) -> Option<Line> {
    let there = Command::new("python3").arg("--version").output().is_ok_and(|o| o.status.success());
    if !there {
        skip(test, "python3 is not there");
        return None;
    }
    let mut command = Command::new("python3");
    command.arg(format!("{}/tests/it/peers/{script}", env!("CARGO_MANIFEST_DIR")));
    command.args(words.split_whitespace());
    Some(Line(command))
}
