//! A worker thread: its reactor, its links, its recorder. It shares nothing with other workers.

use crate::link::{Key, Link, Links, Phase};
use crate::machine;
use crate::place::Placement;
use io::{Clock, Listener, Reactor, Ready, Settings, Stream, Waker};
use metrics::{Ending, Group, Mono, Recorder, Tally};
use model::{ConnectionRecord, Effective};
use seam::{Arena, Can, Cause, Cx, Deed, Desk, End, Fault, Flow, News, Note, Open, Opener, Path, Read, Rng, Want, When};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::mpsc::{Receiver, Sender, TryRecvError};
use uuid::Uuid;

/// From the control thread.
pub(crate) enum Command {
    /// A group begins.
    Group(Box<Watch>),
    /// Its links end in good order.
    Stop(Group),
    /// Its links are aborted.
    Kill(Group),
    /// It is forgotten.
    Drop(Group),
    /// A link from another worker.
    Adopt { stream: Stream, path: Path, flow: Box<dyn Flow> },
    /// The thread ends.
    Quit,
}

/// To the control thread.
pub(crate) enum Report {
    Tally { group: Group, index: u32, from: Mono, to: Mono, tally: Box<Tally> },
    Ended(Vec<ConnectionRecord>),
    Idle(Group),
    Dropped { group: Group, tally: Box<Tally>, peak: u64, effective: Option<Effective> },
    Note(Note),
    Lifted { stream: Stream, path: Path },
    /// Something that the user should know.
    Trouble(String),
}

/// A group as a worker sees it.
pub(crate) struct Watch {
    pub(crate) group: Group,
    pub(crate) opener: Option<Box<dyn Opener>>,
    pub(crate) settings: Settings,
    pub(crate) throttle: u32,
    pub(crate) connect_timeout: u64,
    pub(crate) interval: u64,
    pub(crate) start: Mono,
    pub(crate) end: Option<Mono>,
    pub(crate) records: bool,
    /// Whether TCP_INFO is read of every link when it ends: a system call that short connections would feel.
    pub(crate) info: bool,
    pub(crate) state: WatchState,
}

/// What changes.
#[derive(Default)]
pub(crate) struct WatchState {
    from: Mono,
    index: u32,
    /// The last interval has been cut.
    closed: bool,
    connecting: u32,
    open: u64,
    peak: u64,
    stopped: bool,
    exhausted: bool,
    idle_told: bool,
    /// When to ask the opener again.
    ask_at: Option<Mono>,
    effective: Option<Effective>,
    sampled: usize,
}

/// What a worker is made of.
pub(crate) struct Outfit {
    pub(crate) index: usize,
    pub(crate) placement: Placement,
    pub(crate) listeners: Vec<Listener>,
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
}

/// Listener keys start here; link keys stay below.
const LISTENERS: u64 = 1 << 63;
/// Links opened or accepted in a row before the others get their turn.
const AT_ONCE: usize = 64;
/// The reactor is asked at least this often, ns.
const LOOK_AFTER: u64 = 100_000;
/// Links of which TCP_INFO is read per interval.
const SAMPLES: usize = 256;

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
    links: Links,
    ready: VecDeque<Key>,
    /// Not known to the reactor and waiting: tried once more, then registered, when there is nothing else to do.
    shy: Vec<Key>,
    timers: BinaryHeap<Reverse<(Mono, Key)>>,
    watches: BTreeMap<Group, Watch>,
    /// Groups whose openers make links.
    opening: Vec<Group>,
    /// When the next interval of any group ends, or earlier.
    next_boundary: Mono,
    ended: Vec<ConnectionRecord>,
    looked: Mono,
    listening: bool,
    quit: bool,
    /// Settings that accepted sockets have from their listener.
    inherited: Settings,
}

