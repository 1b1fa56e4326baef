//! The figures that runs are judged by, in one table: how each is called, its unit, which way is
//! better, and how it is read of a phase and of an interval. Comparisons, assertions, the store,
//! sweeps and scrapers loop over it.

mod interval;
mod part;
mod possible;
mod scope;
mod table;
mod unit;

pub use interval::{End, Measure};
pub use part::RunPart;
pub use scope::{Stat, Way};
pub use unit::Unit;

use crate::ping::is_shown;
use crate::{Interval, Kind, Point};
use metrics::{Clamped, percent_of};
use std::collections::BTreeMap;
use std::{fmt, mem};
use table::{FigureRow, ROW, TABLE};

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Payload that arrived, by its receiver's count.
    Goodput(Way),
    /// Connections established per second, where that was measured.
    Connects,
    /// Round trips of messages.
    RoundTrip(Stat),
    /// Messages without an answer.
    MessagesLost,
    /// Delays of datagrams one way.
    Delay(Way, Stat),
    /// Datagrams lost.
    Loss(Way),
    /// Datagrams that arrived with congestion experienced.
    CeMarks(Way),
    /// Datagrams whose ECN codepoint was cleared on the way.
    EcnCleared(Way),
    /// Maximum IP-layer capacity: the rate of IP packets in the best sub-interval.
    Capacity(Way),
    /// Mean rate of IP packets of a capacity test.
    CapacityMean(Way),
    /// Rate at which trains of packets arrived, of the setting with the shortest spacing.
    Dispersion,
    /// Frames that were not whole in time.
    Frames,
    /// Payload that was sent, by its sender's count.
    Sent(Way),
    /// CPU time of both hosts' processes for 10^9 bytes of payload.
    Cpu,
    /// CPU time of the local process for 10^9 bytes of payload.
    CpuLocal,
    /// CPU time of the servers' processes for 10^9 bytes of payload.
    CpuRemote,
    /// Round trip of a transfer's own connections, by the kernel.
    LoadedRoundTrip,
    /// RFC 3550 jitter.
    Jitter(Way),
    /// Jitter of the interval with the largest.
    JitterMax(Way),
    /// Times to connect.
    ConnectTime(Stat),
    /// Segments sent again, by both ends where known.
    Retransmits,
    /// Jain's index over the connections.
    Fairness,
    /// Connections that ended in an error.
    Errors,
    /// Caveats about the figures.
    Caveats,
    /// Letter for the delay that a load adds, as its place among [`crate::load::GRADES`].
    Grade,
    /// Growth of round trips under a load that its grade is about: the larger of the median's and
    /// the 90th percentile's, which counts lost messages.
    Added,
    /// Growth of a percentile of round trips under a load.
    AddedPercentile(Stat),
    /// Round trips a minute under a load.
    Responsiveness,
    /// Round trips before a load.
    IdleRoundTrip(Stat),
}

impl Figure {
    /// All that are kept of every run.
    pub fn kept() -> impl Iterator<Item = Figure> {
        TABLE.iter().flat_map(|row| row.figures(&Way::ALL, row.stats))
    }

    /// Figures that tables of several phases show, in their order.
    pub fn compared() -> impl Iterator<Item = Figure> {
        Figure::kept().filter(|figure| figure.is_compared())
    }

    /// Figures that sets of runs are compared by, in their order: of two that follow from each other
    /// one.
    pub fn judged() -> impl Iterator<Item = Figure> {
        Figure::kept().filter(|figure| figure.row().compared || figure.row().judged)
    }

    /// True if tables of several phases show it, or others of its row.
    pub fn is_compared(self) -> bool {
        self.row().compared
    }

    /// All, with these percentiles of distributions.
    pub fn with_percentiles(of: &[f64]) -> impl Iterator<Item = Figure> {
        let stats: Vec<Stat> = of.iter().map(|q| Stat::Quantile(*q)).collect();
        TABLE.iter().flat_map(move |row| row.figures(&Way::ALL, &stats))
    }

