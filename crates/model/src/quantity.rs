//! The figures that runs are judged by, in one table: how each is called, its unit, which way is better, and how it is read of a
//! phase and of an interval. Comparisons, assertions, the store, sweeps and scrapers loop over it.

use crate::{DelayRange, Direction, Interval, Kind, PacketReport, PingInterval, Point, Status, Traffic};
use metrics::{
    Clamped, DistSummary, Frames, Spectrum, format_bits_per_second, format_bytes, format_duration,
    per_second, percent_of, real,
};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::{fmt, mem};

/// Units of figures; always base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// Bits per second.
    #[serde(rename = "bps")]
    BitsPerSecond,
    /// Things per second.
    #[serde(rename = "per_s")]
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Percent.
    Percent,
    /// A number of things.
    Count,
    /// A share of one.
    Share,
    /// Seconds for 10^9 bytes.
    #[serde(rename = "s_per_gb")]
    SecondsPerGb,
    /// Bytes.
    Bytes,
}

impl Unit {
    /// All of them.
    pub const ALL: [Unit; 8] = [
        Unit::BitsPerSecond,
        Unit::PerSecond,
        Unit::Ns,
        Unit::Percent,
        Unit::Count,
        Unit::Share,
        Unit::SecondsPerGb,
        Unit::Bytes,
    ];

    /// What follows a name for scrapers, whose units are bytes, seconds and ratios, and by what a value is to be divided.
    #[must_use]
    pub fn scraped(self) -> (&'static str, f64) {
        match self {
            Unit::BitsPerSecond => ("_bytes_per_second", 8.0),
            Unit::PerSecond => ("_per_second", 1.0),
            Unit::Ns => ("_seconds", 1e9),
            Unit::Percent => ("_ratio", 100.0),
            Unit::Count => ("", 1.0),
            Unit::Share => ("_ratio", 1.0),
            Unit::SecondsPerGb => ("_seconds_per_gigabyte", 1.0),
            Unit::Bytes => ("_bytes", 1.0),
        }
    }

