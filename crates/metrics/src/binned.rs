//! Histograms of bins of one width, as UDPmon counts and prints them, and what can be said from
//! bins alone.

use crate::number::{Clamped, real};
use serde::{Deserialize, Serialize};

/// Whole numbers in bins of one width, and what lay beside them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(default)]
pub struct Binned {
    /// Lower edge of the first bin.
    pub low: i64,
    /// Width of a bin, at least 1.
    pub width: i64,
    /// The bins.
    pub bins: Vec<u64>,
    /// Values below the first bin.
    pub under: u64,
    /// Values above the last bin.
    pub over: u64,
    /// Sum of the values in bins.
    pub sum: i64,
}

/// Moments and quartiles of binned values.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Shape {
    /// Values in bins.
    pub count: u64,
    /// Their mean, exact.
    pub mean: f64,
    /// Standard deviation.
    pub sigma: f64,
    /// Coefficient of skewness.
    pub skew: f64,
    /// Excess kurtosis, 0 for a normal distribution.
    pub kurtosis: f64,
    /// Lower edge of the bin in which the median lies.
    pub median: i64,
    /// The same for the first quartile.
    pub q1: i64,
    /// The same for the third quartile.
    pub q3: i64,
}

impl Binned {
    /// `n` empty bins from `low`, each `width` wide (at least 1).
    pub fn new(low: i64, width: i64, n: usize) -> Self {
        Binned { low, width: width.max(1), bins: vec![0; n], ..Binned::default() }
    }

    /// Counts a value.
    pub fn fill(&mut self, value: i64) {
        let bin = i128::from(value).saturating_sub(self.low.into()).div_euclid(self.width.max(1).into());
        match usize::try_from(bin) {
            Err(_) if bin < 0 => self.under += 1,
            Ok(bin) if bin < self.bins.len() => {
                self.bins[bin] += 1;
                self.sum = self.sum.saturating_add(value);
            }
            _ => self.over += 1,
        }
    }

    /// Forgets all values.
    pub fn clear(&mut self) {
        *self = Binned::new(self.low, self.width, self.bins.len());
    }

