//! What a requester does: messages of which length, when, until when, and what else is wanted of a test.

use super::codec::PARAM;
use super::notes::Wanted;
use crate::PacketTestSettings;
use crate::host::Host;
use crate::packet_stats::TENTH;
use model::Phase;

/// Shortest and longest message, bytes.
pub(super) const SHORTEST: u64 = PARAM as u64;
const LONGEST: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Length of a message, bytes.
    pub message: u64,
    /// Bytes of a connection; the last message goes beyond it, because none is cut.
    pub transfer: u64,
    /// Rate, bits/s.
    pub rate: Option<u64>,
    /// How long nothing may move, ns.
    pub stall_ns: u64,
    /// With `tcpmon_mon`: what else is wanted.
    pub test: Option<Test>,
}

/// A test of `tcpmon_mon`: messages at their times, and all that the responder tells is wanted.
#[derive(Clone, Debug, Default)]
pub struct Test {
    /// Time from the start of a message to the start of the next, ns.
    pub wait_ns: u64,
    /// Messages of a burst; 0 where the time decides.
    pub burst: u64,
    /// Pause after a burst, ns.
    pub gap_ns: u64,
    /// Duration of sending, ns; overrides the transfer.
    pub time_ns: Option<u64>,
    /// How long is waited behind the last message, so that the counters of both hosts have moved, ns.
    pub settle_ns: u64,
    pub wanted: Wanted,
    /// Source of this host's counters.
    pub host: Host,
}

impl Plan {
    /// The settings of `phase`.
    pub fn of(phase: &Phase, host: Host) -> Self {
        let (rate, stall_ns) = (phase.rate, phase.stall_ns);
        let Some(asked) = PacketTestSettings::of(phase) else {
            let message = phase.buffer.high.clamp(SHORTEST, LONGEST);
            return Plan { message, transfer: phase.transfer, rate, stall_ns, test: None };
        };
        let tenths = |n: u32| u64::from(n) * TENTH;
        let message = u64::from(asked.size).max(SHORTEST);
        let messages = u64::from(asked.packets) * u64::from(asked.bursts);
        let test = Test {
            wait_ns: asked.waits.first().copied().map_or(0, tenths),
            // A test of a time is one burst.
            burst: if asked.time_ns.is_some() { 0 } else { asked.packets.into() },
            gap_ns: tenths(asked.gap),
            time_ns: asked.time_ns,
            settle_ns: asked.settle_ns,
            wanted: Wanted::of(&asked),
            host,
        };
        let transfer = if test.time_ns.is_some() { u64::MAX } else { messages.saturating_mul(message) };
        Plan { message, transfer, rate, stall_ns, test: Some(test) }
    }
}
