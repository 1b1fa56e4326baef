//! The server's side of the conversation: any number of clients, each in its own entry; whatever one of them does ends at
//! most its own session.

use super::auth::{Psk, Secrets, hex, host_mark, unhex};
use super::data::Params;
use super::greet::{Fence, Grant, Grants, Reception, Stranger};
use super::message::{Frames, Message, encode};
use super::preamble::Guess;
use crate::Run;
use crate::counted::Intervals;
use metrics::{Ending, Group, Mono, SECOND, Tally};
use model::{
    Accepted, Change, Event, HostSnapshot, Kind, Level, Phase, SocketSettings, Status, Totals, Traffic,
};
use seam::{Action, Cx, End, GroupPlan, Input, Link, Opener, Order, Path, Session};
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use uuid::Uuid;

/// What a server allows.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: u32,
    /// Control connections at once from one address.
    pub per_address: u32,
    /// Data connections at once in one session.
    pub connections: u32,
    /// Longest run, ns.
    pub duration_ns: Option<u64>,
    /// Most bits/s of one session and direction.
    pub rate: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Limits { sessions: 1000, per_address: 256, connections: 100_000, duration_ns: None, rate: None }
    }
}

/// Everything a server needs to know before it starts.
pub struct ServerPlan {
    /// Version of this program.
    pub version: String,
    /// The key clients must know, if there is one.
    pub psk: Option<Psk>,
    /// Who may connect.
    pub fence: Fence,
    /// What is allowed.
    pub limits: Limits,
    /// One session at a time, whatever clients ask for.
    pub exclusive: bool,
    /// End after so many data connections.
    pub exit_after: Option<u64>,
    /// This host.
    pub host: HostSnapshot,
    /// Worker threads.
    pub workers: u16,
    /// Their placement.
    pub placement: String,
    /// Length of the server's own intervals, ns.
    pub interval_ns: u64,
    /// 32 bytes of the system's randomness.
    pub secret: [u8; 32],
    /// Whether every ended connection is reported, or only those that failed.
    pub records: bool,
    /// This host's boot identifier; empty when it is not known.
    pub boot: String,
}

/// Longest message a client may send.
const LONGEST: usize = 64 * 1024;
/// How long a client may take to say hello and prove itself.
const PATIENCE: u64 = 10 * SECOND;
/// How long a client may be connected without proposing anything.
const IDLE: u64 = 60 * SECOND;
/// How long a client that has been granted its session may wait for other servers before it starts.
const WAIT: u64 = 600 * SECOND;
/// How long a client may say nothing while it is queued or its session runs; it pings every second.
const SILENCE: u64 = 15 * SECOND;
/// How long connections may take to end after the client has said that they have.
const LINGER: u64 = 2 * SECOND;
/// How long running sessions may take to end when the server is stopped.
const GRACE: u64 = 20 * SECOND;
/// Most clients that have not proved themselves.
const STRANGERS: usize = 256;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Greeting,
    Proving,
    Idle,
    Queued,
    Granted,
    Running,
    Draining,
    Dropping,
}

struct Held {
    group: Group,
    number: u64,
    token: [u8; 16],
    phase: Phase,
    start: Mono,
    others: u32,
}

struct Visitor {
    path: Path,
    frames: Frames,
    step: Step,
    since: Mono,
    heard: Mono,
    nonce: [u8; 16],
    their_nonce: [u8; 16],
    run: Uuid,
    proposal: Option<Box<Phase>>,
    held: Option<Held>,
}

/// The server's session: all its clients.
pub struct Server {
    plan: ServerPlan,
    grants: Arc<Grants>,
    secrets: Secrets,
    visitors: BTreeMap<Link, Visitor>,
    queue: VecDeque<Link>,
    groups: Vec<Option<Link>>,
    sessions: u64,
    actions: VecDeque<Action<Run>>,
    named: HashSet<(IpAddr, Guess)>,
    start: Mono,
    intervals: Intervals,
    /// Set when the server is to end: until when sessions may go on.
    ending: Option<Mono>,
    stopped: bool,
    over: bool,
    /// The reporters know when it began.
    begun: bool,
    budget: Option<Arc<AtomicI64>>,
}

