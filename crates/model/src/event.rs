//! A run, told as it happens. The same events feed the live printout, the journal on disk and the outcome.

mod rows;

pub use rows::{ConnectionRecord, Failure, FrameRow, FrameVerdict, Portion, sampled_rtt_ns};

use crate::{
    Baseline, Counts, CpuUse, Effective, Extra, FlowRow, FrameTimes, HostCounters, HostSnapshot, Links,
    PacketReport, PacketRow, Phase, PingInterval, PingRow, RoundTrips, Served, Status, Traffic, Trains,
};
use metrics::{
    CauseCount, DistSummary, Frames, Framing, Moments, PlayoutSummary, Remote, Sample, TcpTotals,
    TrainPacket, Wall,
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
        /// What a sweep varies, name to value; empty without a sweep.
        label: BTreeMap<String, String>,
        /// Which repetition, from 1.
        repeat: u32,
        /// What was asked for.
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
    /// What one connection moved, with its calls; told before its end, where the original tells that.
    Portion(Box<Portion>),
    /// Frames of a media stream that were judged since the last such event, in order.
    Frames {
        /// The stream.
        id: Uuid,
        /// One row per frame.
        rows: Vec<FrameRow>,
    },
    /// Messages of which something is known since the last such event, as it became known; told when asked for.
    Pings {
        /// One row per message.
        rows: Vec<PingRow>,
    },
    /// Local baseline of the round trips of the next phase, or of this one.
    Baseline(Box<Baseline>),
    /// What was found of packet trains.
    Trains(Box<Trains>),
    /// When the frames of a stream came, of a run that is told again: [`Event::Frames`] tells each of one that goes on.
    FrameTimes(Box<FrameTimes>),
    /// The packets of trains, in the order of their schedule; told when asked for.
    TrainPackets {
        /// One row per packet.
        rows: Vec<TrainPacket>,
    },
    /// Flows of datagrams one by one, where there are several.
    Flows {
        /// One row per flow.
        rows: Vec<FlowRow>,
    },
    /// Datagrams, one flow and direction after the other; told when asked for.
    Packets {
        /// One row per datagram.
        rows: Vec<PacketRow>,
    },
    /// What only one protocol has to say.
    Extra(Extra),
    /// How a session of a server stands: when that changes, and each of its intervals; told when asked for.
    Served(Box<Served>),
    /// Traffic of every open link of a server; reported only if asked for.
    Links(Box<Links>),
    /// Something a person should know now.
    Notice {
        /// How bad.
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
        /// How it ended.
        status: Status,
        /// Why, when not as planned.
        reason: Option<String>,
    },
    /// The run is over.
    End {
        /// How it ended.
        status: Status,
        /// Why, when not as planned.
        reason: Option<String>,
    },
}

crate::tagged_document!(Event, "event");

/// How bad a notice is.
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

/// The version of a document. A value that is made has this build's; one that is read and does not say it has none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
#[serde(default)]
pub struct Begin {
    /// The version of the documents that the run writes, [`crate::SCHEMA`]; journals of builds that did not say it have none.
    #[serde(default = "SchemaName::unsaid")]
    pub schema: SchemaName,
    /// Version of this program.
    pub version: String,
    /// The command line, word by word.
    pub command: Vec<String>,
    /// `tcp`, `connect`, `serve`, `demo`.
    pub verb: String,
    /// What is spoken, as `--protocol` names it.
    pub protocol: String,
    /// Identifies the run on both ends.
    pub run: Uuid,
    /// Wall clock at the start, ns since the epoch.
    pub started: Wall,
    /// The names or addresses given.
    pub targets: Vec<String>,
    /// This host.
    pub host: HostSnapshot,
    /// Placement of the workers: `spread`, or the cores they were pinned to.
    pub placement: String,
    /// Worker threads.
    pub workers: u32,
}

/// A difference between what was asked for and what the server gives.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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

