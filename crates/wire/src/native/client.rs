//! The client's side of the conversation, over one phase: reach every server, agree, run, collect.
//!
//! ```text
//! connecting ─ up ─▶ greeting ─ hello ─▶ (proving) ─▶ measuring RTT ─▶ proposing ─ accepted ─▶ ready
//!      all ready: start ─▶ started ─▶ running ─ time up, all done or stop ─▶ draining ─▶ collecting ─▶ over
//! ```

use super::auth::{Psk, Secrets, hex, host_mark, unhex};
use super::data::Params;
use super::dial::{Dialer, Site};
use super::message::{Frames, MAX_MESSAGE, Message, encode};
use super::preamble::{Guess, Preamble, Purpose, guess};
use crate::Run;
use crate::counted::Intervals;
use metrics::{Clock, Ending, Group, Mono, SECOND, Tally};
use model::churn::Plan;
use model::{Event, Interval, Kind, Level, Phase, SessionInfo, Status, Totals, Traffic};
use seam::{Action, Cx, End, GroupPlan, Input, Link, Opener, Order, Path, Session, Target};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use uuid::Uuid;

/// A server to talk to.
#[derive(Clone, Debug)]
pub struct Peer {
    /// As the user named it.
    pub name: String,
    /// One of its addresses.
    pub address: SocketAddr,
}

/// Everything a client needs to know before it starts.
pub struct ClientPlan {
    /// The servers.
    pub peers: Vec<Peer>,
    /// What to do.
    pub phase: Phase,
    /// The key, if there is one.
    pub psk: Option<Psk>,
    /// The run.
    pub run: Uuid,
    /// Version of this program.
    pub version: String,
    /// Worker threads here.
    pub workers: u16,
    /// Local addresses to use in turn; empty lets the kernel choose.
    pub sources: Vec<IpAddr>,
    /// Local ports to use in turn, both included.
    pub ports: Option<(u16, u16)>,
    /// 32 bytes of the system's randomness.
    pub secret: [u8; 32],
    /// Whether every ended connection is reported, or only those that failed.
    pub records: bool,
    /// Not to run the phase, but to ask the servers to end.
    pub stop_servers: bool,
    /// This host's boot identifier; empty when it is not known.
    pub boot: String,
    /// Send buffer to ask for when every server is on this host, bytes.
    pub same_host_sndbuf: Option<u64>,
}

/// The client's only group.
const GROUP: Group = Group(1);
/// How long a server may take to answer while nothing is measured.
const PATIENCE: u64 = 10 * SECOND;
/// How long a server may say nothing while the run goes on.
const SILENCE: u64 = 10 * SECOND;
/// How often we say that we are here.
const HEARTBEAT: u64 = SECOND;
/// How long open connections may take to end in good order.
const GRACE: u64 = 10 * SECOND;
/// How long a server may take to send its results after its connections have ended.
const COUNTING: u64 = 15 * SECOND;
/// How long an interval waits for the far ends' reports.
const LATE_REPORT: u64 = 3 * SECOND / 2;
/// How far ahead of our own intervals a report may be.
const AHEAD: u32 = 1024;
/// Round trips measured on the idle control connection.
const PINGS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connecting,
    Greeting,
    Proving,
    Pinging,
    /// Its round trip is known; the others' are waited for.
    Measured,
    Proposing,
    Queued,
    Ready,
    Starting,
    Running,
    Collecting,
    /// The server was asked to end.
    Stopping,
    Over,
}

impl Step {
    /// It may last; heartbeats tell whether the server is still there.
    fn is_long(self) -> bool {
        matches!(
            self,
            Step::Measured | Step::Queued | Step::Ready | Step::Running | Step::Collecting | Step::Stopping
        )
    }
}

struct Server {
    peer: Peer,
    link: Option<Link>,
    frames: Frames,
    step: Step,
    since: Mono,
    heard: Mono,
    nonce: [u8; 16],
    their_nonce: [u8; 16],
    authenticated: bool,
    same_host: bool,
    version: String,
    ping: (u32, Mono),
    base_rtt: u64,
    granted: Option<(SessionInfo, [u8; 16], Phase)>,
    reports: BTreeMap<u32, Traffic>,
    totals: Option<Box<Totals>>,
    stopping: bool,
    failure: Option<String>,
}