    /// As files have it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Unit::BitsPerSecond => "bps",
            Unit::PerSecond => "per_s",
            Unit::Ns => "ns",
            Unit::Percent => "percent",
            Unit::Count => "count",
            Unit::Share => "share",
            Unit::SecondsPerGb => "s_per_gb",
            Unit::Bytes => "bytes",
        }
    }

    /// A value as people read it.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BitsPerSecond => format_bits_per_second(value),
            Unit::Ns => format_duration(value),
            Unit::Percent if value == 0.0 => "0 %".to_owned(),
            Unit::Percent if value.abs() < 1.0 => format!("{value:.4} %"),
            Unit::Percent => format!("{value:.2} %"),
            Unit::PerSecond if value.abs() < 100.0 => format!("{value:.1}/s"),
            Unit::PerSecond => format!("{value:.0}/s"),
            Unit::Count => format!("{value:.0}"),
            Unit::Share => format!("{value:.4}"),
            Unit::SecondsPerGb => format!("{value:.3} s/GB"),
            Unit::Bytes => format_bytes(u64::clamped(value)),
        }
    }
}

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

    fn words(self) -> &'static str {
        match self {
            Way::Up => "to server",
            Way::Down => "from server",
        }
    }

    /// `up` or `down`.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }

    fn direction(self, point: &Point) -> Option<Direction> {
        match self {
            Way::Up => point.up,
            Way::Down => point.down,
        }
    }

    /// What the receiving ends of this direction counted, all servers together.
    pub(crate) fn packets(self, point: &Point) -> Option<Cow<'_, PacketReport>> {
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

    fn packets_of(self, interval: &Interval) -> Option<&PacketReport> {
        match self {
            Way::Up => interval.remote_packets.as_deref(),
            Way::Down => interval.packets.as_deref(),
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
    fn of_spectrum(self, all: &Spectrum) -> Option<f64> {
        Some(match self {
            Stat::Min => real(all.min),
            Stat::Mean => all.mean,
            Stat::Max => real(all.max),
            Stat::Quantile(q) => real(all.quantile(q)?),
        })
    }

    /// Of a summary, which knows four quantiles.
    fn of_summary(self, all: &DistSummary) -> Option<f64> {
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
    fn of_range(self, range: DelayRange) -> Option<f64> {
        match self {
            Stat::Min => range.min.map(real),
            Stat::Mean => Some(range.mean),
            Stat::Max => Some(real(range.max)),
            Stat::Quantile(_) => None,
        }
    }

    /// Of the round trips of an interval, of which two quantiles are known.
    fn of_trips(self, trips: &PingInterval) -> Option<f64> {
        match self {
            Stat::Min => Some(real(trips.min_ns)),
            Stat::Mean => Some(trips.mean_ns),
            Stat::Max => Some(real(trips.max_ns)),
            Stat::MEDIAN => trips.p50_ns.map(real),
            Stat::Quantile(0.99) => trips.p99_ns.map(real),
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
    fn key(self) -> String {
        match self {
            Stat::Min => "min".to_owned(),
            Stat::Mean => "mean".to_owned(),
            Stat::Max => "max".to_owned(),
            // Rounded as far as a percentile makes sense, so that 0.999 does not read 99.90000000000001.
            Stat::Quantile(q) => format!("p{}", (q * 1e11).round() / 1e9),
        }
    }

    fn words(self) -> String {
        match self {
            Stat::MEDIAN => "median".to_owned(),
            other => other.key(),
        }
    }
}

/// A figure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Figure {
    /// Payload that arrived, by its receiver's count.
    Goodput(Way),
    /// Connections established per second, where that was measured.
    Connects,
    /// Round trips of messages.
    RoundTrip(Stat),
    /// Messages that never came back.
    MessagesLost,
    /// Delays of datagrams one way.
    Delay(Way, Stat),
    /// Datagrams lost.
    Loss(Way),
    /// Rate at which trains of packets came, of the setting with the shortest spacing.
    Dispersion,
    /// Frames that were not whole in time.
    Frames,
    /// Payload that was sent, by its sender's count.
    Sent(Way),
    /// CPU time of both hosts' processes for 10^9 bytes of payload.
    Cpu,
    /// RFC 3550 jitter.
    Jitter(Way),
    /// That of the interval with the largest.
    JitterMax(Way),
    /// Times to connect.
    ConnectTime(Stat),
    /// Segments sent again, by both ends as far as known.
    Retransmits,
    /// Jain's index over the connections.
    Fairness,
    /// Connections that ended in an error.
    Errors,
    /// Caveats about the figures.
    Caveats,
}

/// How many figures a row of the table stands for: one, one a direction, one a statistic of a distribution, or both.
#[derive(Clone, Copy)]
enum Scope {
    One(Figure),
    Ways(fn(Way) -> Figure),
    Stats(fn(Stat) -> Figure),
    WaysAndStats(fn(Way, Stat) -> Figure),
}

impl Scope {
    /// Its figures for these directions and statistics, as far as it has any.
    fn figures(self, ways: &[Way], stats: &[Stat]) -> Vec<Figure> {
        match self {
            Scope::One(figure) => vec![figure],
            Scope::Ways(of) => ways.iter().map(|way| of(*way)).collect(),
            Scope::Stats(of) => stats.iter().map(|stat| of(*stat)).collect(),
            Scope::WaysAndStats(of) => {
                ways.iter().flat_map(|way| stats.iter().map(|stat| of(*way, *stat))).collect()
            }
        }
    }

    fn has_ways(self) -> bool {
        matches!(self, Scope::Ways(_) | Scope::WaysAndStats(_))
    }

    fn has_stats(self) -> bool {
        matches!(self, Scope::Stats(_) | Scope::WaysAndStats(_))
    }

    fn is_of(self, figure: Figure) -> bool {
        let any = match self {
            Scope::One(figure) => figure,
            Scope::Ways(of) => of(Way::Up),
            Scope::Stats(of) => of(Stat::Mean),
            Scope::WaysAndStats(of) => of(Way::Up, Stat::Mean),
        };
        mem::discriminant(&any) == mem::discriminant(&figure)
    }
}

/// Row of the table: properties of a figure.
struct Row {
    scope: Scope,
    /// As files and assertions name it; direction and statistic follow.
    key: &'static str,
    /// As people read it; direction and statistic follow.
    label: &'static str,
    unit: Unit,
    more_is_better: bool,
    /// Whether a comparison shows it. All are kept.
    compared: bool,
    /// The statistics that are compared and kept, where it is a distribution.
    stats: &'static [Stat],
    /// Its name and meaning for scrapers.
    gauge: (&'static str, &'static str),
    /// Reads the figure of a phase; figures without direction or statistic ignore these.
    of: fn(&Point, Way, Stat) -> Option<f64>,
    /// Reads it of an interval; `None` when an interval cannot tell.
    of_interval: fn(&Interval, Way, Stat) -> Option<f64>,
}

const P50: Stat = Stat::MEDIAN;
const P99: Stat = Stat::Quantile(0.99);
const P999: Stat = Stat::Quantile(0.999);

/// Less is better, and no interval tells it.
const ROW: Row = Row {
    scope: Scope::One(Figure::Caveats),
    key: "",
    label: "",
    unit: Unit::Count,
    more_is_better: false,
    compared: false,
    stats: &[],
    gauge: ("", ""),
    of: |_, _, _| None,
    of_interval: |_, _, _| None,
};

/// All figures, the most important first.
static TABLE: [Row; 17] = [
    Row {
        scope: Scope::Ways(Figure::Goodput),
        key: "goodput",
        label: "goodput",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        compared: true,
        gauge: ("goodput", "Payload that arrived, by the receiver's count."),
        of: |point, way, _| {
            // Nothing that arrived because nothing was measured is no figure.
            Some(way.direction(point)?.goodput_bps).filter(|_| point.status != Status::Failed)
        },
        of_interval: |interval, way, _| match way {
            Way::Up => interval.remote.as_ref().map(Traffic::rx_bps),
            Way::Down => (interval.local.ns > 0).then(|| interval.local.rx_bps()),
        },
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Connects),
        key: "connects",
        label: "connections per second",
        unit: Unit::PerSecond,
        more_is_better: true,
        compared: true,
        gauge: ("connects", "Connections established per second."),
        of: |point, _, _| point.connects_per_second().filter(|_| point.phase.kind == Kind::Connect),
        of_interval: |interval, _, _| (interval.ns() > 0).then(|| per_second(interval.opened, interval.ns())),
        ..ROW
    },
    Row {
        scope: Scope::Stats(Figure::RoundTrip),
        key: "rtt",
        label: "round trip",
        unit: Unit::Ns,
        compared: true,
        stats: &[P50, P99, P999],
        gauge: ("round_trip_percentile", "Round trips of the latest run: this share took no longer."),
        of: |point, _, stat| {
            let all = point.local.pings.as_ref()?.rtt_ns.as_ref();
            stat.of_spectrum(all.filter(|all| all.count > 0)?)
        },
        of_interval: |interval, _, stat| {
            stat.of_trips(interval.pings.as_ref().filter(|trips| trips.count > 0)?)
        },
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::MessagesLost),
        key: "messages-lost",
        label: "messages lost",
        unit: Unit::Percent,
        compared: true,
        gauge: ("messages_lost", "Messages that never came back."),
        of: |point, _, _| {
            let counts = point.local.pings.as_ref()?.counts;
            (counts.sent > 0).then(|| percent_of(counts.lost.max(0), counts.sent))
        },
        ..ROW
    },
    Row {
        scope: Scope::WaysAndStats(Figure::Delay),
        key: "delay",
        label: "delay",
        unit: Unit::Ns,
        compared: true,
        stats: &[P50, P99],
        gauge: ("one_way_delay_percentile", "One-way delays of the latest run: this share took no longer."),
        of: |point, way, stat| {
            let packets = way.packets(point)?;
            match (&packets.delay_ns, packets.delay_range_ns) {
                (Some(all), _) => stat.of_summary(all),
                (None, Some(range)) => stat.of_range(range),
                (None, None) => None,
            }
        },
        of_interval: |interval, way, stat| stat.of_summary(way.packets_of(interval)?.delay_ns.as_ref()?),
        ..ROW
    },
    Row {
        scope: Scope::Ways(Figure::Loss),
        key: "loss",
        label: "loss",
        unit: Unit::Percent,
        compared: true,
        gauge: ("loss", "Datagrams lost, of those sent."),
        of: |point, way, _| Some(way.packets(point)?.loss()? * 100.0),
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Dispersion),
        key: "dispersion",
        label: "dispersion rate",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        compared: true,
        gauge: ("dispersion", "Rate at which trains of packets came, median."),
        of: |point, _, _| {
            let settings = &point.trains.as_ref()?.report.settings;
            let told = settings.iter().filter_map(|s| Some((s.wait_ns, s.train_bps?.median)));
            told.min_by_key(|(wait, _)| *wait).map(|(_, bps)| bps)
        },
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Frames),
        key: "frames",
        label: "frames not whole in time",
        unit: Unit::Percent,
        compared: true,
        gauge: ("frames_unwell", "Frames that were not whole in time."),
        of: |point, _, _| frames(point.local.frames),
        of_interval: |interval, _, _| frames(interval.frames),
        ..ROW
    },
    Row {
        scope: Scope::Ways(Figure::Sent),
        key: "sent",
        label: "sent",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        gauge: ("sent", "Payload that was sent, by the sender's count."),
        of: |point, way, _| Some(way.direction(point)?.sent_bps).filter(|bps| *bps > 0.0),
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Cpu),
        key: "cpu",
        label: "CPU time",
        unit: Unit::SecondsPerGb,
        gauge: ("cpu", "CPU time of both hosts' processes for 10^9 bytes of payload."),
        of: |point, _, _| {
            point.local_cpu_s_per_gb.zip(point.remote_cpu_s_per_gb).map(|(local, remote)| local + remote)
        },
        ..ROW
    },
    Row {
        scope: Scope::Ways(Figure::Jitter),
        key: "jitter",
        label: "jitter",
        unit: Unit::Ns,
        gauge: ("jitter", "Interarrival jitter (RFC 3550), mean."),
        of: |point, way, _| way.packets(point)?.jitter_ns,
        of_interval: |interval, way, _| way.packets_of(interval)?.jitter_ns,
        ..ROW
    },
    Row {
        scope: Scope::Ways(Figure::JitterMax),
        key: "jitter-max",
        label: "largest jitter",
        unit: Unit::Ns,
        gauge: ("jitter_max", "Interarrival jitter (RFC 3550) of the interval with the largest."),
        of: |point, way, _| way.packets(point)?.jitter_max_ns,
        ..ROW
    },
    Row {
        scope: Scope::Stats(Figure::ConnectTime),
        key: "connect",
        label: "time to connect",
        unit: Unit::Ns,
        stats: &[P50, P99],
        gauge: ("connect_percentile", "Times to connect of the latest run: this share took no longer."),
        of: |point, _, stat| stat.of_summary(point.local.connect_ns.as_ref()?),
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Retransmits),
        key: "retransmits",
        label: "retransmits",
        gauge: ("retransmits", "Segments sent again by either end."),
        of: |point, _, _| {
            let told = point.ends().filter(|totals| totals.tcp.connections > 0);
            told.map(|totals| real(totals.tcp.retransmits)).reduce(|sum, one| sum + one)
        },
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Fairness),
        key: "fairness",
        label: "fairness",
        unit: Unit::Share,
        more_is_better: true,
        gauge: ("fairness", "Jain's index over the connections."),
        of: |point, _, _| point.fairness,
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Errors),
        key: "errors",
        label: "connections in error",
        gauge: ("connection_errors", "Connections that ended in an error."),
        // Where nothing was measured no error and no caveat is not good news.
        of: |point, _, _| Some(real(point.errors())).filter(|n| *n > 0.0 || point.status != Status::Failed),
        ..ROW
    },
    Row {
        scope: Scope::One(Figure::Caveats),
        key: "caveats",
        label: "caveats",
        gauge: ("caveats", "Reasons not to take the figures at face value."),
        of: |point, _, _| (point.status != Status::Failed).then_some(real(point.caveats.len())),
        ..ROW
    },
];

