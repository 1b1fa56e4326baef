//! A run as a sequence of events. The same events feed the live printout, the journal on disk and
//! the outcome.

mod rows;

pub use rows::{ConnectionRecord, Failure, FrameRow, FrameVerdict, Portion, sampled_rtt_ns};

use crate::{
    Baseline, Capacity, Counts, CpuUse, Effective, Extra, FlowRow, FrameTimes, HostCounters, HostSnapshot,
    Links, PacketReport, PacketRow, Phase, PingInterval, PingRow, RoundTrips, Served, Status, Traffic,
    Trains,
};
use metrics::{
    CauseCount, DistSummary, Frames, Framing, IpFields, Moments, PlayoutSummary, Remote, Sample, Tally,
    TcpTotals, TrainPacket, Wall,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use uuid::Uuid;

/// One thing that happened.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Event {
    /// The run begins.
    Begin(Box<Begin>),
    /// A phase begins.
    Phase {
        /// The sweep's settings, name to value; empty without a sweep.
        label: BTreeMap<String, String>,
        /// Which repetition, from 1.
        repeat: u32,
        /// The requested phase.
        phase: Box<Phase>,
    },
    /// A server has accepted the phase.
    Session(Box<SessionInfo>),
    /// Payload may flow: the times of the phase's intervals and connections count from here.
    Start {
        /// Wall clock at that moment.
        at: Wall,
    },
    /// An interval is over.
    Interval(Box<Interval>),
    /// An earlier interval again, with reports of servers that arrived too late for its line.
    Corrected(Box<Interval>),
    /// A connection was established; reported only if asked for.
    Established {
        /// Our address.
        local: SocketAddr,
        /// The peer's address.
        remote: SocketAddr,
        /// When, ns since the phase's start.
        at_ns: u64,
    },
    /// A connection has ended.
    Connection(Box<ConnectionRecord>),
    /// Traffic of one connection, with its calls; sent before its end, where the original reports
    /// that.
    Portion(Box<Portion>),
    /// Frames of a media stream that were judged since the last such event, in order.
    Frames {
        /// The stream.
        id: Uuid,
        /// One row per frame.
        rows: Vec<FrameRow>,
    },
    /// Messages with news since the last such event, in the order of the news; sent on request.
    Pings {
        /// One row per message.
        rows: Vec<PingRow>,
    },
    /// Local baseline of the round trips of the next phase, or of this one.
    Baseline(Box<Baseline>),
    /// Results of packet trains.
    Trains(Box<Trains>),
    /// Result of a capacity test.
    Capacity(Box<Capacity>),
    /// Arrival times of a stream's frames, of a replayed run: in a running one [`Event::Frames`]
    /// has each frame.
    FrameTimes(Box<FrameTimes>),
    /// The packets of trains, in the order of their schedule; sent on request.
    TrainPackets {
        /// One row per packet.
        rows: Vec<TrainPacket>,
    },
    /// Flows of datagrams one by one, where there are several.
    Flows {
        /// One row per flow.
        rows: Vec<FlowRow>,
    },
    /// Datagrams, one flow and direction after the other; sent on request.
    Packets {
        /// One row per datagram.
        rows: Vec<PacketRow>,
    },
    /// A result of one protocol only.
    Extra(Extra),
    /// State of a server's session: at each change, and each of its intervals; sent on request.
    Served(Box<Served>),
    /// Traffic of every open link of a server; reported only if asked for.
    Links(Box<Links>),
    /// Something a person should know now.
    Notice {
        /// Its gravity.
        level: Level,
        /// One sentence.
        text: String,
    },
    /// Our own totals of the phase.
    Local(Box<Totals>),
    /// The remote end's totals of the phase, one event per server.
    Remote(Box<Totals>),
    /// The phase is over.
    PhaseEnd {
        /// Its status at the end.
        status: Status,
        /// Why, when not as planned.
        reason: Option<String>,
    },
    /// The run is over.
    End {
        /// Its status at the end.
        status: Status,
        /// Why, when not as planned.
        reason: Option<String>,
    },
}

crate::tagged_document!(Event, "event");

/// Gravity of a notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// For information.
    Info,
    /// The result may suffer.
    Warning,
    /// Something failed.
    Error,
}

/// The version of a document. A value that is made has this build's; one that is read and does not
/// say it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(inline))]
pub struct SchemaName(pub String);

impl SchemaName {
    fn unsaid() -> SchemaName {
        SchemaName(String::new())
    }
}

impl Default for SchemaName {
    fn default() -> SchemaName {
        SchemaName(crate::SCHEMA.to_owned())
    }
}

