//! Which figures are shown of a measurement, and how each is read from an interval.

use super::track::{IntervalReading, Track};
use metrics::{format_duration, format_number, per_second, real};
use model::{End, Kind, Measure, Pattern, Phase, Unit, Way};

/// A value in three digits, with its unit.
pub(super) fn show(unit: Unit, value: f64) -> String {
    match unit {
        Unit::PerSecond => format!("{}/s", number(value)),
        Unit::Count => number(value),
        unit => unit.show(value),
    }
}

/// A number; small means keep a fraction, which is noise in larger ones.
fn number(value: f64) -> String {
    if value.abs() < 10.0 && value.fract().abs() > 0.05 {
        format!("{value:.1}")
    } else {
        format_number(value)
    }
}

/// Role of a figure for the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum FigureRole {
    /// Main figure of the run.
    Main,
    Latency,
    /// Anything above zero is bad.
    Bad,
    /// Secondary figure.
    Beside,
}

/// Combination of the intervals' values. Percentiles have no mean: a whole run's percentile is
/// another figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sum {
    /// A mean and a maximum.
    Mean,
    Largest,
    Nothing,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Figure {
    pub(super) name: &'static str,
    pub(super) unit: Unit,
    pub(super) role: FigureRole,
    pub(super) sum: Sum,
    read: Read,
}

impl Figure {
    fn new(
        name: &'static str,
        unit: Unit,
        role: FigureRole,
        of: fn(&IntervalReading) -> Option<f64>,
    ) -> Self {
        Figure { name, unit, role, sum: Sum::Mean, read: Read::IntervalReading(of) }
    }

    /// A count of an end, as a row of the table of intervals reads it.
    fn of_end(name: &'static str, role: FigureRole, measure: Measure, end: End) -> Self {
        Figure { name, unit: measure.unit, role, sum: Sum::Mean, read: Read::Interval(measure, end) }
    }

    fn local(name: &'static str, role: FigureRole, measure: Measure) -> Self {
        Figure::of_end(name, role, measure, End::Local)
    }

    /// The same, where intervals have no mean.
    fn each(self) -> Self {
        Figure { sum: Sum::Largest, ..self }
    }

    /// Its value in an interval; `None` when the interval has none.
    pub(super) fn of(&self, reading: &IntervalReading) -> Option<f64> {
        match self.read {
            Read::Interval(measure, end) => measure.of(&reading.interval, end),
            Read::IntervalReading(of) => of(reading),
        }
    }
}

/// Source of a figure.
#[derive(Clone, Copy, Debug)]
enum Read {
    Interval(Measure, End),
    IntervalReading(fn(&IntervalReading) -> Option<f64>),
}

/// The figures of a phase, as many as have something to say, the most important first.
pub(super) fn of(phase: &Phase, serving: bool) -> Vec<Figure> {
    match phase.kind {
        _ if serving => served(),
        Kind::Tcp => tcp(phase.pattern),
        Kind::Connect => connects(),
        Kind::Ping => pings(),
        Kind::Stream => frames(phase.probe.is_some(), phase.pattern),
        Kind::Delay | Kind::Train => datagrams(phase.pattern),
    }
}

fn served() -> Vec<Figure> {
    use FigureRole::{Beside, Main};
    vec![
        Figure::local("receiving", Main, Measure::RECEIVED),
        Figure::local("sending", Main, Measure::SENT),
        Figure::local("connections", Beside, Measure::OPEN),
        Figure::local("new connections", Beside, Measure::CONNECTS),
    ]
}

fn tcp(pattern: Pattern) -> Vec<Figure> {
    use FigureRole::{Bad, Latency, Main};
    // The receiver's count is the result; where it reports none, the sent bytes stand in for it.
    let goodput_up = Figure::new("goodput up", Unit::BitsPerSecond, Main, |r| {
        r.interval.remote.map_or(r.interval.sent_bps(), |remote| Some(remote.rx_bps()))
    });
    let mut all = Vec::from_iter(pattern.sends_up().then_some(goodput_up));
    if pattern.sends_down() {
        all.push(Figure::local("goodput down", Main, Measure::RECEIVED));
    }
    all.extend([
        Figure::new("RTT, mean", Unit::Ns, Latency, |r| r.rtt_ns),
        Figure::new("RTT, worst", Unit::Ns, Latency, |r| r.worst_rtt_ns).each(),
        Figure::new("retransmits/s", Unit::PerSecond, Bad, |r| {
            let again = Measure::RETRANSMITS.of(&r.interval, End::Local)?;
            Some(per_second(again, r.interval.ns().max(1)))
        }),
    ]);
    all
}

fn connects() -> Vec<Figure> {
    vec![
        Figure::local("connects", FigureRole::Main, Measure::CONNECTS),
        Figure::local("in flight", FigureRole::Beside, Measure::OPEN),
    ]
}

