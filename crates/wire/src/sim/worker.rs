//! A worker of a machine: its links, its groups and their intervals, as the engine has them.

use super::host::Report;
use super::network::{Conn, Job, Network, Owner};
use super::side::{Quirks, Side, Socket, Stepped, Wire};
use super::stream::{REFUSED, TIMED_OUT};
use metrics::{Ending, Group, Mono, TcpInfo};
use std::collections::BTreeMap;
use transport::{Cause, Cx, Deed, Fault, Flow, News, Open, Opener, Path};

/// From the control thread, or from another worker.
pub(super) enum Command {
    Group(Box<Watch>),
    Start(Group, Mono),
    Ask(Group, u32),
    Freeze(Group, u32),
    Stop(Group),
    Kill(Group),
    Drop(Group),
    Adopt { conn: u64, end: usize, path: Path, flow: Box<dyn Flow> },
}

/// A group as a worker sees it.
pub(super) struct Watch {
    group: Group,
    opener: Option<Box<dyn Opener>>,
    throttle: u32,
    connect_timeout: u64,
    start: Mono,
    interval: u64,
    end: Option<Mono>,
    from: Mono,
    index: u32,
    closed: bool,
    connecting: u32,
    open: u64,
    peak: u64,
    stopped: bool,
    exhausted: bool,
    idle_told: bool,
}

impl Watch {
    pub(super) fn new(
        group: Group,
        opener: Option<Box<dyn Opener>>,
        throttle: u32,
        connect_timeout: u64,
    ) -> Self {
        Watch {
            group,
            opener,
            throttle,
            connect_timeout,
            start: Mono(0),
            interval: 0,
            end: None,
            from: Mono(0),
            index: 0,
            closed: false,
            connecting: 0,
            open: 0,
            peak: 0,
            stopped: false,
            exhausted: false,
            idle_told: false,
        }
    }

    pub(super) fn times(self, start: Mono, interval: u64, end: Option<Mono>) -> Self {
        Watch { start, interval, end, from: start, ..self }
    }

    fn boundary(&self) -> Mono {
        let next = self.start.plus(self.interval.saturating_mul(u64::from(self.index) + 1));
        self.end.map_or(next, |end| next.min(end))
    }
}

pub(super) struct Sock {
    pub(super) flow: Box<dyn Flow>,
    pub(super) socket: Socket,
    pub(super) connecting: bool,
    path: Path,
    owner: Group,
    counted: Option<Group>,
    born: Mono,
}

pub(super) struct Worker {
    pub(super) side: Side,
    pub(super) socks: BTreeMap<(u64, usize), Sock>,
    watches: BTreeMap<Group, Watch>,
    pub(super) last_command: Mono,
    pub(super) last_report: Mono,
}

impl Worker {
    pub(super) fn new(seed: u64, quirks: Quirks) -> Self {
        Worker {
            side: Side::new(seed, quirks, true),
            socks: BTreeMap::new(),
            watches: BTreeMap::new(),
            last_command: Mono(0),
            last_report: Mono(0),
        }
    }

    /// A group's opener, and what it may know of the world.
    pub(super) fn opener(&mut self, group: Group, now: Mono) -> Option<(&mut dyn Opener, Cx<'_>)> {
        let opener = self.watches.get_mut(&group)?.opener.as_deref_mut()?;
        Some((opener, self.side.cx(now)))
    }

    fn keys_of(&self, group: Group) -> Vec<(u64, usize)> {
        let of = |s: &Sock| {
            s.counted == Some(group) || (s.counted.is_none() && s.owner == group && group != Group::ALL)
        };
        self.socks.iter().filter(|(_, s)| of(s)).map(|(&key, _)| key).collect()
    }
}

impl Network {
    fn worker(&mut self, m: usize, w: usize) -> &mut Worker {
        &mut self.machines[m].workers[w]
    }

