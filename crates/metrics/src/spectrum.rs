//! A whole distribution as files keep it: every bucket with what it holds, so that any percentile can be asked for later,
//! and distributions of several runs can be added.

use serde::{Deserialize, Serialize};

/// A distribution with all its buckets, three significant digits wide. The unit is that of the recorded values.
///
/// Percentiles of several such distributions are those of their sum ([`Spectrum::merge`]); they are never averaged.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
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
    /// `(highest value of the bucket, how many it holds)` in rising order; buckets that hold none are left out.
    pub counts: Vec<(u64, u64)>,
}

impl Spectrum {
    /// The value that a share `q` (0..=1) of the values does not exceed: the smallest for which at least that share is
    /// covered; 0 when there are none.
    #[must_use]
    pub fn quantile(&self, q: f64) -> u64 {
        let rank = (q.clamp(0.0, 1.0) * self.count as f64).ceil() as u64;
        let mut covered = 0;
        for &(value, n) in &self.counts {
            covered += n;
            if covered >= rank.max(1) {
                return value.clamp(self.min, self.max);
            }
        }
        self.max
    }

    /// How many values lie above the quantile `q`: with few of them the quantile is a matter of luck.
    #[must_use]
    pub fn beyond(&self, q: f64) -> f64 {
        self.count as f64 * (1.0 - q)
    }

    /// Adds another distribution: counts add up, extremes compare, mean and deviation are those of all values.
    pub fn merge(&mut self, other: &Spectrum) {
        if other.count == 0 {
            return;
        }
        if self.count == 0 {
            self.clone_from(other);
            return;
        }
        let (n, m) = (self.count as f64, other.count as f64);
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

    /// The values in steps of `width` (at least 1): `(lower bound, how many lie from there to the next)` from the step of
    /// the smallest value to that of the largest, empty steps included, at most `most` of them; what is beyond is in the last.
    ///
    /// A bucket that lies across a bound counts below it; buckets are a thousandth of their value wide.
    #[must_use]
    pub fn linear(&self, width: u64, most: usize) -> Vec<(u64, u64)> {
        let (width, most) = (width.max(1), most.max(1));
        let mut steps: Vec<(u64, u64)> = Vec::new();
        let first = self.min / width;
        for &(value, n) in &self.counts {
            let at = ((value / width).saturating_sub(first)).min(most as u64 - 1);
            while steps.len() as u64 <= at {
                steps.push(((first + steps.len() as u64) * width, 0));
            }
            if let Some(step) = steps.get_mut(at as usize) {
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

    /// The slow obvious implementation: keep all values, sort, take the ceil(q*n)-th.
    fn exact(values: &[u64], q: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        sorted[rank - 1]
    }

    /// Values from some microseconds to some seconds, most of them small.
    fn skewed(n: u64) -> Vec<u64> {
        (1..=n).map(|i| 5_000 + i * i % 7_919 * (1 + i % 13) * (1 + i % 101) * 37).collect()
    }

    fn of(values: &[u64]) -> Spectrum {
        let mut dist = Dist::default();
        values.iter().for_each(|&v| dist.record(v));
        dist.spectrum().unwrap()
    }

    #[test]
    fn percentiles_are_those_of_sorting_to_three_digits() {
        let values = skewed(200_000);
        let spectrum = of(&values);
        for q in [0.0, 0.5, 0.9, 0.99, 0.999, 0.9999, 0.99999, 1.0] {
            let (got, want) = (spectrum.quantile(q), exact(&values, q));
            assert!(got.abs_diff(want) as f64 <= want as f64 * 0.001, "q={q}: {got} against {want}");
        }
        assert_eq!(spectrum.min, *values.iter().min().unwrap());
        assert_eq!(spectrum.max, *values.iter().max().unwrap());
        let mean = values.iter().sum::<u64>() as f64 / values.len() as f64;
        assert!((spectrum.mean - mean).abs() < 1e-6 * mean);
    }

    #[test]
    fn it_says_what_the_histogram_says() {
        let mut dist = Dist::default();
        skewed(10_000).iter().for_each(|&v| dist.record(v));
        let spectrum = dist.spectrum().unwrap();
        for q in [0.1, 0.5, 0.75, 0.9, 0.99, 0.999, 0.99999] {
            assert_eq!(spectrum.quantile(q), dist.quantile(q), "{q}");
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

    #[test]
    fn steps_of_equal_width() {
        let spectrum = of(&[150, 250, 260, 610, 99_000]);
        assert_eq!(spectrum.linear(200, 4), [(0, 1), (200, 2), (400, 0), (600, 2)]);
        assert_eq!(spectrum.linear(100, 3), [(100, 1), (200, 2), (300, 2)]);
        assert_eq!(of(&[5]).linear(0, 0), [(5, 1)]);
    }
}
