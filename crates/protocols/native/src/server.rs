//! The server's side of the conversation: any number of clients, each in its own entry; a client's
//! error ends at most its own session.

mod arrive;
mod grant;
mod reports;
mod resume;
mod standing;

use super::client::A_THOUSAND;
use super::foreign;
use super::grants::Grants;
use super::handshake::Listener;
use super::message::{Frames, Message};
use super::preamble::Guess;
use super::secure::Shake;
use super::spread::{About, Granting, Listening};
use super::udp::Posted;
use crate::auth::{Secrets, keyed_long};
use crate::quota::{ByAddress, Lines, Rate};
use common::driver::Driver;
use common::keys::Named;
use common::message::{SessionMessage, downcast};
use common::{Patience, Rights, ServerConfig};
use metrics::{Clamped, Group, Mono, SECOND, Tally, Wall};
use model::{HostSnapshot, Kind, Level, PacketReport, Phase, Standing, Status, Totals, Traffic};
use reports::Reports;
use resume::Resumable;
use standing::Moved;
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use transport::{Acceptor, Action, Allowance, Context, Input, Link, LinkSource, Order, Path, Session};
use uuid::Uuid;

/// Everything a server needs to know before it starts.
pub struct ServerPlan {
    /// The user's settings.
    pub config: ServerConfig,
    pub host: HostSnapshot,
    /// Worker threads of a set, of which there are [`ServerPlan::SETS`].
    pub workers: u16,
    /// 32 bytes of the system's randomness.
    pub secret: [u8; 32],
    /// Identifies the clock that this process reads, and so its host; empty when it is not known.
    pub clock_id: String,
    /// The ports of its worker processes, whose workers are numbered after the workers of this
    /// process.
    pub process_ports: Vec<u16>,
}

impl ServerPlan {
    /// Sets of workers: the first for sessions that keep a worker busy, the second for sessions of
    /// short turns, whose messages would wait behind the turns of the others.
    pub const SETS: u16 = 2;

    pub fn threads(&self) -> u16 {
        self.set(ServerPlan::SETS).start
    }

    pub(super) fn set(&self, number: u16) -> Range<u16> {
        let workers = self.workers.max(1);
        workers * number..workers * (number + 1)
    }

    /// The workers of these worker processes.
    pub(super) fn workers_of(&self, processes: &Range<usize>) -> Range<u16> {
        let each = self.config.processes.workers;
        let at = |process: usize| self.threads().saturating_add(u16::clamped(process).saturating_mul(each));
        at(processes.start)..at(processes.end)
    }
}

/// Longest message a client may send.
const LONGEST: usize = 64 * 1024;
/// The waits for a client's hello, and for the proof of its key.
const HELLO: Patience = Patience::of("no hello", 10 * SECOND);
const PROOF: Patience = Patience::of("no proof of a key", 10 * SECOND);
/// The wait for a proposal: of a client that says nothing, and of one that pings.
const PROPOSAL: Patience = Patience::of("no proposal", Patience::LIMIT);
const PROPOSAL_WITH_PINGS: Patience = PROPOSAL.within(60 * SECOND);
/// The wait for the start of a granted session, which may wait for other servers of the run.
const GO: Patience = Patience::of("no start of the session", 600 * SECOND);
/// Limit for the start of a granted session that excludes all others, ns.
const WAIT_EXCLUSIVE: u64 = 60 * SECOND;
/// The wait for the next word of a client that is queued or whose session runs: clients ping once a
/// second.
const WORD: Patience = Patience::of("no word of the client", 9 * SECOND);
/// Why a session that excludes all others is ended.
const EXCLUDED_FOR_LONG: &str = "the session has excluded all others for longer than agreed";
/// Limit for connections to end here after the client has reported their end, ns.
const LINGER: u64 = 2 * SECOND;
/// Limit for running sessions to end when the server is stopped, ns.
const GRACE: u64 = 20 * SECOND;
/// Time that a session that excludes all others may last beyond its agreed length, ns.
const GRACE_EXCLUSIVE: u64 = 30 * SECOND;
/// Most clients that have not said hello, or have not proved to know the key.
const MOST_SILENT: usize = 1024;
/// Bytes that a client may send before it has said hello and proved itself.
const MOST_BEFORE_HELLO: usize = 8 * 1024;
/// Bytes that a client may send between its hello, or its last session, and its proposal with that.
const MOST_BEFORE_PROPOSAL: usize = 64 * 1024;
/// Messages of one client: this number at once, then one each [`MESSAGE_NS`]. Clients ping once a
/// second.
const MESSAGES: u64 = 128;
const MESSAGE_NS: u64 = SECOND / 16;
/// Handshakes with a key for one address, each of which costs the control thread some 0.1 ms: this
/// number at once, then one each [`HANDSHAKE_NS`].
const HANDSHAKES: u64 = 512;
const HANDSHAKE_NS: u64 = SECOND / 200;

