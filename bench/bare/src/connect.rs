//! Connections: connect, one byte there, one byte back, close. As few system calls as it takes:
//! before new connections are registered with the reactor, the core is offered to others, and the
//! connections are read. Where the other end shares the core, most are over by then.

use crate::args::Plan;
use crate::result::{self, Count};
use crate::{Outcome, on_workers};
use io::host::Reading;
use io::{Clock, Listener, Reactor, Stream};
use metrics::{Mono, SECOND};
use std::sync::mpsc::Sender;
use transport::{
    Arena, Got, ListenerSocket as _, Net, Read, Ready, StreamSocket as _, Target, Transmit, Trigger,
};

const LISTENER: u64 = u64::MAX - 1;
/// Connections accepted in a row before the others get their turn; as in the engine.
const AT_ONCE: usize = 64;
const ONE: &[u8; 1] = b"1";

/// Sends one byte; false when the socket does not take it yet.
fn send_one(stream: &Stream, arena: &mut Arena, clock: &Clock) -> Outcome<bool> {
    let mut burst = Transmit::new(arena, 1);
    burst.fixed(ONE);
    let wrote = stream.net(&mut [], clock, false).send(&burst);
    wrote.fault.map_or(Ok(wrote.bytes == 1), |fault| Err(format!("sending failed: {fault}")))
}

/// Serves until it is killed.
pub(crate) fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    let bind = |worker: usize| {
        let listener = Listener::bind(plan.addr, true, &plan.settings)
            .map_err(|fault| format!("cannot listen at {}: {fault}", plan.addr))?;
        if let Some(&core) = plan.cores.get(worker % plan.cores.len().max(1)) {
            listener.prefer_core(core);
        }
        Ok(listener)
    };
    let listeners = (0..plan.workers).map(bind).collect::<Outcome<Vec<_>>>()?;
    let _ = ready.map(|ready| ready.send(()));
    on_workers(plan, |worker| answer(&listeners[worker])).map(drop)
}

fn answer(listener: &Listener) -> Outcome<()> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let watching = |e| format!("cannot watch: {e}");
    reactor.watch(listener, LISTENER, Trigger::Level).map_err(watching)?;
    let mut links: Vec<Option<Stream>> = Vec::new();
    let mut free: Vec<usize> = Vec::new();
    let mut fresh: Vec<usize> = Vec::new();
    let mut events: Vec<Ready> = Vec::new();
    let mut arena = Arena::new(0);
    loop {
        reactor.wait(None, &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        for event in events.drain(..) {
            if event.key != LISTENER {
                let index = event.key as usize;
                if over(&links[index], &mut arena, &clock)? {
                    links[index] = None;
                    free.push(index);
                }
                continue;
            }
            for _ in 0..AT_ONCE {
                let Some((stream, _)) = listener.accept().map_err(|f| format!("cannot accept: {f}"))? else {
                    break;
                };
                let stream = Some(stream);
                // On one core the byte is mostly there already.
                if over(&stream, &mut arena, &clock)? {
                    continue;
                }
                let index = free.pop().unwrap_or(links.len());
                if index == links.len() {
                    links.push(None);
                }
                links[index] = stream;
                fresh.push(index);
            }
        }
        if !fresh.is_empty() {
            std::thread::yield_now();
        }
        for index in fresh.drain(..) {
            if over(&links[index], &mut arena, &clock)? {
                links[index] = None;
                free.push(index);
            } else if let Some(stream) = &links[index] {
                reactor.watch(stream, index as u64, Trigger::Edges).map_err(watching)?;
            }
        }
    }
}

/// Answers a byte if there is one; true when the peer has closed.
fn over(stream: &Option<Stream>, arena: &mut Arena, clock: &Clock) -> Outcome<bool> {
    let Some(stream) = stream else { return Ok(false) };
    let mut buffer = [0; 16];
    Ok(match stream.net(&mut buffer, clock, false).recv(Read::look(16)) {
        Got::Received(_) => {
            // One byte always fits; should the peer be gone, the next event says so.
            let _ = send_one(stream, arena, clock);
            false
        }
        Got::Nothing => false,
        Got::Fin | Got::Fault(_) => true,
    })
}

/// Connects until the time is up.
pub(crate) fn call(plan: &Plan) -> Outcome<()> {
    let before = Reading::now();
    let begun = Clock::new().now();
    let counts = on_workers(plan, |worker| {
        connect(plan, (plan.connections - worker).div_ceil(plan.workers), begun.plus(plan.length))
    })?;
    let seconds = Clock::new().now().since(begun).max(1) as f64 / SECOND as f64;
    result::print(
        plan,
        &Count { role: "client", n: counts.iter().sum(), lost: 0, seconds, times: None },
        &before,
    )
}

/// A connection under way.
struct Call {
    stream: Stream,
    asked: bool,
}

impl Call {
    /// Whether the answer is there.
    fn is_answered(&self, clock: &Clock) -> Outcome<bool> {
        match self.stream.net(&mut [0; 16], clock, false).recv(Read::look(16)) {
            Got::Received(_) => Ok(true),
            Got::Nothing => Ok(false),
            Got::Fin => Err("the server hung up".to_owned()),
            Got::Fault(fault) => Err(format!("receiving failed: {fault}")),
        }
    }

    fn close(self, rst: bool) {
        if rst {
            self.stream.abort();
        }
    }
}

fn connect(plan: &Plan, slots: usize, end: Mono) -> Outcome<u64> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let mut calls: Vec<Option<Call>> = (0..slots).map(|_| None).collect();
    let mut idle: Vec<usize> = (0..slots).collect();
    let mut events: Vec<Ready> = Vec::new();
    let mut arena = Arena::new(0);
    let target = Target { to: plan.addr, from: None };
    let mut fresh: Vec<usize> = Vec::new();
    let mut done = 0;
    while clock.now() < end {
        while let Some(index) = idle.pop() {
            let (stream, _) = Stream::connect(&target, &plan.settings)
                .map_err(|fault| format!("cannot connect to {}: {fault}", plan.addr))?;
            // On fast paths the handshake is over by now.
            let asked = send_one(&stream, &mut arena, &clock)?;
            calls[index] = Some(Call { stream, asked });
            fresh.push(index);
        }
        if !fresh.is_empty() {
            std::thread::yield_now();
        }
        for index in fresh.drain(..) {
            let Some(call) = &calls[index] else { continue };
            if !call.asked || !call.is_answered(&clock)? {
                reactor
                    .watch(&call.stream, index as u64, Trigger::Edges)
                    .map_err(|e| format!("cannot watch: {e}"))?;
            } else if let Some(call) = calls[index].take() {
                call.close(plan.rst);
                idle.push(index);
            }
        }
        done += idle.len() as u64;
        let until = if idle.is_empty() { end } else { clock.now() };
        reactor.wait(Some(until), &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        for event in events.drain(..) {
            let index = event.key as usize;
            let Some(call) = &mut calls[index] else { continue };
            if !call.asked && event.writable {
                call.asked = send_one(&call.stream, &mut arena, &clock)?;
            }
            if event.readable
                && call.is_answered(&clock)?
                && let Some(call) = calls[index].take()
            {
                call.close(plan.rst);
                idle.push(index);
                done += 1;
            }
        }
    }
    Ok(done)
}
