//! The control thread: one session, its control links, and the aggregators of its groups.

use crate::EngineError;
use crate::group::Watched;
use crate::outgoing::Outgoing;
use crate::process::{self, Instruction, Process};
use crate::setup::Setup;
use crate::surroundings::Surroundings;
use crate::threads::{Workers, begin};
use crate::worker::{Command, Report};
use metrics::{Clamped, Group, Mono};
use model::{Aggregator, Complete, Event, Finding, Level, Links, omitted_intervals};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::ops::Range;
use transport::{
    Action, Attached, Clock as _, Deed, End, Fault, Got, GroupPlan, Held, Input, Interrupt, Link, LinkSource,
    Mail, Net as _, Order, Park, Part, Platform, Reactor as _, Read, Ready, Receiver as _, Sender as _,
    Session, SocketSettings, StreamSocket as _, Target, Task, Trigger, Watch as _,
};

/// Longest queue of a control link; a peer that lets it grow longer is cut off.
const LONGEST_QUEUE: usize = 8 << 20;
/// Longest queues of all control links together; when they grow longer, the link with the longest
/// queue is cut off.
const LONGEST_QUEUES: usize = 64 << 20;
/// Bytes read from one control link before the other links are read. A message can be as short as
/// 25 bytes and each may need an answer, so that one share is some 650 messages: a few
/// milliseconds.
const SHARE: usize = 16 * 1024;
/// Shares that are read between two looks at the links with news and at the session's deadline:
/// with more, a control thread that has a hundredth of a core, beside a hundred busy worker
/// processes, would say nothing for longer than a peer waits.
const SHARES: usize = 4;
/// Reports of workers that are taken likewise.
const REPORTS: usize = 64;
/// Bytes of a closed link that are read and discarded, so that the close does not become a reset.
const DISCARDED: usize = 64 * 1024;

struct ControlLink<P: Platform> {
    stream: P::Stream,
    /// Set while connecting.
    key: Option<u32>,
    out: Outgoing,
    /// Close when everything is sent.
    closing: Option<End>,
    /// The link is in [`Control::unread`]: its last share was not all that its socket had.
    unread: bool,
    /// The worker process that it leads to, by its place.
    process: Option<usize>,
}

/// Times after the user's interrupt at which the session gets it again and more urgently: a session
/// that does not end in good order is cut short, so that Ctrl-C ends a run within a second, even
/// while it waits.
const STOPS: [u64; 3] = [0, 7 * metrics::SECOND / 10, 9 * metrics::SECOND / 10];

/// Time between two lines about peers that give way, ns.
const CROWDED_EVERY: u64 = 60 * metrics::SECOND;

/// Longest time for queued messages to leave when the session is over, ns.
const LAST_MESSAGES: u64 = metrics::SECOND / 2;

/// Stages of a session's life.
#[derive(Clone, Copy, PartialEq, Eq)]
enum SessionStage {
    Begin,
    Running,
    /// The session is over, and its last messages leave until then.
    Leaving(Mono),
    Over,
}

/// The control thread: a session, its control links, and the workers that carry its data.
///
/// Wide: all that the thread owns, in one place.
pub struct Control<P: Platform, S: FnMut(Event)> {
    platform: P,
    session: Box<dyn Session>,
    sink: S,
    interrupt: Interrupt,
    setup: Setup<P>,
    reactor: P::Reactor,
    clock: P::Clock,
    own: Surroundings,
    links: BTreeMap<u64, ControlLink<P>>,
    next_link: u64,
    /// Links that may have unread bytes, which an edge-triggered reactor reports no more. The links
    /// are read in turn, one share each, some in each round.
    unread: VecDeque<u64>,
    /// Workers may have reported more than has been taken.
    reports_left: bool,
    buffer: Vec<u8>,
    /// Bytes queued on all links.
    queued: usize,
    workers: Workers<P>,
    processes: Vec<Process>,
    /// When the worker processes are looked after next.
    look_at: Mono,
    groups: BTreeMap<Group, Watched>,
    troubles: HashSet<String>,
    /// When it was last reported that peers which say nothing give way, and how many have since.
    crowded: (Option<Mono>, u64),
    /// Time of the user's interrupt, and the number of its deliveries to the session.
    stop: Option<(Mono, usize)>,
    /// The session got `Input::Finish`.
    finishing: bool,
    /// Keeps the user's wish waking this thread.
    _attached: Attached,
    stage: SessionStage,
    /// Why the session could not go on.
    failed: Option<EngineError>,
}

