//! Own traffic of a session beside the traffic of its question.
//!
//! Between set-up and end, comparisons of the clocks and control messages take at most the larger
//! of a tenth of the asked rate and one exchange a second, both ways counted. A quarter of that is
//! for the clocks, an eighth for heartbeats, the rest for the server's reports. Each interval has
//! its report all the same: short intervals are a wish of the user. Without a rate the path itself
//! is asked for all it carries: the usual times hold.

use crate::udp::CONTROL;
use metrics::SECOND;
use model::{Kind, Pattern, Phase};

/// Headers of UDP and IPv4, bytes.
const HEADERS: u64 = 28;
/// Bits of an exchange of two datagrams.
const EXCHANGE: u64 = 2 * (CONTROL as u64 + HEADERS) * 8;
/// Bits of a ping and its answer over TCP, with the segment that acknowledges.
const HEARTBEAT: u64 = 1_700;
/// Longest time between two comparisons of a flow, ns: ends give up a flow after 8 s of silence.
const SELDOMEST: u64 = 3 * SECOND;
/// Longest time between two heartbeats, ns: servers give up a client after 9 s of silence.
const SLOWEST: u64 = 4 * SECOND;
/// Shortest times between a session's own datagrams and messages, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Budget {
    /// Between two comparisons of the clocks of one flow.
    pub(crate) clock_ns: u64,
    /// Between two heartbeats of the client.
    pub(crate) beat_ns: u64,
    /// Bits/s of the server's reports; `None` is as many as there are.
    reports_bps: Option<u64>,
    /// Longest time between two reports, ns: the line of an interval waits for its report.
    interval_ns: u64,
    /// More than a report a second, of which the lines of round trips show nothing.
    is_unreported: bool,
}

impl Budget {
    pub(crate) fn of(phase: &Phase) -> Self {
        let ways = if phase.kind == Kind::Ping || phase.pattern == Pattern::Duplex { 2 } else { 1 };
        let Some(asked) = phase.cost().load_bps.filter(|bps| *bps > 0) else {
            return Budget { beat_ns: SECOND, ..Budget::default() };
        };
        let most = asked.saturating_mul(ways) / 10;
        let every = |bits: u64, share: u64| bits.saturating_mul(share * SECOND) / most.max(1);
        let flows = u64::from(phase.connections);
        Budget {
            clock_ns: every(EXCHANGE, 4).saturating_mul(flows).min(SELDOMEST),
            beat_ns: every(HEARTBEAT, 8).clamp(SECOND, SLOWEST),
            reports_bps: Some((most / 8 * 5).max(1)),
            interval_ns: phase.interval_ns,
            is_unreported: phase.kind == Kind::Ping && phase.interval_ns < SECOND,
        }
    }

    /// Delay of the next report behind one of `bytes` bytes, ns.
    pub(crate) fn reports_wait_ns(&self, bytes: u64) -> u64 {
        // If the budget allows a report a second, each leaves at once: its interval waits for it.
        let bps = self.reports_bps.filter(|_| self.is_scarce());
        bps.map_or(0, |bps| (bytes.saturating_mul(8 * SECOND) / bps).min(self.interval_ns))
    }

    /// True if the reports on intervals stay out: the budget is small, and nobody reads them.
    pub(crate) fn omits_reports(&self) -> bool {
        self.is_unreported && self.is_scarce()
    }

    /// True if reports are to be short: the budget does not allow a plain one a second.
    pub(crate) fn is_scarce(&self) -> bool {
        self.reports_bps.is_some_and(|bps| bps < REPORT)
    }
}

/// Bits/s of a whole report on datagrams a second.
const REPORT: u64 = 8_000;

#[cfg(test)]
mod tests {
    use super::*;
    use model::{Probe, Schedule};

    fn delay(pps: u64, size: u32) -> Phase {
        let probe = Some(Probe { size, ..Probe::default() });
        let rate = Some(pps * u64::from(size) * 8);
        Phase { kind: Kind::Delay, pattern: Pattern::Duplex, connections: 1, rate, probe, ..Phase::default() }
    }

    #[test]
    fn a_slow_schedule_has_few_exchanges_and_a_fast_one_as_many_as_ever() {
        // 5 datagrams a second each way: a tenth would be 1 kbit/s.
        let slow = Budget::of(&delay(5, 100));
        assert_eq!((slow.clock_ns, slow.beat_ns, slow.is_scarce()), (SELDOMEST, SLOWEST, true));
        // 1000 datagrams of 1400 bytes each way: 2.24 Mbit/s, of which a quarter is 203 exchanges a
        // second.
        let fast = Budget::of(&delay(1_000, 1_400));
        assert!(fast.clock_ns < SECOND / 200 && !fast.is_scarce(), "{fast:?}");
        assert_eq!(fast.beat_ns, SECOND);
        let flood = Budget::of(&Phase { rate: None, ..delay(1, 100) });
        assert_eq!((flood.clock_ns, flood.reports_wait_ns(1_000_000)), (0, 0));
    }

    /// All that a session sends by itself in a second, at any rate that is asked for, is within
    /// what the head of this file promises.
    #[test]
    fn all_parts_together_keep_the_promise() {
        let of_messages =
            model::Ping { schedule: Schedule::Fixed { gap_ns: SECOND / 10 }, ..Default::default() };
        let ping = Phase { kind: Kind::Ping, ping: Some(of_messages), connections: 1, ..Phase::default() };
        for phase in [1, 5, 20, 100, 1_000].map(|pps| delay(pps, 100)).iter().chain([&ping]) {
            let budget = Budget::of(phase);
            let ways = 2;
            let tenth = phase.cost().load_bps.unwrap() * ways / 10;
            let clocks = SECOND as f64 / budget.clock_ns.max(1) as f64;
            let beats = SECOND as f64 / budget.beat_ns as f64;
            // A report in two segments with the one that acknowledges.
            let wait = if budget.is_scarce() { budget.reports_wait_ns(500).max(1) } else { SECOND };
            let reports = SECOND as f64 / wait as f64;
            let clocks = if phase.kind == Kind::Ping { 0.0 } else { clocks };
            let bits = clocks * EXCHANGE as f64 + beats * HEARTBEAT as f64 + reports * 4_000.0;
            let exchanges = clocks + beats + reports;
            assert!(
                bits <= tenth as f64 * 1.01 || exchanges <= 1.7,
                "{bits} of {tenth}, {exchanges}: {budget:?}"
            );
        }
    }
}
