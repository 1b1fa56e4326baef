//! Counts of the ends of a phase, as the rules of its ending ask for them.

use super::{LARGE, TOO_FEW, UNCONFIRMED, WRONG_DATA};
use crate::{Count, Counts, Interval, PacketReport, PingCounts, Totals, Traffic};
use metrics::real;

/// Begin of a cause of connections that could not be established.
const CONNECTING: &str = "connecting:";

/// Most bytes of a connection that are a protocol's first words, or a SYN and a FIN.
const WORDS: u64 = 128;

/// Fewest messages without an answer that show that a peer is gone, and the largest chance that a
/// path which loses as many as before lost all of them.
const SILENT: u64 = 5;
const BY_CHANCE: f64 = 1e-6;

/// Knowledge of a count, from the least to the most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Known {
    /// The end has reported nothing.
    #[default]
    Unreported,
    /// The end has no such count.
    Unknown,
    Zero,
    Some,
}

impl Known {
    /// Takes in another reading; one that is unknown changes nothing.
    fn add(&mut self, is_known: bool, n: u64) {
        let reading = match (is_known, n) {
            (false, _) => Known::Unknown,
            (true, 0) => Known::Zero,
            (true, _) => Known::Some,
        };
        *self = reading.max(*self);
    }
}

/// Counts of one end, or of all remote ends together.
///
/// Wide: a count for each question that the rules ask.
#[derive(Clone, Debug, Default)]
pub(super) struct EndTotals {
    /// Payload, in any interval or in the totals.
    pub(super) sent: Known,
    pub(super) arrived: Known,
    /// A message was answered, and the answer was damaged, in any interval or in the totals.
    pub(super) answered: bool,
    pub(super) damaged: bool,
    pub(super) datagrams: u64,
    pub(super) refused: u64,
    /// Intervals with datagrams sent, and intervals with refused ones among these.
    sending_intervals: u64,
    refused_intervals: u64,
    /// Datagrams or messages of the first and of the last interval that sent any, and the refused
    /// ones among these.
    pub(super) first: [u64; 2],
    pub(super) last: [u64; 2],
    /// The refused ones of the interval before that.
    pub(super) refused_before: u64,
    pub(super) messages: u64,
    pub(super) missed: u64,
    pub(super) lost: u64,
    /// Messages sent before and since the last answer that the intervals show, the answers, and
    /// the instant from which on there was none, or hardly any, ns.
    pub(super) answered_until: u64,
    before: u64,
    pub(super) since: u64,
    pub(super) answers: u64,
    /// Answers of the interval in which they ended, where few of its messages have one.
    pub(super) few: u64,
    /// Frames of a stream that did not arrive whole, and whether any did.
    pub(super) incomplete: u64,
    pub(super) has_whole: bool,
    pub(super) opened: u64,
    /// Connections that broke, by a reset, a time-out, a refusal or an early end, those among them
    /// that were never established, and whether payload passed behind the last failure.
    pub(super) broken: u64,
    pub(super) unconnected: u64,
    pub(super) recovered: bool,
    pub(super) retransmits: u64,
    /// Payload that was sent, and bytes that the kernel knows to be acknowledged, without
    /// the protocol's first words; `None` where it does not say.
    sent_bytes: u64,
    acked: Option<u64>,
    pub(super) moved: u64,
    /// Payload that ended connections received in their whole lives, also after the time of the
    /// test, bytes.
    pub(super) in_all: u64,
    /// The most frequent failure.
    pub(super) cause: Option<String>,
}

/// True if `since` messages in a row without an answer are more than chance makes of a path that
/// answered `answers` of the `before` ones before.
fn is_silence(before: u64, answers: u64, since: u64) -> bool {
    let missing = real(before.saturating_sub(answers) + 1) / real(before + 2);
    since >= SILENT && missing.powf(real(since)) < BY_CHANCE
}

impl EndTotals {
    pub(super) fn traffic(&mut self, traffic: &Traffic, unknown: Counts) {
        self.sent.add(!unknown.has(Count::SentBytes), traffic.tx_bytes);
        self.arrived.add(!unknown.has(Count::ReceivedBytes), traffic.rx_bytes);
    }

    pub(super) fn packets(&mut self, packets: Option<&PacketReport>) {
        let Some(packets) = packets else { return };
        let arrived = packets.counts.received.max(packets.counts.late).max(packets.counts.corrupt);
        self.sent.add(packets.sent().is_some(), packets.counts.sent);
        self.arrived.add(packets.received().is_some(), arrived);
    }

    pub(super) fn answers(&mut self, counts: &PingCounts) {
        self.answered |= counts.received > 0 || counts.late > 0;
        self.damaged |= counts.damaged > 0;
    }

