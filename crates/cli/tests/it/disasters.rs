//! Where results cannot go: full disks, closed pipes. The run goes on, and what can be shown is shown.

use crate::support::files::Scratch;
use crate::support::{Outcome, net, netcaliper, number, serve, skip, tcp};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};

const RUN: &str = "-t 700ms -i 100ms -P 4 -b 40M --transfer 100001";

/// No crash: neither a panic nor a signal.
#[track_caller]
fn lives(done: &crate::support::Done) {
    assert!(done.code.is_some_and(|code| code != 101) && !done.err.contains("panicked"), "{}", done.tell());
}

#[test]
fn a_full_disk_costs_the_file_and_nothing_else() {
    if !Path::new("/dev/full").exists() {
        return skip("disasters::a_full_disk_costs_the_file_and_nothing_else", "there is no /dev/full");
    }
    let server = serve("");
    let done = tcp(server.at()).args(RUN).args("--save /dev/full").run().exits(1);
    let done = done.prints(&["Goodput", "Run complete"]).complains(&["/dev/full", "No space left on device"]);
    assert_eq!(done.err.matches("No space left").count(), 1, "said once: {}", done.tell());
    let done = tcp(server.at()).args(RUN).args("--json --save /dev/full").run();
    Outcome::of(done).exits(1).status("complete");
    server.still_serves();
}

/// A file system of 64 KiB, gone when dropped.
struct Tiny(Scratch);

impl Tiny {
    fn new(test: &str) -> Option<Tiny> {
        let scratch = Scratch::new();
        let words = format!("-t tmpfs -o size=64k tmpfs {}", scratch.path().display());
        if net::is_root() && net::succeeds("mount", &words) {
            return Some(Tiny(scratch));
        }
        skip(test, "a small file system needs root and tmpfs");
        None
    }
}

impl Drop for Tiny {
    fn drop(&mut self) {
        net::succeeds("umount", &self.0.path().display().to_string());
    }
}

#[test]
fn a_disk_that_fills_in_mid_run_keeps_what_came_before() {
    let Some(tiny) = Tiny::new("disasters::a_disk_that_fills_in_mid_run_keeps_what_came_before") else {
        return;
    };
    let server = serve("");
    let journal = tiny.0.file("run.jsonl");
    let line = tcp(server.at()).args("-t 1s -i 50ms -P 4 -b 80M --transfer 20001 --status-csv");
    let line =
        line.arg(tiny.0.file("status.csv")).arg("--connection-csv").arg(tiny.0.file("connections.csv"));
    let done = line.arg("--save").arg(&journal).run().exits(1);
    let done = done.prints(&["Goodput", "Run complete"]).complains(&["run.jsonl", "No space left on device"]);
    assert!(done.err.lines().count() <= 4, "each file is told once: {}", done.tell());
    let report = netcaliper("report").arg(&journal).run();
    assert_eq!(report.code, Some(4), "what was written can be read: {}", report.tell());
}

#[test]
fn a_full_disk_behind_stdout_is_told() {
    if !Path::new("/dev/full").exists() {
        return skip("disasters::a_full_disk_behind_stdout_is_told", "there is no /dev/full");
    }
    let server = serve("");
    for format in ["", "--json", "--jsonl", "--quiet"] {
        let scratch = Scratch::new();
        let mut command =
            tcp(server.at()).args(RUN).args(format).arg("--save").arg(scratch.file("run.jsonl")).0;
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap();
        let out = command.stdout(Stdio::from(full)).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(1), "{format}: {err}");
        assert!(err.contains("No space left on device") && !err.contains("panicked"), "{format}: {err}");
        netcaliper("report").arg(scratch.file("run.jsonl")).run().exits(0);
    }
}

#[test]
fn a_reader_that_leaves_does_not_end_the_run() {
    let server = serve("");
    for format in ["", "--json", "--jsonl", "--status-csv -"] {
        let scratch = Scratch::new();
        let mut command =
            tcp(server.at()).args(RUN).args(format).arg("--save").arg(scratch.file("run.jsonl")).0;
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut first = String::new();
        let out = child.stdout.take().unwrap();
        if format == "--json" {
            drop(out); // it says nothing before the end
        } else {
            BufReader::new(out).read_line(&mut first).unwrap();
            assert!(!first.is_empty());
        }
        let output = child.wait_with_output().unwrap();
        let err = String::from_utf8_lossy(&output.stderr).into_owned();
        let done =
            crate::support::Done { name: format.to_owned(), code: output.status.code(), out: first, err };
        lives(&done);
        let saved = netcaliper("report").arg(scratch.file("run.jsonl")).outcome().good();
        assert!(number(&saved.near()["completed"]) > 0);
    }
    let done = server.end();
    lives(&done);
}

#[test]
fn a_server_whose_reader_leaves_goes_on() {
    let port = net::free_port();
    let mut command = netcaliper("serve").args(&format!("--port {port} -i 100ms")).0;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let mut first = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut first).unwrap();
    assert!(first.contains("listening"), "{first}");
    for _ in 0..2 {
        let line = tcp(format!("127.0.0.1:{port}")).args("-P 2 --iterations 1 --transfer 100001");
        let run = line.run();
        if run.code != Some(0) {
            let _ = child.kill();
            panic!("the server is gone: {}", run.tell());
        }
    }
    assert!(net::succeeds("kill", &format!("-INT {}", child.id())));
    let mut waited = 0;
    let status = loop {
        if let Some(status) = child.try_wait().unwrap() {
            break status;
        }
        waited += 1;
        assert!(waited < 600, "the server does not end");
        std::thread::sleep(std::time::Duration::from_millis(100));
    };
    assert!(status.code().is_some_and(|code| code != 101), "{status:?}");
}

#[test]
fn colours_on_a_terminal_can_be_turned_off() {
    if !net::installed("script") {
        return skip(
            "disasters::colours_on_a_terminal_can_be_turned_off",
            "the program `script` is not installed",
        );
    }
    let server = serve("");
    let on_terminal = |no_color: &str| {
        let run = format!("{} tcp {} {RUN}", crate::support::BIN, server.at());
        let mut command = Command::new("script");
        command.args(["-qec", &run, "/dev/null"]).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        if !no_color.is_empty() {
            command.env("NO_COLOR", no_color);
        }
        crate::support::Proc::spawn(command).wait().exits(0).prints(&["Run complete"]).out
    };
    assert!(on_terminal("").contains("\x1b["), "colours on a terminal");
    let plain = on_terminal("1");
    assert!(!plain.contains("\x1b[3") && !plain.contains("\x1b[1m"), "none with NO_COLOR: {plain}");
}
