//! The options that several commands share.
#![allow(rustdoc::broken_intra_doc_links, reason = "doc comments here are the help text, brackets and all")]

pub(crate) mod datagrams;
pub(crate) mod export;
pub(crate) mod help;
pub(crate) mod key;
pub(crate) mod protocol;
pub(crate) mod repeat;
pub(crate) mod store;
pub(crate) mod values;

use crate::args::export::ExportArgs;
use crate::args::store::StoreArgs;
use crate::protocols;
use clap::{Args, ValueEnum};
use common::Placement;
use common::protocol::Workers;
use console::error::CliError;
use metrics::Ecn;
use model::{Assertion, Shutdown, SocketSettings, Verify};
use report::Detail;
use std::net::SocketAddr;
use std::path::PathBuf;
use values::{Named, NumberOrNone};

/// Which server, and how to reach it.
#[derive(Args, Debug)]
#[command(next_help_heading = "Target")]
pub(crate) struct TargetArgs {
    /// Servers: names or addresses, with :PORT if it is not the default. Several share the
    /// connections. One address of a name is used; with native the others are tried where no
    /// connection to it can be made.
    #[arg(required = true, value_name = "HOST")]
    pub(crate) targets: Vec<String>,
    #[arg(short, long, value_parser = values::count::<u16, 65535>, help = port_help())]
    pub(crate) port: Option<u16>,
    #[arg(long, value_name = "NAME", default_value = protocols::NATIVE.name(), value_parser = protocols::parse, help = protocol_help())]
    pub(crate) protocol: protocols::Protocol,
    /// Use IPv4 only.
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    pub(crate) ipv4: bool,
    /// Use IPv6 only.
    #[arg(short = '6', long)]
    pub(crate) ipv6: bool,
    #[command(flatten)]
    pub(crate) key: KeyArgs,
    /// The server's public key, which it has to prove to have; HOST=KEY for one of several servers.
    /// Repeatable; goes with --key-file.
    #[arg(long, value_name = "[HOST=]KEY", value_parser = key::server_key, help_heading = "Security")]
    pub(crate) server_key: Vec<common::keys::Named<[u8; 32]>>,
}

/// Secret keys. They never stand on a command line, where other users could read them.
#[derive(Args, Debug)]
#[command(next_help_heading = "Security")]
pub(crate) struct KeyArgs {
    /// File with the pre-shared key, which other users cannot read: one that `netcaliper key new`
    /// has made, or a passphrase of 8 to 4096 bytes; at a server also a list of keys, one a line:
    /// NAME KEY [RIGHT=VALUE …]. The variable NETCALIPER_PSK may hold the key itself instead.
    #[arg(long, value_name = "FILE", env = "NETCALIPER_PSK_FILE")]
    pub(crate) psk_file: Option<PathBuf>,
    /// File with this end's private key, as `netcaliper key new --pair` makes it; the other end
    /// knows its public key.
    #[arg(long, value_name = "FILE", env = "NETCALIPER_KEY_FILE")]
    pub(crate) key_file: Option<PathBuf>,
    /// Use key files that every user of this host can read.
    #[arg(long)]
    pub(crate) insecure_key_file: bool,
}

/// Which of our addresses, interfaces and cores are used.
#[derive(Args, Debug)]
#[command(next_help_heading = "This host")]
pub(crate) struct LocalArgs {
    /// Local address to connect from; repeatable, used round robin.
    #[arg(short = 'B', long = "bind", value_name = "ADDR", value_parser = values::source)]
    pub(crate) bind: Vec<SocketAddr>,
    /// Local ports to connect from, such as 20000-20999, used round robin.
    #[arg(long, visible_alias = "source-ports", value_name = "LOW-HIGH", value_parser = values::ports)]
    pub(crate) local_port: Option<(u16, u16)>,
    /// Most bits per second and direction of all connections and flows of this end, 8 and more,
    /// whatever else is asked for: an agent gives its tests a share of its own rate so [default: no
    /// limit].
    #[arg(long, value_name = "RATE", value_parser = values::limit)]
    pub(crate) at_most: Option<u64>,
    #[command(flatten)]
    pub(crate) cores: CoreArgs,
}

/// Interface, cores and threads.
#[derive(Args, Debug)]
#[command(next_help_heading = "This host")]
pub(crate) struct CoreArgs {
    /// Network interface to bind sockets to.
    #[arg(long, value_name = "NAME")]
    pub(crate) bind_dev: Option<String>,
    #[arg(long, value_name = "CORES", value_parser = values::affinity, help = affinity_help())]
    pub(crate) affinity: Option<Placement>,
    #[arg(long, value_name = "N", value_parser = values::count::<u16, 1024>, help = workers_help())]
    pub(crate) workers: Option<u16>,
}

