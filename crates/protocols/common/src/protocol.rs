//! A protocol as the rest of the program sees it: one object, which says what it carries and makes its sessions.

use crate::config::{ClientConfig, ServerConfig};
use crate::host::HostInfo;
use crate::original::Original;
use compat::Importer;
use metrics::seconds;
use model::{EndCounts, Event, Phase, SocketSettings, Traffic};
use std::fmt;
use std::net::SocketAddr;
use transport::{Replica, Session};
use uuid::Uuid;

/// Static properties of a protocol.
#[derive(Debug)]
pub struct Info {
    /// Its name, as `--protocol` takes it and results give it.
    pub name: &'static str,
    /// Its default port.
    pub port: u16,
    /// Both ends can prove with a key that they know each other.
    pub keyed: bool,
    /// It can keep connections open that have moved all their payload.
    pub holds: bool,
    /// A client has its test with one server.
    pub one_server: bool,
    /// Worker threads.
    pub workers: Workers,
    /// A datagram that asks a server whether it is there, for a round trip without a session.
    pub hello: Option<Hello>,
    /// What a run over it is where the user says nothing.
    pub defaults: Defaults,
    /// How a server answers it beside what it is for.
    pub legacy: Option<Legacy>,
    /// How its peers are recognised where another protocol is spoken.
    pub foreign: Option<Foreign>,
    /// Whose settings it reads of a phase ([`Phase::extra`]); with none, a phase that has such is refused.
    pub settings: Option<&'static str>,
    /// Programs that speak it, whose command lines and printouts this one has.
    pub originals: &'static [Original],
    /// What reads the files of these programs.
    pub importers: &'static [Importer],
    /// Counts that each end has of a test, its own and those that its peer reports.
    pub counts: EndCounts,
    /// Whether the test of a phase asks the peer for no report, where others do.
    pub unreported: fn(&Phase) -> bool,
}

impl Info {
    /// A protocol of this name and default port, without a key, with one worker per core.
    pub const fn new(name: &'static str, port: u16) -> Self {
        Info {
            name,
            port,
            keyed: false,
            holds: false,
            one_server: false,
            workers: Workers::PerCore,
            hello: None,
            defaults: Defaults::VERIFIED,
            legacy: None,
            foreign: None,
            settings: None,
            originals: &[],
            importers: &[],
            counts: EndCounts::OWN,
            unreported: |_| false,
        }
    }
}

/// What a run over a protocol is where the user says nothing.
#[derive(Debug)]
pub struct Defaults {
    /// A receiver takes one connection, reads it to its end and compares nothing.
    pub plain: bool,
    /// Send calls end where TCP segments end, unless a length, a rate or an amount was asked for.
    pub whole_segments: bool,
    /// The scheduler places the workers: the other end's threads are where it wants them.
    pub spread: bool,
}

impl Defaults {
    /// Every byte is compared.
    pub const VERIFIED: Self = Defaults { plain: false, whole_segments: false, spread: false };
    /// One connection of data of which nothing is compared.
    pub const PLAIN: Self = Defaults { plain: true, ..Self::VERIFIED };
}

/// A protocol that a server answers beside what it is for (`serve --legacy`).
#[derive(Debug)]
pub struct Legacy {
    /// What it listens to, in words.
    pub over: &'static str,
    /// Clients that are served, in words.
    pub serves: &'static str,
    /// The usual settings.
    pub phase: fn() -> Phase,
    /// A server of connections listens to datagrams on the same port, too.
    pub also_datagrams: bool,
    /// Its usual port where another protocol that goes along has the one of both: nothing tells a connection of one from that of
    /// the other.
    pub aside: Option<u16>,
    /// The server, made of one at a single port of each address; or why it cannot be.
    pub config: fn(ServerConfig) -> Result<ServerConfig, String>,
    /// Ports at each address, of which the first is shown.
    pub ports: usize,
    /// A server ends with its first test: another follows.
    pub one_test: bool,
    /// What the user is told of an event.
    pub notice: fn(&Event) -> Option<String>,
}

impl Legacy {
    /// TCP, at one port, with the usual settings of a run, for any number of tests.
    pub const PLAIN: Self = Legacy {
        over: "TCP",
        serves: "everybody",
        phase: Phase::default,
        also_datagrams: false,
        aside: None,
        config: Ok,
        ports: 1,
        one_test: false,
        notice: carried,
    };
    /// Clients of protocols over UDP that are served: a datagram proves no address.
    pub const LOCAL: &str = "this host and connected networks, and NETCALIPER_ALLOW";
    /// The same where everybody is served over TCP.
    pub const MIXED: &str = "TCP: everybody; UDP: this host and connected networks, and NETCALIPER_ALLOW";
}

