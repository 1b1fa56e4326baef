//! The figures that runs are judged by: how each is called, its unit, which way is better, and where it stands in a phase and
//! in an interval. Comparisons, assertions, the store and what is exported all ask here.

use crate::{Interval, Kind, PacketReport, PingCounts, Point, Status, Traffic, UdpmonTest};
use metrics::{
    DistSummary, Frames, Spectrum, format_bits_per_second, format_duration, per_second, percent_of, real,
};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

/// Units of figures; always base units.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Bits per second.
    BitsPerSecond,
    /// Things per second.
    PerSecond,
    /// Nanoseconds.
    Ns,
    /// Percent.
    Percent,
    /// A number of things.
    Count,
    /// A share of one.
    Share,
}

impl Unit {
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
        }
    }

    /// A value as people read it.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Unit::BitsPerSecond => format_bits_per_second(value),
            Unit::Ns => format_duration(value),
            Unit::Percent => format!("{value:.4} %"),
            Unit::PerSecond => format!("{value:.1}/s"),
            Unit::Count => format!("{value:.0}"),
            Unit::Share => format!("{value:.4}"),
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

    fn key(self) -> &'static str {
        match self {
            Way::Up => "up",
            Way::Down => "down",
        }
    }

    /// What the receiving ends of this direction counted, all servers together.
    fn packets(self, point: &Point) -> Option<Cow<'_, PacketReport>> {
        match self {
            Way::Up => {
                let mut far = point.far.iter().filter_map(|totals| totals.packets.as_deref());
                let mut all = Cow::Borrowed(far.next()?);
                far.for_each(|one| all.to_mut().worst(one));
                Some(all)
            }
            Way::Down => point.near.packets.as_deref().map(Cow::Borrowed),
        }
    }

    fn packets_of(self, interval: &Interval) -> Option<&PacketReport> {
        match self {
            Way::Up => interval.far_packets.as_deref(),
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
    /// Payload that arrived, by its receiver's count, bits/s.
    Goodput(Way),
    /// Connections established per second, where that was measured.
    Connects,
    /// Round trips of messages, ns.
    RoundTrip(Stat),
    /// Messages that never came back, percent.
    MessagesLost,
    /// Delays of datagrams one way, ns.
    Delay(Way, Stat),
    /// Datagrams lost, percent.
    Loss(Way),
    /// RFC 3550 jitter, ns.
    Jitter(Way),
    /// That of the interval with the largest, ns.
    JitterMax(Way),
    /// Frames that were not whole in time, percent.
    Frames,
    /// Times to connect, ns.
    ConnectTime(Stat),
    /// Connections that ended in an error.
    Errors,
    /// Segments sent again, by both ends as far as known.
    Retransmits,
    /// Jain's index over the connections.
    Fairness,
    /// Caveats about the figures.
    Caveats,
}

impl Figure {
    /// Those that a comparison shows, in its order.
    pub const COMPARED: [Figure; 14] = [
        Figure::Goodput(Way::Up),
        Figure::Goodput(Way::Down),
        Figure::Connects,
        Figure::RoundTrip(Stat::MEDIAN),
        Figure::RoundTrip(Stat::Quantile(0.99)),
        Figure::RoundTrip(Stat::Quantile(0.999)),
        Figure::MessagesLost,
        Figure::Delay(Way::Up, Stat::MEDIAN),
        Figure::Delay(Way::Up, Stat::Quantile(0.99)),
        Figure::Loss(Way::Up),
        Figure::Delay(Way::Down, Stat::MEDIAN),
        Figure::Delay(Way::Down, Stat::Quantile(0.99)),
        Figure::Loss(Way::Down),
        Figure::Frames,
    ];

    /// Those that are kept of every run, beside [`Figure::COMPARED`].
    pub const KEPT_BESIDE: [Figure; 10] = [
        Figure::Jitter(Way::Up),
        Figure::Jitter(Way::Down),
        Figure::JitterMax(Way::Up),
        Figure::JitterMax(Way::Down),
        Figure::ConnectTime(Stat::MEDIAN),
        Figure::ConnectTime(Stat::Quantile(0.99)),
        Figure::Retransmits,
        Figure::Fairness,
        Figure::Errors,
        Figure::Caveats,
    ];

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
        match self {
            Figure::Goodput(_) => Unit::BitsPerSecond,
            Figure::Connects => Unit::PerSecond,
            Figure::RoundTrip(_)
            | Figure::Delay(..)
            | Figure::Jitter(_)
            | Figure::JitterMax(_)
            | Figure::ConnectTime(_) => Unit::Ns,
            Figure::MessagesLost | Figure::Loss(_) | Figure::Frames => Unit::Percent,
            Figure::Errors | Figure::Retransmits | Figure::Caveats => Unit::Count,
            Figure::Fairness => Unit::Share,
        }
    }

    /// Whether more of it is better.
    #[must_use]
    pub fn more_is_better(self) -> bool {
        matches!(self, Figure::Goodput(_) | Figure::Connects | Figure::Fairness)
    }

    /// Its value over a phase; `None` when it was not measured.
    #[must_use]
    pub fn of(self, point: &Point) -> Option<f64> {
        let times = |dist: &Option<DistSummary>, stat: Stat| stat.of_summary(dist.as_ref()?);
        match self {
            Figure::Goodput(Way::Up) => point.up.map(|d| d.goodput_bps),
            Figure::Goodput(Way::Down) => point.down.map(|d| d.goodput_bps),
            Figure::Connects => point.connects_per_second().filter(|_| point.phase.kind == Kind::Connect),
            Figure::RoundTrip(stat) => {
                stat.of_spectrum(point.near.pings.as_ref()?.rtt_ns.as_ref().filter(|all| all.count > 0)?)
            }
            Figure::MessagesLost => lost(point.near.pings.as_ref()?.counts),
            Figure::Delay(way, stat) => times(&way.packets(point)?.delay_ns, stat),
            Figure::Loss(way) => Some(way.packets(point)?.loss()? * 100.0),
            Figure::Jitter(way) => way.packets(point)?.jitter_ns,
            Figure::JitterMax(way) => way.packets(point)?.jitter_max_ns,
            Figure::Frames => frames(point.near.frames),
            Figure::ConnectTime(stat) => times(&point.near.connect_ns, stat),
            // Where nothing was measured no error and no caveat is not good news.
            Figure::Errors => {
                Some(real(point.errors())).filter(|n| *n > 0.0 || point.status != Status::Failed)
            }
            Figure::Retransmits => {
                let all = std::iter::once(&point.near).chain(&point.far);
                let told: Vec<u64> =
                    all.filter(|t| t.tcp.connections > 0).map(|t| t.tcp.retransmits).collect();
                (!told.is_empty()).then(|| real(told.iter().sum::<u64>()))
            }
            Figure::Fairness => point.fairness,
            Figure::Caveats => (point.status != Status::Failed).then_some(real(point.caveats.len())),
        }
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
            None => self.of_interval(interval).filter(|value| {
                let rate = matches!(self, Figure::Goodput(_) | Figure::Connects);
                !(serving && rate && *value == 0.0)
            }),
        };
        point.readings().filter_map(of).collect()
    }

    /// Its value in an interval; `None` when an interval cannot tell.
    fn of_interval(self, interval: &Interval) -> Option<f64> {
        match self {
            Figure::Goodput(Way::Up) => interval.far.as_ref().map(Traffic::rx_bps),
            Figure::Goodput(Way::Down) => (interval.near.ns > 0).then(|| interval.near.rx_bps()),
            Figure::Connects => (interval.ns() > 0).then(|| per_second(interval.opened, interval.ns())),
            Figure::RoundTrip(stat) => {
                let trips = interval.pings.as_ref().filter(|p| p.count > 0)?;
                Some(match stat {
                    Stat::Min => real(trips.min_ns),
                    Stat::Mean => trips.mean_ns,
                    Stat::Max => real(trips.max_ns),
                    Stat::MEDIAN => real(trips.p50_ns?),
                    Stat::Quantile(0.99) => real(trips.p99_ns?),
                    Stat::Quantile(_) => return None,
                })
            }
            Figure::Delay(way, stat) => stat.of_summary(way.packets_of(interval)?.delay_ns.as_ref()?),
            Figure::Jitter(way) => way.packets_of(interval)?.jitter_ns,
            Figure::Frames => frames(interval.frames),
            _ => None,
        }
    }

    /// Percent lost in each interval, by its number; `None` for other figures. What overtakes a datagram makes it lost until it
    /// comes: what a later interval takes back comes off the intervals before it, so that each tells what is known at the end.
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
            Figure::MessagesLost => point.near.pings.as_ref()?.counts.lost,
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

    /// What one of UDPmon's tests found. Rates are over the times between packets, as everywhere with it: one fewer than packets.
    #[must_use]
    pub fn of_test(test: &UdpmonTest) -> Vec<(Figure, f64)> {
        let mut found = Vec::new();
        if let Some(counts) = test.counts {
            let bytes = match counts.bytes {
                0 => counts.received.saturating_sub(1).saturating_mul(test.size.into()),
                told => told.saturating_sub(test.size.into()),
            };
            if bytes > 0 && counts.span > 0 {
                // Bits over tenths of a microsecond.
                found.push((Figure::Goodput(Way::Up), real(bytes) * 8e7 / real(counts.span)));
            }
            let all = if test.sent > 0 { test.sent } else { counts.received + counts.lost };
            if all > 0 && test.puts.is_empty() {
                found.push((Figure::Loss(Way::Up), percent_of(counts.lost, all)));
            }
        }
        if let Some(trips) = test.latency.as_ref().filter(|trips| trips.count > 0) {
            found.push((Figure::RoundTrip(Stat::Mean), real(trips.sum_ns) / real(trips.count)));
        }
        found
    }

    /// Whether a server, which waits for most of its life, can tell it of all that it did.
    #[must_use]
    pub fn of_a_life(self) -> bool {
        !matches!(self, Figure::Goodput(_) | Figure::Connects)
    }

    /// As files and assertions name it: `goodput.up`, `rtt.p99`, `loss.down`.
    #[must_use]
    pub fn key(self) -> String {
        match self {
            Figure::Goodput(way) => format!("goodput.{}", way.key()),
            Figure::Connects => "connects".to_owned(),
            Figure::RoundTrip(stat) => format!("rtt.{}", stat.key()),
            Figure::MessagesLost => "messages-lost".to_owned(),
            Figure::Delay(way, stat) => format!("delay.{}.{}", way.key(), stat.key()),
            Figure::Loss(way) => format!("loss.{}", way.key()),
            Figure::Jitter(way) => format!("jitter.{}", way.key()),
            Figure::JitterMax(way) => format!("jitter-max.{}", way.key()),
            Figure::Frames => "frames".to_owned(),
            Figure::ConnectTime(stat) => format!("connect.{}", stat.key()),
            Figure::Errors => "errors".to_owned(),
            Figure::Retransmits => "retransmits".to_owned(),
            Figure::Fairness => "fairness".to_owned(),
            Figure::Caveats => "caveats".to_owned(),
        }
    }
}

