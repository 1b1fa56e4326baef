//! The client's side of the conversation, over one phase: reach every server, agree, run, collect.
//!
//! ```text
//! connecting ─ up ─▶ greeting ─ hello ─▶ (proving) ─▶ measuring RTT ─▶ (reaching) ─▶ proposing ─ accepted ─▶ ready
//!      all ready: start ─▶ started ─▶ running ─ time up, all done or stop ─▶ draining ─▶ collecting ─▶ over
//! ```

mod agree;
mod follow;
mod reach;
mod resume;
mod rhythm;
mod silence;

use super::SameHost;
use super::message::{Frames, MAX_MESSAGE, Message};
use super::opening::{Opener, OpeningKey};
use super::secure::Shake;
use super::spread::{About, Dialing, Place, ProcessPort, plan_of};
use super::udp::{Log, Posted, Tracks};
use crate::auth::Secrets;
use crate::budget::Budget;
use crate::round_robin::local_address;
use common::driver::Driver;
use common::message::{SessionMessage, SharedMessage, downcast, since};
use common::{ClientConfig, Peer, Processes};
use metrics::{Clamped, Clock, Ending, Group, Mono, SECOND, Tally};
use model::{
    Event, Interval, Kind, Level, OwnTraffic, PacketReport, Phase, SessionInfo, Status, Totals, Traffic,
};
use reach::{REACH, Reach};
use resume::Resumption;
use rhythm::Rhythm;
use silence::Silence;
use std::collections::{BTreeMap, VecDeque};
use transport::{Action, Context, End, Fault, Input, Link, LinkSource, Path, Session, Target};

/// Everything a client needs to know before it starts.
pub struct ClientPlan {
    /// The user's settings.
    pub config: ClientConfig,
    pub phase: Phase,
    pub workers: u16,
    /// 32 bytes of the system's randomness.
    pub secret: [u8; 32],
    /// Identifies the clock that this process reads, and so its host; empty when it is not known.
    pub clock_id: String,
    /// Socket buffers to ask for when every server is on this host.
    pub same_host: Option<SameHost>,
}

/// The client's only group.
const GROUP: Group = Group(1);
/// ECONNRESET of Linux, BSD and Windows.
const CONNECTION_RESET: [i32; 3] = [104, 54, 10_054];
/// ECONNREFUSED, likewise.
const CONNECTION_REFUSED: [i32; 3] = [111, 61, 10_061];
/// Likely causes of a reset before the hello, for messages.
const RESET_HINT: &str = "the server may not serve this address (--allow, --deny), or be crowded";
/// Limit for the answer of a server in a step of the set-up, ns.
const PATIENCE: u64 = 10 * SECOND;
/// Longest silence of a server in a step that may last, ns.
const SILENCE: u64 = 10 * SECOND;
/// First number of heartbeats; pings with a step of their own have lower numbers.
const FIRST_BEAT: u32 = 1 << 16;
/// Reports after which the client acknowledges them without waiting for its heartbeat.
const ACKNOWLEDGED: u32 = 8;
/// Heartbeats without an answer that are remembered.
const MOST_BEATS: usize = 16;
/// Time since its last message during which a server is present, whatever keeps its answers, ns.
const LIVELY: u64 = 2 * SECOND;
/// Time between heartbeats, ns.
const HEARTBEAT: u64 = SECOND;
/// Limit for open connections to end in good order, ns.
const GRACE: u64 = 10 * SECOND;
/// Time from the message to the servers that the run is over to the abort of connections, ns.
const CUT_AFTER: u64 = SECOND / 10;
/// Limit for a server without an answer since an interrupt: an interrupt ends a run within a
/// second.
const UNANSWERED: u64 = 9 * SECOND / 10;
/// Time added for a server without an answer whose host has accepted another connection, ns.
const REACHED: u64 = SECOND;
/// Limit for the results of a server with an answer since an interrupt.
const ANSWERING: u64 = 5 * SECOND;
/// Limit for a server's results after its connections have ended, ns.
const COUNTING: u64 = 15 * SECOND;
/// Most intervals that a report may be ahead of the next one to be reported here.
const AHEAD: u32 = 1024;
/// Time added to limits for each thousand connections: ending and counting them keeps a core busy
/// that long, ns.
pub(super) const A_THOUSAND: u64 = SECOND;
/// Time after the end of their schedule that flows of datagrams have to end by themselves, ns.
const AFTER: u64 = 3 * SECOND / 2;
/// Round trips measured on the idle control connection.
const PINGS: u32 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Connecting,
    Proving,
    Greeting,
    Pinging,
    /// Its round trip is known; the others' are waited for.
    Measured,
    /// Hellos are sent to its UDP port.
    Reaching,
    /// Its hellos have remained unanswered; a ping on the control connection is under way.
    Unreached,
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
    /// True if the step may last; heartbeats show that the server is still there.
    fn is_long(self) -> bool {
        matches!(
            self,
            Step::Measured | Step::Queued | Step::Ready | Step::Running | Step::Collecting | Step::Stopping
        )
    }
}