    /// Figures that `name` means: its [key](Figure::key), one without the direction for both, or a
    /// statistic alone for all times.
    pub fn named(name: &str) -> Vec<Figure> {
        if let Some(stat) = Stat::named(name) {
            let times = TABLE.iter().filter(|row| row.any().stat().is_some());
            return times.flat_map(|row| row.figures(&Way::ALL, &[stat])).collect();
        }
        let (key, rest) = name.split_once('.').unwrap_or((name, ""));
        let (first, others) = rest.split_once('.').unwrap_or((rest, ""));
        let way = Way::ALL.into_iter().find(|way| way.key() == first);
        let rest = if way.is_some() { others } else { rest };
        let stat = Stat::named(rest);
        let row = TABLE.iter().find(|row| {
            let stats = if row.any().stat().is_some() { stat.is_some() } else { rest.is_empty() };
            row.key == key && stats && (way.is_none() || row.any().way().is_some())
        });
        let ways = way.map_or(Way::ALL.to_vec(), |way| vec![way]);
        row.map_or_else(Vec::new, |row| row.figures(&ways, &Vec::from_iter(stat)))
    }

    fn row(self) -> &'static FigureRow {
        let own = mem::discriminant(&self);
        TABLE.iter().find(|row| mem::discriminant(&row.any()) == own).unwrap_or(&ROW)
    }

    /// True if `point` has a value beyond the percentile that the figure is: without one the
    /// percentile is the largest value by definition. The median is always shown.
    pub fn is_shown(self, point: &Point) -> bool {
        match self {
            Figure::RoundTrip(Stat::Quantile(q)) if q > 0.5 => {
                let all = point.local.pings.as_ref().and_then(|pings| pings.rtt_ns.as_ref());
                all.is_none_or(|all| is_shown(all, q))
            }
            Figure::ConnectTime(Stat::Quantile(q)) => {
                point.local.connect_ns.as_ref().is_none_or(|all| all.is_shown(q))
            }
            Figure::Delay(way, Stat::Quantile(q)) => way
                .packets(point)
                .is_none_or(|packets| packets.delay_ns.as_ref().is_none_or(|all| all.is_shown(q))),
            _ => true,
        }
    }

    /// The figure itself, or the largest value where `point` has too few values for the percentile
    /// that the figure is.
    #[must_use]
    pub fn supported(self, point: &Point) -> Figure {
        if self.is_shown(point) { self } else { self.largest().unwrap_or(self) }
    }

    /// The largest value, of a percentile.
    pub fn largest(self) -> Option<Figure> {
        match self {
            Figure::RoundTrip(Stat::Quantile(_)) => Some(Figure::RoundTrip(Stat::Max)),
            Figure::Delay(way, Stat::Quantile(_)) => Some(Figure::Delay(way, Stat::Max)),
            Figure::ConnectTime(Stat::Quantile(_)) => Some(Figure::ConnectTime(Stat::Max)),
            _ => None,
        }
    }

    /// Its direction, where it has one.
    pub fn way(self) -> Option<Way> {
        match self {
            Figure::Goodput(way)
            | Figure::Sent(way)
            | Figure::Capacity(way)
            | Figure::CapacityMean(way)
            | Figure::Delay(way, _)
            | Figure::Loss(way)
            | Figure::CeMarks(way)
            | Figure::EcnCleared(way)
            | Figure::Jitter(way)
            | Figure::JitterMax(way) => Some(way),
            _ => None,
        }
    }

    /// The statistic (p99, mean, …) of figures taken from a distribution.
    pub fn stat(self) -> Option<Stat> {
        match self {
            Figure::RoundTrip(stat)
            | Figure::Delay(_, stat)
            | Figure::ConnectTime(stat)
            | Figure::AddedPercentile(stat)
            | Figure::IdleRoundTrip(stat) => Some(stat),
            _ => None,
        }
    }

    /// The main figures of a measurement of this kind: they decide the number of repetitions.
    pub fn deciding(kind: Kind) -> &'static [Figure] {
        match kind {
            Kind::Tcp => &[Figure::Goodput(Way::Up), Figure::Goodput(Way::Down)],
            Kind::Connect => &[Figure::Connects],
            Kind::Ping => &[Figure::RoundTrip(Stat::Mean)],
            Kind::Delay | Kind::Train => {
                &[Figure::Delay(Way::Up, Stat::Mean), Figure::Delay(Way::Down, Stat::Mean)]
            }
            Kind::Stream => &[Figure::Goodput(Way::Up), Figure::Goodput(Way::Down), Figure::Frames],
            Kind::Capacity => &[Figure::Capacity(Way::Up), Figure::Capacity(Way::Down)],
        }
    }

    /// Figures that lead for a question, the most important first: history, tiles, plots and the
    /// live view show them in this order.
    pub fn leading(kind: Kind) -> &'static [Figure] {
        use Figure::{
            Capacity, CapacityMean, ConnectTime, Connects, Delay, Dispersion, Frames, Goodput, Loss,
            MessagesLost, RoundTrip,
        };
        use Way::{Down, Up};
        const P50: Stat = Stat::MEDIAN;
        const P99: Stat = Stat::Quantile(0.99);
        match kind {
            Kind::Tcp => &[Goodput(Up), Goodput(Down)],
            Kind::Connect => &[Connects, ConnectTime(P50), ConnectTime(P99)],
            Kind::Ping => &[RoundTrip(P50), RoundTrip(P99), MessagesLost],
            Kind::Delay => {
                &[Delay(Up, P50), Loss(Up), Delay(Down, P50), Loss(Down), Delay(Up, P99), Delay(Down, P99)]
            }
            // The goodput of trains is the load that they offer.
            Kind::Train => {
                &[Dispersion, Delay(Up, P50), Delay(Up, P99), Loss(Up), Delay(Down, P50), Loss(Down)]
            }
            Kind::Stream => &[Frames, Loss(Up), Loss(Down), Delay(Up, P99), Delay(Down, P99)],
            Kind::Capacity => &[
                Capacity(Up),
                Capacity(Down),
                CapacityMean(Up),
                CapacityMean(Down),
                Loss(Up),
                Loss(Down),
                Goodput(Up),
                Goodput(Down),
            ],
        }
    }

    /// Figures that lead for a load, the most important first.
    pub fn leading_of_load() -> &'static [Figure] {
        const P50: Stat = Stat::MEDIAN;
        const P99: Stat = Stat::Quantile(0.99);
        &[
            Figure::Grade,
            Figure::Added,
            Figure::Goodput(Way::Down),
            Figure::Goodput(Way::Up),
            Figure::RoundTrip(P50),
            Figure::RoundTrip(P99),
            Figure::IdleRoundTrip(P50),
            Figure::Responsiveness,
            Figure::MessagesLost,
        ]
    }

    /// True if the figure leads for any question.
    pub fn is_leading(&self) -> bool {
        Kind::ALL.into_iter().any(|kind| Figure::leading(kind).contains(self))
    }

    /// Its unit.
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    /// True if more of it is better.
    pub fn more_is_better(self) -> bool {
        self.row().more_is_better
    }

    /// The key and the label of its row of the table, the same for all directions and statistics.
    pub fn family(self) -> (&'static str, &'static str) {
        (self.row().key, self.row().label())
    }

    /// Which of its row it is: `to server, p99`; empty where there is one.
    pub fn part(self) -> String {
        let way = self.way().map(|way| way.words().to_owned());
        [way, self.stat().map(Stat::words)].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Its name without the unit, and its meaning, for scrapers.
    pub fn gauge(self) -> (&'static str, &'static str) {
        self.row().gauge
    }

    /// Its value over a phase; `None` when it was not measured, and for a percentile beyond which
    /// no value lies.
    pub fn of(self, point: &Point) -> Option<f64> {
        self.of_any_percentile(point).filter(|_| self.is_shown(point))
    }

    /// The same for any percentile that somebody asks for: the largest value where none lies
    /// beyond.
    pub fn of_any_percentile(self, point: &Point) -> Option<f64> {
        (self.row().of)(point, self.way().unwrap_or(Way::Up), self.stat().unwrap_or(Stat::Mean))
    }

    /// Its value in each full interval of a phase, in order. An interval without arrivals although
    /// the phase asks for some counts as 0, except on a server (`serving`), which waits for most of
    /// its life.
    pub fn readings(self, point: &Point, serving: bool) -> Vec<f64> {
        if self.of(point).is_none() {
            return Vec::new();
        }
        if let Figure::CapacityMean(way) = self {
            let all = way.capacity(point).into_iter().flat_map(|found| &found.sub_intervals);
            return all.map(|one| one.ip_bps).collect();
        }
        let lost = self.lost_of_intervals(point);
        let of = |interval: &Interval| match &lost {
            Some(lost) => lost.get(&interval.index).map(|(lost, of)| percent_of(*lost, *of)),
            None => {
                self.of_interval(interval).filter(|value| !(serving && !self.of_a_life() && *value == 0.0))
            }
        };
        point.readings().filter_map(of).collect()
    }

    /// For a share of losses: the number of datagrams, messages or frames behind each of the
    /// figure's [readings](Figure::readings). Empty for other figures.
    pub fn events(self, point: &Point) -> Vec<u64> {
        if self.of(point).is_none() {
            return Vec::new();
        }
        let losses = self.lost_of_intervals(point).unwrap_or_default();
        let total = |interval: &Interval| losses.get(&interval.index).map(|(_, total)| *total);
        point.readings().filter_map(total).collect()
    }

    /// Its value in an interval; `None` when an interval has none.
    pub fn of_interval(self, interval: &Interval) -> Option<f64> {
        let (way, stat) = (self.way().unwrap_or(Way::Up), self.stat().unwrap_or(Stat::Mean));
        (self.row().of_interval)(interval, way, stat)
    }

    /// Losses of each interval, and of how many, by its number; `None` for other figures. An
    /// overtaken datagram counts as lost until it arrives: an interval that takes losses back
    /// reduces the intervals before it, so that each shows the final count.
    fn lost_of_intervals(self, point: &Point) -> Option<BTreeMap<u32, (i64, u64)>> {
        // Lost, and the base of the share: arrivals are less by the losses taken back, which belong
        // to an earlier interval.
        let of = |interval: &Interval| match self {
            Figure::Loss(way) => {
                let packets = way.receiver().packets(interval)?;
                let (lost, arrivals) = (packets.lost()?, packets.arrivals()?);
                Some((interval.index, lost, arrivals.saturating_add_signed(lost)))
            }
            Figure::Frames => {
                let frames = interval.frames?;
                let lost = frames.judged().saturating_sub(frames.completed);
                Some((interval.index, i64::clamped(lost), frames.judged()))
            }
            _ => interval.pings.as_ref().map(|p| (interval.index, p.counts.lost, p.counts.sent)),
        };
        let whole = match self {
            Figure::Loss(way) => way.packets(point)?.lost()?,
            Figure::MessagesLost => point.local.pings.as_ref()?.counts.lost,
            Figure::Frames => i64::MAX, // a frame that was judged stays as it is
            _ => return None,
        };
        let mut all: Vec<(u32, i64, u64)> = point.intervals.iter().filter_map(of).collect();
        // The end of the phase may take back more than its intervals did.
        let sum = all.iter().fold(0i64, |sum, (_, lost, _)| sum.saturating_add(*lost));
        let mut taken_back = whole.saturating_sub(sum).min(0);
        for (_, lost, _) in all.iter_mut().rev() {
            *lost = lost.saturating_add(taken_back);
            taken_back = (*lost).min(0);
            *lost = (*lost).max(0);
        }
        Some(
            all.into_iter().filter(|(.., of)| *of > 0).map(|(index, lost, of)| (index, (lost, of))).collect(),
        )
    }

    /// True for any figure but a rate: a server, which waits for most of its life, has no rate over
    /// all of it.
    pub fn of_a_life(self) -> bool {
        !matches!(self.unit(), Unit::BitsPerSecond | Unit::PerSecond)
    }

    /// As files and assertions name it: `goodput.up`, `rtt.p99`, `loss.down`.
    pub fn key(self) -> String {
        let way = self.way().map(|way| way.key().to_owned());
        let parts = [Some(self.row().key.to_owned()), way, self.stat().map(Stat::key)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(".")
    }
}

/// As people read it.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().label())?;
        self.way().map_or(Ok(()), |way| write!(f, " {}", way.words()))?;
        self.stat().map_or(Ok(()), |stat| write!(f, ", {}", stat.words()))
    }
}

#[cfg(test)]
mod tests;
