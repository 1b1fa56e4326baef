//! Distributions: a mergeable HDR histogram with three significant digits, and its summary for
//! reports.

use crate::{Clamped, Spectrum, real};
use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A distribution of non-negative integers (ns, bytes/s, …) kept with three significant decimal
/// digits; the extremes and the mean are exact.
///
/// Memory grows with the largest value recorded (200-500 KiB for ns up to an hour), so it is made
/// on the first record and belongs to a worker and a phase, never to a connection.
#[derive(Clone, Default, Debug, Serialize, Deserialize)]
#[serde(from = "Buckets", into = "Buckets")]
pub struct Dist {
    inner: Option<Box<Histogram<u64>>>,
    /// Smallest and largest value recorded.
    extremes: Option<(u64, u64)>,
    sum: u128,
}

impl Dist {
    /// An empty distribution that has its memory already, for values up to `highest`.
    pub fn with_room(highest: u64) -> Self {
        let Ok(mut made) = Histogram::<u64>::new_with_bounds(1, highest.max(2), 3) else {
            return Dist::default();
        };
        made.auto(true);
        // Each page is written once: else the system would add it when a value falls into it for
        // the first time.
        made.reset();
        Dist { inner: Some(Box::new(made)), ..Dist::default() }
    }

    /// Gives it the memory for values up to `highest`.
    pub fn make_room(&mut self, highest: u64) {
        if self.inner.as_ref().is_some_and(|histogram| histogram.high() >= highest) {
            return;
        }
        let before = std::mem::replace(self, Dist::with_room(highest));
        self.merge(&before);
    }

    /// True once the histogram has its memory.
    pub fn has_room(&self) -> bool {
        self.inner.is_some()
    }

    /// Forgets all values and keeps the memory.
    pub fn clear(&mut self) {
        (self.extremes, self.sum) = (None, 0);
        if let Some(histogram) = &mut self.inner {
            histogram.reset();
        }
    }

    /// Records one value. Values that do not fit a 64-bit histogram are recorded as its maximum.
    pub fn record(&mut self, value: u64) {
        self.add(value, 1);
    }

    /// Records the same value `n` times.
    pub fn record_n(&mut self, value: u64, n: u64) {
        if n > 0 {
            self.add(value, n);
        }
    }

    // Always inlined: most values are recorded once, for which the compiler leaves the
    // multiplication out.
    #[inline(always)]
    fn add(&mut self, value: u64, n: u64) {
        if self.inner.is_none() {
            let Ok(mut made) = Histogram::<u64>::new(3) else { return };
            made.auto(true);
            self.inner = Some(Box::new(made));
        }
        if let Some(histogram) = &mut self.inner
            && histogram.record_n(value, n).is_err()
        {
            histogram.saturating_record_n(value, n);
        }
        self.add_extremes((value, value));
        self.sum += u128::from(value) * u128::from(n);
    }

    fn add_extremes(&mut self, (low, high): (u64, u64)) {
        let (least, most) = self.extremes.unwrap_or((low, high));
        self.extremes = Some((least.min(low), most.max(high)));
    }

    /// Adds all that `other` holds; the result is exactly what one histogram would have recorded.
    pub fn merge(&mut self, other: &Dist) {
        if let Some(extremes) = other.extremes {
            self.add_extremes(extremes);
            self.sum += other.sum;
        }
        match (&mut self.inner, &other.inner) {
            (_, None) => {}
            (None, Some(theirs)) => self.inner = Some(theirs.clone()),
            (Some(ours), Some(theirs)) => {
                // Both resize on demand, so adding cannot fail; if it ever did, nothing is added.
                let _ = ours.add(&**theirs);
            }
        }
    }

    /// Number of recorded values.
    pub fn count(&self) -> u64 {
        self.inner.as_ref().map_or(0, |h| h.len())
    }

    /// The value at quantile `q` (0..=1), or 0 when nothing was recorded.
    pub fn quantile(&self, q: f64) -> u64 {
        let value = self.inner.as_ref().map_or(0, |h| h.value_at_quantile(q));
        self.extremes.map_or(0, |(least, most)| value.clamp(least, most))
    }

