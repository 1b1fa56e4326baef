//! Which figures are shown of a measurement, and how each is read from an interval.

use super::track::{Reading, Track};
use metrics::{Frames, format_bits_per_second, format_duration, format_number, per_second, real};
use model::{Kind, PacketReport, Phase, PingInterval};

/// What a figure is counted in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Bits/s.
    Rate,
    /// Events per second.
    PerSecond,
    /// Nanoseconds.
    Time,
    /// Events per interval.
    Count,
    Percent,
}

impl Unit {
    /// A value in three digits, with its unit.
    pub(super) fn show(self, value: f64) -> String {
        match self {
            Unit::Rate => format_bits_per_second(value),
            Unit::PerSecond => format!("{}/s", number(value)),
            Unit::Time => format_duration(value),
            Unit::Count => number(value),
            Unit::Percent => {
                format!("{} %", if value >= 10.0 { format!("{value:.0}") } else { format!("{value:.2}") })
            }
        }
    }
}

/// A number; means have fractions, which tell something of small numbers only.
fn number(value: f64) -> String {
    if value.abs() < 10.0 && value.fract().abs() > 0.05 {
        format!("{value:.1}")
    } else {
        format_number(value)
    }
}

/// What a figure is to the reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Main figure of the run.
    Main,
    Latency,
    /// Secondary figure.
    Beside,
    /// Anything above zero is bad.
    Bad,
}

/// What the intervals' values say together. Percentiles have no mean: that of a whole run is another figure.
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
    pub(super) role: Role,
    pub(super) sum: Sum,
    /// Its value in an interval; `None` when the interval does not tell.
    pub(super) of: fn(&Reading) -> Option<f64>,
}

fn figure(name: &'static str, unit: Unit, role: Role, of: fn(&Reading) -> Option<f64>) -> Figure {
    Figure { name, unit, role, sum: Sum::Mean, of }
}

/// A figure of which intervals have no mean.
fn each(name: &'static str, unit: Unit, role: Role, of: fn(&Reading) -> Option<f64>) -> Figure {
    Figure { sum: Sum::Largest, ..figure(name, unit, role, of) }
}

/// The figures of a phase, as many as have something to say, the most important first.
pub(super) fn of(phase: &Phase, serving: bool) -> Vec<Figure> {
    let (up, down) = (phase.pattern.sends_up(), phase.pattern.sends_down());
    match phase.kind {
        _ if serving => served(),
        Kind::Tcp => tcp(up, down),
        Kind::Connect => connects(),
        Kind::Ping => pings(),
        Kind::Stream => frames(phase.probe.is_some(), up, down),
        Kind::Delay | Kind::Train => datagrams(up, down),
    }
}

fn served() -> Vec<Figure> {
    use Role::{Beside, Main};
    vec![
        figure("receiving", Unit::Rate, Main, |r| Some(r.interval.local.rx_bps())),
        figure("sending", Unit::Rate, Main, |r| Some(r.interval.local.tx_bps())),
        figure("connections", Unit::Count, Beside, |r| Some(real(r.interval.in_flight))),
        figure("new connections", Unit::PerSecond, Beside, opened),
    ]
}

fn tcp(up: bool, down: bool) -> Vec<Figure> {
    use Role::{Bad, Latency, Main};
    let mut all = Vec::new();
    if up {
        // What the receiver counts is the result; where it does not tell, what was sent stands in for it.
        all.push(figure("goodput up", Unit::Rate, Main, |r| {
            Some(r.interval.remote.map_or(r.interval.local.tx_bps(), |remote| remote.rx_bps()))
        }));
    }
    if down {
        all.push(figure("goodput down", Unit::Rate, Main, |r| Some(r.interval.local.rx_bps())));
    }
    all.extend([
        figure("RTT, mean", Unit::Time, Latency, |r| r.rtt_ns),
        each("RTT, worst", Unit::Time, Latency, |r| r.worst_rtt_ns),
        figure("retransmits", Unit::Count, Bad, |r| Some(real(r.interval.retransmits))),
    ]);
    all
}

fn connects() -> Vec<Figure> {
    vec![
        figure("connects", Unit::PerSecond, Role::Main, opened),
        figure("in flight", Unit::Count, Role::Beside, |r| Some(real(r.interval.in_flight))),
    ]
}

fn opened(r: &Reading) -> Option<f64> {
    Some(per_second(r.interval.opened, r.interval.ns().max(1)))
}

fn pings() -> Vec<Figure> {
    use Role::{Bad, Beside, Latency};
    let trip = |name, of| each(name, Unit::Time, Latency, of);
    vec![
        trip("RTT p50", |r| back(r).and_then(|p| Some(real(p.p50_ns?)))),
        trip("RTT p99", |r| back(r).and_then(|p| Some(real(p.p99_ns?)))),
        trip("RTT max", |r| back(r).map(|p| real(p.max_ns))),
        Figure { sum: Sum::Nothing, ..trip("RTT min", |r| back(r).map(|p| real(p.min_ns))) },
        figure("echoes", Unit::PerSecond, Beside, |r| {
            let n = r.interval.pings?.count;
            Some(per_second(n, r.interval.ns().max(1)))
        }),
        figure("lost", Unit::Count, Bad, |r| Some(real(r.interval.pings?.counts.lost))),
        figure("late", Unit::Count, Bad, |r| Some(real(r.interval.pings?.counts.late))),
    ]
}

