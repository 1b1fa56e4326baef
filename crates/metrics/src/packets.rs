//! Datagrams: what became of them, and how long they took.

use crate::{
    Arrivals, ClockFound, ClockKind, Dist, EcnPairs, IpFields, Jitters, Mono, Seen, TwoWay, format_count,
};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

/// Outcomes of datagrams, as one end of a link counts them. Late is not lost, dropped by our own
/// receive buffer is not lost by the network, and not sent is not lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Packets {
    /// Datagrams that the kernel accepted from us.
    pub sent: u64,
    /// Datagrams received for the first time, in order or not, late or not, and intact.
    pub received: u64,
    /// Datagrams that have not arrived: a datagram counts as lost once a later one overtakes it,
    /// and no longer once it arrives after all. In one interval, and only there, the count may
    /// therefore be below 0.
    pub lost: i64,
    /// Datagrams received once more.
    pub duplicated: u64,
    /// Datagrams that a later one had overtaken (RFC 4737 §4: their number is lower than the
    /// highest seen).
    pub reordered: u64,
    /// Datagrams that arrived later than the method waits for them. Late datagrams are counted as
    /// received, too.
    pub late: u64,
    /// Datagrams whose bytes were not those sent; counted nowhere else, because their fields cannot
    /// be trusted.
    pub corrupt: u64,
    /// Places in the sender's schedule that were given up: it was held up, or the kernel refused
    /// the send.
    pub unsent: u64,
    /// Datagrams dropped by our own receive buffer; with merged receiving (GRO) an upper bound.
    /// Part of `lost`, too.
    pub dropped: u64,
    /// Part of `dropped` that was merged behind other datagrams: the kernel counts merged runs, so
    /// this part is as large as the gaps of numbers and the largest run allow.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub dropped_merged: u64,
    /// Sends that the kernel refused, and ICMP refusals of datagrams sent earlier.
    pub refused: u64,
}

impl Packets {
    /// Counts one received number and the gap before it. True at the first arrival of a number,
    /// unless it is ancient.
    pub fn saw(&mut self, seen: Seen) -> bool {
        match seen {
            Seen::New { gap } => self.lost = self.lost.saturating_add_unsigned(gap),
            Seen::Reordered { .. } => {
                self.lost = self.lost.saturating_sub(1);
                self.reordered += 1;
            }
            Seen::Duplicate => self.duplicated += 1,
            // An ancient number may be a repeat: nobody can know. Its loss is counted already.
            Seen::Ancient => self.late += 1,
        }
        matches!(seen, Seen::New { .. } | Seen::Reordered { .. })
    }

    /// Limits the drops to `most`.
    pub fn limit_drops(&mut self, most: u64) {
        let beyond = self.dropped.saturating_sub(most);
        self.dropped -= beyond;
        self.dropped_merged = self.dropped_merged.saturating_sub(beyond);
    }

    /// The drops in words: `7 datagrams`, or `3 merged runs, up to 114 datagrams` where the kernel
    /// counted runs; `None` without any.
    pub fn drops_in_words(&self) -> Option<String> {
        let datagrams = Some(self.dropped).filter(|n| *n > 0).map(|n| format_count(n, "datagram"))?;
        let runs = self.dropped.saturating_sub(self.dropped_merged);
        Some(match self.dropped_merged {
            0 => datagrams,
            _ => format!("{}, up to {datagrams}", format_count(runs, "merged run")),
        })
    }

    /// Adds others.
    pub fn add(&mut self, more: &Packets) {
        self.sent += more.sent;
        self.received += more.received;
        // A peer's numbers may be so large that their sum would overflow.
        self.lost = self.lost.saturating_add(more.lost);
        self.duplicated += more.duplicated;
        self.reordered += more.reordered;
        self.late += more.late;
        self.corrupt += more.corrupt;
        self.unsent += more.unsent;
        self.dropped += more.dropped;
        self.dropped_merged += more.dropped_merged;
        self.refused += more.refused;
    }
}