/// The start of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Begin {
    /// The version of the documents that the run writes; empty in journals of the builds that did
    /// not record it.
    #[serde(default = "SchemaName::unsaid")]
    pub schema: SchemaName,
    /// Version of the netcaliper that measured.
    pub version: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// The question or command: `tcp`, `connect`, `serve`, `demo`.
    pub verb: String,
    /// The protocol, as `--protocol` names it; empty when it is not on record.
    pub protocol: String,
    /// Identifies the run on both ends.
    pub run: Uuid,
    /// Wall clock at the start, ns since 1970-01-01T00:00:00Z.
    pub started: Wall,
    /// The names or addresses given.
    pub targets: Vec<String>,
    /// The host that ran it.
    pub host: HostSnapshot,
    /// Placement of the workers: `spread`, or the cores they were pinned to.
    pub placement: String,
    /// Worker threads.
    pub workers: u32,
    /// A server's limits of its clients, where there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limits: Option<ServerLimits>,
}

/// Limits of a server's clients that are in effect.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct ServerLimits {
    /// Bits/s and direction of one session.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<u64>,
    /// Longest run, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_ns: Option<u64>,
    /// Bytes of one session, both directions together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bytes: Option<u64>,
    /// Bits/s and direction of one address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub address_rate_bps: Option<u64>,
    /// Bits/s and direction of all clients together.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub total_rate_bps: Option<u64>,
}

impl ServerLimits {
    /// In words, with commas between several.
    pub fn text(&self) -> String {
        let rate =
            |rate: Option<u64>, of: &str| Some(format!("{} {of}", metrics::format_bits_per_second(rate?)));
        let time = self.time_ns.map(|ns| format!("{} s a run", metrics::seconds(ns)));
        let bytes = self.bytes.map(|bytes| format!("{bytes} bytes a client"));
        let all = [
            rate(self.rate_bps, "a client"),
            time,
            bytes,
            rate(self.address_rate_bps, "an address"),
            rate(self.total_rate_bps, "in all"),
        ];
        all.into_iter().flatten().collect::<Vec<_>>().join(", ")
    }
}

/// A difference between the requested value and the server's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Change {
    /// The setting.
    pub what: String,
    /// As asked.
    pub asked: String,
    /// As given.
    pub given: String,
    /// The server's reason.
    pub why: String,
}

/// A server's grant.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Accepted {
    /// The session's number on the server.
    pub session: u64,
    /// Its reductions.
    pub changes: Vec<Change>,
    /// Other runs' sessions on the server at that moment.
    pub others: u32,
}

/// A server, as the client knows it, and its grant.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SessionInfo {
    /// The name given on the command line.
    pub target: String,
    /// The address that the name resolved to, with the port.
    pub address: SocketAddr,
    /// Version of the server.
    pub version: String,
    /// The grant.
    pub accepted: Accepted,
    /// The server's host.
    pub host: HostSnapshot,
    /// The server's worker threads.
    pub workers: u32,
    /// Placement of the server's workers.
    pub placement: String,
    /// True if both ends proved to know the pre-shared key.
    pub authenticated: bool,
    /// Smallest round-trip time of the idle control connection before the load, ns.
    pub base_rtt_ns: u64,
    /// Round trip of a UDP datagram to the same port before the load, ns; `None` without an answer.
    pub udp_rtt_ns: Option<u64>,
    /// True if the server runs on the client's host, perhaps in another network namespace.
    #[serde(default)]
    pub same_host: bool,
}

/// One interval, both ends side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Interval {
    /// Number, from 0.
    pub index: u32,
    /// Start, ns since the phase's start.
    pub start_ns: u64,
    /// End, ns since the phase's start.
    pub end_ns: u64,
    /// True if it lies in the omitted start.
    pub omitted: bool,
    /// Payload that this end counted.
    pub local: Traffic,
    /// Payload that the remote ends counted, summed; `None` when no report arrived.
    pub remote: Option<Traffic>,
    /// Bytes beside payload, where the original of a legacy protocol counts them, too.
    #[serde(skip_serializing_if = "Framing::is_none")]
    pub framing: Framing,
    /// Connections open at its end.
    pub in_flight: u64,
    /// Connections completed or stopped in good order since the start.
    pub completed: u64,
    /// Network errors since the start.
    pub network_errors: u64,
    /// Data and protocol errors since the start.
    pub data_errors: u64,
    /// Connections opened in this interval.
    pub opened: u64,
    /// Segments retransmitted by this end in this interval, according to samples.
    pub retransmits: u64,
    /// Frames received in this interval; `None` when no stream is measured.
    pub frames: Option<Frames>,
    /// Round trips that ended in this interval; `None` when they are not measured.
    pub pings: Option<PingInterval>,
    /// Counts and delays of datagrams at this end in this interval, when they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Box<PacketReport>>,
    /// Counts and delays of datagrams at all remote ends together; `None` when no report arrived.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_packets: Option<Box<PacketReport>>,
    /// TCP_INFO of up to 64 open connections at its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Counts of `local` that are not known; their fields are 0.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
}

