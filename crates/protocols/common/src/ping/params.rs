//! Common settings of all connections of a run.

use metrics::{Group, Mono};
use model::{Phase, Ping, Schedule, Trace, Transport};
use std::sync::Arc;

/// The remote end's addition to its echoes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Remote {
    /// Nothing: the same bytes return.
    #[default]
    Nothing,
    /// In place of the second word, the time between receiving and sending, ns.
    Spent,
}

/// Common settings of all connections of a run.
#[derive(Clone, Debug, Default)]
pub struct Params {
    /// The group that counts them.
    pub group: Group,
    /// Messages and their schedule.
    pub ping: Ping,
    /// Times between messages, if the schedule is that of a trace.
    pub trace: Option<Arc<Trace>>,
    /// The remote end's addition.
    pub remote: Remote,
    /// Number of concurrent connections: open loops begin evenly apart.
    pub connections: u32,
    /// Messages sent within this time after a connection is up do not count, ns.
    pub omit_ns: u64,
    /// Longest time without an echo over TCP, ns.
    pub stall_ns: u64,
    /// When an open loop begins, and when it ends, whenever its connections are up; without it they
    /// begin when they are.
    pub span: Option<(Mono, Option<Mono>)>,
}

/// Messages under way at once on a connection, and those remembered so that a late echo is known,
/// over all connections.
const REMEMBERED: u32 = 1 << 16;

impl Params {
    /// The settings of `phase` that concern its connections.
    pub fn of(phase: &Phase, group: Group, remote: Remote) -> Self {
        Params {
            group,
            ping: phase.ping.unwrap_or_default(),
            trace: phase.trace.clone().map(Arc::new),
            remote,
            connections: phase.connections,
            omit_ns: phase.omit_ns,
            stall_ns: phase.stall_ns,
            span: None,
        }
    }

    /// The same between two ends of ours; `None` when no round trips are measured.
    pub fn ours(phase: &Phase, group: Group) -> Option<Self> {
        phase.ping.map(|_| Params::of(phase, group, Remote::Spent))
    }

    /// The same with a schedule, if there is one, from `start` on until `end`, if that is known.
    #[must_use]
    pub fn during(self, start: Mono, end: Option<Mono>) -> Self {
        let open = self.ping.schedule != Schedule::Closed;
        Params { span: open.then_some((start, end)), ..self }
    }

    /// True if messages go over UDP.
    pub fn datagrams(&self) -> bool {
        self.ping.transport == Transport::Udp
    }

    /// Units of a message: over TCP it is one, over UDP one for each datagram.
    pub(super) fn units(&self) -> u64 {
        if self.datagrams() { u64::from(self.ping.pieces()) } else { 1 }
    }

    /// Bytes of a send that begins at offset `from` of a message.
    pub(super) fn send_at(&self, from: u64) -> u64 {
        let (size, chunk) = (u64::from(self.ping.size), u64::from(self.ping.chunk.unwrap_or(u32::MAX)));
        (chunk - from % chunk).min(size - from.min(size))
    }

    /// Bytes of unit `piece` of a message.
    pub fn unit(&self, piece: u64) -> u64 {
        let size = u64::from(self.ping.size);
        if !self.datagrams() {
            return size;
        }
        let chunk = u64::from(self.ping.chunk.unwrap_or(self.ping.size));
        chunk.min(size.saturating_sub(piece * chunk))
    }

    /// Number of messages that a connection remembers.
    pub(super) fn remembered(&self) -> usize {
        (REMEMBERED / self.connections.max(1)).clamp(1024, REMEMBERED) as usize
    }
}
