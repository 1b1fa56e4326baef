//! Machines, each with a session and its workers as they ship, and peers that only say what they
//! are told.

use super::START;
use super::datagram::{Fate, Lanes};
use super::link::Link;
use super::measured::Load;
use super::platform::{Sim, lock};
use super::quirks::Quirks;
use super::raw::{Raw, RawTask, Say};
use super::run::step;
use super::session::{ObservedSession, SessionState};
use super::socket::{Kind, Socket};
use super::world::{Parked, World};
use engine::{Control, HostMeter, Interrupt, Member, Setup};
use metrics::Mono;
use model::{CpuUse, Event, HostCounters};
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::ops::Range;
use std::sync::{Arc, Mutex};
use transport::admission::{Admission, PendingPeers};
use transport::{Clients, Defect, Fault, Replica, Session, SocketSettings, Target, Task};

/// Datagrams with a wrong checksum, as Linux counts them.
const CHECKSUM_ERRORS: &str = "Udp.InCsumErrors";
const BUFFER_ERRORS: &str = "Udp.RcvbufErrors";

/// A machine of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(pub(super) usize);

/// What happens to a machine from outside.
#[derive(Clone, Copy, Debug)]
enum Incident {
    Stop,
    Kill,
    /// Of one of its worker processes.
    KillProcess(usize),
    Unplug,
}

/// A worker process of a machine.
struct WorkerProcess {
    sim: Sim,
    /// The port that it listens at.
    port: Option<u16>,
    workers: u16,
    /// Until it begins.
    replica: Option<Box<dyn Replica>>,
}

struct Machine {
    sim: Sim,
    /// The first port that it listens on, and how many there are in a row.
    port: Option<u16>,
    spread: u16,
    workers: u16,
    /// The workers that have listeners, and the workers that have bound UDP sockets.
    listening: (Range<u16>, Range<u16>),
    /// Options of listeners, of the connections that they accept, and of bound UDP sockets.
    sockets: SocketSettings,
    /// What its clients may move.
    clients: Option<Arc<Clients>>,
    /// Until it begins.
    session: Option<Box<dyn Session>>,
    processes: Vec<WorkerProcess>,
    interrupt: Interrupt,
    state: Arc<Mutex<SessionState>>,
    events: Vec<(Mono, Event)>,
    alive: bool,
}

pub struct Network {
    pub now: Mono,
    pub(super) world: Arc<Mutex<World>>,
    machines: Vec<Machine>,
    raws: Vec<(Arc<Mutex<Raw>>, Raw)>,
    user: BTreeMap<(Mono, usize), (usize, Incident)>,
    /// Sockets that nobody reads.
    mute: Vec<Socket>,
}

impl Network {
    /// An empty network; everything random in it comes from `seed`.
    pub fn new(seed: u64) -> Self {
        let world = Arc::new(Mutex::new(World::new(seed)));
        Network {
            now: START,
            world,
            machines: Vec::new(),
            raws: Vec::new(),
            user: BTreeMap::new(),
            mute: Vec::new(),
        }
    }

    /// Conditions of every connection that is opened from now on, from opener to acceptor and back.
    pub fn links(&mut self, up: Link, down: Link) {
        lock(&self.world).links = (up, down);
    }

    /// Conditions between every pair of UDP addresses from now on, from the first that sends to the
    /// other and back; those of connections until then.
    pub fn datagram_links(&mut self, up: Link, down: Link) {
        lock(&self.world).datagram_links = Some((up, down));
    }

    /// What became of all datagrams from one host to another so far.
    pub fn fate(&self, from: IpAddr, to: IpAddr) -> Fate {
        let world = lock(&self.world);
        let ways = world.lanes.iter().flat_map(|Lanes { lanes, ends: [one, other] }| {
            [((one.ip(), other.ip()), lanes[0].fate), ((other.ip(), one.ip()), lanes[1].fate)]
        });
        ways.filter(|(way, _)| *way == (from, to)).fold(Fate::default(), |sum, (_, fate)| sum.and(fate))
    }

