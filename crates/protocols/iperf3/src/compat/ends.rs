//! The figures of streams, of directions and of both ends, as the report and the JSON have them.

use crate::{BulkEnded, RemoteRow, StreamRow};
use metrics::{Clamped, real};

/// Figures of a stream, or of several together, at one end.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct StreamFigures {
    pub(super) bytes: u64,
    pub(super) ns: u64,
    pub(super) retransmits: Option<u64>,
    pub(super) jitter_ns: f64,
    pub(super) lost: i64,
    pub(super) packets: i64,
    pub(super) streams: u32,
}

impl StreamFigures {
    pub(super) fn local(row: &StreamRow) -> StreamFigures {
        let StreamRow { bytes, retransmits, jitter_ns, lost, .. } = *row;
        let packets = i64::clamped(row.packets);
        StreamFigures { bytes, retransmits, jitter_ns, lost, packets, ..StreamFigures::silent(row) }
    }

    /// The peer's; where it does not say how long it took, it is what we saw.
    fn remote(row: &RemoteRow, local: &StreamRow) -> StreamFigures {
        let silent = StreamFigures::silent(local);
        let RemoteRow { bytes, retransmits, jitter_ns, lost, packets, ns, .. } = *row;
        StreamFigures { bytes, retransmits, jitter_ns, lost, packets, ns: ns.unwrap_or(silent.ns), ..silent }
    }

    /// Of a peer that said nothing: it took as long as we saw.
    fn silent(local: &StreamRow) -> StreamFigures {
        StreamFigures {
            ns: local.end_ns.saturating_sub(local.start_ns),
            streams: 1,
            ..StreamFigures::default()
        }
    }

    pub(super) fn add(&mut self, other: &StreamFigures) {
        self.bytes += other.bytes;
        self.ns = self.ns.max(other.ns);
        self.retransmits = match (self.retransmits, other.retransmits) {
            (Some(a), Some(b)) => Some(a + b),
            (a, b) => a.or(b),
        };
        self.jitter_ns += other.jitter_ns;
        self.lost += other.lost;
        self.packets += other.packets;
        self.streams += other.streams;
    }

    pub(super) fn jitter_ms(&self) -> f64 {
        self.jitter_ns / f64::from(self.streams.max(1)) / 1e6
    }

    pub(super) fn share(&self) -> f64 {
        if self.packets > 0 { 100.0 * real(self.lost) / real(self.packets) } else { 0.0 }
    }
}

/// The sender's and the receiver's word on a stream; `None` where the peer said nothing.
pub(super) fn sides(ended: &BulkEnded, row: &StreamRow) -> (Option<StreamFigures>, Option<StreamFigures>) {
    let remote = ended.remote.iter().find(|remote| remote.slot == row.slot);
    let (local, remote) =
        (Some(StreamFigures::local(row)), remote.map(|remote| StreamFigures::remote(remote, row)));
    if row.sender { (local, remote) } else { (remote, local) }
}

/// The same; a peer that said nothing has moved nothing.
pub(super) fn sides_or_empty(ended: &BulkEnded, row: &StreamRow) -> [StreamFigures; 2] {
    let (sent, got) = sides(ended, row);
    [sent, got].map(|side| side.unwrap_or(StreamFigures::silent(row)))
}

/// The rows of each direction, with whether we send in it: first the direction in which the client
/// sends.
pub(super) fn directions(serving: bool, rows: &[StreamRow]) -> impl Iterator<Item = (bool, Vec<&StreamRow>)> {
    let of = move |sender| (sender, rows.iter().filter(|row| row.sender == sender).collect::<Vec<_>>());
    [!serving, serving].into_iter().map(of).filter(|(_, rows)| !rows.is_empty())
}

/// The congestion control of the sender, and that of the receiver; `sends` is whether we are the
/// sender.
pub(super) fn congestions(ended: &BulkEnded, sends: bool) -> [&Option<String>; 2] {
    let (own, peer) = (&ended.congestion, &ended.remote_congestion);
    if sends { [own, peer] } else { [peer, own] }
}