impl Figure {
    /// All that are kept of every run.
    pub fn kept() -> impl Iterator<Item = Figure> {
        TABLE.iter().flat_map(|row| row.scope.figures(&Way::ALL, row.stats))
    }

    /// Figures that a comparison shows, in its order.
    pub fn compared() -> impl Iterator<Item = Figure> {
        Figure::kept().filter(|figure| figure.is_compared())
    }

    /// Whether a comparison shows it, or others of its row.
    #[must_use]
    pub fn is_compared(self) -> bool {
        self.row().compared
    }

    /// All, with these percentiles of distributions.
    pub fn with_percentiles(of: &[f64]) -> impl Iterator<Item = Figure> {
        let stats: Vec<Stat> = of.iter().map(|q| Stat::Quantile(*q)).collect();
        TABLE.iter().flat_map(move |row| row.scope.figures(&Way::ALL, &stats))
    }

    /// Figures that `name` means: its [key](Figure::key), one without the direction for both, or a statistic alone for all times.
    #[must_use]
    pub fn named(name: &str) -> Vec<Figure> {
        if let Some(stat) = Stat::named(name) {
            let times = TABLE.iter().filter(|row| row.scope.has_stats());
            return times.flat_map(|row| row.scope.figures(&Way::ALL, &[stat])).collect();
        }
        let (key, rest) = name.split_once('.').unwrap_or((name, ""));
        let (first, others) = rest.split_once('.').unwrap_or((rest, ""));
        let way = Way::ALL.into_iter().find(|way| way.key() == first);
        let rest = if way.is_some() { others } else { rest };
        let stat = Stat::named(rest);
        let row = TABLE.iter().find(|row| {
            let stats = if row.scope.has_stats() { stat.is_some() } else { rest.is_empty() };
            row.key == key && stats && (way.is_none() || row.scope.has_ways())
        });
        let ways = way.map_or(Way::ALL.to_vec(), |way| vec![way]);
        row.map_or_else(Vec::new, |row| row.scope.figures(&ways, &Vec::from_iter(stat)))
    }

