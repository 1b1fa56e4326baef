//! One end's figures of datagrams, in an interval or over a phase.

use crate::Counts;
use metrics::{ClockFound, ClockKind, DistSummary, IpFields, PacketTally, Packets, Tally, add_known, real};
use serde::{Deserialize, Serialize};

/// Counts of one end as a sender and as a receiver of datagrams. Delays are one way unless the
/// method says otherwise, and delays between different hosts are no more certain than
/// `clock_bound_ns`.
///
/// Wide: one object of the JSON, a member for each figure.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketReport {
    /// Outcomes of the datagrams.
    pub counts: Packets,
    /// Delay from the actual send, ns.
    pub delay_ns: Option<DistSummary>,
    /// Extremes and mean of delays whose distribution another program did not report, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_range_ns: Option<DelayRange>,
    /// Delay from the intended send, ns: the delay that an application with this schedule would
    /// have seen.
    pub intended_ns: Option<DistSummary>,
    /// Delay variation between datagrams sent one after the other (RFC 5481 §4.1), ns without sign;
    /// not of merged runs.
    pub ipdv_ns: Option<DistSummary>,
    /// Lateness of sends, ns.
    pub late_ns: Option<DistSummary>,
    /// Time of datagrams in this system after their actual send, by the transmit stamps of the
    /// kernel or the network card, ns; `None` without them.
    pub stack_ns: Option<DistSummary>,
    /// Transmit stamps behind `stack_ns` that are the network card's.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub card_sent: u64,
    /// Bound on the error of the card's transmit stamps from the card's clock, ns; the worst.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub card_sent_bound_ns: u64,
    /// RFC 3550 jitter, ns: the mean of the estimates after each datagram of the interval or phase
    /// that arrived by itself; of other programs the value that they report, usually the last
    /// estimate.
    pub jitter_ns: Option<f64>,
    /// Jitter of the interval with the largest, ns. Over a phase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_max_ns: Option<f64>,
    /// Runs of consecutive lost datagrams. Only over a whole phase.
    pub loss_bursts: Option<u64>,
    /// The longest run of lost datagrams. In an interval, numbers that had not arrived when a
    /// higher one did, and no more than it lost.
    pub longest_loss: Option<u64>,
    /// Largest reordering extent (RFC 4737 §4.2), datagrams.
    pub max_extent: Option<u64>,
    /// Error bound of delays because two clocks were compared, ns.
    pub clock_bound_ns: Option<u64>,
    /// Comparison of the two clocks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock: Option<ClockKind>,
    /// Result of comparing the two clocks over the path, where this end did it. Over a phase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub clock_found: Option<ClockFound>,
    /// Datagrams that seem to have arrived before they were sent; their delay was taken for 0.
    pub before_sent: u64,
    /// By how much datagrams seem to have arrived before they were sent, at most, ns.
    pub before_sent_ns: u64,
    /// Time that sends waited because the socket was full, ns; of several flows together.
    pub blocked_ns: u64,
    /// Datagrams whose arrival was stamped by the kernel; that of the others was read after the
    /// receive call.
    pub kernel_stamped: u64,
    /// Datagrams whose arrival was stamped by the network card; none of `kernel_stamped`.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub card_stamped: u64,
    /// Bound on the error of the card's receive stamps from the card's clock, ns; the worst. Part
    /// of `clock_bound_ns`.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub card_bound_ns: u64,
    /// Stamps of the card that could not be true, being later than the kernel's or far too early;
    /// the kernel's were taken in their place.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub card_refused: u64,
    /// Stamps of the card without a meaning because its clock could not be read; the kernel's were
    /// taken in their place.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub card_unplaced: u64,
    /// IP fields of received datagrams.
    pub marks: IpFields,
    /// Datagrams that the kernel dropped for a wrong checksum, having been damaged on the way; part
    /// of `counts.lost`. Only over a whole phase.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub damaged: u64,
    /// Counts that this end does not have; their fields are 0.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
}

