//! Maximum IP-layer capacity (RFC 9097): settings of a test, and its result.

use crate::{Kind, Pattern, Payload, Phase, Range, SocketSettings, Verify};
use metrics::{Clamped, real};
use serde::{Deserialize, Serialize};

/// Most connections of a test.
const MOST_CONNECTIONS: u32 = 24;
/// The last row of the table of rates.
const LAST_ROW: u16 = 1_152;
/// Socket buffers, bytes: as many as the reference asks for.
const BUFFER: u64 = 1_024_000;
/// Longest test, s.
const LONGEST_S: u64 = 3_600;
/// Time behind the planned end of a test within which its connections end, ns.
pub(crate) const TAIL_NS: u64 = 4 * metrics::SECOND;

/// Way of raising and lowering the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "UPPERCASE")]
pub enum Algorithm {
    /// Of RFC 9097 and TR-471: linear.
    #[default]
    B,
    /// Multiply and retry.
    C,
}

/// Thresholds and steps of a search, with the defaults of RFC 9097.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SearchSettings {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// Delay variation below which a report is good, ms.
    pub low_ms: u32,
    /// Delay variation above which a report is bad, ms.
    pub upper_ms: u32,
    /// Missing datagrams, or datagrams out of sequence, of a good report at most.
    pub sequence_errors: u32,
    /// Out-of-order and repeated datagrams are no sequence errors.
    pub loss_only: bool,
    /// One-way delay variation counts, instead of that of round trips.
    pub one_way: bool,
    /// Rows of a fast step.
    pub fast_rows: u16,
    /// Bad reports until the search is slow.
    pub bad_reports: u32,
    /// Share of datagrams with a congestion mark that makes a report bad, 1/255; 0 is none.
    pub ce_share: u8,
}

impl SearchSettings {
    /// The defaults of RFC 9097.
    pub const RFC: SearchSettings = SearchSettings {
        algorithm: Algorithm::B,
        low_ms: 30,
        upper_ms: 90,
        sequence_errors: 10,
        loss_only: true,
        one_way: false,
        fast_rows: 10,
        bad_reports: 3,
        ce_share: 0,
    };
}

impl Default for SearchSettings {
    fn default() -> Self {
        SearchSettings::RFC
    }
}

/// Settings of a capacity test beside the phase's direction, connections, length and sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct CapacitySettings {
    /// Rate control.
    pub search: SearchSettings,
    /// Time from one report to the next, ms.
    pub trial_ms: u16,
    /// Length of a sub-interval, ms.
    pub sub_interval_ms: u16,
    /// Sub-intervals at the start that have a maximum of their own; 0 is no split.
    pub first_mode: u16,
    /// Sub-intervals at the start whose rate is not adjusted.
    pub suppressed: u16,
    /// Only row of the table of rates, or first one with `start`; `None` searches from row 0.
    pub row: Option<u16>,
    /// The row is the first of a search.
    pub start: bool,
    /// Datagrams may be longer than a packet of Ethernet, above 1 Gbit/s.
    pub jumbo: bool,
    /// Datagrams fill packets of 1,500 bytes.
    pub traditional: bool,
    /// Octets of the lower layers of each packet, which the rate of the link counts.
    pub overhead: u16,
}

impl CapacitySettings {
    /// The defaults of RFC 9097, and the overhead of Ethernet with its checksum.
    pub const RFC: CapacitySettings = CapacitySettings {
        search: SearchSettings::RFC,
        trial_ms: 50,
        sub_interval_ms: 1_000,
        first_mode: 0,
        suppressed: 0,
        row: None,
        start: false,
        jumbo: true,
        traditional: false,
        overhead: 18,
    };

    /// The only row of the test; `None` where it searches.
    pub fn fixed_row(&self) -> Option<u16> {
        self.row.filter(|_| !self.start)
    }

    /// Sub-intervals of a test of this length, ns.
    pub fn sub_intervals(&self, ns: u64) -> usize {
        usize::clamped(ns / 1_000_000 / u64::from(self.sub_interval_ms.max(1)))
    }

    /// A test of 10 s with these settings.
    pub fn phase(self, pattern: Pattern, connections: u32) -> Phase {
        Phase {
            kind: Kind::Capacity,
            pattern,
            connections,
            iterations: Some(1),
            interval_ns: u64::from(self.sub_interval_ms.max(100)) * 1_000_000,
            buffer: Range::just(1 << 16),
            verify: Verify::Connection,
            payload: Payload::Zeros,
            sockets: SocketSettings {
                gro: true,
                rcvbuf: Some(BUFFER),
                sndbuf: Some(BUFFER),
                ..SocketSettings::default()
            },
            capacity: Some(self),
            ..Phase::default()
        }
    }

