//! The outcome of each datagram of a flow in one direction, and of all together.
//!
//! Both ends' lists are read at leisure, after the run; [`crate::Sequence`] counts the same while
//! datagrams arrive. The two share no code.

use crate::{IpFields, Packets, StampKind, real};
use serde::{Deserialize, Serialize};

/// Marks the number expected at the arrival of a datagram without a readable number. Numbers never
/// reach this bit; release 0.1.0 ignores such a record, as every number that never left.
const NAMELESS: u64 = 1 << 63;

/// A datagram that left; its number is its place in the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SentPacket {
    /// When it was to leave, ns of the sender's host clock.
    pub intended_ns: i64,
    /// When it left.
    pub sent_ns: i64,
    /// Source of the time: the program before the send call, or the kernel when it handed the
    /// packet to the device.
    pub stamp: StampKind,
}

/// A datagram that arrived, in the order of arrival.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceivedPacket {
    /// Its number.
    pub sequence: u64,
    /// Time of arrival, ns of the receiver's host clock.
    pub received_ns: i64,
    /// That clock minus the sender's, as the receiver estimated it then, ns.
    pub offset_ns: i64,
    /// Source of the time.
    pub stamp: StampKind,
    /// True if the payload was not the sent one.
    pub damaged: bool,
}

impl ReceivedPacket {
    /// The same without a readable number; `sequence` is the number expected at the arrival.
    #[must_use]
    pub fn nameless(self) -> Self {
        ReceivedPacket { sequence: self.sequence | NAMELESS, damaged: true, ..self }
    }
}

/// The outcome of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Arrived in order, in time, intact.
    Received,
    /// Arrived after one with a higher number (RFC 4737 §3.3).
    Reordered,
    /// Arrived later than is waited for, in order or not.
    Late,
    /// Arrived damaged; nothing else is judged.
    Damaged,
    /// Never arrived.
    Lost,
    /// Left, but its receiver did not record all arrivals.
    Unknown,
}

/// One datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketOutcome {
    /// Departure; `None` when the sender does not report it.
    pub left: Option<SentPacket>,
    /// First arrival.
    pub came: Option<ReceivedPacket>,
    /// Its outcome.
    pub verdict: Verdict,
    /// Number of further arrivals.
    pub repeats: u32,
}

/// An outcome for each of the numbers that left, in order. `whole` when `got` holds every arrival;
/// an arrival after more than `late_ns` is late. Numbers that never left are left out. A datagram
/// without a readable number stands for the lowest missing number from the expected one on, as in
/// [`crate::Sequence::see_nameless`].
pub fn packet_outcomes(
    sent: &[SentPacket],
    got: &[ReceivedPacket],
    whole: bool,
    late_ns: u64,
) -> Vec<PacketOutcome> {
    let missing = if whole { Verdict::Lost } else { Verdict::Unknown };
    let gone = |&left| PacketOutcome { left: Some(left), came: None, verdict: missing, repeats: 0 };
    let mut all: Vec<PacketOutcome> = sent.iter().map(gone).collect();
    let mut highest = None;
    for came in got {
        let at = usize::try_from(came.sequence).ok();
        let Some(outcome) = at.and_then(|at| all.get_mut(at)) else { continue };
        if outcome.came.is_some() {
            outcome.repeats += 1;
            continue;
        }
        let took = outcome.left.map(|left| delay(&left, came));
        outcome.verdict = match took {
            _ if came.damaged => Verdict::Damaged,
            Some(took) if took > i64::try_from(late_ns).unwrap_or(i64::MAX) => Verdict::Late,
            _ if highest > Some(came.sequence) => Verdict::Reordered,
            _ => Verdict::Received,
        };
        outcome.came = Some(*came);
        highest = highest.max(Some(came.sequence));
    }
    let mut next = 0;
    for expected in
        got.iter().filter(|came| came.sequence & NAMELESS != 0).map(|came| came.sequence ^ NAMELESS)
    {
        next = next.max(usize::try_from(expected).unwrap_or(usize::MAX));
        let missing = all.iter_mut().enumerate().skip(next).find(|(_, outcome)| outcome.came.is_none());
        let Some((at, outcome)) = missing else { break };
        outcome.verdict = Verdict::Damaged;
        next = at + 1;
    }
    all
}

/// One-way delay, ns; below 0 when the clocks say so.
fn delay(left: &SentPacket, came: &ReceivedPacket) -> i64 {
    came.received_ns.wrapping_sub(came.offset_ns).wrapping_sub(left.sent_ns)
}

impl PacketOutcome {
    /// One-way delay from the actual send, ns; below 0 when the clocks say so.
    pub fn delay_ns(&self) -> Option<i64> {
        Some(delay(&self.left?, &self.came?))
    }
}

