//! A machine's control thread: its session, its control links and its books, as the engine has them.

use super::network::{Job, Network, Owner};
use super::side::{Quirks, Side, Wire};
use super::stream::{REFUSED, Taken};
use super::worker::{Command, Watch, Worker};
use crate::Run;
use metrics::{Group, Mono, Tally};
use model::{Book, Event};
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use transport::{
    Action, Arena, Burst, Deed, End, Fault, GroupPlan, Input, Key, Link, Note, Order, Path, Session, Target,
};

/// A machine of a [`Network`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Host(pub(super) usize);

/// From a worker to its control thread.
pub(super) enum Report {
    /// The tally of an interval that ended at `to`; the group's last one on this worker, or not.
    Tally {
        group: Group,
        index: u32,
        to: Mono,
        last: bool,
        tally: Box<Tally>,
    },
    Idle(Group),
    Dropped {
        group: Group,
        tally: Box<Tally>,
        peak: u64,
    },
    Note(Note),
    Lifted {
        conn: u64,
        end: usize,
        path: Path,
    },
}

pub(super) struct Machine {
    pub(super) ip: IpAddr,
    pub(super) port: Option<u16>,
    /// Ports in a row that it listens on, from that one on.
    pub(super) spread: u16,
    pub(super) workers: Vec<Worker>,
    pub(super) control: Control,
    pub(super) alive: bool,
    pub(super) plugged: bool,
    pub(super) next_port: u16,
}

impl Machine {
    /// Whether somebody listens there.
    pub(super) fn listens(&self, port: u16) -> bool {
        self.port.is_some_and(|first| port.checked_sub(first).is_some_and(|n| n < self.spread))
    }
}

pub(super) struct Held {
    conn: u64,
    end: usize,
    out: Vec<u8>,
    closing: Option<End>,
}

pub(super) struct Control {
    session: Option<Box<dyn Session<Run>>>,
    pub(super) side: Side,
    pub(super) links: BTreeMap<Link, Held>,
    /// Connections asked for, by their number.
    asked: BTreeMap<u64, Key>,
    pub(super) books: BTreeMap<Group, Book>,
    /// The workers that groups are on.
    placed: BTreeMap<Group, Range<usize>>,
    pub(super) events: Vec<(Mono, Event)>,
    pub(super) done: Option<Mono>,
    next_link: u64,
    armed: Option<Mono>,
}

/// Longest queue of a control link; a peer that lets it grow longer is cut off.
const LONGEST_QUEUE: usize = 8 << 20;

impl Control {
    pub(super) fn new(session: Box<dyn Session<Run>>, seed: u64, quirks: Quirks) -> Self {
        Control {
            session: Some(session),
            side: Side::new(seed, quirks, false),
            links: BTreeMap::new(),
            asked: BTreeMap::new(),
            books: BTreeMap::new(),
            placed: BTreeMap::new(),
            events: Vec::new(),
            done: None,
            next_link: 1,
            armed: None,
        }
    }

    /// When a control link can go on.
    pub(super) fn next(&self, link: Link, wire: &Wire, end: usize, now: Mono) -> Option<Mono> {
        let held = self.links.get(&link)?;
        let flush = (!held.out.is_empty() && wire.writable(end, now)).then_some(now);
        wire.next(end, now).into_iter().chain(flush).min()
    }
}

impl Network {
    /// Tells a session something, and does what it asks for.
    fn feed(&mut self, m: usize, input: Input<'_, Run>) {
        let now = self.now;
        let control = &mut self.machines[m].control;
        if control.done.is_some() {
            return;
        }
        if let Some(session) = &mut control.session {
            session.handle(&mut control.side.cx(now), input);
        }
        self.act(m);
    }

    pub(super) fn feed_stop(&mut self, m: usize) {
        self.feed(m, Input::Stop);
    }

    /// Does what a session asks for, until it asks for nothing more.
    pub(super) fn act(&mut self, m: usize) {
        while self.machines[m].control.done.is_none() {
            let now = self.now;
            let control = &mut self.machines[m].control;
            let Some(session) = &mut control.session else { return };
            let Some(action) = session.poll(&mut control.side.cx(now)) else { break };
            self.do_action(m, action);
        }
        let control = &mut self.machines[m].control;
        let deadline = control.session.as_ref().and_then(|s| s.deadline()).map(|at| at.max(self.now));
        if let Some(at) = deadline.filter(|_| control.done.is_none())
            && control.armed.is_none_or(|armed| at < armed)
        {
            control.armed = Some(at);
            self.push(at, 1, Job::Wake(m));
        }
    }