    /// What flows have posted goes up.
    pub(super) fn post(&mut self, m: usize, w: usize) {
        for note in std::mem::take(&mut self.worker(m, w).side.post) {
            self.tell_control(m, w, Report::Note(note));
        }
    }

    pub(super) fn command(&mut self, m: usize, w: usize, command: Command) {
        match command {
            Command::Group(watch) => {
                let (group, at) = (watch.group, watch.boundary());
                self.worker(m, w).watches.insert(group, *watch);
                if at < transport::WHEN_TOLD {
                    self.push(at, 0, Job::Boundary(m, w, group));
                }
                self.ask(m, w, group);
            }
            Command::Start(group, at) => {
                let Some(watch) = self.worker(m, w).watches.get_mut(&group) else { return };
                (watch.start, watch.from) = (at, at);
                let at = watch.boundary();
                self.push(at, 0, Job::Boundary(m, w, group));
                self.tell_all(m, w, group, |_| News::Start);
            }
            Command::Ask(group, tag) => self.tell_all(m, w, group, |info| News::Ask { tag, info }),
            Command::Freeze(group, tag) => {
                self.cut(m, w, group);
                self.tell_all(m, w, group, |info| News::Freeze { tag, info });
            }
            Command::Stop(group) => self.stop_group(m, w, group),
            Command::Kill(group) => self.kill_group(m, w, group),
            Command::Drop(group) => self.drop_group(m, w, group),
            Command::Adopt { conn, end, path, flow } => {
                if let Some(c) = self.conns.get_mut(&conn) {
                    c.owners[end] = Owner::Worker(m, w);
                    self.hold(m, w, (conn, end), flow, path, Group::ALL, false);
                    self.tell(m, w, (conn, end), News::Up(path));
                    self.attach(m, w, (conn, end));
                    self.poke(conn);
                }
            }
        }
    }

    fn tell_all(&mut self, m: usize, w: usize, group: Group, news: impl Fn(Option<Box<TcpInfo>>) -> News) {
        for key in self.worker(m, w).keys_of(group) {
            let stream = self.conns.get(&key.0).is_some_and(|c| matches!(c.wire, Wire::Stream(_)));
            self.tell(m, w, key, news(stream.then(Box::default)));
            self.poke(key.0);
        }
    }

    fn stop_group(&mut self, m: usize, w: usize, group: Group) {
        self.cut(m, w, group);
        let worker = self.worker(m, w);
        let Some(watch) = worker.watches.get_mut(&group) else { return };
        watch.stopped = true;
        if let Some(opener) = &mut watch.opener {
            opener.stop();
        }
        for key in worker.keys_of(group) {
            if self.worker(m, w).socks.get(&key).is_some_and(|s| s.connecting) {
                self.end(m, w, key, Ok(Ending::Stopped), true);
            } else {
                self.tell(m, w, key, News::Stop);
                self.poke(key.0);
            }
        }
        self.check_idle(m, w, group);
    }

    /// Links that have not ended since their group was told to stop are cut off; without that, their session has gone.
    fn kill_group(&mut self, m: usize, w: usize, group: Group) {
        let stopped = self.worker(m, w).watches.get(&group).is_some_and(|watch| watch.stopped);
        for key in self.worker(m, w).keys_of(group) {
            let how = if stopped { Ok(Ending::Stopped) } else { Err(transport::Violation::Vanished.into()) };
            self.end(m, w, key, how, true);
        }
    }

    fn drop_group(&mut self, m: usize, w: usize, group: Group) {
        self.cut(m, w, group);
        self.kill_group(m, w, group);
        let now = self.now;
        if let Some((opener, mut cx)) = self.worker(m, w).opener(group, now).filter(|_| group == Group::ALL) {
            opener.stop();
            opener.tend(&mut cx);
            self.post(m, w);
        }
        let worker = self.worker(m, w);
        let Some(watch) = worker.watches.remove(&group) else { return };
        let tally = Box::new(worker.side.rec.take_tally(group));
        self.tell_control(m, w, Report::Dropped { group, tally, peak: watch.peak });
    }