impl Server {
    /// Whether it has a session of ours, or had one that ended well.
    fn takes_part(&self) -> bool {
        self.granted.is_some() && self.failure.is_none()
    }
}

/// What the run as a whole is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Agreeing,
    Running,
    Draining,
    Collecting,
    Over,
}

/// The client's session.
pub struct Client {
    plan: ClientPlan,
    servers: Vec<Server>,
    actions: VecDeque<Action<Run>>,
    stage: Stage,
    /// Servers among which the connections are divided.
    shares: u32,
    /// As told with the last input.
    clock: Clock,
    stop_at: Option<Mono>,
    kill_at: Option<Mono>,
    beat: Mono,
    waiting: VecDeque<(Mono, Interval)>,
    /// The next interval to be told.
    next: u32,
    intervals: Intervals,
    near: Option<Box<Totals>>,
    status: Status,
    reason: Option<String>,
}

impl Client {
    /// A client that will connect to every peer of `plan` as soon as it is polled.
    #[must_use]
    pub fn new(plan: ClientPlan, now: Mono) -> Self {
        let mut secrets = Secrets::new(plan.secret);
        let servers: Vec<Server> = plan
            .peers
            .iter()
            .map(|peer| Server {
                peer: peer.clone(),
                link: None,
                frames: Frames::new(MAX_MESSAGE),
                step: Step::Connecting,
                since: now,
                heard: now,
                nonce: secrets.next(),
                their_nonce: [0; 16],
                authenticated: false,
                same_host: false,
                version: String::new(),
                ping: (0, now),
                base_rtt: 0,
                granted: None,
                reports: BTreeMap::new(),
                totals: None,
                stopping: false,
                failure: None,
            })
            .collect();
        let actions = servers
            .iter()
            .enumerate()
            .map(|(key, server)| {
                let to = server.peer.address;
                let from =
                    plan.sources.iter().find(|a| a.is_ipv4() == to.is_ipv4()).map(|&a| SocketAddr::new(a, 0));
                Action::Connect(key as u32, Target { to, from })
            })
            .collect();
        let intervals = Intervals::new(now, 0, &plan.phase);
        let stage = if servers.is_empty() { Stage::Over } else { Stage::Agreeing };
        Client {
            plan,
            servers,
            actions,
            stage,
            shares: 1,
            clock: Clock::default(),
            stop_at: None,
            kill_at: None,
            beat: now,
            waiting: VecDeque::new(),
            next: 0,
            intervals,
            near: None,
            status: Status::Complete,
            reason: None,
        }
    }

    fn by_link(&self, link: Link) -> Option<usize> {
        self.servers.iter().position(|s| s.link == Some(link))
    }

    fn say(&mut self, at: usize, message: &Message) {
        if let Some(link) = self.servers[at].link {
            self.actions.push_back(Action::Send(link, encode(message)));
        }
    }

    fn enter(&mut self, at: usize, step: Step, now: Mono) {
        self.servers[at].step = step;
        self.servers[at].since = now;
    }

    fn notice(&mut self, level: Level, text: String) {
        self.actions.push_back(Action::Emit(Event::Notice { level, text }));
    }

    /// A server is of no more use; the run goes on with the others, if there are any.
    fn lose(&mut self, at: usize, why: &str, now: Mono) {
        if self.servers[at].step == Step::Over {
            return;
        }
        let peer = &self.servers[at].peer;
        let text = if peer.name == peer.address.to_string() {
            format!("{}: {why}", peer.address)
        } else {
            format!("{} ({}): {why}", peer.name, peer.address)
        };
        let was = self.servers[at].step;
        self.enter(at, Step::Over, now);
        if let Some(link) = self.servers[at].link.take() {
            self.actions.push_back(Action::Close(link, End::Done { how: Ending::NetworkError, reset: true }));
        }
        self.servers[at].failure = Some(text.clone());
        let others = self.servers.iter().any(|s| s.step != Step::Over);
        match self.stage {
            Stage::Agreeing if others => self.notice(Level::Warning, format!("left out: {text}")),
            Stage::Agreeing => self.finish(Status::Failed, Some(self.failures())),
            Stage::Running | Stage::Draining => {
                self.status = Status::Partial;
                self.reason.get_or_insert(text.clone());
                self.notice(Level::Error, text);
                if !others {
                    self.collect(now);
                }
            }
            Stage::Collecting if was != Step::Over => {
                self.status = Status::Partial;
                self.reason.get_or_insert(text.clone());
                self.notice(Level::Error, text);
            }
            _ => {}
        }
        self.advance(now);
    }