    fn row(self) -> &'static Row {
        TABLE.iter().find(|row| row.scope.is_of(self)).unwrap_or(&ROW)
    }

    /// Its direction, where it has one.
    #[must_use]
    pub fn way(self) -> Option<Way> {
        match self {
            Figure::Goodput(way)
            | Figure::Sent(way)
            | Figure::Delay(way, _)
            | Figure::Loss(way)
            | Figure::Jitter(way)
            | Figure::JitterMax(way) => Some(way),
            _ => None,
        }
    }

    /// What it is of a distribution, where it is one's.
    #[must_use]
    pub fn stat(self) -> Option<Stat> {
        match self {
            Figure::RoundTrip(stat) | Figure::Delay(_, stat) | Figure::ConnectTime(stat) => Some(stat),
            _ => None,
        }
    }

    /// What a measurement of this kind is about: these decide how often it has to be repeated.
    #[must_use]
    pub fn leading(kind: Kind) -> &'static [Figure] {
        match kind {
            Kind::Tcp => &[Figure::Goodput(Way::Up), Figure::Goodput(Way::Down)],
            Kind::Connect => &[Figure::Connects],
            Kind::Ping => &[Figure::RoundTrip(Stat::Mean)],
            Kind::Delay | Kind::Train => {
                &[Figure::Delay(Way::Up, Stat::Mean), Figure::Delay(Way::Down, Stat::Mean)]
            }
            Kind::Stream => &[Figure::Goodput(Way::Up), Figure::Goodput(Way::Down), Figure::Frames],
        }
    }

    /// Its unit.
    #[must_use]
    pub fn unit(self) -> Unit {
        self.row().unit
    }

    /// Whether more of it is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        self.row().more_is_better
    }

    /// The key and the label of its row of the table: those of its other directions and statistics are the same.
    #[must_use]
    pub fn family(self) -> (&'static str, &'static str) {
        (self.row().key, self.row().label)
    }

    /// Which of its row it is: `to server, p99`; empty where there is one.
    #[must_use]
    pub fn part(self) -> String {
        let way = self.way().map(|way| way.words().to_owned());
        [way, self.stat().map(Stat::words)].into_iter().flatten().collect::<Vec<_>>().join(", ")
    }

    /// Its name without the unit, and its meaning, for scrapers.
    #[must_use]
    pub fn gauge(self) -> (&'static str, &'static str) {
        self.row().gauge
    }

    /// Its value over a phase; `None` when it was not measured.
    #[must_use]
    pub fn of(self, point: &Point) -> Option<f64> {
        (self.row().of)(point, self.way().unwrap_or(Way::Up), self.stat().unwrap_or(Stat::Mean))
    }

    /// Its value in each full interval of a phase that can tell it, in order. An interval in which nothing came although the
    /// phase asks for it counts as 0, except on a server (`serving`), which waits for most of its life.
    #[must_use]
    pub fn readings(self, point: &Point, serving: bool) -> Vec<f64> {
        if self.of(point).is_none() {
            return Vec::new();
        }
        let lost = self.lost_of_intervals(point);
        let of = |interval: &Interval| match &lost {
            Some(lost) => lost.get(&interval.index).copied(),
            None => {
                self.of_interval(interval).filter(|value| !(serving && !self.of_a_life() && *value == 0.0))
            }
        };
        point.readings().filter_map(of).collect()
    }

    /// Its value in an interval; `None` when an interval cannot tell.
    #[must_use]
    pub fn of_interval(self, interval: &Interval) -> Option<f64> {
        let (way, stat) = (self.way().unwrap_or(Way::Up), self.stat().unwrap_or(Stat::Mean));
        (self.row().of_interval)(interval, way, stat)
    }

    /// Percent lost in each interval, by its number; `None` for other figures. An overtaken datagram counts as lost until it
    /// comes: an interval that takes losses back reduces the intervals before it, so that each shows the final count.
    fn lost_of_intervals(self, point: &Point) -> Option<BTreeMap<u32, f64>> {
        // Lost, and all that this is a share of: what came is less by what was taken back, which belongs to an earlier interval.
        let of = |interval: &Interval| match self {
            Figure::Loss(way) => {
                let packets = way.packets_of(interval)?;
                let (lost, arrivals) = (packets.counts.lost, packets.arrivals());
                Some((interval.index, lost, arrivals.saturating_add_signed(lost)))
            }
            _ => interval.pings.as_ref().map(|p| (interval.index, p.counts.lost, p.counts.sent)),
        };
        let whole = match self {
            Figure::Loss(way) => way.packets(point)?.counts.lost,
            Figure::MessagesLost => point.local.pings.as_ref()?.counts.lost,
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
        let share = |(index, lost, of): (u32, i64, u64)| (of > 0).then(|| (index, percent_of(lost, of)));
        Some(all.into_iter().filter_map(share).collect())
    }

    /// Whether a server, which waits for most of its life, can tell it of all that it did: any but a rate.
    #[must_use]
    pub fn of_a_life(self) -> bool {
        !matches!(self.unit(), Unit::BitsPerSecond | Unit::PerSecond)
    }

    /// As files and assertions name it: `goodput.up`, `rtt.p99`, `loss.down`.
    #[must_use]
    pub fn key(self) -> String {
        let way = self.way().map(|way| way.key().to_owned());
        let parts = [Some(self.row().key.to_owned()), way, self.stat().map(Stat::key)];
        parts.into_iter().flatten().collect::<Vec<_>>().join(".")
    }
}

