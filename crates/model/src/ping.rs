//! Round trips of messages: their settings and results.

use crate::document::tagged_field;
use crate::probe::{LEAD, LEAD_RANGE};
use metrics::{Dist, IpFields, PacketTally, Packets, SECOND, Spectrum, TwoWay, percent_of};
use serde::{Deserialize, Serialize};

/// Transport of messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Transport {
    /// A stream: nothing is lost, and a late message delays all later ones.
    #[default]
    Tcp,
    /// Datagrams.
    Udp,
}

/// When messages are sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema), schemars(tag = "when"))]
#[serde(remote = "Self", rename_all = "snake_case")]
pub enum Schedule {
    /// Closed loop: the next one leaves when the last one has returned. While one is held up none
    /// are sent, so that a stall of the remote end shows in one message only (coordinated
    /// omission).
    #[default]
    Closed,
    /// Open loop: at equal distances, independent of echoes.
    Fixed {
        /// Between two messages of a connection, ns.
        gap_ns: u64,
    },
    /// Open loop: at random distances (a Poisson process), which do not beat with anything periodic
    /// on the path.
    Poisson {
        /// Between two messages of a connection on average, ns.
        gap_ns: u64,
    },
    /// Open loop: at the distances of the phase's trace, over and over.
    Trace {
        /// Between two messages of a connection on average, ns.
        gap_ns: u64,
    },
}

tagged_field!(Schedule, "when");

impl Schedule {
    /// The mean distance between messages, ns; `None` in a closed loop.
    pub fn gap_ns(self) -> Option<u64> {
        match self {
            Schedule::Closed => None,
            Schedule::Fixed { gap_ns } | Schedule::Poisson { gap_ns } | Schedule::Trace { gap_ns } => {
                Some(gap_ns)
            }
        }
    }
}

/// Messages of a round-trip measurement: size, schedule, time-out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Ping {
    /// The transport of the messages.
    pub transport: Transport,
    /// Bytes of a message.
    pub size: u32,
    /// Messages of a connection, the warm-up not among them; `None` goes on until the time is up.
    pub messages: Option<u64>,
    /// Messages at the start of each connection that do not count.
    pub warmup: u64,
    /// Most bytes of one send call (one datagram); `None` sends a message at once.
    pub chunk: Option<u32>,
    /// When messages are sent.
    pub schedule: Schedule,
    /// Wait for an echo before it is late, ns; over TCP it only ends the wait at the end.
    pub timeout_ns: u64,
    /// From agreeing to the first message of an open loop, ns: time to open the connections.
    pub lead_ns: u64,
    /// True if the ends spin instead of sleeping, the remote end if it is ours and allows it.
    pub busy: bool,
    /// True if the kernel stamps messages as they leave and echoes as they arrive; datagrams only.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    pub kernel_stamps: bool,
    /// True if every message is recorded by itself.
    pub samples: bool,
    /// The form of STAMP packets, when messages are such.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub stamp: Option<StampSettings>,
}

/// Settings of STAMP packets (RFC 8762, RFC 8972).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct StampSettings {
    /// Both ends prove to know a key (authenticated mode).
    pub authenticated: bool,
    /// The session's identifier (SSID); 0 is none.
    pub ssid: u16,
    /// Times are seconds and nanoseconds (PTP's truncated format) instead of NTP's.
    pub ptp: bool,
    /// Class of Service TLV: the DSCP that answers are to carry.
    pub cos: Option<u8>,
    /// Timestamp Information TLV: where the remote end's clock takes its time from.
    pub clock_info: bool,
    /// Follow-Up Telemetry TLV: when the last answer really left the remote end.
    pub follow_up: bool,
    /// Direct Measurement TLV: the remote end's counts of received and sent packets.
    pub direct: bool,
}

impl Default for Ping {
    fn default() -> Self {
        Ping {
            transport: Transport::Tcp,
            size: 64,
            messages: None,
            warmup: 0,
            chunk: None,
            schedule: Schedule::Closed,
            timeout_ns: SECOND,
            lead_ns: SECOND / 5,
            busy: false,
            kernel_stamps: false,
            samples: false,
            stamp: None,
        }
    }
}

/// Largest datagram over IPv4, bytes of payload.
const LARGEST_DATAGRAM: u32 = 65_507;
/// Most datagrams of one message.
pub const MOST_PIECES: u32 = 64;

impl Ping {
    /// Number of sends of a message.
    pub fn pieces(&self) -> u32 {
        self.size.div_ceil(self.chunk.unwrap_or(self.size).max(1)).max(1)
    }