/// Result of handling a client's message; the error is the reason for a refusal, shown to its user.
type Answered = Result<(), String>;

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
    granting: Granting,
    /// A session that excludes all others ends then at the latest.
    until: Option<Mono>,
    others: u32,
    /// Sum of its tallies.
    moved: Moved,
    /// The limits of its connections.
    allowance: Option<Arc<Allowance>>,
    /// The limit that has ended it.
    limit: Option<String>,
    /// The worker processes that have its connections.
    processes: Range<usize>,
}

/// A client, by its control link.
struct ClientState {
    path: Path,
    frames: Frames,
    step: Step,
    since: Mono,
    heard: Mono,
    /// Of a handshake that waits for the client's second message.
    shake: Option<Shake>,
    /// The hash of the handshake, where there is a key.
    handshake: Vec<u8>,
    /// The client opens connections at other ports than the server's own.
    takes_process_ports: bool,
    /// Slows its messages down as the server says.
    slows_messages: bool,
    /// The key that the client has, or with which it is yet to prove that.
    holder: Option<Holder>,
    run: Uuid,
    proposal: Option<Box<Phase>>,
    /// Bytes received before a proposal: since the connection was made, the hello arrived, or the
    /// last session ended.
    said: usize,
    messages: Rate,
    /// Since when the session stands as it does.
    standing: Wall,
    held: Option<Held>,
    /// Reports on intervals that are to be sent, or are under way.
    reports: Reports,
    /// Limit for connections to end here after the client has reported their end, ns.
    linger_ns: u64,
    /// The client goes on with a session on another connection.
    resumes: bool,
    /// Its latest session, until another one is proposed.
    resumable: Option<Resumable>,
}

impl ClientState {
    /// Until when its connections may end, after it has said that they have.
    fn lingers_until(&self) -> Option<Mono> {
        let connections = self.held.as_ref().map_or(0, |held| held.granting.phase.connections);
        let lingers = self.linger_ns + u64::from(connections / 1_000) * A_THOUSAND;
        (self.step == Step::Draining).then(|| self.since.plus(lingers))
    }
}

/// Identity of a client, by its key.
#[derive(Clone, Debug, Default)]
struct Holder {
    name: String,
    rights: Rights,
}

impl Holder {
    fn of<K>(key: &Named<K>) -> Self {
        Holder { name: key.name.clone(), rights: key.rights.clone() }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name.as_str() {
            "" => f.write_str("your key"),
            name => write!(f, "the key {name:?}"),
        }
    }
}

/// The server's session: all its clients.
pub struct Server {
    plan: ServerPlan,
    grants: Arc<Grants>,
    secrets: Secrets,
    clients: BTreeMap<Link, ClientState>,
    queue: VecDeque<Link>,
    /// The clients whose sessions have groups.
    groups: BTreeMap<Group, Link>,
    sessions: u64,
    driver: Driver,
    named: HashSet<(IpAddr, Guess)>,
    /// Handshakes, and lines about failed ones, by address.
    handshakes: ByAddress<(Rate, Lines)>,
    /// Lines about lost sessions by address.
    lost: ByAddress<Lines>,
    /// Set when the server is to end: until when sessions may go on.
    ending: Option<Mono>,
    /// Number of interrupts by the user.
    stops: u32,
    over: bool,
    budget: Option<Arc<AtomicI64>>,
    /// The bytes left of a day by the name of a key, with the beginning of that day.
    days: HashMap<String, (Mono, Arc<Allowance>)>,
    /// Worker processes that have ended.
    lost_processes: HashSet<usize>,
}