    /// The mistake that the engine makes from now on, on every machine.
    pub fn plant(&mut self, defect: Option<Defect>) {
        lock(&self.world).defect = defect;
    }

    /// A peer that got more bytes from a machine's bound UDP sockets than it had sent there.
    pub fn amplified(&self, host: Host) -> Option<SocketAddr> {
        let world = lock(&self.world);
        let ip = world.hosts[self.machines[host.0].sim.host].ip;
        let more = world.unproven.iter().find(|((local, _), bytes)| local.ip() == ip && **bytes > 0);
        more.map(|((_, peer), _)| *peer)
    }

    /// A machine whose session serves at `address`. It runs as long as the network does.
    pub fn serve(&mut self, address: SocketAddr, workers: u16, session: Box<dyn Session>) -> Host {
        self.machine(address.ip(), Some(address.port()), workers, session)
    }

    /// A machine whose session opens connections.
    pub fn join(&mut self, address: IpAddr, workers: u16, session: Box<dyn Session>) -> Host {
        self.machine(address, None, workers, session)
    }

    fn machine(&mut self, ip: IpAddr, port: Option<u16>, workers: u16, session: Box<dyn Session>) -> Host {
        self.machines.push(Machine {
            sim: Sim::on(&self.world, ip),
            port,
            spread: 1,
            workers,
            listening: (0..workers, 0..workers),
            sockets: SocketSettings::default(),
            clients: None,
            session: Some(session),
            processes: Vec::new(),
            interrupt: Interrupt::new(),
            state: Arc::default(),
            events: Vec::new(),
            alive: true,
        });
        Host(self.machines.len() - 1)
    }

    /// A serving machine listens on so many ports in a row, from its own on.
    pub fn ports(&mut self, host: Host, n: u16) {
        self.machines[host.0].spread = n;
    }

    /// Of a serving machine only these workers have listeners, and these bound UDP sockets.
    pub fn listening(&mut self, host: Host, streams: Range<u16>, datagrams: Range<u16>) {
        self.machines[host.0].listening = (streams, datagrams);
    }

    /// A serving machine's listeners, the connections that they accept and its bound UDP sockets
    /// have these options.
    pub fn sockets(&mut self, host: Host, settings: SocketSettings) {
        self.machines[host.0].sockets = settings;
    }

    /// The clients of a serving machine are limited.
    pub fn limits(&mut self, host: Host, clients: Option<Arc<Clients>>) {
        self.machines[host.0].clients = clients;
    }

    /// A host at `address` whose kernel accepts connections and datagrams, and whose program reads
    /// none and answers none.
    ///
    /// # Errors
    /// When one of the ports is taken.
    pub fn mute(&mut self, address: SocketAddr) -> Result<(), Fault> {
        let sim = Sim::on(&self.world, address.ip());
        let settings = SocketSettings::default();
        self.mute.push(sim.listen_at(address, false, &settings)?.0);
        self.mute.push(sim.bind_at(address, false, &settings)?.0);
        Ok(())
    }

    /// A machine has one more worker process, with so many workers, which listens at `port` if
    /// there is one.
    pub fn worker_process(&mut self, host: Host, port: Option<u16>, workers: u16, replica: Box<dyn Replica>) {
        let machine = &mut self.machines[host.0];
        let sim = Sim::on(&self.world, machine.sim.with(|world| world.hosts[machine.sim.host].ip));
        machine.processes.push(WorkerProcess { sim, port, workers, replica: Some(replica) });
    }

    /// What a machine is like, from now on.
    pub fn quirks(&mut self, host: Host, quirks: Quirks) {
        self.machines[host.0].sim.set_quirks(quirks);
    }

    /// The user of a machine asks it to end, at `at`.
    pub fn stop_at(&mut self, host: Host, at: Mono) {
        self.schedule_incident(host, at, Incident::Stop);
    }