    fn failures(&self) -> String {
        let failures: Vec<&str> = self.servers.iter().filter_map(|s| s.failure.as_deref()).collect();
        failures.join("; ")
    }

    /// Moves the whole run on when every server has reached the same point.
    fn advance(&mut self, now: Mono) {
        let live = || self.servers.iter().filter(|s| s.step != Step::Over);
        match self.stage {
            Stage::Agreeing if live().count() > 0 && live().all(|s| s.step == Step::Measured) => {
                self.propose_all(now);
            }
            Stage::Agreeing if live().count() > 0 && live().all(|s| s.step == Step::Ready) => {
                self.start_all(now);
            }
            Stage::Agreeing if live().count() > 0 && live().all(|s| s.step == Step::Running) => self.run(now),
            Stage::Collecting if live().all(|s| s.totals.is_some()) && self.near.is_some() => {
                let (status, reason) = (self.status, self.reason.take());
                self.report();
                self.finish(status, reason);
            }
            _ => {}
        }
    }

    fn start_all(&mut self, now: Mono) {
        for at in 0..self.servers.len() {
            if self.servers[at].step == Step::Ready {
                if let Some((info, ..)) = &self.servers[at].granted {
                    self.actions.push_back(Action::Emit(Event::Session(Box::new(info.clone()))));
                }
                self.say(at, &Message::Start);
                self.enter(at, Step::Starting, now);
            }
        }
    }

    /// The phase that all servers together have granted.
    fn granted_phase(&self) -> Phase {
        let mut phase = self.plan.phase.clone();
        let granted: Vec<&Phase> = self
            .servers
            .iter()
            .filter(|s| s.step != Step::Over)
            .filter_map(|s| Some(&s.granted.as_ref()?.2))
            .collect();
        let sum: u32 = granted.iter().map(|p| p.connections).sum();
        phase.connections = phase.connections.min(sum.max(1));
        for one in granted {
            phase.duration_ns = match (phase.duration_ns, one.duration_ns) {
                (Some(a), Some(b)) => Some(a.min(b)),
                (a, b) => a.or(b),
            };
            phase.transfer = phase.transfer.min(one.transfer);
            phase.omit_ns = phase.omit_ns.min(one.omit_ns);
        }
        phase
    }

    fn run(&mut self, now: Mono) {
        self.stage = Stage::Running;
        self.actions.push_back(Action::Emit(Event::Start { at: self.clock.wall(now) }));
        let phase = self.granted_phase();
        self.stop_at = phase.ends_after().map(|ns| now.plus(ns));
        self.intervals = Intervals::new(now, phase.omit_ns, &phase);
        let sites: Vec<Site> = self
            .servers
            .iter()
            .filter(|s| s.step == Step::Running)
            .filter_map(|s| {
                let (_, token, phase) = s.granted.as_ref()?;
                Some(Site {
                    address: s.peer.address,
                    token: *token,
                    params: Arc::new(Params::of(phase, GROUP)),
                    connections: phase.connections,
                })
            })
            .collect();
        let workers = self.plan.workers.max(1);
        let rotate = (phase.connections as usize) < sites.len();
        let openers = (0..workers)
            .map(|w| {
                let plan = Plan::part(&phase, w.into(), workers.into());
                let (sources, ports) = (self.plan.sources.clone(), self.plan.ports);
                Box::new(Dialer::new(&plan, sites.clone(), rotate, sources, ports, w, workers))
                    as Box<dyn Opener>
            })
            .collect();
        self.actions.push_back(Action::Group(Box::new(GroupPlan {
            group: GROUP,
            openers,
            sockets: phase.sockets.clone(),
            throttle: phase.throttle.div_ceil(workers.into()),
            connect_timeout: phase.connect_timeout_ns,
            start: now,
            interval: phase.interval_ns,
            end: self.stop_at,
            omit: phase.omit_ns,
            records: self.plan.records,
            info: phase.kind == Kind::Tcp,
            frames: phase.kind == Kind::Stream,
            same_host: self.servers.iter().filter(|s| s.step == Step::Running).all(|s| s.same_host),
        })));
    }

