//! What all connections of a run have in common, and when the next send of one of them is due.

use metrics::{Group, Mono};
use model::{Burst, Delays, Pace, Pattern, Phase, Quanta, Range, Shutdown, Verify};
use transport::Rng;

/// What all connections of a run have in common. Both ends need the same, as far as it concerns both.
#[derive(Clone, Debug)]
pub struct Params {
    pub group: Group,
    /// Which end sends payload, in what order.
    pub pattern: Pattern,
    /// Payload of a connection; from a range each end draws its own, as in the original.
    pub transfer: Range,
    pub verify: Verify,
    /// Bytes per send and receive, drawn for each.
    pub buffer: Range,
    /// Limit of a connection's sends, bits/s, drawn for each connection.
    pub rate: Option<Range>,
    /// Length of a quantum, ns, when the rate is kept as the original keeps it.
    pub rate_period_ns: Option<u64>,
    pub burst: Option<Burst>,
    /// How the client ends a connection.
    pub shutdown: Shutdown,
    /// How long nothing may move, ns.
    pub stall_ns: u64,
    /// Whether a connection is told when it has come to be.
    pub arrivals: bool,
}

impl Params {
    /// The settings of `phase` that concern its connections.
    #[must_use]
    pub fn of(phase: &Phase, group: Group) -> Self {
        let rate = phase.rate.map(|low| Range { low, high: phase.rate_high.unwrap_or(low) });
        // A slow schedule must not look like a stall.
        let gap = rate.map_or(0, |rate| longest_gap(rate.low, phase));
        let pause = phase.burst.map_or(0, |burst| burst.delay_ns);
        Params {
            group,
            pattern: phase.pattern,
            transfer: Range { low: phase.transfer, high: phase.transfer_high.unwrap_or(phase.transfer) },
            verify: phase.verify,
            buffer: phase.buffer,
            rate,
            rate_period_ns: phase.rate_period_ns,
            burst: phase.burst,
            shutdown: phase.shutdown,
            stall_ns: phase.stall_ns.max(gap.max(pause).saturating_mul(4)),
            arrivals: false,
        }
    }

    /// How the sends of a new connection are timed.
    pub(super) fn pacing(&self, rng: &mut Rng, now: Mono) -> Pacing {
        let Some(range) = self.rate else {
            return self.burst.map_or(Pacing::Free, |burst| Pacing::Delays(Delays::new(burst)));
        };
        let rate = rng.between(range.low, range.high);
        match self.rate_period_ns {
            Some(period) => Pacing::Quanta(Quanta::new(rate, period, now)),
            None => Pacing::Smooth(Pace::new(rate, self.buffer.high, now)),
        }
    }
}

/// The longest time between two sends at `rate`, ns.
fn longest_gap(rate: u64, phase: &Phase) -> u64 {
    match phase.rate_period_ns {
        Some(period) => Quanta::new(rate, period, Mono(0)).gap_ns(phase.buffer.high),
        None => Pace::new(rate, phase.buffer.high, Mono(0)).gap_ns(),
    }
}

#[derive(Debug)]
pub(super) enum Pacing {
    /// As fast as the socket takes them.
    Free,
    Smooth(Pace),
    /// By ctsTraffic's quanta.
    Quanta(Quanta),
    Delays(Delays),
}

impl Pacing {
    /// A send of `n` bytes is to come next; when it may begin.
    pub(super) fn due(&mut self, n: u64, now: Mono) -> Option<Mono> {
        match self {
            Pacing::Free => None,
            Pacing::Smooth(pace) => Some(pace.due()),
            Pacing::Quanta(quanta) => Some(quanta.due(n, now)),
            Pacing::Delays(delays) => delays.due(now),
        }
    }

    /// Most bytes of one send call.
    pub(super) fn most(&self) -> u64 {
        if let Pacing::Smooth(pace) = self { pace.chunk() } else { u64::MAX }
    }

    /// `n` bytes have left; when the rest of the send may go on.
    pub(super) fn sent(&mut self, n: u64, now: Mono) -> Option<Mono> {
        let Pacing::Smooth(pace) = self else { return None };
        pace.sent(n, now);
        Some(pace.due())
    }
}