    /// Checks every value.
    ///
    /// # Errors
    /// One sentence naming the first value that cannot be, and what would be accepted.
    pub fn check(&self) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        must((1..=16 << 20).contains(&self.size), "a message must be 1 byte to 16Mi")?;
        must(self.messages != Some(0), "the number of messages must be at least 1")?;
        must(self.chunk != Some(0), "the bytes of one send must be at least 1")?;
        let timeout = (1..=600 * SECOND).contains(&self.timeout_ns);
        must(timeout, "the timeout of an echo must be above 0 and at most 10 minutes")?;
        must(LEAD.contains(&self.lead_ns), LEAD_RANGE)?;
        must(
            self.schedule.gap_ns().is_none_or(|gap| (100..=3600 * SECOND).contains(&gap)),
            "the rate of an open loop must be one message an hour to ten million a second and connection",
        )?;
        let datagrams = self.transport == Transport::Udp;
        let stamped = !self.kernel_stamps || (datagrams && self.pieces() == 1);
        must(stamped, "the kernel stamps messages that are datagrams, and whole (-u)")?;
        if datagrams {
            let datagram = self.chunk.map_or(self.size, |chunk| chunk.min(self.size));
            must(datagram <= LARGEST_DATAGRAM, "a datagram holds at most 65507 bytes: split the message")?;
            must(self.pieces() <= MOST_PIECES, "a message is split into at most 64 datagrams")?;
        }
        Ok(())
    }
}

/// Numbers of messages by their fate. Of the sent ones, each is `received` (late ones among them),
/// `lost`, `damaged`, or was still waited for when its connection ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PingCounts {
    /// Sent.
    pub sent: u64,
    /// Returned whole, in time or late.
    pub received: u64,
    /// Returned whole after the timeout; part of `received`, and in the distributions.
    pub late: u64,
    /// Did not return; below 0 in an interval in which more returned late than were given up.
    pub lost: i64,
    /// Returned with other bytes, or too short.
    pub damaged: u64,
    /// Returned again.
    pub repeated: u64,
    /// Places in the schedule at which nothing was sent: the sender was held up, or too many were
    /// under way.
    pub missed: u64,
    /// Sends that the system refused.
    pub refused: u64,
    /// Messages of the warm-up, counted nowhere else.
    pub omitted: u64,
}

impl PingCounts {
    /// The counts of messages, which are counted as datagrams while they are under way.
    fn of(packets: &Packets, omitted: u64) -> Self {
        PingCounts {
            sent: packets.sent,
            received: packets.received,
            late: packets.late,
            lost: packets.lost,
            damaged: packets.corrupt,
            repeated: packets.duplicated,
            missed: packets.unsent,
            refused: packets.refused,
            omitted,
        }
    }

    /// Adds others.
    pub fn add(&mut self, more: &PingCounts) {
        self.sent += more.sent;
        self.received += more.received;
        self.late += more.late;
        self.lost += more.lost;
        self.damaged += more.damaged;
        self.repeated += more.repeated;
        self.missed += more.missed;
        self.refused += more.refused;
        self.omitted += more.omitted;
    }

    /// Messages that returned whole and in time.
    pub fn in_time(&self) -> u64 {
        self.received.saturating_sub(self.late)
    }

    /// Messages whose connection ended before they returned or were given up.
    pub fn unsettled(&self) -> u64 {
        let settled = self.received + self.damaged + u64::try_from(self.lost).unwrap_or(0);
        self.sent.saturating_sub(settled)
    }

    /// Percent of the sent messages that did not return; `None` while the fate of none is known. An
    /// interval may settle messages that were sent in an earlier one.
    pub(crate) fn lost_percent(&self) -> Option<f64> {
        let settled = self.received.saturating_add(self.damaged).saturating_add_signed(self.lost);
        (settled > 0).then(|| percent_of(self.lost.max(0), self.sent.max(settled)))
    }

    /// Messages without an answer in time or late.
    pub fn missing(&self) -> u64 {
        u64::try_from(self.lost).unwrap_or(0).saturating_add(self.unsettled())
    }
}

/// The percentiles that reports show, with their names.
pub const PERCENTILES: [(&str, f64); 6] =
    [("p50", 0.5), ("p90", 0.9), ("p99", 0.99), ("p99.9", 0.999), ("p99.99", 0.9999), ("p99.999", 0.99999)];

/// The percentile that everybody asks for.
pub(crate) const ASKED: (&str, f64) = PERCENTILES[2];
/// A percentile with fewer values beyond it is not statistically reliable.
pub(crate) const BEYOND: f64 = 10.0;

/// True if the percentile `q` (0..=1) of these values is shown. With less than one value beyond it,
/// it is the largest by definition; beyond p99, where a caveat warns, percentiles that are not
/// statistically reliable are left out.
pub fn is_shown(values: &Spectrum, q: f64) -> bool {
    if q > ASKED.1 { is_reliable(values, q) } else { values.beyond(q) >= 1.0 }
}

