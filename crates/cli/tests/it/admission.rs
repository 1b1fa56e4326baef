//! The real server beside peers that introduce themselves never, or from thousands of addresses,
//! with few descriptors.

use crate::support::{BIN, Line, Server, eventually, sized};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

/// A server that may have so many descriptors.
fn serve_with(descriptors: u32, words: &str) -> Server {
    let mut command = Command::new("sh");
    let script = format!("ulimit -n {descriptors} && exec {BIN} serve --port 0 --store off {words}");
    command.args(["-c", &script]).env_remove("NETCALIPER_PSK").env("NETCALIPER_STORE", "off");
    Server::start(Line(command))
}

/// A silent connection from an address of this host.
fn silent(from: u32, port: u16) -> Option<Socket> {
    let from = Ipv4Addr::from_bits(0x7f00_0000 + from);
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None).ok()?;
    socket.bind(&SocketAddr::from((from, 0)).into()).ok()?;
    socket.set_nonblocking(true).ok()?;
    // The connection comes to be later, or not at all.
    let _ = socket.connect(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)).into());
    Some(socket)
}

#[test]
fn junk_at_the_iperf3_port_costs_few_lines() {
    let server = Server::start(crate::support::netcaliper("serve").args("--port 0 --legacy iperf3:0"));
    let port = server.proc.port_of("iperf3");
    let framed = |json: &str| [&(json.len() as u32).to_be_bytes()[..], json.as_bytes()].concat();
    let asks =
        |more: &str| framed(&format!("{{\"tcp\":true,\"time\":1,\"parallel\":1,\"len\":131072{more}}}"));
    let junk = [
        framed("{{{"),
        framed("[]"),
        framed("{\"tcp\":true,\"time\":-5}"),
        vec![0xff; 64],
        asks(",\"congestion\":\"nosuch\""),
        asks(",\"server_affinity\":999"),
        [asks(""), vec![0x77]].concat(),
    ];
    for round in 0..sized(30, 100) {
        for words in &junk {
            let Ok(mut stream) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)) else { continue };
            let mut cookie = [b'c'; 37];
            (cookie[0], cookie[36]) = (b'a' + (round % 26) as u8, 0);
            let _ = stream.write_all(&cookie).and_then(|()| stream.write_all(words));
            // The server answers at least that it wants the parameters, or hangs up.
            let _ = stream.set_read_timeout(Some(Duration::from_millis(500)));
            let _ = std::io::Read::read(&mut stream, &mut [0; 8]);
        }
    }
    server.still_serves();
    let err = server.proc.err();
    assert!(err.contains("no JSON object"), "the first are told: {err}");
    assert!(err.lines().count() <= 60 && err.len() < 20_000, "{} lines: {err}", err.lines().count());
}

/// Ends a thread with its test, also with one that fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn silent_connections_from_fifty_addresses_keep_no_new_address_out() {
    let server = serve_with(2_000, "");
    let (port, over, opened) = (server.port, AtomicBool::new(false), AtomicU32::new(0));
    thread::scope(|scope| {
        let _end = Ends(&over);
        // This process may have as many descriptors as the tests that run beside it leave: 600 at
        // once, always renewed.
        scope.spawn(|| {
            let (mut open, mut count) = (VecDeque::new(), 0);
            while !over.load(Ordering::Relaxed) {
                open.extend(silent(0x0a00 + count % 50, port));
                count += 1;
                opened.store(count, Ordering::Relaxed);
                if open.len() >= 600 {
                    open.pop_front();
                }
                if count % 100 == 0 {
                    thread::sleep(Duration::from_millis(20));
                }
            }
        });
        let half: Vec<_> = (0..100)
            .filter_map(|_| {
                let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
                stream.write_all(b"\x8eNETCAL\n\x00\x02").ok()?;
                Some(stream)
            })
            .collect();
        eventually("more came than there is room for", || opened.load(Ordering::Relaxed) > 600);
        for _ in 0..3 {
            server.still_serves();
        }
        drop(half);
    });
    server.still_serves();
    let said = server.proc.err().matches("had to give way").count();
    assert!(said <= 3, "one line a minute, not one for each: {}", server.proc.err());
}

