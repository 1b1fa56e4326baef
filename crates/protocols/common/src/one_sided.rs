//! The session of protocols without a conversation: nothing is agreed on, nothing is asked of the
//! remote end.
//!
//! ```text
//! client: start the group ─▶ running ─ none left, time up or stop ─▶ draining ─▶ dropping ─▶ over
//! server: start the group, and one that accepts ─▶ running ─ limit reached, time up or stop ─▶ …
//! ```
//!
//! Connections are their flows' business; this session reports intervals at their ends, and our own
//! totals at the end of the run. No remote totals exist: such a remote end reports its counts to
//! its own user only.

use crate::bulk::Marks;
use crate::config::ServerConfig;
use crate::driver::Driver;
use crate::host::Host;
use crate::message::{Counted, SessionMessage, SharedMessage, downcast, since};
use crate::protocol::{Calling, Info, Listening, Ports, Protocol, Serving, Started};
use crate::wait::wait;
use crate::{Acl, Psk, Servers};
use metrics::{Clamped, Group, Mono, Packets, SECOND};
use model::ending::JudgedPhase;
use model::{EndCounts, Event, Kind, Level, Phase, Role, SocketSettings, Totals, Transport};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use transport::{Acceptor, Action, Connector, Context, GroupPlan, Input, LinkSource, Order, Session};

/// Everything such a session needs to know.
pub struct OneSidedPlan {
    /// The protocol, for messages.
    pub protocol: &'static str,
    /// The task.
    pub phase: Phase,
    /// Sources of the connections, one per worker.
    pub sources: Vec<LinkSource>,
    /// True if the sources answer connections (a server), false if they open them.
    pub serving: bool,
    /// The servers of a client.
    pub servers: Arc<Servers>,
    /// True if every ended connection is reported, or only failed ones.
    pub records: bool,
    /// Counts that each end of the protocol has.
    pub counts: EndCounts,
}

/// Targets and local addresses of a client.
#[derive(Clone, Debug, Default)]
pub struct Calls {
    /// Servers to connect to, in turn.
    pub servers: Arc<Servers>,
    /// Local addresses to use in turn; empty lets the kernel choose.
    pub sources: Vec<SocketAddr>,
    /// Local ports to use in turn, both included.
    pub ports: Option<(u16, u16)>,
    /// Worker threads.
    pub workers: u16,
    /// True if each frame of a stream is reported.
    pub frames: bool,
    /// True if each established connection is reported.
    pub arrivals: bool,
    /// A key that both ends know, for protocols that prove something with it.
    pub key: Option<Psk>,
    /// Markers that frame a test over datagrams, where there are several kinds.
    pub marks: Marks,
    /// Reader of this host's counters.
    pub host: Host,
}

/// Packets of one test that a remote end is believed to have counted.
const MOST_TOLD: u64 = 1 << 48;

/// Admission of peers.
#[derive(Clone, Debug, Default)]
pub struct Answers {
    /// Admitted addresses.
    pub acl: Acl,
    /// Addresses that may be streamed to without a proof.
    pub streams: Acl,
    /// End after this many connections, once all of them have ended.
    pub exit_after: Option<u64>,
    /// Worker threads.
    pub workers: u16,
    /// True if each established connection is reported, and each datagram of a protocol without
    /// connections.
    pub arrivals: bool,
    /// A key that both ends know, for protocols that prove something with it.
    pub key: Option<Psk>,
    /// Reader of this host's counters.
    pub host: Host,
    /// Most peers at once that get a UDP socket of their own, where the protocol's own limit is not
    /// lower: each takes a descriptor, and a datagram proves no address.
    pub sockets: Option<usize>,
}

/// A protocol without a conversation.
#[derive(Debug)]
pub struct OneSidedProtocol {
    /// Static properties of the protocol.
    pub info: Info,
    /// Refuses a phase that it cannot carry.
    pub carries: fn(&Phase) -> Result<(), &'static str>,
    /// Makes a client's connections, one source per worker.
    pub connectors: fn(&Phase, &Calls) -> Vec<Box<dyn Connector>>,
    /// Makes a server's connections, one source per worker.
    pub acceptors: fn(&Phase, &Answers) -> Vec<Box<dyn Acceptor>>,
}

