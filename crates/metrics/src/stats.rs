//! The mean of a few readings and how far it can be trusted.

use crate::number::{Clamped, real};
use crate::student::{quantile, two_sided};
use serde::{Deserialize, Serialize};

/// Fewest readings whose interval is shown: of fewer, Student's t is 3 and more, and their extremes
/// say as much.
const FEWEST: u64 = 5;

/// Mean, spread and 95 % confidence interval of a handful of independent readings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Spread {
    /// Number of readings.
    pub n: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Sample standard deviation (n-1); 0 with fewer than two readings.
    pub sd: f64,
    /// Smallest.
    pub min: f64,
    /// Largest.
    pub max: f64,
    /// Half-width of the 95 % confidence interval of the mean (Student's t); 0 with fewer than two
    /// readings.
    pub ci95: f64,
}

/// Two-sided 95 % quantiles of Student's t for 1..=30 degrees of freedom (scipy.stats.t.ppf(0.975,
/// df)).
const T95: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131,
    2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

/// The same for `df` degrees of freedom. Beyond the table: the normal quantile with two correction
/// terms (Abramowitz and Stegun, 26.7.5; error under 0.001 from 31 degrees on).
fn t95(df: u64) -> f64 {
    match usize::try_from(df) {
        Ok(df @ 1..=30) => T95[df - 1],
        _ => 1.959_964 + 2.372_3 / real(df) + 2.822_5 / (real(df) * real(df)),
    }
}

/// Most trials of a sign test that is computed exactly.
const EXACT: u64 = 1_000;

/// The probability that of `a + b` fair coins `a` or a number as far from the half show heads (the
/// two-sided sign test): exact up to 1,000 coins, beyond by the normal distribution with the
/// correction for continuity.
pub(crate) fn sign_test(a: u64, b: u64) -> f64 {
    let n = a.saturating_add(b);
    if n > EXACT {
        return two_sided((real(a.abs_diff(b)) - 1.0).max(0.0) / real(n).sqrt(), None);
    }
    let mut term = -real(n) * std::f64::consts::LN_2;
    let mut tail = 0.0;
    for k in 0..=a.min(b) {
        tail += term.exp();
        term += (real(n - k) / real(k + 1)).ln();
    }
    (2.0 * tail).min(1.0)
}

impl Spread {
    /// The spread of `values`; `None` when there are none.
    pub fn of(values: &[f64]) -> Option<Spread> {
        let n = values.len();
        if n == 0 {
            return None;
        }
        let mean = values.iter().sum::<f64>() / real(n);
        let (min, max) = values.iter().fold((f64::MAX, f64::MIN), |(lo, hi), &v| (lo.min(v), hi.max(v)));
        let mut spread = Spread { n: u64::clamped(n), mean, min, max, ..Spread::default() };
        if n > 1 {
            let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
            spread.sd = (squares / real(n - 1)).sqrt();
            spread.ci95 = spread.half(t95(u64::clamped(n) - 1));
        }
        Some(spread)
    }

    /// Half-width of the 95 % confidence interval as every printout shows it after ±: of five
    /// readings and more, and of at most half of the mean, so that no interval reaches below 0. A
    /// wider one says that the mean is not known.
    pub fn margin(&self) -> Option<f64> {
        (self.n >= FEWEST && self.ci95 <= self.mean.abs() / 2.0).then_some(self.ci95)
    }

    /// Half the width of the interval that misses the true mean with probability `error` (Student's
    /// t); 0 with fewer than two readings.
    pub fn half_width(&self, error: f64) -> f64 {
        if self.n < 2 { 0.0 } else { self.half(quantile(error, Some(real(self.n - 1)))) }
    }

    fn half(&self, t: f64) -> f64 {
        t * self.sd / (real(self.n)).sqrt()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sign_test_counts_coins() {
        // 2 · (1 + 10 + 45) / 1024, 2 / 1024, and what is even.
        for ((a, b), want) in [((2, 8), 0.109_375), ((0, 10), 0.001_953_125), ((5, 5), 1.0), ((0, 0), 1.0)] {
            assert!((sign_test(a, b) - want).abs() < 1e-12, "{a} {b}");
            assert_eq!(sign_test(a, b).to_bits(), sign_test(b, a).to_bits());
        }
        // scipy.stats.binomtest(460, 1000).pvalue; across the limit of the exact form the two agree.
        assert!((sign_test(460, 540) - 0.012_444_1).abs() < 1e-5, "{}", sign_test(460, 540));
        let (exact, normal) = (sign_test(460, 540), sign_test(460, 541));
        assert!((exact - normal).abs() < 2e-3, "{exact} {normal}");
    }

    #[test]
    fn a_margin_has_five_readings_and_stays_above_nothing() {
        let margin = |values: &[f64]| Spread::of(values).unwrap().margin();
        assert_eq!(margin(&[9.1, 9.4, 8.7, 9.9]), None);
        assert!((margin(&[9.1, 9.4, 8.7, 9.9, 9.0]).unwrap() - 0.564_919).abs() < 2e-4);
        assert_eq!(margin(&[1.0, 0.0, 3.0, 0.0, 2.0]), None);
        assert_eq!((margin(&[2.0; 5]), margin(&[0.0; 5])), (Some(0.0), Some(0.0)));
    }

    #[test]
    fn agrees_with_scipy() {
        // numpy.std(ddof=1) and scipy.stats.t.interval(0.95, n-1, loc=mean, scale=sem), computed
        // outside.
        let s = Spread::of(&[9.1, 9.4, 8.7, 9.9, 9.0]).unwrap();
        assert!((s.mean - 9.22).abs() < 1e-9);
        assert!((s.sd - 0.454_972_5).abs() < 1e-6);
        assert!((s.ci95 - 0.564_919).abs() < 2e-4);
        let many: Vec<f64> = (0..100).map(f64::from).collect();
        let s = Spread::of(&many).unwrap();
        assert!((s.sd - 29.011_492).abs() < 1e-5);
        assert!((s.ci95 - 5.756_5).abs() < 1e-3);
        // scipy.stats.t.ppf(0.975, df) for 31, 40 and 1000 degrees; the table agrees with what is
        // computed for any level.
        for (df, t) in [(31, 2.039_513), (40, 2.021_075), (1_000, 1.962_339)] {
            assert!((t95(df) - t).abs() < 1e-3, "{df}");
        }
        for n in 2..=40 {
            let s = Spread { n, sd: 1.0, ..Spread::default() };
            assert!((s.half_width(0.05) - s.half(t95(n - 1))).abs() < 1e-3, "{n}");
        }
        // scipy.stats.t.ppf(0.995, 4) is 4.604095.
        let five = Spread { n: 5, sd: 5f64.sqrt(), ..Spread::default() };
        assert!((five.half_width(0.01) - 4.604_095).abs() < 1e-5);
    }

    #[test]
    fn one_reading_has_no_spread() {
        let s = Spread::of(&[4.0]).unwrap();
        assert_eq!((s.n, s.mean, s.sd, s.ci95), (1, 4.0, 0.0, 0.0));
        assert!(Spread::of(&[]).is_none());
    }
}
