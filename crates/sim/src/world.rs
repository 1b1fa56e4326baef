//! What all simulated machines share: time, events under way, threads, sockets.

use super::START;
use super::datagram::{Datagram, Lanes};
use super::link::Link;
use super::measured::Loads;
use super::platform::Sim;
use super::quirks::Quirks;
use super::socket::{Conn, Sock};
use metrics::Mono;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use transport::{Defect, Held, Ready, Rng, Task};

/// A call to the platform, by what it costs.
#[derive(Clone, Copy, Debug)]
pub(super) enum Call {
    Step,
    Clock,
    Mail,
    Option,
    Watch,
    Wait,
    Yield,
    Wake,
    Receive,
    Send,
    Accept,
    Open,
    Connect,
    Spawn,
}

/// What each call takes on a slow day, ns, in the order of [`Call`]; a world is between that and
/// half of it.
const COSTS: [u64; 14] = [150, 30, 100, 250, 300, 600, 700, 900, 1_500, 2_000, 2_500, 2_000, 8_000, 20_000];
/// Bytes that a send or receive copies in a nanosecond.
const COPIED: u64 = 8;
/// Steps of a thread in a row that neither wait nor move a byte: more are a loop without an end.
const PATIENCE: u32 = 3_000_000;
/// Events that one wait takes, as the real reactor.
const EVENTS: usize = 512;