    /// Ends the open connections in good order, by force at `kill_at`.
    fn drain(&mut self, kill_at: Mono) {
        match self.stage {
            Stage::Running => {
                self.stage = Stage::Draining;
                self.stop_at = None;
                self.kill_at = Some(kill_at);
                self.actions.push_back(Action::Order(GROUP, Order::Stop));
            }
            Stage::Draining => self.kill_at = Some(self.kill_at.map_or(kill_at, |at| at.min(kill_at))),
            Stage::Agreeing => {
                self.finish(Status::Interrupted, self.reason.clone());
            }
            Stage::Collecting | Stage::Over => {}
        }
    }

    /// No connection is left: the group is dropped and the far ends' results are asked for.
    fn collect(&mut self, now: Mono) {
        if !matches!(self.stage, Stage::Running | Stage::Draining) {
            return;
        }
        self.stage = Stage::Collecting;
        (self.stop_at, self.kill_at) = (None, None);
        self.actions.push_back(Action::Order(GROUP, Order::Drop));
        for at in 0..self.servers.len() {
            if self.servers[at].step == Step::Running {
                self.say(at, &Message::Stop);
                self.enter(at, Step::Collecting, now);
            }
        }
    }

    fn report(&mut self) {
        self.release(true, Mono(u64::MAX));
        if let Some(near) = self.near.take() {
            self.actions.push_back(Action::Emit(Event::Near(near)));
        }
        for server in &mut self.servers {
            if let Some(mut totals) = server.totals.take() {
                totals.who = server.peer.address.to_string();
                self.actions.push_back(Action::Emit(Event::Far(totals)));
            }
        }
    }

    fn finish(&mut self, status: Status, reason: Option<String>) {
        if self.stage == Stage::Over {
            return;
        }
        self.stage = Stage::Over;
        for at in 0..self.servers.len() {
            self.say(at, &Message::Bye);
            if let Some(link) = self.servers[at].link.take() {
                self.actions
                    .push_back(Action::Close(link, End::Done { how: Ending::Completed, reset: false }));
            }
        }
        self.actions.push_back(Action::Emit(Event::PhaseEnd { status, reason }));
        self.actions.push_back(Action::Done);
    }

    fn up(&mut self, cx: &Cx<'_>, link: Link, key: u32) {
        let at = key as usize;
        if self.servers.get(at).is_none_or(|s| s.step != Step::Connecting) {
            // It was given up; now it comes too late.
            self.actions.push_back(Action::Close(link, End::Done { how: Ending::NetworkError, reset: true }));
            return;
        }
        self.servers[at].link = Some(link);
        self.servers[at].heard = cx.now;
        self.enter(at, Step::Greeting, cx.now);
        let mut bytes = Preamble::new(Purpose::Control).encode().to_vec();
        bytes.extend(encode(&Message::Hello {
            version: self.plan.version.clone(),
            capabilities: vec!["tcp".into(), "connect".into()],
            nonce: hex(&self.servers[at].nonce),
            key: self.plan.psk.is_some(),
            host: String::new(),
        }));
        self.actions.push_back(Action::Send(link, bytes));
    }