/// One server of the run.
///
/// Wide: the state of one conversation, no part of which outlives it.
struct RunServer {
    peer: Peer,
    link: Option<Link>,
    frames: Frames,
    step: Step,
    since: Mono,
    heard: Mono,
    nonce: [u8; 16],
    shake: Option<Shake>,
    /// The hash of the handshake, where there is a key.
    handshake: Vec<u8>,
    same_host: bool,
    version: String,
    ping: (u32, Mono),
    base_rtt: u64,
    /// Heartbeats that are not answered, and the latest round trip of one.
    beats: VecDeque<(u32, Mono)>,
    loaded_rtt: u64,
    /// Reports that are not acknowledged.
    unacknowledged: u32,
    granted: Option<Granted>,
    reports: BTreeMap<u32, (Traffic, Option<Box<PacketReport>>)>,
    totals: Option<Box<Totals>>,
    /// The server's record of packet trains.
    log: Log,
    /// The ending of the run since the server is stopping, or a limit of it has ended the session.
    stopping: Option<Status>,
    /// Its connection was reset before its hello, and was made anew.
    retried: bool,
    /// Attempts to go on with the session on another connection.
    resumption: Resumption,
    failure: Option<String>,
}

/// Grant of a server.
struct Granted {
    info: SessionInfo,
    opener: Opener,
    phase: Phase,
    /// Its ports for connections, where these are not at the one that is spoken to.
    process_ports: Vec<ProcessPort>,
}

impl RunServer {
    /// Addresses at which the server accepts connections of its session.
    fn places(&self) -> Vec<Place> {
        let Some(Granted { opener, phase, process_ports, .. }) = &self.granted else { return Vec::new() };
        let (session, key) = opener.session();
        let place =
            |address, key, connections| Place { address, session, key, phase: phase.clone(), connections };
        if process_ports.is_empty() {
            return vec![place(self.peer.address, key, phase.connections)];
        }
        let at = |port: &ProcessPort| {
            let mut address = self.peer.address;
            address.set_port(port.port);
            place(address, OpeningKey::of(key).of_port(port.port).bytes(), port.connections)
        };
        process_ports.iter().map(at).collect()
    }

    /// True if the server has a session of ours, or had one that ended well.
    fn takes_part(&self) -> bool {
        self.granted.is_some() && self.failure.is_none()
    }
}

/// Stages of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Agreeing,
    Running,
    Draining,
    Collecting,
    Over,
}

/// Progress of a run that holds its connections once each has moved its payload.
#[derive(Clone, Copy, Debug, Default)]
struct Held {
    /// Connections that the run opens, and payload bytes that each of them sends.
    connections: u32,
    transfer: u64,
    /// Payload bytes sent by connections that have not ended.
    bytes: u64,
    /// Connections that failed.
    failed: u64,
}

impl Held {
    fn add(&mut self, tally: &Tally) {
        self.bytes = (self.bytes + tally.tx_bytes).saturating_sub(tally.ended_tx);
        self.failed += tally.errors();
    }

    /// True once each connection has moved its payload or failed.
    fn is_whole(&self) -> bool {
        self.bytes.checked_div(self.transfer).is_some_and(|n| n + self.failed >= self.connections.into())
    }
}