/// Bytes of a datagram that compares clocks.
const OWN_DATAGRAM: u64 = 144;

/// Control messages and comparisons of clocks between set-up and end, both ways, as the client saw
/// them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct OwnTraffic {
    /// Control messages.
    pub messages: u64,
    /// Their bytes, without headers.
    pub message_bytes: u64,
    /// Datagrams that compare clocks.
    pub datagrams: u64,
    /// Their bytes, without headers.
    pub datagram_bytes: u64,
}

impl OwnTraffic {
    /// True if no counter moved.
    pub fn is_none(&self) -> bool {
        *self == OwnTraffic::default()
    }

    /// The datagrams of a whole phase: 144 bytes each.
    pub(crate) fn of(tally: &Tally) -> Self {
        let datagrams = tally.packets.as_deref().map_or(0, |packets| packets.own);
        OwnTraffic {
            datagrams,
            datagram_bytes: datagrams.saturating_mul(OWN_DATAGRAM),
            ..OwnTraffic::default()
        }
    }

    /// Messages and datagrams together.
    pub fn count(&self) -> u64 {
        self.messages.saturating_add(self.datagrams)
    }

    /// Payload bytes of both together.
    pub fn bytes(&self) -> u64 {
        self.message_bytes.saturating_add(self.datagram_bytes)
    }
}

/// Counts of one end over a phase. Only `traffic` leaves out the omitted start, and payload after
/// the end.
///
/// Wide: one object of the JSON, a member for each figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Totals {
    /// The end: the address for a remote one.
    pub who: String,
    /// Payload and the time it took.
    pub traffic: Traffic,
    /// Bytes beside payload, where the original of a legacy protocol counts them, too.
    #[serde(skip_serializing_if = "Framing::is_none")]
    pub framing: Framing,
    /// Own traffic of the two ends, where a protocol counts it.
    #[serde(skip_serializing_if = "OwnTraffic::is_none")]
    pub own: OwnTraffic,
    /// Connections established.
    pub opened: u64,
    /// Connections that moved all their bytes.
    pub completed: u64,
    /// Connections ended early, in good order, because the run ended.
    pub stopped: u64,
    /// Network errors.
    pub network_errors: u64,
    /// Data errors.
    pub data_errors: u64,
    /// Protocol errors.
    pub protocol_errors: u64,
    /// Frames received; `None` when no stream is measured.
    pub frames: Option<Frames>,
    /// Round trips; `None` when they are not measured.
    pub pings: Option<Box<RoundTrips>>,
    /// Counts and delays of datagrams, late ones included, when they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Box<PacketReport>>,
    /// IP fields of received messages of round trips, where a class was asked for; `packets` has the
    /// fields of datagrams on a schedule.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<IpFields>,
    /// When frames of streams were complete; `None` when that is not known.
    pub playout: Option<PlayoutSummary>,
    /// Failures by cause, most frequent first, at most 32.
    pub causes: Vec<CauseCount>,
    /// Most connections open at once; of several workers the sum of their own maxima in an
    /// interval.
    pub peak: u64,
    /// Time to connect, ns.
    pub connect_ns: Option<DistSummary>,
    /// Life of completed connections, ns.
    pub transfer_ns: Option<DistSummary>,
    /// Rate of ended connections, both directions together, bytes/s.
    pub rate: Option<DistSummary>,
    /// The rate of each slot over the life of its ended connections, bytes/s, for Jain's index.
    pub rates: Moments,
    /// Lateness of paced sends, ns.
    pub late_ns: Option<DistSummary>,
    /// By remote address.
    pub remotes: BTreeMap<IpAddr, Remote>,
    /// Servers that were named and at which a client whose protocol has no conversation measured
    /// nothing.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub idle_servers: Vec<String>,
    /// Sums of TCP_INFO over ended connections.
    pub tcp: TcpTotals,
    /// Settings as the kernel applied them.
    pub effective: Option<Effective>,
    /// CPU time.
    pub cpu: Option<CpuUse>,
    /// Counters that moved.
    pub counters: HostCounters,
    /// Largest number of other runs' sessions seen on this server during the phase.
    pub others: u32,
    /// Way of reading: `compare`, `read`, `discard` (`MSG_TRUNC`); empty when not known.
    pub receive: String,
    /// Counts that this end does not have; their fields are 0.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
    /// The limit of this server that ended the phase.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<String>,
}
