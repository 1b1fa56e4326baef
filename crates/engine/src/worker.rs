//! A worker thread: its reactor, its links, its recorder. Workers share nothing with each other.

mod arrive;
mod close;
mod drain;
mod group;
mod idle;
mod intervals;
mod links;
mod mailbox;
mod pending;
#[cfg(test)]
mod tests;
mod turns;
mod unsolicited;

pub(crate) use group::{GroupProgress, GroupState};
pub(crate) use mailbox::{Command, Report};

use crate::link::{Key, Links, Phase, Socket};
use crate::surroundings::Surroundings;
use idle::{BeforeWait, Idle};
use links::Peers;
use metrics::{Clamped, Ending, Group, Mono, TcpInfo};
use model::{ConnectionRecord, Finding};
use pending::Pending;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;
use transport::admission::Admission;
use transport::{
    Allowance, Cause, Clients, Clock as _, Defect, FlowEvent, Held, Mail, Order, Park, Platform,
    Reactor as _, Ready, Receiver as _, Sender as _, SocketSettings, Task, Trigger, Violation, Wake as _,
    Watch as _,
};
use unsolicited::{AddressBudgets, Given, Memory};

/// A worker's mailbox, and what wakes it to look there.
pub(crate) type Peer<P> = (<P as Platform>::Sender<Command<P>>, <P as Platform>::Waker);

/// Parts of a worker.
pub(crate) struct WorkerConfig<P: Platform> {
    pub(crate) index: usize,
    /// Its core; `None` leaves it to the scheduler.
    pub(crate) core: Option<usize>,
    pub(crate) listeners: Vec<P::Listener>,
    /// Bound UDP sockets, which receive the datagrams of peers without a socket of their own.
    pub(crate) datagrams: Vec<P::Udp>,
    /// Places for peers of both kinds of sockets.
    pub(crate) admission: Option<Admission>,
    pub(crate) commands: P::Receiver<Command<P>>,
    pub(crate) reports: P::Sender<(usize, Report<P>)>,
    pub(crate) control: P::Waker,
    /// The other workers' mailboxes, ours included.
    pub(crate) peers: Vec<Peer<P>>,
    /// Longest send and receive, bytes.
    pub(crate) buffer: usize,
    pub(crate) seed: u64,
    /// Settings of the listeners, and of sockets beside the bound UDP sockets until their group is
    /// known.
    pub(crate) inherited: SocketSettings,
    /// True if it runs before all ordinary threads.
    pub(crate) realtime: bool,
    /// Period of the reports of open links, ns; `None` for no reports.
    pub(crate) links: Option<u64>,
    /// The allowance of all links that are opened.
    pub(crate) allowance: Option<Arc<Allowance>>,
    /// The limits of clients, if there are any.
    pub(crate) clients: Option<Arc<Clients>>,
}

/// Listener keys start here; link keys stay below.
const LISTENERS: u64 = 1 << 63;
/// Keys of bound UDP sockets begin here.
const DATAGRAMS: u64 = LISTENERS | 1 << 62;
/// Links opened or accepted in a row before the others get their turn.
const AT_ONCE: usize = 64;
/// Bytes of datagrams that are sent in a row before the core is offered to others. A receiver of
/// ours on the same core then reads them while they are in its cache: with 38 datagrams of 1400
/// bytes a call, two cores moved 9.6 million a second so, every byte compared, and 6.3 million when
/// the scheduler decided (every 4 ms, by when megabytes had gathered).
const YIELD_AFTER: usize = 512 << 10;
/// Most bytes of a turn on a stream that carries messages rather than bulk.
const SHORT: usize = 16 << 10;
/// The reactor is asked at least this often while there is something to do, ns.
const LOOK_AFTER: u64 = 100_000;
/// A link that has waited this long on a busy worker is registered with the reactor, ns.
const REGISTER_AFTER: u64 = 1_000_000;