/// Socket options, for both ends.
#[derive(Args, Debug)]
#[command(next_help_heading = "Sockets (both ends)")]
pub(crate) struct SocketArgs {
    /// Send buffer (SO_SNDBUF) in bytes, or `system` [default: the system's; within one host 96Ki,
    /// which keeps the data in the caches].
    #[arg(long, value_name = "BYTES", value_parser = values::socket_buffer)]
    pub(crate) sndbuf: Option<NumberOrNone>,
    /// Receive buffer (SO_RCVBUF) in bytes [default: the system's].
    #[arg(long, value_name = "BYTES", value_parser = values::bytes)]
    pub(crate) rcvbuf: Option<u64>,
    /// Both buffers at once, in bytes.
    #[arg(short = 'w', long, value_name = "BYTES", value_parser = values::bytes, conflicts_with_all = ["sndbuf", "rcvbuf"])]
    pub(crate) window: Option<u64>,
    /// Send small segments at once (TCP_NODELAY). On by default, because with paced congestion
    /// control it decides the result, and because applications that care set it.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = ["on", "off"])]
    pub(crate) nodelay: String,
    /// Largest segment (TCP_MAXSEG) in bytes, 1 to 65535 [default: the system's].
    #[arg(short = 'M', long, value_name = "BYTES", value_parser = values::count::<u32, 65535>)]
    pub(crate) mss: Option<u32>,
    /// Congestion control such as cubic or bbr [default: the system's].
    #[arg(short = 'C', long, value_name = "NAME")]
    pub(crate) congestion: Option<String>,
    #[command(flatten)]
    pub(crate) header: HeaderArgs,
    /// IPv6 flow label of the client's packets, 0 to 0xfffff [default: the system's].
    #[arg(long, value_name = "LABEL", value_parser = values::label)]
    pub(crate) flow_label: Option<u32>,
    /// Send keep-alive probes after so much silence [default: none].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) keepalive: Option<u64>,
}

impl SocketArgs {
    pub(crate) fn settings(&self) -> SocketSettings {
        SocketSettings {
            sndbuf: self.sndbuf.map_or(self.window, |buffer| buffer.0),
            same_host_sndbuf: self.sndbuf.is_none() && self.window.is_none(),
            rcvbuf: self.rcvbuf.or(self.window),
            nodelay: self.nodelay == "on",
            mss: self.mss,
            congestion: self.congestion.clone(),
            dscp: self.header.dscp,
            ttl: self.header.ttl,
            flow_label: self.flow_label,
            keepalive_ns: self.keepalive,
            ..SocketSettings::default()
        }
    }
}

/// How long, how many, how to end.
#[derive(Args, Debug)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunArgs {
    #[arg(short = 'P', long, alias = "parallel", value_name = "N", value_parser = values::count::<u32, 1_000_000>, allow_negative_numbers = true,
        help = connections_help())]
    pub(crate) connections: Option<u32>,
    /// Length of the run [default: 10s; 3s per point of a sweep; none with --iterations or
    /// --bytes].
    #[arg(short = 't', long, value_name = "TIME", value_parser = values::duration, allow_negative_numbers = true)]
    pub(crate) time: Option<u64>,
    /// Transfers of each connection, one after the other: the run ends after connections ×
    /// iterations [default: as many as there is time for].
    #[arg(long, value_name = "N", value_parser = values::count::<u64, { u64::MAX }>, allow_negative_numbers = true)]
    pub(crate) iterations: Option<u64>,
    #[command(flatten)]
    pub(crate) session: SessionArgs,
    /// Worker processes that share the connections, each with its own limit of open files, 1 to
    /// 1024; tcp and connect over the protocol native, on Linux [default: as many as the
    /// connections need, none where this process is enough].
    #[arg(long, value_name = "N", value_parser = values::count::<u16, 1024>)]
    pub(crate) processes: Option<u16>,
    /// How connections end.
    #[arg(long, default_value = "graceful", value_parser = values::one_of(SHUTDOWN))]
    pub(crate) shutdown: Shutdown,
    /// Most connections that may be connecting at the same time, 1 to 1000000.
    #[arg(long, value_name = "N", default_value_t = 1000, value_parser = values::count::<u32, 1_000_000>, allow_negative_numbers = true)]
    pub(crate) throttle: u32,
    #[command(flatten)]
    pub(crate) connection: ConnectionArgs,
}

/// The intervals of a session, and its place among others.
#[derive(Args, Debug)]
pub(crate) struct SessionArgs {
    /// Length of an interval, 10ms to 1h.
    #[arg(short = 'i', long, value_name = "TIME", default_value = "1s", value_parser = values::interval)]
    pub(crate) interval: u64,
    /// Run only when no other session runs on the server, and wait for that in a queue; for 10
    /// minutes at most, unless the server's --max-time says otherwise.
    #[arg(long)]
    pub(crate) exclusive: bool,
}

