//! The table of figures: a row for each, with how it is called and read.

use super::interval::{self, End, Measure};
use super::{Figure, Stat, Unit, Way};
use crate::{Interval, Kind, Marking, Point, Status, Totals};
use metrics::real;

/// Row of the table: properties of a figure.
pub(super) struct FigureRow {
    /// The figure of a direction and a statistic, where it has them.
    pub(super) figure: fn(Way, Stat) -> Figure,
    /// As files and assertions name it; direction and statistic follow.
    pub(super) key: &'static str,
    /// As people read it, where that is not the key; direction and statistic follow.
    label: &'static str,
    pub(super) unit: Unit,
    pub(super) more_is_better: bool,
    /// True if tables of several phases show it, and comparisons of runs judge it. All are kept.
    pub(super) compared: bool,
    /// True if comparisons of runs judge it, and no table of phases shows it.
    pub(super) judged: bool,
    /// The statistics that are compared and kept, where it is a distribution.
    pub(super) stats: &'static [Stat],
    /// Its name and meaning for scrapers.
    pub(super) gauge: (&'static str, &'static str),
    /// Reads the figure of a phase; figures without direction or statistic ignore these.
    pub(super) of: fn(&Point, Way, Stat) -> Option<f64>,
    /// Reads it of an interval; `None` when an interval has no such value.
    pub(super) of_interval: fn(&Interval, Way, Stat) -> Option<f64>,
}

impl FigureRow {
    /// As people read it; direction and statistic follow.
    pub(super) fn label(&self) -> &'static str {
        if self.label.is_empty() { self.key } else { self.label }
    }

    /// Any of its figures.
    pub(super) fn any(&self) -> Figure {
        (self.figure)(Way::Up, Stat::Mean)
    }

    /// Its figures for these directions and statistics, where it has them.
    pub(super) fn figures(&self, ways: &[Way], stats: &[Stat]) -> Vec<Figure> {
        let ways = if self.any().way().is_some() { ways } else { &[Way::Up] };
        let stats = if self.any().stat().is_some() { stats } else { &[Stat::Mean] };
        ways.iter().flat_map(|way| stats.iter().map(|stat| (self.figure)(*way, *stat))).collect()
    }
}

const P50: Stat = Stat::MEDIAN;
const P90: Stat = Stat::Quantile(0.9);
const P99: Stat = Stat::Quantile(0.99);
const P999: Stat = Stat::Quantile(0.999);

/// Less is better, and no interval has it.
pub(super) const ROW: FigureRow = FigureRow {
    figure: |_, _| Figure::Caveats,
    key: "",
    label: "",
    unit: Unit::Count,
    more_is_better: false,
    compared: false,
    judged: false,
    stats: &[],
    gauge: ("", ""),
    of: |_, _, _| None,
    of_interval: |_, _, _| None,
};

/// True for phases whose bytes are as many as both ends can move: only then CPU time for 10^9 bytes
/// is that of the bytes.
fn moves_bulk(point: &Point) -> bool {
    point.phase.kind == Kind::Tcp
}

