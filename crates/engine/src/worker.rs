//! A worker thread: its reactor, its links, its recorder. It shares nothing with other workers.

mod arrive;
mod close;
mod drain;
mod intervals;
mod knock;
mod links;
mod mail;
mod rest;
#[cfg(test)]
mod tests;
mod turns;
mod watch;

pub(crate) use mail::{Command, Report};
pub(crate) use watch::{Watch, WatchState};

use crate::link::{Key, Links, Phase, Socket};
use io::{Clock, Listener, Reactor, Ready, Settings, Udp, UdpSettings, Waker};
use knock::Packets;
use links::Peers;
use metrics::{Ending, Group, Mono, Recorder, TcpInfo};
use model::ConnectionRecord;
use rest::Rest;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use transport::{Arena, Cause, Desk, News, Note, Rng, Violation};

/// What a worker is made of.
pub(crate) struct Outfit {
    pub(crate) index: usize,
    /// Where it runs; `None` leaves it to the scheduler.
    pub(crate) core: Option<usize>,
    pub(crate) listeners: Vec<Listener>,
    /// Bound UDP sockets, at which peers without a socket of their own knock.
    pub(crate) datagrams: Vec<Udp>,
    pub(crate) commands: Receiver<Command>,
    pub(crate) reports: Sender<(usize, Report)>,
    pub(crate) control: Waker,
    /// The other workers' mailboxes, ours included.
    pub(crate) peers: Vec<(Sender<Command>, Waker)>,
    /// Longest send and receive, bytes.
    pub(crate) buffer: usize,
    pub(crate) seed: u64,
    /// Settings of the listeners.
    pub(crate) inherited: Settings,
    /// Settings of sockets beside the bound UDP sockets, until their group is known.
    pub(crate) inherited_udp: UdpSettings,
    /// It runs before all ordinary threads.
    pub(crate) realtime: bool,
    /// How often it is told who is served, ns; `None` where nobody wants to know.
    pub(crate) links: Option<u64>,
}

/// Listener keys start here; link keys stay below.
const LISTENERS: u64 = 1 << 63;
/// And those of bound UDP sockets here.
const DATAGRAMS: u64 = LISTENERS | 1 << 62;
/// Links opened or accepted in a row before the others get their turn.
const AT_ONCE: usize = 64;
/// Bytes of datagrams that are sent in a row before the core is offered to others. A receiver of ours on the same core then
/// reads them while they are in its cache: with 38 datagrams of 1400 bytes a call, two cores moved 9.6 million a second so,
/// every byte compared, and 6.3 million when the scheduler decided (every 4 ms, by when megabytes had gathered).
const POUR: usize = 512 << 10;
/// What a turn moves at most of a stream that carries messages rather than bulk, bytes.
const SHORT: usize = 16 << 10;
/// The reactor is asked at least this often while there is something to do, ns.
const LOOK_AFTER: u64 = 100_000;
/// A link that has waited for so long on a busy worker is registered with the reactor, ns.
const REGISTER_AFTER: u64 = 1_000_000;

pub(crate) struct Worker {
    outfit: Outfit,
    reactor: Reactor,
    clock: Clock,
    wall: metrics::Clock,
    rng: Rng,
    rec: Recorder,
    post: Vec<Note>,
    desk: Desk,
    buffer: Vec<u8>,
    packets: Packets,
    links: Links,
    ready: VecDeque<Key>,
    /// Links that wait and that the reactor does not watch yet, and since when: registered when the worker is idle, or after
    /// [`REGISTER_AFTER`] on one that is not, so that connections shorter than that never pay for it.
    unregistered: VecDeque<(Key, Mono)>,
    /// Links were tried in the last round, and some may be unknown to the reactor.
    tried: bool,
    timers: BinaryHeap<Reverse<(Mono, Key)>>,
    watches: BTreeMap<Group, Watch>,
    /// Groups whose openers make links.
    opening: Vec<Group>,
    /// When the next interval of any group ends, or earlier.
    next_boundary: Mono,
    ended: Vec<ConnectionRecord>,
    looked: Mono,
    /// Bytes of datagrams sent since the core was last offered, or idle.
    poured: usize,
    /// Datagrams or short messages have been sent or received since the last rest.
    active: bool,
    rest: Rest,
    listening: bool,
    /// When listeners are watched again, after an accept that failed.
    accept_at: Option<Mono>,
    quit: bool,
    /// Settings that accepted sockets have from their listener.
    inherited: Settings,
    /// Where it is told who is served.
    peers: Option<Peers>,
}

