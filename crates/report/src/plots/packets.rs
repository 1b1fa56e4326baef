//! Datagrams: one-way delay over time and in all, rates, and lost, late, repeated and reordered datagrams.

use super::{coarse_curve, coarse_histogram, over_time, percentiles, rate, times_axis};
use crate::plot::{Plot, Series, Style, Unit};
use metrics::{DistSummary, format_duration, real};
use model::{Interval, PacketReport, Point, Totals};

/// One direction of datagrams, by the receiving end.
struct Way {
    /// As part of a file's name.
    slug: &'static str,
    name: &'static str,
    /// The receiver's report on an interval.
    of: fn(&Interval) -> Option<&PacketReport>,
    /// The sender's.
    sent: fn(&Interval) -> Option<&PacketReport>,
    /// The receiver's report on all of it.
    total: fn(&Point) -> Option<&PacketReport>,
}

fn local(interval: &Interval) -> Option<&PacketReport> {
    interval.packets.as_deref()
}

fn remote(interval: &Interval) -> Option<&PacketReport> {
    interval.remote_packets.as_deref()
}

fn local_total(point: &Point) -> Option<&PacketReport> {
    point.local.packets.as_deref()
}

fn remote_total(point: &Point) -> Option<&PacketReport> {
    point.remote.iter().find_map(|totals: &Totals| totals.packets.as_deref())
}

const UP: Way = Way { slug: "up", name: "to the server", of: remote, sent: local, total: remote_total };
const DOWN: Way = Way { slug: "down", name: "from the server", of: local, sent: remote, total: local_total };
const HERE: Way = Way { slug: "here", name: "received here", of: local, sent: local, total: local_total };

pub(super) fn plots(point: &Point, serving: bool) -> Vec<Plot> {
    let ways = if serving { vec![HERE] } else { vec![UP, DOWN] };
    let moved = |way: &Way| {
        let came = |r: &PacketReport| r.counts.received + r.counts.corrupt > 0 || r.counts.lost > 0;
        (way.total)(point).is_some_and(came) || point.intervals.iter().filter_map(way.of).any(came)
    };
    ways.iter().filter(|way| moved(way)).flat_map(|way| of_way(point, way)).collect()
}

fn of_way(point: &Point, way: &Way) -> Vec<Plot> {
    let named = |what: &str| format!("{what}-{}", way.slug);
    let title = |what: &str| format!("{what}, {}", way.name);
    let bound = (way.total)(point).and_then(|report| report.clock_bound_ns);
    let certain = match bound {
        Some(ns) => format!(
            "One way, from the actual send; the clocks of the two hosts were compared, so all of it may be wrong by up to {}.",
            format_duration(ns)
        ),
        None => "One way, from the actual send.".to_owned(),
    };
    let delay =
        |of: fn(&DistSummary) -> f64| over_time(point, move |i| Some(of((way.of)(i)?.delay_ns.as_ref()?)));
    let intended = over_time(point, |i| Some(real((way.of)(i)?.intended_ns.as_ref()?.p99)));
    let extreme =
        |of: fn(&PacketReport) -> Option<u64>| over_time(point, move |i| Some(real(of((way.of)(i)?)?)));
    let mean = over_time(point, |i| Some((way.of)(i)?.delay_range_ns?.mean));
    let mut plots = vec![
        Plot::timed(&named("delay"), &title("Delay over time"), "one-way delay", Unit::Ns)
            .log()
            .note(&certain)
            .with([
                Series::line("median", delay(|d| real(d.p50))),
                Series::line("99th percentile", delay(|d| real(d.p99))),
                Series::line("mean", mean),
                Series::new("largest", Style::Dashed, extreme(PacketReport::largest_delay_ns)),
                Series::new("smallest", Style::Dashed, extreme(PacketReport::least_delay_ns)),
                Series::new("99th from the intended send", Style::Dashed, intended),
            ]),
    ];
    let variation =
        |of: fn(&DistSummary) -> f64| over_time(point, move |i| Some(of((way.of)(i)?.ipdv_ns.as_ref()?)));
    plots.push(
        Plot::timed(&named("jitter"), &title("Jitter over time"), "delay variation", Unit::Ns).log()
        .note(
            "By how much the delays of datagrams that were sent one after the other differ, without sign (RFC 5481); it needs no \
             clocks that agree.",
        )
        .with([
            Series::line("median", variation(|d| real(d.p50))),
            Series::line("99th percentile", variation(|d| real(d.p99))),
            Series::new("largest", Style::Dashed, variation(|d| real(d.max))),
        ]),
    );
    if let Some(report) = (way.total)(point) {
        plots.extend(distributions(report, way, &certain));
    }
    let rate = |of: fn(&Interval) -> Option<&PacketReport>, n: fn(&PacketReport) -> u64| {
        over_time(point, move |i| rate(i, n(of(i)?)))
    };
    let mut rates = vec![Series::line("received", rate(way.of, |r| r.counts.received))];
    if way.slug != "here" {
        rates.push(Series::new("sent", Style::Dashed, rate(way.sent, |r| r.counts.sent)));
    }
    plots.push(
        Plot::timed(&named("datagrams"), &title("Datagrams per second"), "datagrams", Unit::PerSecond)
            .with(rates),
    );
    plots.push(fates(point, way));
    plots.into_iter().filter_map(Plot::some).collect()
}