/// One thread's links, and the state of its rounds.
///
/// Wide: the whole state of a loop; what belongs together is a type of its own already.
pub(crate) struct Worker<P: Platform> {
    platform: P,
    config: WorkerConfig<P>,
    stage: WorkerStage,
    reactor: P::Reactor,
    clock: P::Clock,
    /// Wall clock, random numbers, recorder and outbox of this thread, which flows get as their
    /// [`Context`](transport::Context).
    own: Surroundings,
    memory: Memory<P>,
    links: Links<P>,
    /// Links whose turn is due in this round.
    ready: VecDeque<Key>,
    /// Links that wait and that the reactor does not watch yet, and since when: registered when the
    /// worker is idle, or after [`REGISTER_AFTER`] on one that is not, so that connections shorter
    /// than that never pay for it.
    unregistered: VecDeque<(Key, Mono)>,
    /// Links were turned in the last round, so that `unregistered` may have new ones.
    has_turned: bool,
    timers: BinaryHeap<Reverse<(Mono, Key)>>,
    groups: BTreeMap<Group, GroupState>,
    /// Groups whose connectors open links.
    opening: Vec<Group>,
    /// When the next interval of any group ends, or earlier.
    next_boundary: Mono,
    ended: Vec<ConnectionRecord>,
    idle: Idle,
    /// Remainders of the limits of peers without a socket of their own.
    budgets: AddressBudgets,
    /// Sockets that peers of listening sockets got of their own, and their links.
    given: Given,
    /// When listeners are watched again, after an accept that failed.
    accept_at: Option<Mono>,
    quit: bool,
    /// Accepted links whose peers have proved nothing.
    pending: Pending,
    /// State of the reports of open links.
    peers: Option<Peers>,
}

/// Stages of a worker between two steps.
enum WorkerStage {
    /// Before the first one.
    Begin,
    /// The worker has slept from this instant on, and checks its sockets next.
    Asleep(Mono),
    /// The worker waits for its sockets, at most until then.
    Waiting(Option<Mono>),
}

impl<P: Platform> Task<P> for Worker<P> {
    fn step(&mut self) -> Park {
        match self.stage {
            WorkerStage::Begin => {
                self.begin();
                self.stage = WorkerStage::Waiting(None);
            }
            WorkerStage::Asleep(since) => return self.wait(since, Some(since)),
            WorkerStage::Waiting(_) => {}
        }
        if self.quit { Park::Done } else { self.round() }
    }

    fn reactor(&mut self) -> &mut P::Reactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: std::io::Result<&mut Vec<Ready>>) {
        let events = match ready {
            Ok(events) => events,
            Err(error) => {
                self.report(Finding::Trouble(format!("waiting for sockets failed: {error}")));
                self.quit = true;
                return;
            }
        };
        self.idle.looked = self.clock.now();
        if let WorkerStage::Waiting(until) = self.stage {
            self.idle.slept(until, self.idle.looked, events.is_empty());
        }
        self.commands();
        for event in events.drain(..) {
            self.event(event);
        }
    }

    fn held(&self) -> Held {
        let messages = self.own.outbox.len() + self.ended.len();
        Held { links: self.links.len(), timers: self.timers.len(), messages, bytes: 0 }
    }
}

impl<P: Platform> Worker<P> {
    /// A worker with this reactor. The reactor exists before the worker's thread, because the other
    /// threads need its waker.
    pub(crate) fn new(platform: P, config: WorkerConfig<P>, reactor: P::Reactor) -> Self {
        let clock = platform.clock();
        Worker {
            platform,
            stage: WorkerStage::Begin,
            own: Surroundings::new(config.seed, clock.sample()),
            memory: Memory::new(config.buffer),
            links: Links::default(),
            ready: VecDeque::new(),
            unregistered: VecDeque::new(),
            has_turned: false,
            timers: BinaryHeap::new(),
            groups: BTreeMap::new(),
            opening: Vec::new(),
            next_boundary: Mono(u64::MAX),
            ended: Vec::new(),
            idle: Idle::new(),
            budgets: AddressBudgets::default(),
            given: Given::default(),
            accept_at: None,
            quit: false,
            pending: Pending::default(),
            peers: config.links.map(|every| Peers::new(every, clock.now())),
            clock,
            config,
            reactor,
        }
    }