impl<P: Platform, S: FnMut(Event)> Control<P, S> {
    /// Starts the workers. The session begins with the first step.
    ///
    /// # Errors
    /// When the system refuses a reactor or a thread.
    pub fn new(
        platform: P,
        session: Box<dyn Session>,
        mut setup: Setup<P>,
        interrupt: &Interrupt,
        sink: S,
    ) -> Result<Self, EngineError> {
        let system = |what| move |source| EngineError::System { what, source };
        let reactor = platform.reactor().map_err(system("making a reactor"))?;
        let workers = Workers::start(&platform, &mut setup, &reactor)?;
        let clock = platform.clock();
        let look_at = clock.now().plus(process::LOOK);
        let processes = std::mem::take(&mut setup.processes);
        let mut control = Control {
            session,
            sink,
            interrupt: interrupt.clone(),
            setup,
            _attached: interrupt.attach(reactor.waker()),
            reactor,
            own: Surroundings::new(platform.random(), clock.sample()),
            clock,
            links: BTreeMap::new(),
            next_link: 1,
            unread: VecDeque::new(),
            reports_left: false,
            buffer: vec![0; SHARE],
            queued: 0,
            workers,
            processes: Vec::new(),
            look_at,
            groups: BTreeMap::new(),
            troubles: HashSet::new(),
            crowded: (None, 0),
            stop: None,
            finishing: false,
            stage: SessionStage::Begin,
            failed: None,
            platform,
        };
        let each = usize::from(control.setup.workers_of_process);
        for (at, stream) in processes.into_iter().enumerate() {
            let refused = || std::io::Error::other("a worker process cannot be watched");
            let link = control.enter(stream, None).ok_or_else(refused);
            let link = link.map_err(system("reaching a worker process"))?.0;
            let first = control.workers.handles.len() + at * each;
            if let Some(entry) = control.links.get_mut(&link) {
                entry.process = Some(at);
            }
            control.processes.push(Process::new(link, first..first + each));
        }
        Ok(control)
    }

    /// After the last step: waits for the workers.
    ///
    /// # Errors
    /// Why the session could not go on.
    pub fn finish(mut self) -> Result<(), EngineError> {
        for _ in 0..self.workers.join() {
            let text = "a worker thread has failed".to_owned();
            (self.sink)(Event::Notice { level: Level::Error, text });
        }
        self.failed.take().map_or(Ok(()), Err)
    }

    /// Until when to wait while the session goes on.
    fn until(&mut self) -> Option<Mono> {
        if self.stop.is_none() && self.interrupt.is_requested() {
            self.stop = Some((self.clock.now(), 0));
        }
        match self.unread.is_empty() && !self.reports_left && self.finishing == self.interrupt.is_finishing()
        {
            true => {
                let look = (!self.processes.is_empty()).then_some(self.look_at);
                self.session.deadline().into_iter().chain(self.next_stop()).chain(look).min()
            }
            false => Some(self.clock.now()),
        }
    }

    /// Hands the session its pending input.
    fn round(&mut self, ready: &mut Vec<Ready>) {
        let looked = self.clock.now();
        if !self.finishing && self.interrupt.is_finishing() {
            self.finishing = true;
            self.feed(Input::Finish);
        }
        if self.stop.is_some_and(|(_, told)| told == 0) {
            self.stop_session(looked);
        }
        // Links with news first: a link with unread bytes had its share in the round before.
        let before = self.unread.len();
        for event in ready.drain(..) {
            self.ready(event.key);
        }
        for _ in 0..before.min(SHARES) {
            let Some(id) = self.unread.pop_front() else { break };
            if let Some(entry) = self.links.get_mut(&id) {
                entry.unread = false;
                self.read(id);
            }
        }
        self.reports_left = self.take_reports();
        self.look_after_processes();
        // The next round handles a deadline that has passed meanwhile: a peer that has spoken
        // meanwhile was not silent.
        if self.session.deadline().is_some_and(|at| at <= looked) {
            self.feed(Input::Wake);
        }
        if self.stop.is_some_and(|(_, told)| told > 0) {
            self.stop_session(looked);
        }
    }

