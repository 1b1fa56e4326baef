//! Reports of a test's flows: its steps, its sub-intervals, its end.

use super::meter::Finished;
use super::{Parameters, RANDOM_FILLER, START_ROW, Spread};
use metrics::Wall;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// A report of one connection of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Which connection of the test, from 0.
    pub connection: u8,
    /// Number of the test.
    pub test: u16,
    /// When it was made.
    pub at: Wall,
    /// The client's end of the connection and the server's, as this end knows them.
    pub local: SocketAddr,
    /// The other end.
    pub remote: SocketAddr,
    /// The contents.
    pub news: News,
}

/// Contents of a report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum News {
    /// A Setup Request was sent, or received.
    SetupRequest {
        /// The version.
        version: u16,
        /// The stated bandwidth, Mbit/s.
        bandwidth: u16,
        /// Which shared key.
        key: u8,
    },
    /// A Setup Response was received, or sent.
    SetupResponse {
        /// The result.
        code: u8,
    },
    /// An Activation Request was sent, or received.
    ActivationRequest,
    /// An Activation Response was received, or sent.
    ActivationResponse(Box<Activated>),
    /// A sub-interval is finished.
    SubInterval(SubIntervalReport),
    /// The test is to stop.
    Stop,
    /// The connection's test is over, or never began.
    End(EndReport),
    /// PDUs are missing, and the test goes on.
    Warning(Warning),
}

/// Missing PDUs of a test that goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Warning {
    /// Number of reports that did not arrive here.
    ReportsLost(u16),
    /// The same at the other end.
    ReportsLostThere(u16),
    /// No load arrives here any more.
    LoadStopped,
    /// Nothing arrives at the other end any more.
    StoppedThere,
}

/// The parameters in force.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Activated {
    /// The result.
    pub code: u8,
    /// The client sends.
    pub upstream: bool,
    /// Length of the test, s.
    pub test_s: u16,
    /// Thresholds, ms.
    pub low_ms: u16,
    /// The upper one.
    pub upper_ms: u16,
    /// Time from one report to the next, ms.
    pub trial_ms: u16,
    /// Length of a sub-interval, ms.
    pub sub_interval_ms: u16,
    /// The only row, or the first; 65535 is a search.
    pub row: u16,
    /// The row is only the first.
    pub start: bool,
    /// Bad reports until the search is slow.
    pub bad_reports: u16,
    /// Rows of a fast step.
    pub fast_rows: u8,
    /// Sequence errors of a good report.
    pub sequence_errors: u16,
    /// Only losses count.
    pub loss_only: bool,
    /// One-way delay counts.
    pub one_way: bool,
    /// 0 is B, 1 is C.
    pub algorithm: u8,
    /// Traffic class octet.
    pub traffic_class: u8,
    /// Share of marked datagrams, 1/255.
    pub ce_share: u8,
    /// Filler is random.
    pub random: bool,
    /// Suppressed sub-intervals.
    pub suppressed: u16,
}

impl Activated {
    /// The parameters of an answer with this code.
    pub fn new(code: u8, upstream: bool, p: &Parameters) -> Self {
        Activated {
            code,
            upstream,
            test_s: p.test_s,
            low_ms: p.low_ms,
            upper_ms: p.upper_ms,
            trial_ms: p.trial_ms,
            sub_interval_ms: p.sub_interval_ms,
            row: p.row,
            start: p.modifiers & START_ROW != 0,
            bad_reports: p.bad_reports,
            fast_rows: p.fast_rows,
            sequence_errors: p.sequence_errors,
            loss_only: p.loss_only,
            one_way: p.one_way,
            algorithm: p.algorithm,
            traffic_class: p.traffic_class,
            ce_share: p.ce_share,
            random: p.modifiers & RANDOM_FILLER != 0,
            suppressed: p.suppressed,
        }
    }
}

/// The receiver's counts of a sub-interval.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SubIntervalReport {
    /// Its number, from 1.
    pub number: u32,
    /// Datagrams.
    pub datagrams: u32,
    /// UDP payload, bytes.
    pub bytes: u64,
    /// Its length, µs.
    pub length_us: u32,
    /// Its end, ms since the first report of the receiver.
    pub end_ms: u32,
    /// Missing datagrams.
    pub lost: u32,
    /// Datagrams that a later one had overtaken.
    pub reordered: u32,
    /// Repeated datagrams.
    pub duplicated: u32,
    /// Datagrams with a congestion mark.
    pub marked: u32,
    /// Variation of the one-way delay: least, most, ms; `None` without a sample.
    pub delay_ms: Option<(u32, u32)>,
    /// Sum and number of its samples.
    pub delay_sum: (u32, u32),
    /// The same of the round trip.
    pub round_trip_ms: Option<(u32, u32)>,
    /// Sum and number of its samples at this end.
    pub round_trip_sum: (u64, u32),
    /// Smallest one-way delay so far, the clocks' difference included, ms.
    pub delay_min_ms: i64,
    /// Shortest round trip so far, ms.
    pub round_trip_min_ms: Option<u32>,
    /// Headers of IP and UDP of each datagram, bytes.
    pub headers: u32,
}

impl SubIntervalReport {
    pub(crate) fn new(finished: &Finished, minima: (Option<i64>, Option<u32>), v6: bool) -> Self {
        let Finished { number, counts, marked, trips } = *finished;
        let Spread { range, sum, count } = counts.delay;
        SubIntervalReport {
            number,
            datagrams: counts.datagrams,
            bytes: counts.bytes,
            length_us: counts.length_us,
            end_ms: counts.end_ms,
            lost: counts.lost,
            reordered: counts.reordered,
            duplicated: counts.duplicated,
            marked,
            delay_ms: range,
            delay_sum: (sum, count),
            round_trip_ms: counts.round_trip,
            round_trip_sum: trips,
            delay_min_ms: minima.0.unwrap_or(0),
            round_trip_min_ms: minima.1,
            headers: if v6 { 48 } else { 28 },
        }
    }

    /// The rate of IP packets, each with `more` octets of lower layers, Mbit/s.
    pub fn mbps(&self, more: u32) -> f64 {
        let octets = u128::from(self.bytes) + u128::from(self.datagrams) * u128::from(self.headers + more);
        self.mbps_of(u64::try_from(octets).unwrap_or(u64::MAX))
    }

    /// The rate of UDP payload, Mbit/s.
    pub fn payload_mbps(&self) -> f64 {
        self.mbps_of(self.bytes)
    }

    /// Exact to the last bit of the type up to 2^53 octets.
    fn mbps_of(&self, octets: u64) -> f64 {
        if self.length_us == 0 { 0.0 } else { metrics::real(octets) * 8.0 / f64::from(self.length_us) }
    }
}

/// The end of a connection's test.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct EndReport {
    /// Number of the reference's exit codes; 0 is success.
    pub code: u8,
    /// A datagram arrived without its ECN bits, here or at the other end.
    pub bleached: bool,
    /// Datagrams sent and received here.
    pub datagrams: (u64, u64),
}