/// Summary of delays without a distribution, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DelayRange {
    /// Smallest; `None` where it is unknown, too.
    pub min: Option<u64>,
    /// Arithmetic mean.
    pub mean: f64,
    /// Largest.
    pub max: u64,
}

impl DelayRange {
    /// Range of `n` delays in `self` and `m` in `other` together. Its minimum is known only where
    /// both are: the side without one may have had a smaller delay.
    fn joined(self, other: DelayRange, n: u64, m: u64) -> DelayRange {
        let all = n + m;
        let share = if all > 0 { real(n) / real(all) } else { 0.5 };
        DelayRange {
            min: self.min.zip(other.min).map(|(ours, theirs)| ours.min(theirs)),
            mean: self.mean * share + other.mean * (1.0 - share),
            max: self.max.max(other.max),
        }
    }
}

impl PacketReport {
    /// Smallest delay from the actual send, ns.
    pub fn least_delay_ns(&self) -> Option<u64> {
        let range = || self.delay_range_ns.and_then(|range| range.min);
        self.delay_ns.as_ref().map(|dist| dist.min).or_else(range)
    }

    /// Largest delay from the actual send, ns.
    pub fn largest_delay_ns(&self) -> Option<u64> {
        let range = || self.delay_range_ns.map(|range| range.max);
        self.delay_ns.as_ref().map(|dist| dist.max).or_else(range)
    }

    /// An interval's report: distributions without their buckets, and nothing that is known at the
    /// end only. `None` when no datagrams are counted.
    pub fn of_interval(tally: &Tally) -> Option<Box<Self>> {
        let packets = tally.packets.as_deref()?;
        let lost = u64::try_from(packets.counts.lost).unwrap_or(0);
        let mut report = PacketReport {
            // Later arrivals were no loss.
            longest_loss: packets.gap.map(|gap| gap.min(lost)),
            max_extent: packets.extent,
            ..PacketReport::of(packets, tally)
        };
        let all = [
            &mut report.delay_ns,
            &mut report.intended_ns,
            &mut report.ipdv_ns,
            &mut report.late_ns,
            &mut report.stack_ns,
        ];
        for dist in all.into_iter().flatten() {
            dist.buckets.clear();
        }
        Some(Box::new(report))
    }

    /// The report on a phase. `None` when no datagrams are counted.
    pub fn of_phase(tally: &Tally) -> Option<Box<Self>> {
        let packets = tally.packets.as_deref()?;
        let arrivals = packets.arrivals;
        Some(Box::new(PacketReport {
            jitter_max_ns: packets.jitter.largest_ns.or(packets.jitter.mean_ns()),
            loss_bursts: Some(arrivals.loss_bursts),
            longest_loss: Some(arrivals.longest_loss),
            max_extent: Some(arrivals.max_extent),
            clock_found: packets.clock_found,
            ..PacketReport::of(packets, tally)
        }))
    }

    fn of(packets: &PacketTally, tally: &Tally) -> Self {
        PacketReport {
            counts: packets.counts,
            delay_ns: packets.delay_ns.summary(),
            intended_ns: packets.intended_ns.summary(),
            ipdv_ns: packets.ipdv_ns.summary(),
            jitter_ns: packets.jitter.mean_ns(),
            late_ns: tally.late_ns.summary(),
            stack_ns: packets.stack_ns.summary(),
            card_sent: packets.card_sent.0,
            card_sent_bound_ns: packets.card_sent.1,
            clock_bound_ns: packets.clock_bound_ns,
            clock: packets.clock,
            before_sent: packets.before_sent.0,
            before_sent_ns: packets.before_sent.1,
            blocked_ns: packets.blocked_ns,
            kernel_stamped: packets.kernel_stamped,
            card_stamped: packets.card_stamped.0,
            card_bound_ns: packets.card_stamped.1,
            card_refused: packets.card_refused,
            card_unplaced: packets.card_unplaced,
            marks: packets.marks,
            ..PacketReport::default()
        }
    }