    fn begin(&self) {
        self.pin(self.config.core);
        // Late timers show in the results; without precise ones they are only later.
        self.platform.precise_timers();
        if !self.config.realtime {
            return;
        }
        // The worker runs before all ordinary threads, where the system allows it.
        if let Err(e) = self.platform.realtime() {
            self.report(Finding::Trouble(format!("workers do not run in real time (SCHED_FIFO): {e}")));
        }
        if let Err(e) = self.platform.lock_memory() {
            self.report(Finding::Trouble(format!("memory is not kept from being paged out (mlockall): {e}")));
        }
    }

    fn report(&self, report: impl Into<Report<P>>) {
        // The control thread outlives the workers; if it does not, the report is lost.
        self.config.reports.send((self.config.index, report.into()));
        if !self.platform.has(Defect::NotWoken) {
            self.config.control.wake();
        }
    }

    /// Everything once: commands, time, new links, ready links; then what to wait for.
    fn round(&mut self) -> Park {
        // Before any link has its turn: the session of a connection that was just accepted may have
        // sent its commands after the last look.
        if self.reactor.woken() {
            self.commands();
            if self.quit {
                return Park::Done;
            }
        }
        let now = self.clock.now();
        if self.next_boundary <= now {
            self.boundaries(now);
        }
        self.report_links(now);
        self.due_timers(now);
        self.resume_listeners(now);
        self.check_pending(now);
        self.open_links(now);
        if self.groups.get(&Group::ALL).and_then(|w| w.state.ask_at).is_some_and(|at| at <= now) {
            // Datagrams of peers that seem silent may be waiting in the bound sockets.
            self.drain_doors();
            self.acceptor_timer();
        }
        // A limit of turns in a row: new connections and the clock must not wait for thousands of
        // busy ones.
        for _ in 0..self.ready.len().min(AT_ONCE) {
            let Some(key) = self.ready.pop_front() else { break };
            if let Some(link) = self.links.get(key) {
                link.state.queued = false;
                self.turn(key);
            }
            self.yield_if_due();
        }
        self.yield_if_due();
        self.flush(false);
        self.watch_untried();
        let now = self.clock.now();
        let busy = !self.ready.is_empty() || self.wants_links();
        if busy && now.since(self.idle.looked) < LOOK_AFTER {
            return Park::Run;
        }
        // Links that are tried before the wait are registered when they go on waiting.
        let tried_first = !busy && self.tries_before_wait();
        self.register(now, busy || tried_first);
        if !busy {
            self.idle.sent_since_yield = 0;
            if !self.ready.is_empty() {
                return Park::Run;
            }
            self.flush(true);
        }
        let until = if busy { Some(now) } else { self.next_instant() };
        let Some(until) = self.until(now, until, busy) else { return Park::Run };
        let before = self.before_wait(now, until);
        if tried_first && !matches!(before, BeforeWait::Tried) {
            self.register(now, false);
            if !self.ready.is_empty() {
                return Park::Run;
            }
        }
        match before {
            BeforeWait::Nothing => self.wait(now, until),
            BeforeWait::Look => self.wait(now, Some(now)),
            BeforeWait::Tried => Park::Run,
            BeforeWait::Sleep(until) => {
                self.stage = WorkerStage::Asleep(now);
                Park::Sleep(until)
            }
        }
    }

    fn wait(&mut self, now: Mono, until: Option<Mono>) -> Park {
        if until.is_some_and(|until| until <= now) && self.tries() {
            // The reactor reports nothing of links that it does not watch.
            self.try_all();
        }
        self.stage = WorkerStage::Waiting(until);
        Park::Wait(until)
    }

