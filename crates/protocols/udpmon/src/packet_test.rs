//! UDPmon's tests: settings and results. The tool counts in tenths of a microsecond, called
//! *tenths* here.

use crate::NAME;
use crate::packet_stats::TENTH;
use common::message::{Counted, SharedMessage};
use metrics::{Binned, Clamped, Packets, SocketState, Wall};
use model::{Event, Extra, Outcome, Phase, Point};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

/// Settings of a test besides the packet trains themselves. Times in tenths are tenths of a
/// microsecond.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestSettings {
    /// Kind of the test.
    pub role: PacketTestRole,
    /// UDP payload of a packet, or of a request, bytes.
    pub size: u32,
    /// Packets of a test, or of each of its bursts; requests for each size.
    pub packets: u32,
    /// Time from the start of a packet to the start of the next, tenths; a test for each. For
    /// requests: the pause after a response, tenths, the first only.
    pub waits: Vec<u32>,
    /// A test is as long as this instead of a number of packets, ns.
    pub time_ns: Option<u64>,
    /// Bursts of a test.
    pub bursts: u32,
    /// Pause after each burst, tenths.
    pub gap: u32,
    /// Bin width of the histogram of gaps, tenths (of round trips: µs).
    pub bin_width: u32,
    /// Lower edge of the histograms.
    pub low: i32,
    /// True if all histograms are wanted, not only that of gaps.
    pub histograms: bool,
    /// Records that are wanted.
    pub records: PacketTestRecords,
    /// True if kernel or hardware receive stamps are asked for.
    pub stamps: bool,
    /// True if every packet is to be acknowledged before the next leaves.
    pub acks: bool,
    /// True if CPU figures of the remote end are wanted.
    pub cpu: bool,
    /// Wait behind the last packet, ns.
    pub settle_ns: u64,
    /// True if the next packet is timed from when this one really left, as the original does,
    /// instead of from the start.
    pub drift: bool,
    /// Response sizes, bytes: first, last (included), step.
    pub responses: (u32, u32, u32),
    /// Period of a receiver's snapshots, ns.
    pub every_ns: Option<u64>,
    /// Interfaces whose own counters a server is to read.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<String>,
}

/// Which of UDPmon's programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PacketTestRole {
    /// `udpmon_bw_mon`: a stream, and the responder's counts of it.
    #[default]
    Stream,
    /// `udpmon_req`: requests and responses.
    Latency,
    /// `udpmon_send`: a stream, without any request for counts.
    Send,
}

/// Records that a responder is to keep.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum PacketTestRecords {
    /// None.
    #[default]
    None,
    /// Of `n` packets after the first `skip` (`-G`).
    Packets {
        /// Packets without a record.
        skip: u32,
        /// Records.
        n: u32,
    },
    /// Of `n` lost packets after the first `skip` packets (`-L`).
    Lost {
        /// Packets without a record.
        skip: u32,
        /// Records.
        n: u32,
    },
}

impl Default for PacketTestSettings {
    fn default() -> Self {
        PacketTestSettings {
            role: PacketTestRole::Stream,
            size: 64,
            packets: 2,
            waits: vec![0],
            time_ns: None,
            bursts: 1,
            gap: 0,
            bin_width: 1,
            low: 0,
            histograms: false,
            records: PacketTestRecords::None,
            stamps: false,
            acks: false,
            cpu: false,
            settle_ns: 1_000_000_000,
            drift: false,
            responses: (1472, 0, 0),
            every_ns: None,
            cards: Vec::new(),
        }
    }
}

impl PacketTestSettings {
    /// The settings that `phase` has.
    pub fn of(phase: &Phase) -> Option<Self> {
        phase.extra.as_ref()?.read(NAME)
    }

    /// As a phase has it.
    pub fn extra(&self) -> Option<Extra> {
        Some(Extra::new(NAME, self))
    }

    /// Time from the start of the first packet to the start of the next, tenths.
    pub(super) fn wait(&self) -> u32 {
        self.waits.first().copied().unwrap_or(0)
    }

    /// The same, ns.
    pub(super) fn wait_ns(&self) -> u64 {
        u64::from(self.wait()) * TENTH
    }

