//! Most that a phase costs a network: one function of the phase, for plans, agents and servers.

use crate::{Kind, Pattern, Phase, Ping};
use metrics::{Clamped, SECOND, real};

/// Least cost of a message or datagram, bytes: its headers load a path, too.
const LEAST: u64 = 128;
/// Round trip of a message of a closed loop, about, ns.
const TRIP_NS: u64 = SECOND / 1000;
/// Longest wait for lost answers that is counted, ns.
const MOST_WAIT_NS: u64 = 30 * SECOND;

/// Cost of a phase when nothing goes wrong.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Cost {
    /// Payload of one direction and all connections, bits/s; `None` where nothing bounds it.
    pub rate_bps: Option<u64>,
    /// The same with small messages and datagrams counted as [`LEAST`] bytes each.
    pub load_bps: Option<u64>,
    /// Messages or datagrams of all connections in a second, where they follow a schedule.
    pub per_second: Option<f64>,
    /// Length, ns; `None` where neither a time nor an amount ends the phase.
    pub length_ns: Option<u64>,
    /// Additional time when answers are lost, ns.
    pub wait_ns: u64,
    /// Payload of both directions, where that is limited.
    pub bytes: Option<u64>,
}

impl Phase {
    /// Most that the phase costs.
    pub fn cost(&self) -> Cost {
        let time = self.duration_ns.map(|ns| ns.saturating_add(self.omit_ns));
        match self.ping.as_ref().filter(|_| self.kind == Kind::Ping) {
            Some(ping) => self.of_messages(ping, time),
            None => self.of_payload(time),
        }
    }

    fn of_messages(&self, ping: &Ping, time: Option<u64>) -> Cost {
        let (size, connections) = (u64::from(ping.size), u64::from(self.connections));
        let gap = ping.schedule.gap_ns().map(|gap| gap.max(1));
        let messages = ping.messages.map(|n| n.saturating_add(ping.warmup));
        let by_count = messages.map(|n| n.saturating_mul(gap.unwrap_or(TRIP_NS)));
        let length_ns = [by_count, time].into_iter().flatten().min();
        // If answers are lost, a closed loop waits for the time-out of each message, an open loop
        // for that of its last one.
        let waits = messages.filter(|_| gap.is_none()).map_or(1, |n| n.saturating_add(1));
        let sent = messages.or_else(|| Some(length_ns? / gap?));
        let per_second = gap.map(|gap| 1e9 / real(gap) * real(connections));
        let rate = |bytes: u64| per_second.map(|n| u64::clamped((n * real(bytes) * 8.0).round()));
        Cost {
            rate_bps: rate(size),
            load_bps: rate(size.max(LEAST)),
            per_second,
            length_ns,
            wait_ns: waits.saturating_mul(ping.timeout_ns).min(MOST_WAIT_NS),
            bytes: sent.map(|n| n.saturating_mul(size).saturating_mul(2).saturating_mul(connections)),
        }
    }

    fn of_payload(&self, time: Option<u64>) -> Cost {
        let ways = if self.pattern == Pattern::Duplex { 2 } else { 1 };
        // Bursts are as fast as the path, and so are the packets of a train.
        let is_paced = self.burst.is_none() && self.train.is_none();
        let each = self.media.map(|media| media.rate_bps).or(self.rate_high).or(self.rate);
        let each = each.filter(|bps| *bps > 0 && is_paced);
        let rate_bps = each.map(|bps| bps.saturating_mul(self.connections.into()));
        let size = self.probe.as_ref().map(|probe| u64::from(probe.size).max(1));
        let per_second = rate_bps.zip(size).map(|(bps, size)| real(bps) / (real(size) * 8.0));
        let loaded = |n: f64, size: u64| u64::clamped((n * real(size.max(LEAST)) * 8.0).round());
        let both = self
            .rate_high
            .or(self.rate)
            .map(|bps| bps.saturating_mul(self.connections.into()).saturating_mul(ways));
        let by_rate = self.total_bytes.zip(both);
        let by_rate = by_rate.map(|(bytes, bps)| u64::clamped(real(bytes) * 8e9 / real(bps.max(1))));
        let length_ns = time.or(by_rate);
        let in_time = |bps: u64, ns: u64| u64::clamped(real(bps) / 8.0 * real(ns) / 1e9);
        Cost {
            rate_bps,
            load_bps: per_second.zip(size).map(|(n, size)| loaded(n, size)).or(rate_bps),
            per_second,
            length_ns,
            wait_ns: 0,
            bytes: self
                .total_bytes
                .or_else(|| both.map(|bps| in_time(bps, length_ns.unwrap_or(10 * SECOND)))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Burst, Probe, Schedule};

    fn ping(size: u32, schedule: Schedule, messages: Option<u64>) -> Phase {
        let ping = Ping { size, schedule, messages, ..Ping::default() };
        Phase { kind: Kind::Ping, ping: Some(ping), connections: 1, ..Phase::default() }
    }

    #[test]
    fn messages_cost_their_bits() {
        let every = |gap_ns| Schedule::Fixed { gap_ns };
        // 50 messages of 60,000 bytes in a second: 24 Mbit/s.
        let cost = ping(60_000, every(SECOND / 50), None).cost();
        assert_eq!((cost.rate_bps, cost.load_bps), (Some(24_000_000), Some(24_000_000)));
        assert_eq!((cost.length_ns, cost.bytes), (Some(10 * SECOND), Some(2 * 500 * 60_000)));
        // A million of one byte is 8 Mbit/s of payload, and loads a path as 128 bytes each do.
        let cost = ping(1, every(1_000), None).cost();
        assert_eq!((cost.rate_bps, cost.load_bps), (Some(8_000_000), Some(1_024_000_000)));
        let four = Phase { connections: 4, ..ping(1_000, every(SECOND / 100), Some(20)) }.cost();
        assert_eq!((four.rate_bps, four.length_ns), (Some(3_200_000), Some(SECOND / 5)));
        let closed = ping(64, Schedule::Closed, Some(20)).cost();
        assert_eq!((closed.rate_bps, closed.bytes, closed.wait_ns), (None, Some(2_560), 21 * SECOND));
        assert_eq!(ping(64, Schedule::Closed, None).cost().bytes, None);
    }

    #[test]
    fn a_rate_of_nothing_bounds_nothing() {
        let tcp = |rate| Phase { rate, connections: 2, ..Phase::default() };
        assert_eq!(tcp(Some(4_000_000)).cost().rate_bps, Some(8_000_000));
        assert_eq!((tcp(Some(0)).cost().rate_bps, tcp(None).cost().rate_bps), (None, None));
        let burst = Some(Burst { count: 1, delay_ns: 1 });
        assert_eq!(Phase { burst, ..tcp(None) }.cost().rate_bps, None);
        let high = Phase { rate_high: Some(9_000_000), ..tcp(Some(1)) };
        assert_eq!(high.cost().rate_bps, Some(18_000_000));
        let probe = Probe { size: 16, ..Probe::default() };
        let delay = Phase { kind: Kind::Delay, probe: Some(probe), ..tcp(Some(1_000_000)) };
        assert_eq!((delay.cost().rate_bps, delay.cost().load_bps), (Some(2_000_000), Some(16_000_000)));
    }
}
