//! Users' choices for a client or a server, beside the phase.

use crate::Protocol;
use crate::access::Acl;
use crate::bulk::Marks;
use crate::host::HostInfo;
use crate::keys::Keyring;
use ipnet::IpNet;
use metrics::{Clamped, Mono, SECOND};
use model::{Kind, Phase, ServerLimits};
use std::any::Any;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use transport::admission::Admission;
use transport::{Allowance, Clients, Terms};
use uuid::Uuid;

/// Placement of workers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// Each worker on a core of its own, when there are several: worker i of both ends then has the
    /// same connections, which on one host share a core and its caches. A single worker is left to
    /// the scheduler, unless the server is on this host.
    #[default]
    Even,
    /// The scheduler decides.
    Spread,
    /// Worker i runs on the i-th of these cores, round robin.
    Cores(Vec<usize>),
}

impl Placement {
    /// Checks that every core is one of `usable`.
    ///
    /// # Errors
    /// One sentence naming a core that is not.
    pub fn check(&self, usable: &[usize]) -> Result<(), String> {
        let Placement::Cores(cores) = self else { return Ok(()) };
        match cores.iter().find(|core| !usable.contains(core)) {
            Some(core) => Err(format!("core {core} cannot be used: this process may run on {usable:?}")),
            None if cores.is_empty() => Err("the list of cores is empty".to_owned()),
            None => Ok(()),
        }
    }

    /// The core of each of `workers` workers, the first on the `first`-th of the `usable`; `None`
    /// where the scheduler decides.
    pub fn cores(&self, workers: usize, first: usize, usable: &[usize]) -> Vec<Option<usize>> {
        let (cores, first) = match self {
            Placement::Even if workers > 1 => (usable, first),
            Placement::Even | Placement::Spread => (&[][..], 0),
            Placement::Cores(cores) => (&cores[..], 0),
        };
        (0..workers).map(|worker| cores.get((worker + first) % cores.len().max(1)).copied()).collect()
    }

    /// A place for another end on this host that is not to share a core with the workers of this
    /// one; `None` when there is no other core among the `usable`.
    pub fn apart(&self, usable: &[usize]) -> Option<Placement> {
        match self {
            // The server's workers get the number of the client's core.
            Placement::Even | Placement::Spread => (usable.len() > 1).then_some(Placement::Even),
            Placement::Cores(taken) => {
                let others: Vec<usize> =
                    usable.iter().filter(|core| !taken.contains(core)).copied().collect();
                (!others.is_empty()).then_some(Placement::Cores(others))
            }
        }
    }

    /// Its name in results.
    pub fn describe(&self) -> String {
        match self {
            Placement::Even => "even".to_owned(),
            Placement::Spread => "spread".to_owned(),
            Placement::Cores(cores) => {
                let list: Vec<String> = cores.iter().map(ToString::to_string).collect();
                format!("cores {}", list.join(","))
            }
        }
    }
}

/// True if each frame of `streams` streams is reported, for the report's plot of one stream's
/// jitter: of hundreds of streams that would be millions.
pub fn tells_frames(streams: u32) -> bool {
    streams <= 8
}

/// Processes of their own for connections, each with its own limit of open files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Processes {
    /// Their number; with none, connections are this process's own.
    pub count: u16,
    /// Worker threads of each.
    pub workers: u16,
}

/// A server to talk to: one for each that the user named.
#[derive(Clone, Debug)]
pub struct Peer {
    /// As the user named it.
    pub name: String,
    /// The address in use.
    pub address: SocketAddr,
    /// Its further addresses, in the system's order, for when no connection to the one in use can
    /// be made.
    pub others: Vec<SocketAddr>,
}

impl Peer {
    /// A server with one address.
    pub fn new(name: impl Into<String>, address: SocketAddr) -> Peer {
        Peer { name: name.into(), address, others: Vec::new() }
    }

    /// Uses the next address, as no connection to the one in use can be made; the words for the
    /// user, or `None` where there is none left.
    pub fn fall_back(&mut self, why: &str) -> Option<String> {
        let to = (!self.others.is_empty()).then(|| self.others.remove(0))?;
        let from = std::mem::replace(&mut self.address, to);
        Some(Peer::falls_back(&self.name, from, why, to))
    }

    /// The words for the user when another address of a server is used.
    pub(crate) fn falls_back(name: &str, from: SocketAddr, why: &str, to: SocketAddr) -> String {
        format!("{name} ({from}): {why}: trying {to}")
    }

    /// Leaves out addresses that are not `usable`, where one is.
    pub fn keep(&mut self, usable: impl Fn(&SocketAddr) -> bool) {
        let all: Vec<SocketAddr> = std::iter::once(self.address).chain(self.others.iter().copied()).collect();
        let mut kept = all.into_iter().filter(usable);
        if let Some(address) = kept.next() {
            (self.address, self.others) = (address, kept.collect());
        }
    }