impl Server {
    /// A server that starts counting as soon as it is polled.
    pub fn new(mut plan: ServerPlan, now: Mono) -> Self {
        let secret = std::mem::take(&mut plan.secret);
        plan.config.clients = plan.config.clients();
        let cookies = keyed_long(&secret, &[b"netcaliper cookies"]);
        let config = &plan.config;
        let budget = config.exit_after.map(|n| Arc::new(AtomicI64::new(n.min(i64::MAX as u64) as i64)));
        let grants = Arc::new(Grants::new(foreign(&config.options), budget.clone()));
        let acl = Arc::new(config.acl.clone());
        let acceptors = (0..plan.threads())
            .map(|w| {
                let listener = Listener::new(Arc::clone(&grants), Arc::clone(&acl), w);
                Box::new(listener.with_datagrams(cookies)) as Box<dyn Acceptor>
            })
            .collect();
        let mut driver = Driver::new(now, 0, &Phase::default()).begun(now);
        let texts = |networks: &[ipnet::IpNet]| networks.iter().map(ToString::to_string).collect();
        let listening = Listening {
            start: now,
            interval_ns: config.interval_ns,
            records: config.records,
            allow: texts(&acl.allow),
            deny: texts(&acl.deny),
        };
        let mut all = listening.plan();
        if !plan.process_ports.is_empty() {
            all.about = Some(About::Listen(listening).encode());
        }
        driver.group(all, LinkSource::acceptors(acceptors));
        Server {
            secrets: Secrets::new(secret, b"netcaliper server"),
            plan,
            grants,
            clients: BTreeMap::new(),
            queue: VecDeque::new(),
            groups: BTreeMap::new(),
            sessions: 0,
            driver,
            named: HashSet::new(),
            handshakes: ByAddress::default(),
            lost: ByAddress::default(),
            ending: None,
            stops: 0,
            over: false,
            budget,
            days: HashMap::new(),
            lost_processes: HashSet::new(),
        }
    }

    /// The client whose session has a group.
    fn link_of(&self, group: Group) -> Option<Link> {
        self.groups.get(&group).copied()
    }