/// True if enough of these values lie beyond the percentile `q` (0..=1) for statistical
/// reliability.
pub fn is_reliable(values: &Spectrum, q: f64) -> bool {
    values.beyond(q) >= BEYOND
}

/// Round trips of a phase. Late ones are in the distributions; a lost message is `missing` in each
/// of them, so that percentiles are over all sent messages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct RoundTrips {
    /// Outcomes of the messages.
    pub counts: PingCounts,
    /// From the actual send until the echo was whole, ns; `None` when no message returned.
    pub rtt_ns: Option<Spectrum>,
    /// From the intended send, ns; `None` in a closed loop.
    pub intended_ns: Option<Spectrum>,
    /// `rtt_ns` without the time that the remote end reports to have spent, ns; `None` when it
    /// reports none.
    pub path_ns: Option<Spectrum>,
    /// Time between receiving and sending that the remote end reports, ns.
    pub remote_ns: Option<Spectrum>,
    /// From the kernel's stamp when a message left until its stamp when the echo arrived, ns, where
    /// stamps were asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kernel_ns: Option<Spectrum>,
    /// Each way by itself, where the remote end reports when messages arrived and answers left
    /// (STAMP).
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ways: Option<Box<Ways>>,
}

/// Local baseline: round trips of the same messages within this host, over its loopback interface,
/// just before the phase, less the remote end's time. A measurement's round trips contain as much
/// of this host, and the rest is the path's and the remote end's.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Baseline {
    /// From the actual send until the echo was whole, without the remote end's time, ns.
    pub rtt_ns: Option<Spectrum>,
    /// True if the remote end spun on a core of its own; else its wake-up is in the figure, too.
    pub apart: bool,
}

/// Round trips taken apart into their two ways.
pub type Ways = TwoWay<Option<Spectrum>>;

impl RoundTrips {
    /// The same as they are counted.
    pub fn of(tally: &PacketTally) -> Self {
        let counts = PingCounts::of(&tally.counts, tally.omitted);
        let among_all =
            |dist: &Dist| dist.spectrum().map(|known| Spectrum { missing: counts.missing(), ..known });
        RoundTrips {
            counts,
            rtt_ns: among_all(&tally.delay_ns),
            intended_ns: among_all(&tally.intended_ns),
            path_ns: among_all(&tally.path_ns),
            remote_ns: tally.remote_ns.spectrum(),
            kernel_ns: among_all(&tally.kernel_ns),
            ways: tally.ways.as_deref().map(|ways| Box::new(ways.map(Dist::spectrum))),
        }
    }
}

/// Round trips of an interval, by the time of the echo. Messages whose time-out passed in it rank
/// above all others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PingInterval {
    /// Outcomes of messages in this interval.
    pub counts: PingCounts,
    /// Round trips, late ones among them.
    pub count: u64,
    /// Smallest, ns.
    pub min_ns: u64,
    /// Arithmetic mean, ns.
    pub mean_ns: f64,
    /// Median of the messages that returned or were given up in the interval, ns; `None` when it
    /// falls among those given up.
    pub p50_ns: Option<u64>,
    /// 99th percentile of the same messages as the median, ns; `None` when it falls among those
    /// given up.
    pub p99_ns: Option<u64>,
    /// Largest, ns.
    pub max_ns: u64,
    /// Median without the time that the remote end reports to have spent, ns; `None` when it
    /// reports none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_p50_ns: Option<u64>,
    /// 99th percentile without it, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub path_p99_ns: Option<u64>,
    /// IP fields of the echoes, where a class was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub marks: Option<IpFields>,
    /// IP fields of the messages as the remote end received them, where that reports them.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote_marks: Option<IpFields>,
}

impl PingInterval {
    /// The same as they are counted.
    pub fn of(tally: &PacketTally) -> Self {
        let counts = PingCounts::of(&tally.counts, tally.omitted);
        let missing = u64::try_from(counts.lost).unwrap_or(0);
        let is_known = tally.path_ns.count() > 0 && tally.path_ns.count() == tally.delay_ns.count();
        let path = |q: f64| tally.path_ns.quantile_among(q, missing).filter(|_| is_known);
        let (path_p50_ns, path_p99_ns) = (path(0.5), path(0.99));
        let marks = Some(tally.marks).filter(|marks| !marks.is_empty());
        PingInterval { path_p50_ns, path_p99_ns, marks, ..PingInterval::of_trips(counts, &tally.delay_ns) }
    }