/// The client's session.
///
/// Wide: the state of one run; what belongs together is a type of its own already.
pub struct Client {
    plan: ClientPlan,
    secrets: Secrets,
    servers: Vec<RunServer>,
    driver: Driver,
    stage: Stage,
    /// State of the check that datagrams reach the servers.
    reach: Reach,
    /// Servers among which the connections are divided.
    shares: u32,
    /// When the phase's first interval began.
    started: Mono,
    /// The clock of the latest input.
    clock: Clock,
    stop_at: Option<Mono>,
    kill_at: Option<Mono>,
    /// When the user asked for the end.
    asked: Option<Mono>,
    /// The round trip at that time, with the queues on the way, ns.
    patience_ns: u64,
    beat: Mono,
    beats: u32,
    /// Connections that had not ended at the end of the run were aborted.
    was_cut_off: bool,
    budget: Budget,
    /// Messages on control connections during the run.
    own: OwnTraffic,
    waiting: VecDeque<(Mono, Interval)>,
    /// Intervals whose line had to leave before the reports of all servers.
    incomplete: VecDeque<Interval>,
    /// The next interval to be reported.
    next: u32,
    rhythm: Rhythm,
    /// Of a run that holds its connections.
    held: Held,
    local: Option<Box<Totals>>,
    /// Our flow's record of packet trains.
    log: Option<Box<Log>>,
    /// Both ends' records of flows of datagrams.
    tracks: Tracks,
    /// Detects a path on which datagrams stopped arriving.
    silence: Silence,
}

impl Client {
    /// A client that will connect to every peer of `plan` as soon as it is polled.
    pub fn new(mut plan: ClientPlan, now: Mono) -> Self {
        let mut secrets = Secrets::new(std::mem::take(&mut plan.secret), b"netcaliper client");
        let servers: Vec<RunServer> = plan
            .config
            .peers
            .iter()
            .map(|peer| RunServer {
                peer: peer.clone(),
                link: None,
                frames: Frames::new(MAX_MESSAGE),
                step: Step::Connecting,
                since: now,
                heard: now,
                nonce: secrets.short(),
                shake: None,
                handshake: Vec::new(),
                same_host: false,
                version: String::new(),
                ping: (0, now),
                base_rtt: 0,
                beats: VecDeque::new(),
                loaded_rtt: 0,
                unacknowledged: 0,
                granted: None,
                reports: BTreeMap::new(),
                totals: None,
                log: Log::default(),
                stopping: None,
                retried: false,
                resumption: Resumption::default(),
                failure: None,
            })
            .collect();
        let count = servers.len();
        let mut client = Client {
            reach: Reach::before(&plan.phase),
            driver: Driver::new(now, 0, &plan.phase),
            secrets,
            stage: if servers.is_empty() { Stage::Over } else { Stage::Agreeing },
            servers,
            shares: 1,
            started: now,
            clock: Clock::default(),
            stop_at: None,
            kill_at: None,
            asked: None,
            patience_ns: 0,
            beat: now,
            beats: FIRST_BEAT,
            was_cut_off: false,
            budget: Budget::of(&plan.phase),
            own: OwnTraffic::default(),
            rhythm: Rhythm::new(&plan.phase),
            waiting: VecDeque::new(),
            incomplete: VecDeque::new(),
            next: 0,
            held: Held::default(),
            local: None,
            log: None,
            tracks: Tracks::default(),
            silence: Silence::default(),
            plan,
        };
        (0..count).for_each(|at| client.connect(at));
        client
    }

    fn by_link(&self, link: Link) -> Option<usize> {
        self.servers.iter().position(|s| s.link == Some(link))
    }

    fn say(&mut self, at: usize, message: &Message) {
        self.say_all(at, std::slice::from_ref(message));
    }

    /// Sends messages together.
    fn say_all(&mut self, at: usize, messages: &[Message]) {
        if let Some(link) = self.servers[at].link {
            let frames = &mut self.servers[at].frames;
            let bytes: Vec<u8> = messages.iter().flat_map(|message| frames.encode(message)).collect();
            self.count_own(u64::clamped(messages.len()), bytes.len());
            self.driver.send(link, bytes);
        }
    }

    /// Counts messages between set-up and end.
    fn count_own(&mut self, messages: u64, bytes: usize) {
        if self.stage == Stage::Running {
            self.own.messages += messages;
            self.own.message_bytes += u64::clamped(bytes);
        }
    }

    fn enter(&mut self, at: usize, step: Step, now: Mono) {
        self.servers[at].step = step;
        self.servers[at].since = now;
    }

