//! A question that fails before it has a result leaves in the form that was asked for, with its
//! exit code, and names its cause.

use crate::support::files::Scratch;
use crate::support::net::free_port;
use crate::support::{Done, Line, as_it_is, at_once, eventually, serve};
use serde_json::Value;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

const VERBS: [&str; 7] = ["tcp", "connect", "ping", "stream", "delay", "train", "load"];

#[track_caller]
fn is_document_of(done: &Done, verb: &str, why: &str) {
    let json = done.json();
    assert_eq!(
        (&json["status"], &json["begin"]["verb"]),
        (&"failed".into(), &verb.into()),
        "{}",
        done.tell()
    );
    assert!(json["reason"].as_str().is_some_and(|reason| reason.contains(why)), "{}", done.tell());
    assert!(done.err.contains(why), "{}", done.tell());
}

#[test]
fn a_question_that_cannot_begin_has_a_document() {
    at_once(&VERBS, |verb| {
        let done = as_it_is(verb).args("nosuch.invalid -J").run().exits(1);
        is_document_of(&done, verb, "nosuch.invalid");
        let done = as_it_is(verb).args("nosuch.invalid --json=summary").run().exits(1);
        assert_eq!(done.json()["status"], "failed", "{}", done.tell());
        let done = as_it_is(verb).args("nosuch.invalid --jsonl").run().exits(1);
        let events: Vec<Value> = done.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!((events.len(), &events[1]["status"]), (2, &"failed".into()), "{}", done.tell());
    });
    let done = as_it_is("tcp").args("127.0.0.1 -C nosuch -J").run().exits(2);
    is_document_of(&done, "tcp", "'nosuch'");
    let done = as_it_is("tcp").args("127.0.0.1 -M 20 -J").run().exits(2);
    is_document_of(&done, "tcp", "20 bytes");
    let done = as_it_is("ping").args("127.0.0.1 -B 192.0.2.9 -J").run().exits(2);
    is_document_of(&done, "ping", "-B 192.0.2.9");
    let server = serve("");
    let done = as_it_is("serve").args(&format!("--port {} -J", server.port)).run().exits(1);
    is_document_of(&done, "serve", "in use");
    // In the files that were asked for, and in the store where the run is to be saved.
    let scratch = Scratch::new();
    let file = |name: &str| scratch.file(name);
    let store = scratch.file("runs.sqlite");
    let line = as_it_is("tcp").arg("nosuch.invalid").arg("--store").arg(&store);
    let line = line.arg("--save").arg(file("run.jsonl")).arg("--html").arg(file("run.html"));
    let line = line.arg("--status-csv").arg(file("status.csv")).arg("--metrics-file").arg(file("run.prom"));
    let done = line.run().exits(1).says_one_sentence();
    assert_eq!(done.out, "");
    let report = as_it_is("report").arg(file("run.jsonl")).run().exits(1);
    report.complains(&["nosuch.invalid"]);
    assert!(scratch.so_far("run.html").contains("nosuch.invalid"));
    assert!(scratch.so_far("status.csv").starts_with("label,"));
    assert!(scratch.so_far("run.prom").contains("netcaliper"));
    let kept = as_it_is("history").arg("--store").arg(&store).arg("--json").run().exits(0).json();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 1, "{kept}");
    as_it_is("tcp").arg("nosuch.invalid").arg("--store").arg(&store).run().exits(1);
    let kept = as_it_is("history").arg("--store").arg(&store).arg("--json").run().exits(0).json();
    assert_eq!(kept["runs"].as_array().unwrap().len(), 1, "what is not to be saved is not: {kept}");
    // A command line that is refused replaces no file.
    let old = scratch.with("old.jsonl", "old");
    as_it_is("tcp").args("127.0.0.1 -M 20 --save").arg(&old).run().exits(2);
    assert_eq!(scratch.so_far("old.jsonl"), "old");
    // Without JSON the sentence is all.
    let done = as_it_is("tcp").arg("nosuch.invalid").run().exits(1).says_one_sentence();
    assert_eq!(done.out, "");
}

#[test]
fn a_local_port_that_is_taken_is_named_with_its_option() {
    let server = serve("--legacy iperf3:0");
    let (tcp, udp) = crate::support::net::both_kinds();
    let (taken, at) = (tcp.local_addr().unwrap().port(), server.at());
    for verb in ["tcp", "connect", "ping", "delay"] {
        let line = as_it_is(verb).args(&format!("{at} -B 127.0.0.1 --local-port {taken} -J"));
        is_document_of(
            &line.run().exits(1),
            verb,
            &format!("--local-port {taken}: this local port is in use"),
        );
    }
    let port = server.proc.port_of("iperf3");
    let done = iperf3(&format!("-c 127.0.0.1 -p {port} -B 127.0.0.1 --cport {taken} -J")).run().exits(1);
    let error = done.json()["error"].as_str().unwrap_or_default().to_owned();
    assert!(error.contains(&format!("--cport {taken}: this local port is in use")), "{}", done.tell());
    drop((tcp, udp));
}