    /// The value at quantile `q` (0..=1) among those recorded and `missing` others that are larger
    /// than all of them. `None` where its rank falls among the others, or when there are none.
    pub fn quantile_among(&self, q: f64, missing: u64) -> Option<u64> {
        let known = self.count();
        let total = known.saturating_add(missing);
        let rank = (u64::clamped((q.clamp(0.0, 1.0) * real(total)).ceil())).max(1);
        // The middle of a rank, which rounding does not take for its neighbour.
        (rank <= known).then(|| self.quantile((real(rank) - 0.5) / real(known)))
    }

    /// Arithmetic mean, exact; `None` when nothing was recorded.
    pub fn mean(&self) -> Option<f64> {
        self.extremes.map(|_| real(self.sum) / real(self.count().max(1)))
    }

    /// Smallest and largest value, exact; `None` when nothing was recorded.
    pub fn extremes(&self) -> Option<(u64, u64)> {
        self.extremes
    }

    /// All of it, as files keep it; `None` when nothing was recorded.
    pub fn spectrum(&self) -> Option<Spectrum> {
        let (h, (min, max)) = (self.inner.as_ref()?, self.extremes?);
        let counts = h.iter_recorded().map(|bucket| {
            (h.highest_equivalent(bucket.value_iterated_to()).min(max), bucket.count_since_last_iteration())
        });
        let (count, mean) = (h.len(), real(self.sum) / real(h.len().max(1)));
        Some(Spectrum { count, min, max, mean, sd: h.stdev(), counts: counts.collect(), missing: 0 })
    }

    /// Number of values above `limit`, to three digits.
    pub fn count_above(&self, limit: u64) -> u64 {
        self.inner.as_ref().map_or(0, |h| h.len() - h.count_between(0, limit))
    }

    /// Count, extremes, mean, standard deviation, percentiles and at most 64 buckets; `None` when
    /// empty.
    pub fn summary(&self) -> Option<DistSummary> {
        let h = self.inner.as_ref().filter(|h| !h.is_empty())?;
        let (min, max) = self.extremes?;
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        let step = 10f64.powf(0.1); // ten buckets a decade
        let start = h.min().max(1);
        for bucket in h.iter_log(start, step) {
            let upper = bucket.value_iterated_to();
            match buckets.last_mut() {
                Some(last) if last.0 == upper => last.1 += bucket.count_since_last_iteration(),
                _ => buckets.push((upper, bucket.count_since_last_iteration())),
            }
        }
        while buckets.len() > 64 {
            let joined = |pair: &[(u64, u64)]| (pair[pair.len() - 1].0, pair.iter().map(|b| b.1).sum());
            buckets = buckets.chunks(2).map(joined).collect();
        }
        Some(DistSummary {
            count: h.len(),
            min,
            mean: real(self.sum) / real(h.len()),
            sd: h.stdev(),
            p50: self.quantile(0.5),
            p90: self.quantile(0.9),
            p99: self.quantile(0.99),
            p999: self.quantile(0.999),
            max,
            buckets,
        })
    }
}

impl FromIterator<u64> for Dist {
    fn from_iter<T: IntoIterator<Item = u64>>(values: T) -> Self {
        let mut dist = Dist::default();
        values.into_iter().for_each(|value| dist.record(value));
        dist
    }
}

/// A distribution on its way to another process: nothing of it is lost.
#[derive(Serialize, Deserialize)]
struct Buckets {
    extremes: Option<(u64, u64)>,
    /// The sum's upper and lower 64 bits.
    sum: (u64, u64),
    /// A value of each bucket that is not empty, and its count.
    counts: Vec<(u64, u64)>,
}

impl From<Dist> for Buckets {
    fn from(dist: Dist) -> Self {
        let counts = dist.inner.iter().flat_map(|histogram| {
            histogram.iter_recorded().map(|at| (at.value_iterated_to(), at.count_since_last_iteration()))
        });
        let sum = (u64::clamped(dist.sum >> 64), (dist.sum & u128::from(u64::MAX)) as u64);
        Buckets { extremes: dist.extremes, sum, counts: counts.collect() }
    }
}

