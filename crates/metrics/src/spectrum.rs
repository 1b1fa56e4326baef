//! A whole distribution as files keep it: every bucket with its count, so that any percentile can
//! be asked for later, and distributions of several runs can be added.

use crate::number::{Clamped, real};
use serde::{Deserialize, Serialize};

/// A distribution with all its buckets, three significant digits wide. The unit is that of the
/// recorded values.
///
/// Percentiles of several such distributions are those of their sum ([`Spectrum::merge`]); they are
/// never averaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Spectrum {
    /// Number of values.
    pub count: u64,
    /// Smallest value, exact.
    pub min: u64,
    /// Largest value, exact.
    pub max: u64,
    /// Arithmetic mean, exact.
    pub mean: f64,
    /// Standard deviation of the population.
    pub sd: f64,
    /// `[highest value of the bucket, how many it holds]` in rising order; empty buckets are left
    /// out.
    pub counts: Vec<(u64, u64)>,
    /// Messages that never returned: they rank above all values (RFC 7679 §4.1 counts a loss as an
    /// infinite delay), and are in no other figure.
    #[serde(skip_serializing_if = "crate::is_zero")]
    pub missing: u64,
}

impl Spectrum {
    /// All values, missing ones included.
    pub fn total(&self) -> u64 {
        self.count.saturating_add(self.missing)
    }

    /// The rank of the quantile `q` (0..=1) among all values, from 1.
    pub fn rank(&self, q: f64) -> u64 {
        (u64::clamped((q.clamp(0.0, 1.0) * real(self.total())).ceil())).max(1)
    }

    /// The value that a share `q` (0..=1) of the values does not exceed: the smallest for which at
    /// least that share is covered. `None` where its rank falls among the missing values, or when
    /// there are no values.
    pub fn quantile(&self, q: f64) -> Option<u64> {
        let rank = self.rank(q);
        let mut covered = 0u64;
        let at = self.counts.iter().find(|&&(_, n)| {
            covered = covered.saturating_add(n);
            covered >= rank
        });
        at.map(|&(value, _)| value.min(self.max).max(self.min))
    }

    /// Number of values above the quantile `q`: with few of them the quantile is not statistically
    /// reliable.
    pub fn beyond(&self, q: f64) -> f64 {
        let all = real(self.total());
        all - q * all
    }

    /// Adds another distribution: counts add up, extremes compare, mean and deviation are those of
    /// all values.
    pub fn merge(&mut self, other: &Spectrum) {
        let missing = self.missing.saturating_add(other.missing);
        if self.count == 0 {
            self.clone_from(other);
        } else if other.count > 0 {
            self.merge_known(other);
        }
        self.missing = missing;
    }

    /// Adds the known values of `other`, where both have some.
    fn merge_known(&mut self, other: &Spectrum) {
        let (n, m) = (real(self.count), real(other.count));
        let apart = other.mean - self.mean;
        // Sums of squared deviations of two sets put together (Chan, Golub, LeVeque 1979).
        let squares = self.sd * self.sd * n + other.sd * other.sd * m + apart * apart * n * m / (n + m);
        self.mean += apart * m / (n + m);
        self.sd = (squares / (n + m)).sqrt();
        self.count += other.count;
        (self.min, self.max) = (self.min.min(other.min), self.max.max(other.max));
        let mut all: Vec<(u64, u64)> = self.counts.iter().chain(&other.counts).copied().collect();
        all.sort_unstable();
        self.counts.clear();
        for (value, n) in all {
            match self.counts.last_mut() {
                Some(last) if last.0 == value => last.1 += n,
                _ => self.counts.push((value, n)),
            }
        }
    }