    fn do_action(&mut self, m: usize, action: Action<Run>) {
        let now = self.now;
        match action {
            Action::Connect(key, Target { to, from }) => {
                let ip = self.machines[m].ip;
                let conn = self.dial(Owner::Control(m, None), ip, Target { to, from });
                self.machines[m].control.asked.insert(conn, key);
            }
            Action::Send(link, bytes) => {
                let Some(held) = self.machines[m].control.links.get_mut(&link) else { return };
                assert!(held.closing.is_none(), "a session sends on a link that it has closed");
                held.out.extend_from_slice(&bytes);
                let (conn, full) = (held.conn, held.out.len() > LONGEST_QUEUE);
                if full {
                    self.lose(m, link, None);
                } else {
                    self.poke(conn);
                }
            }
            Action::Close(link, how) => {
                let Some(held) = self.machines[m].control.links.get_mut(&link) else { return };
                held.closing = Some(how);
                let reset = matches!(how, End::Done { reset: true, .. });
                if reset || held.out.is_empty() {
                    self.end_link(m, link, reset);
                }
            }
            Action::Group(plan) => self.start_group(m, *plan),
            Action::Order(group, order) => {
                if let (Order::Start(at), Some(book)) =
                    (order, self.machines[m].control.books.get_mut(&group))
                {
                    book.begin(at);
                }
                let on = self.machines[m].control.placed.get(&group).cloned();
                for w in on.unwrap_or_default() {
                    let command = match order {
                        Order::Start(at) => Command::Start(group, at),
                        Order::Ask(tag) => Command::Ask(group, tag),
                        Order::Freeze(tag) => Command::Freeze(group, tag),
                        Order::Stop => Command::Stop(group),
                        Order::Kill => Command::Kill(group),
                        Order::Drop => Command::Drop(group),
                    };
                    self.tell_worker(m, w, command);
                }
            }
            Action::Emit(event) => self.machines[m].control.events.push((now, event)),
            Action::Done => {
                self.machines[m].control.done = Some(now);
                for link in self.machines[m].control.links.keys().copied().collect::<Vec<_>>() {
                    self.flush(m, link);
                }
                self.hang_up(m);
            }
        }
    }

    fn start_group(&mut self, m: usize, plan: GroupPlan<model::SocketSettings>) {
        let all = 0..self.machines[m].workers.len();
        let on = plan.workers.map_or(all, |of| usize::from(of.start)..usize::from(of.end));
        let control = &mut self.machines[m].control;
        let old = control.books.insert(plan.group, Book::new(on.len(), plan.start, plan.omit, plan.frames));
        control.placed.insert(plan.group, on.clone());
        assert!(old.is_none(), "{:?} is started again before it was dropped", plan.group);
        let mut openers = plan.openers.into_iter();
        for w in on {
            let watch = Watch::new(plan.group, openers.next(), plan.throttle, plan.connect_timeout).times(
                plan.start,
                plan.interval,
                plan.end,
            );
            self.tell_worker(m, w, Command::Group(Box::new(watch)));
        }
    }

    /// A message to a worker: late, but never overtaken by a later one.
    pub(super) fn tell_worker(&mut self, m: usize, w: usize, command: Command) {
        let control = &mut self.machines[m].control;
        let late = control.side.chaos.between(0, control.side.quirks.threads);
        let worker = &mut self.machines[m].workers[w];
        worker.last_command = self.now.plus(late).max(worker.last_command);
        let at = worker.last_command;
        self.push(at, 1, Job::Command(m, w, command));
    }

    /// And one back.
    pub(super) fn tell_control(&mut self, m: usize, w: usize, report: Report) {
        let worker = &mut self.machines[m].workers[w];
        let late = worker.side.chaos.between(0, worker.side.quirks.threads);
        worker.last_report = self.now.plus(late).max(worker.last_report);
        let at = worker.last_report;
        self.push(at, 1, Job::Report(m, w, report));
    }

    pub(super) fn report(&mut self, m: usize, _: usize, report: Report) {
        let books = &mut self.machines[m].control.books;
        match report {
            Report::Tally { group, index, to, last, tally } => {
                let complete = books.get_mut(&group).map(|b| b.tally(index, to, last, &tally));
                for done in complete.into_iter().flatten().filter(|done| done.to > done.from) {
                    let (index, from, to) = (done.index, done.from, done.to);
                    self.feed(m, Input::Tally { group, index, from, to, tally: &done.tally });
                }
            }
            Report::Idle(group) => {
                if books.get_mut(&group).is_some_and(Book::idle) {
                    self.feed(m, Input::Idle(group));
                }
            }
            Report::Dropped { group, tally, peak } => {
                if books.get_mut(&group).is_some_and(|b| b.last(&tally, peak, None))
                    && let Some(book) = books.remove(&group)
                {
                    self.feed(m, Input::Dropped(group, Box::new(book.totals())));
                }
            }
            Report::Note(note) => self.feed(m, Input::Note(note)),
            Report::Lifted { conn, end, path } => {
                let link = self.enter(m, conn, end);
                self.feed(m, Input::Up(link, path, None));
                self.poke(conn);
            }
        }
    }