    fn say(&mut self, link: Link, message: &Message) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        self.driver.send(link, client.frames.encode(message));
    }

    fn close(&mut self, cx: &Context<'_>, link: Link) {
        if !self.clients.contains_key(&link) {
            return;
        }
        self.driver.close(link);
        self.leave(cx, link);
    }

    fn refuse(&mut self, cx: &Context<'_>, link: Link, reason: &str) {
        self.say(link, &Message::Refused { reason: reason.to_owned() });
        self.close(cx, link);
    }

    /// Forgets a client, its session and its place in the queue.
    fn leave(&mut self, cx: &Context<'_>, link: Link) {
        self.queue.retain(|&l| l != link);
        self.stand(link, Standing::Lost);
        let Some(client) = self.clients.remove(&link) else { return };
        if let Some(held) = client.held {
            self.grants.remove(held.granting.session);
            if matches!(client.step, Step::Running | Step::Draining) {
                self.driver.order(held.granting.group, Order::Drop);
            } else if client.step == Step::Granted {
                self.groups.remove(&held.granting.group);
            }
            // The group's number is free once its totals arrive: the drop was ordered just now, or
            // before (`Dropping`).
            if matches!(client.step, Step::Running | Step::Draining | Step::Dropping) {
                let peer = client.path.peer;
                let text = format!("session {} with {peer} was lost", held.granting.session);
                if let Some(text) = self.lost.of(peer.ip(), Lines::default).text(cx.now, text) {
                    self.driver.notice(Level::Warning, text);
                }
            }
        }
        self.admit_queued(cx);
        self.check_over(cx);
    }

    /// The client's connections have ended; ours should soon.
    fn wind_up(&mut self, cx: &Context<'_>, link: Link) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        let Some(held) = &client.held else { return };
        client.step = Step::Draining;
        client.since = cx.now;
        self.grants.remove(held.granting.session);
        self.driver.order(held.granting.group, Order::Stop);
    }

    fn drop_group(&mut self, now: Mono, link: Link) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        let Some(held) = &client.held else { return };
        if client.step == Step::Draining {
            client.step = Step::Dropping;
            client.since = now;
            self.driver.order(held.granting.group, Order::Drop);
        }
    }

    fn dropped(&mut self, cx: &Context<'_>, group: Group, mut totals: Box<Totals>) {
        // The client counts round trips.
        totals.pings = None;
        if group == Group::ALL {
            if self.stops > 0 {
                self.driver.fails(Status::Interrupted, "stopped by a signal");
            }
            self.driver.finish(None, Some(totals));
            return;
        }
        let Some(link) = self.groups.remove(&group) else { return };
        let client = self.clients.get_mut(&link);
        let Some((client, held)) = client
            .and_then(|v| Some((v.path.peer, v.held.as_mut().filter(|held| held.granting.group == group)?)))
        else {
            return self.check_over(cx);
        };
        if held.granting.phase.kind == Kind::Ping {
            totals.keep_marks();
        }
        totals.others = held.others;
        totals.limit = held.limit.take();
        totals.receive = held.granting.phase.verify.receive().to_owned();
        held.moved = Moved::of(&totals);
        let text = format!(
            "session {} with {client} ended: {} bytes received, {} sent, {} errors",
            held.granting.session,
            totals.traffic.rx_bytes,
            totals.traffic.tx_bytes,
            totals.errors()
        );
        self.stand(link, Standing::Ended);
        self.enter_idle(cx, link);
        self.driver.notice(Level::Info, text);
        self.send_reports(cx.now, link, true);
        self.say_last(link, Message::Result { totals });
        self.admit_queued(cx);
        self.check_budget();
        self.check_over(cx);
    }

    fn tally(&mut self, now: Mono, group: Group, index: u32, from: Mono, to: Mono, tally: &Tally) {
        if group == Group::ALL {
            return self.driver.traffic(index, from, to, tally);
        }
        let traffic = Traffic::of(tally, from, to);
        let Some(link) = self.link_of(group) else { return };
        let Some(run) = self.clients.get(&link).map(|v| v.run) else { return };
        let others = u32::clamped(self.others(run).count());
        self.moved(link, traffic, tally);
        let came = tally.packets.as_ref().filter(|packets| packets.came > from);
        let came_ns = came.map(|packets| packets.came.since(from));
        let packets = PacketReport::of_interval(tally);
        let report = Message::Interval { index, traffic, open: tally.open, others, came_ns, packets };
        let Some(client) = self.clients.get_mut(&link) else { return };
        // Data that moves shows that the client is there, whatever keeps its heartbeats.
        let is_datagrams =
            client.held.as_ref().map(|held| &held.granting.phase).is_some_and(|phase| {
                phase.probe.is_some() || phase.ping.is_some() || phase.capacity.is_some()
            });
        let moves = tally.rx_bytes > 0 || (tally.tx_bytes > 0 && !is_datagrams);
        if let Some(heard) = came_ns.map(|ns| from.plus(ns)).or(moves.then_some(from)) {
            client.heard = client.heard.max(heard);
        }
        client.reports.add(report);
        self.send_reports(now, link, false);
    }

    /// Sends a client the reports that may leave now; `all` of them before its result.
    fn send_reports(&mut self, now: Mono, link: Link, all: bool) {
        let Some(client) = self.clients.get_mut(&link) else { return };
        let bytes = client.reports.take(now, &mut client.frames, all);
        if !bytes.is_empty() {
            self.driver.send(link, bytes);
        }
    }

    /// Handles a message of a flow or listener; a flow's record of trains or datagrams goes to its
    /// client.
    fn note(&mut self, message: transport::Message) {
        match downcast(message) {
            SessionMessage::Own(Posted::ForeignPeer(path, guess)) => self.foreign(path, guess),
            SessionMessage::Own(Posted::Track(track)) => {
                if let Some(link) = track.group.and_then(|group| self.link_of(group)) {
                    track.messages().for_each(|message| self.say_last(link, message));
                }
            }
            _ => {}
        }
    }

    fn shut_down(&mut self, cx: &Context<'_>, link: Link, only: Option<&str>) -> Answered {
        let Some(client) = self.clients.get(&link) else { return Ok(()) };
        if let Some(only) = only.filter(|only| !self.plan.config.besides.iter().any(|b| b == only)) {
            let shown: String = only.chars().take(40).collect();
            return Err(format!("this server does not answer {shown:?}, which is to be ended"));
        }
        match &client.holder {
            Some(holder) if !holder.rights.permits("stop") => {
                return Err(format!("{holder} is not for stop: {}", holder.rights.verbs()));
            }
            None if !is_here(&client.path) => {
                let why = "this server has no pre-shared key, so it can only be stopped from its own host: start it with --psk-file";
                return Err(why.to_owned());
            }
            _ => {}
        }
        let peer = client.path.peer;
        let running = self.clients.values().filter(|v| v.held.is_some()).count();
        self.driver.notice(Level::Info, format!("{peer} asks to stop; {running} session(s) still running"));
        self.say(link, &Message::stopping(format!("{running} session(s) still running")));
        self.ending = Some(Mono(u64::MAX));
        self.admit_queued(cx);
        self.check_over(cx);
        Ok(())
    }

    /// The user stops the server: sessions are asked to end in good order, within the grace.
    fn stop(&mut self, cx: &Context<'_>) {
        self.stops += 1;
        if self.stops > 1 {
            // The last interrupt cuts sessions short that have not ended.
            if self.stops > 2 && self.ending.is_some_and(|at| at < Mono(u64::MAX)) {
                self.ending = Some(cx.now);
                self.wake(cx);
            }
            return;
        }
        self.ending = Some(cx.now.plus(GRACE));
        let links: Vec<(Link, bool)> = self.clients.iter().map(|(&l, v)| (l, v.held.is_some())).collect();
        for (link, busy) in links {
            self.say(link, &Message::stopping("the server was asked to stop"));
            if !busy {
                self.close(cx, link);
            }
        }
        self.check_over(cx);
    }

    /// Ends the server once it is to end and no session is left.
    fn check_over(&mut self, cx: &Context<'_>) {
        let busy = self.clients.values().any(|v| v.held.is_some()) || !self.groups.is_empty();
        if self.ending.is_none() || self.over || busy {
            return;
        }
        self.over = true;
        for link in self.clients.keys().copied().collect::<Vec<_>>() {
            self.say(link, &Message::Bye);
            self.close(cx, link);
        }
        self.driver.order(Group::ALL, Order::Drop);
    }

    fn wake(&mut self, cx: &Context<'_>) {
        let now = cx.now;
        for link in self.clients.keys().copied().collect::<Vec<_>>() {
            let Some(client) = self.clients.get(&link) else { continue };
            let lingers_until = client.lingers_until();
            let late = self.waits(client).find(|wait| wait.is_over(now)).map(|wait| wait.to_string());
            let excludes = Server::excludes_until(client).is_some_and(|at| at <= now);
            if let Some(why) = excludes.then(|| EXCLUDED_FOR_LONG.to_owned()).or(late) {
                self.refuse(cx, link, &why);
            } else if lingers_until.is_some_and(|at| at <= now) {
                self.drop_group(now, link);
            }
            self.send_reports(now, link, false);
        }
        self.admit_queued(cx);
        if self.ending.is_some_and(|at| at <= now) {
            // From here on only the workers are waited for.
            self.ending = Some(Mono(u64::MAX));
            for link in self.clients.keys().copied().collect::<Vec<_>>() {
                self.cut_off(link);
                self.close(cx, link);
            }
        }
        self.check_over(cx);
    }

    /// When a session that excludes all others is ended at the latest.
    fn excludes_until(client: &ClientState) -> Option<Mono> {
        let until = client.held.as_ref().and_then(|held| held.until);
        until.filter(|_| client.step != Step::Dropping)
    }

    /// The waits for a client, which is refused when one of them is over: the waits of its step,
    /// and the wait for its next word.
    fn waits(&self, client: &ClientState) -> impl Iterator<Item = Patience> + use<> {
        // A server that is ending closes idle clients once its sessions are over.
        let proposes = client.step == Step::Idle && self.ending.is_none();
        let of_step = match client.step {
            Step::Greeting => Some(HELLO),
            Step::Proving => Some(PROOF),
            Step::Idle if proposes => Some(PROPOSAL_WITH_PINGS),
            Step::Granted => Some(GO),
            _ => None,
        };
        let of_word = match client.step {
            Step::Idle if proposes => Some(PROPOSAL),
            Step::Granted | Step::Queued | Step::Running => Some(WORD),
            _ => None,
        };
        let (since, heard) = (client.since, client.heard.max(client.since));
        let of_step = of_step.map(|wait| wait.since(since));
        of_step.into_iter().chain(of_word.map(|wait| wait.since(heard)))
    }

    /// The connections of a session that the user ends here have not failed.
    fn cut_off(&mut self, link: Link) {
        let Some(client) = self.clients.get(&link) else { return };
        if let (Some(held), Step::Running | Step::Draining) = (&client.held, client.step) {
            self.driver.order(held.granting.group, Order::Stop);
        }
    }

    /// Ends the server when it has admitted as many connections as it was to.
    fn check_budget(&mut self) {
        let spent = self.budget.as_ref().is_some_and(|left| left.load(Ordering::Relaxed) <= 0);
        if spent && self.ending.is_none() {
            self.driver.notice(Level::Info, "the limit of connections is reached".to_owned());
            self.ending = Some(Mono(u64::MAX));
        }
    }

    fn foreign(&mut self, path: Path, guess: Guess) {
        if self.named.len() < 1024 && self.named.insert((path.peer.ip().to_canonical(), guess)) {
            self.driver.notice(Level::Warning, format!("{} spoke {} to this port", path.peer, guess.name()));
        }
    }
}

