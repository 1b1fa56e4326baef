//! Plan of a requester: length and times of messages, the end, and further demands on a test.

use super::codec::PARAM;
use crate::PacketTestSettings;
use crate::host::Host;
use metrics::Clamped;
use model::Phase;

/// Shortest and longest message, bytes.
pub(super) const SHORTEST: u64 = PARAM as u64;
const LONGEST: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Messages, their times, and notes of them. Each is as long as its `size`.
    pub asked: PacketTestSettings,
    /// Bytes of a connection; the last message goes beyond it, because none is cut.
    pub transfer: u64,
    /// Rate, bits/s.
    pub rate: Option<u64>,
    /// Longest time without progress, ns.
    pub stall_ns: u64,
    /// All of the responder's figures are wanted, as by `tcpmon_mon`.
    pub asks: bool,
    /// Source of this host's counters.
    pub host: Host,
}

impl Plan {
    /// The settings of `phase`.
    pub fn of(phase: &Phase, host: Host) -> Self {
        let (rate, stall_ns) = (phase.rate, phase.stall_ns);
        let Some(mut asked) = PacketTestSettings::of(phase) else {
            let message = phase.buffer.high.clamp(SHORTEST, LONGEST);
            return Plan::plain(u32::clamped(message), phase.transfer, rate, stall_ns);
        };
        asked.size = asked.size.max(u32::clamped(PARAM));
        let messages = u64::from(asked.packets) * u64::from(asked.bursts);
        let transfer = match asked.time_ns {
            Some(_) => u64::MAX,
            None => messages.saturating_mul(asked.size.into()),
        };
        Plan { asked, transfer, rate, stall_ns, asks: true, host }
    }

    /// Messages of `message` bytes, one behind the other, of which only the sums are wanted.
    pub fn plain(message: u32, transfer: u64, rate: Option<u64>, stall_ns: u64) -> Self {
        let none = PacketTestSettings::default();
        let asked = PacketTestSettings { size: message, packets: 0, settle_ns: 0, ..none };
        Plan { asked, transfer, rate, stall_ns, asks: false, host: Host::default() }
    }

    /// Length of a message, bytes.
    pub(super) fn message(&self) -> u64 {
        self.asked.size.into()
    }

    /// Messages of a burst; 0 where the time decides: a test of a time is one burst.
    pub(super) fn burst(&self) -> u64 {
        if self.asked.time_ns.is_some() { 0 } else { self.asked.packets.into() }
    }
}
