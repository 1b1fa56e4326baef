//! Machines, each with a session and its workers, and the connections between them.

use super::datagram::Lanes;
use super::host::{Control, Host, Machine, Report};
use super::link::Link as Conditions;
use super::raw::{Raw, Say};
use super::side::{Quirks, Wire, next};
use super::stream::Stream;
use super::worker::{Command, Worker};
use crate::Run;
use metrics::{Group, Mono};
use model::Event;
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use transport::{Link, Path, Rng, Session, Target};

/// A connection.
pub(super) struct Conn {
    pub(super) wire: Wire,
    /// As its opener and its acceptor see it.
    pub(super) paths: [Path; 2],
    pub(super) owners: [Owner; 2],
    armed: [Option<Mono>; 2],
    cut: Option<Mono>,
}

/// Who has an end of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Owner {
    Nobody,
    /// On its way from one thread of this machine to another.
    Moving(usize),
    Worker(usize, usize),
    /// A worker's bound UDP socket.
    Door(usize, usize),
    /// Of this machine; `None` while it is connecting.
    Control(usize, Option<Link>),
    Raw(usize),
}

impl Owner {
    fn machine(self) -> Option<usize> {
        match self {
            Owner::Moving(m) | Owner::Worker(m, _) | Owner::Door(m, _) | Owner::Control(m, _) => Some(m),
            Owner::Nobody | Owner::Raw(_) => None,
        }
    }
}

/// Something that is to happen.
pub(super) enum Job {
    Turn(u64, usize),
    Cut(u64),
    /// A connection request arrives.
    Arrive(u64),
    /// And its answer: accepted or refused.
    Answer(u64, bool),
    ConnectTimeout(u64),
    Command(usize, usize, Command),
    Report(usize, usize, Report),
    Wake(usize),
    Boundary(usize, usize, Group),
    Ask(usize, usize, Group),
    User(usize, User),
}

/// What befalls a machine.
#[derive(Clone, Copy, Debug)]
pub(super) enum User {
    Stop,
    Kill,
    Unplug,
}

/// Machines in virtual time.
pub struct Network {
    /// The current instant.
    pub now: Mono,
    queue: BTreeMap<(Mono, u8, u64), Job>,
    jobs: u64,
    pub(super) machines: Vec<Machine>,
    pub(super) conns: BTreeMap<u64, Conn>,
    next_conn: u64,
    pub(super) raws: Vec<Raw>,
    pub(super) rng: Rng,
    links: (Conditions, Conditions),
    /// Of UDP sockets, when they differ.
    pub(super) lanes: Option<(Conditions, Conditions)>,
}

