//! The control thread: one session, its control links, and the books on its groups.

use crate::EngineError;
use crate::group::Watched;
use crate::interrupt::{Attached, Interrupt};
use crate::machine;
use crate::place::Placement;
use crate::worker::{Command, Outfit, Report, Watch, WatchState, Worker};
use io::{Clock, Listener, Reactor, Settings, Stream, Udp, UdpSettings, Waker};
use metrics::{Group, Mono, Recorder};
use model::{Book, Complete, Event, Level, Links};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use transport::{
    Action, Burst, Cx, Deed, End, Fault, Got, GroupPlan, Input, Link, Net, Note, Order, Read, Rng, Session,
    Target,
};
use wire::Run;

/// How a session's machine is set up.
pub(crate) struct Setup {
    pub(crate) workers: u16,
    /// So many sets of that many workers, each set on the same cores.
    pub(crate) sets: u16,
    pub(crate) placement: Placement,
    /// The worker that has the first connection, at the server, and hence the core of our first.
    pub(crate) first: usize,
    /// Listeners per worker, in the workers' order; empty for clients.
    pub(crate) listeners: Vec<Vec<Listener>>,
    /// Bound UDP sockets per worker, likewise.
    pub(crate) datagrams: Vec<Vec<Udp>>,
    /// What sockets have whatever their group wants: the interface, and what accepted ones inherit from their listener.
    pub(crate) inherited: Settings,
    /// The same for UDP sockets.
    pub(crate) inherited_udp: UdpSettings,
    /// Longest send and receive of a worker, bytes.
    pub(crate) buffer: usize,
    /// Whether workers run before all ordinary threads.
    pub(crate) realtime: bool,
    /// How often workers tell who is served, ns; `None` where nobody wants to know.
    pub(crate) links: Option<u64>,
}

/// Longest queue of a control link; a peer that lets it grow longer is cut off.
const LONGEST_QUEUE: usize = 8 << 20;
/// Longest queues of all control links together; when they grow longer, the link with the longest queue is cut off.
const LONGEST_QUEUES: usize = 64 << 20;
/// Bytes read from one control link before the other links are read. A message can be as short as 25 bytes and each may need an
/// answer, so that one share is some 650 messages: a few milliseconds.
const SHARE: usize = 16 * 1024;
/// Bytes of a closed link that are read and discarded, so that the close does not become a reset.
const DISCARDED: usize = 64 * 1024;

struct ControlLink {
    stream: Stream,
    /// Set while connecting.
    key: Option<u32>,
    out: Vec<u8>,
    /// Close when everything is sent.
    closing: Option<End>,
    /// The link is in [`Control::unread`]: its last share was not all that its socket had.
    unread: bool,
}

/// How long after the user has asked for the end the session is told: what does not end in good order by then is cut short, so that
/// Ctrl-C ends a run within a second, whatever is waited for.
const STOPS: [u64; 3] = [0, 7 * metrics::SECOND / 10, 9 * metrics::SECOND / 10];

struct Hand {
    mailbox: Sender<Command>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// The machine around a session.
pub(crate) struct Control<'a> {
    session: Box<dyn Session<Run>>,
    sink: &'a mut dyn FnMut(Event),
    interrupt: &'a Interrupt,
    setup: Setup,
    reactor: Reactor,
    clock: Clock,
    wall: metrics::Clock,
    rng: Rng,
    rec: Recorder,
    post: Vec<Note>,
    links: BTreeMap<u64, ControlLink>,
    next_link: u64,
    /// Links that may have unread bytes, about which an edge-triggered reactor says nothing more. They are read in turn, one share
    /// in each round.
    unread: VecDeque<u64>,
    /// Where control messages are received.
    buffer: Vec<u8>,
    /// Bytes queued on all links.
    queued: usize,
    hands: Vec<Hand>,
    reports: Receiver<(usize, Report)>,
    books: BTreeMap<Group, Watched>,
    troubles: HashSet<String>,
    /// When the user asked for the end, and how often the session has been told.
    stop: Option<(Mono, usize)>,
    /// Keeps the user's wish waking this thread.
    _attached: Attached,
    done: bool,
}