    // Time --------------------------------------------------------------------------------------------------------

    pub(super) fn boundary(&mut self, m: usize, w: usize, group: Group) {
        let now = self.now;
        let Some(watch) = self.worker(m, w).watches.get_mut(&group) else { return };
        let at = watch.boundary();
        if watch.closed || at > now {
            return;
        }
        watch.closed = watch.end.is_some_and(|end| at >= end);
        self.tally_up(m, w, group, at, false);
        if let Some(watch) = self.worker(m, w).watches.get(&group)
            && !watch.closed
        {
            let at = watch.boundary();
            self.push(at, 0, Job::Boundary(m, w, group));
        }
    }

    /// Cuts the last interval before its time; when nothing is open any more, at the last payload.
    fn cut(&mut self, m: usize, w: usize, group: Group) {
        let now = self.now;
        let Worker { watches, side, .. } = self.worker(m, w);
        let Some(watch) = watches.get_mut(&group).filter(|watch| !watch.closed) else { return };
        watch.closed = true;
        let to = if watch.open == 0 { side.rec.tally(group).last.max(watch.from) } else { now };
        self.tally_up(m, w, group, to, true);
    }

    fn tally_up(&mut self, m: usize, w: usize, group: Group, to: Mono, last: bool) {
        let Worker { watches, side, .. } = self.worker(m, w);
        let Some(watch) = watches.get_mut(&group) else { return };
        let index = watch.index;
        watch.index += 1;
        watch.from = to;
        let mut tally = Box::new(side.rec.take_tally(group));
        tally.open = watch.open.saturating_sub(u64::from(watch.connecting));
        self.tell_control(m, w, Report::Tally { group, index, to, last, tally });
    }

    // Links -------------------------------------------------------------------------------------------------------

    /// Asks a group's opener for links.
    pub(super) fn ask(&mut self, m: usize, w: usize, group: Group) {
        loop {
            let now = self.now;
            let Worker { watches, side, .. } = self.worker(m, w);
            let Some(watch) = watches.get_mut(&group).filter(|_| group != Group::ALL) else { return };
            if watch.exhausted || watch.connecting >= watch.throttle.max(1) {
                break;
            }
            let Some(opener) = &mut watch.opener else { break };
            match opener.open(&mut side.cx(now)) {
                Open::Flow(flow, target) => {
                    watch.connecting += 1;
                    watch.open += 1;
                    let timeout = watch.connect_timeout;
                    let ip = self.machines[m].ip;
                    let conn = self.dial(Owner::Worker(m, w), ip, target);
                    let path = self.conns[&conn].paths[0];
                    self.hold(m, w, (conn, 0), flow, path, group, true);
                    self.push(now.plus(timeout), 1, Job::ConnectTimeout(conn));
                }
                Open::Datagram(flow, target) => {
                    watch.open += 1;
                    watch.peak = watch.peak.max(watch.open);
                    side.rec.tally(group).opened += 1;
                    let ip = self.machines[m].ip;
                    let conn = self.aim(Owner::Worker(m, w), ip, target);
                    let path = self.conns[&conn].paths[0];
                    self.hold(m, w, (conn, 0), flow, path, group, true);
                    if let Some(sock) = self.worker(m, w).socks.get_mut(&(conn, 0)) {
                        sock.connecting = false;
                    }
                    self.tell(m, w, (conn, 0), News::Up(path));
                    self.poke(conn);
                }
                Open::At(at) => {
                    assert!(at > now, "an opener asks to be asked again at once: it would spin");
                    self.push(at, 1, Job::Ask(m, w, group));
                    break;
                }
                Open::Idle => break,
                Open::Done => {
                    watch.exhausted = true;
                    break;
                }
            }
        }
        self.check_idle(m, w, group);
    }