    /// Pause after each burst, ns.
    pub(super) fn gap_ns(&self) -> u64 {
        u64::from(self.gap) * TENTH
    }

    /// True if packets have records, not only lost ones.
    pub(super) fn records_packets(&self) -> bool {
        matches!(self.records, PacketTestRecords::Packets { .. })
    }

    /// True if packet, or message, `number` has a record.
    pub(super) fn is_recorded(&self, number: u64) -> bool {
        let PacketTestRecords::Packets { skip, n } = self.records else { return false };
        let skip = u64::from(skip);
        (skip..skip + u64::from(n)).contains(&number)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// One sentence naming the first value that cannot be.
    pub fn check(&self) -> Result<(), &'static str> {
        let must = |ok, what| if ok { Ok(()) } else { Err(what) };
        must((1..=65_507).contains(&self.size), "a packet must have 1 to 65507 bytes")?;
        must(self.packets > 0 && self.bursts > 0, "there must be at least one packet, and one burst")?;
        must((1..=1 << 20).contains(&self.waits.len()), "a sweep must have 1 to 1048576 steps")?;
        must(self.bin_width > 0, "the width of a bin must be at least 1")?;
        must(self.time_ns.is_none_or(|ns| ns > 0), "the time of a test must be longer than 0")?;
        let (first, last, step) = self.responses;
        must((1..=65_507).contains(&first) && last <= 65_507, "a response must have 1 to 65507 bytes")?;
        must(last < first || step > 0, "the step between response sizes must be at least 1")?;
        let most = match self.records {
            PacketTestRecords::None => 0,
            PacketTestRecords::Packets { n, .. } | PacketTestRecords::Lost { n, .. } => n,
        };
        must(most <= 1_000_000, "there can be records of at most 1000000 packets")
    }
}

/// Results of one test, or a responder's or receiver's counts so far. Times in tenths are tenths of
/// a microsecond.
///
/// Wide: one object of the JSON, with a member for each result of the original's tests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTest {
    /// The remote end's address.
    pub peer: String,
    /// Own address of a requester; empty where it is not known.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub address: String,
    /// When it began, ns since 1970-01-01T00:00:00Z.
    pub started: Wall,
    /// When a receiver reported it, ns since 1970-01-01T00:00:00Z.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub told: Option<Wall>,
    /// UDP payload of a packet, bytes.
    pub size: u32,
    /// Time between the starts of two packets, tenths.
    pub wait: u32,
    /// Packets sent.
    pub sent: u64,
    /// Packets that the system refused to send.
    pub refused: u64,
    /// From the first packet of the first burst until the wait behind the last packet was over, ns.
    pub send_ns: u64,
    /// From the first packet of the last burst until the wait behind its last packet was over, ns:
    /// UDPmon divides by this.
    pub last_burst_ns: u64,
    /// Acknowledgements.
    pub acks: u64,
    /// Requests that had to be repeated.
    pub timeouts: u64,
    /// Counts of the receiver; `None` when it did not report any.
    pub counts: Option<PacketTestCounts>,
    /// Histogram of the times between packets, tenths; with tcpmon of the times that messages took
    /// to be sent, µs.
    pub gaps: Option<Binned>,
    /// The other histograms, in order: lost in a row, out of order, times between stamps (ns),
    /// twice.
    pub others: Vec<Binned>,
    /// One per packet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub records: Vec<PacketTestRecord>,
    /// One per lost packet.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub lost: Vec<PacketTestLost>,
    /// With tcpmon: the times that messages took to be sent, one by one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub puts: Vec<PacketTestPut>,
    /// With tcpmon: the connection.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub connection: Option<Uuid>,
    /// The remote clock, if known: ours is `slope · remote + offset`, µs since either's zero.
    pub clock: Option<PacketTestClock>,
    /// Counters of this host during the test.
    pub local: PacketTestHost,
    /// Counters of the remote host during the test.
    pub remote: PacketTestHost,
    /// With tcpmon, of a test that goes on: payload of the connection's longest segment, bytes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mss: Option<u32>,
    /// With tcpmon: segments that the kernel sent again, if known.
    pub retransmitted: Option<u64>,
    /// With `udpmon_req`: the round trips of one size.
    pub latency: Option<PacketTestLatency>,
    /// True if the test is over; otherwise this is a snapshot.
    pub over: bool,
}