    /// The values in steps of `width` (at least 1): `(lower bound, number of values from there to
    /// the next)` from the step of the smallest value to that of the largest, empty steps included,
    /// at most `most` of them; the last holds all beyond.
    ///
    /// A bucket that lies across a bound counts below it; buckets are a thousandth of their value
    /// wide.
    pub fn linear(&self, width: u64, most: usize) -> Vec<(u64, u64)> {
        let (width, most) = (width.max(1), most.max(1));
        let mut steps: Vec<(u64, u64)> = Vec::new();
        let first = self.min / width;
        for &(value, n) in &self.counts {
            let at = ((value / width).saturating_sub(first)).min(u64::clamped(most) - 1);
            while u64::clamped(steps.len()) <= at {
                steps.push(((first + u64::clamped(steps.len())) * width, 0));
            }
            if let Some(step) = steps.get_mut(usize::clamped(at)) {
                step.1 += n;
            }
        }
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Dist;
    use crate::dist::tests::exact;

    /// Values from some microseconds to some seconds, most of them small.
    fn skewed(n: u64) -> Vec<u64> {
        (1..=n).map(|i| 5_000 + i * i % 7_919 * (1 + i % 13) * (1 + i % 101) * 37).collect()
    }

    fn of(values: &[u64]) -> Spectrum {
        Dist::from_iter(values.iter().copied()).spectrum().unwrap()
    }

    #[test]
    fn it_says_what_the_histogram_says() {
        let values = skewed(10_000);
        let dist: Dist = values.iter().copied().collect();
        let spectrum = dist.spectrum().unwrap();
        assert_eq!(spectrum.min, *values.iter().min().unwrap());
        assert_eq!(spectrum.max, *values.iter().max().unwrap());
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((spectrum.mean - mean).abs() < 1e-6 * mean);
        for q in [0.1, 0.5, 0.75, 0.9, 0.99, 0.999, 0.99999] {
            assert_eq!(spectrum.quantile(q), Some(dist.quantile(q)), "{q}");
        }
        assert_eq!(spectrum.counts.iter().map(|c| c.1).sum::<u64>(), dist.count());
        assert!(Dist::default().spectrum().is_none());
    }

    #[test]
    fn adding_two_is_as_recording_all_in_one() {
        let values = skewed(9_000);
        let (left, right) = values.split_at(2_000);
        let mut sum = of(left);
        sum.merge(&of(right));
        let all = of(&values);
        assert_eq!((sum.count, sum.min, sum.max), (all.count, all.min, all.max));
        for q in [0.5, 0.9, 0.99, 0.999] {
            assert_eq!(sum.quantile(q), all.quantile(q), "{q}");
        }
        assert!((sum.mean - all.mean).abs() < 1e-6 * all.mean, "{} {}", sum.mean, all.mean);
        assert!((sum.sd - all.sd).abs() < 1e-3 * all.sd, "{} {}", sum.sd, all.sd);
        let mut empty = Spectrum::default();
        empty.merge(&all);
        assert_eq!(empty, all);
        empty.merge(&Spectrum::default());
        assert_eq!(empty, all);
    }

    /// The oracle counts a missing value as the largest number there is, sorts, and takes the
    /// ceil(q*n)-th.
    #[test]
    fn missing_values_rank_above_all_others() {
        let known = skewed(970);
        for missing in [0u64, 1, 30, 2_000] {
            let all: Vec<u64> = known.iter().copied().chain((0..missing).map(|_| u64::MAX)).collect();
            let dist: Dist = known.iter().copied().collect();
            let spectrum = Spectrum { missing, ..dist.spectrum().unwrap() };
            for q in [0.1, 0.5, 0.9, 0.97, 0.98, 0.99, 0.999, 1.0] {
                let want = Some(exact(&all, q)).filter(|&want| want < u64::MAX);
                let close = |got: u64, want: u64| got.abs_diff(want) as f64 <= want as f64 * 0.001;
                match (spectrum.quantile(q), want) {
                    (Some(got), Some(want)) => assert!(close(got, want), "{missing} {q}: {got} {want}"),
                    (got, want) => assert_eq!(got, want, "{missing} {q}"),
                }
                assert_eq!(dist.quantile_among(q, missing), spectrum.quantile(q), "{missing} {q}");
            }
        }
        let mut sum = Spectrum { missing: 3, ..Spectrum::default() };
        assert_eq!(sum.quantile(0.5), None);
        sum.merge(&of(&known));
        sum.merge(&Spectrum { missing: 4, ..Spectrum::default() });
        assert_eq!((sum.total(), sum.missing), (977, 7));
    }

    #[test]
    fn steps_of_equal_width() {
        let spectrum = of(&[150, 250, 260, 610, 99_000]);
        assert_eq!(spectrum.linear(200, 4), [(0, 1), (200, 2), (400, 0), (600, 2)]);
        assert_eq!(spectrum.linear(100, 3), [(100, 1), (200, 2), (300, 2)]);
        assert_eq!(of(&[5]).linear(0, 0), [(5, 1)]);
    }
}
