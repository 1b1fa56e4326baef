//! Common settings of all connections of a run.

use metrics::{Group, Mono};
use model::{Pace, Phase, Quanta, Shutdown};
use std::ops::Deref;
use transport::Rng;

/// The settings of a phase for its connections. Settings that concern both ends must have the same
/// values at both.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The requested phase.
    pub phase: Phase,
    /// The group that counts them.
    pub group: Group,
    /// Longest time without progress, ns.
    pub stall_ns: u64,
    /// True if each established connection is reported.
    pub arrivals: bool,
}

impl Params {
    /// The settings of `phase` that concern its connections.
    pub fn of(phase: &Phase, group: Group) -> Self {
        // A slow schedule must not look like a stall.
        let buffer = phase.buffer.high;
        let gap = phase.rate.map_or(0, |rate| match phase.rate_period_ns {
            Some(period) => Quanta::new(rate, period, Mono(0)).gap_ns(buffer),
            None => Pace::new(rate, buffer, Mono(0)).gap_ns(),
        });
        let pause = phase.burst.map_or(0, |burst| burst.delay_ns);
        let stall_ns = phase.stall_ns.max(gap.max(pause).saturating_mul(4));
        Params { phase: phase.clone(), group, stall_ns, arrivals: false }
    }

    /// True if the client ends its next connection by RST.
    pub fn rude(&self, rng: &mut Rng) -> bool {
        match self.shutdown {
            Shutdown::Graceful => false,
            Shutdown::Rude => true,
            Shutdown::Random => rng.next() & 1 == 1,
        }
    }
}

impl Deref for Params {
    type Target = Phase;

    fn deref(&self) -> &Phase {
        &self.phase
    }
}
