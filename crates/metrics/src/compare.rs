//! Whether two sets of readings differ, and by how much: by ranks, because rates and times are rarely normal.

use serde::{Deserialize, Serialize};

/// Most readings of a set that are compared; of more, evenly spaced ones are.
const MOST: usize = 1_000;
/// Largest sets for which the distribution of the statistic is computed exactly.
const EXACT: usize = 25;
/// The two-sided 95 % quantile of the normal distribution.
const Z95: f64 = 1.959_964;

/// Two sets of readings compared: `b` against `a`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Readings in either set.
    pub n: (u64, u64),
    /// Medians of either set.
    pub median: (f64, f64),
    /// By how much a reading of `b` is larger than one of `a`: the median of all differences (Hodges and Lehmann, 1963).
    pub shift: f64,
    /// Its 95 % confidence interval, from the order of the differences (Moses; Hollander and Wolfe, *Nonparametric
    /// Statistical Methods*, 4.3); `None` when there are too few readings for one.
    pub interval: Option<(f64, f64)>,
    /// Probability of ranks at least as uneven, if both sets came from the same (Mann and Whitney, 1947), two-sided.
    pub p: f64,
    /// Probability that a reading of `b` is larger than one of `a`, ties counted half: the size of the effect.
    pub superiority: f64,
    /// By what the variance of the statistic was multiplied, because readings that follow each other are alike.
    pub inflation: f64,
}

impl Contrast {
    /// Compares the readings; `None` when a set has fewer than two. Those of a `series` follow each other in time: if they
    /// are alike (lag-1 autocorrelation `r`), they count as `(1 - r) / (1 + r)` times as many.
    #[must_use]
    pub fn of(a: &[f64], b: &[f64], series: bool) -> Option<Self> {
        let finite = |set: &[f64]| set.iter().copied().filter(|v| v.is_finite()).collect::<Vec<f64>>();
        let (a, b) = (finite(a), finite(b));
        let inflation = if series { inflation(&a).max(inflation(&b)) } else { 1.0 };
        let (mut a, mut b) = (thinned(a), thinned(b));
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        let (n, m) = (a.len() as f64, b.len() as f64);
        let mut differences: Vec<f64> = b.iter().flat_map(|y| a.iter().map(move |x| y - x)).collect();
        differences.sort_by(f64::total_cmp);
        let above = differences.iter().map(|&d| {
            if d > 0.0 {
                1.0
            } else if d < 0.0 {
                0.0
            } else {
                0.5
            }
        });
        let u: f64 = above.sum();
        let spread = (n * m * (n + m + 1.0) / 12.0 * inflation).sqrt();
        let rank = (n * m / 2.0 - Z95 * spread).floor();
        let interval = (rank >= 1.0).then(|| {
            let at = rank as usize - 1;
            (differences[at], differences[differences.len() - 1 - at])
        });
        Some(Contrast {
            n: (a.len() as u64, b.len() as u64),
            median: (median(&a), median(&b)),
            shift: median(&differences),
            interval,
            p: probability(&a, &b, u, inflation),
            superiority: u / (n * m),
            inflation,
        })
    }

    /// Whether a difference is told: chance would give one so large in less than 5 of 100 cases.
    #[must_use]
    pub fn differs(&self) -> bool {
        self.p < 0.05
    }

    /// The difference as a share of the median of `a`; `None` when that is 0.
    #[must_use]
    pub fn relative(&self) -> Option<f64> {
        (self.median.0 != 0.0).then(|| self.shift / self.median.0)
    }
}

/// The middle of sorted values; of an even number the mean of the two.
fn median(sorted: &[f64]) -> f64 {
    let half = sorted.len() / 2;
    match sorted.len() {
        0 => 0.0,
        n if n % 2 == 1 => sorted[half],
        _ => f64::midpoint(sorted[half - 1], sorted[half]),
    }
}

fn thinned(values: Vec<f64>) -> Vec<f64> {
    let every = values.len().div_ceil(MOST).max(1);
    values.into_iter().step_by(every).collect()
}