    /// The same with the percentiles of the path, where the remote end reports the time that it
    /// spent: a load's round trips are less that.
    #[must_use]
    pub fn of_path(self) -> Self {
        PingInterval {
            p50_ns: self.path_p50_ns.or(self.p50_ns),
            p99_ns: self.path_p99_ns.or(self.p99_ns),
            ..self
        }
    }

    /// The round trips of an interval: counts of messages, and the times of those answered, ns.
    pub fn of_trips(counts: PingCounts, rtt: &Dist) -> Self {
        let (min_ns, max_ns) = rtt.extremes().unwrap_or_default();
        let missing = u64::try_from(counts.lost).unwrap_or(0);
        PingInterval {
            counts,
            count: rtt.count(),
            min_ns,
            mean_ns: rtt.mean().unwrap_or_default(),
            p50_ns: rtt.quantile_among(0.5, missing),
            p99_ns: rtt.quantile_among(0.99, missing),
            max_ns,
            ..PingInterval::default()
        }
    }
}

/// Outcome of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Echo {
    /// Its echo arrived in time.
    InTime,
    /// Its time is up. A late echo makes another row.
    Missing,
    /// Its echo arrived after its time was up; an earlier row has it as `Missing`.
    Late,
    /// Other bytes arrived, or too few.
    Damaged,
}

/// One message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PingRow {
    /// Which of the concurrent connections sent it.
    pub slot: u32,
    /// Its number on that connection, from 0, the warm-up not counted.
    pub seq: u64,
    /// When it was to be sent, ns since the phase's start.
    pub intended_ns: u64,
    /// When it was sent, ns since the phase's start.
    pub sent_ns: u64,
    /// From the actual send until the echo was whole, ns; `None` when it is missing.
    pub rtt_ns: Option<u64>,
    /// Time that the remote end reports, ns.
    pub remote_ns: Option<u64>,
    /// Its outcome.
    pub echo: Echo,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_default_passes_and_nonsense_does_not() {
        assert_eq!(Ping::default().check(), Ok(()));
        let udp = Ping { transport: Transport::Udp, ..Ping::default() };
        for (bad, why) in [
            (Ping { size: 0, ..udp }, "1 byte to 16Mi"),
            (Ping { messages: Some(0), ..udp }, "at least 1"),
            (Ping { chunk: Some(0), ..udp }, "at least 1"),
            (Ping { timeout_ns: 0, ..udp }, "timeout"),
            (Ping { schedule: Schedule::Fixed { gap_ns: 1 }, ..udp }, "ten million"),
            (Ping { size: 65_508, ..udp }, "65507"),
            (Ping { kernel_stamps: true, ..Ping::default() }, "datagrams"),
            (Ping { kernel_stamps: true, chunk: Some(10), ..udp }, "whole"),
            (Ping { size: 65, chunk: Some(1), ..udp }, "64 datagrams"),
        ] {
            let told = bad.check().unwrap_err();
            assert!(told.contains(why), "{told}");
        }
        assert_eq!(Ping { size: 65_508, ..Ping::default() }.check(), Ok(()), "a stream has no such limit");
        assert_eq!(Ping { size: 100_000, chunk: Some(50_000), ..udp }.check(), Ok(()));
    }

    #[test]
    fn a_message_is_cut_as_the_original_cuts_it() {
        // ceil(size / chunk) sends, the last one shorter.
        let pieces = |size, chunk| Ping { size, chunk, ..Ping::default() }.pieces();
        assert_eq!((pieces(1024, None), pieces(1024, Some(1024)), pieces(1024, Some(4096))), (1, 1, 1));
        assert_eq!((pieces(1024, Some(1000)), pieces(1024, Some(1)), pieces(7, Some(3))), (2, 1024, 3));
    }

    #[test]
    fn what_is_neither_back_nor_lost_is_unsettled() {
        let counts =
            PingCounts { sent: 10, received: 6, late: 2, lost: 1, damaged: 1, ..PingCounts::default() };
        assert_eq!((counts.in_time(), counts.unsettled()), (4, 2));
        assert_eq!(PingCounts { lost: -1, ..PingCounts::default() }.unsettled(), 0);
    }

    #[test]
    fn loss_is_unknown_until_the_fate_of_a_message_is_known() {
        let lost = |sent, received, lost| {
            PingCounts { sent, received, lost, ..PingCounts::default() }.lost_percent()
        };
        assert_eq!((lost(0, 0, 0), lost(5, 0, 0)), (None, None), "nothing sent, nothing answered yet");
        assert_eq!((lost(5, 3, 0), lost(5, 4, 1), lost(5, 0, 5)), (Some(0.0), Some(20.0), Some(100.0)));
        assert_eq!((lost(0, 0, 5), lost(1, 1, 3)), (Some(100.0), Some(75.0)), "sent in an earlier interval");
    }
}