    /// Takes in an interval's messages and answers, or frames that were due and that arrived, for
    /// the instant from which on none did, or hardly any in that interval.
    pub(super) fn answers_until(&mut self, interval: &Interval, sent: u64, received: u64) {
        let missing = sent.saturating_sub(received);
        let before = self.before.saturating_add(self.since);
        let ends_within = received.saturating_mul(4) <= missing && is_silence(before, self.answers, missing);
        self.answers = self.answers.saturating_add(received);
        match received {
            0 => self.since = self.since.saturating_add(sent),
            few if ends_within => {
                self.before = before.saturating_add(few);
                (self.since, self.few, self.answered_until) = (missing, few, interval.start_ns);
            }
            _ => {
                self.before = before.saturating_add(sent);
                (self.since, self.few, self.answered_until) = (0, 0, interval.end_ns);
            }
        }
    }

    /// True if so many of the last messages went unanswered that no loss explains it.
    pub(super) fn fell_silent(&self) -> bool {
        self.lost >= self.since && is_silence(self.before, self.answers, self.since)
    }

    /// True if the end has any count of payload.
    pub(super) fn is_heard(&self) -> bool {
        self.sent.max(self.arrived) > Known::Unknown
    }

    /// True if the peer's host refused (ICMP) as many datagrams as a sender can know of: within one
    /// host each second one, which finds the refusal of the one before; of another host one or a few
    /// a second (RFC 1812 §4.3.2.8), so that most intervals have one.
    pub(super) fn is_refused(&self) -> bool {
        let lasts = self.sending_intervals > 1 && self.refused_intervals * 2 >= self.sending_intervals;
        // Within one host few refusals at first and many at last are of a program that ended.
        let (first, last) = (self.first, self.last);
        let was_there = first[1] * 4 < first[0] && last[1] * 2 >= last[0];
        self.refused > 0 && (self.refused >= self.datagrams / 2 || (lasts && !was_there))
    }

    /// Takes in the datagrams, or messages, that an interval sent, and the refused ones.
    pub(super) fn sends(&mut self, sent: u64, refused: u64) {
        if sent + refused > 0 {
            if self.sending_intervals == 0 {
                self.first = [sent, refused];
            }
            self.refused_before = self.last[1];
            self.last = [sent, refused];
            self.sending_intervals += 1;
            self.refused_intervals += u64::from(refused > 0);
        }
    }

    /// True if TCP sent payload more than once and the peer acknowledged none: the packets that
    /// passed were small.
    pub(super) fn is_unacknowledged(&self) -> bool {
        self.acked == Some(0) && self.retransmits > 0 && self.sent_bytes > u64::from(LARGE)
    }

    pub(super) fn totals(&mut self, totals: &Totals) {
        self.traffic(&totals.traffic, totals.unknown);
        self.packets(totals.packets.as_deref());
        let counts = totals.packets.as_ref().map(|packets| packets.counts).unwrap_or_default();
        self.datagrams = self.datagrams.saturating_add(counts.sent);
        self.refused = self.refused.saturating_add(counts.refused);
        if let Some(pings) = &totals.pings {
            let counts = pings.counts;
            self.answered |= pings.rtt_ns.is_some();
            self.messages = self.messages.saturating_add(counts.sent);
            self.lost = self.lost.saturating_add(counts.missing());
            self.missed = self.missed.saturating_add(counts.missed);
            self.refused = self.refused.saturating_add(counts.refused);
            self.answers(&counts);
        }
        if let Some(frames) = totals.frames {
            self.arrived.add(true, frames.completed.max(frames.repeated));
            self.incomplete = frames.judged().saturating_sub(frames.completed);
            self.lost = self.lost.saturating_add(self.incomplete);
            self.has_whole |= frames.completed.max(frames.repeated) > 0;
        }
        // Damaged payload has arrived, and counts nowhere.
        if totals.causes.iter().any(|cause| cause.text == WRONG_DATA) {
            self.arrived.add(true, 1);
        }
        self.opened = self.opened.saturating_add(totals.opened);
        self.retransmits = self.retransmits.saturating_add(totals.tcp.retransmits);
        let ended_early = totals.causes.iter().filter(|cause| [TOO_FEW, UNCONFIRMED].contains(&&*cause.text));
        let broken = ended_early.map(|cause| cause.count).fold(totals.network_errors, u64::saturating_add);
        self.broken = self.broken.saturating_add(broken).saturating_add(totals.protocol_errors);
        let connecting = totals.causes.iter().filter(|cause| cause.text.starts_with(CONNECTING));
        self.unconnected = connecting.map(|cause| cause.count).fold(self.unconnected, u64::saturating_add);
        let Traffic { tx_bytes, rx_bytes, .. } = totals.traffic;
        self.sent_bytes = self.sent_bytes.saturating_add(tx_bytes);
        self.moved = self.moved.saturating_add(tx_bytes).saturating_add(rx_bytes);
        if let Some(acked) = totals.tcp.bytes_acked {
            let words = totals.tcp.connections.saturating_mul(WORDS);
            self.acked = Some(self.acked.unwrap_or(0).saturating_add(acked.saturating_sub(words)));
        }
        self.in_all =
            totals.remotes.values().fold(self.in_all, |sum, peer| sum.saturating_add(peer.rx_bytes));
        if totals.errors() > 0 && self.cause.is_none() {
            self.cause = totals.causes.first().map(|cause| cause.first.clone());
        }
    }
}