    /// The process is killed at `at`: its sockets are closed by its kernel.
    pub fn kill_at(&mut self, host: Host, at: Mono) {
        self.schedule_incident(host, at, Incident::Kill);
    }

    /// A worker process of a machine is killed at `at`.
    pub fn kill_process_at(&mut self, host: Host, process: usize, at: Mono) {
        self.schedule_incident(host, at, Incident::KillProcess(process));
    }

    /// The machine's cable is pulled at `at`.
    pub fn unplug_at(&mut self, host: Host, at: Mono) {
        self.schedule_incident(host, at, Incident::Unplug);
    }

    fn schedule_incident(&mut self, host: Host, at: Mono, what: Incident) {
        let number = self.user.len();
        self.user.insert((at.max(self.now), number), (host.0, what));
    }

    /// A peer without a session connects from `from`, and does as it is told; times are counted
    /// from now.
    ///
    /// # Panics
    /// Never: the simulated system refuses no thread.
    pub fn raw(&mut self, from: IpAddr, to: SocketAddr, script: Vec<(u64, Say)>) -> usize {
        self.begin();
        let target = Target { to, from: None };
        let raw = RawTask::start(Sim::on(&self.world, from), target, script).expect("no thread");
        self.raws.push((raw, Raw::default()));
        self.raws.len() - 1
    }

    /// What such a peer has received and whether it was hung up on.
    pub fn raw_state(&self, raw: usize) -> &Raw {
        &self.raws[raw].1
    }

    /// What a machine's session has told its reporters.
    pub fn events(&self, host: Host) -> &[(Mono, Event)] {
        &self.machines[host.0].events
    }

    /// When a machine's session was over.
    pub fn done(&self, host: Host) -> Option<Mono> {
        lock(&self.machines[host.0].state).done
    }

    /// Links that a machine has open on its workers, and on its control thread.
    pub fn open(&self, host: Host) -> (usize, usize) {
        let on = self.links_on(host);
        (on[1..].iter().sum(), on[0])
    }

    /// Links that a machine has open on each of its workers.
    pub fn open_on(&self, host: Host) -> Vec<usize> {
        self.links_on(host)[1..].to_vec()
    }

    /// Links on the control thread and on each worker.
    fn links_on(&self, host: Host) -> Vec<usize> {
        let Machine { sim, workers, .. } = &self.machines[host.0];
        let world = lock(&self.world);
        let first = world.threads.iter().position(|thread| thread.process == sim.process).unwrap_or(0);
        let mut on = vec![0; usize::from(*workers) + 1];
        for sock in world.socks.values() {
            let link = match &sock.kind {
                Kind::Stream(..) => true,
                Kind::Listener { .. } => false,
                Kind::Datagram(udp) => udp.is_connected(),
            };
            let owner = sock.owner.filter(|owner| link && world.threads[*owner].process == sim.process);
            if let Some(count) = owner.and_then(|owner| on.get_mut(owner - first)) {
                *count += 1;
            }
        }
        on
    }

    /// The groups that a machine's workers know, except that of everything.
    pub fn groups(&self, host: Host) -> usize {
        lock(&self.machines[host.0].state).groups.len()
    }

    /// What a machine keeps in memory, and the most that it has kept at once so far.
    pub fn load(&self, host: Host) -> (Load, Load) {
        let Machine { sim, state, .. } = &self.machines[host.0];
        let (state, world) = (lock(state), lock(&self.world));
        let loads = world.loads.get(&sim.process).copied().unwrap_or_default();
        let load = |held, flows| Load { held, flows };
        (load(loads.now, state.flows), load(loads.most, state.most_flows))
    }

    /// Messages that the threads of a machine have sent each other so far.
    #[must_use]
    pub fn messages(&self, host: Host) -> u64 {
        let process = self.machines[host.0].sim.process;
        lock(&self.world).sent.get(&process).copied().unwrap_or(0)
    }

