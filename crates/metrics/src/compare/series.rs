//! Intervals of two runs compared by their means, with an error that allows for intervals that
//! follow each other.

use super::{Contrast, median, superiority};
use crate::number::{Clamped, real};
use crate::student::{quantile, two_sided};

/// Largest autocorrelation that is assumed: readings that are more alike are worth a hundredth of
/// their number.
const MOST_ALIKE: f64 = 0.98;
/// An estimate of the autocorrelation from `n` readings is uncertain, and too small by `(1 + 3 r) /
/// n` (Marriott and Pope, 1954); readings taken for independent raise false alarms. `(n r +
/// PRIOR.1) / (n + PRIOR.0)` corrects for that and draws it towards dependence, and [`MARGIN`]
/// standard errors are added. So autoregressive series of up to 0.7 raise at most 5 % of false
/// alarms, simulated from 4 readings on (docs/compare.md).
const PRIOR: (f64, f64) = (4.0, 5.5);
const MARGIN: f64 = 0.7;
/// Standard errors by which the dispersion of counts exceeds that of chance before they are taken
/// to follow each other.
const BEYOND_CHANCE: f64 = 1.75;
/// A tenth of the readings, rounded, is left out at either end: the start of a connection or a
/// single stall hides no difference between the others.
const TRIM: usize = 10;

/// A figure in the intervals of a run.
#[derive(Clone, Copy, Debug)]
pub struct Series<'a> {
    /// Its readings, in order.
    pub values: &'a [f64],
    /// Of how many events (datagrams, messages, frames) each is a percentage; empty for a figure
    /// that counts none.
    pub events: &'a [u64],
}

/// One side of a comparison.
struct SideStats {
    /// Readings, smallest first.
    sorted: Vec<f64>,
    /// Trimmed mean; of counts the percentage of all events.
    mean: f64,
    /// Number of readings that the mean is of.
    kept: f64,
    /// Events in all; 0 for a figure that counts none.
    events: f64,
    /// Square of the error of the mean, if readings were independent: of a trimmed one that of Yuen
    /// (1974).
    scatter: f64,
    /// Sum of the squares of the deviations of the readings, those left out moved to the nearest
    /// that is not; 0 where all are the same.
    squares: f64,
    /// Half of the sum of the squares of the differences between successive ones.
    steps: f64,
}

impl SideStats {
    /// `None` with fewer than two readings.
    fn of(series: Series<'_>, trim: bool) -> Option<SideStats> {
        let weight = |at: usize| series.events.get(at).map_or(1.0, |events| real(*events));
        let numbered = series.values.iter().enumerate().map(|(at, value)| (*value, weight(at)));
        let (mut values, weights): (Vec<f64>, Vec<f64>) =
            numbered.filter(|(value, weight)| value.is_finite() && *weight > 0.0).unzip();
        if values.len() < 2 {
            return None;
        }
        let counted = !series.events.is_empty();
        let mut sorted = values.clone();
        sorted.sort_by(f64::total_cmp);
        let cut = if trim && !counted { (sorted.len() + TRIM / 2) / TRIM } else { 0 };
        let kept = &sorted[cut..sorted.len() - cut];
        let (events, n) = (weights.iter().sum::<f64>(), real(kept.len()));
        let (mean, scatter) = if counted {
            let weighed = || values.iter().zip(&weights);
            let mean = weighed().map(|(value, weight)| value * weight).sum::<f64>() / events;
            let squares: f64 = weighed().map(|(value, weight)| ((value - mean) * weight).powi(2)).sum();
            (mean, Some(squares * n / (n - 1.0) / events.powi(2)))
        } else {
            (kept.iter().sum::<f64>() / n, None)
        };
        values.iter_mut().for_each(|value| *value = value.clamp(kept[0], kept[kept.len() - 1]));
        let middle = values.iter().sum::<f64>() / real(values.len());
        let squares: f64 = values.iter().map(|value| (value - middle).powi(2)).sum();
        // Readings that are all the same differ from their mean by rounding only.
        let varies = squares > real(values.len()) * (middle * 1e-9).powi(2);
        let steps = values.windows(2).map(|two| (two[1] - two[0]).powi(2)).sum::<f64>() / 2.0;
        let scatter = scatter.unwrap_or(squares / (n * (n - 1.0)));
        let [scatter, squares, steps] = [scatter, squares, steps].map(|of| if varies { of } else { 0.0 });
        Some(SideStats {
            mean,
            kept: n,
            events: if counted { events } else { 0.0 },
            scatter,
            squares,
            steps,
            sorted,
        })
    }

