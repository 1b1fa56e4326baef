//! The difference between two sets of readings, and its significance: whole runs by ranks, because
//! rates and times are rarely normal; intervals of one run a side by means, because ranks of few
//! intervals that follow each other say nothing.

mod series;

pub use series::Series;

use crate::number::{Clamped, real};
use crate::student::{quantile, two_sided};
use serde::{Deserialize, Serialize};

/// Probability of a false alarm that a comparison accepts, over all its figures together.
pub const ALPHA: f64 = 0.05;
/// Most readings of a set that are compared; of more, evenly spaced ones are.
const MOST: usize = 1_000;
/// Largest sets for which the distribution of the statistic is computed exactly.
const EXACT: usize = 25;
/// Two sets of readings compared: `b` against `a`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Contrast {
    /// Readings in either set.
    pub n: (u64, u64),
    /// Medians of either set.
    pub median: (f64, f64),
    /// Value of `a` that the difference is a share of: the median of runs, the mean of intervals.
    #[serde(default)]
    pub base: f64,
    /// By how much a reading of `b` is larger than one of `a`: of runs the median of all
    /// differences (Hodges and Lehmann, 1963), of intervals the difference of means.
    pub shift: f64,
    /// Its confidence interval at the level asked for, of runs from the order of the differences
    /// (Moses; Hollander and Wolfe, *Nonparametric Statistical Methods*, 4.3), of intervals by
    /// Student's t; `None` when there are too few readings for one.
    pub interval: Option<(f64, f64)>,
    /// Probability, two-sided, if both sets were drawn from the same: of runs that of ranks at
    /// least as uneven (Mann and Whitney, 1947), of intervals that of means at least as far apart.
    pub p: f64,
    /// The least `p` that sets of this size can give: that of sets that do not overlap.
    pub least_p: f64,
    /// Probability that a reading of `b` is larger than one of `a`, ties counted half: the size of
    /// the effect.
    pub superiority: f64,
    /// Variance of the statistic over that of independent readings: intervals that follow each
    /// other in time are alike.
    pub inflation: f64,
}

impl Contrast {
    /// Compares independent readings, such as whole runs; `None` when a set has fewer than two. The
    /// interval holds the true shift with probability `1 - level`.
    pub fn of_sets(a: &[f64], b: &[f64], level: f64) -> Option<Self> {
        let finite = |set: &[f64]| set.iter().copied().filter(|v| v.is_finite()).collect::<Vec<f64>>();
        let (mut a, mut b) = (thinned(finite(a)), thinned(finite(b)));
        if a.len() < 2 || b.len() < 2 {
            return None;
        }
        let ranks = Ranks { n: a.len(), m: b.len() };
        a.sort_by(f64::total_cmp);
        b.sort_by(f64::total_cmp);
        let mut differences = Vec::with_capacity(a.len() * b.len());
        b.iter().for_each(|y| differences.extend(a.iter().map(|x| y - x)));
        differences.sort_unstable_by(f64::total_cmp);
        let superiority = superiority(&a, &b);
        let interval = ranks.least_inside(level).map(|rank| {
            let at = rank - 1;
            (differences[at], differences[differences.len() - 1 - at])
        });
        Some(Contrast {
            n: (u64::clamped(a.len()), u64::clamped(b.len())),
            median: (median(&a), median(&b)),
            base: median(&a),
            shift: median(&differences),
            interval,
            p: ranks.probability(&a, &b, superiority * ranks.pairs()),
            least_p: least(a.len(), b.len()),
            superiority,
            inflation: 1.0,
        })
    }

    /// Compares the intervals of two runs, once without a few extremes at either end and once with
    /// all, and returns the comparison with the smaller `p`; `None` when a run has fewer than two.
    /// The error rates in docs/compare.md are those of the two comparisons together.
    pub fn of_series(a: Series<'_>, b: Series<'_>, level: f64) -> Option<Self> {
        let (most, all) = (series::contrast(a, b, true, level)?, series::contrast(a, b, false, level)?);
        Some(if most.p < all.p { most } else { all })
    }

