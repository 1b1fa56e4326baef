//! A server, from addresses to its end.

use crate::place::{Placement, default_workers, workers_beside_others};
use crate::session::{self, now};
use crate::{EngineError, Interrupt, Iperf3Server, client, iperf3, machine};
use engine::{Setup, settings};
use io::{Listener, Udp};
use ipnet::IpNet;
use metrics::SECOND;
use model::{Begin, Event, Kind, Phase, Transport};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use transport::{LinkSource, StreamSettings, UdpSettings};
use uuid::Uuid;
use wire::Protocol;
use wire::native::{Acl, Limits, Psk, Server, ServerPlan};
use wire::one_sided::{Answers, KEEPALIVE, LinkSources, OneSided, OneSidedPlan};

/// What a server is to be.
///
/// A server of our own protocol learns from its clients what to do. One of a legacy protocol has its settings from whoever
/// starts it, because nothing is agreed on:
///
/// ```no_run
/// use runtime::{Bound, Interrupt, ServerConfig};
/// use model::{Event, Pattern, Phase};
/// use wire::Protocol;
///
/// let phase = Phase { pattern: Pattern::Pull, transfer: 1 << 30, duration_ns: None, ..Phase::default() };
/// let config = ServerConfig {
///     listen: vec![([0, 0, 0, 0], Protocol::CtsTraffic.port()).into()],
///     exit_after: Some(10), // the original's -ServerExitLimit
///     records: true,        // an Event::Connection for each connection, not only for those that failed
///     ..ServerConfig::legacy(Protocol::CtsTraffic, phase)
/// };
/// let bound = Bound::new(config).expect("the port is free");
/// println!("{:?}", bound.addresses());
/// let interrupt = Interrupt::new(); // ask() from a signal handler ends it: open connections count as stopped
/// bound.run(&interrupt, &mut |event: Event| println!("{event:?}")).expect("it ran");
/// ```
///
/// Of the phase a ctsTraffic server uses `pattern`, `transfer` (with `transfer_high`), `buffer`, `verify`, `rate` (with
/// `rate_high`, `rate_period_ns`), `burst`, `stall_ns`, `duration_ns` (time limit), `interval_ns` (status updates),
/// `omit_ns` and `sockets`. What its events mean: `Interval` and `Near` count payload in `near` and `traffic`, identifiers
/// and goodbyes in `framing` (the original's totals are the sum of both); `Connection` has the identifier, the original's
/// TimeMs in `duration_ns`, and why it failed in `failure`. A media stream is a phase with `media` (and `Kind::Stream`);
/// who is streamed to is limited by `open_to`.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// What is spoken.
    pub protocol: Protocol,
    /// The settings of a server whose protocol agrees on none; our own needs none.
    pub phase: Option<Phase>,
    /// Where to listen; port 0 lets the kernel choose.
    pub listen: Vec<SocketAddr>,
    /// The key clients must know.
    pub psk: Option<Psk>,
    /// Who may connect.
    pub acl: Acl,
    /// Networks that may have streams without proving an address, beside this host and directly connected networks. Only
    /// legacy protocols ask for that: whoever sends a datagram with a forged source would have a stream sent to its victim.
    pub open_to: Vec<IpNet>,
    /// What is allowed.
    pub limits: Limits,
    /// One session at a time.
    pub exclusive: bool,
    /// End after so many data connections.
    pub exit_after: Option<u64>,
    /// Length of its own intervals, ns.
    pub interval_ns: u64,
    /// Interface to bind to.
    pub device: Option<String>,
    /// Where workers run.
    pub placement: Placement,
    /// Worker threads; `None` is one per core.
    pub workers: Option<u16>,
    /// Version of this program.
    pub version: String,
    /// Whether every ended connection is told, or only those that failed.
    pub records: bool,
    /// Whether it is told how each session stands ([`Event::Served`]); our own protocol only.
    pub sessions: bool,
    /// Whether every connection is told when it has come to be, and every datagram where there are no connections; legacy
    /// protocols only.
    pub arrivals: bool,
    /// How often it is told what everybody who is served has moved ([`Event::Links`]), ns; `None` is not at all.
    pub links_ns: Option<u64>,
    /// A server of connections listens to datagrams on the same port, too, where its protocol knows both.
    pub also_datagrams: bool,
    /// How an ntttcp receiver's test is laid out; without it there is no conversation.
    pub ntttcp: Option<wire::ntttcp::Layout>,
    /// What an iperf3 server needs besides.
    pub iperf3: Iperf3Server,
    /// What else ends with a native server, for those who want to end just that: protocols and ports, `echo:9999`.
    pub besides: Vec<String>,
}