impl OneSidedProtocol {
    /// The settings of a server, checked.
    pub fn settled(&self, config: &ServerConfig) -> Result<Phase, String> {
        let name = self.info.name;
        let missing = || format!("a server of the protocol {name} needs its settings when it starts");
        let mut phase = config.phase.clone().ok_or_else(missing)?;
        phase.check()?;
        (self as &dyn Protocol).check(&phase)?;
        phase.sockets.keepalive_ns.get_or_insert(KEEPALIVE);
        phase.sockets.unsent.get_or_insert(UNSENT);
        Ok(phase)
    }
}

/// True if a server for `phase` has connections.
fn connects(phase: &Phase) -> bool {
    let stamp = phase.ping.is_some_and(|ping| ping.stamp.is_some());
    phase.kind != Kind::Stream && !phase.kind.probes() && !stamp
}

impl Protocol for OneSidedProtocol {
    fn info(&self) -> &Info {
        &self.info
    }

    fn carries(&self, phase: &Phase) -> Result<(), &'static str> {
        (self.carries)(phase)
    }

    fn listening(&self, config: &ServerConfig) -> Result<Listening, String> {
        let phase = self.settled(config)?;
        let connections = connects(&phase);
        let echoes = phase.ping.is_some_and(|ping| ping.transport == Transport::Udp);
        // A server that knows no datagrams, or nothing else, leaves the other port to others.
        let ports = Ports { connections, datagrams: config.also_datagrams || !connections || echoes };
        Ok(Listening { sockets: phase.sockets, in_order: false, ports: vec![ports; config.listen.len()] })
    }

    fn client(&self, calling: &Calling<'_>) -> Result<Started, String> {
        let Calling { config, phase, host } = *calling;
        let workers = config.workers_for(phase, host.cores().len());
        let calls = Calls {
            servers: Servers::of(&config.peers),
            sources: config.sources.clone(),
            ports: config.ports,
            workers,
            // The frames of a single stream cost little, and show its jitter.
            frames: config.records || phase.connections == 1,
            arrivals: config.arrivals,
            key: config.keys.psk().cloned(),
            marks: config.marks,
            host: host.texts(),
        };
        let sources = LinkSource::connectors((self.connectors)(phase, &calls));
        let (protocol, records) = (self.info.name, config.records);
        let counts = if (self.info.unreported)(phase) { EndCounts::OWN } else { self.info.counts };
        let (serving, servers, asked) = (false, calls.servers, phase.clone());
        let plan = OneSidedPlan { protocol, phase: asked, sources, serving, servers, records, counts };
        Ok(Started::new(OneSided::new(plan, host.now()), workers, phase))
    }

    fn server(&self, serving: &Serving<'_>) -> Result<Started, String> {
        let Serving { config, host, workers, .. } = *serving;
        let phase = self.settled(config)?;
        let answers = Answers {
            acl: config.acl.clone(),
            streams: config.unproven(host),
            exit_after: config.exit_after,
            workers,
            arrivals: config.arrivals,
            key: config.keys.psk().cloned(),
            // Two protocols give sockets to peers that have proved nothing; together they may take
            // a quarter.
            sockets: host.descriptors().map(|all| all / 8),
            host: host.texts(),
        };
        let sources = LinkSource::acceptors((self.acceptors)(&phase, &answers));
        let (protocol, records, counts) = (self.info.name, config.records, self.info.counts);
        let (serving, servers, settings) = (true, Arc::default(), phase.clone());
        let plan = OneSidedPlan { protocol, phase: settings, sources, serving, servers, records, counts };
        Ok(Started::new(OneSided::new(plan, host.now()), workers, &phase))
    }
}

/// The group that counts connections. [`Group::ALL`] only accepts.
pub const GROUP: Group = Group(1);
/// Longest idle time of a server's connection before the kernel probes its peer, without a user's
/// setting, ns. In some protocols a connection may be quiet for ever, and connections of vanished
/// clients would be kept.
pub const KEEPALIVE: u64 = 60 * SECOND;
/// Most bytes of a server's connection that wait in the kernel until they are sent. No client of
/// such a protocol agrees on anything: of a client that does not read, or reads no longer, the
/// server's kernel would keep a whole send buffer, which grows to megabytes.
pub const UNSENT: u32 = 128 << 10;
/// Longest time for the end of a run after its measurement.
const GRACE: u64 = 5 * SECOND;

/// Stages of the run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum RunStage {
    Running,
    Draining,
    Dropping,
    Over,
}