impl Session for Server {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Up(link, path, _) => self.arrive(cx, link, path),
            Input::Refused(..) | Input::Finish => {}
            Input::Bytes(link, bytes) => self.bytes(cx, link, bytes),
            Input::Down(link, _) => {
                if self.clients.get(&link).is_some_and(|v| v.step == Step::Proving) {
                    self.unproved(cx, link);
                }
                self.leave(cx, link);
            }
            Input::Message(message) => self.note(message),
            Input::Begun(group) => {
                if let Some(link) = self.link_of(group) {
                    self.say(link, &Message::Started);
                }
            }
            Input::Tally { group, index, from, to, tally } => {
                self.tally(cx.now, group, index, from, to, tally);
                self.check_budget();
                self.check_over(cx);
            }
            Input::Idle(group) => {
                if let Some(link) = self.link_of(group) {
                    self.drop_group(cx.now, link);
                }
            }
            Input::Dropped(group, totals) => self.dropped(cx, group, totals),
            Input::Limited(group, text) => {
                // The client learns the reason before its connections end.
                if let Some(link) = self.link_of(group) {
                    if let Some(held) = self.clients.get_mut(&link).and_then(|client| client.held.as_mut()) {
                        held.limit.get_or_insert_with(|| text.to_owned());
                    }
                    self.say(link, &Message::Stopping { reason: text.to_owned(), limited: true });
                }
            }
            Input::Lost(workers) => {
                let first = workers.start.saturating_sub(self.plan.threads());
                self.lost_processes.insert(usize::from(first / self.plan.config.processes.workers.max(1)));
            }
            Input::Wake => self.wake(cx),
            Input::Stop => self.stop(cx),
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        let waits = self.clients.values().flat_map(|client| self.waits(client)).map(|wait| wait.until());
        let limits = waits.chain(self.clients.values().filter_map(Server::excludes_until));
        let draining = self.clients.values().filter_map(ClientState::lingers_until);
        let draining = draining.chain(self.clients.values().filter_map(|client| client.reports.due()));
        let ending = self.ending.filter(|at| *at < Mono(u64::MAX) && !self.over);
        limits.chain(draining).chain(ending).min()
    }
}

/// True if a connection is from this host: its two addresses are equal or loopback.
fn is_here(path: &Path) -> bool {
    path.peer.ip().to_canonical().is_loopback() || path.peer.ip() == path.local.ip()
}
