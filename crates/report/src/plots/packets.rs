//! Datagrams one way, messages there and back, frames of media streams: times over time and in all,
//! and losses and disorder.

use super::{coarse_curve, coarse_histogram, curve, histogram, measured, over_time, percentiles, times_axis};
use crate::plot::{Axis, Plot, Series, Style};
use metrics::{
    DistSummary, Ecn, Packets, PlayoutSummary, Spectrum, format_duration, per_second, real, seconds,
};
use model::{End, FrameTime, Interval, Measure, PacketReport, PingInterval, Point, Unit};
use std::borrow::Cow;

/// One direction of datagrams, by the receiving end.
struct PlotWay {
    /// As part of a file's name.
    slug: &'static str,
    name: &'static str,
    receiver: End,
    sender: End,
}

const UP: PlotWay = PlotWay { slug: "up", name: "to the server", receiver: End::Remote, sender: End::Local };
const DOWN: PlotWay =
    PlotWay { slug: "down", name: "from the server", receiver: End::Local, sender: End::Remote };
const HERE: PlotWay =
    PlotWay { slug: "here", name: "received here", receiver: End::Local, sender: End::Local };

impl PlotWay {
    /// The report of the receivers, all servers together, on all of it.
    fn total<'a>(&self, point: &'a Point) -> Option<Cow<'a, PacketReport>> {
        match self.receiver {
            End::Local => model::Way::Down.packets(point),
            End::Remote => model::Way::Up.packets(point),
        }
    }

    /// Values of `of` in the receiver's reports on the intervals.
    fn over_time(&self, point: &Point, of: impl Fn(&PacketReport) -> Option<f64>) -> Vec<(f64, Option<f64>)> {
        over_time(point, |interval| of(self.receiver.packets(interval)?))
    }
}

pub(super) fn datagrams(point: &Point, serving: bool) -> Vec<Plot> {
    let ways = if serving { vec![HERE] } else { vec![UP, DOWN] };
    let moved = |way: &PlotWay| {
        let came = |r: &PacketReport| r.counts.received + r.counts.corrupt > 0 || r.counts.lost > 0;
        let mut told = point.intervals.iter().filter_map(|interval| way.receiver.packets(interval));
        way.total(point).is_some_and(|total| came(&total)) || told.any(came)
    };
    ways.iter().filter(|way| moved(way)).flat_map(|way| of_way(point, way)).collect()
}

fn of_way(point: &Point, way: &PlotWay) -> Vec<Plot> {
    let named = |what: &str| format!("{what}-{}", way.slug);
    let title = |what: &str| format!("{what}, {}", way.name);
    let bound = way.total(point).and_then(|report| report.clock_bound_ns);
    let certain = match bound {
        Some(ns) => format!(
            "One way, from the actual send; the clocks of the two hosts were compared, so all of it may be wrong by up to {}.",
            format_duration(ns)
        ),
        None => "One way, from the actual send.".to_owned(),
    };
    let read = |measure| measured(point, measure, way.receiver);
    let intended = way.over_time(point, |report| Some(real(report.intended_ns.as_ref()?.p99)));
    let mean = way.over_time(point, |report| Some(report.delay_range_ns?.mean));
    let least = way.over_time(point, |report| report.least_delay_ns().map(real));
    let mut plots = vec![
        Plot::timed(&named("delay"), &title("Delay over time"), "one-way delay", Unit::Ns)
            .note(&certain)
            .with([
                Series::line("median", read(Measure::DELAY_P50)),
                Series::line("99th percentile", read(Measure::DELAY_P99)),
                Series::line("mean", mean),
                Series::new("largest", Style::Dashed, read(Measure::DELAY_MAX)),
                Series::new("smallest", Style::Dashed, least),
                Series::new("99th from the intended send", Style::Dashed, intended),
            ]),
    ];
    let variation = |of: fn(&DistSummary) -> u64| {
        way.over_time(point, move |report| report.ipdv_ns.as_ref().map(of).map(real))
    };
    plots.push(
        Plot::timed(&named("jitter"), &title("Jitter over time"), "delay variation", Unit::Ns)
        .note(
            "By how much the delays of datagrams that were sent one after the other differ, without sign (RFC 5481); it needs no \
             clocks that agree.",
        )
        .with([
            Series::line("median", variation(|d| d.p50)),
            Series::line("99th percentile", variation(|d| d.p99)),
            Series::new("largest", Style::Dashed, variation(|d| d.max)),
        ]),
    );
    if let Some(report) = way.total(point) {
        plots.extend(distributions(&report, way, &certain));
    }
    let mut rates = vec![Series::line("received", read(Measure::DATAGRAMS_RECEIVED))];
    // A server's own datagrams went another way.
    if way.sender != way.receiver {
        let sent = measured(point, Measure::DATAGRAMS_SENT, way.sender);
        rates.push(Series::new("sent", Style::Dashed, sent));
    }
    plots.push(
        Plot::timed(&named("datagrams"), &title("Datagrams per second"), "datagrams", Unit::PerSecond)
            .with(rates),
    );
    plots.push(fates(point, way));
    plots.extend(codepoints(point, way.slug, way.name, way.receiver));
    plots
}