    fn yield_if_due(&mut self) {
        if self.idle.sent_since_yield >= YIELD_AFTER {
            self.idle.sent_since_yield = 0;
            self.platform.yield_core();
        }
    }

    fn commands(&mut self) {
        loop {
            match self.config.commands.try_recv() {
                Mail::Message(command) => self.command(command),
                Mail::Empty => return,
                Mail::Closed => {
                    self.quit = true;
                    return;
                }
            }
        }
    }

    fn command(&mut self, command: Command<P>) {
        match command {
            Command::Group(mut watch) => {
                self.pin(watch.core);
                watch.state.from = watch.plan.start;
                self.next_boundary = self.next_boundary.min(watch.boundary());
                if watch.source.is_some() && watch.plan.group != Group::ALL {
                    self.opening.push(watch.plan.group);
                }
                let group = watch.plan.group;
                self.groups.insert(group, *watch);
                self.choose_wait();
                if group == Group::ALL {
                    self.listen();
                }
            }
            Command::Order(group, order) => self.order(group, order),
            Command::Adopt { socket, path, flow, place } => {
                self.adopt(socket, path, flow, place, self.clock.now());
            }
            Command::Spare(tally) => self.own.rec.spare(*tally),
            Command::Quit => self.quit = true,
        }
    }

    fn order(&mut self, group: Group, order: Order) {
        match order {
            Order::Start(at) => self.start(group, at),
            Order::Ask(tag) => self.ask(group, |info| FlowEvent::Ask { tag, info }),
            Order::Freeze(tag) => {
                self.drain(group);
                self.cut(group);
                self.ask(group, |info| FlowEvent::Freeze { tag, info });
            }
            Order::Stop => self.stop(group),
            Order::Kill => {
                self.drain(group);
                self.kill(group);
            }
            Order::Drop => self.drop_group(group),
        }
    }

    fn pin(&self, core: Option<usize>) {
        if let Some(core) = core
            && let Err(error) = self.platform.pin(core)
        {
            self.report(Finding::Trouble(format!("worker {}: pinning failed: {error}", self.config.index)));
        }
    }

    /// Starts listening, now that there is an acceptor.
    fn listen(&mut self) {
        self.watch_listeners();
        for (i, socket) in self.config.datagrams.iter().enumerate() {
            if let Err(error) = socket.watch(&self.reactor, DATAGRAMS + u64::clamped(i), Trigger::Level) {
                self.report(Finding::Trouble(format!("cannot watch a UDP socket: {error}")));
            }
        }
    }

    fn watch_listeners(&mut self) {
        for (i, listener) in self.config.listeners.iter().enumerate() {
            if let Err(error) = listener.watch(&self.reactor, LISTENERS + u64::clamped(i), Trigger::Level) {
                self.report(Finding::Trouble(format!("cannot watch a listener: {error}")));
            }
        }
    }

    fn start(&mut self, group: Group, at: Mono) {
        let Some(watch) = self.groups.get_mut(&group) else { return };
        watch.plan.start = at;
        watch.state.from = at;
        self.next_boundary = self.next_boundary.min(watch.boundary());
        for key in self.keys_of(group) {
            self.deliver(key, FlowEvent::Start);
        }
    }

    /// Passes an event to all links of a group, with the kernel's TCP_INFO of each.
    fn ask(&mut self, group: Group, news: impl Fn(Option<Box<TcpInfo>>) -> FlowEvent) {
        for key in self.keys_of(group) {
            let Some(link) = self.links.get(key) else { continue };
            let info = link.socket.info().map(Box::new);
            self.deliver(key, news(info));
        }
        // Their answers are waited for.
        self.flush(false);
    }