impl<'a> Control<'a> {
    /// Starts the workers.
    pub(crate) fn new(
        session: Box<dyn Session<Run>>,
        mut setup: Setup,
        interrupt: &'a Interrupt,
        sink: &'a mut dyn FnMut(Event),
    ) -> Result<Self, EngineError> {
        let system = |what| move |source| EngineError::System { what, source };
        let reactor = Reactor::new().map_err(system("making a reactor"))?;
        let (report, reports) = channel();
        let each = usize::from(setup.workers.max(1));
        let count = each * usize::from(setup.sets.max(1));
        let mut made = Vec::new();
        for _ in 0..count {
            let reactor = Reactor::new().map_err(system("making a worker's reactor"))?;
            made.push((channel::<Command>(), reactor));
        }
        let peers: Vec<_> = made.iter().map(|((mailbox, _), r)| (mailbox.clone(), r.waker())).collect();
        let mut listeners = std::mem::take(&mut setup.listeners).into_iter();
        let mut datagrams = std::mem::take(&mut setup.datagrams).into_iter();
        let cores = setup.placement.cores(each, setup.first);
        let mut hands = Vec::new();
        for (index, ((mailbox, commands), its_reactor)) in made.into_iter().enumerate() {
            let waker = its_reactor.waker();
            let outfit = Outfit {
                index,
                core: cores.get(index % each).copied().flatten(),
                listeners: listeners.next().unwrap_or_default(),
                datagrams: datagrams.next().unwrap_or_default(),
                commands,
                reports: report.clone(),
                control: reactor.waker(),
                peers: peers.clone(),
                buffer: setup.buffer,
                seed: io::clock::entropy(),
                inherited: setup.inherited.clone(),
                inherited_udp: setup.inherited_udp.clone(),
                realtime: setup.realtime,
                links: setup.links,
            };
            let body = move || Worker::new(outfit, its_reactor).run();
            let thread = std::thread::Builder::new()
                .name(format!("worker-{index}"))
                .stack_size(512 * 1024)
                .spawn(body)
                .map_err(system("starting a worker"))?;
            hands.push(Hand { mailbox, waker, thread: Some(thread) });
        }
        let attached = interrupt.attach(reactor.waker());
        let clock = Clock::new();
        Ok(Control {
            session,
            sink,
            interrupt,
            setup,
            reactor,
            wall: clock.sample(),
            clock,
            rng: Rng::new(io::clock::entropy()),
            rec: Recorder::default(),
            post: Vec::new(),
            links: BTreeMap::new(),
            next_link: 1,
            unread: VecDeque::new(),
            buffer: vec![0; SHARE],
            queued: 0,
            hands,
            reports,
            books: BTreeMap::new(),
            troubles: HashSet::new(),
            stop: None,
            _attached: attached,
            done: false,
        })
    }

    /// Runs the session to its end.
    pub(crate) fn run(mut self) -> Result<(), EngineError> {
        let mut events = Vec::new();
        self.act();
        while !self.done {
            if self.stop.is_none() && self.interrupt.asked() {
                self.stop = Some((self.clock.now(), 0));
            }
            let until = match self.unread.is_empty() {
                true => self.session.deadline().into_iter().chain(self.next_stop()).min(),
                false => Some(self.clock.now()),
            };
            self.reactor
                .wait(until, &self.clock, &mut events)
                .map_err(|source| EngineError::System { what: "waiting for control links", source })?;
            if let Some((since, told)) = self.stop
                && self.next_stop().is_some_and(|at| at <= self.clock.now())
            {
                self.stop = Some((since, told + 1));
                self.feed(Input::Stop);
            }
            // Links with news first: a link with unread bytes had its share in the round before.
            let before = self.unread.len();
            for event in events.drain(..) {
                self.ready(event.key);
            }
            for _ in 0..before {
                let Some(id) = self.unread.pop_front() else { break };
                if let Some(entry) = self.links.get_mut(&id) {
                    entry.unread = false;
                    self.read(id);
                }
            }
            while let Ok((worker, report)) = self.reports.try_recv() {
                self.hear(worker, report);
            }
            if self.session.deadline().is_some_and(|at| at <= self.clock.now()) {
                self.feed(Input::Wake);
            }
        }
        self.farewell();
        Ok(())
    }

