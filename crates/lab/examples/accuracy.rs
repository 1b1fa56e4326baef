//! Accuracy of the lab on this machine: datagrams at a steady rate in both directions, stamped by
//! the applications that send and receive them, against the lab's own account.
//! `docs/methods/lab.md` has the figures of one machine.
//!
//! ```console
//! # cargo run --release -p lab --example accuracy
//! ```
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a tool for developers, not part of the library"
)]

use io::Clock;
use lab::{Lab, Path, Setup, Side, Trace, Wait};
use metrics::{Dist, Mono};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const SECONDS: u64 = 3;
const DELAY_NS: u64 = 20_000_000;
const SIZE: usize = 200;

/// Sends at a rate through both sockets in turn, spinning towards each instant, and stamps each
/// datagram with its number and the time.
fn send(sockets: [&UdpSocket; 2], rate: u64) {
    let clock = Clock::new();
    let begin = clock.now();
    let mut bytes = [0; SIZE];
    for number in 0..rate * SECONDS {
        let due = begin.plus(number * 1_000_000_000 / rate);
        let remote = due.since(clock.now());
        if remote > 200_000 {
            std::thread::sleep(Duration::from_nanos(remote - 150_000));
        }
        while clock.now() < due {
            std::hint::spin_loop();
        }
        bytes[..8].copy_from_slice(&number.to_be_bytes());
        for socket in sockets {
            bytes[8..16].copy_from_slice(&clock.now().0.to_be_bytes());
            socket.send(&bytes).unwrap();
        }
    }
}

/// Receives until `stop` is set: number, and delay as the applications see it, ns.
fn receive(socket: &UdpSocket, stop: &AtomicBool) -> Vec<(u64, u64)> {
    let clock = Clock::new();
    socket.set_read_timeout(Some(Duration::from_millis(100))).unwrap();
    let (mut got, mut bytes) = (Vec::new(), [0; SIZE]);
    while !stop.load(Ordering::Relaxed) {
        if socket.recv(&mut bytes).is_ok() {
            let word = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
            got.push((word(0), clock.now().since(Mono(word(8)))));
        }
    }
    got
}

fn run(rate: u64, wait: Wait, core: Option<usize>) {
    let path = || Path { delay_ns: DELAY_NS, ..Path::default() };
    let trace = Trace::Keep(2_000_000);
    let lab =
        Lab::new(Setup { up: path(), down: path(), seed: 1, wait, core, trace, ..Setup::default() }).unwrap();
    let bind = |side: Side| lab.within(side, move || UdpSocket::bind((side.ipv4(), 0))).unwrap();
    let (client, server) = (bind(Side::Client), bind(Side::Server));
    client.connect(server.local_addr().unwrap()).unwrap();
    server.connect(client.local_addr().unwrap()).unwrap();
    let stop = AtomicBool::new(false);
    let usable = io::thread::available();
    if core.is_some() {
        // The threads below inherit it.
        let others: Vec<usize> = usable.iter().copied().filter(|c| Some(*c) != core).collect();
        io::thread::pin(&others).unwrap();
    }
    let (up, down) = std::thread::scope(|s| {
        let up = s.spawn(|| receive(&server, &stop));
        let down = s.spawn(|| receive(&client, &stop));
        send([&client, &server], rate);
        assert!(lab.settle(Duration::from_secs(5)));
        std::thread::sleep(Duration::from_millis(200));
        stop.store(true, Ordering::Relaxed);
        (up.join().unwrap(), down.join().unwrap())
    });
    io::thread::pin(&usable).unwrap();
    let ended = lab.finish().unwrap();
    for (name, way, got, dir) in
        [("up", lab::Way::Up, up, &ended.truth.up), ("down", lab::Way::Down, down, &ended.truth.down)]
    {
        let rows = ended.rows.iter().filter(|r| r.way == way);
        let applied: Vec<u64> = rows.filter_map(|row| row.delay_ns()).collect();
        let mut beyond = Dist::default();
        for (number, measured) in &got {
            if let Some(applied) = applied.get(*number as usize) {
                beyond.record(measured.saturating_sub(*applied));
            }
        }
        let us = |ns: u64| ns as f64 / 1e3;
        let show =
            |d: &metrics::DistSummary| format!("{:8.2} {:8.2} {:9.2}", us(d.p50), us(d.p99), us(d.max));
        println!(
            "{rate:6} {wait:?}{} {name:4} arrived {} got {} not read {} | late {} | unseen {} | beyond {}",
            if core.is_some() { " own core" } else { "" },
            dir.counts.arrived,
            got.len(),
            dir.device.not_read,
            dir.late_ns.as_ref().map(show).unwrap_or_default(),
            dir.unseen_ns.as_ref().map(show).unwrap_or_default(),
            beyond.summary().as_ref().map(show).unwrap_or_default(),
        );
    }
}

fn main() {
    println!(
        "µs: median, p99, max. late: of the lab; unseen: bound; beyond: what applications measured more than applied"
    );
    for rate in [1_000, 20_000] {
        for wait in [Wait::Hybrid, Wait::Spin, Wait::Sleep] {
            for core in [None, Some(1)] {
                run(rate, wait, core);
            }
        }
    }
}
