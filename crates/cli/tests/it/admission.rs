//! The real server beside peers that introduce themselves never, or from thousands of addresses, with few descriptors.

use crate::support::{BIN, Line, Server};
use socket2::{Domain, Socket, Type};
use std::collections::VecDeque;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, TcpStream, UdpSocket};
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};
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
fn silent_connections_from_fifty_addresses_keep_no_new_address_out() {
    let server = serve_with(2_000, "");
    let (port, over) = (server.port, AtomicBool::new(false));
    thread::scope(|scope| {
        // This process may have as many descriptors as the tests that run beside it leave: 600 at once, always renewed.
        let flood = scope.spawn(|| {
            let (mut open, mut count) = (VecDeque::new(), 0);
            while !over.load(Ordering::Relaxed) {
                open.extend(silent(0x0a00 + count % 50, port));
                count += 1;
                if open.len() >= 600 {
                    open.pop_front();
                }
                if count % 100 == 0 {
                    thread::sleep(Duration::from_millis(20));
                }
            }
            count
        });
        let half: Vec<_> = (0..100)
            .filter_map(|_| {
                let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).ok()?;
                stream.write_all(b"\x8eNETCAL\n\x00\x01").ok()?;
                Some(stream)
            })
            .collect();
        for _ in 0..3 {
            server.still_serves();
        }
        over.store(true, Ordering::Relaxed);
        assert!(flood.join().unwrap() > 600, "more came than there was room for");
        drop(half);
    });
    server.still_serves();
    let said = server.proc.err().matches("had to give way").count();
    assert!(said <= 3, "one line a minute, not one for each: {}", server.proc.err());
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
    let at = |name: &str| -> u16 {
        let line = server.proc.hears(&format!("{name} "));
        let row: Vec<&str> = line.split_whitespace().collect();
        let at = row.iter().position(|word| *word == name).unwrap();
        row[at + 1].rsplit(':').next().unwrap().parse().unwrap()
    };
    let data = wire::udpmon::codec::encode(&wire::udpmon::codec::Message::Data { frame: 1, sent: 1 }, 100);
    for (port, datagram) in [(at("stamp"), vec![0; 44]), (at("udpmon"), data)] {
        for n in 0..2_000u32 {
            let from = Ipv4Addr::from_bits(0x7f01_0001 + n % 250 * 256);
            let socket = UdpSocket::bind((from, 0)).unwrap();
            socket.send_to(&datagram, (Ipv4Addr::LOCALHOST, port)).unwrap();
        }
    }
    let open = std::fs::read_dir(format!("/proc/{}/fd", server.proc.id())).map(Iterator::count);
    if let Ok(open) = open {
        assert!(
            (60..225).contains(&open),
            "sources have sockets, but a quarter of the descriptors at most: {open}"
        );
    }
    server.still_serves();
    assert!(!server.proc.err().contains("no socket"), "{}", server.proc.err());
}