    /// Its addresses, each as a server of its own.
    pub fn each(self) -> impl Iterator<Item = Peer> {
        let Peer { name, address, others } = self;
        std::iter::once(address).chain(others).map(move |address| Peer::new(name.clone(), address))
    }
}

/// Options that only one protocol knows, of its own type.
#[derive(Clone, Debug, Default)]
pub struct ProtocolOptions(Option<Arc<dyn Any + Send + Sync>>);

impl ProtocolOptions {
    /// Wraps the options of one protocol.
    pub fn new<T: Any + Send + Sync>(options: T) -> Self {
        ProtocolOptions(Some(Arc::new(options)))
    }

    /// The options, if they are of this type.
    pub fn get<T: Any>(&self) -> Option<&T> {
        self.0.as_ref()?.downcast_ref()
    }
}

/// Not to run a phase, but to ask the servers to end: an option of clients of our own protocol.
#[derive(Clone, Debug, Default)]
pub struct StopServers {
    /// Stops only servers that also answer this protocol at this port, such as `echo:9999`.
    pub only: Option<String>,
}

impl StopServers {
    /// The phase that such a client has.
    pub fn phase() -> Phase {
        Phase { connections: 1, ..Phase::default() }
    }
}

/// A client's settings besides the phase.
#[derive(Clone, Debug)]
pub struct ClientConfig {
    /// The protocol. Servers of protocols without a conversation must have been started with the
    /// settings of the phase, and report no counts.
    pub protocol: &'static dyn Protocol,
    /// The servers' addresses, with the names that were resolved to them.
    pub peers: Vec<Peer>,
    /// The keys, if there are any.
    pub keys: Keyring,
    /// Local addresses to use in turn.
    pub sources: Vec<SocketAddr>,
    /// Local ports to use in turn, both included.
    pub ports: Option<(u16, u16)>,
    /// The option of the local addresses, for errors.
    pub source_option: &'static str,
    /// The option of the local ports, for errors.
    pub port_option: &'static str,
    /// Interface to bind to.
    pub device: Option<String>,
    /// Placement of workers.
    pub placement: Placement,
    /// Worker threads; `None` is one per core, but not more than connections.
    pub workers: Option<u16>,
    /// Worker processes.
    pub processes: Processes,
    /// Most bits/s and direction of this end.
    pub at_most: Option<u64>,
    /// The allowance of `at_most`.
    pub allowance: Option<Arc<Allowance>>,
    /// The run.
    pub run: Uuid,
    /// Version of this program.
    pub version: String,
    /// True if every ended connection is reported, or only failed ones.
    pub records: bool,
    /// True if each established connection is reported; legacy protocols only.
    pub arrivals: bool,
    /// True if our workers run before all ordinary threads, with all memory kept from being paged
    /// out; a refusal of the system is reported.
    pub realtime: bool,
    /// Markers that frame a test over datagrams, for protocols that know several kinds.
    pub marks: Marks,
    /// Options of this protocol only.
    pub options: ProtocolOptions,
}

impl ClientConfig {
    /// Refuses a phase that leaves a named server without a connection or flow: such a server would
    /// not be measured.
    ///
    /// # Errors
    /// One sentence: which servers or connections are too many or too few.
    pub fn check_servers(&self, phase: &Phase) -> Result<(), String> {
        let servers = self.peers.len();
        let several = servers > 1;
        if several && self.protocol.info().one_server {
            return Err(format!(
                "the protocol {} tests one server at a time: name one, not {servers}",
                self.protocol
            ));
        }
        if several && phase.kind == Kind::Train {
            return Err(format!("trains go in one flow, to one server: name one, not {servers}"));
        }
        if servers > usize::clamped(phase.connections) {
            return Err(format!(
                "{servers} servers cannot share {}: give -P {servers} or more",
                metrics::format_count(phase.connections.into(), "connection")
            ));
        }
        Ok(())
    }

    /// A client of this protocol that knows no server yet.
    pub fn new(protocol: &'static dyn Protocol) -> Self {
        ClientConfig {
            protocol,
            peers: Vec::new(),
            keys: Keyring::default(),
            sources: Vec::new(),
            ports: None,
            source_option: "-B",
            port_option: "--local-port",
            device: None,
            placement: Placement::Even,
            workers: None,
            processes: Processes::default(),
            at_most: None,
            allowance: None,
            run: Uuid::nil(),
            version: String::new(),
            records: false,
            arrivals: false,
            realtime: false,
            marks: Marks::default(),
            options: ProtocolOptions::default(),
        }
    }