impl PacketTest {
    /// As a result that every output shows.
    pub fn result(&self) -> Extra {
        Extra { shown: Some(Box::new(self.shown())), ..Extra::new(NAME, self) }
    }

    /// Wraps it in an event.
    pub fn event(&self) -> Event {
        Event::Extra(self.result())
    }

    /// The test that `event` holds, if any.
    pub fn from_event(event: &Event) -> Option<Self> {
        event.extra_of(NAME)
    }

    /// The remote end's counts of it, for the totals of the run.
    pub(super) fn counted(&self, receive: &'static str, datagrams: bool) -> Option<SharedMessage> {
        let counts = self.counts?;
        // UDPmon reports packets, tcpmon bytes.
        let bytes =
            if counts.bytes > 0 { counts.bytes } else { counts.received.saturating_mul(self.size.into()) };
        let packets = || Packets {
            received: counts.received,
            lost: i64::try_from(counts.lost).unwrap_or(i64::MAX),
            reordered: counts.bad_order,
            ..Packets::default()
        };
        // From the first packet to the last there are as many gaps as packets but one.
        let gaps = u64::clamped(counts.span.max(0))
            .saturating_mul(TENTH)
            .checked_div(counts.received.saturating_sub(1));
        let ns = gaps.unwrap_or(0).saturating_mul(counts.received);
        Some(SharedMessage::Counted(Box::new(Counted {
            receive,
            bytes,
            ns,
            packets: datagrams.then(packets),
        })))
    }

    /// The tests of a phase.
    pub fn of(point: &Point) -> impl Iterator<Item = Self> {
        point.extras.iter().filter_map(|extra| extra.read(NAME))
    }

    /// The tests of a run.
    pub fn all(outcome: &Outcome) -> impl Iterator<Item = Self> {
        outcome.points.iter().flat_map(Self::of)
    }
}

/// Counts of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestCounts {
    /// Packets, repeats included.
    pub received: u64,
    /// Packets that had not arrived before one of a higher number; our receiver subtracts packets
    /// that arrived later.
    pub lost: u64,
    /// Packets that arrived after one of a higher number, or again.
    pub bad_order: u64,
    /// Payload bytes; 0 where the receiver does not report them.
    pub bytes: u64,
    /// From the first packet to the last, tenths.
    pub span: i64,
}

impl PacketTestCounts {
    /// The difference to `before`.
    pub(super) fn since(&self, before: &PacketTestCounts) -> Self {
        PacketTestCounts {
            received: self.received.saturating_sub(before.received),
            lost: self.lost.saturating_sub(before.lost),
            bad_order: self.bad_order.saturating_sub(before.bad_order),
            bytes: self.bytes.saturating_sub(before.bytes),
            span: self.span.saturating_sub(before.span),
        }
    }
}

/// A packet's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PacketTestRecord {
    /// Arrival, tenths since the responder's zero; 0 for one that did not arrive.
    pub received: i64,
    /// Departure, tenths since the requester's zero.
    pub sent: i64,
    /// The kernel's stamp, ns; 0 without.
    pub system_ns: i64,
    /// The card's stamp, ns; 0 without.
    pub raw_ns: i64,
}

/// A lost packet's record.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PacketTestLost {
    /// Arrival of the last packet before it, tenths.
    pub received: i64,
    /// Departure of that packet, tenths.
    pub sent: i64,
    /// The number of the lost packet.
    pub number: i64,
}

/// Time of sending or reading a message of tcpmon.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestPut {
    /// From its beginning until the kernel had taken all of it, ns; with a responder from when
    /// reading was begun until all was read.
    pub took_ns: u64,
    /// When it was begun, ns since the beginning of its burst; with a responder since the
    /// connection was accepted.
    pub at_ns: u64,
    /// Number of sends; with a responder number of reads behind its head.
    pub sends: u32,
    /// Its length, bytes; 0 where unknown.
    pub bytes: u64,
    /// The kernel's figures of the connection when the message was begun.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub socket: Option<SocketState>,
}