    fn bytes(&mut self, cx: &Cx<'_>, at: usize, bytes: &[u8]) {
        self.servers[at].heard = cx.now;
        self.servers[at].frames.push(bytes);
        if self.servers[at].step == Step::Greeting
            && let Some(why) = not_one_of_us(self.servers[at].frames.rest())
        {
            self.lose(at, &why, cx.now);
            return;
        }
        if self.servers[at].step == Step::Greeting
            && guess(self.servers[at].frames.rest()) == Guess::Netcaliper
        {
            // Not a message: the rest of a preamble has to come first.
            return;
        }
        loop {
            match self.servers[at].frames.pop() {
                Ok(Some(message)) => self.message(cx, at, message),
                Ok(None) => return,
                Err(error) => return self.lose(at, &error.to_string(), cx.now),
            }
            if self.servers[at].step == Step::Over {
                return;
            }
        }
    }

    fn message(&mut self, cx: &Cx<'_>, at: usize, message: Message) {
        match (self.servers[at].step, message) {
            (Step::Greeting, Message::Hello { version, nonce, key, host, .. }) => {
                let ours = host_mark(&self.plan.boot, &self.servers[at].nonce);
                self.servers[at].same_host = !ours.is_empty() && host == ours;
                self.greeted(cx, at, version, &nonce, key);
            }
            (Step::Proving, Message::Proof { proof }) => self.proved(cx, at, &proof),
            (Step::Pinging, Message::Pong { n }) if n == self.servers[at].ping.0 => self.ponged(cx, at),
            (Step::Proposing | Step::Queued, Message::Queued { ahead, reason }) => {
                if self.servers[at].step == Step::Proposing {
                    let name = self.servers[at].peer.name.clone();
                    self.notice(
                        Level::Info,
                        format!("{name}: waiting for {ahead} other session(s): {reason}"),
                    );
                }
                self.enter(at, Step::Queued, cx.now);
            }
            (Step::Proposing | Step::Queued, accepted @ Message::Accepted { .. }) => {
                self.accepted(cx, at, accepted);
            }
            (_, Message::Refused { reason }) => self.lose(at, &format!("refused: {reason}"), cx.now),
            (Step::Starting, Message::Started) => {
                self.enter(at, Step::Running, cx.now);
                self.advance(cx.now);
            }
            (Step::Running | Step::Collecting, Message::Interval { index, traffic, .. })
                if (self.next..self.next.saturating_add(AHEAD)).contains(&index) =>
            {
                self.servers[at].reports.insert(index, traffic);
                self.release(false, cx.now);
            }
            (Step::Collecting, Message::Result { totals }) => {
                // Nothing more is needed of it; it may hang up before we do.
                self.servers[at].totals = Some(totals);
                self.enter(at, Step::Over, cx.now);
                self.advance(cx.now);
            }
            (Step::Stopping, Message::Stopping { reason }) if !self.servers[at].stopping => {
                self.servers[at].stopping = true;
                self.notice(Level::Info, format!("{} is stopping: {reason}", self.servers[at].peer.address));
            }
            (Step::Stopping, Message::Bye) => {
                self.enter(at, Step::Over, cx.now);
                if self.servers.iter().all(|s| s.step == Step::Over) {
                    self.finish(Status::Complete, None);
                }
            }
            (_, Message::Stopping { reason }) if self.stage == Stage::Agreeing => {
                self.lose(at, &format!("it is stopping: {reason}"), cx.now);
            }
            (_, Message::Stopping { reason }) if !self.servers[at].stopping => {
                self.servers[at].stopping = true;
                let name = self.servers[at].peer.name.clone();
                self.notice(Level::Warning, format!("{name} is stopping: {reason}"));
                self.status = Status::Interrupted;
                self.reason.get_or_insert(format!("{name} is stopping: {reason}"));
                self.drain(cx.now.plus(GRACE));
            }
            _ => {}
        }
    }

    fn greeted(&mut self, cx: &Cx<'_>, at: usize, version: String, nonce: &str, key: bool) {
        let Some(nonce) = unhex::<16>(nonce) else {
            return self.lose(at, "its hello has no valid nonce", cx.now);
        };
        self.servers[at].version = version;
        self.servers[at].their_nonce = nonce;
        match (&self.plan.psk, key) {
            (Some(psk), true) => {
                let proof = psk.client_proof(&self.servers[at].nonce, &nonce);
                self.say(at, &Message::Proof { proof });
                self.enter(at, Step::Proving, cx.now);
            }
            (None, true) => {
                let why = "the server needs a pre-shared key: give it with --psk-file or NETCALIPER_PSK";
                self.lose(at, why, cx.now);
            }
            (Some(_), false) => {
                let why = "a pre-shared key was given, but the server has none and cannot prove who it is";
                self.lose(at, why, cx.now);
            }
            (None, false) => self.ping(cx, at),
        }
    }

