//! What a figure is of: a direction, a statistic of a distribution.

use super::{End, Figure};
use crate::{DelayRange, Direction, PacketReport, Point};
use metrics::{DistSummary, Spectrum, real};
use std::borrow::Cow;
use std::mem;

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

    /// What was measured this way.
    pub fn direction(self, point: &Point) -> Option<Direction> {
        match self {
            Way::Up => point.up,
            Way::Down => point.down,
        }
    }

    /// What the receiving ends of this direction counted, all servers together: see [`PacketReport::worst`].
    pub fn packets(self, point: &Point) -> Option<Cow<'_, PacketReport>> {
        match self {
            Way::Up => {
                let mut remote = point.remote.iter().filter_map(|totals| totals.packets.as_deref());
                let mut all = Cow::Borrowed(remote.next()?);
                remote.for_each(|one| all.to_mut().worst(one));
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

/// What is asked of a distribution.
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

    /// `None` for a percentile that falls among missing values.
    pub(super) fn of_spectrum(self, all: &Spectrum) -> Option<f64> {
        Some(match self {
            Stat::Min => real(all.min),
            Stat::Mean => all.mean,
            Stat::Max => real(all.max),
            Stat::Quantile(q) => real(all.quantile(q)?),
        })
    }

    /// Of a summary, which knows four quantiles.
    pub(super) fn of_summary(self, all: &DistSummary) -> Option<f64> {
        Some(match self {
            Stat::Min => real(all.min),
            Stat::Mean => all.mean,
            Stat::Max => real(all.max),
            Stat::Quantile(q) => {
                let known = [(0.5, all.p50), (0.9, all.p90), (0.99, all.p99), (0.999, all.p999)];
                real(known.iter().find(|(at, _)| (at - q).abs() < 1e-9)?.1)
            }
        })
    }

    /// Of the extremes and the mean that are known of some programs' delays.
    pub(super) fn of_range(self, range: DelayRange) -> Option<f64> {
        match self {
            Stat::Min => range.min.map(real),
            Stat::Mean => Some(range.mean),
            Stat::Max => Some(real(range.max)),
            Stat::Quantile(_) => None,
        }
    }

    /// The one of this name: `min`, `mean` or `avg`, `max`, `median`, or a percentile such as `p99.9`.
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
    pub(super) fn key(self) -> String {
        match self {
            Stat::Min => "min".to_owned(),
            Stat::Mean => "mean".to_owned(),
            Stat::Max => "max".to_owned(),
            // Rounded as far as a percentile makes sense, so that 0.999 does not read 99.90000000000001.
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

/// How many figures a row of the table stands for: one, one a direction, one a statistic of a distribution, or both.
#[derive(Clone, Copy)]
pub(super) enum Scope {
    One(Figure),
    Ways(fn(Way) -> Figure),
    Stats(fn(Stat) -> Figure),
    WaysAndStats(fn(Way, Stat) -> Figure),
}

impl Scope {
    /// Its figures for these directions and statistics, as far as it has any.
    pub(super) fn figures(self, ways: &[Way], stats: &[Stat]) -> Vec<Figure> {
        match self {
            Scope::One(figure) => vec![figure],
            Scope::Ways(of) => ways.iter().map(|way| of(*way)).collect(),
            Scope::Stats(of) => stats.iter().map(|stat| of(*stat)).collect(),
            Scope::WaysAndStats(of) => {
                ways.iter().flat_map(|way| stats.iter().map(|stat| of(*way, *stat))).collect()
            }
        }
    }

    pub(super) fn has_ways(self) -> bool {
        matches!(self, Scope::Ways(_) | Scope::WaysAndStats(_))
    }

    pub(super) fn has_stats(self) -> bool {
        matches!(self, Scope::Stats(_) | Scope::WaysAndStats(_))
    }

    pub(super) fn is_of(self, figure: Figure) -> bool {
        let any = match self {
            Scope::One(figure) => figure,
            Scope::Ways(of) => of(Way::Up),
            Scope::Stats(of) => of(Stat::Mean),
            Scope::WaysAndStats(of) => of(Way::Up, Stat::Mean),
        };
        mem::discriminant(&any) == mem::discriminant(&figure)
    }
}