impl Worker {
    /// A worker around its reactor, which was made before the thread, so that its waker could be dealt out.
    pub(crate) fn new(outfit: Outfit, reactor: Reactor) -> Self {
        let clock = Clock::new();
        let room = outfit.buffer;
        Worker {
            rng: Rng::new(outfit.seed),
            wall: clock.sample(),
            clock,
            rec: Recorder::default(),
            post: Vec::new(),
            // Flows write their framing, and random payload, into the arena: a buffer and some marks.
            desk: Desk { tx: Arena::new(room + 256), reply: Arena::new(0), room: room + 256, reply_room: 0 },
            buffer: vec![0; room],
            links: Links::default(),
            ready: VecDeque::new(),
            shy: Vec::new(),
            timers: BinaryHeap::new(),
            watches: BTreeMap::new(),
            opening: Vec::new(),
            next_boundary: Mono(u64::MAX),
            ended: Vec::new(),
            looked: Mono(0),
            listening: true,
            quit: false,
            inherited: outfit.inherited.clone(),
            outfit,
            reactor,
        }
    }

    /// The thread's body.
    pub(crate) fn run(mut self) {
        io::thread::name(&format!("worker-{}", self.outfit.index));
        if let Err(error) = self.outfit.placement.take(self.outfit.index) {
            self.report(Report::Trouble(format!("worker {}: pinning failed: {error}", self.outfit.index)));
        }
        // Late timers show in the results; without precise ones they are only later.
        let _ = io::thread::precise_timers();
        for (i, listener) in self.outfit.listeners.iter().enumerate() {
            if let Err(error) = self.reactor.watch_level(listener, LISTENERS + i as u64) {
                self.report(Report::Trouble(format!("cannot watch a listener: {error}")));
            }
        }
        let mut events = Vec::new();
        while !self.quit {
            self.round(&mut events);
        }
    }

    fn report(&self, report: Report) {
        // The control thread outlives the workers; when it does not, nobody is left to be told.
        let _ = self.outfit.reports.send((self.outfit.index, report));
        self.outfit.control.wake();
    }