impl Server {
    /// A server that starts counting as soon as it is polled.
    #[must_use]
    pub fn new(plan: ServerPlan, now: Mono) -> Self {
        let budget = plan.exit_after.map(|n| Arc::new(AtomicI64::new(n.min(i64::MAX as u64) as i64)));
        let grants = Arc::new(Grants::new(budget.clone()));
        let fence = Arc::new(plan.fence.clone());
        let workers = plan.workers.max(1);
        let openers = (0..workers)
            .map(|w| {
                Box::new(Reception::new(Arc::clone(&grants), Arc::clone(&fence), w, workers))
                    as Box<dyn Opener>
            })
            .collect();
        let all = GroupPlan {
            group: Group::ALL,
            openers,
            sockets: SocketSettings::default(),
            throttle: 0,
            connect_timeout: 0,
            start: now,
            interval: plan.interval_ns,
            end: None,
            omit: 0,
            records: plan.records,
            info: false,
            frames: false,
            same_host: false,
        };
        Server {
            secrets: Secrets::new(plan.secret),
            plan,
            grants,
            visitors: BTreeMap::new(),
            queue: VecDeque::new(),
            groups: vec![None],
            sessions: 0,
            actions: VecDeque::from([Action::Group(Box::new(all))]),
            named: HashSet::new(),
            start: now,
            intervals: Intervals::new(now, 0, &Phase::default()),
            ending: None,
            stopped: false,
            over: false,
            begun: false,
            budget,
        }
    }

    fn say(&mut self, link: Link, message: &Message) {
        if !self.visitors.contains_key(&link) {
            return;
        }
        self.actions.push_back(Action::Send(link, encode(message)));
    }

    fn notice(&mut self, level: Level, text: String) {
        self.actions.push_back(Action::Emit(Event::Notice { level, text }));
    }

    fn close(&mut self, cx: &Cx<'_>, link: Link) {
        if !self.visitors.contains_key(&link) {
            return;
        }
        self.actions.push_back(Action::Close(link, End::Done { how: Ending::Completed, reset: false }));
        self.leave(cx, link);
    }

    fn refuse(&mut self, cx: &Cx<'_>, link: Link, reason: &str) {
        self.say(link, &Message::Refused { reason: reason.to_owned() });
        self.close(cx, link);
    }

    /// Forgets a visitor and whatever it held.
    fn leave(&mut self, cx: &Cx<'_>, link: Link) {
        self.queue.retain(|&l| l != link);
        let Some(visitor) = self.visitors.remove(&link) else { return };
        if let Some(held) = visitor.held {
            self.grants.remove(&held.token);
            let index = held.group.0 as usize;
            if matches!(visitor.step, Step::Running | Step::Draining) {
                self.actions.push_back(Action::Order(held.group, Order::Drop));
            } else if visitor.step == Step::Granted {
                self.groups[index] = None;
            }
            // In `Dropping`, and from now on otherwise, the group is free once its totals have come.
            if matches!(visitor.step, Step::Running | Step::Draining | Step::Dropping) {
                let peer = visitor.path.peer;
                self.notice(Level::Warning, format!("session {} with {peer} was lost", held.number));
            }
        }
        self.admit_queued(cx);
        self.check_over(cx);
    }

