//! Where results cannot go: full disks, closed pipes. The run goes on, and what can be shown is
//! shown.

use crate::support::files::Scratch;
use crate::support::{Line, Outcome, PATIENCE, eventually, net, netcaliper, number, serve, skip, tcp};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const RUN: &str = "-t 500ms -i 100ms -P 4 -b 2M --transfer 20001";

/// A file that takes nothing.
fn full() -> std::fs::File {
    std::fs::OpenOptions::new().write(true).open("/dev/full").unwrap()
}

#[test]
fn a_full_disk_is_told_once_and_costs_nothing_else() {
    if !Path::new("/dev/full").exists() {
        return skip("disasters::a_full_disk_is_told_once_and_costs_nothing_else", "there is no /dev/full");
    }
    let server = serve("--legacy iperf3:0");
    let done = tcp(server.at()).args(RUN).args("--save /dev/full").run().exits(1);
    let done = done.prints(&["Goodput", "Run complete"]).complains(&["/dev/full", "No space left on device"]);
    assert_eq!(done.err.matches("No space left").count(), 1, "said once: {}", done.tell());
    let done = tcp(server.at()).args(RUN).args("--json --save /dev/full").run();
    Outcome::of(done).exits(1).status("complete");
    server.still_serves();

    // The full file is stdout.
    let scratch = Scratch::new();
    let told_once = |mut command: Command, format: &str| {
        let out = command.stdout(full()).stderr(Stdio::piped()).output().unwrap();
        let err = String::from_utf8_lossy(&out.stderr);
        assert_eq!((out.status.code(), err.lines().count()), (Some(1), 1), "{format}: {err}");
        assert!(err.contains("No space left on device"), "{format}: {err}");
        err.into_owned()
    };
    for format in ["", "--json", "--jsonl", "--quiet"] {
        let journal = scratch.file(&format!("run{format}.jsonl"));
        told_once(tcp(server.at()).args(RUN).args(format).arg("--save").arg(&journal).0, format);
        netcaliper("report").arg(&journal).run().exits(0);
    }
    let words = format!("-c 127.0.0.1 -p {} -n 1M", server.proc.port_of("iperf3"));
    let err = told_once(netcaliper("iperf3").args(&words).0, "iperf3");
    assert!(err.contains("cannot write to stdout: No space left on device"), "{err}");
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
    // 300 connections, of which the journal has some 600 bytes each.
    let journal = tiny.0.file("run.jsonl");
    let line = tcp(server.at()).args("-n 1500K -i 50ms -P 4 -b 8M --transfer 5001 --status-csv");
    let line =
        line.arg(tiny.0.file("status.csv")).arg("--connection-csv").arg(tiny.0.file("connections.csv"));
    let done = line.arg("--save").arg(&journal).run().exits(1);
    let done = done.prints(&["Goodput", "Run complete"]).complains(&["run.jsonl", "No space left on device"]);
    assert!(done.err.lines().count() <= 4, "each file is told once: {}", done.tell());
    assert!(!journal.exists() && !tiny.0.file("connections.csv").exists(), "neither is whole");
    let kept = tiny.0.partial("run.jsonl").unwrap();
    assert!(done.err.contains(&format!("its beginning is in {}", kept.display())), "{}", done.tell());
    let report = netcaliper("report").arg(kept).run();
    assert_eq!(report.code, Some(4), "what was written can be read: {}", report.tell());
    assert_eq!(tiny.0.partial("connections.csv"), None, "nothing else is left");
}

/// The command line under a limit of 0 bytes on the size of files, at which the kernel also sends
/// SIGXFSZ.
fn without_room_in_files(line: Line) -> Line {
    let inner = line.0;
    let mut command = Command::new("sh");
    command.args(["-c", "ulimit -f 0; exec \"$@\"", "sh"]).arg(inner.get_program()).args(inner.get_args());
    for (name, value) in inner.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Line(command)
}