/// Something that the network or a kernel does at an instant.
pub(super) enum Event {
    /// A socket may have become ready.
    Poke(u64),
    /// The same for one end of a connection.
    PokeEnd(u64, usize),
    /// A waker's ring reaches a reactor.
    Ring(usize),
    /// A connection request reaches its destination.
    Request(u64),
    /// Its answer comes back: the listener that has it, or the error.
    Answer(u64, Result<u64, i32>),
    /// The opener's confirmation reaches the listener.
    Confirm(u64, u64),
    /// A connection's link is cut by the clock.
    Cut(u64),
    /// One end of a connection has asked in vain whether the other is there.
    KeptAlive(u64, usize),
    /// A datagram arrives; the lanes that it came by, and which of them.
    Datagram(usize, usize, Datagram),
    /// An ICMP message reaches the socket whose datagram found no receiver.
    Unreachable(u64),
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Parked {
    Run,
    /// A reactor, until an instant.
    Wait(usize, Option<Mono>),
    Done,
}

pub(super) struct Thread {
    pub(super) host: usize,
    pub(super) process: usize,
    pub(super) name: String,
    /// Absent during a step.
    pub(super) task: Option<Box<dyn Task<Sim> + Send>>,
    pub(super) now: Mono,
    pub(super) parked: Parked,
    /// When it goes on, as the key in the queue.
    run: Option<(Mono, u64)>,
    /// Steps in a row without effect.
    idle: u32,
    /// What it kept after its last step.
    held: Held,
}

/// A step that a thread is to take.
pub(super) struct Turn {
    pub(super) thread: usize,
    pub(super) before: Option<usize>,
    pub(super) ready: Option<Vec<Ready>>,
    pub(super) task: Option<Box<dyn Task<Sim> + Send>>,
}

pub(super) struct Host {
    pub(super) ip: IpAddr,
    pub(super) quirks: Quirks,
    pub(super) plugged: bool,
    pub(super) next_port: u16,
    pub(super) sockets: usize,
    /// Datagrams dropped for a wrong checksum.
    pub(super) spoilt: u64,
    /// Datagrams dropped for want of room in a socket.
    pub(super) overflowed: u64,
}

#[derive(Default)]
pub(super) struct ReactorState {
    pub(super) waiter: Option<usize>,
    pub(super) ready: VecDeque<u64>,
    /// Rings that were not asked about, and when those reach a thread that waits which no wait has
    /// ended for.
    pub(super) rung: Vec<Mono>,
    pub(super) bells: Vec<Mono>,
}

/// Everything there is, but for the tasks' own state.
pub(super) struct World {
    pub(super) now: Mono,
    pub(super) rng: Rng,
    costs: [u64; COSTS.len()],
    /// What the choice among sockets of one port depends on.
    pub(super) salt: u64,
    events: BTreeMap<(Mono, u64), Event>,
    runs: BTreeMap<(Mono, u64), usize>,
    serial: u64,
    pub(super) threads: Vec<Thread>,
    /// How often a thread has ended.
    pub(super) ended: usize,
    pub(super) current: Option<usize>,
    pub(super) hosts: Vec<Host>,
    /// Hosts by address.
    addresses: BTreeMap<IpAddr, usize>,
    pub(super) processes: usize,
    pub(super) loads: BTreeMap<usize, Loads>,
    /// Messages that the threads of each process have sent each other.
    pub(super) sent: BTreeMap<usize, u64>,
    /// How often sockets of each host were registered with a reactor.
    pub(super) registered: BTreeMap<usize, u64>,
    pub(super) reactors: Vec<ReactorState>,
    pub(super) socks: BTreeMap<u64, Sock>,
    /// The last number given to a socket, and to a connection.
    pub(super) sock_serial: u64,
    pub(super) conn_serial: u64,
    pub(super) conns: BTreeMap<u64, Conn>,
    pub(super) lanes: Vec<Lanes>,
    /// Lanes by the addresses that opened them.
    pub(super) paths: BTreeMap<(SocketAddr, SocketAddr), usize>,
    /// Connected UDP sockets by local address and peer.
    pub(super) connected: BTreeMap<(SocketAddr, SocketAddr), u64>,
    /// Listeners and bound UDP sockets by host and port.
    pub(super) listening: BTreeMap<(usize, u16), Vec<u64>>,
    pub(super) bound: BTreeMap<(usize, u16), Vec<u64>>,
    /// UDP sockets between their bind and their connect: host, port, from and until when.
    pub(super) unconnected: Vec<(usize, u16, Mono, Mono)>,
    /// Conditions of new connections, and of new pairs of UDP addresses where they differ.
    pub(super) links: (Link, Link),
    pub(super) datagram_links: Option<(Link, Link)>,
    /// Connections are up at once, for tests that count time from then.
    pub(super) at_once: bool,
    /// All calls so far, hashed.
    pub(super) trace: u64,
    /// The mistake that the engine makes.
    pub(super) defect: Option<Defect>,
    /// Bytes that peers without a socket of their own got from bound UDP sockets, less the bytes
    /// that they sent: by both addresses.
    pub(super) unproven: BTreeMap<(SocketAddr, SocketAddr), i64>,
}

impl World {
    pub(super) fn new(seed: u64) -> Self {
        let mut rng = Rng::new(seed);
        World {
            now: START,
            costs: COSTS.map(|cost| rng.between(cost / 2, cost)),
            salt: rng.next(),
            rng,
            events: BTreeMap::new(),
            runs: BTreeMap::new(),
            serial: 0,
            threads: Vec::new(),
            ended: 0,
            current: None,
            hosts: Vec::new(),
            addresses: BTreeMap::new(),
            processes: 0,
            loads: BTreeMap::new(),
            sent: BTreeMap::new(),
            registered: BTreeMap::new(),
            reactors: Vec::new(),
            socks: BTreeMap::new(),
            sock_serial: 0,
            conn_serial: 0,
            conns: BTreeMap::new(),
            lanes: Vec::new(),
            paths: BTreeMap::new(),
            connected: BTreeMap::new(),
            listening: BTreeMap::new(),
            bound: BTreeMap::new(),
            unconnected: Vec::new(),
            links: (Link::new(), Link::new()),
            datagram_links: None,
            at_once: false,
            trace: 0,
            defect: None,
            unproven: BTreeMap::new(),
        }
    }

    /// The host with this address, made when there is none.
    pub(super) fn host(&mut self, ip: IpAddr) -> usize {
        self.find(ip).unwrap_or_else(|| {
            let (quirks, next_port) = (Quirks::default(), 40_000);
            self.hosts.push(Host {
                ip,
                quirks,
                plugged: true,
                next_port,
                sockets: 0,
                spoilt: 0,
                overflowed: 0,
            });
            self.addresses.insert(ip, self.hosts.len() - 1);
            self.hosts.len() - 1
        })
    }

    pub(super) fn find(&self, ip: IpAddr) -> Option<usize> {
        self.addresses.get(&ip).copied()
    }

    // Time
    // ------------------------------------------------------------------------------------------------------------

    /// The time of the thread that steps.
    pub(super) fn time(&self) -> Mono {
        self.current.map_or(self.now, |thread| self.threads[thread].now)
    }

