//! Scope of a figure: a direction, a statistic of a distribution.

use super::End;
use crate::{Capacity, DelayRange, Direction, PacketReport, PingInterval, Point};
use metrics::{DistSummary, Spectrum, real};
use std::borrow::Cow;

/// A direction, as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// To the server.
    Up,
    /// From the server.
    Down,
}

impl Way {
    /// Both.
    pub const ALL: [Way; 2] = [Way::Up, Way::Down];

    /// `to server` or `from server`.
    pub fn words(self) -> &'static str {
        match self {
            Way::Up => "to server",
            Way::Down => "from server",
        }
    }

    /// `up` or `down`.
    pub fn key(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }

    /// The measurement of this way.
    pub fn direction(self, point: &Point) -> Option<Direction> {
        match self {
            Way::Up => point.up,
            Way::Down => point.down,
        }
    }

    /// The result of a capacity test in this direction.
    pub fn capacity(self, point: &Point) -> Option<&Capacity> {
        point.capacity.as_deref().filter(|found| found.upstream == (self == Way::Up))
    }

    /// Counts of the receiving ends of this direction, all servers together: see
    /// [`PacketReport::join`].
    pub fn packets(self, point: &Point) -> Option<Cow<'_, PacketReport>> {
        match self {
            Way::Up => {
                let mut remote = point.remote.iter().filter_map(|totals| totals.packets.as_deref());
                let mut all = Cow::Borrowed(remote.next()?);
                remote.for_each(|one| all.to_mut().join(one));
                Some(all)
            }
            Way::Down => point.local.packets.as_deref().map(Cow::Borrowed),
        }
    }

    /// The end that receives.
    pub fn receiver(self) -> End {
        match self {
            Way::Up => End::Remote,
            Way::Down => End::Local,
        }
    }
}

/// Statistic of a distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Stat {
    /// Smallest value.
    Min,
    /// Arithmetic mean.
    Mean,
    /// Largest value.
    Max,
    /// The value that this share (0..=1) does not exceed.
    Quantile(f64),
}

impl Stat {
    /// The median.
    pub const MEDIAN: Stat = Stat::Quantile(0.5);

    /// Which of these it is: the smallest value, the mean, the largest value, or one of the
    /// quantiles.
    fn among(
        self,
        (min, mean, max): (Option<u64>, f64, u64),
        quantile: impl FnOnce(f64) -> Option<u64>,
    ) -> Option<f64> {
        match self {
            Stat::Min => min.map(real),
            Stat::Mean => Some(mean),
            Stat::Max => Some(real(max)),
            Stat::Quantile(q) => quantile(q).map(real),
        }
    }

    /// `None` for a percentile that falls among missing values.
    pub(super) fn of_spectrum(self, all: &Spectrum) -> Option<f64> {
        self.among((Some(all.min), all.mean, all.max), |q| all.quantile(q))
    }

    /// Of a summary, which knows four quantiles.
    pub(super) fn of_summary(self, all: &DistSummary) -> Option<f64> {
        let known = [(0.5, all.p50), (0.9, all.p90), (0.99, all.p99), (0.999, all.p999)];
        let quantile = |q: f64| known.iter().find(|(at, _)| (at - q).abs() < 1e-9).map(|(_, value)| *value);
        self.among((Some(all.min), all.mean, all.max), quantile)
    }

    /// Of the extremes and the mean that are known of some programs' delays.
    pub(super) fn of_range(self, range: DelayRange) -> Option<f64> {
        self.among((range.min, range.mean, range.max), |_| None)
    }

    /// Of the round trips of an interval, of which two quantiles are known.
    pub(super) fn of_trips(self, trips: &PingInterval) -> Option<f64> {
        self.among((Some(trips.min_ns), trips.mean_ns, trips.max_ns), |q| match q {
            0.5 => trips.p50_ns,
            0.99 => trips.p99_ns,
            _ => None,
        })
    }

    /// The one of this name: `min`, `mean` or `avg`, `max`, `median`, or a percentile such as
    /// `p99.9`.
    pub(crate) fn named(name: &str) -> Option<Stat> {
        match name {
            "min" => Some(Stat::Min),
            "mean" | "avg" => Some(Stat::Mean),
            "max" => Some(Stat::Max),
            "median" => Some(Stat::MEDIAN),
            _ => {
                let percent: f64 = name.strip_prefix('p')?.parse().ok()?;
                // Rounded as in [`Stat::key`], so that 99.9 % is the same as 0.999.
                (0.0..=100.0).contains(&percent).then(|| Stat::Quantile((percent * 1e9).round() / 1e11))
            }
        }
    }

    /// `p99.9`, `max`.
    pub fn key(self) -> String {
        match self {
            Stat::Min => "min".to_owned(),
            Stat::Mean => "mean".to_owned(),
            Stat::Max => "max".to_owned(),
            // Rounded to a percentile's useful digits, so that 0.999 does not read
            // 99.90000000000001.
            Stat::Quantile(q) => format!("p{}", (q * 1e11).round() / 1e9),
        }
    }

    pub(super) fn words(self) -> String {
        match self {
            Stat::MEDIAN => "median".to_owned(),
            other => other.key(),
        }
    }
}
