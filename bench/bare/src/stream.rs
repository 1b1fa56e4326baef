//! Bytes from client to server: nonblocking sockets, one send or receive a turn, as in the engine.

use crate::args::{Plan, Verify};
use crate::result::{self, Count};
use crate::{Outcome, on_workers};
use common::payload::Source;
use io::host::Reading;
use io::{Clock, Listener, Reactor, Stream};
use metrics::{Mono, SECOND};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use transport::{
    Arena, Got, ListenerSocket as _, Net, Read, Ready, StreamSocket as _, Target, Transmit, Trigger,
};

/// The reactor is asked at least this often while something is ready, ns; as in the engine.
const LOOK_AFTER: u64 = 100_000;

/// A connection.
struct Link {
    stream: Stream,
    offset: u64,
    queued: bool,
    /// The peer has closed: end of stream is to be read, even after a short read.
    hung_up: bool,
}

impl Link {
    fn new(stream: Stream) -> Self {
        Link { stream, offset: 0, queued: false, hung_up: false }
    }
}

/// What a worker moved, from its first byte to its last.
struct Moved {
    bytes: u64,
    first: Mono,
    last: Mono,
}

/// Connections of worker `worker`: the k-th connection belongs to worker k mod workers.
fn share(plan: &Plan, worker: usize) -> usize {
    (plan.connections - worker).div_ceil(plan.workers)
}

/// Where worker `worker` of the server listens.
fn address(plan: &Plan, worker: usize) -> SocketAddr {
    SocketAddr::new(plan.addr.ip(), plan.addr.port() + worker as u16)
}

fn total(plan: &Plan, role: &'static str, moved: &[Moved], before: &Reading) -> Outcome<()> {
    let first = moved.iter().map(|m| m.first).min().unwrap_or_default();
    let last = moved.iter().map(|m| m.last).max().unwrap_or_default();
    let seconds = last.since(first).max(1) as f64 / SECOND as f64;
    let n = moved.iter().map(|m| m.bytes).sum();
    result::print(plan, &Count { role, n, lost: 0, seconds, times: None }, before)
}

/// Receives until every connection has ended.
pub(crate) fn serve(plan: &Plan, ready: Option<Sender<()>>) -> Outcome<()> {
    let bind = |worker| {
        let at = address(plan, worker);
        Listener::bind(at, false, &plan.settings).map_err(|fault| format!("cannot listen at {at}: {fault}"))
    };
    let listeners = (0..plan.workers).map(bind).collect::<Outcome<Vec<_>>>()?;
    let _ = ready.map(|ready| ready.send(()));
    let before = Reading::now();
    let moved = on_workers(plan, |worker| receive(plan, &listeners[worker], share(plan, worker)))?;
    total(plan, "server", &moved, &before)
}

const LISTENER: u64 = u64::MAX - 1;