    /// Compares all intervals of two runs, each extreme with its weight; `None` when a run has
    /// fewer than two.
    pub fn of_wholes(a: Series<'_>, b: Series<'_>, level: f64) -> Option<Self> {
        series::contrast(a, b, false, level)
    }

    /// The difference as a share of the [base](Contrast::base); `None` when that is 0.
    pub fn relative(&self) -> Option<f64> {
        (self.base != 0.0).then(|| self.shift / self.base.abs())
    }

    /// True if `b` is the larger, also where the shift is 0: then by most pairs of readings.
    pub fn is_more(&self) -> bool {
        if self.shift == 0.0 { self.superiority > 0.5 } else { self.shift > 0.0 }
    }

    /// The factor by which the number of readings must grow until the interval excludes every value
    /// `gap` away from the shift: its width is as the inverse of the root of their number. `None`
    /// where there is no interval or no gap.
    pub fn more_readings(&self, gap: f64) -> Option<f64> {
        let (low, high) = self.interval?;
        (gap > 0.0).then(|| ((high - self.shift).max(self.shift - low) / gap).powi(2))
    }

    /// The end of the interval that is nearer to 0, in the direction of the difference; 0 when the
    /// interval holds 0 or when there is none.
    pub fn local_end(&self) -> f64 {
        match self.interval {
            Some((low, _)) if low > 0.0 => low,
            Some((_, high)) if high < 0.0 => high,
            _ => 0.0,
        }
    }
}

/// The probabilities `p` of several comparisons, corrected for their number (Holm, 1979, with his
/// weights): a comparison counts when its corrected probability is below the level, and then the
/// probability of even one false alarm is below it, too. A comparison with twice the weight of
/// another may err twice as often; with equal weights all are alike.
pub fn holm(p: &[f64], weights: &[f64]) -> Vec<f64> {
    let weight = |at: usize| weights.get(at).copied().unwrap_or(1.0).max(f64::MIN_POSITIVE);
    let mut order: Vec<usize> = (0..p.len()).collect();
    order.sort_by(|&i, &j| (p[i] / weight(i)).total_cmp(&(p[j] / weight(j))));
    let (mut corrected, mut largest) = (vec![1.0; p.len()], 0.0f64);
    for (rank, &at) in order.iter().enumerate() {
        // Summed anew: a difference would leave an error of rounding behind.
        let left: f64 = order[rank..].iter().map(|at| weight(*at)).sum();
        largest = largest.max(p[at] * left / weight(at)).min(1.0);
        corrected[at] = largest;
    }
    corrected
}

/// The least number of independent readings on each side that can differ significantly at `level`:
/// 2 of the `(2n)! / (n! n!)` orders of two sets of `n` are the most uneven ones.
pub fn least_readings(level: f64) -> usize {
    let (mut n, mut orders) = (1, 2.0);
    while 2.0 / orders > level && n < MOST {
        n += 1;
        orders *= real(4 * n - 2) / real(n);
    }
    n
}

/// Probability that a reading of `b` is larger than one of `a`, ties counted half; both are sorted.
fn superiority(a: &[f64], b: &[f64]) -> f64 {
    let below = |y: &f64| real(a.partition_point(|x| x < y) + a.partition_point(|x| x <= y)) / 2.0;
    b.iter().map(below).sum::<f64>() / real(a.len() * b.len())
}

