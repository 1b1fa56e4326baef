//! How delay varies: RTP jitter, IP packet delay variation, and distributions of values that may be negative.

use crate::{Dist, DistSummary};
use serde::{Deserialize, Serialize};

/// Interarrival jitter of RFC 3550 (§6.4.1, A.8): `J += (|D| - J) / 16`, where `D` is the difference of the transit
/// times of two packets that arrived one after the other. It starts at 0, and depends on the order of arrival.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Jitter {
    last: Option<i64>,
    ns: f64,
}

impl Jitter {
    /// A packet came after `transit` ns; a constant error of the clocks does not matter.
    pub fn see(&mut self, transit: i64) {
        if let Some(last) = self.last {
            self.ns += (transit.saturating_sub(last).unsigned_abs() as f64 - self.ns) / 16.0;
        }
        self.last = Some(transit);
    }

    /// The estimate now, ns.
    #[must_use]
    pub fn ns(&self) -> f64 {
        self.ns
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
        if value < 0 { self.below.record(value.unsigned_abs()) } else { self.above.record(value as u64) }
    }

    /// Adds all that `other` holds.
    pub fn merge(&mut self, other: &Signed) {
        self.below.merge(&other.below);
        self.above.merge(&other.above);
    }

    /// How many values were recorded.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.below.count() + self.above.count()
    }

    /// How many values lie above `limit`, as far as three digits tell.
    #[must_use]
    pub fn count_above(&self, limit: u64) -> u64 {
        self.above.count_above(limit)
    }

    /// The value at quantile `q` (0..=1); 0 when nothing was recorded.
    #[must_use]
    pub fn quantile(&self, q: f64) -> i64 {
        let (below, above) = (self.below.count() as f64, self.above.count() as f64);
        let rank = (q.clamp(0.0, 1.0) * (below + above)).ceil().max(1.0);
        if rank <= below {
            // The k-th from the bottom is the k-th largest in size.
            -i64::try_from(self.below.quantile((below - rank + 1.0) / below)).unwrap_or(i64::MAX)
        } else if above > 0.0 {
            i64::try_from(self.above.quantile((rank - below) / above)).unwrap_or(i64::MAX)
        } else {
            0
        }
    }

    /// Count, extremes, mean and percentiles, all moved by `shift` (a correction that became known later); `None` when
    /// empty.
    #[must_use]
    pub fn summary(&self, shift: i64) -> Option<SignedSummary> {
        let (below, above) = (self.below.summary(), self.above.summary());
        let count = self.count();
        if count == 0 {
            return None;
        }
        let sum = |side: &Option<DistSummary>| side.as_ref().map_or(0.0, |s| s.mean * s.count as f64);
        let at = |q| self.quantile(q).saturating_add(shift);
        Some(SignedSummary {
            count,
            min: at(0.0),
            mean: (sum(&above) - sum(&below)) / count as f64 + shift as f64,
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: at(1.0),
        })
    }
}

/// What a report says about a distribution of values that may be negative.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
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

impl SignedSummary {
    /// Packet delay variation (RFC 5481 §4.2): percentiles of the delay above its minimum, as `(p50, p90, p99, p999, max)`.
    #[must_use]
    pub fn above_minimum(&self) -> (u64, u64, u64, u64, u64) {
        let above = |v: i64| v.saturating_sub(self.min).max(0) as u64;
        (above(self.p50), above(self.p90), above(self.p99), above(self.p999), above(self.max))
    }
}

/// Delays remembered to find a packet's neighbour after reordering.
const REMEMBERED: usize = 64;

/// IP packet delay variation (RFC 3393) between packets sent one after the other: `D(i) - D(i-1)`. It is not defined
/// across a loss; a packet that a few dozen others have overtaken still finds its neighbours.
#[derive(Clone, Debug)]
pub struct Variation {
    delays: [(u64, i64); REMEMBERED],
    /// Sizes, ns. (The signed values add up to last minus first: their mean says nothing.)
    size: Dist,
}

impl Default for Variation {
    fn default() -> Self {
        Variation { delays: [(u64::MAX, 0); REMEMBERED], size: Dist::default() }
    }
}

impl Variation {
    /// Packet `seq` came with this delay, ns; a constant error of the clocks does not matter. Repeats are not to be told.
    pub fn see(&mut self, seq: u64, delay: i64) {
        for neighbour in [seq.wrapping_sub(1), seq.wrapping_add(1)] {
            let (its, other) = self.delays[neighbour as usize % REMEMBERED];
            if its == neighbour && its != u64::MAX {
                self.size.record(delay.saturating_sub(other).unsigned_abs());
            }
        }
        self.delays[seq as usize % REMEMBERED] = (seq, delay);
    }

    /// The sizes so far, and a clean slate for more.
    pub fn take(&mut self) -> Dist {
        std::mem::take(&mut self.size)
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
        assert!((ours.ns() - rfc.jitter as f64 / 16.0).abs() < 16.0, "{} {}", ours.ns(), rfc.jitter / 16);
        let mut steady = Jitter::default();
        (0..100).for_each(|_| steady.see(5_000));
        assert!(steady.ns() == 0.0);
    }

    #[test]
    fn variation_is_defined_between_neighbours_only() {
        let mut variation = Variation::default();
        // 3 is lost; 5 and 6 change places: 0-1, 1-2, then 4-6 is no pair, 5-6 and 4-5 are.
        for (seq, delay) in [(0, 100), (1, 130), (2, 120), (4, 500), (6, 530), (5, 580)] {
            variation.see(seq, delay);
        }
        let size = variation.take().summary().unwrap();
        assert_eq!((size.count, size.min, size.max), (4, 10, 80));
        assert!((size.mean - (30.0 + 10.0 + 50.0 + 80.0) / 4.0).abs() < 0.01);
        assert_eq!(variation.take().count(), 0);
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
            assert!(
                (got - exact).unsigned_abs() as f64 <= exact.unsigned_abs() as f64 * 0.001 + 1.0,
                "{q}: {got} {exact}"
            );
        }
        let summary = signed.summary(0).unwrap();
        let mean = values.iter().sum::<i64>() as f64 / 5_000.0;
        assert!((summary.mean - mean).abs() < 5_000.0, "{} {mean}", summary.mean);
        let shifted = signed.summary(1_000_000_000).unwrap();
        assert_eq!(shifted.p50 - summary.p50, 1_000_000_000);
        assert_eq!(shifted.above_minimum(), summary.above_minimum());
        assert!(Signed::default().summary(5).is_none());
    }
}