    /// How often the sockets of a machine were registered with a reactor.
    #[must_use]
    pub fn registrations(&self, host: Host) -> u64 {
        let host = self.machines[host.0].sim.host;
        lock(&self.world).registered.get(&host).copied().unwrap_or(0)
    }

    /// The longest time by which a machine's session or one of its flows was woken too late, ns.
    pub fn latest(&self, host: Host) -> u64 {
        lock(&self.machines[host.0].state).late
    }

    /// All calls of the machines to the platform so far, each with its time and thread, hashed.
    pub fn trace(&self) -> u64 {
        lock(&self.world).trace
    }

    /// Runs until every machine that has joined is done, or nothing happens any more.
    pub fn run(&mut self) {
        self.begin();
        // Only where a thread has ended may all have.
        let (mut ended, mut goes_on) = (None, true);
        while goes_on {
            let before = ended.replace(lock(&self.world).ended);
            goes_on = (before == ended || !self.is_over()) && self.step(Mono(u64::MAX));
        }
        self.end();
    }

    /// Runs until `limit`.
    pub fn run_until(&mut self, limit: Mono) {
        self.begin();
        while self.step(limit) {}
        let mut world = lock(&self.world);
        world.now = world.now.max(limit);
        drop(world);
        self.end();
    }

    /// Whether nothing will happen any more.
    pub(super) fn is_idle(&self) -> bool {
        lock(&self.world).next().is_none()
    }

    /// Starts the machines that are new, at the current instant.
    pub(super) fn begin(&mut self) {
        for machine in &mut self.machines {
            if let Some(session) = machine.session.take() {
                machine.begin(session);
            }
        }
    }

    fn end(&mut self) {
        self.now = lock(&self.world).now;
        for machine in &mut self.machines {
            machine.events.append(&mut lock(&machine.state).events);
        }
        for (raw, shown) in &mut self.raws {
            let mut raw = lock(raw);
            shown.heard.append(&mut raw.heard);
            shown.ended = raw.ended;
        }
    }

    /// Whether every machine that has joined is done.
    fn is_over(&self) -> bool {
        let joined = self.machines.iter().filter(|machine| machine.port.is_none() && machine.alive);
        let joined: BTreeSet<usize> = joined.map(|machine| machine.sim.process).collect();
        let world = lock(&self.world);
        world.threads.iter().all(|thread| thread.parked == Parked::Done || !joined.contains(&thread.process))
    }

    /// Lets the next thing happen, by `limit`; false when there is none.
    pub(super) fn step(&mut self, limit: Mono) -> bool {
        let user = self.user.first_entry().filter(|entry| entry.key().0 <= limit);
        if step(&self.world, user.as_ref().map_or(limit, |entry| entry.key().0)) {
            return true;
        }
        let Some(entry) = user else { return false };
        let ((at, _), (machine, what)) = entry.remove_entry();
        let mut world = lock(&self.world);
        world.now = world.now.max(at);
        drop(world);
        let machine = &mut self.machines[machine];
        match what {
            Incident::Stop => machine.interrupt.ask(),
            Incident::Kill => {
                machine.alive = false;
                machine.sim.kill();
            }
            Incident::KillProcess(process) => machine.processes[process].sim.kill(),
            Incident::Unplug => machine.sim.unplug(),
        }
        true
    }
}

impl Drop for Network {
    /// Tasks hold the world, and the world holds them.
    fn drop(&mut self) {
        let threads = lock(&self.world).threads.len();
        for thread in 0..threads {
            let task = lock(&self.world).threads[thread].task.take();
            drop(task);
        }
    }
}