    fn n(&self) -> f64 {
        real(self.sorted.len())
    }
}

/// `(1 + r) / (1 - r)` of the lag-1 autocorrelation `r` within the sides that vary, at least 1: the
/// variance of a mean of readings that are alike, over that of independent ones (of an
/// autoregressive series; Bartlett, 1935). `r` is 1 less the ratio of von Neumann (1941), drawn
/// towards [`PRIOR`].
fn inflation(sides: [&SideStats; 2]) -> f64 {
    let varying = || sides.iter().filter(|side| side.squares > 0.0);
    let squares: f64 = varying().map(|side| side.squares).sum();
    if squares <= 0.0 {
        return 1.0; // readings that do not vary do not follow each other
    }
    let r = 1.0 - varying().map(|side| side.steps).sum::<f64>() / squares;
    let n = varying().map(|side| side.n()).fold(f64::MAX, f64::min);
    let all: f64 = varying().map(|side| side.n()).sum();
    let r = ((n * r + PRIOR.1) / (n + PRIOR.0) + MARGIN / all.sqrt()).clamp(0.0, MOST_ALIKE);
    (1.0 + r) / (1.0 - r)
}

/// The difference of two means, trimmed or not: Student's t with the degrees of freedom of Welch
/// (1947), its variance that of readings that follow each other. Counts vary by chance at least
/// (the binomial variance of both sides taken together), and by the dispersion of their intervals
/// where that is larger (quasi-likelihood: McCullagh and Nelder, *Generalized Linear Models*, 4.5);
/// `k` counts with a dispersion of `d` are worth `k / d` events, and half an event is the
/// correction for continuity.
pub(super) fn contrast(a: Series<'_>, b: Series<'_>, trim: bool, level: f64) -> Option<Contrast> {
    let (a, b) = (SideStats::of(a, trim)?, SideStats::of(b, trim)?);
    let (n, m) = (a.n(), b.n());
    let counted = a.events > 0.0 && b.events > 0.0;
    let per_event = if counted { 1.0 / a.events + 1.0 / b.events } else { 0.0 };
    let pooled = if counted { (a.mean * a.events + b.mean * b.events) / (a.events + b.events) } else { 0.0 };
    let chance = (pooled * (100.0 - pooled) * per_event).max(0.0);
    let scatter = a.scatter + b.scatter;
    let beyond = scatter - (1.0 + BEYOND_CHANCE * (2.0 / (n + m - 2.0)).sqrt()) * chance;
    let independent = scatter.max(chance);
    // Counts that follow each other are worth one interval of each side at least.
    let most = if counted { n.min(m) } else { f64::MAX };
    let variance = independent + (inflation([&a, &b]).min(most) - 1.0) * beyond.max(0.0);
    let inflation = if independent > 0.0 { variance / independent } else { 1.0 };
    // The variance of chance is known without the intervals: its degrees of freedom are infinite.
    let df = (variance > chance && scatter > 0.0).then(|| {
        let welch =
            scatter.powi(2) / (a.scatter.powi(2) / (a.kept - 1.0) + b.scatter.powi(2) / (b.kept - 1.0));
        (welch / inflation.sqrt() * (variance / (variance - chance)).powi(2)).max(1.0)
    });
    let event = if chance > 0.0 { 100.0 * per_event * variance / chance } else { 0.0 };
    // Means of equal readings differ by rounding only.
    let shift = Some(b.mean - a.mean).filter(|shift| shift.abs() > 1e-9 * a.mean.abs()).unwrap_or_default();
    let least_p = super::least(a.sorted.len(), b.sorted.len());
    let apart = shift.abs() - event / 2.0;
    let p = if apart <= 0.0 {
        1.0
    } else if variance > 0.0 {
        two_sided(apart / variance.sqrt(), df).max(least_p)
    } else {
        least_p
    };
    let half = quantile(level, df) * variance.sqrt() + event / 2.0;
    // Of readings that are never below 0 no less than all can be missing.
    let least = if a.sorted[0] >= 0.0 && b.sorted[0] >= 0.0 { -a.mean } else { f64::MIN };
    Some(Contrast {
        n: (u64::clamped(a.sorted.len()), u64::clamped(b.sorted.len())),
        median: (median(&a.sorted), median(&b.sorted)),
        base: a.mean,
        shift,
        interval: (least_p <= level).then_some(((shift - half).max(least), shift + half)),
        p,
        least_p,
        superiority: superiority(&a.sorted, &b.sorted),
        inflation,
    })
}

#[cfg(test)]
mod tests;