    /// Adds another host's report on the same stretch. Counts add up; summaries of distributions
    /// cannot be added and are left out when both have them.
    pub fn add_host(&mut self, other: &PacketReport) {
        self.with(other, |_, _| None);
    }

    /// Adds the report on a later stretch, or another host's on the same one as a figure of both
    /// has to be judged: of times the larger percentile and the larger jitter hold
    /// ([`DistSummary::joined`]).
    pub fn join(&mut self, other: &PacketReport) {
        self.with(other, |ours, theirs| Some(ours.joined(theirs)));
    }

    fn with(&mut self, other: &PacketReport, both: fn(&DistSummary, &DistSummary) -> Option<DistSummary>) {
        let (n, m) = (self.counts.received, other.counts.received);
        add_known(&mut self.delay_range_ns, other.delay_range_ns.as_ref(), |ours, theirs| {
            *ours = ours.joined(*theirs, n, m);
        });
        self.counts.add(&other.counts);
        let either = |ours: &mut Option<DistSummary>, theirs: &Option<DistSummary>| {
            *ours = match (ours.take(), theirs) {
                (Some(ours), Some(theirs)) => both(&ours, theirs),
                (ours, theirs) => ours.or_else(|| theirs.clone()),
            };
        };
        either(&mut self.delay_ns, &other.delay_ns);
        either(&mut self.intended_ns, &other.intended_ns);
        either(&mut self.ipdv_ns, &other.ipdv_ns);
        either(&mut self.late_ns, &other.late_ns);
        either(&mut self.stack_ns, &other.stack_ns);
        let larger = |ours: Option<f64>, theirs| [ours, theirs].into_iter().flatten().reduce(f64::max);
        self.jitter_ns = larger(self.jitter_ns, other.jitter_ns);
        self.jitter_max_ns = larger(self.jitter_max_ns, other.jitter_max_ns);
        self.loss_bursts =
            [self.loss_bursts, other.loss_bursts].into_iter().flatten().reduce(u64::saturating_add);
        self.longest_loss = self.longest_loss.max(other.longest_loss);
        self.max_extent = self.max_extent.max(other.max_extent);
        self.clock_bound_ns = self.clock_bound_ns.max(other.clock_bound_ns);
        self.clock = self.clock.or(other.clock);
        self.before_sent += other.before_sent;
        self.before_sent_ns = self.before_sent_ns.max(other.before_sent_ns);
        self.blocked_ns += other.blocked_ns;
        self.kernel_stamped += other.kernel_stamped;
        self.card_stamped += other.card_stamped;
        self.card_bound_ns = self.card_bound_ns.max(other.card_bound_ns);
        self.card_sent += other.card_sent;
        self.card_sent_bound_ns = self.card_sent_bound_ns.max(other.card_sent_bound_ns);
        self.card_refused += other.card_refused;
        self.card_unplaced += other.card_unplaced;
        self.marks.add(&other.marks);
        self.damaged = self.damaged.saturating_add(other.damaged);
        self.unknown = self.unknown.and(other.unknown);
    }

    /// The last `n` datagrams of a flow are lost, behind the last one received; below 0, that many
    /// less are.
    pub fn lost_last(&mut self, n: i64) {
        self.counts.lost = self.counts.lost.saturating_add(n);
        let run = u64::try_from(n).unwrap_or(0);
        self.loss_bursts = self.loss_bursts.map(|bursts| bursts.saturating_add(u64::from(run > 0)));
        self.longest_loss = self.longest_loss.map(|longest| longest.max(run));
    }

    /// Share of the sent datagrams that did not arrive, 0..=1; `None` when none was expected.
    pub fn loss(&self) -> Option<f64> {
        let lost = real(self.lost()?.max(0));
        let all = lost + real(self.arrivals()?);
        (all > 0.0).then(|| lost / all)
    }

    /// Datagrams that arrived, damaged ones included.
    pub(crate) fn arrivals(&self) -> Option<u64> {
        Some(self.received()?.saturating_add(self.counts.corrupt))
    }
}