impl Default for ServerConfig {
    /// A native server for everybody, listening nowhere yet.
    fn default() -> Self {
        ServerConfig {
            protocol: Protocol::Native,
            phase: None,
            listen: Vec::new(),
            psk: None,
            acl: Acl::default(),
            open_to: Vec::new(),
            limits: Limits::default(),
            exclusive: false,
            exit_after: None,
            interval_ns: SECOND,
            device: None,
            placement: Placement::Even,
            workers: None,
            version: String::new(),
            records: false,
            sessions: false,
            arrivals: false,
            links_ns: None,
            also_datagrams: false,
            ntttcp: None,
            iperf3: Iperf3Server::default(),
            besides: Vec::new(),
        }
    }
}

impl ServerConfig {
    /// A server of a legacy protocol with these settings, listening nowhere yet.
    #[must_use]
    pub fn legacy(protocol: Protocol, phase: Phase) -> Self {
        ServerConfig {
            protocol,
            interval_ns: phase.interval_ns,
            phase: Some(phase),
            ..ServerConfig::default()
        }
    }

    /// The settings of a server whose protocol agrees on none, checked; `None` for our own.
    fn settled(&self) -> Result<Option<(&Phase, LinkSources)>, EngineError> {
        let Some(sources) = self.protocol.link_sources() else { return Ok(None) };
        let missing =
            || format!("a server of the protocol {} needs its settings when it starts", self.protocol);
        let phase = self.phase.as_ref().ok_or_else(|| EngineError::Setting(missing()))?;
        phase.check().map_err(EngineError::Setting)?;
        self.protocol.carries(phase).map_err(EngineError::Setting)?;
        Ok(Some((phase, sources)))
    }
}

/// Who may be sent to without having proved an address: this host, directly connected networks, and `more`.
fn unproven(more: &[IpNet]) -> Acl {
    let connected = io::host::connected_networks();
    let connected = connected.into_iter().filter_map(|(address, length)| IpNet::new(address, length).ok());
    let host = [IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))];
    let loopback = IpNet::new(Ipv4Addr::new(127, 0, 0, 0).into(), 8).ok();
    let allow = host.into_iter().chain(loopback).chain(connected).chain(more.iter().copied()).collect();
    Acl { allow, deny: Vec::new() }
}

/// Descriptors that this process may have.
fn descriptors() -> Option<usize> {
    let (soft, _) = io::host::rlimit_nofile()?;
    Some(usize::try_from(soft).unwrap_or(usize::MAX))
}

/// Fewest connections that may wait for their introduction: what workers accept in a row.
const FEWEST_PENDING: u32 = 128;

/// How many connections may wait for their introduction: `most`, or a quarter of the descriptors.
fn pending(most: u32) -> u32 {
    let quarter = descriptors().map_or(u32::MAX, |all| u32::try_from(all / 4).unwrap_or(u32::MAX));
    most.min(quarter.max(FEWEST_PENDING))
}

/// Whether a legacy server for `phase` knows datagrams.
fn knows_datagrams(phase: &Phase) -> bool {
    !connects(phase) || phase.ping.as_ref().is_some_and(|ping| ping.transport == Transport::Udp)
}

/// Whether a legacy server for `phase` knows connections.
fn connects(phase: &Phase) -> bool {
    let stamp = phase.ping.is_some_and(|ping| ping.stamp.is_some());
    phase.kind != Kind::Stream && !phase.kind.probes() && !stamp
}

/// A worker's send and receive buffer; a client that asks for more gets it in pieces of this size.
const BUFFER: usize = 1 << 20;
/// Receive buffer of a bound UDP socket, bytes, where the system lets us have it: thousands of peers may knock at once.
const CROWD: u32 = 4 << 20;

/// A server that has its ports and has not begun.
pub struct Bound {
    config: ServerConfig,
    listeners: Vec<Vec<Listener>>,
    datagrams: Vec<Vec<Udp>>,
    addresses: Vec<SocketAddr>,
    workers: u16,
    settings: StreamSettings,
    udp: UdpSettings,
}

/// So many ports chosen by the system are tried.
const TRIES: usize = 16;

impl Bound {
    /// Takes the ports.
    ///
    /// # Errors
    /// When one of them cannot be had, or a setting cannot work here.
    pub fn new(mut config: ServerConfig) -> Result<Self, EngineError> {
        if let Some(phase) = &mut config.phase {
            phase.sockets.keepalive_ns.get_or_insert(KEEPALIVE);
        }
        for _ in 0..TRIES {
            match Bound::try_new(config.clone()) {
                // A port that the system chose for one protocol may be taken for the other.
                Err(EngineError::Socket { at, fault }) if at.port() == 0 && fault.errno == io::IN_USE => {}
                bound => return bound,
            }
        }
        Bound::try_new(config)
    }

