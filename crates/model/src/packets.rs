//! One end's figures of datagrams, in an interval or over a phase.

use crate::Counts;
use metrics::{Datagrams, Dist, DistSummary, PacketTally, Packets, Tally, add_known, real};
use serde::{Deserialize, Serialize};
use std::ops::{Deref, DerefMut};

/// Counts of one end as a sender and as a receiver of datagrams. Delays are one way unless the
/// method says otherwise, and delays between different hosts are no more certain than
/// `clock_bound_ns`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct PacketReport {
    /// Outcomes and times that a tally counts.
    #[serde(flatten)]
    pub datagrams: Datagrams<Option<DistSummary>>,
    /// Extremes and mean of delays whose distribution another program did not report, ns.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub delay_range_ns: Option<DelayRange>,
    /// Lateness of sends, ns.
    pub late_ns: Option<DistSummary>,
    /// RFC 3550 jitter, ns: the mean of the estimates after each datagram of the interval or phase
    /// that arrived by itself; of other programs the value that they report, usually the last
    /// estimate.
    pub jitter_ns: Option<f64>,
    /// Jitter of the interval with the largest, ns. Over a phase only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub jitter_max_ns: Option<f64>,
    /// Runs of consecutive lost datagrams. Only over a whole phase.
    pub loss_bursts: Option<u64>,
    /// Datagrams that the kernel dropped for a wrong checksum, having been damaged on the way; part
    /// of `counts.lost`. Only over a whole phase.
    #[serde(skip_serializing_if = "metrics::is_zero")]
    pub damaged: u64,
    /// Counts that this end does not have; their fields are 0.
    #[serde(skip_serializing_if = "Counts::is_empty")]
    pub unknown: Counts,
}

impl Deref for PacketReport {
    type Target = Datagrams<Option<DistSummary>>;

    fn deref(&self) -> &Self::Target {
        &self.datagrams
    }
}

impl DerefMut for PacketReport {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.datagrams
    }
}

/// A report of outcomes only.
impl From<Packets> for PacketReport {
    fn from(counts: Packets) -> Self {
        PacketReport { datagrams: Datagrams { counts, ..Datagrams::default() }, ..PacketReport::default() }
    }
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
        let summary = |dist: &Dist| dist.summary().map(|all| DistSummary { buckets: Vec::new(), ..all });
        let mut report = PacketReport::of(tally, summary)?;
        // Later arrivals were no loss.
        let lost = u64::try_from(report.counts.lost).unwrap_or(0);
        report.longest_loss = report.longest_loss.map(|gap| gap.min(lost));
        report.clock_found = None;
        Some(report)
    }

    /// The report on a phase. `None` when no datagrams are counted.
    pub fn of_phase(tally: &Tally) -> Option<Box<Self>> {
        let mut report = PacketReport::of(tally, Dist::summary)?;
        let PacketTally { arrivals, jitter, .. } = tally.packets.as_deref()?;
        report.jitter_max_ns = jitter.largest_ns.or(report.jitter_ns);
        report.loss_bursts = Some(arrivals.loss_bursts);
        report.longest_loss = Some(arrivals.longest_loss);
        report.max_extent = Some(arrivals.max_extent);
        Some(report)
    }

    fn of(tally: &Tally, summary: impl Fn(&Dist) -> Option<DistSummary>) -> Option<Box<Self>> {
        let packets = tally.packets.as_deref()?;
        let mut datagrams = Datagrams::default();
        datagrams.add(&packets.datagrams, |ours, dist| *ours = summary(dist));
        let (jitter_ns, late_ns) = (packets.jitter.mean_ns(), summary(&tally.late_ns));
        Some(Box::new(PacketReport { datagrams, jitter_ns, late_ns, ..PacketReport::default() }))
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
        let either = |ours: &mut Option<DistSummary>, theirs: &Option<DistSummary>| {
            *ours = match (ours.take(), theirs) {
                (Some(ours), Some(theirs)) => both(&ours, theirs),
                (ours, theirs) => ours.or_else(|| theirs.clone()),
            };
        };
        self.datagrams.add(&other.datagrams, either);
        either(&mut self.late_ns, &other.late_ns);
        let larger = |ours: Option<f64>, theirs| [ours, theirs].into_iter().flatten().reduce(f64::max);
        self.jitter_ns = larger(self.jitter_ns, other.jitter_ns);
        self.jitter_max_ns = larger(self.jitter_max_ns, other.jitter_max_ns);
        add_known(&mut self.loss_bursts, other.loss_bursts.as_ref(), |ours, theirs| {
            *ours = ours.saturating_add(*theirs);
        });
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