impl From<Buckets> for Dist {
    fn from(buckets: Buckets) -> Self {
        let mut dist = Dist::default();
        buckets.counts.iter().for_each(|&(value, n)| dist.record_n(value, n));
        let (upper, lower) = buckets.sum;
        Dist { extremes: buckets.extremes, sum: u128::from(upper) << 64 | u128::from(lower), ..dist }
    }
}

/// Summary of a distribution. The unit is that of the recorded values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DistSummary {
    /// Number of values.
    pub count: u64,
    /// Smallest value.
    pub min: u64,
    /// Arithmetic mean.
    pub mean: f64,
    /// Standard deviation of the population.
    pub sd: f64,
    /// Median.
    pub p50: u64,
    /// 90th percentile.
    pub p90: u64,
    /// 99th percentile.
    pub p99: u64,
    /// 99.9th percentile.
    pub p999: u64,
    /// Largest value.
    pub max: u64,
    /// `[upper bound, count]` in rising order, about ten to a decade; counts add up to `count`.
    #[serde(default)]
    pub buckets: Vec<(u64, u64)>,
}

impl DistSummary {
    /// True if a value lies beyond the percentile `q` (0..=1), or `q` is the median or below:
    /// without one the percentile is the largest value by definition.
    pub fn is_shown(&self, q: f64) -> bool {
        q <= 0.5 || real(self.count) * (1.0 - q) >= 1.0 - 1e-9
    }

    /// The highest percentile, with its name, beyond which at least `beyond` values lie.
    pub fn tail(&self, beyond: f64) -> Option<(&'static str, u64)> {
        let all = [("p99", 0.99, self.p99), ("p90", 0.9, self.p90), ("p50", 0.5, self.p50)];
        let known = |(_, q, _): &(&str, f64, u64)| real(self.count) * (1.0 - q) >= beyond - 1e-9;
        all.into_iter().find(known).map(|(name, _, value)| (name, value))
    }