/// Relation of the two clocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub struct PacketTestClock {
    /// Always 1: two exchanges some milliseconds apart say nothing about a slope.
    pub slope: f64,
    /// Offset from the exchange with the shortest round trip, µs.
    pub offset: f64,
    /// Error bound of `offset`, µs.
    pub bound: f64,
    /// Slope and offset by UDPmon's least squares over all exchanges.
    pub original: (f64, f64),
}

/// Round trips of one response size, ns.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestLatency {
    /// Response size, bytes.
    pub response: u32,
    /// Requests answered.
    pub count: u64,
    /// Requests that were not answered in time.
    pub missing: u64,
    /// Responses that arrived after the next request had left, or twice.
    pub stray: u64,
    /// Duration of all of it, pauses included, ns.
    pub total_ns: u64,
    /// Sum of the round trips, ns.
    pub sum_ns: u64,
    /// Shortest round trip, ns.
    pub min_ns: u64,
    /// Longest round trip, ns.
    pub max_ns: u64,
    /// Round trips, µs.
    pub histogram: Binned,
}

/// Counters of a host during a test.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestHost {
    /// Shares of CPU time: all CPUs together, then each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cpus: Vec<PacketTestCpu>,
    /// Interfaces.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub interfaces: Vec<PacketTestInterface>,
    /// Counters of IP, UDP and TCP.
    pub ip: PacketTestIp,
    /// Counters of the requested cards.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub cards: Vec<PacketTestCard>,
}

/// Shares of a CPU's time, whole percent, rounded down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestCpu {
    /// User.
    pub user: i64,
    /// Low priority.
    pub nice: i64,
    /// Kernel, interrupts and waiting for I/O together.
    pub system: i64,
    /// Idle.
    pub idle: i64,
    /// Waiting for I/O.
    pub iowait: i64,
    /// Interrupts.
    pub irq: i64,
    /// Soft interrupts.
    pub softirq: i64,
    /// Kernel alone.
    pub kernel: i64,
}

/// Traffic of an interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestInterface {
    /// Its name.
    pub name: String,
    /// Packets, bytes, errors, drops in; the same out.
    pub counts: [i64; 8],
}

/// Counters of IP, UDP and TCP that moved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestIp {
    /// `Ip: InReceives`.
    pub in_receives: i64,
    /// `Ip: InDiscards`.
    pub in_discards: i64,
    /// `Ip: OutRequests`.
    pub out_requests: i64,
    /// `Ip: OutDiscards`.
    pub out_discards: i64,
    /// `Udp: InDatagrams`.
    pub udp_in: i64,
    /// `Udp: InErrors`.
    pub udp_in_errors: i64,
    /// `Udp: InCsumErrors`, which are among `udp_in_errors`.
    #[serde(skip_serializing_if = "is_zero")]
    pub udp_wrong_checksums: i64,
    /// `Udp: OutDatagrams`.
    pub udp_out: i64,
    /// `Tcp: InSegs`.
    pub tcp_in: i64,
    /// `Tcp: OutSegs`.
    pub tcp_out: i64,
    /// `Tcp: RetransSegs`.
    pub tcp_retransmitted: i64,
    /// `Tcp: InErrs`.
    pub tcp_in_errors: i64,
    /// `Tcp: OutRsts`.
    pub tcp_resets: i64,
}