/// The distributions of a whole phase, as far as their summaries tell.
fn distributions(report: &PacketReport, way: &Way, certain: &str) -> Vec<Plot> {
    let kinds: [(&str, &Option<DistSummary>); 4] = [
        ("delay from the actual send", &report.delay_ns),
        ("delay from the intended send", &report.intended_ns),
        ("delay variation", &report.ipdv_ns),
        ("sends late by", &report.late_ns),
    ];
    let known = || kinds.iter().filter_map(|(name, dist)| Some((*name, dist.as_ref()?)));
    let named = |what: &str| format!("{what}-{}", way.slug);
    let curves = percentiles(&named("percentiles"), &format!("Percentiles, {}", way.name), "time")
        .note(format!(
            "{certain} Delay variation is that of successive datagrams (RFC 5481), without its sign."
        ))
        .with(known().map(|(name, dist)| coarse_curve(name, dist)));
    let (x, y) = times_axis(true);
    let histogram = Plot::new(&named("histogram"), &format!("Delay and its variation, {}", way.name), x, y)
        .note("Percent of the datagrams in each step, about ten steps to a decade.")
        .with(known().take(3).filter_map(|(name, dist)| coarse_histogram(name, dist)));
    vec![curves, histogram]
}

/// What became of datagrams that did not come well.
fn fates(point: &Point, way: &Way) -> Plot {
    let count = |of: fn(&Interval) -> Option<&PacketReport>, n: fn(&PacketReport) -> f64| {
        over_time(point, move |i| Some(n(of(i)?)))
    };
    let own = [
        Series::line("lost", count(way.of, |r| real(r.counts.lost.max(0)))),
        Series::line("repeated", count(way.of, |r| real(r.counts.duplicated))),
        Series::line("reordered", count(way.of, |r| real(r.counts.reordered))),
        Series::line("late", count(way.of, |r| real(r.counts.late))),
        Series::line("damaged", count(way.of, |r| real(r.counts.corrupt))),
        Series::line("dropped by the receiver's buffer", count(way.of, |r| real(r.counts.dropped))),
        Series::new("not sent", Style::Dashed, count(way.sent, |r| real(r.counts.unsent))),
    ];
    // That nothing was lost is worth a line; the others show when there are any.
    let shown = own.into_iter().enumerate().filter(|(at, series)| *at == 0 || series.is_some());
    Plot::timed(&format!("datagrams-unwell-{}", way.slug), &format!("Lost, repeated, reordered, late, {}", way.name), "datagrams in the interval", Unit::Count)
    .note("Late is not lost, dropped by the receiver's own buffer is not lost by the network, not sent is not lost.")
    .with(shown.map(|(_, series)| series))
}