/// All figures, the most important first.
pub(super) static TABLE: [FigureRow; 29] = [
    FigureRow {
        figure: |way, _| Figure::Goodput(way),
        key: "goodput",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        compared: true,
        gauge: ("goodput", "Payload that arrived, by the receiver's count."),
        of: |point, way, _| {
            // Nothing that arrived because nothing was measured is no figure.
            Some(way.direction(point)?.goodput_bps).filter(|_| point.status != Status::Failed)
        },
        of_interval: |interval, way, _| Measure::RECEIVED.of(interval, way.receiver()),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Connects,
        key: "connects",
        label: "connections per second",
        unit: Unit::PerSecond,
        more_is_better: true,
        compared: true,
        gauge: ("connects", "Connections established per second."),
        of: |point, _, _| point.connects_per_second().filter(|_| point.phase.kind == Kind::Connect),
        of_interval: |interval, _, _| Measure::CONNECTS.of(interval, End::Local),
        ..ROW
    },
    FigureRow {
        figure: |_, stat| Figure::RoundTrip(stat),
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
        of_interval: |interval, _, stat| interval::trips(interval, stat),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::MessagesLost,
        key: "messages-lost",
        label: "messages lost",
        unit: Unit::Percent,
        compared: true,
        gauge: ("messages_lost", "Messages that never came back."),
        of: |point, _, _| point.local.pings.as_ref()?.counts.lost_percent(),
        of_interval: |interval, _, _| Measure::MESSAGES_LOST.of(interval, End::Local),
        ..ROW
    },
    FigureRow {
        figure: Figure::Delay,
        key: "delay",
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
        of_interval: |interval, way, stat| {
            stat.of_summary(way.receiver().packets(interval)?.delay_ns.as_ref()?)
        },
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::Loss(way),
        key: "loss",
        unit: Unit::Percent,
        compared: true,
        gauge: ("loss", "Datagrams lost, of those sent."),
        of: |point, way, _| Some(way.packets(point)?.loss()? * 100.0),
        of_interval: |interval, way, _| Measure::LOST_SHARE.of(interval, way.receiver()),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::CeMarks(way),
        key: "ce",
        label: "CE marks",
        unit: Unit::Percent,
        judged: true,
        gauge: ("ce_marks", "Datagrams that arrived with congestion experienced (ECN)."),
        of: |point, way, _| Marking::ce_percent_of(point, way),
        of_interval: |interval, way, _| Measure::CE_SHARE.of(interval, way.receiver()),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::EcnCleared(way),
        key: "ecn-cleared",
        label: "ECN cleared",
        unit: Unit::Percent,
        judged: true,
        gauge: ("ecn_cleared", "Datagrams sent with an ECN codepoint that arrived without."),
        of: |point, way, _| Marking::cleared_percent_of(point, way),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::Capacity(way),
        key: "capacity",
        label: "IP capacity",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        compared: true,
        gauge: ("ip_capacity", "Maximum IP-layer capacity (RFC 9097): IP packets of the best sub-interval."),
        of: |point, way, _| Some(way.capacity(point)?.ip_bps),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::CapacityMean(way),
        key: "capacity-mean",
        label: "mean IP rate",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        judged: true,
        gauge: ("ip_capacity_mean", "Mean rate of IP packets over the sub-intervals of a capacity test."),
        of: |point, way, _| Some(way.capacity(point)?.mean_bps),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Dispersion,
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
    FigureRow {
        figure: |_, _| Figure::Frames,
        key: "frames",
        label: "frames not whole in time",
        unit: Unit::Percent,
        compared: true,
        gauge: ("frames_unwell", "Frames that were not whole in time."),
        of: |point, _, _| {
            let both = Way::ALL.into_iter().filter_map(|way| point.frames(way));
            let both = both.reduce(|mut all, one| {
                all.add(one);
                all
            });
            // The outcome of a server has its own counts alone.
            interval::unwell(both.or(point.local.frames))
        },
        of_interval: |interval, _, _| interval::unwell(interval.frames),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::Sent(way),
        key: "sent",
        unit: Unit::BitsPerSecond,
        more_is_better: true,
        gauge: ("sent", "Payload that was sent, by the sender's count."),
        of: |point, way, _| way.direction(point)?.sent_bps().filter(|bps| *bps > 0.0),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Cpu,
        key: "cpu",
        label: "CPU time",
        unit: Unit::SecondsPerGb,
        gauge: ("cpu", "CPU time of both hosts' processes for 10^9 bytes of payload."),
        of: |point, _, _| {
            point.local_cpu_s_per_gb.zip(point.remote_cpu_s_per_gb).map(|(local, remote)| local + remote)
        },
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::CpuLocal,
        key: "cpu-local",
        label: "CPU time, local end",
        unit: Unit::SecondsPerGb,
        judged: true,
        gauge: ("cpu_local", "CPU time of the local process for 10^9 bytes of payload."),
        of: |point, _, _| point.local_cpu_s_per_gb.filter(|_| moves_bulk(point)),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::CpuRemote,
        key: "cpu-remote",
        label: "CPU time, remote end",
        unit: Unit::SecondsPerGb,
        judged: true,
        gauge: ("cpu_remote", "CPU time of the servers' processes for 10^9 bytes of payload."),
        of: |point, _, _| point.remote_cpu_s_per_gb.filter(|_| moves_bulk(point)),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::LoadedRoundTrip,
        key: "rtt-loaded",
        label: "round trip, loaded",
        unit: Unit::Ns,
        judged: true,
        gauge: ("round_trip_loaded", "Round trip of a transfer's own connections, mean, by the kernel."),
        of: |point, _, _| point.loaded_rtt_ns(),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::Jitter(way),
        key: "jitter",
        unit: Unit::Ns,
        gauge: ("jitter", "Interarrival jitter (RFC 3550), mean."),
        of: |point, way, _| way.packets(point)?.jitter_ns(),
        of_interval: |interval, way, _| way.receiver().packets(interval)?.jitter_ns(),
        ..ROW
    },
    FigureRow {
        figure: |way, _| Figure::JitterMax(way),
        key: "jitter-max",
        label: "largest jitter",
        unit: Unit::Ns,
        gauge: ("jitter_max", "Interarrival jitter (RFC 3550) of the interval with the largest."),
        of: |point, way, _| way.packets(point)?.jitter_max_ns,
        ..ROW
    },
    FigureRow {
        figure: |_, stat| Figure::ConnectTime(stat),
        key: "connect",
        label: "time to connect",
        unit: Unit::Ns,
        stats: &[P50, P99],
        judged: true,
        gauge: ("connect_percentile", "Times to connect of the latest run: this share took no longer."),
        of: |point, _, stat| stat.of_summary(point.local.connect_ns.as_ref()?),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Retransmits,
        key: "retransmits",
        judged: true,
        gauge: ("retransmits", "Segments sent again by either end."),
        of: |point, _, _| point.ends().filter_map(Totals::retransmits).map(real).reduce(|sum, one| sum + one),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Fairness,
        key: "fairness",
        unit: Unit::Share,
        more_is_better: true,
        judged: true,
        gauge: ("fairness", "Jain's index over the connections."),
        of: |point, _, _| point.fairness,
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Errors,
        key: "errors",
        label: "connections in error",
        judged: true,
        gauge: ("connection_errors", "Connections that ended in an error."),
        // In a phase without a measurement, the absence of errors and caveats is not good news.
        of: |point, _, _| Some(real(point.errors())).filter(|n| *n > 0.0 || point.status != Status::Failed),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Caveats,
        key: "caveats",
        gauge: ("caveats", "Reasons not to take the figures at face value."),
        of: |point, _, _| (point.status != Status::Failed).then_some(real(point.caveats.len())),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Grade,
        key: "grade",
        unit: Unit::Grade,
        gauge: ("load_grade", "Grade of the delay that the load adds: 0 for A+, 5 for F."),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Added,
        key: "added",
        label: "added delay",
        unit: Unit::Ns,
        gauge: ("added_delay", "Growth of round trips under the load, which the grade is about."),
        ..ROW
    },
    FigureRow {
        figure: |_, stat| Figure::AddedPercentile(stat),
        key: "added",
        label: "added delay",
        unit: Unit::Ns,
        stats: &[P50, P90],
        gauge: ("added_delay_percentile", "Growth of a percentile of round trips under the load."),
        ..ROW
    },
    FigureRow {
        figure: |_, _| Figure::Responsiveness,
        key: "rpm",
        label: "round trips a minute",
        more_is_better: true,
        gauge: ("responsiveness", "Round trips a minute under the load."),
        ..ROW
    },
    FigureRow {
        figure: |_, stat| Figure::IdleRoundTrip(stat),
        key: "rtt-idle",
        label: "round trip, idle",
        unit: Unit::Ns,
        stats: &[P50, P99],
        gauge: ("round_trip_idle_percentile", "Round trips before the load: this share took no longer."),
        ..ROW
    },
];