/// `(1 + r) / (1 - r)` of the lag-1 autocorrelation `r`, at least 1: the variance of a mean of readings that are alike, over that
/// of independent ones. Fewer than ten readings tell no `r`.
fn inflation(values: &[f64]) -> f64 {
    let n = values.len();
    if n < 10 {
        return 1.0;
    }
    let mean = values.iter().sum::<f64>() / n as f64;
    let all: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let next: f64 = values.windows(2).map(|w| (w[0] - mean) * (w[1] - mean)).sum();
    // Independent readings are below 1.96/sqrt(n) in 97.5 of 100 cases: what is less says nothing.
    let r = if all > 0.0 { next / all } else { 0.0 };
    if r < Z95 / (n as f64).sqrt() {
        return 1.0;
    }
    let r = r.min(0.95);
    (1.0 + r) / (1.0 - r)
}

/// The two-sided probability of `u`: exact for small sets without ties, else by the normal distribution with corrections for
/// ties and continuity.
fn probability(a: &[f64], b: &[f64], u: f64, inflation: f64) -> f64 {
    let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
    all.sort_by(f64::total_cmp);
    let ties: Vec<f64> = all.chunk_by(|x, y| x == y).map(|same| same.len() as f64).collect();
    let tied = ties.len() < all.len();
    let (n, m) = (a.len() as f64, b.len() as f64);
    let far = (u - n * m / 2.0).abs();
    if !tied && inflation <= 1.0 && a.len() <= EXACT && b.len() <= EXACT {
        return exact(a.len(), b.len(), n * m / 2.0 + far);
    }
    let total = n + m;
    let correction: f64 = ties.iter().map(|t| t * t * t - t).sum::<f64>() / (total * (total - 1.0));
    let variance = n * m / 12.0 * (total + 1.0 - correction) * inflation;
    if variance <= 0.0 {
        return 1.0; // all readings are the same
    }
    let z = ((far - 0.5) / variance.sqrt()).max(0.0);
    complement(z / std::f64::consts::SQRT_2).min(1.0)
}

/// Twice the probability of a statistic of at least `u` from sets of `n` and `m` without ties: counted by the recurrence of
/// Mann and Whitney, the number of orders with each statistic.
fn exact(n: usize, m: usize, u: f64) -> f64 {
    // orders[k][s]: ways in which k readings of the one set among those of the other so far give the statistic s.
    let mut orders = vec![vec![0.0f64; n * m + 1]; n + 1];
    orders[0][0] = 1.0;
    for other in 0..=m {
        // Readings of the first set that have `other` readings of the second below them.
        for k in 1..=n {
            for s in other..=n * m {
                orders[k][s] += orders[k - 1][s - other];
            }
        }
    }
    let all: f64 = orders[n].iter().sum();
    let from = (u - 1e-9).ceil().max(0.0) as usize;
    let tail: f64 = orders[n].iter().skip(from).sum();
    (2.0 * tail / all).min(1.0)
}

