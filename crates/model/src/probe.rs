//! Numbered datagrams on a schedule, as `delay` sends them.

use metrics::{ClockKind, Ecn, SECOND};
use serde::{Deserialize, Serialize};
use std::ops::RangeInclusive;

/// Smallest datagram of our own protocol, bytes: its header.
pub const SMALLEST_PROBE: u32 = 40;
/// Smallest datagram of any protocol, bytes: bwdelaytester's header.
const SMALLEST: u32 = 16;
/// Largest datagram, bytes: what UDP over IPv4 carries.
const LARGEST: u32 = 65_507;
/// Most flows: each has a window of a megabit.
const MOST_FLOWS: u32 = 1_000;
/// Most streams, whose windows are as small as their rates.
const MOST_STREAMS: u32 = 10_000;

/// Sequence of the intended sending times, drawn beforehand, so to speak: a late datagram does not
/// delay the next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Spacing {
    /// Always the same.
    #[default]
    Fixed,
    /// Evenly between nothing and twice the mean (RFC 3432 asks for some randomness).
    Uniform,
    /// Exponentially distributed: a Poisson process (RFC 2330 §11.1.1).
    Poisson,
    /// As the phase's trace says.
    Trace,
}

/// A sender's way of waiting for the next due time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Waiting {
    /// In the kernel: costs nothing, and sends leave some tens of microseconds late.
    Block,
    /// In the kernel until shortly before, then spinning.
    #[default]
    Hybrid,
    /// Spinning all the time, a core for each worker.
    Spin,
}

/// Datagrams of a delay measurement. The mean rate is the phase's `rate`: bits/s of UDP payload per
/// flow and direction; without one, as fast as it goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Probe {
    /// UDP payload of a datagram, bytes.
    pub size: u32,
    /// Distances between intended sending times.
    pub spacing: Spacing,
    /// Senders' way of waiting.
    pub waiting: Waiting,
    /// Seed of random spacing.
    pub seed: u64,
    /// A datagram that takes longer counts as late, ns; it is waited for as long at the end.
    pub late_ns: u64,
    /// From agreeing to the first datagram, ns: time to open the flows and to compare the clocks.
    pub lead_ns: u64,
    /// Method by which the clocks of two hosts are compared; `None` is by the same host's clock
    /// where both ends are on one, else in band.
    pub clock: Option<ClockKind>,
    /// True if a place in the schedule is given up when the sender cannot keep it, instead of being
    /// made up for.
    pub nonblock: bool,
    /// True if the kernel stamps each datagram's departure, where it is sent by a call of its own.
    pub tx_stamps: bool,
    /// True if each datagram is reported.
    pub samples: bool,
    /// ECN codepoint of one datagram of each pair, drawn by the seed; the other one has the codepoint
    /// of the socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub paired: Option<Ecn>,
}

/// Time before its start at which a phase may be agreed on, ns.
pub(crate) const LEAD: RangeInclusive<u64> = SECOND / 100..=60 * SECOND;
pub(crate) const LEAD_RANGE: &str = "the lead must be 10ms to 60s";

impl Default for Probe {
    fn default() -> Self {
        Probe {
            size: 1_400,
            spacing: Spacing::Fixed,
            waiting: Waiting::Hybrid,
            seed: 0,
            late_ns: 2 * SECOND,
            lead_ns: SECOND / 2,
            clock: None,
            nonblock: false,
            tx_stamps: false,
            samples: false,
            paired: None,
        }
    }
}

impl Probe {
    /// Checks every value, for `flows` flows, which may be media streams; both ends do.
    ///
    /// # Errors
    /// One sentence naming the first value that cannot be, and what would be accepted.
    pub fn check(&self, flows: u32, streams: bool) -> Result<(), String> {
        let must = |ok: bool, what: &str| if ok { Ok(()) } else { Err(what.to_owned()) };
        must((SMALLEST..=LARGEST).contains(&self.size), "a datagram must have 16 to 65507 bytes")?;
        must(streams || flows <= MOST_FLOWS, "flows of datagrams must be 1 to 1000")?;
        must(flows <= MOST_STREAMS, "streams must be 1 to 10000")?;
        let late = (SECOND / 1_000..=60 * SECOND).contains(&self.late_ns);
        must(late, "the time after which a datagram is late must be 1ms to 60s")?;
        must(LEAD.contains(&self.lead_ns), LEAD_RANGE)
    }

    /// Seed by which the datagrams of flow `slot` are paired.
    pub fn pairs_seed(&self, slot: u32) -> u64 {
        self.seed ^ u64::from(slot) << 32
    }

    /// Mean time between two datagrams of a flow at `rate` bits/s, ps; 0 when there is no rate.
    pub fn gap_ps(&self, rate: Option<u64>) -> u64 {
        let bits = u128::from(self.size) * 8 * 1_000_000_000_000;
        rate.map_or(0, |rate| u64::try_from(bits / u128::from(rate.max(1))).unwrap_or(u64::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gap_follows_from_size_and_rate() {
        let probe = Probe { size: 1_250, ..Probe::default() };
        // 10,000 bits at 1 Gbit/s take 10 µs.
        assert_eq!(probe.gap_ps(Some(1_000_000_000)), 10_000_000);
        assert_eq!(probe.gap_ps(None), 0);
        // 64 bytes at 20 Gbit/s: 25.6 ns.
        assert_eq!(Probe { size: 64, ..probe }.gap_ps(Some(20_000_000_000)), 25_600);
    }

    #[test]
    fn what_cannot_be_is_named() {
        assert!(Probe::default().check(1, false).is_ok());
        assert!(Probe { size: 15, ..Probe::default() }.check(1, false).unwrap_err().contains("16 to 65507"));
        assert!(Probe::default().check(1_001, false).unwrap_err().contains("1 to 1000"));
        assert!(Probe::default().check(10_000, true).is_ok());
        assert!(Probe::default().check(10_001, true).unwrap_err().contains("1 to 10000"));
        assert!(Probe { late_ns: 0, ..Probe::default() }.check(1, false).unwrap_err().contains("late"));
    }
}