    fn stop(&mut self, group: Group) {
        self.drain(group);
        if !self.groups.get(&group).is_some_and(|watch| watch.plan.tail) {
            self.cut(group);
        }
        let now = self.clock.now();
        let Some(watch) = self.groups.get_mut(&group) else { return };
        watch.state.stopped.get_or_insert(now);
        if let Some(source) = &mut watch.source {
            source.stop();
        }
        for key in self.keys_of(group) {
            let Some(link) = self.links.get(key) else { continue };
            if link.phase == Phase::Connecting {
                self.close(key, Ok(Ending::Stopped), true);
            } else {
                self.deliver(key, FlowEvent::Stop);
            }
        }
        self.check_idle(group);
    }

    fn kill(&mut self, group: Group) {
        for key in self.keys_of(group) {
            self.close(key, Err(Cause::Violation(Violation::Vanished)), true);
        }
    }

    fn drop_group(&mut self, group: Group) {
        self.drain(group);
        self.cut(group);
        self.kill(group);
        if group == Group::ALL {
            if let Some(source) = self.groups.get_mut(&group).and_then(|w| w.source.as_mut()) {
                source.stop();
            }
            self.acceptor_timer();
        }
        let Some(watch) = self.groups.remove(&group) else { return };
        self.opening.retain(|&g| g != group);
        self.choose_wait();
        if group == Group::ALL {
            for socket in &self.config.datagrams {
                socket.before_close(&self.reactor);
            }
            for listener in &self.config.listeners {
                listener.before_close(&self.reactor);
            }
            self.config.datagrams.clear();
            self.config.listeners.clear();
        }
        self.flush(true);
        let tally = Box::new(self.own.rec.take_tally(group));
        self.report(Finding::Dropped { group, tally, effective: watch.state.effective });
    }

    fn keys_of(&mut self, group: Group) -> Vec<Key> {
        let mut keys = self.links.keys();
        keys.retain(|&key| {
            self.links.get(key).is_some_and(|link| {
                link.counted == Some(group)
                    || (link.counted.is_none() && link.owner == group && group != Group::ALL)
            })
        });
        keys
    }

    fn event(&mut self, event: Ready) {
        if event.key >= DATAGRAMS {
            return self.on_unsolicited(usize::clamped(event.key - DATAGRAMS));
        }
        if event.key >= LISTENERS {
            return self.accept(usize::clamped(event.key - LISTENERS));
        }
        let key = Key(event.key);
        let Some(link) = self.links.get(key) else { return };
        link.can.read |= event.readable;
        link.can.send |= event.writable && !self.platform.has(Defect::LostEdge);
        // A hang-up event on a UDP socket is a queued error or stamp, which reading takes away.
        link.state.hung_up |= event.hangup && matches!(link.socket, Socket::Stream(_));
        if link.phase == Phase::Connecting {
            self.connected(key);
        } else {
            self.queue(key);
        }
    }

    /// Reports, once, that a group has no links left and will open no more.
    fn check_idle(&mut self, group: Group) {
        let Some(watch) = self.groups.get_mut(&group) else { return };
        let over = watch.state.exhausted || watch.state.stopped.is_some();
        let open = if self.platform.has(Defect::IdleTooEarly) { 0 } else { watch.state.open };
        if over && open == 0 && !watch.state.idle_told {
            watch.state.idle_told = true;
            self.flush(true);
            self.report(Finding::Idle(group));
        }
    }

    /// Sends up the gathered reports: at once when nothing else is to do, else in batches.
    fn flush(&mut self, all: bool) {
        // Messages of a flow are sent before its end.
        for message in std::mem::take(&mut self.own.outbox) {
            if self.platform.has(Defect::LostMessage) && self.own.rng.between(0, 7) == 0 {
                continue;
            }
            self.report(Report::Message(message));
        }
        if self.ended.len() >= 256 || (all && !self.ended.is_empty()) {
            let ended = std::mem::take(&mut self.ended);
            self.report(Finding::Ended(ended));
        }
    }
}