/// As people read it.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row().label)?;
        self.way().map_or(Ok(()), |way| write!(f, " {}", way.words()))?;
        self.stat().map_or(Ok(()), |stat| write!(f, ", {}", stat.words()))
    }
}

fn frames(frames: Option<Frames>) -> Option<f64> {
    let f = frames?;
    let all = f.completed + f.dropped + f.repeated;
    (all > 0).then(|| percent_of(all - f.completed, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Totals;
    use metrics::{Packets, SECOND};

    #[test]
    fn figures_are_named() {
        let names: Vec<String> = Figure::kept().map(Figure::key).collect();
        assert_eq!(names[..6], ["goodput.up", "goodput.down", "connects", "rtt.p50", "rtt.p99", "rtt.p99.9"]);
        assert_eq!(Figure::RoundTrip(Stat::Quantile(0.999)).to_string(), "round trip, p99.9");
        assert_eq!(Figure::Delay(Way::Up, Stat::MEDIAN).to_string(), "delay to server, median");
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len(), "each name is one figure's");
        for figure in Figure::kept() {
            assert_eq!(Figure::named(&figure.key()), [figure], "{figure}");
        }
        assert_eq!(Figure::named("jitter"), Way::ALL.map(Figure::Jitter));
        assert_eq!(Figure::named("delay.min"), Way::ALL.map(|way| Figure::Delay(way, Stat::Min)));
        for wrong in ["", "goodput.p50", "rtt", "rtt.up.p50", "connects.up", "delay.up", "speed"] {
            assert_eq!(Figure::named(wrong), [], "{wrong}");
        }
    }

    #[test]
    fn what_was_not_measured_is_none() {
        let point = Point::default();
        for figure in Figure::compared() {
            assert_eq!(figure.of(&point), None, "{figure}");
            assert_eq!(figure.readings(&point, false), [0.0; 0], "{figure}");
        }
        assert_eq!(Figure::Errors.of(&point), Some(0.0));
        let failed = Point { status: Status::Failed, ..Point::default() };
        for figure in Figure::kept() {
            assert_eq!(figure.of(&failed), None, "{figure}");
        }
        let failed = Point { local: Totals { network_errors: 2, ..Totals::default() }, ..failed };
        assert_eq!(Figure::Errors.of(&failed), Some(2.0), "what was seen is told");
    }
    fn second(index: u32) -> Interval {
        let start_ns = u64::from(index) * SECOND;
        let local = Traffic { ns: SECOND, ..Traffic::default() };
        Interval {
            index,
            start_ns,
            end_ns: start_ns + SECOND,
            local,
            remote: Some(local),
            ..Interval::default()
        }
    }

    fn report(lost: i64, received: u64) -> Option<Box<PacketReport>> {
        let counts = Packets { lost, received, ..Packets::default() };
        Some(Box::new(PacketReport { counts, ..PacketReport::default() }))
    }

    #[test]
    fn an_interval_without_goodput_is_a_reading_where_the_phase_asks_for_it() {
        let mut point = Point { intervals: (0..4).map(second).collect(), ..Point::default() };
        for at in [0, 3] {
            point.intervals[at].remote = Some(Traffic { rx_bytes: 125, ns: SECOND, ..Traffic::default() });
        }
        let up = Figure::Goodput(Way::Up);
        assert_eq!(up.readings(&point, false), [0.0; 0], "nothing was to go that way");
        point.up = Some(Direction::default());
        assert_eq!(up.readings(&point, false), [1_000.0, 0.0, 0.0, 1_000.0]);
        assert_eq!(up.readings(&point, true), [1_000.0, 1_000.0], "a server waits for most of its life");
        point.intervals[1].remote = None;
        assert_eq!(up.readings(&point, false), [1_000.0, 0.0, 1_000.0], "what was not told is unknown");
        assert_eq!(Figure::Goodput(Way::Down).readings(&point, false), [0.0; 0]);
        // Connections: only where they are what is measured.
        point.intervals[0].opened = 5;
        assert_eq!(Figure::Connects.readings(&point, false), [0.0; 0]);
        point.phase.kind = Kind::Connect;
        assert_eq!(Figure::Connects.readings(&point, false), [5.0, 0.0, 0.0, 0.0]);
    }

    #[test]
    fn loss_that_is_taken_back_is_in_no_reading() {
        // In the second interval 30 datagrams are overtaken; 20 of them come in the third and 9 after the end.
        let mut point = Point { intervals: (0..3).map(second).collect(), ..Point::default() };
        for (at, (lost, received)) in [(0, 100), (30, 69), (-20, 120)].into_iter().enumerate() {
            point.intervals[at].packets = report(lost, received);
        }
        point.local.packets = report(1, 298);
        let loss = Figure::Loss(Way::Down);
        let readings = loss.readings(&point, false);
        assert_eq!(readings, [0.0, 100.0 / 99.0, 0.0]);
        // Loss that stays does.
        point.local.packets = report(30, 298);
        point.intervals[2].packets = report(0, 120);
        assert_eq!(loss.readings(&point, false), [0.0, 3_000.0 / 99.0, 0.0]);
    }

    #[test]
    fn all_servers_are_judged() {
        let server = |lost: i64, jitter: f64, p99: u64| {
            let counts = Packets { lost, received: 100 - lost as u64, ..Packets::default() };
            let delay = DistSummary { count: 100, p99, ..DistSummary::default() };
            let packets =
                PacketReport { counts, jitter_ns: Some(jitter), delay_ns: Some(delay), ..Default::default() };
            Totals { packets: Some(Box::new(packets)), ..Totals::default() }
        };
        let mut point = Point { remote: vec![server(0, 7.0, 40)], ..Point::default() };
        let p99 = Figure::Delay(Way::Up, Stat::Quantile(0.99));
        let all = |point: &Point| {
            [Figure::Loss(Way::Up), Figure::Jitter(Way::Up), p99].map(|f| f.of(point).unwrap())
        };
        assert_eq!(all(&point), [0.0, 7.0, 40.0]);
        for second in [server(50, 9.0, 60), server(50, 2.0, 30)] {
            let told = second.packets.as_ref().and_then(|p| p.jitter_ns);
            let (jitter, p99) = if told == Some(9.0) { (9.0, 60.0) } else { (7.0, 40.0) };
            point.remote.truncate(1);
            point.remote.push(second);
            assert_eq!(all(&point), [25.0, jitter, p99], "whichever comes first");
            point.remote.reverse();
            assert_eq!(all(&point), [25.0, jitter, p99]);
            point.remote.reverse();
        }
    }
}