    fn proved(&mut self, cx: &Cx<'_>, at: usize, proof: &str) {
        let server = &self.servers[at];
        let good = self
            .plan
            .psk
            .as_ref()
            .is_some_and(|psk| psk.server_proves(proof, &server.nonce, &server.their_nonce));
        if good {
            self.servers[at].authenticated = true;
            self.ping(cx, at);
        } else {
            self.lose(at, "the server does not know the pre-shared key", cx.now);
        }
    }

    fn ping(&mut self, cx: &Cx<'_>, at: usize) {
        self.enter(at, Step::Pinging, cx.now);
        let n = self.servers[at].ping.0 + 1;
        self.servers[at].ping = (n, cx.now);
        self.say(at, &Message::Ping { n });
    }

    fn ponged(&mut self, cx: &Cx<'_>, at: usize) {
        let server = &mut self.servers[at];
        let rtt = cx.now.since(server.ping.1).max(1);
        server.base_rtt = if server.base_rtt == 0 { rtt } else { server.base_rtt.min(rtt) };
        if server.ping.0 < PINGS {
            return self.ping(cx, at);
        }
        if self.plan.stop_servers {
            self.say(at, &Message::Shutdown);
            return self.enter(at, Step::Stopping, cx.now);
        }
        self.enter(at, Step::Measured, cx.now);
        self.advance(cx.now);
    }

    /// Asks every server that is there for its share of the connections.
    fn propose_all(&mut self, now: Mono) {
        let there: Vec<usize> =
            (0..self.servers.len()).filter(|&at| self.servers[at].step != Step::Over).collect();
        self.shares = there.len().max(1) as u32;
        self.suit_host(&there);
        let phase = Box::new(self.proposal());
        for at in there {
            self.say(at, &Message::Propose { run: self.plan.run, phase: phase.clone() });
            self.enter(at, Step::Proposing, now);
        }
    }

    /// Takes the send buffer that suits one host, where every server is on this one and the user has not chosen.
    fn suit_host(&mut self, there: &[usize]) {
        let Some(bytes) = self.plan.same_host_sndbuf else { return };
        if there.iter().all(|&at| self.servers[at].same_host) {
            self.plan.phase.sockets.sndbuf = Some(bytes);
            let text = format!(
                "both ends are on one host: send buffers of {} KiB keep the data in the caches (--sndbuf system \
                 leaves them to the system)",
                bytes / 1024
            );
            self.notice(Level::Info, text);
        }
    }

    /// What each server is asked for: its share of the connections, or all when there are fewer of them than servers.
    fn proposal(&self) -> Phase {
        let mut phase = self.plan.phase.clone();
        if phase.connections >= self.shares {
            phase.connections = phase.connections.div_ceil(self.shares);
        }
        phase
    }

    fn accepted(&mut self, cx: &Cx<'_>, at: usize, message: Message) {
        let Message::Accepted { accepted, token, phase, host, workers, placement } = message else { return };
        let Some(token) = unhex::<16>(&token) else {
            return self.lose(at, "it accepted without a valid token", cx.now);
        };
        if let Err(why) = phase.check() {
            return self.lose(at, &format!("it accepted what cannot be: {why}"), cx.now);
        }
        if !is_reduction(&self.proposal(), &phase) {
            return self.lose(at, "it accepted something else than what was proposed", cx.now);
        }
        let server = &mut self.servers[at];
        let info = SessionInfo {
            target: server.peer.name.clone(),
            address: server.peer.address,
            version: server.version.clone(),
            accepted,
            host: *host,
            workers,
            placement,
            authenticated: server.authenticated,
            base_rtt_ns: server.base_rtt,
            udp_rtt_ns: None,
        };
        server.granted = Some((info, token, *phase));
        self.enter(at, Step::Ready, cx.now);
        self.advance(cx.now);
    }