    /// The servers in such a step, by their place in the plan.
    fn servers_in(&self, is: impl Fn(Step) -> bool) -> Vec<usize> {
        (0..self.servers.len()).filter(|&at| is(self.servers[at].step)).collect()
    }

    /// A server is of no more use; the run goes on with the others, if there are any.
    fn lose(&mut self, at: usize, why: &str, now: Mono) {
        if self.servers[at].step == Step::Over || self.fall_back(at, why, now) {
            return;
        }
        let peer = &self.servers[at].peer;
        let text = if peer.name == peer.address.to_string() {
            format!("{}: {why}", peer.address)
        } else {
            format!("{} ({}): {why}", peer.name, peer.address)
        };
        self.enter(at, Step::Over, now);
        if let Some(link) = self.servers[at].link.take() {
            self.driver.ask(Action::Close(link, End::Done { how: Ending::NetworkError, reset: true }));
        }
        self.servers[at].failure = Some(text.clone());
        let others = self.servers.iter().any(|s| s.step != Step::Over);
        match self.stage {
            Stage::Agreeing if others => self.driver.notice(Level::Warning, format!("left out: {text}")),
            Stage::Agreeing => self.finish(Status::Failed, Some(self.failures())),
            Stage::Running | Stage::Draining | Stage::Collecting => {
                self.is_partial(at);
                self.driver.reason.get_or_insert(text.clone());
                self.driver.notice(Level::Error, text);
                if !others {
                    self.collect(now);
                }
            }
            Stage::Over => {}
        }
        self.advance(now);
    }

    /// A server's part of the result is missing: the run is interrupted if the user or that server
    /// was ending it, else partial.
    fn is_partial(&mut self, at: usize) {
        let is_stopped = self.asked.is_some() || self.servers[at].stopping == Some(Status::Interrupted);
        self.driver.status = if is_stopped { Status::Interrupted } else { Status::Partial };
    }

    /// `least` ns, and more for each thousand connections that have to end.
    fn longer_for_many(&self, least: u64) -> u64 {
        least + u64::from(self.plan.phase.connections / 1_000) * A_THOUSAND
    }