impl Machine {
    fn begin(&mut self, session: Box<dyn Session>) {
        let Machine { sim, state, .. } = self;
        let control = sim.new_thread("control");
        let ports = self.port.map_or(0..0, |port| port..port + self.spread);
        let (streams, bound) = self.listening.clone();
        let each = |on: Range<u16>| {
            let none = ports.end..ports.end;
            let ports = ports.clone();
            (0..self.workers).map(move |n| if on.contains(&n) { ports.clone() } else { none.clone() })
        };
        let settings = &self.sockets;
        let any = |port| SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), port);
        let listen = |port| sim.listen_at(any(port), true, settings).ok().map(|(socket, _)| socket);
        let setup = Setup {
            inherited: self.sockets.clone(),
            clients: self.clients.clone(),
            meter: Some(sim.meter()),
            listeners: each(streams).map(|ports| ports.filter_map(listen).collect()).collect(),
            datagrams: each(bound)
                .map(|ports| ports.filter_map(|port| sim.bind(port, settings).ok()).collect())
                .collect(),
            admission: Some(sim.admission()),
            workers_of_process: self.processes.first().map_or(0, |process| process.workers),
            processes: self.processes.iter_mut().filter_map(|process| process.begin(sim)).collect(),
            ..sim.setup(self.workers)
        };
        let (clock, told) = (sim.clone(), Arc::clone(state));
        let sink = move |event| {
            let now = clock.with(|world| world.time());
            lock(&told).events.push((now, event));
        };
        let session = Box::new(ObservedSession::new(session, Arc::clone(state)));
        let task = Control::new(sim.clone(), session, setup, &self.interrupt, sink);
        sim.set_task(control, task.expect("the simulated system refuses no thread"));
    }
}

impl WorkerProcess {
    /// Starts it; the connection that leads to it.
    fn begin(&mut self, parent: &Sim) -> Option<Socket> {
        let replica = self.replica.take()?;
        let (ours, theirs) = parent.pair(&self.sim);
        let before = self.sim.with(|world| world.current);
        let control = self.sim.new_thread("worker process");
        let listen = |_| self.port.and_then(|port| self.sim.listen(port).ok()).into_iter().collect();
        let listeners = (0..self.workers).map(listen).collect();
        let setup =
            Setup { listeners, admission: Some(self.sim.admission()), ..self.sim.setup(self.workers) };
        let task = Member::new(&self.sim, theirs, replica, setup);
        self.sim.set_task(control, task.expect("the simulated system refuses no thread"));
        self.sim.with(|world| world.current = before);
        Some(ours)
    }
}

impl Sim {
    /// A thread of this process that is to have a task, and whose calls are counted from now on.
    fn new_thread(&self, name: &str) -> usize {
        self.with(|world| {
            let control = world.add((self.host, self.process), name, None);
            world.current = Some(control);
            control
        })
    }

    /// The thread begins with its task.
    fn set_task(&self, thread: usize, task: impl Task<Sim> + Send + 'static) {
        self.with(|world| {
            world.threads[thread].task = Some(Box::new(task));
            world.current = None;
        });
    }

    /// The counters of the host that have moved since the measurement began. No CPU time: that of
    /// the test is not the host's.
    fn meter(&self) -> HostMeter {
        let sim = self.clone();
        Arc::new(move || {
            let sim = sim.clone();
            let read = move || {
                sim.with(|world| {
                    let host = &world.hosts[sim.host];
                    [(CHECKSUM_ERRORS, host.spoilt), (BUFFER_ERRORS, host.overflowed)]
                })
            };
            let before = read();
            Box::new(move || {
                let by = read().into_iter().zip(before).map(|((name, now), (_, then))| (name, now - then));
                let moved = by.filter(|(_, by)| *by > 0).map(|(name, by)| (name.to_owned(), by));
                (CpuUse::default(), HostCounters { moved: moved.collect() })
            })
        })
    }

    fn admission(&self) -> Admission {
        Admission::alone(PendingPeers::new(self.with(|world| world.hosts[self.host].quirks.places)))
    }

    fn setup(&self, workers: u16) -> Setup<Sim> {
        Setup::new(workers, self.with(|world| world.hosts[self.host].quirks.room))
    }
}