    pub(super) fn wake(&mut self, m: usize, at: Mono) {
        let control = &mut self.machines[m].control;
        if control.armed != Some(at) {
            return;
        }
        control.armed = None;
        let due = |c: &Control| c.session.as_ref().and_then(|s| s.deadline());
        if due(control).is_some_and(|deadline| deadline <= at) {
            self.feed(m, Input::Wake);
            let control = &self.machines[m].control;
            let after = due(control);
            assert!(
                control.done.is_some() || after.is_none_or(|deadline| deadline > at),
                "a session was woken at {at:?} and asks to be woken at {after:?}: it would spin"
            );
        }
        self.act(m);
    }

    // Control links -----------------------------------------------------------------------------------------------

    fn enter(&mut self, m: usize, conn: u64, end: usize) -> Link {
        let control = &mut self.machines[m].control;
        let link = Link(control.next_link);
        control.next_link += 1;
        control.links.insert(link, Held { conn, end, out: Vec::new(), closing: None });
        if let Some(conn) = self.conns.get_mut(&conn) {
            conn.owners[end] = Owner::Control(m, Some(link));
        }
        link
    }

    pub(super) fn control_connected(&mut self, m: usize, conn: u64, up: Option<Path>) {
        let Some(key) = self.machines[m].control.asked.remove(&conn) else { return };
        match up {
            Some(path) => {
                let link = self.enter(m, conn, 0);
                self.feed(m, Input::Up(link, path, Some(key)));
            }
            None => self.feed(m, Input::Refused(key, Fault { deed: Deed::Connect, errno: REFUSED })),
        }
    }

    fn end_link(&mut self, m: usize, link: Link, reset: bool) {
        let now = self.now;
        let Some(held) = self.machines[m].control.links.remove(&link) else { return };
        if let Some(Wire::Stream(stream)) = self.conns.get_mut(&held.conn).map(|c| &mut c.wire)
            && !reset
        {
            // As the engine does: unread bytes would turn the close into an abort.
            stream.half_close(held.end, now);
            let mut scrap = Vec::new();
            while let Taken::Bytes = stream.recv(held.end, now, 1 << 20, &mut scrap) {}
        }
        self.close(held.conn, held.end, reset);
    }

    /// A link is gone; its session is told, unless it has closed it itself.
    fn lose(&mut self, m: usize, link: Link, fault: Option<Fault>) {
        let Some(held) = self.machines[m].control.links.remove(&link) else { return };
        self.close(held.conn, held.end, true);
        if held.closing.is_none() {
            self.feed(m, Input::Down(link, fault));
        }
    }

    /// Sends what is queued; false when the link is gone.
    fn flush(&mut self, m: usize, link: Link) -> bool {
        let now = self.now;
        let control = &mut self.machines[m].control;
        let Some(held) = control.links.get_mut(&link) else { return false };
        let Some(Wire::Stream(stream)) = self.conns.get_mut(&held.conn).map(|c| &mut c.wire) else {
            return false;
        };
        if !held.out.is_empty() {
            let mut arena = Arena::new(held.out.len());
            let mut burst = Burst::new(&mut arena, held.out.len());
            burst.own(held.out.len()).copy_from_slice(&held.out);
            let wrote = stream.send(held.end, now, &burst, control.side.quirks.sends.1);
            held.out.drain(..wrote.bytes);
            if wrote.fault.is_some() {
                self.lose(m, link, wrote.fault);
                return false;
            }
        }
        if held.out.is_empty() && held.closing.is_some() {
            self.end_link(m, link, false);
            return false;
        }
        true
    }

    pub(super) fn control_turn(&mut self, m: usize, link: Link, id: u64, end: usize) {
        let now = self.now;
        if !self.flush(m, link) {
            return;
        }
        let mut bytes = Vec::new();
        while self.machines[m].control.links.contains_key(&link)
            && let Some(Wire::Stream(stream)) = self.conns.get_mut(&id).map(|c| &mut c.wire)
        {
            let most = self.machines[m].control.side.quirks.reads.1.min(64 * 1024);
            match stream.recv(end, now, most, &mut bytes) {
                Taken::Nothing => return,
                Taken::Fin => return self.lose(m, link, None),
                Taken::Fault(fault) => return self.lose(m, link, Some(fault)),
                Taken::Bytes => {
                    let closing =
                        self.machines[m].control.links.get(&link).is_some_and(|h| h.closing.is_some());
                    if !closing {
                        self.feed(m, Input::Bytes(link, &bytes));
                    }
                }
            }
        }
    }
}
