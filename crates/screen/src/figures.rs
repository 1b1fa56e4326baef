//! Which figures are shown of a measurement, and how each is read from an interval.

use super::track::{IntervalReading, Track};
use metrics::{format_number, per_second, real};
use model::{End, Kind, Measure, Phase, Unit, Way};

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
    /// Its name, where the source has none.
    name: &'static str,
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

    /// A figure that leads for the question. Rates have a mean; percentiles and losses of intervals
    /// have none.
    fn leading(figure: model::Figure) -> Self {
        let (role, sum) = match figure.unit() {
            Unit::Percent => (FigureRole::Bad, Sum::Largest),
            Unit::Ns => (FigureRole::Latency, Sum::Largest),
            _ => (FigureRole::Main, Sum::Mean),
        };
        Figure { name: "", unit: figure.unit(), role, sum, read: Read::Leading(figure) }
    }

    /// The same, where intervals have no mean.
    fn each(self) -> Self {
        Figure { sum: Sum::Largest, ..self }
    }

    /// Its name: of a leading figure the key that assertions use, with blanks.
    pub(super) fn name(&self) -> String {
        match self.read {
            Read::Leading(model::Figure::Frames) => "frames not whole".to_owned(),
            // Narrow screens cut longer words.
            Read::Leading(model::Figure::MessagesLost) => "lost".to_owned(),
            Read::Leading(figure) => figure.key().replace('.', " "),
            _ => self.name.to_owned(),
        }
    }

    /// Its value in an interval; `None` when the interval has none.
    pub(super) fn of(&self, reading: &IntervalReading) -> Option<f64> {
        let interval = &reading.interval;
        match self.read {
            // The receiver's count is the result; where it reports none, the sent bytes stand in
            // for it.
            Read::Leading(model::Figure::Goodput(Way::Up)) if interval.remote.is_none() => {
                interval.sent_bps()
            }
            Read::Leading(figure) => figure.of_interval(interval),
            Read::Interval(measure, end) => measure.of(interval, end),
            Read::IntervalReading(of) => of(reading),
        }
    }

    /// Its value over a measurement that has ended: from its totals, or the mean of its intervals.
    fn result(&self, track: &Track) -> Option<f64> {
        let total = match self.read {
            Read::Leading(figure) => figure.of(&track.point).filter(|_| figure.is_shown(&track.point)),
            _ => None,
        };
        total.or_else(|| track.mean(*self).filter(|_| self.sum == Sum::Mean))
    }
}

/// Source of a figure.
#[derive(Clone, Copy, Debug)]
enum Read {
    Leading(model::Figure),
    Interval(Measure, End),
    IntervalReading(fn(&IntervalReading) -> Option<f64>),
}

/// The figures of a phase: the list that leads for its question, then others.
pub(super) fn of(phase: &Phase, serving: bool) -> Vec<Figure> {
    if serving {
        return served();
    }
    // Only the end of a phase has a value of these.
    let is_late =
        |figure: &model::Figure| matches!(figure, model::Figure::Dispersion | model::Figure::ConnectTime(_));
    leading(phase)
        .filter(|figure| !is_late(figure))
        .map(Figure::leading)
        .chain(other_figures(phase))
        .collect()
}

fn leading(phase: &Phase) -> impl Iterator<Item = model::Figure> {
    let all = model::Figure::leading(phase.kind).iter().copied();
    all.filter(|figure| figure.way().is_none_or(|way| phase.pattern.sends(way)))
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

/// Figures that are of use while the phase runs.
fn other_figures(phase: &Phase) -> Vec<Figure> {
    use FigureRole::{Bad, Beside, Latency, Main};
    let native = phase.probe.is_some();
    match phase.kind {
        Kind::Tcp => vec![
            Figure::new("RTT, mean", Unit::Ns, Latency, |r| r.rtt_ns),
            Figure::new("RTT, worst", Unit::Ns, Latency, |r| r.worst_rtt_ns).each(),
            Figure::new("retransmits/s", Unit::PerSecond, Bad, |r| {
                let again = Measure::RETRANSMITS.of(&r.interval, End::Local)?;
                Some(per_second(again, r.interval.ns().max(1)))
            }),
        ],
        Kind::Connect => vec![Figure::local("in flight", Beside, Measure::OPEN)],
        Kind::Ping => vec![
            Figure::local("rtt max", Latency, Measure::RTT_MAX).each(),
            Figure { sum: Sum::Nothing, ..Figure::local("rtt min", Latency, Measure::RTT_MIN) },
            Figure::new("echoes", Unit::PerSecond, Beside, |r| {
                Some(per_second(r.interval.pings?.count, r.interval.ns().max(1)))
            }),
            Figure::new("late", Unit::Count, Bad, |r| Some(real(r.interval.pings?.counts.late))),
        ],
        Kind::Stream if !native => vec![
            Figure::local("received", Main, Measure::RECEIVED),
            Figure::local("frames repeated", Bad, Measure::FRAMES_REPEATED),
        ],
        Kind::Stream | Kind::Delay | Kind::Train | Kind::Capacity => {
            let asked = [("received up", Way::Up), ("received down", Way::Down)].into_iter();
            let asked = asked.filter(|(_, way)| phase.pattern.sends(*way));
            asked
                .map(|(name, way)| Figure::of_end(name, Main, Measure::DATAGRAMS_RECEIVED, way.receiver()))
                .collect()
        }
    }
}

/// Figures of a finished measurement.
pub(super) fn results(track: &Track, serving: bool) -> Vec<(String, String)> {
    let phase = &track.point.phase;
    let all = match serving {
        true => served(),
        false => leading(phase).map(Figure::leading).chain(other_figures(phase)).collect(),
    };
    let shown = |figure: Figure| Some((figure.name(), show(figure.unit, figure.result(track)?)));
    all.into_iter().filter_map(shown).collect()
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
        assert_eq!(results(&track, false), [("loss up".to_owned(), "10 %".to_owned())]);
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
