//! Discard and the character generator: our client against the services of a real inetd, and our
//! server against bare sockets.

use crate::support::files::Scratch;
use crate::support::net::{Namespace, installed};
use crate::support::{Outcome, Proc, eventually, number, serve, skip, tcp};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream, UdpSocket};
use std::process::Command;
use std::time::Duration;

/// Lines of RFC 864, from the first.
fn lines(bytes: usize) -> Vec<u8> {
    let printable: Vec<u8> = (b' '..=b'~').collect();
    let line = |n: usize| printable.iter().cycle().skip(n % 95).take(72).chain(b"\r\n").copied();
    (0..).flat_map(line).take(bytes).collect()
}

/// So many connections brought so many bytes, and the remote end tells nothing.
fn received(outcome: &Outcome, connections: u64, bytes: u64) {
    let local = outcome.local();
    let got = (number(&local["completed"]), number(&local["traffic"]["rx_bytes"]));
    assert_eq!((outcome.done.code, got), (Some(0), (connections, bytes)), "{}", outcome.done.tell());
}

#[test]
fn the_services_of_inetd_are_measured() {
    const NAME: &str = "the_services_of_inetd_are_measured";
    if !installed("inetd") {
        return skip(NAME, "inetd is not installed");
    }
    let Some(space) = Namespace::for_test(NAME) else { return };
    let scratch = Scratch::new();
    let services = "chargen stream tcp nowait root internal\ndiscard stream tcp nowait root internal\n\
                    discard dgram udp wait root internal\n";
    let config = scratch.with("inetd.conf", services);
    let mut command = Command::new("ip");
    command.args(["netns", "exec", space.name(), "inetd", "-d"]).arg(&config);
    let mut inetd = Proc::spawn(&mut command);
    let asked = |words: &str| space.within(tcp("127.0.0.1").args(words));
    eventually("inetd listens", || {
        asked("--protocol discard --transfer 1 --iterations 1").run().code == Some(0)
    });
    let read = "--protocol chargen --reverse --verify data --transfer 1000003 --iterations 2";
    received(&asked(read).outcome(), 2, 2_000_006);
    let sent = asked("--protocol discard --transfer 1000003 --iterations 1 --json").run().exits(0);
    assert!(sent.out.contains("\"unconfirmed\""), "{}", sent.tell());
    assert!(inetd.is_running());
}

#[test]
fn both_services_beside_the_native_one() {
    let server = serve("-B 127.0.0.1 --legacy discard:0,chargen:0");
    let [chargen, discard] =
        ["chargen", "discard"].map(|name| (Ipv4Addr::LOCALHOST, server.proc.port_of(name)));
    let mut got = vec![0; 20_000];
    TcpStream::connect(chargen).unwrap().read_exact(&mut got).unwrap();
    assert!(got == lines(20_000));
    let mut sink = TcpStream::connect(discard).unwrap();
    sink.write_all(&[7; 10_000]).unwrap();
    drop(sink);
    server.proc.hears("discard: 10000 bytes from ");
    // An answer to a datagram is never longer than it was, nor than the 512 characters of the RFC.
    let asker = UdpSocket::bind("127.0.0.1:0").unwrap();
    asker.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
    for (sent, most) in [(1, 1), (500, 500), (1_000, 512)] {
        asker.send_to(&vec![0; sent], chargen).unwrap();
        let mut answer = [0; 2_000];
        let n = asker.recv(&mut answer).unwrap();
        let text = answer[..n].iter().all(|c| matches!(c, b' '..=b'~' | b'\r' | b'\n'));
        assert!(n == most && text, "{sent} {n}");
    }
    asker.send_to(&[0; 300], discard).unwrap();
    let read = format!(
        "--protocol chargen --reverse --verify data --transfer 300001 --iterations 3 -P 2 -p {}",
        chargen.1
    );
    received(&tcp("127.0.0.1").args(&read).outcome(), 6, 6 * 300_001);
    server.end().prints(&["discard: 1 connections, 10300 bytes received"]);
}