/// Shares of the ECN codepoints that arrived, where any but Not-ECT did.
fn codepoints(point: &Point, slug: &str, name: &str, receiver: End) -> Option<Plot> {
    let marks = |interval: &Interval| receiver.marks(interval);
    let has = |interval: &Interval| marks(interval).is_some_and(|marks| marks.count(Ecn::Off) < marks.all());
    point.intervals.iter().any(has).then(|| {
        let share = |ecn: Ecn| Series::line(ecn.name(), over_time(point, |i| marks(i)?.percent(ecn)));
        Plot::timed(
            &format!("ecn-{slug}"),
            &format!("ECN codepoints, {name}"),
            "of the datagrams",
            Unit::Percent,
        )
        .with([Ecn::Ce, Ecn::Ect1, Ecn::Ect0, Ecn::Off].map(share))
    })
}

/// The distributions of a whole phase, from their summaries.
fn distributions(report: &PacketReport, way: &PlotWay, certain: &str) -> Vec<Plot> {
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

/// Lost, late, repeated and reordered datagrams.
fn fates(point: &Point, way: &PlotWay) -> Plot {
    let count = |of: fn(&Packets) -> u64| way.over_time(point, move |report| Some(real(of(&report.counts))));
    let unsent = over_time(point, |i| Some(real(way.sender.packets(i)?.counts.unsent)));
    let own = [
        Series::line("lost", count(|n| n.lost.max(0).unsigned_abs())),
        Series::line("repeated", count(|n| n.duplicated)),
        Series::line("reordered", count(|n| n.reordered)),
        Series::line("late", count(|n| n.late)),
        Series::line("damaged", count(|n| n.corrupt)),
        Series::line("dropped by the receiver's buffer", count(|n| n.dropped)),
        Series::new("not sent", Style::Dashed, unsent),
    ];
    // A zero line of losses is worth showing; the others are shown when any occurred.
    let shown = own.into_iter().enumerate().filter(|(at, series)| *at == 0 || series.is_some());
    Plot::timed(&format!("datagrams-unwell-{}", way.slug), &format!("Lost, repeated, reordered, late, {}", way.name), "datagrams in the interval", Unit::Count)
    .note("Late is not lost, dropped by the receiver's own buffer is not lost by the network, not sent is not lost.")
    .with(shown.map(|(_, series)| series))
}

pub(super) fn round_trips(point: &Point) -> Vec<Plot> {
    let over = |measure| measured(point, measure, End::Local);
    let mut plots = vec![
        Plot::timed("latency", "Round-trip time over time", "round-trip time", Unit::Ns)
            .note("From the actual send until the echo was whole, of each interval's messages.")
            .with([
                Series::line("median", over(Measure::RTT_P50)),
                Series::line("99th percentile", over(Measure::RTT_P99)),
                Series::new("largest", Style::Dashed, over(Measure::RTT_MAX)),
                Series::new("smallest", Style::Dashed, over(Measure::RTT_MIN)),
            ]),
    ];
    if let Some(trips) = &point.local.pings {
        let kinds: [(&str, &Option<Spectrum>); 5] = [
            ("from the actual send", &trips.rtt_ns),
            ("from the intended send", &trips.intended_ns),
            ("without server turnaround", &trips.path_ns),
            ("in the remote end", &trips.remote_ns),
            ("by the kernel's stamps", &trips.kernel_ns),
        ];
        let known = || kinds.iter().filter_map(|(name, times)| Some((*name, times.as_ref()?)));
        plots.push(
            percentiles("percentiles", "Round-trip times, all percentiles", "round-trip time")
                .note("Of all messages: a line ends where lost messages begin, else at the largest value.")
                .with(known().map(|(name, times)| curve(name, times))),
        );
        let slugs = ["histogram", "histogram-2", "histogram-3", "histogram-4", "histogram-5"];
        for ((name, times), slug) in known().zip(slugs) {
            let (series, log) = histogram(name, times);
            let (x, y) = times_axis(log);
            plots.push(Plot::new(slug, &format!("Round-trip times {name}"), x, y).with([series]));
        }
    }
    plots.extend(messages(point));
    plots
}

/// Messages without a good echo, and the number of sent ones.
fn messages(point: &Point) -> Vec<Plot> {
    let count = |of: fn(&PingInterval) -> f64| over_time(point, move |i: &Interval| i.pings.as_ref().map(of));
    let unwell = [
        Series::line("lost", count(|p| real(p.counts.lost.max(0)))),
        Series::line("late", count(|p| real(p.counts.late))),
        Series::line("damaged", count(|p| real(p.counts.damaged))),
        Series::line("repeated", count(|p| real(p.counts.repeated))),
        Series::line("not sent in time", count(|p| real(p.counts.missed))),
    ];
    let rate = over_time(point, |i| Some(per_second(i.pings?.counts.sent, i.ns())));
    let codepoints = [UP, DOWN].map(|way| codepoints(point, way.slug, way.name, way.receiver));
    let mut plots: Vec<Plot> = codepoints.into_iter().flatten().collect();
    plots.extend([
        Plot::timed(
            "messages-unwell",
            "Messages without a good echo",
            "messages in the interval",
            Unit::Count,
        )
        .note("Late ones arrived after their time was up; they are not lost.")
        .with(unwell.into_iter().filter(Series::is_some)),
        Plot::timed("messages", "Messages sent", "messages", Unit::PerSecond)
            .with([Series::line("sent", rate)]),
    ]);
    plots
}

/// Regularity of a stream's frames, one by one: ctsTraffic's jitter table.
fn frame_times(point: &Point) -> Vec<Plot> {
    let Some(times) = &point.frame_times else { return Vec::new() };
    let line = |of: fn(&FrameTime) -> f64| -> Vec<_> {
        times.rows.iter().map(|row| (seconds(row.at_ns), Some(of(row)))).collect()
    };
    let each = times.rows.iter().map(|row| row.frames).max().unwrap_or(1);
    let joined = |which: &str| match each {
        1 => String::new(),
        n => format!(" A point stands for up to {n} frames that followed each other{which}."),
    };
    let mut jitter =
        vec![Series::line(if each > 1 { "mean" } else { "from the frame before" }, line(|r| r.jitter_ns))];
    if each > 1 {
        jitter.push(Series::new("largest", Style::Dashed, line(|r| r.most_ns)));
    }
    vec![
        Plot::timed("jitter", "Jitter of the frames", "jitter", Unit::Ns)
            .note(format!(
                "By how much the time in flight of each whole frame of the first stream differs from that of the \
                 whole frame before, from its last datagram's stamps, at the time of its arrival (since the first \
                 one).{}",
                joined("")
            ))
            .with(jitter),
        Plot::timed("frame-flight", "Time in flight of the frames", "more than the first frame's", Unit::Ns)
        .note(format!(
            "Of the first stream, relative to its first whole frame: this plot does not compare the two clocks, and \
             a slope is their drift, or a queue that grows.{}",
            joined(": the longest of their times")
        ))
        .with([Series::line("whole frames", line(|r| real(r.flight_ns)))]),
    ]
}

pub(super) fn frames(point: &Point) -> Vec<Plot> {
    let count = |measure| measured(point, measure, End::Local);
    let unwell = [
        Series::line("dropped: bytes were missing", count(Measure::FRAMES_DROPPED)),
        Series::line("repeated", count(Measure::FRAMES_REPEATED)),
        Series::line("datagrams of no frame", count(Measure::FRAMES_OF_NONE)),
    ];
    let frames = Plot::timed("frames", "Frames over time", "frames in the interval", Unit::Count)
        .note("As the receiver at this end judged them when they were to be shown.")
        .with([Series::line("whole and in time", count(Measure::FRAMES_WHOLE))])
        .with(unwell.into_iter().filter(Series::is_some));
    let ends = std::iter::once(("received here", &point.local))
        .chain(point.remote.iter().map(|totals| ("received there", totals)));
    let known: Vec<(&str, &PlayoutSummary)> =
        ends.filter_map(|(name, totals)| Some((name, totals.playout.as_ref()?))).collect();
    let misses = Plot::new(
        "buffer-depth",
        "Frames missed by the depth of the buffer",
        Axis::new("depth of the player's buffer", Unit::Ns),
        Axis::new("frames missed", Unit::Count),
    )
    .note("Frames that a player with a buffer of this length would not have had in time; those below a flat line \
           were never complete.")
    .with(known.iter().map(|(name, playout)| {
        let points = playout.misses.iter().map(|&(depth, n)| (real(depth), Some(real(n))));
        Series::line(*name, points.collect())
    }));
    [frames, misses].into_iter().chain(frame_times(point)).collect()
}