fn iperf3(words: &str) -> Line {
    as_it_is("iperf3").args(words)
}

#[test]
fn every_refusal_of_iperf3_is_a_document() {
    let scratch = Scratch::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let closed = free_port();
    let here = format!("-c 127.0.0.1 -p {port}");
    let cases = [
        ("-c nosuch.invalid".to_owned(), "nosuch.invalid"),
        (format!("-c 127.0.0.1 -p {closed}"), "refused"),
        (format!("{here} -F /nonexistent"), "/nonexistent"),
        (format!("{here} --bind-dev nosuch"), "nosuch"),
        (format!("{here} -C nosuch"), "-C nosuch"),
        (format!("{here} -M 20"), "-M 20"),
        (format!("{here} -L 5"), "-L 5"),
        (format!("{here} -B 192.0.2.9"), "-B 192.0.2.9"),
        (format!("{here} -P 999"), "128"),
        (format!("{here} -S 999"), "type of service"),
        (format!("{here} --nosuch"), "--nosuch"),
        (format!("-s -B 127.0.0.1 -p {port}"), "in use"),
        ("-s -B 192.0.2.9".to_owned(), "192.0.2.9"),
        (format!("-s -B 127.0.0.1 -p {port} -D"), "in use"),
        ("-s -p 0 -D --pidfile /nonexistent/pid".to_owned(), "/nonexistent/pid"),
    ];
    let cases: Vec<(&str, &str)> = cases.iter().map(|(words, why)| (words.as_str(), *why)).collect();
    at_once(&cases, |(words, why)| {
        let done = iperf3(words).arg("-J").run().exits(1);
        let error = done.json()["error"].as_str().unwrap_or_default().to_owned();
        assert!(error.contains(why), "{}", done.tell());
        let done = iperf3(words).arg("--json-stream").run().exits(1);
        let first: Value = serde_json::from_str(done.out.lines().next().unwrap_or_default()).unwrap();
        assert_eq!(first["event"], "error", "{}", done.tell());
        assert!(first["data"].as_str().is_some_and(|error| error.contains(why)), "{}", done.tell());
        let done = iperf3(words).run().exits(1).complains(&[why]);
        assert_eq!(done.out, "", "{}", done.tell());
    });
    // Where the report was to go, and nowhere else.
    let log = scratch.file("log");
    let done = iperf3(&format!("{here} -C nosuch -J --logfile")).arg(&log).run().exits(1);
    let document: Value = serde_json::from_str(&std::fs::read_to_string(&log).unwrap()).unwrap();
    assert!(
        document["error"].as_str().unwrap().contains("-C nosuch") && done.out.is_empty(),
        "{}",
        done.tell()
    );
    iperf3("-c 127.0.0.1 -J --logfile /nonexistent/log").run().exits(1).complains(&["/nonexistent/log"]);
}

/// A port at which every connection is sent these bytes.
fn listener_of(bytes: &'static [u8]) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let _ = stream.write_all(bytes);
            std::thread::spawn(move || while matches!(stream.read(&mut [0; 4096]), Ok(1..)) {});
        }
    });
    port
}

/// A port at which ntttcp's receiver has its conversation: it says in four bytes that no test runs.
#[test]
fn a_port_of_ntttcp_is_named() {
    let port = listener_of(&[0, 0, 0, 0x0b]);
    for verb in ["tcp", "ping", "delay"] {
        let done = as_it_is(verb).arg(format!("127.0.0.1:{port}")).run().exits(1);
        let said = done.out.clone() + &done.err;
        assert!(said.contains("not a netcaliper server") && said.contains("ntttcp"), "{}", done.tell());
    }
    // What has the form of a message and is none.
    let port = listener_of(b"\0\0\0\x05hello");
    let done = as_it_is("tcp").arg(format!("127.0.0.1:{port}")).run().exits(1);
    assert!(
        (done.out.clone() + &done.err).contains("it answers, but it is not a netcaliper server"),
        "{}",
        done.tell()
    );
    let port = listener_of(&[122, 0, 0, 0]);
    let done = iperf3(&format!("-c 127.0.0.1 -p {port}")).run().exits(1);
    done.complains(&["it answers, but it is not an iperf3 server"]);
}

#[test]
fn ports_of_other_protocols_that_are_taken_are_named() {
    let taken = TcpListener::bind("0.0.0.0:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let line = as_it_is("serve").args(&format!("--port 0 --legacy udpmon:0,tcpmon:{port}"));
    line.run().exits(1).complains(&[&format!("--legacy tcpmon:{port}"), "in use"]);
    let port = crate::support::net::free_row(18, 1000);
    let line = as_it_is("serve").args(&format!("--port {port} --legacy ntttcp:{}", port + 1));
    line.run().exits(1).complains(&["--legacy ntttcp", &format!("conversation is at port {port}"), "native"]);
    eventually("nothing is left", || TcpListener::bind(("0.0.0.0", port)).is_ok());
}
