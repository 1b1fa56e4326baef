//! Datagrams as fast as they go, or at a rate: a sequence number and a time in each, nothing else.
//! With several sockets a worker sends a run of `--segments` datagrams on each in turn, as a server
//! of many streams does.

use crate::args::{Plan, Verify};
use crate::result::{self, Count};
use crate::{Outcome, on_workers};
use io::host::Reading;
use io::{Clock, Reactor, Udp, UdpMemory};
use metrics::{Dist, Mono, SECOND};
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::time::Duration;
use transport::{
    Arena, DatagramSocket as _, Got, Net as _, Read, Ready, SocketSettings, Target, Transmit, Trigger,
};

/// Bytes of the number and the time.
pub(crate) const HEADER: usize = 16;
/// And what is behind them.
const FILLER: u8 = b'x';
/// The receiver waits so long for the first datagram, ns.
const PATIENCE: u64 = 10 * SECOND;
/// And is done when so long nothing has come, ns.
const SILENCE: u64 = SECOND / 2;

/// A receiver to which so many bytes came between two waits sleeps for so long, as netcaliper's
/// does: to be woken for each burst costs as much as the burst.
const FLOOD: usize = 32 << 10;
const HOLD: Duration = Duration::from_micros(100);

/// What a worker moved, from its first datagram to its last.
#[derive(Default)]
struct Moved {
    n: u64,
    /// How many did not come, as far as the highest number of each socket tells.
    lost: u64,
    /// With another payload than was sent.
    damaged: u64,
    first: Mono,
    last: Mono,
    /// How late each call was, where there is a rate.
    late: Option<Dist>,
}

fn settings(plan: &Plan) -> SocketSettings {
    SocketSettings {
        sndbuf: plan.settings.sndbuf,
        rcvbuf: plan.settings.rcvbuf,
        gso: plan.segments > 1,
        gro: plan.segments > 1,
        stamps: false,
        ..SocketSettings::default()
    }
}

/// Where the sockets of worker `worker` of the server listen.
fn addresses(plan: &Plan, worker: usize) -> impl Iterator<Item = SocketAddr> + '_ {
    let first = worker * plan.sockets;
    (first..first + plan.sockets).map(|n| SocketAddr::new(plan.addr.ip(), plan.addr.port() + n as u16))
}

fn total(plan: &Plan, role: &'static str, moved: &[Moved], before: &Reading) -> Outcome<()> {
    let first = moved.iter().filter(|m| m.n > 0).map(|m| m.first).min().unwrap_or_default();
    let last = moved.iter().map(|m| m.last).max().unwrap_or_default();
    let seconds = last.since(first).max(1) as f64 / SECOND as f64;
    let n = moved.iter().map(|m| m.n).sum();
    let lost = moved.iter().map(|m| m.lost).sum();
    let damaged: u64 = moved.iter().map(|m| m.damaged).sum();
    if damaged > 0 {
        return Err(format!("{damaged} datagrams came damaged"));
    }
    let mut late: Option<Dist> = None;
    for one in moved.iter().filter_map(|m| m.late.as_ref()) {
        late.get_or_insert_default().merge(one);
    }
    let times = late.map(|late| ("late", late));
    result::print(plan, &Count { role, n, lost, seconds, times }, before)
}

/// Receives until nothing comes any more.
pub(crate) fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    let bind = |worker| {
        let one = |at: SocketAddr| {
            Udp::bind(at, false, &settings(plan)).map_err(|fault| format!("cannot bind {at}: {fault}"))
        };
        Ok(std::sync::Mutex::new(addresses(plan, worker).map(one).collect::<Outcome<Vec<_>>>()?))
    };
    let sockets = (0..plan.workers).map(bind).collect::<Outcome<Vec<_>>>()?;
    let _ = ready.map(|ready| ready.send(()));
    let before = Reading::now();
    let moved = on_workers(plan, |worker| {
        let mut taken = sockets[worker].lock().map_err(|_| "a worker has panicked")?;
        receive(plan, &mut taken)
    })?;
    total(plan, "server", &moved, &before)
}

/// A worker's receiving: its memory, and what it found.
struct Receiving {
    clock: Clock,
    memory: UdpMemory,
    moved: Moved,
    /// Expected payload of each datagram; empty when payload is not compared.
    payload: Vec<u8>,
}

