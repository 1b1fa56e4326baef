//! The independent ends of `tests/it/peers/`: scripts for Python's standard library.

use super::{Line, Proc, skip};
use serde_json::Value;
use std::process::Command;
use std::sync::OnceLock;

/// A peer with these arguments, or `None` (and `test` on record as skipped) where there is no
/// Python.
pub(crate) fn peer(script: &str, test: &str, words: &str) -> Option<Proc> {
    call(script, test, words).map(Line::spawn)
}

/// The same as a service: with the address of the port that it prints.
pub(crate) fn service(script: &str, test: &str, words: &str) -> Option<(Proc, String)> {
    let server = peer(script, test, words)?;
    let at = format!("127.0.0.1:{}", server.port());
    Some((server, at))
}

/// Services of one process, which costs more to start than most cases: the words of each after
/// `role`, and their addresses.
pub(crate) fn services(
    script: &str,
    test: &str,
    role: &str,
    cases: &[String],
) -> Option<(Proc, Vec<String>)> {
    let server = peer(script, test, &format!("{role} {}", cases.join(" / ")))?;
    let ports = server.port();
    let at: Vec<String> = ports.split(' ').map(|port| format!("127.0.0.1:{port}")).collect();
    assert_eq!(at.len(), cases.len(), "{ports}");
    Some((server, at))
}

/// What such services say when their process is stopped, in their order.
#[track_caller]
pub(crate) fn all_stopped(server: Proc) -> Vec<Value> {
    let services = server.port().split(' ').count();
    server.signal("INT");
    let done = server.wait();
    let said = done.out.lines().skip(1).map(serde_json::from_str);
    let said: Vec<Value> = said.collect::<Result<_, _>>().unwrap_or_else(|e| panic!("{e}: {}", done.tell()));
    assert_eq!(said.len(), services, "{}", done.tell());
    said
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

/// Python's interpreter itself, which `python3` may only look for, without the packages of the
/// machine (`-S -E`): it starts in a tenth of the time.
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
