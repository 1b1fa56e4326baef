//! The platform in virtual time behaves as an operating system does, as far as the engine can see.

use metrics::{Mono, SECOND};
use sim::{Link, Quirks, START, Sim, SimReactor, Socket};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, Mutex};
use transport::{
    Arena, Clock, Deed, Fault, Got, ListenerSocket, Mail, Net, Park, Platform, Reactor, Read, Ready,
    Receiver, Sender, Sent, SocketSettings, StreamSocket, Target, Task, Transmit, Trigger, Wake, Watch,
};

const US: u64 = 1_000;
const MS: u64 = 1_000_000;
const END: Mono = Mono(1_000 * SECOND);
const PORT: u16 = 7;

/// A thread whose steps are calls of a closure, with what the reactor reported.
struct Thread<F> {
    reactor: SimReactor,
    ready: Vec<Ready>,
    body: F,
}

impl<F: FnMut(&SimReactor, &[Ready]) -> Park + Send> Task<Sim> for Thread<F> {
    fn step(&mut self) -> Park {
        let ready = std::mem::take(&mut self.ready);
        (self.body)(&self.reactor, &ready)
    }
    fn reactor(&mut self) -> &mut SimReactor {
        &mut self.reactor
    }
    fn resume(&mut self, ready: io::Result<&mut Vec<Ready>>) {
        self.ready = std::mem::take(ready.unwrap());
    }
}

fn spawn(sim: &Sim, body: impl FnMut(&SimReactor, &[Ready]) -> Park + Send + 'static) {
    let reactor = sim.reactor().unwrap();
    sim.spawn("test", Thread { reactor, ready: Vec::new(), body }).unwrap();
}

struct Log<T>(Arc<Mutex<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Log(Arc::clone(&self.0))
    }
}

impl<T> Log<T> {
    fn new() -> Self {
        Log(Arc::default())
    }
    fn add(&self, what: T) {
        self.0.lock().unwrap().push(what);
    }
    fn take(&self) -> Vec<T> {
        std::mem::take(&mut self.0.lock().unwrap())
    }
}

fn ip(n: u8) -> IpAddr {
    [10, 0, 0, n].into()
}

fn at(n: u8) -> SocketAddr {
    (ip(n), PORT).into()
}

/// Two hosts, 1 ms apart.
fn hosts(seed: u64) -> (Sim, Sim) {
    let one = Sim::new(seed, ip(1));
    one.set_links(Link::new().delay(MS), Link::new().delay(MS));
    let other = one.process_at(ip(2));
    (one, other)
}

fn to(n: u8) -> Target {
    Target { to: at(n), from: None }
}

fn connect(sim: &Sim) -> Socket {
    sim.connect(&to(2), &SocketSettings::default()).unwrap().0
}

fn send(sim: &Sim, socket: &Socket, bytes: &[u8]) -> Sent {
    let mut arena = Arena::new(bytes.len());
    let mut burst = Transmit::new(&mut arena, bytes.len());
    burst.own(bytes.len()).copy_from_slice(bytes);
    let (mut none, clock) = ([], sim.clock());
    StreamSocket::net(socket, &mut none, &clock, false).send(&burst)
}

#[derive(Clone, Debug, PartialEq)]
enum Came {
    Nothing,
    Bytes(Vec<u8>),
    Fin,
    Fault(i32),
}

fn outcome(got: Got<'_>) -> Came {
    match got {
        Got::Nothing => Came::Nothing,
        Got::Received(received) => Came::Bytes(received.bytes.to_vec()),
        Got::Fin => Came::Fin,
        Got::Fault(fault) => Came::Fault(fault.errno),
    }
}

fn recv(sim: &Sim, socket: &Socket, most: u64) -> Came {
    let (mut buffer, clock) = ([0; 4_096], sim.clock());
    let mut net = StreamSocket::net(socket, &mut buffer, &clock, false);
    outcome(net.recv(Read::look(most)))
}

/// Accepts one connection and hands it to `then` with all that happens at it.
fn server(sim: &Sim, mut then: impl FnMut(&Sim, &Socket, &[Ready]) -> Park + Send + 'static) {
    let (sim, listener) = (sim.clone(), sim.listen(PORT).unwrap());
    let mut accepted: Option<Socket> = None;
    spawn(&sim.clone(), move |reactor, ready| {
        if accepted.is_none() {
            listener.watch(reactor, 1, Trigger::Level).unwrap();
            accepted = listener.accept().unwrap().map(|(socket, _)| socket);
            if let Some(socket) = &accepted {
                listener.forget(reactor).unwrap();
                socket.watch(reactor, 2, Trigger::Edges).unwrap();
            }
            return Park::Wait(None);
        }
        then(&sim, accepted.as_ref().unwrap(), ready)
    });
}