    fn arrive(&mut self, cx: &Cx<'_>, link: Link, path: Path) {
        let address = path.peer.ip().to_canonical();
        let same = self.visitors.values().filter(|v| v.path.peer.ip().to_canonical() == address).count();
        let strangers =
            self.visitors.values().filter(|v| matches!(v.step, Step::Greeting | Step::Proving)).count();
        let visitor = Visitor {
            path,
            frames: Frames::new(LONGEST),
            step: Step::Greeting,
            since: cx.now,
            heard: cx.now,
            nonce: self.secrets.next(),
            their_nonce: [0; 16],
            run: Uuid::nil(),
            proposal: None,
            held: None,
        };
        self.visitors.insert(link, visitor);
        if same >= self.plan.limits.per_address as usize {
            self.refuse(cx, link, &format!("{same} sessions from {address} are the limit of this server"));
        } else if strangers >= STRANGERS {
            self.refuse(cx, link, "too many clients are just arriving: try again");
        } else if self.visitors.len() > self.plan.limits.sessions as usize {
            self.refuse(
                cx,
                link,
                &format!("{} sessions are the limit of this server", self.plan.limits.sessions),
            );
        } else if self.ending.is_some() {
            self.refuse(cx, link, "the server is stopping");
        }
    }

    fn bytes(&mut self, cx: &Cx<'_>, link: Link, bytes: &[u8]) {
        if let Some(visitor) = self.visitors.get_mut(&link) {
            visitor.heard = cx.now;
            visitor.frames.push(bytes);
        }
        while let Some(visitor) = self.visitors.get_mut(&link) {
            match visitor.frames.pop() {
                Ok(Some(message)) => self.message(cx, link, message),
                Ok(None) => return,
                Err(error) => return self.refuse(cx, link, &error.to_string()),
            }
        }
    }

    fn message(&mut self, cx: &Cx<'_>, link: Link, message: Message) {
        let Some(step) = self.visitors.get(&link).map(|v| v.step) else { return };
        match (step, message) {
            (Step::Greeting, Message::Hello { nonce, .. }) => self.greet(cx, link, &nonce),
            (Step::Proving, Message::Proof { proof }) => self.prove(cx, link, &proof),
            (Step::Greeting, _) => self.refuse(cx, link, "the first message must be a hello"),
            (Step::Proving, _) => {
                self.refuse(
                    cx,
                    link,
                    "this server needs a pre-shared key: give it with --psk-file or NETCALIPER_PSK",
                );
            }
            (_, Message::Ping { n }) => self.say(link, &Message::Pong { n }),
            (Step::Idle, Message::Propose { run, phase }) => {
                if let Some(visitor) = self.visitors.get_mut(&link) {
                    visitor.run = run;
                    visitor.proposal = Some(phase);
                }
                self.consider(cx, link);
            }
            (Step::Granted, Message::Start) => self.begin(cx, link),
            (Step::Running, Message::Stop) => self.wind_up(cx, link),
            (_, Message::Shutdown) => self.shut_down(cx, link),
            (_, Message::Bye) => self.close(cx, link),
            _ => {}
        }
    }

    fn greet(&mut self, cx: &Cx<'_>, link: Link, nonce: &str) {
        let Some(theirs) = unhex(nonce) else { return self.refuse(cx, link, "the hello has no valid nonce") };
        let key = self.plan.psk.is_some();
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        visitor.their_nonce = theirs;
        visitor.step = if key { Step::Proving } else { Step::Idle };
        visitor.since = cx.now;
        let hello = Message::Hello {
            version: self.plan.version.clone(),
            capabilities: vec!["tcp".into(), "connect".into()],
            nonce: hex(&visitor.nonce),
            key,
            host: host_mark(&self.plan.boot, &theirs),
        };
        self.say(link, &hello);
    }

    fn prove(&mut self, cx: &Cx<'_>, link: Link, proof: &str) {
        let (Some(visitor), Some(psk)) = (self.visitors.get_mut(&link), &self.plan.psk) else { return };
        if !psk.client_proves(proof, &visitor.their_nonce, &visitor.nonce) {
            let peer = visitor.path.peer;
            self.notice(Level::Warning, format!("{peer} does not know the pre-shared key"));
            return self.refuse(cx, link, "wrong pre-shared key");
        }
        visitor.step = Step::Idle;
        visitor.since = cx.now;
        let proof = psk.server_proof(&visitor.their_nonce, &visitor.nonce);
        self.say(link, &Message::Proof { proof });
    }