/// Times of connections.
#[derive(Args, Debug)]
pub(crate) struct ConnectionArgs {
    /// Length of the start of the run that does not count, rounded up to whole intervals.
    #[arg(short = 'O', long, value_name = "TIME", default_value = "0", value_parser = values::pause)]
    pub(crate) omit: u64,
    /// Longest time of a connect, and of a server's first word behind it.
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = values::duration)]
    pub(crate) connect_timeout: u64,
    /// Time without progress, or over TCP without an echo, after which a connection counts as a
    /// network error.
    #[arg(long, value_name = "TIME", default_value = "15s", value_parser = values::duration)]
    pub(crate) stall_timeout: u64,
}

/// Fields of the IP header.
#[derive(Args, Debug)]
pub(crate) struct HeaderArgs {
    /// DSCP of our packets: 0 to 63 or a name such as ef, af41, cs1 [default: 0].
    #[arg(long, value_parser = values::dscp)]
    pub(crate) dscp: Option<u8>,
    /// Time to live, or hop limit, 1 to 255 [default: the system's].
    #[arg(long, value_parser = values::ttl)]
    pub(crate) ttl: Option<u8>,
}

/// The ECN codepoint of datagrams. TCP's kernel negotiates ECN by itself.
#[derive(Args, Debug)]
pub(crate) struct EcnArgs {
    /// ECN codepoint of datagrams, both ways: ect0, ect1, ce or off [default: off]. `delay` and
    /// `load` compare two, such as ect1,off: of each two datagrams one has either; `load` compares
    /// one with off.
    #[arg(long, value_name = "CODEPOINT", value_parser = values::codepoints)]
    pub(crate) ecn: Option<(Ecn, Option<Ecn>)>,
}

impl EcnArgs {
    /// The codepoint of all datagrams.
    ///
    /// # Errors
    /// Refuses two.
    pub(crate) fn one(&self) -> Result<Option<Ecn>, CliError> {
        match self.ecn {
            Some((_, Some(_))) => Err(CliError::usage(
                "--ecn: `delay` and `load` compare two codepoints; give one such as ect0",
            )),
            one => Ok(one.map(|(ecn, _)| ecn)),
        }
    }
}

/// Where results go. Every file is opened before the run starts; `-` is stdout.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct OutputArgs {
    /// Print the result as one JSON document (schema/outcome.v2.json); `--json=summary` prints its
    /// figures alone.
    #[arg(short = 'J', long, value_name = "WHAT", conflicts_with = "jsonl", num_args = 0..=1, require_equals = true,
        default_missing_value = "all")]
    pub(crate) json: Option<JsonArg>,
    /// Print every event as a line of JSON, as it happens.
    #[arg(long)]
    pub(crate) jsonl: bool,
    /// Write one CSV row per interval.
    #[arg(long, value_name = "FILE")]
    pub(crate) status_csv: Option<PathBuf>,
    /// Write one CSV row per connection.
    #[arg(long, value_name = "FILE")]
    pub(crate) connection_csv: Option<PathBuf>,
    /// Save the run (all events, JSON lines) for `netcaliper report FILE`.
    #[arg(long, value_name = "FILE")]
    pub(crate) save: Option<PathBuf>,
    /// Write the report as one HTML page; its plots are interactive, and it opens offline.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Write every plot as an SVG file into this directory, created if missing.
    #[arg(long, value_name = "DIR")]
    pub(crate) svg: Option<PathBuf>,
    /// Write metrics into this file for Prometheus' textfile collector: call it something.prom.
    #[arg(long, value_name = "FILE")]
    pub(crate) metrics_file: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) export: ExportArgs,
    /// What the run must find, or the exit code is 3 (repeatable): p99<5ms, goodput>900M,
    /// loss.up<=0.1%, errors=0, …. Names: goodput, connects, loss, jitter, messages-lost, frames,
    /// errors, retransmits, fairness, caveats; of times min, mean, max or a percentile, alone or
    /// after rtt., delay. or connect.; .up or .down picks a direction.
    #[arg(long = "assert", value_name = "CONDITION", value_parser = Assertion::parse)]
    pub(crate) asserts: Vec<Assertion>,
    /// Do not save this run in the store.
    #[arg(long, help_heading = "Store")]
    pub(crate) no_store: bool,
    #[command(flatten)]
    pub(crate) store: StoreArgs,
    /// Show the run on the terminal while it lasts: always, never, or auto, which is when stdout is
    /// a terminal, the run is planned to take 5 s or more and neither --quiet nor a machine format
    /// is asked for. `--live` alone is always.
    #[arg(long, value_name = "WHEN", value_enum, default_value_t, num_args = 0..=1, require_equals = true, default_missing_value = "always")]
    pub(crate) live: When,
    #[command(flatten)]
    pub(crate) web: WebArgs,
    /// Print the result as one line, and no interval lines; with --verbose all tables.
    #[arg(short, long)]
    pub(crate) quiet: bool,
    /// Print all tables, the settings in effect and each connection.
    #[arg(short, long, overrides_with = "verbose")]
    pub(crate) verbose: bool,
    /// Print all tables.
    #[arg(skip)]
    pub(crate) full: bool,
}

