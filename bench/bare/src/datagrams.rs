//! Datagrams as fast as they go, or at a rate: a sequence number and a time in each, nothing else.

use crate::args::Plan;
use crate::result::{self, Count};
use crate::{Outcome, on_workers};
use io::host::Reading;
use io::{Clock, Reactor, Ready, Udp, UdpMemory, UdpSettings};
use metrics::{Mono, SECOND};
use seam::{Arena, Burst, Got, Net as _, Read, Target};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// Bytes of the number and the time.
pub(crate) const HEADER: usize = 16;
/// The receiver waits so long for the first datagram, ns.
const PATIENCE: u64 = 10 * SECOND;
/// And is done when so long nothing has come, ns.
const SILENCE: u64 = SECOND / 2;

/// What a worker moved, from its first datagram to its last.
#[derive(Default)]
struct Moved {
    n: u64,
    /// One more than the highest number seen.
    next: u64,
    first: Mono,
    last: Mono,
}

fn settings(plan: &Plan) -> UdpSettings {
    UdpSettings {
        sndbuf: plan.settings.sndbuf,
        rcvbuf: plan.settings.rcvbuf,
        gso: plan.segments > 1,
        gro: plan.segments > 1,
        stamps: false,
        ..UdpSettings::default()
    }
}

/// Where worker `worker` of the server listens.
fn address(plan: &Plan, worker: usize) -> SocketAddr {
    SocketAddr::new(plan.addr.ip(), plan.addr.port() + worker as u16)
}

fn total(plan: &Plan, role: &'static str, moved: &[Moved], before: &Reading) -> Outcome<()> {
    let first = moved.iter().filter(|m| m.n > 0).map(|m| m.first).min().unwrap_or_default();
    let last = moved.iter().map(|m| m.last).max().unwrap_or_default();
    let seconds = last.since(first).max(1) as f64 / SECOND as f64;
    let n = moved.iter().map(|m| m.n).sum();
    let lost = moved.iter().map(|m| m.next.saturating_sub(m.n)).sum();
    result::print(plan, &Count { role, n, lost, seconds }, before)
}

/// Receives until nothing comes any more.
pub(crate) fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    let bind = |worker| {
        let at = address(plan, worker);
        let udp =
            Udp::bind(at, false, &settings(plan)).map_err(|fault| format!("cannot bind {at}: {fault}"))?;
        Ok(std::sync::Mutex::new(Some(udp)))
    };
    let sockets = (0..plan.workers).map(bind).collect::<Outcome<Vec<_>>>()?;
    let _ = ready.map(|ready| ready.send(()));
    let before = Reading::now();
    let moved = on_workers(plan, |worker| {
        let taken = sockets[worker].lock().ok().and_then(|mut socket| socket.take());
        receive(taken.ok_or("a socket was taken twice")?)
    })?;
    total(plan, "server", &moved, &before)
}

fn receive(mut udp: Udp) -> Outcome<Moved> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    reactor.watch(&udp, 0).map_err(|e| format!("cannot watch: {e}"))?;
    let mut memory = UdpMemory::new();
    let mut events: Vec<Ready> = Vec::new();
    let mut moved = Moved::default();
    let mut until = clock.now().plus(PATIENCE);
    let longest = Read::look(1 << 16);
    loop {
        let mut some = false;
        loop {
            match udp.net(&mut memory, &clock).recv(longest) {
                Got::Batch(batch) => {
                    if moved.n == 0 {
                        moved.first = batch.at;
                    }
                    for datagram in batch.datagrams() {
                        moved.n += 1;
                        if let Some(number) = datagram.first_chunk() {
                            moved.next = moved.next.max(u64::from_le_bytes(*number) + 1);
                        }
                    }
                    moved.last = batch.at;
                    some = true;
                }
                Got::Nothing => break,
                Got::Fin => return Ok(moved),
                Got::Fault(fault) => return Err(format!("receiving failed: {fault}")),
            }
        }
        if some {
            until = moved.last.plus(SILENCE);
        } else if clock.now() >= until {
            return Ok(moved);
        }
        reactor.wait(Some(until), &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
    }
}

/// Sends until the time is up.
pub(crate) fn call(plan: &Plan) -> Outcome<()> {
    let before = Reading::now();
    let moved = on_workers(plan, |worker| send(plan, address(plan, worker)))?;
    total(plan, "client", &moved, &before)
}

fn send(plan: &Plan, to: SocketAddr) -> Outcome<Moved> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let mut udp = Udp::connect(&Target { to, from: None }, &settings(plan))
        .map_err(|fault| format!("cannot connect to {to}: {fault}"))?;
    reactor.watch(&udp, 0).map_err(|e| format!("cannot watch: {e}"))?;
    let segments = plan.segments.min(udp.segments()).max(1);
    let bytes = segments * plan.buffer;
    let mut arena = Arena::new(bytes);
    let mut memory = UdpMemory::new();
    let mut events: Vec<Ready> = Vec::new();
    let first = clock.now();
    let end = first.plus(plan.length);
    let mut moved = Moved { first, ..Moved::default() };
    // Each worker has its part of the rate.
    let gap = plan.rate.map_or(0.0, |rate| 1e9 * (segments * plan.workers) as f64 / rate);
    let mut calls = 0u64;
    loop {
        let mut now = clock.now();
        let due = first.plus((calls as f64 * gap) as u64);
        while now < due.min(end) {
            std::hint::spin_loop();
            now = clock.now();
        }
        moved.last = now;
        if now >= end {
            moved.next = moved.n;
            return Ok(moved);
        }
        let mut burst = Burst::new(&mut arena, bytes);
        burst.segment = plan.buffer as u16;
        let template = burst.template(1, bytes, |fresh| fresh.fill(b'x'));
        for (number, datagram) in (moved.n..).zip(template.chunks_mut(plan.buffer)) {
            datagram[..8].copy_from_slice(&number.to_le_bytes());
            datagram[8..HEADER].copy_from_slice(&now.0.to_le_bytes());
        }
        let wrote = udp.net(&mut memory, &clock).send(&burst);
        if let Some(fault) = wrote.fault {
            return Err(format!("sending failed: {fault}"));
        }
        if wrote.bytes == 0 {
            reactor.wait(Some(end), &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
            continue;
        }
        moved.n += (wrote.bytes / plan.buffer) as u64;
        calls += 1;
    }
}