    /// Sessions that are granted or run, of other runs than `run`.
    fn others(&self, run: Uuid) -> impl Iterator<Item = &Visitor> {
        self.visitors.values().filter(move |v| v.held.is_some() && v.run != run)
    }

    /// Whether a proposal has to wait: an exclusive session excludes all others, whichever came first.
    fn must_wait(&self, link: Link) -> Option<(u32, &'static str)> {
        let visitor = self.visitors.get(&link)?;
        let exclusive = self.plan.exclusive || visitor.proposal.as_ref().is_some_and(|p| p.exclusive);
        let running = self.others(visitor.run).count() as u32;
        let before = self.queue.iter().take_while(|&&l| l != link).count() as u32;
        if exclusive && running + before > 0 {
            return Some((running + before, "an exclusive session waits until no other runs"));
        }
        if self.others(visitor.run).any(|v| v.held.as_ref().is_some_and(|h| h.phase.exclusive)) || before > 0
        {
            return Some((running + before, "an exclusive session is running or waiting"));
        }
        None
    }

    fn consider(&mut self, cx: &Cx<'_>, link: Link) {
        let Some(proposal) = self.visitors.get(&link).and_then(|v| v.proposal.clone()) else { return };
        if self.ending.is_some() {
            return self.refuse(cx, link, "the server is stopping");
        }
        if let Err(why) = proposal.check() {
            return self.refuse(cx, link, &why);
        }
        if let Some((ahead, reason)) = self.must_wait(link) {
            if let Some(visitor) = self.visitors.get_mut(&link)
                && visitor.step != Step::Queued
            {
                visitor.step = Step::Queued;
                self.queue.push_back(link);
                self.say(link, &Message::Queued { ahead, reason: reason.to_owned() });
            }
            return;
        }
        self.queue.retain(|&l| l != link);
        self.grant(cx.now, link, *proposal);
    }

    fn grant(&mut self, now: Mono, link: Link, mut phase: Phase) {
        let changes = self.reduce(&mut phase);
        phase.exclusive |= self.plan.exclusive;
        let token = self.secrets.next();
        let index = self.groups.iter().skip(1).position(Option::is_none).map_or(self.groups.len(), |i| i + 1);
        if index == self.groups.len() {
            self.groups.push(None);
        }
        self.groups[index] = Some(link);
        self.sessions += 1;
        let number = self.sessions;
        let Some(run) = self.visitors.get(&link).map(|v| v.run) else { return };
        let others = self.others(run).count() as u32;
        let answer = Message::Accepted {
            accepted: Accepted { session: number, changes, others },
            token: hex(&token),
            phase: Box::new(phase.clone()),
            host: Box::new(self.plan.host.clone()),
            workers: self.plan.workers.into(),
            placement: self.plan.placement.clone(),
        };
        self.say(link, &answer);
        if let Some(visitor) = self.visitors.get_mut(&link) {
            visitor.step = Step::Granted;
            visitor.since = now;
            visitor.proposal = None;
            visitor.held =
                Some(Held { group: Group(index as u32), number, token, phase, start: now, others });
        }
        self.raise_others();
    }

    /// Notes in every session how many of other runs are beside it now, however short they turn out to be.
    fn raise_others(&mut self) {
        let runs: Vec<Uuid> = self.visitors.values().filter(|v| v.held.is_some()).map(|v| v.run).collect();
        for visitor in self.visitors.values_mut() {
            if let Some(held) = &mut visitor.held {
                let others = runs.iter().filter(|&&run| run != visitor.run).count() as u32;
                held.others = held.others.max(others);
            }
        }
    }