impl Worker {
    /// A worker around its reactor, which was made before the thread, so that its waker could be dealt out.
    pub(crate) fn new(outfit: Outfit, reactor: Reactor) -> Self {
        let clock = Clock::new();
        let room = outfit.buffer;
        Worker {
            rng: Rng::new(outfit.seed),
            wall: clock.sample(),
            rec: Recorder::default(),
            post: Vec::new(),
            // Flows write their framing, and random payload, into the arena: a buffer and some marks.
            desk: Desk {
                tx: Arena::new(room + 256),
                reply: Arena::new(0),
                room: room + 256,
                reply_room: 0,
                segments: 1,
            },
            buffer: vec![0; room],
            packets: Packets::default(),
            links: Links::default(),
            ready: VecDeque::new(),
            unregistered: VecDeque::new(),
            tried: false,
            timers: BinaryHeap::new(),
            watches: BTreeMap::new(),
            opening: Vec::new(),
            next_boundary: Mono(u64::MAX),
            ended: Vec::new(),
            looked: Mono(0),
            poured: 0,
            active: false,
            rest: Rest::default(),
            listening: true,
            accept_at: None,
            quit: false,
            inherited: outfit.inherited.clone(),
            peers: outfit.links.map(|every| Peers::new(every, clock.now())),
            clock,
            outfit,
            reactor,
        }
    }

    /// The thread's body.
    pub(crate) fn run(mut self) {
        io::thread::name(&format!("worker-{}", self.outfit.index));
        self.pin(self.outfit.core);
        // Late timers show in the results; without precise ones they are only later.
        let _ = io::thread::precise_timers();
        if self.outfit.realtime {
            self.hurry();
        }
        let mut events = Vec::new();
        while !self.quit {
            self.round(&mut events);
        }
    }

    /// Runs before all ordinary threads, as far as the system allows it.
    fn hurry(&self) {
        if let Err(e) = io::thread::realtime() {
            self.report(Report::Trouble(format!("workers do not run in real time (SCHED_FIFO): {e}")));
        }
        if let Err(e) = io::thread::lock_memory() {
            self.report(Report::Trouble(format!("memory is not kept from being paged out (mlockall): {e}")));
        }
    }

    fn report(&self, report: Report) {
        // The control thread outlives the workers; when it does not, nobody is left to be told.
        let _ = self.outfit.reports.send((self.outfit.index, report));
        self.outfit.control.wake();
    }