/// When a run is shown on the terminal while it lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum When {
    /// For runs of 5 s and more, when stdout is a terminal and has no other output.
    #[default]
    Auto,
    /// Always; an error without a terminal.
    Always,
    /// Never.
    Never,
}

/// Address of the page that shows a run in a browser.
#[derive(Args, Debug, Clone, Default)]
pub(crate) struct WebArgs {
    /// Show the run in a browser, with the saved runs: at a port of this host (7480 if none is
    /// given, 0 for any), or at ADDR:PORT. At an address that other hosts can reach, the printed
    /// URL holds a token, and requests without it are refused.
    #[arg(long, value_name = "ADDR", num_args = 0..=1, default_missing_value = "", value_parser = values::web_address,
        help_heading = "Live")]
    pub(crate) web: Option<SocketAddr>,
    /// Serve the page for this long after the run's end; the first Ctrl-C ends that.
    #[arg(long, value_name = "TIME", requires = "web", value_parser = values::duration, help_heading = "Live")]
    pub(crate) web_linger: Option<u64>,
}

impl WebArgs {
    pub(crate) fn wanted(&self) -> bool {
        self.web.is_some()
    }
}

/// The distribution of round trips.
#[derive(Args, Debug, Clone, Default)]
#[command(next_help_heading = "Output")]
pub(crate) struct HistogramArgs {
    /// Write the distribution of round trips as HdrHistogram's percentile file, in µs.
    #[arg(long, value_name = "FILE")]
    pub(crate) hgrm: Option<PathBuf>,
    /// Write that distribution as CSV, a row per bucket.
    #[arg(long, value_name = "FILE")]
    pub(crate) histogram_csv: Option<PathBuf>,
    /// Show that distribution, and write its CSV, in steps of this width [default: steps that
    /// grow].
    #[arg(long, value_name = "TIME", value_parser = values::duration)]
    pub(crate) linear: Option<u64>,
}

impl HistogramArgs {
    pub(crate) fn files(&self) -> [Option<&PathBuf>; 2] {
        [self.hgrm.as_ref(), self.histogram_csv.as_ref()]
    }
}

/// How much JSON is printed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum JsonArg {
    /// All that is known.
    All,
    /// The answer, figures, names of caveats: below 2 kB but for long sweeps.
    Summary,
}

impl OutputArgs {
    /// How much of the result a person is told.
    pub(crate) fn detail(&self) -> Detail {
        match (self.full || self.verbose, self.quiet) {
            (true, _) => Detail::Full,
            (false, true) => Detail::Line,
            (false, false) => Detail::Brief,
        }
    }
}

pub(crate) const VERIFY: Named<Verify> = &[
    ("data", "Every byte is compared", Verify::Data),
    ("connection", "Bytes are read and counted", Verify::Connection),
    ("none", "Bytes are counted, and may be discarded unread", Verify::None),
];

const SHUTDOWN: Named<Shutdown> = &[
    ("graceful", "FIN", Shutdown::Graceful),
    ("rude", "RST", Shutdown::Rude),
    ("random", "Either, by chance", Shutdown::Random),
];

/// Protocols without a check of payload: a receiver takes one connection to its end.
pub(crate) fn plain() -> String {
    protocol::named(|protocol| protocol.info().defaults.plain)
}

fn port_help() -> String {
    format!("Server port, 1 to 65535 [default: the protocol's own: {}]", protocol::ports())
}

fn protocol_help() -> String {
    format!(
        "Protocol of the remote end: {}, which is our own; or, for servers of other programs, {}",
        protocols::NATIVE,
        protocol::questions()
    )
}

fn affinity_help() -> String {
    format!(
        "Cores for the worker threads, such as 0,2: worker i on the i-th; `none` leaves them to the scheduler [default: one core \
         each, when there are several workers; with the protocol {} `none`]",
        protocol::named(|protocol| protocol.info().defaults.spread)
    )
}

fn workers_help() -> String {
    format!(
        "Worker threads, 1 to 1024; `serve` has as many again for round trips [default: one per core, with the protocol {} one \
         less, but not more than connections]",
        protocol::named(|protocol| protocol.info().workers == Workers::BesideOthers)
    )
}

fn connections_help() -> String {
    format!("Concurrent connections, 1 to 1000000 [default: 8; 1 with --protocol {}]", plain())
}