    /// Brings a proposal within the limits, and says how.
    fn reduce(&self, phase: &mut Phase) -> Vec<Change> {
        let limits = &self.plan.limits;
        let mut changes = Vec::new();
        let mut change = |what: &str, asked: String, given: String, why: &str| {
            changes.push(Change { what: what.into(), asked, given, why: why.into() });
        };
        if phase.connections > limits.connections {
            let given = limits.connections.max(1);
            change("connections", phase.connections.to_string(), given.to_string(), "limit per session");
            phase.connections = given;
        }
        if let Some(most) = limits.duration_ns
            && phase.duration_ns.is_none_or(|d| d > most)
        {
            let asked = phase.duration_ns.map_or("no end".into(), |d| format!("{} s", d as f64 / 1e9));
            change("duration", asked, format!("{} s", most as f64 / 1e9), "limit of this server");
            phase.duration_ns = Some(most);
            phase.omit_ns = phase.omit_ns.min(most.saturating_sub(1));
        }
        if let Some(most) = limits.rate {
            let each = (most / u64::from(phase.connections)).max(8);
            if phase.rate.is_none_or(|r| r > each) {
                let asked = phase.rate.map_or("unlimited".into(), |r| format!("{r} bit/s"));
                change("rate per connection", asked, format!("{each} bit/s"), "limit per session");
                phase.rate = Some(each);
                phase.burst = None;
            }
        }
        changes
    }

    fn begin(&mut self, cx: &Cx<'_>, link: Link) {
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        let Some(held) = &mut visitor.held else { return };
        visitor.step = Step::Running;
        held.start = cx.now;
        let phase = &held.phase;
        let plan = GroupPlan {
            group: held.group,
            openers: Vec::new(),
            sockets: phase.sockets.clone(),
            throttle: 0,
            connect_timeout: 0,
            start: cx.now,
            interval: phase.interval_ns,
            end: phase.ends_after().map(|ns| cx.now.plus(ns)),
            omit: phase.omit_ns,
            records: self.plan.records,
            info: phase.kind == Kind::Tcp,
            frames: phase.kind == Kind::Stream,
            same_host: false,
        };
        let params = Arc::new(Params::of(phase, held.group));
        let even = phase.kind == Kind::Tcp;
        let grant = Grant::new(params, phase.connections, phase.transfer, even);
        let text = format!(
            "session {} with {}: {} {}, {} connections",
            held.number,
            visitor.path.peer,
            if phase.kind == Kind::Tcp { "tcp" } else { "connect" },
            phase.pattern,
            phase.connections
        );
        self.grants.insert(held.token, Arc::new(grant));
        self.actions.push_back(Action::Group(Box::new(plan)));
        self.notice(Level::Info, text);
        self.say(link, &Message::Started);
    }

    /// The client's connections have ended; ours should soon.
    fn wind_up(&mut self, cx: &Cx<'_>, link: Link) {
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        let Some(held) = &visitor.held else { return };
        visitor.step = Step::Draining;
        visitor.since = cx.now;
        self.grants.remove(&held.token);
        self.actions.push_back(Action::Order(held.group, Order::Stop));
    }

    fn drop_group(&mut self, now: Mono, link: Link) {
        let Some(visitor) = self.visitors.get_mut(&link) else { return };
        let Some(held) = &visitor.held else { return };
        if visitor.step == Step::Draining {
            visitor.step = Step::Dropping;
            visitor.since = now;
            self.actions.push_back(Action::Order(held.group, Order::Drop));
        }
    }

    fn dropped(&mut self, cx: &Cx<'_>, group: Group, mut totals: Box<Totals>) {
        if group == Group::ALL {
            self.actions.push_back(Action::Emit(Event::Near(totals)));
            let (status, reason) = if self.stopped {
                (Status::Interrupted, Some("stopped by a signal".to_owned()))
            } else {
                (Status::Complete, None)
            };
            self.actions.push_back(Action::Emit(Event::PhaseEnd { status, reason }));
            self.actions.push_back(Action::Done);
            return;
        }
        let Some(slot) = self.groups.get_mut(group.0 as usize) else { return };
        let Some(link) = slot.take() else { return };
        let Some((visitor, held)) = self.visitors.get_mut(&link).and_then(|v| {
            let held = v.held.take_if(|h| h.group == group)?;
            Some((v, held))
        }) else {
            return self.check_over(cx);
        };
        visitor.step = Step::Idle;
        visitor.since = cx.now;
        totals.others = held.others;
        totals.receive = held.phase.verify.receive().to_owned();
        let (peer, number) = (visitor.path.peer, held.number);
        let text = format!(
            "session {number} with {peer} ended: {} bytes received, {} sent, {} errors",
            totals.traffic.rx_bytes,
            totals.traffic.tx_bytes,
            totals.network_errors + totals.data_errors + totals.protocol_errors
        );
        self.notice(Level::Info, text);
        self.say(link, &Message::Result { totals });
        self.admit_queued(cx);
        self.check_budget();
        self.check_over(cx);
    }

