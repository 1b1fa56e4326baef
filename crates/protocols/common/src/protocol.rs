//! A protocol as the rest of the program sees it: one object, which refuses phases and makes
//! sessions.

use crate::config::{ClientConfig, ServerConfig};
use crate::host::HostInfo;
use crate::options::{KeyOption, OptionGroup, ProtocolOption};
use crate::original::Original;
use crate::series::Series;
use compat::Importer;
use metrics::seconds;
use model::{EndCounts, Event, Outcome, Phase, Ping, SocketSettings, Traffic};
use std::fmt;
use std::net::SocketAddr;
use transport::{Replica, Session};
use uuid::Uuid;

/// Static properties of a protocol.
///
/// Wide: a field for each thing in which protocols differ.
#[derive(Debug)]
pub struct Info {
    /// Its name, as `--protocol` takes it and results give it.
    pub name: &'static str,
    /// Its default port.
    pub port: u16,
    /// Commands that measure over it, and remarks on its servers, for the help.
    pub questions: &'static str,
    /// Options of commands that it alone has.
    pub options: &'static [OptionGroup],
    /// Gives a phase of round trips the form of its messages, of a size of 0 the usual size; true
    /// if a key is known.
    ///
    /// # Errors
    /// A sentence about a setting that cannot be.
    pub form: fn(&mut Phase, bool) -> Result<(), String>,
    /// Both ends can prove with a key that they know each other.
    pub keyed: bool,
    /// True if it can keep connections open that have moved all their payload.
    pub holds: bool,
    /// Transfers and rates of connections that are given as ranges.
    pub ranges: Ranges,
    /// A client has its test with one server.
    pub one_server: bool,
    /// Worker threads.
    pub workers: Workers,
    /// A datagram that asks a server whether it is there, for a round trip without a session.
    pub hello: Option<Hello>,
    /// A run's settings without a user's choice.
    pub defaults: Defaults,
    /// A server's way to answer it beside its own protocol.
    pub legacy: Option<Legacy>,
    /// Recognition of its peers where another protocol is spoken.
    pub foreign: Option<Foreign>,
    /// Protocol whose settings it reads of a phase ([`Phase::extra`]); with none, a phase with such
    /// settings is refused.
    pub settings: Option<&'static str>,
    /// Programs that speak it, whose command lines and printouts this one has.
    pub originals: &'static [Original],
    /// Readers of the files of these programs.
    pub importers: &'static [Importer],
    /// Counts that each end has of a test, its own and its peer's reports.
    pub counts: EndCounts,
    /// Data series that an outcome holds something for.
    pub series: fn(&Outcome) -> Vec<Series>,
    /// True if its tests measure the IP-layer capacity.
    pub capacity: bool,
    /// True if the test of a phase asks the peer for no report, where others do.
    pub unreported: fn(&Phase) -> bool,
}

impl Info {
    /// A protocol of this name and default port, without a key, with one worker per core.
    pub const fn new(name: &'static str, port: u16) -> Self {
        Info {
            name,
            port,
            questions: "",
            options: &[],
            form: |phase, _| {
                let open = phase.ping.iter_mut().filter(|ping| ping.size == 0);
                open.for_each(|ping| ping.size = Ping::default().size);
                Ok(())
            },
            keyed: false,
            holds: false,
            ranges: Ranges::Refused,
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
            series: |_| Vec::new(),
            capacity: false,
            unreported: |_| false,
        }
    }
}

/// A run's settings over a protocol without a user's choice.
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

/// A protocol that a server answers beside its own (`serve --legacy`).
#[derive(Debug)]
pub struct Legacy {
    /// Its ports, in words.
    pub over: &'static str,
    /// Clients that are served, in words.
    pub serves: &'static str,
    /// Help of an option of its own that is short for naming it; none without.
    pub short: Option<&'static str>,
    /// Option for a key of its own.
    pub key: Option<KeyOption>,
    /// Options of its own.
    pub options: &'static [ProtocolOption],
    /// The usual settings.
    pub phase: fn() -> Phase,
    /// Other settings; `None` where a server needs none.
    pub settings: Option<OtherSettings>,
    /// The settings of a second server, of datagrams at the same port, where none were given.
    pub beside: Option<fn() -> Phase>,
    /// A server of connections listens to datagrams on the same port, too.
    pub also_datagrams: bool,
    /// Its usual port where another protocol that goes along has the one of both: nothing separates
    /// a connection of one from that of the other.
    pub aside: Option<u16>,
    /// The server, made of one at a single port of each address; or why it cannot be.
    pub config: fn(ServerConfig) -> Result<ServerConfig, String>,
    /// Ports at each address, of which the first is shown.
    pub ports: usize,
    /// A server ends with its first test: another follows.
    pub one_test: bool,
    /// A server sends payload before its client has said anything.
    pub sends_first: bool,
    /// Text of an event for the user.
    pub notice: fn(&Event) -> Option<String>,
}