#[test]
fn a_limit_on_the_size_of_files_costs_the_file_and_nothing_else() {
    let (server, scratch) = (serve(""), Scratch::new());
    let line = tcp(server.at()).args(RUN).arg("--save").arg(scratch.file("run.jsonl"));
    let done = without_room_in_files(line).run().exits(1).prints(&["Goodput", "Run complete"]);
    done.complains(&["run.jsonl", "File too large"]).says_one_sentence();

    // The report itself is what does not fit.
    let full = std::fs::File::create(scratch.file("stdout")).unwrap();
    let mut line = without_room_in_files(tcp(server.at()).args(RUN));
    let out = line.0.stdout(full).stderr(Stdio::piped()).output().unwrap();
    let err = String::from_utf8_lossy(&out.stderr);
    assert_eq!((out.status.code(), err.lines().count()), (Some(1), 1), "{err}");
    assert!(err.contains("cannot write to stdout: File too large"), "{err}");

    // The program that the lab starts has the signal as it was.
    if net::is_root() {
        let line = netcaliper("lab").args("--quiet -- sh -c").arg("ulimit -f 0; echo x > file");
        let mut command = line.0;
        command.current_dir(scratch.path());
        let code = Line(command).run().code;
        assert!(matches!(code, Some(125 | 153)), "{code:?}: 125 is no lab here, 153 is SIGXFSZ");
    }
    server.still_serves();
}

#[test]
fn a_file_that_fails_stays_as_it_was() {
    let server = serve("");
    let short = "-t 300ms -i 100ms -P 2 -b 2M";
    for (verb, words, name) in [
        ("tcp", "--html", "run.html"),
        ("tcp", "--sweep connections=1,2 --sweep-csv", "sweep.csv"),
        ("tcp", "--connection-csv", "connections.csv"),
        ("tcp", "--metrics-file", "run.prom"),
        ("tcp", "--svg", "svg"),
        ("ping", "--hgrm", "run.hgrm"),
        ("ping", "--histogram-csv", "histogram.csv"),
        ("ping", "-u --samples", "samples.csv"),
        ("delay", "--samples", "samples.csv"),
        ("train", "--train-csv", "trains.csv"),
        ("train", "--samples", "samples.csv"),
        ("train", "--series", "series"),
    ] {
        let scratch = Scratch::new();
        let before =
            if matches!(name, "svg" | "series") { scratch.file("none") } else { scratch.with(name, "old") };
        let short = match verb {
            "train" => "-n 10 --repeat 3",
            "ping" => "-n 50",
            "delay" => "-t 300ms --pps 100",
            _ => short,
        };
        let line = netcaliper(verb).arg(server.at()).args(short).args(words).arg(scratch.file(name));
        let done = without_room_in_files(line)
            .run()
            .exits(1)
            .complains(&[name, "File too large"])
            .says_one_sentence();
        if before.exists() {
            assert_eq!(std::fs::read_to_string(&before).unwrap(), "old", "{}", done.tell());
        }
        for folder in [scratch.path().to_owned(), scratch.file(name)] {
            let all = std::fs::read_dir(folder).into_iter().flatten().map(|entry| entry.unwrap().path());
            let left: Vec<_> = all.filter(|path| path.is_file() && *path != before).collect();
            assert!(left.is_empty(), "{left:?}: {}", done.tell());
        }
    }
    // What is no file is written to as it is.
    let scratch = Scratch::new();
    let fifo = scratch.file("fifo");
    assert!(net::succeeds("mkfifo", &fifo.display().to_string()));
    let reader = std::thread::spawn({
        let fifo = fifo.clone();
        move || std::fs::read_to_string(fifo).unwrap()
    });
    let line = tcp(server.at()).args(short).arg("--save").arg(&fifo).args("--quiet --html /dev/stdout");
    let page = line.run().exits(0).out;
    assert!(page.contains("</html>") && page.contains("Run complete"), "{page}");
    assert!(reader.join().unwrap().contains("\"event\":\"end\""));
    assert!(!std::fs::metadata(&fifo).unwrap().is_file());
}