/// Outcomes and times of datagrams at one end. `D` is a distribution of times: a [`Dist`] in a
/// [`PacketTally`], its summary in a report.
///
/// Wide: a figure of datagrams each, written next to each other on their way, and members of one
/// object of the JSON.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[cfg_attr(feature = "schema", schemars(bound = "D: Default + schemars::JsonSchema + Serialize"))]
#[serde(bound(deserialize = "D: Default + Deserialize<'de>"))]
#[serde(default)]
pub struct Datagrams<D> {
    /// Outcomes of the datagrams.
    pub counts: Packets,
    /// Delay from the actual send, ns: one way, or there and back, as the method says.
    pub delay_ns: D,
    /// Delay from the intended send, ns: the delay that an application with this schedule would
    /// have seen.
    pub intended_ns: D,
    /// Delay variation between datagrams sent one after the other (RFC 5481 §4.1), ns without sign;
    /// not of merged runs.
    pub ipdv_ns: D,
    /// Time of datagrams in the sender's system after their actual send, by the transmit stamps of
    /// the kernel or the network card, ns; over the datagrams with such a stamp.
    pub stack_ns: D,
    /// Transmit stamps behind `stack_ns` that are the network card's.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_sent: u64,
    /// Bound on the error of the card's transmit stamps from the card's clock, ns; the worst.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_sent_bound_ns: u64,
    /// The longest run of lost datagrams. In an interval, numbers that had not arrived when a
    /// higher one did, and no more than it lost.
    pub longest_loss: Option<u64>,
    /// Largest reordering extent (RFC 4737 §4.2), datagrams.
    pub max_extent: Option<u64>,
    /// Error bound of delays because two clocks were compared, ns; the worst. `None` when no delay
    /// was recorded.
    pub clock_bound_ns: Option<u64>,
    /// Comparison of the two clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockKind>,
    /// Result of comparing the two clocks over the path, where this end did it; of several flows
    /// the one with the longest round trip. Over a phase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_found: Option<ClockFound>,
    /// Datagrams that seem to have arrived before they were sent: a clock was wrong. Their delay
    /// was taken for 0.
    pub before_sent: u64,
    /// By how much datagrams seem to have arrived before they were sent, at most, ns.
    pub before_sent_ns: u64,
    /// Time that sends waited because the socket was full, ns; of several flows together.
    pub blocked_ns: u64,
    /// Datagrams whose arrival was stamped by the kernel; that of the others was read after the
    /// receive call.
    pub kernel_stamped: u64,
    /// Datagrams whose arrival was stamped by the network card; none of `kernel_stamped`.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_stamped: u64,
    /// Bound on the error of the card's receive stamps from the card's clock, ns; the worst. Part
    /// of `clock_bound_ns`.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_bound_ns: u64,
    /// Stamps of the card that could not be true, being later than the kernel's or far too early;
    /// the kernel's were taken in their place.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_refused: u64,
    /// Stamps of the card without a meaning because its clock could not be read; the kernel's were
    /// taken in their place.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub card_unplaced: u64,
    /// IP fields of received datagrams.
    pub marks: IpFields,
    /// Datagrams that were sent in pairs, one with each of two ECN codepoints.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pairs: Option<Box<EcnPairs<D>>>,
}

impl<D: Default> Datagrams<D> {
    /// Adds all that `other` holds, its distributions by `dist`.
    pub fn add<T>(&mut self, other: &Datagrams<T>, dist: impl Fn(&mut D, &T)) {
        self.counts.add(&other.counts);
        dist(&mut self.delay_ns, &other.delay_ns);
        dist(&mut self.intended_ns, &other.intended_ns);
        dist(&mut self.ipdv_ns, &other.ipdv_ns);
        dist(&mut self.stack_ns, &other.stack_ns);
        self.card_sent += other.card_sent;
        self.card_sent_bound_ns = self.card_sent_bound_ns.max(other.card_sent_bound_ns);
        self.longest_loss = self.longest_loss.max(other.longest_loss);
        self.max_extent = self.max_extent.max(other.max_extent);
        self.clock_bound_ns = self.clock_bound_ns.max(other.clock_bound_ns);
        self.clock = self.clock.or(other.clock);
        self.add_clock(other.clock_found);
        self.before_sent += other.before_sent;
        self.before_sent_ns = self.before_sent_ns.max(other.before_sent_ns);
        self.blocked_ns += other.blocked_ns;
        self.kernel_stamped += other.kernel_stamped;
        self.card_stamped += other.card_stamped;
        self.card_bound_ns = self.card_bound_ns.max(other.card_bound_ns);
        self.card_refused += other.card_refused;
        self.card_unplaced += other.card_unplaced;
        self.marks.add(&other.marks);
        if let Some(theirs) = &other.pairs {
            self.pairs.get_or_insert_default().add(theirs, &dist);
        }
    }
}

impl<D> Datagrams<D> {
    /// Adds the clocks compared over the path of another flow.
    pub fn add_clock(&mut self, other: Option<ClockFound>) {
        let all = [self.clock_found, other].into_iter().flatten();
        let worst = all.clone().max_by_key(|found| (found.round_trip_ns, found.bound_ns));
        self.clock_found = worst.map(|found| ClockFound {
            stepped: all.clone().any(|found| found.stepped),
            wandered: all.clone().any(|found| found.wandered),
            ..found
        });
    }
}

/// The datagrams of a group in one interval, or in all: the figures of a report, and the counts from
/// which others are computed.
#[derive(Clone, Debug, Default)]
pub struct PacketTally {
    /// The figures that a report has, too. A flow that looks counts every gap of numbers in
    /// `longest_loss`, whether or not the missing ones arrive later.
    pub datagrams: Datagrams<Dist>,
    /// Arrival of the latest of them, or of the latest message about them.
    pub came: Mono,
    /// Of a round trip, the time between receiving and sending that the remote end reports, ns;
    /// empty when it reports none.
    pub remote_ns: Dist,
    /// Round trips without that, ns: the time of the path and the two hosts' kernels.
    pub path_ns: Dist,
    /// Round trips from the kernel's stamp when a message left until its stamp when the echo
    /// arrived, ns; over the messages with both stamps.
    pub kernel_ns: Dist,
    /// Messages of a warm-up, which are counted nowhere else.
    pub omitted: u64,
    /// RFC 3550 jitter, after each datagram that arrived alone.
    pub jitter: Jitters,
    /// Loss bursts and reordering extents of flows that have ended.
    pub arrivals: Arrivals,
    /// Datagrams between set-up and end that compare clocks, sent and received at the end that
    /// asks.
    pub own: u64,
    /// Round trips taken apart into their two ways; `None` where the remote end does not report its
    /// stamps.
    pub ways: Option<Box<TwoWay>>,
}