    /// When the session is to be told that the user wants the end: again while it does not come.
    fn next_stop(&self) -> Option<Mono> {
        let (since, told) = self.stop?;
        STOPS.get(told).map(|after| since.plus(*after))
    }

    /// Lets queued goodbyes leave, for a moment, and ends the workers.
    fn farewell(&mut self) {
        let until = self.clock.now().plus(metrics::SECOND / 2);
        let mut events = Vec::new();
        while self.links.values().any(|l| !l.out.is_empty()) && self.clock.now() < until {
            if self.reactor.wait(Some(until), &self.clock, &mut events).is_err() {
                break;
            }
            for key in self.links.keys().copied().collect::<Vec<_>>() {
                self.push(key);
            }
        }
        for hand in &self.hands {
            let _ = hand.mailbox.send(Command::Quit);
            hand.waker.wake();
        }
        for hand in &mut self.hands {
            if let Some(thread) = hand.thread.take()
                && thread.join().is_err()
            {
                (self.sink)(Event::Notice {
                    level: Level::Error,
                    text: "a worker thread has failed".to_owned(),
                });
            }
        }
    }

    fn feed(&mut self, input: Input<'_, Run>) {
        let now = self.clock.now();
        let mut cx =
            Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
        self.session.handle(&mut cx, input);
        self.act();
    }

    /// Does what the session asks for, until it asks for nothing more.
    fn act(&mut self) {
        loop {
            let now = self.clock.now();
            let mut cx =
                Cx { now, clock: &self.wall, rng: &mut self.rng, rec: &mut self.rec, post: &mut self.post };
            let Some(action) = self.session.poll(&mut cx) else { return };
            match action {
                Action::Connect(key, target) => self.connect(key, &target),
                Action::Send(link, bytes) => self.send(link, &bytes),
                Action::Close(link, how) => self.close(link, how),
                Action::Group(plan) => self.group(*plan),
                Action::Order(group, order) => self.order(group, order),
                Action::Emit(event) => (self.sink)(event),
                Action::Done => self.done = true,
            }
        }
    }

    // Groups -------------------------------------------------------------------------------------------------------

    fn group(&mut self, plan: GroupPlan<model::SocketSettings>) {
        let settings = machine::settings(&plan.sockets, self.setup.inherited.device.as_deref());
        let udp = machine::udp_settings(&plan.sockets, self.setup.inherited.device.as_deref());
        let all = self.hands.len();
        let workers = plan.workers.map_or(0..all, |of| usize::from(of.start)..usize::from(of.end).min(all));
        let book = Book::new(workers.len(), plan.start, plan.omit, plan.frames);
        self.books.insert(plan.group, Watched::new(book, workers.clone()));
        let mut openers = plan.openers.into_iter();
        let mut cores = match plan.beside {
            Some(first) => self.setup.placement.beside(workers.len(), first as usize),
            None => Vec::new(),
        }
        .into_iter();
        for hand in self.hands.get(workers).unwrap_or_default() {
            let watch = Watch {
                group: plan.group,
                opener: openers.next(),
                settings: settings.clone(),
                udp: udp.clone(),
                whole_segments: plan.sockets.whole_segments,
                throttle: plan.throttle,
                connect_timeout: plan.connect_timeout,
                interval: plan.interval,
                start: plan.start,
                end: plan.end,
                records: plan.records,
                info: plan.info,
                packets: plan.packets,
                wait: plan.wait,
                frames: plan.frames,
                core: cores.next().flatten(),
                state: WatchState::default(),
            };
            let _ = hand.mailbox.send(Command::Group(Box::new(watch)));
            hand.waker.wake();
        }
    }

    fn order(&mut self, group: Group, order: Order) {
        let Some(watched) = self.books.get_mut(&group) else { return };
        if let Order::Start(at) = order {
            watched.begin(at);
        }
        for hand in self.hands.get(watched.workers.clone()).unwrap_or_default() {
            let command = match order {
                Order::Start(at) => Command::Start(group, at),
                Order::Ask(tag) => Command::Ask(group, tag),
                Order::Freeze(tag) => Command::Freeze(group, tag),
                Order::Stop => Command::Stop(group),
                Order::Kill => Command::Kill(group),
                Order::Drop => Command::Drop(group),
            };
            let _ = hand.mailbox.send(command);
            hand.waker.wake();
        }
    }