    fn try_new(config: ServerConfig) -> Result<Self, EngineError> {
        config.placement.check().map_err(EngineError::Setting)?;
        client::check_descriptors(0)?;
        let workers = match config.protocol {
            // No sender gets a socket of its own, and of several bound to one port the kernel prefers that of the core on which a
            // datagram came: one stream would be counted in two places.
            Protocol::Bwdelaytester => 1,
            Protocol::Iperf3 => config.workers.unwrap_or_else(workers_beside_others).max(1),
            _ => config.workers.unwrap_or_else(default_workers).max(1),
        };
        let legacy = config.settled()?.map(|(phase, _)| phase);
        let settings = match legacy {
            // Set before the first segment, where they count most.
            Some(phase) => settings::stream(&phase.sockets, config.device.as_deref()),
            None if config.protocol == Protocol::Iperf3 => iperf3::listener(config.device.clone()),
            None => StreamSettings { device: config.device.clone(), ..StreamSettings::default() },
        };
        let udp = match legacy {
            Some(phase) => settings::udp(&phase.sockets, config.device.as_deref()),
            None => UdpSettings { device: config.device.clone(), ..UdpSettings::default() },
        };
        // Whoever knocks does so one datagram at a time.
        let udp = UdpSettings { gro: false, ..udp };
        let (mut listeners, mut addresses, mut datagrams) = (Vec::new(), Vec::new(), Vec::new());
        listeners.resize_with(usize::from(workers), Vec::new);
        datagrams.resize_with(usize::from(workers), Vec::new);
        let any_connects = legacy.is_none_or(connects);
        for &at in &config.listen {
            // A conversation beside datagrams has the port below them.
            let talks = config.ntttcp.is_some_and(|layout| layout.udp && layout.talks(at.port()));
            let connects = any_connects || talks;
            let trouble = |fault| EngineError::Socket { at, fault };
            // A port that others share would split connections between them and us, so it must be free before we share
            // it among our own workers.
            let at = if connects {
                Listener::bind(at, false, &settings).and_then(|alone| alone.local()).map_err(trouble)?
            } else {
                Udp::bind(at, false, &udp).and_then(|alone| alone.local()).map_err(trouble)?
            };
            addresses.push(at);
            let sharing = match connects {
                false => 0,
                // Streams are numbered as they are accepted.
                true if config.protocol == Protocol::Iperf3 => 1,
                true if Listener::CAN_SHARE => listeners.len(),
                true => 1,
            };
            let cores = config.placement.cores(sharing, 0);
            for (list, core) in listeners.iter_mut().take(sharing).zip(cores) {
                let listener = Listener::bind(at, Listener::CAN_SHARE, &settings).map_err(trouble)?;
                // A connection is best greeted on the core where it arrived: short ones never leave it.
                if let Some(core) = core {
                    listener.prefer_core(core);
                }
                list.push(listener);
            }
            // A legacy server that knows no datagrams, or nothing else, leaves the other port to others.
            if config.also_datagrams || (!talks && legacy.is_none_or(knows_datagrams)) {
                drop(Udp::bind(at, false, &udp).map_err(trouble)?);
                let sharing = if Udp::CAN_SHARE { datagrams.len() } else { 1 };
                let door = UdpSettings { rcvbuf: udp.rcvbuf.max(Some(CROWD)), ..udp.clone() };
                let cores = config.placement.cores(sharing, 0);
                for (list, core) in datagrams.iter_mut().take(sharing).zip(cores) {
                    let socket = Udp::bind(at, Udp::CAN_SHARE, &door).map_err(trouble)?;
                    if let Some(core) = core {
                        socket.prefer_core(core);
                    }
                    list.push(socket);
                }
            }
        }
        Ok(Bound { config, listeners, datagrams, addresses, workers, settings, udp })
    }

    /// The same with what else ends with it ([`ServerConfig::besides`]), where that was not known before.
    #[must_use]
    pub fn with(mut self, besides: Vec<String>) -> Self {
        self.config.besides.extend(besides);
        self
    }

    /// With what it was made.
    #[must_use]
    pub fn config(&self) -> &ServerConfig {
        &self.config
    }