/// Settings of a server in the words of the original's command line.
#[derive(Debug)]
pub struct OtherSettings {
    /// Reads them.
    pub read: fn(&[String]) -> Result<Phase, String>,
    /// An example, for the help.
    pub help: &'static str,
}

impl Legacy {
    /// TCP, at one port, with the usual settings of a run, for any number of tests.
    pub const PLAIN: Self = Legacy {
        over: "TCP",
        serves: "everybody",
        short: None,
        key: None,
        options: &[],
        phase: Phase::default,
        settings: None,
        beside: None,
        also_datagrams: false,
        aside: None,
        config: Ok,
        ports: 1,
        one_test: false,
        sends_first: false,
        notice: carried,
    };
    /// Clients of protocols over UDP that are served: a datagram proves no address.
    pub const LOCAL: &str = "this host and connected networks, and NETCALIPER_ALLOW";
    /// The same where everybody is served over TCP.
    pub const MIXED: &str = "TCP: everybody; UDP: this host and connected networks, and NETCALIPER_ALLOW";
}

/// Traffic of a connection, and of all of them together.
pub fn carried(event: &Event) -> Option<String> {
    match event {
        Event::Portion(portion) => {
            let ns = portion.to_ns.saturating_sub(portion.from_ns);
            let (bytes, from) = (portion.rx_bytes, portion.remote);
            let rate = Traffic { tx_bytes: 0, rx_bytes: bytes, ns, ..Traffic::default() }.rx_bps() / 1e6;
            let cut = if portion.cut { ", cut off: the client sent no end" } else { "" };
            Some(format!("{bytes} bytes from {from} in {:.6} s, {rate:.3} Mbit/s{cut}", seconds(ns)))
        }
        Event::Local(totals) if totals.opened > 0 || totals.traffic.rx_bytes > 0 => {
            let what = match (totals.traffic.tx_bytes, totals.traffic.rx_bytes) {
                (0, received) => format!("{received} bytes received"),
                (sent, 0) => format!("{sent} bytes sent"),
                (sent, received) => format!("{received} bytes received, {sent} sent"),
            };
            let here = totals.drops_here().map_or_else(String::new, |text| format!("; {text}"));
            Some(format!("{} connections, {what}{here}", totals.opened))
        }
        _ => None,
    }
}

/// The same of a protocol whose servers return what arrived.
pub fn returned(event: &Event) -> Option<String> {
    match event {
        Event::Local(totals) if totals.traffic.tx_bytes > 0 => {
            let here = totals.drops_here().map_or_else(String::new, |text| format!("; {text}"));
            Some(format!("{} connections, {} bytes answered{here}", totals.opened, totals.traffic.tx_bytes))
        }
        _ => carried(event),
    }
}

/// Recognition of a protocol's peers where another is spoken, and the answer to them.
#[derive(Debug)]
pub struct Foreign {
    /// The protocol, for messages.
    pub name: &'static str,
    /// True if one of its clients or servers sends these bytes first.
    pub sends_first: fn(&[u8]) -> bool,
    /// Bytes that make its client print an error.
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
    /// True if a datagram is the answer to the one with this identifier.
    pub is_answer: fn(&[u8], Uuid) -> bool,
}

/// A protocol's number of worker threads without a user's choice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Workers {
    /// One for each core.
    PerCore,
    /// One less than cores: the other end is another program, and where that is on this host, it or
    /// the network card wants a core as well. With a pinned worker on each of two cores, four
    /// streams to a stock iperf3 beside them got 0.7 times what stock iperf3 moves, with one worker
    /// that the scheduler places 1.0 to 1.2 times.
    BesideOthers,
    /// A server has one, independent of `--workers`; a client one for each core.
    OneServing,
}

impl Workers {
    /// Their number on `cores` cores.
    pub fn on(self, cores: usize) -> u16 {
        let cores = u16::try_from(cores).unwrap_or(u16::MAX).clamp(1, 1024);
        if self == Workers::BesideOthers { cores.saturating_sub(1).max(1) } else { cores }
    }
}