    /// Looks at the queue again: somebody has left. First come, first served.
    fn admit_queued(&mut self, cx: &Cx<'_>) {
        if self.ending.is_some() {
            for queued in std::mem::take(&mut self.queue) {
                self.refuse(cx, queued, "the server is stopping");
            }
        }
        while let Some(&link) = self.queue.front() {
            let before = self.queue.len();
            // Takes it out of the queue, unless it has to go on waiting.
            self.consider(cx, link);
            if self.queue.len() >= before {
                return;
            }
        }
    }

    fn tally(&mut self, group: Group, index: u32, from: Mono, to: Mono, tally: &Tally) {
        if group == Group::ALL {
            return self.own_interval(index, from, to, tally);
        }
        let traffic = Traffic { tx_bytes: tally.tx_bytes, rx_bytes: tally.rx_bytes, ns: to.since(from) };
        let Some(link) = self.groups.get(group.0 as usize).copied().flatten() else { return };
        let Some(run) = self.visitors.get(&link).map(|v| v.run) else { return };
        let others = self.others(run).count() as u32;
        self.say(link, &Message::Interval { index, traffic, open: tally.open, others });
    }

    fn own_interval(&mut self, index: u32, from: Mono, to: Mono, tally: &Tally) {
        let mut interval = self.intervals.next(index, from, to, tally);
        // Frames are told per session, not of a server whose sessions measure different things.
        interval.frames = None;
        self.actions.push_back(Action::Emit(Event::Interval(Box::new(interval))));
    }

    fn shut_down(&mut self, cx: &Cx<'_>, link: Link) {
        let Some(visitor) = self.visitors.get(&link) else { return };
        let peer = visitor.path.peer;
        if self.plan.psk.is_none() && !peer.ip().to_canonical().is_loopback() {
            return self.refuse(
                cx,
                link,
                "this server has no pre-shared key, so it can only be stopped from its own host: start it with --psk-file",
            );
        }
        let running = self.visitors.values().filter(|v| v.held.is_some()).count();
        self.notice(Level::Info, format!("{peer} asks to stop; {running} session(s) still running"));
        self.say(link, &Message::Stopping { reason: format!("{running} session(s) still running") });
        self.ending = Some(Mono(u64::MAX));
        self.admit_queued(cx);
        self.check_over(cx);
    }

    /// The user stops the server: sessions are asked to end in good order, within the grace.
    fn stop(&mut self, cx: &Cx<'_>) {
        if self.stopped {
            return;
        }
        self.stopped = true;
        self.ending = Some(cx.now.plus(GRACE));
        let links: Vec<(Link, bool)> = self.visitors.iter().map(|(&l, v)| (l, v.held.is_some())).collect();
        for (link, busy) in links {
            self.say(link, &Message::Stopping { reason: "the server was asked to stop".to_owned() });
            if !busy {
                self.close(cx, link);
            }
        }
        self.check_over(cx);
    }

    /// Ends the server once it is to end and no session is left.
    fn check_over(&mut self, cx: &Cx<'_>) {
        let busy =
            self.visitors.values().any(|v| v.held.is_some()) || self.groups.iter().any(Option::is_some);
        if self.ending.is_none() || self.over || busy {
            return;
        }
        self.over = true;
        for link in self.visitors.keys().copied().collect::<Vec<_>>() {
            self.say(link, &Message::Bye);
            self.close(cx, link);
        }
        self.actions.push_back(Action::Order(Group::ALL, Order::Drop));
    }

