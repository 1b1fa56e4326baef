//! Tests of iperf3's protocol: agreed parameters, counts of each stream, results of both ends.

use crate::NAME;
use metrics::{TcpInfo, Wall};
use model::{Event, Pattern};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use std::net::SocketAddr;

/// The agreement of the two ends. A number that is 0 is not set, unless its comment says otherwise;
/// by default nothing is.
///
/// Wide: a field for each parameter that an original knows.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default = "BulkTerms::usual")]
pub struct BulkTerms {
    /// Datagrams, not TCP.
    pub udp: bool,
    /// Streams in each direction.
    pub streams: u32,
    /// The server sends.
    pub reverse: bool,
    /// Both send, each on its own streams.
    pub bidir: bool,
    /// Part at the start that does not count, s.
    pub omit_s: u32,
    /// Length after that, s.
    pub time_s: u32,
    /// Bytes after which it ends, all streams of a direction together.
    pub bytes: u64,
    /// Blocks (writes, datagrams) after which it ends, likewise.
    pub blocks: u64,
    /// Bytes of a block.
    pub block: u32,
    /// Rate of a stream, bits/s.
    pub rate: u64,
    /// Blocks sent back to back.
    pub burst: u32,
    /// Socket buffers, bytes.
    pub window: u64,
    /// `TCP_MAXSEG`, bytes.
    pub mss: u32,
    /// `TCP_NODELAY`.
    pub nodelay: bool,
    /// Traffic class octet.
    pub tos: u8,
    /// IPv6 flow label.
    pub flow_label: u32,
    /// `TCP_CONGESTION`.
    pub congestion: Option<String>,
    /// The kernel's pacing rate, bits/s.
    pub fq_rate: u64,
    /// Prefix of printed lines.
    pub title: Option<String>,
    /// Text for the results.
    pub extra_data: Option<String>,
    /// The client wants the server's printout.
    pub server_output: bool,
    /// Datagrams have numbers of 64 bits.
    pub wide: bool,
    /// The payload repeats a short pattern.
    pub repeating: bool,
    /// Senders copy nothing.
    pub zerocopy: bool,
    /// Receivers copy nothing.
    pub discard: bool,
    /// Datagrams must not be fragmented.
    pub dont_fragment: bool,
    /// Multipath TCP.
    pub mptcp: bool,
    /// The core that the server's streams are to run on.
    pub server_core: Option<u32>,
    /// Datagrams are cut apart by the kernel.
    pub gso: bool,
    /// Datagrams are merged by the kernel.
    pub gro: bool,
    /// Program and version of the client, as it sends them.
    pub version: String,
}

impl BulkTerms {
    /// Parameters of an iperf3 client without options.
    pub fn usual() -> Self {
        BulkTerms { streams: 1, time_s: 10, block: 128 * 1024, ..BulkTerms::default() }
    }

    /// Streams of both directions.
    pub fn all_streams(&self) -> u32 {
        self.streams.saturating_mul(if self.bidir { 2 } else { 1 })
    }

    /// Which end sends.
    pub fn pattern(&self) -> Pattern {
        match (self.bidir, self.reverse) {
            (true, _) => Pattern::Duplex,
            (false, true) => Pattern::Pull,
            (false, false) => Pattern::Push,
        }
    }

    /// True if the client sends on the stream at this place.
    pub fn client_sends(&self, slot: u32) -> bool {
        if self.bidir { slot < self.streams } else { !self.reverse }
    }
}

/// An event of one test between two ends that speak iperf3.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct Bulk {
    /// Its number, from 1; a server has many at once.
    pub test: u64,
    /// The event.
    pub news: BulkNews,
}

impl Bulk {
    /// Wraps it in an event.
    pub fn event(&self) -> Event {
        Event::extra(NAME, self)
    }

    /// The test's event that `event` holds, if any.
    pub fn of(event: &Event) -> Option<Bulk> {
        event.extra_of(NAME)
    }
}

/// Events of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum BulkNews {
    /// A control connection is there.
    Met {
        /// The peer.
        peer: SocketAddr,
        /// Our end.
        local: SocketAddr,
        /// Identifier of the test on the wire.
        cookie: String,
        /// Wall clock.
        at: Wall,
    },
    /// Payload may flow.
    Begun(Box<BulkBegun>),
    /// An interval is over.
    Interval {
        /// True in the omitted start.
        omitted: bool,
        /// A row for each stream.
        rows: Vec<StreamRow>,
    },
    /// The test is over, and both ends have results.
    Ended(Box<BulkEnded>),
    /// The test failed.
    Failed {
        /// Why.
        error: String,
    },
}

/// A test begins.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BulkBegun {
    /// We are the server.
    pub serving: bool,
    /// Agreed parameters.
    pub terms: BulkTerms,
    /// The streams in order.
    pub streams: Vec<BulkStream>,
    /// Wall clock.
    pub at: Wall,
}

/// One stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BulkStream {
    /// Its place, from 0.
    pub slot: u32,
    /// We send on it.
    pub sender: bool,
    /// Our end.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