impl PacketTestIp {
    /// Datagrams that the host's own receive buffers had no room for; datagrams with wrong
    /// checksums were damaged on the way.
    pub fn udp_dropped(&self) -> u64 {
        u64::try_from(self.udp_in_errors.saturating_sub(self.udp_wrong_checksums)).unwrap_or(0)
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it so")]
fn is_zero(n: &i64) -> bool {
    *n == 0
}

/// A card's counters.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketTestCard {
    /// Name of the interface.
    pub name: String,
    /// Counters, in UDPmon's order; -1 for one that it has not.
    pub counts: Vec<i64>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::schema::Published;
    use serde_json::json;

    #[test]
    fn what_cannot_be_is_named() {
        assert_eq!(PacketTestSettings::default().check(), Ok(()));
        let with = |change: fn(&mut PacketTestSettings)| {
            let mut asked = PacketTestSettings::default();
            change(&mut asked);
            asked.check().unwrap_err()
        };
        assert!(with(|u| u.size = 65_508).contains("65507"));
        assert!(with(|u| u.bin_width = 0).contains("bin"));
        assert!(with(|u| u.responses = (64, 100, 0)).contains("step"));
        assert!(
            with(|u| u.records = PacketTestRecords::Packets { skip: 0, n: 2_000_000 }).contains("1000000")
        );
    }

    /// A test and what was asked for, in which every field has a value.
    fn full() -> (PacketTest, PacketTestSettings) {
        let hist = Binned { low: 0, width: 5, bins: vec![1, 2], under: 3, over: 4, sum: 12 };
        let host = PacketTestHost {
            cpus: vec![PacketTestCpu::default()],
            interfaces: vec![PacketTestInterface { name: "lo".to_owned(), counts: [1; 8] }],
            ip: PacketTestIp::default(),
            cards: vec![PacketTestCard { name: "eth0".to_owned(), counts: vec![-1, 5] }],
        };
        let socket = Some(SocketState { number: 3, rcvbuf: 4, ..SocketState::default() });
        let put = PacketTestPut { took_ns: 1, at_ns: 2, sends: 3, bytes: 4, socket };
        let test = PacketTest {
            peer: "10.0.0.1:14233".to_owned(),
            address: "10.0.0.2".to_owned(),
            told: Some(Wall(5)),
            counts: Some(PacketTestCounts::default()),
            gaps: Some(hist.clone()),
            others: vec![hist.clone()],
            records: vec![PacketTestRecord { received: 1, sent: 2, system_ns: 3, raw_ns: 4 }],
            lost: vec![PacketTestLost { received: 1, sent: 2, number: 3 }],
            puts: vec![put],
            connection: Some(Uuid::from_u128(9)),
            clock: Some(PacketTestClock::default()),
            local: host.clone(),
            remote: host,
            mss: Some(1),
            retransmitted: Some(1),
            latency: Some(PacketTestLatency { histogram: hist, ..PacketTestLatency::default() }),
            over: true,
            ..PacketTest::default()
        };
        let asked = PacketTestSettings {
            records: PacketTestRecords::Packets { skip: 1, n: 2 },
            time_ns: Some(1),
            every_ns: Some(2),
            cards: vec!["eth0".to_owned()],
            ..PacketTestSettings::default()
        };
        (test, asked)
    }

    /// A test of UDPmon or tcpmon, or in a phase the settings of one.
    #[derive(schemars::JsonSchema)]
    #[serde(untagged)]
    #[expect(dead_code, reason = "only described")]
    enum Written {
        Test(Box<PacketTest>),
        Settings(PacketTestSettings),
    }

    const PUBLISHED: Published = Published {
        file: "udpmon.v1.json",
        id: "urn:netcaliper:udpmon:v1",
        title: "The value of an extra of udpmon",
    };

    #[test]
    fn the_schema_is_that_of_the_types() {
        PUBLISHED.check::<Written>().unwrap();
    }

    #[test]
    fn what_is_written_is_valid() {
        let defs = &PUBLISHED.read().unwrap()["$defs"];
        let (test, asked) = full();
        for (name, value) in [("PacketTest", json!(test)), ("PacketTestSettings", json!(asked))] {
            let part = json!({"$ref": format!("#/$defs/{name}"), "$defs": defs});
            let validator = jsonschema::validator_for(&part).unwrap();
            let complaints: Vec<String> = validator.iter_errors(&value).map(|e| e.to_string()).collect();
            assert_eq!(complaints, [""; 0]);
        }
    }

    #[test]
    fn a_test_is_read_as_it_was_told() {
        let (test, asked) = full();
        assert_eq!(PacketTest::from_event(&test.event()), Some(test));
        let phase = Phase { extra: asked.extra(), ..Phase::default() };
        assert_eq!(PacketTestSettings::of(&phase), Some(asked));
    }
}
