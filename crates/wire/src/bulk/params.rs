//! What all connections of a test have in common.

use super::{Filler, Timetable};
use metrics::{Group, Mono};
use model::{Pace, Payload, Phase, Verify};
use std::sync::Arc;

/// A transfer of so many bytes, the largest that a phase may ask for, is one without end.
pub const UNLIMITED: u64 = 1 << 50;

/// What all connections of a test have in common.
#[derive(Clone, Debug)]
pub struct Params {
    /// Where they are counted.
    pub group: Group,
    /// What is sent.
    pub filler: Filler,
    /// Bytes of one write or read.
    pub buffer: u64,
    /// Bytes of a connection; `None` goes on until the time is up.
    pub transfer: Option<u64>,
    /// Limit of a connection's sends, bits/s.
    pub rate: Option<u64>,
    /// Bytes are dropped unseen.
    pub unseen: bool,
    /// How long connections are kept open after the time in which senders send, ns.
    pub hold_ns: u64,
    /// How long nothing may move, ns.
    pub stall_ns: u64,
    /// Whether a connection is told when it has come to be.
    pub arrivals: bool,
    /// When what counts.
    pub table: Arc<Timetable>,
}

impl Params {
    /// The settings of `phase` that concern its connections.
    #[must_use]
    pub fn of(phase: &Phase, group: Group, filler: Filler) -> Self {
        let datagram = phase.probe.map_or(u64::MAX, |probe| probe.size.into());
        let buffer = phase.buffer.high.min(datagram).max(1);
        // A slow schedule must not look like a stall.
        let gap = phase.rate.map_or(0, |rate| Pace::new(rate, buffer, Mono(0)).gap_ns());
        Params {
            group,
            filler: if phase.payload == Payload::Random {
                Filler::Random(phase.payload_seed.unwrap_or(1))
            } else {
                filler
            },
            buffer,
            transfer: (phase.transfer < UNLIMITED).then_some(phase.transfer),
            rate: phase.rate,
            unseen: phase.verify == Verify::None,
            hold_ns: 0,
            stall_ns: phase.stall_ns.max(gap.saturating_mul(4)),
            arrivals: false,
            table: Arc::new(Timetable::always()),
        }
    }
}