    /// Where it listens.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// The beginning of its run, for the reporters.
    #[must_use]
    pub fn begin(&self, command: Vec<String>) -> Begin {
        let local = self.addresses.first().map(SocketAddr::ip);
        Begin {
            version: self.config.version.clone(),
            command,
            verb: "serve".to_owned(),
            protocol: self.config.protocol.name().to_owned(),
            run: Uuid::from_u64_pair(io::clock::entropy(), io::clock::entropy()),
            started: io::Clock::new().sample().wall(now()),
            targets: self.addresses.iter().map(ToString::to_string).collect(),
            host: machine::snapshot(local),
            placement: self.config.placement.describe(),
            workers: self.workers.into(),
        }
    }

    /// Serves until it is told to end.
    ///
    /// # Errors
    /// When the system refuses something that nothing works without.
    pub fn run(self, interrupt: &Interrupt, sink: &mut dyn FnMut(Event)) -> Result<(), EngineError> {
        let config = self.config;
        let mut setup = Setup {
            listeners: self.listeners,
            datagrams: self.datagrams,
            inherited: self.settings,
            inherited_udp: self.udp,
            links: config.links_ns,
            ..session::setup(&config.placement, self.workers, 0, BUFFER)
        };
        if let Some((phase, sources)) = config.settled()? {
            setup.buffer = (phase.buffer.high as usize).max(client::SMALLEST_BUFFER);
            if let Some(layout) = config.ntttcp {
                let (phase, acl) = (phase.clone(), config.acl.clone());
                let (streams, workers) = (unproven(&config.open_to), self.workers);
                let plan = wire::ntttcp::ReceiverPlan { layout, phase, acl, streams, workers };
                let session = wire::ntttcp::Receiver::new(plan, now());
                return session::run(session, setup, interrupt, sink);
            }
            let answers = Answers {
                acl: config.acl.clone(),
                streams: unproven(&config.open_to),
                exit_after: config.exit_after,
                workers: self.workers,
                arrivals: config.arrivals,
                key: config.psk.clone(),
                // Two protocols give sockets to peers that have proved nothing; together they may take a quarter.
                sockets: descriptors().map(|all| all / 8),
                host: crate::texts::host(phase.udpmon.as_ref().map_or(&[], |asked| asked.cards.as_slice())),
            };
            let sources = LinkSource::acceptors((sources.acceptors)(phase, &answers));
            let plan = OneSidedPlan { phase: phase.clone(), sources, serving: true, records: config.records };
            return session::run(OneSided::new(plan, now()), setup, interrupt, sink);
        }
        if config.protocol == Protocol::Iperf3 {
            let mut plan = iperf3::server_plan(&config, self.workers, unproven(&config.open_to));
            plan.limits.pending = pending(plan.limits.pending);
            let session = wire::iperf3::Server::new(plan, now());
            return session::run(session, setup, interrupt, sink);
        }
        // The bound UDP sockets are read by the second set, too, which no bulk data delays.
        setup.sets = ServerPlan::SETS;
        setup.datagrams.splice(0..0, (0..self.workers).map(|_| Vec::new()));
        let plan = ServerPlan {
            version: config.version,
            psk: config.psk,
            acl: config.acl,
            limits: Limits { pending: pending(config.limits.pending), ..config.limits },
            exclusive: config.exclusive,
            exit_after: config.exit_after,
            host: machine::snapshot(self.addresses.first().map(SocketAddr::ip)),
            workers: self.workers,
            placement: config.placement.describe(),
            interval_ns: config.interval_ns,
            secret: client::secret()?,
            records: config.records,
            sessions: config.sessions,
            clock_id: io::host::clock_id(),
            besides: config.besides,
        };
        session::run(Server::new(plan, now()), setup, interrupt, sink)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test may")]

    use super::*;
    use model::Ping;
    use std::time::Duration;

    #[test]
    fn a_server_without_a_conversation_has_the_kernel_ask_for_its_peers() {
        let ping = Some(Ping::default());
        let phase = Phase { kind: Kind::Ping, ping, duration_ns: None, ..Phase::default() };
        let listen = vec![(Ipv4Addr::LOCALHOST, 0).into()];
        let config = ServerConfig { listen, ..ServerConfig::legacy(Protocol::Echo, phase) };
        let asked = |keepalive_ns| {
            let mut config = config.clone();
            config.phase.iter_mut().for_each(|phase| phase.sockets.keepalive_ns = keepalive_ns);
            Bound::new(config).unwrap().settings.keepalive
        };
        assert_eq!(asked(None), Some(Duration::from_nanos(KEEPALIVE)));
        assert_eq!(asked(Some(SECOND)), Some(Duration::from_secs(1)));
    }
}