fn receive(plan: &Plan, listener: &Listener, expected: usize) -> Outcome<Moved> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let watching = |e| format!("cannot watch: {e}");
    reactor.watch(listener, LISTENER, Trigger::Level).map_err(watching)?;
    let mut links: Vec<Option<Link>> = Vec::new();
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut events: Vec<Ready> = Vec::new();
    let mut buffer = vec![0; plan.buffer];
    let mut moved = Moved { bytes: 0, first: Mono(u64::MAX), last: Mono(0) };
    let (mut ended, mut looked) = (0, Mono(0));
    let how = if plan.verify == Verify::Discard { Read::skip } else { Read::look };
    let how = how(plan.buffer as u64);
    while ended < expected {
        for _ in 0..queue.len() {
            let Some(index) = queue.pop_front() else { break };
            let Some(link) = &mut links[index] else { continue };
            link.queued = false;
            match link.stream.net(&mut buffer, &clock, false).recv(how) {
                Got::Received(batch) => {
                    if plan.verify == Verify::Compare {
                        let checked = Source::Pattern.check(link.offset, batch.bytes);
                        checked.map_err(|violation| format!("the data is wrong: {violation:?}"))?;
                    }
                    link.offset += batch.len as u64;
                    moved.bytes += batch.len as u64;
                    moved.first = moved.first.min(batch.at);
                    moved.last = batch.at;
                    if batch.len == plan.buffer || link.hung_up {
                        link.queued = true;
                        queue.push_back(index);
                    }
                }
                Got::Nothing => {}
                Got::Fin => {
                    ended += 1;
                    links[index] = None;
                }
                Got::Fault(fault) => return Err(format!("receiving failed: {fault}")),
            }
        }
        let until = if queue.is_empty() { None } else { Some(Mono(0)) };
        if until.is_some() && moved.last.since(looked) < LOOK_AFTER || ended == expected {
            continue;
        }
        reactor.wait(until, &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        looked = moved.last;
        for event in events.drain(..) {
            if event.key == LISTENER {
                while let Some((stream, _)) = listener.accept().map_err(|f| format!("cannot accept: {f}"))? {
                    reactor.watch(&stream, links.len() as u64, Trigger::Edges).map_err(watching)?;
                    links.push(Some(Link::new(stream)));
                }
                if links.len() >= expected {
                    reactor.forget(listener).map_err(watching)?;
                }
            } else if let Some(Some(link)) = links.get_mut(event.key as usize) {
                link.hung_up |= event.hangup;
                if (event.readable || event.hangup) && !link.queued {
                    link.queued = true;
                    queue.push_back(event.key as usize);
                }
            }
        }
    }
    Ok(moved)
}

/// Sends until the time is up.
pub(crate) fn call(plan: &Plan) -> Outcome<()> {
    let before = Reading::now();
    let moved = on_workers(plan, |worker| send(plan, address(plan, worker), share(plan, worker)))?;
    total(plan, "client", &moved, &before)
}

fn send(plan: &Plan, to: SocketAddr, connections: usize) -> Outcome<Moved> {
    let clock = Clock::new();
    let mut reactor = Reactor::new().map_err(|e| format!("no reactor: {e}"))?;
    let mut arena = Arena::new(0);
    let mut links = Vec::new();
    let mut queue: VecDeque<usize> = VecDeque::new();
    let mut events: Vec<Ready> = Vec::new();
    for index in 0..connections {
        let (stream, _) = Stream::connect(&Target { to, from: None }, &plan.settings)
            .map_err(|fault| format!("cannot connect to {to}: {fault}"))?;
        reactor.watch(&stream, index as u64, Trigger::Edges).map_err(|e| format!("cannot watch: {e}"))?;
        links.push(Link::new(stream));
    }
    let first = clock.now();
    let end = first.plus(plan.length);
    let (mut now, mut looked) = (first, Mono(0));
    while now < end {
        for _ in 0..queue.len() {
            let Some(index) = queue.pop_front() else { break };
            let link = &mut links[index];
            link.queued = false;
            let mut burst = Transmit::new(&mut arena, plan.buffer);
            Source::Pattern.offer(link.offset, plan.buffer, &mut burst);
            let wrote = link.stream.net(&mut [], &clock, false).send(&burst);
            if let Some(fault) = wrote.fault {
                return Err(format!("sending failed: {fault}"));
            }
            link.offset += wrote.bytes as u64;
            if wrote.bytes == plan.buffer {
                link.queued = true;
                queue.push_back(index);
            }
        }
        now = clock.now();
        if !queue.is_empty() && now.since(looked) < LOOK_AFTER {
            continue;
        }
        let until = if queue.is_empty() { end } else { now };
        reactor.wait(Some(until), &clock, &mut events).map_err(|e| format!("waiting failed: {e}"))?;
        now = clock.now();
        looked = now;
        for event in events.drain(..) {
            let index = event.key as usize;
            if event.writable && !links[index].queued {
                links[index].queued = true;
                queue.push_back(index);
            }
        }
    }
    Ok(Moved { bytes: links.iter().map(|link| link.offset).sum(), first, last: now })
}