#[test]
fn a_reader_that_leaves_does_not_end_the_run() {
    let server = serve("");
    for format in ["", "--json", "--jsonl", "--status-csv -"] {
        let scratch = Scratch::new();
        let line = tcp(server.at()).args(RUN).args(format).arg("--save").arg(scratch.file("run.jsonl"));
        // A document is printed at the end.
        assert_eq!(read_once(line, format != "--json"), (Some(1), String::new()), "{format}");
        let saved = netcaliper("report").arg(scratch.file("run.jsonl")).outcome().good();
        assert!(number(&saved.local()["completed"]) > 0);
    }
    let done = server.end();
    assert!(!done.err.contains("panicked"), "{}", done.tell());
}

/// A command whose stdout is closed behind its first line, or at once: its exit code and what it
/// says on stderr.
fn read_once(line: Line, first_line: bool) -> (Option<i32>, String) {
    let mut command = line.0;
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let out = child.stdout.take().unwrap();
    if first_line {
        let mut first = String::new();
        BufReader::new(out).read_line(&mut first).unwrap();
        assert!(!first.is_empty());
    } else {
        drop(out);
    }
    let until = Instant::now() + PATIENCE;
    while child.try_wait().unwrap().is_none() && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    let _ = child.kill();
    let out = child.wait_with_output().unwrap();
    (out.status.code(), String::from_utf8_lossy(&out.stderr).into_owned())
}

#[test]
fn a_run_that_nothing_shows_any_more_ends() {
    let server = serve("");
    for format in ["", "--jsonl", "--status-csv -"] {
        let endless = tcp(server.at()).args("-t 1h -i 100ms -b 1M").args(format);
        assert_eq!(read_once(endless, true), (Some(1), String::new()), "{format}");
    }
    let run = tcp(server.at()).args("-t 300ms -i 100ms -b 1M --save -").run().exits(0).out;
    let scratch = Scratch::new();
    std::fs::write(scratch.file("run.jsonl"), run).unwrap();
    for words in ["--verbose", "--json", "--jsonl"] {
        let line = netcaliper("report").arg(scratch.file("run.jsonl")).args(words);
        // It may be written before the reader has gone.
        let (code, err) = read_once(line, true);
        assert!(matches!(code, Some(0 | 1)) && err.is_empty(), "{words}: {code:?} {err}");
    }
    server.still_serves();
}

#[test]
fn a_stderr_that_takes_nothing_changes_nothing() {
    if !Path::new("/dev/full").exists() {
        return skip("disasters::a_stderr_that_takes_nothing_changes_nothing", "there is no /dev/full");
    }
    let port = net::free_port();
    for words in [
        format!("tcp 127.0.0.1:{port}"),
        format!("udpmon_req -d 127.0.0.1 -u {port} -l 1 -zz"),
        format!("iperf3 -c 127.0.0.1 -p {port}"),
        format!("ntttcp -s 127.0.0.1 -p {port} --no-such-option"),
        "serve --listen nowhere".to_owned(),
    ] {
        let mut command =
            netcaliper(words.split(' ').next().unwrap()).args(words.split_once(' ').unwrap().1).0;
        let status = command.stdout(Stdio::null()).stderr(full()).status().unwrap();
        assert!(status.code().is_some_and(|code| code != 101 && code != 0), "{words}: {status:?}");
    }
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
    eventually("the server ends", || child.try_wait().unwrap().is_some());
    let status = child.wait().unwrap();
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
        let run = format!("{} tcp {} {RUN} -v", crate::support::BIN, server.at());
        let mut command = Command::new("script");
        command.args(["-qec", &run, "/dev/null"]).env("TERM", "xterm-256color").env_remove("NO_COLOR");
        if !no_color.is_empty() {
            command.env("NO_COLOR", no_color);
        }
        crate::support::Proc::spawn(&mut command).wait().exits(0).prints(&["Run complete"]).out
    };
    assert!(on_terminal("").contains("\x1b["), "colours on a terminal");
    let plain = on_terminal("1");
    assert!(!plain.contains("\x1b[3") && !plain.contains("\x1b[1m"), "none with NO_COLOR: {plain}");
}
