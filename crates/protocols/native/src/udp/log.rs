//! Records of every packet at both ends of packet trains, and the transfer of the server's part to
//! the client.

use super::track::{number, stamp};
use crate::message::Message;
use metrics::{Departure, Echo, ReceivedPacket, StampKind, TrainPacket, TrainReport, join, join_echoes};
use model::{MOST_TRAIN_PACKETS, Train, Trains};

/// Entries of one message: far below the longest one.
const PIECE: usize = 4_000;
const MOST: usize = MOST_TRAIN_PACKETS as usize;

/// One end's record, sent with the rest of its flow's report.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    /// When the schedule began, ns of the sender's host clock; only the sender knows.
    pub(crate) start_ns: Option<i64>,
    /// Error bound of the receiver's estimate of the sender's clock, and of its card's where that
    /// stamped packets, ns.
    pub(crate) bound_ns: u64,
    /// Packets sent, in order.
    pub(crate) sent: Vec<Departure>,
    /// Packets that arrived intact, in order.
    pub(crate) got: Vec<ReceivedPacket>,
    /// Packets of ours that were returned, in order; not sent.
    pub(crate) back: Vec<Echo>,
    /// Arrivals that there was no room for.
    pub(crate) left_out: u64,
}

impl Log {
    /// Remembers an arrival, if there is room: twice as much as trains may have packets would be
    /// nothing but repetitions.
    pub(super) fn arrived(&mut self, arrival: ReceivedPacket) {
        if self.got.len() < MOST {
            self.got.push(arrival);
        } else {
            self.left_out += 1;
        }
    }

    /// Remembers a return, likewise.
    pub(super) fn returned(&mut self, echo: Echo) {
        if self.back.len() < MOST {
            self.back.push(echo);
        } else {
            self.left_out += 1;
        }
    }

    /// The messages of the record: numbers are relative to the first ones, which keeps them short.
    pub(crate) fn messages(&self) -> impl Iterator<Item = Message> + '_ {
        let first = self.got.first();
        let zero_ns = self.start_ns.or_else(|| first.map(|arrival| arrival.received_ns)).unwrap_or_default();
        let offset_ns = first.map_or(0, |arrival| arrival.offset_ns);
        let message = move |sent: &[Departure], got: &[ReceivedPacket], left_out| Message::Trains {
            start_ns: self.start_ns,
            zero_ns,
            offset_ns,
            bound_ns: self.bound_ns,
            left_out,
            sent: sent.iter().map(|d| (d.place, d.sent_ns.wrapping_sub(zero_ns))).collect(),
            got: got
                .iter()
                .map(|a| {
                    let (at, offset) =
                        (a.received_ns.wrapping_sub(zero_ns), a.offset_ns.wrapping_sub(offset_ns));
                    (a.sequence, at, offset, number(a.stamp))
                })
                .collect(),
        };
        let sent = self.sent.chunks(PIECE).map(move |piece| message(piece, &[], 0));
        let got = self.got.chunks(PIECE).map(move |piece| message(&[], piece, 0));
        sent.chain(got).chain(std::iter::once_with(move || message(&[], &[], self.left_out)))
    }

    /// Adds a message's part; never more than trains can have.
    pub(crate) fn add(&mut self, message: Message) {
        let Message::Trains { start_ns, zero_ns, offset_ns, bound_ns, left_out, sent, got } = message else {
            return;
        };
        self.start_ns = self.start_ns.or(start_ns);
        self.bound_ns = self.bound_ns.max(bound_ns);
        self.left_out = self.left_out.saturating_add(left_out);
        let room = MOST.saturating_sub(self.sent.len());
        self.sent.extend(
            sent.into_iter()
                .take(room)
                .map(|(place, at)| Departure { place, sent_ns: at.wrapping_add(zero_ns) }),
        );
        for (sequence, at, offset, who) in got {
            let (received_ns, offset_ns) = (at.wrapping_add(zero_ns), offset.wrapping_add(offset_ns));
            let stamp = stamp(who, StampKind::KernelRx);
            self.arrived(ReceivedPacket { sequence, received_ns, offset_ns, stamp, damaged: false });
        }
    }
}

/// Result of `train` from the logs of both ends; `None` when the sender's has no start. `headers`
/// are the bytes that IP and UDP add to a packet of `size` bytes.
pub(crate) fn trains_of(
    train: &Train,
    size: u32,
    headers: u32,
    sender: &Log,
    receiver: &Log,
) -> Option<(Trains, Vec<TrainPacket>)> {
    let start_ns = sender.start_ns?;
    let (mut packets, strays) = join(train.places(), start_ns, &sender.sent, &receiver.got);
    let (clock_bound_ns, mut left_out) = (receiver.bound_ns, receiver.left_out);
    if train.echo {
        join_echoes(&mut packets, start_ns, &sender.sent, &sender.back);
        left_out += sender.left_out;
    }
    let report = TrainReport::of(&packets, &train.waits_ns, size, headers, train.echo);
    Some((Trains { headers, clock_bound_ns, strays, left_out, report }, packets))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::message::{Frames, MAX_MESSAGE, encode};

    #[test]
    fn a_log_comes_whole_through_bounded_messages() {
        let log = Log {
            start_ns: Some(1 << 60),
            bound_ns: 9,
            sent: (0..100_000).map(|n| Departure { place: n, sent_ns: (1 << 60) + i64::from(n) }).collect(),
            got: (0..100_000)
                .map(|n| ReceivedPacket {
                    sequence: n,
                    received_ns: i64::MIN + n as i64,
                    offset_ns: i64::MAX - n as i64,
                    stamp: [StampKind::User, StampKind::KernelRx, StampKind::Hardware][n as usize % 3],
                    damaged: false,
                })
                .collect(),
            back: Vec::new(),
            left_out: 3,
        };
        let (mut frames, mut told) = (Frames::new(MAX_MESSAGE), Log::default());
        for message in log.messages() {
            let bytes = encode(&message);
            assert!(bytes.len() < MAX_MESSAGE / 2, "{}", bytes.len());
            frames.push(&bytes).unwrap();
            told.add(frames.pop().unwrap().unwrap());
        }
        assert_eq!(told, log);
        // The limit also holds for messages of a peer.
        log.messages().for_each(|message| told.add(message));
        assert_eq!((told.sent.len(), told.got.len(), told.left_out), (100_000, 100_000, 100_006));
    }
}