    fn tally(&mut self, now: Mono, index: u32, from: Mono, to: Mono, tally: &Tally) {
        let interval = self.intervals.next(index, from, to, tally);
        self.waiting.push_back((now, interval));
        self.release(false, now);
    }

    /// Emits the intervals whose far reports have come, or are overdue. The far ends' sum is told only when it is whole.
    fn release(&mut self, all: bool, now: Mono) {
        while let Some((since, interval)) = self.waiting.front_mut() {
            let index = interval.index;
            let mut reports = self.servers.iter().filter(|s| s.takes_part()).map(|s| s.reports.get(&index));
            let far = reports.try_fold(None, |sum: Option<Traffic>, report| {
                let mut sum = sum.unwrap_or_default();
                sum.beside(report?);
                Some(Some(sum))
            });
            if !(all || far.is_some() || now.since(*since) > LATE_REPORT) {
                return;
            }
            interval.far = far.flatten();
            let interval = std::mem::take(interval);
            self.waiting.pop_front();
            self.next = index.saturating_add(1);
            for server in &mut self.servers {
                server.reports = server.reports.split_off(&self.next);
            }
            self.actions.push_back(Action::Emit(Event::Interval(Box::new(interval))));
        }
    }

    fn beats(&self) -> bool {
        self.stage != Stage::Over && self.servers.iter().any(|s| s.step.is_long())
    }

    fn wake(&mut self, now: Mono) {
        if self.stop_at.is_some_and(|at| at <= now) {
            self.drain(now.plus(GRACE));
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.actions.push_back(Action::Order(GROUP, Order::Kill));
        }
        if self.beats() && self.beat <= now {
            self.beat = now.plus(HEARTBEAT);
            for at in 0..self.servers.len() {
                if self.servers[at].step.is_long() {
                    self.say(at, &Message::Ping { n: 0 });
                }
            }
        }
        for at in 0..self.servers.len() {
            let (step, since, heard) =
                (self.servers[at].step, self.servers[at].since, self.servers[at].heard);
            let overdue = |since: Mono, limit| now.since(since) >= limit;
            let seconds = Duration::from_nanos(PATIENCE).as_secs();
            match step {
                Step::Connecting if overdue(since, PATIENCE) => {
                    self.lose(at, &format!("no connection within {seconds} s"), now);
                }
                Step::Greeting if overdue(since, PATIENCE) => {
                    let why = format!(
                        "it accepted the connection but said nothing for {seconds} s: is it netcaliper?"
                    );
                    self.lose(at, &why, now);
                }
                Step::Proving | Step::Pinging | Step::Proposing | Step::Starting
                    if overdue(since, PATIENCE) =>
                {
                    self.lose(at, &format!("no answer within {seconds} s"), now);
                }
                Step::Collecting if overdue(since, COUNTING) => {
                    let seconds = Duration::from_nanos(COUNTING).as_secs();
                    self.lose(at, &format!("it sent no results within {seconds} s"), now);
                }
                _ if step.is_long() && overdue(heard, SILENCE) => {
                    let seconds = Duration::from_nanos(SILENCE).as_secs();
                    self.lose(at, &format!("vanished: nothing was heard from it for {seconds} s"), now);
                }
                _ => {}
            }
        }
        self.release(false, now);
    }
}

/// Whether a server may make `granted` of `asked`: less, not something else.
fn is_reduction(asked: &Phase, granted: &Phase) -> bool {
    let no_more = |asked: Option<u64>, granted: Option<u64>| match (asked, granted) {
        (Some(asked), Some(granted)) => granted <= asked,
        (asked, granted) => asked.is_none() || granted.is_some(),
    };
    let rest = Phase {
        connections: granted.connections,
        transfer: granted.transfer,
        duration_ns: granted.duration_ns,
        omit_ns: granted.omit_ns,
        rate: granted.rate,
        burst: granted.burst,
        exclusive: granted.exclusive,
        // Ours alone, and no integer, which text may change in the last digit.
        connect_rate: granted.connect_rate,
        ..asked.clone()
    };
    granted.connections <= asked.connections
        && granted.transfer <= asked.transfer
        && granted.omit_ns <= asked.omit_ns
        && no_more(asked.duration_ns, granted.duration_ns)
        && no_more(asked.rate, granted.rate)
        && (granted.burst == asked.burst || granted.burst.is_none())
        && (granted.exclusive || !asked.exclusive)
        && *granted == rest
}