/// Connects, and hands the connection to `then` with all that happens at it.
fn client(sim: &Sim, mut then: impl FnMut(&Sim, &Socket, &[Ready]) -> Park + Send + 'static) {
    let here = sim.clone();
    let mut socket = None;
    spawn(sim, move |reactor, ready| {
        let Some(open) = &socket else {
            let fresh = connect(&here);
            fresh.watch(reactor, 1, Trigger::Edges).unwrap();
            socket = Some(fresh);
            return Park::Wait(None);
        };
        then(&here, open, ready)
    });
}

#[test]
fn a_connection_takes_a_round_trip_and_is_refused_where_none_listens() {
    for (listens, reached) in [(true, true), (false, true), (true, false)] {
        let (one, other) = hosts(1);
        if listens {
            server(&other, |_, _, _| Park::Wait(None));
        }
        if !reached {
            other.unplug();
        }
        let log = Log::new();
        let (here, told) = (one.clone(), log.clone());
        let (mut socket, mut begun) = (None, Mono(0));
        spawn(&one, move |reactor, _| {
            let now = here.clock().now();
            let Some(socket) = &socket else {
                begun = now;
                let fresh = connect(&here);
                fresh.watch(reactor, 1, Trigger::Edges).unwrap();
                assert_eq!(fresh.connected(), Ok(None));
                socket = Some(fresh);
                return Park::Wait(None);
            };
            told.add((now.since(begun), socket.connected().map(|path| path.unwrap().peer)));
            Park::Done
        });
        one.run(END);
        let (took, how) = log.take().pop().unwrap();
        match (listens, reached) {
            (true, true) => assert_eq!(how, Ok(at(2))),
            (false, _) => assert_eq!(how, Err(Fault { deed: Deed::Connect, errno: 111 })),
            (_, false) => assert_eq!(how, Err(Fault { deed: Deed::Connect, errno: 110 })),
        }
        let least = if reached { 2 * MS } else { 127 * SECOND };
        assert!((least..least + 300 * US).contains(&took), "{took}");
    }
}

#[test]
fn a_short_read_and_a_short_send_are_followed_by_an_edge() {
    let (one, other) = hosts(4);
    let quirks = Quirks { reads: (1, 3), sends: (1, 5), would_block: 0.2, ..Quirks::default() };
    one.set_quirks(quirks);
    other.set_quirks(quirks);
    let log = Log::new();
    let told = log.clone();
    server(&other, move |sim, socket, _| match recv(sim, socket, 100) {
        Came::Bytes(bytes) => {
            bytes.into_iter().for_each(|byte| told.add(byte));
            Park::Wait(None)
        }
        Came::Nothing => Park::Wait(None),
        _ => Park::Done,
    });
    let mut sent = 0;
    client(&one, move |sim, socket, ready| {
        if ready.iter().any(|ready| ready.writable) {
            sent += send(sim, socket, &vec![b'x'; 1_000 - sent]).bytes;
        }
        if sent == 1_000 { Park::Done } else { Park::Wait(None) }
    });
    one.run(END);
    assert_eq!(log.take().len(), 1_000);
}

#[test]
fn listeners_that_share_a_port_get_connections_by_their_addresses() {
    let (one, other) = hosts(5);
    let log = Log::new();
    for listener in 0..4 {
        let (socket, told) = (other.listen(PORT).unwrap(), log.clone());
        let mut open = Vec::new();
        spawn(&other, move |reactor, _| {
            socket.watch(reactor, 1, Trigger::Level).unwrap();
            if let Some((accepted, path)) = socket.accept().unwrap() {
                told.add((listener, path.peer.port()));
                open.push(accepted);
            }
            Park::Wait(None)
        });
    }
    let here = one.clone();
    let mut open = Vec::new();
    spawn(&one, move |_, _| {
        open.push(connect(&here));
        if open.len() == 200 { Park::Wait(None) } else { Park::Run }
    });
    one.run(END);
    let accepted = log.take();
    assert_eq!(accepted.len(), 200);
    let of = |n| accepted.iter().filter(|(listener, _)| *listener == n).count();
    assert!((0..4).all(|n| (25..75).contains(&of(n))), "{:?}", [of(0), of(1), of(2), of(3)]);
}

