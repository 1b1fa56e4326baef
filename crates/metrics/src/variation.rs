//! Variation of delay: RTP jitter, IP packet delay variation, and distributions of values that may
//! be negative.

use crate::{Clamped, Dist, real};
use serde::{Deserialize, Serialize};

/// Interarrival jitter of RFC 3550 (§6.4.1, A.8): `J += (|D| - J) / 16`, where `D` is the
/// difference of the transit times of two packets that arrived one after the other. The estimate
/// starts at 0, and depends on the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    last: Option<i64>,
    /// The estimate after the last packet.
    pub ns: f64,
}

impl Jitter {
    /// A packet arrived after `transit` ns; a constant error of the clocks does not matter. The
    /// estimate, ns, from the second packet on.
    pub fn see(&mut self, transit: i64) -> Option<f64> {
        let last = self.last.replace(transit)?;
        self.ns += (real(transit.saturating_sub(last).unsigned_abs()) - self.ns) / 16.0;
        Some(self.ns)
    }
}

/// The jitter of flows over a stretch of time: the estimate changes with each packet, and its last
/// value reflects the last few packets only.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitters {
    /// Packets, and the sum of the estimates after each of them, ns.
    n: u64,
    sum_ns: f64,
    /// The mean of that interval which had the largest, ns.
    pub largest_ns: Option<f64>,
}

impl Jitters {
    /// After one more packet the estimate of its flow is `ns`.
    pub fn record(&mut self, ns: f64) {
        self.n += 1;
        self.sum_ns += ns;
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &Jitters) {
        self.n += other.n;
        self.sum_ns += other.sum_ns;
        self.largest_ns = [self.largest_ns, other.largest_ns].into_iter().flatten().reduce(f64::max);
    }

    /// An interval has ended, which this is about.
    pub fn close(&mut self) {
        self.largest_ns = [self.largest_ns, self.mean_ns()].into_iter().flatten().reduce(f64::max);
    }

    /// The mean over all packets, ns; `None` without any.
    pub fn mean_ns(&self) -> Option<f64> {
        (self.n > 0).then(|| self.sum_ns / real(self.n))
    }
}

/// A distribution of integers that may be negative: one histogram on either side of zero.
#[derive(Clone, Debug, Default)]
pub struct Signed {
    below: Dist,
    above: Dist,
}

impl Signed {
    /// Records a value.
    pub fn record(&mut self, value: i64) {
        if value < 0 {
            self.below.record(value.unsigned_abs());
        } else {
            self.above.record(u64::clamped(value));
        }
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &Signed) {
        self.below.merge(&other.below);
        self.above.merge(&other.above);
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.below.count() + self.above.count()
    }

    /// Number of values above `limit`, to three digits.
    pub fn count_above(&self, limit: u64) -> u64 {
        self.above.count_above(limit)
    }

    /// The value at quantile `q` (0..=1); 0 when nothing was recorded.
    pub fn quantile(&self, q: f64) -> i64 {
        let (below, above) = (real(self.below.count()), real(self.above.count()));
        let rank = (q.clamp(0.0, 1.0) * (below + above)).ceil().max(1.0);
        // The middle of a rank, which rounding does not take for its neighbour.
        if rank <= below {
            // The k-th from the bottom is the k-th largest in size.
            -i64::clamped(self.below.quantile((below - rank + 0.5) / below))
        } else if above > 0.0 {
            i64::clamped(self.above.quantile((rank - below - 0.5) / above))
        } else {
            0
        }
    }

    /// Count, extremes, mean and percentiles; `None` when empty.
    pub fn summary(&self) -> Option<SignedSummary> {
        let (below, above) = (self.below.extremes(), self.above.extremes());
        let least = below.map(|(_, most)| -i64::clamped(most));
        let most = above.map(|(_, most)| i64::clamped(most));
        let min = least.or(above.map(|(least, _)| i64::clamped(least)))?;
        let max = most.or(below.map(|(least, _)| -i64::clamped(least)))?;
        let sum = |side: &Dist| side.mean().unwrap_or(0.0) * real(side.count());
        let count = self.count();
        Some(SignedSummary {
            count,
            min,
            mean: (sum(&self.above) - sum(&self.below)) / real(count),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max,
        })
    }
}