/// What a connection, and all of them together, carried.
pub fn carried(event: &Event) -> Option<String> {
    match event {
        Event::Portion(portion) => {
            let ns = portion.to_ns.saturating_sub(portion.from_ns);
            let (bytes, from) = (portion.rx_bytes, portion.remote);
            let rate = Traffic { tx_bytes: 0, rx_bytes: bytes, ns, ..Traffic::default() }.rx_bps() / 1e6;
            Some(format!("{bytes} bytes from {from} in {:.6} s, {rate:.3} Mbit/s", seconds(ns)))
        }
        Event::Local(totals) if totals.opened > 0 || totals.traffic.rx_bytes > 0 => {
            let what = match (totals.traffic.tx_bytes, totals.traffic.rx_bytes) {
                (0, received) => format!("{received} bytes received"),
                (sent, 0) => format!("{sent} bytes sent"),
                (sent, received) => format!("{received} bytes received, {sent} sent"),
            };
            Some(format!("{} connections, {what}", totals.opened))
        }
        _ => None,
    }
}

/// The same of a protocol whose servers return what arrived.
pub fn returned(event: &Event) -> Option<String> {
    match event {
        Event::Local(totals) if totals.traffic.tx_bytes > 0 => {
            Some(format!("{} connections, {} bytes answered", totals.opened, totals.traffic.tx_bytes))
        }
        _ => carried(event),
    }
}

/// How the peers of a protocol are recognised where another is spoken, and told so.
#[derive(Debug)]
pub struct Foreign {
    /// The protocol, for messages.
    pub name: &'static str,
    /// Whether one of its clients or servers sends these bytes first.
    pub sends_first: fn(&[u8]) -> bool,
    /// What makes its client print an error.
    pub refusal: &'static [u8],
}

/// An option of clients and servers of our own protocol: the protocols whose peers they recognise.
#[derive(Clone, Debug, Default)]
pub struct Foreigners(pub Vec<&'static Foreign>);

/// A datagram that a server answers at once.
#[derive(Debug)]
pub struct Hello {
    /// Makes it.
    pub encode: fn(Uuid) -> Vec<u8>,
    /// Whether a datagram is the answer to the one with this identifier.
    pub is_answer: fn(&[u8], Uuid) -> bool,
}

/// How many worker threads a protocol has where the user does not say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each core.
    PerCore,
    /// One less than cores: the other end is another program, and where that is on this host, it or the network card wants a core
    /// as well. With a pinned worker on each of two cores, four streams to a stock iperf3 beside them got 0.7 times what stock iperf3
    /// moves, with one worker that the scheduler places 1.0 to 1.2 times.
    BesideOthers,
    /// A server has one, independent of `--workers`; a client one for each core.
    OneServing,
}

impl Workers {
    /// How many there are on so many cores.
    pub fn on(self, cores: usize) -> u16 {
        let cores = u16::try_from(cores).unwrap_or(u16::MAX).clamp(1, 1024);
        if self == Workers::BesideOthers { cores.saturating_sub(1).max(1) } else { cores }
    }
}

/// How a server listens.
#[derive(Debug)]
pub struct Listening {
    /// Options of its sockets, set before the first segment, where they count most.
    pub sockets: SocketSettings,
    /// One socket accepts all connections of a port, in the order in which they come; else each worker has one.
    pub in_order: bool,
    /// What is listened to at each address of the configuration.
    pub ports: Vec<Ports>,
}

/// What a server listens to at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// TCP connections.
    pub connections: bool,
    /// UDP datagrams.
    pub datagrams: bool,
}

/// A session, and what its threads need.
pub struct Started {
    /// What runs on the control thread.
    pub session: Box<dyn Session>,
    /// Worker threads of a set.
    pub workers: u16,
    /// Sets of workers. Bound UDP sockets belong to the last.
    pub sets: u16,
    /// Send and receive buffer of a worker, bytes.
    pub buffer: usize,
    /// How long a connection may be idle before the kernel asks whether its peer is there, where the sockets' options do not say.
    pub keepalive_ns: Option<u64>,
    /// Largest segment of a client's conversation, bytes; `None` is what the path's first link carries.
    pub mss: Option<u32>,
}

