//! Common settings of all connections of a test.

use super::{Filler, Timetable};
use metrics::{Group, Mono, SECOND};
use model::{Pace, Payload, Phase, Verify};
use std::sync::Arc;

/// A transfer of this many bytes, the largest that a phase may ask for, is one without end.
pub const UNLIMITED: u64 = Phase::MAX_TRANSFER;

/// Common settings of all connections of a test.
#[derive(Clone, Debug)]
pub struct Params {
    /// The group that counts them.
    pub group: Group,
    /// The payload.
    pub filler: Filler,
    /// Bytes of one write or read.
    pub buffer: u64,
    /// Bytes of a connection; `None` goes on until the time is up.
    pub transfer: Option<u64>,
    /// Limit of a connection's sends, bits/s.
    pub rate: Option<u64>,
    /// Bytes that leave back to back before the rate is asked again; 1 for an even rate.
    pub burst: u64,
    /// Bytes are dropped unseen.
    pub unseen: bool,
    /// Time that connections are kept open after senders' end, ns.
    pub hold_ns: u64,
    /// A reset by the receiver, or its refusal of datagrams, counts as the regular end of the
    /// connection.
    pub reset_is_end: bool,
    /// Longest time without progress, ns.
    pub stall_ns: u64,
    /// True if each established connection is reported.
    pub arrivals: bool,
    /// True if a received connection is measured from its first byte, which is posted as
    /// [`FirstByte`](crate::message::SharedMessage::FirstByte), or else from its establishment.
    pub from_first_byte: bool,
    /// When what counts.
    pub table: Arc<Timetable>,
}

impl Params {
    /// The settings of `phase` that concern its connections.
    pub fn of(phase: &Phase, group: Group, filler: Filler) -> Self {
        let datagram = phase.probe.map_or(u64::MAX, |probe| probe.size.into());
        let buffer = phase.buffer.high.min(datagram).max(1);
        // A number of buffers, and the time in which they are paid for, are a rate.
        let bursts = phase.burst.map(|burst| (u64::from(burst.count).saturating_mul(buffer), burst.delay_ns));
        let bps = |(bytes, ns): (u64, u64)| {
            u64::try_from(u128::from(bytes) * 8 * u128::from(SECOND) / u128::from(ns.max(1)))
                .unwrap_or(u64::MAX)
        };
        let (rate, burst) = (phase.rate.or(bursts.map(bps)), bursts.map_or(1, |(bytes, _)| bytes));
        // A slow schedule must not look like a stall.
        let gap = pace(rate, burst, buffer, Mono(0)).map_or(0, |pace| pace.gap_ns());
        Params {
            group,
            filler: if phase.payload == Payload::Random {
                Filler::Random(phase.payload_seed.unwrap_or(1))
            } else {
                filler
            },
            buffer,
            transfer: (phase.transfer < UNLIMITED).then_some(phase.transfer),
            rate,
            burst,
            unseen: phase.verify == Verify::None,
            hold_ns: 0,
            reset_is_end: false,
            stall_ns: phase.stall_ns.max(gap.saturating_mul(4)),
            arrivals: false,
            from_first_byte: false,
            table: Arc::new(Timetable::always()),
        }
    }

    /// When what may leave, from `start`; `None` without a rate.
    pub(super) fn pace(&self, start: Mono) -> Option<Pace> {
        pace(self.rate, self.burst, self.buffer, start)
    }
}

fn pace(rate: Option<u64>, burst: u64, buffer: u64, start: Mono) -> Option<Pace> {
    let even = Pace::new(rate?, buffer, start);
    Some(if burst > 1 { even.in_bursts(burst, buffer) } else { even })
}