/// As people read it.
impl fmt::Display for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Figure::Goodput(way) => write!(f, "goodput {}", way.words()),
            Figure::Connects => f.write_str("connections per second"),
            Figure::RoundTrip(stat) => write!(f, "round trip, {}", stat.words()),
            Figure::MessagesLost => f.write_str("messages lost"),
            Figure::Delay(way, stat) => write!(f, "delay {}, {}", way.words(), stat.words()),
            Figure::Loss(way) => write!(f, "loss {}", way.words()),
            Figure::Jitter(way) => write!(f, "jitter {}", way.words()),
            Figure::JitterMax(way) => write!(f, "jitter {}, largest of an interval", way.words()),
            Figure::Frames => f.write_str("frames not whole in time"),
            Figure::ConnectTime(stat) => write!(f, "time to connect, {}", stat.words()),
            Figure::Errors => f.write_str("connections in error"),
            Figure::Retransmits => f.write_str("retransmits"),
            Figure::Fairness => f.write_str("fairness"),
            Figure::Caveats => f.write_str("caveats"),
        }
    }
}

fn lost(counts: PingCounts) -> Option<f64> {
    (counts.sent > 0).then(|| percent_of(counts.lost.max(0), counts.sent))
}

fn frames(frames: Option<Frames>) -> Option<f64> {
    let f = frames?;
    let all = f.completed + f.dropped + f.repeated;
    (all > 0).then(|| percent_of(all - f.completed, all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Direction, Totals};
    use metrics::{Packets, SECOND};

    #[test]
    fn figures_are_named() {
        let names: Vec<String> = Figure::COMPARED.iter().map(|f| f.key()).collect();
        assert_eq!(names[..6], ["goodput.up", "goodput.down", "connects", "rtt.p50", "rtt.p99", "rtt.p99.9"]);
        assert_eq!(Figure::RoundTrip(Stat::Quantile(0.999)).to_string(), "round trip, p99.9");
        assert_eq!(Figure::Delay(Way::Up, Stat::MEDIAN).to_string(), "delay to server, median");
        let mut sorted = names.clone();
        sorted.sort();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len(), "each name is one figure's");
    }

    #[test]
    fn a_test_of_udpmon_has_a_rate_over_its_gaps() {
        let counts = crate::UdpmonCounts { received: 101, lost: 25, span: 20_000, ..Default::default() };
        let test = UdpmonTest { size: 1_000, sent: 125, counts: Some(counts), ..UdpmonTest::default() };
        // 100 gaps of 8000 bits in 2 ms, and a fifth lost.
        assert_eq!(
            Figure::of_test(&test),
            [(Figure::Goodput(Way::Up), 400e6), (Figure::Loss(Way::Up), 20.0)]
        );
        assert_eq!(Figure::of_test(&UdpmonTest::default()), []);
    }

    #[test]
    fn what_was_not_measured_is_none() {
        let point = Point::default();
        for figure in Figure::COMPARED {
            assert_eq!(figure.of(&point), None, "{figure}");
            assert_eq!(figure.readings(&point, false), [0.0; 0], "{figure}");
        }
        assert_eq!(Figure::Errors.of(&point), Some(0.0));
        let failed = Point { status: Status::Failed, ..Point::default() };
        for figure in Figure::COMPARED.into_iter().chain(Figure::KEPT_BESIDE) {
            assert_eq!(figure.of(&failed), None, "{figure}");
        }
        let failed = Point { near: Totals { network_errors: 2, ..Totals::default() }, ..failed };
        assert_eq!(Figure::Errors.of(&failed), Some(2.0), "what was seen is told");
    }
    fn second(index: u32) -> Interval {
        let start_ns = u64::from(index) * SECOND;
        let near = Traffic { ns: SECOND, ..Traffic::default() };
        Interval { index, start_ns, end_ns: start_ns + SECOND, near, far: Some(near), ..Interval::default() }
    }

    fn report(lost: i64, received: u64) -> Option<Box<PacketReport>> {
        let counts = Packets { lost, received, ..Packets::default() };
        Some(Box::new(PacketReport { counts, ..PacketReport::default() }))
    }

    #[test]
    fn an_interval_without_goodput_is_a_reading_where_the_phase_asks_for_it() {
        let mut point = Point { intervals: (0..4).map(second).collect(), ..Point::default() };
        for at in [0, 3] {
            point.intervals[at].far = Some(Traffic { rx_bytes: 125, ns: SECOND, ..Traffic::default() });
        }
        let up = Figure::Goodput(Way::Up);
        assert_eq!(up.readings(&point, false), [0.0; 0], "nothing was to go that way");
        point.up = Some(Direction::default());
        assert_eq!(up.readings(&point, false), [1_000.0, 0.0, 0.0, 1_000.0]);
        assert_eq!(up.readings(&point, true), [1_000.0, 1_000.0], "a server waits for most of its life");
        point.intervals[1].far = None;
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
        point.near.packets = report(1, 298);
        let loss = Figure::Loss(Way::Down);
        let readings = loss.readings(&point, false);
        assert_eq!(readings, [0.0, 100.0 / 99.0, 0.0]);
        // Loss that stays does.
        point.near.packets = report(30, 298);
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
        let mut point = Point { far: vec![server(0, 7.0, 40)], ..Point::default() };
        let p99 = Figure::Delay(Way::Up, Stat::Quantile(0.99));
        let all = |point: &Point| {
            [Figure::Loss(Way::Up), Figure::Jitter(Way::Up), p99].map(|f| f.of(point).unwrap())
        };
        assert_eq!(all(&point), [0.0, 7.0, 40.0]);
        for second in [server(50, 9.0, 60), server(50, 2.0, 30)] {
            let told = second.packets.as_ref().and_then(|p| p.jitter_ns);
            let (jitter, p99) = if told == Some(9.0) { (9.0, 60.0) } else { (7.0, 40.0) };
            point.far.truncate(1);
            point.far.push(second);
            assert_eq!(all(&point), [25.0, jitter, p99], "whichever comes first");
            point.far.reverse();
            assert_eq!(all(&point), [25.0, jitter, p99]);
            point.far.reverse();
        }
    }
}