/// The round trips of an interval in which any came back.
fn back(r: &Reading) -> Option<PingInterval> {
    r.interval.pings.filter(|pings| pings.count > 0)
}

fn frames(native: bool, up: bool, down: bool) -> Vec<Figure> {
    use Role::{Bad, Main};
    let mut all = Vec::new();
    if native {
        all = datagrams(up, down);
        if !down {
            return all; // the frames are judged over there
        }
    } else {
        all.push(figure("received", Unit::Rate, Main, |r| Some(r.interval.local.rx_bps())));
    }
    all.extend([
        figure("frames whole", Unit::Count, Main, |r| counted(r, |f| f.completed)),
        figure("frames dropped", Unit::Count, Bad, |r| counted(r, |f| f.dropped)),
        figure("frames repeated", Unit::Count, Bad, |r| counted(r, |f| f.repeated)),
    ]);
    all
}

fn counted(r: &Reading, of: fn(&Frames) -> u64) -> Option<f64> {
    r.interval.frames.map(|frames| real(of(&frames)))
}

/// Datagrams as their receivers counted them.
fn datagrams(up: bool, down: bool) -> Vec<Figure> {
    use Role::{Bad, Latency, Main};
    let mut all = Vec::new();
    if up {
        all.extend([
            figure("received up", Unit::PerSecond, Main, |r| got(r, remote(r)?)),
            each("lost up", Unit::Percent, Bad, |r| lost(remote(r)?)),
            each("delay up p50", Unit::Time, Latency, |r| Some(real(remote(r)?.delay_ns.as_ref()?.p50))),
            each("delay up p99", Unit::Time, Latency, |r| Some(real(remote(r)?.delay_ns.as_ref()?.p99))),
        ]);
    }
    if down {
        all.extend([
            figure("received down", Unit::PerSecond, Main, |r| got(r, local(r)?)),
            each("lost down", Unit::Percent, Bad, |r| lost(local(r)?)),
            each("delay down p50", Unit::Time, Latency, |r| Some(real(local(r)?.delay_ns.as_ref()?.p50))),
            each("delay down p99", Unit::Time, Latency, |r| Some(real(local(r)?.delay_ns.as_ref()?.p99))),
        ]);
    }
    all
}

fn local(r: &Reading) -> Option<&PacketReport> {
    r.interval.packets.as_deref()
}

fn remote(r: &Reading) -> Option<&PacketReport> {
    r.interval.remote_packets.as_deref()
}

fn got(r: &Reading, report: &PacketReport) -> Option<f64> {
    Some(per_second(report.counts.received, r.interval.ns().max(1)))
}

/// Percent of the datagrams expected in this interval.
fn lost(report: &PacketReport) -> Option<f64> {
    let lost = real(report.counts.lost.max(0));
    let all = lost + real(report.counts.received);
    (all > 0.0).then(|| lost * 100.0 / all)
}

/// Figures of a finished measurement: means of its intervals, and percentiles from its totals.
pub(super) fn over(track: &Track, serving: bool) -> Vec<(&'static str, String)> {
    let means = of(&track.phase, serving).into_iter().filter(|figure| figure.sum == Sum::Mean);
    let mut all: Vec<(&'static str, String)> =
        means.filter_map(|figure| Some((figure.name, figure.unit.show(track.mean(figure.of)?)))).collect();
    let time = |ns: u64| format_duration(ns);
    let local = track.local.as_deref();
    if let Some(rtt) = local.and_then(|local| local.pings.as_ref()?.rtt_ns.as_ref()) {
        let known = [("RTT p50", 0.5), ("RTT p99", 0.99)];
        all.splice(0..0, known.into_iter().filter_map(|(name, q)| Some((name, time(rtt.quantile(q)?)))));
    }
    let up = track.remote.iter().find_map(|remote| remote.packets.as_deref());
    let down = local.and_then(|local| local.packets.as_deref());
    let ways = [
        (up, ["lost up", "delay up p50", "delay up p99"]),
        (down, ["lost down", "delay down p50", "delay down p99"]),
    ];
    for (report, [lost, p50, p99]) in ways {
        let Some(report) = report.filter(|report| report.counts.received > 0) else { continue };
        all.extend(report.loss().map(|share| (lost, Unit::Percent.show(share * 100.0))));
        let delay = report.delay_ns.as_ref();
        all.extend(delay.into_iter().flat_map(|delay| [(p50, time(delay.p50)), (p99, time(delay.p99))]));
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_with_their_units() {
        assert_eq!(Unit::Rate.show(9.876e9), "9.88 Gbit/s");
        assert_eq!(Unit::PerSecond.show(12_345.4), "12345/s");
        assert_eq!(Unit::PerSecond.show(123_456.0), "123 k/s");
        assert_eq!(Unit::Count.show(0.0), "0");
        assert_eq!(Unit::Count.show(1.25), "1.2");
        assert_eq!(Unit::Count.show(250e6), "250 M");
        assert_eq!(Unit::Time.show(51e3), "51.0 µs");
        assert_eq!(
            (Unit::Percent.show(0.015), Unit::Percent.show(42.4)),
            ("0.01 %".to_owned(), "42 %".to_owned())
        );
    }
}