    /// Checks every value; `connections` and `duration_ns` are the phase's.
    pub(crate) fn check(&self, connections: u32, duration_ns: Option<u64>) -> Result<(), String> {
        let search = &self.search;
        let is_ms = |ms: u32| (1..=10_000).contains(&ms);
        let (trial, sub) = (self.trial_ms, self.sub_interval_ms);
        let longest = LONGEST_S * metrics::SECOND;
        let subs = duration_ns.map_or(usize::MAX, |ns| self.sub_intervals(ns));
        let checks = [
            (connections <= MOST_CONNECTIONS, "a capacity test has 1 to 24 connections"),
            (
                duration_ns.is_none_or(|ns| ns >= metrics::SECOND && ns <= longest),
                "a capacity test lasts 1 to 3600 s",
            ),
            ((5..=250).contains(&trial), "reports are 5 to 250 ms apart"),
            ((100..=10_000).contains(&sub), "sub-intervals are 100 to 10000 ms long"),
            (
                sub >= 2 * trial && sub % trial.max(1) == 0,
                "a sub-interval is a multiple of the time between reports, and holds two at least",
            ),
            (subs >= 1, "a capacity test has one sub-interval at least"),
            (
                is_ms(search.low_ms) && is_ms(search.upper_ms) && search.low_ms <= search.upper_ms,
                "the thresholds are 1 to 10000 ms, and the lower one is not above the upper one",
            ),
            ((1..=255).contains(&search.fast_rows), "a fast step has 1 to 255 rows"),
            ((1..=65_535).contains(&search.bad_reports), "a search is slow after 1 to 65535 bad reports"),
            (search.sequence_errors <= 65_535, "a good report misses 0 to 65535 datagrams"),
            (self.row.is_none_or(|row| row <= LAST_ROW), "the table of rates has the rows 0 to 1152"),
            (!self.start || self.row.is_some(), "a search from a row needs the row"),
            (
                usize::from(self.first_mode) < subs && usize::from(self.suppressed) < subs,
                "the first mode is shorter than the test",
            ),
        ];
        checks.iter().find(|(holds, _)| !holds).map_or(Ok(()), |(_, why)| Err((*why).to_owned()))
    }
}

impl Default for CapacitySettings {
    fn default() -> Self {
        CapacitySettings::RFC
    }
}

/// Least, mean and most of a delay above its minimum, ms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayVariation {
    /// The least.
    pub min_ms: u32,
    /// The mean, rounded.
    pub mean_ms: u32,
    /// The most.
    pub max_ms: u32,
}

/// A sub-interval of a capacity test, all connections together, as the receiver counted it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct SubInterval {
    /// Its end since the first report, ms.
    pub end_ms: u32,
    /// Rate of IP packets, headers included, bits/s.
    pub ip_bps: f64,
    /// Rate of UDP payload, bits/s.
    pub payload_bps: f64,
    /// Rate of IP packets and the lower layers' overhead, bits/s.
    pub link_bps: f64,
    /// Datagrams received.
    pub received: u64,
    /// Datagrams missing.
    pub lost: u64,
    /// Datagrams that a later one had overtaken.
    pub reordered: u64,
    /// Repeated datagrams.
    pub duplicated: u64,
    /// Datagrams with a congestion mark.
    pub marked: u64,
    /// One-way delay above its minimum; `None` without a sample.
    pub delay: Option<DelayVariation>,
    /// Round trip above the shortest; `None` without a sample.
    pub round_trip: Option<DelayVariation>,
}

impl SubInterval {
    /// Share of the sent datagrams that are missing, percent.
    pub fn loss_percent(&self) -> f64 {
        let sent = self.received.saturating_add(self.lost);
        if sent == 0 { 0.0 } else { real(self.lost) * 100.0 / real(sent) }
    }
}