/// What a server granted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Accepted {
    /// The session's number on the server.
    pub session: u64,
    /// What it reduced.
    pub changes: Vec<Change>,
    /// Other runs' sessions on the server at that moment.
    pub others: u32,
}

/// A session as the client knows it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionInfo {
    /// The name given on the command line.
    pub target: String,
    /// The address it resolved to.
    pub address: SocketAddr,
    /// Version of the server.
    pub version: String,
    /// What it granted.
    pub accepted: Accepted,
    /// The server's host.
    pub host: HostSnapshot,
    /// The server's worker threads.
    pub workers: u32,
    /// Placement of the server's workers.
    pub placement: String,
    /// Whether both ends proved to know the pre-shared key.
    pub authenticated: bool,
    /// Smallest round-trip time of the idle control connection before the load, ns.
    pub base_rtt_ns: u64,
    /// Round trip of a UDP datagram to the same port before the load, ns; `None` if none came back.
    pub udp_rtt_ns: Option<u64>,
    /// Whether the server runs on the client's host, perhaps in another network namespace.
    #[serde(default)]
    pub same_host: bool,
}

/// One interval, both ends side by side.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Interval {
    /// Number, from 0.
    pub index: u32,
    /// Start, ns since the phase's start.
    pub start_ns: u64,
    /// End, ns since the phase's start.
    pub end_ns: u64,
    /// Whether it lies in the omitted start.
    pub omitted: bool,
    /// What we counted.
    pub local: Traffic,
    /// What the remote ends counted, summed; `None` when no report came.
    pub remote: Option<Traffic>,
    /// What went beside payload, where the original of a legacy protocol counts that, too.
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
    /// Segments retransmitted by us in this interval, as far as sampled.
    pub retransmits: u64,
    /// Frames received in this interval, when streams are measured.
    pub frames: Option<Frames>,
    /// Round trips in this interval, when they are measured.
    pub pings: Option<PingInterval>,
    /// What we found out about datagrams in this interval, when they are counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Box<PacketReport>>,
    /// What the remote ends did, together; `None` when no report came.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_packets: Option<Box<PacketReport>>,
    /// TCP_INFO of up to 64 open connections at its end.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub samples: Vec<Sample>,
    /// Counts of `local` that are not known; their fields are 0.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
}

/// What one end counted over a phase. Only `traffic` leaves the omitted start, and what moves after the end, out.
///
/// Wide: one object of the JSON, a member for each figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Totals {
    /// Which end (the address, for a remote end).
    pub who: String,
    /// Payload bytes and the time they took.
    pub traffic: Traffic,
    /// What went beside payload, where the original of a legacy protocol counts that, too.
    #[serde(skip_serializing_if = "Framing::is_none")]
    pub framing: Framing,
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
    /// Frames received, when streams are measured.
    pub frames: Option<Frames>,
    /// Round trips, when they are measured.
    pub pings: Option<Box<RoundTrips>>,
    /// What was found out about datagrams, when they are counted; what comes in after the end is in here, too.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub packets: Option<Box<PacketReport>>,
    /// When frames of streams were complete, where that is known.
    pub playout: Option<PlayoutSummary>,
    /// Failures by cause, most frequent first, at most 32.
    pub causes: Vec<CauseCount>,
    /// Most connections open at once; of several workers the sum of what each had open at most in an interval.
    pub peak: u64,
    /// Time to connect, ns.
    pub connect_ns: Option<DistSummary>,
    /// Life of completed connections, ns.
    pub transfer_ns: Option<DistSummary>,
    /// Rate of ended connections, bytes/s.
    pub rate: Option<DistSummary>,
    /// The rate of each slot over the life of its ended connections, bytes/s, for Jain's index.
    pub rates: Moments,
    /// How late paced sends left, ns.
    pub late_ns: Option<DistSummary>,
    /// By remote address.
    pub remotes: BTreeMap<IpAddr, Remote>,
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
    /// How receivers read: `compare`, `read`, `discard` (`MSG_TRUNC`).
    pub receive: String,
    /// Counts that this end does not have; their fields are 0.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
}