impl Started {
    /// Shortest receive buffer of a worker, bytes: framing is read into it, too.
    const SMALLEST_BUFFER: usize = 4096;

    /// A session with one set of workers, whose buffers are as long as those of the phase.
    pub fn new(session: impl Session + 'static, workers: u16, phase: &Phase) -> Self {
        let buffer = usize::try_from(phase.buffer.high).unwrap_or(usize::MAX).max(Self::SMALLEST_BUFFER);
        let session = Box::new(session);
        Started { session, workers, sets: 1, buffer, keepalive_ns: None, mss: None }
    }

    /// The same with segments of the conversation that the smallest link of IPv6 carries, 1,280 bytes less the headers of IPv6 and
    /// TCP: where larger packets are dropped without notice, the ends still agree, and the run says what was dropped.
    #[must_use]
    pub fn in_small_segments(self) -> Self {
        Started { mss: Some(1_220), ..self }
    }
}

/// What a client is started with.
pub struct Calling<'a> {
    /// Its settings and peers.
    pub config: &'a ClientConfig,
    /// The phase that it runs.
    pub phase: &'a Phase,
    /// The host.
    pub host: &'static dyn HostInfo,
}

/// A server that has its ports.
pub struct Serving<'a> {
    /// What it is to be.
    pub config: &'a ServerConfig,
    /// Where it listens.
    pub addresses: &'a [SocketAddr],
    /// Worker threads.
    pub workers: u16,
    /// The host.
    pub host: &'static dyn HostInfo,
    /// The ports of its worker processes.
    pub process_ports: &'a [u16],
}

/// A protocol.
pub trait Protocol: Send + Sync {
    /// Static properties of the protocol.
    fn info(&self) -> &Info;

    /// Whether it can carry `phase`, which excludes no others.
    ///
    /// # Errors
    /// What it cannot carry and why, as the rest of a sentence about it.
    fn carries(&self, phase: &Phase) -> Result<(), &'static str>;

    /// A phase as this protocol can carry it, where what it cannot was not asked for.
    fn suited(&self, phase: Phase) -> Phase {
        phase
    }

    /// How a server listens.
    ///
    /// # Errors
    /// A setting that is missing or cannot work.
    fn listening(&self, config: &ServerConfig) -> Result<Listening, String>;

    /// A client's session.
    ///
    /// # Errors
    /// A setting that is missing or cannot work here.
    fn client(&self, calling: &Calling<'_>) -> Result<Started, String>;

    /// A session as a worker process knows it; `None` when connections are those of one process only.
    fn replica(&self) -> Option<Box<dyn Replica>> {
        None
    }

    /// A server's session.
    ///
    /// # Errors
    /// A setting that is missing or cannot work here.
    fn server(&self, serving: &Serving<'_>) -> Result<Started, String>;
}

impl dyn Protocol {
    /// Its name, as `--protocol` takes it and results give it.
    pub fn name(&self) -> &'static str {
        self.info().name
    }

    /// Its default port.
    pub fn port(&self) -> u16 {
        self.info().port
    }

    /// Whether it can carry `phase`. To be asked before anything is opened.
    ///
    /// # Errors
    /// One sentence: what it cannot carry, and why.
    pub fn check(&self, phase: &Phase) -> Result<(), String> {
        if let Some(extra) =
            phase.extra.as_ref().filter(|extra| self.info().settings != Some(&extra.protocol))
        {
            return Err(format!(
                "the protocol {self} has none of the settings that only {} has",
                extra.protocol
            ));
        }
        let alone = phase.exclusive && self.info().legacy.is_some();
        let held = phase.hold_ns.is_some() && !self.info().holds;
        refused([
            (alone, "cannot ask a server to exclude others"),
            (held, "ends a connection with its payload: native holds them"),
        ])
        .and_then(|()| self.carries(phase))
        .map_err(|why| format!("the protocol {self} {why}"))
    }
}

/// The refusal of the first condition that holds.
///
/// # Errors
/// That refusal.
pub fn refused<const N: usize>(of: [(bool, &'static str); N]) -> Result<(), &'static str> {
    of.into_iter().find(|(holds, _)| *holds).map_or(Ok(()), |(_, why)| Err(why))
}

impl fmt::Display for dyn Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl fmt::Debug for dyn Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl PartialEq for dyn Protocol {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for dyn Protocol {}