/// Result of a capacity test: the maximum IP-layer capacity (RFC 9097) of one direction.
///
/// The capacity is the rate of IP packets in the best sub-interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Capacity {
    /// The client sent.
    pub upstream: bool,
    /// Connections that took part.
    pub connections: u32,
    /// The best sub-interval, by its place in the list, from 1.
    pub best: u32,
    /// Rate of IP packets in the best sub-interval, headers included, bits/s: the capacity.
    pub ip_bps: f64,
    /// Rate of UDP payload in the best sub-interval, bits/s.
    pub payload_bps: f64,
    /// Rate of IP packets and the lower layers' overhead in the best sub-interval, bits/s.
    pub link_bps: f64,
    /// Octets of that overhead per packet.
    pub overhead: u16,
    /// Mean rate of IP packets over the sub-intervals, bits/s.
    pub mean_bps: f64,
    /// Best sub-interval of each mode, by its place in the list, where the test is split.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub modes: Option<(u32, u32)>,
    /// The highest rate of IP packets that the test could have offered, bits/s.
    pub most_bps: f64,
    /// Shortest round trip, ms; `None` without a sample.
    pub round_trip_min_ms: Option<u32>,
    /// The sub-intervals in order.
    pub sub_intervals: Vec<SubInterval>,
}

impl Capacity {
    /// The best of some sub-intervals: the first with the highest rate of IP packets, by its place,
    /// from 1.
    fn best_of(all: &[SubInterval], from: usize) -> Option<u32> {
        let best = all
            .iter()
            .enumerate()
            .skip(from)
            .reduce(|best, one| if one.1.ip_bps > best.1.ip_bps { one } else { best })?;
        u32::try_from(best.0 + 1).ok()
    }

    /// Fills in all that follows from the sub-intervals, of which `first_mode` are the first mode;
    /// `None` without one.
    #[must_use]
    pub fn concluded(mut self, first_mode: u16) -> Option<Self> {
        let all = &self.sub_intervals;
        self.best = Capacity::best_of(all, 0)?;
        let best = all.get(self.best as usize - 1)?;
        (self.ip_bps, self.payload_bps, self.link_bps) = (best.ip_bps, best.payload_bps, best.link_bps);
        self.mean_bps = all.iter().map(|one| one.ip_bps).sum::<f64>() / real(all.len());
        let first = usize::from(first_mode).min(all.len());
        let modes = Capacity::best_of(&all[..first], 0).zip(Capacity::best_of(all, first));
        self.modes = modes;
        Some(self)
    }

    /// A sub-interval by its place, from 1.
    pub fn sub_interval(&self, place: u32) -> Option<&SubInterval> {
        self.sub_intervals.get(usize::try_from(place).ok()?.checked_sub(1)?)
    }

    /// Datagrams received and missing.
    pub fn datagrams(&self) -> (u64, u64) {
        self.sub_intervals
            .iter()
            .fold((0, 0), |(received, lost), one| (received + one.received, lost + one.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn phase(change: impl FnOnce(&mut CapacitySettings)) -> Phase {
        let mut settings = CapacitySettings::RFC;
        change(&mut settings);
        settings.phase(Pattern::Push, 1)
    }

    #[test]
    fn settings_are_within_the_protocols() {
        assert_eq!(phase(|_| {}).check(), Ok(()));
        for (bad, why) in [
            (phase(|s| s.trial_ms = 4), "5 to 250"),
            (phase(|s| s.sub_interval_ms = 120), "multiple"),
            (phase(|s| s.search.low_ms = 91), "thresholds"),
            (phase(|s| s.row = Some(1_153)), "rows"),
            (phase(|s| s.start = true), "needs the row"),
            (phase(|s| s.first_mode = 10), "first mode"),
            (Phase { connections: 25, ..phase(|_| {}) }, "24 connections"),
            (Phase { duration_ns: Some(1), ..phase(|_| {}) }, "1 to 3600"),
            (Phase { kind: Kind::Tcp, ..phase(|_| {}) }, "capacity"),
        ] {
            let said = bad.check().unwrap_err();
            assert!(said.contains(why), "{said}");
        }
    }

    #[test]
    fn the_best_sub_interval_is_the_capacity() {
        let sub = |ip_bps| SubInterval { ip_bps, payload_bps: ip_bps - 1.0, ..SubInterval::default() };
        let sub_intervals = [3.0, 9.0, 6.0, 6.0].map(sub).to_vec();
        let test =
            |first| Capacity { sub_intervals: sub_intervals.clone(), ..Capacity::default() }.concluded(first);
        let whole = test(0).unwrap();
        assert_eq!((whole.best, whole.ip_bps, whole.payload_bps), (2, 9.0, 8.0));
        assert_eq!((whole.mean_bps, whole.modes), (6.0, None));
        assert_eq!(test(2).unwrap().modes, Some((2, 3)));
        assert_eq!(Capacity::default().concluded(0), None);
    }
}