/// Summary of a distribution of values that may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SignedSummary {
    /// Number of values.
    pub count: u64,
    /// Smallest value.
    pub min: i64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Median.
    pub p50: i64,
    /// 90th percentile.
    pub p90: i64,
    /// 99th percentile.
    pub p99: i64,
    /// 99.9th percentile.
    pub p999: i64,
    /// Largest value.
    pub max: i64,
}

/// Delays remembered to find a packet's neighbour after reordering.
const REMEMBERED: usize = 1024;

/// IP packet delay variation (RFC 3393; RFC 5481 §4.1) between packets sent one after the other:
/// `D(i) - D(i-1)`. The variation is not defined across a loss; a packet that a thousand others
/// have overtaken still finds its neighbours.
#[derive(Clone, Debug, Default)]
pub struct Variation {
    /// Numbers and delays, a number's at its remainder; made when the first packet arrives.
    delays: Vec<(u64, i64)>,
}

impl Variation {
    /// Packet `seq` arrived for the first time, with this delay, ns; a constant error of the clocks
    /// does not matter. Returns by how much the delay differs from those of its two neighbours that
    /// have arrived, ns, without sign.
    pub fn see(&mut self, seq: u64, delay: i64) -> impl Iterator<Item = u64> + use<> {
        if self.delays.is_empty() {
            self.delays = vec![(u64::MAX, 0); REMEMBERED];
        }
        let difference = |neighbour: Option<u64>| {
            let (its, other) = self.delays[usize::clamped(neighbour?) % REMEMBERED];
            (Some(its) == neighbour && its != u64::MAX).then(|| delay.saturating_sub(other).unsigned_abs())
        };
        let found = [seq.checked_sub(1), seq.checked_add(1)].map(difference);
        self.delays[usize::clamped(seq) % REMEMBERED] = (seq, delay);
        found.into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 3550 A.8's C code, in integers scaled by 16, as printed there.
    struct Rfc {
        transit: i64,
        jitter: i64,
    }

    impl Rfc {
        fn see(&mut self, transit: i64) {
            let d = (transit - self.transit).abs();
            self.transit = transit;
            self.jitter += d - ((self.jitter + 8) >> 4);
        }
    }

    fn transits() -> Vec<i64> {
        (0..2_000i64).map(|i| 20_000_000 + i * i * 7_919 % 3_000_017 - 40 * i).collect()
    }

    #[test]
    fn jitter_is_that_of_the_rfc() {
        let mut ours = Jitter::default();
        let mut rfc = Rfc { transit: transits()[0], jitter: 0 };
        for transit in transits() {
            ours.see(transit);
            rfc.see(transit);
        }
        assert!((ours.ns - rfc.jitter as f64 / 16.0).abs() < 16.0, "{} {}", ours.ns, rfc.jitter / 16);
        let mut steady = Jitter::default();
        assert_eq!(steady.see(5_000), None, "one packet has no difference");
        assert!((0..100).all(|_| steady.see(5_000) == Some(0.0)));
    }

    #[test]
    fn variation_is_defined_between_neighbours_only() {
        let mut variation = Variation::default();
        // 3 is lost; 5 and 6 change places: 0-1, 1-2, then 4-6 is no pair, 5-6 and 4-5 are.
        let came = [(0, 100), (1, 130), (2, 120), (4, 500), (6, 530), (5, 580)];
        let sizes: Vec<u64> = came.iter().flat_map(|&(seq, delay)| variation.see(seq, delay)).collect();
        assert_eq!(sizes, [30, 10, 80, 50]);
        // The last number that there is has no neighbour above it.
        assert_eq!(variation.see(u64::MAX - 1, 7).chain(variation.see(u64::MAX, 9)).count(), 1);
    }

    #[test]
    fn each_pair_counts_once_in_any_order_of_arrival() {
        // 3000 packets, each overtaken by up to a thousand others; every seventh is lost.
        let mut came: Vec<(u64, i64)> =
            (0..3_000u64).filter(|n| n % 7 != 3).map(|n| (n, (n * n * 7_919 % 500_009) as i64)).collect();
        let mut pairs: Vec<u64> = came
            .windows(2)
            .filter(|pair| pair[0].0 + 1 == pair[1].0)
            .map(|pair| pair[0].1.abs_diff(pair[1].1))
            .collect();
        came.sort_by_key(|&(n, _)| n + n * 48_271 % 900);
        let mut variation = Variation::default();
        let mut found: Vec<u64> = came.iter().flat_map(|&(n, delay)| variation.see(n, delay)).collect();
        found.sort_unstable();
        pairs.sort_unstable();
        assert_eq!(found, pairs);
    }

    #[test]
    fn jitter_is_told_of_all_packets_and_of_the_worst_interval() {
        let mut one = Jitter::default();
        let (mut run, mut worst) = (Jitters::default(), 0.0f64);
        assert_eq!((run.mean_ns(), run.largest_ns), (None, None));
        let mut sum = 0.0;
        // A second with a jitter of 5 ms, then one without: what the filter says last is of the
        // calm.
        for interval in 0..2 {
            let mut tally = Jitters::default();
            let mut own = 0.0;
            for n in 0..1_000 {
                let estimate = one.see(if interval == 0 && n % 2 == 0 { 5_000_000 } else { 0 });
                estimate.into_iter().for_each(|ns| tally.record(ns));
                own += one.ns / 1_000.0;
            }
            tally.close();
            run.merge(&tally);
            worst = worst.max(own);
            sum += own / 2.0;
        }
        assert!(one.ns < 1.0, "{}", one.ns);
        // One packet has no estimate: a thousandth.
        let same = |found: Option<f64>, by_hand: f64| (found.unwrap() / by_hand - 1.0).abs() < 0.0011;
        assert!(same(run.mean_ns(), sum) && same(run.largest_ns, worst), "{run:?} {sum} {worst}");
        assert!((4.8e6..5e6).contains(&worst) && (2.4e6..2.6e6).contains(&sum), "{worst} {sum}");
    }

    #[test]
    fn signed_quantiles_agree_with_sorting() {
        let values: Vec<i64> = (0..5_000i64).map(|i| (i * i * 31 % 10_007 - 3_000) * 1_000).collect();
        let mut signed = Signed::default();
        values.iter().for_each(|&v| signed.record(v));
        let mut sorted = values.clone();
        sorted.sort_unstable();
        for q in [0.0, 0.1, 0.25, 0.5, 0.9, 0.99, 1.0] {
            let exact = sorted[((q * 5_000.0f64).ceil() as usize).max(1) - 1];
            let got = signed.quantile(q);
            let most = exact.unsigned_abs() as f64 * 0.001 + 1.0;
            assert!((got - exact).unsigned_abs() as f64 <= most, "{q}: {got} {exact}");
        }
        let summary = signed.summary().unwrap();
        let mean = values.iter().sum::<i64>() as f64 / 5_000.0;
        assert!((summary.mean - mean).abs() < 5_000.0, "{} {mean}", summary.mean);
        assert!(Signed::default().summary().is_none());
    }

    #[test]
    fn signed_extremes_are_exact_and_each_rank_has_its_value() {
        for (values, min, max) in [
            ([1_000_001, 5_000_001], 1_000_001, 5_000_001),
            ([-1_000_001, -5_000_001], -5_000_001, -1_000_001),
            ([-1_000_001, 5_000_001], -1_000_001, 5_000_001),
        ] {
            let mut signed = Signed::default();
            values.iter().for_each(|&value| signed.record(value));
            let summary = signed.summary().unwrap();
            assert_eq!((summary.min, summary.max), (min, max));
        }
        // 25 on either side: 7 / 25 * 25 is more than 7 in floating point.
        let mut signed = Signed::default();
        (-25..25).for_each(|value| signed.record(value));
        for (rank, value) in (1..=50).zip(-25..25) {
            assert_eq!(signed.quantile((f64::from(rank) - 0.5) / 50.0), value, "{rank}");
        }
    }
}
