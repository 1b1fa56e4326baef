//! Several servers of other protocols in one process (`serve --legacy`).

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a test may")]

mod support;

use std::net::{TcpListener, UdpSocket};
use std::process::Command;
use std::time::Duration;
use support::{BIN, Proc, netcaliper, serve};

/// Where the table says that a protocol is.
fn port(server: &Proc, name: &str) -> String {
    let line = server.hears(&format!("{name} "));
    let row: Vec<&str> = line.split_whitespace().collect();
    let at = row.iter().position(|word| *word == name).unwrap();
    row[at + 1].rsplit(':').next().unwrap().to_owned()
}

#[test]
fn several_protocols_and_a_table() {
    let server = serve(
        "--legacy iperf3:0,echo:0,stamp:0 --legacy ttcp:0,ctstraffic:0,udpmon:0,bwdelaytester:0,tcpmon:0",
    );
    for column in ["listens at", "over", "serves"] {
        assert!(server.proc.hears("protocol ").contains(column), "{column}");
    }
    let at = |name| port(&server.proc, name);
    // All are spoken to while the others are there.
    let run = |words: &[&str]| {
        let mut command = Command::new(BIN);
        command.args(words);
        let done = Proc::spawn(command).wait();
        assert_eq!(done.code, Some(0), "{words:?}: {}", done.tell());
    };
    run(&["iperf3", "-c", "127.0.0.1", "-p", &at("iperf3"), "-n", "64K"]);
    run(&["iperf3", "-c", "127.0.0.1", "-p", &at("iperf3"), "-u", "-k", "10", "-l", "500"]);
    run(&["ping", "127.0.0.1", "--protocol", "echo", "-p", &at("echo"), "-n", "5", "-u"]);
    run(&["ping", "127.0.0.1", "--protocol", "stamp", "-p", &at("stamp"), "-n", "5"]);
    let port = format!("-Port:{}", at("ctstraffic"));
    let words =
        ["ctstraffic", "-Target:127.0.0.1", &port, "-Connections:1", "-Iterations:1", "-ConsoleVerbosity:1"];
    run(&words);
    let probe = UdpSocket::bind("127.0.0.1:0").unwrap();
    probe.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    probe.send_to(b"word", format!("127.0.0.1:{}", at("echo"))).unwrap();
    let mut word = [0; 8];
    assert_eq!(probe.recv(&mut word).unwrap(), 4);
    server.still_serves();
    server.end();
}

#[test]
fn what_cannot_be_had_is_in_the_table_or_ends_it() {
    // Somebody else has this port: by name it must be had.
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = taken.local_addr().unwrap().port();
    let words = format!("-B 127.0.0.1 --port 0 --legacy echo:0,iperf3:{at}");
    netcaliper("serve").args(&words).run().exits(1).complains(&[&at.to_string()]);
    netcaliper("serve").args("--legacy native").run().exits(2).complains(&["speaks anyway"]);
    // With all, what cannot be had is told, and the rest is there: of ntttcp's ports ttcp has one.
    let proc = netcaliper("serve").args("-B 127.0.0.1 --port 0 --legacy all").spawn();
    let row = proc.hears("ntttcp ");
    assert!(row.contains("refused"), "{row}");
    assert!(proc.hears("native ").contains("127.0.0.1:"), "{}", proc.out());
    proc.signal("INT");
    assert_eq!(proc.wait().code, Some(0));
}