/// The session.
pub struct OneSided {
    protocol: &'static str,
    phase: Phase,
    serving: bool,
    servers: Arc<Servers>,
    stage: RunStage,
    start: Mono,
    driver: Driver,
    stop_at: Option<Mono>,
    kill_at: Option<Mono>,
    /// Groups whose end is waited for.
    left: u8,
    local: Option<Box<Totals>>,
    /// Bytes that the remote end reports as received, test by test, and the time of the last
    /// report: UDPmon's and tcpmon's do.
    received: Option<(Box<Totals>, Mono)>,
    counts: EndCounts,
}

impl OneSided {
    /// A session that starts as soon as it is polled.
    pub fn new(plan: OneSidedPlan, now: Mono) -> Self {
        let OneSidedPlan { protocol, phase, sources, serving, servers, records, counts } = plan;
        // Trains end with the conversation about the last of them.
        let stop_at =
            phase.ends_after().filter(|_| serving || phase.kind != Kind::Train).map(|ns| now.plus(ns));
        let workers = sources.len().max(1) as u32;
        let group = |group, sockets| GroupPlan {
            sockets,
            throttle: phase.throttle.div_ceil(workers),
            end: stop_at.filter(|_| group == GROUP),
            records,
            wait: waits(&phase, serving),
            ..GroupPlan::of(&phase, group, now)
        };
        let mut driver = Driver::new(now, phase.omit_ns, &phase).begun(now);
        // The counting group first: an accepted connection must find it.
        if serving {
            driver.group(group(GROUP, phase.sockets.clone()), Vec::new());
            driver.group(group(Group::ALL, SocketSettings::default()), sources);
        } else {
            let sockets = match &phase.ping {
                Some(ping) if ping.stamp.is_none() => phase.sockets.of_messages(ping.kernel_stamps),
                _ => phase.sockets.clone(),
            };
            driver.group(group(GROUP, sockets), sources);
        }
        OneSided {
            left: 1 + u8::from(serving),
            driver,
            protocol,
            phase,
            serving,
            servers,
            stage: RunStage::Running,
            start: now,
            stop_at,
            kill_at: None,
            local: None,
            received: None,
            counts,
        }
    }

    /// Begins nothing new and ends open links.
    fn drain(&mut self, now: Mono) {
        if self.stage != RunStage::Running {
            return;
        }
        self.stage = RunStage::Draining;
        self.stop_at = None;
        self.kill_at = Some(now.plus(grace(&self.phase)));
        if self.serving {
            self.driver.order(Group::ALL, Order::Drop);
        }
        self.driver.order(GROUP, Order::Stop);
    }

    /// The user asks for the end: in good order at first, then without the remaining connections.
    fn stop(&mut self, now: Mono) {
        if self.driver.interrupt() {
            return self.drain(now);
        }
        if self.stage == RunStage::Draining && self.kill_at.take().is_some() {
            self.driver.order(GROUP, Order::Kill);
        } else if self.stage == RunStage::Draining {
            self.drop_group();
        }
    }

    /// No connection is left.
    fn drop_group(&mut self) {
        if self.serving && self.stage == RunStage::Running {
            return;
        }
        if matches!(self.stage, RunStage::Running | RunStage::Draining) {
            self.stage = RunStage::Dropping;
            (self.stop_at, self.kill_at) = (None, None);
            self.driver.order(GROUP, Order::Drop);
        }
    }

    fn dropped(&mut self, group: Group, mut totals: Box<Totals>) {
        self.left = self.left.saturating_sub(1);
        if group == GROUP {
            totals.receive = self.phase.verify.receive().to_owned();
            let pings = self.phase.kind == Kind::Ping;
            totals.pings = totals.pings.take().filter(|_| pings);
            // The totals of messages have no datagrams.
            let here = totals.drops_here().filter(|_| pings);
            here.into_iter().for_each(|text| self.driver.notice(Level::Warning, text));
            if pings {
                totals.keep_marks();
            }
            totals.idle_servers = self.servers.idle(&self.phase, self.counts.server_reports());
            self.local = Some(totals);
        }
        if self.left == 0 && self.stage == RunStage::Dropping {
            self.finish();
        }
    }