    fn hear(&mut self, worker: usize, report: Report) {
        match report {
            Report::Tally { group, index, to, last, tally } => {
                let complete =
                    self.books.get_mut(&group).map(|watched| watched.book.tally(index, to, last, &tally));
                for done in complete.unwrap_or_default() {
                    if done.to > done.from {
                        let Complete { index, from, to, tally } = &done;
                        self.feed(Input::Tally { group, index: *index, from: *from, to: *to, tally });
                    }
                }
                // Its memory goes back to where it is needed; nobody has to be woken for that.
                if let (Some(tally), Some(hand)) = (tally.recycled(), self.hands.get(worker)) {
                    let _ = hand.mailbox.send(Command::Spare(Box::new(tally)));
                }
            }
            Report::Ended(records) => {
                for record in records {
                    (self.sink)(Event::Connection(Box::new(record)));
                }
            }
            Report::Idle(group) => {
                if self.books.get_mut(&group).is_some_and(|watched| watched.book.idle()) {
                    self.feed(Input::Idle(group));
                }
            }
            Report::Dropped { group, tally, peak, effective } => {
                if self.books.get_mut(&group).is_some_and(|w| w.book.last(&tally, peak, effective))
                    && let Some(book) = self.books.remove(&group)
                {
                    let totals = book.totals();
                    self.feed(Input::Dropped(group, Box::new(totals)));
                }
            }
            Report::Links { at, ns, rows, more } => {
                let links = Links { worker: worker as u32, at, ns, rows, more };
                (self.sink)(Event::Links(Box::new(links)));
            }
            Report::Note(note) => self.feed(Input::Note(note)),
            Report::Lifted { stream, path } => {
                let link = self.enter(stream, None);
                if let Some(link) = link {
                    self.feed(Input::Up(link, path, None));
                }
            }
            Report::Trouble(text) => {
                if self.troubles.len() < 100 && self.troubles.insert(text.clone()) {
                    (self.sink)(Event::Notice { level: Level::Error, text });
                }
            }
        }
    }

    // Control links ------------------------------------------------------------------------------------------------

    fn enter(&mut self, stream: Stream, key: Option<u32>) -> Option<Link> {
        let id = self.next_link;
        self.next_link += 1;
        self.reactor.watch(&stream, id).ok()?;
        self.links.insert(id, ControlLink { stream, key, out: Vec::new(), closing: None, unread: false });
        Some(Link(id))
    }

    fn connect(&mut self, key: u32, target: &Target) {
        let Settings { device, keepalive, .. } = self.setup.inherited.clone();
        let settings = Settings { device, keepalive, ..Settings::default() };
        let stream = Stream::connect(target, &settings);
        match stream {
            Ok((stream, _)) => {
                if self.enter(stream, Some(key)).is_none() {
                    self.feed(Input::Refused(key, Fault { deed: Deed::Open, errno: 0 }));
                }
            }
            Err(fault) => self.feed(Input::Refused(key, fault)),
        }
    }

    fn send(&mut self, link: Link, bytes: &[u8]) {
        let Some(entry) = self.links.get_mut(&link.0) else { return };
        if entry.out.len() + bytes.len() > LONGEST_QUEUE {
            return self.down(link.0, None);
        }
        entry.out.extend_from_slice(bytes);
        self.queued += bytes.len();
        self.push(link.0);
        if self.queued > LONGEST_QUEUES
            && let Some((&longest, _)) = self.links.iter().max_by_key(|(_, entry)| entry.out.len())
        {
            self.down(longest, None);
        }
    }