/// Our counts of a stream in a stretch of time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StreamRow {
    /// Its place, from 0.
    pub slot: u32,
    /// We send on it.
    pub sender: bool,
    /// Start, ns since the start of the test, or since the end of its omitted part.
    pub start_ns: u64,
    /// End, likewise.
    pub end_ns: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// Datagrams sent (sender) or expected (receiver).
    pub packets: u64,
    /// Missing datagrams; below 0 when more arrived late, after they had counted as missing, than
    /// are missing.
    pub lost: i64,
    /// Datagrams that arrived after one with a higher number.
    pub out_of_order: u64,
    /// Repeated datagrams that were recognised.
    pub duplicates: u64,
    /// Jitter (RFC 1889 A.8), ns.
    pub jitter_ns: f64,
    /// Segments that were sent again; `None` where that is not known.
    pub retransmits: Option<u64>,
    /// TCP_INFO at the end of that time.
    pub info: Option<TcpInfo>,
}

/// The peer's result of a stream.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RemoteRow {
    /// Its place, from 0.
    pub slot: u32,
    /// Payload bytes.
    pub bytes: u64,
    /// Segments sent again; `None` when it does not know.
    pub retransmits: Option<u64>,
    /// Jitter, ns.
    pub jitter_ns: f64,
    /// Datagrams lost, without the omitted part.
    pub lost: i64,
    /// Datagrams sent (sender) or expected (receiver), without the omitted part.
    pub packets: i64,
    /// Length, ns; `None` when it does not say.
    pub ns: Option<u64>,
}

/// Shares of one CPU over a test, percent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct BulkCpu {
    /// Both together.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
}

/// The end of a test, with the results of this end and of the peer.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct BulkEnded {
    /// Our counts of each stream from the end of the omitted part on.
    pub local: Vec<StreamRow>,
    /// The peer's results; empty if it sent none.
    pub remote: Vec<RemoteRow>,
    /// Our CPU.
    pub cpu: BulkCpu,
    /// The peer's.
    pub remote_cpu: Option<BulkCpu>,
    /// Our congestion control.
    pub congestion: Option<String>,
    /// The peer's.
    pub remote_congestion: Option<String>,
    /// The server's printout, text or a JSON document, if it was requested and has arrived.
    pub server_output: Option<ServerOutput>,
    /// Reason why the test did not end as planned.
    pub error: Option<String>,
}

/// Printout of a server.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum ServerOutput {
    /// Text.
    Text(String),
    /// A JSON document, as received.
    Json(String),
}

impl ServerOutput {
    /// Name and value of the member that has it in iperf3's documents.
    pub(crate) fn member(&self) -> (&'static str, Value) {
        match self {
            ServerOutput::Text(text) => ("server_output_text", json!(text)),
            ServerOutput::Json(text) => {
                ("server_output_json", serde_json::from_str(text).unwrap_or(Value::Null))
            }
        }
    }
}

/// Renders a server's printout of one test from all its events.
pub type Render = fn(&[Bulk]) -> ServerOutput;

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::schema::Published;

    /// An event of each kind, with a value in each field.
    fn all() -> Vec<Bulk> {
        let (local, remote): (SocketAddr, SocketAddr) =
            (([10, 0, 0, 1], 1).into(), ([10, 0, 0, 2], 2).into());
        let row = StreamRow { retransmits: Some(1), info: Some(TcpInfo::default()), ..StreamRow::default() };
        let peers = RemoteRow { retransmits: Some(1), ns: Some(1), ..RemoteRow::default() };
        let word = || Some("cubic".to_owned());
        let terms =
            BulkTerms { congestion: word(), title: word(), extra_data: word(), ..BulkTerms::default() };
        let terms = BulkTerms { server_core: Some(1), ..terms };
        let streams = vec![BulkStream { slot: 0, sender: true, local, remote }];
        let ended = |server_output| BulkEnded {
            local: vec![row],
            remote: vec![peers],
            remote_cpu: Some(BulkCpu::default()),
            congestion: word(),
            remote_congestion: word(),
            server_output: Some(server_output),
            error: word(),
            ..BulkEnded::default()
        };
        let all = [
            BulkNews::Met { peer: remote, local, cookie: "c".to_owned(), at: Wall(1) },
            BulkNews::Begun(Box::new(BulkBegun { serving: true, terms, streams, at: Wall(1) })),
            BulkNews::Interval { omitted: false, rows: vec![row] },
            BulkNews::Ended(Box::new(ended(ServerOutput::Text(String::new())))),
            BulkNews::Ended(Box::new(ended(ServerOutput::Json(String::new())))),
            BulkNews::Failed { error: "e".to_owned() },
        ];
        all.into_iter().map(|news| Bulk { test: 1, news }).collect()
    }

    const PUBLISHED: Published = Published {
        file: "iperf3.v1.json",
        id: "urn:netcaliper:iperf3:v1",
        title: "The value of an extra of iperf3: something about one test",
    };

    #[test]
    fn the_schema_is_that_of_the_types() {
        PUBLISHED.check::<Bulk>().unwrap();
    }

    #[test]
    fn what_is_written_is_valid_and_read_again() {
        let validator = jsonschema::validator_for(&PUBLISHED.read().unwrap()).unwrap();
        for bulk in all() {
            let complaints: Vec<String> =
                validator.iter_errors(&json!(bulk)).map(|e| e.to_string()).collect();
            assert_eq!(complaints, [""; 0]);
            assert_eq!(Bulk::of(&bulk.event()).as_ref(), Some(&bulk));
        }
    }
}