    #[expect(clippy::too_many_arguments, reason = "one place that makes a socket")]
    fn hold(
        &mut self,
        m: usize,
        w: usize,
        key: (u64, usize),
        flow: Box<dyn Flow>,
        path: Path,
        owner: Group,
        connecting: bool,
    ) {
        let counted = connecting.then_some(owner);
        let sock = Sock { flow, socket: Socket::default(), connecting, path, owner, counted, born: self.now };
        self.worker(m, w).socks.insert(key, sock);
    }

    /// A connection request has come to a machine; whether it was taken.
    pub(super) fn accept(&mut self, m: usize, conn: u64, path: Path) -> bool {
        let now = self.now;
        let w = self.rng.between(0, self.machines[m].workers.len() as u64 - 1) as usize;
        let Worker { watches, side, .. } = self.worker(m, w);
        let Some(opener) = watches.get_mut(&Group::ALL).and_then(|w| w.opener.as_mut()) else { return false };
        let Some(flow) = opener.accept(&mut side.cx(now), &path) else {
            // The kernel has accepted before the process is asked.
            self.close(conn, 1, true);
            return true;
        };
        if let Some(c) = self.conns.get_mut(&conn) {
            c.owners[1] = Owner::Worker(m, w);
        }
        self.hold(m, w, (conn, 1), flow, path, Group::ALL, false);
        self.tell(m, w, (conn, 1), News::Up(path));
        true
    }

    /// A peer that has knocked gets a socket of its own.
    pub(super) fn let_in(&mut self, m: usize, w: usize, key: (u64, usize), flow: Box<dyn Flow>, path: Path) {
        if let Some(conn) = self.conns.get_mut(&key.0) {
            conn.owners[key.1] = Owner::Worker(m, w);
        }
        self.hold(m, w, key, flow, path, Group::ALL, false);
        self.tell(m, w, key, News::Up(path));
        self.attach(m, w, key);
    }

    pub(super) fn worker_connected(&mut self, m: usize, w: usize, conn: u64, up: Option<Path>) {
        let (now, key) = (self.now, (conn, 0));
        let Worker { socks, watches, side, .. } = self.worker(m, w);
        let Some(sock) = socks.get_mut(&key).filter(|s| s.connecting) else { return };
        let Some(path) = up else {
            return self.end(m, w, key, Err(Fault { deed: Deed::Connect, errno: REFUSED }.into()), true);
        };
        sock.connecting = false;
        sock.path = path;
        let group = sock.owner;
        let took = now.since(sock.born);
        if let Some(watch) = watches.get_mut(&group) {
            watch.connecting -= 1;
            watch.peak = watch.peak.max(watch.open);
        }
        let tally = side.rec.tally(group);
        tally.opened += 1;
        tally.connect_ns.record(took);
        self.tell(m, w, key, News::Up(path));
        self.ask(m, w, group);
    }

    pub(super) fn connect_timeout(&mut self, conn: u64) {
        let Some(&Conn { owners: [Owner::Worker(m, w), _], .. }) = self.conns.get(&conn) else { return };
        if self.worker(m, w).socks.get(&(conn, 0)).is_some_and(|s| s.connecting) {
            let fault = Fault { deed: Deed::Connect, errno: TIMED_OUT };
            self.end(m, w, (conn, 0), Err(fault.into()), true);
        }
    }

    fn tell(&mut self, m: usize, w: usize, key: (u64, usize), news: News) {
        let now = self.now;
        let Worker { socks, side, .. } = self.worker(m, w);
        let Some(sock) = socks.get_mut(&key) else { return };
        let heard = sock.flow.hear(&mut side.cx(now), news);
        self.post(m, w);
        if let Err(violation) = heard {
            self.end(m, w, key, Err(violation.into()), true);
        }
    }