    /// Values in bins.
    pub fn count(&self) -> u64 {
        self.bins.iter().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Mean of the values in bins; 0 when there are none.
    pub fn mean(&self) -> f64 {
        match self.count() {
            0 => 0.0,
            n => real(self.sum) / real(n),
        }
    }

    /// Lower edge of bin `n`.
    pub fn edge(&self, n: usize) -> i64 {
        self.low.saturating_add(self.width.saturating_mul(i64::clamped(n)))
    }

    /// Mean, deviation, skew and quartiles from the bins alone. A value is taken for the middle of
    /// its bin; quartiles are those of the value whose rank is the quarter of the count, rounded
    /// up.
    pub fn shape(&self) -> Shape {
        let [m2, m3, m4] = self.moments(real(self.width - 1) / 2.0);
        let skew = if m2 > 0.0 { m3 / (m2.sqrt() * m2) } else { 0.0 };
        let kurtosis = if m2 > 0.0 { m4 / (m2 * m2) - 3.0 } else { 0.0 };
        let count = u128::from(self.count());
        let at = |quarters: u64| self.edge_of(u64::clamped((count * u128::from(quarters)).div_ceil(4)));
        self.shaped(m2.sqrt(), skew, kurtosis, [at(1), at(2), at(3)])
    }

    /// The same with these moments and quartiles; empty when nothing lies in bins.
    fn shaped(&self, sigma: f64, skew: f64, kurtosis: f64, [q1, median, q3]: [i64; 3]) -> Shape {
        match self.count() {
            0 => Shape::default(),
            count => Shape { count, mean: self.mean(), sigma, skew, kurtosis, median, q1, q3 },
        }
    }

    /// The same by UDPmon's arithmetic (`h_stats` of libhj): a value is the lower edge of its bin,
    /// the fourth moment is divided by the variance instead of its square, ranks are rounded down,
    /// and an edge of 0 is taken for "not found yet".
    pub fn shape_as_original(&self) -> Shape {
        let [m2, m3, m4] = self.moments(0.0);
        let sigma = m2.sqrt();
        let at = |share: f64| {
            let rank = u64::clamped(share * real(self.count()));
            let (mut sum, mut found) = (0u64, 0);
            for (n, bin) in self.bins.iter().enumerate() {
                sum = sum.saturating_add(*bin);
                if found == 0 && sum >= rank {
                    found = self.edge(n);
                }
            }
            found
        };
        let (skew, kurtosis) = (m3 / (sigma * sigma * sigma), m4 / (sigma * sigma) - 3.0);
        self.shaped(sigma, skew, kurtosis, [at(0.25), at(0.5), at(0.75)])
    }

    /// Second to fourth central moment, with values so far above the lower edge of their bin.
    fn moments(&self, above: f64) -> [f64; 3] {
        let mean = self.mean();
        let mut sums = [0.0; 3];
        for (n, &bin) in self.bins.iter().enumerate().filter(|(_, bin)| **bin > 0) {
            let delta = real(self.edge(n)) + above - mean;
            let square = delta * delta;
            for (sum, power) in sums.iter_mut().zip([square, square * delta, square * square]) {
                *sum += real(bin) * power;
            }
        }
        let count = real(self.count().max(1));
        sums.map(|sum| sum / count)
    }

    /// Lower edge of the bin that holds the value of this rank, from 1.
    fn edge_of(&self, rank: u64) -> i64 {
        let mut sum = 0u64;
        let found = self.bins.iter().position(|bin| {
            sum = sum.saturating_add(*bin);
            sum >= rank.max(1)
        });
        self.edge(found.unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_lie_in_their_bins() {
        let mut hist = Binned::new(10, 5, 3);
        for value in [9, 10, 14, 15, 24, 25, -1_000, i64::MAX, i64::MIN] {
            hist.fill(value);
        }
        assert_eq!((hist.under, hist.over, hist.count(), hist.sum), (3, 2, 4, 63));
        assert_eq!(hist.bins, [2, 1, 1]);
        assert_eq!((hist.edge(0), hist.edge(2)), (10, 20));
        hist.clear();
        assert_eq!(hist, Binned::new(10, 5, 3));
    }

    #[test]
    fn a_width_of_nothing_is_one() {
        let mut hist = Binned::new(0, 0, 2);
        hist.fill(1);
        assert_eq!(hist.bins, [0, 1]);
    }

    #[test]
    fn moments_of_a_small_sample() {
        // 2, 4, 4, 4, 5, 5, 7, 9: the textbook sample with mean 5 and population deviation 2. Third
        // central moment (-27 - 3 + 8 + 64) / 8 = 5.25, fourth (81 + 3 + 16 + 256) / 8 = 44.5.
        let mut hist = Binned::new(0, 1, 20);
        for value in [2, 4, 4, 4, 5, 5, 7, 9] {
            hist.fill(value);
        }
        let shape = hist.shape();
        assert_eq!((shape.count, shape.mean, shape.sigma), (8, 5.0, 2.0));
        assert!(
            (shape.skew - 5.25 / 8.0).abs() < 1e-12 && (shape.kurtosis - (44.5 / 16.0 - 3.0)).abs() < 1e-12
        );
        assert_eq!((shape.q1, shape.median, shape.q3), (4, 4, 5));
        let original = hist.shape_as_original();
        assert!((original.kurtosis - (44.5 / 4.0 - 3.0)).abs() < 1e-12);
    }

    #[test]
    fn all_in_one_bin_has_no_shape_and_nothing_has_none() {
        let mut hist = Binned::new(0, 5, 4);
        hist.fill(2);
        let shape = hist.shape();
        assert_eq!((shape.count, shape.skew, shape.kurtosis, shape.median), (1, 0.0, 0.0, 0));
        assert_eq!(Binned::new(0, 1, 4).shape(), Shape::default());
    }
}