/// The complementary error function of `x` >= 0, to 2e-7 (Abramowitz and Stegun, 7.1.26).
fn complement(x: f64) -> f64 {
    let t = 1.0 / (1.0 + 0.327_591_1 * x);
    let series = t
        * (0.254_829_592
            + t * (-0.284_496_736 + t * (1.421_413_741 + t * (-1.453_152_027 + t * 1.061_405_429))));
    (series * (-x * x).exp()).clamp(0.0, 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: [f64; 5] = [9.1, 9.4, 8.7, 9.9, 9.0];
    const B: [f64; 6] = [9.8, 10.4, 10.1, 9.95, 10.9, 9.3];

    #[test]
    fn small_sets_agree_with_scipy_and_with_tables() {
        // scipy.stats.mannwhitneyu(b, a, method='exact'): U 27, p 0.0303; the differences sorted by numpy: the median is 0.9,
        // the 4th 0.05, the 27th 1.7 (4 = floor(15 - 1.96 * sqrt(30))).
        let c = Contrast::of(&A, &B, false).unwrap();
        assert!((c.p - 0.030_303_030_3).abs() < 1e-9, "{c:?}");
        assert!((c.superiority - 27.0 / 30.0).abs() < 1e-12);
        assert!((c.shift - 0.9).abs() < 1e-9);
        let (low, high) = c.interval.unwrap();
        assert!((low - 0.05).abs() < 1e-9 && (high - 1.7).abs() < 1e-9, "{c:?}");
        assert!(c.differs());
        // Three against three cannot be told apart at 5 %: the least probability is 2 / 20.
        let apart = Contrast::of(&[1.0, 2.0, 3.0], &[7.0, 8.0, 9.0], false).unwrap();
        assert!((apart.p - 0.1).abs() < 1e-12 && !apart.differs());
        assert_eq!(apart.interval, None, "nor is there an interval");
    }

    #[test]
    fn large_sets_and_ties_agree_with_scipy() {
        // The same sets given to scipy.stats.mannwhitneyu(method='asymptotic').
        let a: Vec<f64> = (0..40u64).map(|i| (i * 7_919 % 100) as f64).collect();
        let b: Vec<f64> = (0..50u64).map(|i| (i * 104_729 % 100) as f64 + 12.0).collect();
        let c = Contrast::of(&a, &b, false).unwrap();
        assert!((c.p - 0.058_477_235_6).abs() < 1e-6, "{c:?}");
        assert!((c.shift - 12.5).abs() < 1e-9 && (c.superiority - 1_233.5 / 2_000.0).abs() < 1e-12);
        let tied = Contrast::of(
            &[1.0, 2.0, 2.0, 3.0, 3.0, 3.0, 5.0, 8.0],
            &[2.0, 3.0, 3.0, 4.0, 5.0, 5.0, 9.0, 9.0, 9.0],
            false,
        );
        assert!((tied.unwrap().p - 0.085_803_788).abs() < 1e-6, "{tied:?}");
    }

    #[test]
    fn the_same_is_no_difference() {
        let c = Contrast::of(&[4.0; 30], &[4.0; 30], true).unwrap();
        assert_eq!((c.p, c.shift, c.superiority, c.differs()), (1.0, 0.0, 0.5, false));
        assert_eq!(Contrast::of(&[1.0], &[1.0, 2.0], false), None);
        assert_eq!(Contrast::of(&[f64::NAN, 1.0], &[1.0, 2.0], false), None);
    }

    #[test]
    fn readings_that_follow_each_other_count_less() {
        // A slow wave: neighbours are nearly equal, so 100 readings are worth a few.
        let wave = |i: u32, up: f64| (f64::from(i) / 16.0).sin() + up;
        let a: Vec<f64> = (0..100).map(|i| wave(i, 0.0)).collect();
        let b: Vec<f64> = (0..100).map(|i| wave(i + 40, 0.35)).collect();
        let (blind, aware) = (Contrast::of(&a, &b, false).unwrap(), Contrast::of(&a, &b, true).unwrap());
        assert!(aware.inflation > 10.0 && blind.inflation == 1.0, "{aware:?}");
        assert!(blind.differs() && !aware.differs(), "{} {}", blind.p, aware.p);
    }

    #[test]
    fn chance_is_found_about_as_often_as_it_says() {
        // Sets of the same uniform numbers (a linear congruential generator, MMIX): of 1000 pairs some 50 differ at 5 %.
        let mut state = 7u64;
        let mut next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 11) as f64
        };
        let mut told = 0;
        for _ in 0..1_000 {
            let a: Vec<f64> = (0..12).map(|_| next()).collect();
            let b: Vec<f64> = (0..15).map(|_| next()).collect();
            told += u32::from(Contrast::of(&a, &b, true).unwrap().differs());
        }
        assert!((20..=80).contains(&told), "{told} of 1000");
    }
}