/// What is wrong with the first bytes of a server that is none of ours; `None` when nothing is, as far as can be seen.
fn not_one_of_us(first: &[u8]) -> Option<String> {
    match guess(first) {
        Guess::Netcaliper => {
            let Some(preamble) = Preamble::decode(first.first_chunk()?) else {
                return Some("its first bytes are damaged".to_owned());
            };
            Some(format!(
                "it speaks wire version {}, this program speaks {}: use the same release on both ends",
                preamble.version,
                super::WIRE_VERSION
            ))
        }
        // A length below 1 MiB starts with a zero byte.
        Guess::Unknown if first.first() == Some(&0) => None,
        Guess::Unknown => Some("it answers, but it is not a netcaliper server".to_owned()),
        other => Some(format!("it is not a netcaliper server: it answers in {}", other.name())),
    }
}

impl Session<Run> for Client {
    fn handle(&mut self, cx: &mut Cx<'_>, input: Input<'_, Run>) {
        self.clock = *cx.clock;
        match input {
            Input::Up(link, Path { .. }, Some(key)) => self.up(cx, link, key),
            Input::Up(_, _, None) | Input::Note(_) => {}
            Input::Refused(key, fault) if (key as usize) < self.servers.len() => {
                self.lose(key as usize, &fault.to_string(), cx.now);
            }
            Input::Refused(..) => {}
            Input::Bytes(link, bytes) => {
                if let Some(at) = self.by_link(link) {
                    self.bytes(cx, at, bytes);
                }
            }
            Input::Down(link, fault) => {
                if let Some(at) = self.by_link(link) {
                    self.servers[at].link = None;
                    let why = match (fault, self.servers[at].step) {
                        (Some(fault), _) => format!("the control connection broke ({fault})"),
                        (None, Step::Greeting) => {
                            "it closed the connection without a word: is it netcaliper?".into()
                        }
                        (None, _) => "it closed the control connection".to_owned(),
                    };
                    self.lose(at, &why, cx.now);
                }
            }
            Input::Tally { index, from, to, tally, .. } => self.tally(cx.now, index, from, to, tally),
            Input::Idle(_) => self.collect(cx.now),
            Input::Dropped(_, mut totals) => {
                totals.receive = self.plan.phase.verify.receive().to_owned();
                self.near = Some(totals);
                self.advance(cx.now);
            }
            Input::Wake => self.wake(cx.now),
            Input::Stop if matches!(self.stage, Stage::Agreeing | Stage::Running) => {
                self.status = Status::Interrupted;
                self.reason.get_or_insert("interrupted by the user".to_owned());
                self.drain(cx.now.plus(GRACE));
            }
            // The run is ending as it is.
            Input::Stop => {}
        }
    }

    fn poll(&mut self, _: &mut Cx<'_>) -> Option<Action<Run>> {
        self.actions.pop_front()
    }

    fn deadline(&self) -> Option<Mono> {
        if self.stage == Stage::Over {
            return None;
        }
        let step = self.servers.iter().filter_map(|s| match s.step {
            Step::Over => None,
            Step::Collecting => Some(s.heard.plus(SILENCE).min(s.since.plus(COUNTING))),
            step if step.is_long() => Some(s.heard.plus(SILENCE)),
            _ => Some(s.since.plus(PATIENCE)),
        });
        let beat = self.beats().then_some(self.beat);
        let late = self.waiting.front().map(|(since, _)| since.plus(LATE_REPORT + 1));
        step.chain(beat).chain(late).chain(self.stop_at).chain(self.kill_at).min()
    }
}