    fn wake(&mut self, cx: &Cx<'_>) {
        let now = cx.now;
        for link in self.visitors.keys().copied().collect::<Vec<_>>() {
            let Some(visitor) = self.visitors.get(&link) else { continue };
            let (quiet, waited) = (now.since(visitor.heard), now.since(visitor.since));
            match visitor.step {
                Step::Greeting | Step::Proving if waited >= PATIENCE => {
                    self.refuse(cx, link, "nothing was said for too long");
                }
                Step::Idle if waited >= IDLE && self.ending.is_none() => {
                    self.refuse(cx, link, "nothing was proposed for too long");
                }
                Step::Granted if waited >= WAIT => {
                    self.refuse(cx, link, "the session was not started in time");
                }
                Step::Granted | Step::Queued | Step::Running if quiet >= SILENCE => {
                    self.refuse(cx, link, "nothing was heard for too long");
                }
                Step::Draining if waited >= LINGER => self.drop_group(now, link),
                _ => {}
            }
        }
        self.admit_queued(cx);
        if self.ending.is_some_and(|at| at <= now) {
            // From here on only the workers are waited for.
            self.ending = Some(Mono(u64::MAX));
            for link in self.visitors.keys().copied().collect::<Vec<_>>() {
                self.close(cx, link);
            }
        }
        self.check_over(cx);
    }

    /// Ends the server when it has admitted as many connections as it was to.
    fn check_budget(&mut self) {
        let spent = self.budget.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) <= 0);
        if spent && self.ending.is_none() {
            self.notice(Level::Info, "the limit of connections is reached".to_owned());
            self.ending = Some(Mono(u64::MAX));
        }
    }

    fn stranger(&mut self, stranger: &Stranger) {
        let address = stranger.path.peer.ip().to_canonical();
        if self.named.len() < 1024 && self.named.insert((address, stranger.guess)) {
            let name = stranger.guess.name();
            self.notice(Level::Warning, format!("{} spoke {name} to this port", stranger.path.peer));
        }
    }
}

impl Session<Run> for Server {
    fn handle(&mut self, cx: &mut Cx<'_>, input: Input<'_, Run>) {
        match input {
            Input::Up(link, path, _) => self.arrive(cx, link, path),
            Input::Refused(..) => {}
            Input::Bytes(link, bytes) => self.bytes(cx, link, bytes),
            Input::Down(link, _) => self.leave(cx, link),
            Input::Note(note) => {
                if let Ok(stranger) = note.downcast::<Stranger>() {
                    self.stranger(&stranger);
                }
            }
            Input::Tally { group, index, from, to, tally } => {
                self.tally(group, index, from, to, tally);
                self.check_budget();
                self.check_over(cx);
            }
            Input::Idle(group) => {
                if let Some(link) = self.groups.get(group.0 as usize).copied().flatten() {
                    self.drop_group(cx.now, link);
                }
            }
            Input::Dropped(group, totals) => self.dropped(cx, group, totals),
            Input::Wake => self.wake(cx),
            Input::Stop => self.stop(cx),
        }
    }

    fn poll(&mut self, cx: &mut Cx<'_>) -> Option<Action<Run>> {
        if !std::mem::replace(&mut self.begun, true) {
            return Some(Action::Emit(Event::Start { at: cx.clock.wall(self.start) }));
        }
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Mono> {
        let visitors = self.visitors.values().filter_map(|v| match v.step {
            Step::Greeting | Step::Proving => Some(v.since.plus(PATIENCE)),
            Step::Granted => Some(v.heard.plus(SILENCE).min(v.since.plus(WAIT))),
            Step::Idle if self.ending.is_none() => Some(v.since.plus(IDLE)),
            Step::Idle => None,
            Step::Queued | Step::Running => Some(v.heard.plus(SILENCE)),
            Step::Draining => Some(v.since.plus(LINGER)),
            Step::Dropping => None,
        });
        let ending = self.ending.filter(|at| *at < Mono(u64::MAX) && !self.over);
        visitors.chain(ending).min()
    }
}