impl Network {
    /// An empty network; everything random in it comes from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        Network {
            now: super::START,
            queue: BTreeMap::new(),
            jobs: 0,
            machines: Vec::new(),
            conns: BTreeMap::new(),
            next_conn: 0,
            raws: Vec::new(),
            rng: Rng::new(seed),
            links: (Conditions::new(), Conditions::new()),
            lanes: None,
        }
    }

    /// Conditions of every connection that is opened from now on, from opener to acceptor and back.
    pub fn links(&mut self, up: Conditions, down: Conditions) {
        self.links = (up, down);
    }

    /// A machine whose session serves at `address`. It runs as long as the network does.
    pub fn serve(&mut self, address: SocketAddr, workers: u16, session: Box<dyn Session<Run>>) -> Host {
        self.machine(address.ip(), Some(address.port()), workers, session)
    }

    /// A machine whose session opens connections.
    pub fn join(&mut self, address: IpAddr, workers: u16, session: Box<dyn Session<Run>>) -> Host {
        self.machine(address, None, workers, session)
    }

    fn machine(
        &mut self,
        ip: IpAddr,
        port: Option<u16>,
        workers: u16,
        session: Box<dyn Session<Run>>,
    ) -> Host {
        let quirks = Quirks::default();
        let workers = (0..workers).map(|_| Worker::new(self.rng.next(), quirks)).collect();
        let control = Control::new(session, self.rng.next(), quirks);
        self.machines.push(Machine {
            ip,
            port,
            spread: 1,
            workers,
            control,
            alive: true,
            plugged: true,
            next_port: 40_000,
        });
        let host = self.machines.len() - 1;
        self.act(host);
        Host(host)
    }

    /// A serving machine listens on so many ports in a row, from its own on.
    pub fn ports(&mut self, host: Host, n: u16) {
        self.machines[host.0].spread = n;
    }

    /// What a machine is like, from now on.
    pub fn quirks(&mut self, host: Host, quirks: Quirks) {
        let machine = &mut self.machines[host.0];
        machine.control.side.quirks = quirks;
        for worker in &mut machine.workers {
            worker.side = super::Side::new(self.rng.next(), quirks, true);
        }
    }

    /// The user of a machine asks it to end, at `at`.
    pub fn stop_at(&mut self, host: Host, at: Mono) {
        self.push(at, 1, Job::User(host.0, User::Stop));
    }

    /// The process is killed at `at`: its sockets are closed by its kernel.
    pub fn kill_at(&mut self, host: Host, at: Mono) {
        self.push(at, 1, Job::User(host.0, User::Kill));
    }

    /// The machine's cable is pulled at `at`.
    pub fn unplug_at(&mut self, host: Host, at: Mono) {
        self.push(at, 1, Job::User(host.0, User::Unplug));
    }

    /// A peer without a session connects from `from`, and does as it is told; times are counted from now.
    pub fn raw(&mut self, from: IpAddr, to: SocketAddr, script: Vec<(u64, Say)>) -> usize {
        let id = self.raws.len();
        self.raws.push(Raw::new(script, self.now));
        let conn = self.dial(Owner::Raw(id), from, Target { to, from: None });
        self.raws[id].conn = conn;
        id
    }

    /// What such a peer has heard and whether it was hung up on.
    #[must_use]
    pub fn heard(&self, raw: usize) -> &Raw {
        &self.raws[raw]
    }

    /// What a machine's session has told its reporters.
    #[must_use]
    pub fn events(&self, host: Host) -> &[(Mono, Event)] {
        &self.machines[host.0].control.events
    }

    /// When a machine's session was over.
    #[must_use]
    pub fn done(&self, host: Host) -> Option<Mono> {
        self.machines[host.0].control.done
    }

    /// Links that a machine has open on its workers, and on its control thread.
    #[must_use]
    pub fn open(&self, host: Host) -> (usize, usize) {
        let machine = &self.machines[host.0];
        (machine.workers.iter().map(|w| w.socks.len()).sum(), machine.control.links.len())
    }

    /// Links that a machine has open on each of its workers.
    #[must_use]
    pub fn open_on(&self, host: Host) -> Vec<usize> {
        self.machines[host.0].workers.iter().map(|worker| worker.socks.len()).collect()
    }

    /// The groups that a machine's workers know, except that of everything.
    #[must_use]
    pub fn groups(&self, host: Host) -> usize {
        self.machines[host.0].control.books.keys().filter(|g| **g != Group::ALL).count()
    }

    /// Runs until every machine that has joined is done, or nothing happens any more.
    pub fn run(&mut self) {
        while self.machines.iter().any(|m| m.port.is_none() && m.alive && m.control.done.is_none())
            && self.step()
        {}
    }

    /// Runs until `limit`.
    pub fn run_until(&mut self, limit: Mono) {
        while self.queue.first_key_value().is_some_and(|(key, _)| key.0 <= limit) {
            self.step();
        }
        self.now = self.now.max(limit);
    }

    fn step(&mut self) -> bool {
        let Some(((at, ..), job)) = self.queue.pop_first() else { return false };
        self.now = self.now.max(at);
        self.do_job(at, job);
        true
    }

    fn do_job(&mut self, at: Mono, job: Job) {
        match job {
            Job::Turn(conn, end) => self.turn(conn, end, at),
            Job::Cut(conn) => {
                if let Some(Conn { wire: Wire::Stream(stream), cut, .. }) = self.conns.get_mut(&conn) {
                    stream.tick(at);
                    *cut = None;
                    self.poke(conn);
                }
            }
            Job::Arrive(conn) => self.arrive(conn),
            Job::Answer(conn, yes) => self.answered(conn, yes),
            Job::ConnectTimeout(conn) => self.connect_timeout(conn),
            Job::Command(m, w, command) if self.runs(m) => self.command(m, w, command),
            Job::Report(m, w, report) if self.runs(m) => self.report(m, w, report),
            Job::Wake(m) if self.runs(m) => self.wake(m, at),
            Job::Boundary(m, w, group) if self.runs(m) => self.boundary(m, w, group),
            Job::Ask(m, w, Group::ALL) if self.runs(m) => self.tend(m, w),
            Job::Ask(m, w, group) if self.runs(m) => self.ask(m, w, group),
            Job::User(m, what) => self.befall(m, what),
            _ => {}
        }
    }

    fn runs(&self, m: usize) -> bool {
        self.machines[m].alive && self.machines[m].control.done.is_none()
    }

    pub(super) fn push(&mut self, at: Mono, priority: u8, job: Job) {
        self.jobs += 1;
        self.queue.insert((at.max(self.now), priority, self.jobs), job);
    }

    fn befall(&mut self, m: usize, what: User) {
        match what {
            User::Stop if self.runs(m) => self.feed_stop(m),
            User::Stop => {}
            User::Kill => {
                self.machines[m].alive = false;
                self.hang_up(m);
            }
            User::Unplug => {
                self.machines[m].plugged = false;
                let now = self.now;
                for conn in self.conns_of(m) {
                    match self.conns.get_mut(&conn).map(|conn| &mut conn.wire) {
                        Some(Wire::Stream(stream)) => stream.unplug(now),
                        Some(Wire::Lanes(lanes)) => lanes.unplug(),
                        None => {}
                    }
                }
            }
        }
    }

    fn conns_of(&self, m: usize) -> Vec<u64> {
        let here = |c: &Conn| c.owners.iter().any(|o| o.machine() == Some(m));
        self.conns.iter().filter(|(_, c)| here(c)).map(|(&id, _)| id).collect()
    }

    /// A process is no more: its kernel closes its sockets.
    pub(super) fn hang_up(&mut self, m: usize) {
        for id in self.conns_of(m) {
            for end in 0..2 {
                if self.conns.get(&id).is_some_and(|c| c.owners[end].machine() == Some(m)) {
                    self.close(id, end, false);
                }
            }
        }
    }

    // Connections -------------------------------------------------------------------------------------------------

    /// Our end of a new connection or UDP socket.
    fn here(&mut self, owner: Owner, id: u64, ip: IpAddr, from: Option<SocketAddr>) -> SocketAddr {
        let port = match (from.map(|f| f.port()).filter(|&p| p != 0), owner) {
            (Some(port), _) => port,
            (None, Owner::Worker(m, _) | Owner::Control(m, _)) => {
                let port = &mut self.machines[m].next_port;
                *port = if *port == u16::MAX { 1024 } else { *port + 1 };
                *port
            }
            (None, _) => 1 + id as u16 % 60_000,
        };
        SocketAddr::new(from.map(|f| f.ip()).filter(|a| !a.is_unspecified()).unwrap_or(ip), port)
    }

    /// Asks for a connection.
    pub(super) fn dial(&mut self, owner: Owner, ip: IpAddr, target: Target) -> u64 {
        self.next_conn += 1;
        let id = self.next_conn;
        let (up, down) = self.links.clone();
        let here = self.here(owner, id, ip, target.from);
        let arrives = self.now.plus(up.delay);
        let wire = Wire::Stream(Box::new(Stream::new(up, down, self.rng.next())));
        let paths = [Path { peer: target.to, local: here }, Path { peer: here, local: target.to }];
        let conn = Conn { wire, paths, owners: [owner, Owner::Nobody], armed: [None; 2], cut: None };
        self.conns.insert(id, conn);
        self.push(arrives, 1, Job::Arrive(id));
        id
    }

    /// Opens a UDP socket, which nobody is told of.
    pub(super) fn aim(&mut self, owner: Owner, ip: IpAddr, target: Target) -> u64 {
        self.next_conn += 1;
        let id = self.next_conn;
        let (up, down) = self.lanes.clone().unwrap_or_else(|| self.links.clone());
        let here = self.here(owner, id, ip, target.from);
        let paths = [Path { peer: target.to, local: here }, Path { peer: here, local: target.to }];
        let mut lanes = Lanes::new(up, down, self.rng.next(), paths);
        let owners = [owner, self.door(paths[1])];
        if owners.into_iter().filter_map(Owner::machine).any(|m| !self.machines[m].plugged) {
            lanes.unplug();
        }
        let wire = Wire::Lanes(Box::new(lanes));
        self.conns.insert(id, Conn { wire, paths, owners, armed: [None; 2], cut: None });
        id
    }

    /// A connection request reaches its destination.
    fn arrive(&mut self, id: u64) {
        let Some(conn) = self.conns.get(&id) else { return };
        let Wire::Stream(stream) = &conn.wire else { return };
        let (back, path) = (stream.round_trip().1, conn.paths[1]);
        let at = |m: &Machine| m.ip == path.local.ip() && m.listens(path.local.port());
        let host = self.machines.iter().position(at);
        let opener = conn.owners[0].machine();
        let lost = host.into_iter().chain(opener).any(|m| !self.machines[m].plugged);
        if lost {
            return;
        }
        let taken = host.filter(|&m| self.runs(m)).is_some_and(|m| self.accept(m, id, path));
        self.push(self.now.plus(back), 1, Job::Answer(id, taken));
        self.poke(id);
    }

    /// Calls [`Network::arm`] for both ends.
    pub(super) fn poke(&mut self, id: u64) {
        self.arm(id, 0);
        self.arm(id, 1);
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if let Wire::Stream(stream) = &conn.wire
            && let Some(at) = stream.cut_at()
            && conn.cut.is_none()
        {
            conn.cut = Some(at);
            self.push(at, 0, Job::Cut(id));
        }
        let left = |o: &Owner| !matches!(o, Owner::Nobody | Owner::Door(..));
        if self.conns.get(&id).is_some_and(|c| !c.owners.iter().any(left)) {
            self.conns.remove(&id);
        }
    }

    /// Makes sure that an end gets its turn when something can happen there.
    fn arm(&mut self, id: u64, end: usize) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let now = self.now;
        let at = match conn.owners[end] {
            Owner::Nobody | Owner::Moving(_) | Owner::Control(_, None) => None,
            Owner::Worker(m, w) => self.machines[m].workers[w]
                .socks
                .get(&(id, end))
                .filter(|sock| !sock.connecting)
                .and_then(|sock| next(&*sock.flow, &mut conn.wire, end, &sock.socket, now)),
            Owner::Door(m, _) => conn.wire.next(end, now).filter(|_| {
                let Machine { alive, control, .. } = &self.machines[m];
                *alive && control.done.is_none()
            }),
            Owner::Control(m, Some(link)) => self.machines[m].control.next(link, &conn.wire, end, now),
            Owner::Raw(raw) => self.raws[raw].next(&conn.wire, end, now),
        };
        if let Some(at) = at.map(|at| at.max(now))
            && conn.armed[end].is_none_or(|armed| at < armed)
        {
            conn.armed[end] = Some(at);
            self.push(at, 1, Job::Turn(id, end));
        }
    }

    fn turn(&mut self, id: u64, end: usize, at: Mono) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        if conn.armed[end] != Some(at) {
            return;
        }
        conn.armed[end] = None;
        match conn.owners[end] {
            Owner::Nobody | Owner::Moving(_) | Owner::Control(_, None) => {}
            Owner::Worker(m, w) => self.worker_turn(m, w, id, end),
            Owner::Door(m, w) => self.door_turn(m, w, id, end),
            Owner::Control(m, Some(link)) => self.control_turn(m, link, id, end),
            Owner::Raw(raw) => self.raw_turn(raw, id, end),
        }
        self.poke(id);
    }

    /// The request was answered.
    fn answered(&mut self, id: u64, yes: bool) {
        let Some(conn) = self.conns.get_mut(&id) else { return };
        let (owner, path) = (conn.owners[0], conn.paths[0]);
        if !yes {
            conn.owners[0] = Owner::Nobody;
        }
        match owner {
            Owner::Nobody | Owner::Moving(_) | Owner::Door(..) => {}
            Owner::Worker(m, w) => self.worker_connected(m, w, id, yes.then_some(path)),
            Owner::Control(m, _) => self.control_connected(m, id, yes.then_some(path)),
            Owner::Raw(raw) => self.raws[raw].connected(yes),
        }
        self.poke(id);
    }

    /// An end gives its connection up.
    pub(super) fn close(&mut self, id: u64, end: usize, reset: bool) {
        let now = self.now;
        if let Some(conn) = self.conns.get_mut(&id) {
            conn.owners[end] = Owner::Nobody;
            conn.wire.close(end, now, reset);
            if let Wire::Lanes(lanes) = &mut conn.wire {
                lanes.forget(end);
            }
            self.poke(id);
        }
    }
}