fn pings() -> Vec<Figure> {
    use FigureRole::{Bad, Beside, Latency};
    let trip = |name, measure| Figure::local(name, Latency, measure).each();
    vec![
        trip("RTT p50", Measure::RTT_P50),
        trip("RTT p99", Measure::RTT_P99),
        trip("RTT max", Measure::RTT_MAX),
        Figure { sum: Sum::Nothing, ..trip("RTT min", Measure::RTT_MIN) },
        Figure::new("echoes", Unit::PerSecond, Beside, |r| {
            Some(per_second(r.interval.pings?.count, r.interval.ns().max(1)))
        }),
        Figure::new("lost", Unit::Count, Bad, |r| Some(real(r.interval.pings?.counts.lost))),
        Figure::new("late", Unit::Count, Bad, |r| Some(real(r.interval.pings?.counts.late))),
    ]
}

fn frames(native: bool, pattern: Pattern) -> Vec<Figure> {
    use FigureRole::{Bad, Main};
    let mut all = match native {
        true => datagrams(pattern),
        false => vec![Figure::local("received", Main, Measure::RECEIVED)],
    };
    // Frames that were sent are judged by the remote end.
    if !native || pattern.sends_down() {
        all.extend([
            Figure::local("frames whole", Main, Measure::FRAMES_WHOLE),
            Figure::local("frames dropped", Bad, Measure::FRAMES_DROPPED),
            Figure::local("frames repeated", Bad, Measure::FRAMES_REPEATED),
        ]);
    }
    all
}

/// Names of each direction's figures.
const DATAGRAMS: [(Way, [&str; 4]); 2] = [
    (Way::Up, ["received up", "lost up", "delay up p50", "delay up p99"]),
    (Way::Down, ["received down", "lost down", "delay down p50", "delay down p99"]),
];

/// Datagrams as their receivers counted them.
fn datagrams(pattern: Pattern) -> Vec<Figure> {
    use FigureRole::{Bad, Latency, Main};
    let asked = DATAGRAMS.into_iter().filter(|(way, _)| pattern.sends(*way));
    let figures = asked.flat_map(|(way, [received, lost, p50, p99])| {
        let end = way.receiver();
        [
            Figure::of_end(received, Main, Measure::DATAGRAMS_RECEIVED, end),
            Figure::of_end(lost, Bad, Measure::LOST_SHARE, end).each(),
            Figure::of_end(p50, Latency, Measure::DELAY_P50, end).each(),
            Figure::of_end(p99, Latency, Measure::DELAY_P99, end).each(),
        ]
    });
    figures.collect()
}

/// Figures of a finished measurement: means of its intervals, and percentiles from its totals.
pub(super) fn results(track: &Track, serving: bool) -> Vec<(&'static str, String)> {
    let means = of(&track.point.phase, serving).into_iter().filter(|figure| figure.sum == Sum::Mean);
    let mut all: Vec<(&'static str, String)> =
        means.filter_map(|figure| Some((figure.name, show(figure.unit, track.mean(figure)?)))).collect();
    let time = |ns: u64| format_duration(ns);
    if let Some(rtt) = track.point.local.pings.as_ref().and_then(|pings| pings.rtt_ns.as_ref()) {
        let known = [("RTT p50", 0.5), ("RTT p99", 0.99)];
        all.splice(0..0, known.into_iter().filter_map(|(name, q)| Some((name, time(rtt.quantile(q)?)))));
    }
    for (way, [_, lost, p50, p99]) in DATAGRAMS {
        let report = way.packets(&track.point);
        let Some(report) = report.filter(|report| report.counts.received > 0) else { continue };
        all.extend(report.loss().map(|share| (lost, show(Unit::Percent, share * 100.0))));
        let delay = report.delay_ns.as_ref();
        all.extend(delay.into_iter().flat_map(|delay| [(p50, time(delay.p50)), (p99, time(delay.p99))]));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use metrics::Packets;
    use model::{PacketReport, Totals};

    #[test]
    fn datagrams_to_all_servers_are_told() {
        let server = |received, lost| {
            let counts = Packets { received, lost, ..Packets::default() };
            let packets = Some(Box::new(PacketReport::from(counts)));
            Totals { packets, ..Totals::default() }
        };
        let phase = Phase { kind: Kind::Delay, ..Phase::default() };
        let mut track = Track::default();
        (track.point.phase, track.point.remote) = (phase, vec![server(0, 10), server(90, 0)]);
        assert_eq!(results(&track, false), [("lost up", "10 %".to_owned())]);
    }

    #[test]
    fn values_with_their_units() {
        assert_eq!(show(Unit::BitsPerSecond, 9.876e9), "9.88 Gbit/s");
        assert_eq!(show(Unit::PerSecond, 12_345.4), "12345/s");
        assert_eq!(show(Unit::PerSecond, 123_456.0), "123 k/s");
        assert_eq!(show(Unit::Count, 0.0), "0");
        assert_eq!(show(Unit::Count, 1.25), "1.2");
        assert_eq!(show(Unit::Count, 250e6), "250 M");
        assert_eq!(show(Unit::Ns, 51e3), "51.0 µs");
        assert_eq!([0.015, 42.4].map(|value| show(Unit::Percent, value)), ["0.015 %", "42 %"]);
    }
}