    /// Everything once: commands, time, new links, ready links, the reactor.
    fn round(&mut self, events: &mut Vec<Ready>) {
        // Before any link has its turn: the session of one that was just accepted may have come after the last look.
        if self.reactor.woken() {
            self.commands();
        }
        let now = self.clock.now();
        if self.next_boundary <= now {
            self.boundaries(now);
        }
        self.tell_links(now);
        self.due_timers(now);
        self.resume_listeners(now);
        self.open_links(now);
        if self.watches.get(&Group::ALL).and_then(|w| w.state.ask_at).is_some_and(|at| at <= now) {
            // Who is thought to have fallen silent may have been heard.
            self.drain_doors();
            self.tend();
        }
        // No more than so many turns in a row: new connections and the clock must not wait for thousands of busy ones.
        for _ in 0..self.ready.len().min(AT_ONCE) {
            let Some(key) = self.ready.pop_front() else { break };
            if let Some(link) = self.links.get(key) {
                link.queued = false;
                self.turn(key);
            }
            self.offer_if_poured();
        }
        self.offer_if_poured();
        self.flush(false);
        self.watch_untried();
        let now = self.clock.now();
        let busy = !self.ready.is_empty() || self.wants_links();
        if busy && now.since(self.looked) < LOOK_AFTER {
            return;
        }
        self.register(now, busy);
        if !busy {
            self.poured = 0;
            if !self.ready.is_empty() {
                return;
            }
            self.flush(true);
        }
        let until = if busy { Some(now) } else { self.next_instant() };
        let Some(until) = self.until(now, until, busy) else { return };
        let Some(until) = self.linger(now, until) else { return };
        if until.is_some_and(|until| until <= now) && self.tries() {
            // The reactor will tell nothing of links that it does not watch.
            self.try_all();
        }
        if let Err(error) = self.reactor.wait(until, &self.clock, events) {
            self.report(Report::Trouble(format!("waiting for sockets failed: {error}")));
            self.quit = true;
            return;
        }
        self.looked = self.clock.now();
        self.rest.slept(until, self.looked, events.is_empty());
        self.commands();
        for event in events.drain(..) {
            self.event(event);
        }
    }

    fn offer_if_poured(&mut self) {
        if self.poured >= POUR {
            self.poured = 0;
            io::thread::offer();
        }
    }

    fn commands(&mut self) {
        loop {
            match self.outfit.commands.try_recv() {
                Ok(command) => self.command(command),
                Err(TryRecvError::Empty) => return,
                Err(TryRecvError::Disconnected) => {
                    self.quit = true;
                    return;
                }
            }
        }
    }

    fn command(&mut self, command: Command) {
        match command {
            Command::Group(mut watch) => {
                self.pin(watch.core);
                watch.state.from = watch.start;
                self.next_boundary = self.next_boundary.min(watch.boundary());
                if watch.opener.is_some() && watch.group != Group::ALL {
                    self.opening.push(watch.group);
                }
                let group = watch.group;
                self.watches.insert(group, *watch);
                self.choose_wait();
                if group == Group::ALL {
                    self.listen();
                }
            }
            Command::Start(group, at) => self.start(group, at),
            Command::Ask(group, tag) => self.ask(group, |info| News::Ask { tag, info }),
            Command::Freeze(group, tag) => {
                self.drain(group);
                self.cut(group);
                self.ask(group, |info| News::Freeze { tag, info });
            }
            Command::Stop(group) => self.stop(group),
            Command::Kill(group) => {
                self.drain(group);
                self.kill(group);
            }
            Command::Drop(group) => self.drop_group(group),
            Command::Adopt { socket, path, flow } => self.adopt(socket, path, flow),
            Command::Spare(tally) => self.rec.spare(*tally),
            Command::Quit => self.quit = true,
        }
    }

    fn pin(&self, core: Option<usize>) {
        if let Some(core) = core
            && let Err(error) = io::thread::pin(&[core])
        {
            self.report(Report::Trouble(format!("worker {}: pinning failed: {error}", self.outfit.index)));
        }
    }

    /// Lets connections in, now that there is somebody to greet them.
    fn listen(&mut self) {
        self.watch_listeners();
        for (i, socket) in self.outfit.datagrams.iter().enumerate() {
            if let Err(error) = self.reactor.watch_level(socket, DATAGRAMS + i as u64) {
                self.report(Report::Trouble(format!("cannot watch a UDP socket: {error}")));
            }
        }
    }

    fn watch_listeners(&mut self) {
        for (i, listener) in self.outfit.listeners.iter().enumerate() {
            if let Err(error) = self.reactor.watch_level(listener, LISTENERS + i as u64) {
                self.report(Report::Trouble(format!("cannot watch a listener: {error}")));
            }
        }
    }

    fn start(&mut self, group: Group, at: Mono) {
        let Some(watch) = self.watches.get_mut(&group) else { return };
        watch.start = at;
        watch.state.from = at;
        self.next_boundary = self.next_boundary.min(watch.boundary());
        for key in self.keys_of(group) {
            self.tell(key, News::Start);
        }
    }