/// A server's listeners.
#[derive(Debug)]
pub struct Listening {
    /// Options of its sockets, set before the first segment, where they count most.
    pub sockets: SocketSettings,
    /// True if one socket accepts all connections of a port, in the order of arrival; else each
    /// worker has one.
    pub in_order: bool,
    /// Listeners at each address of the configuration.
    pub ports: Vec<Ports>,
}

/// A server's listeners at an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ports {
    /// TCP connections.
    pub connections: bool,
    /// UDP datagrams.
    pub datagrams: bool,
}

/// A session, and the needs of its threads.
pub struct Started {
    /// The session on the control thread.
    pub session: Box<dyn Session>,
    /// Worker threads of a set.
    pub workers: u16,
    /// Sets of workers. Bound UDP sockets belong to the last.
    pub sets: u16,
    /// Send and receive buffer of a worker, bytes.
    pub buffer: usize,
    /// Longest idle time of a connection before the kernel probes its peer, where the sockets'
    /// options leave it open.
    pub keepalive_ns: Option<u64>,
    /// Largest segment of a client's conversation, bytes; `None` is the one of the path's first
    /// link.
    pub mss: Option<u32>,
}

impl Started {
    /// Shortest receive buffer of a worker, bytes: framing is read into it, too.
    const SMALLEST_BUFFER: usize = 4096;

    /// A session with one set of workers, whose buffers have the length of the phase's.
    pub fn new(session: impl Session + 'static, workers: u16, phase: &Phase) -> Self {
        let buffer = usize::try_from(phase.buffer.high).unwrap_or(usize::MAX).max(Self::SMALLEST_BUFFER);
        let session = Box::new(session);
        Started { session, workers, sets: 1, buffer, keepalive_ns: None, mss: None }
    }

    /// The same with segments of the conversation that the smallest link of IPv6 carries, 1,280
    /// bytes less the headers of IPv6 and TCP: where larger packets are dropped without notice, the
    /// ends still agree, and the run reports the drops.
    #[must_use]
    pub fn in_small_segments(self) -> Self {
        Started { mss: Some(1_220), ..self }
    }
}

/// A client's start.
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
    /// Its configuration.
    pub config: &'a ServerConfig,
    /// Addresses that it listens at.
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

    /// Refuses a `phase` that it cannot carry. `dyn Protocol::check` has refused exclusive ones.
    ///
    /// # Errors
    /// The limit and its reason, as the rest of a sentence about the protocol.
    fn carries(&self, phase: &Phase) -> Result<(), &'static str>;

    /// Replaces defaults that the protocol does not support; explicit settings stay and are refused
    /// later.
    fn suited(&self, phase: Phase) -> Phase {
        phase
    }

    /// The server's listeners.
    ///
    /// # Errors
    /// A setting that is missing or cannot work.
    fn listening(&self, config: &ServerConfig) -> Result<Listening, String>;

    /// A client's session.
    ///
    /// # Errors
    /// A setting that is missing or cannot work here.
    fn client(&self, calling: &Calling<'_>) -> Result<Started, String>;

    /// A session for a worker process; `None` when all connections belong to one process.
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

    /// Refuses a `phase` that the protocol cannot carry. To be called before anything is opened.
    ///
    /// # Errors
    /// One sentence: the unsupported setting, and the reason.
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
        let drawn = phase.transfer_high.is_some() || phase.rate_high.is_some();
        let ranges = self.info().ranges;
        refused([
            (alone, "cannot ask a server to exclude others"),
            (phase.capacity.is_some() && !self.info().capacity, "measures no capacity: native and udpstp do"),
            (held, "ends a connection with its payload: native holds them"),
            (
                drawn && ranges == Ranges::Refused,
                "has one transfer and one rate for all connections: native draws from ranges",
            ),
            (
                phase.draw_seed.is_some() && ranges != Ranges::Seeded,
                "repeats no draws from a seed: native does",
            ),
        ])
        .and_then(|()| self.carries(phase))
        .map_err(|why| format!("the protocol {self} {why}"))
    }
}

/// Transfers and rates that are given as ranges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ranges {
    /// All connections have one transfer and one rate.
    Refused,
    /// Drawn anew in each run.
    Random,
    /// Drawn from the seed of the phase.
    Seeded,
}

/// The refusal of the first condition that holds.
///
/// # Errors
/// The first refusal that holds.
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