    /// Sets the end of a run that holds its connections, once each has moved its payload or failed.
    fn hold(&mut self, to: Mono, tally: &Tally) {
        let Some(hold_ns) = self.plan.phase.hold_ns else { return };
        let was_whole = self.held.is_whole();
        self.held.add(tally);
        if self.held.is_whole() && !was_whole {
            let end = to.plus(hold_ns);
            self.stop_at = Some(self.stop_at.map_or(end, |at| at.min(end)));
        }
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
                self.look_at_datagrams(now);
            }
            Stage::Agreeing if live().count() > 0 && live().all(|s| s.step == Step::Ready) => {
                self.start_all(now);
            }
            Stage::Agreeing if live().count() > 0 && live().all(|s| s.step == Step::Running) => self.run(now),
            Stage::Collecting if live().all(|s| s.totals.is_some()) && self.local.is_some() => {
                self.rhythm.finish();
                self.release(false, now);
                if !self.waiting.is_empty() {
                    // Reports that arrived together with the result: their lines do not bunch.
                    return;
                }
                let stalled = self.stalled();
                self.report();
                self.notice_silence(stalled);
                let (status, reason) = (self.driver.status, self.driver.reason.take());
                self.finish(status, reason);
            }
            _ => {}
        }
    }

    fn start_all(&mut self, now: Mono) {
        for at in self.servers_in(|step| step == Step::Ready) {
            if let Some(Granted { info, .. }) = &self.servers[at].granted {
                self.driver.ask(Event::Session(Box::new(info.clone())));
            }
            self.say(at, &Message::Start);
            self.enter(at, Step::Starting, now);
        }
    }

    /// The phase that all servers together have granted.
    fn granted_phase(&self) -> Phase {
        let mut phase = self.plan.phase.clone();
        let granted: Vec<&Phase> = self
            .servers
            .iter()
            .filter(|s| s.step != Step::Over)
            .filter_map(|s| Some(&s.granted.as_ref()?.phase))
            .collect();
        let sum: u32 = granted.iter().map(|p| p.connections).sum();
        phase.connections = phase.connections.min(sum.max(1));
        phase.first_worker = granted.first().map_or(phase.first_worker, |one| one.first_worker);
        for one in granted {
            phase.duration_ns = phase.duration_ns.into_iter().chain(one.duration_ns).min();
            phase.transfer = phase.transfer.min(one.transfer);
            phase.omit_ns = phase.omit_ns.min(one.omit_ns);
        }
        phase
    }

    fn run(&mut self, now: Mono) {
        self.stage = Stage::Running;
        let phase = self.granted_phase();
        // The shares of servers that are lost meanwhile have failed, and count.
        self.held = Held { connections: phase.connections, transfer: phase.transfer, ..Held::default() };
        // The lead before the first interval is for opening flows that keep a schedule and for
        // comparing clocks. The servers began theirs half a round trip ago: ours is shorter by
        // that, so that both ends' intervals begin at about the same time.
        let way_back = self.servers.iter().filter(|s| s.step == Step::Running).map(|s| s.base_rtt / 2).max();
        let start = now.plus(phase.lead_ns().saturating_sub(way_back.unwrap_or(0)));
        self.started = start;
        self.driver.ask(Event::Start { at: self.clock.wall(start) });
        let end = phase.ends_after().map(|ns| start.plus(ns));
        // Flows of datagrams end by themselves once both ends know it; connections wait for the
        // order.
        self.stop_at = end.map(|end| end.plus(if phase.probe.is_some() { AFTER } else { 0 }));
        self.driver.count_from(start, phase.omit_ns, &phase);
        let (workers, Processes { count, workers: each }) =
            (self.plan.workers.max(1), self.plan.config.processes);
        let mut plan = plan_of(&phase, GROUP, start, workers, self.plan.config.records);
        let running = || self.servers.iter().filter(|s| s.step == Step::Running);
        let config = &self.plan.config;
        let dialing = Dialing {
            group: GROUP,
            phase: phase.clone(),
            start,
            end,
            places: running().flat_map(RunServer::places).collect(),
            sources: config.sources.clone(),
            ports: config.ports,
            records: config.records,
        };
        if count > 0 && phase.probe.is_none() {
            plan.workers = Some(workers..workers.saturating_add(count.saturating_mul(each)));
            plan.about = Some(About::Dial(dialing).encode());
            return self.driver.group(plan, Vec::new());
        }
        // Ends that spin must not share a core. Datagrams have no window: a receiver on the
        // sender's core loses datagrams that are sent while it does not run.
        let beside = !matches!(phase.kind, Kind::Delay | Kind::Capacity)
            && phase.ping.is_none_or(|ping| !ping.busy)
            && running().all(|s| s.same_host);
        plan.beside = beside.then_some(phase.first_worker);
        self.driver.group(plan, LinkSource::connectors(dialing.connectors(0..workers, workers)));
    }

    /// Handles a flow's message: an event for the reporters, an answered hello, a flow's record, a
    /// flow that never opened.
    fn note(&mut self, now: Mono, message: transport::Message) {
        match downcast(message) {
            SessionMessage::Shared(SharedMessage::Event(event)) => {
                self.driver.ask(since(event, self.started));
            }
            SessionMessage::Own(Posted::Answered(at)) => self.on_hello_answered(at, now),
            SessionMessage::Own(Posted::Track(mut track)) => {
                self.log = track.log.take().or(self.log.take());
                self.tracks.local(*track);
            }
            SessionMessage::Own(Posted::Unopened) => self.silence.unopened += 1,
            _ => {}
        }
    }

    /// Asks for a server's control connection.
    fn connect(&mut self, at: usize) {
        let to = self.servers[at].peer.address;
        let target = Target { to, from: local_address(&self.plan.config.sources, 0, None, to) };
        self.driver.ask(Action::Connect(self.key(at), target));
    }

    /// Key of an attempt to connect to a server: each of its addresses has a key of its own.
    fn key(&self, at: usize) -> u32 {
        u32::clamped(at + self.servers.len() * self.servers[at].peer.others.len())
    }

    /// The server to which this attempt is the latest.
    fn by_key(&self, key: u32) -> Option<usize> {
        (0..self.servers.len()).find(|&at| self.key(at) == key)
    }

    /// Connects to another address of a server to which no connection can be made; false when it
    /// has none left.
    fn fall_back(&mut self, at: usize, why: &str, now: Mono) -> bool {
        let RunServer { peer, step: Step::Connecting, .. } = &mut self.servers[at] else { return false };
        let Some(text) = peer.fall_back(why) else { return false };
        self.driver.notice(Level::Info, text);
        self.enter(at, Step::Connecting, now);
        self.connect(at);
        true
    }

    /// Reconnects once after a reset before the server's hello: a crowded server closes connections
    /// that have sent nothing yet, possibly this one.
    fn retry(&mut self, now: Mono, at: usize) -> bool {
        if std::mem::replace(&mut self.servers[at].retried, true) {
            return false;
        }
        self.servers[at].frames = Frames::new(MAX_MESSAGE);
        self.enter(at, Step::Connecting, now);
        self.connect(at);
        true
    }

    /// The control connection of a server has ended.
    fn down(&mut self, now: Mono, at: usize, fault: Option<Fault>) {
        self.servers[at].link = None;
        let early = matches!(self.servers[at].step, Step::Proving | Step::Greeting);
        if fault.is_some() && early && self.retry(now, at) {
            return;
        }
        let mut why = match fault {
            Some(fault) if early => format!("the control connection broke ({fault}): {RESET_HINT}"),
            Some(fault) => format!("the control connection broke ({fault})"),
            None if early => "it closed the connection without a word: is it netcaliper?".to_owned(),
            None => "it closed the control connection".to_owned(),
        };
        if self.stage != Stage::Agreeing {
            why = format!("{why} {}", self.after(now));
        }
        if !self.servers[at].awaits_another(&why) {
            self.lose(at, &why, now);
        }
    }
}