    /// Everything once: commands, time, new links, ready links, the reactor.
    fn round(&mut self, events: &mut Vec<Ready>) {
        let now = self.clock.now();
        if self.next_boundary <= now {
            self.boundaries(now);
        }
        self.due_timers(now);
        self.open_links(now);
        // No more than so many turns in a row: new connections and the clock must not wait for thousands of busy ones.
        for _ in 0..self.ready.len().min(AT_ONCE) {
            let Some(key) = self.ready.pop_front() else { break };
            if let Some(link) = self.links.get(key) {
                link.queued = false;
                self.turn(key);
            }
        }
        self.flush(false);
        let now = self.clock.now();
        let busy = !self.ready.is_empty() || self.wants_links();
        if busy && now.since(self.looked) < LOOK_AFTER {
            if self.reactor.woken() {
                self.commands();
            }
            return;
        }
        if !busy && self.try_shy() {
            return;
        }
        if !busy {
            self.flush(true);
        }
        let until = if busy { Some(now) } else { self.next_instant() };
        if let Err(error) = self.reactor.wait(until, &self.clock, events) {
            self.report(Report::Trouble(format!("waiting for sockets failed: {error}")));
            self.quit = true;
            return;
        }
        self.looked = self.clock.now();
        self.commands();
        for event in events.drain(..) {
            self.event(event);
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
                watch.state.from = watch.start;
                self.next_boundary = self.next_boundary.min(watch.boundary());
                if watch.opener.is_some() && watch.group != Group::ALL {
                    self.opening.push(watch.group);
                }
                self.watches.insert(watch.group, *watch);
            }
            Command::Stop(group) => self.stop(group),
            Command::Kill(group) => self.kill(group),
            Command::Drop(group) => self.drop_group(group),
            Command::Adopt { stream, path, flow } => self.adopt(stream, path, flow),
            Command::Quit => self.quit = true,
        }
    }

    fn stop(&mut self, group: Group) {
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
        for key in self.keys_of(group) {
            let tally = self.rec.tally(group);
            let text = "cut off: the connection did not end in time, so the ends could not compare their counts";
            tally.failed(Ending::Stopped, "cut off at the end of the run", || text.to_owned());
            self.close(key, Ok(Ending::Stopped), true);
        }
    }

    fn drop_group(&mut self, group: Group) {
        self.cut(group);
        self.kill(group);
        let Some(watch) = self.watches.remove(&group) else { return };
        self.opening.retain(|&g| g != group);
        if group == Group::ALL {
            self.listening = false;
            self.outfit.listeners.clear();
        }
        self.flush(true);
        let tally = Box::new(self.rec.take_tally(group));
        self.report(Report::Dropped { group, tally, peak: watch.state.peak, effective: watch.state.effective });
    }

    fn keys_of(&mut self, group: Group) -> Vec<Key> {
        let mut keys = self.links.keys();
        keys.retain(|&key| {
            self.links.get(key).is_some_and(|link| {
                link.counted == Some(group) || (link.counted.is_none() && link.owner == group && group != Group::ALL)
            })
        });
        keys
    }

    // Time ---------------------------------------------------------------------------------------------------------

    /// Cuts the intervals that are over.
    fn boundaries(&mut self, now: Mono) {
        while let Some(group) = self.watches.values().find(|w| !w.state.closed && w.boundary() <= now).map(|w| w.group) {
            let Some(watch) = self.watches.get_mut(&group) else { return };
            let last = watch.end.is_some_and(|end| watch.boundary() >= end);
            self.tally_up(group, now);
            if let Some(watch) = self.watches.get_mut(&group)
                && last
            {
                watch.state.closed = true;
            }
        }
        let open = self.watches.values().filter(|w| !w.state.closed);
        self.next_boundary = open.map(Watch::boundary).min().unwrap_or(Mono(u64::MAX));
    }

    /// Cuts the last interval before its time; when nothing is open any more, at the last payload.
    fn cut(&mut self, group: Group) {
        let now = self.clock.now();
        self.boundaries(now);
        let Some(watch) = self.watches.get_mut(&group) else { return };
        if watch.state.closed {
            return;
        }
        watch.state.closed = true;
        let from = watch.state.from;
        let to = if watch.state.open == 0 { self.rec.tally(group).last.max(from) } else { now };
        self.tally_up(group, to);
    }

    fn tally_up(&mut self, group: Group, to: Mono) {
        self.sample(group);
        let Some(watch) = self.watches.get_mut(&group) else { return };
        let (index, from) = (watch.state.index, watch.state.from);
        watch.state.index += 1;
        watch.state.from = to;
        let open = watch.state.open.saturating_sub(u64::from(watch.state.connecting));
        let mut tally = Box::new(self.rec.take_tally(group));
        tally.open = open;
        self.report(Report::Tally { group, index, from, to, tally });
    }

    /// Reads TCP_INFO of some open links of a group, other ones each time.
    fn sample(&mut self, group: Group) {
        if group == Group::ALL {
            return;
        }
        let keys = self.keys_of(group);
        let Some(watch) = self.watches.get_mut(&group) else { return };
        let skip = if keys.len() > SAMPLES { watch.state.sampled % keys.len() } else { 0 };
        watch.state.sampled = skip + SAMPLES;
        for &key in keys.iter().cycle().skip(skip).take(SAMPLES.min(keys.len())) {
            let Some(link) = self.links.get(key) else { continue };
            let (card, Some(info)) = (link.flow.card(), link.stream.info()) else { continue };
            let more = info.retransmits.saturating_sub(link.retransmits);
            link.retransmits = link.retransmits.max(info.retransmits);
            let tally = self.rec.tally(group);
            tally.retransmits += u64::from(more);
            tally.tcp.sample(&info);
            if tally.samples.len() < 64 {
                tally.samples.push((card.id.as_u128(), card.slot, info));
            }
        }
    }

    fn next_instant(&mut self) -> Option<Mono> {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let asks = self.opening.iter().filter_map(|group| self.watches.get(group)?.state.ask_at);
        asks.chain(timer).chain([self.next_boundary]).min().filter(|at| *at < Mono(u64::MAX))
    }

    /// Whether an opener is to be asked at once.
    fn wants_links(&self) -> bool {
        let mut openers = self.opening.iter().filter_map(|group| self.watches.get(group));
        openers.any(|w| !w.state.exhausted && w.state.ask_at.is_none())
    }

    fn due_timers(&mut self, now: Mono) {
        while let Some(&Reverse((at, key))) = self.timers.peek()
            && at <= now
        {
            self.timers.pop();
            let Some(link) = self.links.get(key) else { continue };
            if link.armed == Some(at) {
                link.armed = None;
            }
            if link.phase == Phase::Connecting {
                let owner = link.owner;
                let limit = self.watches.get(&owner).map_or(0, |w| w.connect_timeout);
                let born = self.links.get(key).map_or(now, |l| l.born);
                if now.since(born) >= limit {
                    let fault = Fault { deed: Deed::Connect, errno: io::TIMED_OUT };
                    self.close(key, Err(Cause::Fault(fault)), true);
                } else {
                    self.arm(key, born.plus(limit));
                }
                continue;
            }
            if link.flow.want().wake.is_some_and(|wake| wake <= now) {
                self.tell(key, News::Wake);
            } else {
                self.queue(key);
            }
        }
    }

    fn arm(&mut self, key: Key, at: Mono) {
        let Some(link) = self.links.get(key) else { return };
        if link.armed.is_none_or(|armed| at < armed) {
            link.armed = Some(at);
            self.timers.push(Reverse((at, key)));
        }
    }

    // Links --------------------------------------------------------------------------------------------------------

    fn queue(&mut self, key: Key) {
        if let Some(link) = self.links.get(key)
            && !link.queued
        {
            link.queued = true;
            // Whoever has just come is asked first, so that it does not wait behind thousands of busy links.
            if link.fresh { self.ready.push_front(key) } else { self.ready.push_back(key) }
        }
    }

    /// Asks the openers for new links.
    fn open_links(&mut self, now: Mono) {
        for i in 0..self.opening.len() {
            let group = self.opening[i];
            let Some(watch) = self.watches.get(&group) else { continue };
            if watch.state.exhausted || watch.state.ask_at.is_some_and(|at| at > now) {
                continue;
            }
            for _ in 0..AT_ONCE {
                if !self.open_one(group, now) {
                    break;
                }
            }
            self.check_idle(group);
        }
    }

    /// One new link; false when there is none for now.
    fn open_one(&mut self, group: Group, now: Mono) -> bool {
        let Some(watch) = self.watches.get_mut(&group) else { return false };
        if watch.state.connecting >= watch.throttle.max(1) {
            // The next link that is up, or not, asks again.
            watch.state.ask_at = Some(Mono(u64::MAX));
            return false;
        }
        let Some(opener) = &mut watch.opener else { return false };
        let mut cx = Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
        let (flow, target) = match opener.open(&mut cx) {
            Open::Flow(flow, target) => (flow, target),
            Open::At(at) => {
                watch.state.ask_at = Some(at);
                return false;
            }
            Open::Idle => {
                watch.state.ask_at = Some(Mono(u64::MAX));
                return false;
            }
            Open::Done => {
                watch.state.exhausted = true;
                watch.state.ask_at = None;
                return false;
            }
        };
        watch.state.ask_at = None;
        let born = self.clock.now();
        match Stream::connect(&target, &watch.settings) {
            Ok((stream, _)) => {
                watch.state.connecting += 1;
                watch.state.open += 1;
                let timeout = watch.connect_timeout;
                let key = self.links.insert(Link {
                    stream,
                    flow,
                    phase: Phase::Connecting,
                    path: None,
                    target: target.to,
                    can: Can { send: true, read: false },
                    watched: false,
                    fresh: true,
                    queued: false,
                    hung_up: false,
                    half_closed: false,
                    armed: None,
                    owner: group,
                    counted: Some(group),
                    born,
                    connect_ns: None,
                    retransmits: 0,
                });
                // On fast paths the handshake is over by now.
                self.connected(key);
                if self.links.get(key).is_some_and(|l| l.phase == Phase::Connecting) {
                    self.arm(key, born.plus(timeout));
                    self.watch(key);
                }
            }
            Err(fault) => self.never_was(group, flow, &target, fault),
        }
        true
    }

    /// A link that could not even begin to connect.
    fn never_was(&mut self, group: Group, flow: Box<dyn Flow>, target: &seam::Target, fault: Fault) {
        let cause = Cause::Fault(fault);
        let tally = self.rec.tally(group);
        tally.ended(Ending::NetworkError);
        tally.failed(Ending::NetworkError, &fault.to_string(), || format!("{}: {fault}", target.to));
        if let Some(remote) = tally.remote(target.to.ip()) {
            remote.connections += 1;
            remote.failed += 1;
        }
        let now = self.clock.now();
        let start = self.watches.get(&group).map_or(now, |w| w.start);
        self.ended.push(ConnectionRecord {
            id: flow.card().id,
            local: target.from,
            remote: target.to,
            ended_ns: now.since(start),
            tx_bytes: 0,
            rx_bytes: 0,
            connect_ns: None,
            duration_ns: 0,
            result: Ending::NetworkError,
            error: Some(cause.to_string()),
            tcp: None,
        });
        if let Some(opener) = self.watches.get_mut(&group).and_then(|w| w.opener.as_mut()) {
            let mut cx = Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
            opener.closed(&mut cx, flow, &Err(cause));
        }
    }

    /// A connecting link may be up, or have failed.
    fn connected(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        match link.stream.connected() {
            Ok(None) => {}
            Ok(Some(path)) => {
                let now = self.clock.now();
                let Some(link) = self.links.get(key) else { return };
                link.phase = Phase::Open;
                link.path = Some(path);
                let took = now.since(link.born);
                link.connect_ns = Some(took);
                let owner = link.owner;
                let effective = self.first_effective(owner, key);
                let tally = self.rec.tally(owner);
                tally.opened += 1;
                tally.connect_ns.record(took);
                if let Some(watch) = self.watches.get_mut(&owner) {
                    watch.state.connecting = watch.state.connecting.saturating_sub(1);
                    watch.state.ask_at = None;
                    let open = watch.state.open.saturating_sub(u64::from(watch.state.connecting));
                    watch.state.peak = watch.state.peak.max(open);
                    watch.state.effective = watch.state.effective.take().or(effective);
                    let stopped = watch.state.stopped;
                    self.tell(key, News::Up(path));
                    if stopped {
                        self.tell(key, News::Stop);
                    }
                }
            }
            Err(fault) => self.close(key, Err(Cause::Fault(fault)), true),
        }
    }

    fn first_effective(&mut self, group: Group, key: Key) -> Option<Effective> {
        if self.watches.get(&group).is_none_or(|w| w.state.effective.is_some()) {
            return None;
        }
        self.links.get(key).map(|link| machine::effective(link.stream.effective()))
    }

    fn accept(&mut self, listener: usize) {
        if !self.listening {
            return;
        }
        for _ in 0..AT_ONCE {
            let Some(listener) = self.outfit.listeners.get(listener) else { return };
            match listener.accept() {
                Ok(Some((stream, path))) => self.arrive(stream, path),
                Ok(None) => return,
                Err(fault) => {
                    self.report(Report::Trouble(format!("cannot accept connections: {fault}")));
                    // The listener stays readable: without a pause this would spin.
                    std::thread::sleep(std::time::Duration::from_millis(10));
                    return;
                }
            }
        }
    }

    fn arrive(&mut self, stream: Stream, path: Path) {
        let now = self.clock.now();
        let Some(opener) = self.watches.get_mut(&Group::ALL).and_then(|w| w.opener.as_mut()) else { return };
        let mut cx = Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
        let Some(flow) = opener.accept(&mut cx, &path) else { return stream.abort() };
        let key = self.hold(stream, path, flow, now);
        self.queue(key);
    }

    /// A link that comes from another worker.
    fn adopt(&mut self, stream: Stream, path: Path, flow: Box<dyn Flow>) {
        let now = self.clock.now();
        let key = self.hold(stream, path, flow, now);
        self.tell(key, News::Up(path));
        self.attach(key);
    }

    fn hold(&mut self, stream: Stream, path: Path, flow: Box<dyn Flow>, now: Mono) -> Key {
        self.links.insert(Link {
            stream,
            flow,
            phase: Phase::Open,
            path: Some(path),
            target: path.peer,
            can: Can { send: true, read: true },
            watched: false,
            fresh: true,
            queued: false,
            hung_up: false,
            half_closed: false,
            armed: None,
            owner: Group::ALL,
            counted: None,
            born: now,
            connect_ns: None,
            retransmits: 0,
        })
    }

    /// An accepted link that has begun to count belongs to a group from now on.
    fn attach(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        if link.counted.is_some() {
            return;
        }
        let Some(row) = link.flow.card().row else { return };
        let group = self.rec.group(row);
        let Some(watch) = self.watches.get_mut(&group) else {
            // The session ended while its connection was arriving.
            return self.close(key, Ok(Ending::Stopped), true);
        };
        link.counted = Some(group);
        watch.state.open += 1;
        watch.state.peak = watch.state.peak.max(watch.state.open);
        // What the listener gave already needs no call; what the kernel refuses shows in the effective values.
        if watch.settings != self.inherited {
            let _ = link.stream.apply(&watch.settings);
        }
        let effective = self.first_effective(group, key);
        self.rec.tally(group).opened += 1;
        self.rec.tally(Group::ALL).opened += 1;
        if let Some(watch) = self.watches.get_mut(&group) {
            watch.state.effective = watch.state.effective.take().or(effective);
            let stopped = watch.state.stopped;
            if let Some(all) = self.watches.get_mut(&Group::ALL) {
                all.state.open += 1;
                all.state.peak = all.state.peak.max(all.state.open);
            }
            if stopped {
                self.tell(key, News::Stop);
            }
        }
    }

    fn watch(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        if !link.watched {
            link.watched = true;
            if let Err(error) = self.reactor.watch(&link.stream, key.0) {
                let fault = Fault { deed: Deed::Open, errno: error.raw_os_error().unwrap_or(0) };
                self.close(key, Err(Cause::Fault(fault)), true);
            }
        }
    }

    /// Tries the links that the reactor does not know once more, and registers those that still have nothing; true when
    /// there is something to do now.
    fn try_shy(&mut self) -> bool {
        for key in std::mem::take(&mut self.shy) {
            let Some(link) = self.links.get(key) else { continue };
            if !link.watched && !link.queued {
                self.watch(key);
            }
        }
        !self.ready.is_empty()
    }

    fn event(&mut self, event: Ready) {
        if event.key >= LISTENERS {
            return self.accept((event.key - LISTENERS) as usize);
        }
        let key = Key(event.key);
        let Some(link) = self.links.get(key) else { return };
        link.can.read |= event.readable;
        link.can.send |= event.writable;
        link.hung_up |= event.hangup;
        if link.phase == Phase::Connecting {
            self.connected(key);
        } else {
            self.queue(key);
        }
    }

    /// Gives a flow tidings, and then its turn.
    fn tell(&mut self, key: Key, news: News) {
        let now = self.clock.now();
        let Some(link) = self.links.get(key) else { return };
        let mut cx = Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
        match link.flow.hear(&mut cx, news) {
            Ok(()) => self.queue(key),
            Err(violation) => self.close(key, Err(Cause::Violation(violation)), true),
        }
    }

    fn turn(&mut self, key: Key) {
        let Some(link) = self.links.get(key) else { return };
        if link.phase == Phase::Connecting {
            return self.connected(key);
        }
        let can = Can { send: link.can.send, read: link.can.read || link.hung_up };
        let mut net = link.stream.net(&mut self.buffer, &self.clock);
        let now = Mono(0);
        let mut cx = Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
        let result = seam::turn(&mut net, &mut *link.flow, &mut cx, &mut self.desk, can);
        let now = cx.now;
        match result {
            Ok(done) => {
                link.fresh &= done.sent + done.got == 0;
                link.can.send &= !done.full;
                // A buffer that was filled hides what is left.
                link.can.read &= !done.empty || done.got >= self.buffer.len();
                if done.sent + done.got > 0
                    && let Some(group) = link.counted
                {
                    self.rec.tally(group).last = now;
                    self.rec.tally(Group::ALL).last = now;
                }
                self.settle(key, now);
            }
            Err(cause) => self.close(key, Err(cause), true),
        }
    }

    /// After a turn: what next?
    fn settle(&mut self, key: Key, now: Mono) {
        let Some(link) = self.links.get(key) else { return };
        if link.counted.is_none() && link.flow.card().row.is_some() {
            self.attach(key);
        }
        let Some(link) = self.links.get(key) else { return };
        let Want { send, read, wake, end } = link.flow.want();
        match end {
            Some(End::Done { how, reset }) => return self.close(key, Ok(how), reset),
            Some(End::Lift) => return self.lift(key),
            Some(End::Hand(to)) => return self.hand(key, to),
            Some(End::Half) if !link.half_closed => {
                link.half_closed = true;
                link.stream.half_close();
            }
            Some(End::Half) | None => {}
        }
        let due = match send {
            When::Now => true,
            When::At(at) => at <= now,
            When::Never => false,
        };
        let reads = read != Read::Pause;
        if (due && link.can.send) || (reads && (link.can.read || link.hung_up)) {
            return self.queue(key);
        }
        let waits = (due && !link.can.send) || reads;
        let (watched, later) = (link.watched, if let When::At(at) = send { Some(at) } else { None });
        let (want_read, want_send) = (reads, due);
        if waits && !watched {
            self.shy.push(key);
        } else if waits {
            // Only where the reactor forgets what it has told.
            if self.reactor.rearm(&link.stream, key.0, want_read, want_send).is_err() {
                link.watched = false;
                self.shy.push(key);
            }
        }
        if let Some(at) = later.filter(|_| !due).into_iter().chain(wake).min() {
            self.arm(key, at);
        }
    }

    fn lift(&mut self, key: Key) {
        let Some(link) = self.links.remove(key) else { return };
        if link.watched {
            let _ = self.reactor.forget(&link.stream);
        }
        let Link { stream, path: Some(path), .. } = *link else { return };
        self.report(Report::Lifted { stream, path });
    }

    fn hand(&mut self, key: Key, to: u16) {
        let Some(link) = self.links.remove(key) else { return };
        if link.watched {
            let _ = self.reactor.forget(&link.stream);
        }
        let Link { stream, path: Some(path), flow, .. } = *link else { return };
        if let Some((mailbox, waker)) = self.outfit.peers.get(usize::from(to)) {
            let _ = mailbox.send(Command::Adopt { stream, path, flow });
            waker.wake();
        }
    }

    /// The end of a link: counted, told, forgotten.
    fn close(&mut self, key: Key, how: Result<Ending, Cause>, reset: bool) {
        let Some(link) = self.links.remove(key) else { return };
        let now = self.clock.now();
        let link = *link;
        if let Some(group) = link.counted {
            self.account(&link, group, &how, now);
        }
        let Link { stream, flow, owner, counted, phase, .. } = link;
        if let Some(row) = flow.card().row {
            self.rec.close(row);
        }
        if reset { stream.abort() } else { drop(stream) }
        if let Some(watch) = self.watches.get_mut(&owner) {
            if phase == Phase::Connecting {
                watch.state.connecting = watch.state.connecting.saturating_sub(1);
            }
            watch.state.ask_at = None;
            if let Some(opener) = &mut watch.opener {
                let mut cx = Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
                opener.closed(&mut cx, flow, &how);
            }
        }
        for group in counted.into_iter().chain((owner == Group::ALL && counted.is_some()).then_some(Group::ALL)) {
            if let Some(watch) = self.watches.get_mut(&group) {
                watch.state.open = watch.state.open.saturating_sub(1);
            }
        }
        if let Some(group) = counted {
            self.check_idle(group);
        }
    }

    fn account(&mut self, link: &Link, group: Group, how: &Result<Ending, Cause>, now: Mono) {
        // A link that the end of the run overtook while it was connecting has not failed, and has not been.
        if link.phase == Phase::Connecting && how.is_ok() {
            return;
        }
        let card = link.flow.card();
        let ending = how.as_ref().map_or_else(Cause::ending, |&ending| ending);
        let (counts, since) = card.row.map_or((metrics::Counts::default(), now), |row| self.rec.life(row));
        let duration = now.since(since);
        let (records, asks) = self.watches.get(&group).map_or((false, false), |w| (w.records, w.info));
        let info = if link.phase == Phase::Open && (asks || records) { link.stream.info() } else { None };
        let bytes = counts.tx_bytes + counts.rx_bytes;
        let tally = self.rec.tally(group);
        tally.ended(ending);
        if let Some(info) = &info {
            tally.tcp.add(info);
            tally.retransmits += u64::from(info.retransmits.saturating_sub(link.retransmits));
        }
        if let Err(cause) = how {
            tally.failed(ending, &name(cause), || format!("{}: {cause}", link.target));
        }
        if ending == Ending::Completed {
            tally.transfer_ns.record(duration);
        }
        if card.row.is_some() && duration > 0 && matches!(ending, Ending::Completed | Ending::Stopped) {
            let rate = bytes as f64 * 1e9 / duration as f64;
            tally.rate.record(rate as u64);
            tally.rates.add(rate);
        }
        if let Some(remote) = tally.remote(link.target.ip()) {
            remote.connections += 1;
            remote.failed += u64::from(how.is_err());
            remote.tx_bytes += counts.tx_bytes;
            remote.rx_bytes += counts.rx_bytes;
            remote.time_ns += duration;
        }
        if link.owner == Group::ALL {
            self.rec.tally(Group::ALL).ended(ending);
        }
        if records || how.is_err() {
            let start = self.watches.get(&group).map_or(now, |w| w.start);
            self.ended.push(ConnectionRecord {
                id: if card.id.is_nil() { Uuid::nil() } else { card.id },
                local: link.path.map(|p| p.local),
                remote: link.target,
                ended_ns: now.since(start),
                tx_bytes: counts.tx_bytes,
                rx_bytes: counts.rx_bytes,
                connect_ns: link.connect_ns,
                duration_ns: duration,
                result: ending,
                error: how.as_ref().err().map(ToString::to_string),
                tcp: info,
            });
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
        if self.ended.len() >= 256 || (all && !self.ended.is_empty()) {
            let ended = std::mem::take(&mut self.ended);
            self.report(Report::Ended(ended));
        }
        for note in std::mem::take(&mut self.post) {
            self.report(Report::Note(note));
        }
    }
}

impl Watch {
    /// When the current interval ends.
    fn boundary(&self) -> Mono {
        let next = self.start.plus(self.interval.saturating_mul(u64::from(self.state.index) + 1));
        self.end.map_or(next, |end| next.min(end))
    }
}

/// Failures with the same name are counted together.
fn name(cause: &Cause) -> String {
    match cause {
        Cause::Fault(fault) => fault.to_string(),
        Cause::Violation(violation) => violation.name().to_owned(),
    }
}