    /// Number of workers for a phase on `cores` cores.
    pub fn workers_for(&self, phase: &Phase, cores: usize) -> u16 {
        let most = u16::try_from(phase.connections).unwrap_or(u16::MAX).max(1);
        let usual = || self.protocol.info().workers.on(cores).min(most);
        self.workers.unwrap_or_else(usual).max(1)
    }
}

/// The allowance of all connections and flows of a client: bits/s of each direction.
pub fn own_allowance(rate: u64) -> Arc<Allowance> {
    let terms = Terms { rate: Some(rate), ..Terms::default() };
    Arc::new(Allowance::new("this end", terms, None, Mono(0)).with_bursts(0))
}

/// A server's limits.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Sessions at once.
    pub sessions: u32,
    /// Control connections at once from one address.
    pub per_address: u32,
    /// Data connections at once in one session; with 0 there are no sessions, and all that can be
    /// asked is to end.
    pub connections: u32,
    /// Data connections at once in all sessions, as many as descriptors suffice for.
    pub places: Option<u32>,
    /// Longest run, ns.
    pub duration_ns: Option<u64>,
    /// Most bits/s of one session and direction.
    pub rate: Option<u64>,
    /// Most bytes of one session, both directions together.
    pub bytes: Option<u64>,
    /// Most bits/s and direction of all sessions of one address together.
    pub address_rate: Option<u64>,
    /// The same of all clients together.
    pub total_rate: Option<u64>,
    /// True if workers may spin for a session that asks for it.
    pub busy: bool,
    /// True if workers spin for round trips without `--busy`, on cores that clients of this host do
    /// not use.
    pub eager: bool,
    /// Connections at once whose peers have proved nothing.
    pub pending: u32,
    /// Longest time for which a session may exclude all others where `duration_ns` says nothing,
    /// ns.
    pub exclusive_ns: u64,
}

impl Limits {
    /// The limits of clients, if there are any.
    pub fn in_effect(&self) -> Option<ServerLimits> {
        let limits = ServerLimits {
            rate_bps: self.rate,
            time_ns: self.duration_ns,
            bytes: self.bytes,
            address_rate_bps: self.address_rate,
            total_rate_bps: self.total_rate,
        };
        (limits != ServerLimits::default()).then_some(limits)
    }

    /// The limits of a client whose protocol agrees on nothing.
    pub fn of_client(&self) -> Terms {
        Terms { rate: self.rate, time_ns: self.duration_ns, bytes: self.bytes }
    }
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            sessions: 1000,
            per_address: 256,
            connections: 100_000,
            places: None,
            duration_ns: None,
            rate: None,
            bytes: None,
            address_rate: None,
            total_rate: None,
            busy: false,
            eager: false,
            pending: 4096,
            exclusive_ns: 600 * SECOND,
        }
    }
}

/// Configuration of a server.
///
/// Wide: a field for each thing that its user chooses.
///
/// A server of our own protocol gets its task from its clients. One of a legacy protocol has its
/// settings from the command line, because these protocols agree on nothing. Of the phase a
/// ctsTraffic server uses `pattern`, `transfer` (with `transfer_high`), `buffer`, `verify`, `rate`
/// (with `rate_high`, `rate_period_ns`), `burst`, `stall_ns`, `duration_ns` (time limit),
/// `interval_ns` (status updates), `omit_ns` and `sockets`. Of its events `Interval` and
/// `Local` count payload in `local` and `traffic`, identifiers and goodbyes in `framing` (the
/// original's totals are the sum of both); `Connection` has the identifier, the original's TimeMs
/// in `duration_ns`, and why it failed in `failure`. A media stream is a phase with `media` (and
/// `Kind::Stream`); `open_to` limits the addresses that get streams.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// The protocol.
    pub protocol: &'static dyn Protocol,
    /// The settings of a server whose protocol agrees on none; our own needs none.
    pub phase: Option<Phase>,
    /// Addresses to listen at; port 0 lets the kernel choose.
    pub listen: Vec<SocketAddr>,
    /// The keys of which clients must have one, if there are any.
    pub keys: Keyring,
    /// Admitted addresses.
    pub acl: Acl,
    /// Networks that may have streams without proving an address, beside this host and directly
    /// connected networks. Only legacy protocols need that: a datagram with a forged source would
    /// have a stream sent to the victim.
    pub open_to: Vec<IpNet>,
    /// The limits.
    pub limits: Limits,
    /// The engine's limits of clients, shared with other servers of this process; made of `limits`
    /// where there are none.
    pub clients: Option<Arc<Clients>>,
    /// One session at a time.
    pub exclusive: bool,
    /// End after this many data connections.
    pub exit_after: Option<u64>,
    /// Length of its own intervals, ns.
    pub interval_ns: u64,
    /// Interface to bind to.
    pub device: Option<String>,
    /// Placement of workers.
    pub placement: Placement,
    /// Worker threads; `None` is one per core.
    pub workers: Option<u16>,
    /// Worker processes.
    pub processes: Processes,
    /// Version of this program.
    pub version: String,
    /// True if every ended connection is reported, or only failed ones.
    pub records: bool,
    /// True if the state of each session is reported ([`model::Event::Served`]), by protocols with
    /// sessions.
    pub sessions: bool,
    /// True if each established connection is reported, and every datagram where there are no
    /// connections; legacy protocols only.
    pub arrivals: bool,
    /// Period of reports of open links and their bytes ([`model::Event::Links`]), ns; `None` for no
    /// reports.
    pub links_ns: Option<u64>,
    /// A server of connections listens to datagrams on the same port, too, where its protocol knows
    /// both.
    pub also_datagrams: bool,
    /// Places for peers that have proved nothing, where servers share them; a server without has
    /// its own.
    pub admission: Option<Admission>,
    /// Other servers that end with a native server, as protocol and port (`echo:9999`): a client
    /// may ask to end only a server with one.
    pub besides: Vec<String>,
    /// Options of this protocol only.
    pub options: ProtocolOptions,
}