    pub(super) fn worker_turn(&mut self, m: usize, w: usize, conn: u64, end: usize) {
        let (now, key) = (self.now, (conn, end));
        let Network { machines, conns, .. } = self;
        let Some(Conn { wire, .. }) = conns.get_mut(&conn) else { return };
        let Worker { socks, side, .. } = &mut machines[m].workers[w];
        let Some(sock) = socks.get_mut(&key).filter(|s| !s.connecting) else { return };
        let before = sock.socket.moved;
        let stepped = side.step(wire, end, &mut *sock.flow, &mut sock.socket, now);
        if sock.socket.moved > before
            && let Some(group) = sock.counted
        {
            side.rec.tally(group).last = now;
        }
        self.post(m, w);
        self.attach(m, w, key);
        match stepped {
            Stepped::On => {}
            Stepped::Ended(how, reset) => self.end(m, w, key, how, reset),
            Stepped::Lift | Stepped::Hand(_) => {
                let Some(sock) = self.worker(m, w).socks.remove(&key) else { return };
                let path = sock.path;
                if let Some(c) = self.conns.get_mut(&conn) {
                    c.owners[end] = Owner::Moving(m);
                }
                match stepped {
                    Stepped::Hand(to) => {
                        let adopt = Command::Adopt { conn, end, path, flow: sock.flow };
                        self.tell_worker(m, to.into(), adopt);
                    }
                    _ => self.tell_control(m, w, Report::Lifted { conn, end, path }),
                }
            }
        }
    }

    /// An accepted link that has begun to count belongs to a group from now on.
    fn attach(&mut self, m: usize, w: usize, key: (u64, usize)) {
        let Worker { socks, watches, side, .. } = self.worker(m, w);
        let Some(sock) = socks.get_mut(&key).filter(|s| s.counted.is_none()) else { return };
        let Some(row) = sock.flow.card().row else { return };
        let group = side.rec.group(row);
        let Some(watch) = watches.get_mut(&group) else {
            return self.end(m, w, key, Ok(Ending::Stopped), true);
        };
        sock.counted = Some(group);
        watch.open += 1;
        watch.peak = watch.peak.max(watch.open);
        let stopped = watch.stopped;
        side.rec.tally(group).opened += 1;
        side.rec.tally(Group::ALL).opened += 1;
        if stopped {
            self.tell(m, w, key, News::Stop);
        }
    }

    /// The end of a link: counted, told, forgotten.
    fn end(&mut self, m: usize, w: usize, key: (u64, usize), how: Result<Ending, Cause>, reset: bool) {
        let now = self.now;
        let Worker { socks, watches, side, .. } = self.worker(m, w);
        let Some(sock) = socks.remove(&key) else { return };
        let Sock { flow, owner, counted, connecting, .. } = sock;
        if let Some(group) = counted.filter(|_| !connecting || how.is_err()) {
            let ending = how.as_ref().map_or_else(Cause::ending, |&ending| ending);
            let tally = side.rec.tally(group);
            tally.ended(ending);
            if let Err(cause) = &how {
                tally.failed(ending, &cause.to_string(), || cause.to_string());
            }
            if owner == Group::ALL {
                side.rec.tally(Group::ALL).ended(ending);
            }
        }
        if let Some(row) = flow.card().row {
            side.rec.close(row);
        }
        if let Some(watch) = watches.get_mut(&owner) {
            watch.connecting -= u32::from(connecting);
            if let Some(opener) = &mut watch.opener {
                opener.closed(&mut side.cx(now), flow, &how);
            }
        }
        if let Some(watch) = counted.and_then(|group| watches.get_mut(&group)) {
            watch.open = watch.open.saturating_sub(1);
        }
        if let Some(group) = counted {
            self.check_idle(m, w, group);
        }
        self.post(m, w);
        self.close(key.0, key.1, reset);
        self.push(now, 1, Job::Ask(m, w, owner));
    }

    /// Tells, once, that a group has no links left and will open no more.
    fn check_idle(&mut self, m: usize, w: usize, group: Group) {
        let Some(watch) = self.worker(m, w).watches.get_mut(&group) else { return };
        if (watch.exhausted || watch.stopped) && watch.open == 0 && !watch.idle_told {
            watch.idle_told = true;
            self.tell_control(m, w, Report::Idle(group));
        }
    }
}