#[test]
fn connections_beyond_the_servers_open_files_are_not_granted() {
    let server = serve_with(300, "--workers 1");
    let holding =
        |words: &str| crate::support::connect(server.at()).args("--hold 500ms --json").args(words).spawn();
    // Two at once: what the first has is not granted to the second.
    let both = [holding("-P 2000"), holding("-P 2000")].map(crate::support::Proc::wait);
    let mut granted = Vec::new();
    for done in both {
        if done.code == Some(1) {
            assert!(done.out.contains("no open files left"), "{}", done.tell());
            continue;
        }
        let outcome = crate::support::Outcome::of(done).exits(0).status("complete");
        assert_eq!(outcome.errors(), (0, 0), "{}", outcome.tell());
        outcome.caveats("server-reduced");
        let change = &outcome.point()["sessions"][0]["accepted"]["changes"][0];
        assert!(change["why"].as_str().unwrap().contains("open files"), "{change}");
        granted.push(crate::support::number(&outcome.local()["opened"]));
    }
    let all: u64 = granted.iter().sum();
    assert!((150..300).contains(&all), "{granted:?}");
    // Of each kind that holds connections open at once.
    for (verb, words) in [
        ("tcp", "-P 2000 -t 500ms"),
        ("ping", "-P 2000 -n 2 --no-baseline"),
        ("ping", "-u -P 2000 -n 2 --no-baseline"),
    ] {
        let line = crate::support::as_it_is(verb).arg(server.at()).args(words);
        let outcome = line.outcome().exits(0).status("complete");
        assert_eq!(outcome.errors(), (0, 0), "{verb}: {}", outcome.tell());
        outcome.caveats("server-reduced");
    }
    // The short answer has those that were granted.
    let line = crate::support::as_it_is("connect").arg(server.at()).args("-P 2000 --hold 100ms -q");
    let done = line.run().exits(0).prints(&[" connections"]);
    assert!(!done.out.contains("2000 connections"), "{}", done.tell());
    server.still_serves();
}

#[test]
fn descriptors_that_run_out_are_told_at_once_and_the_server_goes_on() {
    let server = serve_with(130, "--workers 1");
    let crowd: Vec<_> = (0..200).filter_map(|n| silent(0x0b00 + n, server.port)).collect();
    assert_eq!(crowd.len(), 200);
    let line = server.proc.hears("cannot accept connections");
    assert!(line.contains("ulimit -n"), "{line}");
    assert!(server.proc.err().contains(&line), "on stderr");
    drop(crowd);
    server.still_serves();
    assert_eq!(server.proc.err().matches("cannot accept connections").count(), 1);
}

#[test]
fn datagrams_from_thousands_of_sources_leave_descriptors_for_the_others() {
    let server = serve_with(300, "--legacy stamp:0,udpmon:0");
    let at = |name: &str| server.proc.port_of(name);
    let data = udpmon::codec::encode(&udpmon::codec::Message::Data { frame: 1, sent: 1 }, 100);
    for (port, datagram) in [(at("stamp"), vec![0; 44]), (at("udpmon"), data)] {
        for n in 0..2_000u32 {
            let from = Ipv4Addr::from_bits(0x7f01_0001 + n % 250 * 256);
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.send_to(&datagram, (Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
    let open = || std::fs::read_dir(format!("/proc/{}/fd", server.proc.id())).map_or(60, Iterator::count);
    eventually("sources have sockets", || open() >= 60);
    assert!(open() < 225, "but a quarter of the descriptors at most: {}", open());
    server.still_serves();
    assert!(!server.proc.err().contains("no socket"), "{}", server.proc.err());
}