    /// Summary of the values of both. Count, extremes, mean and standard deviation are exact; a
    /// percentile of both lies between the two, and the larger one is returned. Buckets are left
    /// out.
    pub fn joined(&self, other: &DistSummary) -> DistSummary {
        if self.count == 0 || other.count == 0 {
            return if self.count == 0 { other.clone() } else { self.clone() };
        }
        let (n, m) = (real(self.count), real(other.count));
        let mean = (self.mean * n + other.mean * m) / (n + m);
        let squares = |d: &DistSummary, n: f64| n * (d.sd * d.sd + d.mean * d.mean);
        let variance = (squares(self, n) + squares(other, m)) / (n + m) - mean * mean;
        DistSummary {
            count: self.count + other.count,
            min: self.min.min(other.min),
            mean,
            sd: variance.max(0.0).sqrt(),
            p50: self.p50.max(other.p50),
            p90: self.p90.max(other.p90),
            p99: self.p99.max(other.p99),
            p999: self.p999.max(other.p999),
            max: self.max.max(other.max),
            buckets: Vec::new(),
        }
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// The slow obvious implementation: keep all values, sort, take the ceil(q*n)-th.
    pub(crate) fn exact(values: &[u64], q: f64) -> u64 {
        let mut sorted = values.to_vec();
        sorted.sort_unstable();
        let rank = ((q * sorted.len() as f64).ceil() as usize).max(1);
        sorted[rank - 1]
    }

    #[test]
    fn with_room_no_usual_value_takes_more_memory() {
        let mut dist = Dist::default();
        dist.record(5);
        dist.make_room(4_000_000_000);
        let buckets = |dist: &Dist| dist.inner.as_ref().unwrap().distinct_values();
        let before = buckets(&dist);
        dist.record(4_000_000_000);
        assert_eq!((buckets(&dist), dist.count()), (before, 2));
        assert_eq!(dist.extremes, Some((5, 4_000_000_000)));
    }

    fn skewed(n: u64) -> Vec<u64> {
        (1..=n).map(|i| i * i % 7_919 * (1 + i % 13) * 1_000 + i).collect()
    }

    #[test]
    fn quantiles_are_within_a_thousandth_of_the_exact_ones() {
        let values = skewed(20_000);
        let dist: Dist = values.iter().copied().collect();
        for q in [0.01, 0.5, 0.9, 0.99, 0.999, 1.0] {
            let (got, want) = (dist.quantile(q) as f64, exact(&values, q) as f64);
            assert!((got - want).abs() <= want * 0.001 + 1.0, "q={q}: {got} against {want}");
        }
    }

    /// The same values in one distribution and split over two; `first` says by a value's index
    /// whether it belongs to the first of these.
    fn split(first: fn(usize) -> bool) -> (Dist, Dist, Dist) {
        let (mut one, mut left, mut right) = (Dist::default(), Dist::default(), Dist::default());
        for (i, v) in skewed(5_000).into_iter().enumerate() {
            one.record(v);
            if first(i) { left.record(v) } else { right.record(v) }
        }
        (one, left, right)
    }

    #[test]
    fn merging_equals_recording_everything_in_one() {
        let (one, mut left, right) = split(|i| i % 3 == 0);
        left.merge(&right);
        assert_eq!(left.summary(), one.summary());
    }

    #[test]
    fn two_summaries_joined_bound_the_whole() {
        let (one, left, right) = split(|i| i < 2_000);
        let [whole, left, right] = [one, left, right].map(|dist| dist.summary().unwrap());
        let joined = left.joined(&right);
        assert_eq!((joined.count, joined.min, joined.max), (whole.count, whole.min, whole.max));
        assert!((joined.mean - whole.mean).abs() < whole.mean * 1e-9);
        // The histogram's own deviation is that of its cells, which are a thousandth wide.
        assert!((joined.sd - whole.sd).abs() < whole.sd * 1e-3, "{} against {}", joined.sd, whole.sd);
        for (of, low, high) in [
            (whole.p50, left.p50.min(right.p50), joined.p50),
            (whole.p99, left.p99.min(right.p99), joined.p99),
        ] {
            assert!((low..=high).contains(&of), "{of} not in {low}..={high}");
        }
        assert_eq!(left.joined(&DistSummary::default()), left);
    }

    #[test]
    fn many_at_once_are_as_many_one_by_one() {
        let (mut one, mut many) = (Dist::default(), Dist::default());
        for (value, n) in [(10_700, 38), (25_500, 1), (3, 0), (40_000, 1_000)] {
            (0..n).for_each(|_| one.record(value));
            many.record_n(value, n);
        }
        assert_eq!(one.summary(), many.summary());
        let mean = (10_700.0 * 38.0 + 25_500.0 + 40_000_000.0) / 1_039.0;
        assert!((one.summary().unwrap().mean - mean).abs() < 1e-6);
    }

    #[test]
    fn mean_and_deviation_agree_with_the_textbook() {
        let dist = Dist::from_iter([10u64, 20, 30, 20, 10]);
        let s = dist.summary().unwrap();
        assert_eq!((s.count, s.min, s.max, s.mean), (5, 10, 30, 18.0));
        assert!((s.sd - 56f64.sqrt()).abs() < 1e-9, "population variance of 10,20,30,20,10 is 56");
    }

    #[test]
    fn buckets_hold_every_value_once() {
        let mut dist = Dist::from_iter(skewed(3_000));
        dist.record(0);
        let s = dist.summary().unwrap();
        assert_eq!(s.buckets.iter().map(|b| b.1).sum::<u64>(), s.count);
        assert!(s.buckets.len() <= 64 && s.buckets.windows(2).all(|w| w[0].0 < w[1].0));
    }

    #[test]
    fn nothing_recorded_is_no_summary() {
        assert!(Dist::default().summary().is_none());
        assert_eq!(Dist::default().quantile(0.5), 0);
    }
}