impl Deref for PacketTally {
    type Target = Datagrams<Dist>;

    fn deref(&self) -> &Self::Target {
        &self.datagrams
    }
}

impl DerefMut for PacketTally {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.datagrams
    }
}

/// Delays up to here need no more memory, ns.
pub(crate) const USUAL: u64 = 4 * crate::SECOND;

impl PacketTally {
    /// A tally whose distributions have their memory already, so that recording allocates nothing.
    pub fn warm() -> Self {
        let dist = || Dist::with_room(USUAL);
        let datagrams =
            Datagrams { delay_ns: dist(), intended_ns: dist(), ipdv_ns: dist(), ..Datagrams::default() };
        PacketTally { datagrams, ..PacketTally::default() }
    }

    fn dists(&mut self) -> [&mut Dist; 7] {
        let Datagrams { delay_ns, intended_ns, ipdv_ns, stack_ns, .. } = &mut self.datagrams;
        let [remote_ns, path_ns, kernel_ns] = [&mut self.remote_ns, &mut self.path_ns, &mut self.kernel_ns];
        [delay_ns, intended_ns, ipdv_ns, stack_ns, remote_ns, path_ns, kernel_ns]
    }

    /// Forgets everything but keeps the memory.
    pub fn clear(&mut self) {
        let mut used = std::mem::take(self);
        for (dist, used) in self.dists().into_iter().zip(used.dists()) {
            used.clear();
            std::mem::swap(dist, used);
        }
    }

    /// Counts a datagram by its number.
    pub fn saw(&mut self, seen: Seen) {
        let (gap, extent) = match seen {
            Seen::New { gap } => (gap, 0),
            Seen::Reordered { extent } => (0, extent),
            Seen::Duplicate | Seen::Ancient => (0, 0),
        };
        self.longest_loss = self.longest_loss.max(Some(gap));
        self.max_extent = self.max_extent.max(Some(extent));
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &PacketTally) {
        self.datagrams.add(&other.datagrams, Dist::merge);
        self.came = self.came.max(other.came);
        self.remote_ns.merge(&other.remote_ns);
        self.path_ns.merge(&other.path_ns);
        self.kernel_ns.merge(&other.kernel_ns);
        self.omitted += other.omitted;
        self.jitter.merge(&other.jitter);
        self.arrivals.merge(&other.arrivals);
        self.own += other.own;
        if let Some(ways) = &other.ways {
            self.ways.get_or_insert_default().merge(ways);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn adding_adds_every_counter() {
        // Each counter has another value.
        let times = |n: u64| Packets {
            sent: n,
            received: 2 * n,
            lost: 3 * n as i64,
            duplicated: 4 * n,
            reordered: 5 * n,
            late: 6 * n,
            corrupt: 7 * n,
            unsent: 8 * n,
            dropped: 9 * n,
            dropped_merged: 11 * n,
            refused: 10 * n,
        };
        let mut sum = times(1);
        sum.add(&times(1));
        assert_eq!(sum, times(2));
    }

    #[test]
    fn a_flow_does_not_hide_what_was_found_of_the_clocks_of_another() {
        let mut tally = PacketTally::default();
        tally.add_clock(Some(ClockFound { round_trip_ns: 5, stepped: true, ..ClockFound::default() }));
        tally.add_clock(Some(ClockFound { round_trip_ns: 7, wandered: true, ..ClockFound::default() }));
        tally.add_clock(Some(ClockFound { round_trip_ns: 6, ..ClockFound::default() }));
        tally.add_clock(None);
        let found = tally.clock_found.unwrap();
        assert_eq!((found.round_trip_ns, found.stepped, found.wandered), (7, true, true));
    }

    #[test]
    fn a_cleared_tally_is_as_good_as_new_and_merges_to_the_same() {
        let mut used = PacketTally::warm();
        used.delay_ns.record(5_000);
        used.counts.sent = 3;
        (used.before_sent, used.before_sent_ns) = (1, 10);
        let mut sum = PacketTally::default();
        sum.merge(&used);
        sum.merge(&used);
        assert_eq!(
            (sum.counts.sent, sum.delay_ns.count(), sum.before_sent, sum.before_sent_ns),
            (6, 2, 2, 10)
        );
        used.clear();
        assert_eq!(
            (used.delay_ns.count(), used.delay_ns.summary(), used.before_sent, used.before_sent_ns),
            (0, None, 0, 0)
        );
        used.delay_ns.record(7_000);
        let mut fresh = PacketTally::default();
        fresh.delay_ns.record(7_000);
        assert_eq!(used.delay_ns.summary(), fresh.delay_ns.summary());
    }
}