    /// Hands the session the user's wish for the end, where that is due.
    fn stop_session(&mut self, now: Mono) {
        if let Some((since, told)) = self.stop
            && self.next_stop().is_some_and(|at| at <= now)
        {
            self.stop = Some((since, told + 1));
            self.feed(Input::Stop);
        }
    }

    /// Takes some of what workers have reported; whether there may be more.
    fn take_reports(&mut self) -> bool {
        for _ in 0..REPORTS {
            let Mail::Message((worker, report)) = self.workers.reports.try_recv() else { return false };
            self.on_report(worker, report);
        }
        true
    }

    /// Time of the next delivery of the user's interrupt, while the session goes on.
    fn next_stop(&self) -> Option<Mono> {
        let (since, told) = self.stop?;
        STOPS.get(told).map(|after| since.plus(*after))
    }

    /// Ends the workers once the last messages have left, or took too long.
    fn leave(&mut self, until: Mono) -> Park {
        if self.links.values().any(|link| !link.out.is_empty()) && self.clock.now() < until {
            return Park::Wait(Some(until));
        }
        self.quit();
        Park::Done
    }

    fn quit(&mut self) {
        self.stage = SessionStage::Over;
        self.workers.quit();
        // A worker process ends when its connection does.
        for process in &self.processes {
            self.links.remove(&process.link);
        }
    }

    fn feed(&mut self, input: Input<'_>) {
        let now = self.clock.now();
        let mut cx = self.own.cx(now);
        self.session.handle(&mut cx, input);
        self.act();
    }

    /// Carries out the session's requests until none is left.
    fn act(&mut self) {
        loop {
            let now = self.clock.now();
            let mut cx = self.own.cx(now);
            let Some(action) = self.session.poll(&mut cx) else { return };
            match action {
                Action::Connect(key, target) => self.connect(key, &target),
                Action::Send(link, bytes) => self.send(link, &bytes),
                Action::Close(link, how) => self.close(link, how),
                Action::Group(plan, sources) => self.group(*plan, sources),
                Action::Order(group, order) => self.order(group, order),
                Action::Emit(event) => (self.sink)(event),
                Action::Done => self.stage = SessionStage::Leaving(self.clock.now().plus(LAST_MESSAGES)),
            }
        }
    }

    // Groups
    // -------------------------------------------------------------------------------------------------------

    fn group(&mut self, plan: GroupPlan, sources: Vec<LinkSource>) {
        let local = self.workers.handles.len();
        let all = self.processes.last().map_or(local, |process| process.workers.end);
        let workers = match &plan.workers {
            Some(of) => usize::from(of.start)..usize::from(of.end).min(all),
            None => 0..all,
        };
        let there = self.processes_of(&workers);
        let omitted = omitted_intervals(plan.omit, plan.interval);
        let watched = Aggregator::new(workers.len(), plan.start, omitted, plan.frames);
        let mut watched = Watched::new(watched, workers.clone(), self.setup.meter.clone());
        watched.beginning = there.len();
        let admission = self.setup.admission.as_ref().zip(plan.promised);
        watched.promise = admission.map(|(admission, (peer, links))| admission.promise(peer, links));
        self.groups.insert(plan.group, watched);
        let here = self.workers.handles.get(workers.start.min(local)..workers.end.min(local));
        begin(here.unwrap_or_default(), &plan, sources, &self.setup);
        for (index, &at) in there.iter().enumerate() {
            let part = Part { index: u32::clamped(index), of: u32::clamped(there.len()) };
            let Some(process) = self.processes.get_mut(at) else { continue };
            process.begin(plan.group, part, plan.slots);
            let (link, is_over) = (Link(process.link), process.is_over);
            match &plan.about {
                Some(about) if !is_over => self.send(link, &Instruction::Group(part, about).encode()),
                _ => self.lose(at),
            }
        }
    }

    /// The worker processes that have some of these workers, by their places.
    fn processes_of(&self, workers: &Range<usize>) -> Vec<usize> {
        let has =
            |process: &Process| process.workers.start < workers.end && workers.start < process.workers.end;
        (0..self.processes.len()).filter(|&at| has(&self.processes[at])).collect()
    }