impl ServerConfig {
    /// A server for everybody, listening nowhere yet.
    pub fn new(protocol: &'static dyn Protocol) -> Self {
        ServerConfig {
            protocol,
            phase: None,
            listen: Vec::new(),
            keys: Keyring::default(),
            acl: Acl::default(),
            open_to: Vec::new(),
            limits: Limits::default(),
            clients: None,
            exclusive: false,
            exit_after: None,
            interval_ns: SECOND,
            device: None,
            placement: Placement::Even,
            workers: None,
            processes: Processes::default(),
            version: String::new(),
            records: false,
            sessions: false,
            arrivals: false,
            links_ns: None,
            also_datagrams: false,
            admission: None,
            besides: Vec::new(),
            options: ProtocolOptions::default(),
        }
    }

    /// The engine's limits of clients, if there are any. Our own protocol limits its sessions as
    /// agreed, and their addresses here.
    pub fn clients(&self) -> Option<Arc<Clients>> {
        let Limits { address_rate, total_rate, .. } = self.limits;
        let sessions = self.protocol.info().legacy.is_none();
        let client = if sessions { Terms::default() } else { self.limits.of_client() };
        let of = |rate| Terms { rate, ..Terms::default() };
        let free = client.is_unlimited() && address_rate.is_none() && total_rate.is_none();
        match &self.clients {
            Some(clients) => Some(Arc::new(clients.with_terms(client))),
            None if free => None,
            None => Some(Arc::new(Clients::new(client, of(address_rate), of(total_rate)))),
        }
    }

    /// A server of a legacy protocol with these settings, listening nowhere yet.
    pub fn legacy(protocol: &'static dyn Protocol, phase: Phase) -> Self {
        ServerConfig { interval_ns: phase.interval_ns, phase: Some(phase), ..ServerConfig::new(protocol) }
    }

    /// Addresses that may be sent to without a proof: this host, directly connected networks, and
    /// `open_to`.
    pub fn unproven(&self, host: &dyn HostInfo) -> Acl {
        let this = [IpNet::from(IpAddr::from(Ipv6Addr::LOCALHOST))];
        let loopback = IpNet::new(Ipv4Addr::new(127, 0, 0, 0).into(), 8).ok();
        let connected = host.connected_networks();
        let allow = this.into_iter().chain(loopback).chain(connected).chain(self.open_to.iter().copied());
        Acl { allow: allow.collect(), deny: Vec::new() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn workers_get_cores_round_robin() {
        assert_eq!(Placement::Cores(vec![3, 1]).cores(3, 1, &[]), [Some(3), Some(1), Some(3)]);
        assert_eq!(Placement::Spread.cores(2, 0, &[0, 1]), [None, None]);
        assert_eq!(Placement::Even.cores(1, 0, &[0, 1]), [None]);
        assert_eq!(Placement::Even.cores(3, 1, &[4, 5]), [Some(5), Some(4), Some(5)]);
        assert_eq!(Placement::Cores(vec![0, 1]).apart(&[0, 1]), None, "all cores are taken");
        assert_eq!(Placement::Cores(vec![0]).apart(&[0, 1]), Some(Placement::Cores(vec![1])));
        assert_eq!(Placement::Even.apart(&[0, 1]), Some(Placement::Even));
        assert_eq!(Placement::Even.apart(&[0]), None);
    }
}