    /// Sends what is queued, as far as it goes.
    fn push(&mut self, id: u64) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        while !entry.out.is_empty() {
            let mut arena = transport::Arena::new(entry.out.len());
            let mut burst = Burst::new(&mut arena, entry.out.len());
            burst.own(entry.out.len()).copy_from_slice(&entry.out);
            let wrote = entry.stream.net(&mut [], &self.clock).send(&burst);
            entry.out.drain(..wrote.bytes);
            self.queued = self.queued.saturating_sub(wrote.bytes);
            if let Some(fault) = wrote.fault {
                return self.down(id, Some(fault));
            }
            if wrote.bytes == 0 {
                return;
            }
        }
        if let Some(how) = entry.closing {
            self.end(id, how);
        }
    }

    fn close(&mut self, link: Link, how: End) {
        let Some(entry) = self.links.get_mut(&link.0) else { return };
        if entry.out.is_empty() || matches!(how, End::Done { reset: true, .. }) {
            self.end(link.0, how);
        } else {
            entry.closing = Some(how);
        }
    }

    fn end(&mut self, id: u64, how: End) {
        let Some(entry) = self.remove(id) else { return };
        if matches!(how, End::Done { reset: true, .. }) {
            entry.stream.abort();
        } else {
            entry.stream.half_close();
            // What the peer has sent and nobody will read would turn the close into an abort, and the abort would take
            // our last message with it.
            let (mut discarded, mut scrap) = (0, [0; 4096]);
            let mut net = entry.stream.net(&mut scrap, &self.clock);
            while discarded < DISCARDED
                && let Got::Batch(batch) = net.recv(Read::look(4096))
            {
                discarded += batch.len.max(1);
            }
        }
    }

    /// Takes a link out of the tables.
    fn remove(&mut self, id: u64) -> Option<ControlLink> {
        let entry = self.links.remove(&id)?;
        let _ = self.reactor.forget(&entry.stream);
        self.queued = self.queued.saturating_sub(entry.out.len());
        Some(entry)
    }

    /// A link is lost; its session is told, unless the session has given it up already.
    fn down(&mut self, id: u64, fault: Option<Fault>) {
        let Some(entry) = self.remove(id) else { return };
        let (key, closing) = (entry.key, entry.closing);
        entry.stream.abort();
        if closing.is_some() {
            return;
        }
        match (key, fault) {
            (Some(key), Some(fault)) => self.feed(Input::Refused(key, fault)),
            (Some(key), None) => self.feed(Input::Refused(key, Fault { deed: Deed::Connect, errno: 0 })),
            (None, fault) => self.feed(Input::Down(Link(id), fault)),
        }
    }

    /// Something happened to a link.
    fn ready(&mut self, id: u64) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        if let Some(key) = entry.key {
            match entry.stream.connected() {
                Ok(None) => return,
                Ok(Some(path)) => {
                    entry.key = None;
                    self.feed(Input::Up(Link(id), path, Some(key)));
                }
                Err(fault) => return self.down(id, Some(fault)),
            }
        }
        self.push(id);
        if self.links.get(&id).is_some_and(|entry| !entry.unread) {
            self.read(id);
        }
    }

    /// Reads at most one share from a link, and remembers the link if there may be more.
    fn read(&mut self, id: u64) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut left = SHARE;
        while left > 0 {
            let Some(entry) = self.links.get_mut(&id) else { break };
            let mut net = entry.stream.net(&mut buffer, &self.clock);
            match net.recv(Read::look(left as u64)) {
                Got::Batch(batch) => {
                    let n = batch.len;
                    left = left.saturating_sub(n.max(1));
                    if entry.closing.is_none() {
                        self.feed(Input::Bytes(Link(id), &buffer[..n]));
                    }
                }
                Got::Nothing => {
                    let _ = self.reactor.rearm(&entry.stream, id, true, !entry.out.is_empty());
                    break;
                }
                Got::Fin => {
                    self.down(id, None);
                    break;
                }
                Got::Fault(fault) => {
                    self.down(id, Some(fault));
                    break;
                }
            }
        }
        self.buffer = buffer;
        if left == 0
            && let Some(entry) = self.links.get_mut(&id)
        {
            entry.unread = true;
            self.unread.push_back(id);
        }
    }
}

impl Drop for Control<'_> {
    fn drop(&mut self) {
        for hand in &self.hands {
            let _ = hand.mailbox.send(Command::Quit);
            hand.waker.wake();
        }
    }
}

/// Now, by the same clock as all workers.
pub(crate) fn now() -> Mono {
    Clock::new().now()
}

#[cfg(test)]
mod tests;