    /// Fills in the reports that a lost worker process will not send.
    fn lose(&mut self, at: usize) {
        let now = self.clock.now();
        let lost = self.processes.get_mut(at).map(|process| process.lost(now));
        for (worker, finding) in lost.unwrap_or_default() {
            self.on_finding(worker, finding);
        }
    }

    /// Ends the worker processes that are stopped or stuck.
    fn look_after_processes(&mut self) {
        let now = self.clock.now();
        if self.processes.is_empty() || now < self.look_at {
            return;
        }
        self.look_at = now.plus(process::LOOK);
        let is_ending = self.stop.is_some();
        for at in 0..self.processes.len() {
            let Some(process) = self.processes.get_mut(at) else { continue };
            let link = process.link;
            if process.is_alive(self.links.get(&link).is_some_and(|entry| entry.unread), is_ending) {
                continue;
            }
            let text = format!("worker process {} says nothing: it is killed", at + 1);
            (self.sink)(Event::Notice { level: Level::Error, text });
            if let Some(kill) = &self.setup.kill_process {
                kill(at);
            }
            self.down(link, None);
        }
    }

    fn process_ended(&mut self, at: usize) {
        let text = format!("worker process {} has ended: its connections count as failed", at + 1);
        (self.sink)(Event::Notice { level: Level::Error, text });
        self.lose(at);
        if let Some(process) = self.processes.get(at) {
            let Range { start, end } = process.workers;
            self.feed(Input::Lost(u16::clamped(start)..u16::clamped(end)));
        }
    }

    fn order(&mut self, group: Group, order: Order) {
        let Some(watched) = self.groups.get_mut(&group) else { return };
        if let Order::Start(at) = order {
            watched.begin(at);
        }
        let (workers, local) = (watched.workers.clone(), self.workers.handles.len());
        let here = self.workers.handles.get(workers.start.min(local)..workers.end.min(local));
        for worker in here.unwrap_or_default() {
            worker.send(Command::Order(group, order));
        }
        for at in self.processes_of(&workers) {
            let link = Link(self.processes[at].link);
            self.send(link, &Instruction::Order(group, order).encode());
        }
    }

    fn on_finding(&mut self, worker: usize, finding: Finding) {
        match finding {
            Finding::Begun(group) => {
                let Some(watched) = self.groups.get_mut(&group) else { return };
                watched.beginning = watched.beginning.saturating_sub(1);
                if watched.beginning == 0 {
                    self.feed(Input::Begun(group));
                }
            }
            Finding::Tally { group, index, to, last, tally } => {
                let complete = self
                    .groups
                    .get_mut(&group)
                    .map(|watched| watched.aggregator.tally(index, to, last, &tally));
                for done in complete.unwrap_or_default() {
                    if done.to > done.from {
                        let Complete { index, from, to, tally } = &done;
                        self.feed(Input::Tally { group, index: *index, from: *from, to: *to, tally });
                    }
                }
                // The tally's memory goes back to its worker, which need not be woken for that.
                if let (Some(tally), Some(worker)) = (tally.recycled(), self.workers.handles.get(worker)) {
                    worker.mailbox.send(Command::Spare(Box::new(tally)));
                }
            }
            Finding::Ended(records) => {
                for record in records {
                    (self.sink)(Event::Connection(Box::new(record)));
                }
            }
            Finding::Idle(group) => {
                if self.groups.get_mut(&group).is_some_and(|watched| watched.aggregator.idle()) {
                    self.feed(Input::Idle(group));
                }
            }
            Finding::Dropped { group, tally, effective } => {
                if self.groups.get_mut(&group).is_some_and(|w| w.aggregator.last(&tally, effective))
                    && let Some(aggregator) = self.groups.remove(&group)
                {
                    let totals = aggregator.totals();
                    self.feed(Input::Dropped(group, Box::new(totals)));
                }
            }
            Finding::Limited { group, ends, text } => {
                (self.sink)(Event::Notice { level: Level::Warning, text: text.clone() });
                if let Some(group) = group.filter(|_| ends) {
                    // The session knows the client, whose name is in front.
                    let why = text.split_once(": ").map_or(&*text, |(_, why)| why);
                    self.feed(Input::Limited(group, why));
                }
            }
            Finding::Trouble(text) => {
                if self.troubles.len() < 100 && self.troubles.insert(text.clone()) {
                    (self.sink)(Event::Notice { level: Level::Error, text });
                }
            }
        }
    }