    /// Tells all links of a group something, with what the kernel knows of each.
    fn ask(&mut self, group: Group, news: impl Fn(Option<Box<TcpInfo>>) -> News) {
        for key in self.keys_of(group) {
            let Some(link) = self.links.get(key) else { continue };
            let info = link.socket.info().map(Box::new);
            self.tell(key, news(info));
        }
        // What they say is waited for.
        self.flush(false);
    }

    fn stop(&mut self, group: Group) {
        self.drain(group);
        self.cut(group);
        let Some(watch) = self.watches.get_mut(&group) else { return };
        watch.state.stopped = true;
        if let Some(opener) = &mut watch.opener {
            opener.stop();
        }
        for key in self.keys_of(group) {
            let Some(link) = self.links.get(key) else { continue };
            if link.phase == Phase::Connecting {
                self.close(key, Ok(Ending::Stopped), true);
            } else {
                self.tell(key, News::Stop);
            }
        }
        self.check_idle(group);
    }

    fn kill(&mut self, group: Group) {
        let stopped = self.watches.get(&group).is_some_and(|w| w.state.stopped);
        for key in self.keys_of(group) {
            if !stopped {
                self.close(key, Err(Cause::Violation(Violation::Vanished)), true);
                continue;
            }
            let tally = self.rec.tally(group);
            let text =
                "cut off: the connection did not end in time, so the ends could not compare their counts";
            tally.failed(Ending::Stopped, "cut off at the end of the run", || text.to_owned());
            self.close(key, Ok(Ending::Stopped), true);
        }
    }

    fn drop_group(&mut self, group: Group) {
        self.drain(group);
        self.cut(group);
        self.kill(group);
        if group == Group::ALL {
            if let Some(opener) = self.watches.get_mut(&group).and_then(|w| w.opener.as_mut()) {
                opener.stop();
            }
            self.tend();
        }
        let Some(watch) = self.watches.remove(&group) else { return };
        self.opening.retain(|&g| g != group);
        self.choose_wait();
        if group == Group::ALL {
            self.listening = false;
            for socket in &self.outfit.datagrams {
                let _ = self.reactor.forget(socket);
            }
            self.outfit.datagrams.clear();
            self.outfit.listeners.clear();
        }
        self.flush(true);
        let tally = Box::new(self.rec.take_tally(group));
        self.report(Report::Dropped {
            group,
            tally,
            peak: watch.state.peak,
            effective: watch.state.effective,
        });
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
            return self.knocks((event.key - DATAGRAMS) as usize);
        }
        if event.key >= LISTENERS {
            return self.accept((event.key - LISTENERS) as usize);
        }
        let key = Key(event.key);
        let Some(link) = self.links.get(key) else { return };
        link.can.read |= event.readable;
        link.can.send |= event.writable;
        // Nobody hangs up on a UDP socket: it has an error, or a stamp, which reading takes away.
        link.hung_up |= event.hangup && matches!(link.socket, Socket::Stream(_));
        if link.phase == Phase::Connecting {
            self.connected(key);
        } else {
            self.queue(key);
        }
    }

    /// Tells, once, that a group has no links left and will open no more.
    fn check_idle(&mut self, group: Group) {
        let Some(watch) = self.watches.get_mut(&group) else { return };
        let over = watch.state.exhausted || watch.state.stopped;
        if over && watch.state.open == 0 && !watch.state.idle_told {
            watch.state.idle_told = true;
            self.flush(true);
            self.report(Report::Idle(group));
        }
    }

    /// Sends up what has gathered: at once when there is nothing else to do, else in batches.
    fn flush(&mut self, all: bool) {
        // What a flow told comes before its end.
        for note in std::mem::take(&mut self.post) {
            self.report(Report::Note(note));
        }
        if self.ended.len() >= 256 || (all && !self.ended.is_empty()) {
            let ended = std::mem::take(&mut self.ended);
            self.report(Report::Ended(ended));
        }
    }
}