/// One end's sums over a flow, as a sender and as a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct FlowSums {
    /// Outcomes of its datagrams.
    pub counts: Packets,
    /// Datagrams with a delay.
    pub delays: u64,
    /// Smallest one-way delay, ns.
    pub delay_min_ns: u64,
    /// Largest one-way delay, ns.
    pub delay_max_ns: u64,
    /// Sum of one-way delays, ns.
    pub delay_sum_ns: u64,
    /// IP fields of received datagrams.
    #[serde(skip_serializing_if = "IpFields::is_empty")]
    pub marks: IpFields,
}

impl FlowSums {
    /// Adds `n` datagrams with a delay of `ns`.
    pub fn add_delay(&mut self, ns: u64, n: u64) {
        self.delay_min_ns = if self.delays == 0 { ns } else { self.delay_min_ns.min(ns) };
        self.delay_max_ns = self.delay_max_ns.max(ns);
        self.delay_sum_ns = self.delay_sum_ns.saturating_add(ns.saturating_mul(n));
        self.delays += n;
    }

    /// Mean delay, ns.
    pub fn delay_mean_ns(&self) -> Option<f64> {
        (self.delays > 0).then(|| real(self.delay_sum_ns) / real(self.delays))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(sequence: u64, received_ns: i64) -> ReceivedPacket {
        ReceivedPacket { sequence, received_ns, offset_ns: 1_000, stamp: StampKind::KernelRx, damaged: false }
    }

    #[test]
    fn fates_by_hand() {
        use Verdict::{Damaged, Late, Lost, Received, Reordered, Unknown};
        let sent: Vec<SentPacket> = (0..6)
            .map(|n| SentPacket { intended_ns: n * 10, sent_ns: n * 10 + 1, stamp: StampKind::User })
            .collect();
        let mut bad = received(3, 1_200);
        bad.damaged = true;
        // 0, then 2, 1 overtaken, 2 again, 3 damaged, 5 far too late, 99 no number of ours; 4
        // never.
        let got = [
            received(0, 1_101),
            received(2, 1_121),
            received(1, 1_130),
            received(2, 1_140),
            bad,
            received(5, 9_000),
            received(99, 1),
        ];
        let all = packet_outcomes(&sent, &got, true, 500);
        let told: Vec<Verdict> = all.iter().map(|outcome| outcome.verdict).collect();
        assert_eq!(told, [Received, Reordered, Received, Damaged, Lost, Late]);
        assert_eq!((all[2].repeats, all[0].delay_ns(), all[4].delay_ns()), (1, Some(100), None));
        assert_eq!(packet_outcomes(&sent, &got, false, 500)[4].verdict, Unknown);
        assert!(packet_outcomes(&[], &got, true, 500).is_empty());
    }

    #[test]
    fn a_datagram_without_a_readable_number_stands_for_the_same_missing_one_as_in_a_sequence() {
        // Numbers 1, 2, 4 and 7 are missing; 2 and 7 came damaged, one more was the copy of a
        // number that came.
        let events = [Some(0), None, Some(3), Some(5), None, Some(6), None, Some(8)];
        let mut sequence = crate::Sequence::new(128);
        let mut got = Vec::new();
        for event in events {
            match event {
                Some(number) => {
                    sequence.see(number);
                    got.push(received(number, 0));
                }
                None => {
                    got.push(received(sequence.next(), 0).nameless());
                    sequence.see_nameless();
                }
            }
        }
        let left = SentPacket { intended_ns: 0, sent_ns: 0, stamp: StampKind::User };
        let outcomes = packet_outcomes(&[left; 10], &got, true, 1 << 40);
        let of = |verdict| outcomes.iter().filter(|outcome| outcome.verdict == verdict).count();
        let counts = sequence.finish(10);
        // Expected were 1, 6 and 7, of which 6 came: 1, 7 and, behind it, 9.
        assert_eq!((of(Verdict::Damaged), of(Verdict::Lost)), (3, 2));
        assert_eq!((counts.nameless, counts.lost, counts.loss_bursts, counts.longest_loss), (3, 2, 2, 1));
        assert_eq!([1, 7, 9].map(|at: usize| outcomes[at].verdict), [Verdict::Damaged; 3]);
    }

    #[test]
    fn sums_know_their_extremes() {
        let mut sums = FlowSums::default();
        assert_eq!(sums.delay_mean_ns(), None);
        sums.add_delay(30, 1);
        sums.add_delay(10, 3);
        assert_eq!((sums.delay_min_ns, sums.delay_max_ns, sums.delay_mean_ns()), (10, 30, Some(15.0)));
    }
}