    /// Charges the stepping thread for a call; the time after it.
    pub(super) fn charge(&mut self, call: Call, bytes: usize) -> Mono {
        let Some(current) = self.current else { return self.now };
        let thread = &mut self.threads[current];
        let Quirks { slowness, kept, .. } = self.hosts[thread.host].quirks;
        let others = if matches!(call, Call::Yield) { kept } else { 0 };
        thread.now = thread.now.plus(slowness * (self.costs[call as usize] + bytes as u64 / COPIED) + others);
        let said = thread.now.0 ^ (current as u64) << 48 ^ (call as u64) << 56;
        self.trace = (self.trace.rotate_left(5) ^ said).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        thread.now
    }

    /// Lets the network and the kernels do what is due.
    fn advance(&mut self, until: Mono) {
        while let Some(entry) = self.events.first_entry().filter(|entry| entry.key().0 <= until) {
            let ((at, _), event) = entry.remove_entry();
            self.happen(at, event);
        }
    }

    pub(super) fn push(&mut self, at: Mono, event: Event) {
        self.serial += 1;
        self.events.insert((at.max(self.now), self.serial), event);
    }

    fn happen(&mut self, at: Mono, event: Event) {
        match event {
            Event::Poke(sock) => self.poke(sock, at),
            Event::PokeEnd(conn, end) => self.poke_end(conn, end, at),
            Event::Ring(reactor) => self.wake_waiter(reactor, at),
            Event::Request(conn) => self.request(conn, at),
            Event::Answer(conn, answer) => self.answer(conn, answer, at),
            Event::Confirm(conn, listener) => self.confirm(conn, listener, at),
            Event::Cut(conn) => self.cut(conn, at),
            Event::KeptAlive(conn, end) => self.give_up(conn, end, at),
            Event::Datagram(lanes, from, datagram) => self.deliver(lanes, from, datagram, at),
            Event::Unreachable(sock) => self.unreachable(sock, at),
        }
    }

    /// A number of ns up to `most`.
    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.rng.between(most / 10, most)
    }

    // Threads
    // ---------------------------------------------------------------------------------------------------------

    /// A new thread of a process on a host.
    pub(super) fn add(
        &mut self,
        (host, process): (usize, usize),
        name: &str,
        task: Option<Box<dyn Task<Sim> + Send>>,
    ) -> usize {
        let (now, thread) = (self.time(), self.threads.len());
        let (name, parked, held) = (name.to_owned(), Parked::Run, Held::default());
        self.threads.push(Thread { host, process, name, task, now, parked, run: None, idle: 0, held });
        let after = self.up_to(50_000);
        self.schedule(thread, now.plus(after));
        thread
    }

    /// Lets a thread go on at `at`, if it does not do so earlier.
    pub(super) fn schedule(&mut self, thread: usize, at: Mono) {
        let at = at.max(self.threads[thread].now).max(self.now);
        match self.threads[thread].run {
            Some(run) if run.0 <= at => return,
            Some(run) => drop(self.runs.remove(&run)),
            None => {}
        }
        self.serial += 1;
        self.threads[thread].run = Some((at, self.serial));
        self.runs.insert((at, self.serial), thread);
    }

    /// A process keeps more or less than before.
    pub(super) fn keep(&mut self, process: usize, before: Held, after: Held) {
        self.loads.entry(process).or_default().change(before, after);
    }

    /// What a thread keeps after a step.
    pub(super) fn hold(&mut self, thread: usize, held: Held) {
        let Thread { process, held: kept, .. } = &mut self.threads[thread];
        if *kept != held {
            let (process, before) = (*process, std::mem::replace(kept, held));
            self.keep(process, before, held);
        }
    }

    /// A thread is over: it runs no more.
    pub(super) fn finish(&mut self, thread: usize) {
        self.threads[thread].parked = Parked::Done;
        self.ended += 1;
        self.hold(thread, Held::default());
        if let Some(run) = self.threads[thread].run.take() {
            self.runs.remove(&run);
        }
    }

    /// Whether the thread that steps has run ahead of something else.
    pub(super) fn is_ahead(&self) -> bool {
        self.next().is_some_and(|at| at <= self.time())
    }

    pub(super) fn next(&self) -> Option<Mono> {
        let event = self.events.first_key_value().map(|(key, _)| key.0);
        self.runs.first_key_value().map(|(key, _)| key.0).into_iter().chain(event).min()
    }