    fn on_report(&mut self, worker: usize, report: Report<P>) {
        match report {
            Report::Found(finding) => self.on_finding(worker, finding),
            Report::Links { at, ns, rows, more } => {
                let links = Links { worker: u32::clamped(worker), at, ns, rows, more };
                (self.sink)(Event::Links(Box::new(links)));
            }
            Report::Message(message) => self.feed(Input::Message(message)),
            Report::Crowded(n) => self.crowd(n),
            Report::Detached { stream, path } => {
                if let Some(link) = self.enter(stream, None) {
                    self.feed(Input::Up(link, path, None));
                }
            }
        }
    }

    /// Reports, at most once a minute, that peers which say nothing give way.
    fn crowd(&mut self, n: u64) {
        let now = self.clock.now();
        let (last, left_out) = &mut self.crowded;
        *left_out = left_out.saturating_add(n);
        if last.is_none_or(|last| now.since(last) >= CROWDED_EVERY) {
            *last = Some(now);
            let n = std::mem::take(left_out);
            let text = format!("too many connections that say nothing: {n} had to give way to newer ones");
            (self.sink)(Event::Notice { level: Level::Warning, text });
        }
    }

    // Control links
    // ------------------------------------------------------------------------------------------------

    fn enter(&mut self, stream: P::Stream, key: Option<u32>) -> Option<Link> {
        let id = self.next_link;
        self.next_link += 1;
        stream.watch(&self.reactor, id, Trigger::Edges).ok()?;
        // Behind a full queue, or on a path that loses much, doubled waits would outlast the run.
        stream.retransmit_evenly();
        let out = Outgoing::default();
        let entry = ControlLink { stream, key, out, closing: None, unread: false, process: None };
        self.links.insert(id, entry);
        Some(Link(id))
    }

    fn connect(&mut self, key: u32, target: &Target) {
        let SocketSettings { device, keepalive_ns, mss, .. } = self.setup.inherited.clone();
        let settings = SocketSettings { device, keepalive_ns, mss, ..SocketSettings::default() };
        match self.platform.connect(target, &settings) {
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
        entry.out.push(bytes);
        self.queued += bytes.len();
        self.push(link.0);
        if self.queued > LONGEST_QUEUES
            && let Some((&longest, _)) = self.links.iter().max_by_key(|(_, entry)| entry.out.len())
        {
            self.down(longest, None);
        }
    }

    /// Sends queued bytes until the socket is full.
    fn push(&mut self, id: u64) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        let wrote = entry.out.send::<P>(&mut entry.stream, &self.clock);
        self.queued = self.queued.saturating_sub(wrote.bytes);
        if let Some(fault) = wrote.fault {
            return self.down(id, Some(fault));
        }
        if !entry.out.is_empty() {
            // Only where the reactor forgets reported sockets.
            let _ = entry.stream.rearm(&self.reactor, id, !entry.unread, true);
            return;
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
            // Unread data of the peer would turn the close into an abort (RST), and the abort would
            // take our last message with it.
            let (mut discarded, mut scrap) = (0, [0; 4096]);
            let mut net = entry.stream.net(&mut scrap, &self.clock, false);
            while discarded < DISCARDED
                && let Got::Received(received) = net.recv(Read::look(4096))
            {
                discarded += received.len.max(1);
            }
        }
    }

    /// Takes a link out of the tables.
    fn remove(&mut self, id: u64) -> Option<ControlLink<P>> {
        let entry = self.links.remove(&id)?;
        let _ = entry.stream.forget(&self.reactor);
        self.queued = self.queued.saturating_sub(entry.out.len());
        Some(entry)
    }

    /// A link is lost; its session is notified, unless it has given the link up already.
    fn down(&mut self, id: u64, fault: Option<Fault>) {
        let Some(entry) = self.remove(id) else { return };
        let (key, closing, process) = (entry.key, entry.closing, entry.process);
        entry.stream.abort();
        if let Some(at) = process {
            return self.process_ended(at);
        }
        if closing.is_some() {
            return;
        }
        match (key, fault) {
            (Some(key), Some(fault)) => self.feed(Input::Refused(key, fault)),
            (Some(key), None) => self.feed(Input::Refused(key, Fault { deed: Deed::Connect, errno: 0 })),
            (None, fault) => self.feed(Input::Down(Link(id), fault)),
        }
    }