/// The least two-sided probability of sets of `n` and `m` readings, which is that of sets that do
/// not overlap: one order on each side of `n + m` over `n`.
fn least(n: usize, m: usize) -> f64 {
    (1..=n).fold(2.0, |p: f64, k| p * real(k) / real(m + k)).min(1.0)
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

/// Distribution of the rank statistic of two sets under chance.
struct Ranks {
    n: usize,
    m: usize,
}

impl Ranks {
    /// True if all orders are counted instead of approximated.
    fn exact(&self) -> bool {
        self.n <= EXACT && self.m <= EXACT
    }

    /// Number of pairs of a reading of either set: the largest value of the statistic.
    fn pairs(&self) -> f64 {
        real(self.n * self.m)
    }

    /// The two-sided probability of `u`: exact for small sets, ties included; else by the normal
    /// distribution with corrections for ties and continuity.
    fn probability(&self, a: &[f64], b: &[f64], u: f64) -> f64 {
        let mut all: Vec<f64> = a.iter().chain(b).copied().collect();
        all.sort_by(f64::total_cmp);
        let ties: Vec<usize> = all.chunk_by(|x, y| x == y).map(<[f64]>::len).collect();
        let remote = (u - self.pairs() / 2.0).abs();
        if self.exact() {
            let orders = orders(&ties, self.m);
            let of: f64 = orders.iter().sum();
            let center = real(self.m * (self.n + self.m + 1));
            let uneven =
                orders.iter().enumerate().filter(|(s, _)| (real(*s) - center).abs() >= 2.0 * remote - 1e-9);
            return (uneven.map(|(_, orders)| orders).sum::<f64>() / of).min(1.0);
        }
        let total = real(self.n + self.m);
        let cubes: f64 = ties.iter().map(|&t| real(t * t * t - t)).sum();
        self.tail(remote, total + 1.0 - cubes / (total * (total - 1.0)))
    }

    /// The two-sided probability that the statistic is `remote` from its mean; `width` is 12 times
    /// the variance for a pair.
    fn tail(&self, remote: f64, width: f64) -> f64 {
        let variance = self.pairs() / 12.0 * width;
        if variance <= 0.0 {
            return 1.0; // all readings are the same
        }
        two_sided(((remote - 0.5) / variance.sqrt()).max(0.0), None)
    }

    /// Which of the sorted differences begins the interval for `level`, counted from 1; `None` when
    /// none does.
    fn least_inside(&self, level: f64) -> Option<usize> {
        let rank = if self.exact() {
            let orders = orders(&vec![1; self.n + self.m], self.m);
            let all: f64 = orders.iter().sum();
            // Sums of doubled ranks begin at m (m + 1), and without ties every second one occurs.
            let cumulative = orders.iter().skip(self.m * (self.m + 1)).step_by(2).scan(0.0, |sum, orders| {
                *sum += orders;
                Some(*sum / all)
            });
            cumulative.take_while(|p| *p <= level / 2.0).count()
        } else {
            let spread = (self.pairs() * real(self.n + self.m + 1) / 12.0).sqrt();
            usize::clamped((self.pairs() / 2.0 - quantile(level, None) * spread).floor().max(0.0))
        };
        (rank >= 1).then_some(rank)
    }
}

/// In how many ways `m` readings of a sorted whole have each sum of ranks, doubled; `ties` are the
/// sizes of the groups of equal readings, each of which has the mean rank of its group.
fn orders(ties: &[usize], m: usize) -> Vec<f64> {
    let all: usize = ties.iter().sum();
    let most = m * 2 * all;
    // ways[k][s]: ways in which k of the readings so far have the sum s.
    let mut ways = vec![vec![0.0f64; most + 1]; m + 1];
    ways[0][0] = 1.0;
    let mut below = 0;
    for &size in ties {
        let rank = 2 * below + size + 1;
        below += size;
        for _ in 0..size {
            for k in (1..=m).rev() {
                let (fewer, with) = ways.split_at_mut(k);
                let sums = with[0].iter_mut().skip(rank);
                sums.zip(&fewer[k - 1]).for_each(|(ways, more)| *ways += more);
            }
        }
    }
    ways.swap_remove(m)
}

#[cfg(test)]
mod tests;