impl Session for Client {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        self.clock = *cx.clock;
        match input {
            Input::Up(link, Path { .. }, Some(key)) => {
                if !self.another_up(cx, link, key) {
                    self.up(cx, link, key);
                }
            }
            Input::Up(_, _, None) => {}
            Input::Message(message) => self.note(cx.now, message),
            Input::Refused(key, fault) => {
                let Some(at) = self.by_key(key) else { return self.another_down(None, Some(key), cx.now) };
                let reset = CONNECTION_RESET.contains(&fault.errno);
                match reset && self.servers[at].step == Step::Connecting {
                    true if self.retry(cx.now, at) => {}
                    true => self.lose(at, &format!("{fault}: {RESET_HINT}"), cx.now),
                    false => self.lose(at, &agree::advised(&self.servers[at].peer.name, &fault), cx.now),
                }
            }
            Input::Begun(_) | Input::Lost(_) | Input::Limited(..) => {}
            Input::Bytes(link, bytes) => match self.by_link(link) {
                Some(at) => self.bytes(cx, at, bytes),
                None => self.another_bytes(cx, link, bytes),
            },
            Input::Down(link, fault) => match self.by_link(link) {
                Some(at) => self.down(cx.now, at, fault),
                None => self.another_down(Some(link), None, cx.now),
            },
            Input::Tally { group: REACH, .. } | Input::Idle(REACH) => {}
            Input::Dropped(REACH, _) => self.reached(cx.now),
            Input::Tally { index, from, to, tally, .. } => self.tally(cx.now, index, from, to, tally),
            Input::Idle(_) => self.collect(cx.now),
            Input::Dropped(_, mut totals) => {
                totals.receive = self.plan.phase.verify.receive().to_owned();
                // The recorder counts datagrams in both statistics, and one of them applies: round
                // trips to messages, packets to the rest.
                match self.plan.phase.kind {
                    Kind::Ping => totals.keep_marks(),
                    // Exchanges inside the payload are round trips, too.
                    _ if self.plan.phase.inside_gap_ns.is_some() => totals.packets = None,
                    _ => totals.pings = None,
                }
                (totals.own.messages, totals.own.message_bytes) = (self.own.messages, self.own.message_bytes);
                self.local = Some(totals);
                self.advance(cx.now);
            }
            Input::Wake => self.wake(cx.now),
            Input::Finish => self.drain(cx.now.plus(self.longer_for_many(GRACE))),
            Input::Stop => self.stop(cx.now),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        if self.stage == Stage::Over {
            return None;
        }
        let step = self.servers.iter().filter_map(|server| self.patience(server)).map(|wait| wait.until());
        let beat = self.beats().then_some(self.beat);
        let another = self.servers.iter().filter_map(RunServer::resumes_at);
        let late = self.release_due();
        step.chain(beat).chain(another).chain(late).chain(self.stop_at).chain(self.kill_at).min()
    }
}