impl Receiving {
    /// Receives from a socket until it is empty; `next` is one more than the highest number seen
    /// there. False when nothing came.
    fn drain(&mut self, udp: &mut Udp, next: &mut u64) -> Outcome<bool> {
        let mut some = false;
        loop {
            match udp.net(&mut self.memory, &self.clock, false).recv(Read::look(1 << 16)) {
                Got::Received(batch) => {
                    if self.moved.n == 0 {
                        self.moved.first = batch.at;
                    }
                    for datagram in batch.datagrams() {
                        self.moved.n += 1;
                        if let Some(number) = datagram.first_chunk() {
                            *next = (*next).max(u64::from_le_bytes(*number) + 1);
                        }
                        if !self.payload.is_empty() && datagram.get(HEADER..) != Some(&self.payload) {
                            self.moved.damaged += 1;
                        }
                    }
                    self.moved.last = batch.at;
                    some = true;
                }
                Got::Nothing | Got::Fin => return Ok(some),
                Got::Fault(fault) => return Err(format!("receiving failed: {fault}")),
            }
        }
    }
}

fn receive(plan: &Plan, sockets: &mut [Udp]) -> Outcome<Moved> {
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    for (key, udp) in (0..).zip(&*sockets) {
        reactor.watch(udp, key, Trigger::Edges).map_err(|e| format!("cannot watch: {e}"))?;
    }
    let compared = if plan.verify == Verify::Compare { plan.buffer - HEADER } else { 0 };
    let mut work = Receiving {
        clock: Clock::new(),
        memory: UdpMemory::default(),
        moved: Moved::default(),
        payload: vec![FILLER; compared],
    };
    let mut next = vec![0u64; sockets.len()];
    let mut events: Vec<Ready> = Vec::new();
    let mut until = work.clock.now().plus(PATIENCE);
    let _ = io::thread::precise_timers();
    loop {
        let asleep = if plan.spin { work.clock.now() } else { until };
        reactor.wait(Some(asleep), &work.clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        let (before, mut some) = (work.moved.n, false);
        for event in events.drain(..) {
            let at = event.key as usize;
            if let (Some(udp), Some(next)) = (sockets.get_mut(at), next.get_mut(at)) {
                some |= work.drain(udp, next)?;
            }
        }
        if some {
            until = work.moved.last.plus(SILENCE);
            if !plan.spin && (work.moved.n - before) as usize * plan.buffer >= FLOOD {
                std::thread::sleep(HOLD);
            }
        } else if work.clock.now() >= until {
            work.moved.lost = next.iter().sum::<u64>().saturating_sub(work.moved.n);
            return Ok(work.moved);
        }
    }
}

/// Sends until the time is up.
pub(crate) fn call(plan: &Plan) -> Outcome<()> {
    let before = Reading::now();
    let moved = on_workers(plan, |worker| send(plan, worker))?;
    total(plan, "client", &moved, &before)
}

/// A socket to send on, and the number of its next datagram.
struct Out {
    udp: Udp,
    next: u64,
}

fn send(plan: &Plan, worker: usize) -> Outcome<Moved> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let mut sockets = Vec::with_capacity(plan.sockets);
    for (key, to) in (0..).zip(addresses(plan, worker)) {
        let udp = Udp::connect(&Target { to, from: None }, &settings(plan))
            .map_err(|fault| format!("cannot connect to {to}: {fault}"))?;
        reactor.watch(&udp, key, Trigger::Edges).map_err(|e| format!("cannot watch: {e}"))?;
        sockets.push(Out { udp, next: 0 });
    }
    let segments = sockets.first().map_or(1, |out| plan.segments.min(out.udp.segments())).max(1);
    let bytes = segments * plan.buffer;
    let mut arena = Arena::new(bytes);
    let mut memory = UdpMemory::default();
    let mut events: Vec<Ready> = Vec::new();
    let first = clock.now();
    let end = first.plus(plan.length);
    let mut moved = Moved { first, late: plan.rate.map(|_| Dist::default()), ..Moved::default() };
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
            return Ok(moved);
        }
        let at = (calls % plan.sockets as u64) as usize;
        let Some(out) = sockets.get_mut(at) else { return Ok(moved) };
        let mut burst = Transmit::new(&mut arena, bytes);
        burst.segment = plan.buffer as u16;
        let template = burst.template(1, bytes, |fresh| fresh.fill(FILLER));
        for (number, datagram) in (out.next..).zip(template.chunks_mut(plan.buffer)) {
            datagram[..8].copy_from_slice(&number.to_le_bytes());
            datagram[8..HEADER].copy_from_slice(&now.0.to_le_bytes());
        }
        let wrote = out.udp.net(&mut memory, &clock, false).send(&burst);
        if let Some(fault) = wrote.fault {
            return Err(format!("sending failed: {fault}"));
        }
        if wrote.bytes == 0 {
            reactor.wait(Some(end), &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
            continue;
        }
        let sent = (wrote.bytes / plan.buffer) as u64;
        out.next += sent;
        moved.n += sent;
        calls += 1;
        if let Some(late) = &mut moved.late {
            late.record(now.since(due));
        }
        if plan.pause > 0 && calls.is_multiple_of((plan.pause / bytes).max(1) as u64) {
            std::thread::yield_now();
        }
    }
}