#[test]
fn without_descriptors_a_connection_waits_and_the_listener_stays_ready() {
    let (one, other) = hosts(6);
    other.set_quirks(Quirks { descriptors: 2, ..Quirks::default() });
    let (listener, log) = (other.listen(PORT).unwrap(), Log::new());
    let told = log.clone();
    let mut open = Vec::new();
    spawn(&other, move |reactor, ready| {
        listener.watch(reactor, 1, Trigger::Level).unwrap();
        if ready.is_empty() {
            return Park::Wait(None);
        }
        match listener.accept() {
            Ok(Some((socket, _))) => open.push(socket),
            Ok(None) => told.add(0),
            Err(fault) => {
                told.add(fault.errno);
                open.clear();
            }
        }
        Park::Wait(None)
    });
    let here = one.clone();
    let mut open = Vec::new();
    spawn(&one, move |_, _| {
        open.push(connect(&here));
        if open.len() == 3 { Park::Wait(None) } else { Park::Run }
    });
    one.run(END);
    assert_eq!(log.take(), [24, 24]);
}

#[test]
fn a_wake_shows_what_was_sent_before_it_in_order() {
    for seed in 0..50 {
        let (one, _) = hosts(seed);
        one.set_quirks(Quirks { threads: 3 * MS, ..Quirks::default() });
        let (sender, receiver) = one.channel::<u32>();
        let (mut got, log) = (0, Log::new());
        let told = log.clone();
        let reactor = one.reactor().unwrap();
        let waker = reactor.waker();
        let body = move |_: &SimReactor, _: &[Ready]| loop {
            match receiver.try_recv() {
                Mail::Message(n) => {
                    assert_eq!(n, got);
                    got += 1;
                }
                Mail::Empty => return Park::Wait(None),
                Mail::Closed => {
                    told.add(got);
                    return Park::Done;
                }
            }
        };
        one.spawn("reader", Thread { reactor, ready: Vec::new(), body }).unwrap();
        let mut sent = 0;
        let clock = one.clock();
        let mut sender = Some(sender);
        spawn(&one, move |_, _| {
            if sent == 30 {
                sender = None;
                waker.wake();
                return Park::Done;
            }
            for _ in 0..3 {
                sender.as_ref().unwrap().send(sent);
                sent += 1;
            }
            waker.wake();
            Park::Sleep(clock.now().plus(u64::from(sent) * 100 * US))
        });
        one.run(END);
        assert_eq!(log.take(), [30], "seed {seed}");
    }
}

#[test]
fn time_passes_in_calls_and_the_thread_furthest_behind_is_next() {
    let (one, _) = hosts(9);
    let log = Log::new();
    for thread in 0..3 {
        let (clock, told) = (one.clock(), log.clone());
        let mut steps = 0;
        spawn(&one, move |_, _| {
            // Some are busier than others.
            let calls = 1 + thread * 10;
            let now = (0..calls).map(|_| clock.now()).next_back().unwrap();
            told.add((now, thread));
            steps += 1;
            if steps == 1_000 { Park::Done } else { Park::Run }
        });
    }
    one.run(END);
    let steps = log.take();
    assert!(
        steps.windows(2).all(|pair| pair[0].0.since(pair[1].0) < US),
        "none runs ahead by more than a step"
    );
    let of = |n| steps.iter().take_while(|(_, thread)| *thread != n).count();
    assert!((0..3).map(of).max().unwrap() < 900);
}

fn traced(seed: u64) -> u64 {
    let (one, other) = hosts(seed);
    one.set_links(Link::new().delay(MS).jitter(MS).loss(0.1), Link::new());
    server(&other, |sim, socket, _| match recv(sim, socket, 100) {
        Came::Bytes(_) | Came::Nothing => Park::Wait(None),
        _ => Park::Done,
    });
    let here = one.clone();
    let (mut socket, mut sent) = (None, 0);
    spawn(&one, move |_, _| {
        let socket = socket.get_or_insert_with(|| connect(&here));
        sent += send(&here, socket, &[b'x'; 100]).bytes;
        if sent >= 10_000 { Park::Done } else { Park::Sleep(here.clock().now().plus(MS)) }
    });
    one.run(END);
    one.trace()
}

#[test]
fn a_seed_repeats_every_call_at_its_instant() {
    assert_eq!(traced(1), traced(1));
    assert_ne!(traced(1), traced(2));
}

#[test]
fn a_killed_process_leaves_its_connections_to_its_kernel() {
    let (one, other) = hosts(10);
    let log = Log::new();
    let told = log.clone();
    server(&other, |_, _, _| Park::Wait(None));
    client(&one, move |sim, socket, ready| {
        if !ready.iter().any(|ready| ready.hangup) {
            return Park::Wait(None);
        }
        told.add(recv(sim, socket, 1));
        Park::Done
    });
    one.run(START.plus(10 * MS));
    assert_eq!(log.take(), []);
    other.kill();
    one.run(END);
    assert_eq!(log.take(), [Came::Fin]);
}