    fn ready(&mut self, id: u64) {
        let Some(entry) = self.links.get_mut(&id) else { return };
        if let Some(key) = entry.key {
            match entry.stream.connected() {
                Ok(None) => {
                    let _ = entry.stream.rearm(&self.reactor, id, true, true);
                    return;
                }
                Ok(Some(path)) => {
                    entry.key = None;
                    self.feed(Input::Up(Link(id), path, Some(key)));
                }
                Err(fault) => return self.down(id, Some(fault)),
            }
        }
        self.push(id);
        let Some(entry) = self.links.get_mut(&id).filter(|entry| !entry.unread) else { return };
        // Reports of worker processes are read after the peers, whose silence ends a session.
        if entry.process.is_some() {
            entry.unread = true;
            self.unread.push_back(id);
        } else {
            self.read(id);
        }
    }

    /// Reads at most one share from a link, and remembers the link if there may be more.
    fn read(&mut self, id: u64) {
        let mut buffer = std::mem::take(&mut self.buffer);
        let mut left = SHARE;
        while left > 0 {
            let Some(entry) = self.links.get_mut(&id) else { break };
            let mut net = entry.stream.net(&mut buffer, &self.clock, false);
            let came = match net.recv(Read::look(u64::clamped(left))) {
                Got::Received(received) => ControlRead::Bytes(received.len),
                Got::Nothing => ControlRead::Nothing,
                Got::Fin => ControlRead::End(None),
                Got::Fault(fault) => ControlRead::End(Some(fault)),
            };
            drop(net);
            match came {
                ControlRead::Bytes(n) => {
                    left = left.saturating_sub(n.max(1));
                    match entry.process {
                        Some(at) => {
                            match self.processes.get_mut(at).and_then(|it| it.receive(&buffer[..n])) {
                                Some(all) => {
                                    all.into_iter().for_each(|(worker, what)| self.on_finding(worker, what));
                                }
                                None => self.down(id, None),
                            }
                        }
                        None if entry.closing.is_none() => self.feed(Input::Bytes(Link(id), &buffer[..n])),
                        None => {}
                    }
                }
                ControlRead::Nothing => {
                    let _ = entry.stream.rearm(&self.reactor, id, true, !entry.out.is_empty());
                    break;
                }
                ControlRead::End(fault) => {
                    self.down(id, fault);
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

/// Result of one read of a control link.
enum ControlRead {
    Bytes(usize),
    Nothing,
    End(Option<Fault>),
}

impl<P: Platform, S: FnMut(Event)> Task<P> for Control<P, S> {
    fn step(&mut self) -> Park {
        if self.stage == SessionStage::Begin {
            self.stage = SessionStage::Running;
            self.act();
        }
        match self.stage {
            SessionStage::Begin | SessionStage::Running => Park::Wait(self.until()),
            SessionStage::Leaving(until) => self.leave(until),
            SessionStage::Over => Park::Done,
        }
    }

    fn reactor(&mut self) -> &mut P::Reactor {
        &mut self.reactor
    }

    fn resume(&mut self, ready: std::io::Result<&mut Vec<Ready>>) {
        match (ready, self.stage) {
            (Err(source), _) => {
                self.failed = Some(EngineError::System { what: "waiting for control links", source });
                self.quit();
            }
            (Ok(ready), SessionStage::Begin | SessionStage::Running) => self.round(ready),
            (Ok(_), SessionStage::Leaving(_)) => {
                for key in self.links.keys().copied().collect::<Vec<_>>() {
                    self.push(key);
                }
            }
            (Ok(_), SessionStage::Over) => {}
        }
    }

    fn held(&self) -> Held {
        Held { links: self.links.len(), timers: 0, messages: self.own.outbox.len(), bytes: self.queued }
    }
}

impl<P: Platform, S: FnMut(Event)> Drop for Control<P, S> {
    fn drop(&mut self) {
        self.quit();
    }
}

#[cfg(test)]
mod tests;
