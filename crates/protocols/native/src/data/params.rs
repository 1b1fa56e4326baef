//! What all data connections of a session share.

use metrics::{Group, Mono};
use model::{Burst, Pace, Pattern, Payload, Phase, Range, Shutdown, Verify};

/// What all data connections of a session share.
#[derive(Clone, Debug)]
pub struct Params {
    pub group: Group,
    /// Which end sends, in what order.
    pub pattern: Pattern,
    pub verify: Verify,
    pub payload: Payload,
    /// Bytes per send and receive call.
    pub buffer: Range,
    /// Limit per connection and direction, bits/s.
    pub rate: Option<u64>,
    pub burst: Option<Burst>,
    /// How the client ends a connection.
    pub shutdown: Shutdown,
    /// How long nothing may move, ns.
    pub stall_ns: u64,
    /// The server's worker that has slot 0; the next slots have the others in turn.
    pub first_worker: u32,
    /// Between two probes that the client puts between its payload, ns; `None` without.
    pub inside_gap_ns: Option<u64>,
}

impl Params {
    /// The settings of `phase` that concern its data connections.
    #[must_use]
    pub fn of(phase: &Phase, group: Group) -> Self {
        // A slow schedule must not look like a stall.
        let gap = phase.rate.map_or(0, |rate| Pace::new(rate, phase.buffer.high, Mono(0)).gap_ns());
        let pause = phase.burst.map_or(0, |burst| burst.delay_ns);
        Params {
            group,
            pattern: phase.pattern,
            verify: phase.verify,
            payload: phase.payload,
            buffer: phase.buffer,
            rate: phase.rate,
            burst: phase.burst,
            shutdown: phase.shutdown,
            stall_ns: phase.stall_ns.max(gap.max(pause).saturating_mul(4)),
            first_worker: phase.first_worker,
            inside_gap_ns: phase.inside_gap_ns,
        }
    }
}