    /// The thread furthest behind, by `limit`, with the events that it has waited for. It comes
    /// without its task when it goes on waiting.
    pub(super) fn turn(&mut self, limit: Mono) -> Option<Turn> {
        let (next, thread) = loop {
            let next = self.next().filter(|at| *at <= limit)?;
            self.now = self.now.max(next);
            self.advance(next);
            if let Some(entry) = self.runs.first_entry().filter(|entry| entry.key().0 <= next) {
                break (next, entry.remove());
            }
        };
        let before = self.current.replace(thread);
        let mut ready = None;
        let this = &mut self.threads[thread];
        this.run = None;
        if next > this.now {
            (this.now, this.idle) = (next, 0);
        }
        if let Parked::Wait(reactor, until) = this.parked {
            let now = self.charge(Call::Wait, 0);
            let events = self.collect(reactor, now);
            if events.is_empty() && !self.take_rings(reactor, now) && until.is_none_or(|until| until > now) {
                // Nothing that was waited for: epoll_wait goes on.
                self.wait(thread, reactor, until);
                return Some(Turn { thread, before, ready: None, task: None });
            }
            self.reactors[reactor].waiter = None;
            ready = Some(events);
        }
        self.charge(Call::Step, 0);
        self.moved(false);
        Some(Turn { thread, before, ready, task: self.threads[thread].task.take() })
    }

    /// A step, or a call that has moved bytes: many steps without any are a loop without an end.
    pub(super) fn moved(&mut self, yes: bool) {
        let Some(current) = self.current else { return };
        let thread = &mut self.threads[current];
        thread.idle = if yes { 0 } else { thread.idle + 1 };
        assert!(thread.idle < PATIENCE, "{} of host {} spins at {:?}", thread.name, thread.host, thread.now);
    }

    /// A thread begins to wait, or goes on with it.
    pub(super) fn wait(&mut self, thread: usize, reactor: usize, until: Option<Mono>) {
        self.threads[thread].parked = Parked::Wait(reactor, until);
        self.reactors[reactor].waiter = Some(thread);
        let now = self.threads[thread].now;
        let state = &self.reactors[reactor];
        if !state.ready.is_empty() || state.bells.iter().chain(&state.rung).any(|at| *at <= now) {
            return self.schedule(thread, now);
        }
        if let Some(until) = until {
            let late = if until > now { self.lateness(thread) } else { 0 };
            self.schedule(thread, until.plus(late));
        }
    }

    /// How late a timer of a thread is.
    pub(super) fn lateness(&mut self, thread: usize) -> u64 {
        let most = self.hosts[self.threads[thread].host].quirks.timers;
        self.up_to(most)
    }

    // Reactors
    // --------------------------------------------------------------------------------------------------------

    /// A waiting thread has something to wait up for.
    fn wake_waiter(&mut self, reactor: usize, at: Mono) {
        let Some(thread) = self.reactors[reactor].waiter else { return };
        let most = self.hosts[self.threads[thread].host].quirks.wakes;
        let late = self.up_to(most);
        self.schedule(thread, at.plus(late));
    }

    /// Whether a ring ends a wait, which takes it away.
    fn take_rings(&mut self, reactor: usize, now: Mono) -> bool {
        let state = &mut self.reactors[reactor];
        let before = state.bells.len() + state.rung.len();
        state.bells.retain(|at| *at > now);
        state.rung.retain(|at| *at > now);
        state.bells.len() + state.rung.len() < before
    }

    /// Something has happened at a socket: whether it is ready is found when its reactor waits.
    pub(super) fn poke(&mut self, sock: u64, at: Mono) {
        let Some(Sock { watch: Some(watch), queued, .. }) = self.socks.get_mut(&sock) else { return };
        let reactor = watch.reactor;
        if !std::mem::replace(queued, true) {
            self.reactors[reactor].ready.push_back(sock);
        }
        self.wake_waiter(reactor, at);
    }

    /// What the sockets in a reactor's list are ready for.
    fn collect(&mut self, reactor: usize, now: Mono) -> Vec<Ready> {
        let listed = std::mem::take(&mut self.reactors[reactor].ready);
        let (mut ready, mut again) = (Vec::new(), VecDeque::new());
        for id in listed {
            if ready.len() == EVENTS {
                again.push_back(id);
                continue;
            }
            let found = self.readiness(id, now);
            let Some(sock) = self.socks.get_mut(&id) else { continue };
            sock.queued = false;
            let Some(event) = found else { continue };
            ready.push(event);
            if sock.watch.as_ref().is_some_and(|watch| watch.level) {
                sock.queued = true;
                again.push_back(id);
            }
        }
        again.append(&mut self.reactors[reactor].ready);
        self.reactors[reactor].ready = again;
        ready
    }
}