    fn finish(&mut self) {
        self.stage = RunStage::Over;
        if let Some(local) = self.local.take() {
            let (ns, scheduled_ns) = (local.traffic.ns, local.traffic.tx_ns);
            self.driver.ask(Event::Local(local));
            if let Some((mut remote, told)) = self.received.take() {
                // The last report arrived after the end of the measured time.
                remote.traffic.ns = ns.max(told.since(self.start));
                // Payload that follows a schedule arrives in as much time as it leaves, or in more
                // where the path is too slow for it.
                let arrived_ns = remote.traffic.rx_ns.unwrap_or(0);
                remote.traffic.rx_ns = scheduled_ns.map(|ns| ns.max(arrived_ns).min(remote.traffic.ns));
                let (_, unknown) =
                    self.counts.unknown(Role::Client, self.phase.pattern, self.phase.kind.probes());
                remote.unknown = unknown;
                remote.packets.iter_mut().for_each(|packets| packets.unknown = unknown);
                self.driver.ask(Event::Remote(remote));
            }
        }
        // The server's reports count from the beginning, and are left out of a run with an omitted
        // start.
        let needs_report = self.counts.server_reports() && self.phase.omit_ns == 0;
        let asked = JudgedPhase { phase: &self.phase, protocol: self.protocol, needs_report };
        self.driver.finish(Some(asked).filter(|_| !self.serving), None);
    }

    /// Adds the remote end's report of a test that is over. Its counts are from the beginning, so
    /// of a run with an omitted start its sums have another base.
    fn counted(&mut self, now: Mono, told: Counted) {
        if self.serving || self.phase.omit_ns > 0 {
            return;
        }
        let (remote, at) = self.received.get_or_insert_with(|| (Box::default(), now));
        *at = now;
        told.receive.clone_into(&mut remote.receive);
        remote.traffic.rx_bytes = remote.traffic.rx_bytes.saturating_add(told.bytes);
        remote.traffic.rx_ns = remote.traffic.rx_ns.max(Some(told.ns));
        if let Some(packets) = told.packets {
            // More than anybody can send is nothing that sums could be made of.
            let [received, reordered] = [packets.received, packets.reordered].map(|n| n.min(MOST_TOLD));
            let lost = packets.lost.clamp(0, i64::clamped(MOST_TOLD));
            let all = remote.packets.get_or_insert_default();
            all.counts.add(&Packets { received, lost, reordered, ..Packets::default() });
        }
    }

    fn on_message(&mut self, now: Mono, message: SharedMessage) {
        match message {
            SharedMessage::Event(event) => self.driver.forward(since(event, self.start)),
            SharedMessage::Result(event) => self.driver.forward(event()),
            SharedMessage::Counted(counted) => self.counted(now, *counted),
            SharedMessage::LimitReached => self.drain(now),
            SharedMessage::FirstByte(..) => {}
        }
    }

    fn wake(&mut self, now: Mono) {
        if self.stop_at.is_some_and(|at| at <= now) {
            self.drain(now);
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            self.kill_at = None;
            self.driver.order(GROUP, Order::Kill);
        }
    }
}

/// Workers' way of waiting: the phase's, and a server's for arrivals.
fn waits(phase: &Phase, serving: bool) -> transport::Wait {
    match &phase.extra {
        // The originals of such programs spin all the time. A server of datagrams in bursts has no
        // due time without a client.
        Some(_)
            if phase.probe.is_none() && (!serving || matches!(phase.kind, Kind::Delay | Kind::Capacity)) =>
        {
            transport::Wait::Hybrid
        }
        None if phase.capacity.is_some() => transport::Wait::Hybrid,
        // Messages of other programs' clients are answered, too, and timed there.
        _ if serving && phase.ping.is_some_and(|ping| !ping.busy) => transport::Wait::Block,
        _ => wait(phase, !serving, !serving),
    }
}

/// Longest time for connections to end; round trips limit their wait for late echoes themselves.
pub fn grace(phase: &Phase) -> u64 {
    phase
        .ping
        .as_ref()
        .map_or(GRACE, |ping| GRACE.max(ping.timeout_ns.saturating_mul(2).saturating_add(SECOND)))
}

impl Session for OneSided {
    fn handle(&mut self, cx: &mut Context<'_>, input: Input<'_>) {
        match input {
            Input::Tally { group: GROUP, index, from, to, tally } => {
                self.driver.interval(index, from, to, tally);
            }
            Input::Message(message) => {
                if let SessionMessage::Shared(shared) = downcast::<Infallible>(message) {
                    self.on_message(cx.now, shared);
                }
            }
            Input::Idle(GROUP) => self.drop_group(),
            Input::Dropped(group, totals) => self.dropped(group, totals),
            Input::Wake => self.wake(cx.now),
            Input::Stop => self.stop(cx.now),
            _ => {}
        }
    }

    fn poll(&mut self, cx: &mut Context<'_>) -> Option<Action> {
        self.driver.next(cx)
    }

    fn deadline(&self) -> Option<Mono> {
        self.stop_at.into_iter().chain(self.kill_at).min()
    }
}
